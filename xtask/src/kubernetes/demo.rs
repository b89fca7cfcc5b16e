//! `cargo xtask kubernetes demo`: two gangs of five pods on one node of eight GPUs, first with
//! kube-scheduler, which starts a part of each, then with Muster, which starts one whole and then
//! the other.

use std::fs::{self, File};
use std::path::Path;
use std::process::{Child, ExitCode, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use super::cluster::KubernetesTestCluster;
use super::{kubeconfig, probe};
use crate::binaries;
use crate::test_cluster::process;
use crate::test_cluster::temporary::{self, TemporaryCluster};
use crate::test_cluster::{command, process::Signal};

const OPTIONS: [&str; 2] = ["--fake-nodes", "1"];
const NAMESPACE: &str = "gangs-demo";
/// Pods of each gang, of one GPU each.
const SIZE: usize = 5;
const PATIENCE: Duration = Duration::from_secs(60);
/// Account of the scheduler in the manifests of `muster init kubernetes`.
const ACCOUNT: &str = "muster-system/muster-scheduler";

/// Shows both schedulers in the running cluster at `dir`, or in one of its own. `muster` is the
/// program; without it, it is built.
pub fn run(root: &Path, dir: Option<&Path>, muster: Option<&Path>) -> Result<ExitCode> {
    if let Some(obstacle) = probe::obstacle(root).filter(|_| dir.is_none()) {
        bail!("no Kubernetes cluster can run here: {obstacle}");
    }
    let muster = match muster {
        Some(path) => path.to_owned(),
        None => binaries::program(root, "muster")?,
    };
    let own = temporary::dir("kubernetes", 0);
    let running = match dir {
        None => {
            println!("starting Kubernetes with one node of 8 GPUs");
            Some(TemporaryCluster::start("kubernetes", &own, &OPTIONS)?)
        }
        Some(_) => None,
    };
    let cluster = KubernetesTestCluster::at(dir.unwrap_or(&own))?;
    cluster.require_up()?;
    let demo = Demo { cluster: &cluster };
    let result = demo.show(&muster);
    // The node must be free for whoever uses the cluster next; a namespace takes its time.
    let now = ["delete", "pods", "--all", "--force", "--grace-period=0", "--namespace", NAMESPACE];
    demo.kubectl(&now)?;
    demo.kubectl(&["delete", "namespace", NAMESPACE, "--ignore-not-found", "--wait=false"])?;
    drop(running);
    result.map(|()| ExitCode::SUCCESS)
}

struct Demo<'a> {
    cluster: &'a KubernetesTestCluster,
}

