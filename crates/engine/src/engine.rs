//! Public interface of the engine: apply events, plan, check, commit, and read.

use std::sync::Arc;

use muster_model::view::{
    AdvanceReservationView, ElementView, Explanation, JobView, NodeView, QueueView,
};
use muster_model::{
    AttemptId, CommandTarget, Effect, ElementId, Event, JobId, JobSpec, NodeId, NodeName, NodeSpec,
    Plan, QueueName, QueueTree, Rank, Reservation, Span, TaskPlacement, Time, UserName,
};
use muster_policy::{Policy, TreeError, UsageRecord};

use crate::check::{self, Violation};
use crate::fact::{AccountingFact, EngineCounts};
use crate::plan::Planner;
use crate::refusal::{EventRefusal, RestoreError};
use crate::state::State;
use crate::state::attempt::attempt_id;
use crate::state::job::{Job, Phase};

pub use crate::state::redact::RedactingJobs;
pub use crate::state::snapshot::Snapshot;
use crate::state::view::JobKey;
use crate::{explain, plan, state, validate, view};

/// The scheduling engine: a value that takes events and returns plans. It reads no clock; time is
/// an argument, and must not go backwards.
#[derive(Clone, Debug)]
pub struct Engine {
    state: State,
    planner: Planner,
}

impl Engine {
    /// Returns an engine without nodes and jobs.
    ///
    /// # Errors
    /// The first defect of the tree.
    pub fn new(tree: QueueTree) -> Result<Self, TreeError> {
        Ok(Self::of(State::new(tree)?))
    }

    fn of(state: State) -> Self {
        Self { state, planner: Planner::default() }
    }

    // ---- write ----

    /// Checks that [`Engine::apply`] accepts the event.
    ///
    /// # Errors
    /// Why it does not.
    pub fn validate(&self, event: &Event) -> Result<(), EventRefusal> {
        validate::validate_event(&self.state, event)
    }

    /// Checks the limits on pending jobs for all these jobs together. [`Engine::validate`] of each
    /// alone does not count the others.
    ///
    /// # Errors
    /// The index of the first job that exceeds a limit, and why.
    pub fn validate_batch(&self, specs: &[Arc<JobSpec>]) -> Result<(), (usize, EventRefusal)> {
        let check = |(at, spec): (usize, &Arc<JobSpec>)| {
            validate::validate_one_more(&self.state, spec, &specs[..at])
                .map_err(|refusal| (at, refusal))
        };
        specs.iter().enumerate().try_for_each(check)
    }

    /// Brings drains and advance reservations that began or ended by `now` into force.
    /// [`Engine::apply`] and [`Engine::plan`] do so themselves; call it before
    /// [`Engine::validate`].
    pub fn advance_time(&mut self, now: Time) {
        self.state.advance_time(now);
    }

    /// Applies an event that was accepted (or journalled). Reports on stale attempts and repeated
    /// observations change nothing.
    pub fn apply(&mut self, now: Time, event: &Event) {
        self.state.apply(now, event);
    }

    /// Sets the time within which a gang must become ready, counted from `since` at the earliest.
    /// [`Engine::due_events`] reports gangs that exceed it. Without it there is no limit. Not
    /// durable: set it again after a restore.
    pub fn set_start_limit(&mut self, since: Time, limit: Span) {
        self.state.start_waits.limit(since, limit);
    }

    /// Runs one planning pass on scratch: the state does not change. Only [`Engine::reservations`]
    /// is updated.
    pub fn plan(&mut self, now: Time) -> Plan {
        self.planner.plan(&mut self.state, now)
    }

    /// Checks a plan against the state, independently of how it was made.
    ///
    /// # Errors
    /// All its violations.
    pub fn check(&self, now: Time, plan: &Plan) -> Result<(), Vec<Violation>> {
        check::check(&self.state, now, plan)
    }

