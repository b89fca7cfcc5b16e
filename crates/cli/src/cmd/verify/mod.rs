//! `muster verify`: checks that a running job has the resources it was allocated. `drive` runs the
//! probes; `muster-doctor` evaluates their answers.

mod container;
mod drive;
mod leaves;
pub mod preflight;
pub mod probe;

use std::ffi::OsString;
use std::io::Write as _;

use anyhow::Result;
use muster_api::Client;
use muster_api::query::LogQuery;
use muster_daemon::DaemonMode;
use muster_doctor::job::{ExpectedRank, JobEvidence, RayNodes, verify};
use muster_model::check::ProbeOutcome;
use muster_model::verify::{PROBE_MARK, ProbeAnswer, VerifyReport};
use muster_model::view::{DeviceView, ElementView, JobState, JobView, NodeView};

use crate::app::App;
use crate::args::OutputArgs;
use crate::connect;
use crate::exit::{FAILURE, Failure};
use crate::jobref::{JobRef, JobTarget};
use crate::ray_cluster::RayReport;
use crate::ui::now;

/// Number of last lines of a rank's output that are searched: NCCL logs when communicators are
/// created.
const TAIL: u32 = 200_000;
/// Largest number of ranks whose output is searched, the first of each node.
const RANKS: usize = 16;

/// Check that a running job has all its ranks, its own GPUs and the fast network
///
/// Starts a probe beside the ranks on each node of the job. It checks that every rank runs and sees
/// its own GPUs and no others, that rank 0 can be reached, that shared memory, locked memory and
/// clocks are in order, that the job spans as few leaf switches as possible, and that NCCL uses the
/// fast network. Each check passes, fails, or is not tested, with what is needed to test it.
/// docs/verify.md lists all checks.
///
/// `verify: true` in a job file runs the checks before the program starts. For a job that has
/// ended, only its output is checked.
///
/// Exits with 0 if no check failed, with 1 otherwise.
#[derive(Debug, clap::Args)]
pub struct VerifyArgs {
    /// Job: 3, an array element 3[7], or a name
    #[arg(value_name = "JOB")]
    job: JobRef,
    /// Also exit with 1 if a check was not tested
    #[arg(long)]
    strict: bool,
    #[command(flatten)]
    output: OutputArgs,
}

/// Runs `muster verify`; returns its exit code.
pub async fn run(app: &App, args: VerifyArgs) -> Result<u8> {
    // 1. Find the job and the element.
    let client = connect::find(&app.global)?;
    let target = args.job.resolve(&client).await?;
    let detail = client.job(target.job, target.index).await.map_err(Failure::from)?;
    let job = &detail.job;
    let wanted =
        |element: &&ElementView| target.index.is_none_or(|index| element.element.index == index);
    let running = |element: &&ElementView| element.state == JobState::Running;
    let elements = || job.elements.iter().filter(wanted);
    let Some(element) = elements().find(running).or_else(|| elements().next()) else {
        return Err(not_started(&client, target, job.state));
    };
    if matches!(element.state, JobState::Held | JobState::Pending | JobState::Starting) {
        return Err(not_started(&client, target, element.state));
    }
    let is_array = job.array.is_some() || job.service.is_some();
    let index = is_array.then_some(element.element.index);
    let mut evidence = JobEvidence {
        job: target.job.0,
        index,
        at: now(),
        is_personal: job.native.is_none() && is_personal(&client).await,
        sharing_jobs: if job.native.is_none() {
            sharing(&client, element).await
        } else {
            Vec::new()
        },
        expected: expected(element, is_on_kubernetes(job)),
        ..JobEvidence::default()
    };

    // 2. Collect evidence.
    if element.state == JobState::Running {
        let target = JobTarget { job: target.job, index };
        run_probes(app, &client, target, is_on_kubernetes(job), &mut evidence).await?;
    } else {
        let state = element.state.word();
        app.ui.status(&format!(
            "job {} is {state}: only its output is checked",
            target.text(&client)
        ));
    }
    evidence.leaves = match job.native.as_ref().map(|native| native.system.as_str()) {
        Some("slurm") => leaves::of_slurm().await,
        Some("kubernetes") => leaves::of_kubernetes(app, &evidence.nodes()).await,
        _ => None,
    };
    if detail.has_ray && element.state == JobState::Running {
        evidence.ray = Some(ray_nodes(app, target, &client));
    }
    evidence.output = Some(output(&client, JobTarget { job: target.job, index }, element).await);

    // 3. Evaluate and print the report.
    let report = verify(&evidence);
    if args.output.json() {
        app.ui.json(&report)?;
    } else {
        let job = client.label(target.job);
        app.ui.data(&muster_report::verify::verify(&report, &job, app.ui.context()))?;
    }
    Ok(code(&report, args.strict))
}

fn not_started(client: &Client, target: JobTarget, state: JobState) -> anyhow::Error {
    Failure::new(format!(
        "job {} is {}: it has not started, so nothing can be checked",
        target.text(client),
        state.word()
    ))
    .hint(format!("`muster explain {}` says why it is pending", target.text(client)))
    .into()
}

