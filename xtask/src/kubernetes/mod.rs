//! `cargo xtask kubernetes`: a real Kubernetes control plane on one machine, for tests and manual use, with
//! many fake nodes or a few real ones. It is built from Go modules, runs in a network namespace of its own, and cleans up after
//! itself. It is independent of Muster; the tests that use it are in `crates/cli/tests/kubernetes/`.

mod audit;
mod bench;
mod binary;
mod certificates;
mod cluster;
mod daemon;
mod demo;
mod dns;
mod down;
mod job_set;
mod kubeconfig;
mod node;
mod nodes;
mod options;
mod peers;
mod probe;
mod ready;
pub mod test;
mod up;
mod webhooks;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};

use crate::test_cluster::process::Signal;
use bench::BenchOptions;
use cluster::KubernetesTestCluster;
use daemon::KubernetesDaemon;
use node::RealNode;
use options::ClusterOptions;
use test::TestOptions;

const USAGE: &str = "\
usage: cargo xtask kubernetes <command>

  build                          build the binary with all programs of a cluster, unless it is there: target/kubernetes-bin/HASH
  up [DIR] [OPTION…]             start a cluster with its files in DIR (default target/kubernetes), or check the running one
      --fake-nodes N             number of nodes (default 8); nothing runs on them, but their pods run and end as annotated
      --nodes N                  number of real nodes instead, at most 16, each with kubelet, containerd and pods' processes
      --gpus G                   number of GPUs of each node (default 8)
      --gate NAME                enable a feature gate in all programs, and the APIs that are off by default; repeatable
      --audit NAMESPACE/NAME     record the requests of a service account in log/audit.log
  status [DIR]                   show the running programs and the facts of the cluster
  down [DIR]                     stop the cluster
  start|stop|kill NAME [DIR]     control one program: etcd, kube-apiserver, kube-controller-manager, kube-scheduler,
                                 fake-kubelet; coredns, kubelet-node1, containerd-node1, fake-gpus-node1 and so on of real nodes;
                                 or a whole node, node1 to nodeN: a real one loses all its processes; jobset, the controller
                                 of JobSets, which `up` does not start. `start` also takes volcano, kueue, kai or kuberay,
                                 which is built first and runs until `down`; kuberay gives real nodes an image of Ray
  shell [DIR] [-- COMMAND…]      run a command (default $SHELL) in which kubectl uses the cluster, as its administrator
  kubeconfig NAMESPACE/NAME [DIR]
                                 print a kubeconfig of a service account, which has only the rights of its roles
  image NAME PROGRAM [--with FOLDER] [DIR]
                                 make an image of a program of this machine with its libraries, and a folder of the machine
                                 at its own path, and give it to all real nodes
  test [FILTER]                  start a cluster, run the tests that need it, and stop it
  test --peers[=NAME,…] [FILTER] run the tests of jobs with volcano, kueue, kai and kuberay, each in a cluster of its own
  demo [DIR] [MUSTER]            show two gangs on eight GPUs, first with kube-scheduler, then with Muster, in a cluster of
                                 its own, or in the running one at DIR with the program MUSTER
  bench [DIR] [--quick] [--peers[=NAME,…]]
                                 measure how fast schedulers place pods on 1,000 fake nodes, in a cluster of its own, or
                                 in the running one at DIR, whose scheduler and fake kubelet it stops; with --peers also
                                 volcano, kueue and kai, which are built first: some 500 s of CPU each

Annotations of pods on fake nodes:
  fake-kubelet/run-seconds       time after which the containers exit (never, if it is absent or restartPolicy restarts them)
  fake-kubelet/exit-code         their exit code, 0 by default
  fake-kubelet/stop-seconds      time that they take to stop when the pod is deleted, 0 by default
A Node object with the label fake-kubelet/managed=true is a fake node, whoever creates it.
";

