//! The production engine as the placer of pods: each pod is a job of one task. One that does not
//! start at once is withdrawn, as in the experiment.

use muster_engine::EventRefusal;
use muster_model::job::{GpuRequest, Resources};
use muster_model::queue::{PlacementPolicy, Preemption};
use muster_model::{
    Bytes, CpuMilli, Decision, DeviceSet, GpuMilli, JobSpec, NodeSpec, QueueTree, TaskGroup,
};

use crate::peers::packing::PackingPod;
use crate::world::{World, WorldError};

/// The engine in its world.
#[derive(Debug)]
pub(super) struct EnginePlacer {
    world: World,
}

impl EnginePlacer {
    /// Creates an engine with these nodes. Each pod of `history` is submitted and withdrawn once,
    /// so that the engine's statistics are those of a running cluster. It has no other effect.
    pub(super) fn new(
        placement: PlacementPolicy,
        nodes: &[NodeSpec],
        history: &[PackingPod],
    ) -> Result<Self, WorldError> {
        let tree = QueueTree { placement, preemption: Preemption::OFF, ..QueueTree::single() };
        let mut world = World::with_queues(tree, nodes.iter().cloned())?;
        if placement == PlacementPolicy::Fragmentation {
            for pod in history {
                if let Some((job, _)) = accepted(world.submit(JobSpec { held: true, ..job(pod) }))?
                {
                    world.withdraw(job)?;
                }
            }
        }
        Ok(Self { world })
    }

    /// Returns node and devices of a pod; `None` if it does not start at once.
    pub(super) fn place(
        &mut self,
        pod: &PackingPod,
    ) -> Result<Option<(usize, DeviceSet)>, WorldError> {
        let Some((id, decisions)) = accepted(self.world.submit(job(pod)))? else { return Ok(None) };
        for decision in decisions {
            if let Decision::Start { id: attempt, placement, .. } = decision
                && attempt.element.job == id
                && let [task] = &*placement
            {
                return Ok(Some((task.node.0 as usize, task.devices)));
            }
        }
        self.world.withdraw(id)?;
        Ok(None)
    }
}

/// Returns an accepted job; `None` if the engine rejects it because it never fits.
fn accepted<T>(submitted: Result<T, WorldError>) -> Result<Option<T>, WorldError> {
    match submitted {
        Ok(submitted) => Ok(Some(submitted)),
        Err(WorldError::Refused(EventRefusal::NeverStarts(_))) => Ok(None),
        Err(error) => Err(error),
    }
}

fn job(pod: &PackingPod) -> JobSpec {
    let task = Resources {
        gpu: GpuRequest {
            devices: pod.devices,
            share: GpuMilli(u32::from(pod.share_milli)),
            models: pod.models.clone(),
        },
        cpus: CpuMilli(u32::try_from(pod.cpus_milli).unwrap_or(u32::MAX)),
        memory: Bytes(pod.memory_bytes),
        ..Resources::default()
    };
    JobSpec::plain("pod", "anyone", vec![TaskGroup::of("main", 1, task)])
}
