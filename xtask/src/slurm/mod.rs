//! `cargo xtask slurm`: a real Slurm cluster of eight nodes on one machine, for tests and manual
//! use. It runs without systemd, in a network namespace of its own, and cleans up after itself. It
//! is independent of Muster; the tests that use it are in `crates/cli/tests/slurm/`.

mod cluster;
mod command;
mod conf;
mod daemon;
mod down;
mod external_config;
mod probe;
mod root;
pub mod test;
mod up;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Result, bail};

use crate::test_cluster::process::Signal;
use cluster::SlurmTestCluster;
use daemon::Daemon;

const USAGE: &str = "\
usage: cargo xtask slurm <command>

  up [DIR]                       start a cluster with its files in DIR (default target/slurm), or check the running one
  up DIR --config FOLDER         start one from external configuration files, with up to eight nodes named node1, node2, ...;
                                 only settings that cannot work on one machine are replaced
                                 (xtask/src/slurm/conf/external-*.conf)
  status [DIR]                   show the running daemons and the facts of the cluster
  down [DIR]                     stop the cluster
  start|stop|kill NAME [DIR]     control one daemon: slurmctld, slurmdbd, slurmrestd, mariadbd, munged, node1 to node8
  shell [DIR] [-- COMMAND…]      run a command (default $SHELL) in which sbatch and squeue use the cluster
  test [FILTER]                  start a cluster, run the tests that need it, and stop it

  up … --release NAME            use the Slurm of another Debian release, in a root file system that is created once under
  test … --release NAME          target/slurm-root (600 MB, takes minutes); other commands detect a cluster's root

Tested with Slurm 22.05 (Debian bookworm: plain `test`, which CI runs), 24.11 (`test --release trixie`) and 26.05
(`test --release sid`). docs/slurm.md, section Generations, lists results and differences.
";

/// Runs one command line after `cargo xtask slurm`.
pub fn run(root: &Path, args: &[&str]) -> Result<ExitCode> {
    let at = |dir: Option<&&str>| {
        SlurmTestCluster::at(&dir.map_or_else(|| default_dir(root), PathBuf::from))
    };
    // 1. Commands in the root file system of a release: a named one, or that of the running
    //    cluster.
    match args {
        ["test", "--release", release] => return test::of_release(root, release, None),
        ["test", filter, "--release", release] | ["test", "--release", release, filter] => {
            return test::of_release(root, release, Some(filter));
        }
        ["up", rest @ .., "--release", release] => {
            return root::enter(root, release, &[&["slurm", "up"], rest].concat());
        }
        ["up" | "status" | "down" | "start" | "stop" | "kill" | "shell", ..] => {
            if let Some(code) =
                root::rejoin(&at(folder(args).as_ref())?, &[&["slurm"], args].concat())?
            {
                return Ok(code);
            }
        }
        _ => {}
    }
    // 2. Commands on the machine itself.
    match args {
        ["up", dir, "--config", folder] => up::run(&at(Some(dir))?, Some(Path::new(folder)))?,
        ["up", rest @ ..] if rest.len() < 2 => up::run(&at(rest.first())?, None)?,
        ["status", rest @ ..] if rest.len() < 2 => return status(&at(rest.first())?),
        ["down", rest @ ..] if rest.len() < 2 => down::run(&at(rest.first())?)?,
        ["start", name, rest @ ..] if rest.len() < 2 => {
            let cluster = at(rest.first())?;
            let daemon = Daemon::named(name)?;
            cluster.require_up()?;
            daemon.start(&cluster)?;
        }
        ["stop", name, rest @ ..] if rest.len() < 2 => {
            Daemon::named(name)?.end(&at(rest.first())?, Signal::Term)?;
        }
        ["kill", name, rest @ ..] if rest.len() < 2 => {
            Daemon::named(name)?.end(&at(rest.first())?, Signal::Kill)?;
        }
        ["shell"] => return shell(&at(None)?, &[]),
        ["shell", "--", words @ ..] => return shell(&at(None)?, words),
        ["shell", dir] => return shell(&at(Some(dir))?, &[]),
        ["shell", dir, "--", words @ ..] => return shell(&at(Some(dir))?, words),
        ["test"] => return test::run_standalone(root, None),
        ["test", filter] => return test::run_standalone(root, Some(filter)),
        [] | ["help" | "--help" | "-h"] => print!("{USAGE}"),
        _ => bail!("unknown arguments: slurm {}\n\n{USAGE}", args.join(" ")),
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns the cluster's folder, if the command line names it.
fn folder<'a>(args: &[&'a str]) -> Option<&'a str> {
    let at = if matches!(args, ["start" | "stop" | "kill", ..]) { 2 } else { 1 };
    args.get(at).copied().filter(|word| *word != "--")
}

fn default_dir(root: &Path) -> PathBuf {
    target(root).join("slurm")
}

fn target(root: &Path) -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from)
}

fn status(cluster: &SlurmTestCluster) -> Result<ExitCode> {
    let mut all = true;
    for daemon in Daemon::all(cluster.nodes()) {
        let pid = daemon.pid(cluster);
        all &= pid.is_some();
        println!(
            "{}: {}",
            daemon.name(),
            pid.map_or("not running".into(), |pid| format!("pid {pid}"))
        );
    }
    if let Ok(facts) = std::fs::read_to_string(cluster.facts()) {
        print!("{facts}");
    }
    Ok(if all { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn shell(cluster: &SlurmTestCluster, words: &[&str]) -> Result<ExitCode> {
    cluster.require_up()?;
    let own = std::env::var("SHELL").unwrap_or_else(|_| "/bin/sh".into());
    let words = if words.is_empty() { &[own.as_str()] } else { words };
    let status = cluster.inside().args(words).status()?;
    Ok(ExitCode::from(status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(1)))
}
