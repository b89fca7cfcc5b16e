//! A site as it describes itself: facts, GPU models, the mix of its work, and its own thresholds.
//! Checked by `spec`.

use std::sync::Arc;

use super::{Facts, Thresholds};
use crate::node::GpuModel;

/// What a site file says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SiteProfile {
    /// Facts about fleet, people and needs.
    pub facts: Facts,
    /// GPU models of the fleet, in the order of the file.
    pub models: Vec<GpuModel>,
    /// Kinds of work, in the order of the file.
    pub mix: Vec<MixEntry>,
    /// Numbers in rules, the site's own where it says so.
    pub thresholds: Thresholds,
}

/// One kind of work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MixEntry {
    /// What the site calls it.
    pub name: Arc<str>,
    /// Part of the fleet's GPU-hours, in percent, when the site knows.
    pub share_percent: Option<u32>,
    /// Facts of this work.
    pub facts: Facts,
}
