//! Statistics of a trace.

use std::collections::BTreeMap;

use muster_model::trace::{
    Arrivals, BadRow, OutcomeShare, RuntimeClass, SizeClass, TraceRows, TraceSpan, TraceSummary,
    TraceUnit,
};
use muster_model::{Span, Time};
use muster_spec::{JobEnd, TraceJob};

use super::names::{HeldTime, NameCounts};
use super::quantiles::quantiles;

/// Edges of runtime classes in seconds: familiar values, about evenly spaced on a logarithmic
/// scale.
const RUNTIME_EDGES_SECS: [u64; 16] =
    [0, 1, 10, 30, 60, 120, 300, 600, 1800, 3600, 7200, 21_600, 43_200, 86_400, 172_800, 604_800];
const HOUR_MS: u64 = 3_600_000;
const MINUTE_MS: u64 = 60_000;
const MINUTES_OF_DAY: u64 = 24 * 60;
/// Most bins of arrivals; their width follows.
const MAX_BINS: u64 = 240;
/// Widths of bins in hours, up to days and weeks; then they double.
const BIN_HOURS: [u64; 8] = [1, 2, 3, 6, 12, 24, 48, 168];
/// Age since its zero from which a trace has dates: seconds since the epoch, of 1980.
const DATED_MS: u64 = 10 * 365 * 24 * HOUR_MS;

/// Origin of a trace, and what is known of it beside its jobs.
#[derive(Clone, Debug, Default)]
pub struct TraceSource {
    /// Name of the file format.
    pub format: String,
    /// Processors of the machine.
    pub machine_processors: Option<u32>,
    /// The trace's zero in milliseconds since the epoch, if its header names it.
    pub zero: Option<Time>,
    /// Number of jobs with the id of an earlier one.
    pub duplicate_ids: u64,
    /// Number of rows that cannot be read.
    pub bad: u64,
    /// The first of these rows.
    pub bad_shown: Vec<BadRow>,
}

/// Builder of the statistics of a trace.
#[derive(Clone, Debug, Default)]
pub struct TraceSummarizer {
    rows: TraceRows,
    submits: Option<(Time, Time)>,
    latest: Time,
    held: HeldTime,
    has_gpus: bool,
    users: NameCounts,
    queues: NameCounts,
    by_gpus: BTreeMap<u64, (u64, HeldTime)>,
    by_cpus: BTreeMap<u64, (u64, HeldTime)>,
    runtimes_ms: Vec<u64>,
    by_runtime: [(u64, HeldTime); RUNTIME_EDGES_SECS.len()],
    requested_ms: Vec<u64>,
    used_percent: Vec<u64>,
    over_requested: u64,
    by_outcome: BTreeMap<JobEnd, (u64, HeldTime)>,
    by_hour: BTreeMap<u64, u64>,
    /// Jobs by minute of the day, counted from the trace's zero: its hours are known at the end.
    by_minute: Vec<u64>,
}

