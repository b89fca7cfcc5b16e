//! Converts the nodes of a Slurm cluster. Their resources come from slurm.conf, gres.conf and saved
//! output of the running cluster, their topology domains from topology.conf.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use muster_model::GpuModel;
use muster_model::inventory::{InventoryOptions, ListedNode};

use super::ConfImportError;
use crate::conf::evidence::{ConfRecord, Evidence, TopologySwitch};
use crate::gres;
use crate::init::{ROOT_SWITCH, UNPLACED_SWITCH};
use crate::inventory::{SlurmNodeRow, of_records};

/// Nodes converted from a Slurm configuration.
pub(super) struct ImportedNodes {
    /// Topology levels, widest first.
    pub(super) levels: Vec<Arc<str>>,
    /// Nodes with their notes.
    pub(super) listed: Vec<ListedNode>,
    /// Settings that could not be converted.
    pub(super) lost: Vec<String>,
}

/// Largest number of topology levels in a cluster file.
const MAX_LEVELS: usize = 8;

/// Converts the nodes of a Slurm configuration.
pub(super) fn read(
    evidence: &Evidence,
    levels: &[String],
    gpu: Option<&GpuModel>,
) -> Result<ImportedNodes, ConfImportError> {
    // 1. Convert the nodes, with their partitions if these differ.
    let partitions = partitions(evidence);
    let mut lost = partitions.lost;
    let mut records = Vec::new();
    for (index, entry) in evidence.nodes.iter().enumerate() {
        if entry.get("State").is_some_and(|state| state.to_ascii_uppercase().starts_with("FUTURE"))
        {
            lost.push(format!("{}: State=FUTURE, left out", entry.name));
            continue;
        }
        records.push(record(evidence, entry, index + 1, &partitions.of));
    }
    if records.is_empty() {
        return Err(ConfImportError::NoNodes);
    }
    let options = InventoryOptions { gpu: gpu.cloned(), ..InventoryOptions::default() };
    let mut listed = of_records(&records, &options)?;

    // 2. Assign topology domains.
    let paths = paths(&evidence.switch_tree());
    let depth = paths.values().map(Vec::len).max().unwrap_or(0);
    if depth > MAX_LEVELS {
        lost.push(format!(
            "topology: {depth} levels of switches, but a cluster file has at most {MAX_LEVELS}; left out"
        ));
        return Ok(ImportedNodes { levels: Vec::new(), listed, lost });
    }
    for node in &mut listed {
        let Some(path) = paths.get(node.node.name.as_str()) else { continue };
        // A node on a switch above the leaf level gets that switch as its domain at all levels
        // below.
        let last = path.last().expect("a path ends with the switch of its node");
        let rest = std::iter::repeat_n(last, depth - path.len());
        node.node.domains = path.iter().chain(rest).map(|name| Arc::from(name.as_str())).collect();
    }
    Ok(ImportedNodes { levels: names_of_levels(depth, levels)?, listed, lost })
}

/// Returns the names of the levels: the given ones, or the usual ones for the depth.
fn names_of_levels(depth: usize, given: &[String]) -> Result<Vec<Arc<str>>, ConfImportError> {
    const USUAL: [&[&str]; 4] = [&[], &["leaf"], &["spine", "leaf"], &["core", "spine", "leaf"]];
    if given.is_empty() {
        let usual =
            USUAL.get(depth).map(|names| names.iter().map(|name| Arc::from(*name)).collect());
        return Ok(usual
            .unwrap_or_else(|| (1..=depth).map(|level| format!("level{level}").into()).collect()));
    }
    if given.len() == depth {
        Ok(given.iter().map(|name| Arc::from(name.as_str())).collect())
    } else {
        Err(ConfImportError::Levels { depth, given: given.len() })
    }
}

/// Partitions of each node; empty if all partitions have the same nodes.
struct Partitions {
    of: BTreeMap<String, Vec<String>>,
    lost: Vec<String>,
}

fn partitions(evidence: &Evidence) -> Partitions {
    let mut partitions = Partitions { of: BTreeMap::new(), lost: Vec::new() };
    let mut sets: BTreeSet<BTreeSet<String>> = BTreeSet::new();
    for entry in &evidence.partitions {
        let Some(names) = evidence.nodes_of(entry) else {
            partitions
                .lost
                .push(format!("partition {}: its list of nodes cannot be parsed", entry.name));
            continue;
        };
        for name in &names {
            partitions.of.entry(name.clone()).or_default().push(entry.name.clone());
        }
        sets.insert(names);
    }
    // If all partitions have the same nodes, they are not recorded.
    if sets.len() < 2 {
        partitions.of.clear();
    }
    partitions
}

