//! `muster whatif`: predicts the effect of a change to the site. `muster-sim` simulates,
//! `muster-report` renders the answer; here are the options, the snapshot and files.

mod change;
mod names;
mod prediction;

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use muster_api::query::SnapshotQuery;
use muster_api::{Client, ClientError};
use muster_model::simulation::WhatIf;
use muster_model::{QueueTree, SiteSnapshot, Span};
use muster_sim::fleet::FleetSite;
use muster_spec::TraceFormat;
use muster_spec::quantity::parse_span;

use super::simulate::cluster::{self, ClusterInput};
use super::simulate::watch::{self, SimulationProgress};
use super::simulate::{warn_of_bad_rows, warn_of_nodes_beyond_quotas};
use crate::app::App;
use crate::args::OutputArgs;
use crate::connect;
use crate::exit::{Failure, INTERRUPTED};
use crate::trace_file::{self, Opened};

pub(super) use change::ChangeArgs;
pub(super) use names::with_names;
use prediction::PastTrace;
pub(super) use prediction::WhatIfQuestion;

/// Period of past jobs that are replayed unless another one is given.
pub(super) const DEFAULT_SINCE: Span = Span::from_secs(30 * 86_400);

/// Predict the effect of more nodes, another quota or another policy on this site
///
/// Takes the state and history of the daemon and runs the scheduler twice: without and with the
/// change. Shows when each pending job would start if no more jobs were submitted, and replays past
/// jobs from an idle site. JSON: a `WhatIf`.
///
/// Without a daemon, for example on a cluster of Slurm, --trace and --cluster answer from past jobs
/// alone: those of a dump of sacct or kubectl, or of any other trace. Pending jobs are not covered
/// then, and both replays are under Muster's scheduler.
#[derive(Debug, clap::Args)]
pub struct WhatIfArgs {
    #[command(flatten)]
    change: ChangeArgs,
    /// Read a snapshot written by --snapshot-out, in place of the daemon's state
    #[arg(long, value_name = "FILE")]
    snapshot: Option<PathBuf>,
    /// Write the snapshot to a file; it contains no names of users, hosts or jobs, so it can be
    /// shared
    #[arg(long, value_name = "FILE", conflicts_with = "snapshot")]
    snapshot_out: Option<PathBuf>,
    /// Replay the jobs that were submitted within this time
    #[arg(long, value_name = "SPAN", value_parser = span, default_value_t = DEFAULT_SINCE)]
    since: Span,
    /// Assumed runtimes of pending and running jobs: the usual fraction of the time limit, or the
    /// whole time limit
    #[arg(long, value_name = "WHOSE", value_enum, default_value_t = Runtimes::Usual)]
    runtimes: Runtimes,
    /// Replay the jobs of this trace, in place of the daemon's; `-` is stdin. docs/traces.md has the
    /// formats
    #[arg(long, value_name = "FILE", requires = "cluster", conflicts_with_all = ["snapshot", "snapshot_out", "since", "runtimes"])]
    trace: Option<PathBuf>,
    /// Format of the trace; by default detected from its first lines
    #[arg(long, value_name = "FORMAT", value_parser = super::trace::formats(), requires = "trace")]
    format: Option<TraceFormat>,
    /// Cluster file of the site as it is, for --trace
    #[arg(long, value_name = "FILE", requires = "trace")]
    cluster: Option<PathBuf>,
    #[command(flatten)]
    output: OutputArgs,
}

/// Assumed runtime of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Runtimes {
    /// Time limit × the fraction that this user's past jobs used
    Usual,
    /// The whole time limit
    Limit,
}

fn span(text: &str) -> Result<Span, String> {
    parse_span(text).map_err(|malformed| malformed.label)
}

