//! Text in a shell script: names of variables, and here-documents.

/// Returns an end mark of a here-document that is not a line of the text.
#[must_use]
pub fn end_mark(text: &str) -> String {
    let mut mark = String::from("MUSTER");
    while text.lines().any(|line| line == mark) {
        mark.push('_');
    }
    mark
}

/// Returns whether a shell can export a variable of this name.
#[must_use]
pub fn is_variable(name: &str) -> bool {
    let mut letters = name.chars();
    letters.next().is_some_and(|c| c.is_ascii_alphabetic() || c == '_')
        && letters.all(|c| c.is_ascii_alphanumeric() || c == '_')
}

#[cfg(test)]
#[expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "the shell, for which the text is written, is its test"
)]
mod tests {
    use std::process::Command;

    use muster_model::payload::shell_word;

    use super::*;

    #[test]
    fn a_shell_reads_back_what_was_quoted() {
        for text in
            ["", "a", "it's", "$HOME `id` \\ \"x\"", "two\nlines\n", "-n", "a=b", "*?[x]~!#"]
        {
            let line = format!("printf %s {}", shell_word(text));
            let shell = Command::new("sh").args(["-c", &line]).output().unwrap();
            assert_eq!(String::from_utf8(shell.stdout).unwrap(), text, "{line}");
        }
    }

    #[test]
    fn no_text_ends_its_own_document() {
        assert_eq!(end_mark("a\nb"), "MUSTER");
        assert_eq!(end_mark("a\nMUSTER\nb"), "MUSTER_");
        assert_eq!(end_mark("MUSTER\nMUSTER_"), "MUSTER__");
        assert!(
            is_variable("A_1") && !is_variable("1A") && !is_variable("a-b") && !is_variable("")
        );
    }
}
