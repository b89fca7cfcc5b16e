//! What it costs to move jobs together, and what of that is left in the window at hand. Whether
//! somebody is moved is decided in `plan/defragment.rs`.

use muster_model::{ElementId, Span, Time};
use muster_policy::PER_GPU_HOUR;
use serde::{Deserialize, Serialize};

use super::State;
use super::runners::Runner;

/// What was spent in a window, in thousandths of GPUs times milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Moves {
    /// Beginning of the window.
    window: Time,
    spent: u64,
}

impl Moves {
    pub(super) fn is_blank(&self) -> bool {
        *self == Self::default()
    }
}

impl Runner {
    /// GPU time that is lost at most if it goes on elsewhere: what it would lose now, and what it
    /// holds until it has gone, in thousandths of a GPU times milliseconds.
    pub(crate) fn cost_of_move(&self, now: Time) -> u64 {
        let milli: u64 = self.gpus.iter().map(|(_, milli)| milli).sum();
        self.lost(now).saturating_add(milli.saturating_mul(self.delay.0))
    }
}

impl State {
    /// What may still be spent on moves in the window at hand; nothing where nobody is moved.
    pub(crate) fn moves_left(&self, now: Time) -> u64 {
        let Some(terms) = self.policy.tree().defragment else { return 0 };
        let spent =
            if self.moves.window == window_of(now, terms.every) { self.moves.spent } else { 0 };
        terms.gpu_hours.saturating_mul(PER_GPU_HOUR).saturating_sub(spent)
    }

    /// When the next window for moves begins.
    pub(crate) fn moves_refill(&self, now: Time) -> Option<Time> {
        let every = self.policy.tree().defragment?.every;
        Some(window_of(now, every) + every)
    }

    /// An element is moved.
    pub(super) fn pay_for_move(&mut self, now: Time, id: ElementId) {
        let Some(terms) = self.policy.tree().defragment else { return };
        let cost = self.runner(id).map_or(0, |(_, runner)| runner.cost_of_move(now));
        let window = window_of(now, terms.every);
        if self.moves.window != window {
            self.moves = Moves { window, spent: 0 };
        }
        self.moves.spent = self.moves.spent.saturating_add(cost);
    }
}

/// Beginning of the window that an instant lies in.
fn window_of(at: Time, every: Span) -> Time {
    Time(at.0 - at.0 % every.0.max(1))
}
