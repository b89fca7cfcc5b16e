//! Times of an advance reservation: arithmetic on its recurrences, without nodes and jobs.

use muster_model::{AdvanceReservationTimes, Span, Time};

/// Begin and end of one occurrence.
pub(crate) type Occurrence = (Time, Time);

/// Returns the occurrence that is active at an instant, or else the next one.
pub(crate) fn at_or_after(times: &AdvanceReservationTimes, at: Time) -> Option<Occurrence> {
    let first = ends(times, times.start);
    let behind = at.0.checked_sub(first.0);
    let (Some(behind), Some(every)) = (behind, times.every) else {
        return behind.is_none().then_some((times.start, first));
    };
    // The first occurrence that ends after `at`.
    let nth = behind / every.0.max(1) + 1;
    if times.count.is_some_and(|count| nth >= u64::from(count)) {
        return None;
    }
    let begin = Time(times.start.0.checked_add(nth.checked_mul(every.0)?)?);
    Some((begin, ends(times, begin)))
}

/// Returns the occurrence that is active at an instant.
pub(crate) fn active_at(times: &AdvanceReservationTimes, at: Time) -> Option<Occurrence> {
    at_or_after(times, at).filter(|(begin, _)| *begin <= at)
}

/// Returns the next instant after `at` at which the reservation begins or ends.
pub(crate) fn next_edge(times: &AdvanceReservationTimes, at: Time) -> Option<Time> {
    at_or_after(times, at).map(|(begin, end)| if begin > at { begin } else { end })
}

/// True when the reservation is active at some instant of a period.
pub(crate) fn is_active_during(times: &AdvanceReservationTimes, from: Time, until: Time) -> bool {
    at_or_after(times, from).is_some_and(|(begin, _)| begin < until)
}

/// True when the reservation is active throughout a period.
pub(crate) fn is_active_throughout(
    times: &AdvanceReservationTimes,
    from: Time,
    until: Time,
) -> bool {
    active_at(times, from).is_some_and(|(_, end)| until <= end)
}

/// Returns the longest time for which the reservation is active without a break from an instant on;
/// `None` once it is over.
pub(crate) fn longest_from(times: &AdvanceReservationTimes, at: Time) -> Option<Span> {
    let (begin, end) = at_or_after(times, at)?;
    match at_or_after(times, end) {
        Some(_) => Some(times.length),
        None => Some(end.since(begin.max(at))),
    }
}

/// True when two reservations are ever active at the same instant.
pub(crate) fn overlap(one: &AdvanceReservationTimes, other: &AdvanceReservationTimes) -> bool {
    match (
        one.every.filter(|_| one.count != Some(1)),
        other.every.filter(|_| other.count != Some(1)),
    ) {
        (None, _) => is_active_during(other, one.start, ends(one, one.start)),
        (_, None) => is_active_during(one, other.start, ends(other, other.start)),
        (Some(every), Some(other_every)) => {
            // The starts of two recurring reservations differ by multiples of the gcd of their
            // periods, plus the offset of their first starts.
            let step = gcd(every.0, other_every.0);
            let ahead = (other.start.0 % step + step - one.start.0 % step) % step;
            let in_step = ahead < one.length.0 || step - ahead < other.length.0;
            // One may be over before the other begins.
            in_step && one.start < other.end() && other.start < one.end()
        }
    }
}

fn ends(times: &AdvanceReservationTimes, begin: Time) -> Time {
    Time(begin.0.saturating_add(times.length.0))
}

fn gcd(one: u64, other: u64) -> u64 {
    if other == 0 { one.max(1) } else { gcd(other, one % other) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(
        start: u64,
        length: u64,
        every: Option<u64>,
        count: Option<u32>,
    ) -> AdvanceReservationTimes {
        AdvanceReservationTimes {
            start: Time(start),
            length: Span(length),
            every: every.map(Span),
            count,
        }
    }

    /// Lists all occurrences up to an instant, by enumeration.
    fn listed(times: &AdvanceReservationTimes, until: u64) -> Vec<Occurrence> {
        let most = if times.every.is_none() { 1 } else { times.count.unwrap_or(u32::MAX) };
        let begins = (0..most)
            .map(|nth| times.start.0 + u64::from(nth) * times.every.map_or(0, |every| every.0));
        let begins = begins.take_while(|begin| *begin <= until);
        begins.map(|begin| (Time(begin), Time(begin + times.length.0))).collect()
    }

    #[test]
    fn arithmetic_agrees_with_an_enumeration_of_occurrences() {
        let rows = [
            times(10, 3, None, None),
            times(10, 3, Some(5), None),
            times(0, 5, Some(5), Some(3)),
            times(7, 2, Some(9), Some(1)),
            times(3, 4, Some(11), Some(4)),
        ];
        for row in &rows {
            let all = listed(row, 300);
            for at in 0..60 {
                let at = Time(at);
                let next = all.iter().copied().find(|(_, end)| *end > at);
                assert_eq!(at_or_after(row, at), next, "{row:?} at {at:?}");
                let edge = next.map(|(begin, end)| if begin > at { begin } else { end });
                assert_eq!(next_edge(row, at), edge, "{row:?} at {at:?}");
                let left = all.iter().filter(|(_, end)| *end > at);
                let longest = left.map(|(begin, end)| end.since((*begin).max(at))).max();
                assert_eq!(longest_from(row, at), longest, "{row:?} at {at:?}");
                for until in at.0 + 1..70 {
                    let until = Time(until);
                    let meets_any = all.iter().any(|(begin, end)| *begin < until && at < *end);
                    assert_eq!(
                        is_active_during(row, at, until),
                        meets_any,
                        "{row:?} {at:?} to {until:?}"
                    );
                    let covered = all.iter().any(|(begin, end)| *begin <= at && until <= *end);
                    assert_eq!(
                        is_active_throughout(row, at, until),
                        covered,
                        "{row:?} {at:?} to {until:?}"
                    );
                }
            }
        }
        for (one, other) in rows.iter().flat_map(|one| rows.iter().map(move |other| (one, other))) {
            let left = listed(one, 300);
            let right = listed(other, 300);
            let met = left
                .iter()
                .any(|(from, to)| right.iter().any(|(begin, end)| begin < to && from < end));
            assert_eq!(overlap(one, other), met, "{one:?} and {other:?}");
        }
    }
}
