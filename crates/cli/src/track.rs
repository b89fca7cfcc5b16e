//! Follows the state of jobs through the daemon's long poll.

use std::time::{Duration, Instant};

use anyhow::Result;
use muster_api::query::JobFilter;
use muster_api::types::JobList;
use muster_api::{Client, WaitMode};
use muster_model::JobId;
use muster_model::view::{JobState, JobView};

use crate::exit::{FAILURE, Failure};

/// Longest wait for a change before the list is requested again in any case.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// Longest pause between two requests of the list, and the part of the time followed so far that
/// the pause takes: hundreds of short tasks end each second, and to list them after each costs the
/// daemon a sixth of the time that it takes to run them.
const PAUSE: (Duration, u32) = (Duration::from_millis(50), 20);

/// Largest number of job numbers that the daemon accepts in one request.
const IDS_AT_ONCE: usize = 1000;

/// List of jobs that is requested again when it changes.
pub struct Tracker {
    client: Client,
    filters: Vec<JobFilter>,
    revision: Option<u64>,
    begun: Instant,
    /// Time of the last request of the list.
    listed: Instant,
}

impl Tracker {
    /// Waits for these jobs, ended or not.
    pub fn of(client: &Client, jobs: &[JobId]) -> Self {
        client.set_wait_mode(WaitMode::WaitForJobs);
        Self::looking_at(client, jobs)
    }

    /// Follows these jobs, ended or not, in the wait mode that the caller has set.
    pub fn looking_at(client: &Client, jobs: &[JobId]) -> Self {
        let filter = |jobs: &[JobId]| {
            let ids: Vec<String> = jobs.iter().map(JobId::to_string).collect();
            JobFilter { ids: Some(ids.join(",")), ..JobFilter::default() }
        };
        let filters = jobs.chunks(IDS_AT_ONCE).map(filter).collect();
        Self::new(client, filters)
    }

    /// Follows the jobs that match a filter.
    pub fn filtered(client: &Client, filter: JobFilter) -> Self {
        client.set_wait_mode(WaitMode::Watch);
        Self::new(client, vec![filter])
    }

    fn new(client: &Client, filters: Vec<JobFilter>) -> Self {
        let now = Instant::now();
        Self { client: client.clone(), filters, revision: None, begun: now, listed: now }
    }

    /// Returns the list: at once the first time, later when it has changed or `patience` has
    /// elapsed.
    pub async fn next(&mut self, patience: Duration) -> Result<JobList> {
        if self.revision.is_some() {
            let pause = pause_after(self.begun.elapsed()).saturating_sub(self.listed.elapsed());
            tokio::time::sleep(pause).await;
            self.client
                .changes(self.revision, patience.as_secs().max(1))
                .await
                .map_err(Failure::from)?;
        }
        self.listed = Instant::now();
        let mut whole: Option<JobList> = None;
        for filter in &self.filters {
            let part = self.client.jobs(filter.clone()).await.map_err(Failure::from)?;
            match &mut whole {
                // Keep the oldest revision, so that a change between two parts is not missed.
                Some(whole) => whole.jobs.extend(part.jobs),
                None => whole = Some(part),
            }
        }
        let list = whole.ok_or_else(|| Failure::new("there is no job to follow"))?;
        self.revision = Some(list.revision);
        Ok(list)
    }

    /// Waits until every job has ended.
    pub async fn until_ended(&mut self) -> Result<JobList> {
        loop {
            let list = self.next(PATIENCE).await?;
            if all_ended(&list.jobs) {
                return Ok(list);
            }
        }
    }
}

/// Returns the shortest time between two requests of the list, after following for so long.
fn pause_after(followed: Duration) -> Duration {
    PAUSE.0.min(followed / PAUSE.1)
}

/// Returns whether all jobs are in a final state.
pub fn all_ended(jobs: &[JobView]) -> bool {
    jobs.iter().all(|job| job.state.is_final())
}

/// Returns the exit code of the first job that did not succeed, or 0.
pub fn exit_code(jobs: &[JobView]) -> u8 {
    jobs.iter().map(job_code).find(|code| *code != 0).unwrap_or(0)
}

fn job_code(job: &JobView) -> u8 {
    let outcome = job
        .elements
        .iter()
        .filter_map(|element| element.outcome.as_ref())
        .find(|o| !o.is_success());
    match (job.state, outcome) {
        (JobState::Done, _) => 0,
        // The elements of an array may have different outcomes.
        _ if job.array.is_some() => FAILURE,
        (_, Some(outcome)) => u8::try_from(outcome.exit_code()).unwrap_or(FAILURE),
        (JobState::Cancelled, None) => 130,
        _ => FAILURE,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_wait_is_hardly_prolonged_and_a_long_one_by_little() {
        let pause = |millis| pause_after(Duration::from_millis(millis)).as_millis();
        assert_eq!([0, 10, 200, 1_000, 3_600_000].map(pause), [0, 0, 10, 50, 50]);
    }
}
