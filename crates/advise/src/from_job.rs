//! Facts of a job, from its resource request only: nothing is guessed from a command, a name or an
//! image. Facts that a job cannot express keep their defaults.

use muster_model::advice::{Fact, Facts};
use muster_model::node::DeviceSet;
use muster_model::{JobSpec, TaskGroup};

/// Facts of a workload that do not follow from a job file, so that its author has to give them.
pub const UNSEEN: &[Fact] = &[
    Fact::BareMetal,
    Fact::LongLivedServices,
    Fact::MultiTenant,
    Fact::PythonNativePipeline,
    Fact::EdgeOrDev,
];

/// Returns the facts of a job, and the reason for each fact that follows from it. Elements of an
/// array are jobs of their own: they neither wait for each other nor add up.
#[must_use]
pub fn facts_of(spec: &JobSpec) -> (Facts, Vec<(Fact, &'static str)>) {
    // 1. Nodes: the minimum that it must span. Groups may share nodes, so the group with the most
    //    nodes counts, or the number of GPUs of all groups together.
    let blocks = spec.groups.iter().map(blocks).max().unwrap_or(1);
    let devices: u64 = spec.groups.iter().map(whole_devices).sum();
    let full_nodes =
        u32::try_from(devices.div_ceil(DeviceSet::MAX_DEVICES as u64)).unwrap_or(u32::MAX);
    let nodes = blocks.max(full_nodes).max(1);
    let why_nodes = if nodes > blocks {
        "it requests more GPUs than fewer nodes could have"
    } else if spec.groups.iter().all(|group| group.tasks_per_node.is_some()) {
        "the number of nodes that it requests; roles may share them"
    } else {
        "the minimum that it may span: tasks without a number per node may share one"
    };
    let mut facts = Facts::default().with(Fact::Nodes, nodes);
    let mut reported = vec![(Fact::Nodes, why_nodes)];

    // 2. Coupling: its author wants the tasks of a gang started together.
    if spec.min_tasks() > 1 {
        facts.set(Fact::TightlyCoupled, 1);
        reported.push((
            Fact::TightlyCoupled,
            "its tasks start together or not at all, which only tasks that wait for each other need",
        ));
    } else {
        reported.push((
            Fact::TightlyCoupled,
            "it has one task; a launcher inside it stays on its node",
        ));
    }
    (facts, reported)
}

/// Returns the number of different nodes that a group needs.
fn blocks(group: &TaskGroup) -> u32 {
    group.tasks_per_node.map_or(1, |per_node| group.min_tasks.div_ceil(per_node.max(1)))
}

fn whole_devices(group: &TaskGroup) -> u64 {
    u64::from(group.min_tasks) * u64::from(group.task.gpu.devices)
}

#[cfg(test)]
mod tests {

    use muster_model::job::{GpuRequest, Resources};
    use muster_model::{Array, PayloadId, Span};

    use super::*;

    fn group(tasks: u32, tasks_per_node: Option<u32>, gpus: u32) -> TaskGroup {
        let task = Resources { gpu: GpuRequest::whole(gpus), ..Resources::default() };
        TaskGroup { tasks_per_node, ..TaskGroup::of("worker", tasks, task) }
    }

    fn check(groups: Vec<TaskGroup>, array: Option<Array>, nodes: u32, coupled: bool) {
        let spec = JobSpec {
            grace: Span::from_secs(30),
            array,
            payload: PayloadId(1),
            ..JobSpec::plain("job", "ann", groups)
        };
        let (facts, reported) = facts_of(&spec);
        assert_eq!(
            (facts.get(Fact::Nodes), facts.is(Fact::TightlyCoupled)),
            (nodes, coupled),
            "{spec:?}"
        );
        for fact in UNSEEN {
            assert_eq!(facts.get(*fact), fact.default(), "{fact} does not follow from a job");
        }
        assert_eq!(
            reported.iter().map(|(fact, _)| *fact).chain(UNSEEN.iter().copied()).count(),
            Fact::WORKLOAD.len()
        );
    }

    #[test]
    fn facts_follow_from_the_shape() {
        // One process is neither coupled nor on several nodes, whatever it holds.
        check(vec![group(1, None, 8)], None, 1, false);
        // nodes: 2, gpus: 8
        check(vec![group(2, Some(1), 8)], None, 2, true);
        // Eight tasks on each of four nodes.
        check(vec![group(32, Some(8), 1)], None, 4, true);
        // Tasks without a number per node may all fit on one.
        check(vec![group(16, None, 1)], None, 1, true);
        // Unless no node could have that many GPUs.
        check(vec![group(129, None, 1)], None, 2, true);
        check(vec![group(32, None, 8)], None, 2, true);
        // Roles may share nodes: the widest counts.
        check(vec![group(4, Some(1), 8), group(2, Some(1), 1), group(9, None, 1)], None, 4, true);
        // A sweep of single tasks is not coupled, however large.
        let sweep = Array::range(1, 200, 1, None);
        check(vec![group(1, None, 1)], Some(sweep), 1, false);
    }
}
