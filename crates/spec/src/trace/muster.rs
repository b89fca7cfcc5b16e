//! Muster's own table, read and written: one job per line, with explicit units. Generators and
//! redaction write it. docs/traces.md describes its columns.

use std::fmt::Write as _;

use muster_model::job::{GpuRequest, Resources};
use muster_model::node::GpuModel;
use muster_model::{Bytes, CpuMilli, GpuMilli, Span};

use super::csv::{CsvLayout, CsvRow};
use super::names::NameCache;
use super::value::{count, instant, seconds};
use super::{JobEnd, TraceJob};
use crate::quantity::{parse_bytes, parse_cpus, parse_span};

/// Layout of the table. A missing column or an empty field means that the value is unknown.
pub(super) const TABLE: CsvLayout = CsvLayout {
    separator: b',',
    columns: &[
        "id",
        "submit",
        "runtime",
        "requested",
        "tasks",
        "cpus",
        "memory",
        "gpus",
        "gpu_share",
        "models",
        "user",
        "queue",
        "ended",
        "priority",
        "started",
    ],
    needed: &["submit", "runtime"],
    read: row,
};

/// Names of the end states, for reading and writing.
const ENDED: [(&str, JobEnd); 3] = [
    ("completed", JobEnd::Completed),
    ("failed", JobEnd::Failed),
    ("cancelled", JobEnd::Cancelled),
];

/// The first line of the table.
pub const TRACE_HEADER: &str = "id,submit,runtime,requested,tasks,cpus,memory,gpus,gpu_share,models,user,queue,ended,priority,started\n";

fn row(row: &CsvRow<'_>, names: &mut NameCache) -> Result<Option<TraceJob>, String> {
    let [
        id,
        submit,
        runtime,
        requested,
        tasks,
        cpus,
        memory,
        gpus,
        gpu_share,
        models,
        user,
        queue,
        ended,
        priority,
        started,
    ] = row.fields();
    let span = |text: &str| seconds(text).or_else(|| parse_span(text).ok());
    let bytes = |text: &str| text.parse().ok().map(Bytes).or_else(|| parse_bytes(text).ok());
    let tasks =
        tasks.value("a number of tasks from 1 on", |text| count(text).filter(|n| *n > 0))?;
    let models = models.text.map(|text| text.split('|').map(GpuModel::from).collect());
    let gpu = GpuRequest {
        devices: gpus.value("a number of GPUs", count)?.unwrap_or(0),
        share: gpu_share.value("a share between 0 and 1", share)?.unwrap_or_default(),
        models: models.unwrap_or_default(),
    };
    if gpu.devices > 0 && gpu.share.0 > 0 {
        return Err(
            "`gpus` and `gpu_share` are both given: whole GPUs, or a share of one".to_owned()
        );
    }
    let end = |text: &str| ENDED.iter().find(|(name, _)| *name == text).map(|(_, ended)| *ended);
    Ok(Some(TraceJob {
        id: id.text.unwrap_or_default().into(),
        submit: submit.needed_value("seconds or a date", instant)?,
        runtime: runtime.value("seconds, or a time such as 2h", span)?,
        started: started.value("seconds or a date", instant)?,
        requested: requested.value("seconds, or a time such as 2h", span)?,
        tasks: tasks.unwrap_or(1),
        task: Resources {
            gpu,
            cpus: cpus.value("CPUs", |text| parse_cpus(text).ok())?.unwrap_or_default(),
            memory: memory.value("bytes, or a size such as 64GiB", bytes)?.unwrap_or_default(),
            ..Resources::default()
        },
        user: user.text.map(|name| names.shared(name)),
        queue: queue.text.map(|name| names.shared(name)),
        priority: priority.value("a whole number", |text| text.parse().ok())?.unwrap_or(0),
        ended: ended.value("completed, failed or cancelled", end)?.unwrap_or(JobEnd::Unknown),
    }))
}

/// Parses a share in thousandths: `0.25` is 250; `None` for a whole GPU or more.
fn share(text: &str) -> Option<GpuMilli> {
    let CpuMilli(milli) = parse_cpus(text).ok()?;
    (milli < 1000).then_some(GpuMilli(milli))
}

/// Returns a job as a line of the table; after [`TRACE_HEADER`], it reads back as the same.
#[must_use]
pub fn write_trace_job(job: &TraceJob) -> String {
    let mut text = field(&job.id);
    let Resources { gpu, cpus, memory, extras: _ } = &job.task;
    let _ = write!(text, ",{}", secs(Span(job.submit.0)));
    for span in [job.runtime, job.requested] {
        let _ = write!(text, ",{}", span.map(secs).unwrap_or_default());
    }
    let _ = write!(text, ",{},{cpus},{},{},", job.tasks, memory.0, gpu.devices);
    if gpu.share.0 > 0 {
        let _ = write!(text, "{}", gpu.share);
    }
    let models: Vec<&str> = gpu.models.iter().map(GpuModel::as_str).collect();
    let ended = ENDED.iter().find(|(_, ended)| *ended == job.ended).map_or("", |(name, _)| name);
    for word in [
        &models.join("|"),
        job.user.as_deref().unwrap_or(""),
        job.queue.as_deref().unwrap_or(""),
        ended,
    ] {
        text.push(',');
        text.push_str(&field(word));
    }
    text.push(',');
    if job.priority != 0 {
        let _ = write!(text, "{}", job.priority);
    }
    let started = job.started.map(|start| secs(Span(start.0)));
    let _ = writeln!(text, ",{}", started.unwrap_or_default());
    text
}

