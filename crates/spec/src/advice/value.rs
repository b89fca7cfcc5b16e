//! Values of facts and thresholds: flags, counts, hundredths. Stricter than in other files, since a
//! misread fact would change the advice without any other sign.

use muster_model::advice::FactKind;
use schemars::Schema;

use crate::diagnostic::{Problem, Problems};
use crate::field::parsed;
use crate::quantity::{Malformed, parse_hundredths, parse_whole};
use crate::suggest::nearest;
use crate::yaml::{Node, Value};

/// Reads a value; returns the number that [`muster_model::advice::Facts`] stores.
pub(super) fn read(
    node: &Node,
    name: &str,
    kind: FactKind,
    problems: &mut Problems,
) -> Option<u32> {
    let expected = expected(kind);
    if let (true, Value::Scalar(text)) = (node.quoted, &node.value) {
        let plain = text.trim();
        let hint = parse_fact_value(plain, kind)
            .is_ok()
            .then(|| format!("write it without quotes: `{plain}`"));
        let problem = Problem::new(format!("`{name}` is not {expected}"));
        problems.add(problem.at(node.place, "this is text").hint(hint));
        return None;
    }
    parsed(node, name, &expected, problems, |text| parse_fact_value(text, kind))
}

/// Describes the allowed values, for messages and descriptions.
pub(super) fn expected(kind: FactKind) -> String {
    match kind {
        FactKind::Flag => "true or false".to_owned(),
        FactKind::Count { min, max, .. } => format!("a whole number from {min} to {max}"),
        FactKind::Hundredths { max } => {
            format!("a number from 0 to {} with at most two decimals", max / 100)
        }
    }
}

/// Returns the JSON Schema of the allowed values.
pub(super) fn schema(kind: FactKind) -> Schema {
    match kind {
        FactKind::Flag => schemars::json_schema!({ "type": "boolean", "default": false }),
        FactKind::Count { min, max, default } => {
            schemars::json_schema!({ "type": "integer", "minimum": min, "maximum": max, "default": default })
        }
        FactKind::Hundredths { max } => schemars::json_schema!({
            "type": "number", "minimum": 0, "maximum": max / 100, "multipleOf": 0.01, "default": 0,
        }),
    }
}

/// Parses the text of a value; returns the number that [`muster_model::advice::Facts`] stores.
/// Files use it, and so can options and questions.
///
/// # Errors
/// The text is not allowed by `kind`; the error says what to write instead if that is clear.
pub fn parse_fact_value(text: &str, kind: FactKind) -> Result<u32, Malformed> {
    match kind {
        FactKind::Flag => flag(text),
        FactKind::Count { min, max, .. } => count(text, min, max),
        FactKind::Hundredths { max } => hundredths(text, max),
    }
}

/// Parses a boolean of YAML 1.2 or JSON only: `yes` is a boolean for some readers of YAML and text
/// for others.
fn flag(text: &str) -> Result<u32, Malformed> {
    let plain = text.to_lowercase();
    let meant = match plain.as_str() {
        "true" if is_boolean(text) => return Ok(1),
        "false" if is_boolean(text) => return Ok(0),
        "yes" | "y" | "on" | "1" => Some("true"),
        "no" | "n" | "off" | "0" => Some("false"),
        _ => nearest(&plain, ["true", "false"]),
    };
    let label = match meant {
        Some(meant) => format!("write `{meant}`"),
        None => "write `true` or `false`".to_owned(),
    };
    malformed(label)
}

/// Returns true for the three spellings of YAML 1.2.
fn is_boolean(text: &str) -> bool {
    matches!(text, "true" | "True" | "TRUE" | "false" | "False" | "FALSE")
}

fn count(text: &str, min: u32, max: u32) -> Result<u32, Malformed> {
    let (negative, digits) = match text.strip_prefix(['-', '+']) {
        Some(digits) => (text.starts_with('-'), digits),
        None => (false, text),
    };
    let all_digits = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    if !all_digits {
        return malformed(otherwise(digits));
    }
    let plain = digits.trim_start_matches('0');
    if digits.starts_with('0') && !plain.is_empty() {
        // Octal for readers of YAML 1.1, decimal for those of 1.2.
        return malformed(format!(
            "without leading zeros: `{}`",
            plain.chars().take(20).collect::<String>()
        ));
    }
    let number = parse_whole(text).ok().and_then(|number| u32::try_from(number).ok());
    match number {
        Some(number) if (min..=max).contains(&number) => Ok(number),
        Some(0) => malformed(format!("the smallest is {min}")),
        Some(number) if number < min => malformed(format!("below {min}")),
        None if negative => malformed(format!("below {min}")),
        _ => malformed(format!("above {max}")),
    }
}

/// Returns the label for a count that is not only digits.
fn otherwise(text: &str) -> String {
    let plain = text.to_lowercase();
    let bare: String = plain.chars().filter(|c| !matches!(c, '_' | ',' | '\'' | ' ')).collect();
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if let Some(number) = [("0x", 16), ("0o", 8), ("0b", 2)]
        .into_iter()
        .find_map(|(prefix, radix)| u32::from_str_radix(plain.strip_prefix(prefix)?, radix).ok())
    {
        return format!("in decimal: `{number}`");
    }
    if digits(&bare) && plain.starts_with(|c: char| c.is_ascii_digit()) {
        return format!("without separators: `{}`", bare.chars().take(20).collect::<String>());
    }
    if let Some((whole, exponent)) = plain.split_once('e') {
        let exponent = exponent.strip_prefix('+').unwrap_or(exponent);
        let zeros = exponent.parse().ok().filter(|zeros| *zeros <= 9);
        if let (true, Some(zeros)) = (digits(whole) && whole.len() <= 10, zeros) {
            return format!("in digits: `{whole}{}`", "0".repeat(zeros));
        }
    }
    match plain.split_once('.') {
        Some((whole, fraction)) if digits(whole) && digits(fraction) => "not a fraction".to_owned(),
        _ => "expected digits only, such as `4`".to_owned(),
    }
}

fn hundredths(text: &str, max: u32) -> Result<u32, Malformed> {
    if text.starts_with('-') {
        return malformed("below 0");
    }
    let stored = u32::try_from(parse_hundredths(text)?).ok();
    stored
        .filter(|stored| *stored <= max)
        .map_or_else(|| malformed(format!("above {}", max / 100)), Ok)
}

fn malformed<T>(label: impl Into<String>) -> Result<T, Malformed> {
    Err(Malformed { label: label.into(), hint: None })
}
