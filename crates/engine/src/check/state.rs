//! Checks the state: everything derived is computed again from the records of jobs, and compared.

use std::collections::BTreeMap;

use muster_model::view::TaskStage;
use muster_model::{
    AdvanceReservationTimes, DeviceSet, ElementId, GpuModel, JobId, NodeId, QueueName, Tier, Time,
};
use rustc_hash::FxHashMap;

use super::gang::needs_of;
use super::ledger::NodeSum;
use super::{Violation, counted};
use crate::pool::Pool;
use crate::pool::index::{indexed_cpu_only, indexed_state};
use crate::pool::scope::Scope;
use crate::state::State;
use crate::state::advance_reservation::PlacedReservation;
use crate::state::entries::{EntryOwner, EntryStanding, MAX_TICKETS};
use crate::state::job::{Element, Job, JobRecord, Phase, Run, RunStage};

/// Returns all violated invariants of a state.
pub(crate) fn sanity_check(state: &State) -> Vec<Violation> {
    let mut found = Vec::new();
    let mut sums: BTreeMap<NodeId, NodeSum> = BTreeMap::new();
    let mut active = 0;
    for (id, job) in state.jobs.iter() {
        check_job(*id, &job.record, &mut found);
        check_entries(state, *id, job, &mut found);
        let record = &job.record;
        let waits = match record.spec.service() {
            None => record.waiting() > 0,
            // Opportunistic replicas use idle capacity; the service does not count as waiting for
            // them.
            Some(service) => {
                let own =
                    record.elements.iter().filter(|(at, _)| **at < service.replicas.guaranteed);
                own.filter(|(_, element)| matches!(element.phase, Phase::Waiting { .. })).count()
                    > 0
            }
        };
        if job.waits_in != waits.then_some(record.leaf) {
            found.push(Violation::State(format!("job {id}: its count as a waiting job is wrong")));
        }
        for (ordinal, element) in &job.record.elements {
            let element_id = ElementId { job: *id, index: job.record.index_of(*ordinal) };
            check_element(&job.record, element_id, element, &mut found);
            let Some(run) = element.run.as_ref().filter(|_| element.phase == Phase::Active) else {
                continue;
            };
            active += 1;
            if state.pool.holding(run.key).element != element_id {
                found.push(Violation::State(format!(
                    "{element_id} refers to the holding of another element"
                )));
            }
            for task in run.placement.iter() {
                if let Some(needs) = needs_of(job, task) {
                    sums.entry(task.node).or_default().add(task, needs);
                }
            }
        }
    }
    if active != state.pool.holdings().count() {
        found.push(Violation::State(format!(
            "{active} elements are active, but the number of holdings differs"
        )));
    }
    check_nodes(state, &sums, &mut found);
    check_counters(state, &mut found);
    check_index(state, &mut found);
    check_advance_reservations(state, &mut found);
    found
}

fn check_job(id: JobId, record: &JobRecord, found: &mut Vec<Violation>) {
    let mut wrong = |what: &str| found.push(Violation::State(format!("job {id}: {what}")));
    let count = |phase: fn(&Phase) -> bool| {
        record.elements.values().filter(|element| phase(&element.phase)).count() as u32
    };
    let ended = count(|phase| matches!(phase, Phase::Ended { .. }));
    let rest = record.rest.as_ref().map_or(0, |rest| rest.count);
    if record.active != count(|phase| *phase == Phase::Active) {
        wrong("its count of active elements is wrong");
    }
    let is_promised =
        |element: &Element| element.pending_allocation.is_some() && element.phase != Phase::Active;
    if record.pending_allocations as usize
        != record.elements.values().filter(|element| is_promised(element)).count()
    {
        wrong("its count of pending allocations is wrong");
    }
    if record.succeeded + record.failed != ended + rest {
        wrong("its count of ended elements is wrong");
    }
    let waiting = count(|phase| matches!(phase, Phase::Waiting { .. }));
    if waiting + record.unrecorded() + record.active + ended + rest != record.total {
        wrong("its elements do not add up");
    }
    // Replicas removed by scaling down remain as ended elements, so a service may have more.
    let count = record.spec.element_count();
    if record.total != count && (record.spec.service().is_none() || record.total < count) {
        wrong("its number of elements differs from its spec");
    }
    if record.is_over() {
        wrong("all its elements have ended, but it is still in memory");
    }
    if record.elements.contains_key(&record.next) {
        wrong("its first element without a record has one");
    }
    let begun = record.elements.values().filter(|element| element.begun).count() as u32;
    if record.begun != begun + rest {
        wrong("its count of begun elements is wrong");
    }
    let cap = record.spec.array.as_ref().and_then(|array| array.max_running);
    if cap.is_some_and(|cap| record.active > cap) {
        found.push(Violation::ArrayCap(id));
    }
}

