//! Output of `sacct --parsable2`: a table of the requested columns. Its dates are in the cluster's
//! zone, but do not name it, and are taken as UTC (with `SLURM_TIME_FORMAT=%s` sacct prints seconds
//! since the epoch). The resources of a job are those allocated, or those requested if it never
//! ran.

use muster_model::node::GpuModel;
use muster_model::{Bytes, Span, Time};

use super::TraceJob;
use super::csv::{CsvField, CsvLayout, CsvRow};
use super::names::NameCache;
use super::value::{JobResources, count, ended, instant, seconds};
use crate::quantity::{parse_bytes, parse_slurm_span};

/// Layout of the table: `JobID`, `Submit`, `State` and one of `Elapsed` and `ElapsedRaw`;
/// `AllocTRES` or `ReqTRES` for GPUs. Steps of a job are ignored.
pub(super) const TABLE: CsvLayout = CsvLayout {
    separator: b'|',
    columns: &[
        "JobID",
        "Submit",
        "State",
        "Start",
        "Elapsed",
        "ElapsedRaw",
        "Timelimit",
        "TimelimitRaw",
        "ReqTRES",
        "AllocTRES",
        "AllocCPUS",
        "NCPUS",
        "ReqCPUS",
        "NNodes",
        "AllocNodes",
        "User",
        "Partition",
    ],
    needed: &["JobID", "Submit", "State"],
    read: row,
};

fn row(row: &CsvRow<'_>, names: &mut NameCache) -> Result<Option<TraceJob>, String> {
    let [
        id,
        submit,
        state,
        start,
        clock,
        raw,
        limit,
        limit_minutes,
        asked,
        given,
        alloc_cpus,
        ncpus,
        req_cpus,
        nnodes,
        alloc_nodes,
        user,
        partition,
    ] = row.fields();
    let id = id.needed()?;
    if id.contains('.') {
        return Ok(None);
    }
    let state = state.needed()?;

    // 1. Times.
    let clock = clock.value("a time such as 1-02:03:04", |text| parse_slurm_span(text).ok())?;
    let raw = raw.value("seconds", seconds)?;
    let Attempt { runtime, started } =
        Attempt::of(state, start.text.and_then(instant), raw.or(clock));
    let limit = limit.text.and_then(|text| parse_slurm_span(text).ok());
    let limit_minutes = limit_minutes.text.and_then(|text| text.parse::<u64>().ok());
    let requested =
        limit.or(limit_minutes.map(|minutes| Span::from_secs(minutes.saturating_mul(60))));

    // 2. Resources.
    let asked = asked.text.map(tres).unwrap_or_default();
    let given = given.text.map(tres).unwrap_or_default();
    let column = |field: CsvField<'_>| field.value("a number", count);
    let cpus =
        column(alloc_cpus)?.or(column(ncpus)?).filter(|cpus| *cpus > 0).or(column(req_cpus)?);
    let nodes = column(nnodes)?.or(column(alloc_nodes)?).filter(|nodes| *nodes > 0);
    let held = if given.cpus > 0 || given.gpus > 0 { &given } else { &asked };
    let held = JobResources {
        nodes: held.nodes.or(nodes),
        gpus: held.gpus,
        cpus: if held.cpus > 0 { held.cpus } else { cpus.unwrap_or(0) },
        memory: held.memory,
    };
    let (tasks, mut task) = held.tasks();
    task.gpu.models = asked.models;
    Ok(Some(TraceJob {
        id: id.into(),
        submit: submit.needed_value("a date", instant)?,
        runtime,
        started,
        requested,
        tasks,
        task,
        user: user.text.map(|name| names.shared(name)),
        queue: partition.text.map(|name| names.shared(name)),
        priority: 0,
        ended: ended(state),
    }))
}

/// Start and runtime of a job, or of one attempt of a requeued job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Attempt {
    pub(super) runtime: Option<Span>,
    pub(super) started: Option<Time>,
}

