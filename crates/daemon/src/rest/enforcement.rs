//! Sentences on which resource limits are enforced, and which are conventions.

use std::fmt::Display;

use muster_backends::driver::Capabilities;
use muster_model::JobSpec;
use muster_model::job::Resources;

/// Returns which resource limits are enforced and which are conventions, a sentence each: in
/// general, or for the resources that a job requests.
pub(super) fn enforcement(capabilities: &Capabilities, spec: Option<&JobSpec>) -> Vec<String> {
    let limit = |what: &str, asked: Option<String>, by: &Option<String>| match (asked, by) {
        (Some(asked), Some(by)) => format!("{what}: {asked}, enforced by {by}"),
        (Some(asked), None) => {
            format!("{what}: {asked}, a convention: a task can use more")
        }
        (None, _) if spec.is_some() => format!("{what}: none requested, so no limit"),
        (None, Some(by)) => format!("{what}: enforced by {by}"),
        (None, None) => format!("{what}: a convention, a task can use more"),
    };
    vec![
        limit("memory", set_aside(spec, |task| task.memory), &capabilities.memory_enforced_by),
        limit("cpus", set_aside(spec, |task| task.cpus), &capabilities.cpu_enforced_by),
        processes(capabilities),
        match &capabilities.devices_enforced_by {
            Some(by) => format!("gpus: access to other devices is denied by {by}"),
            None => "gpus: a convention, by visible-devices variables; a task can ignore them"
                .to_owned(),
        },
        format!("kill: all processes that a task started, found by {}", capabilities.kill_by),
    ]
}

/// Returns the limit on processes of a task, and its enforcement.
fn processes(capabilities: &Capabilities) -> String {
    match (capabilities.max_processes, &capabilities.processes_enforced_by) {
        (0, _) => "processes: no limit is set".to_owned(),
        (max, Some(by)) => format!("processes: at most {max} per task, threads included, enforced by {by}"),
        (_, None) => {
            "processes: not limited, since there is no writable pids control group: a fork bomb affects the machine"
                .to_owned()
        }
    }
}

/// Returns the resources that each task of a job requests, by group where there are several; `None`
/// when it requests none.
fn set_aside<T: Default + PartialEq + Display>(
    spec: Option<&JobSpec>,
    of: impl Fn(&Resources) -> T,
) -> Option<String> {
    let groups = &spec?.groups;
    let amounts = groups.iter().map(|group| (&group.name, of(&group.task)));
    let said: Vec<String> = amounts
        .filter(|(_, amount)| *amount != T::default())
        .map(|(name, amount)| match groups.len() {
            1 => format!("{amount} per task"),
            _ => format!("{amount} per task of {name}"),
        })
        .collect();
    (!said.is_empty()).then(|| said.join(", "))
}

#[cfg(test)]
mod tests {
    use muster_model::TaskGroup;
    use muster_model::unit::{Bytes, CpuMilli};

    use super::*;

    fn job(groups: Vec<TaskGroup>) -> JobSpec {
        JobSpec::plain("x", "alice", groups)
    }

    fn group(name: &str, memory: u64, cpus: u32) -> TaskGroup {
        let task =
            Resources { memory: Bytes(memory), cpus: CpuMilli(cpus), ..Resources::default() };
        TaskGroup::of(name, 1, task)
    }

    #[test]
    fn limits_are_those_of_the_job_and_say_who_enforces_them() {
        let by = Capabilities {
            memory_enforced_by: Some("cgroup v2".into()),
            ..Capabilities::default()
        };
        let one = enforcement(&by, Some(&job(vec![group("main", 4 << 30, 0)])));
        assert_eq!(one[0], "memory: 4GiB per task, enforced by cgroup v2");
        assert_eq!(one[1], "cpus: none requested, so no limit");
        let two = enforcement(&by, Some(&job(vec![group("a", 0, 1500), group("b", 1 << 30, 500)])));
        assert_eq!(two[0], "memory: 1GiB per task of b, enforced by cgroup v2");
        let cpus = "cpus: 1.5 per task of a, 0.5 per task of b, a convention: a task can use more";
        assert_eq!(two[1], cpus);
    }
}
