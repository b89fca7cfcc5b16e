//! What control planes made of one trace on one fleet.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Spread;

/// Control planes compared on one fleet and one load.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FleetComparison {
    /// The trace, as it was named.
    pub trace: String,
    /// The cluster, as it was named.
    pub cluster: String,
    /// The queues, as they were named; `None` is one queue without limits.
    pub queues: Option<String>,
    /// What was asked, as a command that asks it again.
    pub command: String,
    /// Nodes.
    pub nodes: u64,
    /// GPUs, or CPUs where no node has a GPU.
    pub size: f64,
    /// What sizes and hours are in.
    pub unit: FleetUnit,
    /// Jobs that arrive.
    pub jobs: u64,
    /// Jobs of the trace that are left out, since they never ran where they come from.
    pub never_ran: u64,
    /// Jobs of the trace that are left out, since not even the idle cluster could host them.
    pub too_large: u64,
    /// Jobs whose queue the site does not have; they wait in its default queue.
    pub strangers: u64,
    /// Rows that could not be read.
    pub bad_rows: u64,
    /// Where the time limits come from that schedulers plan by.
    pub limits: TimeLimits,
    /// Jobs without a time limit: schedulers that plan by limits assume one.
    pub without_limit: u64,
    /// What chance came from, one run of each control plane for each.
    pub seeds: Vec<u64>,
    /// One per control plane, in the order in which they were asked for.
    pub runs: Vec<FleetFigures>,
}

/// What a fleet is measured in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FleetUnit {
    /// GPUs.
    Gpu,
    /// CPUs, where no node has a GPU.
    Cpu,
}

/// Where time limits come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TimeLimits {
    /// The users' own.
    Requested,
    /// True runtimes, which no user knows.
    Actual,
    /// Drawn: one to five times the runtime.
    Noisy,
}

/// What one control plane made of it. With several seeds these are the figures of the first one;
/// `intervals` has the means of all.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FleetFigures {
    /// Its name.
    pub scheduler: String,
    /// The production engine decided; else a model.
    pub is_engine: bool,
    /// It was interrupted: what follows is about what had happened by then.
    pub is_partial: bool,
    /// Jobs that arrived.
    pub arrived: u64,
    /// Jobs that ended.
    pub ended: u64,
    /// Jobs that it did not take, since they could never start or too many of their users waited.
    pub refused: u64,
    /// Jobs that never began, or were stopped and never went on, when nothing more happened.
    pub left: u64,
    /// Of those, jobs that held something when nothing more happened.
    pub left_holding: u64,
    /// GPUs, or CPUs, that these held.
    pub left_held: f64,
    /// Seconds from submission to end. This and the next three are of all jobs that arrived and
    /// were not refused; those that have not ended (`left`) count up to the horizon, so where there
    /// are any the true figures are larger.
    pub turnaround_secs: Spread,
    /// Seconds between submission and end in which jobs did not run: before the first start and
    /// after every stop.
    pub waited_secs: Spread,
    /// Seconds from submission to the first start, however soon the job was stopped again.
    pub first_start_secs: Spread,
    /// Turnaround ÷ runtime, at least 1, runtimes below 10 seconds taken for 10 (Feitelson and
    /// Rudolph 1998).
    pub bounded_slowdown: Spread,
    /// Seconds from the first submission to the instant up to which jobs that have not ended are
    /// counted: the last instant of any run on this load, or that at which this one was
    /// interrupted. Its own last instant where all jobs have ended.
    pub horizon_secs: f64,
    /// Seconds from the first submission to the last end.
    pub makespan_secs: f64,
    /// Where the time of the GPUs, or CPUs, went.
    pub hours: Hours,
    /// How often a job that ran was made to go for another.
    pub evictions: u64,
    /// How often a job that ran lost a node or a GPU.
    pub breakdowns: u64,
    /// Nodes that jobs of several tasks ran on ÷ the fewest that could have hosted them; mean over
    /// these jobs, at least 1.
    pub node_spread: f64,
    /// The same of the domains of each level of the network, widest first; empty where the cluster
    /// has no levels.
    #[serde(default)]
    pub domain_spread: Vec<LevelSpread>,
    /// Jain's index over users: 1 when the time that work took in the system ÷ the time that it ran
    /// is the same for all of them (Jain, Chiu and Hawe 1984).
    pub user_fairness: f64,
    /// The same over queues.
    pub queue_fairness: f64,
    /// By size of job, from small to large; sizes of which there is none are left out.
    pub sizes: Vec<SizeFigures>,
    /// By user, who used most first; at most fifty.
    pub users: Vec<OwnerFigures>,
    /// By queue, in the order of their names.
    pub queues: Vec<OwnerFigures>,
    /// How it went over time.
    pub curve: Curve,
    /// Means over several seeds; empty with one.
    pub intervals: Vec<Interval>,
}

/// How far gangs were spread over the domains of a level.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LevelSpread {
    /// The level, such as `rack`.
    pub level: String,
    /// Domains that jobs of several tasks ran in ÷ the fewest that could have hosted them; mean
    /// over these jobs, at least 1.
    pub spread: f64,
}

/// Hours of GPUs, or CPUs, from the first submission to the last end, or to the horizon. What is
/// none of these was idle and of no use to the jobs that waited.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Hours {
    /// There.
    pub all: f64,
    /// Held by jobs that ran, as much as they asked for.
    pub ran: f64,
    /// Of what ran: work that was lost when jobs were stopped, and time that they took to run
    /// again.
    pub lost: f64,
    /// Held and not used: by gangs that were not whole, more than was asked for, or kept when the
    /// work was done.
    pub held_idle: f64,
    /// Idle, and of use to jobs that waited: at most what they lacked of models that they accept,
    /// within the quota of their queues, wherever it lay. Jobs that lack more than was idle in all
    /// do not count.
    pub stranded: f64,
    /// Out of order.
    pub down: f64,
}