impl Demo<'_> {
    fn show(&self, muster: &Path) -> Result<()> {
        self.kubectl(&["create", "namespace", NAMESPACE])?;
        let account = "serviceaccount/default";
        self.kubectl(&["wait", "--for=create", account, "--timeout=60s", "-n", NAMESPACE])?;

        println!("\ntwo gangs of {SIZE} pods with one GPU each, created in turns, kube-scheduler:");
        self.create("default-scheduler")?;
        self.until("all GPUs are taken", |pods| pods.bound("a") + pods.bound("b") == 8)?;
        self.print()?;
        println!("  neither is whole, and neither lets go: 8 GPUs are held, none is used");
        self.delete("")?;

        println!("\nthe same pods with `schedulerName: muster`:");
        let scheduler = self.start(muster)?;
        self.create("muster")?;
        self.until("gang a is whole", |pods| pods.bound("a") == SIZE)?;
        self.until("gang b says why it waits", |pods| pods.reason("b").contains("free"))?;
        self.print()?;
        println!("\ngang a ends:");
        let ended = Instant::now();
        self.delete("gang=a")?;
        self.until("gang b is whole", |pods| pods.bound("b") == SIZE)?;
        let waited = ended.elapsed();
        self.print()?;
        println!("  whole {:.1} s after the deletion of a was requested", waited.as_secs_f32());
        drop(scheduler);
        Ok(())
    }

    fn kubectl(&self, words: &[&str]) -> Result<String> {
        self.cluster.run(&[&["kubectl"], words].concat())
    }

    /// Creates the pods of both gangs in turns.
    fn create(&self, scheduler: &str) -> Result<()> {
        let pods = (0..SIZE).flat_map(|index| ["a", "b"].map(|gang| pod(gang, index, scheduler)));
        let list = json!({"apiVersion": "v1", "kind": "List", "items": pods.collect::<Vec<_>>()});
        let words = ["kubectl", "create", "--filename=-", "--namespace", NAMESPACE];
        command::with_input(self.cluster.inside(), &words, &list.to_string()).map(drop)
    }

    fn delete(&self, selector: &str) -> Result<()> {
        let selector = format!("--selector={selector}");
        let all = if selector.ends_with('=') { "--all" } else { &selector };
        self.kubectl(&["delete", "pods", all, "--namespace", NAMESPACE]).map(drop)
    }

    fn pods(&self) -> Result<Pods> {
        let text = self.kubectl(&["get", "pods", "--output=json", "--namespace", NAMESPACE])?;
        let list: Value = serde_json::from_str(&text)?;
        Ok(Pods(list["items"].as_array().cloned().unwrap_or_default()))
    }

    fn until(&self, what: &str, holds: impl Fn(&Pods) -> bool) -> Result<()> {
        let start = Instant::now();
        while !holds(&self.pods()?) {
            if start.elapsed() > PATIENCE {
                bail!("never: {what}");
            }
        }
        Ok(())
    }

    /// Prints each gang, and why it waits.
    fn print(&self) -> Result<()> {
        let pods = self.pods()?;
        for gang in ["a", "b"] {
            if pods.of(gang).count() == 0 {
                continue;
            }
            let bound = pods.bound(gang);
            let bar = "■".repeat(bound) + &"□".repeat(SIZE - bound);
            let reason = if bound < SIZE { pods.reason(gang) } else { String::new() };
            println!("  gang {gang}  {bar}  {bound} of {SIZE} pods have a GPU  {reason}");
        }
        Ok(())
    }

    /// Installs the rights that `muster init kubernetes` prints, and starts the scheduler with them.
    fn start(&self, muster: &Path) -> Result<Scheduler> {
        let manifests = command::outside(&[
            muster.as_os_str(),
            "init".as_ref(),
            "kubernetes".as_ref(),
            "--image".as_ref(),
            "none".as_ref(),
        ])?;
        let is_deployment = |document: &&str| document.contains("kind: Deployment");
        let manifests: Vec<&str> =
            manifests.split("---\n").filter(|document| !is_deployment(document)).collect();
        let words = ["kubectl", "apply", "--filename=-"];
        command::with_input(self.cluster.inside(), &words, &manifests.join("---\n"))?;
        let path = self.cluster.dir().join("etc/muster-demo.kubeconfig");
        kubeconfig::write(&path, &kubeconfig::of_service_account(self.cluster, ACCOUNT)?)?;
        let mut command = self.cluster.inside();
        command.arg(muster).arg("scheduler").env("KUBECONFIG", &path).stdin(Stdio::null());
        let log = self.cluster.log("muster-demo");
        command.stderr(File::create(&log)?);
        let mut scheduler = Scheduler(command.spawn().context("cannot start muster scheduler")?);
        let start = Instant::now();
        while !fs::read_to_string(&log)?.contains("the cluster is listed") {
            if scheduler.0.try_wait()?.is_some() || start.elapsed() > PATIENCE {
                bail!("muster scheduler does not work:\n{}", fs::read_to_string(&log)?);
            }
        }
        Ok(scheduler)
    }
}

/// The running scheduler; stopped when dropped, and its lease given back.
struct Scheduler(Child);

impl Drop for Scheduler {
    fn drop(&mut self) {
        // It may have ended by itself, which was reported then.
        let _ = process::signal(self.0.id(), Signal::Term);
        let _ = self.0.wait();
    }
}

struct Pods(Vec<Value>);

impl Pods {
    fn of<'a>(&'a self, gang: &'a str) -> impl Iterator<Item = &'a Value> {
        self.0.iter().filter(move |pod| pod["metadata"]["labels"]["gang"] == gang)
    }

    /// Returns the number of pods of a gang that have a node.
    fn bound(&self, gang: &str) -> usize {
        self.of(gang).filter(|pod| pod["spec"]["nodeName"].is_string()).count()
    }

    /// Returns why a pod of a gang has no node; empty if it does not say.
    fn reason(&self, gang: &str) -> String {
        let conditions = self.of(gang).flat_map(|pod| pod["status"]["conditions"].as_array());
        let mut refused = conditions.flatten().filter(|one| one["status"] == "False");
        let message = refused.find_map(|one| one["message"].as_str());
        message.unwrap_or_default().to_owned()
    }
}

fn pod(gang: &str, index: usize, scheduler: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": format!("{gang}-{index}"),
            "labels": {"gang": gang, "muster.run/gang": gang},
            "annotations": {"muster.run/gang-size": SIZE.to_string()},
        },
        "spec": {
            "schedulerName": scheduler,
            "nodeSelector": {"kubernetes.io/hostname": "node1"},
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 0,
            "containers": [{
                "name": "main",
                "image": "none",
                "resources": {"limits": {"nvidia.com/gpu": 1}},
            }],
        },
    })
}
