//! Explains why a job is pending: Slurm's reason as a sentence, its position, the jobs that hold
//! the resources, and changes with which it would start now. The figures for the reason come from
//! `evidence`.

use muster_api::types::ExplainResponse;
use muster_model::view::{Eta, Explanation, Holder, HolderEnd, JobState};
use muster_model::{ElementId, GpuMilli, JobId, Reason};
use muster_slurm::job::NativeJob;

use super::evidence::pending_before;
use super::queue::JobSelection;
use super::{Result, SlurmScheduler, headroom, sooner, view};
use crate::route::now;

/// Slurm's reason for a job that no nodes can ever satisfy.
const UNSATISFIABLE: &str = "BadConstraints";
/// Maximum number of holders listed.
const MAX_HOLDERS: usize = 10;

impl SlurmScheduler {
    /// Explains the state of a job, or of one of its elements.
    pub(super) async fn explain(&self, job: JobId, index: Option<u32>) -> Result<ExplainResponse> {
        // 1. Find the job and the rest of the queue.
        let (rows, _) = self.rows_of(job).await?;
        let state_of = |row: &NativeJob| row.state.state(row.is_held());
        let waits = |row: &&NativeJob| matches!(state_of(row), JobState::Pending | JobState::Held);
        let Some(any) = rows.iter().find(waits).or_else(|| rows.first()) else {
            return Err(self.unknown(job).await);
        };
        let row = index.map_or(Ok(any), |index| view::row_of(&rows, job, index))?;
        let state = state_of(row);
        let element = ElementId { job, index: index.unwrap_or_else(|| view::index(row)) };
        let blank =
            Explanation::blank(element, row.name.clone(), state, row.account.as_str().into());
        // A job that Slurm gave up without a start has a reason, too.
        if !waits(&row) && row.reason != UNSATISFIABLE {
            return Ok(ExplainResponse { now: now(), explanation: blank, gang: None });
        }
        // 2. Collect the evidence for the reason.
        let all = self.with_devices(JobSelection::All).await?;
        let hosts = self.hosts().await?;
        let limits = self.limits().await.unwrap_or_default();
        let mut reason = view::pending_reason(row, state);
        let bonds = self.constraints(row.id).await;
        if let Reason::Native { evidence, .. } = &mut reason {
            *evidence = self.evidence(row, &all, &hosts, &limits, bonds.as_ref()).await;
        }
        // 3. Add the expected start, the position, the holders, and changes for an earlier start.
        let is_one = row.component.is_none() && view::elements_of(row) == 1;
        // Constraints to some nodes are not modelled in the engine.
        let is_open =
            state == JobState::Pending && is_one && bonds.is_some_and(|bonds| bonds.is_empty());
        let bound = if is_open {
            headroom::headroom(row, &limits, &self.partitions(row).await)
        } else {
            None
        };
        let sooner = if is_open && (bound.is_some() || sooner::waits_for_resources(row)) {
            sooner::sooner(row, bound, &all, &pending_before(row, &all), &hosts, now())
        } else {
            Vec::new()
        };
        let explanation = Explanation {
            reasons: vec![reason],
            position: (state == JobState::Pending).then(|| position(row, &all)),
            holders: if waits(&row) { holders(row, &all) } else { Vec::new() },
            sooner,
            eta: view::expected_start(row)
                .filter(|_| state == JobState::Pending)
                .map(|start| Eta { start, reserved: false, predicted: false }),
            ..blank
        };
        Ok(ExplainResponse { now: now(), explanation, gang: None })
    }
}

/// Returns the job's position among the pending jobs of its account, and their number.
fn position(row: &NativeJob, all: &[NativeJob]) -> (u32, u32) {
    let is_of_account = |other: &&NativeJob| other.account == row.account;
    let waits = |other: &&NativeJob| other.state.state(other.is_held()) == JobState::Pending;
    let waiting = all.iter().filter(waits).filter(is_of_account).count();
    let before =
        pending_before(row, all).into_iter().filter(|other| other.account == row.account).count();
    let small = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
    (small(before) + 1, small(waiting))
}

/// Returns the running jobs of its partition, earliest end first.
fn holders(row: &NativeJob, all: &[NativeJob]) -> Vec<Holder> {
    let shares = |other: &&NativeJob| row.partition.split(',').any(|name| name == other.partition);
    let runs = |other: &&NativeJob| {
        other.state.state(false) == JobState::Running
            && muster_slurm::tres::gpus(&other.tres_allocated) > 0
    };
    let mut rows: Vec<&NativeJob> = all.iter().filter(runs).filter(shares).collect();
    rows.sort_by_key(|other| (other.end.is_none(), other.end));
    let holder = |other: &&NativeJob| Holder {
        element: ElementId { job: JobId(other.job()), index: view::index(other) },
        name: other.name.clone(),
        gpus: GpuMilli(muster_slurm::tres::gpus(&other.tres_allocated).saturating_mul(1000)),
        ends_by: other.end,
        end: HolderEnd::TimeLimit,
        expected_end: None,
    };
    rows.iter().take(MAX_HOLDERS).map(holder).collect()
}