/// Runs one command line after `cargo xtask kubernetes`.
pub fn run(root: &Path, args: &[&str]) -> Result<ExitCode> {
    let at = |rest: &[&str]| {
        let dir = rest.first().map_or_else(|| target(root).join("kubernetes"), PathBuf::from);
        KubernetesTestCluster::at(&dir)
    };
    match args {
        ["build"] => println!("{}", binary::ensure(root)?.display()),
        ["up", rest @ ..] => {
            let is_dir = rest.first().is_some_and(|word| !word.starts_with("--"));
            let (dir, words) = rest.split_at(usize::from(is_dir));
            up::run(root, &at(dir)?, &ClusterOptions::parse(words)?)?;
        }
        ["status", rest @ ..] if rest.len() < 2 => return status(&at(rest)?),
        ["down", rest @ ..] if rest.len() < 2 => down::run(&at(rest)?)?,
        ["start", name, rest @ ..] if rest.len() < 2 => start(root, &at(rest)?, name)?,
        ["stop", name, rest @ ..] if rest.len() < 2 => end(&at(rest)?, name, Signal::Term)?,
        ["kill", name, rest @ ..] if rest.len() < 2 => end(&at(rest)?, name, Signal::Kill)?,
        ["shell", "--", words @ ..] => return shell(&at(&[])?, words),
        ["shell", dir, "--", words @ ..] => return shell(&at(&[dir])?, words),
        ["shell", rest @ ..] if rest.len() < 2 => return shell(&at(rest)?, &[]),
        ["kubeconfig", account, rest @ ..] if rest.len() < 2 => {
            print!("{}", kubeconfig::of_service_account(&at(rest)?, account)?);
        }
        ["image", name, program, rest @ ..] if rest.len() < 4 => {
            let (with, rest) = match rest {
                ["--with", folder, rest @ ..] => (Some(Path::new(folder)), rest),
                _ => (None, rest),
            };
            let cluster = at(rest)?;
            cluster.require_up()?;
            nodes::add_image(&cluster, name, Path::new(program), with)?;
        }
        ["demo"] => return demo::run(root, None, None),
        ["demo", dir] => return demo::run(root, Some(Path::new(dir)), None),
        ["demo", dir, muster] => {
            return demo::run(root, Some(Path::new(dir)), Some(Path::new(muster)));
        }
        ["bench", rest @ ..] => {
            let (words, dirs): (Vec<&str>, Vec<&str>) =
                rest.iter().partition(|word| word.starts_with("--"));
            let ([] | [_]) = &dirs[..] else {
                bail!("unknown arguments: kubernetes {}\n\n{USAGE}", args.join(" "))
            };
            let dir = dirs.first().map(Path::new);
            return bench::run(root, dir, &BenchOptions::parse(&words)?);
        }
        ["test", rest @ ..] => return test::run_standalone(root, &TestOptions::parse(rest)?),
        [] | ["help" | "--help" | "-h"] => print!("{USAGE}"),
        _ => bail!("unknown arguments: kubernetes {}\n\n{USAGE}", args.join(" ")),
    }
    Ok(ExitCode::SUCCESS)
}

fn target(root: &Path) -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from)
}

/// Starts a program or a node that was stopped, and waits until it works.
fn start(root: &Path, cluster: &KubernetesTestCluster, name: &str) -> Result<()> {
    cluster.require_up()?;
    let options = cluster.options()?;
    match options.node_number(name) {
        Some(number) if options.are_nodes_real => nodes::start(cluster, RealNode { number }),
        Some(_) => {
            cluster.run(&["kubectl", "annotate", "node", name, "fake-kubelet/failed-"])?;
            ready::wait_for_node(cluster, name)
        }
        None => {
            if let Ok(peer) = peers::named(name) {
                return peer.start(root, cluster);
            }
            let daemon = KubernetesDaemon::named(name, &options)?;
            if daemon == KubernetesDaemon::JobSet {
                job_set::install(cluster)?;
            }
            daemon.start(cluster)?;
            ready::wait_for(cluster, daemon)
        }
    }
}

/// Ends a program or a node. A node is gone at once, whatever the signal.
fn end(cluster: &KubernetesTestCluster, name: &str, signal: Signal) -> Result<()> {
    cluster.require_up()?;
    let options = cluster.options()?;
    match options.node_number(name) {
        Some(number) if options.are_nodes_real => nodes::kill(cluster, RealNode { number }),
        Some(_) => {
            let mark = "fake-kubelet/failed=true";
            cluster.run(&["kubectl", "annotate", "node", name, "--overwrite", mark]).map(drop)
        }
        None => {
            let daemon = KubernetesDaemon::named(name, &options)?;
            if daemon == KubernetesDaemon::JobSet {
                job_set::remove(cluster)?;
            }
            daemon.end(cluster, signal)
        }
    }
}

fn status(cluster: &KubernetesTestCluster) -> Result<ExitCode> {
    let mut are_all_running = true;
    for daemon in KubernetesDaemon::all(&cluster.options()?) {
        let pid = daemon.pid(cluster);
        are_all_running &= pid.is_some();
        let state = pid.map_or("not running".into(), |pid| format!("pid {pid}"));
        println!("{}: {state}", daemon.name());
    }
    print!("{}", std::fs::read_to_string(cluster.facts())?);
    Ok(if are_all_running { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn shell(cluster: &KubernetesTestCluster, words: &[&str]) -> Result<ExitCode> {
    cluster.require_up()?;
    let own = std::env::var("SHELL").unwrap_or_else(|_| "/bin/sh".into());
    let words = if words.is_empty() { &[own.as_str()] } else { words };
    let status = cluster.inside().args(words).status().context("nsenter did not start")?;
    Ok(ExitCode::from(status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(1)))
}
