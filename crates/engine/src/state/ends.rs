//! When what is held comes back: the time axis of the availability profile, kept in order as holdings come and go.
//!
//! An end is a promise (time limit and grace), not an observation. What overran its promise counts as ending one
//! millisecond from now: it still holds its devices now, and nothing better is known. Textbook EASY, which lets
//! it end "now", decides the same, since no job ends before it started.

use std::collections::BTreeSet;
use std::ops::Bound::{Excluded, Unbounded};

use muster_model::{ElementId, Span, Time};

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

/// A place in the merged order of ends. It stays valid while holdings are only parked, not removed.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct EndCursor {
    fixed: Option<(Time, ElementId, HoldKey)>,
    floating: Option<(Span, ElementId, HoldKey)>,
}

impl Ends {
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

    /// All ends, as seen from `now`, in the order of [`Ends::next`].
    pub(crate) fn all(&self, now: Time) -> impl Iterator<Item = (Time, HoldKey)> {
        let mut fixed =
            self.fixed.iter().map(move |(time, _, key)| (End::At(*time).at(now), *key)).peekable();
        let floating = self.floating.iter().map(move |(span, _, key)| (End::After(*span).at(now), *key));
        let mut floating = floating.peekable();
        std::iter::from_fn(move || match (fixed.peek(), floating.peek()) {
            (Some(first), Some(second)) if first.0 > second.0 => floating.next(),
            (Some(_), _) => fixed.next(),
            (None, _) => floating.next(),
        })
    }

    /// The next end after the cursor, as seen from `now`. Equal instants come in order of kind and element.
    pub(crate) fn next(&self, now: Time, cursor: EndCursor) -> Option<(Time, HoldKey, EndCursor)> {
        let fixed = match cursor.fixed {
            Some(last) => self.fixed.range((Excluded(last), Unbounded)).next(),
            None => self.fixed.first(),
        };
        let floating = match cursor.floating {
            Some(last) => self.floating.range((Excluded(last), Unbounded)).next(),
            None => self.floating.first(),
        };
        let at_fixed = fixed.map(|(time, _, _)| End::At(*time).at(now));
        let at_floating = floating.map(|(span, _, _)| End::After(*span).at(now));
        match (fixed, floating) {
            (Some(entry), None) => Some((at_fixed?, entry.2, EndCursor { fixed: Some(*entry), ..cursor })),
            (Some(entry), Some(_)) if at_fixed <= at_floating => {
                Some((at_fixed?, entry.2, EndCursor { fixed: Some(*entry), ..cursor }))
            }
            (_, Some(entry)) => Some((at_floating?, entry.2, EndCursor { floating: Some(*entry), ..cursor })),
            (None, None) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use muster_model::JobId;

    use super::*;

    #[test]
    fn ends_come_in_order_as_seen_from_now_and_none_lies_behind_it() {
        let mut ends = Ends::default();
        let rows =
            [End::At(Time(50)), End::After(Span(20)), End::Never, End::At(Time(200)), End::After(Span(150))];
        for (key, end) in rows.into_iter().enumerate() {
            ends.insert(end, ElementId::single(JobId(key as u64)), HoldKey(key as u32));
        }
        let (mut cursor, mut seen) = (EndCursor::default(), Vec::new());
        while let Some((time, key, next)) = ends.next(Time(100), cursor) {
            seen.push((time.0, key.0));
            cursor = next;
        }
        assert_eq!(seen, [(101, 0), (120, 1), (200, 3), (250, 4)]);
        let all: Vec<_> = ends.all(Time(100)).map(|(time, key)| (time.0, key.0)).collect();
        assert_eq!(all, seen);
    }
}
