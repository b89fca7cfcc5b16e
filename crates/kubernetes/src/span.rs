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

#[cfg(test)]
mod tests {
    use super::*;

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
