//! Subcommands for jobs, where it needs no real node: jobs of others, rights, servers that do not answer,
//! and connections that are cut.

use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};

use crate::cluster::{KubernetesCluster, pod_spec, success, until};
use crate::definitions::Definition;
use crate::explain::{check_failure, muster_as, with_value};

/// Writes this text into a folder of its own, as the file `kubeconfig`.
fn file_of(text: &str) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("kubeconfig"), text).unwrap();
    dir
}

#[test]
#[ignore = "needs a Kubernetes cluster: cargo xtask kubernetes test"]
fn jobs_of_others_are_listed_explained_and_cancelled() {
    let cluster = KubernetesCluster::here();
    let namespace = cluster.namespace("jobs-others");
    let job = |name: &str, suspend: bool| {
        let template = json!({"spec": pod_spec("default-scheduler", 1)});
        json!({
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"name": name},
            "spec": {"suspend": suspend, "parallelism": 2, "completions": 2, "template": template},
        })
    };
    namespace.create_object(&job("by-kubectl", false));
    namespace.create_object(&job("suspended", true));
    let kubeconfig = cluster.kubeconfig();
    let listed = |words: &[&str]| -> Vec<Value> {
        let words = [words, &["--json"]].concat();
        let list: Value =
            serde_json::from_str(&success(&words, &muster_as(&kubeconfig, &words))).unwrap();
        let jobs = list["jobs"].as_array().unwrap().iter();
        let is_ours = |job: &&Value| job["native"]["partition"] == "jobs-others";
        jobs.filter(is_ours).cloned().collect()
    };
    // 1. They have the names of their objects, with the namespace, and the states of their pods.
    until("the first one runs", || {
        let jobs = listed(&["ps"]);
        jobs.iter().any(|job| job["name"] == "by-kubectl" && job["state"] == "running")
    });
    let jobs = listed(&["ps"]);
    let states: Vec<_> = jobs
        .iter()
        .map(|job| (job["native"]["name"].as_str().unwrap(), job["state"].as_str().unwrap()))
        .collect();
    assert_eq!(states, [("jobs-others/by-kubectl", "running"), ("jobs-others/suspended", "held")]);
    assert_eq!((&jobs[0]["tasks"], &jobs[0]["gpus"]), (&json!(2), &json!(2000)));
    let words = ["explain", "jobs-others/suspended"];
    let explained = success(&words, &muster_as(&kubeconfig, &words));
    assert!(explained.contains("job/suspended of namespace jobs-others"), "{explained}");
    // 2. They are released, started again and cancelled by these names.
    success(&["release"], &muster_as(&kubeconfig, &["release", "jobs-others/suspended"]));
    until("it runs", || listed(&["ps"]).iter().all(|job| job["state"] == "running"));
    let pods = || -> Vec<String> {
        let uid = |pod: Value| pod["metadata"]["uid"].as_str().unwrap().to_owned();
        let of_job = "batch.kubernetes.io/job-name=by-kubectl";
        namespace.objects("pods", of_job).into_iter().map(uid).collect()
    };
    let before = pods();
    let words = ["requeue", "jobs-others/by-kubectl"];
    success(&words, &muster_as(&kubeconfig, &words));
    until("it runs again", || listed(&["ps"]).iter().all(|job| job["state"] == "running"));
    let after = pods();
    assert!(after.len() == 2 && !after.iter().any(|pod| before.contains(pod)), "{after:?}");
    let names = ["jobs-others/by-kubectl", "jobs-others/suspended"];
    let words = [&["cancel"][..], &names].concat();
    success(&words, &muster_as(&kubeconfig, &words));
    let words = [&["wait"][..], &names].concat();
    check_failure(&muster_as(&kubeconfig, &words), 130, "");
    assert!(listed(&["ps"]).is_empty());
    assert_eq!(listed(&["ps", "--all", "--state", "cancelled"]).len(), 2);
    // 3. `wait` ends when the object is deleted.
    namespace.create_object(&job("deleted", true));
    let mut waits = Command::new(env!("CARGO_BIN_EXE_muster"))
        .args(["--on", "kubernetes", "wait", "jobs-others/deleted"])
        .env("KUBECONFIG", &kubeconfig)
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    // Others watch the jobs of all namespaces.
    let is_its = |line: &str| {
        line.starts_with("apiserver_longrunning_requests{")
            && line.contains("resource=\"jobs\"")
            && !line.contains("scope=\"cluster\"")
            && !line.ends_with(" 0")
    };
    until("it watches", || cluster.kubectl(&["get", "--raw", "/metrics"]).lines().any(is_its));
    cluster.kubectl(&["delete", "job", "deleted", "--namespace", namespace.name()]);
    assert_eq!(waits.wait().unwrap().code(), Some(130));
}

