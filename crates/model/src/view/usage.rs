//! Use of GPUs by users, queues and jobs: all of it, or that of a period.

use std::collections::BTreeMap;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::id::{JobId, QueueName, UserName};
use crate::outcome::Outcome;
use crate::unit::Time;

/// Usage of one user in one queue: one row of `muster usage`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct UsageView {
    /// Login name of the user.
    pub user: UserName,
    /// Queue of the usage.
    pub queue: QueueName,
    /// Number of elements that ended or run.
    pub jobs: u64,
    /// GPU-seconds held, without decay, running elements included.
    pub gpu_secs: u64,
    /// Decayed GPU-seconds, which count for fair share now.
    pub decayed_gpu_secs: u64,
}

/// Property by which usage is summed.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum UsageKey {
    /// User of the job.
    User,
    /// Queue of the job.
    Queue,
    /// Number of the job, with all its elements.
    Job,
}

impl UsageKey {
    /// Returns the word on the command line.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Queue => "queue",
            Self::Job => "job",
        }
    }
}

impl FromStr for UsageKey {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "user" => Ok(Self::User),
            "queue" => Ok(Self::Queue),
            "job" => Ok(Self::Job),
            _ => Err("expected user, queue or job, or several of them with commas".to_owned()),
        }
    }
}

/// Usage in a period: one row of `muster usage --since`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct UsageRow {
    /// Login name of the user; `None` unless summed by users.
    pub user: Option<UserName>,
    /// Queue; `None` unless summed by queues.
    pub queue: Option<QueueName>,
    /// Job; `None` unless summed by jobs.
    pub job: Option<JobId>,
    /// Name of the job; `None` unless summed by jobs, and for jobs that are no longer stored.
    pub name: Option<String>,
    /// Number of attempts that held resources in the period.
    pub attempts: u64,
    /// GPU-seconds that they held in it.
    pub gpu_secs: u64,
    /// Those of attempts that ended in a failure, a time limit included.
    pub failed_gpu_secs: u64,
    /// Those of attempts after which the element was to start again: it was preempted, requeued, moved or resized, or its
    /// node or a rank failed. What was computed since the last checkpoint is lost.
    pub restarted_gpu_secs: u64,
    /// GPU-seconds for which the load of the GPU was polled: part of those that were held.
    #[serde(default)]
    pub measured_gpu_secs: u64,
    /// GPU-seconds in which the GPU computed, of those that were measured; `None` when none was: virtual GPUs, GPUs
    /// whose driver has no load, and other schedulers.
    #[serde(default)]
    pub used_gpu_secs: Option<u64>,
}

/// Use of the GPUs of a job until now: `muster show`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GpuUseView {
    /// GPU-seconds that the job has held.
    pub held_gpu_secs: u64,
    /// GPU-seconds for which the load of the GPU was polled.
    pub measured_gpu_secs: u64,
    /// GPU-seconds in which the GPU computed, of those that were measured.
    pub used_gpu_secs: u64,
}

/// Use of GPUs as polls of their loads saw it, in thousandths of GPUs × milliseconds. A part of a GPU counts as that
/// part, as busy as the whole GPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MeasuredUse {
    /// GPU time between polls that knew the load.
    pub measured: u64,
    /// Part of it in which the GPU computed.
    pub busy: u64,
}

/// End of an attempt, as far as usage tells it apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HoldingEnd {
    /// Still holds its resources.
    Open,
    /// The element ended with success, or was cancelled.
    Ended,
    /// The element ended in a failure, a time limit included.
    Failed,
    /// The element was to start again.
    Restarted,
}

impl HoldingEnd {
    /// Returns the end of an attempt; `outcome` is that of the element, if it was the last attempt.
    #[must_use]
    pub fn of(has_ended: bool, outcome: Option<&Outcome>) -> Self {
        match outcome {
            None if has_ended => Self::Restarted,
            None => Self::Open,
            Some(Outcome::Cancelled { .. } | Outcome::IdleGpus { .. }) => Self::Ended,
            Some(outcome) if outcome.is_success() => Self::Ended,
            Some(_) => Self::Failed,
        }
    }
}

