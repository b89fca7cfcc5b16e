//! Resource use, counted from the journal: a start must be complete, on nodes that accept work,
//! within their capacity and within the queues' limits. It shares no code with the engine's
//! checker.

use std::collections::BTreeMap;

use muster_model::{AttemptId, GpuModel, NodeId, TaskPlacement, Time};

use super::queue_path::path_of;
use super::{Ledger, LedgerJob, budget, continuation, quota, topology};

/// Checks whether an attempt may hold a placement.
pub(crate) fn check_start(
    ledger: &Ledger,
    job: &LedgerJob,
    id: AttemptId,
    placement: &[TaskPlacement],
    at: Time,
) -> Result<(), String> {
    // 1. It is complete, and each task gets what it requests.
    if !continuation::is_size(&job.spec, placement) {
        return Err(format!("{id} starts with {} tasks", placement.len()));
    }
    for place in placement {
        check_place(ledger, job, place, at)
            .map_err(|what| format!("{id} on node {}: {what}", place.node))?;
    }
    // 2. Together with all others it fits the nodes.
    let mut used: BTreeMap<NodeId, (u64, u64)> = BTreeMap::new();
    let mut devices: BTreeMap<(NodeId, usize), u32> = BTreeMap::new();
    let others = ledger.active().map(|(other, attempt)| (other, &*attempt.placement));
    for (of, places) in others.chain([(job, placement)]) {
        for place in places {
            let Some(group) = of.spec.groups.get(usize::from(place.group)) else { continue };
            let sum = used.entry(place.node).or_default();
            sum.0 += u64::from(group.task.cpus.0);
            sum.1 += group.task.memory.0;
            for device in place.devices.iter() {
                *devices.entry((place.node, device)).or_default() += place.share.0;
            }
        }
    }
    for place in placement {
        let Some(host) = ledger.nodes.get(place.node.0 as usize) else { continue };
        let (cpus, memory) = used.get(&place.node).copied().unwrap_or_default();
        let features = |used: u64, all: u64, others: u64, asked: bool| {
            asked && used > all.saturating_sub(others)
        };
        let task = &job.spec.groups[usize::from(place.group)].task;
        if features(cpus, host.spec.cpus.0.into(), host.foreign.cpus.0.into(), task.cpus.0 > 0)
            || features(memory, host.spec.memory.0, host.foreign.memory.0, task.memory.0 > 0)
        {
            return Err(format!("{id} starts on node {} beyond its CPUs or memory", place.node));
        }
        if place
            .devices
            .iter()
            .any(|device| devices.get(&(place.node, device)).is_some_and(|held| *held > 1000))
        {
            return Err(format!("{id} starts on a device of node {} that is not free", place.node));
        }
    }
    // 3. It satisfies its topology constraint.
    topology::check(ledger, job, placement).map_err(|what| format!("{id} starts {what}"))
}

fn check_place(
    ledger: &Ledger,
    job: &LedgerJob,
    place: &TaskPlacement,
    at: Time,
) -> Result<(), &'static str> {
    let host = ledger.nodes.get(place.node.0 as usize).ok_or("there is no such node")?;
    let group = job.spec.groups.get(usize::from(place.group)).ok_or("there is no such group")?;
    let end = job.spec.time_limit.map_or(Time::NEVER, |limit| at + limit + job.spec.grace);
    if !host.up || host.closes(place.devices).is_some_and(|from| from <= at || from < end) {
        return Err("it accepts no work, or not for that long");
    }
    let constraint = &job.spec.constraint;
    let gpu = &group.task.gpu;
    if constraint.labels.iter().any(|(key, value)| host.spec.labels.get(key) != Some(value))
        || constraint.exclude.contains(&host.spec.name)
    {
        return Err("the job excludes it");
    }
    let asked = match (gpu.devices, gpu.share.0) {
        (0, 0) => (0, 0),
        (0, share) => (1, share),
        (devices, _) => (devices, 1000),
    };
    if (place.devices.len(), place.share.0) != asked {
        return Err("it does not hold what it requests");
    }
    let taken = host.foreign.devices.or(host.foreign.drained);
    if place.devices.iter().any(|device| taken.contains(device)) {
        return Err("other processes use that device");
    }
    let models: Option<Vec<&GpuModel>> = place
        .devices
        .iter()
        .map(|device| host.spec.devices.get(device).map(|one| &one.model))
        .collect();
    let models = models.ok_or("there is no such device")?;
    if models.windows(2).any(|two| two[0] != two[1]) {
        return Err("its devices are of several models");
    }
    if models.iter().any(|model| !gpu.models.is_empty() && !gpu.models.contains(model)) {
        return Err("it does not accept that model");
    }
    Ok(())
}

/// Checks the limits of running jobs and GPUs per user, quotas and budgets.
pub(crate) fn check_queues(
    ledger: &Ledger,
    (job, index): (&LedgerJob, u32),
    placement: &[TaskPlacement],
    at: Time,
) -> Result<(), String> {
    for (path, queue) in path_of(ledger, job) {
        let inside =
            |other: &LedgerJob| path_of(ledger, other).iter().any(|(name, _)| *name == path);
        let others: Vec<_> = ledger.counted().filter(|(other, _)| inside(other)).collect();
        if queue.limits.running_jobs.is_some_and(|most| others.len() as u32 >= most) {
            return Err(format!("the running jobs of {path}"));
        }
        let of_user = others.iter().filter(|(other, _)| other.spec.user == job.spec.user);
        let places = of_user.flat_map(|(_, places)| places.iter()).chain(placement);
        let milli: u64 =
            places.map(|place| u64::from(place.devices.len()) * u64::from(place.share.0)).sum();
        let asks = placement.iter().any(|place| !place.devices.is_empty());
        if asks && queue.limits.gpus_per_user.is_some_and(|most| milli > most * 1000) {
            return Err(format!("the GPUs that a user may hold in {path}"));
        }
    }
    quota::check(ledger, (job, index), placement, &[])?;
    budget::check(ledger, job, placement, at)
}
