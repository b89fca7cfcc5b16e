//! `muster attach`.

use std::os::unix::process::ExitStatusExt;

use anyhow::{Context, Result};
use muster_api::query::AttachQuery;

use crate::app::App;
use crate::connect;
use crate::exit::{FAILURE, Failure};
use crate::jobref::JobRef;
use crate::terminal::{self, AttachSession, SessionEnd, SessionTarget};

/// Open a terminal in a running job
///
/// Starts a shell beside the task: as the same user, in its cgroup, with its GPUs and environment.
/// On Slurm it is a job step on the task's node, on Kubernetes a `kubectl exec`. For a job of `run -it` it connects to the job's
/// own terminal, unless --shell is given. `~.` at the start of a line detaches; otherwise the exit
/// code is that of the shell. A command after `--` runs in place of the shell; it does not need a
/// terminal, and without one it gets no input.
#[derive(Debug, clap::Args)]
#[command(
    override_usage = "muster attach [OPTIONS] JOB\n       muster attach [OPTIONS] JOB -- COMMAND [ARG]...",
    after_long_help = "Examples:\n  muster attach train\n  muster attach train --rank 3 -- nvidia-smi\n  muster attach 12 -- py-spy dump --pid 1"
)]
pub struct AttachArgs {
    /// Job: 3, an array element 3[7], or a name
    #[arg(value_name = "JOB")]
    job: JobRef,
    /// Rank of the task
    #[arg(short, long, value_name = "N", default_value_t = 0)]
    rank: u32,
    /// Start a new shell even if the task has a terminal of its own
    #[arg(long)]
    shell: bool,
    /// Program to run in place of a shell, and its arguments
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<String>,
}

impl AttachArgs {
    /// Returns the arguments of a command beside rank 0.
    pub(super) fn beside(job: JobRef, command: Vec<String>) -> Self {
        Self { job, rank: 0, shell: false, command }
    }
}

/// Starts bash, or sh in images of containers that lack it.
const SHELL: &str = "command -v bash > /dev/null && exec bash -l; exec sh";

/// Runs `muster attach`; returns its exit code.
pub async fn run(app: &App, args: AttachArgs) -> Result<u8> {
    let has_terminal = if args.command.is_empty() {
        terminal::require().map(|()| true)?
    } else {
        terminal::require().is_ok()
    };
    let client = connect::find(&app.global)?;
    let target = args.job.resolve(&client).await?;
    let query = AttachQuery { index: target.index, rank: Some(args.rank) };
    if let Some(mut words) = client.terminal(target.job, query).await.map_err(Failure::from)? {
        words.retain(|word| has_terminal || !["--pty", "--tty"].contains(&word.as_str()));
        if args.command.is_empty() {
            words.extend(["sh", "-c", SHELL].map(str::to_owned))
        } else {
            words.extend(args.command)
        }
        return run_program(&words);
    }
    let is_new = args.shell || !args.command.is_empty();
    let which = if is_new { SessionTarget::Shell } else { SessionTarget::Auto };
    let session = AttachSession::open(&client, target, args.rank, which, args.command)
        .await
        .map_err(Failure::from)?;
    let ended = if has_terminal {
        session.run(&mut terminal::keys()).await?
    } else {
        session.watch().await?
    };
    match ended {
        SessionEnd::Exit(code) => Ok(u8::try_from(code).unwrap_or(FAILURE)),
        SessionEnd::Left => {
            app.ui.status(&format!("detached; job {} keeps running", target.text(&client)));
            Ok(0)
        }
        SessionEnd::Refused(why) => {
            Err(Failure::new(why).hint(format!("see muster show {}", target.job)).into())
        }
    }
}

/// Runs a program on this terminal; returns its exit code as a shell would.
fn run_program(words: &[String]) -> Result<u8> {
    let (program, args) = words.split_first().context("a terminal is a program")?;
    let status = std::process::Command::new(program).args(args).status();
    let status = status.map_err(|error| {
        Failure::new(format!("cannot run {program}: {error}"))
            .hint(format!("install {program}, or add its folder to the PATH"))
    })?;
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
    Ok(code.and_then(|code| u8::try_from(code).ok()).unwrap_or(FAILURE))
}