/// Returns seconds with as many decimals as needed.
fn secs(span: Span) -> String {
    let whole = span.0 / 1000;
    let millis = span.0 % 1000;
    match millis {
        0 => whole.to_string(),
        _ => format!("{whole}.{millis:03}").trim_end_matches('0').to_owned(),
    }
}

/// Returns a field, quoted if necessary, as in RFC 4180. Line ends are left out.
fn field(text: &str) -> String {
    let text: String = text.chars().filter(|c| !matches!(c, '\r' | '\n')).collect();
    if text.contains([',', '"']) { format!("\"{}\"", text.replace('"', "\"\"")) } else { text }
}

#[cfg(test)]
mod tests {
    use super::super::{TraceFormat, tests::jobs};
    use super::*;

    #[test]
    fn what_is_written_reads_back_as_the_same() {
        let text = "# by hand\nsubmit,runtime,id,gpus,gpu_share,models,tasks,memory,requested,user,ended,cpus,queue,priority,note,started\n\
             0.25,90,\"a,\"\"b\"\"\",8,,h100|a100,4,64GiB,2h,ann,failed,0.5,q,-7,x,12.5\n\
             2026-03-01T10:00:00Z,,,0,0.25,,,1024,,,,,,,,\n";
        let (read, bad) = jobs(TraceFormat::Csv, text);
        assert_eq!((read.len(), bad), (2, vec![]));
        assert_eq!(
            (&*read[0].id, read[0].submit.0, read[0].requested),
            ("a,\"b\"", 250, Some(Span(7_200_000)))
        );
        assert_eq!((read[1].runtime, read[1].tasks, read[1].task.gpu.share.0), (None, 1, 250));
        let lines: String = read.iter().map(write_trace_job).collect();
        let expected = "\"a,\"\"b\"\"\",0.25,90,7200,4,0.5,68719476736,8,,h100|a100,ann,q,failed,-7,12.5\n\
             2,1772359200,,,1,0,1024,0,0.25,,,,,,\n";
        assert_eq!(lines, expected);
        assert_eq!(jobs(TraceFormat::Csv, &format!("{TRACE_HEADER}{lines}")).0, read);
    }

    #[test]
    fn values_may_be_written_in_many_ways() {
        let text = "\u{feff}priority , runtime,submit, user ,cpus,memory,requested,user,id\n\
             3, 90 ,2026-03-01 10:00:00,\" ann b\",500m,64GB,1-00:00:00,eve, 7\n\
             ,1.5h,1e3,é,4.25,1.5GiB,NaN,eve,\n";
        let (read, bad) = jobs(TraceFormat::Csv, text);
        assert_eq!(bad, Vec::<String>::new());
        let lines: String = read.iter().map(write_trace_job).collect();
        let expected = "7,1772359200,90,86400,1,0.5,64000000000,0,,,ann b,,,3,\n\
             2,1000,5400,,1,4.25,1610612736,0,,,é,,,,\n";
        assert_eq!(lines, expected);
        let text = "submit,runtime,cpus,memory,priority\n0,1,-1,,\n0,1,+1,,\n0,1,,9,\n0,1,0.0001,,\n0,1,,-9GB,\n0,1,,,x\n";
        let expected = [
            "line 2: `cpus` is `-1`, not CPUs",
            "line 3: `cpus` is `+1`, not CPUs",
            "line 5: `cpus` is `0.0001`, not CPUs",
            "line 6: `memory` is `-9GB`, not bytes, or a size such as 64GiB",
            "line 7: `priority` is `x`, not a whole number",
        ];
        assert_eq!(jobs(TraceFormat::Csv, text).1, expected);
    }

    #[test]
    fn a_row_that_is_none_says_why() {
        let text = "submit,runtime,gpus,gpu_share,tasks,ended\n,1,,,,\n0,-1,,,,\n0,1,1,0.5,,\n0,1,,1,,\n0,1,,,0,\n0,1,,,,done\n";
        let expected = [
            "line 2: `submit` is missing",
            "line 3: `runtime` is `-1`, not seconds, or a time such as 2h",
            "line 4: `gpus` and `gpu_share` are both given: whole GPUs, or a share of one",
            "line 5: `gpu_share` is `1`, not a share between 0 and 1",
            "line 6: `tasks` is `0`, not a number of tasks from 1 on",
            "line 7: `ended` is `done`, not completed, failed or cancelled",
        ];
        assert_eq!(jobs(TraceFormat::Csv, text).1, expected);
    }
}