fn check_entries(state: &State, id: JobId, job: &Job, found: &mut Vec<Violation>) {
    let record = &job.record;
    let mut wrong = |what: &str| found.push(Violation::State(format!("job {id}: {what}")));
    let standing = state.entries.standing(EntryOwner { job: id, ordinal: None });
    let may_wait = record.waits_for.is_empty()
        && !record.held
        && record.unrecorded() > 0
        && record.cap_remaining_without_pending() > 0;
    match standing {
        EntryStanding::Out if may_wait => wrong("its elements without a record are not queued"),
        EntryStanding::Queued(tickets)
            if !may_wait
                || tickets
                    != record
                        .unrecorded()
                        .min(record.cap_remaining_without_pending())
                        .min(MAX_TICKETS) =>
        {
            wrong("its elements without a record have the wrong number of tickets");
        }
        EntryStanding::Out | EntryStanding::Queued(_) | EntryStanding::Sleeping(_) => {}
    }
    for (ordinal, element) in &record.elements {
        let is_out = state.entries.standing(EntryOwner { job: id, ordinal: Some(*ordinal) })
            == EntryStanding::Out;
        let waits = matches!(element.phase, Phase::Waiting { held: false, .. })
            && record.waits_for.is_empty();
        if is_out == waits {
            wrong("an element with a record is wrongly queued, or wrongly not queued");
        }
        let Some(service) = record.spec.service() else { continue };
        if waits && *ordinal >= service.replicas.max {
            wrong("a replica that was removed by scaling down is still pending");
        }
        let slot = state.entries.slot(EntryOwner { job: id, ordinal: Some(*ordinal) });
        let is_last = slot
            .map(|slot| Tier::of_order(state.entries.rank(slot).priority) == Tier::Opportunistic);
        let is_own = *ordinal < service.replicas.guaranteed && record.spec.tier == Tier::Normal;
        if is_last == Some(is_own) {
            wrong("a replica is queued in the wrong tier");
        }
    }
}

fn check_element(record: &JobRecord, id: ElementId, element: &Element, found: &mut Vec<Violation>) {
    match (&element.phase, &element.run) {
        (Phase::Active, None) => {
            found.push(Violation::State(format!("{id} is active without an attempt")))
        }
        (Phase::Active, Some(run)) => check_run(record, id, run, found),
        (Phase::Waiting { .. } | Phase::Ended { .. }, Some(run)) if run.ended.is_none() => {
            found.push(Violation::State(format!(
                "{id} is not active, but its attempt has not ended"
            )));
        }
        (Phase::Waiting { .. } | Phase::Ended { .. }, _) => {}
    }
}

