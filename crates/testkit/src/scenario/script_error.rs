//! Error in a script, or in one of its lines, with its place and the next step.

/// A script that cannot be read, or a line that cannot be executed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ScriptError {
    /// Line of the script, from 1.
    pub line: usize,
    /// Description of the error, a lowercase fragment; in a mapping, that of `muster-spec`, with
    /// its place.
    pub message: String,
    /// Next step for the author.
    pub hint: Option<String>,
}

impl ScriptError {
    /// Creates an error at a line.
    pub(crate) fn at(line: usize, message: impl Into<String>) -> Self {
        Self { line, message: message.into(), hint: None }
    }

    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Hints at the known word that was probably meant.
    pub(crate) fn with_suggestion<'a>(
        self,
        word: &str,
        known: impl IntoIterator<Item = &'a str>,
    ) -> Self {
        match nearest(word, known) {
            Some(near) => self.hint(format!("did you mean `{near}`?")),
            None => self,
        }
    }

    /// Formats the error for editors and people: `file:line: message`, the hint on a line of its
    /// own.
    #[must_use]
    pub fn show(&self, file: &str) -> String {
        let hint = self.hint.as_ref().map_or(String::new(), |hint| format!("\nhint: {hint}"));
        format!("{file}:{}: {}{hint}", self.line, self.message)
    }
}

/// Returns the known word with the fewest edits, if they are at most a third of the letters.
fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let far = (word.chars().count() / 3).max(1);
    let near = known.into_iter().map(|candidate| (edits(word, candidate), candidate));
    near.filter(|(edits, _)| *edits <= far)
        .min_by_key(|(edits, _)| *edits)
        .map(|(_, candidate)| candidate)
}

/// Returns the Levenshtein distance; a swap of neighbours counts twice.
fn edits(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, of_a) in a.chars().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], i + 1);
        for (j, of_b) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(of_a != *of_b);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_word_is_near() {
        for (word, expected) in [
            ("submti", Some("submit")),
            ("advence", Some("advance")),
            ("colour", None),
            ("end", Some("ends")),
        ] {
            assert_eq!(nearest(word, ["submit", "advance", "ends"]), expected, "{word}");
        }
    }
}
