//! Counts: whole numbers, ranges, CPUs and GPUs in thousandths.

use muster_model::{CpuMilli, DeviceSet, GpuMilli};

use super::{Malformed, decimal};

/// Most CPUs that a task can ask for; more than any machine has, and its thousandths fit 32 bits.
const MAX_CPUS: u128 = 1_000_000;

/// Parses a whole number, including `-3` and `+3`.
///
/// # Errors
/// Anything else, and what does not fit 64 bits.
pub fn parse_whole(text: &str) -> Result<i64, Malformed> {
    let text = text.trim();
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    let expected = || Malformed::new("expected a whole number");
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(match decimal(digits) {
            Some(_) => Malformed::new("expected a whole number, not a fraction"),
            None => expected(),
        });
    }
    text.parse().map_err(|_| Malformed::new("this number is far too large"))
}

/// Parses a count or a range of counts: `5`, `2..16`. Both ends are inclusive.
///
/// # Errors
/// Anything else, and a range that runs backwards.
pub fn parse_range(text: &str) -> Result<(i64, i64), Malformed> {
    let Some((low, high)) = text.split_once("..") else {
        return parse_whole(text).map(|count| (count, count));
    };
    let low = parse_whole(low)?;
    let high = parse_whole(high)?;
    if low <= high {
        Ok((low, high))
    } else {
        Err(Malformed::new(format!("this range runs backwards; write `{high}..{low}`")))
    }
}

/// Parses exact hundredths: `0.25` is 25.
///
/// # Errors
/// Anything else: negative, finer than a hundredth, more than 12 digits before the point.
pub fn parse_hundredths(text: &str) -> Result<u64, Malformed> {
    /// Largest whole part, 10¹²; far from overflow after the multiplication below.
    const MAX_WHOLE: u128 = 1_000_000_000_000;
    let text = text.trim();
    if let Some((value, scale)) =
        text.strip_suffix('%').and_then(|number| decimal(number.trim_end()))
    {
        let share = (scale == 0 && value <= 1_000_000)
            .then(|| format!("{}.{:02}", value / 100, value % 100));
        let instead = share
            .map_or_else(|| "a fraction such as `0.25`".to_owned(), |share| format!("`{share}`"));
        return Err(Malformed::new(format!("not in percent; write {instead}")));
    }
    if text.starts_with('.') && decimal(&format!("0{text}")).is_some() {
        return Err(Malformed::new(format!("write `0{text}`")));
    }
    let point = text.replacen(',', ".", 1);
    if point != text && decimal(&point).is_some() {
        return Err(Malformed::new(format!("write `{point}`")));
    }
    let (value, scale) =
        decimal(text).ok_or_else(|| Malformed::new("expected a number such as `0.25`"))?;
    let divisor = 10u128.pow(scale);
    match value * 100 % divisor {
        0 if value / divisor < MAX_WHOLE => Ok((value * 100 / divisor) as u64),
        0 => Err(Malformed::new("this number is far too large")),
        _ => Err(Malformed::new("at most two decimals")),
    }
}

/// GPUs as asked for: whole devices, or a share of one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GpuAmount {
    /// Whole devices; 0 when a share or none is asked for.
    pub devices: u32,
    /// Thousandths of one device, 1..=999; 0 when whole devices or none are asked for.
    pub share: GpuMilli,
}

/// Parses GPUs: a whole number up to 128, or a share of one device such as `0.5`.
///
/// # Errors
/// Anything else: negative, more than a node can have, above one and not whole, finer than a
/// thousandth.
pub fn parse_gpus(text: &str) -> Result<GpuAmount, Malformed> {
    let text = text.trim();
    if let Some((model, count)) = text.split_once(':') {
        let model = model.trim();
        let count = count.trim();
        let word = !model.is_empty()
            && model.chars().all(|c| c.is_ascii_alphanumeric() || "._-".contains(c));
        if word && model.len() <= 64 && count.len() <= 4 && parse_gpus(count).is_ok() {
            return Err(Malformed::new("the GPU model belongs in the field `gpu`")
                .hint(format!("write `gpu: {model}` and `gpus: {count}`")));
        }
    }
    let most = DeviceSet::MAX_DEVICES as u128;
    let expected =
        || Malformed::new(format!("expected 0 to {most} GPUs, or a share of one such as `0.5`"));
    if text.starts_with('-') {
        return Err(expected());
    }
    let (value, scale) = decimal(text).ok_or_else(expected)?;
    let divisor = 10u128.pow(scale);
    match (value / divisor, value % divisor) {
        (devices, 0) if devices <= most => {
            Ok(GpuAmount { devices: devices as u32, share: GpuMilli(0) })
        }
        (_, 0) => Err(expected()),
        (0, _) if value * 1000 % divisor == 0 => {
            Ok(GpuAmount { devices: 0, share: GpuMilli((value * 1000 / divisor) as u32) })
        }
        (0, _) => Err(Malformed::new("a share is counted in thousandths: at most three digits")),
        _ => Err(Malformed::new("expected whole GPUs, or a share below 1 of a single one")),
    }
}

/// Parses CPUs: a whole number, a fraction such as `0.5`, or thousandths such as `500m`.
///
/// # Errors
/// Anything else: negative, finer than a thousandth, more than 1,000,000.
pub fn parse_cpus(text: &str) -> Result<CpuMilli, Malformed> {
    let text = text.trim();
    let expected =
        || Malformed::new(format!("expected CPUs from 0.001 to {MAX_CPUS}, such as `4` or `0.5`"));
    let (number, thousandths) = match text.strip_suffix('m') {
        Some(number) => (number, 1),
        None => (text, 1000),
    };
    let (value, scale) = decimal(number).ok_or_else(expected)?;
    let milli = value * thousandths;
    let divisor = 10u128.pow(scale);
    match milli / divisor {
        _ if milli % divisor != 0 => {
            Err(Malformed::new("CPUs are counted in thousandths: no finer"))
        }
        milli if milli <= MAX_CPUS * 1000 => Ok(CpuMilli(milli as u32)),
        _ => Err(expected()),
    }
}
