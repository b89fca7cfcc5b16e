//! Jobs as Slurm's programs print them: JSON of slurmrestd (same as `squeue --json`), and lines of
//! `squeue` and `sacct` with our own separator. All are parsed into one record type; nothing here
//! runs Slurm.

use muster_model::{Span, Time};
use serde_json::Value;

use super::json::{self, JsonError, number, text, words};
use super::state::{ExitStatus, NativeState};
use super::{time, tres};

/// Separator of the fields of a line: names may contain any typed character.
pub const SEPARATOR: char = '\u{1f}';

/// `SLURM_TIME_FORMAT` of every call: seconds since the epoch, independent of the time zone.
pub const TIME_FORMAT: &str = "%s";

/// Row of Slurm: a job, an element of an array, or the pending elements of an array.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NativeJob {
    /// Job number of the row.
    pub id: u64,
    /// Job number of the array that it belongs to.
    pub array: Option<u64>,
    /// Elements of the array in this row: `3`, or `4-199%32` while they are pending.
    pub array_tasks: String,
    /// For a heterogeneous job: number of the first component, and index of this component.
    pub component: Option<(u64, u32)>,
    /// Name of the job.
    pub name: String,
    /// Name of the owner.
    pub user: String,
    /// Account of the job.
    pub account: String,
    /// Partition, or several where it is pending.
    pub partition: String,
    /// QOS of the job.
    pub qos: String,
    /// State of the job.
    pub state: NativeState,
    /// User who cancelled it, as a number or a name; only sacct reports it.
    pub cancelled_by: Option<String>,
    /// Reason why it is pending, in one word.
    pub reason: String,
    /// Comment set at submission.
    pub comment: String,
    /// Time at which the job was submitted.
    pub submitted: Option<Time>,
    /// Start, or expected start.
    pub start: Option<Time>,
    /// End, or expected end.
    pub end: Option<Time>,
    /// Time limit; `None` for no limit.
    pub time_limit: Option<Span>,
    /// Allocated nodes, as a folded list.
    pub nodes: String,
    /// Number of nodes that it requests or has.
    pub node_count: u32,
    /// Number of tasks that it requests or has.
    pub tasks: u32,
    /// Tasks on each of its nodes, in order; empty where not reported.
    pub tasks_by_node: Vec<u32>,
    /// Total number of CPUs.
    pub cpus: u32,
    /// Requested trackable resources: `cpu=16,mem=1G,gres/gpu=8`.
    pub tres_requested: String,
    /// Allocated trackable resources, in the same format.
    pub tres_allocated: String,
    /// Generic resources of each node in `nodes`, with device indices: `gpu:h100:2(IDX:0-1)`.
    pub gres_by_node: Vec<String>,
    /// Exit status of the job.
    pub exit: ExitStatus,
    /// State of a step with more detail than the job's: a job whose ranks ran out of memory is
    /// reported as failed only.
    pub step: NativeState,
    /// Number of times that it was requeued.
    pub restarts: u32,
    /// Priority computed by the controller.
    pub priority: u64,
    /// Dependencies in Slurm's syntax.
    pub dependency: String,
    /// Working directory of the job.
    pub workdir: String,
}

impl NativeJob {
    /// Returns the number that users see: for an element that of the array, for a component that of
    /// the first component.
    #[must_use]
    pub fn job(&self) -> u64 {
        self.array.or(self.component.map(|(first, _)| first)).unwrap_or(self.id)
    }

    /// Returns Muster's id in `comment`.
    #[must_use]
    pub fn muster_id(&self) -> Option<&str> {
        let word = self.comment.split_whitespace().find_map(|word| word.strip_prefix("muster:"))?;
        (!word.is_empty()).then_some(word)
    }

    /// Returns whether it is held, and would otherwise be pending.
    #[must_use]
    pub fn is_held(&self) -> bool {
        // squeue prints the state description in place of the reason where there is one: `launch
        // failed requeued held`.
        matches!(self.reason.as_str(), "JobHeldUser" | "JobHeldAdmin")
            || self.reason.ends_with(" held")
    }
}

/// Reads rows of `squeue --json` or slurmrestd.
///
/// # Errors
/// When Slurm reports a failure, or this is not a list of jobs.
pub fn from_json(value: &Value) -> Result<Vec<NativeJob>, JsonError> {
    Ok(json::list(value, "jobs")?.iter().map(row_of_json).collect())
}