/// Kueue's controller does not run here: the test writes what it would.
#[test]
#[ignore = "needs a Kubernetes cluster: cargo xtask kubernetes test"]
fn the_list_says_why_kueue_lets_a_job_wait() {
    let cluster = KubernetesCluster::here();
    let namespace = cluster.namespace("jobs-kueue");
    let workloads = Definition {
        group: "kueue.x-k8s.io",
        version: "v1beta2",
        kind: "Workload",
        plural: "workloads",
        scope: "Namespaced",
        published: Some("kueue/kueue.x-k8s.io_workloads.yaml"),
    };
    workloads.install(&cluster);
    namespace.create_object(&json!({
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "train", "labels": {"kueue.x-k8s.io/queue-name": "main"}},
        "spec": {"suspend": true, "template": {"spec": pod_spec("default-scheduler", 8)}},
    }));
    let job = cluster.get(&["job", "train", "--namespace", namespace.name()]);
    namespace.create_object(&json!({
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "Workload",
        "metadata": {"name": "job-train", "ownerReferences": [{"apiVersion": "batch/v1", "kind": "Job",
            "name": "train", "uid": job["metadata"]["uid"], "controller": true}]},
        "spec": {"queueName": "main", "podSets": [{"name": "main", "count": 1, "template": job["spec"]["template"]}]},
    }));
    let listed = || {
        let words = ["ps", "--name", "jobs-kueue/*"];
        success(&words, &muster_as(&cluster.kubeconfig(), &words))
    };
    let said = |words: &[&str]| success(words, &muster_as(&cluster.kubeconfig(), words));
    let explain = ["explain", "jobs-kueue/train"];
    let unsaid = "Kueue has not admitted it to its queue main";
    for text in [listed(), said(&explain)] {
        assert!(text.contains(unsaid), "{text}");
    }
    let condition = json!({"type": "QuotaReserved", "status": "False", "reason": "Pending",
        "message": "insufficient unused quota for nvidia.com/gpu", "lastTransitionTime": "2026-11-26T10:00:00Z"});
    let patch = json!({"status": {"conditions": [condition]}}).to_string();
    let words = [
        "patch",
        "workloads.kueue.x-k8s.io",
        "job-train",
        "--type=merge",
        "--subresource=status",
        "--patch",
        &patch,
    ];
    cluster.kubectl(&[&words[..], &["--namespace", namespace.name()]].concat());
    for text in [listed(), said(&explain), said(&["show", "jobs-kueue/train"])] {
        assert!(text.contains("insufficient unused quota"), "{text}");
        assert!(!text.contains("muster.run/queue"), "{text}");
    }
    cluster.kubectl(&["delete", "customresourcedefinition", "workloads.kueue.x-k8s.io"]);
}

