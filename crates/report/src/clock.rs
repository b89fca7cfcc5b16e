//! Instants as times of day in the reader's zone, and lengths of time in whole seconds.

use jiff::{Timestamp, Zoned};
use muster_model::{Span, Time};

use crate::RenderContext;

/// `12:00:20` today, `Nov 21 12:00` within half a year of it, `2027-11-21 12:00`
/// otherwise; `never` for what no calendar holds.
#[must_use]
pub fn time(at: Time, context: RenderContext) -> String {
    let (Some(at), Some(now)) = (zoned(at, context), zoned(context.now, context)) else {
        return "never".to_owned();
    };
    let days = (at.timestamp().as_second() - now.timestamp().as_second()).abs() / 86_400;
    let format = match () {
        () if at.date() == now.date() => "%H:%M:%S",
        () if days < 180 => "%b %d %H:%M",
        () => "%Y-%m-%d %H:%M",
    };
    at.strftime(format).to_string()
}

/// A length of time in whole seconds, rounded to the nearest: `0s`, `12s`, `3m20s`.
#[must_use]
pub fn elapsed(span: Span) -> String {
    Span::from_secs(span.0.saturating_add(500) / 1000).to_string()
}

/// Remaining time in whole seconds, rounded up.
#[must_use]
pub fn remaining(span: Span) -> String {
    Span::from_secs(span.0.div_ceil(1000)).to_string()
}

fn zoned(at: Time, context: RenderContext) -> Option<Zoned> {
    let timestamp = Timestamp::from_millisecond(i64::try_from(at.0).ok()?).ok()?;
    Some(timestamp.to_zoned(context.zone.clone()))
}

/// Returns when a job with a reservation starts: `at 12:00:20 at the latest`, or less if the start is predicted.
pub(crate) fn planned_start(start: Time, predicted: bool, context: RenderContext) -> String {
    let start = time(start, context);
    if predicted {
        format!("about {start}, if jobs run as long as predicted")
    } else {
        format!("at {start} at the latest")
    }
}

#[cfg(test)]
mod tests {
    use jiff::tz::{TimeZone, offset};

    use super::*;
    use crate::sample::NOON;

    #[test]
    fn times_show_as_much_as_the_distance_needs() {
        let context = RenderContext::plain();
        let check = |at: Time, text: &str| assert_eq!(time(at, context.at(NOON)), text);
        check(NOON + Span::from_secs(20), "12:00:20");
        check(NOON + Span::from_secs(86_400), "Nov 21 12:00");
        check(NOON + Span::from_secs(400 * 86_400), "2027-12-25 12:00");
        check(Time::NEVER, "never");
    }

    #[test]
    fn the_zone_is_the_readers() {
        let context = RenderContext {
            zone: Box::leak(Box::new(TimeZone::fixed(offset(2)))),
            ..RenderContext::plain()
        };
        assert_eq!(time(NOON, context.at(NOON)), "14:00:00");
    }

    #[test]
    fn spans_round_to_the_nearest_behind_and_up_ahead() {
        assert_eq!(elapsed(Span(2999)), "3s");
        assert_eq!(elapsed(Span(1400)), "1s");
        assert_eq!(elapsed(Span(450)), "0s");
        assert_eq!(remaining(Span(1001)), "2s");
    }
}
