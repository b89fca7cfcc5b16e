//! Simulation of a site's load beside the advice on it: the load, the assumptions behind it, a row
//! per control plane, and whether the figures agree with the advice. Values only; they do not
//! change the advice. The proof of gang admission is in [`crate::proof`].

use schemars::JsonSchema;
use serde::Serialize;

use super::FactChanges;
use crate::simulation::{ConfidenceInterval, Figure, Spread};

/// Control planes on a site's load. With several seeds, the description of the load is that of the
/// first.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct SiteProof {
    /// Path of the replayed trace as the user gave it; absent when the load was made from the mix.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace: Option<String>,
    /// Path of the cluster file as the user gave it; absent when the cluster was made from the
    /// fleet of the site.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster: Option<String>,
    /// Path of the queue file as the user gave it; absent when the queues were made from the teams
    /// of the site, or when a trace uses one queue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queues: Option<String>,
    /// First seed of the random numbers.
    pub seed: u64,
    /// All seeds, one run of each control plane per seed. The mix is drawn anew for each; a trace
    /// is the same.
    pub seeds: Vec<u64>,
    /// Number of nodes in the cluster.
    pub nodes: u64,
    /// Number of GPUs in the cluster.
    pub gpus: u64,
    /// Number of jobs that are submitted.
    pub jobs: u64,
    /// Jobs that are left out because their runtime is unknown: they never ran, or were still running
    /// when the trace was written.
    pub never_ran: u64,
    /// Jobs that are left out because not even the idle cluster can host them.
    pub too_large: u64,
    /// Jobs whose queue does not exist on the site; they use its default queue.
    pub strangers: u64,
    /// Rows of the trace or the node list that could not be parsed.
    pub bad_rows: u64,
    /// GPU-hours that all jobs request.
    pub asked_gpu_hours: f64,
    /// Hours over which use and idle time are counted, from the first submission: until the last,
    /// or until the GPUs could have done all the work when that is later. The same for all control
    /// planes.
    pub counted_hours: f64,
    /// GPU-hours of the cluster in that time.
    pub gpu_hours: f64,
    /// Price of a GPU-hour, in the currency that the user gave it in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpu_hour_price: Option<f64>,
    /// Kinds of work that the mix was made into; empty for a trace.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub kinds: Vec<ProvedKind>,
    /// Assumptions for facts that the site does not give.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub assumed: Vec<String>,
    /// Size of the largest jobs in GPUs, such as `9 to 64`.
    pub largest: String,
    /// Results per control plane: the advised one, those that flips lead to, the others that have a
    /// model, and Muster's own engine.
    pub planes: Vec<ProvedPlane>,
    /// Conclusion on the advice.
    pub verdict: ProofVerdict,
    /// Ids of the reasons for the advice that these figures cannot confirm.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unseen: Vec<String>,
}

/// Kind of work of the mix, as jobs.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct ProvedKind {
    /// Name of the kind in the mix.
    pub name: String,
    /// Number of jobs of this kind.
    pub jobs: u64,
    /// Number of tasks of each job.
    pub tasks: u32,
    /// GPUs of each task.
    pub gpus_per_task: u32,
    /// GPU-hours of all its jobs.
    pub gpu_hours: f64,
}

