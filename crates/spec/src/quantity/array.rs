//! Arrays: a range (`0-199`, `0-199%32`, `1-9:2%4`), a list (`1,3,7-9`), or a count.

use muster_model::{Array, IndexRange};

use super::Malformed;

/// Most elements of one array. Each is an entry in the queue; a million should be a loop inside the
/// job.
pub const MAX_ELEMENTS: u64 = 100_000;
/// Most ranges of a list: each start searches them.
const MAX_RANGES: usize = 1000;
/// Largest index; fits a signed 32-bit integer, as shells and most programs use.
const MAX_INDEX: u64 = i32::MAX as u64;

/// Parses an array: `first-last`, with `:step` and `%cap` (how many may run at once) as in Slurm,
/// several such ranges or single indices with commas, or a count `n` for `0-(n-1)`.
///
/// # Errors
/// Anything else; no element; more than [`MAX_ELEMENTS`]; an index above 2147483647.
pub fn parse_array(text: &str) -> Result<Array, Malformed> {
    let text = text.trim();
    let (ranges, cap) = match text.split_once('%') {
        Some((ranges, cap)) => (ranges, Some(checked_cap(number(cap).ok_or_else(expected)?)?)),
        None => (text, None),
    };
    if !ranges.contains(',') {
        let range = range(ranges, |count| match count {
            0 => Err(Malformed::new("an array of 0 elements: nothing would run")),
            count => Ok((0, count - 1)),
        })?;
        return Ok(Array { head: range, more: Vec::new(), max_running: cap });
    }
    let mut indices = Vec::new();
    for part in ranges.split(',') {
        indices.extend(range(part, |index| Ok((index, index)))?.indices());
        check_elements(indices.len() as u64)?;
    }
    let list = Array::list(indices, cap).ok_or_else(expected)?;
    if list.more.len() < MAX_RANGES {
        Ok(list)
    } else {
        Err(Malformed::new(format!("a list of more than {MAX_RANGES} ranges"))
            .hint("name the inputs in a file, and let the index be a line of it"))
    }
}

fn expected() -> Malformed {
    Malformed::new(
        "expected a range such as `0-199`, `0-199%32` or `1-9:2`, a list such as `1,3,7-9`, or a count",
    )
}

/// Parses one range; `alone` interprets a number without a `-`.
fn range(
    text: &str,
    alone: impl Fn(u64) -> Result<(u64, u64), Malformed>,
) -> Result<IndexRange, Malformed> {
    let (ends, step) = match text.split_once(':') {
        Some((ends, step)) => (ends, number(step).ok_or_else(expected)?),
        None => (text, 1),
    };
    let (first, last) = match ends.split_once('-') {
        Some((first, last)) => {
            (number(first).ok_or_else(expected)?, number(last).ok_or_else(expected)?)
        }
        None => alone(number(ends).ok_or_else(expected)?)?,
    };
    if last < first {
        return Err(Malformed::new(format!("this range runs backwards; write `{last}-{first}`")));
    }
    if step == 0 {
        return Err(Malformed::new("a step of 0 never ends; the smallest is 1"));
    }
    check_elements((last - first) / step + 1)?;
    if last > MAX_INDEX {
        return Err(Malformed::new(format!("the largest index is {MAX_INDEX}")));
    }
    Ok(IndexRange { first: first as u32, last: last as u32, step: step.min(MAX_INDEX) as u32 })
}

fn check_elements(elements: u64) -> Result<(), Malformed> {
    if elements > MAX_ELEMENTS {
        Err(Malformed::new(format!("{elements} elements; at most {MAX_ELEMENTS}"))
            .hint("let each element handle several indices"))
    } else {
        Ok(())
    }
}

fn checked_cap(cap: u64) -> Result<u32, Malformed> {
    match cap {
        0 => Err(Malformed::new("`%0` would let nothing run; the smallest is `%1`")),
        // No more than all elements ever run, so a larger cap means the same.
        cap => Ok(cap.min(MAX_ELEMENTS) as u32),
    }
}

fn number(text: &str) -> Option<u64> {
    let text = text.trim();
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    // More digits than fit are still a number, too large for every check that follows.
    digits.then(|| text.parse().unwrap_or(u64::MAX / 2))
}
