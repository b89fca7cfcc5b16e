//! Finds the earliest future start by counting ahead in time, node by node, over the ends of
//! holdings and bookings; nothing is released on scratch, and indexes stay as they are. Handles one
//! group of whole devices, or without devices, that has no topology: most gangs that get a
//! reservation. `reserve.rs` sweeps for all others, and must find the same.
//!
//! The releases are the same for every waiting gang, so they are listed once, as far as needed, and
//! for as long as the holdings do not change.

use muster_model::{DeviceSet, NodeId, Span, Time};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use super::{FutureStart, ReservationRequest};
use crate::place::node_walk::{BucketList, CpuWalk, NodeWalk};
use crate::place::request::{FutureRelease, ReleasedResources};
use crate::pool::ends::UpcomingEnds;
use crate::pool::node::{Interval, Node, WHOLE};
use crate::pool::scalars::Scalars;
use crate::pool::scope::Scope;
use crate::pool::shape::GroupNeed;
use crate::pool::usage_timeline::ScalarFit;
use crate::pool::{HoldKey, Pool};

/// Cached list of future releases; see the module's description.
#[derive(Clone, Debug, Default)]
pub(crate) struct ReleaseForecast {
    /// Pool version and time for which `releases` is valid.
    valid_for: Option<(u64, Time)>,
    /// Releases in order of time, as far as listed.
    releases: Vec<FutureRelease>,
    /// Cursor over the releases that are not listed yet.
    upcoming: UpcomingEnds,
    /// True once all are listed.
    lists_all: bool,
    /// Table of the last count; kept for its allocation.
    nodes: FxHashMap<NodeId, ForecastNode>,
    /// Lookahead steps of this round, of forecast and sweep.
    pub(crate) steps: usize,
}

/// Largest number of nodes of which all are asked until when they are blocked. On few machines with many
/// waiting jobs, this skips most edges.
const MAX_ASKED: usize = 8;

/// Number of tasks that nodes can host from some time on, for the requested duration.
struct CapacityCount<'w> {
    request: &'w ReservationRequest<'w>,
    now: Time,
    /// Nodes that were counted. All others take no task.
    nodes: FxHashMap<NodeId, ForecastNode>,
    sum: u64,
}

/// Predicted state of a node.
#[derive(Clone, Debug)]
struct ForecastNode {
    free: DeviceSet,
    /// Quantities held, and the last holding that released some; set where no devices are requested
    /// and nothing is booked.
    used: Option<(Scalars, Option<HoldKey>)>,
    tasks: u32,
    /// Time before which it takes no task, whatever is released by then.
    blocked_until: Time,
}

impl ReleaseForecast {
    /// Returns true if the request can be answered by counting.
    pub(crate) fn supports(request: &ReservationRequest<'_>) -> bool {
        let is_counted = |group: &GroupNeed| group.devices > 0 || !group.wants_gpu();
        matches!(&request.shape.groups[..], [group] if is_counted(group))
            && request.shape.topology.is_none()
    }

    /// Returns the earliest future start. On success its placement is held on scratch.
    pub(crate) fn earliest(
        &mut self,
        pool: &mut Pool,
        now: Time,
        request: &ReservationRequest<'_>,
    ) -> Option<FutureStart> {
        self.refresh(pool, now);
        let mut count = CapacityCount::new(pool, now, request, std::mem::take(&mut self.nodes));
        if request.shape.groups[0].devices == 0 {
            self.steps += count.nodes.len();
        }
        let mut begins = BookingEdges::begins(pool, now, request);
        let mut ends = BookingEdges::ends(pool, now);
        let mut released = 0;
        let found = loop {
            // 1. The next time at which something is released, or a booking begins to matter.
            let held = self.release_after(pool, released).map(|release| release.at);
            let Some(from) = [held, begins.next(pool), ends.next(pool)].into_iter().flatten().min()
            else {
                break None;
            };
            // 2. Recount the nodes that change.
            let mut is_changed = false;
            while let Some(release) =
                self.release_after(pool, released).filter(|release| release.at == from)
            {
                is_changed |= count.release(pool, &release);
                released += 1;
            }
            if !pool.bookings().is_empty() {
                self.steps += begins.pass(pool, from, &mut count);
                let ended = ends.pass(pool, from, &mut count);
                self.steps += ended;
                is_changed |= ended > 0;
            }
            // 3. Does it fit from here?
            if is_changed && count.suffices() {
                let released_resources = ReleasedResources::Predicted(&self.releases[..released]);
                if let Some(found) = request.start_at(pool, now, from, released_resources, 0) {
                    break Some(found);
                }
                self.steps += pool.nodes().len();
            }
            // 4. Nothing changes while every node is known to take nothing.
            if let Some(until) = count.blocked_until(pool) {
                while self.release_after(pool, released).is_some_and(|release| release.at < until) {
                    released += 1;
                }
                begins.skip_to(pool, until);
                ends.skip_to(pool, until);
            }
        };
        self.steps += released;
        self.nodes = count.nodes;
        found
    }