#[test]
#[ignore = "needs a Kubernetes cluster: cargo xtask kubernetes test"]
fn missing_rights_are_named() {
    let cluster = KubernetesCluster::here();
    let namespace = cluster.namespace("jobs-rights");
    let other = cluster.namespace("jobs-rights-other");
    let words = ["kubeconfig", "jobs-rights/default"];
    let user = file_of(&success(&words, &cluster.xtask(&words)));
    let user = user.path().join("kubeconfig");
    let file = user.to_str().unwrap();
    let words =
        ["config", "set-context", "--current", "--namespace=jobs-rights", "--kubeconfig", file];
    cluster.kubectl(&words);
    let run = ["run", "--dry-run", "--", "true"];
    // 1. Without any right.
    check_failure(
        &muster_as(&user, &run),
        1,
        "cannot create resource \"jobs\" in API group \"batch\"",
    );
    check_failure(&muster_as(&user, &["ps"]), 1, "cannot list resource \"");
    // What was refused does not exist, and is not said to remain.
    let refused = muster_as(&user, &["run", "--", "true"]);
    check_failure(&refused, 1, "cannot create resource \"");
    let said = String::from_utf8_lossy(&refused.stderr);
    assert!(!said.contains("may remain"), "{said}");
    // 2. With those of a namespace: its jobs alone are listed.
    let words = [
        "create",
        "rolebinding",
        "edit",
        "--clusterrole=edit",
        "--serviceaccount=jobs-rights:default",
        "--namespace=jobs-rights",
    ];
    cluster.kubectl(&words);
    until("the right has effect", || muster_as(&user, &run).status.success());
    let object = json!({
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "own"},
        "spec": {"suspend": true, "template": {"spec": pod_spec("muster", 1)}},
    });
    namespace.create_object(&object);
    other.create_object(&object);
    let listed = success(&["ps"], &muster_as(&user, &["ps", "--all", "--json"]));
    let listed: Value = serde_json::from_str(&listed).unwrap();
    let names: Vec<&Value> =
        listed["jobs"].as_array().unwrap().iter().map(|job| &job["native"]["name"]).collect();
    assert_eq!(names, [&json!("own")]);
    // 3. Credentials that have expired, and a server that does not answer.
    let text = fs::read_to_string(&user).unwrap();
    let expired = file_of(&with_value(&text, "token: ", "expired"));
    let expired = expired.path().join("kubeconfig");
    check_failure(&muster_as(&expired, &["ps"]), 1, "does not accept your credentials");
    let nowhere = file_of(&with_value(&text, "server: ", "https://127.0.0.1:1"));
    let nowhere = nowhere.path().join("kubeconfig");
    for words in [&["ps"][..], &run, &["logs", "true"]] {
        check_failure(&muster_as(&nowhere, words), 5, "the Kubernetes API server does not answer");
    }
}

/// Proxy that forwards to the API server, but cuts one connection after so many messages of the
/// client, once the server has answered the last of them.
struct CuttingProxy {
    port: u16,
    /// Messages until the cut; 0 for none any more.
    left: Arc<AtomicUsize>,
}

impl CuttingProxy {
    fn start(server: String, messages: usize) -> Self {
        // At the address for which the server has a certificate.
        let (host, _) = server.split_once(':').unwrap();
        let listener = TcpListener::bind((host, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let left = Arc::new(AtomicUsize::new(messages));
        let proxy = Self { port, left: Arc::clone(&left) };
        // It ends with the test process.
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let server = TcpStream::connect(&server).unwrap();
                let left = Arc::clone(&left);
                std::thread::spawn(move || forward(client, server, &left));
            }
        });
        proxy
    }

    fn has_cut(&self) -> bool {
        self.left.load(Ordering::Relaxed) == 0
    }
}

/// Forwards both ways until an end, or the cut.
fn forward(client: TcpStream, server: TcpStream, left: &AtomicUsize) {
    let mut from_server = server.try_clone().unwrap();
    let mut to_client = client.try_clone().unwrap();
    let is_cut = Arc::new(AtomicUsize::new(0));
    let answers_end = Arc::clone(&is_cut);
    let answers = std::thread::spawn(move || {
        let mut chunk = [0; 64 << 10];
        while let Ok(length @ 1..) = from_server.read(&mut chunk) {
            // The answer to the last message is lost.
            if answers_end.load(Ordering::Relaxed) == 1
                || to_client.write_all(&chunk[..length]).is_err()
            {
                break;
            }
        }
        // Errors mean that the other side has closed it already.
        let _ = (
            to_client.shutdown(std::net::Shutdown::Both),
            from_server.shutdown(std::net::Shutdown::Both),
        );
    });
    let mut from_client = client;
    let mut to_server = server;
    let mut chunk = [0; 64 << 10];
    while let Ok(length @ 1..) = from_client.read(&mut chunk) {
        let before =
            left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1));
        if before == Ok(1) {
            is_cut.store(1, Ordering::Relaxed);
        }
        if to_server.write_all(&chunk[..length]).is_err() {
            break;
        }
    }
    let _ = to_server.shutdown(std::net::Shutdown::Both);
    answers.join().unwrap();
}

