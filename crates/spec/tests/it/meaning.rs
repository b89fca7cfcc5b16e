//! What documents mean: rows of text and the job that comes out, written compactly.

use std::fmt::Write as _;

use muster_model::queue::{PlacementPolicy, PlannedRuntimes};
use muster_model::unit::{Span, Time};
use muster_model::{
    CheckpointTo, GpuModel, Notebook, QueueTree, Replicas, Restart, Service, Tier, WorkloadKind,
};
use muster_spec::{CheckedJob, Cluster, EarliestStart, parse_cluster, parse_queues};
use serde_json::json;

use crate::support::{check, check_on, node, nodes};

/// A job on one line: groups as `name:tasks[/per-node]×gpus`, then what differs from the defaults.
fn short(job: &CheckedJob) -> String {
    let spec = &job.spec;
    let mut line = spec.name.to_string();
    for group in &spec.groups {
        let per_node = group.tasks_per_node.map(|count| format!("/{count}")).unwrap_or_default();
        let task = &group.task;
        write!(line, " {}:{}{per_node}x{}", group.name, group.min_tasks, task.gpu.milli()).unwrap();
        assert_eq!(group.min_tasks, group.max_tasks);
        let models: Vec<_> = task.gpu.models.iter().map(GpuModel::as_str).collect();
        let extras: Vec<_> =
            task.extras.iter().map(|(name, count)| format!("{name}={count}")).collect();
        for (name, value) in [
            ("gpu", models.join("|")),
            ("cpus", if task.cpus.0 > 0 { task.cpus.to_string() } else { String::new() }),
            ("memory", if task.memory.0 > 0 { task.memory.to_string() } else { String::new() }),
            ("extras", extras.join(",")),
        ] {
            if !value.is_empty() {
                write!(line, " {name}={value}").unwrap();
            }
        }
    }
    let after = spec.after.iter().map(|on| format!("{:?}:{}", on.kind, on.job));
    let after: Vec<_> = after
        .chain(job.after_documents.iter().map(|(kind, at)| format!("{kind:?}:#{at}")))
        .collect();
    let default = check("name: a\nrun: a").unwrap().remove(0).spec;
    for (name, differs, value) in [
        ("queue", spec.queue != default.queue, spec.queue.to_string()),
        ("priority", spec.priority != 0, spec.priority.to_string()),
        ("time", spec.time_limit.is_some(), spec.time_limit.unwrap_or_default().to_string()),
        ("grace", spec.grace != default.grace, spec.grace.to_string()),
        ("array", spec.array.is_some(), format!("{}", spec.element_count())),
        ("after", !after.is_empty(), after.join(",")),
        (
            "restart",
            spec.restart != default.restart,
            format!("{}@{}", spec.restart.max_restarts, spec.restart.backoff),
        ),
        (
            "checkpoint",
            spec.checkpoint.is_some(),
            spec.checkpoint
                .map(|c| format!("{}@{}{}", c.signal, c.lead, receivers(c.to)))
                .unwrap_or_default(),
        ),
        ("held", spec.held, String::new()),
    ] {
        if differs {
            write!(line, " {name}={value}").unwrap();
        }
    }
    line
}