    /// Invalidates the list for a new pass: ends that were estimated may have become fixed, in
    /// another order.
    pub(crate) fn clear(&mut self) {
        self.valid_for = None;
    }

    /// Clears the list unless the holdings and the time are the same as before.
    fn refresh(&mut self, pool: &Pool, now: Time) {
        let key = Some((pool.version(), now));
        if self.valid_for != key {
            self.valid_for = key;
            self.releases.clear();
            self.upcoming = UpcomingEnds::from(now);
            self.lists_all = false;
        }
    }

    /// Returns the release at index `released`, listing more if needed.
    fn release_after(&mut self, pool: &Pool, released: usize) -> Option<FutureRelease> {
        while self.releases.len() == released && !self.lists_all {
            let Some((at, key)) = self.upcoming.peek(pool.ends()) else {
                self.lists_all = true;
                break;
            };
            self.upcoming.pass();
            self.list_releases(pool, at, key);
        }
        self.releases.get(released).copied()
    }

    /// Lists the releases of a holding.
    fn list_releases(&mut self, pool: &Pool, at: Time, key: HoldKey) {
        let first = self.releases.len();
        for task in pool.holding(key).placement.iter() {
            let devices = task.devices;
            let is_partial = task.share.0 != u32::from(WHOLE);
            match self.releases[first..].last_mut() {
                // Tasks of one node follow each other.
                Some(last) if last.node == task.node => {
                    last.devices = last.devices.or(devices);
                    last.is_partial |= is_partial;
                }
                _ => self.releases.push(FutureRelease {
                    at,
                    key,
                    node: task.node,
                    devices,
                    is_partial,
                }),
            }
        }
    }
}

/// Cursor over the times at which bookings begin to block the request, or end.
struct BookingEdges {
    is_end: bool,
    /// Duration of the request: a booking that begins this much later blocks it, since one
    /// millisecond more would overlap.
    duration: Span,
    /// Index of the next edge.
    index: usize,
}

impl BookingEdges {
    /// Returns the times at which bookings begin to block a request of this duration. A request
    /// without an end is always blocked.
    fn begins(pool: &Pool, now: Time, request: &ReservationRequest<'_>) -> Self {
        let all = pool.booked_from();
        let at = request
            .duration
            .map_or(all.len(), |length| all.partition_point(|(at, _)| *at < now + length));
        Self { is_end: false, duration: request.duration.unwrap_or(Span(0)), index: at }
    }

    fn ends(pool: &Pool, now: Time) -> Self {
        Self {
            is_end: true,
            duration: Span(0),
            index: pool.booked_until().partition_point(|(at, _)| *at <= now),
        }
    }

