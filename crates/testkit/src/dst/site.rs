//! Random initial state of a run: nodes, and a queue tree that the engine accepts.

use std::sync::Arc;

use muster_model::node::Device;
use muster_model::queue::{Backfill, PlannedRuntimes, QueueBudget, QueueLimits};
use muster_model::{
    Bytes, CpuMilli, JobSpec, NodeSpec, Preemption, Protection, QueueName, QueueSpec, QueueTree,
    Span, Time,
};
use muster_runtime::engine::Engine;

use crate::rng::SeededRng;

/// GPU models of nodes; `slice` stands for a MIG slice.
pub(crate) const MODELS: [&str; 3] = ["h100", "a100", "slice"];

/// Longest period of a budget.
pub(crate) const LONGEST_BUDGET: Span = Span::from_secs(600);

/// Levels of the topology, if there is one.
pub(crate) const LEVELS: [&str; 2] = ["block", "leaf"];

const NODE: &str =
    "nodes: [{name: a, gpus: 1, gpu: h100, gpu-memory: 80GB, cpus: 4, memory: 64GB}]";
const JOB: &str = "name: dst\ntime: 1m\nrun: work";

/// A node and a job as users would write them: everything that is not chosen at random is as read
/// from a file.
#[derive(Clone, Debug)]
pub(crate) struct SpecTemplates {
    node: NodeSpec,
    pub(crate) job: JobSpec,
}

impl SpecTemplates {
    pub(crate) fn read() -> Result<Self, String> {
        let cluster =
            muster_spec::parse_cluster(NODE, None).map_err(|wrong| format!("{wrong:?}"))?;
        let node = cluster.nodes.first().cloned().ok_or("the pattern has no node")?;
        let documents = muster_spec::parse(JOB, None, &Default::default());
        let documents = documents.map_err(|wrong| format!("{wrong:?}"))?;
        let tree = QueueTree::single();
        let site = muster_spec::SubmissionSite::new("ann".into(), cluster.nodes.iter(), &tree);
        let checked =
            muster_spec::check_all(&documents, &site).map_err(|wrong| format!("{wrong:?}"))?;
        let job = checked.into_iter().next().ok_or("the pattern has no job")?.spec;
        Ok(Self { node, job })
    }

    /// Returns one to six nodes.
    pub(crate) fn nodes(&self, rng: &mut SeededRng) -> Vec<NodeSpec> {
        let count = rng.between(1, 6);
        // Names are in a different order than the nodes join.
        (0..count).map(|at| self.a_node(rng, &format!("n{}", (at * 5) % 7))).collect()
    }

    fn a_node(&self, rng: &mut SeededRng, name: &str) -> NodeSpec {
        let mut node = NodeSpec { name: name.into(), ..self.node.clone() };
        let pattern = self.node.devices.first().cloned();
        let count = *rng.pick(&[0, 1, 2, 4, 4, 8]);
        let model = *rng.pick(&MODELS[..2]);
        let sliced = rng.chance(20);
        let device = |at: usize| {
            let model = if sliced && at.is_multiple_of(2) { MODELS[2] } else { model };
            pattern.clone().map(|device| Device { model: model.into(), ..device })
        };
        node.devices = (0..count).filter_map(device).collect();
        node.cpus = CpuMilli(*rng.pick(&[4_000, 16_000, 64_000]));
        node.memory = Bytes(*rng.pick(&[64, 256]));
        node.domains = domains(rng);
        node.labels.insert("zone".into(), (*rng.pick(&["east", "west"])).into());
        if rng.chance(30) {
            node.extras.insert("nic".into(), 2);
        }
        node
    }
}

/// Returns a tree that the engine accepts: one queue, or teams with quota, borrowing, lending,
/// weights and limits.
pub(crate) fn tree(rng: &mut SeededRng) -> QueueTree {
    loop {
        let tree = any_tree(rng);
        if Engine::new(tree.clone()).is_ok() {
            return tree;
        }
    }
}

