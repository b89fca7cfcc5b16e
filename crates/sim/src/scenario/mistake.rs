//! What is wrong with a script, or with what it tells the world to do, and where. It must not
//! decide that something is wrong.

/// A script that cannot be read, or a line that cannot be carried out.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Mistake {
    /// Line of the script, from 1.
    pub line: usize,
    /// What is wrong, a lowercase fragment; of a mapping, what `muster-spec` says of it, with its
    /// place.
    pub message: String,
    /// The next step.
    pub hint: Option<String>,
}

impl Mistake {
    /// A mistake at a line.
    pub(crate) fn at(line: usize, message: impl Into<String>) -> Self {
        Self { line, message: message.into(), hint: None }
    }

    /// Offers the next step.
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Offers the word that was probably meant.
    pub(crate) fn near<'a>(self, word: &str, known: impl IntoIterator<Item = &'a str>) -> Self {
        match nearest(word, known) {
            Some(near) => self.hint(format!("did you mean `{near}`?")),
            None => self,
        }
    }

    /// As an editor and a person read it: `file:line: message`, the hint on a line of its own.
    #[must_use]
    pub fn show(&self, file: &str) -> String {
        let hint = self.hint.as_ref().map_or(String::new(), |hint| format!("\nhint: {hint}"));
        format!("{file}:{}: {}{hint}", self.line, self.message)
    }
}

/// The known word with the fewest edits, if they are at most a third of the letters.
fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let far = (word.chars().count() / 3).max(1);
    let near = known.into_iter().map(|candidate| (edits(word, candidate), candidate));
    near.filter(|(edits, _)| *edits <= far)
        .min_by_key(|(edits, _)| *edits)
        .map(|(_, candidate)| candidate)
}

/// Levenshtein's distance; a swap of neighbours counts twice.
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
