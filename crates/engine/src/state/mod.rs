//! State: the fold of events and decisions. Applying an event or a decision changes it, and
//! everything derived from it (indexes, queue entries, the policy's counters) is updated here. It
//! must not plan: where an element starts is decided in `plan`.

pub(crate) mod act;
pub(crate) mod advance_reservation;
pub(crate) mod after_attempt;
pub(crate) mod attempt;
pub(crate) mod cluster;
pub(crate) mod dependencies;
pub(crate) mod element_record;
pub(crate) mod entries;
pub(crate) mod expected_ends;
pub(crate) mod hold;
pub(crate) mod job;
pub(crate) mod jobs;
pub(crate) mod move_budget;
pub(crate) mod pending_allocation;
pub(crate) mod preemptable;
pub(crate) mod progress;
pub(crate) mod queue_heads;
pub(crate) mod redact;
pub(crate) mod report;
pub(crate) mod service;
pub(crate) mod snapshot;
pub(crate) mod start_waits;
pub(crate) mod view;

use std::sync::Arc;

use muster_model::queue::PlacementPolicy;
use muster_model::{Drain, Effect, Event, JobId, JobSpec, QueueTree, Time};
use muster_policy::{BudgetCharge, Policy, TreeError};

use crate::fact::{AccountingFact, PendingFacts};
use crate::place::classes::{ClassId, ShapeClasses};
use crate::place::score::workload_mix::WorkloadMix;
use crate::pool::Pool;
use crate::pool::scalars::ExtraId;
use crate::pool::shape::Shape;
use advance_reservation::AdvanceReservations;
use dependencies::Dependencies;
use entries::{Entries, EntryOwner, EntryRank, EntryStanding};
use expected_ends::ExpectedEnds;
use hold::HoldChange;
use job::{Job, JobRecord, Phase};
use jobs::JobTable;
use move_budget::MoveBudget;
use pending_allocation::PendingAllocations;
use preemptable::PreemptableIndex;
use queue_heads::QueueHeads;
use start_waits::StartWaits;

/// Id of an extra resource that no node has: used for names that were never interned.
const UNKNOWN_EXTRA: ExtraId = ExtraId::MAX;

/// Everything that the engine stores.
#[derive(Clone, Debug)]
pub(crate) struct State {
    pub(crate) policy: Policy,
    pub(crate) pool: Pool,
    pub(crate) advance_reservations: AdvanceReservations,
    pub(crate) classes: ShapeClasses,
    /// Counts of submitted needs, kept while the placement policy uses them.
    pub(crate) mix: WorkloadMix,
    pub(crate) jobs: JobTable,
    pub(crate) entries: Entries,
    pub(crate) start_waits: StartWaits,
    pub(crate) pending_allocations: PendingAllocations,
    pub(crate) expected_ends: ExpectedEnds,
    pub(crate) heads: QueueHeads,
    pub(crate) preemptable: PreemptableIndex,
    /// GPU time spent on moving jobs for defragmentation.
    pub(crate) move_budget: MoveBudget,
    pub(crate) dependencies: Dependencies,
    pub(crate) effects: Vec<Effect>,
    pub(crate) facts: PendingFacts,
}

impl State {
    pub(crate) fn new(tree: QueueTree) -> Result<Self, TreeError> {
        Ok(Self::with_policy(Policy::new(tree)?))
    }

    /// Returns an empty state with a policy.
    pub(crate) fn with_policy(policy: Policy) -> Self {
        let mut pool = Pool::default();
        pool.set_scored_placement(policy.tree().placement != PlacementPolicy::Pack);
        Self {
            policy,
            pool,
            advance_reservations: AdvanceReservations::default(),
            classes: ShapeClasses::default(),
            mix: WorkloadMix::default(),
            jobs: JobTable::default(),
            entries: Entries::default(),
            start_waits: StartWaits::default(),
            pending_allocations: PendingAllocations::default(),
            expected_ends: ExpectedEnds::default(),
            heads: QueueHeads::default(),
            preemptable: PreemptableIndex::default(),
            move_budget: MoveBudget::default(),
            dependencies: Dependencies::default(),
            effects: Vec::new(),
            facts: PendingFacts::default(),
        }
    }

