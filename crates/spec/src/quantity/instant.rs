//! Instants: RFC 3339 with an offset, and begin times relative to submission. There is no clock or
//! time zone here, so a local time without offset is refused rather than guessed.

use muster_model::{Span, Time};

use super::{Malformed, parse_span};

/// Earliest start of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EarliestStart {
    /// Relative to the submission.
    After(Span),
    /// Absolute, at an instant.
    At(Time),
}

impl EarliestStart {
    /// Returns the instant, for a submission at `now`.
    #[must_use]
    pub fn at(self, now: Time) -> Time {
        match self {
            EarliestStart::After(span) => now + span,
            EarliestStart::At(time) => time,
        }
    }
}

/// Parses a begin time: `+2h` or `now+2h` after submission, or an instant.
///
/// # Errors
/// As [`parse_span`] and [`parse_instant`].
pub fn parse_begin(text: &str) -> Result<EarliestStart, Malformed> {
    let text = text.trim();
    let relative = text.strip_prefix("now").map_or(text, str::trim_start).strip_prefix('+');
    match relative {
        Some(span) => parse_span(span).map(EarliestStart::After),
        None => {
            parse_instant(text).map(EarliestStart::At).map_err(|error| match parse_span(text) {
                Ok(_) => Malformed::new("from when on?")
                    .hint(format!("write `+{text}` to count from submission")),
                Err(_) => error,
            })
        }
    }
}

/// Returns an instant as in RFC 3339, in UTC, with milliseconds if it has any. It reads back as the
/// same.
#[must_use]
pub fn instant_text(time: Time) -> String {
    // The day of the year 0 in a calendar whose years begin in March, in eras of 400 years.
    const ERA_DAYS: u64 = 146_097;
    const TO_EPOCH_DAYS: u64 = 719_468;
    let millis = time.0 % 1000;
    let secs = time.0 / 1000;
    let days = secs / 86_400 + TO_EPOCH_DAYS;
    let era = days / ERA_DAYS;
    let day_of_era = days % ERA_DAYS;
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = (month_from_march + 2) % 12 + 1;
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    let hour = secs / 3600 % 24;
    let minute = secs / 60 % 60;
    let second = secs % 60;
    let fraction = if millis > 0 { format!(".{millis:03}") } else { String::new() };
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}{fraction}Z")
}

/// Parses an instant as in RFC 3339: `2026-08-01T06:00:00Z`, `2026-08-01T08:00+02:00`. Seconds may
/// be left out; a space may stand for the `T`; finer than milliseconds is cut off.
///
/// # Errors
/// Anything else: no offset, a date that does not exist, a year before 1970 or after 9999.
pub fn parse_instant(text: &str) -> Result<Time, Malformed> {
    let expected =
        || Malformed::new("expected `+2h`, or an instant such as `2026-08-01T06:00:00Z`");
    let text = text.trim();
    if !text.is_ascii() || text.len() < 16 {
        return Err(expected());
    }
    // 1. Date: YYYY-MM-DD
    let year = field(text, 0, 4);
    let month = field(text, 5, 2);
    let day = field(text, 8, 2);
    let shape =
        [(4, "-"), (7, "-"), (13, ":")].iter().all(|(at, mark)| &text[*at..at + 1] == *mark);
    let (Some(year), Some(month), Some(day), true) = (year, month, day, shape) else {
        return Err(expected());
    };
    if !matches!(&text[10..11], "T" | "t" | " ") {
        return Err(expected());
    }
    if !(1970..=9999).contains(&year)
        || !(1..=12).contains(&month)
        || day < 1
        || day > days_in(year, month)
    {
        return Err(Malformed::new("there is no such day"));
    }
    // 2. Clock: HH:MM, then :SS and a fraction if given.
    let (Some(hour), Some(minute)) = (field(text, 11, 2), field(text, 14, 2)) else {
        return Err(expected());
    };
    let (second, milli, offset) = seconds(&text[16..]).ok_or_else(expected)?;
    if hour > 23 || minute > 59 || second > 59 {
        return Err(Malformed::new("there is no such time of day"));
    }
    // 3. Offset, and all together.
    let Some(offset_minutes) = offset_minutes(offset) else {
        return Err(if offset.is_empty() {
            Malformed::new("in which time zone?")
                .hint("end it with `Z` for UTC, or with an offset such as `+02:00`")
        } else {
            expected()
        });
    };
    let days = days_from_epoch(year, month, day);
    let secs = ((days * 24 + hour) * 60 + minute - offset_minutes) * 60 + second;
    match u64::try_from(secs * 1000 + milli) {
        Ok(millis) => Ok(Time(millis)),
        Err(_) => Err(Malformed::new("there is no such day")),
    }
}

/// Parses `len` digits at `at` as a number.
fn field(text: &str, at: usize, len: usize) -> Option<i64> {
    let digits = text.get(at..at + len)?;
    digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse().ok()).flatten()
}

/// Returns seconds, milliseconds and the rest of `:SS.fff+02:00`.
fn seconds(rest: &str) -> Option<(i64, i64, &str)> {
    if !rest.starts_with(':') {
        return Some((0, 0, rest));
    }
    let second = field(rest, 1, 2)?;
    let Some(fraction) = rest[3..].strip_prefix('.') else { return Some((second, 0, &rest[3..])) };
    let end = fraction.find(|c: char| !c.is_ascii_digit()).unwrap_or(fraction.len());
    let digits = &fraction[..end];
    let milli = format!("{digits:0<3}").get(..3).and_then(|milli| milli.parse().ok())?;
    (!digits.is_empty()).then_some((second, milli, &fraction[end..]))
}

fn offset_minutes(text: &str) -> Option<i64> {
    let text = text.trim_start();
    if text.eq_ignore_ascii_case("z") {
        return Some(0);
    }
    let sign = match text.as_bytes().first()? {
        b'+' => 1,
        b'-' => -1,
        _ => return None,
    };
    let (hours, minutes) = match text.len() {
        6 if &text[3..4] == ":" => (field(text, 1, 2)?, field(text, 4, 2)?),
        5 => (field(text, 1, 2)?, field(text, 3, 2)?),
        _ => return None,
    };
    (hours <= 23 && minutes <= 59).then_some(sign * (hours * 60 + minutes))
}

fn days_in(year: i64, month: i64) -> i64 {
    match month {
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Returns the days since 1970-01-01 in the Gregorian calendar, counted in 400-year eras that start
/// in March (Howard Hinnant, "chrono-compatible low-level date algorithms", `days_from_civil`).
fn days_from_epoch(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year / 400;
    let year_of_era = year - era * 400;
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * 146_097 + day_of_era - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instants_are_written_as_they_are_read() {
        for text in [
            "1970-01-01T00:00:00Z",
            "2000-02-29T23:59:59Z",
            "2026-11-01T06:30:00Z",
            "2100-03-01T00:00:00.250Z",
            "9999-12-31T23:59:59.999Z",
        ] {
            assert_eq!(instant_text(parse_instant(text).unwrap()), text);
        }
    }
}
