//! Array ranges: `0-199`, `0-199%32`, `1-9:2%4`, or a count.

use muster_model::Array;

use super::Malformed;

/// Most elements of one array. Each is an entry in the queue; a million belongs into a loop inside the job.
pub const MAX_ELEMENTS: u64 = 100_000;
/// Largest index; fits a signed 32-bit integer, which is what shells and most programs read it into.
const MAX_INDEX: u64 = i32::MAX as u64;

/// An array: `first-last`, with `:step` and `%cap` (how many may run at once) as in Slurm, or a count `n` for
/// `0-(n-1)`.
///
/// # Errors
/// Anything else; no element; more than [`MAX_ELEMENTS`]; an index above 2147483647.
pub fn parse_array(text: &str) -> Result<Array, Malformed> {
    let text = text.trim();
    let expected = || Malformed::new("expected a range such as `0-199`, `0-199%32` or `1-9:2`, or a count");
    if text.contains(',') {
        return Err(
            Malformed::new("lists of indices are not supported").hint("write a range such as `0-199`")
        );
    }
    let (range, cap) = match text.split_once('%') {
        Some((range, cap)) => (range, Some(number(cap).ok_or_else(expected)?)),
        None => (text, None),
    };
    let (ends, step) = match range.split_once(':') {
        Some((ends, step)) => (ends, number(step).ok_or_else(expected)?),
        None => (range, 1),
    };
    let (first, last) = match ends.split_once('-') {
        Some((first, last)) => (number(first).ok_or_else(expected)?, number(last).ok_or_else(expected)?),
        None => match number(ends).ok_or_else(expected)? {
            0 => return Err(Malformed::new("an array of 0 elements: nothing would run")),
            count => (0, count - 1),
        },
    };
    checked(first, last, step, cap)
}

fn checked(first: u64, last: u64, step: u64, cap: Option<u64>) -> Result<Array, Malformed> {
    if last < first {
        return Err(Malformed::new(format!("this range runs backwards; write `{last}-{first}`")));
    }
    if step == 0 {
        return Err(Malformed::new("a step of 0 never ends; the smallest is 1"));
    }
    let elements = (last - first) / step + 1;
    if elements > MAX_ELEMENTS {
        return Err(Malformed::new(format!("{elements} elements; at most {MAX_ELEMENTS}"))
            .hint("let each element handle several indices"));
    }
    if last > MAX_INDEX {
        return Err(Malformed::new(format!("the largest index is {MAX_INDEX}")));
    }
    let max_running = match cap {
        None => None,
        Some(0) => return Err(Malformed::new("`%0` would let nothing run; the smallest is `%1`")),
        // No more than all elements ever run, so a larger cap means the same.
        Some(cap) => Some(cap.min(MAX_ELEMENTS) as u32),
    };
    Ok(Array { first: first as u32, last: last as u32, step: step.min(MAX_INDEX) as u32, max_running })
}

fn number(text: &str) -> Option<u64> {
    let text = text.trim();
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    // More digits than fit are a number all the same, and too large for every check that follows.
    digits.then(|| text.parse().unwrap_or(u64::MAX / 2))
}
