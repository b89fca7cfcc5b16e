//! What some stories have beyond what all have: services, gangs with a range of sizes, jobs that
//! are moved together. Which of them is said by the seed alone, so that the dice of all other
//! stories fall as they did before. It does not know what becomes of it.

use muster_model::job::{GpuRequest, Resources};
use muster_model::queue::Defragment;
use muster_model::{
    Checkpoint, CheckpointBy, JobSpec, Kind, Protection, QueueTree, Span, Topology, TopologyRule,
};

use super::jobs;
use crate::dice::Dice;

/// What a story has.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Beyond {
    pub(crate) services: bool,
    elastic: bool,
    moves: bool,
    /// It ends with a siege.
    pub(crate) siege: bool,
}

impl Beyond {
    /// One story in eight has services, one in eight elastic gangs, and half of those moves, too,
    /// as has one more in sixteen; one in three ends with a siege.
    pub(crate) fn of(seed: u64) -> Self {
        let all = Self { siege: seed.is_multiple_of(3), ..Self::default() };
        match seed % 16 {
            6 | 14 => Self { services: true, ..all },
            2 => Self { elastic: true, ..all },
            10 => Self { elastic: true, moves: true, ..all },
            4 => Self { moves: true, ..all },
            _ => all,
        }
    }

    /// A job as such a story has it.
    pub(crate) fn shape(self, dice: &mut Dice, spec: &mut JobSpec) {
        if self.services && dice.chance(30) {
            jobs::service(dice, spec);
        }
        if self.moves && dice.chance(70) {
            scatter(dice, spec);
        }
        if self.elastic && dice.chance(50) {
            stretch(dice, spec);
        }
    }

    /// A queue file as such a story has it; in one of two nobody's quota keeps free what is
    /// scattered.
    pub(crate) fn tree(self, dice: &mut Dice, tree: &mut QueueTree) {
        if self.moves && dice.chance(85) {
            let every = Span::from_secs(*dice.pick(&[60, 600, 3_600, 86_400]));
            tree.defragment = Some(Defragment { gpu_hours: dice.between(1, 2), every });
            if dice.chance(50) {
                tree.queues.retain(|queue| *queue.name == *tree.default_queue.as_str());
            }
        }
    }
}

/// It may be larger than it must, and saves its progress mostly.
fn stretch(dice: &mut Dice, spec: &mut JobSpec) {
    let wish = spec.constraint.topology.as_ref();
    let is_spread = wish.is_some_and(|wish| matches!(wish.rule, TopologyRule::Spread(_)));
    let segment = wish.and_then(|wish| wish.segment.as_ref()).map(|segment| segment.tasks);
    if spec.kind != Kind::Task || is_spread {
        return;
    }
    let at = dice.roll(spec.groups.len() as u64) as usize;
    let group = &mut spec.groups[at];
    let step = segment.or(group.tasks_per_node).unwrap_or(1);
    group.max_tasks = group.min_tasks + step * dice.between(1, 5) as u32;
    spec.grow_after = dice.chance(85).then(|| Span::from_secs(*dice.pick(&[1, 5, 20, 60])));
    saves(dice, spec, 60);
}

/// Small jobs that save their progress and lie about, and gangs that they are in the way of.
fn scatter(dice: &mut Dice, spec: &mut JobSpec) {
    if spec.kind != Kind::Task {
        return;
    }
    let is_small = dice.chance(60);
    spec.groups.truncate(1);
    (spec.constraint.topology, spec.protect, spec.priority) = (None, Protection::None, 0);
    spec.constraint.labels.clear();
    let group = &mut spec.groups[0];
    let models =
        if dice.chance(30) { std::mem::take(&mut group.task.gpu.models) } else { Vec::new() };
    let devices = if is_small { *dice.pick(&[1, 1, 2]) } else { *dice.pick(&[2, 4]) };
    let tasks = if is_small { 1 } else { *dice.pick(&[1, 2, 2]) };
    group.task = Resources {
        gpu: GpuRequest { models, ..GpuRequest::whole(devices) },
        ..Default::default()
    };
    (group.min_tasks, group.max_tasks, group.tasks_per_node) = (tasks, tasks, None);
    if is_small {
        spec.time_limit = Some(Span::from_secs(dice.between(60, 120)));
        saves(dice, spec, 90);
    } else if dice.chance(40) {
        let rule = TopologyRule::Required("leaf".into());
        spec.constraint.topology = Some(Topology { rule, segment: None });
    }
}

/// It saves its progress, so often in a hundred.
fn saves(dice: &mut Dice, spec: &mut JobSpec, percent: u64) {
    if dice.chance(percent) {
        let lead = Span::from_secs(dice.between(1, 20));
        let by = *dice.pick(&[CheckpointBy::First, CheckpointBy::All]);
        spec.checkpoint = Some(Checkpoint {
            signal: 10,
            lead,
            by,
            then: Default::default(),
            to: Default::default(),
        });
    }
}
