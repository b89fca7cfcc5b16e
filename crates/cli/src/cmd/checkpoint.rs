//! `muster checkpoint`.

use std::time::Duration;

use anyhow::Result;
use muster_api::types::SavedRequest;
use muster_api::{Client, JobAction};
use muster_model::view::{CheckpointView, ElementView, JobState};
use muster_model::{ElementId, Span, Time, signal_name};
use muster_report::clock;
use serde::Serialize;

use crate::app::App;
use crate::args::OutputArgs;
use crate::connect;
use crate::exit::{FAILURE, Failure, INTERRUPTED, UNANSWERED};
use crate::jobref::{JobRef, JobTarget};
use crate::track::{PATIENCE, Tracker};

/// Request a checkpoint of a running job
///
/// Sends the signal of the job's `checkpoint` to those of its processes that handle it; the job
/// acknowledges by writing to `$MUSTER_CHECKPOINT_FILE`. With `--wait` the exit code is 0 once
/// every running element has acknowledged, 124 if one does not within the `grace` of its
/// `checkpoint` or if none of its processes handles the signal by then, and 1 if one ended first.
///
/// With `--saved` no checkpoint is requested: the command acknowledges one for the job, for jobs
/// that cannot write to that file.
#[derive(Debug, clap::Args)]
pub struct CheckpointArgs {
    /// Job: 3, an array element 3[7], or a name
    #[arg(value_name = "JOB")]
    job: JobRef,
    /// Wait for the acknowledgement
    #[arg(long)]
    wait: bool,
    /// Acknowledge a checkpoint for the job: it is saved as LABEL, such as "step 1200"
    #[arg(long, value_name = "LABEL", conflicts_with = "wait")]
    saved: Option<String>,
    /// With `--saved`: rank that acknowledges; rank 0 does for its gang unless the job has `by:
    /// all`
    #[arg(long, value_name = "N", default_value_t = 0, requires = "saved")]
    rank: u32,
    #[command(flatten)]
    output: OutputArgs,
}

/// State of a checkpoint request to one element.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum CheckpointAnswer {
    /// Not acknowledged so far, or not waited for.
    Open,
    /// Acknowledged: the progress is saved.
    Saved,
    /// Not acknowledged in time.
    Late,
    /// Not sent to some task, because no process there handled the signal in time.
    Undelivered,
    /// The element ended or restarted before it acknowledged.
    Ended,
}

/// Checkpoint request to one element, with its result.
#[derive(Debug, Serialize)]
struct ElementCheckpoint {
    element: ElementId,
    attempt: u32,
    answer: CheckpointAnswer,
    /// Last checkpoint of the element.
    checkpoint: Option<CheckpointView>,
    /// Number of tasks in which no process handles the signal so far.
    undelivered: u32,
    /// Number of tasks of the element.
    tasks: usize,
    /// Number of the signal.
    signal: i32,
}

/// Runs `muster checkpoint`; returns its exit code.
pub async fn run(app: &App, args: CheckpointArgs) -> Result<u8> {
    let client = connect::find(&app.global)?;
    let target = args.job.resolve(&client).await?;
    if let Some(label) = args.saved {
        return acknowledge(
            app,
            &client,
            target,
            SavedRequest { label, index: target.index, rank: Some(args.rank) },
            &args.output,
        )
        .await;
    }
    // 1. Send the request; it goes to the elements that run now.
    let before = client.job(target.job, target.index).await.map_err(Failure::from)?;
    let running = before.job.elements.iter().filter(|element| element.state == JobState::Running);
    let mut asked: Vec<ElementCheckpoint> = running
        .filter(|element| target.index.is_none_or(|index| element.element.index == index))
        .map(|element| ElementCheckpoint {
            element: element.element,
            attempt: element.attempt,
            answer: CheckpointAnswer::Open,
            checkpoint: element.checkpoint.clone(),
            undelivered: 0,
            tasks: element.tasks.len(),
            signal: 0,
        })
        .collect();
    let message = super::act_on(&client, target, JobAction::Checkpoint).await?;
    // 2. Wait for acknowledgements, with `--wait`.
    if args.wait {
        let interrupted = tokio::signal::ctrl_c();
        tokio::select! {
            answered = wait(app, &client, target, before.now, &mut asked) => answered?,
            _ = interrupted => return Ok(INTERRUPTED),
        }
    }
    // 3. Print the result.
    if args.output.json() {
        app.ui.json(&asked)?;
    } else if args.wait {
        for one in &asked {
            app.ui.data(&format!("{}: {}\n", name(target, one.element), sentence(one)))?;
        }
    } else {
        app.ui.data(&format!("{}: {message}\n", target.text(&client)))?;
    }
    let any = |answer| asked.iter().any(|one| one.answer == answer);
    Ok(match () {
        () if any(CheckpointAnswer::Ended) => FAILURE,
        () if any(CheckpointAnswer::Late) || any(CheckpointAnswer::Undelivered) => UNANSWERED,
        () => 0,
    })
}