impl TraceSummarizer {
    /// Adds a job to the statistics.
    pub fn add(&mut self, job: &TraceJob) {
        // 1. What it holds.
        let tasks = u64::from(job.tasks);
        let gpus_milli =
            (u64::from(job.task.gpu.devices) * 1000 + u64::from(job.task.gpu.share.0)) * tasks;
        let cpus_milli = u64::from(job.task.cpus.0) * tasks;
        let runtime = job.runtime.unwrap_or_default();
        let held = HeldTime {
            gpus: u128::from(gpus_milli) * u128::from(runtime.0),
            cpus: u128::from(cpus_milli) * u128::from(runtime.0),
        };
        self.held.add(held);
        self.has_gpus |= gpus_milli > 0;
        self.users.add(job.user.as_ref(), held);
        self.queues.add(job.queue.as_ref(), held);
        count(self.by_gpus.entry(gpus_milli).or_default(), held);
        count(self.by_cpus.entry(cpus_milli).or_default(), held);
        count(self.by_outcome.entry(job.ended).or_default(), held);

        // 2. Its submission.
        self.rows.jobs += 1;
        self.rows.out_of_order += u64::from(job.submit < self.latest);
        self.latest = self.latest.max(job.submit);
        let (first, last) = self.submits.unwrap_or((job.submit, job.submit));
        self.submits = Some((first.min(job.submit), last.max(job.submit)));
        *self.by_hour.entry(job.submit.0 / HOUR_MS).or_default() += 1;
        self.by_minute.resize(MINUTES_OF_DAY as usize, 0);
        self.by_minute[(job.submit.0 / MINUTE_MS % MINUTES_OF_DAY) as usize] += 1;

        // 3. Its runtime.
        match job.runtime {
            Some(ran) => {
                self.runtimes_ms.push(ran.0);
                let class = RUNTIME_EDGES_SECS.partition_point(|edge| *edge <= ran.as_secs());
                count(&mut self.by_runtime[class - 1], held);
            }
            None => self.rows.without_runtime += 1,
        }
        if let Some(asked) = job.requested {
            self.requested_ms.push(asked.0);
        }
        if let (Some(ran), Some(asked @ Span(1..))) = (job.runtime, job.requested) {
            let percent = u128::from(ran.0) * 100 / u128::from(asked.0);
            self.used_percent.push(u64::try_from(percent).unwrap_or(u64::MAX));
            self.over_requested += u64::from(ran > asked);
        }
    }

    /// Returns the statistics of all jobs.
    #[must_use]
    pub fn finish(self, source: TraceSource) -> TraceSummary {
        let gpus = self.has_gpus;
        let (first, last) = self.submits.unwrap_or_default();
        let dated = (first.0 >= DATED_MS).then_some(Time(0));
        let zero_ms = source.zero.or(dated).map(|zero| zero.0);
        let all = if gpus { self.held.gpus } else { self.held.cpus };
        let span = u128::from(last.since(first).0).max(1);
        let outcome = |(ended, (jobs, held)): (JobEnd, (u64, HeldTime))| OutcomeShare {
            outcome: word(ended).to_owned(),
            jobs,
            held_unit_secs: held.secs(gpus),
        };
        TraceSummary {
            format: source.format,
            machine_processors: source.machine_processors,
            rows: TraceRows {
                duplicate_ids: source.duplicate_ids,
                bad: source.bad,
                bad_shown: source.bad_shown,
                ..self.rows
            },
            span: TraceSpan { first_submit_ms: first.0, last_submit_ms: last.0, zero_ms },
            unit: if gpus { TraceUnit::Gpus } else { TraceUnit::Processors },
            held_unit_secs: self.held.secs(gpus),
            mean_load_milli: u64::try_from(all / span).unwrap_or(u64::MAX),
            users: self.users.finish(gpus),
            queues: self.queues.finish(gpus),
            sizes: sizes(if gpus { self.by_gpus } else { self.by_cpus }, gpus),
            runtime_ms: quantiles(self.runtimes_ms),
            runtimes: runtimes(&self.by_runtime, gpus),
            requested_ms: quantiles(self.requested_ms),
            used_percent: quantiles(self.used_percent),
            over_requested: self.over_requested,
            outcomes: self.by_outcome.into_iter().map(outcome).collect(),
            arrivals: Arrivals {
                by_hour: zero_ms
                    .map(|zero| hours_of_day(&self.by_minute, zero))
                    .unwrap_or_default(),
                ..arrivals(&self.by_hour)
            },
        }
    }
}

fn count(counted: &mut (u64, HeldTime), held: HeldTime) {
    counted.0 += 1;
    counted.1.add(held);
}

fn word(ended: JobEnd) -> &'static str {
    match ended {
        JobEnd::Completed => "completed",
        JobEnd::Failed => "failed",
        JobEnd::Cancelled => "cancelled",
        JobEnd::Unknown => "unknown",
    }
}

