//! Live view of jobs: redrawn in place on a terminal, a line per change otherwise. Driven by the
//! daemon's long poll.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::Result;
use muster_api::Client;
use muster_api::query::TimelineQuery;
use muster_api::types::{JobList, Timeline};
use muster_model::view::{JobState, JobView};
use muster_model::{JobId, Time};
use muster_report::ps;
use muster_report::timeline::{TimelineInput, TimelineStart};
use muster_report::watch::{frame, names, summary};
use tokio::time::{Instant, sleep};

use crate::app::App;
use crate::exit::{Failure, INTERRUPTED};
use crate::failures;
use crate::track::{self, PATIENCE, Tracker};

/// Longest time between two frames on a terminal, so that running times are updated.
const TICK: Duration = Duration::from_secs(1);
/// Shortest time between two frames; more frames cannot be read.
const MIN_FRAME: Duration = Duration::from_millis(50);
/// Largest number of rows of the timeline in the final output.
const FINAL_ROWS: usize = 64;

/// Condition that ends a view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Until {
    /// All jobs of the view have ended.
    Ended,
    /// The user presses Ctrl-C.
    Interrupted,
}

/// Live view of jobs.
pub struct JobWatch<'a> {
    app: &'a App,
    client: &'a Client,
    tracker: Tracker,
    until: Until,
    /// Number of lines of the frame on the screen.
    drawn: usize,
    /// Last printed state of each job, if lines are appended.
    printed: BTreeMap<JobId, JobState>,
}

impl<'a> JobWatch<'a> {
    /// Returns a view of the jobs that the tracker follows.
    pub fn new(app: &'a App, client: &'a Client, tracker: Tracker, until: Until) -> Self {
        Self { app, client, tracker, until, drawn: 0, printed: BTreeMap::new() }
    }

    /// Shows the view until it ends; returns the exit code.
    pub async fn run(mut self) -> Result<u8> {
        let interrupted = tokio::signal::ctrl_c();
        tokio::pin!(interrupted);
        let mut shown: Vec<JobView> = Vec::new();
        loop {
            let patience = if self.app.ui.is_terminal() { TICK } else { PATIENCE };
            let list = tokio::select! {
                list = self.tracker.next(patience) => list?,
                _ = &mut interrupted => return Ok(self.interrupted(&shown)),
            };
            let begun = Instant::now();
            let over = self.until == Until::Ended && track::all_ended(&list.jobs);
            if self.app.ui.is_terminal() {
                self.draw(&list, over).await?
            } else {
                self.append(&list, over).await?
            }
            shown = list.jobs;
            if over {
                self.app.ui.data(&format!("\n{}", summary(&shown)))?;
                failures::print(self.app, self.client, &shown, None).await;
                return Ok(track::exit_code(&shown));
            }
            // A long history costs the daemon time, so at most a fifth of the time is spent on it.
            sleep(MIN_FRAME.max(4 * begun.elapsed())).await;
        }
    }

    fn interrupted(&self, shown: &[JobView]) -> u8 {
        match self.until {
            Until::Interrupted => 0,
            Until::Ended => {
                let open = shown.iter().filter(|job| !job.state.is_final());
                detach(self.app, self.client, &open.map(|job| job.job).collect::<Vec<_>>());
                INTERRUPTED
            }
        }
    }

    /// Replaces the frame on the screen.
    async fn draw(&mut self, list: &JobList, over: bool) -> Result<()> {
        let timeline = self.timeline(list).await?;
        // The last line is left for the cursor; below the last frame the summary needs 4 lines.
        let height =
            self.app.ui.height().map(|height| height.saturating_sub(if over { 4 } else { 1 }));
        let text = self.frame(list, &timeline, height);
        let up = if self.drawn > 0 { format!("\x1b[{}A", self.drawn) } else { String::new() };
        // One write, so that no partial frame is shown, and without line wrap, which would shift
        // the frame in a narrow window.
        self.app.ui.data(&format!("{up}\r\x1b[J\x1b[?7l{text}\x1b[?7h"))?;
        self.drawn = text.lines().count();
        Ok(())
    }

    /// Appends a line for every job whose state changed, and at the end the timeline.
    async fn append(&mut self, list: &JobList, over: bool) -> Result<()> {
        let context = self.app.ui.context().at(list.now);
        let others = ps::OtherJobs::of(&list.jobs, &[]);
        let mut text = String::new();
        for job in &list.jobs {
            if self.printed.insert(job.job, job.state) != Some(job.state) {
                text.push_str(&ps::line(job, &others, context));
            }
        }
        self.app.ui.data(&text)?;
        if over {
            let timeline = self.timeline(list).await?;
            self.app.ui.data(&format!("\n{}", self.frame(list, &timeline, None)))?;
        }
        Ok(())
    }

    async fn timeline(&self, list: &JobList) -> Result<Timeline> {
        let since = earliest(&list.jobs);
        Ok(self.client.timeline(TimelineQuery { since }).await.map_err(Failure::from)?)
    }

    fn frame(&self, list: &JobList, timeline: &Timeline, height: Option<usize>) -> String {
        let planned: Vec<TimelineStart> = timeline
            .reservations
            .iter()
            .map(|plan| TimelineStart {
                element: plan.element,
                name: plan.name.clone(),
                start: plan.start,
                predicted: plan.predicted,
            })
            .collect();
        let names = names(&list.jobs);
        let gantt = TimelineInput {
            from: earliest(&list.jobs),
            devices: &timeline.devices,
            bars: &timeline.bars,
            planned: &planned,
            names: &names,
            max_rows: FINAL_ROWS,
        };
        frame(&list.jobs, &gantt, height, self.app.ui.context().at(list.now))
    }
}

/// Prints that the jobs keep running after this command has returned.
pub fn detach(app: &App, client: &Client, jobs: &[JobId]) {
    let labels: Vec<String> = jobs.iter().map(|job| client.label(*job)).collect();
    let keep_running = if jobs.len() == 1 { "job keeps running" } else { "jobs keep running" };
    app.ui.status(&format!("\ndetached; the {keep_running}"));
    app.ui.hint(&format!("`muster ps` lists jobs, `muster cancel {}` ends them", labels.join(" ")));
}

fn earliest(jobs: &[JobView]) -> Option<Time> {
    jobs.iter().map(|job| job.submitted).min()
}
