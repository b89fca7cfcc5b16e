//! The nearest known name to a mistyped one.

/// Returns the most similar candidate, if at most a third of the letters differ; a swap of
/// neighbours is one edit. Case is ignored, and `_` equals `-`. Ties go to the first candidate.
#[must_use]
pub fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let plain = |text: &str| text.to_lowercase().replace('_', "-");
    let word = plain(word);
    let far = (word.chars().count() / 3).max(1);
    let near = candidates.into_iter().filter_map(|candidate| {
        let other = plain(candidate);
        // Fewer edits than this are impossible, and long words are not compared letter by letter.
        let fewest = word.chars().count().abs_diff(other.chars().count());
        let edits = (fewest <= far).then(|| strsim::osa_distance(&word, &other))?;
        (edits <= far).then_some((edits, candidate))
    });
    near.min_by_key(|(edits, _)| *edits).map(|(_, candidate)| candidate)
}

/// Returns `; did you mean NAME?` for the nearest known name; empty if none is near.
#[must_use]
pub fn did_you_mean<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    nearest(name, known).map(|near| format!("; did you mean {near}?")).unwrap_or_default()
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
}
