//! The nearest known name to a mistyped one.

/// Returns the number of edits between two words: insert, delete, replace, and swap of neighbours
/// (optimal string alignment). Only 64 characters are compared: no name is longer, and the cost
/// stays bounded.
pub(crate) fn distance(a: &str, b: &str) -> usize {
    let a: Vec<char> = a.chars().take(64).collect();
    let b: Vec<char> = b.chars().take(64).collect();
    let mut before: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for i in 1..=a.len() {
        let mut row = vec![i];
        for j in 1..=b.len() {
            let replace = last[j - 1] + usize::from(a[i - 1] != b[j - 1]);
            let mut best = replace.min(last[j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                best = best.min(before[j - 2] + 1);
            }
            row.push(best);
        }
        before = std::mem::replace(&mut last, row);
    }
    last[b.len()]
}

/// Returns the most similar candidate, if at most a third of the letters differ. Case is ignored,
/// and `_` equals `-`. Ties go to the first candidate.
#[must_use]
pub fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let plain = |text: &str| text.to_lowercase().replace('_', "-");
    let word = plain(word);
    let far = (word.chars().count() / 3).max(1);
    let near =
        candidates.into_iter().map(|candidate| (distance(&word, &plain(candidate)), candidate));
    near.filter(|(edits, _)| *edits <= far)
        .min_by_key(|(edits, _)| *edits)
        .map(|(_, candidate)| candidate)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nearest_tolerates_a_third_of_the_letters() {
        let fields = ["gpus", "gpus-per-task", "time", "tasks", "tasks-per-node"];
        for (word, expected) in [
            ("gpsu", Some("gpus")),
            ("GPUS_per_task", Some("gpus-per-task")),
            ("tiem", Some("time")),
            ("task", Some("tasks")),
            ("colour", None),
            ("", None),
        ] {
            assert_eq!(nearest(word, fields), expected, "{word}");
        }
    }

    #[test]
    fn distance_counts_edits() {
        for (a, b, edits) in [
            ("", "", 0),
            ("", "abc", 3),
            ("abc", "acb", 1),
            ("h1000", "h100", 1),
            ("kitten", "sitting", 3),
        ] {
            assert_eq!(distance(a, b), edits, "{a} {b}");
            assert_eq!(distance(b, a), edits, "{b} {a}");
        }
    }
}
