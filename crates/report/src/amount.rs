//! Amounts as text: counts with their noun, GPUs, device lists, ordinals, percentages. Integers
//! only.

use muster_model::node::GpuModel;
use muster_model::{ElementId, GpuMilli};

/// `1 task`, `3 tasks`.
#[must_use]
pub fn count(n: u64, noun: &str) -> String {
    if n == 1 { format!("1 {noun}") } else { format!("{n} {noun}s") }
}

/// `1 GPU`, `5 GPUs`, `0.5 GPU`, `no GPU`.
#[must_use]
pub fn gpus(amount: GpuMilli) -> String {
    match amount.0 {
        0 => "no GPU".to_owned(),
        1..=1000 => format!("{amount} GPU"),
        _ => format!("{amount} GPUs"),
    }
}

/// Thousandths times a count, held in 64 bits: `2500` × 4 is `10`.
#[must_use]
pub fn times(amount: GpuMilli, n: u32) -> GpuMilli {
    GpuMilli(u32::try_from(u64::from(amount.0) * u64::from(n)).unwrap_or(u32::MAX))
}

/// `is` or `are`, after an amount.
#[must_use]
pub fn is_are(amount: GpuMilli) -> &'static str {
    if amount.0 == 1000 { "is" } else { "are" }
}

/// `any model`, `h100`, `h100 or a100`.
#[must_use]
pub fn models(models: &[GpuModel]) -> String {
    match models {
        [] => "any model".to_owned(),
        _ => models.iter().map(GpuModel::as_str).collect::<Vec<_>>().join(" or "),
    }
}

/// `1st`, `2nd`, `3rd`, `11th`.
#[must_use]
pub fn ordinal(n: u32) -> String {
    let suffix = match (n % 10, n % 100) {
        (_, 11..=13) => "th",
        (1, _) => "st",
        (2, _) => "nd",
        (3, _) => "rd",
        _ => "th",
    };
    format!("{n}{suffix}")
}

/// Sorted numbers as ranges: `0-4`, `5,6`, `0-2,7`.
#[must_use]
pub fn ranges(numbers: &[u32]) -> String {
    let mut runs: Vec<(u32, u32)> = Vec::new();
    for &number in numbers {
        match runs.last_mut() {
            Some((_, last)) if *last + 1 == number => *last = number,
            _ => runs.push((number, number)),
        }
    }
    let words: Vec<String> = runs
        .iter()
        .map(|&(first, last)| match last - first {
            0 => first.to_string(),
            1 => format!("{first},{last}"),
            _ => format!("{first}-{last}"),
        })
        .collect();
    words.join(",")
}

/// Seconds as hours with one decimal, rounded down: `12.5`.
#[must_use]
pub fn hours(secs: u64) -> String {
    let tenths = secs / 360;
    format!("{}.{}", tenths / 10, tenths % 10)
}

/// Millionths as a percentage with one decimal: `37.5%`.
#[must_use]
pub fn percent(ppm: u64) -> String {
    let tenths = ppm / 1000;
    format!("{}.{}%", tenths / 10, tenths % 10)
}

/// Returns a number with thousands separators: `28,481`.
#[must_use]
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let first = digits.len() % 3;
    let mut text = String::new();
    for (at, digit) in digits.char_indices() {
        if at > 0 && at % 3 == first {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// `1 job`, `28,481 jobs`.
#[must_use]
pub fn grouped_count(number: u64, noun: &str) -> String {
    format!("{} {noun}{}", grouped(number), if number == 1 { "" } else { "s" })
}

/// Returns an element as users type it: `3`, or `3[7]`. Index 0 is omitted, as a job without an
/// array also has it.
#[must_use]
pub fn element(id: ElementId) -> String {
    if id.index == 0 { id.job.to_string() } else { id.to_string() }
}

/// `GPU 3`, `GPUs 3,5`.
pub(crate) fn gpu_indices(devices: &[u16]) -> String {
    let indices: Vec<String> = devices.iter().map(ToString::to_string).collect();
    format!("{} {}", if devices.len() == 1 { "GPU" } else { "GPUs" }, indices.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_read_as_people_write_them() {
        assert_eq!(count(1, "task"), "1 task");
        assert_eq!(count(0, "task"), "0 tasks");
        assert_eq!(gpus(GpuMilli(500)), "0.5 GPU");
        assert_eq!(gpus(GpuMilli(1000)), "1 GPU");
        assert_eq!(gpus(GpuMilli(5000)), "5 GPUs");
        assert_eq!(times(GpuMilli(2500), 4), GpuMilli(10_000));
        assert_eq!(models(&["h100".into(), "a100".into()]), "h100 or a100");
        assert_eq!(percent(375_499), "37.5%");
        assert_eq!(hours(45_000), "12.5");
        assert_eq!([0, 999, 28_481, 1_000_000].map(grouped), ["0", "999", "28,481", "1,000,000"]);
        assert_eq!(
            (grouped_count(1, "job"), grouped_count(1000, "job")),
            ("1 job".into(), "1,000 jobs".into())
        );
    }

    #[test]
    fn ordinals_and_ranges() {
        for (n, text) in [
            (1, "1st"),
            (2, "2nd"),
            (3, "3rd"),
            (4, "4th"),
            (11, "11th"),
            (112, "112th"),
            (21, "21st"),
        ] {
            assert_eq!(ordinal(n), text);
        }
        for (numbers, text) in [
            (&[0, 1, 2, 3, 4][..], "0-4"),
            (&[5, 6], "5,6"),
            (&[0, 1, 2, 7], "0-2,7"),
            (&[], ""),
            (&[3], "3"),
        ] {
            assert_eq!(ranges(numbers), text);
        }
    }
}
