//! What patience has to do with an element: since when it is first, what is kept for it, or for
//! whom it is kept from it.

use muster_model::reason::KeptOn;
use muster_model::view::PatienceView;
use muster_model::{ElementId, Keep, Reason, Span, Time};

use crate::state::State;

/// What is first for less than this is mostly about to start: nothing is said of its patience.
const WORTH_A_LINE: Span = Span::from_secs(60);

/// At most so many nodes are named.
const MOST: usize = 16;

/// Of an element that is first in its queue and has no planned start.
pub(super) fn of(state: &State, now: Time, id: ElementId) -> Option<PatienceView> {
    let since = state.head_since(id).filter(|since| now.since(*since) >= WORTH_A_LINE)?;
    let patience = state.policy.tree().patience?;
    let keep = state.keeps.iter().find(|keep| keep.element == id);
    let kept = keep.map(|keep| places(state, keep)).unwrap_or_default();
    Some(PatienceView { since, keeps_from: since + patience, kept, is_kept: keep.is_some() })
}

/// As the reason why another waits.
pub(super) fn reason(state: &State, keep: &Keep, now: Time) -> Reason {
    let since = state.head_since(keep.element).unwrap_or(now);
    Reason::Kept { element: keep.element, since, places: places(state, keep) }
}

/// What is free of what is kept.
fn places(state: &State, keep: &Keep) -> Vec<KeptOn> {
    let mut places: Vec<KeptOn> = Vec::new();
    for task in keep.placement.iter() {
        let node = state.pool.node(task.node);
        let free: Vec<u16> =
            task.devices.and(node.free()).iter().map(|device| device as u16).collect();
        let count = places.len();
        match places.iter_mut().find(|one| one.node == node.spec.name) {
            Some(known) => known.devices.extend(free),
            None if !free.is_empty() && count < MOST => {
                places.push(KeptOn { node: node.spec.name.clone(), devices: free });
            }
            None => {}
        }
    }
    places.iter_mut().for_each(|one| one.devices.sort_unstable());
    places
}
