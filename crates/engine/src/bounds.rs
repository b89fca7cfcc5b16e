//! Bounds that the engine's arithmetic relies on. `spec` keeps job files well within them; jobs
//! from other sources (a trace, another program) are rejected here, so that no number of a job can
//! break the engine. It does not check whether a job fits: quota and capacity do.

use std::sync::Arc;

use muster_model::job::TaskGroup;
use muster_model::{
    Array, Elastic, GpuMilli, IndexRange, JobSpec, Replicas, Service, Topology, TopologyRule,
};

/// Most tasks of an element, over all groups: each takes a few hundred bytes while it runs.
const MAX_TASKS: u64 = 1 << 20;
/// Most groups: they are numbered in 16 bits, and placed one by one.
const MAX_GROUPS: usize = 1 << 10;
/// Most GPUs of a task: thousandths of them stay within 32 bits. No node has nearly as many.
const MAX_DEVICES: u32 = 1 << 20;
/// Most elements of an array: the queue order of the elements of a job has 32 bits, of which the
/// queue tickets of the job take the lowest numbers.
const MAX_ELEMENTS: u64 = 1 << 31;
/// Thousandths of a whole device; a share is less.
const WHOLE: GpuMilli = GpuMilli(1000);

/// Reason for which a job is rejected: it contradicts itself, or exceeds a bound.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MalformedJob {
    /// The job has too many groups.
    #[error("the job has {groups} groups; at most {most} are supported", most = MAX_GROUPS)]
    Groups {
        /// Number of task groups of the job.
        groups: usize,
    },
    /// An element has too many tasks.
    #[error("the job has {tasks} tasks; at most {most} are supported", most = MAX_TASKS)]
    Tasks {
        /// Number of tasks of one element.
        tasks: u64,
    },
    /// The maximum number of tasks is less than the minimum.
    #[error("group {group} needs at least {min} tasks but allows at most {max}")]
    MaxBelowMin {
        /// Name of the group.
        group: Arc<str>,
        /// Minimum number of tasks.
        min: u32,
        /// Maximum number of tasks.
        max: u32,
    },
    /// The number of tasks is not a multiple of the tasks per node.
    #[error(
        "group {group} has {tasks} tasks, which is not a multiple of {per_node} tasks per node"
    )]
    PerNode {
        /// Name of the group.
        group: Arc<str>,
        /// Number of tasks of the gang.
        tasks: u32,
        /// Number of tasks on each node.
        per_node: u32,
    },
    /// The number of tasks is not a multiple of the segment size, or segments split the tasks of a
    /// node.
    #[error(
        "group {group} has {tasks} tasks, which is not a multiple of the segment size {segment}"
    )]
    Segment {
        /// Name of the group.
        group: Arc<str>,
        /// Number of tasks of the group.
        tasks: u32,
        /// Number of tasks of a segment.
        segment: u32,
    },
    /// Segments keep tasks together, and spreading separates them.
    #[error("a job cannot be both spread over domains and kept together in segments")]
    SpreadSegments,
    /// A share is not a part of one device.
    #[error("group {group} asks for {share} of a GPU; a share is at least 0.001 and at most 0.999")]
    Share {
        /// Name of the group.
        group: Arc<str>,
        /// Requested share of a device.
        share: GpuMilli,
    },
    /// A task requests both whole devices and a share.
    #[error(
        "group {group} asks for {devices} whole GPUs and {share} of another; request one or the other"
    )]
    Mixed {
        /// Name of the group.
        group: Arc<str>,
        /// Number of whole devices.
        devices: u32,
        /// Share requested beside them.
        share: GpuMilli,
    },
    /// A task requests too many devices.
    #[error("group {group} asks for {devices} GPUs per task; at most {most} are supported", most = MAX_DEVICES)]
    Devices {
        /// Name of the group.
        group: Arc<str>,
        /// Number of devices per task.
        devices: u32,
    },
    /// A range of an array is empty or out of order.
    #[error(
        "the array range {first} to {last} with step {step} is empty or overlaps an earlier one"
    )]
    Range {
        /// First index of the range.
        first: u32,
        /// Last index of the range.
        last: u32,
        /// Distance between two indices.
        step: u32,
    },
    /// The array has too many elements.
    #[error("the array has {elements} elements; at most {most} are supported", most = MAX_ELEMENTS)]
    Elements {
        /// Number of elements of the array.
        elements: u64,
    },
    /// The numbers of replicas of a service contradict each other, or are too large.
    #[error(
        "the service has {floor} to {ceiling} replicas; at least 1 and at most {most} are supported",
        most = Replicas::LIMIT
    )]
    Replicas {
        /// Number of guaranteed replicas.
        floor: u32,
        /// Maximum number of replicas.
        ceiling: u32,
    },
    /// A replica of a service would have a port beyond 65535.
    #[error("replica {last} of the service would have a port above 65535: the first has {port}")]
    Ports {
        /// Port of the first replica.
        port: u16,
        /// Number of the last replica.
        last: u32,
    },
    /// More than one group is elastic; only one may be.
    #[error("more than one group is elastic; at most one is supported")]
    MultipleElasticGroups,
    /// The elastic range is not a multiple of the step.
    #[error(
        "group {group} grows from {min} to {max} tasks, which is not a multiple of the step {step}"
    )]
    Step {
        /// Name of the group.
        group: Arc<str>,
        /// Minimum number of tasks.
        min: u32,
        /// Maximum number of tasks.
        max: u32,
        /// Number of tasks of a step.
        step: u32,
    },
    /// A gang that is spread over domains is elastic; it must have one size.
    #[error("a job that is spread over domains cannot be elastic")]
    SpreadElastic,
    /// A service is also an array; replicas already are the elements.
    #[error("a service cannot also be an array")]
    ServiceArray,
    /// The cap on running elements of an array is 0.
    #[error("the array limits running elements to 0; the minimum is 1")]
    ZeroCap,
}

