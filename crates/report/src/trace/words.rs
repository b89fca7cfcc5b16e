//! Numbers of a trace as text: durations with dates, shares, thousandths.

use jiff::Timestamp;
use muster_model::Span;
use muster_model::trace::TraceSpan;

use crate::amount::{count, grouped, percent};

const DAY_MS: u64 = 86_400_000;
/// From this many days on, hours are not shown.
const LONG_DAYS: u64 = 10;

/// `340 days, 1996-09-23 to 1997-08-29`, or only the duration if there are no dates.
pub(super) fn span(span: &TraceSpan) -> String {
    let length = span.last_submit_ms.saturating_sub(span.first_submit_ms);
    let days = match length / DAY_MS {
        days @ LONG_DAYS.. => count(days, "day"),
        _ => Span(length).to_string(),
    };
    let date = |ms: u64| {
        let ms = i64::try_from(ms.checked_add(span.zero_ms?)?).ok()?;
        Some(Timestamp::from_millisecond(ms).ok()?.strftime("%Y-%m-%d").to_string())
    };
    match date(span.first_submit_ms).zip(date(span.last_submit_ms)) {
        Some((first, last)) => format!("{days}, {first} to {last}"),
        None => format!("{days}; the trace has no dates"),
    }
}

/// Returns a part of a whole in percent; `-` if the whole is 0.
pub(super) fn share(part: u64, whole: u64) -> String {
    if whole == 0 {
        return "-".to_owned();
    }
    let ppm = u128::from(part) * 1_000_000 / u128::from(whole);
    match ppm {
        0..1000 if part > 0 => "<0.1%".to_owned(),
        _ => percent(u64::try_from(ppm).unwrap_or(u64::MAX)),
    }
}

/// Thousandths without trailing zeros: `0.5`, `16`.
pub(super) fn decimal(milli: u64) -> String {
    let text = format!("{}.{:03}", grouped(milli / 1000), milli % 1000);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_and_amounts_read_as_people_write_them() {
        assert_eq!(
            (share(1, 8), share(0, 8), share(1, 100_000), share(1, 0)),
            ("12.5%".into(), "0.0%".into(), "<0.1%".into(), "-".into())
        );
        assert_eq!(
            (decimal(500), decimal(16_000), decimal(1_255_100)),
            ("0.5".into(), "16".into(), "1,255.1".into())
        );
    }

    #[test]
    fn a_span_has_dates_where_they_are_known() {
        let of = |zero_ms| {
            span(&TraceSpan { first_submit_ms: 0, last_submit_ms: 2 * DAY_MS + 1, zero_ms })
        };
        assert_eq!(of(Some(843_480_031_000)), "2d, 1996-09-23 to 1996-09-25");
        assert_eq!(of(None), "2d; the trace has no dates");
        assert_eq!(of(Some(u64::MAX)), "2d; the trace has no dates");
        assert_eq!(
            span(&TraceSpan { last_submit_ms: 90_000, ..TraceSpan::default() }),
            "1m30s; the trace has no dates"
        );
    }
}
