//! Nodes and queues of a site file. What the file does not say is assumed here, and added to the
//! list of assumptions.

use muster_model::advice::{Fact, SiteProfile};
use muster_model::{
    Bytes, CpuMilli, Device, DeviceSet, GpuModel, NodeSpec, Preemption, QueueSpec, QueueTree,
};

use super::NotSimulated;

/// Most nodes, or GPUs: above any real cluster, to bound memory use.
const MOST: u32 = 100_000;
/// Maximum number of queues: more would not change the figures shown.
const MOST_TEAMS: u32 = 1_000;
/// CPUs of a node. Jobs request one per GPU, so CPUs are never short.
const CPUS: u32 = 64;
/// Memory of a node; no job requests any.
const MEMORY: Bytes = Bytes(512 << 30);

/// Returns the nodes of a fleet; what is assumed is added to `assumed`.
///
/// # Errors
/// There are too many nodes, or too many GPUs for them.
pub fn nodes(site: &SiteProfile, assumed: &mut Vec<String>) -> Result<Vec<NodeSpec>, NotSimulated> {
    let nodes = site.facts.get(Fact::FleetNodes);
    let gpus = site.facts.get(Fact::FleetGpus);
    if nodes > MOST || gpus > MOST {
        return Err(NotSimulated::TooLarge { nodes, gpus });
    }
    if gpus.div_ceil(nodes) as usize > DeviceSet::MAX_DEVICES {
        return Err(NotSimulated::TooDense { nodes, gpus });
    }
    let each = gpus / nodes;
    let more = gpus % nodes;
    let spread = match (nodes, more) {
        (1, _) => format!("one node with {gpus} GPUs"),
        (_, 0) => {
            format!("{each} GPU{} on each of {nodes} nodes", if each == 1 { "" } else { "s" })
        }
        _ => format!("{} GPUs on {more} nodes, {each} on {}", each + 1, nodes - more),
    };
    assumed.push(format!("{spread}; CPUs and memory are always enough"));
    assumed.push("one switch: all pairs of nodes are equally close".to_owned());
    if site.models.len() > 1 {
        assumed.push(
            "all GPUs count as one model: the file does not say which node has which, nor which job needs which"
                .to_owned(),
        );
    }
    if site.facts.is(Fact::FleetElastic) {
        assumed
            .push("the number of nodes stays the same, although the fleet is elastic".to_owned());
    }
    let model = match site.models.as_slice() {
        [model] => model.clone(),
        _ => GpuModel::from("gpu"),
    };
    Ok((0..nodes).map(|at| node(at, each + u32::from(at < more), &model)).collect())
}

fn node(at: u32, gpus: u32, model: &GpuModel) -> NodeSpec {
    let device = Device::declared(model.clone(), Bytes(0));
    NodeSpec {
        devices: vec![device; gpus as usize],
        ..NodeSpec::plain(format!("n{}", at + 1), CpuMilli(CPUS.max(gpus) * 1000), MEMORY)
    }
}

/// Returns the CPUs that a task with this many GPUs requests.
pub(super) fn cpus_of_gpus(gpus: u32) -> CpuMilli {
    CpuMilli(gpus * 1000)
}

/// Returns one queue for each team, all with the same weight; what is assumed is added to
/// `assumed`. They have no quotas, even where shares are enforced: Slurm treats a quota as a cap,
/// below which a wide job might never fit, and no site would configure that.
#[must_use]
pub fn queues(site: &SiteProfile, assumed: &mut Vec<String>) -> QueueTree {
    let mut tree = QueueTree { preemption: Preemption::OFF, ..QueueTree::single() };
    let teams = site.facts.get(Fact::Teams).min(MOST_TEAMS);
    if teams < 2 {
        assumed.push("one queue".to_owned());
        return tree;
    }
    let quotas = if site.facts.is(Fact::StrictQuotas) { "; for quotas use `--queues`" } else { "" };
    assumed.push(format!("{teams} teams with a queue each, equal weights, no evictions{quotas}"));
    tree.queues = (1..=teams).map(|team| QueueSpec::named(&format!("team-{team}"))).collect();
    tree.default_queue = "team-1".into();
    tree
}
