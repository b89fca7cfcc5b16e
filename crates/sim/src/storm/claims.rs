//! Who was told to go for whom, and what became of it, from the journal alone: by what right, that
//! the claimant then starts where it was promised, unless the world has changed meanwhile, and that
//! it does not go on for ever. It shares no code with the engine.

use std::collections::BTreeMap;
use std::sync::Arc;

use muster_model::{
    ElementId, Eviction, EvictionCause, GpuModel, Protection, QueueSpec, TaskPlacement, Tier, Time,
};

use super::book::{Book, Job};
use super::holdings::{self, path_of};
use super::quota::{self, by_model, nominal};
use super::{onward, windows};

/// What an element was promised.
#[derive(Clone, Debug)]
pub(crate) struct Claim {
    pub(crate) placement: Arc<[TaskPlacement]>,
    pub(crate) since: Time,
    /// Nodes, queues or levels have changed since: that it is given up needs no other reason.
    pub(crate) intervened: bool,
}

/// All promises, and who went for whom.
#[derive(Clone, Debug, Default)]
pub(crate) struct Claims {
    pub(crate) of: BTreeMap<ElementId, Claim>,
    /// Times that the one was told to go for the other, since arrivals stopped.
    pub(crate) went: BTreeMap<(ElementId, ElementId), u32>,
    /// Told to go by the plan at hand, which has yet to promise them where they go on.
    pub(crate) onward: BTreeMap<ElementId, EvictionCause>,
}

impl Claims {
    /// The world changes under every promise.
    pub(crate) fn intervene(&mut self) {
        for claim in self.of.values_mut() {
            claim.intervened = true;
        }
    }
}

/// May an attempt be told to go for an element, which is promised these places?
pub(crate) fn judge_eviction(
    book: &Book,
    at: Time,
    element: ElementId,
    wanted: &[TaskPlacement],
    eviction: &Eviction,
) -> Result<(), &'static str> {
    let claimant = book.jobs.get(&element.job).ok_or("for one of no job")?;
    let victim = book.attempt(eviction.id.element).filter(|attempt| attempt.id == eviction.id);
    let victim = victim.filter(|victim| victim.leaving.is_none() && victim.fate.is_none());
    let victim = victim.ok_or("it does not run")?;
    let (job, place) = (&book.jobs[&eviction.id.element.job], eviction.id.element.index);
    // 1. Nothing protects it.
    let of_queue = path_of(book, job).iter().rev().find_map(|(_, queue)| queue.protect);
    let safe = |one: Protection| one.until(victim.held_from) > at;
    if safe(quota::protection(job, place)) || of_queue.is_some_and(safe) {
        return Err("it is protected");
    }
    // 2. There is a right.
    let terms = book.queues.preemption;
    let (is_last, claims_last) = (comes_last(job, place), comes_last(claimant, element.index));
    let (to, from) = (book.leaf_of(claimant), book.leaf_of(job));
    match eviction.cause {
        EvictionCause::Outranked => {
            let outranks = is_last == claims_last && job.spec.priority < claimant.spec.priority;
            let is_right = terms.priority && to == from && outranks;
            if is_right { Ok(()) } else { Err("it is not of lower priority in the same queue") }
        }
        EvictionCause::Grown => Err("it grows for another"),
        EvictionCause::Shrunk | EvictionCause::Moved if claims_last => {
            Err("the other is in nobody's turn")
        }
        EvictionCause::Shrunk if !terms.priority && !terms.reclaim => Err("nobody makes room"),
        EvictionCause::Shrunk => Ok(()),
        EvictionCause::Moved => onward::judge_move(book, (job, victim), wanted, at),
        EvictionCause::Yielded if is_last && !claims_last && (terms.priority || terms.reclaim) => {
            Ok(())
        }
        EvictionCause::Yielded => {
            Err("it does not run only as long as nobody waits, or the other neither")
        }
        EvictionCause::Reclaimed if !terms.reclaim => Err("nothing is taken back"),
        EvictionCause::Reclaimed if claims_last => Err("it is in nobody's turn"),
        EvictionCause::Reclaimed => {
            let (wanted, held) = (by_model(book, wanted), by_model(book, &victim.placement));
            let owes = |(model, milli): (&GpuModel, &u64)| {
                held.contains_key(model) && owes(book, (claimant, job), model, *milli)
            };
            if wanted.iter().any(owes) {
                Ok(())
            } else {
                Err("its queue owes the claimant's nothing")
            }
        }
    }
}

