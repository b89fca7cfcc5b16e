//! Quantities in the format of the Kubernetes API: `128`, `127500m`, `1056Gi`, `1e3`. Exact;
//! smaller fractions are rounded down.

use serde_json::Value;

/// Powers of ten and of two that a suffix stands for (Kubernetes documentation, Quantity).
const SUFFIXES: [(&str, i32, u32); 16] = [
    ("Ki", 0, 10),
    ("Mi", 0, 20),
    ("Gi", 0, 30),
    ("Ti", 0, 40),
    ("Pi", 0, 50),
    ("Ei", 0, 60),
    ("n", -9, 0),
    ("u", -6, 0),
    ("m", -3, 0),
    ("k", 3, 0),
    ("M", 6, 0),
    ("G", 9, 0),
    ("T", 12, 0),
    ("P", 15, 0),
    ("E", 18, 0),
    ("", 0, 0),
];

/// Maximum number of digits that are read; real quantities have fewer.
const MAX_DIGITS: usize = 20;

/// Parses a quantity in thousandths, rounded down; `None` for other text, and for quantities that
/// are negative or out of range.
pub(crate) fn milli(text: &str) -> Option<u128> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, suffix) = text.split_at(end);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.len() + fraction.len() == 0
        || whole.len() + fraction.len() > MAX_DIGITS
        || fraction.contains('.')
    {
        return None;
    }
    let digits: u128 = format!("{whole}{fraction}").parse().ok()?;
    let known =
        SUFFIXES.iter().find(|(word, ..)| *word == suffix).map(|(_, ten, two)| (*ten, *two));
    let (ten, two) = known.or_else(|| {
        let exponent: i32 = suffix.strip_prefix(['e', 'E'])?.parse().ok()?;
        (-18..=18).contains(&exponent).then_some((exponent, 0))
    })?;
    let ten = ten + 3 - i32::try_from(fraction.len()).ok()?;
    let scaled = digits.checked_mul(1 << two)?;
    let power = 10u128.checked_pow(ten.unsigned_abs())?;
    if ten < 0 { Some(scaled / power) } else { scaled.checked_mul(power) }
}

/// Parses a quantity in whole units, rounded down; `None` for anything else.
#[must_use]
pub fn whole(text: &str) -> Option<u64> {
    u64::try_from(milli(text)? / 1000).ok()
}

/// Returns an amount in a field of an object, a number or a text, in whole units; 0 for anything else.
#[must_use]
pub fn units(value: &Value) -> u64 {
    value.as_u64().or_else(|| whole(value.as_str()?)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_are_exact() {
        for (text, expected) in [
            ("128", 128_000),
            ("127500m", 127_500),
            ("0.5", 500),
            ("127.5", 127_500),
            (".5", 500),
            ("1.", 1000),
            ("1e3", 1_000_000),
            ("1E-1", 100),
            ("1k", 1_000_000),
            ("2Ki", 2_048_000),
            ("1.5Gi", (3 << 29) * 1000),
            ("500n", 0),
            ("2000u", 2),
            ("1056Gi", (1056 << 30) * 1000),
            ("16Ei", (16 << 60) * 1000),
        ] {
            assert_eq!(milli(text), Some(expected), "{text}");
        }
        for wrong in [
            "",
            ".",
            "-1",
            "1.2.3",
            "x",
            "1Kib",
            "1e",
            "1e99",
            "9999999999999999999999",
            " 1",
            "1 Gi",
        ] {
            assert_eq!(milli(wrong), None, "{wrong}");
        }
        assert_eq!(whole("99999999999999999999Ei"), None);
        assert_eq!(whole("1999m"), Some(1));
    }
}
