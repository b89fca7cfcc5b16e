//! The text that tasks run, made of the body of a script: its interpreter, what Muster puts before
//! it, and the arguments. What Muster adds is for `sh`; a script for another interpreter stands in
//! a document of its own behind it.

use super::super::script::quote;
use super::arguments;
use super::draft::Program;
use super::meaning::container;
use super::read::Script;

/// A program for the interpreter of the script.
pub(super) fn text(script: &Script<'_>, before: &str, body: &str) -> Program {
    let shebang = script.shebang.unwrap_or("#!/bin/bash");
    let body = body.trim_end();
    let folder =
        container::folder(script).map(|path| format!("cd {} || exit 1\n", quote::word(path)));
    let before = format!("{}{before}", folder.unwrap_or_default());
    Program::Text(match (script.is_shell(), before.is_empty() && script.arguments.is_empty()) {
        (true, _) => format!("{shebang}\n{}{before}{body}\n", arguments::set(script.arguments)),
        (false, true) => format!("{shebang}\n{body}\n"),
        (false, false) => behind_sh(script, &before, body),
    })
}

/// Behind lines for `sh`. The script is read by a number of its own, as its standard input belongs
/// to what it starts.
fn behind_sh(script: &Script<'_>, before: &str, body: &str) -> String {
    let mark = quote::end_mark(body);
    let interpreter =
        script.shebang.unwrap_or_default().trim_start_matches("#!").split_whitespace();
    let words: Vec<String> =
        interpreter.map(str::to_owned).chain(["/dev/fd/3".to_owned()]).collect();
    let all: Vec<String> = words.iter().chain(script.arguments).cloned().collect();
    format!("#!/bin/sh\n{before}exec {} 3<<'{mark}'\n{body}\n{mark}\n", arguments::words(&all))
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::super::read;
    use super::*;

    #[test]
    fn a_script_for_another_interpreter_runs_behind_what_is_put_before_it() {
        let arguments = ["it's".to_owned(), "b c".to_owned()];
        let source = "#!/usr/bin/env -S awk -f\n#SBATCH -n1\nBEGIN { print ENVIRON[\"A\"], ARGC, ARGV[1], ARGV[2] }\n";
        let script = read::Script { arguments: &arguments, ..read::read(source).unwrap() };
        let Program::Text(text) = text(&script, "export A=1\n", &script.body()) else {
            panic!("a text")
        };
        let output = Command::new("sh").args(["-c", &text]).output().unwrap();
        assert_eq!(String::from_utf8(output.stdout).unwrap(), "1 3 it's b c\n", "{text}");
    }
}
