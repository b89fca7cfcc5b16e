//! A backfill pass: jobs in order of priority, each gets the earliest time in the plan; those that
//! can start now do, the others reserve nodes, so that no later job delays them. Only starts are
//! carried out; the next pass plans anew.
//!
//! Slurm may take minutes for this, and gives up after `bf_max_time`; a simulated decision takes no
//! time, so that a pass is always complete (as with `bf_continue`). A pass ends as soon as no
//! remaining job could start now: planning beyond that changes nothing.

use std::collections::{BTreeMap, BTreeSet};

use muster_model::{NodeId, Span, Time};

use super::capacity::CapacityStep;
use super::plan::{BackfillPlan, PlanRequest};
use super::queue::SlurmJob;
use super::settings::SlurmSettings;
use super::state::ControllerState;
use crate::fleet::{ClusterState, JobNo, SchedulerError};

/// A shape of which some job may yet start in this pass.
#[derive(Clone, Debug)]
struct StartableKind {
    /// Number of its jobs that have not been tried.
    left: usize,
    /// Their shortest time limit at the beginning.
    limit: Span,
    /// Nodes with room for it now.
    capacities: Vec<(NodeId, u32)>,
}

/// State of a pass by shape.
#[derive(Debug)]
struct PassKinds {
    startable_kinds: BTreeMap<usize, StartableKind>,
    /// Room over time, by shape.
    steps: BTreeMap<usize, Vec<CapacityStep>>,
    /// Earliest starts by time limit: a job with that limit or a longer one cannot start earlier.
    bounds: BTreeMap<usize, BTreeMap<Span, Time>>,
}

/// Runs one pass; true if some job has started.
///
/// # Errors
/// A defect of this model.
pub(super) fn pass(
    state: &mut ControllerState,
    cluster: &mut ClusterState,
) -> Result<bool, SchedulerError> {
    let now = cluster.now();
    let mut kinds = PassKinds::new(state, cluster);
    let SlurmSettings { bf_max_job_test, bf_node_space_size, .. } = state.settings;
    let mut plan = BackfillPlan::new(now, cluster.pool().nodes().len(), &state.settings);
    let mut tried = 0;
    let mut has_started = false;
    let mut hopeless = BTreeSet::new();
    for at in 0..state.queue.jobs().len() {
        let number = state.queue.jobs()[at];
        // 1. Whether it is tried.
        if (kinds.startable_kinds.is_empty() && !state.may_preempt(number))
            || tried == bf_max_job_test
            || plan.slots() >= bf_node_space_size
        {
            break;
        }
        let job = state.jobs[number.at()];
        kinds.count_tried(job.kind);
        if state.exceeded(number).is_some() {
            continue;
        }
        tried += 1;
        // 2. When it could start.
        let bound = kinds.bound(job.kind, job.limit).unwrap_or(now);
        let tasks = state.kinds[job.kind].tasks;
        let steps = kinds.steps(state, cluster, job.kind);
        let mut found =
            plan.earliest(&PlanRequest { tasks, limit: job.limit, steps }, bound, &state.switches);
        let is_later = found.as_ref().is_none_or(|(start, _)| *start > now);
        if is_later && preempts(state, cluster, &plan, number, &mut hopeless) {
            kinds.ends_have_changed();
            let steps = kinds.steps(state, cluster, job.kind);
            found = plan.earliest(
                &PlanRequest { tasks, limit: job.limit, steps },
                now,
                &state.switches,
            );
        }
        // 3. Now, or later.
        match found {
            Some((start, places)) if start <= now => {
                state.start(cluster, number, &places)?;
                has_started = true;
                kinds.capacity_has_changed(state, cluster);
            }
            Some((start, places)) => {
                plan.reserve(&places, start, job.limit);
                kinds.record_start(job.kind, job.limit, start);
            }
            None => kinds.record_start(job.kind, job.limit, Time::NEVER),
        }
        kinds.drop_exhausted(state, &plan);
    }
    state.remove_started();
    Ok(has_started)
}

