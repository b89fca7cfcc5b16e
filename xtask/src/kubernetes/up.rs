//! Starts a cluster, its programs in the order of their dependencies, or checks the running one. After a
//! failure the started programs are stopped and the ends of the logs shown.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::Instant;

use anyhow::{Result, bail};

use super::certificates::{self, FAKE_KUBELET};
use super::cluster::{API_ADDRESS, API_PORT, KubernetesTestCluster};
use super::daemon::KubernetesDaemon;
use super::options::ClusterOptions;
use super::{audit, binary, dns, down, nodes, probe, ready};
use crate::test_cluster::folder;

/// Configuration of kube-scheduler: the default, without its limits on requests.
const SCHEDULER: &str = include_str!("conf/scheduler.yaml");

/// Starts the cluster, or checks it if it runs.
pub fn run(root: &Path, cluster: &KubernetesTestCluster, options: &ClusterOptions) -> Result<()> {
    if cluster.namespace().inode().is_some() {
        return check(cluster);
    }
    let of_nodes = || if options.are_nodes_real { probe::real_nodes() } else { None };
    if let Some(obstacle) = probe::obstacle(root).or_else(of_nodes) {
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
    if let Some(account) = &options.audited {
        audit::write_policy(cluster, account)?;
    }
    let facts = format!(
        "dir: {}\nnamespace: {}\napi: https://{API_ADDRESS}:{API_PORT}\nkubeconfig: {}\n{}",
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
    for daemon in KubernetesDaemon::CONTROL_PLANE {
        daemon.start(cluster)?;
        // The last two start beside each other, and beside the nodes.
        if matches!(daemon, KubernetesDaemon::Etcd | KubernetesDaemon::ApiServer) {
            ready::wait_for(cluster, daemon)?;
        }
    }
    if cluster.options()?.are_nodes_real {
        nodes::create(cluster)?;
        dns::create(cluster)?;
        // It starts while the nodes do; no pod runs yet.
        KubernetesDaemon::CoreDns.start(cluster)?;
        nodes::start_all(cluster)?;
    } else {
        bind_node_role(cluster)?;
        KubernetesDaemon::FakeKubelet.start(cluster)?;
    }
    KubernetesDaemon::all(&cluster.options()?)
        .into_iter()
        .try_for_each(|daemon| ready::wait_for(cluster, daemon))
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
    for daemon in KubernetesDaemon::all(&cluster.options()?) {
        let name = daemon.name();
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