    /// Returns all edges from the next on.
    fn rest<'p>(&self, pool: &'p Pool) -> &'p [(Time, u32)] {
        let all = if self.is_end { pool.booked_until() } else { pool.booked_from() };
        &all[self.index..]
    }

    /// Returns the time at which an edge counts.
    fn at(&self, (at, _): (Time, u32)) -> Time {
        if self.is_end { at } else { Time(at.0 - self.duration.0 + 1) }
    }

    /// Returns the time of the next edge.
    fn next(&self, pool: &Pool) -> Option<Time> {
        self.rest(pool).first().map(|edge| self.at(*edge)).filter(|at| *at < Time::NEVER)
    }

    /// Skips the edges before a time.
    fn skip_to(&mut self, pool: &Pool, until: Time) {
        self.index += self.rest(pool).partition_point(|edge| self.at(*edge) < until);
    }

    /// Recounts the nodes of all bookings with an edge at `from`. Returns the number of nodes.
    fn pass(&mut self, pool: &Pool, from: Time, count: &mut CapacityCount<'_>) -> usize {
        let mut steps = 0;
        while self.next(pool) == Some(from) {
            let (_, booking) = self.rest(pool)[0];
            let placement = &pool.bookings()[booking as usize].placement;
            for tasks in placement.chunk_by(|task, next| task.node == next.node) {
                steps += usize::from(count.recount_node(pool, tasks[0].node, from));
            }
            self.index += 1;
        }
        steps
    }
}

impl<'w> CapacityCount<'w> {
    /// Counts the free nodes at `now`. `forecast` is only reused for its allocation.
    fn new(
        pool: &mut Pool,
        now: Time,
        request: &'w ReservationRequest<'w>,
        mut forecast: FxHashMap<NodeId, ForecastNode>,
    ) -> Self {
        forecast.clear();
        let mut count = Self { request, now, nodes: forecast, sum: 0 };
        if count.group().devices == 0 {
            let block = u64::from(count.group().per_node.unwrap_or(1));
            let cpus = count.group().scalars.cpus.saturating_mul(block);
            let mut walk = CpuWalk::new(Scope::Cluster, cpus);
            while let Some(id) = walk.next(pool) {
                count.recount_node(pool, id, now);
            }
            return count;
        }
        let least = u16::try_from(count.group().devices).unwrap_or(u16::MAX);
        let models = pool.models().filter(|model| count.group().accepts(*model));
        // Only nodes with that many free devices take anything now; the indexes list them.
        for model in models.collect::<SmallVec<[_; 2]>>() {
            for list in [BucketList::Booked, BucketList::Clear] {
                let mut walk = NodeWalk::ascending(Scope::Cluster, model, list, least);
                while let Some(id) = walk.next(pool) {
                    if !count.nodes.contains_key(&id) {
                        count.recount_node(pool, id, now);
                    }
                }
            }
        }
        count
    }

