//! Applies one action to many jobs: finds them, asks for confirmation if a filter matched many, and
//! prints the result per job.

use std::fmt::Write as _;
use std::io::BufRead;

use anyhow::Result;
use clap::Args;
use muster_api::Client;
use muster_api::types::{BulkAction, BulkRequest, BulkResult, BulkTarget};
use muster_model::Array;
use serde::Serialize;

use crate::app::App;
use crate::args::OutputArgs;
use crate::connect;
use crate::exit::{self, Failure, INTERRUPTED};
use crate::jobref::JobTarget;
use crate::select::{Selected, Selection};

/// Number of jobs, matched by a filter or range, above which confirmation is requested.
const CONFIRM_ABOVE: usize = 10;
/// Number of jobs that are listed before the confirmation prompt.
const MAX_SHOWN: usize = 5;
/// Largest number of targets that the daemon accepts in one request.
const AT_ONCE: usize = 10_000;

/// Options of a subcommand that acts on many jobs.
#[derive(Clone, Debug, Args)]
pub struct ActArgs {
    #[command(flatten)]
    selection: Selection,
    /// Do not ask for confirmation
    #[arg(short, long)]
    yes: bool,
    /// Show which jobs are selected, without changing them
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    output: OutputArgs,
}

/// Part of a job that an action applies to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ActPart {
    /// The job, or the element that was named.
    Whole,
    /// The elements of an array that failed.
    FailedElements,
}

/// Result of the action for one job.
#[derive(Serialize)]
struct Acted {
    job: u64,
    index: Option<u32>,
    /// True if the action was done, or the job already was in the requested state; false in a dry
    /// run.
    done: bool,
    message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    code: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    hints: Vec<String>,
}

/// Runs an action; `word` is its name, as in `cancel 12 jobs?`.
pub async fn run(
    app: &App,
    args: &ActArgs,
    (action, part): (BulkAction, ActPart),
    word: &str,
) -> Result<u8> {
    // 1. Find the jobs.
    let client = connect::find(&app.global)?;
    let mut selected = args.selection.find(&client).await?;
    if part == ActPart::FailedElements {
        selected = failed_elements(app, &client, selected).await?;
    }
    if selected.is_empty() {
        if args.output.json() {
            app.ui.json(&Vec::<Acted>::new())?;
        }
        app.ui.status(&format!("no job to {word}"));
        return Ok(0);
    }
    if args.dry_run {
        return dry_run(app, &client, args, &selected, word);
    }

    // 2. Ask for confirmation if a filter matched many.
    if !args.yes
        && !args.selection.is_explicit()
        && selected.len() > CONFIRM_ABOVE
        && !confirm(app, &client, &selected, word)?
    {
        app.ui.status("nothing was done");
        return Ok(INTERRUPTED);
    }

    // 3. Act, and print the result per job.
    let targets: Vec<JobTarget> = selected.iter().map(|one| one.target).collect();
    let results = send_action(&client, &targets, action).await?;
    report(app, &client, args.output, results)
}

/// Returns the elements of the jobs that failed; of a job that has ended, they cannot be queued again, and a warning
/// says what can be done.
///
/// # Errors
/// No element can be queued again, and jobs have ended.
async fn failed_elements(app: &App, client: &Client, jobs: Vec<Selected>) -> Result<Vec<Selected>> {
    let mut found: Vec<Selected> = Vec::new();
    let mut over: Vec<Failure> = Vec::new();
    for Selected { target, row } in jobs {
        let list = client.elements(target.job).await.map_err(Failure::from)?;
        let is_selected = |index: &u32| target.index.is_none_or(|wanted| wanted == *index);
        let indices: Vec<u32> = list.failed().map(|row| row.index).filter(is_selected).collect();
        let is_over = list.elements.iter().all(|row| row.state.is_final());
        if let Some(array) = Array::list(indices.clone(), None).filter(|_| is_over) {
            let job = client.label(target.job);
            let message = format!("job {job} has ended: its elements cannot run again");
            let hint = format!("submit those that failed again: `muster run FILE --array {array}`");
            over.push(Failure::usage(message).hint(hint));
            continue;
        }
        let elements =
            indices.into_iter().map(|index| JobTarget { job: target.job, index: Some(index) });
        let elements =
            elements.filter(|element| found.iter().all(|other| other.target != *element));
        let elements: Vec<_> =
            elements.map(|target| Selected { target, row: row.clone() }).collect();
        found.extend(elements);
    }
    match over.pop() {
        Some(failure) if found.is_empty() => Err(failure.into()),
        last => {
            over.into_iter().chain(last).for_each(|failure| app.ui.warning(&failure.to_string()));
            Ok(found)
        }
    }
}

