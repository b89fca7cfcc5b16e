//! `muster run`: submits jobs from files or a command, and optionally waits for them.

mod after;
mod auto;
mod overrides;
mod submit;
mod sweep;
pub mod texts;

use std::collections::BTreeSet;
use std::path::PathBuf;

use anyhow::Result;
use muster_api::Client;
use muster_api::types::SubmitResponse;
use muster_daemon::VirtualGpus;
use muster_model::{ClusterName, JobId};
use muster_report::watch::summary;
use muster_slurm::import;
use serde_json::{Map, Value};

use self::auto::Destination;
use crate::app::App;
use crate::connect;
use crate::dashes;
use crate::exit::{Failure, INTERRUPTED};
use crate::failures;
use crate::jobref::JobTarget;
use crate::logs::{self, OutputSelection, Ranks};
use crate::on::On;
use crate::points_file;
use crate::remote;
use crate::site_file::SiteFileArgs;
use crate::source::SourceText;
use crate::terminal::{self, InteractiveEnd};
use crate::track::{self, Tracker};
use crate::watch::{JobWatch, Until, detach};

/// Submit jobs from files, or submit a command as a job
///
/// A file holds one or more YAML documents, one per job; `muster schema` prints their schema. A
/// script with `#SBATCH` lines is converted as by `muster import`, whose findings are shown, and
/// submitted. A command runs without a shell, with the current environment and working directory.
/// `run` submits and returns; with --wait, --watch, --follow or -it it waits until the jobs have
/// ended and returns their exit code. If no daemon is running, one is started for this user. JSON:
/// a `SubmitResponse`; for several files, a list of them.
#[derive(Debug, clap::Args)]
#[command(
    override_usage = "muster run [OPTIONS] FILE...\n       muster run [OPTIONS] -- COMMAND [ARG]...",
    after_long_help = "Examples:\n  muster run train.yaml\n  muster run train.sbatch\n  muster run --gpus 2 --time 12h -- python train.py\n  \
                       muster run --tasks 5 --gpus-per-task 1 --watch job.yaml\n  muster run --gpus 1 -it -- bash"
)]
pub struct RunArgs {
    /// Job files or sbatch scripts; - is stdin
    #[arg(value_name = "FILE", required_unless_present = "command")]
    files: Vec<PathBuf>,
    /// Program to run as a job, and its arguments
    #[arg(last = true, value_name = "COMMAND", conflicts_with = "files")]
    command: Vec<String>,

    /// Wait until the jobs have ended
    #[arg(short = 'W', long, group = "mode")]
    wait: bool,
    /// Show jobs and a timeline until they have ended; Ctrl-C detaches and leaves them running
    #[arg(short, long, group = "mode", conflicts_with = "json")]
    watch: bool,
    /// Show the output of the job (rank 0) while it runs
    #[arg(short, long, group = "mode", conflicts_with = "json")]
    follow: bool,
    /// Run the job on a terminal that is connected to this one; -it works as in docker
    #[arg(short, long, group = "mode", conflicts_with = "json")]
    interactive: bool,
    /// Same as --interactive, for -it
    #[arg(short, long, conflicts_with_all = ["json", "wait", "watch", "follow"])]
    tty: bool,
    /// Show what would happen, without submitting
    #[arg(long, conflicts_with_all = ["wait", "watch", "follow", "interactive", "tty"])]
    dry_run: bool,
    /// Simulated GPUs of the daemon, if it has to be started: 8, 8:h100, or 2:a100,7:a100-1g.10gb
    #[arg(long, value_name = "N[:MODEL],..")]
    virtual_gpus: Option<VirtualGpus>,
    /// For an sbatch script: apply the fix of this finding; by default the script is converted as
    /// it is
    #[arg(long, value_name = "RULE", value_parser = clap::builder::PossibleValuesParser::new(import::CURES))]
    cure: Vec<String>,
    /// Write JSON; docs/openapi.json and docs/schema describe it
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    site: SiteFileArgs,
    #[command(flatten)]
    sweep: sweep::SweepArgs,
    #[command(flatten)]
    overrides: overrides::Overrides,
}

impl RunArgs {
    /// Returns the job files.
    pub fn files(&self) -> &[PathBuf] {
        &self.files
    }

    /// Returns whether rank 0 gets a terminal.
    fn is_interactive(&self) -> bool {
        self.interactive || self.tty
    }

    /// Returns whether the options show the jobs of one cluster until they end.
    fn reports_one(&self) -> bool {
        self.watch || self.follow || self.is_interactive()
    }

    /// Returns the findings whose fixes are to be applied.
    pub fn cures(&self) -> &[String] {
        &self.cure
    }
}