/// GPUs that one attempt held.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeldGpus {
    /// User of the job.
    pub user: UserName,
    /// Queue of the job.
    pub queue: QueueName,
    /// Job of the attempt.
    pub job: JobId,
    /// Name of the job; `None` when it is no longer stored.
    pub name: Option<String>,
    /// Instant from which on the attempt held resources.
    pub from: Time,
    /// Instant of its end, or the present one.
    pub to: Time,
    /// Thousandths of GPUs × milliseconds that it held until then.
    pub gpu_milli_ms: u64,
    /// Part of it for which the loads were polled, and in which the GPUs were busy; `None` when they never were.
    pub measured: Option<MeasuredUse>,
    /// End of the attempt.
    pub end: HoldingEnd,
}

/// Sum of the use of GPUs in a period.
#[derive(Debug)]
pub struct UsageSum {
    since: Time,
    until: Time,
    by: Vec<UsageKey>,
    rows: BTreeMap<SumKey, SumRow>,
}

type SumKey = (Option<UserName>, Option<QueueName>, Option<JobId>);

/// Sums in thousandths of GPUs × milliseconds.
#[derive(Debug, Default)]
struct SumRow {
    name: Option<String>,
    attempts: u64,
    held: u128,
    failed: u128,
    restarted: u128,
    measured: u128,
    busy: Option<u128>,
}

impl UsageSum {
    /// Makes a sum of what is held from `since` until before `until`.
    #[must_use]
    pub fn new(since: Time, until: Time, by: &[UsageKey]) -> Self {
        Self { since, until, by: by.to_vec(), rows: BTreeMap::new() }
    }

    /// Adds the part of an attempt that is in the period. The size of an elastic gang counts as constant in an attempt,
    /// and so does the use of its GPUs.
    /// An attempt shorter than the clock's unit (Slurm's is a second) counts without GPU time.
    pub fn add(&mut self, held: HeldGpus) {
        let from = held.from.max(self.since);
        let to = held.to.min(self.until);
        let is_instant = held.from == held.to && from < self.until;
        if from > to || from == to && !is_instant {
            return;
        }
        let whole = u128::from(held.to.since(held.from).0).max(1);
        let in_period = |sum: u64| u128::from(sum) * u128::from(to.since(from).0) / whole;
        let part = in_period(held.gpu_milli_ms);
        let has = |key| self.by.contains(&key);
        let key = (
            has(UsageKey::User).then_some(held.user),
            has(UsageKey::Queue).then_some(held.queue),
            has(UsageKey::Job).then_some(held.job),
        );
        let row = self.rows.entry(key).or_default();
        row.name = row.name.take().or(held.name);
        row.attempts += 1;
        row.held += part;
        if let Some(measured) = held.measured {
            row.measured += in_period(measured.measured);
            row.busy = Some(row.busy.unwrap_or(0) + in_period(measured.busy));
        }
        match held.end {
            HoldingEnd::Open | HoldingEnd::Ended => {}
            HoldingEnd::Failed => row.failed += part,
            HoldingEnd::Restarted => row.restarted += part,
        }
    }

