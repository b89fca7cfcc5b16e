//! The engine's face: apply events, plan, check, commit, and read.

use std::sync::Arc;

use muster_model::view::{ElementView, Explanation, JobView, NodeView, QueueView, WindowView};
use muster_model::{
    AttemptId, Effect, ElementId, Event, JobId, JobSpec, NodeId, NodeName, NodeSpec, Plan,
    QueueName, QueueTree, Rank, Reservation, Span, Target, TaskPlacement, Time, UserName,
};
use muster_policy::TreeError;

use crate::check::{self, Violation};
use crate::fact::{Counts, Fact};
use crate::refusal::{Refusal, RestoreError};
use crate::state::State;
use crate::state::attempt::attempt_id;
use crate::state::job::Phase;
pub use crate::state::redact::RedactingJobs;
pub use crate::state::snapshot::Snapshot;
use crate::view::JobKey;
use crate::{explain, plan};

/// The scheduling engine: a value that is told what happened and asked what to do. It reads no
/// clock; time is an argument, and never runs backwards.
#[derive(Clone, Debug)]
pub struct Engine {
    state: State,
}

impl Engine {
    /// An engine without nodes and jobs.
    ///
    /// # Errors
    /// What is wrong with the tree.
    pub fn new(tree: QueueTree) -> Result<Self, TreeError> {
        Ok(Self { state: State::new(tree)? })
    }

    // ---- write ----

    /// Would [`Engine::apply`] accept the event?
    ///
    /// # Errors
    /// Why not.
    pub fn judge(&self, event: &Event) -> Result<(), Refusal> {
        self.state.judge(event)
    }

    /// Is there room for all of these to wait? What [`Engine::judge`] says of each alone does not
    /// count the others.
    ///
    /// # Errors
    /// The first for which there is none, by its place in the list, and why.
    pub fn judge_room(&self, specs: &[Arc<JobSpec>]) -> Result<(), (usize, Refusal)> {
        let judge = |(at, spec): (usize, &Arc<JobSpec>)| {
            self.state.judge_one_more(spec, &specs[..at]).map_err(|refusal| (at, refusal))
        };
        specs.iter().enumerate().try_for_each(judge)
    }

    /// What began or ended by now, drains and windows, does so for whoever asks from here on.
    /// [`Engine::apply`] and [`Engine::plan`] see to it themselves; who judges says it first.
    pub fn turn(&mut self, now: Time) {
        self.state.turn(now);
    }

    /// Applies an event that was accepted (or journalled). Reports on stale attempts and repeated
    /// observations change nothing.
    pub fn apply(&mut self, now: Time, event: &Event) {
        self.state.apply(now, event);
    }

    /// From now on a gang that is not ready after `limit`, counted from `since` at the earliest, is
    /// [`Engine::overdue`]. Without this, gangs are waited for as long as it takes. Not durable: to
    /// be said again after a restore.
    pub fn watch_starts(&mut self, since: Time, limit: Span) {
        self.state.watch_starts(since, limit);
    }

    /// One planning pass, on scratch: the state stays as it was. Only [`Engine::reservations`]
    /// follows the pass.
    pub fn plan(&mut self, now: Time) -> Plan {
        plan::plan(&mut self.state, now)
    }

    /// Judges a plan against the state, independently of how it was made.
    ///
    /// # Errors
    /// Everything that is wrong with it.
    pub fn check(&self, now: Time, plan: &Plan) -> Result<(), Vec<Violation>> {
        check::check(&self.state, now, plan)
    }

    /// Decisions enter the state, at planning and on replay alike.
    pub fn commit(&mut self, now: Time, plan: &Plan) {
        debug_assert_eq!(
            self.check(now, plan),
            Ok(()),
            "only plans that pass the judge are committed"
        );
        let before = self.state.effects.len();
        self.state.commit(now, plan);
        debug_assert_eq!(check::starts_have_effects(plan, &self.state.effects[before..]), []);
    }

    /// Effects since the last call.
    pub fn take_effects(&mut self) -> Vec<Effect> {
        taken(&mut self.state.effects)
    }

    /// Facts since the last call.
    pub fn take_facts(&mut self) -> Vec<Fact> {
        taken(self.state.facts.told_mut())
    }

    /// From now on no facts are made: for who keeps no account. Not durable.
    pub fn stop_facts(&mut self) {
        self.state.facts.stop();
    }

    // ---- recovery ----

    /// Every effect that the present state still stands for; all may be repeated.
    #[must_use]
    pub fn outstanding(&self) -> Vec<Effect> {
        self.state.outstanding()
    }

    /// Tasks that exist or may exist: all that are not over, of every active attempt.
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

