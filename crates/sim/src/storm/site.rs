//! What a story begins with: nodes, and a queue tree that the engine accepts. Chosen by dice; it
//! knows no time.

use std::sync::Arc;

use muster_model::node::Device;
use muster_model::queue::{Backfill, Budget, Limits};
use muster_model::{
    Bytes, CpuMilli, JobSpec, NodeSpec, Preemption, Protection, QueueName, QueueSpec, QueueTree,
    Span, Time,
};
use muster_runtime::engine::Engine;

use crate::dice::Dice;

/// GPU models of nodes; `slice` stands for a MIG slice.
pub(crate) const MODELS: [&str; 3] = ["h100", "a100", "slice"];

/// No budget lasts longer.
pub(crate) const LONGEST_BUDGET: Span = Span::from_secs(600);

/// Levels of the topology, where there is one.
pub(crate) const LEVELS: [&str; 2] = ["block", "leaf"];

const NODE: &str =
    "nodes: [{name: a, gpus: 1, gpu: h100, gpu-memory: 80GB, cpus: 4, memory: 64GB}]";
const JOB: &str = "name: storm\ntime: 1m\nrun: work";

/// A node and a job as users would write them: everything that a storm does not choose is as in a
/// file.
#[derive(Clone, Debug)]
pub(crate) struct Patterns {
    node: NodeSpec,
    pub(crate) job: JobSpec,
}

impl Patterns {
    /// Reads them.
    pub(crate) fn read() -> Result<Self, String> {
        let cluster =
            muster_spec::parse_cluster(NODE, None).map_err(|wrong| format!("{wrong:?}"))?;
        let node = cluster.nodes.first().cloned().ok_or("the pattern has no node")?;
        let documents = muster_spec::parse(JOB, None, &Default::default());
        let documents = documents.map_err(|wrong| format!("{wrong:?}"))?;
        let tree = QueueTree::single();
        let site = muster_spec::Site::new("ann".into(), cluster.nodes.iter(), &tree);
        let checked =
            muster_spec::check_all(&documents, &site).map_err(|wrong| format!("{wrong:?}"))?;
        let job = checked.into_iter().next().ok_or("the pattern has no job")?.spec;
        Ok(Self { node, job })
    }

    /// One to six nodes.
    pub(crate) fn nodes(&self, dice: &mut Dice) -> Vec<NodeSpec> {
        let count = dice.between(1, 6);
        // Names in another order than that of joining.
        (0..count).map(|at| self.a_node(dice, &format!("n{}", (at * 5) % 7))).collect()
    }

    fn a_node(&self, dice: &mut Dice, name: &str) -> NodeSpec {
        let mut node = NodeSpec { name: name.into(), ..self.node.clone() };
        let pattern = self.node.devices.first().cloned();
        let count = *dice.pick(&[0, 1, 2, 4, 4, 8]);
        let model = *dice.pick(&MODELS[..2]);
        let sliced = dice.chance(20);
        let device = |at: usize| {
            let model = if sliced && at.is_multiple_of(2) { MODELS[2] } else { model };
            pattern.clone().map(|device| Device { model: model.into(), ..device })
        };
        node.devices = (0..count).filter_map(device).collect();
        node.cpus = CpuMilli(*dice.pick(&[4_000, 16_000, 64_000]));
        node.memory = Bytes(*dice.pick(&[64, 256]));
        node.domains = domains(dice);
        node.labels.insert("zone".into(), (*dice.pick(&["east", "west"])).into());
        if dice.chance(30) {
            node.extras.insert("nic".into(), 2);
        }
        node
    }
}

/// A tree that the engine takes: one queue, or teams with quota, borrowing, lending, weights and
/// limits.
pub(crate) fn tree(dice: &mut Dice) -> QueueTree {
    loop {
        let tree = any_tree(dice);
        if Engine::new(tree.clone()).is_ok() {
            return tree;
        }
    }
}

