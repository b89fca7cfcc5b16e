//! A scheduler or operator of another project as a program of a test cluster: its webhooks and controllers, too, so that it
//! runs jobs of users.

use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};

use super::{Peer, apply, ray_image};
use crate::kubernetes::cluster::KubernetesTestCluster;
use crate::kubernetes::daemon::KubernetesDaemon;
use crate::kubernetes::node::RealNode;
use crate::kubernetes::node::programs::NodeProgram;
use crate::kubernetes::webhooks;
use crate::test_cluster::{detached, process};

/// Timeout until all programs work; normally some seconds.
const WORKS: Duration = Duration::from_secs(120);

impl Peer {
    /// Starts all of its programs in a running cluster, where they stay until its end, and waits until they work.
    pub fn start(&self, root: &Path, cluster: &KubernetesTestCluster) -> Result<()> {
        let commands: Vec<&str> = self.commands.iter().chain(self.controllers).copied().collect();
        let all = self.prepare(root, cluster, &commands)?;
        if self.adds_claimed_gpus {
            end_drivers(cluster)?;
        }
        for ((_, program), words) in self.source.programs.iter().zip(&all) {
            let log = cluster.log(program);
            detached::start(
                cluster.inside(),
                words,
                cluster.dir(),
                &cluster.pid_file(program),
                &log,
            )?;
        }
        process::wait(self.name, WORKS, || {
            let mut addresses = self.health.iter();
            addresses.all(|address| cluster.run(&["curl", "--silent", "--fail", address]).is_ok())
        })?;
        if self.runs_ray {
            ray_image::add(root, cluster)?;
        }
        self.register_webhooks(root, cluster)
    }

    /// Registers its webhooks, if it has some.
    fn register_webhooks(&self, root: &Path, cluster: &KubernetesTestCluster) -> Result<()> {
        let Some((manifest, port)) = self.webhooks else { return Ok(()) };
        let path = self.source.module.download(root)?.join(manifest);
        let manifest = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        apply(cluster, &["--filename=-"], &webhooks::at_port(cluster, &manifest, port)?)
    }
}

/// Ends the drivers that offer the GPUs by claims, and deletes what they have offered.
fn end_drivers(cluster: &KubernetesTestCluster) -> Result<()> {
    let options = cluster.options()?;
    for number in (1..=options.nodes).filter(|_| options.are_nodes_real) {
        let driver = KubernetesDaemon::Node(NodeProgram::FakeDriver, RealNode { number });
        driver.end(cluster, process::Signal::Term)?;
    }
    cluster.run(&["kubectl", "delete", "resourceslices", "--all"]).map(drop)
}