/// Returns true for a daemon that runs its jobs as its own user.
async fn is_personal(client: &Client) -> bool {
    client.info().await.is_ok_and(|info| info.mode == DaemonMode::Personal.word())
}

/// Returns the other jobs that hold shares of the element's GPUs.
async fn sharing(client: &Client, element: &ElementView) -> Vec<u64> {
    let nodes = client.nodes().await.map(|list| list.nodes).unwrap_or_default();
    let is_own = |node: &NodeView, device: &DeviceView| {
        let mut tasks = element.tasks.iter().filter(|task| task.node == node.name);
        tasks.any(|task| task.devices.contains(&device.index))
    };
    let devices = nodes
        .iter()
        .flat_map(|node| node.devices.iter().filter(move |device| is_own(node, device)));
    let holders = devices.flat_map(|device| &device.elements).map(|holder| holder.job);
    holders.filter(|job| *job != element.element.job).map(|job| job.0).collect()
}

/// Asks the Ray cluster of a job for its nodes.
fn ray_nodes(app: &App, target: JobTarget, client: &Client) -> Result<RayNodes, String> {
    let report = RayReport::read(app, &target.text(client)).map_err(|error| error.to_string())?;
    let own = report.status.own_nodes();
    let further = report.status.nodes.len() - own.len();
    Ok(RayNodes { own: own.iter().map(|node| node.gpus).collect(), further })
}

fn is_on_kubernetes(job: &JobView) -> bool {
    job.native.as_ref().is_some_and(|native| native.system == "kubernetes")
}

/// Returns the ranks that should run. Kubernetes does not tell the devices of a pod.
fn expected(element: &ElementView, is_on_kubernetes: bool) -> Vec<ExpectedRank> {
    let one = |task: &muster_model::view::TaskView| ExpectedRank {
        rank: task.rank.0,
        node: Some(task.node.to_string()),
        gpus: u32::try_from(task.devices.len()).ok().filter(|_| !is_on_kubernetes),
    };
    element.tasks.iter().map(one).collect()
}

/// Runs a probe on each node and adds the answers to the evidence.
async fn run_probes(
    app: &App,
    client: &Client,
    target: JobTarget,
    is_on_kubernetes: bool,
    evidence: &mut JobEvidence,
) -> Result<()> {
    let probe = probe::command_line(target)?;
    let starts =
        client.probe_commands(target.job, target.index, probe).await.map_err(Failure::from)?;
    let nodes = evidence.nodes().len().max(1);
    app.ui.status(&format!("probing {nodes} {}", if nodes == 1 { "node" } else { "nodes" }));
    let ranks: Vec<u32> = evidence.expected.iter().map(|one| one.rank).collect();
    // One for each container that runs, or for each node.
    let probes = if is_on_kubernetes { starts.len() } else { nodes };
    let driven = drive::drive(&starts, probes, &ranks, &job_variables()).await;
    if driven.seen.len() < probes {
        let why = driven.why.map_or(String::new(), |why| format!(": {why}"));
        app.ui.warning(&format!("{} of {probes} probes answered{why}", driven.seen.len()));
        if driven.seen.is_empty() && is_on_kubernetes {
            app.ui.hint("the image needs a shell, and you need the right to create pods/exec");
        } else if driven.seen.is_empty() {
            app.ui.hint("the muster binary must be on a file system that the nodes share");
        }
    }
    evidence.timed_out = driven.is_late;
    evidence.seen = driven.seen;
    evidence.reached = driven.reached;
    evidence.clocks = driven.clocks;
    Ok(())
}

/// Returns the variables of a job that this process itself may run in: the probes would take them
/// for those of the checked job.
fn job_variables() -> Vec<OsString> {
    let is_of_a_job = |name: &str| {
        name.starts_with("SLURM") && name != "SLURM_CONF" || name.starts_with("MUSTER_")
    };
    let names = std::env::vars_os().map(|(name, _)| name);
    names.filter(|name| name.to_str().is_some_and(is_of_a_job)).collect()
}

/// Returns the output of the first rank of each node. Output that cannot be read is skipped.
async fn output(client: &Client, target: JobTarget, element: &ElementView) -> String {
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
        text.push_str(&read_output(client, target, query).await.unwrap_or_default());
    }
    text
}

async fn read_output(client: &Client, target: JobTarget, query: LogQuery) -> Option<String> {
    use futures_util::TryStreamExt as _;
    let stream = client.logs(target.job, query).await.ok()?;
    let bytes: Vec<_> = stream.try_collect().await.ok()?;
    Some(String::from_utf8_lossy(&bytes.concat()).into_owned())
}

/// Prints an answer in one write, since lines of several probes are interleaved.
fn print_answer(answer: &ProbeAnswer) -> Result<()> {
    let line = format!("{PROBE_MARK}{}\n", serde_json::to_string(answer)?);
    let mut stdout = std::io::stdout().lock();
    stdout.write_all(line.as_bytes())?;
    Ok(stdout.flush()?)
}

fn code(report: &VerifyReport, is_strict: bool) -> u8 {
    let is = |outcome| report.checks.iter().any(|check| check.outcome == outcome);
    if is(ProbeOutcome::Failed) || is_strict && is(ProbeOutcome::NotTested) { FAILURE } else { 0 }
}
