//! When will a blocked gang fit? A sweep over the ends of what is held and booked, forward in time on scratch: at each
//! end what comes back is given back, until the gang fits for its whole length.
//!
//! With one node and quantities only, the first booking of a pass is EASY's shadow time, and what
//! [`Node::scalar_fits`] lets pass it are the extra nodes (Lifka 1995; Mu'alem and Feitelson 2001).

use std::sync::Arc;

use muster_model::{ElementId, NodeId, Span, TaskPlacement, Time};

use super::ask::{Ask, Freed};
use super::gang;
use super::terms::Admitted;
use crate::state::ends::{End, EndCursor};
use crate::state::node::{Node, Window};
use crate::state::pool::{HoldKey, Pool};
use crate::state::shape::{Eligible, GroupNeed, Shape};

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
    loop {
        // 1. The next instant at which something comes back.
        let held = pool.next_end(now, cursor).map(|(time, _, _)| time);
        let booked = booking_ends.peek().copied();
        let from = match (held, booked) {
            (None, None) => return None,
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
        if !is_news || !gauge.is_enough() {
            continue;
        }
        let until = wish.duration.map_or(Time::NEVER, |span| from + span);
        let window = Window { now, from, until };
        for Admitted { pick, caps } in wish.tries {
            let (eligible, avoid) = (wish.eligible, wish.avoid);
            let ask = Ask { shape: wish.shape, pick, caps, eligible, avoid, window, freed: Some(&freed) };
            if let Some((_, placement)) = gang::place(pool, ask, wish.element, End::Never, wish.shape) {
                return Some((from, until, placement));
            }
        }
    }
}

/// Parks a holding. Answers whether a node came into play that the gang may use.
fn give_back(pool: &mut Pool, key: HoldKey, freed: &mut Freed, gauge: &mut Gauge, wish: &Wish<'_>) -> bool {
    let placement = Arc::clone(&pool.holding(key).placement);
    pool.park(key);
    let mut is_news = false;
    for task in placement.iter() {
        if !gauge.counts(task.node) {
            continue;
        }
        is_news = true;
        if freed.order.last() != Some(&task.node) {
            freed.order.push(task.node);
        }
        freed.devices.entry(task.node).or_default().push(task.devices);
        gauge.refresh(pool, task.node, wish);
    }
    is_news
}

/// An upper bound on what could be placed, kept up to date node by node: attempts that cannot succeed are not made.
struct Gauge {
    /// Which nodes may be used at all.
    counted: Vec<bool>,
    groups: Vec<GroupGauge>,
}

struct GroupGauge {
    by_node: Vec<u32>,
    sum: u64,
    wanted: u64,
}

impl Gauge {
    fn new(pool: &Pool, wish: &Wish<'_>) -> Self {
        let admits = |(id, node): (usize, &Node)| {
            node.hosts()
                && wish.eligible.as_ref().is_none_or(|eligible| eligible[id])
                && !wish.avoid.contains(&NodeId(id as u32))
        };
        let counted: Vec<bool> = pool.nodes().iter().enumerate().map(admits).collect();
        let gauge_group = |group: &GroupNeed| {
            let nodes = pool.nodes().iter().zip(&counted);
            let by_node: Vec<u32> =
                nodes.map(|(node, counts)| if *counts { bound(node, group) } else { 0 }).collect();
            let sum = by_node.iter().map(|tasks| u64::from(*tasks)).sum();
            GroupGauge { by_node, sum, wanted: u64::from(group.tasks) }
        };
        let groups = wish.shape.groups.iter().map(gauge_group).collect();
        Self { counted, groups }
    }

    fn counts(&self, node: NodeId) -> bool {
        self.counted[node.0 as usize]
    }

    fn refresh(&mut self, pool: &Pool, id: NodeId, wish: &Wish<'_>) {
        for (gauge, group) in self.groups.iter_mut().zip(&wish.shape.groups) {
            let present = bound(pool.node(id), group);
            let old = std::mem::replace(&mut gauge.by_node[id.0 as usize], present);
            gauge.sum = gauge.sum + u64::from(present) - u64::from(old);
        }
    }

    fn is_enough(&self) -> bool {
        self.groups.iter().all(|gauge| gauge.sum >= gauge.wanted)
    }
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
