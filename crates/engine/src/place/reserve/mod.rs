//! Reservations: finds the earliest future start of a blocked gang, by a sweep over the ends of
//! holdings and bookings, forward in time on scratch: at each end the holding is released, until
//! the gang fits for its whole duration.
//!
//! With one node and quantities only, the first booking of a pass is EASY's shadow time, and what
//! [`Node::scalar_fits`] lets pass it are the extra nodes (Lifka 1995; Mu'alem and Feitelson 2001).
//! The same holds for devices as long as one booking is made: it names devices, those released
//! last. With several bookings (conservative) naming devices is stricter than counting them, so
//! that a job may start later than in the literature.

pub(crate) mod forecast;

use std::sync::Arc;

use muster_model::{ElementId, NodeId, Span, TaskPlacement, Time};
use smallvec::SmallVec;

use super::capacity_bound::{CapacityBound, NodeFilter};
use super::gang;
use super::gang::search::MAX_STEPS;
use super::request::{AdmittedChoice, PlacementRequest, ReleasedResources, ScratchReleases};
use crate::pool::ends::{HoldingEnd, UpcomingEnds};
use crate::pool::node::Interval;
use crate::pool::scope::Scope;
use crate::pool::shape::{GroupNeed, Shape};
use crate::pool::{HoldKey, Pool};
use forecast::ReleaseForecast;

/// Request for a future start.
pub(crate) struct ReservationRequest<'a> {
    pub(crate) element: ElementId,
    pub(crate) shape: &'a Arc<Shape>,
    /// Model choices that limits and quota admit now.
    pub(crate) choices: &'a [AdmittedChoice<'a>],
    pub(crate) node_filter: NodeFilter<'a>,
    /// Nodes on which it ran last, by name.
    pub(crate) last_nodes: &'a [NodeId],
    /// Duration; `None` is unlimited.
    pub(crate) duration: Option<Span>,
}

/// Cost, in lookahead steps, of releasing one task on scratch and restoring it.
const RELEASE_COST: usize = 8;
/// Maximum number of begin and end times of advance reservations that a sweep visits. A recurring
/// reservation may have no last one.
const MAX_BOUNDARIES: u32 = 64;

/// Future start: its time, its end and its placement.
pub(crate) type FutureStart = (Time, Time, Arc<[TaskPlacement]>);

/// Returns the earliest future start that leaves every booking intact; `None` if what it needs is
/// never released. A gang of one group of whole devices, or without devices, is answered by the
/// forecast; debug builds compare it with the sweep.
pub(crate) fn earliest(
    forecast: &mut ReleaseForecast,
    pool: &mut Pool,
    now: Time,
    request: &ReservationRequest<'_>,
) -> Option<FutureStart> {
    let mark = pool.mark();
    let outer = pool.view_inside(request.shape.reservation.as_ref());
    // Only the sweep handles advance reservations.
    let is_supported = ReleaseForecast::supports(request) && !pool.has_advance_reservations();
    let found = if is_supported {
        forecast.earliest(pool, now, request)
    } else {
        sweep(pool, now, request, &mut forecast.steps)
    };
    pool.rollback(mark);
    #[cfg(debug_assertions)]
    if is_supported {
        assert_eq!(found, sweep(pool, now, request, &mut 0), "the forecast and the sweep agree");
        pool.rollback(mark);
    }
    pool.set_view(outer);
    found
}