#[test]
fn documents_mean_what_they_say() {
    for (source, expected) in [
        ("run: nvidia-smi", "train main:1x0"),
        (
            "name: fsdp\nnodes: 2\ngpus: 8\ntime: 12h\nrun: torchrun train.py",
            "fsdp main:2/1x8 time=12h",
        ),
        ("tasks: 5\ngpus-per-task: 1\nrun: a", "train main:5x1"),
        ("gpus: 2\nrun: a", "train main:1x2"),
        ("gpus: 0.5\ngpu: h100\nrun: a", "train main:1x0.5 gpu=h100"),
        ("gpus: 0\nrun: a", "train main:1x0"),
        ("gpus: \"2\"\nrun: a", "train main:1x2"),
        ("nodes: 2\ntasks-per-node: 4\ngpus: 8\nrun: a", "train main:8/4x2"),
        ("nodes: 2\ntasks-per-node: 4\ngpus-per-task: 0.5\nrun: a", "train main:8/4x0.5"),
        ("tasks-per-node: 4\ngpus: 8\nrun: a", "train main:4/4x2"),
        ("tasks: 8\ntasks-per-node: 4\nrun: a", "train main:8/4x0"),
        ("tasks: 4..4\nrun: a", "train main:4x0"),
        ("gpus: 1\ngpu: [H100, a100]\nrun: a", "train main:1x1 gpu=h100|a100"),
        (
            "cpus: 0.5\nmemory: 64GiB\nextras: {licence: 2}\nrun: a",
            "train main:1x0 cpus=0.5 memory=64GiB extras=licence=2",
        ),
        (
            "queue: research/vision\npriority: -7\nrun: a",
            "train main:1x0 queue=research/vision priority=-7",
        ),
        ("queue: vision\nrun: a", "train main:1x0 queue=research/vision"),
        ("time: none\ngrace: 0s\nrun: a", "train main:1x0 grace=0s"),
        ("array: 0-199%32\nhold: true\nrun: a", "train main:1x0 array=200 held="),
        ("after: 12\nrun: a", "train main:1x0 after=AfterOk:12"),
        (
            "after: [afterany:12:13, 'after:14,afternotok:15']\nrun: a",
            "train main:1x0 after=AfterAny:12,AfterAny:13,After:14,AfterNotOk:15",
        ),
        ("restart: never\nrun: a", "train main:1x0"),
        ("restart: on-failure\nrun: a", "train main:1x0 restart=3@10s"),
        ("restart: {max: 5, backoff: 1m}\nrun: a", "train main:1x0 restart=5@1m"),
        ("restart: 2\nrun: a", "train main:1x0 restart=2@10s"),
        ("restart: 0\nrun: a", "train main:1x0"),
        ("restart: {on-failure: false, max: 5}\nrun: a", "train main:1x0"),
        ("checkpoint: {grace: 60s}\ntime: 1h\nrun: a", "train main:1x0 time=1h checkpoint=10@1m"),
        ("checkpoint: {grace: 60s, by: all}\nrun: a", "train main:1x0 checkpoint=10@1m"),
        ("checkpoint: {grace: 60s, to: handlers}\nrun: a", "train main:1x0 checkpoint=10@1m"),
        (
            "checkpoint: {grace: 60s, to: outermost}\nrun: a",
            "train main:1x0 checkpoint=10@1m to outermost",
        ),
        ("checkpoint: {grace: 60s, to: all}\nrun: a", "train main:1x0 checkpoint=10@1m to all"),
        (
            "checkpoint: {signal: TERM, grace: 60s}\ntime: 1h\nrun: a",
            "train main:1x0 time=1h checkpoint=15@1m",
        ),
        ("kind: task\nnodes: 2\nmin-nodes: 2\nrun: a", "train main:2/1x0"),
        (
            "name: grpo\ngpu: h100\ngroups:\n- {name: trainer, nodes: 2, gpus: 4, run: python trainer.py}\n- {name: rollout, tasks: 3, gpus-per-task: 1, cpus: 4}\n- {name: head}\nrun: python rollout.py",
            "grpo trainer:2/1x4 gpu=h100 rollout:3x1 gpu=h100 cpus=4 head:1x0",
        ),
    ] {
        match check(source) {
            Ok(jobs) => assert_eq!(short(&jobs[0]), expected, "{source}"),
            Err(error) => panic!("{source}\n{error}"),
        }
    }
}

/// Names the processes that get the checkpoint signal; empty for the default.
fn receivers(to: CheckpointTo) -> &'static str {
    match to {
        CheckpointTo::Handlers => "",
        CheckpointTo::Outermost => " to outermost",
        CheckpointTo::All => " to all",
    }
}

