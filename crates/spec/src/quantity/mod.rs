//! Quantities as people write them: `12h`, `80GB`, `0-199%32`, `USR1`. Text in, exact integers out.
//!
//! One file per kind. Every parser takes any text, never panics, and answers what it expected; nothing is rounded
//! but fractions of a byte and of a millisecond of an instant, which are cut; which field the text came from, and what range that field allows, is its caller's business.

mod array;
mod bytes;
mod instant;
mod number;
mod signal;
mod span;

pub use array::{MAX_ELEMENTS, parse_array};
pub use bytes::parse_bytes;
pub use instant::{Begin, instant_text, parse_begin, parse_instant};
pub use number::{GpuAmount, parse_cpus, parse_gpus, parse_hundredths, parse_range, parse_whole};
pub use signal::parse_signal;
pub use span::{MAX_SPAN, parse_limit, parse_span, span_text};

/// Why a text is not the quantity it should be. Both parts are lowercase fragments for people.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{label}")]
pub struct Malformed {
    /// What was expected, or what is wrong.
    pub label: String,
    /// The next step, when there is an obvious one.
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

/// A decimal number without sign as an integer and how many of its digits stand behind the point. `None` when
/// the text is anything else, or has more digits than an exact calculation can hold.
fn decimal(text: &str) -> Option<(u128, u32)> {
    const MAX_WHOLE_DIGITS: usize = 20;
    const MAX_FRACTION_DIGITS: usize = 9;
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    let sized = whole.len() <= MAX_WHOLE_DIGITS && fraction.len() <= MAX_FRACTION_DIGITS;
    if whole.is_empty() || text.ends_with('.') || !digits(whole) || !digits(fraction) || !sized {
        return None;
    }
    let number = format!("{whole}{fraction}").parse().ok()?;
    Some((number, fraction.len() as u32))
}

/// Splits `1.5GiB` before its first letter.
fn split_unit(text: &str) -> (&str, &str) {
    let at = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    (text[..at].trim_end(), text[at..].trim())
}