fn row_of_json(row: &Value) -> NativeJob {
    let whole = |path: &str| number(row, path).unwrap_or_default();
    let small = |path: &str| u32::try_from(whole(path)).unwrap_or(u32::MAX);
    let time = |path: &str| number(row, path).filter(|secs| *secs > 0).map(seconds);
    let mut array_tasks = text(row, "/array_task_string");
    if let (true, Some(task)) = (array_tasks.is_empty(), number(row, "/array_task_id")) {
        array_tasks = task.to_string();
    }
    NativeJob {
        id: whole("/job_id"),
        array: number(row, "/array_job_id").filter(|id| *id > 0),
        array_tasks,
        component: number(row, "/het_job_id")
            .filter(|first| *first > 0)
            .map(|first| (first, small("/het_job_offset"))),
        name: text(row, "/name"),
        user: text(row, "/user_name"),
        account: text(row, "/account"),
        partition: text(row, "/partition"),
        qos: text(row, "/qos"),
        state: NativeState::new(words(row, &["/job_state"])),
        cancelled_by: None,
        // As in squeue, the state description takes precedence over the reason.
        reason: Some(text(row, "/state_description"))
            .filter(|said| !said.is_empty())
            .unwrap_or_else(|| text(row, "/state_reason")),
        comment: words(row, &["/comment", "/comment/job"]).concat(),
        submitted: time("/submit_time"),
        start: time("/start_time"),
        end: time("/end_time"),
        time_limit: number(row, "/time_limit").map(|minutes| Span::from_secs(minutes * 60)),
        nodes: text(row, "/nodes"),
        node_count: small("/node_count").max(u32::try_from(held_nodes(row)).unwrap_or(u32::MAX)),
        tasks: small("/tasks"),
        tasks_by_node: Vec::new(),
        // The number is 0 for a job that was cancelled before it started.
        cpus: small("/cpus").max(tres::cpus(&text(row, "/tres_req_str"))),
        tres_requested: text(row, "/tres_req_str"),
        tres_allocated: text(row, "/tres_alloc_str"),
        gres_by_node: words(row, &["/gres_detail"]),
        exit: exit_of_json(row),
        step: NativeState::default(),
        restarts: small("/restart_cnt"),
        priority: whole("/priority"),
        dependency: text(row, "/dependency"),
        workdir: text(row, "/current_working_directory"),
    }
}

fn held_nodes(row: &Value) -> u64 {
    number(row, "/job_resources/allocated_hosts").unwrap_or_default()
}

/// Up to v0.0.39 this is the raw status of wait(2), later its parts.
fn exit_of_json(row: &Value) -> ExitStatus {
    let part = |path: &str| {
        number(row, path).and_then(|part| i32::try_from(part).ok()).unwrap_or_default()
    };
    match row.pointer("/exit_code/return_code") {
        Some(_) => {
            let signal = match row.pointer("/exit_code/signal/id") {
                Some(_) => part("/exit_code/signal/id"),
                None => part("/exit_code/signal/signal_id"),
            };
            ExitStatus { code: part("/exit_code/return_code"), signal }
        }
        None => {
            let status = part("/exit_code");
            ExitStatus { code: (status >> 8) & 0xff, signal: status & 0x7f }
        }
    }
}

/// Returns the argument of `squeue --format` that [`from_squeue`] reads, for versions without
/// [`super::squeue::format`].
#[must_use]
pub fn squeue_format() -> String {
    let fields = [
        "%A", "%F", "%K", "%j", "%u", "%a", "%P", "%q", "%T", "%r", "%k", "%V", "%S", "%e", "%l",
        "%N", "%D", "%C", "%Q", "%E", "%Z", "%b",
    ];
    fields.join(&SEPARATOR.to_string())
}

/// Reads lines of `squeue --noheader --format` with [`squeue_format`] and times in seconds
/// ([`TIME_FORMAT`]).
#[must_use]
pub fn from_squeue(lines: &str) -> Vec<NativeJob> {
    lines.lines().filter_map(squeue_row).collect()
}

fn squeue_row(line: &str) -> Option<NativeJob> {
    let fields: Vec<&str> = line.split(SEPARATOR).map(or_empty).collect();
    let [
        id,
        array,
        tasks,
        name,
        user,
        account,
        partition,
        qos,
        state,
        reason,
        comment,
        submitted,
        start,
        end,
        limit,
        nodes,
        node_count,
        cpus,
        priority,
        dependency,
        workdir,
        per_node,
    ] = fields.as_slice()
    else {
        return None;
    };
    let node_count: u32 = node_count.parse().unwrap_or_default();
    // %b is per node: `gres:gpu:h100:8`.
    let gpus = per_node
        .split(',')
        .filter(|part| part.contains("gpu"))
        .filter_map(|part| part.rsplit(':').next());
    let gpus: u32 = gpus.filter_map(|count| count.parse::<u32>().ok()).sum();
    let is_array = !tasks.is_empty();
    Some(NativeJob {
        id: id.parse().ok()?,
        array: array.parse().ok().filter(|_| is_array),
        array_tasks: (*tasks).to_owned(),
        name: (*name).to_owned(),
        user: (*user).to_owned(),
        account: (*account).to_owned(),
        partition: (*partition).to_owned(),
        qos: (*qos).to_owned(),
        state: NativeState::new([state]),
        reason: (*reason).to_owned(),
        comment: (*comment).to_owned(),
        submitted: epoch(submitted),
        start: epoch(start),
        end: epoch(end),
        time_limit: time::span(limit),
        nodes: (*nodes).to_owned(),
        node_count,
        cpus: cpus.parse().unwrap_or_default(),
        tres_requested: if gpus > 0 {
            format!("gres/gpu={}", gpus * node_count)
        } else {
            String::new()
        },
        priority: priority.parse().unwrap_or_default(),
        dependency: (*dependency).to_owned(),
        workdir: (*workdir).to_owned(),
        ..NativeJob::default()
    })
}