/// A gang is complete from its start to its end, and no user process runs before all tasks are
/// prepared.
fn check_run(record: &JobRecord, id: ElementId, run: &Run, found: &mut Vec<Violation>) {
    for (index, group) in record.spec.groups.iter().enumerate() {
        let tasks =
            run.placement.iter().filter(|task| usize::from(task.group) == index).count() as u32;
        let min = group.min_tasks;
        let max = group.max_tasks;
        if tasks < min || tasks > max {
            found.push(Violation::PartialGang {
                element: id,
                group: index as u16,
                tasks,
                min,
                max,
            });
        }
    }
    let over = run.tasks.iter().filter(|task| task.stage == TaskStage::Ended).count();
    if run.tasks.len() != run.placement.len() || over != run.over as usize {
        found.push(Violation::State(format!("{id}: its count of ended tasks is wrong")));
    }
    if over == run.tasks.len() {
        found
            .push(Violation::State(format!("{id}: all tasks have ended, but the attempt has not")));
    }
    let is_going = matches!(run.stage, RunStage::Going | RunStage::Running);
    if is_going && run.tasks.iter().any(|task| task.stage == TaskStage::Ordered) {
        found
            .push(Violation::State(format!("{id}: ordered to run before every task was prepared")));
    }
}

fn check_nodes(state: &State, sums: &BTreeMap<NodeId, NodeSum>, found: &mut Vec<Violation>) {
    for (index, node) in state.pool.nodes().iter().enumerate() {
        let id = NodeId(index as u32);
        let empty = NodeSum::default();
        let sum = sums.get(&id).unwrap_or(&empty);
        for device in 0..node.held.len().max(node.spec.devices.len()) {
            let milli = sum.devices.of(device);
            if milli > 1000 {
                found.push(Violation::Device { node: id, device, milli });
            }
            if milli != u64::from(node.held_of(device))
                || node.touched.contains(device) != (milli > 0)
            {
                found.push(Violation::State(format!(
                    "node {id} device {device}: its held share is wrong"
                )));
            }
        }
        let extras: BTreeMap<_, _> = node
            .used
            .extras
            .iter()
            .filter(|(_, count)| *count > 0)
            .filter_map(|(id, count)| Some((state.pool.extra_name(*id)?.clone(), *count)))
            .collect();
        if node.used.cpus != sum.cpus || node.used.memory != sum.memory || extras != sum.extras {
            found.push(Violation::State(format!("node {id}: its held quantities are wrong")));
        }
        if !node.bookings.is_empty() || !node.booked.is_empty() {
            found.push(Violation::State(format!("node {id}: a booking outlived its pass")));
        }
    }
}

/// The policy's counters of each leaf must equal the sum of holdings and pending allocations.
fn check_counters(state: &State, found: &mut Vec<Violation>) {
    let mut held: BTreeMap<(QueueName, GpuModel), u64> = BTreeMap::new();
    for one in counted::before(state) {
        let leaf = state.policy.queues().leaf_name(one.job.record.leaf);
        for (model, milli) in one.gpus {
            let model = state.policy.models().name(*model).clone();
            *held.entry((leaf.clone(), model)).or_default() += milli;
        }
    }
    for view in state.policy.queue_views(Time(0)).into_iter().filter(|view| view.is_leaf) {
        for row in view.gpus {
            let milli = held.remove(&(view.name.clone(), row.model)).unwrap_or(0);
            if milli != u64::from(row.used.0) {
                found.push(Violation::State(format!(
                    "queue {}: its use is counted wrongly",
                    view.name
                )));
            }
        }
    }
    if held.values().any(|milli| *milli > 0) {
        found.push(Violation::State("the use of a queue is not counted".to_owned()));
    }
}

/// The indexes must agree with a plain count on every node.
fn check_index(state: &State, found: &mut Vec<Violation>) {
    let mut pool = state.pool.refreshed();
    let mut plain = 0;
    for (index, node) in state.pool.nodes().iter().enumerate() {
        if !node.accepts_work() {
            continue;
        }
        plain += 1;
        let now = pool.node(NodeId(index as u32));
        let (published, (devices, cpus)) =
            (indexed_state(now), indexed_cpu_only(now).unwrap_or_default());
        if published != now.published
            || !pool
                .cpu_only_index_of(Scope::Cluster)
                .is_some_and(|all| all.contains(&(devices, cpus, node.rank)))
        {
            found.push(Violation::State(format!("node {index}: its index entry is stale")));
        }
        for (model, devices) in &node.models {
            let free = devices
                .iter()
                .filter(|device| {
                    node.held_of(*device) == 0
                        && !node.foreign.devices.contains(*device)
                        && !node.foreign.drained.contains(*device)
                        && !node.availability.devices.contains(*device)
                })
                .count() as u16;
            let listed =
                pool.index().model(*model).and_then(|model| model.clear.ascending(free, node.rank));
            if listed != Some((free, node.rank)) {
                found.push(Violation::State(format!(
                    "node {index}: the index does not list {free} free devices"
                )));
            }
        }
    }
    check_domains(&pool, found);
    if pool.cpu_only_index_of(Scope::Cluster).is_none_or(|hosts| hosts.len() != plain) {
        found.push(Violation::State("the index of nodes in service is incomplete".to_owned()));
    }
}

