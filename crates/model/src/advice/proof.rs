//! What a simulation of a site's work shows beside the advice on it: the load, what was assumed to
//! make it, a row per control plane, and whether the figures agree with the advice. Values only;
//! they change no advice. What gang admission is proved to do is elsewhere.

use schemars::JsonSchema;
use serde::Serialize;

use super::Changes;
use crate::simulation::{Figure, Interval, Spread};

/// Control planes on a site's work. With several seeds, what it says of the load is that of the
/// first.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct SiteProof {
    /// The trace that was replayed, as it was named; absent where the load was made from the mix.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace: Option<String>,
    /// The cluster, as it was named; absent where it was made from the fleet of the site.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster: Option<String>,
    /// The queues, as they were named; absent where they were made from the teams of the site, or
    /// one for a trace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queues: Option<String>,
    /// What chance was drawn from, first.
    pub seed: u64,
    /// What it was drawn from in all, one run of each control plane for each; the mix was drawn
    /// anew for each, a trace is the same.
    pub seeds: Vec<u64>,
    /// Nodes.
    pub nodes: u64,
    /// GPUs.
    pub gpus: u64,
    /// Jobs that arrive.
    pub jobs: u64,
    /// Jobs that are left out, since they never ran where they come from.
    pub never_ran: u64,
    /// Jobs that are left out, since not even the idle cluster could host them.
    pub too_large: u64,
    /// Jobs whose queue the site does not have; they wait in its default queue.
    pub strangers: u64,
    /// Rows of the trace or the node list that could not be read.
    pub bad_rows: u64,
    /// GPU-hours that all jobs ask for.
    pub asked_gpu_hours: f64,
    /// Hours in which use and idleness are counted, from the first arrival on: until the last, or
    /// until the GPUs could have done all the work where that is later. The same for all planes.
    pub counted_hours: f64,
    /// GPU-hours that there are in that time.
    pub gpu_hours: f64,
    /// What a GPU-hour costs, in whatever it was given in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpu_hour_price: Option<f64>,
    /// Kinds of work that the mix was made into; none of a trace.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub kinds: Vec<ProvedKind>,
    /// What the site does not say, and was assumed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub assumed: Vec<String>,
    /// GPUs of the largest jobs that there are, such as `9 to 64`.
    pub largest: String,
    /// A row per control plane: the advised one, those that flips lead to, the others that have a
    /// model, and Muster's own engine.
    pub planes: Vec<ProvedPlane>,
    /// What the figures say of the advice.
    pub verdict: ProofVerdict,
    /// Reasons for the advice, by id, that these figures cannot see.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unseen: Vec<String>,
}

/// A kind of work as jobs.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct ProvedKind {
    /// As the mix calls it.
    pub name: String,
    /// How many jobs.
    pub jobs: u64,
    /// Tasks of each.
    pub tasks: u32,
    /// GPUs of each task.
    pub gpus_per_task: u32,
    /// GPU-hours of all of them.
    pub gpu_hours: f64,
}

/// What one control plane made of the load. With several seeds these are the figures of the first
/// one; `intervals` has the means of all.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct ProvedPlane {
    /// What it is.
    pub name: String,
    /// Why it is here.
    pub role: ProvedRole,
    /// The change of facts that leads to it, of a runner-up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub change: Option<Changes>,
    /// What stands for it in the simulation, as docs/models.md describes it.
    pub scheduler: String,
    /// Parts of its label that no model has.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub without_model: Vec<String>,
    /// It was interrupted: its figures are about the runs that had ended by then, or what had
    /// happened in the first.
    pub is_partial: bool,
    /// Jobs that ended.
    pub ended: u64,
    /// Jobs that it did not take.
    pub refused: u64,
    /// Jobs that never end, however long one waits.
    pub left: u64,
    /// Seconds from submission to end, of all jobs that were taken; jobs that never end (`left`)
    /// count up to the last instant of any plane with this seed, so where there are any the true
    /// figures are larger.
    pub turnaround_secs: Spread,
    /// Seconds between submission and end in which jobs did not run, before the first start and
    /// after every stop; counted alike.
    pub waited_secs: Spread,
    /// The mean of these of the largest jobs; absent where none of them was taken.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub largest_waited_secs: Option<f64>,
    /// Of the GPU-hours that there are, the percent in which jobs ran.
    pub gpu_use_percent: f64,
    /// GPU-hours in which no job ran.
    pub idle_gpu_hours: f64,
    /// Of them, held by jobs that did not run.
    pub held_idle_gpu_hours: f64,
    /// Of them, free and of use to jobs that waited: see `stranded` in a `FleetComparison`.
    pub stranded_gpu_hours: f64,
    /// GPU-hours of work that were lost when jobs were made to go; they count as used.
    pub lost_gpu_hours: f64,
    /// What the idle GPU-hours cost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idle_cost: Option<f64>,
    /// Means over several seeds; empty with one, and where neither the load nor the control plane
    /// leaves anything to chance. A figure that not every run has is left out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub intervals: Vec<Interval>,
}

impl ProvedPlane {
    /// The figure with this name in [`PROVED`], over all seeds; nothing where it is not known of
    /// each of them.
    #[must_use]
    pub fn figure(&self, name: &str) -> Option<Figure> {
        if !self.intervals.is_empty() {
            return Figure::among(&self.intervals, name);
        }
        let (_, reading) = PROVED.iter().find(|(known, _)| *known == name)?;
        reading(self).map(|value| Figure { value, margin: None })
    }
}

/// How a figure is read; nothing where a run has none.
type Reading = fn(&ProvedPlane) -> Option<f64>;

/// Figures that intervals are made of, by name: where they stand in [`ProvedPlane`], or what they
/// come to.
pub const PROVED: [(&str, Reading); 12] = [
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

/// It took jobs, so that there is something to count.
fn taken(plane: &ProvedPlane) -> bool {
    plane.ended + plane.left > 0
}

/// Why a control plane is among those that are simulated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ProvedRole {
    /// It is what the site was advised to take.
    Advised,
    /// A flip of the advice leads to it.
    RunnerUp,
    /// Neither, but it could be advised to another site.
    Other,
    /// Muster's own engine.
    Muster,
}

/// What figures say of advice.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ProofVerdict {
    /// In a word.
    pub says: ProofSays,
    /// Schedulers of planes that do clearly better than the advised one.
    pub better: Vec<String>,
    /// Schedulers of planes that do clearly worse.
    pub worse: Vec<String>,
}

/// What figures say of advice, in a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ProofSays {
    /// No other plane does clearly better, and one at least does clearly worse.
    Supports,
    /// Another plane does clearly better.
    Contradicts,
    /// No plane does clearly better or worse.
    Neither,
    /// Runs were interrupted: nothing is said.
    Interrupted,
}
