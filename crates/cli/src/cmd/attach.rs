//! `muster attach`.

use std::os::unix::process::ExitStatusExt;

use anyhow::{Context, Result};
use muster_api::query::AttachQuery;

use crate::app::App;
use crate::connect;
use crate::exit::{FAILURE, Failure};
use crate::jobref::JobRef;
use crate::terminal::{self, End, Session, SessionTarget};

/// Open a terminal in a running job
///
/// On Slurm, a step of its own on the task's node, in the job's allocation. Else a shell beside the
/// task: as the same user, in its cgroup, with its GPUs and environment. A job of `run -it` has a
/// terminal of its own, and that is what opens, unless --shell is given. `~.` at the start of a
/// line leaves; else it ends with the exit code of what ran in it. A command behind `--` runs in
/// place of the shell; it needs no terminal here, and without one it gets no input.
#[derive(Debug, clap::Args)]
#[command(
    override_usage = "muster attach [OPTIONS] JOB\n       muster attach [OPTIONS] JOB -- COMMAND [ARG]...",
    after_long_help = "Examples:\n  muster attach train\n  muster attach train --rank 3 -- nvidia-smi\n  muster attach 12 -- py-spy dump --pid 1"
)]
pub struct Args {
    /// Job, as 3, 3[7] for one element of an array, or by name
    #[arg(value_name = "JOB")]
    job: JobRef,
    /// Task of the gang
    #[arg(short, long, value_name = "N", default_value_t = 0)]
    rank: u32,
    /// Always a new shell, also where the task has a terminal of its own
    #[arg(long)]
    shell: bool,
    /// Program and its arguments, in place of a shell
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<String>,
}

/// Runs the verb.
pub async fn run(app: &App, args: Args) -> Result<u8> {
    let has_terminal = match args.command.is_empty() {
        true => terminal::require().map(|()| true)?,
        false => terminal::require().is_ok(),
    };
    let client = connect::find(&app.global)?;
    let target = args.job.resolve(&client).await?;
    let query = AttachQuery { index: target.index, rank: Some(args.rank) };
    if let Some(mut words) = client.terminal(target.job, query).await.map_err(Failure::from)? {
        words.retain(|word| has_terminal || word != "--pty");
        match args.command.is_empty() {
            true => words.extend(["bash", "-l"].map(str::to_owned)),
            false => words.extend(args.command),
        }
        return beside(&words);
    }
    let is_new = args.shell || !args.command.is_empty();
    let which = if is_new { SessionTarget::Shell } else { SessionTarget::Auto };
    let session = Session::open(&client, target, args.rank, which, args.command)
        .await
        .map_err(Failure::from)?;
    let ended = match has_terminal {
        true => session.run(&mut terminal::keys()).await?,
        false => session.watch().await?,
    };
    match ended {
        End::Exit(code) => Ok(u8::try_from(code).unwrap_or(FAILURE)),
        End::Left => {
            app.ui.status(&format!("left; job {} goes on", target.text()));
            Ok(0)
        }
        End::Refused(why) => {
            Err(Failure::new(why).hint(format!("see muster show {}", target.job)).into())
        }
    }
}

/// Runs a program on this terminal; answers its exit code as a shell would.
fn beside(words: &[String]) -> Result<u8> {
    let (program, args) = words.split_first().context("a terminal is a program")?;
    let status = std::process::Command::new(program).args(args).status();
    let status = status.with_context(|| format!("cannot run {program}"))?;
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
    Ok(code.and_then(|code| u8::try_from(code).ok()).unwrap_or(FAILURE))
}
