//! Results of several control planes on one trace and one fleet.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Calibration, SiteVariant, Spread, VariantDifference};

/// Control planes compared on one fleet and one trace.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FleetComparison {
    /// Path of the trace as the user gave it.
    pub trace: String,
    /// Path of the cluster file as the user gave it.
    pub cluster: String,
    /// Path of the queue file as the user gave it; `None` means one queue without limits.
    pub queues: Option<String>,
    /// Command that repeats this simulation.
    pub command: String,
    /// Number of nodes in the fleet.
    pub nodes: u64,
    /// Number of GPUs, or of CPUs when no node has a GPU.
    pub size: f64,
    /// Unit of sizes and hours.
    pub unit: FleetUnit,
    /// Number of jobs that are submitted.
    pub jobs: u64,
    /// Jobs of the trace that are left out because their runtime is unknown: they never ran, or were
    /// still running when the trace was written.
    pub never_ran: u64,
    /// Jobs of the trace that are left out because not even the idle cluster can host them.
    pub too_large: u64,
    /// Jobs whose queue does not exist on the site; they use its default queue.
    pub strangers: u64,
    /// Rows of the trace that could not be parsed.
    pub bad_rows: u64,
    /// Jobs with the id of an earlier one, which are replayed like all others; in traces of Slurm, with the same
    /// submission, too.
    #[serde(default)]
    pub duplicate_ids: u64,
    /// Source of the time limits that the schedulers use.
    pub limits: TimeLimits,
    /// Factor on the arrival rate of the trace.
    pub load: f64,
    /// Parts of the trace that each seed draws anew; `None` if every run has the trace as it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resampled: Option<Resampled>,
    /// Jobs without a time limit: schedulers that plan by limits assume one.
    pub without_limit: u64,
    /// Seeds of the random numbers, one run of each control plane per seed.
    pub seeds: Vec<u64>,
    /// Variants of the site, in order; empty when there is only one. With several, `cluster`,
    /// `queues`, `nodes`, `size` and `strangers` are those of the first, and all variants have the
    /// same jobs: `too_large` counts those that at least one of them cannot host.
    #[serde(default)]
    pub variants: Vec<SiteVariant>,
    /// Differences of each variant to the first, by scheduler; empty when there is only one.
    #[serde(default)]
    pub differences: Vec<VariantDifference>,
    /// Waits of each control plane beside the recorded ones, with the first seed; empty when no
    /// calibration was requested.
    #[serde(default)]
    pub calibration: Vec<Calibration>,
    /// Results per control plane, in the requested order; of each, one per variant.
    pub runs: Vec<FleetFigures>,
}

/// Unit in which a fleet is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FleetUnit {
    /// GPUs of the nodes.
    Gpu,
    /// CPUs, when no node has a GPU.
    Cpu,
}

/// Source of the time limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TimeLimits {
    /// Limits that the users requested.
    Requested,
    /// True run times, which no user knows in advance.
    Actual,
    /// Limits that the users requested; the engine plans by predictions from earlier jobs.
    Predicted,
    /// Random limits: one to five times the run time.
    Noisy,
}

/// Parts of a trace that are drawn anew for each seed, with replacement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Resampled {
    /// Weeks from the first submission on: which weeks come, and in which order.
    Weeks,
    /// Users with all their jobs, at the times at which they submitted them.
    Users,
}

/// Results of one control plane. With several seeds these are the figures of the first one;
/// `intervals` has the means over all.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FleetFigures {
    /// Name of the scheduler.
    pub scheduler: String,
    /// Name of the variant of the site; empty when there is only one.
    #[serde(default)]
    pub variant: String,
    /// True when the production engine decided; false for a model.
    pub is_engine: bool,
    /// Name and version of what is modelled, such as `Kueue 0.19.2`; `None` for the engine and for
    /// programs of users.
    #[serde(default)]
    pub model_of: Option<String>,
    /// True when the run was interrupted: the figures cover only the time until then.
    pub is_partial: bool,
    /// Number of jobs that were submitted.
    pub arrived: u64,
    /// Number of jobs that ended.
    pub ended: u64,
    /// Number of jobs that were rejected, because they could never start or their user had too many
    /// pending jobs.
    pub refused: u64,
    /// Jobs that never started, or were stopped and never restarted, by the end of the run.
    pub left: u64,
    /// Jobs among `left` that held resources at the end of the run.
    pub left_holding: u64,
    /// GPUs, or CPUs, that these held.
    pub left_held: f64,
    /// Reason for which the first job among `left` is pending, in the words of its scheduler; `None`
    /// when no job is left, or the run was interrupted.
    #[serde(default)]
    pub left_why: Option<String>,
    /// Seconds from submission to end. This figure and the next three cover all jobs that were
    /// submitted and not rejected; jobs that have not ended (`left`) count up to the horizon, so
    /// where there are any the true figures are larger.
    pub turnaround_secs: Spread,
    /// Seconds between submission and end in which jobs did not run: before the first start and
    /// after every stop.
    pub waited_secs: Spread,
    /// Seconds from submission to the first start, even when the job was stopped again soon.
    pub first_start_secs: Spread,
    /// Turnaround ÷ run time, at least 1; run times below 10 seconds count as 10 (Feitelson and
    /// Rudolph 1998).
    pub bounded_slowdown: Spread,
    /// Seconds from the first submission to the instant up to which jobs that have not ended are
    /// counted: the last event of any run on this load, or the interruption of this run. The last
    /// event of this run when all jobs have ended.
    pub horizon_secs: f64,
    /// Seconds from the first submission to the last end.
    pub makespan_secs: f64,
    /// Use of GPU time, or CPU time.
    pub hours: FleetHours,
    /// Number of evictions of running jobs.
    pub evictions: u64,
    /// Number of times that a running job lost a node or a GPU.
    pub breakdowns: u64,
    /// Nodes used by jobs with several tasks ÷ the fewest that could have hosted them; mean over
    /// these jobs, at least 1.
    pub node_spread: f64,
    /// The same ratio for the domains of each topology level, widest first; empty when the cluster
    /// has no levels.
    #[serde(default)]
    pub domain_spread: Vec<LevelSpread>,
    /// Jain's fairness index over users: 1 when turnaround ÷ run time, summed over jobs, is the
    /// same for all of them (Jain, Chiu and Hawe 1984).
    pub user_fairness: f64,
    /// Jain's fairness index over queues, computed in the same way.
    pub queue_fairness: f64,
    /// Figures by size of job, ascending; sizes without jobs are left out.
    pub sizes: Vec<SizeFigures>,
    /// Figures by user, the largest usage first; at most fifty.
    pub users: Vec<OwnerFigures>,
    /// Figures by queue, in the order of names.
    pub queues: Vec<OwnerFigures>,
    /// Load of the cluster over time.
    pub curve: FleetCurve,
    /// Means over several seeds; empty with one seed.
    pub intervals: Vec<ConfidenceInterval>,
}