    /// Returns a row for each user, queue or job, largest use first.
    #[must_use]
    pub fn rows(self) -> Vec<UsageRow> {
        let secs = |sum: u128| u64::try_from(sum / 1_000_000).unwrap_or(u64::MAX);
        let has_jobs = self.by.contains(&UsageKey::Job);
        let row = |((user, queue, job), sum): (SumKey, SumRow)| UsageRow {
            user,
            queue,
            job,
            name: sum.name.filter(|_| has_jobs),
            attempts: sum.attempts,
            gpu_secs: secs(sum.held),
            failed_gpu_secs: secs(sum.failed),
            restarted_gpu_secs: secs(sum.restarted),
            measured_gpu_secs: secs(sum.measured),
            used_gpu_secs: sum.busy.map(secs),
        };
        let mut rows: Vec<UsageRow> = self.rows.into_iter().map(row).collect();
        rows.sort_by_key(|row| std::cmp::Reverse(row.gpu_secs));
        rows
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn held(user: &str, job: u64, from: u64, to: u64, gpus: u64, end: HoldingEnd) -> HeldGpus {
        HeldGpus {
            user: user.into(),
            queue: "lab".into(),
            job: JobId(job),
            name: Some(format!("job-{job}")),
            from: Time(from * 1000),
            to: Time(to * 1000),
            gpu_milli_ms: gpus * 1000 * (to - from) * 1000,
            measured: None,
            end,
        }
    }

    fn sum(by: &[UsageKey]) -> Vec<UsageRow> {
        let mut sum = UsageSum::new(Time(100_000), Time(200_000), by);
        for one in [
            // 10 s of it are in the period.
            held("ann", 1, 0, 110, 8, HoldingEnd::Ended),
            held("ann", 2, 150, 160, 4, HoldingEnd::Restarted),
            held("ann", 2, 170, 190, 4, HoldingEnd::Failed),
            // 50 s of it.
            held("bob", 3, 150, 999, 1, HoldingEnd::Open),
            held("bob", 4, 0, 100, 8, HoldingEnd::Failed),
            held("bob", 4, 200, 300, 8, HoldingEnd::Failed),
            // Shorter than a unit of the clock: inside the period, before and after it.
            held("bob", 5, 150, 150, 8, HoldingEnd::Failed),
            held("bob", 5, 99, 99, 8, HoldingEnd::Failed),
            held("bob", 5, 200, 200, 8, HoldingEnd::Failed),
        ] {
            sum.add(one);
        }
        sum.rows()
    }

    #[test]
    fn only_the_period_counts() {
        let by_user: Vec<_> = sum(&[UsageKey::User])
            .into_iter()
            .map(|row| {
                (
                    row.user.expect("summed by users"),
                    row.attempts,
                    row.gpu_secs,
                    row.failed_gpu_secs,
                    row.restarted_gpu_secs,
                )
            })
            .collect();
        assert_eq!(by_user, [("ann".into(), 3, 200, 80, 40), ("bob".into(), 2, 50, 0, 0)]);
    }

    #[test]
    fn use_counts_for_the_period_and_unmeasured_attempts_have_none() {
        let mut sum = UsageSum::new(Time(100_000), Time(200_000), &[UsageKey::User]);
        // Half of the attempt is in the period.
        let measured = MeasuredUse { measured: 8_000 * 80_000, busy: 8_000 * 20_000 };
        sum.add(HeldGpus {
            measured: Some(measured),
            ..held("ann", 1, 50, 150, 8, HoldingEnd::Ended)
        });
        sum.add(held("ann", 2, 100, 110, 1, HoldingEnd::Ended));
        sum.add(held("bob", 3, 100, 110, 1, HoldingEnd::Ended));
        let rows: Vec<_> = sum
            .rows()
            .iter()
            .map(|row| (row.gpu_secs, row.measured_gpu_secs, row.used_gpu_secs))
            .collect();
        assert_eq!(rows, [(410, 320, Some(80)), (10, 0, None)]);
    }

    #[test]
    fn rows_are_told_apart_by_what_is_asked() {
        let by_job = sum(&[UsageKey::Job, UsageKey::Queue]);
        let jobs: Vec<_> =
            by_job.iter().map(|row| (row.job.expect("summed by jobs").0, row.gpu_secs)).collect();
        assert_eq!(jobs, [(2, 120), (1, 80), (3, 50), (5, 0)]);
        assert_eq!(by_job[0].name.as_deref(), Some("job-2"));
        assert_eq!((by_job[0].user.clone(), by_job[0].queue.clone()), (None, Some("lab".into())));
        let all = sum(&[]);
        assert_eq!((all.len(), all[0].gpu_secs, &all[0].name), (1, 250, &None));
    }
}