fn any_tree(dice: &mut Dice) -> QueueTree {
    let mut tree = QueueTree::single();
    tree.backfill = *dice.pick(&[
        Backfill::Easy,
        Backfill::Easy,
        Backfill::None,
        Backfill::Conservative { depth: 3 },
        Backfill::Conservative { depth: 100 },
    ]);
    tree.half_life = Span::from_secs(600);
    tree.preemption = Preemption { reclaim: dice.chance(70), priority: dice.chance(70) };
    if dice.chance(75) {
        let mut team = QueueSpec::named("team");
        if dice.chance(40) {
            team.quota.insert("h100".into(), dice.between(4, 16));
            team.borrow = dice.chance(50).then(|| dice.roll(6));
        }
        team.budget = dice.chance(10).then(|| budget(dice));
        team.queues = vec![leaf(dice, "red"), leaf(dice, "blue")];
        if dice.chance(40) {
            let mut deep = QueueSpec::named("deep");
            if dice.chance(50) {
                deep.quota.insert("h100".into(), dice.between(2, 6));
                deep.lend = dice.chance(50).then(|| dice.roll(3));
            }
            deep.queues = vec![leaf(dice, "left"), leaf(dice, "right")];
            team.queues.push(deep);
        }
        tree.queues = vec![QueueSpec::named("default"), team];
        if dice.chance(60) {
            tree.queues.push(leaf(dice, "solo"));
        }
    }
    tree
}

fn leaf(dice: &mut Dice, name: &str) -> QueueSpec {
    let mut queue = QueueSpec::named(name);
    queue.weight = dice.between(1, 3) as u32;
    for model in &MODELS[..2] {
        if dice.chance(35) {
            queue.quota.insert((*model).into(), dice.between(1, 6));
        }
    }
    queue.borrow = dice.chance(40).then(|| dice.roll(4));
    queue.lend = dice.chance(30).then(|| dice.roll(3));
    if dice.chance(30) {
        queue.limits = Limits::default();
        queue.limits.running_jobs = dice.chance(50).then(|| dice.between(1, 5) as u32);
        queue.limits.gpus_per_user = dice.chance(50).then(|| dice.between(1, 6));
        queue.limits.time = dice.chance(20).then(|| Span::from_secs(90));
    }
    queue.protect = dice.chance(15).then(|| protection(dice));
    queue.limits.borrowed_time = dice.chance(10).then(|| Span::from_secs(dice.between(20, 120)));
    queue.priority = dice.chance(10).then_some((-1, 3));
    queue.budget = dice.chance(12).then(|| budget(dice));
    queue
}

/// GPU-hours, few enough that they run out.
fn budget(dice: &mut Dice) -> Budget {
    Budget {
        gpu_hours: dice.chance(70).then_some(1),
        gpu_hours_per_user: dice.chance(60).then_some(1),
        every: Span::from_secs(dice.between(60, LONGEST_BUDGET.0 / 1000)),
        start: Time(dice.roll(100_000)),
    }
}

/// How long something is safe from being told to go.
pub(crate) fn protection(dice: &mut Dice) -> Protection {
    match dice.roll(3) {
        0 => Protection::Always,
        _ => Protection::For(Span::from_secs(dice.between(1, 60))),
    }
}

/// Levels of the topology; none in some sites.
pub(crate) fn levels(dice: &mut Dice) -> Vec<Arc<str>> {
    match dice.roll(3) {
        0 => Vec::new(),
        _ => LEVELS.iter().map(|level| (*level).into()).collect(),
    }
}

/// Where a node lies; some say nothing, or too little.
pub(crate) fn domains(dice: &mut Dice) -> Vec<Arc<str>> {
    let all = [format!("b{}", dice.roll(2)).into(), format!("l{}", dice.roll(2)).into()];
    all[..*dice.pick(&[2, 2, 2, 2, 1, 0])].to_vec()
}

/// Paths of the leaves.
pub(crate) fn leaves(tree: &QueueTree) -> Vec<QueueName> {
    fn walk(path: &str, queues: &[QueueSpec], found: &mut Vec<QueueName>) {
        for queue in queues {
            let path = if path.is_empty() {
                queue.name.to_string()
            } else {
                format!("{path}/{}", queue.name)
            };
            match queue.queues.is_empty() {
                true => found.push(path.as_str().into()),
                false => walk(&path, &queue.queues, found),
            }
        }
    }
    let mut found = Vec::new();
    walk("", &tree.queues, &mut found);
    found
}
