//! What unit tests of the engine begin with: a plain job and a plain node. Tests change what they are about.

use muster_model::job::{GpuRequest, Resources};
use muster_model::node::Device;
use muster_model::{
    Bytes, CpuMilli, GpuModel, JobSpec, Kind, NodeConstraint, NodeSpec, PayloadId, Restart, Span, TaskGroup,
    Tier,
};

/// A gang of so many tasks with a GPU, a CPU and ten bytes each, for ten seconds.
pub(crate) fn spec(tasks: u32) -> JobSpec {
    let gpu = GpuRequest::whole(1);
    let task = Resources { gpu, cpus: CpuMilli(1000), memory: Bytes(10), ..Resources::default() };
    let group =
        TaskGroup { name: "worker".into(), min_tasks: tasks, max_tasks: tasks, tasks_per_node: None, task };
    JobSpec {
        name: "job".into(),
        user: "ann".into(),
        queue: "default".into(),
        priority: 0,
        groups: vec![group],
        time_limit: Some(Span::from_secs(10)),
        grace: Span(0),
        constraint: NodeConstraint::default(),
        array: None,
        after: Vec::new(),
        restart: Restart::NEVER,
        checkpoint: None,
        held: false,
        begin: None,
        protect: muster_model::Protection::None,
        payload: PayloadId(0),
        kind: Kind::Task,
        tier: Tier::Usual,
        grow_after: Some(JobSpec::GROW_AFTER),
    }
}

/// A node with so many devices of a model, 64 CPUs and 1,000 bytes.
pub(crate) fn node(name: &str, gpus: usize, model: &str) -> NodeSpec {
    let device = Device {
        model: GpuModel::from(model),
        memory: Bytes(0),
        uuid: "".into(),
        is_virtual: true,
        slice_of: None,
    };
    NodeSpec {
        name: name.into(),
        devices: vec![device; gpus],
        cpus: CpuMilli(64_000),
        memory: Bytes(1000),
        extras: Default::default(),
        labels: Default::default(),
        domains: Vec::new(),
    }
}
