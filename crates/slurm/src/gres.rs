//! Parser for generic resources as Slurm prints them: `gpu:h100:8(S:0-1),shard:h100:32,fpga:2`, by
//! the grammar of gres.conf(5) and slurm.conf(5).

use std::collections::BTreeMap;

/// GRES that are shares of GPUs rather than devices (gres.html, sharing of GPUs).
const SHARES: [&str; 2] = ["mps", "shard"];

/// Largest count of an extra resource in a cluster file.
const MAX_EXTRA: u64 = 1_000_000_000;

/// Generic resources of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Gres {
    /// GPUs by type, in order; the type is empty where none is configured.
    pub gpus: Vec<(String, u64)>,
    /// Other resources, summed over types. Resources counted in bytes (`tmpdisk:7T`) are left out,
    /// as they are not devices.
    pub extras: BTreeMap<String, u64>,
}

/// GPUs of one type on a node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GpuGres {
    /// Type of the GPUs; empty where none is configured.
    pub kind: String,
    /// GPUs of this type on the node; 1 where Slurm prints no number.
    pub count: u64,
    /// Indices of the GPUs, where Slurm prints them: `(IDX:0-3,5)`.
    pub indices: Vec<u16>,
}

/// Parses the GPUs of a list, such as `gpu:h100:8(IDX:0-3,5),shard:4`; other parts, and parts that
/// are not understood, are skipped.
#[must_use]
pub fn gpus(text: &str) -> Vec<GpuGres> {
    let entries = split(text).into_iter().filter_map(entry);
    let gpus = entries.filter(|entry| entry.name.eq_ignore_ascii_case("gpu"));
    gpus.map(|entry| GpuGres {
        kind: entry.kind.to_owned(),
        count: entry.count,
        indices: entry.inside.strip_prefix("IDX:").map(indices).unwrap_or_default(),
    })
    .collect()
}

/// Returns the GPU indices of a list.
#[must_use]
pub fn devices(text: &str) -> Vec<u16> {
    gpus(text).into_iter().flat_map(|gpu| gpu.indices).collect()
}

fn indices(list: &str) -> Vec<u16> {
    let range = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        Some(first.trim().parse().ok()?..=last.trim().parse().ok()?)
    };
    list.split(',').filter_map(range).flatten().collect()
}

/// Parses a list of generic resources; `(null)` and `N/A` are empty.
pub(super) fn parse(text: &str) -> Result<Gres, String> {
    let mut gres = Gres::default();
    if matches!(text.trim(), "(null)" | "N/A" | "n/a") {
        return Ok(gres);
    }
    for part in split(text) {
        let bare = part.split('(').next().unwrap_or_default().trim();
        if bare.is_empty() {
            continue;
        }
        let wrong = || format!("`{bare}` is not a generic resource such as `gpu:h100:8`");
        let entry = entry(part).ok_or_else(wrong)?;
        match entry.name {
            "gpu" => gres.gpus.push((entry.kind.to_owned(), entry.count)),
            name if SHARES.contains(&name) || entry.count > MAX_EXTRA => {}
            name => {
                let sum = gres.extras.entry(name.to_owned()).or_default();
                *sum = (*sum + entry.count).min(MAX_EXTRA);
            }
        }
    }
    Ok(gres)
}

/// Part of a list: `gpu:h100:8(S:0-1)`.
struct GresEntry<'a> {
    name: &'a str,
    /// Type; empty for none.
    kind: &'a str,
    count: u64,
    /// Text in brackets: sockets or indices.
    inside: &'a str,
}

fn entry(part: &str) -> Option<GresEntry<'_>> {
    let (bare, inside) = part.split_once('(').unwrap_or((part, ""));
    let is_word = |word: &&str| !word.eq_ignore_ascii_case("no_consume");
    let words: Vec<&str> = bare.trim().split(':').filter(is_word).collect();
    let (name, rest) = words.split_first().filter(|(name, _)| !name.is_empty())?;
    let number = rest.last().and_then(|word| count(word));
    let (kind, number) = match (rest, number) {
        ([] | [_], Some(number)) => ("", number),
        ([kind, _], Some(number)) => (*kind, number),
        ([], None) => ("", 1),
        ([kind], None) => (*kind, 1),
        _ => return None,
    };
    let inside = inside.trim_end().trim_end_matches(')');
    Some(GresEntry { name, kind, count: number, inside })
}

