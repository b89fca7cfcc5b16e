//! Text that tasks run: the script's interpreter, Muster's lines before the body, and the
//! arguments. Muster's lines are for `sh`; a script for another interpreter follows in a
//! here-document.

use muster_model::payload::shell_word;

use super::super::script::quote;
use super::arguments;
use super::draft::DraftProgram;
use super::meaning::container;
use super::read::BatchScript;

/// Returns the program for the script's interpreter.
pub(super) fn text(script: &BatchScript<'_>, before: &str, body: &str) -> DraftProgram {
    let shebang = script.shebang.unwrap_or("#!/bin/bash");
    let body = body.trim_end();
    let folder =
        container::folder(script).map(|path| format!("cd {} || exit 1\n", shell_word(path)));
    let before = format!("{}{before}", folder.unwrap_or_default());
    DraftProgram::Text(
        match (script.is_shell(), before.is_empty() && script.arguments.is_empty()) {
            (true, _) => format!("{shebang}\n{}{before}{body}\n", arguments::set(script.arguments)),
            (false, true) => format!("{shebang}\n{body}\n"),
            (false, false) => behind_sh(script, &before, body),
        },
    )
}

/// Appends the script to lines for `sh`. It is read from a separate file descriptor, as the
/// standard input belongs to the programs that it starts.
fn behind_sh(script: &BatchScript<'_>, before: &str, body: &str) -> String {
    let mark = quote::end_mark(body);
    let interpreter =
        script.shebang.unwrap_or_default().trim_start_matches("#!").split_whitespace();
    let words: Vec<String> =
        interpreter.map(str::to_owned).chain(["/dev/fd/3".to_owned()]).collect();
    let all: Vec<String> = words.iter().chain(script.arguments).cloned().collect();
    format!("#!/bin/sh\n{before}exec {} 3<<'{mark}'\n{body}\n{mark}\n", arguments::words(&all))
}

#[cfg(test)]
#[expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "the shell, for which the text is written, is its test"
)]
mod tests {
    use std::process::Command;

    use super::super::read;
    use super::*;

    #[test]
    fn a_script_for_another_interpreter_runs_behind_what_is_put_before_it() {
        let arguments = ["it's".to_owned(), "b c".to_owned()];
        let source = "#!/usr/bin/env -S awk -f\n#SBATCH -n1\nBEGIN { print ENVIRON[\"A\"], ARGC, ARGV[1], ARGV[2] }\n";
        let script = read::BatchScript { arguments: &arguments, ..read::read(source).unwrap() };
        let DraftProgram::Text(text) = text(&script, "export A=1\n", &script.body()) else {
            panic!("a text")
        };
        let output = Command::new("sh").args(["-c", &text]).output().unwrap();
        assert_eq!(String::from_utf8(output.stdout).unwrap(), "1 3 it's b c\n", "{text}");
    }
}
