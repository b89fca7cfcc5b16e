//! When will a blocked gang fit? A sweep over the ends of what is held and booked, forward in time on scratch: at each
//! end what comes back is given back, until the gang fits for its whole length.
//!
//! With one node and quantities only, the first booking of a pass is EASY's shadow time, and what
//! [`Node::scalar_fits`] lets pass it are the extra nodes (Lifka 1995; Mu'alem and Feitelson 2001). The same holds for
//! devices as long as one booking is made: it names devices, those that come back last. With several bookings
//! (conservative) naming devices is stricter than counting them, so that a job may start later than by the textbook.

use std::sync::Arc;

use muster_model::{ElementId, NodeId, Span, TaskPlacement, Time};
use smallvec::SmallVec;

use super::ask::{Ask, Freed};
use super::gang;
use super::search::EFFORT;
use super::terms::Admitted;
use crate::state::ends::{End, EndCursor};
use crate::state::node::{Node, Window};
use crate::state::pool::{HoldKey, Pool};
use crate::state::shape::{Eligible, GroupNeed, Shape};
use crate::state::topology::Scope;

/// What is to be planned for a future start.
pub(crate) struct Wish<'a> {
    pub(crate) element: ElementId,
    pub(crate) shape: &'a Arc<Shape>,
    /// Tries that limits and quota admit now.
    pub(crate) tries: &'a [Admitted<'a>],
    pub(crate) eligible: &'a Eligible,
    pub(crate) avoid: &'a [NodeId],
    /// How long it holds what it gets; `None` is endless.
    pub(crate) duration: Option<Span>,
}

/// A future start: from when until when, and where.
pub(crate) type Slot = (Time, Time, Arc<[TaskPlacement]>);

/// The earliest future start that leaves every booking intact; `None` when what it needs never comes back.
pub(crate) fn earliest(pool: &mut Pool, now: Time, wish: &Wish<'_>) -> Option<Slot> {
    let checkpoint = pool.checkpoint();
    let found = sweep(pool, now, wish);
    pool.rollback(checkpoint);
    found
}

fn sweep(pool: &mut Pool, now: Time, wish: &Wish<'_>) -> Option<Slot> {
    let mut gauge = Gauge::new(pool, wish);
    let mut booking_ends: Vec<Time> = pool.bookings().iter().map(|booking| booking.end).collect();
    booking_ends.sort_unstable();
    let mut booking_ends = booking_ends.into_iter().filter(|end| *end > now && *end < Time::NEVER).peekable();
    let mut freed = Freed::default();
    let mut cursor = EndCursor::default();
    let mut last = None;
    loop {
        // 1. The next instant at which something comes back.
        let held = pool.next_end(now, cursor).map(|(time, _, _)| time);
        let booked = booking_ends.peek().copied();
        let from = match (held, booked) {
            // Everything is back: the one instant at which it is worth a search.
            (None, None) => return last.and_then(|from| wish.start_at(pool, now, from, &freed, EFFORT)),
            (held, booked) => held.unwrap_or(Time::NEVER).min(booked.unwrap_or(Time::NEVER)),
        };
        // 2. Give back everything that ends then.
        let mut is_news = booked == Some(from);
        while booking_ends.next_if_eq(&from).is_some() {}
        while let Some((time, key, next)) = pool.next_end(now, cursor).filter(|(time, _, _)| *time == from) {
            debug_assert!(time > now);
            cursor = next;
            is_news |= give_back(pool, key, &mut freed, &mut gauge, wish);
        }
        // 3. Does it fit from here?
        if !is_news || !gauge.is_enough(wish) {
            continue;
        }
        last = Some(from);
        if let Some(found) = wish.start_at(pool, now, from, &freed, 0) {
            return Some(found);
        }
    }
}

/// Parks a holding. Answers whether a node came into play that the gang may use.
fn give_back(pool: &mut Pool, key: HoldKey, freed: &mut Freed, gauge: &mut Gauge, wish: &Wish<'_>) -> bool {
    let placement = Arc::clone(&pool.holding(key).placement);
    // Tasks of one node follow each other within a group.
    let mut nodes: SmallVec<[NodeId; 8]> = placement.iter().map(|task| task.node).collect();
    nodes.dedup();
    if nodes.len() > 1 {
        nodes.sort_unstable();
        nodes.dedup();
    }
    nodes.retain(|node| wish.admits(pool, *node));
    for node in &nodes {
        gauge.leave(pool.node(*node), wish);
    }
    pool.park(key);
    for node in &nodes {
        gauge.enter(pool.node(*node), wish);
    }
    for task in placement.iter().filter(|_| !nodes.is_empty()) {
        if freed.order.last() != Some(&task.node) {
            freed.order.push(task.node);
        }
        freed.devices.entry(task.node).or_default().push(task.devices);
    }
    !nodes.is_empty()
}