/// Acknowledges a checkpoint on behalf of the job.
async fn acknowledge(
    app: &App,
    client: &Client,
    target: JobTarget,
    request: SavedRequest,
    output: &OutputArgs,
) -> Result<u8> {
    let answer = client.saved(target.job, &request).await.map_err(Failure::from)?;
    if output.json() {
        app.ui.json(&answer)?
    } else {
        app.ui.data(&format!("{}: {}\n", target.text(client), answer.message))?
    }
    Ok(0)
}

/// Waits until no request made at `since` or later is open.
async fn wait(
    app: &App,
    client: &Client,
    target: JobTarget,
    since: Time,
    asked: &mut [ElementCheckpoint],
) -> Result<()> {
    let mut tracker = Tracker::of(client, &[target.job]);
    let mut patience = PATIENCE;
    while asked.iter().any(|one| one.answer == CheckpointAnswer::Open) {
        let now = tracker.next(patience).await?.now;
        let mut left = Span::from_secs(PATIENCE.as_secs());
        for one in asked.iter_mut().filter(|one| one.answer == CheckpointAnswer::Open) {
            let view =
                client.job(target.job, Some(one.element.index)).await.map_err(Failure::from)?.job;
            let element = view.elements.into_iter().find(|element| element.element == one.element);
            let Some(element) = element else {
                // The daemon does not hold the element any more.
                one.answer = CheckpointAnswer::Ended;
                continue;
            };
            one.answer = check(&element, one.attempt, since, now);
            if let Some(request) = element.checkpoint_asked {
                if one.answer == CheckpointAnswer::Open {
                    left = left.min(request.until.since(now));
                }
                let is_news = request.undelivered > 0 && one.undelivered == 0;
                (one.undelivered, one.signal) = (request.undelivered, request.signal);
                if is_news && one.answer == CheckpointAnswer::Open {
                    let wait = clock::elapsed(request.until.since(now));
                    app.ui.warning(&format!(
                        "{}: {}; waiting {wait} for one that does",
                        name(target, one.element),
                        undelivered_text(one)
                    ));
                }
            }
            one.checkpoint = element.checkpoint;
        }
        patience = Duration::from_millis(left.0);
    }
    Ok(())
}

/// Returns the state of a request to this attempt of an element. It is saved only if the attempt
/// itself acknowledged after the request.
fn check(element: &ElementView, attempt: u32, since: Time, now: Time) -> CheckpointAnswer {
    let is_live = matches!(element.state, JobState::Running | JobState::Stopping);
    let saved = element.checkpoint.as_ref();
    let has_saved = saved.is_some_and(|saved| saved.attempt == attempt && saved.at >= since);
    match element.checkpoint_asked {
        // A request to another attempt does not count.
        _ if element.attempt != attempt || !is_live => {
            let is_open = element.attempt == attempt && element.checkpoint_asked.is_some();
            if has_saved && !is_open { CheckpointAnswer::Saved } else { CheckpointAnswer::Ended }
        }
        None => CheckpointAnswer::Saved,
        Some(request) if now >= request.until && request.undelivered > 0 => {
            CheckpointAnswer::Undelivered
        }
        Some(request) if now >= request.until => CheckpointAnswer::Late,
        Some(_) => CheckpointAnswer::Open,
    }
}

/// Returns a message that no process handles the signal, and in how many tasks.
fn undelivered_text(asked: &ElementCheckpoint) -> String {
    let signal = signal_name(asked.signal);
    match asked.tasks {
        0 | 1 => format!("no process of it handles {signal}"),
        tasks => {
            format!("no process handles {signal} in {} of its {tasks} tasks", asked.undelivered)
        }
    }
}

fn name(target: JobTarget, element: ElementId) -> String {
    match target.index {
        Some(_) => element.to_string(),
        None if element.index > 0 => element.to_string(),
        None => element.job.to_string(),
    }
}

fn sentence(asked: &ElementCheckpoint) -> String {
    let label = asked.checkpoint.as_ref().map_or("", |saved| saved.label.as_str());
    match asked.answer {
        CheckpointAnswer::Saved if label.is_empty() => "saved its progress".to_owned(),
        CheckpointAnswer::Saved => {
            format!("saved its progress ({})", muster_report::style::clean(label))
        }
        CheckpointAnswer::Late => "did not acknowledge in time".to_owned(),
        CheckpointAnswer::Undelivered => format!("was not signalled: {}", undelivered_text(asked)),
        CheckpointAnswer::Ended => "ended before it acknowledged".to_owned(),
        CheckpointAnswer::Open => "checkpoint requested".to_owned(),
    }
}
