//! Objects as jobs: what each kind becomes, what is found in it, and round trips of generated jobs.

use muster_model::imported::ImportOutcome;
use muster_model::{Bytes, CpuMilli, Device, GpuModel};

use super::*;

mod operators;
mod queues;
mod ray;
mod round_trip;
mod services;
mod sweeps;
mod train_job;

/// Returns the report on objects, with four nodes of 8 GPUs each.
fn imported(text: &str) -> ImportReport {
    let device = || Device::declared(GpuModel::from("h100"), Bytes(80 << 30));
    let node = |index: u32| NodeSpec {
        devices: (0..8).map(|_| device()).collect(),
        ..NodeSpec::plain(format!("node{index}").as_str(), CpuMilli(64_000), Bytes(512 << 30))
    };
    let nodes: Vec<NodeSpec> = (0..4).map(node).collect();
    assert!(is_objects(text));
    let report = import(text, "objects.yaml", Some(&nodes)).unwrap();
    round_trip::checked(&report.job);
    report
}

/// Checks which rules have findings, and on which lines.
fn check(text: &str, expected: &[(&str, u32)]) {
    let report = imported(text);
    let found: Vec<(&str, u32)> =
        report.findings.iter().map(|one| (one.rule, one.line.unwrap_or(0))).collect();
    assert_eq!(found, expected, "{text}\n{:#?}", report.findings);
}

/// Returns an Indexed Job of four pods with 8 GPUs each, in which nothing is wrong.
fn gang() -> String {
    "\
apiVersion: batch/v1
kind: Job
metadata: {name: train}
spec:
  completionMode: Indexed
  completions: 4
  parallelism: 4
  backoffLimit: 0
  template:
    spec:
      restartPolicy: Never
      activeDeadlineSeconds: 3600
      schedulerName: muster
      volumes: [{name: shm, emptyDir: {medium: Memory}}]
      containers:
        - name: main
          image: registry.example.com/train:1
          command: [torchrun, --nnodes=4, --nproc-per-node=8, --rdzv-endpoint=train-0.train:29500, train.py]
          volumeMounts: [{name: shm, mountPath: /dev/shm}]
          resources: {limits: {nvidia.com/gpu: 8}}
"
    .to_owned()
}

/// Checks the findings in that Job after a text of it was replaced.
fn check_changed(from: &str, to: &str, expected: &[(&str, u32)]) {
    let text = gang();
    assert!(text.contains(from), "{from}");
    check(&text.replacen(from, to, 1), expected);
}

#[test]
fn an_unknown_version_of_an_api_is_a_finding() {
    let changed = |to: &str| gang().replace("apiVersion: batch/v1", &format!("apiVersion: {to}"));
    check(&changed("batch/v1"), &[]);
    check(&changed("batch/v2"), &[("unknown-api-version", 1)]);
    let evidence = &imported(&changed("batch/v2")).findings[0].evidence;
    assert_eq!(evidence, "Job train: batch/v2; known is v1");
    let with = |version: &str, kind: &str| {
        let other = format!("apiVersion: {version}\nkind: {kind}\nmetadata: {{name: a}}\n");
        let report = imported(&format!("{}---\n{other}", gang()));
        report.findings.iter().any(|one| one.rule == "unknown-api-version")
    };
    assert!(with("kueue.x-k8s.io/v1", "LocalQueue"));
    assert!(!with("kueue.x-k8s.io/v1beta1", "LocalQueue"));
    // Objects of other kinds are not read.
    assert!(!with("scheduling.k8s.io/v1", "PriorityClass"));
    assert!(!with("example.com/v7", "Job"));
}

/// `kubectl get job,pod -o yaml` lists a Job with the Pods that it made.
#[test]
fn what_a_job_of_the_file_made_is_no_job_of_its_own() {
    let pod = |controller: bool| {
        format!(
            "apiVersion: v1\nkind: Pod\nmetadata:\n  name: train-0-x\n  labels: {{batch.kubernetes.io/job-name: train}}\n  ownerReferences: [{{apiVersion: batch/v1, kind: Job, name: train, uid: u, controller: {controller}}}]\nspec: {{containers: [{{name: main, image: r/a:1, command: [python, a.py]}}]}}\nstatus: {{phase: Running}}\n"
        )
    };
    let alone = imported(&gang());
    let with_pod = imported(&format!("{}---\n{}", gang(), pod(true)));
    assert_eq!(with_pod.job, alone.job);
    assert_eq!(with_pod.findings.len(), alone.findings.len());
    let texts = with_pod.options.iter().map(|option| option.text.as_str());
    assert!(texts.into_iter().any(|text| text == "a part of Job train, which made it"));
    let other = imported(&format!("{}---\n{}", gang(), pod(false)));
    assert_eq!(other.job.matches("name: ").count(), alone.job.matches("name: ").count() + 1);
}

