//! `muster ray`: the Ray cluster of a running job.

use std::fmt::Write as _;
use std::process::{Command, Stdio};

use anyhow::{Context, Result};
use clap::Subcommand;
use muster_ray::{ClusterStatus, STATUS, WaitingPart, inside};
use serde::Serialize;

use super::attach::{self, AttachArgs};
use crate::app::App;
use crate::args::OutputArgs;
use crate::exit::Failure;
use crate::jobref::JobRef;

/// Look into the Ray cluster of a job of kind ray, or run another program on it
#[derive(Debug, clap::Args)]
pub struct RayArgs {
    #[command(subcommand)]
    verb: RayVerb,
}

#[derive(Debug, Subcommand)]
enum RayVerb {
    Status(StatusArgs),
    Submit(SubmitArgs),
}

/// Show what of the cluster is in use, and why parts of the program wait
///
/// Reads Ray's state API inside the job: placement groups, actors and tasks that cannot be placed, with what
/// they need, what the cluster has, and what would help. Needs the package ray[default] in the job's Python.
/// JSON: a `RayReport`.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "Examples:\n  muster ray status tune\n  muster ray status 12 --json")]
struct StatusArgs {
    /// Job: 3, an array element 3[7], or a name
    #[arg(value_name = "JOB")]
    job: String,
    #[command(flatten)]
    output: OutputArgs,
}

/// Run another program on the cluster, beside the program of the job
///
/// It runs on the node of the head, as `muster attach JOB -- COMMAND` does, and joins the cluster by `ray.init()`;
/// `python` is the interpreter of the job. The exit code is that of the program. It ends with the job.
#[derive(Debug, clap::Args)]
#[command(
    override_usage = "muster ray submit JOB -- COMMAND [ARG]...",
    after_long_help = "Examples:\n  muster ray submit tune -- python evaluate.py\n  muster ray submit tune -- ray list actors"
)]
struct SubmitArgs {
    /// Job: 3, an array element 3[7], or a name
    #[arg(value_name = "JOB")]
    job: JobRef,
    /// Program, and its arguments
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<String>,
}

/// Answer of `muster ray status --json`.
#[derive(Debug, Serialize)]
struct RayReport {
    #[serde(flatten)]
    status: ClusterStatus,
    /// Parts of the program that wait, with the reason.
    waiting: Vec<WaitingPart>,
}

/// Runs `muster ray`; returns its exit code.
pub async fn run(app: &App, args: RayArgs) -> Result<u8> {
    match args.verb {
        RayVerb::Status(args) => status(app, &args),
        RayVerb::Submit(args) => {
            attach::run(app, AttachArgs::beside(args.job, inside(&args.command))).await
        }
    }
}

fn status(app: &App, args: &StatusArgs) -> Result<u8> {
    let read = inside(&["python", "-c", STATUS].map(str::to_owned));
    let mut attach = Command::new(std::env::current_exe().context("cannot find this program")?);
    if let Some(socket) = &app.global.socket {
        attach.arg("--socket").arg(socket);
    }
    if let Some(on) = &app.global.on {
        attach.arg(format!("--on={on}"));
    }
    attach
        .args(["attach", &args.job, "--"])
        .args(read)
        .stdin(Stdio::null())
        .stderr(Stdio::inherit());
    let output = attach.output().context("cannot run this program")?;
    let answer = String::from_utf8_lossy(&output.stdout);
    if !output.status.success() {
        return Err(Failure::new(format!(
            "the Ray cluster of {} did not answer\n{}",
            args.job,
            answer.trim()
        ))
        .hint("a job of kind `ray` has one once all its nodes are up: see `muster logs`")
        .into());
    }
    let status = ClusterStatus::parse(&answer).ok_or_else(|| {
        Failure::new(format!("the answer of Ray cannot be read:\n{}", answer.trim()))
    })?;
    let waiting = status.waiting();
    if args.output.json() {
        app.ui.json(&RayReport { status, waiting })?;
        return Ok(0);
    }
    app.ui.data(&text(&args.job, &status, &waiting))?;
    Ok(0)
}

fn text(job: &str, status: &ClusterStatus, waiting: &[WaitingPart]) -> String {
    let count = status.nodes.len();
    let noun = if count == 1 { "node" } else { "nodes" };
    let mut text = format!("{job}: {count} Ray {noun}; {}\n", status.in_use());
    if waiting.is_empty() {
        text.push_str("nothing waits\n");
    }
    for part in waiting {
        let _ = writeln!(text, "  {}", part.text);
        if let Some(hint) = &part.hint {
            let _ = writeln!(text, "    hint: {hint}");
        }
    }
    text
}