fn sweep(
    pool: &mut Pool,
    now: Time,
    request: &ReservationRequest<'_>,
    steps: &mut usize,
) -> Option<FutureStart> {
    let mut bound = CapacityBound::new(pool, request.node_filter);
    let booking_ends = pool.booked_until().iter().map(|(end, _)| *end);
    let booking_ends: Vec<Time> =
        booking_ends.filter(|end| *end > now && *end < Time::NEVER).collect();
    let mut booking_ends = booking_ends.into_iter().peekable();
    let mut releases = ScratchReleases::default();
    // Without devices, the order of releases does not matter.
    let needs_devices = request.shape.groups.iter().any(GroupNeed::wants_gpu);
    let mut upcoming = UpcomingEnds::from(now);
    let mut boundary = pool.next_reservation_edge(now);
    let mut boundaries = 0;
    let mut last = None;
    loop {
        // 1. The next time at which something is released.
        let held = upcoming.peek(pool.ends()).map(|(time, _)| time);
        let booked = booking_ends.peek().copied();
        let Some(from) = [held, booked, boundary].into_iter().flatten().min() else {
            // Everything is released: the one time at which a search is worthwhile.
            return last.and_then(|from| {
                request.start_at(
                    pool,
                    now,
                    from,
                    ReleasedResources::OnScratch(&releases),
                    MAX_STEPS,
                )
            });
        };
        // 2. Advance reservations begin and end, and all ends of that time are released.
        let mut is_changed = booked == Some(from);
        if boundary == Some(from) {
            (is_changed, boundaries) = (true, boundaries + 1);
            boundary = pool.next_reservation_edge(from).filter(|_| boundaries < MAX_BOUNDARIES);
            pool.view_at(from);
            bound = CapacityBound::new(pool, request.node_filter);
        }
        while booking_ends.next_if_eq(&from).is_some() {}
        while let Some((time, key)) = upcoming.peek(pool.ends()).filter(|(time, _)| *time == from) {
            debug_assert!(time > now);
            upcoming.pass();
            *steps += pool.holding(key).placement.len() * RELEASE_COST;
            is_changed |=
                release(pool, key, &mut bound, request, needs_devices.then_some(&mut releases));
        }
        // 3. Does it fit from here?
        if !is_changed || !bound.suffices() {
            continue;
        }
        last = Some(from);
        if let Some(found) =
            request.start_at(pool, now, from, ReleasedResources::OnScratch(&releases), 0)
        {
            return Some(found);
        }
        *steps += pool.nodes().len();
    }
}

/// Releases a holding on scratch. Returns whether it is on a node that the gang may use.
fn release(
    pool: &mut Pool,
    key: HoldKey,
    bound: &mut CapacityBound<'_>,
    request: &ReservationRequest<'_>,
    releases: Option<&mut ScratchReleases>,
) -> bool {
    let placement = Arc::clone(&pool.holding(key).placement);
    // Tasks of one node follow each other within a group.
    let mut nodes: SmallVec<[NodeId; 8]> = placement.iter().map(|task| task.node).collect();
    nodes.dedup();
    if nodes.len() > 1 {
        nodes.sort_unstable();
        nodes.dedup();
    }
    nodes.retain(|node| request.node_filter.admits(pool, *node));
    for node in &nodes {
        bound.remove_node(pool.node(*node));
    }
    pool.park(key);
    for node in &nodes {
        bound.add_node(pool.node(*node));
    }
    let Some(releases) = releases else { return !nodes.is_empty() };
    for task in placement.iter().filter(|_| !nodes.is_empty()) {
        if releases.order.last() != Some(&task.node) {
            releases.order.push(task.node);
        }
        let devices = releases.devices.entry(task.node).or_default();
        match devices.last_mut() {
            Some((known, last)) if *known == key => *last = last.or(task.devices),
            _ => devices.push((key, task.devices)),
        }
    }
    !nodes.is_empty()
}

impl ReservationRequest<'_> {
    /// Returns a start at this time, with what is released by then.
    pub(crate) fn start_at(
        &self,
        pool: &mut Pool,
        now: Time,
        from: Time,
        released: ReleasedResources<'_>,
        max_steps: u32,
    ) -> Option<FutureStart> {
        let until = self.duration.map_or(Time::NEVER, |span| from + span);
        let interval = Interval { now, from, until };
        let NodeFilter { shape, eligible, avoid } = self.node_filter;
        let last_nodes = self.last_nodes;
        self.choices.iter().find_map(|AdmittedChoice { choice, caps }| {
            let released = Some(released);
            let scope = Scope::Cluster;
            let scoring = None;
            let placement_request = PlacementRequest {
                shape,
                scope,
                choice,
                caps,
                eligible,
                avoid,
                last_nodes,
                interval,
                released,
                max_steps,
                scoring,
            };
            let (_, placement) =
                gang::place(pool, placement_request, self.element, HoldingEnd::Never, self.shape)?;
            Some((from, until, placement))
        })
    }
}
