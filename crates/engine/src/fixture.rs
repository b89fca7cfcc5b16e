//! Fixtures of the engine's unit tests: a plain job and a plain node, which tests modify.

use muster_model::job::{GpuRequest, Resources};
use muster_model::node::Device;
use muster_model::{Bytes, CpuMilli, GpuModel, JobSpec, NodeSpec, Span, TaskGroup};

/// Returns a gang of this number of tasks with a GPU, a CPU and ten bytes each, for ten seconds.
pub(crate) fn spec(tasks: u32) -> JobSpec {
    let gpu = GpuRequest::whole(1);
    let task = Resources { gpu, cpus: CpuMilli(1000), memory: Bytes(10), ..Resources::default() };
    let group = TaskGroup::of("worker", tasks, task);
    JobSpec { time_limit: Some(Span::from_secs(10)), ..JobSpec::plain("job", "ann", vec![group]) }
}

/// Returns a node with this number of devices of a model, 64 CPUs and 1,000 bytes.
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
