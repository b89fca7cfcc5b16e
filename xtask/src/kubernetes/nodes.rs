//! Starts and ends real nodes as a whole: like switching a machine on, or pulling its plug.

use std::path::Path;

use anyhow::Result;

use super::cluster::KubernetesTestCluster;
use super::daemon::KubernetesDaemon;
use super::node::programs::NodeProgram;
use super::node::{RealNode, cgroups, files, images, network};
use super::ready;
use crate::test_cluster::process;
use crate::test_cluster::{command, folder};

/// Creates the network, files and cgroups of all nodes.
pub fn create(cluster: &KubernetesTestCluster) -> Result<()> {
    network::create_bridge(cluster)?;
    images::write(cluster)?;
    for node in all(cluster)? {
        files::write(cluster, node)?;
        network::connect(cluster, node)?;
        cgroups::create(cluster, node)?;
    }
    Ok(())
}

/// Returns the real nodes of the cluster.
pub fn all(cluster: &KubernetesTestCluster) -> Result<Vec<RealNode>> {
    let options = cluster.options()?;
    let count = if options.are_nodes_real { options.nodes } else { 0 };
    Ok((1..=count).map(|number| RealNode { number }).collect())
}

/// Starts all nodes beside each other.
pub fn start_all(cluster: &KubernetesTestCluster) -> Result<()> {
    let nodes = all(cluster)?;
    std::thread::scope(|scope| {
        let start = |node: &RealNode| {
            let node = *node;
            scope.spawn(move || start(cluster, node))
        };
        let threads: Vec<_> = nodes.iter().map(start).collect();
        threads.into_iter().try_for_each(|thread| thread.join().expect("a start panics nowhere"))
    })
}

/// Starts the programs of a node, and waits until it accepts pods.
pub fn start(cluster: &KubernetesTestCluster, node: RealNode) -> Result<()> {
    for daemon in KubernetesDaemon::of_node(node) {
        daemon.start(cluster)?;
        ready::wait_for(cluster, daemon)?;
        if matches!(daemon, KubernetesDaemon::Node(NodeProgram::Containerd, _)) {
            import_images(cluster, node, &images::archive(cluster))?;
        }
    }
    ready::wait_for_node(cluster, &node.name())
}

/// Makes an image of a program, and of a folder that it needs, and gives it to all nodes.
pub fn add_image(
    cluster: &KubernetesTestCluster,
    name: &str,
    program: &Path,
    with: Option<&Path>,
) -> Result<()> {
    add_archive(cluster, &images::write_of_program(cluster, name, program, with)?)
}

/// Gives the images of an archive to all nodes.
pub fn add_archive(cluster: &KubernetesTestCluster, archive: &Path) -> Result<()> {
    all(cluster)?.into_iter().try_for_each(|node| import_images(cluster, node, archive))
}

fn import_images(cluster: &KubernetesTestCluster, node: RealNode, archive: &Path) -> Result<()> {
    let socket = node.dir(cluster).join("ctd.sock").display().to_string();
    let archive = archive.display().to_string();
    let prefix = KubernetesDaemon::Node(NodeProgram::Containerd, node).prefix(cluster)?;
    let ctr = ["ctr", "--address", &socket, "--namespace", "k8s.io"];
    command::slow_under(prefix, &[&ctr[..], &["images", "import", &archive]].concat()).map(drop)
}

/// Kills all processes of a node, those of its pods too.
pub fn kill(cluster: &KubernetesTestCluster, node: RealNode) -> Result<()> {
    // Programs first, so that nothing is started again.
    if let Some(namespace) = node.namespace(cluster).inode() {
        process::kill_in_namespace(namespace)?;
    }
    cgroups::kill(cluster, node)?;
    // Lost when the power goes.
    let dir = node.dir(cluster);
    ["state", "run", "netns"].iter().try_for_each(|name| folder::empty(&dir.join(name)))
}

/// Kills a node and removes what is not in its folder.
pub fn remove(cluster: &KubernetesTestCluster, node: RealNode) -> Result<()> {
    kill(cluster, node)?;
    cgroups::remove(cluster, node);
    let namespace = node.namespace(cluster);
    if namespace.inode().is_some() { namespace.delete() } else { Ok(()) }
}