fn any_tree(rng: &mut SeededRng) -> QueueTree {
    let mut tree = QueueTree::single();
    tree.backfill = *rng.pick(&[
        Backfill::Easy,
        Backfill::Easy,
        Backfill::None,
        Backfill::Conservative { depth: 3 },
        Backfill::Conservative { depth: 100 },
    ]);
    tree.half_life = Span::from_secs(600);
    tree.preemption = Preemption { reclaim: rng.chance(70), priority: rng.chance(70) };
    if rng.chance(75) {
        let mut team = QueueSpec::named("team");
        if rng.chance(40) {
            team.quota.insert("h100".into(), rng.between(4, 16));
            team.borrow = rng.chance(50).then(|| rng.roll(6));
        }
        team.budget = rng.chance(10).then(|| budget(rng));
        team.queues = vec![leaf(rng, "red"), leaf(rng, "blue")];
        if rng.chance(40) {
            let mut deep = QueueSpec::named("deep");
            if rng.chance(50) {
                deep.quota.insert("h100".into(), rng.between(2, 6));
                deep.lend = rng.chance(50).then(|| rng.roll(3));
            }
            deep.queues = vec![leaf(rng, "left"), leaf(rng, "right")];
            team.queues.push(deep);
        }
        tree.queues = vec![QueueSpec::named("default"), team];
        if rng.chance(60) {
            tree.queues.push(leaf(rng, "solo"));
        }
    }
    // At once, or after about as long as most jobs run.
    tree.reclaim_after = Span::from_secs(10 * (tree.queues.len() as u64 % 2));
    tree.fair_share_after = Some(Span::from_secs(5 * ((tree.queues.len() as u64 + 1) % 2)));
    if tree.queues.len().is_multiple_of(3) {
        tree.estimates = PlannedRuntimes::Predicted;
    }
    tree
}

fn leaf(rng: &mut SeededRng, name: &str) -> QueueSpec {
    let mut queue = QueueSpec::named(name);
    queue.weight = rng.between(1, 3) as u32;
    for model in &MODELS[..2] {
        if rng.chance(35) {
            queue.quota.insert((*model).into(), rng.between(1, 6));
        }
    }
    queue.borrow = rng.chance(40).then(|| rng.roll(4));
    queue.lend = rng.chance(30).then(|| rng.roll(3));
    if rng.chance(30) {
        queue.limits = QueueLimits::default();
        queue.limits.running_jobs = rng.chance(50).then(|| rng.between(1, 5) as u32);
        queue.limits.gpus_per_user = rng.chance(50).then(|| rng.between(1, 6));
        queue.limits.time = rng.chance(20).then(|| Span::from_secs(90));
    }
    queue.protect = rng.chance(15).then(|| protection(rng));
    queue.limits.borrowed_time = rng.chance(10).then(|| Span::from_secs(rng.between(20, 120)));
    queue.priority = rng.chance(10).then_some((-1, 3));
    queue.budget = rng.chance(12).then(|| budget(rng));
    queue
}

/// Returns a budget of few enough GPU-hours that it runs out.
fn budget(rng: &mut SeededRng) -> QueueBudget {
    QueueBudget {
        gpu_hours: rng.chance(70).then_some(1),
        gpu_hours_per_user: rng.chance(60).then_some(1),
        every: Span::from_secs(rng.between(60, LONGEST_BUDGET.0 / 1000)),
        start: Time(rng.roll(100_000)),
    }
}

/// Returns a random protection from eviction.
pub(crate) fn protection(rng: &mut SeededRng) -> Protection {
    match rng.roll(3) {
        0 => Protection::Always,
        _ => Protection::For(Span::from_secs(rng.between(1, 60))),
    }
}

/// Returns the levels of the topology; none in some runs.
pub(crate) fn levels(rng: &mut SeededRng) -> Vec<Arc<str>> {
    match rng.roll(3) {
        0 => Vec::new(),
        _ => LEVELS.iter().map(|level| (*level).into()).collect(),
    }
}

/// Returns the domains of a node; some nodes name none, or too few.
pub(crate) fn domains(rng: &mut SeededRng) -> Vec<Arc<str>> {
    let all = [format!("b{}", rng.roll(2)).into(), format!("l{}", rng.roll(2)).into()];
    all[..*rng.pick(&[2, 2, 2, 2, 1, 0])].to_vec()
}

/// Returns the paths of the leaf queues.
pub(crate) fn leaves(tree: &QueueTree) -> Vec<QueueName> {
    fn walk(path: &str, queues: &[QueueSpec], found: &mut Vec<QueueName>) {
        for queue in queues {
            let path = if path.is_empty() {
                queue.name.to_string()
            } else {
                format!("{path}/{}", queue.name)
            };
            if queue.queues.is_empty() {
                found.push(path.as_str().into())
            } else {
                walk(&path, &queue.queues, found)
            }
        }
    }
    let mut found = Vec::new();
    walk("", &tree.queues, &mut found);
    found
}
