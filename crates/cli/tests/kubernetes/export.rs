//! What `muster export kubernetes` writes passes the strict validation of a real API server, for every
//! scheduler and shape of a job.

use std::io::Write;
use std::process::{Command, Output, Stdio};

use crate::cluster::{KubernetesCluster, success};
use crate::definitions::Definition;

const SCHEDULERS: [&str; 5] = ["muster", "kueue", "volcano", "kai", "pod-groups"];

const GANG: &str = "\
name: Train_1
queue: research/vision
nodes: 2
tasks-per-node: 2
gpus: 8
cpus: 1.5
memory: 64GB
time: 12h
checkpoint: {grace: 2m}
env: {PRICE: $(5)}
extras: {rdma/hca: 1}
labels: {pool: train}
exclude: node7
workdir: /data
run: torchrun train.py
kubernetes:
  image: registry.example.com/train:1
  service-account: trainer
  pull-secrets: registry
  volumes: [data:/data, models:/models:ro]
  env-from: [secret/wandb, configmap/settings]
  shm: 16GB
  host-network: true
  priority-class: high
  annotations: {example.com/team: vision}
";

const RESTARTS: &str = "\
tasks: 3
gpus-per-task: 1
restart: 2
run: python train.py
kubernetes: {image: registry.example.com/train:1}
";

const ROLES: &str = "\
name: grpo
groups:
  - {name: trainer, tasks: 1, gpus-per-task: 4, run: python trainer.py}
  - {name: rollout, tasks: 4, gpus-per-task: 1, run: [python, rollout.py]}
kubernetes: {image: registry.example.com/train:1}
";

const ARRAY: &str = "\
array: 1,3,7-9%2
gpus: 1
restart: 1
run: |
  #!/usr/bin/env python3
  print('hello')
kubernetes: {image: registry.example.com/train:1}
";

pub fn export(job: &str, scheduler: &str) -> Output {
    export_document(job, scheduler, "1")
}

/// Exports one job of a file, by its number.
pub fn export_document(jobs: &str, scheduler: &str, document: &str) -> Output {
    muster(&["export", "kubernetes", "-", "--scheduler", scheduler, "--document", document], jobs)
}

/// Runs muster with a text on its standard input.
pub fn muster(words: &[&str], jobs: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_muster"));
    command.args(words);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(jobs.as_bytes()).unwrap();
    child.wait_with_output().unwrap()
}

pub fn definition(group: &'static str, version: &'static str, kind: &'static str) -> Definition {
    let (plural, published) = match kind {
        "JobSet" => ("jobsets", "jobset/jobset.x-k8s.io_jobsets.yaml"),
        "TrainJob" => ("trainjobs", "trainer/trainer.kubeflow.org_trainjobs.yaml"),
        "TrainingRuntime" => {
            ("trainingruntimes", "trainer/trainer.kubeflow.org_trainingruntimes.yaml")
        }
        _ => ("jobs", "volcano/batch.volcano.sh_jobs.yaml"),
    };
    let published = Some(published);
    Definition { group, version, kind, plural, scope: "Namespaced", published }
}

/// Installs the definitions of Kubeflow's Trainer.
pub fn install_trainer(cluster: &KubernetesCluster) {
    for kind in ["TrainJob", "TrainingRuntime"] {
        definition("trainer.kubeflow.org", "v1alpha1", kind).install(cluster);
    }
}

#[test]
#[ignore = "needs a Kubernetes cluster: cargo xtask kubernetes test"]
fn exported_train_jobs_pass_strict_validation() {
    let cluster = KubernetesCluster::here();
    install_trainer(&cluster);
    let namespace = cluster.namespace("export-trainer");
    let words =
        ["create", "--dry-run=server", "--validate=strict", "--filename=-", "-n", namespace.name()];
    for scheduler in ["muster", "kueue", "volcano"] {
        for (name, job) in [("gang", GANG), ("restarts", RESTARTS)] {
            let exported = muster(&["export", "trainer", "-", "--scheduler", scheduler], job);
            let objects = success(&["export", "trainer", name, scheduler], &exported);
            success(&[name, scheduler], &cluster.kubectl_with(&words, &objects));
        }
    }
    for job in [ROLES, ARRAY] {
        let refused = muster(&["export", "trainer", "-"], job);
        assert_eq!(refused.status.code(), Some(2));
        assert!(String::from_utf8_lossy(&refused.stderr).contains("muster export kubernetes"));
    }
}

#[test]
#[ignore = "needs a Kubernetes cluster: cargo xtask kubernetes test"]
fn exported_jobs_pass_strict_validation() {
    let cluster = KubernetesCluster::here();
    definition("jobset.x-k8s.io", "v1alpha2", "JobSet").install(&cluster);
    definition("batch.volcano.sh", "v1alpha1", "Job").install(&cluster);
    let namespace = cluster.namespace("export");
    let words =
        ["create", "--dry-run=server", "--validate=strict", "--filename=-", "-n", namespace.name()];
    for scheduler in SCHEDULERS {
        for (name, job) in
            [("gang", GANG), ("restarts", RESTARTS), ("roles", ROLES), ("array", ARRAY)]
        {
            let exported = export(job, scheduler);
            // The one combination that has no objects: Jobs of Volcano start as gangs.
            if (scheduler, name) == ("volcano", "array") {
                assert_eq!(exported.status.code(), Some(2));
                continue;
            }
            let objects = success(&["export", name, scheduler], &exported);
            success(&[name, scheduler], &cluster.kubectl_with(&words, &objects));
        }
    }
    // Other tests mean the Jobs of Kubernetes by `jobs`.
    cluster.kubectl(&["delete", "customresourcedefinition/jobs.batch.volcano.sh"]);
    let verified = export(&format!("verify: true\n{GANG}"), "muster");
    assert_eq!(verified.status.code(), Some(0));
    assert!(String::from_utf8_lossy(&verified.stderr).contains("left out: the `verify` checks"));
    let refused = export(GANG, "none");
    assert_eq!(refused.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("one by one"));
}
