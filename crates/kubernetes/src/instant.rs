//! Instants as the API server prints them: RFC 3339 in UTC.

use muster_model::Time;

/// Days before each month of a year that is no leap year.
const DAYS_BEFORE_MONTH: [u64; 12] = [0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334];

/// Parses `2026-11-25T10:00:05Z`, also with a fraction of a second, which is dropped; `None` for other
/// text.
#[must_use]
pub fn parse(text: &str) -> Option<Time> {
    let text = text.strip_suffix('Z')?;
    let (date, time) = text.split_once('T')?;
    let time = time.split_once('.').map_or(time, |(whole, _)| whole);
    let numbers = |text: &str, separator| -> Option<[u64; 3]> {
        let parts: Vec<u64> =
            text.split(separator).map(|part| part.parse().ok()).collect::<Option<_>>()?;
        parts.try_into().ok()
    };
    let [year, month, day] = numbers(date, '-')?;
    let [hours, minutes, seconds] = numbers(time, ':')?;
    if !(1970..=9999).contains(&year) || !(1..=31).contains(&day) {
        return None;
    }
    let before_month = *DAYS_BEFORE_MONTH.get(usize::try_from(month).ok()?.checked_sub(1)?)?;
    // Every fourth year, without those of full centuries that 400 does not divide.
    let leap_days = |years: u64| years / 4 - years / 100 + years / 400;
    let is_leap = leap_days(year) > leap_days(year - 1);
    let days = (year - 1970) * 365 + leap_days(year - 1) - leap_days(1969)
        + before_month
        + u64::from(is_leap && month > 2)
        + (day - 1);
    let in_day = hours * 3600 + minutes * 60 + seconds;
    (hours < 24 && minutes < 60 && seconds <= 60).then(|| Time((days * 86_400 + in_day) * 1000))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instants_are_read_or_refused() {
        for (text, secs) in [
            ("1970-01-01T00:00:00Z", Some(0)),
            ("2026-11-20T12:00:00Z", Some(1_795_176_000)),
            ("2026-11-20T12:00:00.123456Z", Some(1_795_176_000)),
            ("2024-02-29T00:00:00Z", Some(1_709_164_800)),
            ("2024-03-01T00:00:00Z", Some(1_709_251_200)),
            ("2000-12-31T23:59:59Z", Some(978_307_199)),
            ("2026-11-20T12:00:00+01:00", None),
            ("2026-13-20T12:00:00Z", None),
            ("2026-00-20T12:00:00Z", None),
            ("1969-12-31T23:59:59Z", None),
            ("2026-11-20T24:00:00Z", None),
            ("2026-11-20", None),
            ("", None),
        ] {
            assert_eq!(parse(text), secs.map(|secs: u64| Time(secs * 1000)), "{text}");
        }
    }
}
