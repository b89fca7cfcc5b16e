//! Features that only some runs have: services, elastic gangs, jobs that are moved by
//! defragmentation. The seed alone selects them, so that the random choices of all other runs stay
//! the same.

use muster_model::job::{GpuRequest, Resources};
use muster_model::queue::Defragment;
use muster_model::{
    Checkpoint, CheckpointBy, JobSpec, Protection, QueueTree, Span, Topology, TopologyRule,
    WorkloadKind,
};

use super::jobs;
use crate::rng::SeededRng;

/// Optional features of a run.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RunFeatures {
    pub(crate) services: bool,
    elastic: bool,
    moves: bool,
    /// True if the run ends with the starvation test.
    pub(crate) starvation: bool,
}

impl RunFeatures {
    /// Derives the features from the seed: one run in eight has services, one in eight elastic
    /// gangs, half of those and one more in sixteen defragmentation; one in three ends with the
    /// starvation test.
    pub(crate) fn of(seed: u64) -> Self {
        let all = Self { starvation: seed.is_multiple_of(3), ..Self::default() };
        match seed % 16 {
            6 | 14 => Self { services: true, ..all },
            2 => Self { elastic: true, ..all },
            10 => Self { elastic: true, moves: true, ..all },
            4 => Self { moves: true, ..all },
            _ => all,
        }
    }

    /// Adapts a job to the features of the run.
    pub(crate) fn shape(self, rng: &mut SeededRng, spec: &mut JobSpec) {
        if self.services && rng.chance(30) {
            jobs::service(rng, spec);
        }
        if self.moves && rng.chance(70) {
            make_movable(rng, spec);
        }
        if self.elastic && rng.chance(50) {
            make_elastic(rng, spec);
        }
    }

    /// Adapts a queue tree to the features of the run. Half of the trees with defragmentation have
    /// the default queue only, so that no quota reserves the fragmented GPUs.
    pub(crate) fn tree(self, rng: &mut SeededRng, tree: &mut QueueTree) {
        if self.moves && rng.chance(85) {
            let every = Span::from_secs(*rng.pick(&[60, 600, 3_600, 86_400]));
            tree.defragment = Some(Defragment { gpu_hours: rng.between(1, 2), every });
            if rng.chance(50) {
                tree.queues.retain(|queue| *queue.name == *tree.default_queue.as_str());
            }
        }
    }
}

/// Makes a gang elastic, mostly with checkpoints.
fn make_elastic(rng: &mut SeededRng, spec: &mut JobSpec) {
    let wish = spec.constraint.topology.as_ref();
    let is_spread = wish.is_some_and(|wish| matches!(wish.rule, TopologyRule::Spread(_)));
    let segment = wish.and_then(|wish| wish.segment.as_ref()).map(|segment| segment.tasks);
    if spec.kind != WorkloadKind::Task || is_spread {
        return;
    }
    let at = rng.roll(spec.groups.len() as u64) as usize;
    let group = &mut spec.groups[at];
    let step = segment.or(group.tasks_per_node).unwrap_or(1);
    group.max_tasks = group.min_tasks + step * rng.between(1, 5) as u32;
    spec.grow_after = rng.chance(85).then(|| Span::from_secs(*rng.pick(&[1, 5, 20, 60])));
    saves(rng, spec, 60);
}

/// Makes a job small and checkpointed, or a gang that small jobs can block.
fn make_movable(rng: &mut SeededRng, spec: &mut JobSpec) {
    if spec.kind != WorkloadKind::Task {
        return;
    }
    let is_small = rng.chance(60);
    spec.groups.truncate(1);
    (spec.constraint.topology, spec.protect, spec.priority) = (None, Protection::None, 0);
    spec.constraint.labels.clear();
    let group = &mut spec.groups[0];
    let models =
        if rng.chance(30) { std::mem::take(&mut group.task.gpu.models) } else { Vec::new() };
    let devices = if is_small { *rng.pick(&[1, 1, 2]) } else { *rng.pick(&[2, 4]) };
    let tasks = if is_small { 1 } else { *rng.pick(&[1, 2, 2]) };
    group.task = Resources {
        gpu: GpuRequest { models, ..GpuRequest::whole(devices) },
        ..Default::default()
    };
    (group.min_tasks, group.max_tasks, group.tasks_per_node) = (tasks, tasks, None);
    if is_small {
        spec.time_limit = Some(Span::from_secs(rng.between(60, 120)));
        saves(rng, spec, 90);
    } else if rng.chance(40) {
        let rule = TopologyRule::Required("leaf".into());
        spec.constraint.topology = Some(Topology { rule, segment: None });
    }
}

/// Gives the job checkpoints, with this probability in percent.
fn saves(rng: &mut SeededRng, spec: &mut JobSpec, percent: u64) {
    if rng.chance(percent) {
        let lead = Span::from_secs(rng.between(1, 20));
        let by = *rng.pick(&[CheckpointBy::First, CheckpointBy::All]);
        spec.checkpoint = Some(Checkpoint {
            signal: 10,
            lead,
            by,
            then: Default::default(),
            to: Default::default(),
        });
    }
}