    /// Applies the decisions of a plan to the state, at planning and on replay alike.
    pub fn commit(&mut self, now: Time, plan: &Plan) {
        // On replay no pass has brought into force what began since the last event.
        self.state.advance_time(now);
        debug_assert_eq!(
            self.violations_in_replay(now, plan),
            [],
            "only plans that pass the checker are committed"
        );
        let before = self.state.effects.len();
        self.planner.commit(&mut self.state, now, plan);
        debug_assert_eq!(check::starts_have_effects(plan, &self.state.effects[before..]), []);
    }

    /// Returns the violations of a plan that may come from the journal. Such a plan has no
    /// reservations, which the check of overtaken queue heads needs; and one of an older version does not know
    /// `reclaim_after`.
    fn violations_in_replay(&self, now: Time, plan: &Plan) -> Vec<Violation> {
        let mut violations = self.check(now, plan).err().unwrap_or_default();
        let is_excused = |violation: &Violation| {
            matches!(violation, Violation::HeadPassed { .. } | Violation::LosesMuchWork(_))
        };
        violations.retain(|violation| !is_excused(violation));
        violations
    }

    /// Returns the effects since the last call.
    pub fn take_effects(&mut self) -> Vec<Effect> {
        take_all(&mut self.state.effects)
    }

    /// Returns the facts since the last call.
    pub fn take_facts(&mut self) -> Vec<AccountingFact> {
        take_all(self.state.facts.pending_mut())
    }

    /// Stops recording facts, for callers that keep no accounts. Not durable.
    pub fn disable_facts(&mut self) {
        self.state.facts.disable();
    }

    // ---- recovery ----

    /// Returns every effect that the present state still requires; all may be repeated.
    #[must_use]
    pub fn outstanding(&self) -> Vec<Effect> {
        self.state.jobs.outstanding()
    }

    /// Returns the tasks that exist or may exist: all that have not ended, of every active attempt.
    #[must_use]
    pub fn expected_tasks(&self) -> Vec<(AttemptId, Rank, NodeName)> {
        let mut expected = Vec::new();
        for (id, job) in self.state.jobs.iter() {
            for (ordinal, element) in &job.record.elements {
                let Some(run) = element.run.as_ref().filter(|_| element.phase == Phase::Active)
                else {
                    continue;
                };
                let id = attempt_id(*id, job.record.index_of(*ordinal), element.attempt);
                for (rank, (place, task)) in run.placement.iter().zip(&run.tasks).enumerate() {
                    if task.stage != muster_model::view::TaskStage::Ended {
                        let node = self.state.pool.node(place.node).spec.name.clone();
                        expected.push((id, Rank(rank as u32), node));
                    }
                }
            }
        }
        expected
    }

