//! The Kubernetes side of a site with Slurm: `--on auto`, contexts in one list, and the files of `init hybrid`.

use std::fs;
use std::process::{Command, Output};

use serde_json::Value;

use crate::cluster::{KubernetesCluster, pod_spec, success, until};
use crate::explain::{check_failure, muster_as, with_value};

#[test]
#[ignore = "needs a Kubernetes cluster: cargo xtask kubernetes test"]
fn the_site_file_sends_services_to_kubernetes() {
    let cluster = KubernetesCluster::here();
    let namespace = cluster.namespace("auto-services");
    let home = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| fs::write(home.path().join(name), text).unwrap();
    let kubeconfig = fs::read_to_string(cluster.kubeconfig()).unwrap();
    let user = format!("user, namespace: {}", namespace.name());
    write("kubeconfig", &with_value(&kubeconfig, "context: {cluster: test, user: ", &user));
    write("silent", &with_value(&kubeconfig, "server: ", "https://127.0.0.1:1"));
    let site = "fleet: {nodes: 4, gpus: 32}\npeople: {users: 6}\n";
    write("site.yaml", &format!("{site}clusters: {{batch: local, services: kubernetes}}\n"));
    write("nowhere.yaml", &format!("{site}clusters: {{services: kubernetes@nowhere}}\n"));
    write("job.yaml", "name: here\nrun: sleep 600\n");
    write("api.yaml", "name: api\nkind: service\nport: 8000\nrun: serve\n");
    let muster = |words: &str, kubeconfig: &str| -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_muster"));
        command.args(words.split(' ')).current_dir(home.path()).env("HOME", home.path());
        command.env("MUSTER_HOME", home.path().join("muster")).env("NO_COLOR", "1");
        command.env("KUBECONFIG", home.path().join(kubeconfig)).env("MUSTER_SITE", "site.yaml");
        command.output().unwrap()
    };
    let services = || namespace.objects("deployments", "");

    // 1. A dry run says where it would go, and creates nothing.
    let dry = muster("run --on auto --dry-run api.yaml", "kubeconfig");
    let shown = success(&["run"], &dry);
    let said = String::from_utf8(dry.stderr).unwrap();
    assert!(
        said.starts_with("api goes to kubernetes: site.yaml says `services: kubernetes`\n"),
        "{said}"
    );
    assert!(shown.contains("kind: Deployment"), "{shown}");
    assert!(services().is_empty());

    // 2. Each file is submitted where it belongs, and one list has the jobs of both clusters.
    let words = "run --on auto --virtual-gpus 1 job.yaml";
    success(&["run"], &muster(words, "kubeconfig"));
    success(&["run"], &muster("run --on auto api.yaml job.yaml", "kubeconfig"));
    assert_eq!(services().len(), 1);
    let listed = success(&["ps"], &muster("ps --on auto --json", "kubeconfig"));
    let list: Value = serde_json::from_str(&listed).unwrap();
    let count = |name: &str| {
        list["jobs"].as_array().unwrap().iter().filter(|job| job["name"] == name).count()
    };
    assert_eq!((count("here"), count("api")), (2, 1), "{list}");

    // 3. A cluster that cannot be reached is named, and so is a context that does not exist.
    let silent = muster("run --on auto api.yaml", "silent");
    check_failure(&silent, 5, "hint: --on auto chose kubernetes; --on names another cluster");
    let nowhere = muster("run --on auto --site nowhere.yaml api.yaml", "kubeconfig");
    check_failure(&nowhere, 1, "hint: --on auto chose kubernetes@nowhere");
    assert_eq!(services().len(), 1);
    success(&["stop-daemon"], &muster("stop-daemon --cancel", "kubeconfig"));
}

#[test]
#[ignore = "needs a Kubernetes cluster: cargo xtask kubernetes test"]
fn jobs_of_two_contexts_are_told_apart() {
    let cluster = KubernetesCluster::here();
    let namespace = cluster.namespace("auto-contexts");
    namespace.create_object(&serde_json::json!({
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "twice"},
        "spec": {"suspend": true, "template": {"spec": pod_spec("default-scheduler", 1)}},
    }));
    let home = tempfile::tempdir().unwrap();
    let config = fs::read_to_string(cluster.kubeconfig()).unwrap();
    let context = "contexts: [{name: test,";
    let other = "contexts: [{name: other, context: {cluster: test, user: user}}, {name: test,";
    assert!(config.contains(context), "{config}");
    let kubeconfig = home.path().join("kubeconfig");
    fs::write(&kubeconfig, config.replace(context, other)).unwrap();
    let words = ["ps", "--on", "kubernetes@test,kubernetes@other", "--name", "twice"];
    let listed = success(&words, &muster_as(&kubeconfig, &words));
    let mut on: Vec<&str> = listed.lines().filter_map(|line| line.split(' ').next()).collect();
    on.sort();
    assert_eq!(on, ["ON", "kubernetes@other", "kubernetes@test"], "{listed}");
    // `check kubernetes` is about Kubernetes, whichever cluster the shell is set to.
    for on in ["slurm", "slurm@login", "local", "auto"] {
        let words = ["check", "kubernetes", "--on", on];
        let text = format!("this command is about a Kubernetes cluster, not {on}");
        check_failure(&muster_as(&kubeconfig, &words), 2, &text);
    }
}

