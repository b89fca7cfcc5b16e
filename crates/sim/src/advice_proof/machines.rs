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
        let text = if site.nodes_by_model.is_empty() {
            "all GPUs count as one model: the file does not say which node has which, nor which job needs which"
        } else {
            "every job may use every model, several together too: the file does not say which needs which"
        };
        assumed.push(text.to_owned());
    }
    if site.facts.is(Fact::FleetElastic) {
        assumed
            .push("the number of nodes stays the same, although the fleet is elastic".to_owned());
    }
    let machines = (0..nodes).zip(models_of_nodes(site, nodes as usize));
    Ok(machines.map(|(at, model)| node(at, each + u32::from(at < more), &model)).collect())
}

/// Returns the model of each node, those of one model together.
fn models_of_nodes(site: &SiteProfile, nodes: usize) -> Vec<GpuModel> {
    let with = |model: &GpuModel, count: usize| vec![model.clone(); count];
    match site.models.as_slice() {
        [model] => with(model, nodes),
        models if !site.nodes_by_model.is_empty() => models
            .iter()
            .flat_map(|model| with(model, site.nodes_by_model[model] as usize))
            .collect(),
        _ => with(&GpuModel::from("gpu"), nodes),
    }
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

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use muster_model::advice::Facts;

    use super::*;

    #[test]
    fn each_node_has_the_model_that_the_file_gives_it() {
        let facts = Facts::default().with(Fact::FleetNodes, 3).with(Fact::FleetGpus, 6);
        let check = |models: &[&str], counts: &[u32], expected: [&str; 3]| {
            let models: Vec<GpuModel> = models.iter().map(|model| GpuModel::from(*model)).collect();
            let nodes_by_model: BTreeMap<GpuModel, u32> =
                models.iter().cloned().zip(counts.iter().copied()).collect();
            let site = SiteProfile { facts, models, nodes_by_model, ..SiteProfile::default() };
            let nodes = nodes(&site, &mut Vec::new()).unwrap();
            let on: Vec<&str> = nodes.iter().map(|node| node.devices[0].model.as_str()).collect();
            assert_eq!(on, expected);
            assert!(nodes.iter().all(|node| node.devices.len() == 2));
        };
        check(&["l40s", "h100"], &[2, 1], ["l40s", "l40s", "h100"]);
        check(&["l40s", "h100"], &[], ["gpu", "gpu", "gpu"]);
        check(&["h100"], &[], ["h100", "h100", "h100"]);
        check(&[], &[], ["gpu", "gpu", "gpu"]);
    }
}
