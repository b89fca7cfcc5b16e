//! The program that every task of a Ray job runs: a script in Python, the language that each Ray
//! installation has, so that it is the same on this machine, on Slurm and in a container.

use std::borrow::Cow;

use muster_model::payload::{RayTask, TaskCommand};
use muster_model::{Bytes, CpuMilli, Span};
use serde_json::{Value, json};

/// Script without its settings.
const SCRIPT: &str = include_str!("launcher.py");
/// Part of the script that only the head of a cluster that may grow has.
const GROWTH: &str = include_str!("growth.py");
/// Place of the settings: JSON in a raw string of Python, which JSON cannot end.
const SETTINGS: &str = "@SETTINGS@";
/// Last line of the script.
const RUN: &str = "\n\nmain()\n";

/// Returns the command that a task executes: the launcher for a node of a Ray cluster, others as they are.
/// A cluster grows only where a `muster` that it can ask is beside it (`may_grow`).
#[must_use]
pub fn program(command: &TaskCommand, may_grow: bool) -> Cow<'_, TaskCommand> {
    match command {
        TaskCommand::Ray(task) => {
            let growth = task.growth.clone().filter(|_| may_grow);
            Cow::Owned(launcher(&RayTask { growth, ..(**task).clone() }))
        }
        other => Cow::Borrowed(other),
    }
}

/// Returns true for the head of a cluster that may ask for further nodes.
#[must_use]
pub fn grows(command: &TaskCommand) -> bool {
    matches!(command, TaskCommand::Ray(task) if task.growth.is_some())
}

/// Returns the command of a node: the script with its settings, for the interpreter that has Ray.
fn launcher(task: &RayTask) -> TaskCommand {
    let driver = task.driver.as_ref().map(|driver| match driver {
        TaskCommand::Argv(words) => json!({"words": words}),
        other => json!({"script": other.text()}),
    });
    let growth = task.growth.as_ref().map(|growth| {
        json!({
            "nodes": growth.nodes,
            "gpus": growth.gpus,
            "cpus": node_cpus(growth.cpus, growth.gpus),
            "memory_bytes": growth.memory.0,
            "job": growth.job,
            "time_limit_secs": growth.time_limit.map(seconds),
        })
    });
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
        "join": task.join,
        "idle_secs": task.idle.map(seconds),
        "grace_secs": seconds(task.grace),
        "growth": growth,
        "runtime_env": task.runtime_env,
    });
    let (_, body) = SCRIPT.split_once('\n').expect("the script has several lines");
    let body = match task.growth {
        // The last line runs everything.
        Some(_) => body.replacen(RUN, &format!("{GROWTH}{RUN}"), 1),
        None => body.to_owned(),
    };
    let body = body.replacen(SETTINGS, &settings.to_string(), 1);
    TaskCommand::Script(format!("#!/usr/bin/env {}\n{body}", task.python))
}

fn seconds(span: Span) -> f64 {
    span.0 as f64 / 1000.0
}

/// Returns the CPUs that a node offers: by default one per GPU and one more.
fn node_cpus(cpus: CpuMilli, gpus: u32) -> u32 {
    match cpus.0.div_ceil(1000) {
        0 => gpus + 1,
        cpus => cpus,
    }
}

/// Reads back the terms of a node from its script; `None` for scripts of other origin. The time of
/// checkpoints is a term of the job.
#[must_use]
pub fn read_program(script: &str) -> Option<RayTask> {
    let (before, after) = SCRIPT.split_once(SETTINGS)?;
    let (_, start) = before.rsplit_once('\n')?;
    let (end, _) = after.split_once('\n')?;
    let python = script.lines().next()?.strip_prefix("#!/usr/bin/env ")?;
    let line = script.lines().find_map(|line| line.strip_prefix(start)?.strip_suffix(end))?;
    let settings: Value = serde_json::from_str(line).ok()?;
    let number = |name: &str| settings[name].as_u64();
    let small = |name: &str| number(name).and_then(|number| u32::try_from(number).ok());
    let driver = &settings["driver"];
    let driver = match (driver["script"].as_str(), driver["words"].as_array()) {
        (Some(text), _) => Some(TaskCommand::Script(text.to_owned())),
        (None, Some(words)) => {
            let words = words.iter().map(|word| word.as_str().map(str::to_owned));
            Some(TaskCommand::Argv(words.collect::<Option<_>>()?))
        }
        (None, None) => None,
    };
    let span = |name: &str| settings[name].as_f64().map(|secs| Span((secs * 1000.0) as u64));
    Some(RayTask {
        nodes: small("nodes")?,
        gpus: small("gpus")?,
        cpus: CpuMilli(small("cpus")?.saturating_mul(1000)),
        memory: Bytes(number("memory_bytes")?),
        object_store_percent: small("object_store_percent")?,
        has_dashboard: settings["dashboard"].as_bool()?,
        python: python.to_owned(),
        version: settings["version"].as_str().map(str::to_owned),
        join: settings["join"].as_str().map(str::to_owned),
        idle: span("idle_secs"),
        grace: span("grace_secs").unwrap_or_default(),
        runtime_env: settings["runtime_env"].as_str().map(str::to_owned),
        ..RayTask::new(driver)
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "the test asks Python")]

    use std::process::Command;

    use super::*;

    fn task(driver: TaskCommand) -> RayTask {
        RayTask {
            nodes: 2,
            gpus: 1,
            cpus: CpuMilli(1500),
            memory: Bytes(1 << 30),
            version: Some("2.60.0".to_owned()),
            runtime_env: Some(r#"{"env_vars":{"A":"1"}}"#.to_owned()),
            grace: Span::from_secs(30),
            ..RayTask::new(Some(driver))
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

    #[test]
    fn the_terms_of_a_node_are_read_back() {
        let words = TaskCommand::Argv(vec!["python".to_owned(), "a b.py".to_owned()]);
        for driver in [words, TaskCommand::Script("echo '\"\"\"' \\n".to_owned())] {
            let task = RayTask { cpus: CpuMilli(2000), ..task(driver) };
            assert_eq!(read_program(&script(&task)), Some(task));
        }
        let without = RayTask { version: None, ..task(TaskCommand::Script("a".to_owned())) };
        assert_eq!(read_program(&script(&without)).unwrap().version, None);
        assert_eq!(read_program("#!/usr/bin/env python3\nSETTINGS = {}\n"), None);
    }
}
