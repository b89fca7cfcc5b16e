//! Command of a container as the program of a task. Commands that `muster export` wrote are read back.

use muster_model::Span;
use muster_model::payload::{RayTask, TaskCommand};

use crate::render::own_program;

use super::draft::{ProgramDraft, RayDraft};
use super::object::ImportedObject;

/// Program of a container, with what its command says of its job.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct FoundProgram {
    pub(super) run: ProgramDraft,
    /// Names of the job and its group, of a command that `muster export` wrote.
    pub(super) own: Option<OwnNames>,
    /// Terms of its cluster, of a task that is a node of Ray.
    pub(super) ray: Option<RayDraft>,
}

/// Names in the job file that an object was exported from.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct OwnNames {
    pub(super) job: String,
    pub(super) group: String,
}

/// Reads the command of a container at a place; `None` if the image's own command runs.
pub(super) fn program(object: &mut ImportedObject, at: &str) -> Option<FoundProgram> {
    let words = |field: &str| -> Vec<String> {
        let items = object.children(&format!("{at}/{field}"));
        items.iter().filter_map(|item| object.peek_text(item)).map(str::to_owned).collect()
    };
    let command = words("command");
    let args = words("args");
    if command.is_empty() && args.is_empty() {
        return None;
    }
    let variables = variables(object, at);
    let expanded: Vec<String> =
        command.iter().chain(&args).map(|word| expand(word, &variables)).collect();
    object.field(&format!("{at}/command"), "run");
    if command.is_empty() {
        object.near(
            &format!("{at}/args"),
            "run: these are arguments of the image's entry point, which `run` must name",
        );
    } else {
        object.field(&format!("{at}/args"), "run");
    }
    if let Some(own) = own_program(&expanded) {
        let names = OwnNames { job: own.job, group: own.group };
        let ray = match &own.command {
            TaskCommand::Ray(task) => Some(RayDraft::of(task)),
            TaskCommand::Argv(_) | TaskCommand::Script(_) => None,
        };
        return Some(FoundProgram { run: own.command.into(), own: Some(names), ray });
    }
    Some(FoundProgram { run: of_words(&expanded), ..FoundProgram::default() })
}

/// A text for a shell becomes a text for `run`, with a first line for shells other than `/bin/sh` and for
/// options: `bash -lc TEXT`.
fn of_words(words: &[String]) -> ProgramDraft {
    let [shell, flags, text] = words else { return ProgramDraft::Words(words.to_vec()) };
    let path = match shell.as_str() {
        "sh" | "/bin/sh" => "/bin/sh",
        "bash" | "/bin/bash" => "/bin/bash",
        _ => return ProgramDraft::Words(words.to_vec()),
    };
    let options = flags.strip_prefix('-').and_then(|flags| flags.strip_suffix('c'));
    match options {
        Some(letters) if letters.bytes().all(|byte| b"elux".contains(&byte)) => {
            let options = if letters.is_empty() { String::new() } else { format!(" -{letters}") };
            if path == "/bin/sh" && options.is_empty() {
                return ProgramDraft::Text(text.clone());
            }
            ProgramDraft::Text(format!("#!{path}{options}\n{}\n", text.trim_end()))
        }
        _ => ProgramDraft::Words(words.to_vec()),
    }
}

impl From<TaskCommand> for ProgramDraft {
    fn from(command: TaskCommand) -> Self {
        match command {
            TaskCommand::Argv(words) => Self::Words(words),
            TaskCommand::Script(text) => Self::Text(text),
            TaskCommand::Ray(task) => task.driver.map(Self::from).unwrap_or_default(),
        }
    }
}

impl RayDraft {
    /// Returns the terms of a node, with those that are the defaults of a job.
    fn of(task: &RayTask) -> Self {
        Self {
            python: Some(task.python.clone()),
            version: task.version.clone(),
            wait: Some(task.nodes.into()),
            object_store_percent: Some(task.object_store_percent.into()),
            dashboard: Some(task.has_dashboard),
            join: task.join.clone(),
            idle_secs: task.idle.map(Span::as_secs),
            runtime_env: task.runtime_env.as_ref().and_then(|text| serde_json::from_str(text).ok()),
        }
    }
}

/// Returns the variables of a container that have a value.
fn variables(object: &ImportedObject, at: &str) -> Vec<(String, String)> {
    let entries = object.children(&format!("{at}/env"));
    let pairs = entries.iter().filter_map(|entry| {
        let name = object.peek_text(&format!("{entry}/name"))?;
        let value = object.peek_text(&format!("{entry}/value"))?;
        Some((name.to_owned(), value.to_owned()))
    });
    pairs.collect()
}

/// Expands `$(NAME)` and `$$` as the kubelet does; an unknown name stays as it is written.
pub(super) fn expand(text: &str, variables: &[(String, String)]) -> String {
    let mut expanded = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('$') {
        expanded.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        if let Some(after) = rest.strip_prefix('$') {
            expanded.push('$');
            rest = after;
        } else if let Some((name, after)) =
            rest.strip_prefix('(').and_then(|inner| inner.split_once(')'))
        {
            match variables.iter().rfind(|(known, _)| known == name) {
                Some((_, value)) => expanded.push_str(value),
                None => expanded.push_str(&format!("$({name})")),
            }
            rest = after;
        } else {
            expanded.push('$');
        }
    }
    expanded.push_str(rest);
    expanded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_for_a_shell_are_texts_of_the_job() {
        for (words, expected) in [
            (["/bin/sh", "-c", "a\nb"], "a\nb"),
            (["bash", "-lc", "a"], "#!/bin/bash -l\na\n"),
            (["/bin/bash", "-c", "a\n"], "#!/bin/bash\na\n"),
            (["sh", "-ec", "a"], "#!/bin/sh -e\na\n"),
        ] {
            let words = words.map(str::to_owned);
            assert_eq!(of_words(&words), ProgramDraft::Text(expected.to_owned()), "{words:?}");
        }
        let words = ["bash", "-c", "a", "b"].map(str::to_owned).to_vec();
        assert_eq!(of_words(&words), ProgramDraft::Words(words.clone()));
    }

    #[test]
    fn variables_are_expanded_as_the_kubelet_does() {
        let variables = [("A".to_owned(), "1".to_owned())];
        for (text, expected) in
            [("$(A) $(B) $A", "1 $(B) $A"), ("$$(A) $$$$", "$(A) $$"), ("$(A", "$(A"), ("5$", "5$")]
        {
            assert_eq!(expand(text, &variables), expected, "{text}");
        }
    }
}
