//! Parsers for the values of sbatch's options: times, sizes, counts, nodes. `None` for anything
//! invalid.

use crate::{gres, time};

/// Factor between sbatch's units `K`, `M`, `G` and `T`.
const KIBIBYTE: u64 = 1 << 10;

/// Time limit, in minutes rounded up as in Slurm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Limit {
    /// Limit as a number of minutes.
    Minutes(u64),
    /// Explicitly without a time limit.
    None,
}

/// Parses a time limit: `90`, `30:00`, `12:00:00`, `1-12`, `1-12:30`, `1-12:30:00`, `UNLIMITED`.
pub(super) fn limit(text: &str) -> Option<Limit> {
    let text = text.trim();
    if ["unlimited", "infinite", "-1", "0"].contains(&text.to_ascii_lowercase().as_str()) {
        return Some(Limit::None);
    }
    let minutes = time::span(text)?.0.div_ceil(60_000);
    Some(if minutes == 0 { Limit::None } else { Limit::Minutes(minutes) })
}

/// Formats minutes for a job file: `1d`, `12h`, `1h30m`.
pub(super) fn minutes(count: u64) -> String {
    match (count / 60, count % 60) {
        (0, minutes) => format!("{minutes}m"),
        (hours, 0) => format!("{hours}h"),
        (hours, minutes) => format!("{hours}h{minutes}m"),
    }
}

/// Parses a memory size to MiB, the default unit: `64G`.
pub(super) fn mebibytes(text: &str) -> Option<u64> {
    let text = text.trim().trim_end_matches(['b', 'B']);
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let count: u64 = digits.parse().ok()?;
    match text[digits.len()..].to_ascii_uppercase().as_str() {
        "" | "M" => Some(count),
        "K" => Some(count.div_ceil(KIBIBYTE)),
        "G" => count.checked_mul(KIBIBYTE),
        "T" => count.checked_mul(KIBIBYTE * KIBIBYTE),
        _ => None,
    }
}

/// Formats MiB for a job file.
pub(super) fn memory(mebibytes: u64) -> String {
    match mebibytes % KIBIBYTE {
        0 => format!("{}GiB", mebibytes / KIBIBYTE),
        _ => format!("{mebibytes}MiB"),
    }
}

/// Parses minimum and maximum number of nodes: `4`, `2-8`, `1k`.
pub(super) fn nodes(text: &str) -> Option<(u64, u64)> {
    let (fewest, most) = text.split_once('-').unwrap_or((text, text));
    let fewest = count(fewest)?;
    let most = count(most)?;
    (fewest > 0 && fewest <= most).then_some((fewest, most))
}

/// Parses a count: `8`, `1k`.
pub(super) fn count(text: &str) -> Option<u64> {
    let text = text.trim();
    match text.strip_suffix(['k', 'K']) {
        Some(thousands) => thousands.parse::<u64>().ok()?.checked_mul(KIBIBYTE),
        None => text.parse().ok(),
    }
}

/// Number of GPUs, with an optional model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Gpus {
    pub(super) model: Option<String>,
    pub(super) count: u64,
}

/// Parses `8` or `h100:8`; `None` for several models, which a job file cannot express.
pub(super) fn gpus(text: &str) -> Option<Gpus> {
    match text.split_once(':') {
        None => match count(text) {
            Some(count) => Some(Gpus { model: None, count }),
            None => {
                is_model(text).then(|| Gpus { model: Some(text.to_ascii_lowercase()), count: 1 })
            }
        },
        Some((model, number)) => {
            is_model(model).then_some(())?;
            Some(Gpus { model: Some(model.to_ascii_lowercase()), count: count(number)? })
        }
    }
}

/// Returns whether a word is a model, or a MIG profile of one: `h100`, `1g.10gb`, `a100_1g.5gb`.
fn is_model(text: &str) -> bool {
    let is_part = text.split_once("g.").is_some_and(|(slices, rest)| {
        !slices.is_empty()
            && slices.bytes().all(|byte| byte.is_ascii_digit())
            && rest.contains("gb")
    });
    (is_part || text.starts_with(|c: char| c.is_ascii_alphabetic()))
        && text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.'))
}

