//! Jobs that did not succeed: the outcome, and the end of the output of the task that failed first.

use anstream::adapter::strip_str;
use anyhow::Result;
use futures_util::StreamExt;
use muster_api::Client;
use muster_api::query::LogQuery;
use muster_model::view::{ElementRow, ElementView, JobView};
use muster_model::{JobId, Outcome, Rank};
use muster_report::style::clean;

use crate::app::App;
use crate::jobref::JobTarget;
use crate::logs::{self, Ranks};

/// Number of last lines that are shown of a task.
const LINES: u32 = 10;
/// Longest line that is shown whole, in characters.
const LONGEST: usize = 400;
/// Bytes before the end of an output that are kept: a progress bar is one line, as long as the output.
const END_BYTES: usize = 16 << 10;
/// Most tasks whose output is shown: jobs fail by the hundred.
const MOST: usize = 3;

/// Prints the outcome of each job that did not succeed, with the end of the output that says why, unless its ranks are
/// in `seen`: shown before.
pub async fn print(app: &App, client: &Client, rows: &[JobView], seen: Option<Ranks>) {
    for row in rows {
        if let Some(outcome) = failed(row).find_map(|element| element.outcome.as_ref()) {
            let outcome = clean(&outcome.to_string()).into_owned();
            app.ui.status(&format!("job {} {}: {outcome}", row.label(), row.state.word()));
        }
    }
    let jobs = rows.iter().map(|row| (row, JobTarget { job: row.job, index: None }));
    for text in last_lines(client, jobs, seen).await {
        app.ui.status(text.trim_end());
    }
    for row in rows.iter().filter(|row| row.array.is_some_and(|array| array.failed > 0)) {
        print_elements(app, client, row.job, seen).await;
    }
}

/// Prints which elements of an array failed, and the end of the output of the first of them. Elements that cannot be
/// read change no result.
async fn print_elements(app: &App, client: &Client, job: JobId, seen: Option<Ranks>) {
    let Ok(list) = client.elements(job).await else { return };
    let failed: Vec<&ElementRow> = list.failed().collect();
    for row in failed.iter().take(MOST) {
        let target = JobTarget { job, index: Some(row.index) };
        let outcome = row.outcome.as_ref().map(ToString::to_string).unwrap_or_default();
        app.ui.status(&format!("job {}: {}", target.text(client), clean(&outcome)));
    }
    if failed.len() > MOST {
        let label = client.label(job);
        let more = failed.len() - MOST;
        app.ui.status(&format!("… and {more} more; `muster show {label} -e` lists the elements"));
    }
    let first =
        failed.iter().find_map(|row| Some((row.index, failed_rank(row.outcome.as_ref()?)?)));
    if let Some((index, rank)) = first.filter(|(_, rank)| !is_in(seen, *rank)) {
        let target = JobTarget { job, index: Some(index) };
        let lines = end_of_output(client, target, rank).await.unwrap_or_default();
        if !lines.is_empty() {
            let text = format!("{}\n{}", heading(client, target, rank), lines.concat());
            app.ui.status(text.trim_end());
        }
    }
}

/// Returns the ends of the outputs of the tasks that failed first: one text for each element that failed, of [`MOST`]
/// at most. A target with an index is one element of its job; of a whole array, elements that have ended are not in
/// the row. The output of the ranks in `seen` is left out.
pub async fn last_lines(
    client: &Client,
    jobs: impl IntoIterator<Item = (&JobView, JobTarget)>,
    seen: Option<Ranks>,
) -> Vec<String> {
    let tasks = jobs.into_iter().flat_map(|(row, target)| {
        failed(row).filter_map(move |element| {
            let rank = element.outcome.as_ref().and_then(failed_rank)?;
            let of_array = row.array.is_some().then_some(element.element.index);
            Some((JobTarget { job: row.job, index: target.index.or(of_array) }, rank))
        })
    });
    let tasks: Vec<(JobTarget, Rank)> =
        tasks.filter(|(_, rank)| !is_in(seen, *rank)).take(MOST).collect();
    let mut texts = Vec::new();
    for (target, rank) in tasks {
        // An output that cannot be read changes no result.
        let lines = end_of_output(client, target, rank).await.unwrap_or_default();
        if !lines.is_empty() {
            texts.push(format!("{}\n{}", heading(client, target, rank), lines.concat()));
        }
    }
    texts
}

fn is_in(seen: Option<Ranks>, rank: Rank) -> bool {
    match seen {
        None => false,
        Some(Ranks::One(one)) => one == rank.0,
        Some(Ranks::All | Ranks::Usual) => true,
    }
}

fn failed(row: &JobView) -> impl Iterator<Item = &ElementView> {
    row.elements.iter().filter(|one| one.outcome.as_ref().is_some_and(|o| !o.is_success()))
}

/// Returns the task that failed first; `None` where no task did.
fn failed_rank(outcome: &Outcome) -> Option<Rank> {
    match outcome {
        Outcome::Failed { rank, .. }
        | Outcome::Signaled { rank, .. }
        | Outcome::OutOfMemory { rank } => Some(*rank),
        // Slurm and Kubernetes do not say which task failed; rank 0 is shown.
        Outcome::Native { .. } => Some(Rank(0)),
        Outcome::Succeeded
        | Outcome::TimedOut
        | Outcome::Cancelled { .. }
        | Outcome::Lost { .. }
        | Outcome::StartFailed { .. }
        | Outcome::DependencyFailed { .. }
        | Outcome::Idle { .. }
        | Outcome::IdleGpus { .. }
        | Outcome::StoppedEarly { .. } => None,
    }
}

fn heading(client: &Client, target: JobTarget, rank: Rank) -> String {
    let job = target.text(client);
    let of = match rank.0 {
        0 => String::new(),
        rank => format!(" -r {rank}"),
    };
    format!("the last lines of rank {rank} of job {job} (`muster logs {job}{of}` shows all):")
}

/// Returns the last lines of a task, each indented and made safe for a terminal.
async fn end_of_output(client: &Client, target: JobTarget, rank: Rank) -> Result<Vec<String>> {
    let query = LogQuery {
        index: target.index,
        rank: Some(rank.0),
        tail: Some(LINES),
        ..LogQuery::default()
    };
    let mut stream = logs::open(client, target, &query).await?;
    let mut bytes = Vec::new();
    while let Some(chunk) = stream.next().await {
        bytes.extend(chunk?);
        bytes.drain(..bytes.len().saturating_sub(END_BYTES));
    }
    Ok(shown(&String::from_utf8_lossy(&bytes)))
}

fn shown(text: &str) -> Vec<String> {
    let line = |line: &str| {
        let line = strip_str(line).to_string();
        // A progress bar writes over its line: its last state counts.
        let last = line.trim_end_matches('\r').rsplit('\r').next().unwrap_or_default();
        let cut: String = last.replace('\t', "    ").chars().take(LONGEST).collect();
        let dots = if last.chars().count() > LONGEST { "…" } else { "" };
        format!("  | {}{dots}\n", clean(&cut))
    };
    text.lines().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_indented_and_safe() {
        assert_eq!(
            shown("a\tb\r\n10 %\r20 %\n\u{1b}[1mbold\u{1b}[0m\u{202e}"),
            ["  | a    b\n", "  | 20 %\n", "  | bold?\n"]
        );
        assert_eq!(shown(&"x".repeat(500)), [format!("  | {}…\n", "x".repeat(400))]);
    }
}