/// Runs `muster whatif`; returns its exit code.
pub async fn run(app: &App, mut args: WhatIfArgs) -> Result<u8> {
    if let (Some(trace), Some(cluster)) = (args.trace.take(), args.cluster.take()) {
        return answer_from_trace(app, args, &trace, &cluster).await;
    }
    if args.change.is_none() && args.snapshot_out.is_none() {
        return Err(no_change().into());
    }
    // 1. Get the snapshot. The names are removed from it, so that they are not written to a file.
    let (mut snapshot, client) = match &args.snapshot {
        Some(path) => (read(path)?, None),
        None => {
            let client = connect::find(&app.global).map_err(hint_at_traces)?;
            (take_snapshot(&client, args.since).await.map_err(Failure::from)?, Some(client))
        }
    };
    let names = std::mem::take(&mut snapshot.names);
    if let Some(path) = &args.snapshot_out {
        let text = serde_json::to_vec(&snapshot)?;
        std::fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))?;
        app.ui.status(&format!(
            "wrote {}: the state and {} past runs, without names",
            path.display(),
            snapshot.past.len()
        ));
    }
    if args.change.is_none() {
        return Ok(0);
    }
    // 2. Apply the change and simulate both.
    let question = WhatIfQuestion::new(snapshot, args.since, &args.change, args.runtimes)?;
    let answer = ask(app, question).await?;
    let answer = match &client {
        Some(client) => with_names(client, answer, &names).await?,
        None => answer,
    };
    show(app, &args.output, &answer)
}

/// Answers from the jobs of a trace, on the site of a cluster file.
async fn answer_from_trace(
    app: &App,
    mut args: WhatIfArgs,
    trace: &Path,
    cluster_path: &Path,
) -> Result<u8> {
    let present_queues = args.change.take_present_queues();
    if args.change.is_none() {
        let hint = "with `--trace`, the first `--queues` has the queues as they are";
        return Err(no_change().hint(hint).into());
    }
    // 1. Read the site and its past jobs.
    let ClusterInput { nodes, levels, bad } = cluster::read(cluster_path, false)?;
    cluster::warn_of_bad_nodes(app, &bad);
    let tree =
        present_queues.map_or_else(|| Ok(QueueTree::single()), |path| cluster::queues(&path))?;
    let site = FleetSite { nodes, levels, tree };
    let opened = Opened::at(trace, args.format)?;
    let names_tasks = opened.format().names_tasks();
    let mut jobs = Vec::new();
    let read = opened.stream(false, &mut |job| jobs.push(job))?;
    warn_of_bad_rows(app, &read.bad, read.bad_count);
    trace_file::warn_of_duplicate_ids(app, read.duplicate_ids);

    // 2. Apply the change and replay both.
    let past = PastTrace { name: trace.display().to_string(), names_tasks, jobs };
    let question = WhatIfQuestion::of_trace(&site, past, &args.change)?;
    warn_of_nodes_beyond_quotas(app, "with the change", &question.changed_site());
    let answer = ask(app, question).await?;
    show(app, &args.output, &answer)
}

async fn ask(app: &App, question: WhatIfQuestion) -> Result<WhatIf> {
    let total = question.total();
    let runs = move |watch: &SimulationProgress| question.simulate_both(watch);
    watch::with_progress(app, total, runs).await?
}

/// Prints the answer; returns the exit code.
fn show(app: &App, output: &OutputArgs, answer: &WhatIf) -> Result<u8> {
    if output.json() {
        app.ui.json(answer)?
    } else {
        app.ui.data(&muster_report::whatif::whatif(answer, app.ui.context()))?
    }
    Ok(if answer.is_partial { INTERRUPTED } else { 0 })
}

fn no_change() -> Failure {
    Failure::usage("no change is given")
        .hint("for example `--add-nodes 2`, `--quota research=16` or `--queues new-queues.yaml`")
}

/// Adds a hint to the error that no daemon was found: questions about past jobs need none.
fn hint_at_traces(error: anyhow::Error) -> anyhow::Error {
    match error.downcast::<Failure>() {
        Ok(failure) => failure
            .hint("past jobs need no daemon: `--trace jobs.txt --cluster cluster.yaml`, with a dump of sacct")
            .into(),
        Err(error) => error,
    }
}

/// Requests the present state of the daemon, with the jobs that were submitted since this long ago.
///
/// # Errors
/// The daemon does not answer, or the client is one of an external scheduler.
pub(super) async fn take_snapshot(
    client: &Client,
    since: Span,
) -> Result<SiteSnapshot, ClientError> {
    let query = SnapshotQuery { past_secs: Some(since.0.div_ceil(1000)), names: true };
    client.snapshot(query).await
}

fn read(path: &Path) -> Result<SiteSnapshot> {
    let text = std::fs::read(path)
        .map_err(|error| Failure::usage(format!("cannot read {}: {error}", path.display())))?;
    let snapshot = serde_json::from_slice(&text).map_err(|error| {
        Failure::usage(format!("{} is not a snapshot: {error}", path.display()))
            .hint("`muster whatif --snapshot-out FILE` writes one")
    })?;
    Ok(snapshot)
}
