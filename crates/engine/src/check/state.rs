//! Is the state sound? Everything derived is worked out again from the records of jobs and
//! compared.

use std::collections::BTreeMap;

use muster_model::view::TaskStage;
use muster_model::{
    DeviceSet, ElementId, GpuModel, JobId, NodeId, QueueName, Tier, Time, WindowTimes,
};
use rustc_hash::FxHashMap;

use super::ledger::Sum;
use super::plan::needs_of;
use super::{Violation, counted};
use crate::state::State;
use crate::state::entries::{MAX_TICKETS, Owner, Standing};
use crate::state::index::{describe, describe_plain};
use crate::state::job::{Element, Job, JobRecord, Phase, Run, RunStage};
use crate::state::pool::Pool;
use crate::state::topology::Scope;
use crate::state::window::Placed;

/// Walks all invariants of a state.
pub(crate) fn sanity_check(state: &State) -> Vec<Violation> {
    let mut found = Vec::new();
    let mut sums: BTreeMap<NodeId, Sum> = BTreeMap::new();
    let mut active = 0;
    for (id, job) in state.jobs.iter() {
        check_job(*id, &job.record, &mut found);
        check_entries(state, *id, job, &mut found);
        let record = &job.record;
        let waits = match record.spec.service() {
            None => record.waiting() > 0,
            // A burst takes what is left over; its user does not wait for it.
            Some(service) => {
                let own = record.elements.iter().filter(|(at, _)| **at < service.replicas.floor);
                own.filter(|(_, element)| matches!(element.phase, Phase::Waiting { .. })).count()
                    > 0
            }
        };
        if job.waits_in != waits.then_some(record.leaf) {
            found.push(Violation::State(format!(
                "job {id} is not counted as what it is among those that wait"
            )));
        }
        for (ordinal, element) in &job.record.elements {
            let element_id = ElementId { job: *id, index: job.record.index_of(*ordinal) };
            check_element(&job.record, element_id, element, &mut found);
            let Some(run) = element.run.as_ref().filter(|_| element.phase == Phase::Active) else {
                continue;
            };
            active += 1;
            if state.pool.holding(run.key).element != element_id {
                found.push(Violation::State(format!("{element_id} has somebody else's holding")));
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
            "{active} elements are active, but not as many hold something"
        )));
    }
    check_nodes(state, &sums, &mut found);
    check_counters(state, &mut found);
    check_index(state, &mut found);
    check_windows(state, &mut found);
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
    let is_promised = |element: &Element| element.claim.is_some() && element.phase != Phase::Active;
    if record.claims as usize
        != record.elements.values().filter(|element| is_promised(element)).count()
    {
        wrong("its count of promised elements is wrong");
    }
    if record.succeeded + record.failed != ended + rest {
        wrong("its count of ended elements is wrong");
    }
    let waiting = count(|phase| matches!(phase, Phase::Waiting { .. }));
    if waiting + record.fresh() + record.active + ended + rest != record.total {
        wrong("its elements do not add up");
    }
    // Replicas that were scaled away stay, as ended.
    let count = record.spec.element_count();
    if record.total != count && (record.spec.service().is_none() || record.total < count) {
        wrong("it has not the elements that its spec says");
    }
    if record.is_over() {
        wrong("it is over but still in memory");
    }
    if record.elements.contains_key(&record.next) {
        wrong("its first fresh element has a record");
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
    let fresh = state.entries.standing(Owner { job: id, ordinal: None });
    let may_wait =
        record.waits_for.is_empty() && !record.held && record.fresh() > 0 && record.cap_left() > 0;
    match fresh {
        Standing::Out if may_wait => wrong("its fresh elements are forgotten"),
        Standing::Queued(tickets)
            if !may_wait || tickets != record.fresh().min(record.cap_left()).min(MAX_TICKETS) =>
        {
            wrong("its fresh elements may not be in the order");
        }
        Standing::Out | Standing::Queued(_) | Standing::Sleeping(_) => {}
    }
    for (ordinal, element) in &record.elements {
        let is_out =
            state.entries.standing(Owner { job: id, ordinal: Some(*ordinal) }) == Standing::Out;
        let waits = matches!(element.phase, Phase::Waiting { held: false, .. })
            && record.waits_for.is_empty();
        if is_out == waits {
            wrong("an element with a record does not stand as it should");
        }
        let Some(service) = record.spec.service() else { continue };
        if waits && *ordinal >= service.replicas.ceiling {
            wrong("a replica waits that was scaled away");
        }
        let slot = state.entries.slot(Owner { job: id, ordinal: Some(*ordinal) });
        let is_last =
            slot.map(|slot| Tier::of_order(state.entries.rank(slot).priority) == Tier::Last);
        let is_own = *ordinal < service.replicas.floor && record.spec.tier == Tier::Usual;
        if is_last == Some(is_own) {
            wrong("a replica stands in the wrong tier");
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

/// A gang is whole from its start to its end, and no user process runs before all tasks are ready.
fn check_run(record: &JobRecord, id: ElementId, run: &Run, found: &mut Vec<Violation>) {
    for (index, group) in record.spec.groups.iter().enumerate() {
        let tasks =
            run.placement.iter().filter(|task| usize::from(task.group) == index).count() as u32;
        let (min, max) = (group.min_tasks, group.max_tasks);
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
        found.push(Violation::State(format!("{id}: its tasks are counted wrongly")));
    }
    if over == run.tasks.len() {
        found.push(Violation::State(format!("{id}: all tasks are over, but the attempt is not")));
    }
    let is_going = matches!(run.stage, RunStage::Going | RunStage::Running);
    if is_going && run.tasks.iter().any(|task| task.stage == TaskStage::Ordered) {
        found.push(Violation::State(format!("{id}: told to run before every task was ready")));
    }
}

fn check_nodes(state: &State, sums: &BTreeMap<NodeId, Sum>, found: &mut Vec<Violation>) {
    for (index, node) in state.pool.nodes().iter().enumerate() {
        let id = NodeId(index as u32);
        let empty = Sum::default();
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
                    "node {id} device {device}: held is counted wrongly"
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
            found.push(Violation::State(format!("node {id}: quantities are counted wrongly")));
        }
        if !node.bookings.is_empty() || !node.booked.is_empty() {
            found.push(Violation::State(format!("node {id}: a booking outlived its pass")));
        }
    }
}

/// What the policy counts of each leaf must be what its elements hold and were promised.
fn check_counters(state: &State, found: &mut Vec<Violation>) {
    let mut held: BTreeMap<(QueueName, GpuModel), u64> = BTreeMap::new();
    for one in counted::before(state) {
        let leaf = state.policy.leaf_name(one.job.record.leaf);
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
                    "queue {}: what it holds is counted wrongly",
                    view.name
                )));
            }
        }
    }
    if held.values().any(|milli| *milli > 0) {
        found.push(Violation::State("what a queue holds is not counted".to_owned()));
    }
}

