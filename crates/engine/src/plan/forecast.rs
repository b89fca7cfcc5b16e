//! When will enough have come back? Counts ahead in time, node by node, over the ends of what is
//! held and over what is booked; nothing is given back on scratch for it, and indexes stay as they
//! are. It answers for one group of whole devices, or without any, that has no topology, which is
//! what most of those wait for that get a reservation; `reserve.rs` sweeps for all others, and must
//! find the same.
//!
//! What comes back when is the same for everybody who waits, so it is listed once, as far as
//! somebody looks and as long as nothing else is held.

use muster_model::{DeviceSet, NodeId, Span, Time};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use super::ask::{Freed, Return};
use super::reserve::{Slot, Wish};
use super::walk::{List, PlainWalk, Walk};
use crate::state::ends::Upcoming;
use crate::state::node::{Node, WHOLE, Window};
use crate::state::pool::{HoldKey, Pool};
use crate::state::scalars::Scalars;
use crate::state::shape::GroupNeed;
use crate::state::topology::Scope;

/// See the module's description.
#[derive(Clone, Debug, Default)]
pub(crate) struct Forecast {
    /// Of which set of holdings, as seen from when.
    of: Option<(u64, Time)>,
    /// In order, as far as somebody has looked.
    returns: Vec<Return>,
    /// What comes back later.
    upcoming: Upcoming,
    /// Of the last who was counted for; kept for its memory.
    seen: FxHashMap<NodeId, Seen>,
    /// Instants at which some node was looked at in this round, by whichever way.
    pub(super) looks: usize,
}

/// How many tasks nodes take, from some instant on for as long as it is wished.
struct Count<'w> {
    wish: &'w Wish<'w>,
    now: Time,
    /// Nodes that were looked at. All others take none.
    seen: FxHashMap<NodeId, Seen>,
    sum: u64,
}

/// A node as it will be.
#[derive(Clone, Debug)]
struct Seen {
    free: DeviceSet,
    /// Quantities held, and who gave some back last; kept where no devices are asked for and
    /// nothing is booked.
    used: Option<(Scalars, Option<HoldKey>)>,
    tasks: u32,
}

impl Forecast {
    /// True for what can be told by counting.
    pub(super) fn tells(wish: &Wish<'_>) -> bool {
        let is_counted = |group: &GroupNeed| group.devices > 0 || !group.wants_gpu();
        matches!(&wish.shape.groups[..], [group] if is_counted(group))
            && wish.shape.topology.is_none()
    }

    /// The earliest future start. On success its places are held on scratch.
    pub(super) fn earliest(&mut self, pool: &mut Pool, now: Time, wish: &Wish<'_>) -> Option<Slot> {
        self.refresh(pool, now);
        let mut count = Count::new(pool, now, wish, std::mem::take(&mut self.seen));
        if wish.shape.groups[0].devices == 0 {
            self.looks += count.seen.len();
        }
        let (mut begins, mut ends) = (Edges::begins(pool, now, wish), Edges::ends(pool, now));
        let mut past = 0;
        let found = loop {
            // 1. The next instant at which something comes back or a booking begins to matter.
            let held = self.after(pool, past).map(|one| one.at);
            let Some(from) = [held, begins.next(pool), ends.next(pool)].into_iter().flatten().min()
            else {
                break None;
            };
            // 2. What nodes take from then on.
            let mut is_news = false;
            while let Some(one) = self.after(pool, past).filter(|one| one.at == from) {
                is_news |= count.give_back(pool, &one);
                past += 1;
            }
            if !pool.bookings().is_empty() {
                self.looks += begins.pass(pool, from, &mut count);
                let ended = ends.pass(pool, from, &mut count);
                self.looks += ended;
                is_news |= ended > 0;
            }
            // 3. Does it fit from here?
            if is_news && count.is_enough() {
                let freed = Freed::Ahead(&self.returns[..past]);
                if let Some(found) = wish.start_at(pool, now, from, freed, 0) {
                    break Some(found);
                }
                self.looks += pool.nodes().len();
            }
        };
        self.looks += past;
        self.seen = count.seen;
        found
    }

    /// For a new pass: since the last, ends that were foreseen may have become fixed, and come in
    /// another order.
    pub(super) fn wipe(&mut self) {
        self.of = None;
    }

