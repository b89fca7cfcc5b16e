//! `muster verify`: whether a job got what it was given. Probes are driven in `drive`; what their
//! answers mean is known in `muster-doctor`.

mod drive;
pub mod preflight;
pub mod probe;

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::SystemTime;

use anyhow::Result;
use muster_api::Client;
use muster_api::query::LogQuery;
use muster_doctor::job::{Expected, JobEvidence, leaves, verify};
use muster_model::Time;
use muster_model::check::ProbeOutcome;
use muster_model::verify::VerifyReport;
use muster_model::view::{ElementView, State};

use crate::app::App;
use crate::args::Output;
use crate::connect;
use crate::exit::{FAILURE, Failure};
use crate::jobref::{JobRef, Target};

/// Lines of a rank's output that are looked through: NCCL speaks when its communicators are made.
const TAIL: u32 = 200_000;
/// Ranks whose output is looked through: the first of each node say which way they go.
const RANKS: usize = 16;

/// Check that a job runs whole, on its own GPUs, and on the fast path
///
/// Looks from beside its ranks, on each of its nodes: every rank is there and sees its own GPUs and
/// nobody else's, rank 0 can be reached, shared memory, locked memory and clocks are as they should
/// be, it spans as few leaf switches as it can, and NCCL goes by the fast network. Each check
/// passed, failed, or was not tested, and then it says what would be needed. docs/verify.md has
/// them all.
///
/// `verify: true` in a job checks before its program starts. Of a job that has ended only its
/// output is looked at.
///
/// Exits 0 when nothing failed, 1 when something did.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Job, as 3, 3[7] for one element of an array, or by name
    #[arg(value_name = "JOB")]
    job: JobRef,
    /// Also exit 1 when something was not tested
    #[arg(long)]
    strict: bool,
    #[command(flatten)]
    output: Output,
}

/// Runs the verb.
pub async fn run(app: &App, args: Args) -> Result<u8> {
    // 1. Which start of which job.
    let client = connect::find(&app.global)?;
    let target = args.job.resolve(&client).await?;
    let detail = client.job(target.job, target.index).await.map_err(Failure::from)?;
    let job = detail.job;
    let wanted =
        |element: &&ElementView| target.index.is_none_or(|index| element.element.index == index);
    let running = |element: &&ElementView| element.state == State::Running;
    let elements = || job.elements.iter().filter(wanted);
    let Some(element) = elements().find(running).or_else(|| elements().next()) else {
        return Err(not_started(target, job.state));
    };
    if matches!(element.state, State::Held | State::Pending | State::Starting) {
        return Err(not_started(target, element.state));
    }
    let is_array = job.array.is_some() || job.service.is_some();
    let index = is_array.then_some(element.element.index);
    let mut evidence = JobEvidence {
        job: target.job.0,
        index,
        at: now(),
        expected: expected(element),
        ..JobEvidence::default()
    };

    // 2. What there is to see.
    if element.state == State::Running {
        look(app, &client, Target { job: target.job, index }, &mut evidence).await?;
    } else {
        let state = element.state.word();
        app.ui.status(&format!("job {} is {state}: only its output is looked at", target.text()));
    }
    if client.socket().is_none() {
        evidence.leaves = topology().await;
    }
    evidence.output = Some(output(&client, Target { job: target.job, index }, element).await);

    // 3. The answer.
    let report = verify(&evidence);
    if args.output.json() {
        app.ui.json(&report)?;
    } else {
        app.ui.data(&muster_report::verify::verify(&report, &app.ui.style()))?;
    }
    Ok(code(&report, args.strict))
}

fn not_started(target: Target, state: State) -> anyhow::Error {
    Failure::new(format!(
        "job {} is {}: there is nothing to look at yet",
        target.text(),
        state.word()
    ))
    .hint(format!("`muster explain {}` says why it waits", target.text()))
    .into()
}

fn expected(element: &ElementView) -> Vec<Expected> {
    let one = |task: &muster_model::view::TaskView| Expected {
        rank: task.rank.0,
        node: Some(task.node.to_string()),
        gpus: u32::try_from(task.devices.len()).ok(),
    };
    element.tasks.iter().map(one).collect()
}

/// Probes on each node.
async fn look(
    app: &App,
    client: &Client,
    target: Target,
    evidence: &mut JobEvidence,
) -> Result<()> {
    let probe = probe::words(target)?;
    let starts =
        client.on_each_node(target.job, target.index, probe).await.map_err(Failure::from)?;
    let nodes = evidence.nodes().len().max(1);
    app.ui.status(&format!("looking on {nodes} {}", if nodes == 1 { "node" } else { "nodes" }));
    let ranks: Vec<u32> = evidence.expected.iter().map(|one| one.rank).collect();
    let driven = drive::drive(&starts, nodes, &ranks, &of_a_job()).await;
    if driven.seen.len() < nodes {
        let why = driven.why.map_or(String::new(), |why| format!(": {why}"));
        app.ui.warning(&format!("{} of {nodes} probes answered{why}", driven.seen.len()));
        if driven.seen.is_empty() {
            app.ui.hint("this program must be in a folder that the nodes see, too");
        }
    }
    evidence.is_late = driven.is_late;
    evidence.seen = driven.seen;
    evidence.reached = driven.reached;
    evidence.clocks = driven.clocks;
    Ok(())
}

/// Variables of a job that this may run in: they would be taken for those of the job that is looked
/// at.
fn of_a_job() -> Vec<OsString> {
    let is_of_a_job = |name: &str| {
        name.starts_with("SLURM") && name != "SLURM_CONF" || name.starts_with("MUSTER_")
    };
    let names = std::env::vars_os().map(|(name, _)| name);
    names.filter(|name| name.to_str().is_some_and(is_of_a_job)).collect()
}

/// Nodes of each leaf switch.
async fn topology() -> Option<Vec<Vec<String>>> {
    let folder = std::env::var_os("MUSTER_SLURM_BIN").map(PathBuf::from).unwrap_or_default();
    let mut command = tokio::process::Command::new(folder.join("scontrol"));
    command
        .args(["show", "topology"])
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .kill_on_drop(true);
    let output = command.output().await.ok()?;
    Some(leaves(&String::from_utf8_lossy(&output.stdout)))
}

/// Output of the first rank of each node. What cannot be read is not there.
async fn output(client: &Client, target: Target, element: &ElementView) -> String {
    let mut nodes = Vec::new();
    let mut text = String::new();
    for task in &element.tasks {
        if nodes.contains(&&task.node) || nodes.len() == RANKS {
            continue;
        }
        nodes.push(&task.node);
        let query = LogQuery {
            index: target.index,
            rank: Some(task.rank.0),
            tail: Some(TAIL),
            ..LogQuery::default()
        };
        text.push_str(&printed(client, target, query).await.unwrap_or_default());
    }
    text
}

async fn printed(client: &Client, target: Target, query: LogQuery) -> Option<String> {
    use futures_util::TryStreamExt as _;
    let stream = client.logs(target.job, query).await.ok()?;
    let bytes: Vec<_> = stream.try_collect().await.ok()?;
    Some(String::from_utf8_lossy(&bytes.concat()).into_owned())
}

fn now() -> Time {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    Time(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}

fn code(report: &VerifyReport, is_strict: bool) -> u8 {
    let is = |outcome| report.checks.iter().any(|check| check.outcome == outcome);
    match is(ProbeOutcome::Failed) || is_strict && is(ProbeOutcome::NotTested) {
        true => FAILURE,
        false => 0,
    }
}
