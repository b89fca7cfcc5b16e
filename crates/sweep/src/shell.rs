//! Sweeps in scripts for a POSIX shell, which learns the index of its element only when it runs: variables with the
//! values, and commands in which the values stand.

use std::fmt::Write as _;

use muster_model::payload::shell_word;
use muster_model::sweep::{Param, Points, Sweep};

use crate::fill::{Part, Reference, parts};

/// Start of the names of variables with values as words of a script, in quotes where they need them.
const QUOTED: &str = "muster_word_";

/// Returns the lines that export the values of the element whose index is in `$MUSTER_ARRAY_INDEX`.
#[must_use]
pub fn exports(sweep: &Sweep) -> String {
    let mut text = "muster_pick() { shift \"$(($1 + 1))\"; printf %s \"$1\"; }\n".to_owned();
    let mut stride = 1;
    let mut places = Vec::new();
    for param in sweep.params.iter().rev() {
        let count = param.values.len();
        places.push((
            param,
            match (sweep.points, stride) {
                (Points::Rows, _) => "MUSTER_ARRAY_INDEX".to_owned(),
                (Points::Grid, 1) => format!("MUSTER_ARRAY_INDEX % {count}"),
                (Points::Grid, stride) => format!("MUSTER_ARRAY_INDEX / {stride} % {count}"),
            },
        ));
        stride *= count;
    }
    for (param, place) in places.into_iter().rev() {
        let mut pick = |name: String, values: Vec<String>| {
            let _ = writeln!(text, "{name}=$(muster_pick $(({place})) {})", values.join(" "));
            // The tasks are children of the script.
            let _ = writeln!(text, "export {name}");
        };
        let plain = param.values.iter().map(|value| shell_word(value)).collect();
        pick(param.variable(), plain);
        if needs_quotes(param) {
            pick(
                quoted_name(param),
                param.values.iter().map(|value| shell_word(&shell_word(value))).collect(),
            );
        }
    }
    text
}

/// Returns a word of the shell that is an argument with its references replaced.
#[must_use]
pub fn argument(text: &str, sweep: &Sweep) -> String {
    word(text, sweep, Param::variable)
}

/// Returns a word of the shell that is a script with its references replaced, each by one word.
#[must_use]
pub fn script(text: &str, sweep: &Sweep) -> String {
    word(
        text,
        sweep,
        |param| if needs_quotes(param) { quoted_name(param) } else { param.variable() },
    )
}

fn word(text: &str, sweep: &Sweep, variable: impl Fn(&Param) -> String) -> String {
    let part = |part: Part<'_>| match part {
        Part::Text("") => String::new(),
        Part::Text(text) => shell_word(text),
        Part::Name(Reference { name, .. }) => {
            let param = sweep.params.iter().find(|param| param.name.as_ref() == name);
            param.map_or_else(
                || shell_word(&format!("{{{name}}}")),
                |param| format!("\"${}\"", variable(param)),
            )
        }
    };
    parts(text).into_iter().map(part).collect()
}

fn needs_quotes(param: &Param) -> bool {
    param.values.iter().any(|value| shell_word(value) != value.as_ref())
}

fn quoted_name(param: &Param) -> String {
    format!("{QUOTED}{}", param.variable().trim_start_matches(Param::VARIABLE))
}

#[cfg(test)]
#[expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "the shell, for which the text is written, is its test"
)]
mod tests {
    use std::process::Command;

    use muster_model::payload::TaskCommand;

    use super::*;
    use crate::fill::command;

    fn sweep(points: Points) -> Sweep {
        let param = |name: &str, values: &[&str]| Param {
            name: name.into(),
            values: values.iter().map(|value| (*value).into()).collect(),
        };
        Sweep {
            params: vec![
                param("lr", &["1e-4", "3e-4", "-1"]),
                param("opt.name", &["a b", "it's $HOME", ""]),
            ],
            points,
            metric: None,
            early_stop: None,
        }
    }

    fn output(text: &str, index: u32) -> String {
        let mut shell = Command::new("sh");
        shell.args(["-c", text]).env("MUSTER_ARRAY_INDEX", index.to_string());
        String::from_utf8(shell.output().unwrap().stdout).unwrap()
    }

    #[test]
    fn a_shell_runs_the_same_as_a_task_of_the_daemon() {
        let text = "printf '<%s>' {lr} {opt.name} x{lr}y {{lr}} \"${MUSTER_PARAM_OPT_NAME}\"";
        for points in [Points::Grid, Points::Rows] {
            let sweep = sweep(points);
            for index in 0..sweep.count().unwrap() {
                // In a child of the shell, as with srun.
                let rank = shell_word(&format!("sh -c {}", script(text, &sweep)));
                let ours = format!("{}sh -c {rank}", exports(&sweep));
                let TaskCommand::Script(expected) =
                    command(&TaskCommand::Script(text.to_owned()), &sweep, index)
                else {
                    panic!("a script stays one")
                };
                let set = exports(&sweep);
                assert_eq!(
                    output(&ours, index),
                    output(&format!("{set}{expected}"), index),
                    "{ours}"
                );
            }
        }
    }

    #[test]
    fn arguments_are_values_as_they_are() {
        let sweep = sweep(Points::Rows);
        let line =
            format!("{}printf '<%s>' {}", exports(&sweep), argument("--opt={opt.name}", &sweep));
        assert_eq!(output(&line, 0), "<--opt=a b>");
        assert_eq!(output(&line, 1), "<--opt=it's $HOME>");
        assert_eq!(output(&line, 2), "<--opt=>");
    }
}
