//! One line of an explanation.

/// A labelled sentence of an explanation, with the command that acts on it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExplanationLine {
    /// Topic of the sentence; empty continues the label before.
    pub label: &'static str,
    /// Text of the sentence.
    pub text: String,
    /// Command to type; `None` if there is none.
    pub command: Option<String>,
}

impl ExplanationLine {
    /// Returns a sentence without a command.
    #[must_use]
    pub fn new(label: &'static str, text: impl Into<String>) -> Self {
        Self { label, text: text.into(), command: None }
    }

    /// Adds the command to type.
    #[must_use]
    pub fn with(mut self, command: impl Into<String>) -> Self {
        self.command = Some(command.into());
        self
    }
}
