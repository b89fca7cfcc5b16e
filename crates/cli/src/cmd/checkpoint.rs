//! `muster checkpoint`.

use std::time::Duration;

use anyhow::Result;
use muster_api::types::SavedRequest;
use muster_api::{Action, Client};
use muster_model::view::{CheckpointView, ElementView, State};
use muster_model::{ElementId, Span, Time, signal_name};
use muster_report::clock;
use serde::Serialize;

use crate::app::App;
use crate::args::Output;
use crate::connect;
use crate::exit::{FAILURE, Failure, INTERRUPTED, UNANSWERED};
use crate::jobref::{JobRef, Target};
use crate::track::{PATIENCE, Tracker};

/// Ask a running job to save its progress now
///
/// Sends the signal of the job's `checkpoint` to those of its processes that handle it; the job
/// answers by writing to `$MUSTER_CHECKPOINT_FILE`. With `--wait` the exit code is 0 once every
/// running element has answered, 124 when one does not within the `grace` of its `checkpoint`, or
/// when no process of it handles the signal by then, and 1 when one ended first.
///
/// With `--saved` it asks for nothing: it says for the job that its progress is saved, which a job
/// that cannot reach that file may.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Job, as 3, 3[7] for one element of an array, or by name
    #[arg(value_name = "JOB")]
    job: JobRef,
    /// Wait for the answer
    #[arg(long)]
    wait: bool,
    /// Say that the job has saved its progress as LABEL, such as "step 1200"
    #[arg(long, value_name = "LABEL", conflicts_with = "wait")]
    saved: Option<String>,
    /// With `--saved`, the rank that has; rank 0 speaks for its gang unless the job says `by: all`
    #[arg(long, value_name = "N", default_value_t = 0, requires = "saved")]
    rank: u32,
    #[command(flatten)]
    output: Output,
}

/// What became of a request to one element.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Answer {
    /// Nobody waited for it, or it may still come.
    Open,
    /// Its progress is saved.
    Saved,
    /// It did not say so in time.
    Late,
    /// No process of a task handled the signal in time, so it was not sent there.
    Undelivered,
    /// It ended, or began again, before it said so.
    Ended,
}

/// One element that was asked.
#[derive(Debug, Serialize)]
struct Asked {
    element: ElementId,
    attempt: u32,
    answer: Answer,
    /// Its last checkpoint.
    checkpoint: Option<CheckpointView>,
    /// Tasks in which no process handles the signal so far.
    undelivered: u32,
    /// Tasks that it has.
    tasks: usize,
    /// Number of the signal.
    signal: i32,
}

/// Runs the verb.
pub async fn run(app: &App, args: Args) -> Result<u8> {
    let client = connect::find(&app.global)?;
    let target = args.job.resolve(&client).await?;
    if let Some(label) = args.saved {
        return say_saved(
            app,
            &client,
            target,
            SavedRequest { label, index: target.index, rank: Some(args.rank) },
            &args.output,
        )
        .await;
    }
    // 1. Ask. What runs now is what is asked.
    let before = client.job(target.job, target.index).await.map_err(Failure::from)?;
    let running = before.job.elements.iter().filter(|element| element.state == State::Running);
    let mut asked: Vec<Asked> = running
        .filter(|element| target.index.is_none_or(|index| element.element.index == index))
        .map(|element| Asked {
            element: element.element,
            attempt: element.attempt,
            answer: Answer::Open,
            checkpoint: element.checkpoint.clone(),
            undelivered: 0,
            tasks: element.tasks.len(),
            signal: 0,
        })
        .collect();
    let message = super::act_on(&client, target, Action::Checkpoint).await?;
    // 2. Wait, if that is wanted.
    if args.wait {
        let interrupted = tokio::signal::ctrl_c();
        tokio::select! {
            answered = wait(app, &client, target, before.now, &mut asked) => answered?,
            _ = interrupted => return Ok(INTERRUPTED),
        }
    }
    // 3. Say what came of it.
    if args.output.json() {
        app.ui.json(&asked)?;
    } else if args.wait {
        for one in &asked {
            app.ui.data(&format!("{}: {}\n", name(target, one.element), sentence(one)))?;
        }
    } else {
        app.ui.data(&format!("{}: {message}\n", target.text()))?;
    }
    let any = |answer| asked.iter().any(|one| one.answer == answer);
    Ok(match () {
        () if any(Answer::Ended) => FAILURE,
        () if any(Answer::Late) || any(Answer::Undelivered) => UNANSWERED,
        () => 0,
    })
}