impl Attempt {
    /// Returns those that a record of sacct contains. The start of a pending job is an expected one,
    /// and that of a job which was cancelled before it started is the time of its end.
    pub(super) fn of(state: &str, start: Option<Time>, elapsed: Option<Span>) -> Self {
        let is = |words: &[&str]| words.iter().any(|word| state.starts_with(word));
        let has_run = elapsed.is_some_and(|span| span.0 > 0);
        // An attempt in the state REQUEUED is over if it ran; with no time it is a pending job.
        let ends_unstarted = ["CANCELLED", "DEADLINE", "REVOKED", "REQUEUED"];
        if is(&["PENDING"]) || is(&ends_unstarted) && !has_run {
            Self { runtime: None, started: None }
        } else if is(&["RUNNING", "SUSPENDED"]) {
            Self { runtime: None, started: start }
        } else {
            let runtime = elapsed.filter(|_| has_run || start.is_some());
            Self { runtime, started: start.filter(|_| has_run) }
        }
    }
}

/// Trackable resources of a job.
#[derive(Clone, Debug, Default)]
pub(super) struct Tres {
    pub(super) nodes: Option<u32>,
    pub(super) gpus: u32,
    pub(super) cpus: u32,
    pub(super) memory: Bytes,
    pub(super) models: Vec<GpuModel>,
}

impl Tres {
    /// Adds a GRES of GPUs: `gpu` counts all of them, `gpu:h100` only those of a model.
    pub(super) fn gpu(&mut self, name: &str, number: u32) {
        match name.split_once(':') {
            None => self.gpus = number,
            Some((_, model)) => {
                self.models.push(GpuModel::from(model.to_ascii_lowercase().as_str()));
                self.gpus = self.gpus.max(number);
            }
        }
    }
}

/// Parses trackable resources: `billing=8,cpu=8,gres/gpu=1,gres/gpu:h100=1,mem=64G,node=1`.
fn tres(text: &str) -> Tres {
    let mut held = Tres::default();
    for (name, value) in text.split(',').filter_map(|part| part.split_once('=')) {
        match name {
            "node" => held.nodes = count(value),
            "cpu" => held.cpus = count(value).unwrap_or(0),
            "mem" => held.memory = parse_bytes(value).unwrap_or_default(),
            _ => {
                if let Some(gres) = name.strip_prefix("gres/").filter(|gres| is_gpu(gres)) {
                    held.gpu(gres, count(value).unwrap_or(0));
                }
            }
        }
    }
    held
}

/// Returns true for `gpu` and `gpu:h100`, not for `gpumem`.
pub(super) fn is_gpu(gres: &str) -> bool {
    gres == "gpu" || gres.starts_with("gpu:")
}

#[cfg(test)]
mod tests {
    use super::super::{JobEnd, TraceFormat, tests::jobs};
    use super::*;

    const HEADER: &str = "JobID|User|Partition|State|Submit|Start|Elapsed|Timelimit|NNodes|AllocCPUS|ReqTRES|AllocTRES\n";

