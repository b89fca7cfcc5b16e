//! What lies ahead of a start now, where there is room now: drains, windows of others, the end of
//! its own window.

use muster_model::{NodeId, Reason, Span, Time, WindowName};

use crate::state::pool::Pool;
use crate::state::shape::Shape;
use crate::state::window::times;

/// What begins, or ends, at an instant.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum WallAhead {
    /// A drain on a node begins.
    Drain(NodeId),
    /// A window of others begins.
    Begins(WindowName),
    /// Its own window ends, and begins again.
    Ends(WindowName, Option<Time>),
}

impl WallAhead {
    /// As a reason to wait.
    pub(super) fn reason(
        self,
        pool: &Pool,
        from: Time,
        fits_if_shorter_than: Option<Span>,
    ) -> Reason {
        match self {
            WallAhead::Drain(node) => {
                let node = pool.node(node).spec.name.clone();
                Reason::DrainAhead { node, from, fits_if_shorter_than }
            }
            WallAhead::Begins(window) => Reason::WindowAhead { window, from, fits_if_shorter_than },
            WallAhead::Ends(window, again) => {
                Reason::WindowEnds { window, ends: from, again, fits_if_shorter_than }
            }
        }
    }
}

/// All of it that concerns nodes which a shape may use, the first first.
pub(super) fn walls_ahead(pool: &Pool, shape: &Shape, now: Time) -> Vec<(Time, WallAhead)> {
    let drains = pool.drains_ahead().filter(|(_, node)| shape.admits(pool.node(*node)));
    let mut ahead: Vec<(Time, WallAhead)> =
        drains.map(|(from, node)| (from, WallAhead::Drain(node))).collect();
    for window in pool.windows() {
        let Some((begin, end)) = times::at_or_after(&window.times, now) else { continue };
        if shape.window.as_ref() == Some(&window.name) {
            let again = times::at_or_after(&window.times, end).map(|(begin, _)| begin);
            ahead.push((end, WallAhead::Ends(window.name.clone(), again)));
            continue;
        }
        let is_wanted = |id: NodeId| {
            let node = pool.node(id);
            shape.admits(node) && node.claims.iter().any(|claim| claim.window.name == window.name)
        };
        if begin > now && pool.claimed().any(is_wanted) {
            ahead.push((begin, WallAhead::Begins(window.name.clone())));
        }
    }
    ahead.sort_unstable();
    ahead
}
