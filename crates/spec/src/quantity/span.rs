//! Lengths of time: units (`1d12h`, `90m`, `500ms`) and Slurm's clock forms (`1-12:00:00`,
//! `12:00:00`).
//!
//! A bare number is refused: Slurm reads minutes, most others seconds, and a limit that is sixty
//! times too long or too short is noticed only when the job dies. So is `1:30`, which Slurm reads
//! as minutes and seconds and most people as hours and minutes.

use muster_model::Span;

use super::{Malformed, decimal, split_unit};

/// Longest span that is read: 36,525 days, a hundred years. Sums of a few spans and a present time
/// stay far from overflow.
pub const MAX_SPAN: Span = Span(36_525 * DAY as u64);

const SECOND: u128 = 1000;
const MINUTE: u128 = 60 * SECOND;
const HOUR: u128 = 60 * MINUTE;
const DAY: u128 = 24 * HOUR;

const UNITS: [(&[&str], u128); 6] = [
    (&["ms"], 1),
    (&["s", "sec", "secs", "second", "seconds"], SECOND),
    (&["m", "min", "mins", "minute", "minutes"], MINUTE),
    (&["h", "hr", "hrs", "hour", "hours"], HOUR),
    (&["d", "day", "days"], DAY),
    (&["w", "week", "weeks"], 7 * DAY),
];

/// Parses a length of time. Accepts descending units with an optional fraction in the last (`12h`,
/// `1h30m`, `1.5h`, `1d 12h`, `500ms`) and Slurm's `HH:MM:SS`, `D-HH`, `D-HH:MM`, `D-HH:MM:SS`.
///
/// # Errors
/// Anything else, and spans above [`MAX_SPAN`].
pub fn parse_span(text: &str) -> Result<Span, Malformed> {
    let text = text.trim();
    if text.starts_with('-') {
        return Err(Malformed::new("a length of time cannot be negative"));
    }
    if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        let number = if text.len() > 9 { "90" } else { text };
        return Err(Malformed::new("which unit?").hint(format!(
            "write `{number}s` for seconds or `{number}m` for minutes (Slurm would read minutes)"
        )));
    }
    if let Some((large, small)) = two_numbers(text) {
        return Err(Malformed::new("hours and minutes, or minutes and seconds?").hint(format!(
            "write `{large}h{small}m` or `{large}m{small}s` (Slurm would read minutes and seconds)"
        )));
    }
    let millis =
        if text.contains(':') || is_days_and_hours(text) { clock(text)? } else { units(text)? };
    match u64::try_from(millis) {
        Ok(millis) if millis <= MAX_SPAN.0 => Ok(Span(millis)),
        _ => Err(Malformed::new("longer than 36525 days").hint("write `none` for no limit")),
    }
}

/// Parses a length of time as Slurm prints it, where two numbers are `MM:SS`.
///
/// # Errors
/// As [`parse_span`].
pub(crate) fn parse_slurm_span(text: &str) -> Result<Span, Malformed> {
    match two_numbers(text.trim()) {
        Some((minutes, seconds)) if seconds < 60 => {
            Ok(Span::from_secs(u64::from(minutes) * 60 + u64::from(seconds)))
        }
        _ => parse_span(text),
    }
}

/// Parses a length of time, or `none`, `infinite`, `unlimited` for no limit.
///
/// # Errors
/// As [`parse_span`].
pub fn parse_limit(text: &str) -> Result<Option<Span>, Malformed> {
    match text.trim().to_ascii_lowercase().as_str() {
        "none" | "infinite" | "unlimited" => Ok(None),
        _ => parse_span(text).map(Some),
    }
}

/// Returns a span exactly, in the fewest units: `7d`, `1h30m`, `500ms`. It reads back as the same.
#[must_use]
pub fn span_text(span: Span) -> String {
    if span == Span(0) {
        return "0s".to_owned();
    }
    let mut rest = u128::from(span.0);
    let mut text = String::new();
    for (unit, word) in [(DAY, "d"), (HOUR, "h"), (MINUTE, "m"), (SECOND, "s"), (1, "ms")] {
        if rest >= unit {
            text.push_str(&format!("{}{word}", rest / unit));
            rest %= unit;
        }
    }
    text
}