    /// Applies one event at an instant.
    pub(crate) fn apply(&mut self, now: Time, event: &Event) {
        // The result of an event may depend on which drains and reservations are in force; on
        // replay no pass has brought them into force yet.
        self.advance_time(now);
        match event {
            Event::NodeJoined(spec) => self.node_joined(now, spec),
            Event::NodeLost { node, reason } => self.node_lost(now, node, reason),
            Event::NodeDrained { node, drained, reason } => {
                let reason = Arc::clone(reason);
                let drain = Drain { from: now, by: None, reason, stop: false };
                self.pool.drain(now, node, None, drained.then_some(&drain));
            }
            Event::DrainSet { node, devices, drain } => {
                self.pool.drain(now, node, *devices, drain.as_ref());
            }
            Event::ForeignUse { node, foreign } => self.pool.use_by_others(node, foreign),
            Event::QueuesSet(tree) => self.queues_set(now, tree),
            Event::LevelsSet(levels) => self.pool.set_levels(levels),
            Event::Submitted { job, spec } => self.submitted(now, *job, spec),
            Event::Hold(target) => self.change_hold(now, *target, HoldChange::Hold),
            Event::Release(target) => self.change_hold(now, *target, HoldChange::Release),
            Event::AdminHold { target, by } => {
                self.change_hold(now, *target, HoldChange::AdminHold(by))
            }
            Event::AdminRelease { target, .. } => {
                self.change_hold(now, *target, HoldChange::AdminRelease)
            }
            Event::Cancel { target, by } => self.cancel(now, *target, by),
            Event::Requeue(target) => self.requeue(now, *target),
            Event::Checkpoint(target) => self.ask_checkpoint(now, *target),
            Event::Task(report) => self.report(now, report),
            Event::RunningSince { id, since } => self.running_since(*id, *since),
            Event::StartOverdue { id, after } => self.start_overdue(now, *id, *after),
            Event::EvictionDue { id } => self.eviction_due(now, *id),
            Event::StopEarly { id, step, why } => self.stop_early(now, *id, *step, why),
            Event::GpusIdle { .. } => self.gpus_idle(now, event),
            Event::Scaled { job, replicas, by } => self.scaled(now, *job, *replicas, by),
            Event::AdvanceReservationSet(reservation) => self.reservation_set(now, reservation),
            Event::AdvanceReservationPlaced { advance_reservation: reservation, places } => {
                self.reservation_placed(now, reservation, places)
            }
            Event::AdvanceReservationRemoved { advance_reservation: reservation, .. } => {
                self.reservation_dropped(now, reservation)
            }
        }
        self.recheck_dependents(now);
    }

    fn submitted(&mut self, now: Time, id: JobId, spec: &Arc<JobSpec>) {
        if self.jobs.contains_key(&id) {
            return;
        }
        // 1. Intern names.
        let leaf =
            self.policy.queues().leaf(&spec.queue).unwrap_or(self.policy.queues().default_leaf());
        let user = self.policy.intern_user(&spec.user);
        let policy = &mut self.policy;
        let pool = &mut self.pool;
        let class = self.classes.enter(spec, || {
            Shape::new(
                spec,
                |model| Some(policy.intern_model(model)),
                |extra| pool.intern_extra(extra),
            )
        });
        if self.classes.known_fit(class, self.pool.epoch()).is_none() {
            let fits = crate::place::feasibility::fits_empty_cluster(
                &self.pool,
                self.classes.shape(class),
            );
            self.classes.learn_fit(class, self.pool.epoch(), fits);
        }
        // 2. Create the record.
        let record = JobRecord::new(Arc::clone(spec), leaf, now);
        self.count_submission(class, record.total);
        self.facts.record(|| AccountingFact::Queued {
            job: id,
            user: spec.user.clone(),
            queue: self.policy.queues().leaf_name(leaf).clone(),
            elements: record.total,
            at: now,
        });
        self.jobs.insert(id, Box::new(Job { record, user, class, waits_in: None }));
        // 3. Its dependencies may be satisfied already.
        self.check_dependencies(now, id);
        if let Some(job) = self.jobs.get(&id) {
            self.dependencies.register(id, &job.record.waits_for);
        }
        self.sync_job(now, id);
    }