/// Checks a job against the bounds.
pub(crate) fn check_bounds(spec: &JobSpec) -> Result<(), MalformedJob> {
    if spec.groups.len() > MAX_GROUPS {
        return Err(MalformedJob::Groups { groups: spec.groups.len() });
    }
    let tasks =
        spec.groups.iter().map(|group| u64::from(group.min_tasks.max(group.max_tasks))).sum();
    if tasks > MAX_TASKS {
        return Err(MalformedJob::Tasks { tasks });
    }
    spec.groups.iter().try_for_each(check_group)?;
    spec.constraint
        .topology
        .as_ref()
        .map_or(Ok(()), |topology| check_topology(topology, &spec.groups))?;
    check_elastic(spec)?;
    match (spec.service(), &spec.array) {
        (Some(_), Some(_)) => Err(MalformedJob::ServiceArray),
        (Some(service), None) => check_service(service),
        (None, Some(array)) => check_array(array),
        (None, None) => Ok(()),
    }
}

fn check_elastic(spec: &JobSpec) -> Result<(), MalformedJob> {
    let Some(Elastic { group, min, max, step }) = spec.elastic() else { return Ok(()) };
    if spec.groups.iter().filter(|group| group.min_tasks < group.max_tasks).count() > 1 {
        return Err(MalformedJob::MultipleElasticGroups);
    }
    if (max - min) % step > 0 {
        return Err(MalformedJob::Step {
            group: Arc::clone(&spec.groups[usize::from(group)].name),
            min,
            max,
            step,
        });
    }
    let rule = spec.constraint.topology.as_ref().map(|topology| &topology.rule);
    if matches!(rule, Some(TopologyRule::Spread(_))) {
        Err(MalformedJob::SpreadElastic)
    } else {
        Ok(())
    }
}

pub(crate) fn check_service(service: &Service) -> Result<(), MalformedJob> {
    let Replicas { guaranteed: floor, max: ceiling } = service.replicas;
    if ceiling == 0 || ceiling < floor || ceiling > Replicas::LIMIT {
        return Err(MalformedJob::Replicas { floor, ceiling });
    }
    let last = ceiling - 1;
    match service.port {
        Some(port) if service.port_of(last).is_none() => Err(MalformedJob::Ports { port, last }),
        Some(_) | None => Ok(()),
    }
}

fn check_group(group: &TaskGroup) -> Result<(), MalformedJob> {
    let name = || Arc::clone(&group.name);
    let min = group.min_tasks;
    let max = group.max_tasks;
    let gpu = &group.task.gpu;
    if max < min {
        return Err(MalformedJob::MaxBelowMin { group: name(), min, max });
    }
    if let Some(per_node) = group.tasks_per_node
        && min.checked_rem(per_node) != Some(0)
    {
        return Err(MalformedJob::PerNode { group: name(), tasks: min, per_node });
    }
    let devices = gpu.devices;
    let share = gpu.share;
    if share >= WHOLE {
        return Err(MalformedJob::Share { group: name(), share });
    }
    if devices > 0 && share > GpuMilli(0) {
        return Err(MalformedJob::Mixed { group: name(), devices, share });
    }
    if devices > MAX_DEVICES {
        return Err(MalformedJob::Devices { group: name(), devices });
    }
    Ok(())
}

fn check_topology(topology: &Topology, groups: &[TaskGroup]) -> Result<(), MalformedJob> {
    let Some(segment) = &topology.segment else { return Ok(()) };
    if matches!(topology.rule, TopologyRule::Spread(_)) {
        return Err(MalformedJob::SpreadSegments);
    }
    let divides = |group: &&TaskGroup| {
        let block = group.tasks_per_node.unwrap_or(1);
        group.min_tasks.checked_rem(segment.tasks) == Some(0)
            && segment.tasks.checked_rem(block) == Some(0)
    };
    match groups.iter().find(|group| !divides(group)) {
        Some(TaskGroup { name, min_tasks: tasks, .. }) => Err(MalformedJob::Segment {
            group: Arc::clone(name),
            tasks: *tasks,
            segment: segment.tasks,
        }),
        None => Ok(()),
    }
}

fn check_array(array: &Array) -> Result<(), MalformedJob> {
    let mut elements = 0;
    let mut before = None;
    for IndexRange { first, last, step } in array.ranges() {
        if step == 0 || last < first || before.is_some_and(|before| first <= before) {
            return Err(MalformedJob::Range { first, last, step });
        }
        elements += u64::from((last - first) / step) + 1;
        before = Some(last);
    }
    if elements > MAX_ELEMENTS {
        return Err(MalformedJob::Elements { elements });
    }
    match array.max_running {
        Some(0) => Err(MalformedJob::ZeroCap),
        _ => Ok(()),
    }
}
