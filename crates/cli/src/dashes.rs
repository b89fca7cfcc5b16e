//! `muster run python train.py`: a command without the required `--` before it. It is rejected,
//! with the corrected command line as a hint. Running it would make the meaning of `run NAME`
//! depend on the files in the working directory.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use clap::Parser;
use muster_model::payload::shell_word;

use crate::cmd::{Cli, CliCommand};
use crate::exit::Failure;

/// Returns an error with the corrected command line if the words are `run` and a program in the
/// place of files.
pub fn suggestion(words: &[String]) -> Option<Failure> {
    if words.iter().any(|word| word == "--") {
        return None;
    }
    let run = words.iter().position(|word| word == "run")?;
    // Finds the first word that names a program and before which only options with values stand.
    let at = (run + 1..words.len()).find(|at| {
        let program = &words[*at];
        !program.starts_with('-') && is_program(program) && reads_as_command(words, *at)
    })?;
    let program = &words[at];
    let line: Vec<String> = with_dashes(words, at).iter().map(|word| shell_word(word)).collect();
    Some(
        Failure::usage(format!("`{program}` is a program, not a job file"))
            .hint(format!("to run it: muster {}", line.join(" "))),
    )
}

/// Returns the arguments of this process; what is not UTF-8 is replaced.
pub fn object_conditions() -> Vec<String> {
    std::env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned()).collect()
}

fn with_dashes(words: &[String], at: usize) -> Vec<String> {
    let (before, command) = words.split_at(at);
    before.iter().cloned().chain(["--".to_owned()]).chain(command.iter().cloned()).collect()
}

fn reads_as_command(words: &[String], at: usize) -> bool {
    let tried = std::iter::once("muster".to_owned()).chain(with_dashes(words, at));
    matches!(Cli::try_parse_from(tried), Ok(Cli { command: CliCommand::Run(args), .. }) if args.files().is_empty())
}

/// Returns whether a shell would run it: an executable file by its path, or one of that name in the
/// search path while no file here has it.
fn is_program(word: &str) -> bool {
    let is_executable = |path: &Path| {
        path.metadata().is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
    };
    if word.contains('/') {
        return is_executable(Path::new(word));
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    !Path::new(word).exists()
        && !word.is_empty()
        && std::env::split_paths(&path).any(|folder| is_executable(&folder.join(word)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offer(line: &str) -> Option<String> {
        let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
        suggestion(&words).map(|failure| failure.hints.join(""))
    }

    #[test]
    fn the_line_with_dashes_is_named() {
        let check = |line: &str, expected: &str| {
            assert_eq!(
                offer(line).as_deref(),
                Some(format!("to run it: muster {expected}").as_str()),
                "{line}"
            );
        };
        check("run sh train.sh", "run -- sh train.sh");
        check("run sh -c id", "run -- sh -c id");
        check("run -G 2 --time 1h sh train.sh --lr 3", "run -G 2 --time 1h -- sh train.sh --lr 3");
        check("run --name sh sh", "run --name sh -- sh");
        check("run /bin/sh -x", "run -- /bin/sh -x");
        for none in ["run train.yaml", "run -- sh", "ps sh", "run no-such-program x", "run -G"] {
            assert_eq!(offer(none), None, "{none}");
        }
    }
}
