//! Time limits in annotations: a number of seconds, or numbers with units.

use muster_model::Span;

/// Parses `5400`, `90m`, `1h30m`, `2d`; `None` for other text, and for zero.
#[must_use]
pub fn parse(text: &str) -> Option<Span> {
    let seconds = |unit| match unit {
        's' => Some(1),
        'm' => Some(60),
        'h' => Some(3600),
        'd' => Some(86_400),
        _ => None,
    };
    if let Ok(secs) = text.parse::<u64>() {
        return (secs > 0).then(|| Span::from_secs(secs));
    }
    let mut total = 0u64;
    let mut number = String::new();
    for letter in text.chars() {
        if letter.is_ascii_digit() {
            number.push(letter);
        } else {
            let value: u64 = number.parse().ok()?;
            total = total.checked_add(value.checked_mul(seconds(letter)?)?)?;
            number.clear();
        }
    }
    (number.is_empty() && total > 0).then(|| Span::from_secs(total))
}

/// Returns a length of time, rounded up to seconds, as text that [`parse`] reads: `8h`, `90m`, `5401s`.
#[must_use]
pub fn text(span: Span) -> String {
    let secs = span.0.div_ceil(1000).max(1);
    let units = [(86_400, 'd'), (3600, 'h'), (60, 'm')];
    let unit = units.into_iter().find(|(length, _)| secs.is_multiple_of(*length));
    let (length, letter) = unit.unwrap_or((1, 's'));
    format!("{}{letter}", secs / length)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn written_lengths_are_read_again() {
        for (millis, written) in [
            (28_800_000, "8h"),
            (5_400_000, "90m"),
            (172_800_000, "2d"),
            (61_000, "61s"),
            (1, "1s"),
        ] {
            assert_eq!(text(Span(millis)), written);
            assert_eq!(parse(written), Some(Span::from_secs(millis.div_ceil(1000))));
        }
    }

    #[test]
    fn limits_are_read_or_refused() {
        for (text, secs) in [
            ("5400", Some(5400)),
            ("90m", Some(5400)),
            ("1h30m", Some(5400)),
            ("2d", Some(172_800)),
            ("0", None),
            ("", None),
            ("h", None),
            ("1h30", None),
            ("-5", None),
            ("1w", None),
            ("99999999999999999999", None),
            ("9999999999999999d", None),
        ] {
            assert_eq!(parse(text), secs.map(Span::from_secs), "{text}");
        }
    }
}
