//! Pending jobs by priority: a weighted sum of age, fair share and size
//! (doc/html/priority_multifactor.shtml). As in Slurm it is calculated when a job arrives and then
//! every PriorityCalcPeriod; between these the order is constant.

use std::cmp::Reverse;

use muster_model::{Span, Time};

use super::accounts::UserNo;
use super::settings::SlurmSettings;
use crate::fleet::JobNo;

/// Factors are between 0 and 1, in millionths.
const ONE: u64 = 1_000_000;

/// A job in the model.
#[derive(Clone, Copy, Debug)]
pub(super) struct SlurmJob {
    /// Index of its shape.
    pub(super) kind: usize,
    pub(super) user: UserNo,
    /// Thousandths of GPUs that it holds while it runs.
    pub(super) gpus_milli: u64,
    /// Billed thousandths: its GPUs, or its CPUs on a site without any.
    pub(super) billed_milli: u64,
    /// Time limit, in whole minutes.
    pub(super) limit: Span,
    /// Time from which its age counts.
    pub(super) eligible: Time,
    /// Size factor: the mean of its parts of all nodes and of all billed resources, in millionths.
    pub(super) size: u64,
    /// Addend to its priority: minus its nice value.
    pub(super) bonus: i64,
    /// QOS: the job's priority where jobs preempt by QOS, else 0.
    pub(super) qos: i32,
    pub(super) priority: u64,
}

impl SlurmJob {
    /// Calculates its priority now, with this rank among the users. At least 1: 0 is for held jobs.
    pub(super) fn weigh(&mut self, now: Time, rank: u32, users: usize, settings: &SlurmSettings) {
        let SlurmSettings { weight_age, weight_fair_share, weight_job_size, max_age, .. } =
            *settings;
        let part = |part: u64, whole: u64| {
            (u128::from(part) * u128::from(ONE) / u128::from(whole.max(1))) as u64
        };
        let age = part(now.since(self.eligible).0.min(max_age.0), max_age.0);
        let fair_share = part(u64::from(rank), users as u64);
        let sum = weight_age * age + weight_fair_share * fair_share + weight_job_size * self.size;
        self.priority = (sum / ONE).saturating_add_signed(self.bonus).max(1);
    }
}

/// Returns the mean of the requested fractions of nodes and of billed resources, in millionths.
pub(super) fn size(nodes: (u64, u64), billed: (u64, u64)) -> u64 {
    let part = |(part, whole): (u64, u64)| part.saturating_mul(ONE) / whole.max(1);
    ((part(nodes) + part(billed)) / 2).min(ONE)
}

/// Position in the queue: highest QOS first, since a job comes before those that it may preempt
/// (src/slurmctld/job_scheduler.c, sort_job_queue2), then highest priority, then lowest number.
fn turn(job: JobNo, jobs: &[SlurmJob]) -> (Reverse<i32>, Reverse<u64>, JobNo) {
    (Reverse(jobs[job.at()].qos), Reverse(jobs[job.at()].priority), job)
}

/// The queue, in order.
#[derive(Clone, Debug, Default)]
pub(super) struct SlurmQueue {
    jobs: Vec<JobNo>,
}

impl SlurmQueue {
    pub(super) fn jobs(&self) -> &[JobNo] {
        &self.jobs
    }

    pub(super) fn enter(&mut self, job: JobNo, jobs: &[SlurmJob]) {
        let at = self.jobs.partition_point(|other| turn(*other, jobs) < turn(job, jobs));
        self.jobs.insert(at, job);
    }

    pub(super) fn remove(&mut self, at: usize) {
        self.jobs.remove(at);
    }

    /// Removes all jobs that have begun.
    pub(super) fn keep(&mut self, waits: impl Fn(JobNo) -> bool) {
        self.jobs.retain(|job| waits(*job));
    }

    /// Sorts the queue after priorities have changed.
    pub(super) fn sort(&mut self, jobs: &[SlurmJob]) {
        self.jobs.sort_by_key(|job| turn(*job, jobs));
    }
}
