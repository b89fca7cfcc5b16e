//! Jobs of kind `ray`: which nodes a cluster has, and which it may ask for.

use muster_model::payload::{RayTask, TaskCommand};
use muster_model::{Span, Tier};
use muster_spec::CheckedJob;
use serde_json::{Value, json};

use crate::support::check;

fn job(text: &str) -> CheckedJob {
    check(text).unwrap().remove(0)
}

fn node<'a>(job: &'a CheckedJob, group: &str) -> &'a RayTask {
    match &job.commands[group] {
        TaskCommand::Ray(task) => task,
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_gang_of_a_growing_cluster_is_its_smallest_size() {
    let job = job(
        "kind: ray\nqueue: default\ngpu: h100\nslurm: {partition: gpu, qos: high, singleton: true}\ntime: 2h\n\
         env: {SECRET: a}\nworkdir: /data\ncheckpoint: {grace: 1m}\nray: {python: bin/python, idle: 5m}\nrun: a\ngroups:\n\
         - {name: head, tasks: 1}\n- {name: worker, tasks: 2..8, gpus-per-task: 4, memory: 64GB, slurm: {partition: big}}",
    );
    let sizes = job.spec.groups.iter().map(|group| (group.min_tasks, group.max_tasks));
    assert_eq!(sizes.collect::<Vec<_>>(), [(1, 1), (2, 2)]);
    assert_eq!(node(&job, "worker").growth, None);
    let growth = node(&job, "head").growth.as_ref().unwrap();
    assert_eq!((growth.nodes, growth.gpus, growth.time_limit), (6, 4, Some(Span::from_secs(7200))));
    let file: Value = serde_json::from_str(&growth.job).unwrap();
    assert_eq!(
        file,
        json!({
            "kind": "ray", "queue": "default", "gpu": "h100", "gpus-per-task": 4,
            "memory": "64GB", "slurm": {"partition": "big", "qos": "high"},
            "ray": {"python": "bin/python", "idle": "300000ms"},
        })
    );
}

#[test]
fn what_a_cluster_asks_for_is_a_job_of_nodes_that_join_it() {
    let growing = job("kind: ray\ntasks: 1..3\ngpus-per-task: 1\ncpus: 2\nrun: a");
    let mut file: Value =
        serde_json::from_str(&node(&growing, "main").growth.as_ref().unwrap().job).unwrap();
    file["tasks"] = json!(2);
    file["time"] = json!("90s");
    file["ray"]["join"] = json!("node1:6379");
    let further = job(&file.to_string());
    assert_eq!(further.spec.tier, Tier::Opportunistic);
    assert_eq!(further.spec.groups[0].min_tasks, 2);
    let task = node(&further, "main");
    assert_eq!(task.driver, None);
    assert_eq!(task.join.as_deref(), Some("node1:6379"));
    assert_eq!((task.gpus, task.cpus.0, task.idle), (1, 2000, Some(Span::from_secs(60))));
}

#[test]
fn a_cluster_that_nothing_ends_is_warned_of() {
    let warnings = |text: &str| job(text).warnings.join("\n");
    assert!(warnings("kind: ray\ntasks: 2").contains("nothing ends this cluster"));
    for text in ["kind: ray\ntime: 1h", "kind: ray\nray: {idle: 30m}", "kind: ray\nrun: a"] {
        assert_eq!(warnings(text), "", "{text}");
    }
}

#[test]
fn a_runtime_environment_is_rays_own() {
    let job = job(
        "kind: ray\ngpus: 1\nrun: a\nray:\n  runtime-env:\n    working_dir: .\n    pip: [a==1.0, '2']\n    env_vars: {A: 1, B: on}\n    config: {eager_install: true, setup_timeout_seconds: 600}",
    );
    let found: Value =
        serde_json::from_str(node(&job, "main").runtime_env.as_ref().unwrap()).unwrap();
    assert_eq!(
        found,
        json!({
            "working_dir": ".", "pip": ["a==1.0", "2"], "env_vars": {"A": "1", "B": "on"},
            "config": {"eager_install": true, "setup_timeout_seconds": 600},
        })
    );
    for (wrong, expected) in [
        ("{env-vars: {A: b}}", "did you mean `env_vars`?"),
        ("{env_vars: {A: [b]}}", "`A` is not text"),
        ("env.yaml", "`runtime-env` is not a mapping"),
    ] {
        let text = format!("kind: ray\ngpus: 1\nrun: a\nray: {{runtime-env: {wrong}}}");
        let said = format!("{:?}", check(&text).unwrap_err());
        assert!(said.contains(expected), "{said}");
    }
}
