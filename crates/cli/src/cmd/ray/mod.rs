//! `muster ray`: the Ray cluster of a running job.

mod dashboard;

use anyhow::Result;
use clap::Subcommand;
use muster_ray::inside;

use self::dashboard::DashboardArgs;
use super::attach::{self, AttachArgs};
use crate::app::App;
use crate::args::OutputArgs;
use crate::jobref::JobRef;
use crate::ray_cluster::RayReport;

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
    Dashboard(DashboardArgs),
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

/// Runs `muster ray`; returns its exit code.
pub async fn run(app: &App, args: RayArgs) -> Result<u8> {
    match args.verb {
        RayVerb::Status(args) => status(app, &args),
        RayVerb::Dashboard(args) => dashboard::run(app, &args).await,
        RayVerb::Submit(args) => {
            attach::run(app, AttachArgs::beside(args.job, inside(&args.command))).await
        }
    }
}

fn status(app: &App, args: &StatusArgs) -> Result<u8> {
    let report = RayReport::read(app, &args.job)?;
    if args.output.json() {
        app.ui.json(&report)?;
    } else {
        app.ui.data(&report.text(&args.job))?;
    }
    Ok(0)
}