/// Nodes that the test gives to a pool; on drop they belong to none, also where the test fails.
struct DividedNodes<'a>(&'a KubernetesCluster);

impl Drop for DividedNodes<'_> {
    fn drop(&mut self) {
        for node in ["node7", "node8"] {
            for change in
                [["taint", "node", node, "nvidia.com/gpu-"], ["label", "node", node, "pool-"]]
            {
                // What the test had not set is not there to remove.
                let _ = self.0.kubectl_with(&change, "");
            }
        }
    }
}

#[test]
#[ignore = "needs a Kubernetes cluster: cargo xtask kubernetes test"]
fn the_pools_of_init_hybrid_pass_the_check_and_run_jobs() {
    let cluster = KubernetesCluster::here();
    let namespace = cluster.namespace("auto-hybrid");
    let home = tempfile::tempdir().unwrap();
    let run = |program: &str, words: &[&str]| {
        let mut command = Command::new(program);
        command.args(words).current_dir(home.path()).env("NO_COLOR", "1");
        command.env("KUBECONFIG", cluster.kubeconfig()).env("PATH", cluster.path_with_programs());
        command.output().unwrap()
    };
    let muster = env!("CARGO_BIN_EXE_muster");
    let nodes = "nodes:\n  - {name: \"batch[1-2]\", gpus: 8, gpu: h100, cpus: 64, memory: 512GB}\n  - {name: \"node[7-8]\", gpus: 8, gpu: h100}\n";
    fs::write(home.path().join("cluster.yaml"), nodes).unwrap();
    let divide = |services: &str, dir: &str| {
        let words = [
            "init",
            "hybrid",
            "--cluster",
            "cluster.yaml",
            "--services-nodes",
            services,
            "-o",
            dir,
        ];
        success(&words, &run(muster, &words));
    };

    // 1. The script stops before any change while a node of the batch pool is in the cluster.
    divide("node8", "mixed");
    check_failure(&run("sh", &["mixed/kubernetes-nodes.sh"]), 1, "node7 belongs to the batch pool");
    let taints = |node: &str| cluster.get(&["node", node])["spec"]["taints"].clone();
    assert_eq!((taints("node7"), taints("node8")), (Value::Null, Value::Null));

    let divided = DividedNodes(&cluster);
    // 2. Applied, it passes the check with Slurm's side beside it: nothing is found that was not before.
    let check = ["check", "kubernetes", "--format", "json", "--slurm-nodes"];
    let report = |slurm: &str| -> Value {
        let output = run(muster, &[&check[..], &[slurm]].concat());
        serde_json::from_slice(&output.stdout).unwrap()
    };
    divide("node[7-8]", "site");
    let before = report("site/slurm-nodes.conf");
    success(&["sh"], &run("sh", &["site/kubernetes-nodes.sh"]));
    let after = report("site/slurm-nodes.conf");
    // A node that Slurm has, too, is found: a taint of its GPUs keeps no pod with GPUs away.
    fs::write(home.path().join("moved"), "batch1\nnode8\n").unwrap();
    let moved = report("moved");

    // 3. A job with GPUs runs on the tainted nodes, and a pod without GPUs does not.
    let job = "name: gpu\ngpus: 8\nlabels: {pool: services}\nkubernetes: {namespace: auto-hybrid, image: none}\nrun: sleep 600\n";
    fs::write(home.path().join("job.yaml"), job).unwrap();
    // For kube-scheduler, whatever other tests have installed.
    let words = ["export", "kubernetes", "--scheduler", "none", "job.yaml"];
    let objects = run(muster, &words);
    success(&words, &objects);
    let objects = String::from_utf8(objects.stdout).unwrap();
    success(&["apply"], &cluster.kubectl_with(&["apply", "-f", "-"], &objects));
    until("the job has a node of the pool", || {
        let pods = namespace.objects("pods", "");
        pods.iter()
            .any(|pod| ["node7", "node8"].iter().any(|node| pod["spec"]["nodeName"] == *node))
    });
    drop(divided);
    assert_eq!(after["findings"], before["findings"]);
    let passed = |report: &Value, rule: &str| {
        report["passed"].as_array().unwrap().iter().any(|one| one["rule"] == rule)
    };
    assert!(passed(&after, "nodes-also-in-slurm"), "{after}");
    assert!(!passed(&moved, "nodes-also-in-slurm"), "{moved}");
}
