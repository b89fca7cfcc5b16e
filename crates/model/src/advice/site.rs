//! Site profile: facts, GPU models, the mix of workloads, overridden thresholds, and the clusters of
//! kinds of jobs. Parsed and checked by `spec`.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{Fact, Facts, Thresholds, WorkKind};
use crate::cluster_name::ClusterName;
use crate::node::GpuModel;

/// Content of a site file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SiteProfile {
    /// Facts about fleet, people and needs.
    pub facts: Facts,
    /// GPU models of the fleet, in the order of the file.
    pub models: Vec<GpuModel>,
    /// Number of nodes with GPUs of each model; empty when the file does not give it.
    pub nodes_by_model: BTreeMap<GpuModel, u32>,
    /// Needs that the file states, in its order. Implied ones are not among them.
    pub stated: Vec<Fact>,
    /// Kinds of work, in the order of the file.
    pub mix: Vec<MixEntry>,
    /// Thresholds of the rules, with the site's overrides.
    pub thresholds: Thresholds,
    /// Clusters that the site chose for kinds of jobs.
    pub clusters: BTreeMap<WorkKind, ClusterName>,
}

/// Kind of work in the mix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MixEntry {
    /// Name of the kind in the site file.
    pub name: Arc<str>,
    /// Percentage of the fleet's GPU-hours; `None` when the site does not give it.
    pub share_percent: Option<u32>,
    /// Facts about this kind of work.
    pub facts: Facts,
}
