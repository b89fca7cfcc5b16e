//! Conversion of a Slurm cluster to nodes and queues: its configuration with gres.conf and
//! topology.conf, and its accounts. Settings that neither a cluster file nor a queue file can
//! express are listed, never dropped silently.

mod nodes;
mod queues;

use std::sync::Arc;

use muster_model::inventory::{InventoryError, ListedNode};
use muster_model::{GpuModel, QueueTree};

use crate::conf::evidence::Evidence;
use crate::conf::source::{CheckSource, SourceKind};
use crate::init::LEVELS;
use crate::sacctmgr::AccountingDump;

/// Number of accounts that are listed by name; the others are counted.
const LISTED: usize = 5;

/// Nodes and queues of a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImportedCluster {
    /// Topology levels, widest first.
    pub levels: Vec<Arc<str>>,
    /// Nodes with their notes.
    pub nodes: Vec<ListedNode>,
    /// Queue tree, with one leaf per account.
    pub queues: QueueTree,
    /// Settings that could not be converted.
    pub lost: Vec<String>,
}

/// Reason why a cluster cannot be converted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfImportError {
    /// The configuration defines no nodes.
    #[error("no NodeName line was found")]
    NoNodes,
    /// A node cannot be described in a cluster file.
    #[error(transparent)]
    Node(#[from] InventoryError),
    /// The names of the levels do not fit topology.conf.
    #[error("topology.conf has {depth} levels of switches, but --levels names {given}")]
    Levels {
        /// Number of levels in topology.conf.
        depth: usize,
        /// Levels that `--levels` names.
        given: usize,
    },
}

impl ConfImportError {
    /// Returns the next step, if there is one.
    #[must_use]
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::NoNodes => Some(
                "name the folder with slurm.conf and the files that it includes, or saved output of `scontrol show node -o -d`",
            ),
            Self::Node(_) => None,
            Self::Levels { .. } => {
                Some("name them from the widest to the narrowest: --levels spine,leaf")
            }
        }
    }
}

/// Converts a cluster. Without names in `levels`, those that `muster init slurm` wrote are used, or
/// the usual ones; `gpu` is the model of GPUs whose type is in no file.
///
/// # Errors
/// See [`ConfImportError`].
pub fn import(
    sources: &[CheckSource],
    entered: &AccountingDump,
    levels: &[String],
    gpu: Option<&GpuModel>,
) -> Result<ImportedCluster, ConfImportError> {
    // 1. Convert nodes and queues.
    let evidence = Evidence::of(sources);
    let levels = if levels.is_empty() { written_levels(sources) } else { levels.to_vec() };
    let found = nodes::read(&evidence, &levels, gpu)?;
    let devices = found.listed.iter().flat_map(|listed| &listed.node.devices);
    let mut models: Vec<GpuModel> = devices.map(|device| device.model.clone()).collect();
    models.sort();
    models.dedup();
    let made = queues::read(&evidence, entered, &models);

    // 2. Collect what cannot be expressed.
    let mut lost = found.lost;
    lost.extend(made.lost);
    let missing = evidence.missing.iter();
    lost.extend(missing.map(|file| format!("{file}, which slurm.conf includes, was not found")));
    lost.extend(entered.unread.iter().map(|(what, of)| not_converted(what, of)));
    if entered.is_flat {
        lost.push("the table of accounts has no parents, so all are at the top; `sacctmgr -P show assoc format=Account,ParentName,User,Share,…` includes them".to_owned());
    }
    Ok(ImportedCluster { levels: found.levels, nodes: found.listed, queues: made.tree, lost })
}

/// Returns a message that a setting is not converted, and for which accounts.
fn not_converted(what: &str, of: &[String]) -> String {
    let more = of.len().saturating_sub(LISTED);
    let shown = of.iter().take(LISTED).map(String::as_str).collect::<Vec<_>>().join(", ");
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("{what} has no counterpart: {shown}{more}")
}

/// Returns the level names that `muster init slurm` wrote to a comment of topology.conf, which has
/// no syntax for them.
fn written_levels(sources: &[CheckSource]) -> Vec<String> {
    let topology = sources.iter().filter(|source| source.kind == SourceKind::TopologyConf);
    let line =
        topology.flat_map(|source| source.text.lines()).find_map(|line| line.strip_prefix(LEVELS));
    line.map(|names| names.split(", ").map(|name| name.trim().to_owned()).collect())
        .unwrap_or_default()
}
