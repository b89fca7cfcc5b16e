//! When what is held comes back: the time axis of the availability profile, kept in order as
//! holdings come and go.
//!
//! An end is a promise (time limit and grace), not an observation. What overran its promise counts
//! as ending one millisecond from now: it still holds its devices now, and nothing better is known.
//! Textbook EASY, which lets it end "now", decides the same, since no job ends before it started.

use std::collections::BTreeSet;
use std::ops::Bound::{Excluded, Unbounded};

use muster_model::{ElementId, JobId, Span, Time};
use smallvec::SmallVec;

use super::pool::HoldKey;

/// When a holding ends at the latest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// At an instant: user processes run, or it is being stopped.
    At(Time),
    /// This long from now, whenever now is: its user processes do not run yet.
    After(Span),
    /// It has no time limit.
    Never,
}

impl End {
    /// The end as seen from `now`, always later than `now`.
    pub(crate) fn at(self, now: Time) -> Time {
        let soonest = now + Span(1);
        match self {
            End::At(time) => time.max(soonest),
            End::After(span) => (now + span).max(soonest),
            End::Never => Time::NEVER,
        }
    }
}

/// All ends that will come, in order.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ends {
    fixed: BTreeSet<(Time, ElementId, HoldKey)>,
    floating: BTreeSet<(Span, ElementId, HoldKey)>,
}

/// How many ends are read at first, twice as many each time after, and at most.
const AT_FIRST: usize = 8;
const AT_ONCE: usize = 32;

/// Ends one after the other, as seen from one instant. Valid while holdings are only parked, not
/// removed.
#[derive(Clone, Debug, Default)]
pub(crate) struct Upcoming {
    now: Time,
    /// The last that were read of either kind.
    fixed: Option<(Time, ElementId, HoldKey)>,
    floating: Option<(Span, ElementId, HoldKey)>,
    /// What was read, and the place of the next in it.
    read: SmallVec<[(Time, HoldKey); AT_ONCE]>,
    next: usize,
}

impl Upcoming {
    /// All of them.
    pub(crate) fn from(now: Time) -> Self {
        Self { now, ..Self::default() }
    }

    /// The next, which stays the next. Equal instants come in order of kind and element.
    pub(crate) fn peek(&mut self, ends: &Ends) -> Option<(Time, HoldKey)> {
        if self.next == self.read.len() {
            self.read_on(ends);
        }
        self.read.get(self.next).copied()
    }

    /// Goes past the one that was seen last.
    pub(crate) fn pass(&mut self) {
        debug_assert!(self.next < self.read.len(), "only what was seen is passed");
        self.next += 1;
    }

    fn read_on(&mut self, ends: &Ends) {
        let most = (2 * self.read.len()).clamp(AT_FIRST, AT_ONCE);
        self.read.clear();
        self.next = 0;
        let fixed = ends.fixed.range((self.fixed.map_or(Unbounded, Excluded), Unbounded));
        // Mostly it is known of all from when on they run.
        if ends.floating.is_empty() {
            for one in fixed.take(most) {
                self.read.push((End::At(one.0).at(self.now), one.2));
                self.fixed = Some(*one);
            }
            return;
        }
        let mut fixed = fixed.peekable();
        let after = self.floating.map_or(Unbounded, Excluded);
        let mut floating = ends.floating.range((after, Unbounded)).peekable();
        while self.read.len() < most {
            let at_fixed = fixed.peek().map(|(time, _, _)| End::At(*time).at(self.now));
            let at_floating = floating.peek().map(|(span, _, _)| End::After(*span).at(self.now));
            let is_fixed = at_floating.is_none_or(|other| at_fixed.is_some_and(|at| at <= other));
            let Some(at) = (if is_fixed { at_fixed } else { at_floating }) else { return };
            if is_fixed {
                self.fixed = fixed.next().copied();
                self.read.extend(self.fixed.map(|(_, _, key)| (at, key)));
            } else {
                self.floating = floating.next().copied();
                self.read.extend(self.floating.map(|(_, _, key)| (at, key)));
            }
        }
    }
}

impl Ends {
    /// True when all of them are at instants that lie ahead of `now`.
    pub(crate) fn are_after(&self, now: Time) -> bool {
        self.floating.is_empty() && self.fixed.first().is_none_or(|(at, ..)| *at > now)
    }

    /// True when some are at this instant.
    pub(crate) fn has_at(&self, at: Time) -> bool {
        let from = (at, ElementId::single(JobId(0)), HoldKey(0));
        self.fixed.range(from..).next().is_some_and(|(first, ..)| *first == at)
    }

    pub(crate) fn insert(&mut self, end: End, element: ElementId, key: HoldKey) {
        match end {
            End::At(time) => self.fixed.insert((time, element, key)),
            End::After(span) => self.floating.insert((span, element, key)),
            End::Never => true,
        };
    }

    pub(crate) fn remove(&mut self, end: End, element: ElementId, key: HoldKey) {
        match end {
            End::At(time) => self.fixed.remove(&(time, element, key)),
            End::After(span) => self.floating.remove(&(span, element, key)),
            End::Never => true,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_come_in_order_as_seen_from_now_and_none_lies_behind_it() {
        let mut ends = Ends::default();
        let rows = [
            End::At(Time(50)),
            End::After(Span(20)),
            End::Never,
            End::At(Time(200)),
            End::After(Span(150)),
        ];
        for (key, end) in rows.into_iter().enumerate() {
            ends.insert(end, ElementId::single(JobId(key as u64)), HoldKey(key as u32));
        }
        assert_eq!(upcoming(&ends, Time(100)), [(101, 0), (120, 1), (200, 3), (250, 4)]);
    }

    #[test]
    fn none_is_missed_where_more_are_read() {
        let mut ends = Ends::default();
        for key in 0..3 * AT_ONCE as u32 {
            // Of both kinds in turns; where two come at once, what is fixed comes first.
            let at = u64::from(key / 2);
            let end = if key % 2 == 0 { End::At(Time(101 + at)) } else { End::After(Span(1 + at)) };
            ends.insert(end, ElementId::single(JobId(u64::from(key))), HoldKey(key));
        }
        let all: Vec<_> =
            (0..3 * AT_ONCE as u32).map(|key| (101 + u64::from(key / 2), key)).collect();
        assert_eq!(upcoming(&ends, Time(100)), all);
    }

    fn upcoming(ends: &Ends, now: Time) -> Vec<(u64, u32)> {
        let (mut upcoming, mut seen) = (Upcoming::from(now), Vec::new());
        while let Some((time, key)) = upcoming.peek(ends) {
            seen.push((time.0, key.0));
            upcoming.pass();
        }
        seen
    }
}
