//! `muster init ray`: the job files are valid where they are meant for, the objects pass our own checks and are
//! what `export kuberay` makes, and files that were edited by hand are kept.

use serde_json::Value;

use crate::home::{Home, HomeRun};

const CLUSTER: &str = "\
nodes:
  - {name: 'node[1-4]', gpus: 8, gpu: h100, cpus: 64, memory: 1000GiB}
  - {name: small, gpus: 2, gpu: l40s, cpus: 16, memory: 100GiB}
";

fn site(cluster: &str) -> Home {
    let home = Home::new();
    home.write("cluster.yaml", cluster);
    home
}

fn init(home: &Home, more: &str) -> HomeRun {
    home.words(&format!("init ray --cluster cluster.yaml {more}"))
}

/// Returns the rules that a check of the folder `ray` fails, and those that pass.
fn rules(home: &Home, check: &str) -> (Vec<String>, Vec<String>) {
    let report: Value =
        serde_json::from_str(&home.words(&format!("{check} ray --json")).stdout).unwrap();
    let of = |list: &str| -> Vec<String> {
        let list = report[list].as_array().unwrap();
        list.iter().map(|one| one["rule"].as_str().unwrap().to_owned()).collect()
    };
    (of("findings"), of("passed"))
}

#[test]
fn for_slurm_a_cluster_starts_small_and_grows_in_a_qos_of_its_own() {
    let home = site(CLUSTER);
    let run = init(&home, "--queue lab/rl --growth-qos idle --python /opt/ray/bin/python").ok();
    assert!(
        run.stderr.starts_with("ray: 3 files for Ray on Slurm: 5 nodes with 34 GPUs"),
        "{}",
        run.stderr
    );
    let job = home.read("ray/program.yaml");
    for line in [
        "tasks: 2..4",
        "gpus-per-task: 8",
        "gpu: h100",
        "cpus: 56",
        "memory: 875GiB",
        "queue: lab/rl",
        "env: {SBATCH_QOS: idle}",
        "ray: {idle: 5m, python: /opt/ray/bin/python}",
    ] {
        assert!(job.lines().any(|one| one == line), "{line}:\n{job}");
    }
    let script = home.words("export slurm ray/program.yaml").ok().stdout;
    for line in ["#SBATCH --ntasks=2", "#SBATCH --account=rl", "export SBATCH_QOS=idle"] {
        assert!(script.lines().any(|one| one == line), "{line}:\n{script}");
    }
    // The first nodes are in the usual QOS: nothing else sets it.
    assert!(!script.contains("--qos"), "{script}");
    assert!(home.read("ray/lab.yaml").contains("\ntasks: 1..4\n"));
    home.words("export slurm ray/lab.yaml").ok();
    let growth = home.read("ray/growth.sh");
    assert!(growth.contains("qos where name=normal set Preempt+=idle\n"), "{growth}");
    let shell = std::process::Command::new("sh")
        .args(["-n", &home.path("ray/growth.sh").display().to_string()])
        .status();
    assert!(shell.unwrap().success());
}

#[test]
fn for_one_machine_each_gpu_is_a_node() {
    let home = site(CLUSTER);
    init(&home, "--on local").ok();
    let job = home.read("ray/program.yaml");
    assert!(job.contains("\ntasks: 2..8\ngpus-per-task: 1\ncpus: 7\nmemory: 109GiB\n"), "{job}");
    assert!(!job.contains("SBATCH_QOS") && !home.path("ray/growth.sh").exists());
    for file in ["program", "lab"] {
        home.words(&format!("export slurm ray/{file}.yaml")).ok();
    }
}