/// Returns size classes by powers of two of whole units, with separate classes for none and for
/// shares of one. A class has the bounds of its jobs, so a class of a single size shows that size.
fn sizes(by_milli: BTreeMap<u64, (u64, HeldTime)>, gpus: bool) -> Vec<SizeClass> {
    let class = |milli: u64| match milli {
        0 => 0,
        1..1000 => 1,
        _ => 2 + milli.div_ceil(1000).next_power_of_two().trailing_zeros(),
    };
    let mut sizes: Vec<(SizeClass, HeldTime)> = Vec::new();
    for (milli, (jobs, held)) in by_milli {
        match sizes.last_mut().filter(|(last, _)| class(last.to_milli) == class(milli)) {
            Some((last, sum)) => {
                (last.to_milli, last.jobs) = (milli, last.jobs + jobs);
                sum.add(held);
            }
            None => {
                let one = SizeClass { from_milli: milli, to_milli: milli, jobs, held_unit_secs: 0 };
                sizes.push((one, held));
            }
        }
    }
    sizes
        .into_iter()
        .map(|(class, held)| SizeClass { held_unit_secs: held.secs(gpus), ..class })
        .collect()
}

/// Returns all classes from the shortest to the longest with jobs.
fn runtimes(by_runtime: &[(u64, HeldTime)], gpus: bool) -> Vec<RuntimeClass> {
    let first = by_runtime.iter().position(|(jobs, _)| *jobs > 0);
    let last = by_runtime.iter().rposition(|(jobs, _)| *jobs > 0);
    let Some((first, last)) = first.zip(last) else { return Vec::new() };
    (first..=last)
        .map(|class| RuntimeClass {
            from_secs: RUNTIME_EDGES_SECS[class],
            below_secs: RUNTIME_EDGES_SECS.get(class + 1).copied(),
            jobs: by_runtime[class].0,
            held_unit_secs: by_runtime[class].1.secs(gpus),
        })
        .collect()
}

/// Converts minutes since a zero to hours of the day in UTC.
fn hours_of_day(by_minute: &[u64], zero_ms: u64) -> Vec<u64> {
    let mut hours = vec![0; 24];
    for (minute, jobs) in (zero_ms / MINUTE_MS % MINUTES_OF_DAY..).zip(by_minute) {
        hours[(minute % MINUTES_OF_DAY / 60) as usize] += jobs;
    }
    hours
}