fn expected() -> Malformed {
    Malformed::new("expected a length of time such as `12h`, `90m`, `1h30m` or `1-12:00:00`")
}

/// Parses two numbers of at most four digits: `1:30`.
fn two_numbers(text: &str) -> Option<(u32, u32)> {
    let number = |part: &str| {
        let is_number =
            (1..=4).contains(&part.len()) && part.bytes().all(|byte| byte.is_ascii_digit());
        is_number.then(|| part.parse().ok()).flatten()
    };
    let (large, small) = text.split_once(':')?;
    Some((number(large)?, number(small)?))
}

fn is_days_and_hours(text: &str) -> bool {
    let number = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    text.split_once('-').is_some_and(|(days, hours)| number(days) && number(hours))
}

/// Parses `HH:MM:SS`, `D-HH`, `D-HH:MM`, `D-HH:MM:SS`, as in sbatch(1).
fn clock(text: &str) -> Result<u128, Malformed> {
    let (days, rest) = match text.split_once('-') {
        Some((days, rest)) => (Some(days), rest),
        None => (None, text),
    };
    let parts: Vec<&str> = rest.split(':').collect();
    let units: &[u128] = match (days.is_some(), parts.len()) {
        (true, 1) => &[HOUR],
        (true, 2) => &[HOUR, MINUTE],
        (_, 3) => &[HOUR, MINUTE, SECOND],
        _ => return Err(expected()),
    };
    let number = |part: &str| match part.len() {
        1..=9 => part
            .bytes()
            .all(|byte| byte.is_ascii_digit())
            .then(|| part.parse::<u128>().ok())
            .flatten(),
        _ => None,
    };
    let mut millis = match days {
        Some(days) => number(days).ok_or_else(expected)? * DAY,
        None => 0,
    };
    for (position, (part, unit)) in parts.iter().zip(units).enumerate() {
        let value = number(part).ok_or_else(expected)?;
        let leads = position == 0 && days.is_none();
        let ceiling = if *unit == HOUR { 24 } else { 60 };
        if !leads && value >= ceiling {
            let word = if *unit == HOUR {
                "hours"
            } else if *unit == MINUTE {
                "minutes"
            } else {
                "seconds"
            };
            return Err(Malformed::new(format!("{value} {word}: at most {} here", ceiling - 1)));
        }
        millis += value * unit;
    }
    Ok(millis)
}

fn units(text: &str) -> Result<u128, Malformed> {
    let mut rest = text;
    let mut millis = 0u128;
    let mut smallest = u128::MAX;
    let mut fraction_seen = false;
    while !rest.is_empty() {
        let (number, tail) = split_unit(rest);
        let end = tail.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(tail.len());
        let (word, after) = tail.split_at(end);
        let word = word.to_ascii_lowercase();
        let (value, scale) = decimal(number).ok_or_else(expected)?;
        let known = UNITS.iter().find(|(names, _)| names.contains(&word.as_str()));
        let Some((_, unit)) = known else {
            return Err(Malformed::new("expected a unit: ms, s, m, h, d or w, as in `1h30m`"));
        };
        if fraction_seen || *unit >= smallest {
            return Err(Malformed::new(
                "expected units from large to small, a fraction only in the last",
            ));
        }
        let divisor = 10u128.pow(scale);
        if value * unit % divisor != 0 {
            return Err(Malformed::new("finer than a millisecond"));
        }
        millis += value * unit / divisor;
        (smallest, fraction_seen) = (*unit, scale > 0);
        rest = after.trim_start();
    }
    match smallest {
        u128::MAX => Err(expected()),
        _ => Ok(millis),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_written_as_they_are_read() {
        for (millis, text) in [
            (0, "0s"),
            (1, "1ms"),
            (90_000, "1m30s"),
            (604_800_000, "7d"),
            (90_061_001, "1d1h1m1s1ms"),
            (MAX_SPAN.0, "36525d"),
        ] {
            assert_eq!(span_text(Span(millis)), text);
            assert_eq!(parse_span(text).unwrap(), Span(millis));
        }
    }
}