/// Kind, tier, time limit and restarts of a document.
#[test]
fn kinds_and_what_goes_without_saying() {
    let service = |floor, ceiling, port| {
        WorkloadKind::Service(Service {
            replicas: Replicas { guaranteed: floor, max: ceiling },
            port,
        })
    };
    let notebook =
        |idle: Option<u64>| WorkloadKind::Notebook(Notebook { idle: idle.map(Span::from_secs) });
    let hours = |hours: u64| Some(Span::from_secs(hours * 3600));
    let backoff = |secs| Restart { backoff: Span::from_secs(secs), ..Restart::ALWAYS };
    for (source, kind, tier, time, restart) in [
        ("run: a", WorkloadKind::Task, Tier::Normal, None, Restart::NEVER),
        ("kind: service\nrun: a", service(1, 1, None), Tier::Normal, None, Restart::ALWAYS),
        (
            "kind: service\nreplicas: 2..6\nport: 8000\ntime: 12h\nrun: a",
            service(2, 6, Some(8000)),
            Tier::Normal,
            hours(12),
            Restart::ALWAYS,
        ),
        (
            "kind: service\nreplicas: 0..4\nrun: a",
            service(0, 4, None),
            Tier::Normal,
            None,
            Restart::ALWAYS,
        ),
        (
            "kind: service\nrestart: {backoff: 1m}\nrun: a",
            service(1, 1, None),
            Tier::Normal,
            None,
            backoff(60),
        ),
        (
            "kind: service\nrestart: never\nrun: a",
            service(1, 1, None),
            Tier::Normal,
            None,
            Restart::NEVER,
        ),
        (
            "kind: service\nrestart: always\nrun: a",
            service(1, 1, None),
            Tier::Normal,
            None,
            Restart::ALWAYS,
        ),
        (
            "kind: notebook\nrun: a",
            notebook(Some(7200)),
            Tier::Opportunistic,
            hours(12),
            Restart::NEVER,
        ),
        (
            "kind: notebook\nidle: none\ntime: 3h\nrun: a",
            notebook(None),
            Tier::Opportunistic,
            hours(3),
            Restart::NEVER,
        ),
        (
            "kind: notebook\nidle: 30m\npriority: 0\nrun: a",
            notebook(Some(1800)),
            Tier::Normal,
            hours(12),
            Restart::NEVER,
        ),
    ] {
        let spec = check(source).unwrap().remove(0).spec;
        let found = (spec.kind, spec.tier, spec.time_limit, spec.restart);
        assert_eq!(found, (kind, tier, time, restart), "{source}");
    }
}

#[test]
fn names_come_from_file_or_program() {
    let name = |source: &str, file: Option<&str>, overrides: serde_json::Value| {
        let documents = muster_spec::parse(source, file, overrides.as_object().unwrap()).unwrap();
        let queues = QueueTree::single();
        let site = muster_spec::SubmissionSite::new("ada".into(), [], &queues);
        let jobs = muster_spec::check_all(&documents, &site).unwrap();
        jobs.iter().map(|job| job.spec.name.to_string()).collect::<Vec<_>>()
    };
    for (source, file, run, expected) in [
        ("run: a", Some("examples/two words.yaml"), None, vec!["two-words"]),
        ("run: a\n---\nrun: b\n---\nname: c\nrun: c", Some("x.yml"), None, vec!["x-1", "x-2", "c"]),
        ("run: ./bin/train.sh --fast", None, None, vec!["train.sh"]),
        (
            "run: |\n  #!/bin/bash\n  # says hello\n  echo hello\n",
            Some("<stdin>"),
            None,
            vec!["echo"],
        ),
        ("", None, Some(json!(["/usr/bin/python3", "x.py"])), vec!["python3"]),
        ("run: '---'", None, None, vec!["job"]),
    ] {
        let overrides = run.map_or(json!({}), |run| json!({ "run": run }));
        assert_eq!(name(source, file, overrides), expected, "{source}");
    }
}

#[test]
fn what_lies_behind_a_job_is_kept() {
    let source = "run: [python, train.py, 3, true]\nenv: {A: 1, B: x=y, RANK: 7}\nworkdir: sub/dir\nbegin: +2h\nlabels: {pool: train}\nexclude: [n3, 'n[1-2]']";
    let error = check(source).unwrap_err().to_string();
    assert!(error.contains("no node satisfies"), "{error}");
    let job = check(&source.replace(", 'n[1-2]'", "")).unwrap().remove(0);
    let command = serde_json::to_value(&job.commands).unwrap();
    assert_eq!(command, json!({"main": {"argv": ["python", "train.py", "3", "true"]}}));
    assert_eq!(serde_json::to_value(&job.env).unwrap(), json!({"A": "1", "B": "x=y", "RANK": "7"}));
    assert_eq!(job.workdir.unwrap().to_str(), Some("sub/dir"));
    assert_eq!((job.begin, job.spec.begin), (Some(EarliestStart::After(Span(7_200_000))), None));
    assert_eq!(job.spec.constraint.labels.len(), 1);
    assert_eq!(job.spec.constraint.exclude, ["n3".into()]);
    assert_eq!(job.spec.user, "ada".into());
    assert_eq!(
        job.warnings,
        ["`env` sets `RANK`, but Muster sets it for every task; yours is not used"]
    );
    let at = check("begin: 1970-01-01T00:01:00Z\nrun: a").unwrap().remove(0);
    assert_eq!(at.spec.begin, Some(Time(60_000)));
}

