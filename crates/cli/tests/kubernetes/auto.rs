//! `--on auto` with a real API server as one of the clusters of the site file.

use std::fs;
use std::process::{Command, Output};

use serde_json::Value;

use crate::cluster::{KubernetesCluster, success};
use crate::explain::{check_failure, with_value};

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
