//! Parsers of quantities as users write them, to exact integers: `12h`, `80GB`, `0-199%32`, `USR1`.
//!
//! One file per kind. Every parser takes any text, never panics, and says what it expected. Nothing
//! is rounded, except that fractions of a byte, and of a millisecond of an instant, are cut. The
//! range that a field allows is checked by the caller.

mod array;
mod bytes;
mod instant;
mod number;
mod signal;
mod span;

pub use array::{MAX_ELEMENTS, parse_array};
pub use bytes::parse_bytes;
pub use instant::{EarliestStart, instant_text, parse_begin, parse_instant};
pub use number::{GpuAmount, parse_cpus, parse_gpus, parse_hundredths, parse_range, parse_whole};
pub use signal::parse_signal;
pub(crate) use span::parse_slurm_span;
pub use span::{MAX_SPAN, parse_limit, parse_span, span_text};

/// Error of a text that is not the expected quantity. Both parts are lowercase fragments.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{label}")]
pub struct Malformed {
    /// Expected text, or the problem.
    pub label: String,
    /// Next step; `None` if there is no obvious one.
    pub hint: Option<String>,
}

impl Malformed {
    fn new(label: impl Into<String>) -> Self {
        Self { label: label.into(), hint: None }
    }

    fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

/// Parses a decimal number without sign: an integer, and its number of digits after the point.
/// `None` for any other text, or for more digits than an exact calculation can hold.
pub(crate) fn decimal(text: &str) -> Option<(u128, u32)> {
    const MAX_WHOLE_DIGITS: usize = 20;
    const MAX_FRACTION_DIGITS: usize = 9;
    if text.len() > MAX_WHOLE_DIGITS + 1 + MAX_FRACTION_DIGITS {
        return None;
    }
    let mut number = 0;
    let mut point = None;
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'0'..=b'9' => number = number * 10 + u128::from(byte - b'0'),
            b'.' if point.is_none() => point = Some(at),
            _ => return None,
        }
    }
    let (whole, fraction) = match point {
        Some(at) => (at, text.len() - at - 1),
        None => (text.len(), 0),
    };
    let is_sized = (1..=MAX_WHOLE_DIGITS).contains(&whole) && fraction <= MAX_FRACTION_DIGITS;
    (is_sized && (point.is_none() || fraction > 0)).then_some((number, fraction as u32))
}

/// Splits `1.5GiB` before its first letter.
fn split_unit(text: &str) -> (&str, &str) {
    let at = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    (text[..at].trim_end(), text[at..].trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimals_are_digits_with_one_point_between_them() {
        let check = |text, expected| assert_eq!(decimal(text), expected, "{text}");
        check("0", Some((0, 0)));
        check("007", Some((7, 0)));
        check("12.50", Some((1250, 2)));
        check("99999999999999999999.999999999", Some((99_999_999_999_999_999_999_999_999_999, 9)));
        check("100000000000000000000", None);
        check("1.0000000000", None);
        for text in [
            "",
            ".",
            "1.",
            ".5",
            "1.2.3",
            "+1",
            "-1",
            " 1",
            "1e3",
            "٣",
            "999999999999999999999999999999999999999999",
        ] {
            check(text, None);
        }
    }
}
