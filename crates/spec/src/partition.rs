//! Partition of a cluster into two pools: batch (Slurm) and services (Kubernetes). Every node is
//! moved into one of them, so that none can be in both. Only the choice of nodes is made here.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use muster_model::NodeSpec;

use crate::cluster::Cluster;
use crate::names::expand_names;
use crate::quantity::Malformed;
use crate::suggest::nearest;

/// Selection of the nodes for services.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServiceNodes {
    /// This many nodes, chosen to split the fewest topology domains.
    Count(usize),
    /// The named nodes, as a list such as `node[01-02],node07`.
    Names(String),
    /// All nodes with this label.
    Label {
        /// Name of the label.
        name: String,
        /// Value of the label.
        value: String,
    },
}

/// The two pools of a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterPartition {
    /// Pool for Slurm; nodes in the order of the cluster.
    pub batch: Cluster,
    /// Pool for Kubernetes; nodes in the order of the cluster.
    pub services: Cluster,
    /// Topology domains with nodes in both pools, as level and domain, widest level first.
    pub broken: Vec<(Arc<str>, Arc<str>)>,
}

/// Reason for which a cluster cannot be partitioned as requested.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PartitionError {
    /// No node would be left for batch.
    #[error("{chosen} of {nodes} nodes for services leaves none for batch; at most {most} can be chosen", most = nodes.saturating_sub(1))]
    NoBatch {
        /// Number of nodes asked for.
        chosen: usize,
        /// Number of nodes of the cluster.
        nodes: usize,
    },
    /// No node would be left for services.
    #[error(
        "0 of {nodes} nodes are for services; at least 1 is needed, else there is nothing to partition"
    )]
    NoServices {
        /// Number of nodes of the cluster.
        nodes: usize,
    },
    /// The text is no list of nodes.
    #[error("`{list}` is not a list of nodes: {why}")]
    Names {
        /// The list as written.
        list: String,
        /// Reason for which it is malformed.
        why: Malformed,
    },
    /// The cluster has no node with this name.
    #[error("the cluster has no node `{name}`{}", near.as_ref().map(|near| format!("; did you mean `{near}`?")).unwrap_or_default())]
    UnknownNode {
        /// The name as written.
        name: String,
        /// Nearest name of a node, if any is similar.
        near: Option<String>,
    },
    /// No node has that label.
    #[error("none of {nodes} nodes has the label `{name}: {value}`{}", known.as_ref().map(|known| format!("; they have {known}")).unwrap_or_default())]
    UnknownLabel {
        /// Name of the label.
        name: String,
        /// Value of the label.
        value: String,
        /// Number of nodes of the cluster.
        nodes: usize,
        /// Existing values of that label with their numbers of nodes, else the existing labels.
        known: Option<String>,
    },
}

/// Splits a cluster into two pools, each in the order of the cluster.
///
/// # Errors
/// See [`PartitionError`]; each pool has at least one node.
pub fn partition(
    cluster: Cluster,
    choice: &ServiceNodes,
) -> Result<ClusterPartition, PartitionError> {
    // 1. Choose the nodes.
    let nodes = cluster.nodes.len();
    let chosen = match choice {
        ServiceNodes::Count(count) => {
            in_bounds(*count, nodes)?;
            choose(&cluster, *count)
        }
        ServiceNodes::Names(list) => named(&cluster, list)?,
        ServiceNodes::Label { name, value } => labelled(&cluster, name, value)?,
    };
    in_bounds(chosen.len(), nodes)?;

    // 2. Move each out of the cluster: a value cannot be moved twice.
    let mut left: Vec<Option<NodeSpec>> = cluster.nodes.into_iter().map(Some).collect();
    let services: Vec<NodeSpec> =
        chosen.iter().filter_map(|index| left.get_mut(*index)?.take()).collect();
    let batch: Vec<NodeSpec> = left.into_iter().flatten().collect();

    // 3. Domains that are split.
    let broken = broken(&cluster.levels, &batch, &services);
    Ok(ClusterPartition {
        batch: Cluster { levels: cluster.levels.clone(), nodes: batch },
        services: Cluster { levels: cluster.levels, nodes: services },
        broken,
    })
}

fn in_bounds(chosen: usize, nodes: usize) -> Result<(), PartitionError> {
    match chosen {
        0 => Err(PartitionError::NoServices { nodes }),
        _ if chosen >= nodes => Err(PartitionError::NoBatch { chosen, nodes }),
        _ => Ok(()),
    }
}

fn named(cluster: &Cluster, list: &str) -> Result<BTreeSet<usize>, PartitionError> {
    let names =
        expand_names(list).map_err(|why| PartitionError::Names { list: list.to_owned(), why })?;
    let known: BTreeMap<&str, usize> =
        cluster.nodes.iter().enumerate().map(|(index, node)| (node.name.as_str(), index)).collect();
    let index = |name: String| match known.get(name.as_str()) {
        Some(index) => Ok(*index),
        None => {
            let near = nearest(&name, known.keys().copied()).map(str::to_owned);
            Err(PartitionError::UnknownNode { name, near })
        }
    };
    names.into_iter().map(index).collect()
}

