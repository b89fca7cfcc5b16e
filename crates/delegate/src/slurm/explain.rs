//! Why a job waits: Slurm's word as a sentence, behind whom, who holds what it waits for, and what
//! would start it. The figures beside the word are `evidence`.

use muster_api::types::Explained;
use muster_backends::slurm::job::NativeJob;
use muster_model::view::{Eta, Explanation, Holder, HolderEnd, State};
use muster_model::{ElementId, GpuMilli, JobId, Reason};

use super::queue::Whose;
use super::{Result, Slurm, headroom, sooner, view};

/// Slurm's word for a job that no nodes can ever take.
const UNSATISFIABLE: &str = "BadConstraints";
/// Holders named at most.
const NAMED: usize = 10;

impl Slurm {
    /// Of a job, or of one element.
    pub(super) async fn explain(&self, job: JobId, index: Option<u32>) -> Result<Explained> {
        // 1. The job, and what else is in the queue.
        let (rows, _) = self.rows_of(job).await?;
        let state_of = |row: &NativeJob| row.state.state(row.is_held());
        let waits = |row: &&NativeJob| matches!(state_of(row), State::Pending | State::Held);
        let Some(any) = rows.iter().find(waits).or_else(|| rows.first()) else {
            return Err(self.unknown(job).await);
        };
        let row = index.map_or(Ok(any), |index| view::row_of(&rows, job, index))?;
        let state = state_of(row);
        let element = ElementId { job, index: index.unwrap_or_else(|| view::index(row)) };
        let blank =
            Explanation::blank(element, row.name.clone(), state, row.account.as_str().into());
        // What Slurm gave up without a start has a reason all the same.
        if !waits(&row) && row.reason != UNSATISFIABLE {
            return Ok(Explained { now: self.now(), explanation: blank });
        }
        // 2. What decided it.
        let (all, hosts) = (self.with_devices(Whose::All).await?, self.hosts().await?);
        let limits = self.limits().await.unwrap_or_default();
        let mut reason = view::why(row, state);
        let bonds = self.bonds(row.id).await;
        if let Reason::Native { evidence, .. } = &mut reason {
            *evidence = self.evidence(row, &all, &hosts, &limits, bonds.as_ref()).await;
        }
        // 3. When, behind whom, who holds what it waits for, and what would start it now.
        let is_one = row.component.is_none() && view::elements_of(row) == 1;
        // What binds it to some nodes is not told to the engine.
        let is_open =
            state == State::Pending && is_one && bonds.is_some_and(|bonds| bonds.is_empty());
        let bound =
            if is_open { headroom::bound(row, &limits, &self.partitions(row).await) } else { None };
        let sooner = match is_open && (bound.is_some() || sooner::waits_for_room(row)) {
            true => sooner::sooner(row, bound, &all, &ahead(row, &all), &hosts, self.now()),
            false => Vec::new(),
        };
        let explanation = Explanation {
            reasons: vec![reason],
            position: (state == State::Pending).then(|| position(row, &all)),
            holders: if waits(&row) { holders(row, &all) } else { Vec::new() },
            sooner,
            eta: view::expected_start(row)
                .filter(|_| state == State::Pending)
                .map(|start| Eta { start, reserved: false }),
            ..blank
        };
        Ok(Explained { now: self.now(), explanation })
    }
}

/// Jobs before it in its partition.
pub(super) fn ahead<'a>(row: &NativeJob, all: &'a [NativeJob]) -> Vec<&'a NativeJob> {
    let waits = |other: &&NativeJob| other.state.state(other.is_held()) == State::Pending;
    let shares = |other: &&NativeJob| {
        other.partition.split(',').any(|name| row.partition.split(',').any(|own| own == name))
    };
    let mut ahead: Vec<&NativeJob> = all
        .iter()
        .filter(waits)
        .filter(shares)
        .filter(|other| {
            (other.priority, std::cmp::Reverse(other.id))
                > (row.priority, std::cmp::Reverse(row.id))
                && other.job() != row.job()
        })
        .collect();
    ahead.sort_by_key(|other| std::cmp::Reverse(other.priority));
    ahead
}

/// Its place among those of its account that wait, and how many these are.
fn position(row: &NativeJob, all: &[NativeJob]) -> (u32, u32) {
    let is_of_account = |other: &&NativeJob| other.account == row.account;
    let waits = |other: &&NativeJob| other.state.state(other.is_held()) == State::Pending;
    let waiting = all.iter().filter(waits).filter(is_of_account).count();
    let before = ahead(row, all).into_iter().filter(|other| other.account == row.account).count();
    let small = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
    (small(before) + 1, small(waiting))
}

/// Who runs in its partition and ends first.
fn holders(row: &NativeJob, all: &[NativeJob]) -> Vec<Holder> {
    let shares = |other: &&NativeJob| row.partition.split(',').any(|name| name == other.partition);
    let runs = |other: &&NativeJob| {
        other.state.state(false) == State::Running && NativeJob::gpus_of(&other.tres_held) > 0
    };
    let mut rows: Vec<&NativeJob> = all.iter().filter(runs).filter(shares).collect();
    rows.sort_by_key(|other| (other.end.is_none(), other.end));
    let holder = |other: &&NativeJob| Holder {
        element: ElementId { job: JobId(other.job()), index: view::index(other) },
        name: other.name.clone(),
        gpus: GpuMilli(NativeJob::gpus_of(&other.tres_held).saturating_mul(1000)),
        ends_by: other.end,
        end: HolderEnd::TimeLimit,
    };
    rows.iter().take(NAMED).map(holder).collect()
}
