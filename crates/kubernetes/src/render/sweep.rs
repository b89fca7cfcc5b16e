//! Sweeps on Kubernetes: the values of an element reach its program through a table in the command of its container, and
//! `muster show` reads them from an annotation.

use muster_model::payload::TaskCommand;
use muster_model::sweep::Sweep;
use muster_sweep::shell;

use super::FROM_FILE;

/// First line of the text that fills in the values, which tells such a command from others.
const NOTE: &str = "# Runs the program in the arguments with the values of this element.\n";
/// First argument before the words of a program, and before a script; neither is passed on.
const OF_WORDS: &str = "muster";
const OF_SCRIPT: &str = "muster-script";

/// Returns the arguments that hold the program as it was written, for readers and for `muster import`.
pub(super) fn as_written(command: &TaskCommand) -> Vec<String> {
    match command {
        TaskCommand::Argv(argv) => [OF_WORDS.to_owned()].into_iter().chain(argv.clone()).collect(),
        TaskCommand::Script(script) if script.starts_with("#!") => {
            vec![OF_SCRIPT.to_owned(), script.clone()]
        }
        TaskCommand::Script(script) => {
            vec![OF_SCRIPT.to_owned(), format!("{}\n", script.trim_end())]
        }
        TaskCommand::Ray(_) => unreachable!("the launcher is a script"),
    }
}

/// Returns true if a text, without the variables of the task, is that of an element of a sweep.
pub(super) fn is_program(text: &str) -> bool {
    text.starts_with(NOTE)
}

/// Reads back the arguments that hold a program.
pub(super) fn read_program(arguments: &[String]) -> Option<TaskCommand> {
    match arguments {
        [form, script] if form == OF_SCRIPT => Some(TaskCommand::Script(script.clone())),
        [form, argv @ ..] if form == OF_WORDS => Some(TaskCommand::Argv(argv.to_vec())),
        _ => None,
    }
}

/// Returns the text that runs the program with the values of its element, whose index is in `$MUSTER_ARRAY_INDEX`.
pub(super) fn program(sweep: &Sweep, command: &TaskCommand, task: u32) -> String {
    let mut text = NOTE.to_owned();
    let writes_reports = sweep.metric.as_ref().is_some_and(|metric| metric.pattern.is_none());
    if writes_reports && task == 0 {
        // The output of this process, which the program replaces: also where a child's output goes to a file.
        text.push_str("export MUSTER_REPORT_FILE=/proc/$$/fd/1\n");
    }
    text.push_str(&shell::exports(sweep));
    match command {
        TaskCommand::Argv(argv) => {
            let argv: Vec<String> = argv.iter().map(|word| shell::argument(word, sweep)).collect();
            text.push_str(&format!("exec {}\n", argv.join(" ")));
        }
        TaskCommand::Script(script) if script.starts_with("#!") => {
            text.push_str(&format!("set -- {}\n{FROM_FILE}", shell::script(script, sweep)));
        }
        TaskCommand::Script(script) => {
            let script = shell::script(script.trim_end(), sweep);
            text.push_str(&format!("exec /bin/sh -c {script}\n"));
        }
        TaskCommand::Ray(_) => unreachable!("the launcher is a script"),
    }
    text
}

/// Returns the parameters and metric, as `muster show` reads them from the object.
pub(super) fn annotation(sweep: &Sweep) -> String {
    serde_json::to_string(sweep).expect("texts and numbers are valid JSON")
}
