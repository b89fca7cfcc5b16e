//! `muster stop-daemon`.

use std::time::Duration;

use anyhow::{Context, Result};
use muster_api::Client;
use muster_api::query::JobFilter;
use muster_api::types::BulkAction;
use muster_daemon::DaemonMode;
use muster_daemon::auth::ADMIN_GROUP;
use muster_model::JobId;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use crate::act::send_action;
use crate::app::App;
use crate::connect;
use crate::exit::Failure;
use crate::jobref::{self, JobTarget};
use crate::track::Tracker;

/// Longest wait for the daemon to exit; it only has to close its files.
const PATIENCE: Duration = Duration::from_secs(10);

/// Stop the daemon; running jobs keep running
///
/// Each running job has a supervisor process of its own; the next daemon finds it again and records
/// its exit code.
#[derive(Debug, clap::Args)]
pub struct StopDaemonArgs {
    /// Cancel all jobs first, and wait until they have ended
    #[arg(long)]
    cancel: bool,
}

/// Runs `muster stop-daemon`; returns its exit code.
pub async fn run(app: &App, args: StopDaemonArgs) -> Result<u8> {
    let client = connect::find(&app.global)?;
    let info = client.info().await.map_err(Failure::from)?;
    if args.cancel {
        // Check permission first: a user who may not stop the daemon must not lose jobs.
        if info.mode == DaemonMode::System.word() && !jobref::is_admin() {
            let message = format!(
                "only root and members of {ADMIN_GROUP} may stop the daemon of this machine"
            );
            return Err(Failure::new(message)
                .hint("`muster cancel --all` cancels your own jobs")
                .into());
        }
        cancel_all(app, &client).await?;
    }
    let left = client.jobs(JobFilter::default()).await.map_err(Failure::from)?.jobs;
    client.stop_daemon().await.map_err(Failure::from)?;
    let ended = tokio::task::spawn_blocking(move || wait_for_exit(info.pid))
        .await
        .context("the wait was cut short")??;
    if !ended {
        return Err(Failure::new(format!(
            "the daemon (pid {}) was asked to stop but still runs",
            info.pid
        ))
        .into());
    }
    app.ui.status(&match left.len() {
        0 => "stopped".to_owned(),
        n => {
            let jobs = muster_report::amount::count(n as u64, "job");
            let verb = if n == 1 { "is" } else { "are" };
            format!("stopped; {jobs} {verb} kept: running jobs keep running, and the next daemon finds them")
        }
    });
    Ok(0)
}

async fn cancel_all(app: &App, client: &Client) -> Result<()> {
    let open = client.jobs(JobFilter::default()).await.map_err(Failure::from)?.jobs;
    let jobs: Vec<JobId> = open.iter().map(|job| job.job).collect();
    let targets: Vec<JobTarget> =
        jobs.iter().map(|job| JobTarget { job: *job, index: None }).collect();
    // What cannot be cancelled has ended meanwhile.
    send_action(client, &targets, BulkAction::Cancel).await?;
    if !jobs.is_empty() {
        app.ui.status(&format!(
            "cancelled {}",
            muster_report::amount::count(jobs.len() as u64, "job")
        ));
        Tracker::of(client, &jobs).until_ended().await?;
    }
    Ok(())
}

/// Returns whether the process has exited, waiting at most [`PATIENCE`] on a pidfd.
fn wait_for_exit(pid: u32) -> Result<bool> {
    let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) else {
        return Ok(true);
    };
    let handle = match pidfd_open(pid, PidfdFlags::empty()) {
        Ok(handle) => handle,
        Err(rustix::io::Errno::SRCH) => return Ok(true),
        Err(error) => return Err(error).context("cannot wait for the daemon to exit"),
    };
    let timeout = Timespec { tv_sec: PATIENCE.as_secs() as i64, tv_nsec: 0 };
    let ready = poll(&mut [PollFd::new(&handle, PollFlags::IN)], Some(&timeout))
        .context("cannot wait for the daemon to exit")?;
    Ok(ready > 0)
}