impl Wish<'_> {
    /// A start at this instant, with what has come back by then.
    fn start_at(&self, pool: &mut Pool, now: Time, from: Time, freed: &Freed, effort: u32) -> Option<Slot> {
        let until = self.duration.map_or(Time::NEVER, |span| from + span);
        let window = Window { now, from, until };
        let (shape, eligible, avoid) = (&**self.shape, self.eligible, self.avoid);
        self.tries.iter().find_map(|Admitted { pick, caps }| {
            let freed = Some(freed);
            let ask =
                Ask { shape, scope: Scope::Cluster, pick, caps, eligible, avoid, window, freed, effort };
            let (_, placement) = gang::place(pool, ask, self.element, End::Never, self.shape)?;
            Some((from, until, placement))
        })
    }

    fn admits(&self, pool: &Pool, id: NodeId) -> bool {
        pool.node(id).hosts()
            && self.eligible.as_ref().is_none_or(|eligible| eligible[id.0 as usize])
            && !self.avoid.contains(&id)
    }
}

/// An upper bound on what could be placed, by group, kept up to date as nodes change: attempts that cannot succeed are
/// not made.
struct Gauge {
    sums: SmallVec<[u64; 2]>,
}

impl Gauge {
    fn new(pool: &Pool, wish: &Wish<'_>) -> Self {
        let sum = |group: &GroupNeed| {
            // What the sizes of the buckets say costs nothing. Only where they say "enough" must something else be
            // short (CPUs, labels, bookings), and every node is looked at.
            let cheap = bound_of_buckets(pool, group);
            if cheap < u64::from(group.tasks) {
                return cheap;
            }
            let ids = (0..pool.nodes().len() as u32).map(NodeId).filter(|id| wish.admits(pool, *id));
            ids.map(|id| u64::from(bound(pool.node(id), group))).sum()
        };
        Self { sums: wish.shape.groups.iter().map(sum).collect() }
    }

    /// A node is about to change.
    fn leave(&mut self, node: &Node, wish: &Wish<'_>) {
        for (sum, group) in self.sums.iter_mut().zip(&wish.shape.groups) {
            *sum = sum.saturating_sub(u64::from(bound(node, group)));
        }
    }

    /// A node has changed.
    fn enter(&mut self, node: &Node, wish: &Wish<'_>) {
        for (sum, group) in self.sums.iter_mut().zip(&wish.shape.groups) {
            *sum += u64::from(bound(node, group));
        }
    }

    fn is_enough(&self, wish: &Wish<'_>) -> bool {
        self.sums.iter().zip(&wish.shape.groups).all(|(sum, group)| *sum >= u64::from(group.tasks))
    }
}

/// At most how many tasks of a group all nodes host, from the sizes of the buckets; no less than the sum over nodes of
/// [`bound`]. Nothing is known of groups without whole devices.
fn bound_of_buckets(pool: &Pool, group: &GroupNeed) -> u64 {
    if group.devices == 0 {
        return u64::MAX;
    }
    let models = pool.models().filter(|model| group.accepts(*model));
    let indexes = models.filter_map(|model| pool.index.model(model));
    let sizes = indexes.flat_map(|index| index.clear.sizes().chain(index.booked.sizes()));
    sizes.map(|(free, nodes)| free / u64::from(group.devices) * nodes).sum()
}

/// At most how many tasks of a group a node hosts as it is on scratch, bookings aside.
fn bound(node: &Node, group: &GroupNeed) -> u32 {
    let accepted = node.models.iter().filter(|(model, _)| group.accepts(*model));
    let by_gpu = match (group.devices, group.share) {
        (0, 0) => u64::MAX,
        (0, share) => {
            let devices = accepted.flat_map(|(_, devices)| devices.and(node.usable).iter());
            devices.map(|device| u64::from(1000u16.saturating_sub(node.held_of(device)) / share)).sum()
        }
        (per_task, _) => {
            accepted.map(|(_, devices)| u64::from(devices.and(node.free()).len() / per_task)).sum()
        }
    };
    let tasks = by_gpu.min(node.limit.fits(&node.used, &group.scalars)).min(u64::from(group.tasks));
    match group.per_node {
        Some(block) if tasks >= u64::from(block) => block,
        Some(_) => 0,
        None => tasks as u32,
    }
}