    fn queues_set(&mut self, now: Time, tree: &QueueTree) {
        if self.policy.replace_tree(now, tree.clone()).is_err() {
            return;
        }
        self.entries.follow_tree(&self.policy);
        self.apply_placement_policy();
        for job in self.jobs.each_mut() {
            job.record.leaf = self.policy.queues().current_leaf(job.record.leaf);
            job.waits_in = job.waits_in.map(|leaf| self.policy.queues().current_leaf(leaf));
            // Running elements count in the budgets of the new tree as they did when they started.
            let leaf = job.record.leaf;
            let user = job.user;
            let length = job.record.duration();
            for element in job.record.elements.values() {
                let run = element.run.as_ref().filter(|_| element.phase == Phase::Active);
                if let Some(run) = run.filter(|run| run.eviction.is_none()) {
                    let charge = BudgetCharge { from: run.held_from, length };
                    self.policy.queues_mut().restore_charge(leaf, user, run.milli(), charge);
                }
                if let Some(allocation) = &element.pending_allocation {
                    let charge = BudgetCharge { from: allocation.since, length };
                    self.policy.queues_mut().restore_charge(leaf, user, allocation.milli(), charge);
                }
            }
        }
        self.pool.set_epoch(self.pool.epoch() + 1);
        self.preemptable.rebuild(&self.jobs);
        self.publish_capacity(now);
    }

    /// Counts a submission where the placement policy uses the mix of submitted needs.
    fn count_submission(&mut self, class: ClassId, elements: u32) {
        if self.policy.tree().placement == PlacementPolicy::Fragmentation
            && self.mix.count_submission(self.classes.shape(class), elements)
        {
            self.pool.forget_weights();
        }
    }

    /// Applies the placement policy of a new queue tree. A new workload mix is initialised from the
    /// jobs in memory.
    fn apply_placement_policy(&mut self) {
        let placement = self.policy.tree().placement;
        self.pool.set_scored_placement(placement != PlacementPolicy::Pack);
        if placement != PlacementPolicy::Fragmentation {
            self.mix = WorkloadMix::default();
        } else if self.mix.is_empty() {
            let known: Vec<(ClassId, u32)> =
                self.jobs.values().map(|job| (job.class, job.record.total)).collect();
            for (class, elements) in known {
                self.count_submission(class, elements);
            }
        }
    }

    /// Returns the shape of a spec, without interning any of its names.
    pub(crate) fn shape_of(&self, spec: &JobSpec) -> Shape {
        let models = self.policy.models();
        let pool = &self.pool;
        Shape::new(
            spec,
            |name| models.find(name),
            |name| pool.find_extra(name).unwrap_or(UNKNOWN_EXTRA),
        )
    }

    // ---- entries: what is in the queue order ----

    /// Wakes sleeping entries whose time has come.
    pub(crate) fn wake(&mut self, now: Time) {
        self.advance_time(now);
        while let Some(owner) = self.entries.due(now) {
            self.sync(now, owner);
        }
    }

    /// Returns true if nothing waits and nothing may change its size.
    pub(crate) fn has_nothing_to_plan(&self) -> bool {
        self.entries.is_idle()
            && self.pending_allocations.elements.is_empty()
            && self.preemptable.elastic.is_empty()
    }

    /// Updates all queue entries of a job after a change of its state.
    pub(crate) fn sync_job(&mut self, now: Time, id: JobId) {
        let Some(job) = self.jobs.get(&id) else { return };
        let ordinals: Vec<u32> = job
            .record
            .elements
            .iter()
            .filter(|(_, element)| matches!(element.phase, Phase::Waiting { .. }))
            .map(|(ordinal, _)| *ordinal)
            .collect();
        self.sync(now, EntryOwner { job: id, ordinal: None });
        for ordinal in ordinals {
            self.sync(now, EntryOwner { job: id, ordinal: Some(ordinal) });
        }
    }

