//! Bounds that the engine's arithmetic relies on. `spec` keeps texts well within them; whoever else
//! makes a job (a trace, another program) is refused here in words, so that no number of a job can
//! break the engine. It must not judge whether a job fits anything: that is for quota and capacity
//! to say.

use std::sync::Arc;

use muster_model::job::TaskGroup;
use muster_model::{
    Array, Elastic, GpuMilli, IndexRange, JobSpec, Replicas, Service, Topology, TopologyRule,
};

/// Most tasks of an element, over all groups: each costs a few hundred bytes while it runs.
const MOST_TASKS: u64 = 1 << 20;
/// Most groups: they are numbered in 16 bits, and each is placed in turn.
const MOST_GROUPS: usize = 1 << 10;
/// Most GPUs of a task: thousandths of them stay within 32 bits. No node has nearly as many.
const MOST_DEVICES: u32 = 1 << 20;
/// Most elements of an array: an element's age within its job has 32 bits, and tickets come before
/// elements.
const MOST_ELEMENTS: u64 = 1 << 31;
/// Thousandths of a device from which on it is a whole one.
const WHOLE: GpuMilli = GpuMilli(1000);

/// A job that contradicts itself, or has numbers that no scheduler can count with.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// Too many groups.
    #[error("the job has {groups} groups; at most {most} are supported", most = MOST_GROUPS)]
    Groups {
        /// How many it has.
        groups: usize,
    },
    /// Too many tasks in one element.
    #[error("the job has {tasks} tasks; at most {most} are supported", most = MOST_TASKS)]
    Tasks {
        /// How many it has.
        tasks: u64,
    },
    /// It may grow to fewer tasks than it starts with.
    #[error("group {group} starts with {min} tasks and may have at most {max}")]
    Shrinks {
        /// Of which group.
        group: Arc<str>,
        /// Tasks of the gang.
        min: u32,
        /// Tasks at most.
        max: u32,
    },
    /// Tasks per node do not divide the tasks.
    #[error(
        "group {group} has {tasks} tasks, which are no whole number of nodes with {per_node} each"
    )]
    PerNode {
        /// Of which group.
        group: Arc<str>,
        /// Tasks of the gang.
        tasks: u32,
        /// Tasks on each node.
        per_node: u32,
    },
    /// Slices do not divide the tasks, or cut the tasks of a node in two.
    #[error("group {group} has {tasks} tasks, which are no whole number of segments of {segment}")]
    Segment {
        /// Of which group.
        group: Arc<str>,
        /// Tasks of the gang.
        tasks: u32,
        /// Tasks of a segment.
        segment: u32,
    },
    /// Slices stay together, spreading takes apart.
    #[error("the job is to be spread, and to stay together in segments")]
    SpreadSegments,
    /// A share of a device is a part of one device.
    #[error("group {group} asks for {share} of a GPU; a share is at least 0.001 and at most 0.999")]
    Share {
        /// Of which group.
        group: Arc<str>,
        /// What it asks for.
        share: GpuMilli,
    },
    /// Whole devices or a share, not both.
    #[error(
        "group {group} asks for {devices} whole GPUs and {share} of another; a task has one or the other"
    )]
    Mixed {
        /// Of which group.
        group: Arc<str>,
        /// Whole devices.
        devices: u32,
        /// And this share.
        share: GpuMilli,
    },
    /// Too many devices per task.
    #[error("group {group} asks for {devices} GPUs per task; at most {most} are supported", most = MOST_DEVICES)]
    Devices {
        /// Of which group.
        group: Arc<str>,
        /// How many it asks for.
        devices: u32,
    },
    /// The range of an array is none.
    #[error("the array goes from {first} to {last} in steps of {step}")]
    Range {
        /// First index.
        first: u32,
        /// Last index.
        last: u32,
        /// Distance.
        step: u32,
    },
    /// Too many elements.
    #[error("the array has {elements} elements; at most {most} are supported", most = MOST_ELEMENTS)]
    Elements {
        /// How many it has.
        elements: u64,
    },
    /// A service whose numbers of replicas contradict each other, or are too many.
    #[error(
        "the service has {floor} to {ceiling} replicas; at least 1 and at most {most} are supported",
        most = Replicas::MOST
    )]
    Replicas {
        /// Always.
        floor: u32,
        /// At most.
        ceiling: u32,
    },
    /// Its replicas have ports beyond the last one there is.
    #[error("replica {last} of the service would have a port above 65535: the first has {port}")]
    Ports {
        /// Of the first replica.
        port: u16,
        /// The last replica.
        last: u32,
    },
    /// A gang grows and shrinks in one of its groups.
    #[error("more than one group can grow")]
    Elastics,
    /// What grows does so by whole steps.
    #[error("group {group} grows from {min} to {max} tasks, which is not by steps of {step}")]
    Step {
        /// Which.
        group: Arc<str>,
        /// Fewest.
        min: u32,
        /// Most.
        max: u32,
        /// At once.
        step: u32,
    },
    /// What is spread evenly has one size.
    #[error("what is spread over domains cannot grow")]
    SpreadElastic,
    /// Replicas are elements, and so are those of an array.
    #[error("a service is no array")]
    ServiceArray,
    /// An array whose cap lets nothing run.
    #[error("the array lets none of its elements run at once")]
    Cap,
}