#[test]
#[ignore = "needs a Kubernetes cluster: cargo xtask kubernetes test"]
fn a_connection_that_is_cut_anywhere_doubles_nothing() {
    let cluster = KubernetesCluster::here();
    let namespace = cluster.namespace("jobs-cut");
    let text = fs::read_to_string(cluster.kubeconfig()).unwrap();
    let (_, server) = text.split_once("https://").unwrap();
    let server = &server[..server.find('"').unwrap()];
    let (host, _) = server.split_once(':').unwrap();
    let job = "name: cut\nnodes: 2\nrun: 'true'\nkubernetes: {namespace: jobs-cut, image: none}\n";
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("cut.yaml");
    fs::write(&file, job).unwrap();
    let mut kept = 0;
    for messages in 1.. {
        let proxy = CuttingProxy::start(server.to_owned(), messages);
        let address = format!("https://{host}:{}", proxy.port);
        let kubeconfig = file_of(&with_value(&text, "server: ", &address));
        let output =
            muster_as(&kubeconfig.path().join("kubeconfig"), &["run", file.to_str().unwrap()]);
        // Accepted: one job more; refused: none.
        kept += usize::from(output.status.success());
        let counted =
            ["jobs", "services"].map(|kind| namespace.objects(kind, "muster.run/job").len());
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(counted, [kept, kept], "cut after {messages} messages: {said}");
        if !proxy.has_cut() {
            assert!(output.status.success(), "{said}");
            break;
        }
    }
    // A job is two objects and a link between them: at least these requests were cut.
    assert!(kept >= 4, "{kept}");
}

#[test]
#[ignore = "needs a Kubernetes cluster: cargo xtask kubernetes test"]
fn one_list_has_the_jobs_of_several_clusters() {
    let cluster = KubernetesCluster::here();
    let namespace = cluster.namespace("jobs-several");
    namespace.create_object(&json!({
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "there"},
        "spec": {"suspend": true, "template": {"spec": pod_spec("default-scheduler", 1)}},
    }));
    let home = tempfile::tempdir().unwrap();
    let muster = |words: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_muster"));
        command.args(words).env("KUBECONFIG", cluster.kubeconfig()).env("HOME", home.path());
        command.env("MUSTER_HOME", home.path().join("muster")).env("NO_COLOR", "1");
        command.output().unwrap()
    };
    let words = ["run", "--virtual-gpus", "1", "--name", "here", "--", "sleep", "600"];
    success(&words, &muster(&words));
    let both = ["ps", "--on", "local,kubernetes"];
    let listed = success(&both, &muster(&both));
    let line = |name: &str| {
        let mut lines = listed.lines().filter(|line| line.contains(name));
        lines.next().unwrap_or_else(|| panic!("{listed}")).to_owned()
    };
    assert!(line(" here ").starts_with("local"), "{listed}");
    assert!(line(" there ").starts_with("kubernetes"), "{listed}");
    // Subcommands on one job need one cluster.
    check_failure(&muster(&["show", "1", "--on", "local,kubernetes"]), 2, "on one cluster");
    check_failure(&muster(&["ps", "--on", "local,slurm@login"]), 2, "stands alone");
    // Without one of them, the list is that of the others.
    success(&["stop-daemon"], &muster(&["stop-daemon"]));
    let alone = muster(&both);
    check_failure(&alone, 3, "warning: local: no daemon is running");
    assert!(String::from_utf8_lossy(&alone.stdout).contains("there"));
}
