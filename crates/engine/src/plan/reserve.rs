//! When will a blocked gang fit? A sweep over the ends of what is held and booked, forward in time
//! on scratch: at each end what comes back is given back, until the gang fits for its whole length.
//!
//! With one node and quantities only, the first booking of a pass is EASY's shadow time, and what
//! [`Node::scalar_fits`] lets pass it are the extra nodes (Lifka 1995; Mu'alem and Feitelson 2001).
//! The same holds for devices as long as one booking is made: it names devices, those that come
//! back last. With several bookings (conservative) naming devices is stricter than counting them,
//! so that a job may start later than by the textbook.

use std::sync::Arc;

use muster_model::{ElementId, NodeId, Span, TaskPlacement, Time};
use smallvec::SmallVec;

use super::ask::{Ask, Back, Freed};
use super::forecast::Forecast;
use super::gang;
use super::gauge::{Gauge, Reach};
use super::search::EFFORT;
use super::terms::Admitted;
use crate::state::ends::{End, Upcoming};
use crate::state::node::Window;
use crate::state::pool::{HoldKey, Pool};
use crate::state::shape::{GroupNeed, Shape};
use crate::state::topology::Scope;

/// What is to be planned for a future start.
pub(crate) struct Wish<'a> {
    pub(crate) element: ElementId,
    pub(crate) shape: &'a Arc<Shape>,
    /// Tries that limits and quota admit now.
    pub(crate) tries: &'a [Admitted<'a>],
    pub(crate) reach: Reach<'a>,
    /// Where it ran last, by name.
    pub(crate) home: &'a [NodeId],
    /// How long it holds what it gets; `None` is endless.
    pub(crate) duration: Option<Span>,
}

/// To give one task back on scratch and take it again costs as much as so many looks at a node.
const GIVE_BACK: usize = 8;
/// So many beginnings and ends of windows are looked at: some windows begin again for ever.
const MOST_TURNS: u32 = 64;

/// A future start: from when until when, and where.
pub(crate) type Slot = (Time, Time, Arc<[TaskPlacement]>);

/// The earliest future start that leaves every booking intact; `None` when what it needs never
/// comes back. A gang of one group of whole devices, or without any, can be told by counting ahead;
/// debug builds ask the sweep, too.
pub(crate) fn earliest(
    forecast: &mut Forecast,
    pool: &mut Pool,
    now: Time,
    wish: &Wish<'_>,
) -> Option<Slot> {
    let checkpoint = pool.checkpoint();
    let outer = pool.look_inside(wish.shape.window.as_ref());
    // What comes and goes with windows is seen by the sweep alone.
    let tells = Forecast::tells(wish) && !pool.has_windows();
    let found = match tells {
        true => forecast.earliest(pool, now, wish),
        false => sweep(pool, now, wish, &mut forecast.looks),
    };
    pool.rollback(checkpoint);
    #[cfg(debug_assertions)]
    if tells {
        assert_eq!(
            found,
            sweep(pool, now, wish, &mut 0),
            "counting ahead finds what the sweep finds"
        );
        pool.rollback(checkpoint);
    }
    pool.look(outer);
    found
}

fn sweep(pool: &mut Pool, now: Time, wish: &Wish<'_>, looks: &mut usize) -> Option<Slot> {
    let mut gauge = Gauge::new(pool, wish.reach);
    let booking_ends = pool.booked_until().iter().map(|(end, _)| *end);
    let booking_ends: Vec<Time> =
        booking_ends.filter(|end| *end > now && *end < Time::NEVER).collect();
    let mut booking_ends = booking_ends.into_iter().peekable();
    let mut back = Back::default();
    // Where no device is asked for, nobody asks which came back last.
    let names_devices = wish.shape.groups.iter().any(GroupNeed::wants_gpu);
    let mut upcoming = Upcoming::from(now);
    let (mut turn, mut turns) = (pool.next_turn(now), 0);
    let mut last = None;
    loop {
        // 1. The next instant at which something comes back.
        let held = upcoming.peek(pool.ends()).map(|(time, _)| time);
        let booked = booking_ends.peek().copied();
        let Some(from) = [held, booked, turn].into_iter().flatten().min() else {
            // Everything is back: the one instant at which it is worth a search.
            return last
                .and_then(|from| wish.start_at(pool, now, from, Freed::Back(&back), EFFORT));
        };
        // 2. Windows begin and end, and everything comes back that ends then.
        let mut is_news = booked == Some(from);
        if turn == Some(from) {
            (is_news, turns) = (true, turns + 1);
            turn = pool.next_turn(from).filter(|_| turns < MOST_TURNS);
            pool.look_from(from);
            gauge = Gauge::new(pool, wish.reach);
        }
        while booking_ends.next_if_eq(&from).is_some() {}
        while let Some((time, key)) = upcoming.peek(pool.ends()).filter(|(time, _)| *time == from) {
            debug_assert!(time > now);
            upcoming.pass();
            *looks += pool.holding(key).placement.len() * GIVE_BACK;
            is_news |= give_back(pool, key, &mut gauge, wish, names_devices.then_some(&mut back));
        }
        // 3. Does it fit from here?
        if !is_news || !gauge.is_enough() {
            continue;
        }
        last = Some(from);
        if let Some(found) = wish.start_at(pool, now, from, Freed::Back(&back), 0) {
            return Some(found);
        }
        *looks += pool.nodes().len();
    }
}

/// Parks a holding. Answers whether a node came into play that the gang may use.
fn give_back(
    pool: &mut Pool,
    key: HoldKey,
    gauge: &mut Gauge<'_>,
    wish: &Wish<'_>,
    back: Option<&mut Back>,
) -> bool {
    let placement = Arc::clone(&pool.holding(key).placement);
    // Tasks of one node follow each other within a group.
    let mut nodes: SmallVec<[NodeId; 8]> = placement.iter().map(|task| task.node).collect();
    nodes.dedup();
    if nodes.len() > 1 {
        nodes.sort_unstable();
        nodes.dedup();
    }
    nodes.retain(|node| wish.reach.admits(pool, *node));
    for node in &nodes {
        gauge.leave(pool.node(*node));
    }
    pool.park(key);
    for node in &nodes {
        gauge.enter(pool.node(*node));
    }
    let Some(back) = back else { return !nodes.is_empty() };
    for task in placement.iter().filter(|_| !nodes.is_empty()) {
        if back.order.last() != Some(&task.node) {
            back.order.push(task.node);
        }
        let devices = back.devices.entry(task.node).or_default();
        match devices.last_mut() {
            Some((known, last)) if *known == key => *last = last.or(task.devices),
            _ => devices.push((key, task.devices)),
        }
    }
    !nodes.is_empty()
}

impl Wish<'_> {
    /// A start at this instant, with what has come back by then.
    pub(super) fn start_at(
        &self,
        pool: &mut Pool,
        now: Time,
        from: Time,
        freed: Freed<'_>,
        effort: u32,
    ) -> Option<Slot> {
        let until = self.duration.map_or(Time::NEVER, |span| from + span);
        let window = Window { now, from, until };
        let Reach { shape, eligible, avoid } = self.reach;
        let home = self.home;
        self.tries.iter().find_map(|Admitted { pick, caps }| {
            let freed = Some(freed);
            let (scope, scoring) = (Scope::Cluster, None);
            let ask = Ask {
                shape,
                scope,
                pick,
                caps,
                eligible,
                avoid,
                home,
                window,
                freed,
                effort,
                scoring,
            };
            let (_, placement) = gang::place(pool, ask, self.element, End::Never, self.shape)?;
            Some((from, until, placement))
        })
    }
}
