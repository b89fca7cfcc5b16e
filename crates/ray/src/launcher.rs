//! The program that every task of a Ray job runs: a script in Python, the language that each Ray
//! installation has, so that it is the same on this machine, on Slurm and in a container.

use std::borrow::Cow;

use muster_model::payload::{RayTask, TaskCommand};
use serde_json::json;

/// Script without its settings.
const SCRIPT: &str = include_str!("launcher.py");
/// Place of the settings: JSON in a raw string of Python, which JSON cannot end.
const SETTINGS: &str = "@SETTINGS@";

/// Returns the command that a task executes: the launcher for a node of a Ray cluster, others as they are.
#[must_use]
pub fn program(command: &TaskCommand) -> Cow<'_, TaskCommand> {
    match command {
        TaskCommand::Ray(task) => Cow::Owned(launcher(task)),
        other => Cow::Borrowed(other),
    }
}

/// Returns the command of a node: the script with its settings, for the interpreter that has Ray.
fn launcher(task: &RayTask) -> TaskCommand {
    let driver = match &task.driver {
        TaskCommand::Argv(words) => json!({"words": words}),
        other => json!({"script": other.text()}),
    };
    let settings = json!({
        "driver": driver,
        "nodes": task.nodes,
        "cpus": task.cpus.0.div_ceil(1000),
        "memory_bytes": task.memory.0,
        "object_store_percent": task.object_store_percent,
        "dashboard": task.has_dashboard,
        "gpus": task.gpus,
        "checkpoint_signal": task.checkpoint.map(|checkpoint| checkpoint.signal),
        "checkpoint_secs": task.checkpoint.map(|checkpoint| checkpoint.lead.as_secs()),
        "version": task.version,
    });
    let (_, body) = SCRIPT.split_once('\n').expect("the script has several lines");
    let body = body.replacen(SETTINGS, &settings.to_string(), 1);
    TaskCommand::Script(format!("#!/usr/bin/env {}\n{body}", task.python))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "the test asks Python")]

    use std::process::Command;

    use muster_model::{Bytes, CpuMilli};

    use super::*;

    fn task(driver: TaskCommand) -> RayTask {
        RayTask {
            driver,
            nodes: 2,
            gpus: 1,
            cpus: CpuMilli(1500),
            memory: Bytes(1 << 30),
            object_store_percent: 30,
            has_dashboard: true,
            python: "python3".to_owned(),
            checkpoint: None,
            version: Some("2.60.0".to_owned()),
        }
    }

    fn script(task: &RayTask) -> String {
        match launcher(task) {
            TaskCommand::Script(text) => text,
            other => panic!("{other:?}"),
        }
    }

    /// The settings that Python reads are those that were written, whatever is in the program.
    #[test]
    fn python_reads_the_settings() {
        for driver in
            ["train.py", "echo '\"\"\"' \\\\ \\n", "a\nb\t\u{e9}\u{1f600}", "#!/bin/sh\necho \"x\""]
        {
            let text = script(&task(TaskCommand::Script(driver.to_owned())));
            let end = text.find("\n\n\n").unwrap();
            let line = text.lines().position(|line| line.starts_with("SETTINGS = ")).unwrap();
            let settings = text.lines().nth(line).unwrap();
            assert!(end > 0 && text.starts_with("#!/usr/bin/env python3\n"), "{text}");
            let read = format!("import json\n{settings}\nprint(json.dumps(SETTINGS))");
            let output = Command::new("python3").args(["-c", &read]).output().unwrap();
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            let seen: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
            assert_eq!(seen["driver"], json!({"script": driver}));
            assert_eq!((&seen["cpus"], &seen["nodes"]), (&json!(2), &json!(2)));
        }
    }
}