    /// Returns the durable state as one value.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        self.state.snapshot()
    }

    /// Returns an engine from a snapshot; it plans as the one that made it.
    ///
    /// # Errors
    /// If the snapshot contradicts itself.
    pub fn restore(snapshot: Snapshot) -> Result<Self, RestoreError> {
        Ok(Self::of(State::restore(snapshot)?))
    }

    /// Returns the decayed usage of queues and users as of `now`, for an engine that learns of jobs
    /// and nodes from elsewhere.
    #[must_use]
    pub fn usage_record(&self, now: Time) -> UsageRecord {
        self.state.policy.usage_record(now)
    }

    /// Returns an engine without nodes and jobs that goes on from recorded usage, with the queue tree
    /// of that time: another tree, set before, would drop the usage of queues that it lacks.
    ///
    /// # Errors
    /// The first defect of the tree.
    pub fn with_usage(record: UsageRecord) -> Result<Self, TreeError> {
        Ok(Self::of(State::with_policy(Policy::with_usage(record)?)))
    }

    // ---- read ----

    /// Returns the next time at which [`Engine::due_events`] and [`Engine::plan`] should run even
    /// without an event: begin times, back-offs, drains that begin, advance reservations that begin
    /// or end, budget refills and protection expiries that block an entry, ends of patience, shares that begin to count,
    /// deadlines for a last checkpoint, and, once [`Engine::set_start_limit`] was called, for
    /// starts.
    #[must_use]
    pub fn next_wake(&self) -> Option<Time> {
        let state = &self.state;
        let due =
            [state.entries.next_wake(), state.start_waits.next_wake(), state.pool.next_drain()];
        let more = [state.pending_allocations.next_wake(), state.advance_reservations.next_edge()];
        let wake_times = &self.planner.outlook().wake_times;
        let looks = [wake_times.budget_refill, wake_times.protection_expiry];
        let order = [wake_times.patience_expiry, wake_times.share_counts];
        due.into_iter().chain(more).chain(looks).chain(order).flatten().min()
    }

    /// Returns the events that are due by `now`, for [`Engine::apply`] and the journal: reports
    /// that are overdue, attempts stopped by a drain or an advance reservation, and changed
    /// placements of advance reservations.
    #[must_use]
    pub fn due_events(&self, now: Time) -> Vec<Event> {
        let mut events = self.state.start_waits.overdue(&self.state.jobs, now);
        events.extend(self.state.pending_allocations.evictions_due(&self.state.jobs, now));
        events.extend(self.state.drained_away(now));
        for event in plan::advance_reservation::events(&self.state, now) {
            if !events.contains(&event) {
                events.push(event);
            }
        }
        events
    }

    /// Checks all invariants of the state; empty if all hold. The cost grows with the size of the
    /// state.
    #[must_use]
    pub fn sanity_check(&self) -> Vec<Violation> {
        check::sanity_check(&self.state)
    }

    /// Returns all jobs in memory, by number.
    #[must_use]
    pub fn jobs(&self, now: Time) -> Vec<JobView> {
        self.views_of(now, self.state.jobs.iter())
    }

    /// Returns the views of these jobs, as far as they are in memory, in the order of the numbers.
    #[must_use]
    pub fn jobs_by_id(&self, now: Time, jobs: &[JobId]) -> Vec<JobView> {
        let known = jobs.iter().filter_map(|id| Some((id, self.state.jobs.get(id)?)));
        self.views_of(now, known)
    }

    fn views_of<'a>(
        &self,
        now: Time,
        jobs: impl Iterator<Item = (&'a JobId, &'a Job)>,
    ) -> Vec<JobView> {
        view::of_jobs(&self.state, self.planner.outlook(), now, jobs)
    }

    /// Returns the filter fields of every job in memory, by number, without making views.
    pub fn job_keys(&self) -> impl Iterator<Item = JobKey<'_>> {
        state::view::job_keys(&self.state)
    }

    /// Returns one job, if it is in memory.
    #[must_use]
    pub fn job(&self, now: Time, job: JobId) -> Option<JobView> {
        self.jobs_by_id(now, &[job]).pop()
    }

    /// Returns one element of a job, if it is in memory.
    #[must_use]
    pub fn element(&self, now: Time, element: ElementId) -> Option<ElementView> {
        state::view::element_view(&self.state, now, element)
    }

    /// Returns the specification of a job, if it is in memory.
    #[must_use]
    pub fn job_spec(&self, job: JobId) -> Option<Arc<JobSpec>> {
        self.state.jobs.get(&job).map(|job| Arc::clone(&job.record.spec))
    }

    /// Returns which administrator holds a job, or one element of it, and whether its user holds it
    /// too.
    #[must_use]
    pub fn admin_hold(&self, target: CommandTarget) -> Option<(UserName, bool)> {
        self.state.jobs.admin_hold(target).map(|hold| (hold.by.clone(), hold.own))
    }

    /// Returns the number of pending elements of a job that are not on hold.
    #[must_use]
    pub fn pending_unheld(&self, job: JobId) -> u32 {
        self.state.jobs.get(&job).map_or(0, |job| job.record.waiting_unheld())
    }

    /// Returns the current or last attempt of an element, and its placement.
    #[must_use]
    pub fn placement(&self, element: ElementId) -> Option<(AttemptId, Arc<[TaskPlacement]>)> {
        let known = self.state.jobs.element(element)?;
        let run = known.run.as_ref()?;
        Some((attempt_id(element.job, element.index, known.attempt), Arc::clone(&run.placement)))
    }

    /// Returns the number of the current or last attempt of an element in memory.
    #[must_use]
    pub fn attempt(&self, element: ElementId) -> Option<u32> {
        self.state.jobs.element(element).map(|known| known.attempt)
    }

    /// Returns the label of the last acknowledged checkpoint of an element, of any attempt.
    #[must_use]
    pub fn last_checkpoint(&self, element: ElementId) -> Option<Arc<str>> {
        self.state.jobs.element(element)?.saved.as_ref().map(|saved| Arc::clone(&saved.label))
    }

    /// Returns the GPU time that would be lost if the attempt of an element ended now, in
    /// thousandths of a GPU × milliseconds: all since its last checkpoint, or since it began to
    /// run.
    #[must_use]
    pub fn unsaved_gpu_millis(&self, now: Time, element: ElementId) -> u64 {
        self.state.jobs.element(element).map_or(0, |element| element.unsaved_gpu_millis(now))
    }

    /// Returns all nodes, by name.
    #[must_use]
    pub fn nodes(&self) -> Vec<NodeView> {
        state::view::node_views(&self.state)
    }

    /// Returns all advance reservations, by name.
    #[must_use]
    pub fn advance_reservations(&self, now: Time) -> Vec<AdvanceReservationView> {
        state::advance_reservation::view::all(&self.state, now)
    }

    /// Returns the specification of a node.
    #[must_use]
    pub fn node_spec(&self, node: NodeId) -> Option<&NodeSpec> {
        self.state.pool.get(node).map(|node| &node.spec)
    }

    /// Returns the id of a node by its name.
    #[must_use]
    pub fn node_id(&self, name: &NodeName) -> Option<NodeId> {
        self.state.pool.find(name)
    }

    /// Returns the topology levels, widest first, without the node level.
    #[must_use]
    pub fn levels(&self) -> &[Arc<str>] {
        self.state.pool.domains.levels()
    }

    /// Returns the queues, quotas and policies as configured.
    #[must_use]
    pub fn tree(&self) -> &QueueTree {
        self.state.policy.tree()
    }

    /// Returns all queues, parents before children.
    #[must_use]
    pub fn queues(&self, now: Time) -> Vec<QueueView> {
        state::view::queue_views(&self.state, now)
    }

    /// Returns the decayed GPU-seconds per user and leaf queue.
    #[must_use]
    pub fn usage_decayed(&self, now: Time) -> Vec<(UserName, QueueName, u64)> {
        self.state.policy.usage_rows(now)
    }

    /// Returns the planned future starts of the last pass.
    #[must_use]
    pub fn reservations(&self) -> &[Reservation] {
        &self.planner.outlook().reservations
    }

    /// Returns true if planned starts depend on predicted run times, so that they may come later.
    #[must_use]
    pub fn plans_by_predictions(&self) -> bool {
        self.state.plans_by_predictions()
    }

    /// Explains why an element is pending, when it starts, and what would start it now. Tries on
    /// scratch; changes nothing.
    pub fn explain(&mut self, now: Time, element: ElementId) -> Option<Explanation> {
        explain::explain(&mut self.state, self.planner.outlook(), now, element)
    }

    /// Explains what would happen to a job if it were submitted now. Changes nothing.
    pub fn explain_submission(&mut self, now: Time, spec: &JobSpec) -> Explanation {
        explain::explain_submission(&mut self.state, now, spec)
    }

    /// Returns the numbers of nodes, jobs and elements.
    #[must_use]
    pub fn counts(&self) -> EngineCounts {
        state::view::counts(&self.state)
    }
}

/// Takes everything in a list. Reserves the same capacity again, so that the list need not grow
/// step by step.
fn take_all<T>(list: &mut Vec<T>) -> Vec<T> {
    let capacity = Vec::with_capacity(list.len());
    std::mem::replace(list, capacity)
}