/// Returns bins of equal width over the whole trace, aligned to its zero.
fn arrivals(by_hour: &BTreeMap<u64, u64>) -> Arrivals {
    let (Some((first, _)), Some((last, _))) = (by_hour.first_key_value(), by_hour.last_key_value())
    else {
        return Arrivals::default();
    };
    let doubled = std::iter::successors(Some(336u64), |hours| hours.checked_mul(2));
    let width =
        BIN_HOURS.into_iter().chain(doubled).find(|hours| last / hours - first / hours < MAX_BINS);
    let bin_hours = width.unwrap_or(u64::MAX);
    let from = first / bin_hours;
    let mut jobs = vec![0; (last / bin_hours - from + 1) as usize];
    for (hour, count) in by_hour {
        jobs[(hour / bin_hours - from) as usize] += count;
    }
    Arrivals {
        by_hour: Vec::new(),
        from_ms: (from * bin_hours).saturating_mul(HOUR_MS),
        bin_hours,
        jobs,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use muster_model::job::{GpuRequest, Resources};
    use muster_model::{CpuMilli, GpuMilli};

    use super::*;

    fn job(submit_secs: u64, runtime_secs: Option<u64>, gpu: GpuRequest, tasks: u32) -> TraceJob {
        TraceJob {
            id: "j".into(),
            submit: Time(submit_secs * 1000),
            runtime: runtime_secs.map(Span::from_secs),
            requested: Some(Span::from_secs(3600)),
            tasks,
            task: Resources { gpu, cpus: CpuMilli(1000), ..Resources::default() },
            user: Some(Arc::from(if tasks == 1 { "ann" } else { "bob" })),
            queue: None,
            priority: 0,
            started: None,
            ended: JobEnd::Completed,
        }
    }

    fn summary(jobs: &[TraceJob]) -> TraceSummary {
        let mut summary = TraceSummarizer::default();
        jobs.iter().for_each(|job| summary.add(job));
        summary.finish(TraceSource { format: "csv".into(), ..TraceSource::default() })
    }

    #[test]
    fn the_unit_is_gpus_if_some_job_uses_one() {
        let share = GpuRequest { share: GpuMilli(500), ..GpuRequest::default() };
        let found = summary(&[
            job(0, Some(7200), GpuRequest::whole(8), 2),
            job(3600, Some(60), share, 1),
            job(1800, None, GpuRequest::default(), 1),
        ]);
        assert_eq!((found.unit, found.held_unit_secs), (TraceUnit::Gpus, 16 * 7200 + 30));
        assert_eq!(found.mean_load_milli, 1000 * (16 * 7200 + 30) / 3600);
        let sizes: Vec<(u64, u64, u64)> =
            found.sizes.iter().map(|size| (size.from_milli, size.to_milli, size.jobs)).collect();
        assert_eq!(sizes, [(0, 0, 1), (500, 500, 1), (16_000, 16_000, 1)]);
        assert_eq!(
            (found.rows.jobs, found.rows.without_runtime, found.rows.out_of_order),
            (3, 1, 1)
        );
        assert_eq!(
            (found.users.count, &*found.users.top[0].name, found.queues.jobs_without),
            (2, "bob", 3)
        );
        assert_eq!(
            (found.used_percent.max, found.over_requested, found.requested_ms.count),
            (200, 1, 3)
        );
        assert_eq!(
            found.runtimes.first().map(|class| (class.from_secs, class.jobs)),
            Some((60, 1))
        );
        assert_eq!(
            found.runtimes.last().map(|class| (class.from_secs, class.jobs)),
            Some((7200, 1))
        );
        assert_eq!(found.span.zero_ms, None);
        assert_eq!((found.arrivals.jobs, found.arrivals.by_hour), (vec![2, 1], vec![]));
    }

    #[test]
    fn sizes_are_classed_by_powers_of_two_and_processors_count_without_gpus() {
        let jobs: Vec<TraceJob> =
            (1..=9).map(|tasks| job(0, Some(1), GpuRequest::default(), tasks)).collect();
        let found = summary(&jobs);
        let sizes: Vec<(u64, u64, u64)> = found
            .sizes
            .iter()
            .map(|size| (size.from_milli / 1000, size.to_milli / 1000, size.jobs))
            .collect();
        assert_eq!(sizes, [(1, 1, 1), (2, 2, 1), (3, 4, 2), (5, 8, 4), (9, 9, 1)]);
        assert_eq!((found.unit, found.held_unit_secs), (TraceUnit::Processors, 45));
    }

    #[test]
    fn dates_are_those_since_the_epoch_or_of_the_header() {
        let noon_2026 = 1_772_366_400;
        let found = summary(&[job(noon_2026, None, GpuRequest::default(), 1)]);
        assert_eq!((found.span.zero_ms, found.arrivals.by_hour[12]), (Some(0), 1));
        let mut started_later = TraceSummarizer::default();
        started_later.add(&job(1800, None, GpuRequest::default(), 1));
        let source = TraceSource {
            zero: Some(Time(noon_2026 * 1000 + 1_800_000)),
            ..TraceSource::default()
        };
        assert_eq!(started_later.finish(source).arrivals.by_hour[13], 1);
    }

    #[test]
    fn bins_grow_with_the_span_and_hostile_times_do_not_overflow() {
        let at = |secs| job(secs, None, GpuRequest::default(), 1);
        let year = summary(&[at(0), at(365 * 86_400)]).arrivals;
        assert_eq!((year.bin_hours, year.jobs.len()), (48, 183));
        let ages = summary(&[at(0), at(u64::MAX / 1000)]).arrivals;
        assert!(ages.jobs.len() <= MAX_BINS as usize && ages.jobs.iter().sum::<u64>() == 2);
        assert_eq!(summary(&[]).arrivals, Arrivals::default());
    }
}
