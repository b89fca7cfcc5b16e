//! State: the fold of events and decisions. Applying changes it, and everything derived (indexes,
//! entries, the policy's counters) is kept in step here. It must not plan: where something starts
//! is decided in `plan`.

pub(crate) mod act;
pub(crate) mod attempt;
pub(crate) mod claim;
pub(crate) mod cluster;
pub(crate) mod depend;
pub(crate) mod drain;
pub(crate) mod ends;
pub(crate) mod entries;
pub(crate) mod heads;
pub(crate) mod hold;
pub(crate) mod index;
pub(crate) mod job;
pub(crate) mod jobs;
pub(crate) mod judge;
pub(crate) mod kind;
pub(crate) mod mix;
pub(crate) mod moved;
pub(crate) mod node;
pub(crate) mod overdue;
pub(crate) mod pool;
pub(crate) mod progress;
pub(crate) mod rank_set;
pub(crate) mod redact;
pub(crate) mod report;
pub(crate) mod runners;
pub(crate) mod scalars;
pub(crate) mod service;
pub(crate) mod shape;
pub(crate) mod snapshot;
pub(crate) mod topology;
pub(crate) mod wall;
pub(crate) mod window;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use muster_model::queue::PlacementPolicy;
use muster_model::{Effect, ElementId, Event, JobId, JobSpec, Keep, QueueTree, Reservation, Time};
use muster_policy::{Policy, Promise, TreeError};

use crate::fact::{Fact, Facts};
use crate::plan::Looks;
use crate::plan::lore::Lore;
use crate::plan::slate::Slate;
use claim::Claims;
use depend::Recent;
use entries::{Entries, Owner, Rank, Standing};
use heads::Heads;
use hold::Change;
use job::{Element, Job, JobRecord, Phase};
use jobs::Jobs;
use mix::Mix;
use moved::Moves;
use overdue::Starting;
use pool::Pool;
use runners::Runners;
use scalars::ExtraId;
use shape::{ClassId, Classes, Shape};
use window::Windows;

/// An extra that no node has: what a name maps to that nobody has interned.
const NO_EXTRA: ExtraId = ExtraId::MAX;

/// Everything the engine knows.
#[derive(Clone, Debug)]
pub(crate) struct State {
    pub(crate) policy: Policy,
    pub(crate) pool: Pool,
    pub(crate) windows: Windows,
    pub(crate) classes: Classes,
    /// Counted while a policy asks for it.
    pub(crate) mix: Mix,
    pub(crate) jobs: Jobs,
    pub(crate) entries: Entries,
    pub(crate) starting: Starting,
    /// What runs of elastic jobs and was not told to go, by ordinal.
    pub(crate) elastic: BTreeSet<(JobId, u32)>,
    pub(crate) claims: Claims,
    pub(crate) heads: Heads,
    pub(crate) runners: Runners,
    /// What was spent on moving jobs together.
    moves: Moves,
    /// Jobs that ended not long ago, for dependencies on them.
    pub(crate) recent: Recent,
    /// Who waits for a job, by dependency.
    pub(crate) waiters: BTreeMap<JobId, BTreeSet<JobId>>,
    /// Jobs whose waiters have not been told yet; empty between events.
    news: BTreeSet<JobId>,
    pub(crate) effects: Vec<Effect>,
    pub(crate) facts: Facts,
    /// What passes know that need not be found out again.
    pub(crate) lore: Lore,
    /// What a pass writes on.
    pub(crate) slate: Slate,
    /// Of the last pass.
    pub(crate) reservations: Vec<Reservation>,
    /// Of the last pass.
    pub(crate) keeps: Vec<Keep>,
    /// Of the last pass.
    pub(crate) looks: Looks,
}

impl State {
    pub(crate) fn new(tree: QueueTree) -> Result<Self, TreeError> {
        Ok(Self::around(Policy::new(tree)?))
    }

