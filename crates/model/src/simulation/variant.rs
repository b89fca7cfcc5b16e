//! Variants of a site that one simulation compares, and how their results differ. Values only.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Cluster with its queues, one of several on which the same jobs are replayed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SiteVariant {
    /// Name of the variant, made from the names of its files.
    pub name: String,
    /// Path of the cluster file as the user gave it.
    pub cluster: String,
    /// Path of the queue file as the user gave it; `None` means one queue without limits.
    pub queues: Option<String>,
    /// Nodes added to those of the cluster file; `None` when there are none.
    pub added: Option<AddedNodes>,
    /// Number of nodes, with those that were added.
    pub nodes: u64,
    /// Number of GPUs, or of CPUs when no node has a GPU.
    pub size: f64,
    /// Jobs of the trace that not even this cluster can host when it is idle. They are left out of
    /// all variants.
    pub too_large: u64,
    /// Jobs of the trace that this cluster can host, left out because another variant cannot.
    pub left_out: u64,
    /// Share, from 0 to 1, of their GPU time (GPUs × runtime; CPUs when no node has a GPU) in that
    /// of all jobs that this cluster can host.
    #[serde(default)]
    pub left_out_share: f64,
    /// Jobs whose queue does not exist in this variant; they use its default queue.
    pub strangers: u64,
    /// Hours of GPUs, or CPUs, of the cluster from the first submission to the last instant of any
    /// run that was not interrupted: the same period for all variants.
    pub capacity_hours: f64,
}

/// Nodes that a variant has more than its cluster file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AddedNodes {
    /// Number of added nodes.
    pub nodes: u64,
    /// Name of the existing node that they equal.
    pub like: String,
    /// Number of GPUs of each.
    pub gpus: u64,
    /// Model of the GPUs; `None` when the node has none.
    pub model: Option<String>,
}

/// Difference of a variant to the first one, under the same scheduler.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct VariantDifference {
    /// Name of the scheduler.
    pub scheduler: String,
    /// Name of the variant.
    pub variant: String,
    /// Name of the first variant.
    pub first: String,
    /// Mean seconds from submission to end.
    pub turnaround_secs: FigureChange,
    /// Mean seconds in which jobs were pending.
    pub waited_secs: FigureChange,
    /// GPU-hours, or CPU-hours, that were idle although pending jobs could have used them.
    pub stranded_hours: FigureChange,
    /// GPU-hours, or CPU-hours, of the cluster in the same period.
    pub capacity_hours: FigureChange,
    /// Jobs that the scheduler refused: these are in no mean.
    pub refused: JobsChange,
    /// Jobs that never ended: these count up to the horizon, so means are lower bounds.
    pub left: JobsChange,
}

/// A figure in the first variant and in another.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FigureChange {
    /// Value in the first variant.
    pub first: f64,
    /// Value in this variant.
    pub here: f64,
    /// Half width of the 95 % confidence interval (Student's t) of the difference, from its values
    /// seed by seed; `None` with one seed.
    #[serde(default)]
    pub margin: Option<f64>,
    /// True when the difference does not exceed this margin.
    pub may_be_chance: bool,
}

/// A number of jobs in the first variant and in another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct JobsChange {
    /// Number in the first variant.
    pub first: u64,
    /// Number in this variant.
    pub here: u64,
}