/// Resources other than GPUs, with their counts.
pub(super) type CountedGres = Vec<(String, u64)>;

/// Parses `--gres`: GPUs, and the other resources; `None` where a part is invalid.
pub(super) fn gres(text: &str) -> Option<(Option<Gpus>, CountedGres)> {
    let mut found = None;
    let mut rest = Vec::new();
    for part in text.split(',') {
        let part = part.trim().trim_start_matches("gres:").trim_start_matches("gres/");
        let (name, value) = part.split_once(':').unwrap_or((part, "1"));
        match name {
            "" => return None,
            "gpu" if found.is_some() => return None,
            "gpu" => found = Some(gpus(value)?),
            name => rest.push((name.to_owned(), count(value)?)),
        }
    }
    Some((found, rest))
}

/// Splits a list at commas outside brackets, without empty parts.
pub(super) fn list(text: &str) -> Vec<String> {
    let parts = gres::split(text).into_iter().map(str::trim);
    parts.filter(|part| !part.is_empty()).map(str::to_owned).collect()
}

/// Parses `now+2hours` to seconds, with sbatch's units.
pub(super) fn from_now(text: &str) -> Option<u64> {
    let rest = text.trim().strip_prefix("now")?;
    let Some(rest) = rest.strip_prefix('+') else { return rest.is_empty().then_some(0) };
    let digits = rest.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let seconds = match &rest[digits.len()..] {
        "" | "second" | "seconds" => 1,
        "minute" | "minutes" => 60,
        "hour" | "hours" => 3600,
        "day" | "days" => 86_400,
        "week" | "weeks" => 604_800,
        _ => return None,
    };
    digits.parse::<u64>().ok()?.checked_mul(seconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_as_slurm_reads_them() {
        let check =
            |text: &str, expected: Option<Limit>| assert_eq!(limit(text), expected, "{text}");
        check("90", Some(Limit::Minutes(90)));
        check("30:00", Some(Limit::Minutes(30)));
        check("00:00:30", Some(Limit::Minutes(1)));
        check("12:00:00", Some(Limit::Minutes(720)));
        check("1-12", Some(Limit::Minutes(2160)));
        check("1-12:30", Some(Limit::Minutes(2190)));
        check("UNLIMITED", Some(Limit::None));
        check("2h", None);
        assert_eq!(
            (minutes(90).as_str(), minutes(120).as_str(), minutes(5).as_str()),
            ("1h30m", "2h", "5m")
        );
    }

    #[test]
    fn sizes_and_counts_are_read_as_slurm_reads_them() {
        assert_eq!(
            [
                mebibytes("64G"),
                mebibytes("512"),
                mebibytes("1T"),
                mebibytes("2000K"),
                mebibytes("8X")
            ],
            [Some(65_536), Some(512), Some(1 << 20), Some(2), None]
        );
        assert_eq!(
            (nodes("2-8"), nodes("4"), nodes("8-2"), nodes("a")),
            (Some((2, 8)), Some((4, 4)), None, None)
        );
        assert_eq!(gpus("H100:8"), Some(Gpus { model: Some("h100".to_owned()), count: 8 }));
        assert_eq!(gpus("a100:2,v100:2"), None);
        let part = |model: &str, count| Some(Gpus { model: Some(model.to_owned()), count });
        assert_eq!(
            [gpus("1g.10gb:1"), gpus("1g.10gb"), gpus("a100_1g.5gb:2"), gpus("8x")],
            [part("1g.10gb", 1), part("1g.10gb", 1), part("a100_1g.5gb", 2), None]
        );
        assert_eq!(
            gres("gpu:h100:4,nvme:2").map(|(gpus, rest)| (gpus.map(|gpus| gpus.count), rest)),
            Some((Some(4), vec![("nvme".to_owned(), 2)]))
        );
        assert_eq!(list("n[1,2],m"), ["n[1,2]", "m"]);
        assert_eq!((from_now("now+2hours"), from_now("16:00")), (Some(7200), None));
    }
}
