//! Starts a cluster, its programs in the order of their dependencies, or checks the running one. After a
//! failure the started programs are stopped and the ends of the logs shown.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::Instant;

use anyhow::{Result, bail};

use super::certificates::{self, FAKE_KUBELET};
use super::cluster::{API_ADDRESS, KubernetesTestCluster};
use super::daemon::KubernetesDaemon;
use super::options::ClusterOptions;
use super::{binary, down, probe, ready};
use crate::test_cluster::folder;

/// Configuration of kube-scheduler: the default, without its limits on requests.
const SCHEDULER: &str = include_str!("conf/scheduler.yaml");

/// Starts the cluster, or checks it if it runs.
pub fn run(root: &Path, cluster: &KubernetesTestCluster, options: &ClusterOptions) -> Result<()> {
    if cluster.namespace().inode().is_some() {
        return check(cluster);
    }
    if let Some(obstacle) = probe::obstacle(root) {
        bail!("no Kubernetes cluster can run here: {obstacle}");
    }
    let programs = binary::ensure(root)?;
    let start = Instant::now();
    prepare(cluster, options, &programs)?;
    if let Err(error) = start_all(cluster) {
        folder::print_log_tails(&cluster.dir().join("log"));
        down::run(cluster)?;
        return Err(error);
    }
    println!("cluster ready in {:.1} s", start.elapsed().as_secs_f32());
    print!("{}", fs::read_to_string(cluster.facts())?);
    println!("hint: cargo xtask kubernetes shell {} -- kubectl get nodes", cluster.text());
    Ok(())
}

/// Writes the files into an empty folder, or into that of a cluster that is down, which is cleared
/// first.
fn prepare(
    cluster: &KubernetesTestCluster,
    options: &ClusterOptions,
    programs: &Path,
) -> Result<()> {
    folder::clear(cluster.dir(), &cluster.facts())?;
    for name in ["etc", "run", "log"] {
        fs::create_dir_all(cluster.dir().join(name))?;
    }
    symlink(programs, cluster.bin())?;
    let scheduler = SCHEDULER.replace("{dir}", cluster.text());
    fs::write(cluster.dir().join("etc/scheduler.yaml"), scheduler)?;
    let facts = format!(
        "dir: {}\nnamespace: {}\napi: https://{API_ADDRESS}:6443\nkubeconfig: {}\n{}",
        cluster.text(),
        cluster.namespace().name(),
        cluster.kubeconfig().display(),
        options.lines()
    );
    fs::write(cluster.facts(), facts)?;
    Ok(())
}

fn start_all(cluster: &KubernetesTestCluster) -> Result<()> {
    cluster.namespace().create(&format!("{API_ADDRESS}/32"))?;
    certificates::write(cluster)?;
    for daemon in KubernetesDaemon::ALL {
        daemon.start(cluster)?;
        match daemon {
            KubernetesDaemon::Etcd => ready::wait_for(cluster, daemon)?,
            KubernetesDaemon::ApiServer => {
                ready::wait_for(cluster, daemon)?;
                bind_node_role(cluster)?;
            }
            KubernetesDaemon::ControllerManager
            | KubernetesDaemon::Scheduler
            | KubernetesDaemon::FakeKubelet => {}
        }
    }
    // These start beside each other.
    for daemon in &KubernetesDaemon::ALL[2..] {
        ready::wait_for(cluster, *daemon)?;
    }
    Ok(())
}

/// Gives the fake kubelet the rights of a kubelet, for all nodes.
fn bind_node_role(cluster: &KubernetesTestCluster) -> Result<()> {
    let role = "--clusterrole=system:node";
    let user = format!("--user={FAKE_KUBELET}");
    cluster.run(&["kubectl", "create", "clusterrolebinding", FAKE_KUBELET, role, &user])?;
    Ok(())
}

/// Fails unless every program of the running cluster works.
fn check(cluster: &KubernetesTestCluster) -> Result<()> {
    let dir = cluster.text();
    for daemon in KubernetesDaemon::ALL {
        let name = daemon.program();
        if daemon.pid(cluster).is_none() {
            bail!(
                "running, but without {name}\nhint: cargo xtask kubernetes start {name} {dir}, or kubernetes down {dir}"
            );
        }
        ready::wait_for(cluster, daemon)?;
    }
    println!("already running: all programs work");
    Ok(())
}
