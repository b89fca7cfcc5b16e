//! The program of a trial. Determined's launchers start a script on every GPU; in a job, `torchrun` does, and
//! finds the other nodes by the variables that Muster sets.

use serde_json::Value;

use crate::NotAnExperiment;
use crate::draft::ExperimentDraft;
use crate::fields::ExperimentFields;

const AT: &str = "/entrypoint";
/// Module of Determined's launchers, before their names.
pub(crate) const LAUNCHERS: &str = "determined.launch.";
/// Launcher that `torchrun` replaces.
const TORCH: &str = "determined.launch.torch_distributed";

/// Converts the entry point.
pub(crate) fn convert(
    fields: &mut ExperimentFields,
    draft: &mut ExperimentDraft,
) -> Result<(), NotAnExperiment> {
    match fields.get(AT).cloned() {
        Some(Value::String(text)) => {
            let text = text.trim().to_owned();
            if let Some(class) = trial_class(&text) {
                return Err(NotAnExperiment::TrialClass(class));
            }
            match without_launcher(&text) {
                Some(program) => {
                    fields.near(AT, "run: torchrun in place of Determined's launcher");
                    draft.run = program.into();
                }
                None => {
                    fields.field(AT, "run");
                    draft.run = text.into();
                }
            }
        }
        Some(Value::Array(words)) => {
            fields.field(AT, "run");
            draft.run = words.iter().filter_map(crate::fields::scalar).collect::<Vec<_>>().into();
        }
        _ => return Err(NotAnExperiment::NoEntrypoint),
    }
    if draft.is_sweep() {
        escape(&mut draft.run);
    }
    Ok(())
}

/// Returns the class of an entry point that is one, alone or as an option of a launcher: `model_def:Trial`.
fn trial_class(text: &str) -> Option<String> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let after = words.iter().position(|word| *word == "--trial");
    let named = after.and_then(|at| words.get(at + 1).copied());
    let alone = match words[..] {
        [word] => Some(word).filter(|word| is_class(word)),
        _ => None,
    };
    named.or(alone).map(str::to_owned)
}

fn is_class(word: &str) -> bool {
    let is_path = |text: &str| {
        !text.is_empty() && text.chars().all(|c| c.is_alphanumeric() || c == '_' || c == '.')
    };
    word.split_once(':').is_some_and(|(module, class)| is_path(module) && is_path(class))
}

/// Returns the program with `torchrun` in place of Determined's launcher for PyTorch; `None` without it.
fn without_launcher(text: &str) -> Option<String> {
    let (before, after) = text.split_once(TORCH)?;
    let before = before.trim_end().strip_suffix("-m")?.trim_end();
    let before = before.strip_suffix("python3").or(before.strip_suffix("python"))?;
    let after = after.trim_start();
    let program = after.strip_prefix("-- ").unwrap_or(after).trim_start();
    // torchrun starts Python itself.
    let script = ["python3 ", "python "].iter().find_map(|word| program.strip_prefix(word));
    let program = script
        .map_or_else(|| format!("--no-python {program}"), |script| script.trim_start().to_owned());
    Some(format!("{before}torchrun {program}"))
}

/// Doubles braces around names, which would be parameters in the program of a sweep; `${NAME}` stays.
fn escape(run: &mut Value) {
    match run {
        Value::String(text) => *text = escaped(text),
        Value::Array(words) => words.iter_mut().for_each(escape),
        _ => {}
    }
}

fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(open) = rest.find('{') {
        let (before, from) = rest.split_at(open);
        out.push_str(before);
        let end = from.find('}');
        let inner = end.map(|end| &from[1..end]);
        let is_name = inner.is_some_and(|inner| {
            inner.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
                && inner.chars().all(|c| c.is_ascii_alphanumeric() || "_.-".contains(c))
        });
        match (end, is_name && !out.ends_with(['$', '{'])) {
            (Some(end), true) => {
                out.push_str(&format!("{{{}}}", &from[..=end]));
                rest = &from[end + 1..];
            }
            _ => {
                out.push('{');
                rest = &from[1..];
            }
        }
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn torchrun_takes_the_place_of_the_launcher() {
        for (text, expected) in [
            (
                "python3 -m determined.launch.torch_distributed python3 train.py --epochs 1",
                "torchrun train.py --epochs 1",
            ),
            (
                "python3 -m determined.launch.torch_distributed -- python3 train.py",
                "torchrun train.py",
            ),
            (
                "python -m determined.launch.torch_distributed ./run.sh a",
                "torchrun --no-python ./run.sh a",
            ),
            (
                "X=1 python3 -m determined.launch.torch_distributed python3 t.py",
                "X=1 torchrun t.py",
            ),
        ] {
            assert_eq!(without_launcher(text).as_deref(), Some(expected));
        }
        assert_eq!(without_launcher("python3 train.py"), None);
    }

    #[test]
    fn classes_are_told_from_programs() {
        for text in [
            "model_def:MNistTrial",
            "lib.trial:classes.Nested",
            "python3 -m determined.launch.horovod --trial m:T",
        ] {
            assert!(trial_class(text).is_some(), "{text}");
        }
        for text in ["python3 train.py", "./run.sh", "python3 -c 'a:b'", "s3://bucket"] {
            assert_eq!(trial_class(text), None, "{text}");
        }
    }

    #[test]
    fn braces_around_names_are_no_parameters() {
        assert_eq!(escaped("echo {a} ${b} {} {1} {{c}}"), "echo {{a}} ${b} {} {1} {{c}}");
        assert_eq!(escaped("awk '{print $1}' {x"), "awk '{print $1}' {x");
    }
}
