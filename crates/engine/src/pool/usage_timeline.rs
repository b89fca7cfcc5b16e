//! Quantities in use on one node from now on: a step function of time over the ends of its holdings
//! and the begins and ends of its bookings. With many bookings a look at an interval walks over the
//! steps within it, where it would otherwise add up all holdings and bookings at each of them.

use muster_model::Time;

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
    /// Instant before which no later begin helps, as far as known, where it does not fit at all; the begin
    /// of the interval otherwise.
    pub(crate) blocked_until: Time,
}

impl UsageTimeline {
    /// Adds up the use of a node. `used` is held now; `held` has the end of each holding, later than now,
    /// and `booked` begin and end of each booking.
    pub(crate) fn new<'a>(
        now: Time,
        used: &Scalars,
        held: impl Iterator<Item = (Time, &'a Scalars)>,
        booked: impl Iterator<Item = (Time, Time, &'a Scalars)>,
    ) -> Self {
        let mut ends: Vec<(Time, &Scalars)> = held.filter(|(end, _)| *end < Time::NEVER).collect();
        ends.sort_unstable_by_key(|(end, _)| *end);
        let mut timeline = Self { now, steps: vec![(now, used.clone())] };
        for (end, scalars) in ends {
            let at = timeline.step_from(end);
            timeline.steps[at].1.sub(scalars);
        }
        for (start, end, scalars) in booked {
            timeline.add(start, end, scalars);
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
                let mut later = self.steps[index + 1..].iter();
                let freed = later.find(|(_, used)| limit.fits(used, need) > 0);
                fit.blocked_until = freed.map_or(Time::NEVER, |(at, _)| *at);
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
    use proptest::prelude::*;

    use super::*;

    const NOW: u64 = 10;
    const LAST: u64 = 40;

    /// Use from an instant to another.
    type Use = (Time, Time, Scalars);

    fn amount(cpus: u64) -> Scalars {
        Scalars { cpus, memory: 3 * cpus, extras: vec![(1, cpus)] }
    }

    /// Returns uses that begin at any of these instants; length 0 is without end.
    fn uses(begin: impl Strategy<Value = u64>) -> impl Strategy<Value = Use> {
        (begin, 0..12_u64, 0..4_u64).prop_map(|(start, length, cpus)| {
            let end = if length == 0 { Time::NEVER } else { Time(start + length) };
            (Time(start), end, amount(cpus))
        })
    }

    fn list(all: &[Use]) -> impl Iterator<Item = (Time, Time, &Scalars)> {
        all.iter().map(|(start, end, scalars)| (*start, *end, scalars))
    }

    proptest! {
        /// Compares each interval with a sum over everything that is in use at each of its instants.
        #[test]
        fn a_look_counts_what_is_used_at_each_instant(
            mut held in prop::collection::vec(uses(Just(NOW)), 0..6),
            booked in prop::collection::vec(uses(NOW..LAST), 0..6),
            added in prop::collection::vec(uses(NOW..LAST), 0..3),
            released in 0..6_usize,
        ) {
            let mut used = Scalars::default();
            held.iter().for_each(|(.., scalars)| used.add(scalars, 1));
            let ends = held.iter().map(|(_, end, scalars)| (*end, scalars));
            let mut timeline = UsageTimeline::new(Time(NOW), &used, ends, list(&booked));
            list(&added).for_each(|(start, end, scalars)| timeline.add(start, end, scalars));
            if released < held.len() {
                let (_, end, scalars) = held.remove(released);
                timeline.sub(end, &scalars);
            }
            let limit = amount(20);
            let need = amount(3);
            let free_at = |at: u64| {
                let mut used = Scalars::default();
                list(&held).chain(list(&booked)).chain(list(&added))
                    .filter(|(start, end, _)| *start <= Time(at) && Time(at) < *end)
                    .for_each(|(.., scalars)| used.add(scalars, 1));
                limit.fits(&used, &need)
            };
            for from in NOW..LAST + 15 {
                for until in from + 1..LAST + 20 {
                    let fit = timeline.fits(&limit, &need, Time(from), Time(until));
                    let expected = (from..until).map(free_at).min();
                    prop_assert_eq!(Some(fit.times), expected, "{} to {}", from, until);
                    // No later begin in that time has an interval of this length that fits.
                    for begin in from..fit.blocked_until.0.min(LAST + 20) {
                        let end = begin + until - from;
                        prop_assert_eq!((begin..end).map(free_at).min(), Some(0));
                    }
                }
            }
        }
    }
}
