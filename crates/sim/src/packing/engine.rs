//! The production engine as the one that places pods: each is a job of one task, submitted when it
//! arrives. One that does not start at once is taken back, as in the experiment. It decides
//! nothing.

use muster_engine::Refusal;
use muster_model::job::{GpuRequest, Resources};
use muster_model::queue::{PlacementPolicy, Preemption};
use muster_model::{
    Bytes, CpuMilli, Decision, DeviceSet, GpuMilli, JobSpec, NodeSpec, QueueTree, TaskGroup,
};

use crate::peers::packing::Pod;
use crate::world::{World, WorldError};

/// The engine in its world.
#[derive(Debug)]
pub(super) struct Placer {
    world: World,
}

impl Placer {
    /// Nodes, and the pods that this cluster usually gets: each was submitted once before and taken
    /// back, so that the engine knows what is usual as one does that has been running there.
    /// Nothing else stays of it.
    pub(super) fn new(
        placement: PlacementPolicy,
        nodes: &[NodeSpec],
        history: &[Pod],
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

    /// The node and the devices that a pod gets; `None` when it does not start at once.
    pub(super) fn place(&mut self, pod: &Pod) -> Result<Option<(usize, DeviceSet)>, WorldError> {
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

/// What the engine took; `None` when it says that no idle cluster like this could host it.
fn accepted<T>(submitted: Result<T, WorldError>) -> Result<Option<T>, WorldError> {
    match submitted {
        Ok(submitted) => Ok(Some(submitted)),
        Err(WorldError::Refused(Refusal::Never(_))) => Ok(None),
        Err(error) => Err(error),
    }
}

fn job(pod: &Pod) -> JobSpec {
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