/// Says for the job that its progress is saved.
async fn say_saved(
    app: &App,
    client: &Client,
    target: Target,
    request: SavedRequest,
    output: &Output,
) -> Result<u8> {
    let answer = client.saved(target.job, &request).await.map_err(Failure::from)?;
    match output.json() {
        true => app.ui.json(&answer)?,
        false => app.ui.data(&format!("{}: {}\n", target.text(), answer.message))?,
    }
    Ok(0)
}

/// Waits until nothing more is to be expected of what was asked at `since` or later.
async fn wait(
    app: &App,
    client: &Client,
    target: Target,
    since: Time,
    asked: &mut [Asked],
) -> Result<()> {
    let mut tracker = Tracker::of(client, &[target.job]);
    let mut patience = PATIENCE;
    while asked.iter().any(|one| one.answer == Answer::Open) {
        let now = tracker.next(patience).await?.now;
        let mut left = Span::from_secs(PATIENCE.as_secs());
        for one in asked.iter_mut().filter(|one| one.answer == Answer::Open) {
            let view =
                client.job(target.job, Some(one.element.index)).await.map_err(Failure::from)?.job;
            let element = view.elements.into_iter().find(|element| element.element == one.element);
            let Some(element) = element else {
                // Nobody knows it any more.
                one.answer = Answer::Ended;
                continue;
            };
            one.answer = judge(&element, one.attempt, since, now);
            if let Some(request) = element.checkpoint_asked {
                if one.answer == Answer::Open {
                    left = left.min(request.until.since(now));
                }
                let is_news = request.undelivered > 0 && one.undelivered == 0;
                (one.undelivered, one.signal) = (request.undelivered, request.signal);
                if is_news && one.answer == Answer::Open {
                    let wait = clock::elapsed(request.until.since(now));
                    app.ui.warning(&format!(
                        "{}: {}; waiting {wait} for one that does",
                        name(target, one.element),
                        unheard(one)
                    ));
                }
            }
            one.checkpoint = element.checkpoint;
        }
        patience = Duration::from_millis(left.0);
    }
    Ok(())
}

/// What became of a request to this attempt of an element. Saved is what the attempt itself said
/// after it was asked, and nothing else.
fn judge(element: &ElementView, attempt: u32, since: Time, now: Time) -> Answer {
    let is_live = matches!(element.state, State::Running | State::Stopping);
    let saved = element.checkpoint.as_ref();
    let has_saved = saved.is_some_and(|saved| saved.attempt == attempt && saved.at >= since);
    match element.checkpoint_asked {
        // Another attempt has requests of its own.
        _ if element.attempt != attempt || !is_live => {
            let is_open = element.attempt == attempt && element.checkpoint_asked.is_some();
            if has_saved && !is_open { Answer::Saved } else { Answer::Ended }
        }
        None => Answer::Saved,
        Some(request) if now >= request.until && request.undelivered > 0 => Answer::Undelivered,
        Some(request) if now >= request.until => Answer::Late,
        Some(_) => Answer::Open,
    }
}

/// That no process handles the signal, and where.
fn unheard(asked: &Asked) -> String {
    let signal = signal_name(asked.signal);
    match asked.tasks {
        0 | 1 => format!("no process of it handles {signal}"),
        tasks => {
            format!("no process handles {signal} in {} of its {tasks} tasks", asked.undelivered)
        }
    }
}

fn name(target: Target, element: ElementId) -> String {
    match target.index {
        Some(_) => target.text(),
        None if element.index > 0 => element.to_string(),
        None => element.job.to_string(),
    }
}

fn sentence(asked: &Asked) -> String {
    let label = asked.checkpoint.as_ref().map_or("", |saved| saved.label.as_str());
    match asked.answer {
        Answer::Saved if label.is_empty() => "saved its progress".to_owned(),
        Answer::Saved => format!("saved its progress ({})", muster_report::style::clean(label)),
        Answer::Late => "did not answer in time".to_owned(),
        Answer::Undelivered => format!("was not asked: {}", unheard(asked)),
        Answer::Ended => "ended before it answered".to_owned(),
        Answer::Open => "was asked".to_owned(),
    }
}
