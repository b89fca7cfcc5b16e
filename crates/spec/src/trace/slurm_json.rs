//! Output of `sacct --json`, in the data formats v0.0.38 to v0.0.42: numbers are bare or
//! `{"set": true, "infinite": false, "number": 60}`, states are bare or a list. Times are seconds
//! since the epoch.

use serde::Deserialize;
use serde_json::Value;

use muster_model::{Bytes, Span, Time};

use super::TraceJob;
use super::slurm::{Attempt, Tres, is_gpu};
use super::value::{JobResources, MAX_COUNT, ended};

#[derive(Deserialize)]
struct SacctJob {
    job_id: Value,
    #[serde(default)]
    array: SacctArray,
    #[serde(default)]
    state: SacctState,
    time: Times,
    #[serde(default)]
    tres: AllTres,
    allocation_nodes: Option<Value>,
    user: Option<String>,
    partition: Option<String>,
}

#[derive(Default, Deserialize)]
struct SacctArray {
    #[serde(default)]
    job_id: Value,
    #[serde(default)]
    task_id: Value,
}

#[derive(Default, Deserialize)]
struct SacctState {
    #[serde(default)]
    current: Value,
}

#[derive(Deserialize)]
struct Times {
    #[serde(default)]
    submission: Value,
    #[serde(default)]
    start: Value,
    #[serde(default)]
    elapsed: Value,
    #[serde(default)]
    limit: Value,
}

#[derive(Default, Deserialize)]
struct AllTres {
    #[serde(default)]
    allocated: Vec<TresEntry>,
    #[serde(default)]
    requested: Vec<TresEntry>,
}

#[derive(Deserialize)]
struct TresEntry {
    #[serde(rename = "type")]
    kind: String,
    name: Option<String>,
    #[serde(default)]
    count: Value,
}

/// Reads a job of the list.
pub(super) fn object(text: &str) -> Result<Option<TraceJob>, String> {
    let job: SacctJob = super::json::parse(text)?;
    let id = number(&job.job_id).ok_or("`job_id` is missing")?;
    let id = match (number(&job.array.job_id), number(&job.array.task_id)) {
        (Some(array @ 1..), Some(task)) => format!("{array}_{task}"),
        _ => id.to_string(),
    };
    let state = match &job.state.current {
        Value::String(state) => state.as_str(),
        Value::Array(states) => states.first().and_then(Value::as_str).unwrap_or_default(),
        _ => "",
    };
    let submit = number(&job.time.submission).ok_or("`time.submission` is missing")?;
    let start = number(&job.time.start).filter(|start| *start > 0);
    let Attempt { runtime, started } = Attempt::of(
        state,
        start.map(|secs| Time(0) + Span::from_secs(secs)),
        number(&job.time.elapsed).map(Span::from_secs),
    );

    let asked = tres(&job.tres.requested);
    let given = tres(&job.tres.allocated);
    let held = if given.cpus > 0 || given.gpus > 0 { &given } else { &asked };
    let nodes =
        job.allocation_nodes.as_ref().and_then(number).and_then(|nodes| u32::try_from(nodes).ok());
    let (tasks, mut task) = JobResources {
        nodes: held.nodes.or(nodes.filter(|nodes| *nodes > 0)),
        gpus: held.gpus,
        cpus: held.cpus,
        memory: held.memory,
    }
    .tasks();
    task.gpu.models = asked.models;
    Ok(Some(TraceJob {
        id: id.into(),
        submit: Time(0) + Span::from_secs(submit),
        runtime,
        started,
        requested: number(&job.time.limit)
            .map(|minutes| Span::from_secs(minutes.saturating_mul(60))),
        tasks,
        task,
        user: job.user.filter(|user| !user.is_empty()).map(Into::into),
        queue: job.partition.filter(|queue| !queue.is_empty()).map(Into::into),
        priority: 0,
        ended: ended(state),
    }))
}

/// Returns a number, bare or in an object; `None` if it is not set.
fn number(value: &Value) -> Option<u64> {
    let Value::Object(fields) = value else { return value.as_u64() };
    let is = |name: &str| fields.get(name).and_then(Value::as_bool).unwrap_or(false);
    if !is("set") || is("infinite") {
        return None;
    }
    fields.get("number")?.as_u64()
}

/// Returns the resources of one list. Memory is in MiB.
fn tres(entries: &[TresEntry]) -> Tres {
    let mut held = Tres::default();
    for entry in entries {
        let amount = number(&entry.count).unwrap_or(0);
        let whole = u32::try_from(amount).unwrap_or(MAX_COUNT).min(MAX_COUNT);
        match (entry.kind.as_str(), entry.name.as_deref().unwrap_or_default()) {
            ("node", _) => held.nodes = Some(whole),
            ("cpu", _) => held.cpus = whole,
            ("mem", _) => held.memory = Bytes(amount.saturating_mul(1 << 20)),
            ("gres", name) if is_gpu(name) => held.gpu(name, whole),
            _ => {}
        }
    }
    held
}

#[cfg(test)]
mod tests {
    use super::super::{JobEnd, TraceFormat, tests::jobs};
    use super::*;

    #[test]
    fn both_ways_of_writing_numbers_and_states_are_read() {
        let text = r#"{"meta": {"jobs": []}, "jobs": [
            {"job_id": 7, "array": {"job_id": 5, "task_id": {"set": true, "infinite": false, "number": 2}},
             "state": {"current": ["COMPLETED"]}, "user": "ann", "partition": "gpu", "allocation_nodes": 2,
             "time": {"submission": 1700000000, "start": 1700000010, "elapsed": 60,
                      "limit": {"set": true, "infinite": false, "number": 30}},
             "tres": {"allocated": [{"type": "cpu", "name": "", "count": 16}, {"type": "mem", "name": "", "count": 2048},
                                    {"type": "node", "name": "", "count": 2}, {"type": "gres", "name": "gpu", "count": 8},
                                    {"type": "gres", "name": "gpumem", "count": 80}]}},
            {"job_id": 8, "state": {"current": "CANCELLED"}, "user": "", "time": {"submission": 1700000001, "start": 1700000090,
             "elapsed": 0, "limit": {"set": false, "number": 0}},
             "tres": {"requested": [{"type": "gres", "name": "gpu:A100", "count": 1}]}},
            {"job_id": 9}
        ], "errors": [{}]}"#;
        let (jobs, bad) = jobs(TraceFormat::SacctJson, text);
        assert_eq!(bad, ["line 12: missing field `time`"]);
        let first = &jobs[0];
        let second = &jobs[1];
        assert_eq!((&*first.id, first.tasks, first.task.gpu.devices), ("5_2", 2, 4));
        assert_eq!((first.runtime, first.requested), (Some(Span(60_000)), Some(Span(1_800_000))));
        assert_eq!((first.task.cpus.0, first.task.memory), (8000, Bytes(1 << 30)));
        assert_eq!(
            (&*second.id, second.runtime, second.requested, second.ended),
            ("8", None, None, JobEnd::Cancelled)
        );
        assert_eq!((second.started, first.started.is_some()), (None, true));
        assert_eq!((second.task.gpu.models[0].as_str(), second.user.as_deref()), ("a100", None));
    }
}