    #[test]
    fn a_job_holds_what_it_was_given_and_its_steps_are_passed_over() {
        let text = format!(
            "{HEADER}\
             71|ann|gpu|COMPLETED|2026-03-01T10:00:00|2026-03-01T10:05:00|1-00:00:30|2-00:00:00|2|64|cpu=64,gres/gpu:h100=16,mem=1000G,node=2|billing=64,cpu=64,gres/gpu=16,gres/gpu:h100=16,mem=1000G,node=2\n\
             71.batch|||COMPLETED|2026-03-01T10:05:00|2026-03-01T10:05:00|1-00:00:30||1|32||cpu=32\n\
             72_3|bob|cpu|CANCELLED by 1000|2026-03-01T10:00:00|None|00:00:00|UNLIMITED|1|0|cpu=4,mem=8G,node=1|\n\
             73|bob|cpu|RUNNING|2026-03-01T10:00:00|2026-03-01T10:00:00|05:00|UNLIMITED|1|4|cpu=4|cpu=4\n"
        );
        let (jobs, bad) = jobs(TraceFormat::Sacct, &text);
        assert_eq!((jobs.len(), bad), (3, vec![]));
        let first = &jobs[0];
        assert_eq!((first.tasks, first.task.gpu.devices, first.task.cpus.0), (2, 8, 32_000));
        assert_eq!(
            (first.task.memory, first.task.gpu.models[0].as_str()),
            (Bytes(500 << 30), "h100")
        );
        assert_eq!(
            (first.runtime, first.requested, first.ended),
            (Some(Span::from_secs(86_430)), Some(Span::from_secs(172_800)), JobEnd::Completed)
        );
        let wait = |job: &TraceJob| job.started.map(|start| start.since(job.submit));
        assert_eq!(wait(first), Some(Span::from_secs(300)));
        assert_eq!((wait(&jobs[1]), wait(&jobs[2])), (None, Some(Span(0))));
        let cancelled = &jobs[1];
        assert_eq!((&*cancelled.id, cancelled.runtime, cancelled.requested), ("72_3", None, None));
        assert_eq!((cancelled.task.cpus.0, cancelled.ended), (4000, JobEnd::Cancelled));
        assert_eq!(
            (jobs[2].runtime, jobs[2].ended),
            (None, JobEnd::Unknown),
            "its runtime is not known yet"
        );
    }

    #[test]
    fn a_job_that_was_cancelled_before_it_started_has_no_times() {
        let check = |state: &str, start: Option<u64>, elapsed: Option<u64>, runtime, started| {
            let time = |secs| Time(0) + Span::from_secs(secs);
            let found = Attempt::of(state, start.map(time), elapsed.map(Span::from_secs));
            let expected = Attempt {
                runtime: Option::map(runtime, Span::from_secs),
                started: Option::map(started, time),
            };
            assert_eq!(found, expected, "{state} {start:?} {elapsed:?}");
        };
        check("CANCELLED by 1000", Some(50), Some(0), None, None);
        check("CANCELLED", None, Some(0), None, None);
        check("CANCELLED", Some(50), None, None, None);
        check("CANCELLED", Some(50), Some(7), Some(7), Some(50));
        check("DEADLINE", Some(50), Some(0), None, None);
        check("COMPLETED", Some(50), Some(0), Some(0), None);
        check("COMPLETED", Some(50), Some(9), Some(9), Some(50));
        check("PENDING", Some(50), Some(0), None, None);
        check("RUNNING", Some(50), Some(9), None, Some(50));
        // An attempt that ran, and one that waits again.
        check("REQUEUED", Some(50), Some(9), Some(9), Some(50));
        check("REQUEUED", Some(50), Some(0), None, None);
        let text = format!(
            "{HEADER}7|ann|gpu|CANCELLED by 5|2026-03-01T10:00:00|2026-03-01T11:00:00|00:00:00|1-00:00:00|1|0|cpu=4|\n"
        );
        let (jobs, _) = jobs(TraceFormat::Sacct, &text);
        assert_eq!((jobs[0].runtime, jobs[0].started), (None, None));
    }

    #[test]
    fn seconds_and_minutes_are_read_where_they_are_raw() {
        let text = "JobID|State|Submit|Start|ElapsedRaw|TimelimitRaw\n5|TIMEOUT|1700000000|1700000000|60|1\n";
        let (jobs, _) = jobs(TraceFormat::Sacct, text);
        assert_eq!((jobs[0].runtime, jobs[0].requested), (Some(Span(60_000)), Some(Span(60_000))));
        assert_eq!((jobs[0].submit.0, jobs[0].ended), (1_700_000_000_000, JobEnd::Failed));
    }
}
