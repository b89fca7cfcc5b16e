//! Text in a shell script: paths, names of variables, and here-documents.

use muster_model::payload::shell_word;

/// Returns an end mark of a here-document that is not a line of the text.
#[must_use]
pub fn end_mark(text: &str) -> String {
    let mut mark = String::from("MUSTER");
    while text.lines().any(|line| line == mark) {
        mark.push('_');
    }
    mark
}

/// Returns a path as a part of a word, in which `~` at the start is the home directory: a shell expands it only at
/// the start of a whole word.
#[must_use]
pub fn path_word(path: &str) -> String {
    match path.strip_prefix("~/") {
        Some(rest) => format!("\"$HOME\"/{}", shell_word(rest)),
        None if path == "~" => "\"$HOME\"".to_owned(),
        None => shell_word(path),
    }
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
    fn a_path_starts_at_the_home_directory_where_it_says_so() {
        for (path, expected) in
            [("~/a b", "/h/a b"), ("~", "/h"), ("~ann/x", "~ann/x"), ("/x/~", "/x/~")]
        {
            let line = format!("printf %s --image={}", path_word(path));
            let shell = Command::new("sh").args(["-c", &line]).env("HOME", "/h").output().unwrap();
            assert_eq!(String::from_utf8(shell.stdout).unwrap(), format!("--image={expected}"));
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
