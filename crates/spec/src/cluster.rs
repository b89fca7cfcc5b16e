//! Reader of the cluster file. Muster has not detected the hardware of declared nodes, so their
//! devices are marked virtual.

mod devices;

use std::collections::BTreeMap;
use std::sync::Arc;

use muster_model::NodeSpec;
use muster_model::hostlist::MAX_NAMES;
use muster_model::unit::{Bytes, CpuMilli};

use crate::advice::{FileKind, refuse_other};
use crate::diagnostic::{Diagnostics, Problem, Problems, show};
use crate::field::{Field, Item, Located, Many, Named, ROOT, Text, Whole, document};
use crate::job::fields::{Cpus, JobName, Model, NodeNames, Size, duplicates, used_twice};
use crate::names::check_name;
use crate::source::{Place, Sources};
use crate::suggest::nearest;
use crate::yaml;
use devices::{DeviceCountField, DeviceMemory};

/// Most topology levels of one cluster.
const MAX_LEVELS: usize = 8;

document! {
    /// A cluster for Muster: its nodes and topology.
    ClusterDocument ("cluster") requires ["nodes"] foreign &[("topology", "levels"), ("hosts", "nodes")] => {
        /// Topology levels, widest first, such as [block, leaf]; the node itself is always the last
        /// level and is not named.
        "levels" levels: Many<JobName>,
        /// Nodes; identical ones may share an entry.
        "nodes" nodes: Many<NodesDocument>,
    }
}

document! {
    /// One or several identical nodes.
    NodesDocument ("nodes") requires ["name"] foreign &[("model", "gpu"), ("gpu-type", "gpu"), ("gpu-mem", "gpu-memory"), ("mem", "memory"), ("cores", "cpus")] => {
        /// A name, or a range of names such as node[01-04].
        "name" name: NodeNames,
        /// Number of GPUs of each node, or by model if there are several: `{a100: 2, a100-1g.5gb:
        /// 14}`. 0 by default.
        "gpus" gpus: DeviceCountField,
        /// Model of the GPUs, such as h100.
        "gpu" gpu: Model,
        /// Memory of each GPU, such as 80GB, or by model: `{a100: 40GB, a100-1g.5gb: 5GB}`.
        "gpu-memory" gpu_memory: DeviceMemory,
        /// CPUs of each node.
        "cpus" cpus: Cpus,
        /// Memory of each node.
        "memory" memory: Size,
        /// Domain of the nodes at each topology level: `{block: b1, leaf: l1}`.
        "domain" domain: Named<Text>,
        /// Labels that jobs can ask for: `{pool: train}`.
        "labels" labels: Named<Text>,
        /// Named extras of each node, in whole units: `{licence: 4}`.
        "extras" extras: Named<Whole<0, 1_000_000_000>>,
    }
}

/// By level and domain, the wider domain that contains it, and the place that first said so.
type Parents = BTreeMap<(usize, Arc<str>), (Arc<str>, Place)>;

/// A cluster as declared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cluster {
    /// Topology levels, widest first, without the node.
    pub levels: Vec<Arc<str>>,
    /// Nodes, in file order. Their `domains` are by level.
    pub nodes: Vec<NodeSpec>,
}

/// Reads a cluster file.
///
/// # Errors
/// Everything that is wrong with it.
pub fn parse_cluster(source: &str, file: Option<&str>) -> Result<Cluster, Diagnostics> {
    let sources = Arc::new(Sources::new(source, file));
    let mut problems = Problems::default();
    let cluster =
        yaml::read_one(&sources, "cluster", "nodes: [{name: node01, gpus: 8}]", &mut problems)
            .filter(|node| refuse_other(node, FileKind::Cluster, &mut problems).is_some())
            .and_then(|node| ClusterDocument::read(&node, ROOT, &mut problems))
            .and_then(|document| cluster(&document, &mut problems));
    match cluster {
        Some(cluster) => problems.finish(cluster, &sources),
        None => Err(problems.into_diagnostics(&sources)),
    }
}

fn cluster(document: &ClusterDocument, problems: &mut Problems) -> Option<Cluster> {
    let before = problems.len();
    let levels = levels(document, problems);
    let items = document.nodes.as_ref().map_or(&[][..], |nodes| &nodes.value.0);
    let mut seen = BTreeMap::new();
    let mut parents = Parents::new();
    let mut nodes = Vec::new();
    let count: usize = items
        .iter()
        .filter_map(|item| item.value.name.as_ref())
        .map(|name| name.value.0.count())
        .sum();
    if count > MAX_NAMES {
        problems.add(Problem::new(format!("{count} nodes; at most {MAX_NAMES}")));
        return None;
    }
    for item in items {
        let Some(template) = template(&item.value, &levels, problems) else { continue };
        check_domains(&item.value, &levels, &template.domains, &mut parents, problems);
        let Some(name) = &item.value.name else { continue };
        for node in name.value.0.names() {
            if let Some(first) = seen.insert(node.clone(), name.place) {
                problems.add(
                    Problem::new(format!("two nodes are named {}", show(&node)))
                        .at(name.place, "again here")
                        .also(first, "first here"),
                );
            }
            nodes.push(NodeSpec { name: node.into(), ..template.clone() });
        }
    }
    (problems.len() == before).then_some(Cluster { levels, nodes })
}

