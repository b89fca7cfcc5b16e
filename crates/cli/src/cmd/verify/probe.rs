//! `muster __probe`: runs on a node of a job, prints what it observes, and answers the questions of
//! `drive` on stdin until that is closed.

use std::collections::BTreeSet;
use std::io::BufRead;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use anyhow::{Context, Result};
use muster_backends::probe::{ProbeTarget, Prober, reach};
use muster_model::hostlist::expand;
use muster_model::verify::{ProbeAnswer, ProbeQuestion};
use tokio::signal::unix::{SignalKind, signal};

use super::container::{self, ContainerArgs};
use super::print_answer;
use crate::jobref::JobTarget;

/// Print what is observed of a job on this node; started by `muster verify`
#[derive(Debug, clap::Args)]
pub struct ProbeArgs {
    /// Job whose ranks are observed; by default this process is a rank itself
    #[arg(long, value_name = "JOB")]
    job: Option<u64>,
    /// Index of the array element
    #[arg(long, value_name = "N", requires = "job")]
    index: Option<u32>,
    #[command(flatten)]
    container: ContainerArgs,
}

/// Returns the command that starts a probe of a job.
pub fn command_line(target: JobTarget) -> Result<Vec<String>> {
    let program = std::env::current_exe().context("cannot find this program")?;
    let mut words = vec![
        program.to_string_lossy().into_owned(),
        "__probe".into(),
        format!("--job={}", target.job),
    ];
    words.extend(target.index.map(|index| format!("--index={index}")));
    Ok(words)
}

/// Runs `muster __probe`; returns its exit code.
pub fn run(args: &ProbeArgs) -> Result<u8> {
    if args.container.is_given() {
        return container::run(&args.container);
    }
    // The probe runs in the place of a rank, so it may receive checkpoint signals; it ignores them.
    let _heard = [SignalKind::user_defined1(), SignalKind::user_defined2()].map(signal);
    let whom =
        args.job.map_or(ProbeTarget::OwnProcess, |job| ProbeTarget::Job { job, index: args.index });
    let mut prober = Prober::new(whom, configured_gpu_files());
    let seen = prober.probe();
    let node = seen.node.clone();
    print_answer(&ProbeAnswer::Seen(Box::new(seen)))?;
    for line in std::io::stdin().lock().lines() {
        let line = line.context("cannot read questions from stdin")?;
        let Ok(question) = serde_json::from_str(&line) else { continue };
        print_answer(&match question {
            ProbeQuestion::Reach { address, port } => {
                ProbeAnswer::Reached { node: node.clone(), error: reach(&address, port).err() }
            }
            ProbeQuestion::Clock => {
                ProbeAnswer::Clock { node: node.clone(), unix_nanos: unix_nanos() }
            }
            ProbeQuestion::Look => ProbeAnswer::Seen(Box::new(prober.probe())),
        })?;
    }
    Ok(0)
}

/// Returns the GPU device files of this node in Slurm's gres.conf; empty if there is none.
fn configured_gpu_files() -> Vec<PathBuf> {
    let conf = std::env::var_os("SLURM_CONF").unwrap_or_else(|| "/etc/slurm/slurm.conf".into());
    let text =
        std::fs::read_to_string(Path::new(&conf).with_file_name("gres.conf")).unwrap_or_default();
    let node = std::env::var("SLURMD_NODENAME").unwrap_or_default();
    let files: BTreeSet<String> =
        text.lines().filter_map(|line| gpu_files(line, &node)).flatten().collect();
    files.into_iter().map(PathBuf::from).collect()
}

/// Returns the device files that a line of gres.conf names for the GPUs of this node.
fn gpu_files(line: &str, node: &str) -> Option<Vec<String>> {
    let line = line.split('#').next()?;
    let value = |key: &str| {
        let of_key = |word: &'_ str| {
            word.split_once('=').is_some_and(|(name, _)| name.eq_ignore_ascii_case(key))
        };
        line.split_whitespace()
            .find(|word| of_key(word))
            .and_then(|word| word.split_once('='))
            .map(|(_, value)| value)
    };
    let is_here = value("NodeName")
        .is_none_or(|names| expand(names).is_ok_and(|names| names.iter().any(|name| name == node)));
    let is_gpu = value("Name").is_some_and(|name| name.eq_ignore_ascii_case("gpu"));
    if is_here && is_gpu { expand(value("File")?).ok() } else { None }
}

/// Returns the time of this machine's clock in nanoseconds since the epoch.
pub fn unix_nanos() -> i64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_nanos()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_those_of_this_node_and_each_once() {
        let files = |line: &str| gpu_files(line, "n2").unwrap_or_default().join(" ");
        assert_eq!(
            files("NodeName=n[1-3] Name=gpu Type=h100 File=/dev/nvidia[0-1]"),
            "/dev/nvidia0 /dev/nvidia1"
        );
        assert_eq!(files("name=GPU file=/dev/nvidia7"), "/dev/nvidia7");
        for other in [
            "NodeName=n[4-5] Name=gpu File=/dev/nvidia0",
            "# Name=gpu File=/dev/nvidia0",
            "Name=nic File=/dev/x",
            "Name=gpu AutoDetect=nvml",
        ] {
            assert_eq!(files(other), "", "{other}");
        }
    }
}