    /// Updates one queue entry after a change of its job or element.
    pub(crate) fn sync(&mut self, now: Time, owner: EntryOwner) {
        self.count_waiting(owner.job);
        let Some(job) = self.jobs.get(&owner.job) else { return };
        let opens = self.reservation_start(job, now);
        let standing = standing(&job.record, owner.ordinal, opens, now);
        if standing != EntryStanding::Out || self.entries.slot(owner).is_some() {
            let rank = rank_of(job, owner.ordinal);
            self.entries.set(&mut self.policy, owner, rank, standing);
        }
        if standing == EntryStanding::Out {
            self.heads.remove_of(owner, &job.record);
        }
        // An element that no longer waits, or that may not start, loses its pending allocation. An
        // element that is evicted to be resized keeps it.
        if standing == EntryStanding::Out
            && let Some(ordinal) = owner.ordinal
            && self.pending_allocations.elements.contains(&(owner.job, ordinal))
            && !job.record.elements.get(&ordinal).is_some_and(|element| element.is_relocating())
        {
            self.end_pending_allocation(now, owner.job, ordinal);
        }
    }

    /// Returns the instant from which the reservation that a job names lets it start; time 0 if it
    /// names none.
    pub(crate) fn reservation_start(&self, job: &Job, now: Time) -> Time {
        let record = &job.record;
        record.spec.constraint.advance_reservation.as_ref().map_or(Time(0), |reservation| {
            self.advance_reservations.earliest_start(
                reservation,
                &record.spec.user,
                self.policy.queues().leaf_name(record.leaf),
                now,
            )
        })
    }

    /// Updates whether a job counts as waiting in its queue.
    fn count_waiting(&mut self, id: JobId) {
        let Some(job) = self.jobs.get_mut(&id) else { return };
        let waits_in = job.record.has_waiting().then_some(job.record.leaf);
        if waits_in == job.waits_in {
            return;
        }
        if let Some(leaf) = std::mem::replace(&mut job.waits_in, waits_in) {
            self.policy.queues_mut().remove_pending_job(leaf, job.user);
        }
        if let Some(leaf) = waits_in {
            self.policy.queues_mut().add_pending_job(leaf, job.user);
        }
    }

    /// Removes all queue entries of a job.
    pub(crate) fn remove_entries(&mut self, id: JobId, job: &Job) {
        if let Some(leaf) = job.waits_in {
            self.policy.queues_mut().remove_pending_job(leaf, job.user);
        }
        self.heads.forget_job(id);
        let owners =
            std::iter::once(None).chain(job.record.elements.keys().map(|ordinal| Some(*ordinal)));
        for owner in owners.map(|ordinal| EntryOwner { job: id, ordinal }) {
            if self.entries.slot(owner).is_some() {
                let rank = rank_of(job, owner.ordinal);
                self.entries.set(&mut self.policy, owner, rank, EntryStanding::Out);
            }
        }
    }
}

/// Returns the place of an entry in the queue order. Replicas of a service have one of two
/// priorities.
pub(crate) fn rank_of(job: &Job, ordinal: Option<u32>) -> EntryRank {
    EntryRank {
        leaf: job.record.leaf,
        user: job.user,
        priority: job.record.spec.order_of(ordinal.unwrap_or(0)),
        submitted: job.record.submitted,
        class: job.class,
        duration: job.record.shortest_duration().unwrap_or(entries::UNLIMITED),
    }
}

/// Returns the state that an entry should have.
fn standing(record: &JobRecord, ordinal: Option<u32>, opens: Time, now: Time) -> EntryStanding {
    if !record.waits_for.is_empty() {
        return EntryStanding::Out;
    }
    let begin = record.spec.begin.unwrap_or(Time(0)).max(opens);
    let (from, tickets) = match ordinal {
        None if record.held => return EntryStanding::Out,
        None if record.total == 1 => (begin, record.total - record.next),
        None => (
            begin,
            record
                .unrecorded()
                .min(record.cap_remaining_without_pending())
                .min(entries::MAX_TICKETS),
        ),
        Some(ordinal) => match record.elements.get(&ordinal).map(|element| &element.phase) {
            Some(Phase::Waiting { held: false, not_before, .. }) => ((*not_before).max(begin), 1),
            _ => return EntryStanding::Out,
        },
    };
    if tickets == 0 {
        EntryStanding::Out
    } else if from > now {
        EntryStanding::Sleeping(from)
    } else {
        EntryStanding::Queued(tickets)
    }
}
