//! `muster run`: from files or a command to jobs, and what to do then.

mod after;
mod overrides;
mod submit;
pub mod texts;

use std::collections::BTreeSet;
use std::path::PathBuf;

use anyhow::Result;
use muster_api::Client;
use muster_api::types::SubmitResponse;
use muster_backends::slurm::import;
use muster_daemon::VirtualGpus;
use muster_model::JobId;
use muster_report::watch::summary;

use crate::app::App;
use crate::connect;
use crate::dashes;
use crate::exit::{Failure, INTERRUPTED};
use crate::follow;
use crate::jobref::Target;
use crate::source::Text;
use crate::terminal::{self, OwnEnd};
use crate::track::{self, Tracker};
use crate::watch::{Until, Watch};

/// Submit jobs from files, or run a command
///
/// Files hold one or more YAML documents; `muster schema` describes them. A script with `#SBATCH`
/// lines is submitted as the job that `muster import` makes of it, and what that finds wrong is
/// shown. A command is run as it is, without a shell, with the present environment and working
/// directory. Without another option `run` submits and returns; --wait, --watch, --follow and -it
/// stay until the jobs have ended and pass on their exit code. With no daemon running, one is
/// started for this user. JSON: a `SubmitResponse`; of several files, a list of them.
#[derive(Debug, clap::Args)]
#[command(
    override_usage = "muster run [OPTIONS] FILE...\n       muster run [OPTIONS] -- COMMAND [ARG]...",
    after_long_help = "Examples:\n  muster run train.yaml\n  muster run train.sbatch\n  muster run --gpus 2 --time 12h -- python train.py\n  \
                       muster run --tasks 5 --gpus-per-task 1 --watch job.yaml\n  muster run --gpus 1 -it -- bash"
)]
pub struct Args {
    /// Job files, or scripts for sbatch; - is stdin
    #[arg(value_name = "FILE", required_unless_present = "command")]
    files: Vec<PathBuf>,
    /// Program and its arguments
    #[arg(last = true, value_name = "COMMAND", conflicts_with = "files")]
    command: Vec<String>,

    /// Wait until the jobs have ended
    #[arg(short = 'W', long, group = "mode")]
    wait: bool,
    /// Show jobs and a timeline while they run; Ctrl-C leaves them running
    #[arg(short, long, group = "mode", conflicts_with = "json")]
    watch: bool,
    /// Show the output of the job while it runs (of rank 0)
    #[arg(short, long, group = "mode", conflicts_with = "json")]
    follow: bool,
    /// Run on a terminal, connected to this one; -it works as in docker
    #[arg(short, long, group = "mode", conflicts_with = "json")]
    interactive: bool,
    /// The same as --interactive
    #[arg(short, long, conflicts_with_all = ["json", "wait", "watch", "follow"])]
    tty: bool,
    /// Say what would happen, and do nothing
    #[arg(long, conflicts_with_all = ["wait", "watch", "follow", "interactive", "tty"])]
    dry_run: bool,
    /// Start the daemon with this many GPUs that do not exist: 8, 8:h100, or 2:a100,7:a100-1g.10gb
    #[arg(long, value_name = "N[:MODEL],..")]
    virtual_gpus: Option<VirtualGpus>,
    /// Of a script for sbatch: submit it with the cure of this finding; without it the job is what
    /// the script says
    #[arg(long, value_name = "RULE", value_parser = clap::builder::PossibleValuesParser::new(import::CURES))]
    cure: Vec<String>,
    /// Write JSON; docs/openapi.json and docs/schema have its shapes
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    overrides: overrides::Overrides,
}

impl Args {
    /// The job files.
    pub fn files(&self) -> &[PathBuf] {
        &self.files
    }

    /// Findings whose cures are chosen.
    pub fn cures(&self) -> &[String] {
        &self.cure
    }
}

/// Runs the verb.
pub async fn run(app: &App, args: Args) -> Result<u8> {
    // 1. Read and check what can be checked without a daemon: a bad file must not start one.
    let interactive = args.interactive || args.tty;
    if interactive {
        terminal::require()?;
    }
    let mut fields = args.overrides.fields()?;
    if !args.command.is_empty() {
        fields.insert("run".to_owned(), serde_json::json!(args.command));
    }
    if args.files.iter().any(|file| !file.exists())
        && let Some(offer) = dashes::offered(&dashes::own_words())
    {
        return Err(offer.into());
    }
    let texts = read(app, &args)?;
    let mut names = BTreeSet::new();
    for text in &texts {
        let documents = muster_spec::parse(&text.source, text.file.as_deref(), &fields)
            .map_err(Failure::from)?;
        names.extend(documents.iter().filter_map(|document| document.name().map(str::to_owned)));
    }

    // 2. Submit.
    let client = connect::find_or_start(&app.global, args.virtual_gpus.as_ref(), &app.ui).await?;
    after::resolve(&client, &mut fields, &names).await?;
    let order = submit::Order { fields, interactive, dry_run: args.dry_run };
    let responses = submit::submit(app, &client, &texts, &order).await?;
    let jobs: Vec<JobId> =
        responses.iter().flat_map(|response| &response.jobs).map(|job| job.job).collect();

    // 3. Say so, and stay where that was asked for.
    match () {
        () if args.dry_run => submit::print_dry_run(app, &client, &responses, args.json).await,
        () if args.watch => {
            announce(app, &texts, jobs.len());
            watch(app, &client, &jobs).await
        }
        () if args.follow => follow_one(app, &client, &responses).await,
        () if interactive => converse(app, &client, &jobs).await,
        () if args.wait => {
            submit::print(app, &responses, args.json, false)?;
            wait(app, &client, &jobs).await
        }
        () => {
            submit::print(app, &responses, args.json, true)?;
            Ok(0)
        }
    }
}