/// Preempts jobs for one that cannot start now, on nodes without a reservation. False if no job is
/// preempted for it that was not before.
fn preempts(
    state: &mut ControllerState,
    cluster: &ClusterState,
    plan: &BackfillPlan,
    number: JobNo,
    hopeless: &mut BTreeSet<(usize, i32, Span)>,
) -> bool {
    let SlurmJob { kind, qos, limit, .. } = state.jobs[number.at()];
    if !state.may_preempt(number) || hopeless.contains(&(kind, qos, limit)) {
        return false;
    }
    let open = plan.open_now(limit);
    match state.preemptees(cluster, number, |node| open.contains(node)) {
        Some(preemptees) => state.preempt(cluster, &preemptees),
        None => {
            hopeless.insert((kind, qos, limit));
            false
        }
    }
}

impl PassKinds {
    fn new(state: &ControllerState, cluster: &ClusterState) -> Self {
        let mut startable_kinds: BTreeMap<usize, StartableKind> = BTreeMap::new();
        for job in state.queue.jobs().iter().map(|job| &state.jobs[job.at()]) {
            let startable = startable_kinds.entry(job.kind).or_insert(StartableKind {
                left: 0,
                limit: job.limit,
                capacities: Vec::new(),
            });
            (startable.left, startable.limit) =
                (startable.left + 1, startable.limit.min(job.limit));
        }
        let mut kinds = Self { startable_kinds, steps: BTreeMap::new(), bounds: BTreeMap::new() };
        kinds.capacity_has_changed(state, cluster);
        kinds.startable_kinds.retain(|kind, startable| {
            has_capacity(&startable.capacities, state.kinds[*kind].tasks)
        });
        kinds
    }

    /// Counts a job of the shape as tried.
    fn count_tried(&mut self, kind: usize) {
        if let Some(startable) = self.startable_kinds.get_mut(&kind) {
            startable.left -= 1;
        }
    }

    /// Forgets the room over time after ends of running jobs were moved.
    fn ends_have_changed(&mut self) {
        self.steps.clear();
        self.bounds.clear();
    }

    /// Updates the room after a start.
    fn capacity_has_changed(&mut self, state: &ControllerState, cluster: &ClusterState) {
        self.steps.clear();
        for (kind, startable) in &mut self.startable_kinds {
            startable.capacities = state.capacities.now(cluster.pool(), &state.kinds[*kind].task);
        }
    }

    /// Drops shapes without remaining jobs, or without room on nodes that are not reserved: room
    /// and open nodes only get fewer in a pass.
    fn drop_exhausted(&mut self, state: &ControllerState, plan: &BackfillPlan) {
        self.startable_kinds.retain(|kind, startable| {
            if startable.left == 0 {
                return false;
            }
            let open = plan.open_now(startable.limit);
            startable.capacities.retain(|(node, _)| open.contains(*node));
            has_capacity(&startable.capacities, state.kinds[*kind].tasks)
        });
    }

    fn steps(
        &mut self,
        state: &ControllerState,
        cluster: &ClusterState,
        kind: usize,
    ) -> &[CapacityStep] {
        let task = &state.kinds[kind].task;
        self.steps
            .entry(kind)
            .or_insert_with(|| state.capacities.steps(cluster.pool(), cluster.now(), task))
    }

    fn bound(&self, kind: usize, limit: Span) -> Option<Time> {
        self.bounds.get(&kind)?.range(..=limit).next_back().map(|(_, start)| *start)
    }

    /// Records that a job of the shape with this limit cannot start earlier under the current plan.
    fn record_start(&mut self, kind: usize, limit: Span, start: Time) {
        let bounds = self.bounds.entry(kind).or_default();
        // Later bounds of longer limits that are not later are redundant.
        bounds.retain(|other, at| *other < limit || *at > start);
        bounds.insert(limit, start);
    }
}

fn has_capacity(capacities: &[(NodeId, u32)], tasks: u32) -> bool {
    capacities.iter().map(|(_, capacity)| u64::from(*capacity)).sum::<u64>() >= u64::from(tasks)
}
