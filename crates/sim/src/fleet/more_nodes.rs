//! Nodes added to a cluster, each equal to one that exists: the last node, or the last one with
//! GPUs of a given model. Names and racks of the new nodes are their own.

use std::collections::BTreeSet;
use std::sync::Arc;

use muster_model::{GpuModel, NodeSpec};

/// Kind and number of nodes to add.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MoreNodes {
    /// Number of nodes to add.
    pub count: u32,
    /// Model of their GPUs; `None`: as the last node.
    pub model: Option<GpuModel>,
    /// Number of GPUs of each, if the model is given; `None`: any.
    pub gpus: Option<u32>,
}

/// Error of nodes that equal none of the cluster.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no node of the cluster is of that kind; its nodes are {known}")]
pub struct NoSuchNode {
    /// Kinds of the existing nodes.
    pub known: String,
}

/// Returns the nodes of a cluster with more of them, and the existing node that these equal. Where
/// nodes have topology domains, the new ones are together in a domain of the narrowest level of
/// their own.
///
/// # Errors
/// The cluster has no such node.
pub fn more_nodes(
    nodes: &[NodeSpec],
    more: &MoreNodes,
) -> Result<(Vec<NodeSpec>, NodeSpec), NoSuchNode> {
    let is_meant = |node: &&NodeSpec| match &more.model {
        None => true,
        Some(model) => {
            let count = node.devices.iter().filter(|device| device.model == *model).count();
            count > 0 && more.gpus.is_none_or(|gpus| gpus as usize == count)
        }
    };
    let like =
        nodes.iter().rev().find(is_meant).ok_or_else(|| NoSuchNode { known: kinds(nodes) })?;
    let mut template = like.clone();
    if let Some(narrowest) = template.domains.last_mut() {
        let taken: BTreeSet<&str> =
            nodes.iter().filter_map(|node| node.domains.last()).map(AsRef::as_ref).collect();
        *narrowest = unused(&taken, "new").into();
    }
    let taken: BTreeSet<&str> = nodes.iter().map(|node| node.name.as_str()).collect();
    let mut all = nodes.to_vec();
    let names = (1..).map(|number| format!("new-{number}"));
    let names = names.filter(|name| !taken.contains(name.as_str()));
    let added = names.take(more.count as usize);
    all.extend(added.map(|name| NodeSpec { name: name.as_str().into(), ..template.clone() }));
    Ok((all, like.clone()))
}

/// Returns a name that is not taken.
fn unused(taken: &BTreeSet<&str>, name: &str) -> String {
    let numbered = (2..).map(|number| format!("{name}-{number}"));
    let mut names = std::iter::once(name.to_owned()).chain(numbered);
    names.find(|name| !taken.contains(name.as_str())).expect("some number is not taken")
}

/// Returns the kinds of nodes in words: `h100:8, a100:4`.
fn kinds(nodes: &[NodeSpec]) -> String {
    let kind = |node: &NodeSpec| {
        let models: Vec<Arc<str>> =
            node.devices.iter().map(|device| Arc::clone(&device.model.0)).collect();
        let distinct: BTreeSet<&Arc<str>> = models.iter().collect();
        let part = |model: &&Arc<str>| {
            let count = models.iter().filter(|other| other == model).count();
            format!("{model}:{count}")
        };
        if distinct.is_empty() {
            return "without a GPU".to_owned();
        }
        distinct.iter().map(part).collect::<Vec<_>>().join(" and ")
    };
    let kinds: BTreeSet<String> = nodes.iter().map(kind).collect();
    kinds.into_iter().collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use muster_model::{Bytes, CpuMilli, Device};

    use super::*;

    fn node(name: &str, model: &str, gpus: usize, rack: &str) -> NodeSpec {
        NodeSpec {
            devices: vec![Device::declared(model, Bytes(0)); gpus],
            domains: vec!["row".into(), rack.into()],
            ..NodeSpec::plain(name, CpuMilli(1000), Bytes(0))
        }
    }

    #[test]
    fn new_nodes_equal_the_last_of_the_kind() {
        let nodes = [
            node("a", "h100", 8, "r1"),
            node("b", "h100", 4, "r1"),
            node("new-1", "a100", 4, "new"),
        ];
        let check = |model: Option<&str>, gpus, expected: Result<&str, &str>| {
            let more = MoreNodes { count: 2, model: model.map(Into::into), gpus };
            let found = more_nodes(&nodes, &more);
            let found = found.as_ref().map(|(_, like)| like.name.as_str());
            let text = found.map_err(ToString::to_string);
            assert_eq!(text, expected.map_err(str::to_owned), "{model:?} {gpus:?}");
        };
        check(None, None, Ok("new-1"));
        check(Some("h100"), None, Ok("b"));
        check(Some("h100"), Some(8), Ok("a"));
        let none = "no node of the cluster is of that kind; its nodes are a100:4, h100:4, h100:8";
        check(Some("h100"), Some(2), Err(none));
        check(Some("l40"), None, Err(none));
    }

    #[test]
    fn new_nodes_have_names_and_a_rack_of_their_own() {
        let nodes = [node("a", "h100", 8, "r1"), node("new-1", "h100", 8, "new")];
        let more = MoreNodes { count: 2, model: None, gpus: None };
        let (all, _) = more_nodes(&nodes, &more).unwrap();
        let names: Vec<&str> = all.iter().map(|node| node.name.as_str()).collect();
        assert_eq!(names, ["a", "new-1", "new-2", "new-3"]);
        assert!(all[2..].iter().all(|node| *node.domains[1] == *"new-2"), "{all:?}");
        assert!(all[2..].iter().all(|node| *node.domains[0] == *"row"), "{all:?}");
    }
}
