//! TrainJobs with their runtimes: what they become, and what is found in them.

use super::*;

/// Returns a TrainJob with its runtime, in which nothing is wrong.
fn train_job() -> String {
    "\
apiVersion: trainer.kubeflow.org/v1alpha1
kind: TrainJob
metadata: {name: tune}
spec:
  runtimeRef: {name: torch, kind: TrainingRuntime}
  activeDeadlineSeconds: 7200
  trainer:
    image: r/tune:2
    command: [torchrun, train.py]
    numNodes: 4
    resourcesPerNode: {limits: {nvidia.com/gpu: 8}}
    env: [{name: LR, value: \"2\"}, {name: SEED, value: \"7\"}]
---
apiVersion: trainer.kubeflow.org/v1alpha1
kind: TrainingRuntime
metadata: {name: torch, labels: {trainer.kubeflow.org/framework: torch}}
spec:
  mlPolicy: {numNodes: 1, torch: {}}
  podGroupPolicy: {coscheduling: {scheduleTimeoutSeconds: 120}}
  template:
    spec:
      replicatedJobs:
        - name: node
          template:
            metadata: {labels: {trainer.kubeflow.org/trainjob-ancestor-step: trainer}}
            spec:
              template:
                spec:
                  nodeSelector: {pool: gpu}
                  volumes: [{name: shm, emptyDir: {medium: Memory}}]
                  containers:
                    - name: node
                      image: r/torch:1
                      volumeMounts: [{name: shm, mountPath: /dev/shm}]
                      env: [{name: LR, value: \"1\"}, {name: A, value: b}]
"
    .to_owned()
}

fn check_changed(from: &str, to: &str, expected: &[(&str, u32)]) {
    let text = train_job();
    assert!(text.contains(from), "{from}");
    check(&text.replacen(from, to, 1), expected);
}

#[test]
fn a_train_job_has_the_pods_of_its_runtime() {
    check(&train_job(), &[]);
    let report = imported(&train_job());
    let expected = "\
name: tune
tasks: 4
gpus-per-task: 8
time: 2h
labels: {pool: gpu}
env:
  LR: \"2\"
  A: b
  SEED: \"7\"
run: [torchrun, train.py]
kubernetes:
  image: r/tune:2
";
    assert_eq!(report.job, expected);
    assert_eq!((report.launch.steps[0].line, report.launch.steps[0].processes), (9, Some(32)));
    // Each field is listed once, where it is written.
    let written = |option: &str| {
        let found = report.options.iter().filter(|one| one.option.ends_with(option));
        found.map(|one| (one.line, one.text.as_str())).collect::<Vec<_>>()
    };
    assert_eq!(written("nodeSelector[pool]"), [], "{:#?}", report.options);
    assert_eq!(written("nodeSelector.pool"), [(29, "labels")]);
    assert_eq!(written("containers[0].image"), [(33, "the TrainJob has another value")]);
    assert_eq!(written("spec.trainer.image"), [(8, "kubernetes: {image}")]);
    assert_eq!(written("env[0]"), [(12, "env"), (35, "the TrainJob has another value")]);
}

#[test]
fn schema_valid_and_wrong_train_jobs_are_found() {
    check_changed(
        "name: torch, kind",
        "name: other, kind",
        &[("runtime-not-in-file", 5), ("field-lost", 16), ("field-lost", 17)],
    );
    check_changed(
        "  podGroupPolicy: {coscheduling: {scheduleTimeoutSeconds: 120}}\n",
        "",
        &[("trainer-starts-in-part", 5)],
    );
    check_changed(
        "numNodes: 4",
        "numProcPerNode: 4\n    numNodes: 4",
        &[("gpus-without-process", 9)],
    );
    check_changed(
        "[torchrun, train.py]",
        "[python, train.py]\n    numProcPerNode: 16",
        &[("processes-per-node-differ", 10)],
    );
    check_changed("gpu: 8", "gpu: 16", &[("cluster-too-small", 4), ("no-node-has-it", 11)]);
    check_changed("r/tune:2", "r/tune", &[("image-not-pinned", 8)]);
    // Without its own, that of the runtime.
    check_changed("    command: [torchrun, train.py]\n", "", &[("no-command", 31)]);
    check_changed("image: r/tune:2", "initializer: 1", &[("field-lost", 8)]);
    let initialised = "  initializer: {dataset: {storageUri: \"hf://data\"}}\n  runtimeRef";
    check_changed("  runtimeRef", initialised, &[("field-lost", 5)]);
}

#[test]
fn ranks_of_mpi_in_a_train_job_become_tasks() {
    let text = train_job()
        .replace("torch: {}", "mpi: {numProcPerNode: 8, runLauncherAsNode: true}")
        .replace("[torchrun, train.py]", "[mpirun, -np, \"32\", ./bench]");
    check(&text, &[]);
    // Beside the launcher's pod there are those in which it starts ranks.
    let workers = "        - name: workers\n          template: {spec: {template: {spec: {containers: [{name: node, image: r/torch:1}]}}}}\n";
    check(&format!("{text}{workers}"), &[]);
    let job = imported(&text).job;
    assert!(job.starts_with("name: tune\nnodes: 4\ntasks-per-node: 8\ngpus: 8\n"), "{job}");
    check(&text.replace("\"32\"", "\"16\""), &[("mpi-ranks-differ", 9)]);
    check(
        &text.replace("numProcPerNode: 8", "numProcPerNode: 4"),
        &[("mpi-slots-differ", 7), ("mpi-ranks-differ", 9)],
    );
}
