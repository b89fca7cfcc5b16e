//! Ends of holdings: the time axis of the availability profile, kept in order as holdings come and
//! go.
//!
//! An end is a limit (time limit plus grace), not an observation. A holding that has overrun its
//! limit counts as ending one millisecond from now: it still holds its devices, and no better
//! estimate is known. Textbook EASY, which lets it end "now", makes the same decisions, since no
//! job ends before it started.

use std::collections::BTreeSet;
use std::ops::Bound::{Excluded, Unbounded};

use muster_model::{ElementId, JobId, Span, Time};
use smallvec::SmallVec;

use super::HoldKey;

/// Latest end of a holding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HoldingEnd {
    /// At an instant: its processes run, or are being stopped.
    At(Time),
    /// Always this long after `now`: its processes do not run yet, so its time limit has not begun.
    After(Span),
    /// Never: it has no time limit.
    Never,
}

impl HoldingEnd {
    /// Returns the end as seen from `now`, always later than `now`.
    pub(crate) fn at(self, now: Time) -> Time {
        let soonest = now + Span(1);
        match self {
            HoldingEnd::At(time) => time.max(soonest),
            HoldingEnd::After(span) => (now + span).max(soonest),
            HoldingEnd::Never => Time::NEVER,
        }
    }
}

/// Ends of all holdings, in order.
#[derive(Clone, Debug, Default)]
pub(crate) struct HoldingEnds {
    fixed: BTreeSet<(Time, ElementId, HoldKey)>,
    floating: BTreeSet<(Span, ElementId, HoldKey)>,
}

/// Number of ends read at first; doubles with every further read, up to `AT_ONCE`.
const AT_FIRST: usize = 8;
const AT_ONCE: usize = 32;

/// Iterator over ends in order, as seen from one instant. Valid while holdings are only parked, not
/// removed.
#[derive(Clone, Debug, Default)]
pub(crate) struct UpcomingEnds {
    now: Time,
    /// Last ends read of either kind.
    fixed: Option<(Time, ElementId, HoldKey)>,
    floating: Option<(Span, ElementId, HoldKey)>,
    /// Ends read ahead, and the position of the next.
    read: SmallVec<[(Time, HoldKey); AT_ONCE]>,
    next: usize,
}

impl UpcomingEnds {
    /// Returns an iterator over all ends.
    pub(crate) fn from(now: Time) -> Self {
        Self { now, ..Self::default() }
    }

    /// Returns the next end without consuming it. Equal instants are ordered by kind and element.
    pub(crate) fn peek(&mut self, ends: &HoldingEnds) -> Option<(Time, HoldKey)> {
        if self.next == self.read.len() {
            self.read_on(ends);
        }
        self.read.get(self.next).copied()
    }

    /// Consumes the end that was peeked last.
    pub(crate) fn pass(&mut self) {
        debug_assert!(self.next < self.read.len(), "pass follows peek");
        self.next += 1;
    }

    fn read_on(&mut self, ends: &HoldingEnds) {
        let most = (2 * self.read.len()).clamp(AT_FIRST, AT_ONCE);
        self.read.clear();
        self.next = 0;
        let fixed = ends.fixed.range((self.fixed.map_or(Unbounded, Excluded), Unbounded));
        // The common case: the processes of all holdings run.
        if ends.floating.is_empty() {
            for one in fixed.take(most) {
                self.read.push((HoldingEnd::At(one.0).at(self.now), one.2));
                self.fixed = Some(*one);
            }
            return;
        }
        let mut fixed = fixed.peekable();
        let after = self.floating.map_or(Unbounded, Excluded);
        let mut floating = ends.floating.range((after, Unbounded)).peekable();
        while self.read.len() < most {
            let at_fixed = fixed.peek().map(|(time, _, _)| HoldingEnd::At(*time).at(self.now));
            let at_floating =
                floating.peek().map(|(span, _, _)| HoldingEnd::After(*span).at(self.now));
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

impl HoldingEnds {
    /// True when all ends are fixed instants later than `now`.
    pub(crate) fn are_after(&self, now: Time) -> bool {
        self.floating.is_empty() && self.fixed.first().is_none_or(|(at, ..)| *at > now)
    }

    /// True when some holding ends at this instant.
    pub(crate) fn has_at(&self, at: Time) -> bool {
        let from = (at, ElementId::single(JobId(0)), HoldKey(0));
        self.fixed.range(from..).next().is_some_and(|(first, ..)| *first == at)
    }

    pub(crate) fn insert(&mut self, end: HoldingEnd, element: ElementId, key: HoldKey) {
        match end {
            HoldingEnd::At(time) => self.fixed.insert((time, element, key)),
            HoldingEnd::After(span) => self.floating.insert((span, element, key)),
            HoldingEnd::Never => true,
        };
    }

    pub(crate) fn remove(&mut self, end: HoldingEnd, element: ElementId, key: HoldKey) {
        match end {
            HoldingEnd::At(time) => self.fixed.remove(&(time, element, key)),
            HoldingEnd::After(span) => self.floating.remove(&(span, element, key)),
            HoldingEnd::Never => true,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_are_ordered_and_later_than_now() {
        let mut ends = HoldingEnds::default();
        let rows = [
            HoldingEnd::At(Time(50)),
            HoldingEnd::After(Span(20)),
            HoldingEnd::Never,
            HoldingEnd::At(Time(200)),
            HoldingEnd::After(Span(150)),
        ];
        for (key, end) in rows.into_iter().enumerate() {
            ends.insert(end, ElementId::single(JobId(key as u64)), HoldKey(key as u32));
        }
        assert_eq!(upcoming(&ends, Time(100)), [(101, 0), (120, 1), (200, 3), (250, 4)]);
    }

    #[test]
    fn no_end_is_missed_between_reads() {
        let mut ends = HoldingEnds::default();
        for key in 0..3 * AT_ONCE as u32 {
            // Both kinds alternate; of two equal instants, the fixed one comes first.
            let at = u64::from(key / 2);
            let end = if key % 2 == 0 {
                HoldingEnd::At(Time(101 + at))
            } else {
                HoldingEnd::After(Span(1 + at))
            };
            ends.insert(end, ElementId::single(JobId(u64::from(key))), HoldKey(key));
        }
        let all: Vec<_> =
            (0..3 * AT_ONCE as u32).map(|key| (101 + u64::from(key / 2), key)).collect();
        assert_eq!(upcoming(&ends, Time(100)), all);
    }

    fn upcoming(ends: &HoldingEnds, now: Time) -> Vec<(u64, u32)> {
        let mut upcoming = UpcomingEnds::from(now);
        let mut seen = Vec::new();
        while let Some((time, key)) = upcoming.peek(ends) {
            seen.push((time.0, key.0));
            upcoming.pass();
        }
        seen
    }
}