    /// The durable state as one value.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        self.state.snapshot()
    }

    /// An engine from a snapshot; it plans as the one that made it.
    ///
    /// # Errors
    /// The snapshot contradicts itself.
    pub fn restore(snapshot: Snapshot) -> Result<Self, RestoreError> {
        Ok(Self { state: State::restore(snapshot)? })
    }

    // ---- read ----

    /// When [`Engine::overdue`] and [`Engine::plan`] should run though no event comes: begin times,
    /// back-offs, drains that begin, windows that begin or end, refills of budgets and ends of
    /// protections that kept something back, ends of patience, the ends of waits for a last
    /// checkpoint, and, once [`Engine::watch_starts`] was called, for starts.
    #[must_use]
    pub fn next_wake(&self) -> Option<Time> {
        let state = &self.state;
        let due = [state.entries.next_wake(), state.starting.next_wake(), state.pool.next_drain()];
        let more = [state.claims.next_wake(), state.windows.next_turn()];
        let looks = [state.looks.refill, state.looks.thaw, state.looks.patience];
        due.into_iter().chain(more).chain(looks).flatten().min()
    }

    /// What has not been reported in time, what a drain or a window that began stops, and where
    /// windows go, as events for [`Engine::apply`] and the journal.
    #[must_use]
    pub fn overdue(&self, now: Time) -> Vec<Event> {
        let mut events = self.state.overdue(now);
        events.extend(self.state.evictions_due(now));
        events.extend(self.state.drained_away(now));
        for event in plan::window::events(&self.state, now) {
            if !events.contains(&event) {
                events.push(event);
            }
        }
        events
    }

    /// Walks all invariants of the state; empty when all hold. Costs as much as the state is large.
    #[must_use]
    pub fn sanity_check(&self) -> Vec<Violation> {
        check::sanity_check(&self.state)
    }

    /// All jobs in memory, by number.
    #[must_use]
    pub fn jobs(&self, now: Time) -> Vec<JobView> {
        self.state.job_views(now)
    }

    /// Returns the views of these jobs, as far as they are in memory, in the order of the numbers.
    #[must_use]
    pub fn some_jobs(&self, now: Time, jobs: &[JobId]) -> Vec<JobView> {
        self.state.some_job_views(now, jobs)
    }

    /// Returns what lists filter by, of every job in memory, by number; makes no view.
    pub fn job_keys(&self) -> impl Iterator<Item = JobKey<'_>> {
        self.state.job_keys()
    }

    /// One job in memory.
    #[must_use]
    pub fn job(&self, now: Time, job: JobId) -> Option<JobView> {
        self.state.job_view(now, job)
    }

    /// One element of a job in memory.
    #[must_use]
    pub fn element(&self, now: Time, element: ElementId) -> Option<ElementView> {
        self.state.element_view(now, element)
    }

    /// What a job in memory asks for.
    #[must_use]
    pub fn job_spec(&self, job: JobId) -> Option<Arc<JobSpec>> {
        self.state.jobs.get(&job).map(|job| Arc::clone(&job.record.spec))
    }

    /// Returns which administrator holds a job, or one element of it, and whether its user holds it
    /// too.
    #[must_use]
    pub fn admin_hold(&self, target: Target) -> Option<(UserName, bool)> {
        self.state.admin_hold(target).map(|hold| (hold.by.clone(), hold.own))
    }

    /// Elements of a job that wait for something else than a person.
    #[must_use]
    pub fn waiting(&self, job: JobId) -> u32 {
        self.state.jobs.get(&job).map_or(0, |job| job.record.waiting_unheld())
    }

    /// The current or last attempt of an element, and where its tasks are.
    #[must_use]
    pub fn placement(&self, element: ElementId) -> Option<(AttemptId, Arc<[TaskPlacement]>)> {
        let known = self.state.element(element)?;
        let run = known.run.as_ref()?;
        Some((attempt_id(element.job, element.index, known.attempt), Arc::clone(&run.placement)))
    }

    /// What the last acknowledged checkpoint of an element was called, in whichever attempt.
    #[must_use]
    pub fn last_checkpoint(&self, element: ElementId) -> Option<Arc<str>> {
        self.state.element(element)?.saved.as_ref().map(|saved| Arc::clone(&saved.label))
    }

    /// GPU time that would be lost if the attempt of an element ended now, in thousandths of a GPU
    /// times milliseconds: all since its last checkpoint, or since it began to run.
    #[must_use]
    pub fn unsaved_gpu_millis(&self, now: Time, element: ElementId) -> u64 {
        self.state.element(element).map_or(0, |element| element.unsaved_gpu_millis(now))
    }

    /// All nodes, by name.
    #[must_use]
    pub fn nodes(&self) -> Vec<NodeView> {
        self.state.node_views()
    }

    /// All advance reservations, by name.
    #[must_use]
    pub fn windows(&self, now: Time) -> Vec<WindowView> {
        self.state.window_views(now)
    }

    /// What a node offers.
    #[must_use]
    pub fn node_spec(&self, node: NodeId) -> Option<&NodeSpec> {
        self.state.pool.get(node).map(|node| &node.spec)
    }

    /// Topology levels, widest first, without the node.
    #[must_use]
    pub fn levels(&self) -> &[Arc<str>] {
        self.state.pool.domains.levels()
    }

    /// Queues, quotas and policies as configured.
    #[must_use]
    pub fn tree(&self) -> &QueueTree {
        self.state.policy.tree()
    }

    /// All queues, parents before children.
    #[must_use]
    pub fn queues(&self, now: Time) -> Vec<QueueView> {
        self.state.queue_views(now)
    }

    /// Decayed GPU-seconds per user and leaf.
    #[must_use]
    pub fn usage_decayed(&self, now: Time) -> Vec<(UserName, QueueName, u64)> {
        self.state.policy.usage_rows(now)
    }

    /// Planned future starts of the last pass.
    #[must_use]
    pub fn reservations(&self) -> &[Reservation] {
        &self.state.reservations
    }

    /// Why an element waits, when it starts, and what would start it now. Tries on scratch; changes
    /// nothing.
    pub fn explain(&mut self, now: Time, element: ElementId) -> Option<Explanation> {
        explain::explain(&mut self.state, now, element)
    }

    /// What would become of a job if it were submitted now. Changes nothing.
    pub fn explain_submission(&mut self, now: Time, spec: &JobSpec) -> Explanation {
        explain::explain_submission(&mut self.state, now, spec)
    }

    /// How much there is.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.state.counts()
    }
}

/// Everything in a list. As much is likely to come until the next time: the list need not grow step
/// by step.
fn taken<T>(list: &mut Vec<T>) -> Vec<T> {
    let room = Vec::with_capacity(list.len());
    std::mem::replace(list, room)
}