#[test]
fn a_gang_becomes_a_job_of_the_same_size() {
    check(&gang(), &[]);
    let report = imported(&gang());
    let expected = "\
name: train
tasks: 4
gpus-per-task: 8
time: 1h
run: [torchrun, --nnodes=4, --nproc-per-node=8, --rdzv-endpoint=train-0.train:29500, train.py]
kubernetes:
  image: registry.example.com/train:1
";
    assert_eq!(report.job, expected);
    assert_eq!(report.asks["gpus"], "32");
    let [step] = &report.launch.steps[..] else { panic!("one step") };
    assert_eq!((step.line, step.processes), (18, Some(32)));
    assert!(report.options.iter().all(|option| option.becomes != ImportOutcome::NotMapped));
}

#[test]
fn schema_valid_and_wrong_is_found() {
    check_changed(
        "gpu: 8",
        "gpu: 16",
        &[("cluster-too-small", 4), ("no-node-has-it", 20), ("gpus-without-process", 18)],
    );
    check_changed(
        "completions: 4\n  parallelism: 4",
        "completions: 5\n  parallelism: 5",
        &[("cluster-too-small", 4), ("nnodes-differ", 18)],
    );
    check_changed("backoffLimit: 0", "backoffLimit: 3", &[("gang-restarts-in-part", 8)]);
    check_changed(
        "restartPolicy: Never",
        "restartPolicy: OnFailure",
        &[("gang-restarts-in-part", 11)],
    );
    check_changed("nproc-per-node=8", "nproc-per-node=16", &[("more-processes-than-gpus", 18)]);
    check_changed("--rdzv-endpoint=train-0.train:29500, ", "", &[("no-rendezvous", 18)]);
    check_changed("--nnodes=4", "--nnodes=3", &[("nnodes-differ", 18)]);
    check_changed("train:1", "train:latest", &[("image-not-pinned", 17)]);
    check_changed("train:1", "train", &[("image-not-pinned", 17)]);
    check_changed("train:1", "train@sha256:0123", &[]);
    check_changed("      activeDeadlineSeconds: 3600\n", "", &[("no-time-limit", 4)]);
    check_changed(
        "mountPath: /dev/shm",
        "mountPath: /tmp",
        &[("field-lost", 14), ("small-shared-memory", 16), ("field-lost", 19)],
    );
    check_changed("limits:", "requests:", &[("gpus-without-limit", 20)]);
    check_changed(
        "schedulerName: muster",
        "tolerations: [{operator: Exists}]",
        &[("field-lost", 13)],
    );
    check_changed(
        "schedulerName: muster",
        "tolerations: [{key: nvidia.com/gpu, operator: Exists}]",
        &[],
    );
}

#[test]
fn a_job_without_a_command_runs_nothing_by_mistake() {
    let text = gang();
    let line = text.lines().find(|line| line.contains("command:")).unwrap();
    let text = text.replace(&format!("{line}\n"), "");
    check(&text, &[("no-command", 16)]);
    assert!(imported(&text).job.contains("exit 78"));
}

#[test]
fn pods_without_an_index_are_an_array() {
    let text = gang().replace("completionMode: Indexed", "completionMode: NonIndexed");
    let text = text.replace("parallelism: 4", "parallelism: 2").replace("--nnodes=4, ", "");
    check(&text, &[]);
    assert!(imported(&text).job.contains("gpus: 8\ntime: 1h\narray: 0-3%2\n"));
}

#[test]
fn lists_and_several_documents_are_several_jobs() {
    let other = gang().replace("name: train}", "name: second}");
    let report = imported(&format!("{}---\n{other}", gang()));
    assert_eq!(report.job.matches("---\n").count(), 1);
    assert_eq!(report.asks["second:pods"], "4");
    let indented: String = gang().lines().map(|line| format!("    {line}\n")).collect();
    let list = format!("apiVersion: v1\nkind: List\nitems:\n  -\n{indented}");
    let report = imported(&list);
    assert!(report.job.starts_with("name: train\ntasks: 4\n"));
    assert_eq!(report.launch.steps[0].line, 22);
}

/// Returns pods of a template, deep in an object.
fn template(command: &str, indent: usize) -> String {
    let text = format!(
        "template:\n  spec:\n    restartPolicy: Never\n    activeDeadlineSeconds: 60\n    containers:\n      - name: main\n        image: r/train:1\n        command: [{command}]\n        resources: {{limits: {{nvidia.com/gpu: 1}}}}\n"
    );
    text.lines().map(|line| format!("{}{line}\n", " ".repeat(indent))).collect()
}