/// Spread of gangs over the domains of a topology level.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LevelSpread {
    /// Name of the level, such as `rack`.
    pub level: String,
    /// Domains used by jobs with several tasks ÷ the fewest that could have hosted them; mean over
    /// these jobs, at least 1.
    pub spread: f64,
}

/// Hours of GPUs, or CPUs, from the first submission to the last end, or to the horizon. The
/// remainder was idle and not usable by pending jobs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FleetHours {
    /// Hours of the cluster in total.
    pub all: f64,
    /// Hours held by running jobs, as much as they requested.
    pub ran: f64,
    /// Part of `ran` that was lost when jobs were stopped, including the time to run again.
    pub lost: f64,
    /// Hours held but not used: by incomplete gangs, beyond the request, or after the end of the
    /// work.
    pub held_idle: f64,
    /// Hours idle but usable by pending jobs: at most the missing GPUs of accepted models within
    /// the quota of their queues, on any node. Jobs that miss more than all idle GPUs do not count.
    pub stranded: f64,
    /// Hours of failed nodes and GPUs.
    pub down: f64,
}

/// Figures of jobs of one size.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SizeFigures {
    /// Size class, such as `2 to 8`.
    pub size: String,
    /// Number of jobs that were submitted and not rejected.
    pub jobs: u64,
    /// Seconds from submission to end, counted as in the figures of the run.
    pub turnaround_secs: Spread,
    /// Seconds for which they were pending, before the first start and after every stop.
    pub waited_secs: Spread,
    /// Pending time in seconds by percentile, from 0 to 100.
    pub waited_quantiles: Vec<f64>,
}

/// Figures of the jobs of one user or queue.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct OwnerFigures {
    /// Name of the user or queue.
    pub name: String,
    /// Number of jobs that were submitted.
    pub jobs: u64,
    /// Hours of GPUs, or CPUs, that its ended jobs ran.
    pub hours: f64,
    /// Mean seconds from submission to end, counted as in the figures of the run.
    pub turnaround_secs: f64,
    /// Mean seconds for which jobs were pending, before the first start and after every stop.
    pub waited_secs: f64,
    /// Sum of turnaround times, up to the horizon, ÷ sum of run times; 1 as on an otherwise empty
    /// cluster.
    pub stretch: f64,
}

/// Load over time, in bins of equal width.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FleetCurve {
    /// Start of the first bin, in seconds of the trace.
    pub start_secs: f64,
    /// Width of a bin in seconds.
    pub width_secs: f64,
    /// Fraction of the cluster that ran jobs, from 0 to 1.
    pub running: Vec<f64>,
    /// Fraction of the cluster that was allocated, from 0 to 1.
    pub held: Vec<f64>,
    /// Number of pending jobs.
    pub waiting: Vec<f64>,
}

/// Mean of a figure over several seeds, with its confidence interval.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ConfidenceInterval {
    /// Name of the figure in [`MEASURED`], or in `PROVED` when it belongs to a proof.
    pub figure: String,
    /// Mean over the seeds.
    pub mean: f64,
    /// Half width of the 95 % confidence interval (Student's t).
    pub margin: f64,
}

/// Figure, with its confidence interval when there were several seeds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Figure {
    /// Value, or its mean over the seeds.
    pub value: f64,
    /// Half width of the 95 % confidence interval; `None` with one seed.
    pub margin: Option<f64>,
}

impl Figure {
    /// Returns the figure of a run with this name in [`MEASURED`].
    #[must_use]
    pub fn of(run: &FleetFigures, name: &str) -> Self {
        Self::among(&run.intervals, name).unwrap_or_else(|| {
            let reading = MEASURED.iter().find(|(known, _)| *known == name);
            Self { value: reading.map_or(0.0, |(_, reading)| reading(run)), margin: None }
        })
    }

    /// Returns the figure with this name among means over several seeds; `None` when there is none.
    #[must_use]
    pub fn among(intervals: &[ConfidenceInterval], name: &str) -> Option<Self> {
        let interval = intervals.iter().find(|interval| interval.figure == name)?;
        Some(Self { value: interval.mean, margin: Some(interval.margin) })
    }

    /// Returns true when the difference is not significant: it does not exceed the sum of the
    /// margins. Figures without margins are exact.
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

/// Function that reads a figure from the results of a run.
type FigureReader = fn(&FleetFigures) -> f64;

/// Figures with confidence intervals, by name: the field of [`FleetFigures`], or how it is
/// computed.
pub const MEASURED: [(&str, FigureReader); 21] = [
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
