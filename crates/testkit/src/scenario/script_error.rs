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
        match muster_spec::nearest(word, known) {
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
