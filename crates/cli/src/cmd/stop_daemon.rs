//! `muster stop-daemon`.

use std::time::Duration;

use anyhow::{Context, Result};
use muster_api::query::JobFilter;
use muster_api::{Action, Client};
use muster_daemon::Mode;
use muster_daemon::auth::ADMIN_GROUP;
use muster_model::JobId;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use crate::app::App;
use crate::connect;
use crate::exit::Failure;
use crate::jobref::{self, Target};
use crate::track::Tracker;

/// Longest wait for the daemon to end: it only has to close its files.
const PATIENCE: Duration = Duration::from_secs(10);

/// Stop the daemon; jobs that run go on
///
/// Running jobs belong to supervisor processes of their own: the next daemon finds them again, with
/// their true exit codes.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Cancel every job first, and wait until they have ended
    #[arg(long)]
    cancel: bool,
}

/// Runs the verb.
pub async fn run(app: &App, args: Args) -> Result<u8> {
    let client = connect::find(&app.global)?;
    let info = client.info().await.map_err(Failure::from)?;
    if args.cancel {
        // Who may not stop it must not lose jobs on the way to being told so.
        if info.mode == Mode::System.word() && !jobref::is_admin() {
            let message = format!(
                "only root and members of {ADMIN_GROUP} may stop the daemon of this machine"
            );
            return Err(Failure::new(message)
                .hint("`muster cancel JOB` ends jobs of yours")
                .into());
        }
        cancel_all(app, &client).await?;
    }
    let left = client.jobs(JobFilter::default()).await.map_err(Failure::from)?.jobs;
    client.stop_daemon().await.map_err(Failure::from)?;
    let ended = tokio::task::spawn_blocking(move || ended(info.pid))
        .await
        .context("the wait was cut short")??;
    if !ended {
        return Err(Failure::new(format!(
            "the daemon (pid {}) was asked to stop and still runs",
            info.pid
        ))
        .into());
    }
    app.ui.status(&match left.len() {
        0 => "stopped".to_owned(),
        n => {
            let jobs = muster_report::amount::count(n as u64, "job");
            let verb = if n == 1 { "is" } else { "are" };
            format!("stopped; {jobs} {verb} kept: what runs goes on, and the next daemon finds it")
        }
    });
    Ok(0)
}

async fn cancel_all(app: &App, client: &Client) -> Result<()> {
    let open = client.jobs(JobFilter::default()).await.map_err(Failure::from)?.jobs;
    let jobs: Vec<JobId> = open.iter().map(|job| job.job).collect();
    for job in &jobs {
        super::act_on(client, Target { job: *job, index: None }, Action::Cancel).await?;
    }
    if !jobs.is_empty() {
        app.ui.status(&format!(
            "cancelled {}",
            muster_report::amount::count(jobs.len() as u64, "job")
        ));
        Tracker::of(client, &jobs).until_ended().await?;
    }
    Ok(())
}

/// Whether the process is gone, at the latest when patience is. The kernel tells; nothing is
/// polled.
fn ended(pid: u32) -> Result<bool> {
    let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) else {
        return Ok(true);
    };
    let handle = match pidfd_open(pid, PidfdFlags::empty()) {
        Ok(handle) => handle,
        Err(rustix::io::Errno::SRCH) => return Ok(true),
        Err(error) => return Err(error).context("cannot watch the daemon end"),
    };
    let timeout = Timespec { tv_sec: PATIENCE.as_secs() as i64, tv_nsec: 0 };
    let ready = poll(&mut [PollFd::new(&handle, PollFlags::IN)], Some(&timeout))
        .context("cannot watch the daemon end")?;
    Ok(ready > 0)
}
