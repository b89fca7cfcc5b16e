//! Jobs as Slurm's programs print them: JSON of slurmrestd (and of `squeue --json`, which says the
//! same), and lines of `squeue` and `sacct` with a separator of our own. All become one record;
//! nothing here runs Slurm.

use muster_model::{Bytes, Span, Time};
use serde_json::Value;

use super::json::{self, JsonError, number, text, words};
use super::state::{ExitStatus, NativeState};

/// What stands between fields of a line: names may hold everything that one can type.
pub const SEPARATOR: char = '\u{1f}';

/// `SLURM_TIME_FORMAT` for every call: seconds since the epoch, whatever the time zone of the host.
pub const TIME_FORMAT: &str = "%s";

/// A row: a job, an element of an array, or the elements of an array that wait.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NativeJob {
    /// Its number.
    pub id: u64,
    /// The number of the array that it belongs to.
    pub array: Option<u64>,
    /// Elements of the array that this row stands for, as `3`, or `4-199%32` while they wait.
    pub array_tasks: String,
    /// Of a heterogeneous job: the number of its first component, and which component this row is.
    pub component: Option<(u64, u32)>,
    /// Name.
    pub name: String,
    /// Owner.
    pub user: String,
    /// Account.
    pub account: String,
    /// Partition, or several that it waits in.
    pub partition: String,
    /// Quality of service.
    pub qos: String,
    /// How it stands.
    pub state: NativeState,
    /// Who cancelled it, as a number or a name; sacct alone says that.
    pub cancelled_by: Option<String>,
    /// Why it waits, in one word.
    pub reason: String,
    /// What its submitter wrote to it.
    pub comment: String,
    /// When it was submitted.
    pub submitted: Option<Time>,
    /// When it started, or is to start.
    pub start: Option<Time>,
    /// When it ended, or is to end.
    pub end: Option<Time>,
    /// Time limit; `None` is none.
    pub time_limit: Option<Span>,
    /// Nodes that it holds or held, as Slurm folds them.
    pub nodes: String,
    /// How many nodes and tasks it asks for or has.
    pub node_count: u32,
    /// Tasks.
    pub tasks: u32,
    /// Tasks on each of its nodes, in order; empty where nobody says.
    pub tasks_by_node: Vec<u32>,
    /// CPUs in all.
    pub cpus: u32,
    /// Trackable resources that it asks for, and that it has: `cpu=16,mem=1G,gres/gpu=8`.
    pub tres_asked: String,
    /// What it has.
    pub tres_held: String,
    /// Generic resources per node in order of `nodes`, with device numbers: `gpu:h100:2(IDX:0-1)`.
    pub gres_by_node: Vec<String>,
    /// How it ended.
    pub exit: ExitStatus,
    /// State of a step of it that says more than its own: a job whose ranks ran out of memory has
    /// just failed.
    pub step: NativeState,
    /// Times that it was queued again.
    pub restarts: u32,
    /// Its priority, as the controller counts.
    pub priority: u64,
    /// What it waits for, as Slurm has it.
    pub dependency: String,
    /// Where it runs.
    pub workdir: String,
}

impl NativeJob {
    /// The number that people use: of an element of an array that of the array, of a component that
    /// of the first.
    #[must_use]
    pub fn job(&self) -> u64 {
        self.array.or(self.component.map(|(first, _)| first)).unwrap_or(self.id)
    }

    /// Of `comment`: the id that Muster gave it.
    #[must_use]
    pub fn muster_id(&self) -> Option<&str> {
        let word = self.comment.split_whitespace().find_map(|word| word.strip_prefix("muster:"))?;
        (!word.is_empty()).then_some(word)
    }

    /// It waits for a release and for nothing else.
    #[must_use]
    pub fn is_held(&self) -> bool {
        // squeue prints the words of the moment in place of the reason where there are some:
        // `launch failed requeued held`.
        matches!(self.reason.as_str(), "JobHeldUser" | "JobHeldAdmin")
            || self.reason.ends_with(" held")
    }

    /// CPUs in a list of trackable resources: `cpu=16`. 0 where none is said.
    #[must_use]
    pub fn cpus_of(tres: &str) -> u32 {
        let found = tres.split(',').find_map(|part| part.trim().strip_prefix("cpu=")?.parse().ok());
        found.unwrap_or_default()
    }

    /// Memory in a list of trackable resources: `mem=62.50G`, in powers of 1024; without a unit
    /// mebibytes. 0 where none is said.
    #[must_use]
    pub fn memory_of(tres: &str) -> Bytes {
        let amount = |text: &str| -> Option<f64> {
            let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
            let shift = match &text[digits.len()..] {
                "K" => 10,
                "" | "M" => 20,
                "G" => 30,
                "T" => 40,
                "P" => 50,
                _ => return None,
            };
            Some(digits.parse::<f64>().ok()? * (1u64 << shift) as f64)
        };
        let found = tres.split(',').find_map(|part| amount(part.trim().strip_prefix("mem=")?));
        Bytes(found.unwrap_or_default() as u64)
    }