/// Jobs of one size.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SizeFigures {
    /// Such as `2 to 8`.
    pub size: String,
    /// How many arrived and were not refused.
    pub jobs: u64,
    /// Seconds from submission to end, counted as in the figures of the run.
    pub turnaround_secs: Spread,
    /// Seconds in which they waited, before the first start and after every stop.
    pub waited_secs: Spread,
    /// So many percent of them waited at most so many seconds in all, by percent from 0 to 100.
    pub waited_quantiles: Vec<f64>,
}

/// Jobs of one user or queue.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct OwnerFigures {
    /// Whose.
    pub name: String,
    /// How many arrived.
    pub jobs: u64,
    /// Hours of GPUs, or CPUs, that those which ended ran.
    pub hours: f64,
    /// Mean seconds from submission to end, counted as in the figures of the run.
    pub turnaround_secs: f64,
    /// Mean seconds in which jobs waited, before the first start and after every stop.
    pub waited_secs: f64,
    /// Time that the work of all jobs took in the system, up to the horizon, ÷ the time that it
    /// takes to run; 1 is as if no other job were there.
    pub stretch: f64,
}

/// How it went, by stretches of equal length.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Curve {
    /// When it begins, in seconds of the trace.
    pub start_secs: f64,
    /// How long each is.
    pub width_secs: f64,
    /// Share of the cluster that ran, from 0 to 1.
    pub running: Vec<f64>,
    /// Share of the cluster that was held.
    pub held: Vec<f64>,
    /// Jobs that waited.
    pub waiting: Vec<f64>,
}

/// A figure over several seeds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Interval {
    /// Which figure, by its name in [`MEASURED`], or in `PROVED` where it is one of a proof.
    pub figure: String,
    /// Its mean.
    pub mean: f64,
    /// The mean lies so near to the true one with 95 % confidence (Student's t).
    pub margin: f64,
}

/// A figure, and how near it lies to the true one where there were several seeds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Figure {
    /// The figure, or its mean over the seeds.
    pub value: f64,
    /// So near, with 95 % confidence.
    pub margin: Option<f64>,
}

impl Figure {
    /// The one of a run with this name in [`MEASURED`].
    #[must_use]
    pub fn of(run: &FleetFigures, name: &str) -> Self {
        Self::among(&run.intervals, name).unwrap_or_else(|| {
            let reading = MEASURED.iter().find(|(known, _)| *known == name);
            Self { value: reading.map_or(0.0, |(_, reading)| reading(run)), margin: None }
        })
    }

    /// The one with this name among means over several seeds.
    #[must_use]
    pub fn among(intervals: &[Interval], name: &str) -> Option<Self> {
        let interval = intervals.iter().find(|interval| interval.figure == name)?;
        Some(Self { value: interval.mean, margin: Some(interval.margin) })
    }

    /// They may well be equal: what is known of one does not exclude the other. Figures without
    /// margins are known exactly.
    #[must_use]
    pub fn may_equal(self, other: Figure) -> bool {
        match (self.margin, other.margin) {
            (None, None) => false,
            (one, another) => {
                (self.value - other.value).abs()
                    <= one.unwrap_or_default() + another.unwrap_or_default()
            }
        }
    }
}

/// How a figure is read.
type Reading = fn(&FleetFigures) -> f64;

/// Figures that intervals are made of, by name: where they stand in [`FleetFigures`], or what they
/// come to.
pub const MEASURED: [(&str, Reading); 21] = [
    ("turnaround_secs.mean", |run| run.turnaround_secs.mean),
    ("turnaround_secs.p50", |run| run.turnaround_secs.p50),
    ("turnaround_secs.p95", |run| run.turnaround_secs.p95),
    ("waited_secs.mean", |run| run.waited_secs.mean),
    ("waited_secs.p50", |run| run.waited_secs.p50),
    ("waited_secs.p95", |run| run.waited_secs.p95),
    ("first_start_secs.mean", |run| run.first_start_secs.mean),
    ("bounded_slowdown.mean", |run| run.bounded_slowdown.mean),
    ("makespan_secs", |run| run.makespan_secs),
    ("used_share", |run| if run.hours.all > 0.0 { run.hours.ran / run.hours.all } else { 0.0 }),
    ("hours.held_idle", |run| run.hours.held_idle),
    ("hours.stranded", |run| run.hours.stranded),
    ("hours.lost", |run| run.hours.lost),
    ("left", |run| run.left as f64),
    ("left_holding", |run| run.left_holding as f64),
    ("evictions", |run| run.evictions as f64),
    ("breakdowns", |run| run.breakdowns as f64),
    ("node_spread", |run| run.node_spread),
    ("domain_spread", |run| run.domain_spread.last().map_or(1.0, |narrowest| narrowest.spread)),
    ("user_fairness", |run| run.user_fairness),
    ("queue_fairness", |run| run.queue_fairness),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lies_within_the_margins_may_be_equal() {
        let figure = |value, margin| Figure { value, margin };
        assert!(figure(10.0, Some(1.0)).may_equal(figure(12.0, Some(1.0))));
        assert!(!figure(10.0, Some(1.0)).may_equal(figure(12.5, Some(1.0))));
        assert!(figure(10.0, Some(1.0)).may_equal(figure(10.5, None)));
        assert!(!figure(10.0, Some(1.0)).may_equal(figure(11.5, None)));
        assert!(!figure(10.0, None).may_equal(figure(10.0, None)));
    }
}