fn levels(document: &ClusterDocument, problems: &mut Problems) -> Vec<Arc<str>> {
    let Some(levels) = &document.levels else { return Vec::new() };
    for pair in duplicates(&levels.value.0, |level| level.0.as_str()) {
        problems.add(used_twice("levels", &pair.1.value.0, pair));
    }
    let last = |item: &&Item<JobName>| item.value.0 == "node";
    if let Some(item) = levels.value.0.iter().find(last) {
        problems
            .add(Problem::new("`node` is always the last level").at(item.place, "leave it out"));
    }
    if levels.value.0.len() > MAX_LEVELS {
        problems
            .add(Problem::new("too many levels").at(levels.place, format!("at most {MAX_LEVELS}")));
    }
    levels.value.0.iter().map(|item| Arc::from(item.value.0.as_str())).collect()
}

/// Returns a node without its name.
fn template(
    document: &NodesDocument,
    levels: &[Arc<str>],
    problems: &mut Problems,
) -> Option<NodeSpec> {
    let before = problems.len();
    let devices = devices::of(document, problems);
    let domains = domains(document.domain.as_ref(), levels, problems);
    let pairs = |named: &Located<Named<Text>>| {
        let pair = |item: &crate::field::NamedItem<Text>| {
            (Arc::from(item.name.as_str()), Arc::from(item.value.0.as_str()))
        };
        named.value.0.iter().map(pair).collect()
    };
    let extras = document.extras.iter().flat_map(|extras| &extras.value.0);
    let node = NodeSpec {
        name: "".into(),
        devices,
        cpus: document.cpus.as_ref().map_or(CpuMilli(0), |cpus| cpus.value.0),
        memory: document.memory.as_ref().map_or(Bytes(0), |size| size.value.0),
        extras: extras.map(|item| (Arc::from(item.name.as_str()), item.value.0 as u64)).collect(),
        labels: document.labels.as_ref().map(pairs).unwrap_or_default(),
        domains,
    };
    (problems.len() == before).then_some(node)
}

/// Returns the domains by level. A node must name all levels or none: a gap would leave its place
/// in the tree unknown.
fn domains(
    written: Option<&Located<Named<Text>>>,
    levels: &[Arc<str>],
    problems: &mut Problems,
) -> Vec<Arc<str>> {
    let Some(written) = written else { return Vec::new() };
    for item in &written.value.0 {
        if !levels.iter().any(|level| **level == *item.name) {
            let near = nearest(&item.name, levels.iter().map(|level| &**level));
            let hint = match near {
                Some(near) => format!("did you mean `{near}`?"),
                None => "levels are declared at the top: `levels: [block, leaf]`".to_owned(),
            };
            let message = format!("{} is not a level of this cluster", show(&item.name));
            problems.add(Problem::new(message).at(item.name_place, "not declared").hint(hint));
        } else if let Err(error) = check_name(&item.value.0) {
            problems
                .add(Problem::new("this is not the name of a domain").at(item.place, error.label));
        }
    }
    let mut domains = Vec::new();
    for level in levels {
        match written.value.0.iter().find(|item| *item.name == **level) {
            Some(item) => domains.push(Arc::from(item.value.0.as_str())),
            None => problems.add(
                Problem::new(format!("`domain` leaves out the level `{level}`"))
                    .at(written.place, "a node is in one domain of every level"),
            ),
        }
    }
    domains
}

/// Refuses a domain that is in two domains of the next wider level.
fn check_domains(
    document: &NodesDocument,
    levels: &[Arc<str>],
    domains: &[Arc<str>],
    parents: &mut Parents,
    problems: &mut Problems,
) {
    let Some(written) = &document.domain else { return };
    for (index, pair) in domains.windows(2).enumerate() {
        let wide = &pair[0];
        let narrow = &pair[1];
        match parents.get(&(index, Arc::clone(narrow))) {
            Some((known, first)) if known != wide => problems.add(
                Problem::new(format!("{} `{narrow}` is in two domains", levels[index + 1]))
                    .at(written.place, format!("in {} `{wide}` here", levels[index]))
                    .also(*first, format!("in {} `{known}` here", levels[index])),
            ),
            Some(_) => {}
            None => {
                parents.insert((index, Arc::clone(narrow)), (Arc::clone(wide), written.place));
            }
        }
    }
}
