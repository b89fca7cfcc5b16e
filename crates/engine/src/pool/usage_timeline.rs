//! Quantities in use on one node from now on: a step function of time over the ends of its holdings
//! and the begins and ends of its bookings. With many bookings a look at an interval walks over the
//! steps within it, where it would otherwise add up all holdings and bookings at each of them.

use muster_model::Time;

use super::node::{NodeBooking, NodeHold};
use super::scalars::Scalars;

/// Use of one node over time, as seen from one instant.
#[derive(Clone, Debug)]
pub(crate) struct UsageTimeline {
    now: Time,
    /// Use from an instant on, up to the next. The first is `now`; instants ascend.
    steps: Vec<(Time, Scalars)>,
}

/// Number of times that a need fits throughout an interval.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ScalarFit {
    pub(crate) times: u64,
    /// Where it does not fit at all: the instant before which no later begin helps, as far as known.
    /// The begin of the interval otherwise.
    pub(crate) blocked_until: Time,
}

impl UsageTimeline {
    /// Adds up holdings and bookings. `used` is held now, by `holds` together.
    pub(crate) fn new(
        now: Time,
        used: &Scalars,
        holds: &[NodeHold],
        bookings: &[NodeBooking],
    ) -> Self {
        let mut ends: Vec<(Time, &Scalars)> =
            holds.iter().map(|hold| (hold.end.at(now), &hold.scalars)).collect();
        ends.sort_unstable_by_key(|(end, _)| *end);
        let mut timeline = Self { now, steps: vec![(now, used.clone())] };
        for (end, scalars) in ends.into_iter().filter(|(end, _)| *end < Time::NEVER) {
            let at = timeline.step_from(end);
            timeline.steps[at].1.sub(scalars);
        }
        for booking in bookings {
            timeline.add(booking.start, booking.end, &booking.scalars);
        }
        timeline
    }

    /// Returns the instant from which the use is seen.
    pub(crate) fn now(&self) -> Time {
        self.now
    }

    /// Adds use from `start` to `end`.
    pub(crate) fn add(&mut self, start: Time, end: Time, scalars: &Scalars) {
        self.change(start, end, |used| used.add(scalars, 1));
    }

    /// Subtracts use that was added from now to `end`.
    pub(crate) fn sub(&mut self, end: Time, scalars: &Scalars) {
        self.change(self.now, end, |used| used.sub(scalars));
    }

    fn change(&mut self, start: Time, end: Time, change: impl Fn(&mut Scalars)) {
        let first = self.step_from(start.max(self.now));
        let last =
            if end < Time::NEVER { self.step_from(end.max(self.now)) } else { self.steps.len() };
        self.steps[first..last].iter_mut().for_each(|(_, used)| change(used));
    }

    /// Returns how many times `need` fits beside the use from `from` to `until`.
    pub(crate) fn fits(
        &self,
        limit: &Scalars,
        need: &Scalars,
        from: Time,
        until: Time,
    ) -> ScalarFit {
        let first = self.steps.partition_point(|(at, _)| *at <= from).saturating_sub(1);
        let mut fit = ScalarFit { times: u64::MAX, blocked_until: from };
        for (index, (at, used)) in self.steps.iter().enumerate().skip(first) {
            if index > first && *at >= until {
                break;
            }
            fit.times = fit.times.min(limit.fits(used, need));
            if fit.times == 0 {
                let later = self.steps[index + 1..].iter();
                fit.blocked_until = later
                    .filter(|(_, used)| limit.fits(used, need) > 0)
                    .map(|(at, _)| *at)
                    .next()
                    .unwrap_or(Time::NEVER);
                break;
            }
        }
        fit
    }

    /// Returns the index of the step that begins at an instant, after dividing the step that
    /// contains it.
    fn step_from(&mut self, at: Time) -> usize {
        let next = self.steps.partition_point(|(begin, _)| *begin < at);
        if self.steps.get(next).is_none_or(|(begin, _)| *begin != at) {
            let used = self.steps[next - 1].1.clone();
            self.steps.insert(next, (at, used));
        }
        next
    }
}