/// The index must say of every node what a plain count says.
fn check_index(state: &State, found: &mut Vec<Violation>) {
    let mut pool = state.pool.refreshed();
    let mut plain = 0;
    for (index, node) in state.pool.nodes().iter().enumerate() {
        if !node.hosts() {
            continue;
        }
        plain += 1;
        let now = pool.node(NodeId(index as u32));
        let (published, (devices, cpus)) = (describe(now), describe_plain(now).unwrap_or_default());
        if published != now.published
            || !pool
                .plain_of(Scope::Cluster)
                .is_some_and(|all| all.contains(&(devices, cpus, node.rank)))
        {
            found.push(Violation::State(format!("node {index}: the index says what was")));
        }
        for (model, devices) in &node.models {
            let free = devices
                .iter()
                .filter(|device| {
                    node.held_of(*device) == 0
                        && !node.foreign.devices.contains(*device)
                        && !node.foreign.drained.contains(*device)
                        && !node.walls.devices.contains(*device)
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
    if pool.plain_of(Scope::Cluster).is_none_or(|hosts| hosts.len() != plain) {
        found.push(Violation::State("the index of hosts has not every host".to_owned()));
    }
}

/// Of every node, windows have what their places say; and no device is in two that are open.
fn check_windows(state: &State, found: &mut Vec<Violation>) {
    let now = state.pool.seen();
    let is_open = |times: &WindowTimes| {
        let (since, every) =
            (now.0.checked_sub(times.start.0), times.every.map_or(u64::MAX, |every| every.0));
        since.is_some_and(|since| {
            let nth = since / every.max(1);
            since % every.max(1) < times.length.0
                && times.count.is_none_or(|count| nth < u64::from(count))
        })
    };
    for (index, node) in state.pool.nodes().iter().enumerate() {
        let on = |placed: &Placed| {
            let places = placed.places.iter().filter(|place| place.node == node.spec.name);
            places.map(|place| (placed.window.name.clone(), place.devices)).collect::<Vec<_>>()
        };
        let said: Vec<_> = state.windows.iter().flat_map(on).collect();
        let claims = node.claims.iter().map(|claim| (claim.window.name.clone(), claim.devices));
        if said != claims.collect::<Vec<_>>() {
            found.push(Violation::State(format!(
                "node {index} is not set aside as its windows say"
            )));
        }
        let mut taken = DeviceSet::EMPTY;
        for claim in node.claims.iter().filter(|claim| is_open(&claim.window.times)) {
            let devices = claim.devices.unwrap_or(DeviceSet(u128::MAX));
            if !devices.and(taken).is_empty() {
                found.push(Violation::State(format!(
                    "node {index} is in two windows that are open"
                )));
            }
            taken = taken.or(devices);
        }
    }
}

/// Every domain must list the nodes that name it, and say of them what the index of the cluster
/// says.
fn check_domains(pool: &Pool, found: &mut Vec<Violation>) {
    let levels = pool.domains.levels().len();
    let mut hosts: FxHashMap<_, usize> = FxHashMap::default();
    for node in pool.nodes().iter().filter(|node| node.hosts()) {
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
            let is_whole = domain.index.plain.len() == hosts.get(id).copied().unwrap_or(0);
            if !is_listed || !says_the_same || !is_whole {
                found.push(Violation::State(format!("{} does not know node {index}", domain.name)));
            }
        }
    }
}