/// Splits a list at commas outside brackets.
pub(super) fn split(text: &str) -> Vec<&str> {
    let mut depth = 0u32;
    let mut start = 0;
    let mut parts = Vec::new();
    for (at, letter) in text.char_indices() {
        match letter {
            '[' | '(' => depth += 1,
            ']' | ')' => depth = depth.saturating_sub(1),
            ',' if depth == 0 => {
                parts.push(&text[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&text[start..]);
    parts
}

/// Parses a count, also with a binary suffix: `8`, `7T`.
fn count(word: &str) -> Option<u64> {
    let (digits, shift) = match word.char_indices().last()? {
        (at, 'k' | 'K') => (&word[..at], 10),
        (at, 'm' | 'M') => (&word[..at], 20),
        (at, 'g' | 'G') => (&word[..at], 30),
        (at, 't' | 'T') => (&word[..at], 40),
        (at, 'p' | 'P') => (&word[..at], 50),
        _ => (word, 0),
    };
    let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| digits.parse::<u64>().unwrap_or(u64::MAX).saturating_mul(1 << shift))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, gpus: &[(&str, u64)], extras: &[(&str, u64)]) {
        let gres = parse(text).unwrap();
        let found: Vec<(&str, u64)> =
            gres.gpus.iter().map(|(kind, n)| (kind.as_str(), *n)).collect();
        assert_eq!(found, gpus, "{text}");
        let found: Vec<(&str, u64)> =
            gres.extras.iter().map(|(name, n)| (name.as_str(), *n)).collect();
        assert_eq!(found, extras, "{text}");
    }

    #[test]
    fn lists_are_read_as_slurm_prints_them() {
        check("gpu:h100:8", &[("h100", 8)], &[]);
        check("gpu:h100:8(S:0-1),shard:h100:32(S:0-1)", &[("h100", 8)], &[]);
        check("tmpsize:7T,gpu:l40s:4(S:0,1)", &[("l40s", 4)], &[]);
        check("gpu:8", &[("", 8)], &[]);
        check("gpu", &[("", 1)], &[]);
        check("gpu:h100", &[("h100", 1)], &[]);
        check("gpu:a100_1g.5gb:7,gpu:a100:1", &[("a100_1g.5gb", 7), ("a100", 1)], &[]);
        check("fpga:x:1,fpga:y:2,bandwidth:lustre:no_consume:4G", &[], &[("fpga", 3)]);
        for none in ["", "(null)", "N/A", " , "] {
            check(none, &[], &[]);
        }
        for wrong in ["gpu:a:b:8", ":8", "gpu:a:8:9"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
        assert_eq!(parse("gpu:99999999999999999999").unwrap().gpus, [(String::new(), u64::MAX)]);
    }

    #[test]
    fn gpus_are_read_with_their_indices() {
        let check = |text: &str, expected: &[(&str, u64)], indices: &[u16]| {
            let found = gpus(text);
            let types: Vec<(&str, u64)> =
                found.iter().map(|gpu| (gpu.kind.as_str(), gpu.count)).collect();
            assert_eq!((types.as_slice(), devices(text).as_slice()), (expected, indices), "{text}");
        };
        check("gpu:8", &[("", 8)], &[]);
        check("gpu:a100:2(S:0),gpu:t4:1,shard:4", &[("a100", 2), ("t4", 1)], &[]);
        check("gpu:a100:1(IDX:0),gpu:t4:2(IDX:2,3)", &[("a100", 1), ("t4", 2)], &[0, 2, 3]);
        check("gpu:h100:8(IDX:0-3,5),shard:4", &[("h100", 8)], &[0, 1, 2, 3, 5]);
        check("gpu:h100:0(IDX:N/A)", &[("h100", 0)], &[]);
        check("GPU:h100,fpga:a:b:1", &[("h100", 1)], &[]);
        check("", &[], &[]);
    }
}