/// Sends the action in as few requests as the daemon allows.
pub async fn send_action(
    client: &Client,
    targets: &[JobTarget],
    action: BulkAction,
) -> Result<Vec<BulkResult>> {
    let target = |target: &JobTarget| BulkTarget { job: target.job, index: target.index };
    let mut results = Vec::with_capacity(targets.len());
    for chunk in targets.chunks(AT_ONCE) {
        let request = BulkRequest { action, targets: chunk.iter().map(target).collect() };
        results.extend(client.act_on_many(&request).await.map_err(Failure::from)?.results);
    }
    Ok(results)
}

/// Prints what was done on stdout and what was refused on stderr. Returns the exit code of the
/// first refusal, else 0.
fn report(app: &App, client: &Client, output: OutputArgs, results: Vec<BulkResult>) -> Result<u8> {
    let code = results.iter().find(|result| !result.done).map_or(0, code_of);
    if output.json() {
        let rows: Vec<Acted> = results.into_iter().map(Acted::from).collect();
        app.ui.json(&rows)?;
        return Ok(code);
    }
    let is_one = results.len() == 1;
    let mut done = String::new();
    for result in &results {
        let target = JobTarget { job: result.job, index: result.index }.text(client);
        if result.done {
            let _ = writeln!(done, "{target}: {}", result.message);
        }
    }
    app.ui.data(&done)?;
    let mut hints: Vec<&String> = Vec::new();
    for result in results.iter().filter(|result| !result.done) {
        let target = JobTarget { job: result.job, index: result.index }.text(client);
        if is_one {
            app.ui.error(&result.message)
        } else {
            app.ui.error(&format!("{target}: {}", result.message))
        }
        hints.extend(&result.hints);
    }
    hints.sort();
    hints.dedup();
    hints.iter().for_each(|hint| app.ui.hint(hint));
    Ok(code)
}

fn dry_run(
    app: &App,
    client: &Client,
    args: &ActArgs,
    selected: &[Selected],
    word: &str,
) -> Result<u8> {
    if args.output.json() {
        let row = |selected: &Selected| Acted {
            job: selected.target.job.0,
            index: selected.target.index,
            done: false,
            message: format!("would {word}"),
            code: None,
            hints: Vec::new(),
        };
        app.ui.json(&selected.iter().map(row).collect::<Vec<_>>())?;
    } else {
        app.ui.data(&list(client, selected))?;
    }
    app.ui.status(&format!("would {word} {}; nothing was done", count(selected)));
    Ok(0)
}

/// Asks for confirmation on the terminal. Without a terminal this is an error whose hint names the
/// option to add.
fn confirm(app: &App, client: &Client, selected: &[Selected], word: &str) -> Result<bool> {
    let jobs = count(selected);
    if !app.ui.can_ask() {
        return Err(Failure::usage(format!(
            "this would {word} {jobs}, and there is no terminal to confirm it on"
        ))
        .hint("--yes skips the confirmation, --dry-run shows which jobs")
        .into());
    }
    app.ui.status(list(client, &selected[..MAX_SHOWN.min(selected.len())]).trim_end());
    if selected.len() > MAX_SHOWN {
        app.ui.status(&format!("and {} more", selected.len() - MAX_SHOWN));
    }
    app.ui.prompt(&format!("{word} {jobs}? [y/N] "));
    let mut answer = String::new();
    std::io::stdin().lock().read_line(&mut answer)?;
    Ok(matches!(answer.trim().to_lowercase().as_str(), "y" | "yes"))
}

fn count(selected: &[Selected]) -> String {
    muster_report::amount::count(selected.len() as u64, "job")
}

/// Returns one line per job, such as `12: sweep-3, pending, ann`.
fn list(client: &Client, selected: &[Selected]) -> String {
    let mut text = String::new();
    for one in selected {
        let row = one.row.as_ref().map_or(String::new(), |row| {
            let name = muster_report::style::clean(&row.name);
            let user = &row.user;
            format!(": {name}, {}, {user}", row.state.word())
        });
        let _ = writeln!(text, "{}{row}", one.target.text(client));
    }
    text
}

fn code_of(result: &BulkResult) -> u8 {
    exit::code_of(result.code.as_deref().unwrap_or_default())
}

impl From<BulkResult> for Acted {
    fn from(result: BulkResult) -> Self {
        let BulkResult { job, index, done, message, code, hints } = result;
        Self { job: job.0, index, done, message, code, hints }
    }
}