#[test]
fn documents_of_one_file_wait_for_earlier_ones() {
    let source = "name: prepare\nrun: a\n---\nname: train\nafter: prepare\nrun: b\n---\nafter: [afterany:train, prepare, 7]\nrun: c";
    let jobs = check(source).unwrap();
    let lines: Vec<_> = jobs.iter().map(short).collect();
    assert_eq!(
        lines,
        [
            "prepare main:1x0",
            "train main:1x0 after=AfterOk:#0",
            "train-3 main:1x0 after=AfterOk:7,AfterAny:#1,AfterOk:#0",
        ]
    );
}

#[test]
fn options_lie_over_every_document() {
    let overrides =
        json!({"gpus": 2, "time": "1h", "env": {"A": "new", "B": "2"}, "gpu": ["h100"]});
    let source = "name: a\ngpus: 8\nenv: {A: old, C: 3}\nrun: x\n---\nname: b\nrun: y";
    let jobs = check_on(source, &nodes(), &overrides).unwrap();
    let lines: Vec<_> = jobs.iter().map(short).collect();
    assert_eq!(lines, ["a main:1x2 gpu=h100 time=1h", "b main:1x2 gpu=h100 time=1h"]);
    assert_eq!(
        serde_json::to_value(&jobs[0].env).unwrap(),
        json!({"A": "new", "B": "2", "C": "3"})
    );
    let alone =
        check_on("", &nodes(), &json!({"run": ["python", "x.py"], "gpus": "2", "hold": true}))
            .unwrap();
    assert_eq!(short(&alone[0]), "train main:1x2 held=");
}

#[test]
fn anchors_and_aliases_work_within_a_document() {
    let source = "name: a\nlabels: &pool {pool: train}\nenv: *pool\nrun: &x echo\n";
    let job = check(source).unwrap().remove(0);
    assert_eq!(job.env["pool"], "train");
}

#[test]
fn without_nodes_nothing_about_capacity_is_judged() {
    let jobs =
        check_on("nodes: 50\ngpus: 8\ngpu: b300\nlabels: {a: b}\nrun: a", &[], &json!({})).unwrap();
    assert_eq!(short(&jobs[0]), "train main:50/1x8 gpu=b300");
}

#[test]
fn shares_and_mixed_nodes_are_counted_right() {
    let mixed = [node("n1", &[("h100", 3), ("a100", 2)])];
    // All devices of a task are of one model, so five devices of two models host two tasks of two,
    // not a task of five.
    for (source, fits) in [
        ("tasks: 2\ngpus-per-task: 2\nrun: a", true),
        ("gpus: 5\nrun: a", false),
        ("tasks: 3\ngpus-per-task: 2\nrun: a", false),
        ("tasks: 10\ngpus-per-task: 0.5\nrun: a", true),
        ("tasks: 11\ngpus-per-task: 0.5\nrun: a", false),
        ("tasks: 5\ngpus-per-task: 0.7\nrun: a", true),
        ("tasks: 6\ngpus-per-task: 0.7\nrun: a", false),
    ] {
        assert_eq!(check_on(source, &mixed, &json!({})).is_ok(), fits, "{source}");
    }
}

