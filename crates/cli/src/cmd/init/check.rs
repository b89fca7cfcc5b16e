//! Checks that the files of a boundary are consistent: no node in both pools, in neither, or
//! partially moved. The files may have been edited by hand.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::Result;
use muster_kubernetes as kubernetes;
use muster_slurm::pool;
use muster_spec::{expand_names, parse_cluster};

use super::boundary::{ALL, BATCH, KUBERNETES, SERVICES, SLURM_GRES, SLURM_NODES};
use crate::exit::Failure;
use crate::source;

/// Contents of the files, by file name.
pub type Texts = BTreeMap<&'static str, String>;

/// Files that are checked.
pub const FILES: [&str; 6] = [ALL, BATCH, SERVICES, SLURM_NODES, SLURM_GRES, KUBERNETES];
/// Largest file in bytes that is read: enough for as many nodes as a cluster file can hold.
const MAX_BYTES: u64 = 64 << 20;

/// Files that name a node of the batch pool.
const OF_BATCH: [&str; 2] = [BATCH, SLURM_NODES];
/// Files that name a node of the services pool.
const OF_SERVICES: [&str; 2] = [SERVICES, KUBERNETES];

/// Reads the files of a directory.
pub fn read(dir: &Path) -> Result<Texts> {
    let mut texts = Texts::new();
    for name in FILES {
        let path = dir.join(name);
        if path.symlink_metadata().is_err() {
            return Err(Failure::new(format!("{} does not exist", path.display()))
                .hint("`muster init hybrid --cluster cluster.yaml --services N -o DIR` writes the files of a boundary")
                .into());
        }
        texts.insert(name, source::text(&path, MAX_BYTES)?.1);
    }
    Ok(texts)
}

/// Returns the findings, one line per node, ordered by name.
pub fn findings(texts: &Texts) -> Result<Vec<String>> {
    // 1. Collect the files that name each node.
    let mut findings = Vec::new();
    let mut named: BTreeMap<String, BTreeSet<&'static str>> = BTreeMap::new();
    for (file, text) in texts {
        let mut once = BTreeSet::new();
        for node in nodes_of(file, text)? {
            if !once.insert(node.clone()) && *file != SLURM_GRES {
                findings.push(format!("{node} is listed twice in {file}"));
            }
            named.entry(node).or_default().insert(file);
        }
    }

    // 2. Check each node.
    for (node, files) in &named {
        let of = |pool: &[&'static str]| -> Vec<&'static str> {
            pool.iter().copied().filter(|file| files.contains(file)).collect()
        };
        let batch = of(&OF_BATCH);
        let services = of(&OF_SERVICES);
        let all_of = |found: &[&str], pool: &[&str]| -> Option<String> {
            let missing: Vec<&str> =
                pool.iter().copied().filter(|file| !found.contains(file)).collect();
            (!missing.is_empty()).then(|| {
                format!(
                    "{node} is partially moved: in {}, missing in {}",
                    found.join(", "),
                    missing.join(", ")
                )
            })
        };
        match (batch.is_empty(), services.is_empty()) {
            (false, false) => findings.push(format!(
                "{node} is in both pools: batch in {}, services in {}",
                batch.join(", "),
                services.join(", ")
            )),
            (true, true) if files.contains(ALL) => {
                findings.push(format!("{node} is in neither pool"))
            }
            (true, true) => {}
            (false, true) => findings.extend(all_of(&batch, &OF_BATCH)),
            (true, false) => findings.extend(all_of(&services, &OF_SERVICES)),
        }
        if batch.is_empty() && files.contains(SLURM_GRES) {
            findings.push(format!("{node} has GPUs in {SLURM_GRES} but is not in the batch pool"));
        }
        if !files.contains(ALL) {
            let files: Vec<&str> = files.iter().copied().collect();
            findings.push(format!("{node} is in {} but not in {ALL}", files.join(", ")));
        }
    }
    Ok(findings)
}

/// Returns the nodes that a file names, in order.
fn nodes_of(file: &'static str, text: &str) -> Result<Vec<String>> {
    let lists = match file {
        SLURM_NODES | SLURM_GRES => pool::node_lists(text),
        KUBERNETES => return Ok(kubernetes::pool::labelled(text)),
        _ => {
            let cluster = parse_cluster(text, Some(file)).map_err(Failure::from)?;
            return Ok(cluster.nodes.iter().map(|node| node.name.to_string()).collect());
        }
    };
    let mut nodes = Vec::new();
    for list in lists {
        nodes.extend(expand(&list).map_err(|why| Failure::new(format!("{file}: {why}")))?);
    }
    Ok(nodes)
}

/// Expands a host list in Slurm's notation.
fn expand(list: &str) -> Result<Vec<String>, String> {
    expand_names(list).map_err(|error| format!("`{list}`: {error}"))
}