/// Runs `muster run`; returns its exit code.
pub async fn run(app: &App, args: RunArgs) -> Result<u8> {
    // 1. Read the files and check them as far as possible without a daemon: an invalid file must
    //    not start one.
    args.site.check_applies(&app.global)?;
    if args.is_interactive() {
        terminal::require()?;
    }
    let mut fields = args.overrides.fields()?;
    fields.extend(args.sweep.fields()?);
    if !args.command.is_empty() {
        fields.insert("run".to_owned(), serde_json::json!(args.command));
    }
    if args.files.iter().any(|file| !file.exists())
        && let Some(offer) = dashes::suggestion(&dashes::object_conditions())
    {
        return Err(offer.into());
    }
    let texts = read(app, &args)?;
    let mut documents = Vec::new();
    for text in &texts {
        let parsed = muster_spec::parse(&text.source, text.file.as_deref(), &fields);
        documents.extend(parsed.map_err(Failure::from)?);
    }
    let file = texts.first().and_then(|text| text.file.as_deref());
    points_file::read_points(&documents, file, &mut fields)?;
    let names = documents.iter().filter_map(|document| document.name().map(str::to_owned));
    let names: BTreeSet<String> = names.collect();

    // 2. With --on auto: choose the cluster of each text, and submit it there.
    if app.global.on == Some(On::Auto) {
        let site = args.site.read()?;
        let destinations = auto::destinations(app, &site, texts, &fields)?;
        return submit_to_each(app, &args, destinations, &fields, &names).await;
    }
    submit_and_report(app, &args, &texts, fields, &names).await
}

/// Submits the texts of `--on auto` to their clusters, until one refuses; returns the exit code.
async fn submit_to_each(
    app: &App,
    args: &RunArgs,
    destinations: Vec<Destination>,
    fields: &Map<String, Value>,
    names: &BTreeSet<String>,
) -> Result<u8> {
    if let [one, other, ..] = destinations.as_slice()
        && (args.wait || args.json || args.reports_one())
    {
        return Err(Failure::usage(format!(
            "these files belong to several clusters, {} and {}",
            one.cluster, other.cluster
        ))
        .hint("run them one by one: --wait, --watch, --follow, -it and --json are for one cluster")
        .into());
    }
    // Clusters whose jobs were submitted.
    let mut before: Vec<String> = Vec::new();
    for Destination { cluster, texts } in destinations {
        let name = cluster.to_string();
        let ended = match &cluster {
            ClusterName::SlurmAt(host) => {
                remote::send(app, host, &args.files, &texts, args.is_interactive())
            }
            _ => {
                let app = app.on(cluster);
                submit_and_report(&app, args, &texts, fields.clone(), names).await
            }
        };
        match ended.map_err(|error| at_cluster(error, &name, &before))? {
            0 if args.dry_run => {}
            0 => before.push(name),
            // With several clusters nothing waits for jobs, so this is a refusal.
            code => {
                if let Some(hint) = submitted_before(&before) {
                    app.ui.hint(&hint);
                }
                return Ok(code);
            }
        }
    }
    Ok(0)
}

/// Adds the cluster to an error of `--on auto`.
fn at_cluster(error: anyhow::Error, cluster: &str, before: &[String]) -> anyhow::Error {
    let failure = match error.downcast::<Failure>() {
        Ok(failure) => failure,
        Err(error) => return error.context(cluster.to_owned()),
    };
    let failure = failure.hint(format!("--on auto chose {cluster}; --on names another cluster"));
    match submitted_before(before) {
        None => failure.into(),
        Some(hint) => failure.hint(hint).into(),
    }
}

/// Says which jobs were submitted before a cluster refused its own.
fn submitted_before(clusters: &[String]) -> Option<String> {
    (!clusters.is_empty()).then(|| {
        format!("jobs for {} were submitted: do not submit them again", clusters.join(" and "))
    })
}

/// Submits texts to the cluster of `--on`, and shows and waits as the options say.
async fn submit_and_report(
    app: &App,
    args: &RunArgs,
    texts: &[SourceText],
    mut fields: Map<String, Value>,
    names: &BTreeSet<String>,
) -> Result<u8> {
    // 1. Submit. What the environments of the jobs lack must not start a daemon.
    let interactive = args.is_interactive();
    let submitter = submit::Submitter::of(app, texts, &fields)?;
    let client = connect::find_or_start(&app.global, args.virtual_gpus.as_ref(), &app.ui).await?;
    after::resolve(&client, &mut fields, names).await?;
    let order = submit::SubmitOptions { fields, interactive, dry_run: args.dry_run };
    let responses = submit::submit(app, &client, texts, submitter, &order).await?;
    let jobs: Vec<JobId> =
        responses.iter().flat_map(|response| &response.jobs).map(|job| job.job).collect();

    // 2. Report the jobs, and wait for them if requested.
    match () {
        () if args.dry_run => submit::print_dry_run(app, &client, &responses, args.json).await,
        () if args.watch => {
            announce(app, texts, jobs.len());
            watch(app, &client, &jobs).await
        }
        () if args.follow => follow_one(app, &client, &responses).await,
        () if interactive => run_interactive(app, &client, &jobs).await,
        () if args.wait => {
            submit::print(app, &client, &responses, args.json, false)?;
            wait(app, &client, &jobs).await
        }
        () => {
            submit::print(app, &client, &responses, args.json, true)?;
            Ok(0)
        }
    }
}