/// It waits behind everything else and runs in what is idle: what a service has beyond its floor.
fn comes_last(job: &Job, index: u32) -> bool {
    let floor = job.spec.service().map(|service| service.replicas.floor);
    floor.map_or(job.spec.tier == Tier::Last, |floor| index >= floor)
}

/// The claimant's side stays within what it owns, and the other side is beyond that, all the way
/// down.
fn owes(book: &Book, (to, from): (&Job, &Job), model: &GpuModel, milli: u64) -> bool {
    let used = |queue: &str| used(book, book.counted(), queue, model);
    // What starts larger than it must counts there already, but nobody knows how much of it.
    let most = |queue: &str| used(queue) + self::used(book, book.uncounted(), queue, model);
    let (to, from) = (path_of(book, to), path_of(book, from));
    let shared = to.iter().zip(&from).take_while(|(one, other)| one.0 == other.0).count();
    let beyond = |(name, queue): &(String, &QueueSpec)| most(name) > nominal(queue, model);
    to.get(shared).is_some_and(|(name, queue)| used(name) + milli <= nominal(queue, model))
        && from.len() > shared
        && from[shared..].iter().all(beyond)
}

/// As [`owes`], by a lender that stays within what it owns all the way up, and of one who holds
/// nothing but what is borrowed.
pub(crate) fn owes_whole(
    book: &Book,
    (to, from): (&Job, &Job),
    model: &GpuModel,
    milli: u64,
    held: u64,
) -> bool {
    let used = |queue: &str| used(book, book.counted(), queue, model);
    let (to, from) = (path_of(book, to), path_of(book, from));
    let shared = to.iter().zip(&from).take_while(|(one, other)| one.0 == other.0).count();
    let owns = to.last().is_some_and(|(_, leaf)| leaf.quota.contains_key(model));
    owns && held >= milli
        && to[shared..].iter().all(|(name, queue)| used(name) + milli <= nominal(queue, model))
        && from.len() > shared
        && to.len() > shared
        && from[shared..].iter().all(|(name, queue)| used(name) >= nominal(queue, model) + held)
}

/// Thousandths of GPUs of a model that some hold below a queue.
fn used<'a>(
    book: &Book,
    those: impl Iterator<Item = (&'a Job, &'a [TaskPlacement])>,
    queue: &str,
    model: &GpuModel,
) -> u64 {
    let inside = |job: &Job| path_of(book, job).iter().any(|(name, _)| name == queue);
    let inside = those.filter(|(job, _)| inside(job));
    inside.map(|(_, places)| quota::by_model(book, places).get(model).copied().unwrap_or(0)).sum()
}

/// May a promise be given up? Only when the world has changed since, a drain of its places lies
/// ahead, or they are set aside.
pub(crate) fn judge_end(book: &Book, element: ElementId) -> Result<(), String> {
    let claim = book.claims.of.get(&element).ok_or("it was promised nothing")?;
    let closes = |place: &TaskPlacement| {
        let host = book.nodes.get(place.node.0 as usize);
        host.is_none_or(|host| host.closes(place.devices).is_some())
    };
    let names = |job: &Job| job.spec.constraint.window.is_some();
    let is_aside =
        book.jobs.get(&element.job).is_some_and(names) || windows::is_aside(book, &claim.placement);
    match claim.intervened || is_aside || claim.placement.iter().any(closes) {
        true => Ok(()),
        false => Err("others went for it and nothing has changed since".to_owned()),
    }
}

/// Does a start leave what others were promised to them?
pub(crate) fn judge_start(
    book: &Book,
    element: ElementId,
    placement: &[TaskPlacement],
) -> Result<(), String> {
    let leaving = |attempt: &super::attempt::Attempt| attempt.leaving.is_some();
    let stays = book
        .active()
        .filter(|(_, attempt)| !leaving(attempt))
        .map(|(_, attempt)| &*attempt.placement);
    let promised = book.claims.of.iter().filter(|(of, _)| **of != element);
    let all: Vec<&TaskPlacement> =
        stays.chain(promised.map(|(_, claim)| &*claim.placement)).flatten().collect();
    for place in placement {
        for device in place.devices.iter() {
            let own = placement.iter().filter(|other| holdings::is_on(other, place.node, device));
            let others = all.iter().filter(|other| holdings::is_on(other, place.node, device));
            let held: u32 = own.map(|one| one.share.0).chain(others.map(|one| one.share.0)).sum();
            if held > 1000 {
                return Err(format!(
                    "device {device} of node {} is promised to another",
                    place.node
                ));
            }
        }
    }
    Ok(())
}
