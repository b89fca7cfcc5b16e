//! The controller of JobSets of the Kubernetes project, with its webhooks: a program of the cluster that `start jobset`
//! starts, since clusters without it are tested, too. This does not build it; see `binary`.

use std::fs;
use std::time::Duration;

use anyhow::{Context, Result};

use super::cluster::KubernetesTestCluster;
use super::webhooks;
use crate::test_cluster::{command, process};

/// Name of the program.
pub const PROGRAM: &str = "jobset";

/// Module and main package.
pub const MODULE: &str = "sigs.k8s.io/jobset";

/// File beside the program with the objects that it needs.
pub const OBJECTS: &str = "jobset.yaml";

/// Paths in the module of these objects: the definition, and a folder for kustomize with the webhooks.
pub const SOURCES: [&str; 2] =
    ["config/components/crd/bases/jobset.x-k8s.io_jobsets.yaml", "config/components/webhook"];

/// Configuration of the program, which has its certificate from the cluster.
const CONFIGURATION: &str = include_str!("conf/jobset.yaml");

/// Timeout until the API server serves JobSets; normally less than a second.
const SERVED: Duration = Duration::from_secs(60);

/// Port of its webhooks.
const WEBHOOK_PORT: u16 = 9443;

/// Returns the objects from the text of the definition and that of the webhooks, which has a Service besides.
pub fn objects_of(definition: &str, webhooks: &str) -> String {
    let is_used = |document: &&str| !document.contains("\nkind: Service\n");
    let mut documents = vec![definition];
    documents.extend(webhooks.split("---\n").filter(is_used));
    documents.join("---\n")
}

/// Creates the definition of JobSets and the webhooks in the cluster, and writes the configuration.
pub fn install(cluster: &KubernetesTestCluster) -> Result<()> {
    let pki = cluster.dir().join("pki");
    let certificates = cluster.dir().join("etc").join(PROGRAM);
    fs::create_dir_all(&certificates)?;
    for (from, to) in [("server.crt", "tls.crt"), ("server.key", "tls.key")] {
        fs::copy(pki.join(from), certificates.join(to))?;
    }
    let configuration = CONFIGURATION.replace("{dir}", cluster.text());
    fs::write(cluster.dir().join("etc/jobset.yaml"), configuration)?;
    let objects = webhooks::at_port(cluster, &objects(cluster)?, WEBHOOK_PORT)?;
    let words = ["kubectl", "apply", "--server-side", "--filename=-"];
    command::with_input(cluster.inside(), &words, &objects)?;
    // `kubectl wait` fails on a definition that has no conditions yet.
    let words = ["kubectl", "get", "jobsets.jobset.x-k8s.io", "--all-namespaces"];
    process::wait("the definition of JobSets", SERVED, || cluster.run(&words).is_ok())
}

/// Deletes the objects, and all JobSets. A webhook whose program has ended refuses pods.
pub fn remove(cluster: &KubernetesTestCluster) -> Result<()> {
    let words = ["kubectl", "delete", "--ignore-not-found", "--filename=-"];
    command::with_input(cluster.inside(), &words, &objects(cluster)?).map(drop)
}

fn objects(cluster: &KubernetesTestCluster) -> Result<String> {
    let path = cluster.bin().join(OBJECTS);
    fs::read_to_string(&path).with_context(|| path.display().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_service_of_the_webhooks_is_left_out() {
        let objects = objects_of("kind: B\n", "kind: A\n---\na: b\nkind: Service\n");
        assert_eq!(objects, "kind: B\n---\nkind: A\n");
    }
}