/// Reads the files. For a command returns one empty document: the command is the field `run` of the
/// overrides.
fn read(app: &App, args: &RunArgs) -> Result<Vec<SourceText>> {
    match args.files.as_slice() {
        [] => Ok(vec![SourceText { source: String::new(), file: None }]),
        files => files.iter().map(|file| texts::read(app, file, &args.cure)).collect(),
    }
}

/// Prints how many jobs were submitted, as in `4 jobs from examples/contention.yaml`.
fn announce(app: &App, texts: &[SourceText], jobs: usize) {
    let files: Vec<&str> = texts.iter().filter_map(|text| text.file.as_deref()).collect();
    if !files.is_empty() {
        let count = muster_report::amount::count(jobs as u64, "job");
        app.ui.status(&format!("{count} from {}", files.join(", ")));
    }
}

async fn watch(app: &App, client: &Client, jobs: &[JobId]) -> Result<u8> {
    JobWatch::new(app, client, Tracker::of(client, jobs), Until::Ended).run().await
}

/// Waits without output until the jobs have ended; Ctrl-C leaves them running.
async fn wait(app: &App, client: &Client, jobs: &[JobId]) -> Result<u8> {
    let mut tracker = Tracker::of(client, jobs);
    tokio::select! {
        list = tracker.until_ended() => {
            let rows = list?.jobs;
            app.ui.status(summary(&rows).trim_end());
            failures::print(app, client, &rows, None).await;
            Ok(track::exit_code(&rows))
        }
        _ = tokio::signal::ctrl_c() => {
            detach(app, client, jobs);
            Ok(INTERRUPTED)
        }
    }
}

async fn follow_one(app: &App, client: &Client, responses: &[SubmitResponse]) -> Result<u8> {
    let submitted: Vec<_> = responses.iter().flat_map(|response| &response.jobs).collect();
    let [job] = submitted.as_slice() else {
        submit::print(app, client, responses, false, true)?;
        return Err(Failure::usage(
            "--follow shows the output of one job, but several were submitted",
        )
        .hint("`muster logs -f JOB` follows one of them")
        .into());
    };
    let target = JobTarget { job: job.job, index: None };
    let which = OutputSelection { follow: true, ..OutputSelection::default() };
    let shown = tokio::select! {
        shown = logs::print(app, client, target, &which) => shown?,
        _ = tokio::signal::ctrl_c() => {
            detach(app, client, &[job.job]);
            return Ok(INTERRUPTED);
        }
    };
    let rows = Tracker::of(client, &[job.job]).until_ended().await?.jobs;
    failures::print(app, client, &rows, Some(shown)).await;
    Ok(track::exit_code(&rows))
}

/// Connects this terminal to the job's. Ctrl-C before the job runs cancels it: an interactive job
/// is of no use without its terminal.
async fn run_interactive(app: &App, client: &Client, jobs: &[JobId]) -> Result<u8> {
    let [job] = jobs else {
        return Err(Failure::usage("-it runs one job, but several were submitted").into());
    };
    let target = JobTarget { job: *job, index: None };
    // Once connected, the terminal is in raw mode and Ctrl-C is sent to the job.
    let end = tokio::select! {
        end = terminal::run_own(app, client, target) => end?,
        _ = tokio::signal::ctrl_c() => {
            super::act_on(client, target, muster_api::JobAction::Cancel).await?;
            app.ui.status("\ncancelled");
            return Ok(INTERRUPTED);
        }
    };
    match end {
        InteractiveEnd::Shown => {}
        // The job ended before this terminal was connected; its output is in its log.
        InteractiveEnd::Missed => {
            logs::print(app, client, target, &OutputSelection::default()).await?;
        }
        InteractiveEnd::Left => {
            let job = client.label(*job);
            app.ui.status(&format!("detached; job {job} keeps running"));
            app.ui.hint(&format!("`muster attach {job}` connects to it again"));
            return Ok(0);
        }
    }
    let rows = Tracker::of(client, &[*job]).until_ended().await?.jobs;
    failures::print(app, client, &rows, Some(Ranks::One(0))).await;
    Ok(track::exit_code(&rows))
}