#[test]
fn queue_files_become_trees() {
    let text = "half-life: 7d\nqueues:\n- name: research\n  queues:\n  - {name: vision, quota: {rtxpro6000: 16}, borrow: 8, weight: 1}\n  - {name: language, quota: {RTXPRO6000: 16}, borrow: 8, lend: 8, weight: 2, limits: {running-jobs: 50, gpus-per-user: 16, time: 2d}, priority: [0, 100]}\n";
    let tree = parse_queues(text, None).unwrap();
    assert_eq!(tree.default_queue, "research/vision".into());
    assert_eq!(tree.half_life, Span(7 * 86_400_000));
    let language = &tree.queues[0].queues[1];
    assert_eq!(language.quota[&"rtxpro6000".into()], 16);
    assert_eq!((language.borrow, language.lend, language.weight), (Some(8), Some(8), 2));
    assert_eq!(language.limits.time, Some(Span(2 * 86_400_000)));
    assert_eq!(language.priority, Some((0, 100)));
    assert_eq!(parse_queues("queues: [{name: default}]", None).unwrap(), QueueTree::single());
    let deep = parse_queues(
        "backfill: conservative\nbackfill-depth: 4\ndefault-queue: a/b\nqueues: [{name: c}, {name: a, queues: [{name: b}]}]",
        None,
    );
    let deep = deep.unwrap();
    assert_eq!(serde_json::to_value(deep.backfill).unwrap(), json!({"conservative": {"depth": 4}}));
    assert_eq!(deep.default_queue, "a/b".into());
    for (name, policy) in PlacementPolicy::ALL {
        let text = format!("placement: {name}\nqueues: [{{name: default}}]");
        let tree = parse_queues(&text, None).unwrap();
        assert_eq!(tree.placement, policy);
        assert_eq!(serde_json::to_value(&tree).unwrap()["placement"], name);
    }
    for (name, runtimes) in PlannedRuntimes::ALL {
        let text = format!("estimates: {name}\nqueues: [{{name: default}}]");
        assert_eq!(parse_queues(&text, None).unwrap().estimates, runtimes);
    }
    // A tree of an older journal says nothing of it.
    let mut old = serde_json::to_value(QueueTree::single()).unwrap();
    assert!(old.as_object_mut().unwrap().remove("placement").is_some());
    assert_eq!(serde_json::from_value::<QueueTree>(old).unwrap(), QueueTree::single());
}

#[test]
fn cluster_files_become_nodes() {
    let text = "levels: [block, leaf]\nnodes:\n- {name: \"node[01-04]\", gpus: 8, gpu: rtxpro6000, gpu-memory: 96GB, cpus: 128, memory: 1000GB, domain: {leaf: l1, block: b1}, labels: {pool: train}}\n- {name: \"r[1-2]c[9-10,12]\", cpus: 4}\n";
    let Cluster { levels, nodes } = parse_cluster(text, None).unwrap();
    assert_eq!(levels.iter().map(|level| &**level).collect::<Vec<_>>(), ["block", "leaf"]);
    let names: Vec<_> = nodes.iter().map(|node| node.name.as_str()).collect();
    assert_eq!(
        names,
        [
            "node01", "node02", "node03", "node04", "r1c9", "r1c10", "r1c12", "r2c9", "r2c10",
            "r2c12"
        ]
    );
    assert_eq!(nodes[0].devices.len(), 8);
    assert!(
        nodes[0]
            .devices
            .iter()
            .all(|device| device.is_virtual && device.model == "rtxpro6000".into())
    );
    assert_eq!(nodes[0].domains.iter().map(|domain| &**domain).collect::<Vec<_>>(), ["b1", "l1"]);
    assert_eq!(nodes[4].devices.len(), 0);
}

#[test]
fn every_example_is_accepted() {
    for (source, jobs) in [
        (include_str!("../../../../examples/hello.yaml"), vec!["hello main:1x1 time=1m"]),
        (include_str!("../../../../examples/allreduce.yaml"), vec!["allreduce main:4x1 time=1m"]),
        (include_str!("../../../../examples/torchrun.yaml"), vec!["torchrun main:1x2 time=5m"]),
        (
            include_str!("../../../../examples/contention.yaml"),
            vec![
                "left main:5x1 time=15s grace=1s",
                "right main:5x1 time=15s grace=1s",
                "sweep main:1x1 time=3s grace=1s array=24",
                "quick main:1x1 time=5s grace=1s",
            ],
        ),
        (
            include_str!("../../../../examples/contention-kubernetes.yaml"),
            vec![
                "left main:5x1 time=4m grace=1s",
                "right main:5x1 time=4m grace=1s",
                "sweep main:1x1 time=1m grace=1s array=8",
                "quick main:1x1 time=1m grace=1s",
            ],
        ),
    ] {
        let checked = check_on(source, &[node("laptop", &[("virtual", 8)])], &json!({})).unwrap();
        assert_eq!(checked.iter().map(short).collect::<Vec<_>>(), jobs);
    }
    assert_eq!(include_str!("../../../../examples/hello.yaml").lines().count(), 5);
}
