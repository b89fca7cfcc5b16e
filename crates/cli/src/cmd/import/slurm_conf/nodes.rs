//! Nodes of a Slurm cluster as a cluster file has them. What they have comes from slurm.conf,
//! gres.conf and, where it was given, the running cluster; where they hang from topology.conf.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use anyhow::Result;
use muster_backends::inventory::{Listed, Options};
use muster_backends::slurm::init::{ROOT_SWITCH, UNPLACED_SWITCH};
use muster_backends::slurm::nodes::{Record, of_records};
use muster_doctor::{Entry, Evidence, Switch};
use muster_model::GpuModel;

use crate::exit::{Failure, USAGE};

/// What is known of the nodes.
pub struct Nodes {
    /// Topology levels, widest first.
    pub levels: Vec<Arc<str>>,
    /// Each with its notes.
    pub listed: Vec<Listed>,
    /// What could not be mapped.
    pub lost: Vec<String>,
}

/// Deepest tree of switches that a cluster file can say.
const MAX_LEVELS: usize = 8;

/// Reads them.
pub fn read(evidence: &Evidence, levels: &[String], gpu: Option<&GpuModel>) -> Result<Nodes> {
    // 1. Nodes, with the partition that tells one from another.
    let partitions = partitions(evidence);
    let mut lost = partitions.lost;
    let mut records = Vec::new();
    for (index, entry) in evidence.node_entries().enumerate() {
        if entry.get("State").is_some_and(|state| state.to_ascii_uppercase().starts_with("FUTURE"))
        {
            lost.push(format!("{}: a node of the future is left out", entry.name()));
            continue;
        }
        records.push(record(evidence, entry, index + 1, &partitions.of));
    }
    if records.is_empty() {
        return Err(Failure::usage("no NodeName line was found")
            .hint("name the folder with slurm.conf and the files that it includes, or saved output of `scontrol show node -o -d`")
            .into());
    }
    let options = Options { gpu: gpu.cloned(), ..Options::default() };
    let refused = |error| Failure { code: USAGE, ..Failure::new(format!("{error}")) };
    let mut listed = of_records(&records, &options).map_err(refused)?;

    // 2. Where they hang.
    let tree = evidence.switch_tree();
    let paths = tree.as_deref().map(paths).unwrap_or_default();
    let depth = paths.values().map(Vec::len).max().unwrap_or(0);
    if depth > MAX_LEVELS {
        lost.push(format!(
            "topology: {depth} levels of switches, and a cluster file has at most {MAX_LEVELS}; left out"
        ));
        return Ok(Nodes { levels: Vec::new(), listed, lost });
    }
    for node in &mut listed {
        let Some(path) = paths.get(node.node.name.as_str()) else { continue };
        // A node that hangs higher than others stands in a domain of its own switch at each level
        // below.
        let last = path.last().expect("a path ends with the switch of its node");
        let rest = std::iter::repeat_n(last, depth - path.len());
        node.node.domains = path.iter().chain(rest).map(|name| Arc::from(name.as_str())).collect();
    }
    Ok(Nodes { levels: names_of_levels(depth, levels)?, listed, lost })
}

/// How levels are called: as was said, or by what they usually are.
fn names_of_levels(depth: usize, given: &[String]) -> Result<Vec<Arc<str>>> {
    const USUAL: [&[&str]; 4] = [&[], &["leaf"], &["spine", "leaf"], &["core", "spine", "leaf"]];
    if given.is_empty() {
        let usual =
            USUAL.get(depth).map(|names| names.iter().map(|name| Arc::from(*name)).collect());
        return Ok(usual
            .unwrap_or_else(|| (1..=depth).map(|level| format!("level{level}").into()).collect()));
    }
    match given.len() == depth {
        true => Ok(given.iter().map(|name| Arc::from(name.as_str())).collect()),
        false => Err(Failure::usage(format!(
            "topology.conf has {depth} levels of switches, and --levels names {}",
            given.len()
        ))
        .hint("name them from the widest to the narrowest: --levels spine,leaf")
        .into()),
    }
}

/// Partitions of each node, as far as they tell nodes apart.
struct Partitions {
    of: BTreeMap<String, Vec<String>>,
    lost: Vec<String>,
}

fn partitions(evidence: &Evidence) -> Partitions {
    let mut partitions = Partitions { of: BTreeMap::new(), lost: Vec::new() };
    let mut sets: BTreeSet<Vec<String>> = BTreeSet::new();
    for entry in evidence.partition_entries() {
        let Some(mut names) = evidence.partition_nodes(entry) else {
            partitions
                .lost
                .push(format!("partition {}: its list of nodes is not understood", entry.name()));
            continue;
        };
        for name in &names {
            partitions.of.entry(name.clone()).or_default().push(entry.name().to_owned());
        }
        names.sort();
        sets.insert(names);
    }
    // Where all have the same nodes, being in one says nothing.
    if sets.len() < 2 {
        partitions.of.clear();
    }
    partitions
}

fn record(
    evidence: &Evidence,
    entry: Entry<'_>,
    row: usize,
    partitions: &BTreeMap<String, Vec<String>>,
) -> Record {
    let number = |key: &str| entry.get(key).and_then(|text| text.parse::<u64>().ok());
    // `scontrol` prints CPUTot; slurm.conf has CPUs, or what makes them up.
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
    Record {
        name: entry.name().to_owned(),
        cpus,
        memory_mb: number("RealMemory").unwrap_or(0),
        gres: typed(entry.get("Gres").unwrap_or_default(), &evidence.gres_types(entry.name())),
        features: entry
            .get("Features")
            .or(entry.get("Feature"))
            .or(entry.get("AvailableFeatures"))
            .unwrap_or_default()
            .to_owned(),
        out_of_service: match is_out {
            true => format!("out of service in Slurm: {}{reason}", state.to_lowercase()),
            false => String::new(),
        },
        partitions: partitions.get(entry.name()).cloned().unwrap_or_default(),
        row,
    }
}

/// Where slurm.conf names no type of GPU and gres.conf names one, that is what they are.
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
    gres.split(',').map(part).collect::<Vec<_>>().join(",")
}

/// Switches above each node, widest first. The switch that only joins all others is none that says
/// anything.
fn paths(tree: &[Switch]) -> BTreeMap<String, Vec<String>> {
    let parent =
        |name: &str| tree.iter().find(|switch| switch.switches.iter().any(|below| below == name));
    let mut paths = BTreeMap::new();
    for leaf in
        tree.iter().filter(|switch| !switch.nodes.is_empty() && switch.name != UNPLACED_SWITCH)
    {
        let mut path = vec![leaf.name.clone()];
        // Switches that are above each other end at some depth.
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