    /// An empty state around a policy.
    pub(crate) fn around(policy: Policy) -> Self {
        let mut pool = Pool::default();
        pool.set_weighing(policy.tree().placement != PlacementPolicy::Pack);
        Self {
            policy,
            pool,
            windows: Windows::default(),
            classes: Classes::default(),
            mix: Mix::default(),
            jobs: Jobs::default(),
            entries: Entries::default(),
            starting: Starting::default(),
            elastic: BTreeSet::new(),
            claims: Claims::default(),
            heads: Heads::default(),
            runners: Runners::new(),
            moves: Moves::default(),
            recent: Recent::default(),
            waiters: BTreeMap::new(),
            news: BTreeSet::new(),
            effects: Vec::new(),
            facts: Facts::default(),
            lore: Lore::default(),
            slate: Slate::default(),
            reservations: Vec::new(),
            keeps: Vec::new(),
            looks: Looks::default(),
        }
    }

    /// Applies one event.
    pub(crate) fn apply(&mut self, now: Time, event: &Event) {
        // What follows from an event may depend on who is drained and on which windows are open: on
        // replay, no pass has said so yet.
        self.turn(now);
        match event {
            Event::NodeJoined(spec) => self.node_joined(now, spec),
            Event::NodeLost { node, reason } => self.node_lost(now, node, reason),
            Event::NodeDrained { node, drained, reason } => {
                self.node_drained(now, node, *drained, reason)
            }
            Event::DrainSet { node, devices, drain } => {
                self.drain_set(now, node, *devices, drain.as_ref());
            }
            Event::ForeignUse { node, foreign } => self.foreign_use(node, foreign),
            Event::QueuesSet(tree) => self.queues_set(now, tree),
            Event::LevelsSet(levels) => self.pool.set_levels(levels),
            Event::Submitted { job, spec } => self.submitted(now, *job, spec),
            Event::Hold(target) => self.change_hold(now, *target, Change::Hold),
            Event::Release(target) => self.change_hold(now, *target, Change::Release),
            Event::AdminHold { target, by } => {
                self.change_hold(now, *target, Change::AdminHold(by))
            }
            Event::AdminRelease { target, .. } => {
                self.change_hold(now, *target, Change::AdminRelease)
            }
            Event::Cancel { target, by } => self.cancel(now, *target, by),
            Event::Requeue(target) => self.requeue(now, *target),
            Event::Checkpoint(target) => self.ask_checkpoint(now, *target),
            Event::Task(report) => self.report(now, report),
            Event::StartOverdue { id, after } => self.start_overdue(now, *id, *after),
            Event::EvictionDue { id } => self.eviction_due(now, *id),
            Event::Scaled { job, replicas, by } => self.scaled(now, *job, *replicas, by),
            Event::WindowSet(window) => self.window_set(now, window),
            Event::WindowPlaced { window, places } => self.window_placed(now, window, places),
            Event::WindowDropped { window, .. } => self.window_dropped(now, window),
        }
        self.spread_news(now);
    }

    fn submitted(&mut self, now: Time, id: JobId, spec: &Arc<JobSpec>) {
        if self.jobs.contains_key(&id) {
            return;
        }
        // 1. Names become ids.
        let leaf = self.policy.leaf(&spec.queue).unwrap_or(self.policy.default_leaf());
        let user = self.policy.intern_user(&spec.user);
        let (policy, pool) = (&mut self.policy, &mut self.pool);
        let class = self.classes.enter(spec, || {
            Shape::new(
                spec,
                |model| Some(policy.intern_model(model)),
                |extra| pool.intern_extra(extra),
            )
        });
        if self.classes.known_fit(class, self.pool.epoch()).is_none() {
            let fits = crate::plan::idle::fits_idle(&self.pool, self.classes.shape(class));
            self.classes.learn_fit(class, self.pool.epoch(), fits);
        }
        // 2. The record.
        let record = JobRecord::new(Arc::clone(spec), leaf, now);
        self.see(class, record.total);
        self.facts.tell(|| Fact::Queued {
            job: id,
            user: spec.user.clone(),
            queue: self.policy.leaf_name(leaf).clone(),
            elements: record.total,
            at: now,
        });
        self.jobs.insert(id, Box::new(Job { record, user, class, waits_in: None }));
        // 3. What it waits for may have happened already.
        self.check_dependencies(now, id);
        self.await_dependencies(id);
        self.sync_job(now, id);
    }

