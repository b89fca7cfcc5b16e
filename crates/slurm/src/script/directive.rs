//! Options of sbatch as lines of a script.

/// Option of sbatch with its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Directive {
    /// Long name; empty for an option of the user, and for the separator of components.
    pub name: &'static str,
    /// Value of the option; empty for a flag.
    pub value: String,
}

impl Directive {
    pub(super) fn new(name: &'static str, value: impl Into<String>) -> Self {
        Self { name, value: value.into() }
    }

    /// Formats the option as a line of a script.
    pub(super) fn line(&self) -> String {
        match (self.name, self.value.as_str()) {
            ("", own) => format!("#SBATCH {own}\n"),
            (name, "") => format!("#SBATCH --{name}\n"),
            (name, value) => format!("#SBATCH --{name}={}\n", directive_value(value)),
        }
    }
}

/// Quotes a value, as sbatch splits directives at blanks and removes quotes.
pub(super) fn directive_value(value: &str) -> String {
    if value.contains(|c: char| c.is_whitespace() || matches!(c, '\'' | '#' | '\\' | '"')) {
        format!("\"{}\"", value.replace('\\', r"\\").replace('"', "\\\""))
    } else {
        value.to_owned()
    }
}