/// Results of one control plane on the load. With several seeds these are the figures of the first
/// one; `intervals` has the means over all.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct ProvedPlane {
    /// Name of the control plane.
    pub name: String,
    /// Role of the control plane in the comparison.
    pub role: ProvedRole,
    /// Change of facts that leads to it, when it is a runner-up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub change: Option<FactChanges>,
    /// Scheduler that represents it in the simulation, as described in docs/models.md.
    pub scheduler: String,
    /// Parts of its label that the simulation does not model.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub without_model: Vec<String>,
    /// True when the run was interrupted: the figures cover the runs that had ended by then, or the
    /// first run until then.
    pub is_partial: bool,
    /// Number of jobs that ended.
    pub ended: u64,
    /// Number of jobs that were rejected.
    pub refused: u64,
    /// Number of jobs that never end.
    pub left: u64,
    /// Seconds from submission to end, of all jobs that were not rejected. Jobs that never end
    /// (`left`) count up to the last event of any control plane with this seed, so where there are
    /// any the true figures are larger.
    pub turnaround_secs: Spread,
    /// Seconds between submission and end in which jobs did not run, before the first start and
    /// after every stop; jobs that never end count in the same way.
    pub waited_secs: Spread,
    /// Mean of these seconds over the largest jobs; absent when none of them was accepted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub largest_waited_secs: Option<f64>,
    /// Percentage of the GPU-hours in which jobs ran.
    pub gpu_use_percent: f64,
    /// GPU-hours in which no job ran.
    pub idle_gpu_hours: f64,
    /// Part of the idle GPU-hours that were held by jobs which did not run.
    pub held_idle_gpu_hours: f64,
    /// Part of the idle GPU-hours that were free and usable by pending jobs: see `stranded` in a
    /// `FleetComparison`.
    pub stranded_gpu_hours: f64,
    /// GPU-hours of work that were lost by evictions; they count as used.
    pub lost_gpu_hours: f64,
    /// Cost of the idle GPU-hours.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idle_cost: Option<f64>,
    /// Means over several seeds; empty with one seed, and when neither the load nor the control
    /// plane is random. Figures that some runs lack are left out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub intervals: Vec<ConfidenceInterval>,
}

impl ProvedPlane {
    /// Returns the figure with this name in [`PROVED`], over all seeds; `None` when some run lacks
    /// it.
    #[must_use]
    pub fn figure(&self, name: &str) -> Option<Figure> {
        if !self.intervals.is_empty() {
            return Figure::among(&self.intervals, name);
        }
        let (_, reading) = PROVED.iter().find(|(known, _)| *known == name)?;
        reading(self).map(|value| Figure { value, margin: None })
    }
}

/// Function that reads a figure from the results of a run; returns `None` when the run lacks it.
type ProvedFigureReader = fn(&ProvedPlane) -> Option<f64>;

/// Figures with confidence intervals, by name: the field of [`ProvedPlane`], or how it is computed.
pub const PROVED: [(&str, ProvedFigureReader); 12] = [
    ("turnaround_secs.mean", |plane| taken(plane).then_some(plane.turnaround_secs.mean)),
    ("waited_secs.mean", |plane| taken(plane).then_some(plane.waited_secs.mean)),
    ("waited_secs.p95", |plane| taken(plane).then_some(plane.waited_secs.p95)),
    ("largest_waited_secs", |plane| plane.largest_waited_secs),
    ("gpu_use_percent", |plane| Some(plane.gpu_use_percent)),
    ("idle_gpu_hours", |plane| Some(plane.idle_gpu_hours)),
    ("held_idle_gpu_hours", |plane| Some(plane.held_idle_gpu_hours)),
    ("stranded_gpu_hours", |plane| Some(plane.stranded_gpu_hours)),
    ("unused_gpu_hours", |plane| Some(plane.idle_gpu_hours + plane.lost_gpu_hours)),
    ("lost_gpu_hours", |plane| Some(plane.lost_gpu_hours)),
    ("idle_cost", |plane| plane.idle_cost),
    ("undone", |plane| Some((plane.left + plane.refused) as f64)),
];

/// Returns true when the plane accepted jobs, so that figures exist.
fn taken(plane: &ProvedPlane) -> bool {
    plane.ended + plane.left > 0
}

/// Role of a control plane in the comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ProvedRole {
    /// Control plane that is advised.
    Advised,
    /// Control plane that a flip of the advice leads to.
    RunnerUp,
    /// Control plane that could be advised to another site.
    Other,
    /// Engine of Muster itself.
    Muster,
}

/// Verdict of the figures on the advice.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ProofVerdict {
    /// Conclusion in one word.
    #[serde(rename = "says")]
    pub conclusion: ProofConclusion,
    /// Schedulers of control planes that do significantly better than the advised one.
    pub better: Vec<String>,
    /// Schedulers of control planes that do significantly worse.
    pub worse: Vec<String>,
}

/// Conclusion on the advice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ProofConclusion {
    /// No other control plane does significantly better, and at least one does significantly worse.
    Supports,
    /// Another control plane does significantly better.
    Contradicts,
    /// No control plane does significantly better or worse.
    Neither,
    /// Runs were interrupted: no conclusion.
    Interrupted,
}
