//! Figures of a schedule in the measures of the literature, and its rows as CSV.

use std::fmt::Write;

use muster_model::simulation::ScheduleFigures;
use muster_model::{Span, Time};

use super::{FlatJob, FlatScheduler, RunInterval};
use crate::measure::{bounded_slowdown, secs, spread};

/// Returns the figures of a run. Jobs that have not begun are left out.
#[must_use]
pub fn figures(
    scheduler: FlatScheduler,
    procs: u32,
    jobs: &[FlatJob],
    ran: &[Option<RunInterval>],
    is_partial: bool,
) -> ScheduleFigures {
    let begun: Vec<(&FlatJob, RunInterval)> =
        jobs.iter().zip(ran).filter_map(|(job, ran)| Some((job, (*ran)?))).collect();
    let first = begun.iter().map(|(job, _)| job.submit).min().unwrap_or_default();
    let last = begun.iter().map(|(_, ran)| ran.end).max().unwrap_or_default();
    let makespan = last.since(first);
    let used: u128 =
        begun.iter().map(|(job, _)| u128::from(job.runtime.0) * u128::from(job.width)).sum();
    let there = u128::from(procs) * u128::from(makespan.0);
    ScheduleFigures {
        scheduler: scheduler.name().to_owned(),
        is_engine: scheduler.is_engine(),
        is_partial,
        begun: begun.len() as u64,
        wait_secs: spread(begun.iter().map(|(job, ran)| secs(wait(job, *ran)))),
        turnaround_secs: spread(begun.iter().map(|(job, ran)| secs(ran.end.since(job.submit)))),
        bounded_slowdown: spread(
            begun.iter().map(|(job, ran)| bounded_slowdown(ran.end.since(job.submit), job.runtime)),
        ),
        utilisation: if there == 0 { 0.0 } else { used as f64 / there as f64 },
        makespan_secs: secs(makespan),
    }
}

/// Returns the time that a job was in the system and did not run.
fn wait(job: &FlatJob, ran: RunInterval) -> Span {
    Span(ran.end.since(job.submit).0.saturating_sub(job.runtime.0))
}

/// A schedule as CSV: `job_id,submit,wait,start,runtime,procs`, in seconds, in order of arrival.
#[derive(Clone, Copy, Debug)]
pub struct ScheduleRows<'s> {
    jobs: &'s [FlatJob],
    ran: &'s [Option<RunInterval>],
}

/// Returns the rows of a run; jobs that have not begun have none.
#[must_use]
pub fn rows<'s>(jobs: &'s [FlatJob], ran: &'s [Option<RunInterval>]) -> ScheduleRows<'s> {
    ScheduleRows { jobs, ran }
}

impl std::fmt::Display for ScheduleRows<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("job_id,submit,wait,start,runtime,procs\n")?;
        for (job, ran) in self.jobs.iter().zip(self.ran) {
            let Some(ran) = *ran else { continue };
            write_field(f, &job.id)?;
            for span in
                [job.submit.since(Time(0)), wait(job, ran), ran.start.since(Time(0)), job.runtime]
            {
                write_secs(f, span)?;
            }
            writeln!(f, ",{}", job.width)?;
        }
        Ok(())
    }
}

/// Writes a CSV field, quoted if necessary (RFC 4180).
fn write_field(f: &mut impl Write, text: &str) -> std::fmt::Result {
    if text.contains(['"', ',', '\n', '\r']) {
        write!(f, "\"{}\"", text.replace('"', "\"\""))
    } else {
        f.write_str(text)
    }
}

/// Writes whole seconds without, others with milliseconds.
fn write_secs(f: &mut impl Write, span: Span) -> std::fmt::Result {
    match span.0 % 1000 {
        0 => write!(f, ",{}", span.0 / 1000),
        millis => write!(f, ",{}.{millis:03}", span.0 / 1000),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_csv_in_seconds() {
        let job = |id: &str, submit, runtime| FlatJob {
            id: id.into(),
            submit: Time(submit),
            runtime: Span(runtime),
            estimate: Span(runtime),
            width: 3,
            predicted_by: None,
        };
        let jobs = [job("a,\"b\"", 1000, 2500), job("waits", 2000, 1), job("c", 61_000, 3000)];
        let ran = |start, end| Some(RunInterval { start: Time(start), end: Time(end) });
        let text = rows(&jobs, &[ran(4000, 6500), None, ran(61_000, 64_000)]).to_string();
        let expected = "job_id,submit,wait,start,runtime,procs\n\"a,\"\"b\"\"\",1,3,4,2.500,3\nc,61,0,61,3,3\n";
        assert_eq!(text, expected);
    }
}