/// Every node must have the reservations that their places name, and no device may be in two active
/// ones.
fn check_advance_reservations(state: &State, found: &mut Vec<Violation>) {
    let now = state.pool.in_force_until();
    let is_active = |times: &AdvanceReservationTimes| {
        let since = now.0.checked_sub(times.start.0);
        let every = times.every.map_or(u64::MAX, |every| every.0);
        since.is_some_and(|since| {
            let nth = since / every.max(1);
            since % every.max(1) < times.length.0
                && times.count.is_none_or(|count| nth < u64::from(count))
        })
    };
    for (index, node) in state.pool.nodes().iter().enumerate() {
        let on = |placed: &PlacedReservation| {
            let places = placed.places.iter().filter(|place| place.node == node.spec.name);
            places.map(|place| (placed.reservation.name.clone(), place.devices)).collect::<Vec<_>>()
        };
        let expected: Vec<_> = state.advance_reservations.iter().flat_map(on).collect();
        let present = node
            .reservations
            .iter()
            .map(|reserved| (reserved.reservation.name.clone(), reserved.devices));
        if expected != present.collect::<Vec<_>>() {
            found.push(Violation::State(format!(
                "node {index} does not have the reservations that name it"
            )));
        }
        let mut taken = DeviceSet::EMPTY;
        for reserved in
            node.reservations.iter().filter(|reserved| is_active(&reserved.reservation.times))
        {
            let devices = reserved.devices.unwrap_or(DeviceSet(u128::MAX));
            if !devices.and(taken).is_empty() {
                found.push(Violation::State(format!("node {index} is in two active reservations")));
            }
            taken = taken.or(devices);
        }
    }
}

/// Every domain must list the nodes that name it, with the same state as the index of the cluster.
fn check_domains(pool: &Pool, found: &mut Vec<Violation>) {
    let levels = pool.domains.levels().len();
    let mut hosts: FxHashMap<_, usize> = FxHashMap::default();
    for node in pool.nodes().iter().filter(|node| node.accepts_work()) {
        node.domains.iter().for_each(|(id, _)| *hosts.entry(*id).or_default() += 1);
    }
    for (index, node) in pool.nodes().iter().enumerate() {
        let expected = if node.spec.domains.len() < levels { 0 } else { levels };
        let names = node.domains.iter().map(|(id, _)| &pool.domains.get(*id).name);
        if node.domains.len() != expected
            || names.zip(&node.spec.domains).any(|(known, own)| known != own)
        {
            found.push(Violation::State(format!("node {index} is not in its domains")));
        }
        for (id, rank) in &node.domains {
            let domain = pool.domains.get(*id);
            let is_listed = domain.nodes.get(*rank as usize) == Some(&NodeId(index as u32));
            let says_the_same =
                node.models.iter().zip(&node.published.buckets).all(|((model, _), (free, _))| {
                    let listed = domain
                        .index
                        .model(*model)
                        .and_then(|model| model.clear.ascending(*free, *rank));
                    listed == Some((*free, *rank))
                });
            let is_whole = domain.index.cpu_only.len() == hosts.get(id).copied().unwrap_or(0);
            if !is_listed || !says_the_same || !is_whole {
                found.push(Violation::State(format!(
                    "domain {} has a wrong entry for node {index}",
                    domain.name
                )));
            }
        }
    }
}
