//! `muster import` of Kubernetes objects: reports, errors, and the way from Slurm to Kubernetes and back.

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::home::Home;

/// A gang that the API server accepts, and that cannot work.
const WRONG: &str = "\
apiVersion: batch/v1
kind: Job
metadata: {name: train}
spec:
  completionMode: Indexed
  completions: 4
  parallelism: 4
  template:
    spec:
      restartPolicy: OnFailure
      tolerations: [{operator: Exists}]
      containers:
        - name: main
          image: train:latest
          command: [torchrun, --nnodes=4, --nproc-per-node=8, train.py]
          resources: {limits: {nvidia.com/gpu: 4}}
";

const NODES: &str =
    "nodes:\n  - {name: \"node[1-3]\", gpus: 2, gpu: h100, cpus: 64, memory: 512GB}\n";

fn imported(home: &Home, path: &str) -> Value {
    serde_json::from_str(&home.muster(&["import", "--json", path]).ok().stdout).unwrap()
}

#[test]
fn the_report_names_what_is_wrong_and_what_is_lost() {
    let home = Home::new();
    home.write("job.yaml", WRONG);
    home.write("cluster.yaml", NODES);
    let run = home.words("import job.yaml --cluster cluster.yaml").ok();
    assert!(run.stdout.starts_with("name: train\ntasks: 4\ngpus-per-task: 4\n"), "{}", run.stdout);
    for part in [
        "job.yaml: 11 fields are in the job, 1 not mapped",
        "line 11: spec.template.spec.tolerations: a job tolerates the taint of its GPUs",
        "[gang-restarts-in-part]",
        "torchrun starts 8 processes, the pod has 4 GPUs (job.yaml:15)",
        "4 GPUs for a pod, the largest node has 2 (job.yaml:16)",
        "[no-rendezvous]",
    ] {
        assert!(run.stderr.contains(part), "{part}\n{}", run.stderr);
    }
    home.words("import job.yaml --strict").code(1);
    // The report keeps to its schema, and accepted findings stay accepted.
    let schema: Value = home.words("schema import-report").json();
    let report = imported(&home, "job.yaml");
    jsonschema::validator_for(&schema)
        .unwrap()
        .validate(&report)
        .unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(report["source"], "kubernetes");
    home.words("import job.yaml --write-baseline known.txt").ok();
    let run = home.words("import job.yaml --baseline known.txt").ok();
    assert!(!run.stderr.contains("[no-rendezvous]"), "{}", run.stderr);
    let sarif: Value = home.words("import job.yaml --format sarif").json();
    assert!(sarif["runs"][0]["results"].as_array().unwrap().len() > 4);
}

#[test]
fn mistakes_have_an_answer() {
    let home = Home::new();
    home.write("config.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings}\n");
    home.write("broken.yaml", "apiVersion: batch/v1\nkind: [Job\n");
    home.write("job.yaml", WRONG);
    for (words, part, hint) in [
        ("import config.yaml", "no object is a job: ConfigMap settings", "jobs are Job"),
        ("import broken.yaml", "neither YAML nor JSON", "kubectl apply"),
        ("import job.yaml -- 7", "-- is for scripts", ""),
        ("import job.yaml --cure processes-squared", "--cure is for scripts", ""),
        ("import job.yaml --cluster job.yaml", "job.yaml", ""),
    ] {
        let run = home.words(words).code(2);
        assert!(run.stderr.contains(part) && run.stderr.contains(hint), "{words}\n{}", run.stderr);
    }
}

/// Returns the scripts of the corpus of Slurm.
fn scripts() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../slurm/tests/data/scripts");
    let mut paths: Vec<PathBuf> =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths
}

/// Options with which Slurm is asked for size and time. Tasks of a job start together there.
const SAME: [&str; 8] = [
    "time",
    "nodes",
    "ntasks",
    "ntasks-per-node",
    "gpus-per-task",
    "memory-per-task",
    "cpus-per-task",
    "array",
];

/// Places to which a job goes, and from which it comes back.
const TARGETS: [&[&str]; 6] = [
    &["kubernetes"],
    &["kubernetes", "--scheduler", "kueue"],
    &["kubernetes", "--scheduler", "volcano"],
    &["kubernetes", "--scheduler", "kai"],
    &["trainer"],
    &["slinky"],
];