#[cfg(test)]
mod tests {
    use muster_model::DeviceSet;
    use proptest::prelude::*;
    use smallvec::SmallVec;

    use super::*;
    use crate::pool::HoldKey;
    use crate::pool::ends::HoldingEnd;

    const NOW: u64 = 10;
    const LAST: u64 = 40;

    fn amount(cpus: u64) -> Scalars {
        Scalars { cpus, memory: 3 * cpus, extras: vec![(1, cpus)] }
    }

    fn hold(key: u32, end: HoldingEnd, cpus: u64) -> NodeHold {
        let (key, devices, scalars) = (HoldKey(key), DeviceSet::EMPTY, amount(cpus));
        NodeHold { key, end, tasks: 1, devices, scalars }
    }

    fn booking(reservation: u32, start: u64, end: Time, cpus: u64) -> NodeBooking {
        NodeBooking {
            reservation,
            start: Time(start),
            end,
            devices: DeviceSet::EMPTY,
            shares: SmallVec::new(),
            scalars: amount(cpus),
        }
    }

    fn hold_end() -> impl Strategy<Value = HoldingEnd> {
        prop_oneof![
            (0..LAST).prop_map(|at| HoldingEnd::At(Time(at))),
            (0..20_u64).prop_map(|span| HoldingEnd::After(muster_model::Span(span))),
            Just(HoldingEnd::Never),
        ]
    }

    fn booking_end(start: u64, length: u64) -> Time {
        if length == 0 { Time::NEVER } else { Time(start + length) }
    }

    proptest! {
        /// Compares each interval with a sum over all holdings and bookings at each of its instants.
        #[test]
        fn a_look_counts_what_is_used_at_each_instant(
            holds in prop::collection::vec((hold_end(), 0..4_u64), 0..6),
            bookings in prop::collection::vec((NOW..LAST, 0..12_u64, 0..4_u64), 0..6),
            added in prop::collection::vec((NOW..LAST, 0..12_u64, 0..4_u64), 0..3),
            released in 0..6_usize,
        ) {
            let now = Time(NOW);
            let mut holds: Vec<NodeHold> = (0..).zip(holds)
                .map(|(key, (end, cpus))| hold(key, end, cpus)).collect();
            let mut bookings: Vec<NodeBooking> = (0..).zip(bookings)
                .map(|(at, (start, length, cpus))| booking(at, start, booking_end(start, length), cpus))
                .collect();
            let mut used = Scalars::default();
            holds.iter().for_each(|hold| used.add(&hold.scalars, 1));
            let mut timeline = UsageTimeline::new(now, &used, &holds, &bookings);
            for (start, length, cpus) in added {
                let end = booking_end(start, length);
                timeline.add(Time(start), end, &amount(cpus));
                bookings.push(booking(100, start, end, cpus));
            }
            if released < holds.len() {
                let gone = holds.remove(released);
                timeline.sub(gone.end.at(now), &gone.scalars);
            }
            let (limit, need) = (amount(20), amount(3));
            let free_at = |at: u64| {
                let mut used = Scalars::default();
                let held = holds.iter().filter(|hold| hold.end.at(now) > Time(at));
                held.for_each(|hold| used.add(&hold.scalars, 1));
                let booked = bookings.iter().filter(|one| one.start <= Time(at) && Time(at) < one.end);
                booked.for_each(|one| used.add(&one.scalars, 1));
                limit.fits(&used, &need)
            };
            for from in NOW..LAST + 15 {
                for until in from + 1..LAST + 20 {
                    let fit = timeline.fits(&limit, &need, Time(from), Time(until));
                    let expected = (from..until).map(free_at).min();
                    prop_assert_eq!(Some(fit.times), expected, "{} to {}", from, until);
                    let blocked = (from..fit.blocked_until.0.min(LAST + 20)).collect::<Vec<_>>();
                    // No later begin in that time has an interval of this length that fits.
                    for begin in blocked {
                        let length = until - from;
                        prop_assert_eq!((begin..begin + length).map(free_at).min(), Some(0));
                    }
                }
            }
        }
    }
}