fn labelled(cluster: &Cluster, name: &str, value: &str) -> Result<BTreeSet<usize>, PartitionError> {
    let has = |node: &NodeSpec| node.labels.get(name).is_some_and(|found| **found == *value);
    let chosen: BTreeSet<usize> = cluster
        .nodes
        .iter()
        .enumerate()
        .filter(|(_, node)| has(node))
        .map(|(index, _)| index)
        .collect();
    if !chosen.is_empty() {
        return Ok(chosen);
    }
    let mut values: BTreeMap<String, usize> = BTreeMap::new();
    let mut names = BTreeSet::new();
    for (label, value) in cluster.nodes.iter().flat_map(|node| &node.labels) {
        names.insert(format!("`{label}`"));
        if **label == *name {
            *values.entry(format!("`{label}: {value}`")).or_default() += 1;
        }
    }
    let list = |words: Vec<String>| (!words.is_empty()).then(|| words.join(", "));
    let known =
        list(values.into_iter().map(|(label, count)| format!("{label} ({count})")).collect())
            .or_else(|| {
                list(names.into_iter().collect()).map(|names| format!("the labels {names}"))
            });
    let name = name.to_owned();
    let value = value.to_owned();
    Err(PartitionError::UnknownLabel { name, value, nodes: cluster.nodes.len(), known })
}

/// Returns the domains with nodes in both pools.
fn broken(
    levels: &[Arc<str>],
    batch: &[NodeSpec],
    services: &[NodeSpec],
) -> Vec<(Arc<str>, Arc<str>)> {
    let domains = |nodes: &[NodeSpec], level: usize| -> BTreeSet<Arc<str>> {
        nodes.iter().filter_map(|node| node.domains.get(level).cloned()).collect()
    };
    let of_level = |(index, level): (usize, &Arc<str>)| {
        let both: Vec<_> =
            domains(batch, index).intersection(&domains(services, index)).cloned().collect();
        both.into_iter().map(|domain| (Arc::clone(level), domain)).collect::<Vec<_>>()
    };
    levels.iter().enumerate().flat_map(of_level).collect()
}

/// A domain with its contents, or a node by index.
enum Tree {
    Node(usize),
    Domain { level: usize, size: usize, inside: Vec<Tree> },
}

/// Cost of a split domain, before its level is added: the number of split domains decides, and
/// among equals narrower ones are avoided, since gangs are placed in them.
const BROKEN: u64 = 1 << 32;

/// Chooses `count` nodes such that the fewest domains are split: whole domains if they add up, and
/// among equals ([`BROKEN`]) the last of the file. A knapsack over the tree of domains; its cost is
/// nodes × chosen at worst.
fn choose(cluster: &Cluster, count: usize) -> BTreeSet<usize> {
    let inside = trees(cluster, &(0..cluster.nodes.len()).collect::<Vec<_>>(), 0);
    let mut chosen = BTreeSet::new();
    take_from(&inside, count, &mut chosen);
    chosen
}

/// Returns the domains of one level, in order of first occurrence, with nodes without a domain
/// beside them.
fn trees(cluster: &Cluster, nodes: &[usize], level: usize) -> Vec<Tree> {
    let mut groups: Vec<(Option<&Arc<str>>, Vec<usize>)> = Vec::new();
    let mut places: BTreeMap<&Arc<str>, usize> = BTreeMap::new();
    for index in nodes {
        let domain = cluster.nodes[*index].domains.get(level);
        match domain.and_then(|domain| places.get(domain)) {
            Some(place) => groups[*place].1.push(*index),
            None => {
                places.extend(domain.map(|domain| (domain, groups.len())));
                groups.push((domain, vec![*index]));
            }
        }
    }
    let tree = |(domain, nodes): (Option<&Arc<str>>, Vec<usize>)| match domain {
        Some(_) => {
            Tree::Domain { level, size: nodes.len(), inside: trees(cluster, &nodes, level + 1) }
        }
        None => Tree::Node(nodes[0]),
    };
    groups.into_iter().map(tree).collect()
}

impl Tree {
    /// Returns the least cost of split domains, by number of nodes taken, up to a limit.
    fn costs(&self, limit: usize) -> Vec<u64> {
        let Self::Domain { level, size, inside } = self else { return vec![0; 1 + limit.min(1)] };
        let mut costs = sums(inside, limit).pop().unwrap_or_default();
        let breaks = costs.iter_mut().enumerate().filter(|(taken, _)| *taken > 0 && taken != size);
        breaks.for_each(|(_, cost)| *cost += BROKEN + *level as u64);
        costs
    }
}

/// Returns the combined costs of the trees up to each one; the first entry is that of taking none.
fn sums(trees: &[Tree], limit: usize) -> Vec<Vec<u64>> {
    let mut sums = vec![vec![0]];
    for tree in trees {
        let before = &sums[sums.len() - 1];
        let costs = tree.costs(limit);
        let mut after = vec![u64::MAX; (before.len() + costs.len() - 1).min(limit + 1)];
        for (taken, cost) in before.iter().enumerate() {
            for (more, extra) in costs.iter().enumerate().take((limit + 1).saturating_sub(taken)) {
                let both = &mut after[taken + more];
                *both = (*both).min(cost + extra);
            }
        }
        sums.push(after);
    }
    sums
}

/// Takes `count` nodes at the least cost, starting with the last tree.
fn take_from(trees: &[Tree], count: usize, chosen: &mut BTreeSet<usize>) {
    let sums = sums(trees, count);
    let mut rest = count;
    for (tree, (before, after)) in trees.iter().zip(sums.iter().zip(&sums[1..])).rev() {
        let costs = tree.costs(rest);
        let fits = |taken: &usize| {
            before.get(rest - taken).is_some_and(|cost| cost + costs[*taken] == after[rest])
        };
        let taken = (0..costs.len()).rev().find(fits).expect("the sum was made of one of these");
        match tree {
            Tree::Node(index) if taken == 1 => drop(chosen.insert(*index)),
            Tree::Domain { inside, .. } if taken > 0 => take_from(inside, taken, chosen),
            _ => {}
        }
        rest -= taken;
    }
}
