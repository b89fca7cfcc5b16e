//! What windows set aside of nodes, and looking at the nodes through one of them: what its jobs may
//! use is then free, and nothing else is. Looking elsewhere is scratch: whoever does it looks back.

use std::collections::BTreeSet;
use std::sync::Arc;

use muster_model::{ElementId, NodeId, Time, Window, WindowName};

use super::{HoldKey, Holding, Pool};
use crate::state::wall::View;
use crate::state::window::{Claim, times};

impl Pool {
    /// The window has these nodes, and no others.
    pub(crate) fn set_claims(&mut self, window: &WindowName, claims: Vec<(NodeId, Claim)>) {
        let had = self.claimed.iter().filter(|id| {
            self.nodes[id.0 as usize].claims.iter().any(|claim| claim.window.name == *window)
        });
        match claims.first() {
            Some((_, claim)) => self.windows.insert(window.clone(), Arc::clone(&claim.window)),
            None => self.windows.remove(window),
        };
        let touched: BTreeSet<NodeId> =
            had.copied().chain(claims.iter().map(|(id, _)| *id)).collect();
        for id in touched {
            let own = claims.iter().filter(|(node, _)| *node == id).map(|(_, claim)| claim.clone());
            self.change(id, |node| {
                node.claims.retain(|claim| claim.window.name != *window);
                node.claims.extend(own);
                node.claims.sort_by(|one, other| one.window.name.cmp(&other.window.name));
            });
            match self.node(id).claims.is_empty() {
                true => self.claimed.remove(&id),
                false => self.claimed.insert(id),
            };
        }
    }

    /// Holdings that have ended by an instant, as far as their promises say, and those of some
    /// elements; in no meaningful order.
    pub(crate) fn ended_by(&self, now: Time, by: Time, also: &BTreeSet<ElementId>) -> Vec<HoldKey> {
        let is_over = |one: &Holding| one.end.at(now) <= by || also.contains(&one.element);
        let all = self.holdings.iter().enumerate();
        let ended = all.filter(|(_, holding)| holding.as_ref().is_some_and(is_over));
        ended.map(|(key, _)| HoldKey(key as u32)).collect()
    }

    /// The instant up to which drains and windows have come into force.
    pub(crate) fn seen(&self) -> Time {
        self.seen
    }

    /// True when windows set something aside: what may be placed may have to end before one of them
    /// begins.
    pub(crate) fn has_windows(&self) -> bool {
        !self.claimed.is_empty()
    }

    /// Nodes of which windows set something aside.
    pub(crate) fn claimed(&self) -> impl Iterator<Item = NodeId> {
        self.claimed.iter().copied()
    }

    /// Windows began or ended: they do so for everybody.
    pub(crate) fn look_again(&mut self) {
        for id in self.claimed.clone() {
            self.serve(id);
        }
    }

    /// Looks at the nodes another way. Answers how it was.
    pub(crate) fn look(&mut self, view: View) -> View {
        if view == self.view || self.claimed.is_empty() {
            return self.view.clone();
        }
        let outer = std::mem::replace(&mut self.view, view);
        self.look_again();
        outer
    }

    /// A copy, seen from inside of a window when that is open, now or next.
    pub(crate) fn inside(&self, window: &WindowName) -> Self {
        let known = self.windows.get(window);
        let next = known.and_then(|known| times::at_or_after(&known.times, self.seen));
        let at = next.map_or(self.seen, |(begin, _)| begin.max(self.seen));
        let mut copy = self.clone();
        copy.look(View { at, window: Some(window.clone()) });
        copy
    }

    /// Looks from inside of a window, or from outside of all. Answers how it was.
    pub(crate) fn look_inside(&mut self, window: Option<&WindowName>) -> View {
        let at = self.view.at;
        self.look(View { at, window: window.cloned() })
    }

    /// Looks from another instant. Answers how it was.
    pub(crate) fn look_from(&mut self, at: Time) -> View {
        let window = self.view.window.clone();
        self.look(View { at, window })
    }

    /// Windows that set something aside, by name.
    pub(crate) fn windows(&self) -> impl Iterator<Item = &Arc<Window>> {
        self.windows.values()
    }

    /// The next instant after `at` at which a window begins or ends that has a node.
    pub(crate) fn next_turn(&self, at: Time) -> Option<Time> {
        self.windows.values().filter_map(|window| times::next_edge(&window.times, at)).min()
    }
}
