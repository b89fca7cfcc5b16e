//! Site profile: facts, GPU models, the mix of workloads, and overridden thresholds. Parsed and
//! checked by `spec`.

use std::sync::Arc;

use super::{Facts, Thresholds};
use crate::node::GpuModel;

/// Content of a site file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SiteProfile {
    /// Facts about fleet, people and needs.
    pub facts: Facts,
    /// GPU models of the fleet, in the order of the file.
    pub models: Vec<GpuModel>,
    /// Kinds of work, in the order of the file.
    pub mix: Vec<MixEntry>,
    /// Thresholds of the rules, with the site's overrides.
    pub thresholds: Thresholds,
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
