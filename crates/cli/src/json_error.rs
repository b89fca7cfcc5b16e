//! Errors for programs: with `--json`, the `error:` and `hint:` lines become one line of JSON, also
//! on stderr. Stdout holds data only, so a program never reads an error there.

use serde::Serialize;

use crate::exit::{Failure, NO_DAEMON, NOT_FOUND, USAGE};

/// Schema of the line. Fields may be added, none is renamed or removed.
#[derive(Serialize)]
struct JsonErrorLine<'a> {
    error: JsonFailure<'a>,
}

#[derive(Serialize)]
struct JsonFailure<'a> {
    /// Stable error code: one of the API, or `usage`, `no_daemon`, `not_found`, `failure`.
    code: &'a str,
    /// Message as one lowercase fragment.
    message: &'a str,
    /// Next steps, in order.
    hints: &'a [String],
    /// Exit code of the process.
    exit_code: u8,
    /// Diagnostics of a file with their source lines, as they are shown to people.
    #[serde(skip_serializing_if = "Option::is_none")]
    rendered: Option<&'a str>,
}

/// Returns whether the command line asks for JSON. It is scanned word by word, because clap may
/// have rejected it.
pub fn is_wanted(words: &[String]) -> bool {
    let words: Vec<&str> =
        words.iter().map(String::as_str).take_while(|word| *word != "--").collect();
    let is_format = |pair: &[&str]| ["-o", "--output"].contains(&pair[0]) && pair[1] == "json";
    words.iter().any(|word| ["--json", "--output=json", "-ojson", "-o=json"].contains(word))
        || words.windows(2).any(is_format)
}

/// Returns a failure as one line of JSON.
pub fn line(failure: &Failure) -> String {
    let by_exit = match failure.code {
        USAGE => "usage",
        NO_DAEMON => "no_daemon",
        NOT_FOUND => "not_found",
        _ => "failure",
    };
    let error = JsonFailure {
        code: failure.word.as_deref().unwrap_or(by_exit),
        message: &failure.message,
        hints: &failure.hints,
        exit_code: failure.code,
        rendered: failure.rendered.as_deref(),
    };
    serde_json::to_string(&JsonErrorLine { error }).expect("strings and a number always serialise")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_is_asked_for_in_any_spelling_and_not_by_a_command() {
        let wanted =
            |line: &str| is_wanted(&line.split(' ').map(str::to_owned).collect::<Vec<_>>());
        for line in [
            "ps --json",
            "--json ps",
            "ps -o json",
            "ps --output json",
            "ps --output=json",
            "ps -ojson",
        ] {
            assert!(wanted(line), "{line}");
        }
        for line in ["ps", "run -- tool --json", "ps -o text", "show json"] {
            assert!(!wanted(line), "{line}");
        }
    }

    #[test]
    fn the_line_has_a_fixed_shape() {
        let failure = Failure::not_found("there is no job 7").hint("use the number");
        let expected = r#"{"error":{"code":"not_found","message":"there is no job 7","hints":["use the number"],"exit_code":4}}"#;
        assert_eq!(line(&failure), expected);
    }
}