    fn queues_set(&mut self, now: Time, tree: &QueueTree) {
        if self.policy.replace_tree(now, tree.clone()).is_err() {
            return;
        }
        self.entries.follow_tree(&self.policy);
        self.follow_placement();
        for job in self.jobs.each_mut() {
            job.record.leaf = self.policy.leaf_moved(job.record.leaf);
            job.waits_in = job.waits_in.map(|leaf| self.policy.leaf_moved(leaf));
            // What runs counts in the budgets of the new tree as it did when it began.
            let (leaf, user, length) = (job.record.leaf, job.user, job.record.duration());
            for element in job.record.elements.values() {
                let run = element.run.as_ref().filter(|_| element.phase == Phase::Active);
                if let Some(run) = run.filter(|run| run.leaving.is_none()) {
                    let promise = Promise { from: run.held_from, length };
                    self.policy.restore_promise(leaf, user, run.milli(), promise);
                }
                if let Some(claim) = &element.claim {
                    let promise = Promise { from: claim.since, length };
                    self.policy.restore_promise(leaf, user, claim.milli(), promise);
                }
            }
        }
        self.pool.set_epoch(self.pool.epoch() + 1);
        self.track_all();
        self.publish_capacity(now);
    }

    /// What is submitted is counted where it decides who gets which place.
    fn see(&mut self, class: ClassId, elements: u32) {
        if self.policy.tree().placement == PlacementPolicy::Fragmentation
            && self.mix.see(self.classes.shape(class), elements)
        {
            self.pool.forget_weights();
        }
    }

    /// Places may be weighed in another way from now on. The mix begins with what is known: jobs in
    /// memory.
    fn follow_placement(&mut self) {
        let placement = self.policy.tree().placement;
        self.pool.set_weighing(placement != PlacementPolicy::Pack);
        if placement != PlacementPolicy::Fragmentation {
            self.mix = Mix::default();
        } else if self.mix.is_empty() {
            let known: Vec<(ClassId, u32)> =
                self.jobs.values().map(|job| (job.class, job.record.total)).collect();
            for (class, elements) in known {
                self.see(class, elements);
            }
        }
    }

    /// Shape of a spec, without remembering any of its names.
    pub(crate) fn shape_of(&self, spec: &JobSpec) -> Shape {
        let (models, pool) = (self.policy.models(), &self.pool);
        Shape::new(spec, |name| models.find(name), |name| pool.find_extra(name).unwrap_or(NO_EXTRA))
    }

    /// The record of an element, when it has one.
    pub(crate) fn element(&self, id: ElementId) -> Option<&Element> {
        let record = &self.jobs.get(&id.job)?.record;
        record.elements.get(&record.ordinal_of(id.index)?).map(Box::as_ref)
    }

    // ---- entries: who is in the order ----

    /// Wakes sleepers whose time has come.
    pub(crate) fn wake(&mut self, now: Time) {
        self.turn(now);
        while let Some(owner) = self.entries.due(now) {
            self.sync(now, owner);
        }
    }

    /// Brings all entries of a job in line with its state.
    pub(crate) fn sync_job(&mut self, now: Time, id: JobId) {
        let Some(job) = self.jobs.get(&id) else { return };
        let ordinals: Vec<u32> = job
            .record
            .elements
            .iter()
            .filter(|(_, element)| matches!(element.phase, Phase::Waiting { .. }))
            .map(|(ordinal, _)| *ordinal)
            .collect();
        self.sync(now, Owner { job: id, ordinal: None });
        for ordinal in ordinals {
            self.sync(now, Owner { job: id, ordinal: Some(ordinal) });
        }
    }

