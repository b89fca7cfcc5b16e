//! Lists of trackable resources (TRES) as Slurm prints them: `cpu=16,mem=62.50G,gres/gpu=8`.

use muster_model::Bytes;

/// Parses the whole amounts of a list, with names in lower case; -1 is no limit and left out.
#[must_use]
pub fn amounts(tres: &str) -> Vec<(String, u64)> {
    let pair = |part: &str| {
        let (name, amount) = part.split_once('=')?;
        Some((name.trim().to_ascii_lowercase(), amount.trim().parse().ok()?))
    };
    tres.split(',').filter_map(pair).collect()
}

/// Returns the CPUs of a list; 0 where there are none.
#[must_use]
pub fn cpus(tres: &str) -> u32 {
    let found = amounts(tres).into_iter().find(|(name, _)| name == "cpu");
    found.map_or(0, |(_, cpus)| u32::try_from(cpus).unwrap_or_default())
}

/// Returns the memory of a list, in powers of 1024, mebibytes without a unit; 0 where there is none.
#[must_use]
pub fn memory(tres: &str) -> Bytes {
    let amount = |text: &str| -> Option<f64> {
        let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
        let shift = match &text[digits.len()..] {
            "K" => 10,
            "" | "M" => 20,
            "G" => 30,
            "T" => 40,
            "P" => 50,
            _ => return None,
        };
        Some(digits.parse::<f64>().ok()? * (1u64 << shift) as f64)
    };
    let found = tres.split(',').find_map(|part| amount(part.trim().strip_prefix("mem=")?));
    Bytes(found.unwrap_or_default() as u64)
}

/// Returns the GPUs of a list, summed over types.
#[must_use]
pub fn gpus(tres: &str) -> u32 {
    let amounts = amounts(tres);
    let all = amounts.iter().find(|(name, _)| name == "gres/gpu").map(|(_, gpus)| *gpus);
    let typed = amounts.iter().filter(|(name, _)| name.starts_with("gres/gpu:"));
    let gpus = all.unwrap_or_else(|| typed.map(|(_, gpus)| gpus).sum());
    u32::try_from(gpus).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_read_as_slurm_prints_them() {
        assert_eq!(
            amounts("cpu=8,gres/gpu=-1,GRES/gpu:h100=16"),
            [("cpu".to_owned(), 8), ("gres/gpu:h100".to_owned(), 16)]
        );
        let one = "cpu=16,mem=62.50G,node=2,gres/gpu=8,gres/gpu:h100=8";
        assert_eq!((cpus(one), memory(one), gpus(one)), (16, Bytes(125 << 29), 8));
        let typed = "mem=512,gres/gpu:a100=2,gres/gpu:h100=1,gres/gpumem=80";
        assert_eq!((cpus(typed), memory(typed), gpus(typed)), (0, Bytes(512 << 20), 3));
    }
}
