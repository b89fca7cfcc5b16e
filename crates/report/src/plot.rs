//! Bar and column plots made of block characters, without colour.

/// Eighths of a character from the left, and from below.
const LEFT: [char; 8] = ['▏', '▎', '▍', '▌', '▋', '▊', '▉', '█'];
const LOWER: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// Returns a bar of at most `width` characters: full at `max`, and not empty unless the value is 0.
#[must_use]
pub fn bar(value: u64, max: u64, width: usize) -> String {
    let eighths = scaled(value, max, width * 8);
    let mut text: String = std::iter::repeat_n(LEFT[7], eighths / 8).collect();
    text.extend((eighths % 8).checked_sub(1).map(|part| LEFT[part]));
    text
}

/// Returns a column plot of `height` lines, the top line first. If there are more values than
/// `width`, neighbours are summed.
#[must_use]
pub fn columns(values: &[u64], width: usize, height: usize) -> Vec<String> {
    let values = merged(values, width);
    let max = values.iter().copied().max().unwrap_or_default();
    let heights: Vec<usize> = values.iter().map(|value| scaled(*value, max, height * 8)).collect();
    let line = |row: usize| {
        let part = |eighths: &usize| match eighths.saturating_sub(row * 8) {
            0 => ' ',
            part => LOWER[part.min(8) - 1],
        };
        heights.iter().map(part).collect::<String>().trim_end().to_owned()
    };
    (0..height).rev().map(line).collect()
}

/// Returns the number of neighbouring values that share a column.
#[must_use]
pub fn per_column(values: usize, width: usize) -> usize {
    values.div_ceil(width.max(1)).max(1)
}

/// Returns sums of neighbouring values, at most `width` of them.
#[must_use]
pub fn merged(values: &[u64], width: usize) -> Vec<u64> {
    values.chunks(per_column(values.len(), width)).map(|part| part.iter().sum()).collect()
}

/// Returns the value in parts of the maximum, rounded, at least one part unless it is 0.
fn scaled(value: u64, max: u64, parts: usize) -> usize {
    let exact =
        (u128::from(value) * parts as u128 * 2 + u128::from(max)) / (u128::from(max) * 2).max(1);
    let least = u128::from(value > 0);
    usize::try_from(exact.max(least)).map_or(parts, |exact| exact.min(parts))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_are_to_scale_and_something_is_never_nothing() {
        assert_eq!(bar(4, 4, 3), "███");
        assert_eq!(bar(2, 4, 3), "█▌");
        assert_eq!(bar(1, 1_000_000, 3), "▏");
        assert_eq!(bar(0, 4, 3), "");
        assert_eq!(bar(0, 0, 3), "");
        assert_eq!(bar(u64::MAX, u64::MAX, 2), "██");
    }

    #[test]
    fn columns_stand_on_one_line_and_neighbours_are_summed() {
        assert_eq!(columns(&[0, 1, 2, 4], 10, 2), ["   █", " ▄██"]);
        assert_eq!(columns(&[1, 1, 4, 4, 8], 3, 1), ["▂██"]);
        assert_eq!(merged(&[1, 1, 4, 4, 8], 3), [2, 8, 8]);
        assert_eq!(columns(&[], 10, 1), [""]);
    }
}