    /// Forgets what comes back, unless it is the same as before.
    fn refresh(&mut self, pool: &Pool, now: Time) {
        let of = Some((pool.version(), now));
        if self.of != of {
            self.of = of;
            self.returns.clear();
            self.upcoming = Upcoming::from(now);
        }
    }

    /// What comes back after so many others.
    fn after(&mut self, pool: &Pool, past: usize) -> Option<Return> {
        while self.returns.len() == past {
            let (at, key) = self.upcoming.peek(pool.ends())?;
            self.upcoming.pass();
            self.list(pool, at, key);
        }
        self.returns.get(past).copied()
    }

    /// Lists what a holding gives back.
    fn list(&mut self, pool: &Pool, at: Time, key: HoldKey) {
        let first = self.returns.len();
        for task in pool.holding(key).placement.iter() {
            let (devices, is_partial) = (task.devices, task.share.0 != u32::from(WHOLE));
            match self.returns[first..].last_mut() {
                // Tasks of one node follow each other.
                Some(last) if last.node == task.node => {
                    last.devices = last.devices.or(devices);
                    last.is_partial |= is_partial;
                }
                _ => self.returns.push(Return { at, key, node: task.node, devices, is_partial }),
            }
        }
    }
}

/// When bookings come to stand in the way, or when they end, one after the other.
struct Edges {
    is_end: bool,
    /// What a booking begins with this much later stands in the way: one instant more, and it would
    /// last into the booking.
    ahead: Span,
    /// The next in order.
    at: usize,
}

impl Edges {
    /// When they come to stand in the way of what lasts as long as is wished. What is endless they
    /// always do.
    fn begins(pool: &Pool, now: Time, wish: &Wish<'_>) -> Self {
        let all = pool.booked_from();
        let at = wish
            .duration
            .map_or(all.len(), |length| all.partition_point(|(at, _)| *at < now + length));
        Self { is_end: false, ahead: wish.duration.unwrap_or(Span(0)), at }
    }

    fn ends(pool: &Pool, now: Time) -> Self {
        Self {
            is_end: true,
            ahead: Span(0),
            at: pool.booked_until().partition_point(|(at, _)| *at <= now),
        }
    }

    /// When it is the next one's turn.
    fn next(&self, pool: &Pool) -> Option<Time> {
        match self.is_end {
            true => {
                pool.booked_until().get(self.at).map(|(at, _)| *at).filter(|at| *at < Time::NEVER)
            }
            false => pool.booked_from().get(self.at).map(|(at, _)| Time(at.0 - self.ahead.0 + 1)),
        }
    }

    /// Looks again at the nodes of all whose turn it is. Answers how many looks that took.
    fn pass(&mut self, pool: &Pool, from: Time, count: &mut Count<'_>) -> usize {
        let mut looks = 0;
        while self.next(pool) == Some(from) {
            let (_, booking) =
                if self.is_end { pool.booked_until() } else { pool.booked_from() }[self.at];
            let placement = &pool.bookings()[booking as usize].placement;
            for tasks in placement.chunk_by(|one, next| one.node == next.node) {
                count.look_again(pool, tasks[0].node, from);
                looks += 1;
            }
            self.at += 1;
        }
        looks
    }
}

impl<'w> Count<'w> {
    /// `seen` is of somebody else, and kept for its memory.
    fn new(
        pool: &mut Pool,
        now: Time,
        wish: &'w Wish<'w>,
        mut seen: FxHashMap<NodeId, Seen>,
    ) -> Self {
        seen.clear();
        let mut count = Self { wish, now, seen, sum: 0 };
        if count.group().devices == 0 {
            let block = u64::from(count.group().per_node.unwrap_or(1));
            let cpus = count.group().scalars.cpus.saturating_mul(block);
            let mut walk = PlainWalk::new(Scope::Cluster, cpus);
            while let Some(id) = walk.next(pool) {
                count.look_again(pool, id, now);
            }
            return count;
        }
        let least = u16::try_from(count.group().devices).unwrap_or(u16::MAX);
        let models = pool.models().filter(|model| count.group().accepts(*model));
        // Only nodes with that many devices free take anything now; the indexes know them.
        for model in models.collect::<SmallVec<[_; 2]>>() {
            for list in [List::Booked, List::Clear] {
                let mut walk = Walk::ascending(Scope::Cluster, model, list, least);
                while let Some(id) = walk.next(pool) {
                    if !count.seen.contains_key(&id) {
                        count.look_again(pool, id, now);
                    }
                }
            }
        }
        count
    }

