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

/// Parses a list of generic resources; `(null)` and `N/A` are empty.
pub(super) fn parse(text: &str) -> Result<Gres, String> {
    let mut gres = Gres::default();
    if matches!(text.trim(), "(null)" | "N/A" | "n/a") {
        return Ok(gres);
    }
    for part in split(text) {
        // Brackets contain sockets or indices.
        let part = part.split('(').next().unwrap_or_default().trim();
        if part.is_empty() {
            continue;
        }
        let mut words: Vec<&str> = part.split(':').filter(|word| *word != "no_consume").collect();
        let name = words.remove(0);
        let number = words.last().and_then(|word| count(word));
        if number.is_some() {
            words.pop();
        }
        let wrong = || format!("`{part}` is not a generic resource such as `gpu:h100:8`");
        let (kind, number) = match (words.as_slice(), number) {
            ([], number) => ("", number.unwrap_or(1)),
            ([kind], number) => (*kind, number.unwrap_or(1)),
            _ => return Err(wrong()),
        };
        match name {
            "" => return Err(wrong()),
            "gpu" => gres.gpus.push((kind.to_owned(), number)),
            _ if SHARES.contains(&name) || number > MAX_EXTRA => {}
            _ => {
                let sum = gres.extras.entry(name.to_owned()).or_default();
                *sum = (*sum + number).min(MAX_EXTRA);
            }
        }
    }
    Ok(gres)
}

/// Splits at commas outside brackets.
fn split(text: &str) -> Vec<&str> {
    let mut depth = 0u32;
    let mut start = 0;
    let mut parts = Vec::new();
    for (at, letter) in text.char_indices() {
        match letter {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
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
}