#[test]
fn a_job_of_slurm_that_went_to_kubernetes_asks_slurm_for_the_same() {
    let home = Home::new();
    let mut fit = [0; TARGETS.len()];
    for path in scripts() {
        let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
        let first = imported(&home, path.to_str().unwrap());
        let job = first["job"].as_str().unwrap();
        home.write("job.yaml", &format!("{job}kubernetes: {{image: \"example.com/train:1\"}}\n"));
        home.muster(&["export", "slurm", "job.yaml", "-o", "first.sbatch", "--force"]).ok();
        let first = imported(&home, "first.sbatch");
        for (target, fit) in TARGETS.iter().zip(&mut fit) {
            // 1. To the target, where that is possible.
            let words = [&["export"], *target, &["job.yaml", "-o", "objects", "--force"]].concat();
            if home.muster(&words).code != 0 {
                continue;
            }
            *fit += 1;
            // 2. And back.
            home.muster(&["import", "objects", "-o", "again.yaml", "--force"]).ok();
            home.muster(&["export", "slurm", "again.yaml", "-o", "again.sbatch", "--force"]).ok();
            // 3. Size, time and that all tasks start together.
            let again = imported(&home, "again.sbatch");
            asks_for_the_same(&home, &first, &again, &format!("{name}: {target:?}"));
        }
    }
    assert!(fit.iter().all(|count| *count > 8), "{fit:?} scripts went to {TARGETS:?}");
}

/// Compares size, time, and that all tasks start together: one allocation, or as many as before.
fn asks_for_the_same(home: &Home, first: &Value, again: &Value, name: &str) {
    let asks = |report: &Value, option| report["asks"].get(option).map(ToString::to_string);
    // Objects have the fewest nodes of an elastic job, as a warning of the export says.
    let is_elastic = asks(first, "nodes").is_some_and(|nodes| nodes.contains('-'));
    let options = if is_elastic { &SAME[..1] } else { &SAME };
    for option in options {
        assert_eq!(
            asks(again, option),
            asks(first, option),
            "{name}: {option}\n{}\n{}",
            home.read("objects"),
            home.read("again.yaml")
        );
    }
}

#[test]
fn slurm_in_kubernetes_takes_a_script_in_the_image_of_the_job() {
    let home = Home::new();
    let job = "name: train\nnodes: 2\ngpus: 8\nrun: torchrun train.py\nkubernetes: {image: example.com/train:1, volumes: data:/data}\n";
    home.write("job.yaml", job);
    for (operator, service, part) in [
        ("slinky", "-n slurm slurm-login-slinky", "extraConfMap: {Gres: [\"gpu:8\"]}"),
        (
            "soperator",
            "-n soperator soperator-login-svc",
            "slurmd: {resources: {nvidia.com/gpu: 8}}",
        ),
    ] {
        let run = home.muster(&["export", operator, "job.yaml"]).ok();
        assert!(run.stdout.starts_with("#!/bin/bash\n# For Slurm in Kubernetes"), "{}", run.stdout);
        for part in [service, part, "#SBATCH --nodes=2", "example.com#train:1"] {
            assert!(run.stdout.contains(part), "{part}\n{}", run.stdout);
        }
        assert!(run.stderr.contains("mounts of their NodeSet"), "{}", run.stderr);
    }
    let run = home.muster(&["export", "slinky", "job.yaml", "--namespace", "ml"]).ok();
    assert!(run.stdout.contains("-n ml slurm-login-slinky"));
    home.write(
        "job.yaml",
        &job.replace("image: e", "image: other/e")
            .replace("run:", "slurm: {container: own.sif}\nrun:"),
    );
    let run = home.muster(&["export", "slinky", "job.yaml"]).ok();
    assert!(run.stdout.contains("own.sif") && !run.stdout.contains("other/"), "{}", run.stdout);
}

#[test]
fn a_job_names_its_scheduler_and_an_option_another() {
    let home = Home::new();
    home.write(
        "job.yaml",
        "name: train\nnodes: 2\ngpus: 8\nrun: torchrun train.py\nkubernetes: {image: r/train:1, scheduler: kai}\n",
    );
    let exported =
        |options: &str| home.words(&format!("export kubernetes job.yaml {options}")).ok().stdout;
    let own = exported("");
    assert!(own.contains("schedulerName: kai-scheduler\n"), "{own}");
    assert!(own.contains("kai.scheduler/batch-min-member: \"2\"\n"), "{own}");
    let other = exported("--scheduler muster");
    assert!(other.contains("schedulerName: muster\n"), "{other}");
}

#[test]
fn sent_files_are_named_by_their_folder_again() {
    let home = Home::new();
    std::fs::create_dir(home.path("code")).unwrap();
    home.write("code/train.py", "print(1)\n");
    home.write(
        "job.yaml",
        "name: train\ngpus: 1\nrun: python train.py\nkubernetes: {image: r/train:1, send: code}\n",
    );
    home.muster(&["export", "kubernetes", "job.yaml", "-o", "objects.yaml"]).ok();
    let run = home.muster(&["import", "objects.yaml"]).ok();
    assert!(
        run.stdout.contains("  send: code\n") && !run.stdout.contains("workdir"),
        "{}",
        run.stdout
    );
    home.write("again.yaml", &run.stdout);
    let again = home.muster(&["export", "kubernetes", "again.yaml"]).ok();
    assert_eq!(again.stdout, home.read("objects.yaml"));
}