    fn group(&self) -> &'w GroupNeed {
        &self.wish.shape.groups[0]
    }

    fn window(&self, from: Time) -> Window {
        let until = self.wish.duration.map_or(Time::NEVER, |duration| from + duration);
        Window { now: self.now, from, until }
    }

    fn is_enough(&self) -> bool {
        self.sum >= u64::from(self.group().tasks)
    }

    /// Something comes back. Answers whether it is on a node that the gang may use.
    fn give_back(&mut self, pool: &Pool, one: &Return) -> bool {
        if !self.wish.reach.admits(pool, one.node) {
            return false;
        }
        let node = pool.node(one.node);
        match self.group().devices {
            _ if !is_plain(node) => self.look_again(pool, one.node, one.at),
            0 => self.give_back_quantities(node, one),
            _ if one.is_partial => self.look_again(pool, one.node, one.at),
            _ => {
                let before = self.seen.get(&one.node).map_or_else(|| node.free(), |seen| seen.free);
                let free = before.or(one.devices.and(node.usable));
                self.set(node, one.node, free, self.window(one.at));
            }
        }
        true
    }

    /// On a node where that is all that changes, for who asks for no devices.
    fn give_back_quantities(&mut self, node: &Node, one: &Return) {
        let group = &self.wish.shape.groups[0];
        let new = || Seen { free: DeviceSet::EMPTY, used: None, tasks: 0 };
        let seen = self.seen.entry(one.node).or_insert_with(new);
        let (used, last) = seen.used.get_or_insert_with(|| (node.used.clone(), None));
        // A gang of several groups may come back to a node; it gives all back at once.
        if last.replace(one.key) == Some(one.key) {
            return;
        }
        if let Some(hold) = node.holds.iter().find(|hold| hold.key == one.key) {
            used.sub(&hold.scalars);
        }
        let tasks = in_blocks(group, node.limit.fits(used, &group.scalars));
        self.sum = self.sum + u64::from(tasks) - u64::from(seen.tasks);
        seen.tasks = tasks;
    }

    /// A node is looked at as it will be then.
    fn look_again(&mut self, pool: &Pool, id: NodeId, from: Time) {
        if self.wish.reach.admits(pool, id) {
            let (node, window) = (pool.node(id), self.window(from));
            let is_now = from == self.now && is_plain(node);
            let free = match self.group().devices {
                0 => DeviceSet::EMPTY,
                _ if is_now => node.free(),
                _ => node.free_during(window),
            };
            self.set(node, id, free, window);
        }
    }

    fn set(&mut self, node: &Node, id: NodeId, free: DeviceSet, window: Window) {
        let tasks = room(node, self.group(), free, window);
        let known = self.seen.insert(id, Seen { free, used: None, tasks });
        self.sum = self.sum + u64::from(tasks) - known.map_or(0, |known| u64::from(known.tasks));
    }
}

/// True when what runs there is all that keeps anybody from its devices, at any time.
fn is_plain(node: &Node) -> bool {
    node.bookings.is_empty() && node.walls.ahead.is_empty()
}

/// How many tasks of a group a node takes, with so many devices free; models of a try aside.
fn room(node: &Node, group: &GroupNeed, free: DeviceSet, window: Window) -> u32 {
    let by_gpu = match group.devices {
        0 => group.tasks,
        devices => {
            let accepted = node.models.iter().filter(|(model, _)| group.accepts(*model));
            accepted.map(|(_, all)| all.and(free).len() / devices).sum::<u32>().min(group.tasks)
        }
    };
    if by_gpu < group.per_node.unwrap_or(1) {
        return 0;
    }
    // What is held now is at least what will be held then, unless there are bookings.
    let by_now = if is_plain(node) { node.limit.fits(&node.used, &group.scalars) } else { 0 };
    let tasks = match by_now >= u64::from(by_gpu) {
        true => by_now,
        false => node.scalar_fits(&group.scalars, window),
    };
    in_blocks(group, tasks.min(u64::from(by_gpu)))
}

/// How many tasks of a group go to a node that would take so many.
fn in_blocks(group: &GroupNeed, tasks: u64) -> u32 {
    let tasks = tasks.min(u64::from(group.tasks)) as u32;
    match group.per_node {
        Some(block) if tasks >= block => block,
        Some(_) => 0,
        None => tasks,
    }
}
