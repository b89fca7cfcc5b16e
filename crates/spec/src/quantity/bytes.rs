//! Sizes: `80GB`, `64GiB`, `512M`. A unit with `B` alone is decimal, with `iB` binary; a bare
//! letter is binary, as Slurm and most tools for memory read it.

use muster_model::Bytes;

use super::{Malformed, decimal, split_unit};

/// A bare number below this is taken for a forgotten unit, not for bytes.
const SMALLEST_BARE: u128 = 1 << 20;

/// Parses a size in bytes. `80GB` is 80 × 10⁹, `80GiB` and `80G` are 80 × 2³⁰, a bare number of at
/// least 1048576 is bytes. Letters may be of either case; a fraction is cut to whole bytes, so that
/// `4.1TiB`, as views print sizes, can be given back.
///
/// # Errors
/// Anything else, and what does not fit 64 bits.
pub fn parse_bytes(text: &str) -> Result<Bytes, Malformed> {
    let text = text.trim();
    if text.starts_with('-') {
        return Err(Malformed::new("a size cannot be negative"));
    }
    let expected = || Malformed::new("expected a size such as `80GB`, `64GiB` or `512M`");
    let (number, unit) = split_unit(text);
    let (value, scale) = decimal(number).ok_or_else(expected)?;
    let unit = unit.to_ascii_lowercase();
    let scaled = value.checked_mul(factor(&unit).ok_or_else(expected)?).ok_or_else(too_large)?;
    let divisor = 10u128.pow(scale);
    if matches!(unit.as_str(), "" | "b") && scaled % divisor != 0 {
        return Err(Malformed::new("this is not a whole number of bytes"));
    }
    let bytes = scaled / divisor;
    if unit.is_empty() && bytes < SMALLEST_BARE {
        return Err(Malformed::new("which unit?").hint(format!(
            "write `{number}GB` or `{number}M`; a bare number is bytes, from 1048576 on"
        )));
    }
    u64::try_from(bytes).map(Bytes).map_err(|_| too_large())
}

fn too_large() -> Malformed {
    Malformed::new("larger than 16EiB")
}

fn factor(unit: &str) -> Option<u128> {
    Some(match unit {
        "" | "b" => 1,
        "k" | "kib" => 1 << 10,
        "m" | "mib" => 1 << 20,
        "g" | "gib" => 1 << 30,
        "t" | "tib" => 1 << 40,
        "p" | "pib" => 1 << 50,
        "kb" => 1_000,
        "mb" => 1_000_000,
        "gb" => 1_000_000_000,
        "tb" => 1_000_000_000_000,
        "pb" => 1_000_000_000_000_000,
        _ => return None,
    })
}
