//! Live views: redrawn in place on a terminal, a line per change elsewhere. Driven by the daemon's
//! long poll.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::Result;
use muster_api::Client;
use muster_api::query::TimelineQuery;
use muster_api::types::{JobList, Timeline};
use muster_model::view::{JobView, State};
use muster_model::{JobId, Time};
use muster_report::ps;
use muster_report::timeline::{Gantt, Planned};
use muster_report::watch::{frame, names, summary};
use tokio::time::{Instant, sleep};

use crate::app::App;
use crate::cmd::run::detach;
use crate::exit::{Failure, INTERRUPTED};
use crate::track::{self, PATIENCE, Tracker};

/// On a terminal the counters tick although nothing changes.
const TICK: Duration = Duration::from_secs(1);
/// Redrawing faster than this only costs: nobody reads twenty frames a second.
const MIN_FRAME: Duration = Duration::from_millis(50);
/// Rows of a timeline that is printed for good.
const FINAL_ROWS: usize = 64;

/// When a view ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Until {
    /// When every job of the view has ended.
    Ended,
    /// Only by Ctrl-C.
    Interrupted,
}

/// A live view of some jobs.
pub struct Watch<'a> {
    app: &'a App,
    client: &'a Client,
    tracker: Tracker,
    until: Until,
    /// Lines of the frame on the screen.
    drawn: usize,
    /// Last state printed of each job, where lines are appended.
    printed: BTreeMap<JobId, State>,
}

impl<'a> Watch<'a> {
    /// A view of what the tracker follows.
    pub fn new(app: &'a App, client: &'a Client, tracker: Tracker, until: Until) -> Self {
        Self { app, client, tracker, until, drawn: 0, printed: BTreeMap::new() }
    }

    /// Shows it to its end; answers the exit code.
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
            match self.app.ui.is_terminal() {
                true => self.draw(&list, over).await?,
                false => self.append(&list, over).await?,
            }
            shown = list.jobs;
            if over {
                self.app.ui.data(&format!("\n{}", summary(&shown)))?;
                return Ok(track::exit_code(&shown));
            }
            // A long history costs the daemon time to tell: it gets four times that to itself.
            sleep(MIN_FRAME.max(4 * begun.elapsed())).await;
        }
    }

    fn interrupted(&self, shown: &[JobView]) -> u8 {
        match self.until {
            Until::Interrupted => 0,
            Until::Ended => {
                let open = shown.iter().filter(|job| !job.state.is_final());
                detach(self.app, &open.map(|job| job.job).collect::<Vec<_>>());
                INTERRUPTED
            }
        }
    }

    /// Replaces the frame on the screen.
    async fn draw(&mut self, list: &JobList, over: bool) -> Result<()> {
        let timeline = self.timeline(list).await?;
        // The last line stays free for the cursor; the summary follows the last frame.
        let height =
            self.app.ui.height().map(|height| height.saturating_sub(if over { 4 } else { 1 }));
        let text = self.frame(list, &timeline, height);
        let up = if self.drawn > 0 { format!("\x1b[{}A", self.drawn) } else { String::new() };
        // One write, without line wrap, so that no half frame is seen and a narrow window cannot
        // shift it.
        self.app.ui.data(&format!("{up}\r\x1b[J\x1b[?7l{text}\x1b[?7h"))?;
        self.drawn = text.lines().count();
        Ok(())
    }

    /// Appends a line for every job whose state changed, and the timeline at the end.
    async fn append(&mut self, list: &JobList, over: bool) -> Result<()> {
        let style = self.app.ui.style();
        let others = ps::Others::of(&list.jobs, &[]);
        let mut text = String::new();
        for job in &list.jobs {
            if self.printed.insert(job.job, job.state) != Some(job.state) {
                text.push_str(&ps::line(job, &others, list.now, &style));
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
        let planned: Vec<Planned> = timeline
            .reservations
            .iter()
            .map(|plan| Planned {
                element: plan.element,
                name: plan.name.clone(),
                start: plan.start,
            })
            .collect();
        let names = names(&list.jobs);
        let gantt = Gantt {
            from: earliest(&list.jobs),
            now: list.now,
            devices: &timeline.devices,
            bars: &timeline.bars,
            planned: &planned,
            names: &names,
            max_rows: FINAL_ROWS,
        };
        frame(&list.jobs, &gantt, height, &self.app.ui.style())
    }
}

fn earliest(jobs: &[JobView]) -> Option<Time> {
    jobs.iter().map(|job| job.submitted).min()
}