/// Fields of sacct that [`from_sacct`] reads, in order.
pub const SACCT_FIELDS: &str = "JobIDRaw,JobID,JobName,User,Account,Partition,QOS,State,ExitCode,Submit,Start,End,\
                                TimelimitRaw,NodeList,NNodes,NTasks,ReqCPUS,ReqTRES,AllocTRES,Comment,Priority,WorkDir,Reason";

/// Reads lines of `sacct --parsable2 --noheader --allocations` with [`SACCT_FIELDS`] between
/// [`SEPARATOR`]s and times in seconds.
#[must_use]
pub fn from_sacct(lines: &str) -> Vec<NativeJob> {
    lines.lines().filter_map(sacct_row).collect()
}

fn sacct_row(line: &str) -> Option<NativeJob> {
    let fields: Vec<&str> = line.split(SEPARATOR).map(or_empty).collect();
    let [
        raw,
        id,
        name,
        user,
        account,
        partition,
        qos,
        state,
        exit,
        submitted,
        start,
        end,
        limit,
        nodes,
        node_count,
        tasks,
        cpus,
        requested,
        held,
        comment,
        priority,
        workdir,
        reason,
    ] = fields.as_slice()
    else {
        return None;
    };
    let component =
        id.split_once('+').and_then(|(first, at)| Some((first.parse().ok()?, at.parse().ok()?)));
    let (array, array_tasks) = match id.split_once('_') {
        Some((array, tasks)) => (array.parse().ok(), tasks.trim_matches(['[', ']'])),
        None => (None, ""),
    };
    let number = |text: &str| text.parse().unwrap_or_default();
    Some(NativeJob {
        id: raw.parse().ok()?,
        array,
        array_tasks: array_tasks.to_owned(),
        component,
        name: (*name).to_owned(),
        user: (*user).to_owned(),
        account: (*account).to_owned(),
        partition: (*partition).to_owned(),
        qos: (*qos).to_owned(),
        state: NativeState::new([state]),
        cancelled_by: state.split_once(" by ").map(|(_, by)| by.to_owned()),
        reason: if *reason == "None" { String::new() } else { (*reason).to_owned() },
        comment: (*comment).to_owned(),
        submitted: epoch(submitted),
        start: epoch(start),
        end: epoch(end),
        time_limit: limit.parse().ok().map(|minutes: u64| Span::from_secs(minutes * 60)),
        nodes: if *nodes == "None assigned" { String::new() } else { (*nodes).to_owned() },
        node_count: number(node_count),
        tasks: number(tasks),
        cpus: number(cpus),
        tres_requested: (*requested).to_owned(),
        tres_allocated: (*held).to_owned(),
        exit: ExitStatus::parse(exit).unwrap_or_default(),
        priority: priority.parse().unwrap_or_default(),
        workdir: (*workdir).to_owned(),
        ..NativeJob::default()
    })
}

/// Fields of sacct that [`steps`] reads.
pub const STEP_FIELDS: &str = "JobIDRaw,State";

/// Returns the states of steps that ran out of memory, by job number, from `sacct --parsable2
/// --noheader` with [`STEP_FIELDS`].
#[must_use]
pub fn steps(lines: &str) -> Vec<(u64, NativeState)> {
    let step = |line: &str| {
        let (id, state) = line.split_once('|')?;
        let (job, _) = id.split_once('.')?;
        (state == "OUT_OF_MEMORY").then_some((job.parse().ok()?, NativeState::new([state])))
    };
    lines.lines().filter_map(step).collect()
}

/// Returns a field, empty where its value means that nothing is set.
pub(super) fn or_empty(field: &str) -> &str {
    match field.trim() {
        "N/A" | "(null)" | "Unknown" | "UNKNOWN" => "",
        field => field,
    }
}

/// Parses seconds since the epoch.
pub(super) fn epoch(text: &str) -> Option<Time> {
    text.parse().ok().filter(|secs| *secs > 0).map(seconds)
}

fn seconds(secs: u64) -> Time {
    Time(0) + Span::from_secs(secs)
}