    fn group(&self) -> &'w GroupNeed {
        &self.request.shape.groups[0]
    }

    fn interval_from(&self, from: Time) -> Interval {
        let until = self.request.duration.map_or(Time::NEVER, |duration| from + duration);
        Interval { now: self.now, from, until }
    }

    fn suffices(&self) -> bool {
        self.sum >= u64::from(self.group().tasks)
    }

    /// Returns the time before which no node takes a task, whatever is released by then; `None` if
    /// that is not known of all, or there are too many nodes to ask each time.
    fn blocked_until(&self, pool: &Pool) -> Option<Time> {
        let all = pool.nodes().len();
        if self.sum > 0 || all > MAX_ASKED || self.nodes.len() < all {
            return None;
        }
        self.nodes.values().map(|node| node.blocked_until).min()
    }

    /// Counts a release. Returns whether it is on a node that the gang may use.
    fn release(&mut self, pool: &Pool, release: &FutureRelease) -> bool {
        if !self.request.node_filter.admits(pool, release.node) {
            return false;
        }
        let node = pool.node(release.node);
        match self.group().devices {
            _ if !is_unreserved(node) => {
                self.recount_node(pool, release.node, release.at);
            }
            0 => self.release_quantities(node, release),
            _ if release.is_partial => {
                self.recount_node(pool, release.node, release.at);
            }
            _ => {
                let before = self
                    .nodes
                    .get(&release.node)
                    .map_or_else(|| node.free(), |forecast| forecast.free);
                let free = before.or(release.devices.and(node.usable));
                self.set(node, release.node, free, self.interval_from(release.at));
            }
        }
        true
    }

    /// Counts released quantities for a request without devices, on a node without other changes.
    fn release_quantities(&mut self, node: &Node, release: &FutureRelease) {
        let group = &self.request.shape.groups[0];
        let new = || ForecastNode {
            free: DeviceSet::EMPTY,
            used: None,
            tasks: 0,
            blocked_until: release.at,
        };
        let forecast = self.nodes.entry(release.node).or_insert_with(new);
        let (used, last) = forecast.used.get_or_insert_with(|| (node.used.clone(), None));
        // A gang of several groups may be listed twice for a node; it releases everything at once.
        if last.replace(release.key) == Some(release.key) {
            return;
        }
        if let Some(hold) = node.holds.iter().find(|hold| hold.key == release.key) {
            used.sub(&hold.scalars);
        }
        let tasks = round_to_blocks(group, node.limit.fits(used, &group.scalars));
        self.sum = self.sum + u64::from(tasks) - u64::from(forecast.tasks);
        forecast.tasks = tasks;
    }

    /// Recounts a node as it will be at `from`, unless it is known to take nothing then. Returns
    /// whether it was recounted.
    fn recount_node(&mut self, pool: &Pool, id: NodeId, from: Time) -> bool {
        let is_blocked = self.nodes.get(&id).is_some_and(|known| from < known.blocked_until);
        if is_blocked || !self.request.node_filter.admits(pool, id) {
            return false;
        }
        let node = pool.node(id);
        let interval = self.interval_from(from);
        let is_now = from == self.now && is_unreserved(node);
        let free = match self.group().devices {
            0 => DeviceSet::EMPTY,
            _ if is_now => node.free(),
            _ => node.free_during(interval),
        };
        self.set(node, id, free, interval);
        true
    }

    fn set(&mut self, node: &Node, id: NodeId, free: DeviceSet, interval: Interval) {
        let (tasks, blocked_until) = tasks_on_node(node, self.group(), free, interval);
        let forecast = ForecastNode { free, used: None, tasks, blocked_until };
        let known = self.nodes.insert(id, forecast);
        self.sum = self.sum + u64::from(tasks) - known.map_or(0, |known| u64::from(known.tasks));
    }
}

/// Returns true if only present holdings, at any time, keep a request from the node's devices.
fn is_unreserved(node: &Node) -> bool {
    node.bookings.is_empty() && node.availability.upcoming.is_empty()
}

/// Returns how many tasks of a group a node takes with these devices free, whatever the model
/// choice, and the time before which it takes none.
fn tasks_on_node(
    node: &Node,
    group: &GroupNeed,
    free: DeviceSet,
    interval: Interval,
) -> (u32, Time) {
    let by_gpu = match group.devices {
        0 => group.tasks,
        devices => {
            let accepted = node.models.iter().filter(|(model, _)| group.accepts(*model));
            accepted.map(|(_, all)| all.and(free).len() / devices).sum::<u32>().min(group.tasks)
        }
    };
    if by_gpu < group.per_node.unwrap_or(1) {
        return (0, interval.from);
    }
    // Without bookings, present use is at least the use then.
    let by_now = if is_unreserved(node) { node.limit.fits(&node.used, &group.scalars) } else { 0 };
    if by_now >= u64::from(by_gpu) {
        return (round_to_blocks(group, u64::from(by_gpu)), interval.from);
    }
    let ScalarFit { times, blocked_until } = node.scalar_fit(&group.scalars, interval);
    (round_to_blocks(group, times.min(u64::from(by_gpu))), blocked_until)
}

/// Rounds a number of tasks down to whole blocks, where the group has blocks.
fn round_to_blocks(group: &GroupNeed, tasks: u64) -> u32 {
    let tasks = tasks.min(u64::from(group.tasks)) as u32;
    match group.per_node {
        Some(block) if tasks >= block => block,
        Some(_) => 0,
        None => tasks,
    }
}