fn record(
    evidence: &Evidence,
    entry: &ConfRecord,
    row: usize,
    partitions: &BTreeMap<String, Vec<String>>,
) -> SlurmNodeRow {
    let number = |key: &str| entry.get(key).and_then(|text| text.parse::<u64>().ok());
    // `scontrol` prints CPUTot; slurm.conf has CPUs, or sockets, cores and threads.
    let sockets = number("Sockets")
        .or_else(|| Some(number("SocketsPerBoard")? * number("Boards").unwrap_or(1)));
    let made_up = sockets.map(|sockets| {
        sockets * number("CoresPerSocket").unwrap_or(1) * number("ThreadsPerCore").unwrap_or(1)
    });
    let cpus = number("CPUs")
        .or_else(|| number("CPUTot"))
        .or_else(|| number("Procs"))
        .or(made_up)
        .unwrap_or(1);
    let state = entry.get("State").unwrap_or_default().to_ascii_uppercase();
    let is_out = ["DOWN", "DRAIN", "FAIL"].iter().any(|word| state.contains(word));
    let reason = entry.get("Reason").map(|reason| format!(" ({reason})")).unwrap_or_default();
    SlurmNodeRow {
        name: entry.name.clone(),
        cpus,
        memory_mb: number("RealMemory").unwrap_or(0),
        gres: typed(entry.get("Gres").unwrap_or_default(), &evidence.gres_types(&entry.name)),
        features: entry
            .get("Features")
            .or(entry.get("Feature"))
            .or(entry.get("AvailableFeatures"))
            .unwrap_or_default()
            .to_owned(),
        out_of_service: if is_out {
            format!("out of service in Slurm: {}{reason}", state.to_lowercase())
        } else {
            String::new()
        },
        partitions: partitions.get(&entry.name).cloned().unwrap_or_default(),
        row,
    }
}

/// Adds the GPU type of gres.conf to a Gres value of slurm.conf that has none.
fn typed(gres: &str, types: &[String]) -> String {
    let [kind] = types else { return gres.to_owned() };
    let part = |part: &str| {
        let words: Vec<&str> = part.split('(').next().unwrap_or_default().split(':').collect();
        match words.as_slice() {
            ["gpu"] => format!("gpu:{kind}:1"),
            ["gpu", count] if count.bytes().all(|byte| byte.is_ascii_digit()) => {
                format!("gpu:{kind}:{count}")
            }
            _ => part.to_owned(),
        }
    };
    gres::split(gres).into_iter().map(part).collect::<Vec<_>>().join(",")
}

/// Returns the switches above each node, widest first, without the root switch that `muster init
/// slurm` adds to join all others.
fn paths(tree: &[TopologySwitch]) -> BTreeMap<String, Vec<String>> {
    let parent =
        |name: &str| tree.iter().find(|switch| switch.switches.iter().any(|below| below == name));
    let mut paths = BTreeMap::new();
    for leaf in
        tree.iter().filter(|switch| !switch.nodes.is_empty() && switch.name != UNPLACED_SWITCH)
    {
        let mut path = vec![leaf.name.clone()];
        // Stop at a cycle.
        while let Some(above) = parent(&path[path.len() - 1])
            .filter(|above| above.name != ROOT_SWITCH && !path.contains(&above.name))
        {
            path.push(above.name.clone());
        }
        path.reverse();
        for node in &leaf.nodes {
            paths.entry(node.clone()).or_insert_with(|| path.clone());
        }
    }
    paths
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_only_type_of_gres_conf_is_that_of_untyped_gpus() {
        let check = |gres: &str, expected: &str| {
            assert_eq!(typed(gres, &["h100".to_owned()]), expected, "{gres}");
        };
        check("gpu", "gpu:h100:1");
        check("gpu:8", "gpu:h100:8");
        check("gpu:8(S:0,1),shard:32", "gpu:h100:8,shard:32");
        check("gpu:a100:8(S:0-1)", "gpu:a100:8(S:0-1)");
        assert_eq!(typed("gpu:8", &[]), "gpu:8");
    }
}