/// The files; for a command one empty document, since it is the field `run` of the options.
fn read(app: &App, args: &Args) -> Result<Vec<Text>> {
    match args.files.as_slice() {
        [] => Ok(vec![Text { source: String::new(), file: None }]),
        files => files.iter().map(|file| texts::read(app, file, &args.cure)).collect(),
    }
}

/// `4 jobs from examples/contention.yaml`.
fn announce(app: &App, texts: &[Text], jobs: usize) {
    let files: Vec<&str> = texts.iter().filter_map(|text| text.file.as_deref()).collect();
    if !files.is_empty() {
        let count = muster_report::amount::count(jobs as u64, "job");
        app.ui.status(&format!("{count} from {}", files.join(", ")));
    }
}

async fn watch(app: &App, client: &Client, jobs: &[JobId]) -> Result<u8> {
    Watch::new(app, client, Tracker::of(client, jobs), Until::Ended).run().await
}

/// Waits in silence; Ctrl-C leaves the jobs running.
async fn wait(app: &App, client: &Client, jobs: &[JobId]) -> Result<u8> {
    let mut tracker = Tracker::of(client, jobs);
    tokio::select! {
        list = tracker.until_ended() => {
            let rows = list?.jobs;
            app.ui.status(summary(&rows).trim_end());
            follow::say_end(app, &rows);
            Ok(track::exit_code(&rows))
        }
        _ = tokio::signal::ctrl_c() => {
            detach(app, jobs);
            Ok(INTERRUPTED)
        }
    }
}

/// Says that jobs outlive their watcher.
pub fn detach(app: &App, jobs: &[JobId]) {
    let numbers: Vec<String> = jobs.iter().map(JobId::to_string).collect();
    let go_on = if jobs.len() == 1 { "job goes on" } else { "jobs go on" };
    app.ui.status(&format!("\ndetached; the {go_on}"));
    app.ui.hint(&format!("`muster ps` lists, `muster cancel {}` ends", numbers.join(" ")));
}

async fn follow_one(app: &App, client: &Client, responses: &[SubmitResponse]) -> Result<u8> {
    let submitted: Vec<_> = responses.iter().flat_map(|response| &response.jobs).collect();
    let [job] = submitted.as_slice() else {
        submit::print(app, responses, false, true)?;
        return Err(Failure::usage(
            "--follow shows the output of one job, and several were submitted",
        )
        .hint("`muster logs -f JOB` follows one of them")
        .into());
    };
    if job.elements > 1 {
        submit::print(app, responses, false, true)?;
        return Err(Failure::usage("--follow shows the output of one task, and this is an array")
            .hint(format!("`muster logs -f {}[INDEX]` follows one element", job.job))
            .into());
    }
    let target = Target { job: job.job, index: None };
    tokio::select! {
        shown = follow::follow(app, client, target, follow::Which::default()) => shown?,
        _ = tokio::signal::ctrl_c() => {
            detach(app, &[job.job]);
            return Ok(INTERRUPTED);
        }
    }
    let rows = Tracker::of(client, &[job.job]).until_ended().await?.jobs;
    follow::say_end(app, &rows);
    Ok(track::exit_code(&rows))
}

/// Connects this terminal to the job's. Ctrl-C before it runs cancels it: it was wanted here and
/// now.
async fn converse(app: &App, client: &Client, jobs: &[JobId]) -> Result<u8> {
    let [job] = jobs else {
        return Err(Failure::usage("-it runs one job, and several were submitted").into());
    };
    let target = Target { job: *job, index: None };
    // Once connected the terminal is raw, and Ctrl-C is a key like any other.
    let end = tokio::select! {
        end = terminal::run_own(app, client, target) => end?,
        _ = tokio::signal::ctrl_c() => {
            super::act_on(client, target, muster_api::Action::Cancel).await?;
            app.ui.status("\ncancelled");
            return Ok(INTERRUPTED);
        }
    };
    match end {
        OwnEnd::Shown => {}
        // What it wrote is in its log.
        OwnEnd::Missed => follow::print(app, client, target, follow::Which::default()).await?,
        OwnEnd::Left => {
            app.ui.status(&format!("left; job {job} goes on"));
            app.ui.hint(&format!("`muster attach {job}` comes back to it"));
            return Ok(0);
        }
    }
    let rows = Tracker::of(client, &[*job]).until_ended().await?.jobs;
    follow::say_end(app, &rows);
    Ok(track::exit_code(&rows))
}
