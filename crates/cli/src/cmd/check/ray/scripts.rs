//! Reads the scripts of the jobs that run on the Slurm cluster of this machine, as far as the caller may: a
//! user those of own jobs, root all. `muster-slurm` finds the Ray clusters in them.

use std::collections::BTreeSet;
use std::time::Duration;

use muster_model::imported::ImportReport;
use muster_slurm::import::{ImportInput, import};

use super::super::ask::run_with_deadline;
use crate::exit::Failure;

/// Deadline of a query: longer than a busy slurmctld takes.
const DEADLINE: Duration = Duration::from_secs(60);

/// Scripts of running jobs.
#[derive(Debug, Default)]
pub struct RunningScripts {
    /// Import of each script, under the name `job N`.
    pub imported: Vec<ImportReport>,
    /// Jobs whose script cannot be read, such as those without one.
    pub unread: Vec<String>,
}

/// Reads the scripts of the running jobs.
pub async fn read() -> Result<RunningScripts, Failure> {
    // Only root may read the scripts of others.
    let own = (!rustix::process::geteuid().is_root()).then_some("--me");
    let queue = ["squeue", "--noheader", "--states=RUNNING", "--format=%A"];
    let queue: Vec<&str> = queue.into_iter().chain(own).collect();
    let listed = run_with_deadline(&queue, DEADLINE).await.map_err(|failure| {
        failure.hint("`muster check ray --on slurm@HOST` asks on a login node; without --on, this machine is checked")
    })?;
    let jobs: BTreeSet<&str> = listed.split_whitespace().collect();
    let mut found = RunningScripts::default();
    for job in jobs {
        let words = ["scontrol", "write", "batch_script", job, "-"];
        let script = run_with_deadline(&words, DEADLINE).await;
        let imported = script
            .ok()
            .and_then(|text| import(&text, &format!("job {job}"), &ImportInput::default()).ok());
        match imported {
            Some(report) => found.imported.push(report),
            None => found.unread.push(job.to_owned()),
        }
    }
    Ok(found)
}