#[test]
fn for_kubernetes_the_sample_is_governed_and_passes_our_checks() {
    for (scheduler, in_job, in_values) in [
        ("muster", "muster.run/queue: lab.rl", "name: \"\""),
        ("kueue", "kueue.x-k8s.io/queue-name: rl", "name: \"\""),
        ("volcano", "volcano.sh/queue-name: lab.rl", "name: volcano"),
        ("kai", "kai.scheduler/queue: lab.rl", "name: kai-scheduler"),
    ] {
        let home = site(CLUSTER);
        init(&home, &format!("--on kubernetes --scheduler {scheduler} --queue lab/rl -o ray")).ok();
        assert!(home.read("ray/rayjob.yaml").contains(in_job), "{scheduler}");
        assert!(home.read("ray/kuberay-values.yaml").contains(in_values), "{scheduler}");
        let (found, passed) = rules(&home, "check ray");
        assert_eq!(found, [""; 0], "{scheduler}");
        for rule in ["ray-not-a-gang", "ray-outside-quota", "ray-job-without-limit"] {
            assert!(passed.iter().any(|one| one == rule), "{scheduler}: {rule} of {passed:?}");
        }
        assert_eq!(rules(&home, "check kubernetes").0, [""; 0], "{scheduler}");
        let import = home.words("import ray/rayjob.yaml").ok();
        assert!(!import.stderr.contains("high"), "{scheduler}: {}", import.stderr);
        // The sample is what the job file gives.
        let exported =
            home.words(&format!("export kuberay ray/program.yaml --scheduler {scheduler}")).ok();
        let sample = home.read("ray/rayjob.yaml");
        let body = sample.split_once('\n').unwrap().1;
        assert_eq!(body, exported.stdout, "{scheduler}");
        home.words(&format!("export kubernetes ray/lab.yaml --scheduler {scheduler}")).ok();
    }
}

#[test]
fn the_advice_for_the_site_says_what_the_files_are_for() {
    let home = site(CLUSTER);
    let slurm = "fleet: {nodes: 16, gpus: 128, hosting: bare-metal}\n\
        people: {users: 30, hpc-fluent: true, operates: slurm, works: true}\n\
        needs: {rl: true, coupled-training: true, mainly-coupled: true}\n";
    let kubernetes = "fleet: {nodes: 16, gpus: 128}\n\
        people: {users: 30, kubernetes-fluent: true, operates: kubernetes, works: true, platform-fte: 2}\n\
        needs: {rl: true, services: true}\n";
    for (text, on, file) in
        [(slurm, "slurm", "growth.sh"), (kubernetes, "kubernetes", "install.sh")]
    {
        home.write("site.yaml", text);
        let run = init(&home, &format!("--on auto --site site.yaml -o {on}")).ok();
        let said = format!("--on {on}, since the advice for site.yaml is {on}");
        assert!(run.stderr.starts_with(&said), "{}", run.stderr);
        assert!(home.path(on).join(file).exists());
    }
    let run = init(&home, "--site site.yaml").code(2);
    assert!(run.stderr.contains("--site needs --on auto"), "{}", run.stderr);
}

#[test]
fn files_edited_by_hand_are_kept() {
    let home = site(CLUSTER);
    init(&home, "").ok();
    assert!(init(&home, "").ok().stderr.contains("; all unchanged"));
    init(&home, "--diff").ok();
    let edited = home.read("ray/program.yaml").replace("train.py", "mine.py");
    home.write("ray/program.yaml", &edited);
    let shown = init(&home, "--diff").code(1).stdout;
    assert!(shown.contains("-run: python mine.py\n+run: python train.py\n"), "{shown}");
    // The others are written: the user was told to edit this one.
    let kept = init(&home, "--queue other").ok().stderr;
    assert!(kept.contains("kept, since edited by hand: program.yaml\n"), "{kept}");
    assert!(home.read("ray/lab.yaml").contains("queue: other"));
    assert_eq!(home.read("ray/program.yaml"), edited);
    init(&home, "--force").ok();
    assert!(home.read("ray/program.yaml").contains("train.py"));
    let printed = init(&home, "-o -").ok().stdout;
    assert!(printed.starts_with("==> program.yaml <==\n"), "{printed}");
}

#[test]
fn mistakes_have_a_next_step() {
    let check = |cluster: &str, more: &str, expected: &str| {
        let run = init(&site(cluster), more).code(2);
        assert!(run.stderr.contains(expected), "{more}: {}", run.stderr);
    };
    check("nodes: [{name: a}]\n", "", "no node of cluster.yaml has a whole GPU");
    check(CLUSTER, "--on slurm,local", "the files are for one cluster");
    check(CLUSTER, "--on slurm@login", "write --on slurm");
    check(
        CLUSTER,
        "--on kubernetes --scheduler none",
        "use --scheduler muster, kueue, volcano or kai",
    );
    check(
        CLUSTER,
        "--on kubernetes --queue Lab_1",
        "`--queue Lab_1` is not a valid Kubernetes name",
    );
    check(
        CLUSTER,
        "--on kubernetes --namespace a.b",
        "`--namespace a.b` is not a valid Kubernetes name",
    );
    let long = format!("--on kubernetes --namespace {}", "a".repeat(64));
    check(CLUSTER, &long, "use at most 63 lower-case letters");
    check(CLUSTER, "--growth-qos a;b", "expected letters, digits");
}