    /// GPUs in a list of trackable resources: all of them, whatever their type.
    #[must_use]
    pub fn gpus_of(tres: &str) -> u32 {
        let count = |part: &str| -> Option<(bool, u32)> {
            let (name, count) = part.trim().rsplit_once('=')?;
            let count = count.parse().ok()?;
            match name {
                "gres/gpu" => Some((true, count)),
                _ if name.starts_with("gres/gpu:") => Some((false, count)),
                _ => None,
            }
        };
        let counts: Vec<(bool, u32)> = tres.split(',').filter_map(count).collect();
        let plain = counts.iter().find(|(is_all, _)| *is_all).map(|(_, count)| *count);
        plain.unwrap_or_else(|| counts.iter().map(|(_, count)| count).sum())
    }
}

/// Reads rows of `squeue --json` or of slurmrestd.
///
/// # Errors
/// When Slurm says that it failed, or this is no list of jobs.
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
        // As squeue: what is said of this job beats the word for it.
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
        // Of one that was cancelled before it started the number is 0.
        cpus: small("/cpus").max(NativeJob::cpus_of(&text(row, "/tres_req_str"))),
        tres_asked: text(row, "/tres_req_str"),
        tres_held: text(row, "/tres_alloc_str"),
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

/// Up to v0.0.39 the raw status of wait(2), later its parts.
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

/// `--format` of squeue for [`from_squeue`], for versions that do not know
/// [`super::squeue::format`].
#[must_use]
pub fn squeue_format() -> String {
    let fields = [
        "%A", "%F", "%K", "%j", "%u", "%a", "%P", "%q", "%T", "%r", "%k", "%V", "%S", "%e", "%l",
        "%N", "%D", "%C", "%Q", "%E", "%Z", "%b",
    ];
    fields.join(&SEPARATOR.to_string())
}

/// Lines of `squeue --noheader --format`, as [`squeue_format`] has it, with times in seconds
/// ([`TIME_FORMAT`]).
#[must_use]
pub fn from_squeue(lines: &str) -> Vec<NativeJob> {
    lines.lines().filter_map(squeue_row).collect()
}

fn squeue_row(line: &str) -> Option<NativeJob> {
    let fields: Vec<&str> = line.split(SEPARATOR).map(given).collect();
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
    // %b is of one node: `gres:gpu:h100:8`.
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
        time_limit: limit_of(limit),
        nodes: (*nodes).to_owned(),
        node_count,
        cpus: cpus.parse().unwrap_or_default(),
        tres_asked: if gpus > 0 {
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

/// Fields that [`from_sacct`] asks for, in the order of its reader.
pub const SACCT_FIELDS: &str = "JobIDRaw,JobID,JobName,User,Account,Partition,QOS,State,ExitCode,Submit,Start,End,\
                                TimelimitRaw,NodeList,NNodes,NTasks,ReqCPUS,ReqTRES,AllocTRES,Comment,Priority,WorkDir,Reason";

/// Lines of `sacct --parsable2 --noheader --allocations` with [`SACCT_FIELDS`] between
/// [`SEPARATOR`]s, times in seconds.
#[must_use]
pub fn from_sacct(lines: &str) -> Vec<NativeJob> {
    lines.lines().filter_map(sacct_row).collect()
}

fn sacct_row(line: &str) -> Option<NativeJob> {
    let fields: Vec<&str> = line.split(SEPARATOR).map(given).collect();
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
        asked,
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
        tres_asked: (*asked).to_owned(),
        tres_held: (*held).to_owned(),
        exit: ExitStatus::parse(exit).unwrap_or_default(),
        priority: priority.parse().unwrap_or_default(),
        workdir: (*workdir).to_owned(),
        ..NativeJob::default()
    })
}

/// Fields that [`steps`] asks of sacct.
pub const STEP_FIELDS: &str = "JobIDRaw,State";

/// States of steps that ran out of memory, by the number of their job, of `sacct --parsable2
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

/// A field without the words that stand for nothing.
pub(super) fn given(field: &str) -> &str {
    match field.trim() {
        "N/A" | "(null)" | "Unknown" | "UNKNOWN" => "",
        field => field,
    }
}

/// `1-12:00:00`, `30:00`; `None` for `UNLIMITED` and what is not set.
#[must_use]
pub fn limit_of(text: &str) -> Option<Span> {
    let (days, clock) = match text.split_once('-') {
        Some((days, clock)) => (days.parse::<u64>().ok()?, clock),
        None => (0, text),
    };
    let mut secs = 0;
    for part in clock.split(':') {
        secs = secs * 60 + part.parse::<u64>().ok()?;
    }
    Some(Span::from_secs(days * 86_400 + secs))
}

/// Seconds since the epoch.
pub(super) fn epoch(text: &str) -> Option<Time> {
    text.parse().ok().filter(|secs| *secs > 0).map(seconds)
}

fn seconds(secs: u64) -> Time {
    Time(0) + Span::from_secs(secs)
}