/// Can the engine count with this job?
pub(crate) fn judge(spec: &JobSpec) -> Result<(), Malformed> {
    if spec.groups.len() > MOST_GROUPS {
        return Err(Malformed::Groups { groups: spec.groups.len() });
    }
    let tasks =
        spec.groups.iter().map(|group| u64::from(group.min_tasks.max(group.max_tasks))).sum();
    if tasks > MOST_TASKS {
        return Err(Malformed::Tasks { tasks });
    }
    spec.groups.iter().try_for_each(judge_group)?;
    spec.constraint
        .topology
        .as_ref()
        .map_or(Ok(()), |topology| judge_topology(topology, &spec.groups))?;
    judge_elastic(spec)?;
    match (spec.service(), &spec.array) {
        (Some(_), Some(_)) => Err(Malformed::ServiceArray),
        (Some(service), None) => judge_service(service),
        (None, Some(array)) => judge_array(array),
        (None, None) => Ok(()),
    }
}

fn judge_elastic(spec: &JobSpec) -> Result<(), Malformed> {
    let Some(Elastic { group, min, max, step }) = spec.elastic() else { return Ok(()) };
    if spec.groups.iter().filter(|group| group.min_tasks < group.max_tasks).count() > 1 {
        return Err(Malformed::Elastics);
    }
    if (max - min) % step > 0 {
        return Err(Malformed::Step {
            group: Arc::clone(&spec.groups[usize::from(group)].name),
            min,
            max,
            step,
        });
    }
    let rule = spec.constraint.topology.as_ref().map(|topology| &topology.rule);
    if matches!(rule, Some(TopologyRule::Spread(_))) {
        Err(Malformed::SpreadElastic)
    } else {
        Ok(())
    }
}

pub(crate) fn judge_service(service: &Service) -> Result<(), Malformed> {
    let Replicas { floor, ceiling } = service.replicas;
    if ceiling == 0 || ceiling < floor || ceiling > Replicas::MOST {
        return Err(Malformed::Replicas { floor, ceiling });
    }
    let last = ceiling - 1;
    match service.port {
        Some(port) if service.port_of(last).is_none() => Err(Malformed::Ports { port, last }),
        Some(_) | None => Ok(()),
    }
}

fn judge_group(group: &TaskGroup) -> Result<(), Malformed> {
    let name = || Arc::clone(&group.name);
    let (min, max, gpu) = (group.min_tasks, group.max_tasks, &group.task.gpu);
    if max < min {
        return Err(Malformed::Shrinks { group: name(), min, max });
    }
    if let Some(per_node) = group.tasks_per_node
        && min.checked_rem(per_node) != Some(0)
    {
        return Err(Malformed::PerNode { group: name(), tasks: min, per_node });
    }
    let (devices, share) = (gpu.devices, gpu.share);
    if share >= WHOLE {
        return Err(Malformed::Share { group: name(), share });
    }
    if devices > 0 && share > GpuMilli(0) {
        return Err(Malformed::Mixed { group: name(), devices, share });
    }
    if devices > MOST_DEVICES {
        return Err(Malformed::Devices { group: name(), devices });
    }
    Ok(())
}

fn judge_topology(topology: &Topology, groups: &[TaskGroup]) -> Result<(), Malformed> {
    let Some(segment) = &topology.segment else { return Ok(()) };
    if matches!(topology.rule, TopologyRule::Spread(_)) {
        return Err(Malformed::SpreadSegments);
    }
    let divides = |group: &&TaskGroup| {
        let block = group.tasks_per_node.unwrap_or(1);
        group.min_tasks.checked_rem(segment.tasks) == Some(0)
            && segment.tasks.checked_rem(block) == Some(0)
    };
    match groups.iter().find(|group| !divides(group)) {
        Some(TaskGroup { name, min_tasks: tasks, .. }) => Err(Malformed::Segment {
            group: Arc::clone(name),
            tasks: *tasks,
            segment: segment.tasks,
        }),
        None => Ok(()),
    }
}

fn judge_array(array: &Array) -> Result<(), Malformed> {
    let mut elements = 0;
    let mut before = None;
    for IndexRange { first, last, step } in array.ranges() {
        if step == 0 || last < first || before.is_some_and(|before| first <= before) {
            return Err(Malformed::Range { first, last, step });
        }
        elements += u64::from((last - first) / step) + 1;
        before = Some(last);
    }
    if elements > MOST_ELEMENTS {
        return Err(Malformed::Elements { elements });
    }
    match array.max_running {
        Some(0) => Err(Malformed::Cap),
        _ => Ok(()),
    }
}
