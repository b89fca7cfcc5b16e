//! The Philly trace of Microsoft (Jeon et al., ATC 2019): the job log as published, in JSON, and
//! the table that the simulators of Pollux and Sia made of it. Times have no zone and are taken as
//! UTC.

use serde::Deserialize;

use muster_model::{Span, Time};

use super::csv::{CsvLayout, CsvRow};
use super::names::NameCache;
use super::value::{JobResources, MAX_COUNT, ended, given, instant, seconds};
use super::{JobEnd, TraceJob};

/// Layout of the table: `timestamp,duration,num_gpus,gpu_time,cluster`; the last is the virtual
/// cluster. There is no user, and no id.
pub(super) const TABLE: CsvLayout = CsvLayout {
    separator: b',',
    columns: &["job_id", "timestamp", "duration", "num_gpus", "user", "cluster"],
    needed: &["timestamp", "duration", "num_gpus"],
    read: row,
};

fn row(row: &CsvRow<'_>, names: &mut NameCache) -> Result<Option<TraceJob>, String> {
    let [id, submit, duration, gpus, user, cluster] = row.fields();
    let gpus = gpus.needed_value("a number of GPUs", super::value::count)?;
    let (tasks, task) = JobResources { gpus, ..JobResources::default() }.tasks();
    Ok(Some(TraceJob {
        id: id.text.unwrap_or_default().into(),
        submit: submit.needed_value("a date", instant)?,
        runtime: duration.value("seconds", seconds)?,
        started: None,
        requested: None,
        tasks,
        task,
        user: user.text.map(|name| names.shared(name)),
        queue: cluster.text.map(|name| names.shared(name)),
        priority: 0,
        ended: JobEnd::Unknown,
    }))
}

/// An entry of `cluster_job_log`.
#[derive(Deserialize)]
struct PhillyJob {
    status: String,
    vc: Option<String>,
    jobid: String,
    #[serde(default)]
    attempts: Vec<Attempt>,
    submitted_time: Option<String>,
    user: Option<String>,
}

#[derive(Deserialize)]
struct Attempt {
    start_time: Option<String>,
    end_time: Option<String>,
    #[serde(default)]
    detail: Vec<Server>,
}

#[derive(Deserialize)]
struct Server {
    #[serde(default)]
    gpus: Vec<String>,
}

/// Reads a job of the log. Its runtime is that of all attempts together, without the gaps between
/// them; unknown if one of them did not end. Its GPUs are those of the last attempt with any, one
/// task per server if all servers have the same number.
pub(super) fn object(text: &str) -> Result<Option<TraceJob>, String> {
    let job: PhillyJob = super::json::parse(text)?;
    let submitted =
        job.submitted_time.as_deref().and_then(given).ok_or("`submitted_time` is missing")?;
    let date = |text: &str| {
        instant(text).ok_or_else(|| format!("`{}` is no date", super::csv::shown(text)))
    };
    let mut started = None;
    let mut runtime = (!job.attempts.is_empty()).then_some(Span(0));
    for attempt in &job.attempts {
        let at = |text: &Option<String>| text.as_deref().and_then(given).map(date).transpose();
        let span = |(start, end): (Time, Time)| end.since(start);
        let start = at(&attempt.start_time)?;
        started = started.or(start);
        let ran = start.zip(at(&attempt.end_time)?).map(span);
        runtime = runtime.zip(ran).map(|(sum, ran)| sum + ran);
    }
    let servers =
        job.attempts.iter().rev().map(|attempt| &attempt.detail).find(|detail| !detail.is_empty());
    let counts: Vec<usize> =
        servers.into_iter().flatten().map(|server| server.gpus.len()).collect();
    let gpus = u32::try_from(counts.iter().sum::<usize>()).unwrap_or(MAX_COUNT).min(MAX_COUNT);
    let even = counts.windows(2).all(|pair| pair[0] == pair[1]);
    let nodes = u32::try_from(counts.len()).ok().filter(|_| even);
    let (tasks, task) = JobResources { nodes, gpus, ..JobResources::default() }.tasks();
    Ok(Some(TraceJob {
        id: job.jobid.into(),
        submit: date(submitted)?,
        runtime,
        started,
        requested: None,
        tasks,
        task,
        user: job.user.map(Into::into),
        queue: job.vc.map(Into::into),
        priority: 0,
        ended: ended(&job.status),
    }))
}

#[cfg(test)]
mod tests {
    use super::super::{TraceFormat, tests::jobs};
    use super::*;

    #[test]
    fn the_table_has_gpus_without_their_nodes() {
        let text = "timestamp,duration,num_gpus,gpu_time,cluster\n2017-10-09 07:01:55,66.5,4,264.0,11cb48\n\
                    2017-10-09 07:01:55,66,x,264.0,11cb48\n2017-10-09,66,1,264.0,11cb48\n";
        let (jobs, bad) = jobs(TraceFormat::Philly, text);
        let job = &jobs[0];
        assert_eq!((&*job.id, job.tasks, job.task.gpu.devices), ("1", 4, 1));
        assert_eq!((job.submit.0, job.runtime), (1_507_532_515_000, Some(Span(66_500))));
        assert_eq!((job.queue.as_deref(), job.user.as_deref()), (Some("11cb48"), None));
        let expected = [
            "line 3: `num_gpus` is `x`, not a number of GPUs",
            "line 4: `timestamp` is `2017-10-09`, not a date",
        ];
        assert_eq!(bad, expected);
    }

    #[test]
    fn a_job_of_the_log_ran_for_all_its_attempts() {
        let servers =
            r#"[{"ip": "m1", "gpus": ["gpu0", "gpu1"]}, {"ip": "m2", "gpus": ["gpu0", "gpu1"]}]"#;
        let text = format!(
            r#"[{{"status": "Killed", "vc": "v", "jobid": "application_1", "user": "u",
                "submitted_time": "2017-10-07 01:00:00", "attempts": [
                  {{"start_time": "2017-10-07 01:01:00", "end_time": "2017-10-07 01:02:00", "detail": {servers}}},
                  {{"start_time": "2017-10-07 02:00:00", "end_time": "2017-10-07 02:00:30", "detail": []}}]}},
               {{"status": "Pass", "jobid": "a2", "submitted_time": "2017-10-07 01:00:00", "attempts": []}},
               {{"status": "Failed", "jobid": "a3", "submitted_time": "2017-10-07 01:00:00", "attempts": [
                  {{"start_time": "2017-10-07 02:00:00", "end_time": null, "detail": []}}]}},
               {{"status": "Failed", "jobid": "a4", "submitted_time": "None"}}]"#
        );
        let (jobs, bad) = jobs(TraceFormat::PhillyJson, &text);
        assert_eq!((jobs[0].runtime, jobs[0].ended), (Some(Span(90_000)), JobEnd::Cancelled));
        assert_eq!((jobs[0].tasks, jobs[0].task.gpu.devices), (2, 2));
        assert_eq!(jobs[0].started.map(|start| start.since(jobs[0].submit)), Some(Span(60_000)));
        assert_eq!((jobs[1].runtime, jobs[2].runtime, jobs.len()), (None, None, 3));
        assert_eq!(bad, ["line 8: `submitted_time` is missing"]);
    }
}