    /// Brings one entry in line with the state of what it stands for.
    pub(crate) fn sync(&mut self, now: Time, owner: Owner) {
        self.count_waiting(owner.job);
        let Some(job) = self.jobs.get(&owner.job) else { return };
        let opens = self.opens(job, now);
        let standing = standing(&job.record, owner.ordinal, opens, now);
        if standing != Standing::Out || self.entries.slot(owner).is_some() {
            let rank = rank_of(job, owner.ordinal);
            self.entries.set(&mut self.policy, owner, rank, standing);
        }
        if standing == Standing::Out {
            self.end_head(owner);
        }
        // What waits no more, or may not start, gives up what it was promised; what goes for itself
        // waits again.
        if standing == Standing::Out
            && let Some(ordinal) = owner.ordinal
            && self.claims.of.contains(&(owner.job, ordinal))
            && !self.goes_for_itself(owner.job, ordinal)
        {
            self.end_claim(now, owner.job, ordinal);
        }
    }

    /// From when on the window that a job names lets it start; the beginning of time when it names
    /// none.
    pub(crate) fn opens(&self, job: &Job, now: Time) -> Time {
        let record = &job.record;
        record.spec.constraint.window.as_ref().map_or(Time(0), |window| {
            self.windows.opens(window, &record.spec.user, self.policy.leaf_name(record.leaf), now)
        })
    }

    /// Brings the count of jobs that wait in line with one of them.
    fn count_waiting(&mut self, id: JobId) {
        let Some(job) = self.jobs.get_mut(&id) else { return };
        let waits_in = job.record.has_waiting().then_some(job.record.leaf);
        if waits_in == job.waits_in {
            return;
        }
        if let Some(leaf) = std::mem::replace(&mut job.waits_in, waits_in) {
            self.policy.job_waits_no_more(leaf, job.user);
        }
        if let Some(leaf) = waits_in {
            self.policy.job_waits(leaf, job.user);
        }
    }

    /// Takes all entries of a job out.
    pub(crate) fn withdraw(&mut self, id: JobId, job: &Job) {
        if let Some(leaf) = job.waits_in {
            self.policy.job_waits_no_more(leaf, job.user);
        }
        self.heads.forget_job(id);
        let owners =
            std::iter::once(None).chain(job.record.elements.keys().map(|ordinal| Some(*ordinal)));
        for owner in owners.map(|ordinal| Owner { job: id, ordinal }) {
            if self.entries.slot(owner).is_some() {
                let rank = rank_of(job, owner.ordinal);
                self.entries.set(&mut self.policy, owner, rank, Standing::Out);
            }
        }
    }
}

/// Where an entry of a job stands in the order: replicas of a service stand at two places.
pub(crate) fn rank_of(job: &Job, ordinal: Option<u32>) -> Rank {
    Rank {
        leaf: job.record.leaf,
        user: job.user,
        priority: job.record.spec.order_of(ordinal.unwrap_or(0)),
        class: job.class,
        duration: job.record.duration().unwrap_or(entries::ENDLESS),
    }
}

/// How an entry should stand.
fn standing(record: &JobRecord, ordinal: Option<u32>, opens: Time, now: Time) -> Standing {
    if !record.waits_for.is_empty() {
        return Standing::Out;
    }
    let begin = record.spec.begin.unwrap_or(Time(0)).max(opens);
    let (from, tickets) = match ordinal {
        None if record.held => return Standing::Out,
        None if record.total == 1 => (begin, record.total - record.next),
        None => (begin, record.fresh().min(record.cap_left()).min(entries::MAX_TICKETS)),
        Some(ordinal) => match record.elements.get(&ordinal).map(|element| &element.phase) {
            Some(Phase::Waiting { held: false, not_before, .. }) => ((*not_before).max(begin), 1),
            _ => return Standing::Out,
        },
    };
    match tickets {
        0 => Standing::Out,
        _ if from > now => Standing::Sleeping(from),
        _ => Standing::Queued(tickets),
    }
}