#[test]
fn a_volcano_job_says_how_many_pods_start_together() {
    let job = |least: &str, action: &str| {
        format!(
            "apiVersion: batch.volcano.sh/v1alpha1\nkind: Job\nmetadata: {{name: train}}\nspec:\n  queue: vision\n{least}  policies: [{{event: PodFailed, action: {action}}}]\n  tasks:\n    - name: worker\n      replicas: 4\n{}",
            template("train", 6)
        )
    };
    check(&job("  minAvailable: 4\n", "RestartJob"), &[]);
    let report = imported(&job("  minAvailable: 4\n", "RestartJob"));
    assert!(report.job.starts_with("name: train\nqueue: vision\ntasks: 4\ngpus-per-task: 1\n"));
    // Volcano counts the first start, and makes three without a number.
    assert!(report.job.contains("restart: 2\n"), "{}", report.job);
    let once = job("  minAvailable: 4\n  maxRetry: 1\n", "RestartJob");
    assert!(!imported(&once).job.contains("restart"), "{once}");
    check(&job("  minAvailable: 1\n", "TerminateJob"), &[]);
    check(&job("  minAvailable: 3\n", "RestartJob"), &[("least-pods-differ", 6)]);
    check(&job("", "RestartJob"), &[("least-pods-missing", 4)]);
    check(&job("  minAvailable: 4\n", "RestartTask"), &[("gang-restarts-in-part", 7)]);
}

#[test]
fn equal_masters_and_workers_are_one_role() {
    let job = |worker: &str, policy: &str| {
        format!(
            "apiVersion: kubeflow.org/v1\nkind: PyTorchJob\nmetadata: {{name: train}}\nspec:\n  pytorchReplicaSpecs:\n    Master:\n      replicas: 1\n      restartPolicy: Never\n{}    Worker:\n      replicas: 3\n      restartPolicy: {policy}\n{}",
            template("torchrun, train.py", 6),
            template(worker, 6)
        )
    };
    check(&job("torchrun, train.py", "Never"), &[]);
    let report = imported(&job("torchrun, train.py", "Never"));
    assert!(report.job.starts_with("name: train\ntasks: 4\ngpus-per-task: 1\n"), "{}", report.job);
    let report = imported(&job("other", "Never"));
    assert!(report.job.contains("groups:\n- name: master\n"), "{}", report.job);
    let finding = &imported(&job("other", "OnFailure")).findings[0];
    assert_eq!((finding.rule, finding.line), ("gang-restarts-in-part", Some(20)));
}

#[test]
fn what_is_no_job_is_refused_with_a_reason() {
    let text = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings}\n";
    let error = import(text, "x.yaml", None).unwrap_err();
    assert_eq!(error, NotImported::NoJob(vec!["ConfigMap settings".to_owned()]));
    let error = import("apiVersion: v1\nkind: [\n", "x.yaml", None).unwrap_err();
    assert!(error.to_string().contains("neither YAML nor JSON"), "{error}");
    assert!(!is_objects("name: a\nrun: b\n") && !is_objects("#!/bin/sh\napiVersion: x\n"));
}

#[test]
fn ids_are_unique() {
    let mut all: Vec<&str> = ids().map(|(id, ..)| id).collect();
    let count = all.len();
    all.sort_unstable();
    all.dedup();
    assert_eq!(all.len(), count);
}

#[test]
fn defaults_of_a_job_set_lose_nothing() {
    let role = |name: &str| {
        format!(
            "    - name: {name}\n      groupName: default\n      replicas: 2\n      template:\n        spec:\n          backoffLimit: 0\n{}",
            template(name, 10)
        )
    };
    let policies = "  failurePolicy: {maxRestarts: 2, restartStrategy: Recreate}\n  successPolicy: {operator: All, targetReplicatedJobs: []}\n  startupPolicy: {startupPolicyOrder: AnyOrder}\n  ttlSecondsAfterFinished: 60\n";
    let job_set = |policies: &str| {
        format!(
            "apiVersion: jobset.x-k8s.io/v1alpha2\nkind: JobSet\nmetadata: {{name: grpo}}\nspec:\n{policies}  replicatedJobs:\n{}{}",
            role("head"),
            role("work")
        )
    };
    check(&job_set(policies), &[]);
    assert!(imported(&job_set(policies)).job.contains("restart: 2\n"));
    check(&job_set(&policies.replace("operator: All", "operator: Any")), &[("field-lost", 6)]);
}
