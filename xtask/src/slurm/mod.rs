//! `cargo xtask slurm`: a real Slurm cluster of eight nodes on one machine, for tests and for
//! trying things by hand. It runs without systemd, in a network namespace of its own, and leaves
//! nothing behind. It must not know Muster: what is tested against it lies in
//! `crates/cli/tests/slurm/`.

mod command;
mod conf;
mod daemon;
mod down;
mod given;
mod probe;
mod process;
mod root;
mod site;
pub mod test;
mod up;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Result, bail};

use daemon::Daemon;
use process::Signal;
use site::Site;

const USAGE: &str = "\
usage: cargo xtask slurm <command>

  up [DIR]                       start a cluster whose files lie under DIR (target/slurm), or check the one that runs
  up DIR --config FOLDER         start one from files of somebody else, of up to eight nodes named node1, node2, ...; only what
                                 cannot be so on one machine is replaced (xtask/src/slurm/conf/given-*.conf)
  status [DIR]                   which daemons run, and what the cluster can show
  down [DIR]                     stop all of it
  start|stop|kill NAME [DIR]     one daemon: slurmctld, slurmdbd, slurmrestd, mariadbd, munged, node1 to node8
  shell [DIR] [-- COMMAND…]      a command, else $SHELL, where sbatch and squeue see the cluster
  test [FILTER]                  start one, run the tests that need it, stop it

  up … --release NAME            with the Slurm of another release of Debian, in a root of its own that is made once under
  test … --release NAME          target/slurm-root (600 MB, minutes); the other commands find a cluster's root by themselves

The tests were run on Slurm 22.05 (Debian bookworm: `test` alone, which CI runs), 24.11 (`test --release trixie`) and 26.05
(`test --release sid`). docs/slurm.md, Generations, has what passed and what differs.
";

/// One command line after `cargo xtask slurm`.
pub fn run(root: &Path, args: &[&str]) -> Result<ExitCode> {
    let at = |dir: Option<&&str>| Site::at(&dir.map_or_else(|| default_dir(root), PathBuf::from));
    // 1. In the root of a release: one that is named, or the one in which the cluster runs.
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
    // 2. Here.
    match args {
        ["up", dir, "--config", folder] => up::run(&at(Some(dir))?, Some(Path::new(folder)))?,
        ["up", rest @ ..] if rest.len() < 2 => up::run(&at(rest.first())?, None)?,
        ["status", rest @ ..] if rest.len() < 2 => return status(&at(rest.first())?),
        ["down", rest @ ..] if rest.len() < 2 => down::run(&at(rest.first())?)?,
        ["start", name, rest @ ..] if rest.len() < 2 => {
            let (site, daemon) = (at(rest.first())?, Daemon::named(name)?);
            site.require_up()?;
            daemon.start(&site)?;
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
        ["test"] => return test::alone(root, None),
        ["test", filter] => return test::alone(root, Some(filter)),
        [] | ["help" | "--help" | "-h"] => print!("{USAGE}"),
        _ => bail!("unknown arguments: slurm {}\n\n{USAGE}", args.join(" ")),
    }
    Ok(ExitCode::SUCCESS)
}

/// The cluster's folder, where the command line names it.
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

fn status(site: &Site) -> Result<ExitCode> {
    let mut all = true;
    for daemon in Daemon::all(site.nodes()) {
        let pid = daemon.pid(site);
        all &= pid.is_some();
        println!(
            "{}: {}",
            daemon.name(),
            pid.map_or("not running".into(), |pid| format!("pid {pid}"))
        );
    }
    if let Ok(facts) = std::fs::read_to_string(site.facts()) {
        print!("{facts}");
    }
    Ok(if all { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn shell(site: &Site, words: &[&str]) -> Result<ExitCode> {
    site.require_up()?;
    let own = std::env::var("SHELL").unwrap_or_else(|_| "/bin/sh".into());
    let words = if words.is_empty() { &[own.as_str()] } else { words };
    let status = site.inside().args(words).status()?;
    Ok(ExitCode::from(status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(1)))
}
