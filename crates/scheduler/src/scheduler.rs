//! The scheduler of one cluster as a value: takes observations, returns actions.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use muster_engine::{Engine, TreeError, UsageRecord};
use muster_kubernetes::gpu_share;
use muster_kubernetes::group::{GangRef, GroupFacts};
use muster_kubernetes::kueue::LocalQueues;
use muster_kubernetes::node::NodeFacts;
use muster_kubernetes::object::ObjectKey;
use muster_kubernetes::pod::PodFacts;
use muster_model::queue::PlannedRuntimes;
use muster_model::view::{NodeView, QueueView};
use muster_model::{
    Effect, Event, GpuModel, JobId, NodeName, Observation as TaskObservation, QueueTree, Rank,
    StopCause, TaskReport, Time,
};

use crate::agenda::Agenda;
use crate::apart::Apart;
use crate::batch::{Batch, Batches, Placed};
use crate::counts::Counts;
use crate::devices::Devices;
use crate::gang::{Gang, GangKey, Groups, Pod};
use crate::held::Place;
use crate::job;
use crate::nodes::{Level, NodeTable};
use crate::observation::{Action, Observation, PodId};
use crate::priorities::Priorities;
use crate::reservations::Reservations;
use crate::volumes::Volumes;

/// Reason of a preemption, for users.
const PREEMPTED: &str = "preempted by a job with precedence";
/// Reason of an end when an advance reservation begins, for users.
const SET_ASIDE: &str = "an advance reservation has begun that needs its place";

/// All gangs that have pods, or a workload that waits.
pub(crate) type Gangs = BTreeMap<GangKey, Gang>;

/// The gang scheduler of a cluster. It sees a copy of the cluster through observations; it never
/// assumes that an action succeeded.
#[derive(Debug)]
pub struct Scheduler {
    pub(crate) engine: Engine,
    pub(crate) nodes: NodeTable,
    pub(crate) volumes: Volumes,
    pub(crate) devices: Devices,
    pub(crate) priorities: Priorities,
    pub(crate) reservations: Reservations,
    pub(crate) groups: Groups,
    /// LocalQueues by which pods name their queue; `None` where they name it by its path.
    pub(crate) local_queues: Option<LocalQueues>,
    /// Namespace of the pods that hold GPUs for pods with shares; `None` where there can be none.
    pub(crate) holders: Option<Arc<str>>,
    pub(crate) pods: BTreeMap<ObjectKey, Pod>,
    /// Pods by the gang that they name, also where they count as single pods.
    members: BTreeMap<GangRef, BTreeSet<ObjectKey>>,
    pub(crate) gangs: Gangs,
    pub(crate) batches: Batches,
    /// Gangs whose jobs the engine refuses; looked at again when nodes or queues change.
    pub(crate) refused: BTreeSet<GangKey>,
    pub(crate) apart: Apart,
    /// New PodGroups, each with the instant at which it is looked at again.
    pub(crate) empty_groups: BTreeMap<GangRef, Time>,
    /// True once everything that was there at the start was taken in.
    pub(crate) is_started: bool,
    pub(crate) dirty: BTreeSet<GangKey>,
    /// Nodes that came or went since the last step.
    came_or_went: BTreeSet<NodeName>,
    wakes: Agenda,
    pub(crate) to_explain: Agenda,
    pub(crate) next_explanations: Time,
    pub(crate) inbox: Vec<Observation>,
    pub(crate) actions: Vec<Action>,
    next_job: JobId,
    pub(crate) last: Time,
    pub(crate) counts: Counts,
}

impl Scheduler {
    /// Makes a scheduler for a cluster with these topology levels, widest first, and this queue
    /// tree.
    ///
    /// # Errors
    /// The first defect of the tree.
    pub fn new(levels: Vec<Level>, tree: QueueTree) -> Result<Self, TreeError> {
        Ok(Self::of(levels, Engine::new(by_limits(tree))?))
    }

    /// Makes a scheduler that goes on from the usage that another one recorded, with the queue tree of
    /// that time; [`Observation::Queues`] sets the present one.
    ///
    /// # Errors
    /// The first defect of the tree.
    pub fn with_usage(levels: Vec<Level>, record: UsageRecord) -> Result<Self, TreeError> {
        Ok(Self::of(levels, Engine::with_usage(record)?))
    }

    fn of(levels: Vec<Level>, mut engine: Engine) -> Self {
        engine.disable_facts();
        let nodes = NodeTable::new(levels);
        engine.apply(Time(0), &Event::LevelsSet(nodes.level_names()));
        Self {
            engine,
            nodes,
            volumes: Volumes::default(),
            devices: Devices::default(),
            priorities: Priorities::default(),
            reservations: Reservations::default(),
            groups: Groups::default(),
            local_queues: None,
            holders: None,
            pods: BTreeMap::new(),
            members: BTreeMap::new(),
            gangs: BTreeMap::new(),
            batches: BTreeMap::new(),
            refused: BTreeSet::new(),
            apart: Apart::default(),
            empty_groups: BTreeMap::new(),
            is_started: false,
            dirty: BTreeSet::new(),
            came_or_went: BTreeSet::new(),
            wakes: Agenda::default(),
            to_explain: Agenda::default(),
            next_explanations: Time(0),
            inbox: Vec::new(),
            actions: Vec::new(),
            next_job: JobId(1),
            last: Time(0),
            counts: Counts::default(),
        }
    }

    /// Makes pods name their queue by a LocalQueue of Kueue, from the first observation on.
    #[must_use]
    pub fn by_local_queues(mut self) -> Self {
        self.local_queues = Some(LocalQueues::default());
        self
    }

    /// Gives shares of GPUs to pods that ask for them; pods in this namespace hold the GPUs. To be called
    /// before the first observation.
    #[must_use]
    pub fn with_holders(mut self, namespace: &str) -> Self {
        self.holders = Some(namespace.into());
        self
    }

    /// Notes an observation for the next step.
    pub fn observe(&mut self, observation: Observation) {
        self.inbox.push(observation);
    }

    /// Takes in all observations, plans once, and returns what to do in the cluster. A time before
    /// the last one counts as the last one.
    pub fn step(&mut self, now: Time) -> Vec<Action> {
        // 1. What is.
        let now = self.take_in_all(now);

        // 2. One plan, and its effects.
        self.apply_due_events(now);
        let plan = self.engine.plan(now);
        match self.engine.check(now, &plan) {
            Ok(()) => self.engine.commit(now, &plan),
            Err(_) => self.counts.bad_plans += 1,
        }
        self.carry_out_effects();

        // 3. Claims that keep devices on a node where their pod does not start, and holders without need.
        let freed = self.devices.take_to_free().into_iter();
        self.actions.extend(freed.map(|(claim, pod)| Action::FreeClaim { claim, pod }));
        self.free_holders();

        // 4. Explanations.
        self.explain_pending(now);
        std::mem::take(&mut self.actions)
    }

    /// Takes in all observations, without a plan: to see what is, not what should be done. Returns the
    /// time that counts.
    pub fn take_in_all(&mut self, now: Time) -> Time {
        let now = now.max(self.last);
        self.last = now;

        // 1. Observations: objects first, then the nodes as the engine sees them.
        for observation in std::mem::take(&mut self.inbox) {
            self.take_in(now, observation);
        }
        self.sync_devices();
        self.mark_gangs_on_nodes();
        self.sync_nodes(now);

        // 2. Jobs of the gangs that changed.
        self.dirty.extend(self.wakes.take_due(now, usize::MAX));
        let (inside, others): (Vec<_>, Vec<_>) =
            self.take_dirty().into_iter().partition(|gang| self.names_reservation(gang));
        for gang in others {
            self.reconcile(now, &gang);
        }
        // What runs elsewhere is known now, and what runs inside has its reservation when it is adopted.
        let is_changed = self.sync_reservations(now);
        let refused = if is_changed { std::mem::take(&mut self.refused) } else { BTreeSet::new() };
        for gang in inside.into_iter().chain(refused) {
            self.reconcile(now, &gang);
        }
        self.sync_nodes(now);
        for event in self.nodes.take_gone() {
            self.engine.apply(now, &event);
        }
        self.is_started = true;
        now
    }

    /// Returns the gangs that changed in the order in which their workloads or their first pods were
    /// made, which is the order of the queue.
    fn take_dirty(&mut self) -> Vec<GangKey> {
        let dirty = std::mem::take(&mut self.dirty);
        let mut aged: Vec<(Option<&str>, GangKey)> =
            dirty.into_iter().map(|key| (self.created(&key), key)).collect();
        aged.sort();
        aged.into_iter().map(|(_, key)| key).collect()
    }

    /// Returns when the workload of a gang, or its first pod, was made, as the API server prints it.
    pub(crate) fn created(&self, gang: &GangKey) -> Option<&str> {
        if let Some(workload) = self.groups.workload(gang) {
            return Some(&workload.created);
        }
        let pods = self.gangs.get(gang).into_iter().flat_map(|gang| &gang.pods);
        pods.filter_map(|pod| self.pods.get(pod)).map(|pod| pod.facts.created.as_str()).min()
    }

    /// Returns the instant at which [`Scheduler::step`] should run even without an observation.
    #[must_use]
    pub fn next_wake(&self) -> Option<Time> {
        let explain = self.to_explain.next().map(|at| at.max(self.next_explanations));
        let retry = self.reservations.retry_at;
        [self.engine.next_wake(), self.wakes.next(), explain, retry].into_iter().flatten().min()
    }

    /// Returns what was done so far.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// Returns the queues with what they use and what waits.
    #[must_use]
    pub fn queues(&self, now: Time) -> Vec<QueueView> {
        self.engine.queues(now.max(self.last))
    }

    /// Returns the queue tree in force.
    #[must_use]
    pub fn queue_tree(&self) -> &QueueTree {
        self.engine.tree()
    }

    /// Returns the nodes with what is used of them.
    #[must_use]
    pub fn nodes(&self) -> Vec<NodeView> {
        self.engine.nodes()
    }

    /// Returns the GPU models of the nodes, in the words of quotas.
    #[must_use]
    pub fn gpu_models(&self) -> BTreeSet<GpuModel> {
        self.nodes.gpu_models()
    }

    /// Returns the models of a GPU resource on the nodes that have these labels.
    #[must_use]
    pub fn models_on(
        &self,
        labels: &BTreeMap<String, String>,
        resource: &str,
    ) -> BTreeSet<GpuModel> {
        self.nodes.models_on(labels, resource)
    }

    /// Returns a number that changes when labels or GPU models of nodes do.
    #[must_use]
    pub fn nodes_version(&self) -> u64 {
        self.nodes.version()
    }

    /// Returns the decayed usage, for the scheduler that follows this one.
    #[must_use]
    pub fn usage_record(&self, now: Time) -> UsageRecord {
        self.engine.usage_record(now.max(self.last))
    }

    /// Checks a queue tree before it is observed.
    ///
    /// # Errors
    /// The reason for which it cannot be used.
    pub fn check_queues(&self, tree: &QueueTree) -> Result<(), String> {
        let event = Event::QueuesSet(Box::new(tree.clone()));
        self.engine.validate(&event).map_err(|refusal| refusal.to_string())
    }

    /// Returns why a pod waits, with the engine's estimate of its start; `None` for a pod that does
    /// not wait for this scheduler.
    pub fn explain(&mut self, now: Time, pod: &ObjectKey) -> Option<Arc<str>> {
        let known = self.pods.get(pod).filter(|pod| pod.facts.is_ours && pod.is_waiting())?;
        let key = self.groups.gang_of(&known.facts);
        self.explanation(now.max(self.last), &key)
    }

    // ---- observations ----

    fn take_in(&mut self, now: Time, observation: Observation) {
        match observation {
            Observation::Node(facts) => self.take_in_node(*facts),
            Observation::NodeGone(name) => {
                self.nodes.remove(&name);
                self.came_or_went.insert(name);
            }
            Observation::Pod(facts) => self.take_in_pod(*facts),
            Observation::PodGone(key) => self.remove_pod(&key),
            Observation::Group(facts) => self.take_in_group(*facts),
            Observation::GroupGone(kind, object) => {
                self.dirty.extend(self.groups.waiting_for(kind, &object));
                let gang = GangRef::of_object(kind, object.clone());
                let clusters = self.groups.clusters_of(&gang);
                if self.groups.remove(kind, &object) {
                    self.regroup(&gang, clusters);
                    self.dirty.insert(GangKey::Group(gang));
                }
            }
            Observation::Claim(key, volume) => {
                if self.volumes.claims.insert(key.clone(), volume.clone()) != Some(volume) {
                    self.mark_users_of(&key);
                }
            }
            Observation::ClaimGone(key) => {
                self.volumes.claims.remove(&key);
                self.mark_users_of(&key);
            }
            Observation::Volume(name, terms) => {
                if self.volumes.volumes.insert(name, terms.clone()) != Some(terms) {
                    self.mark_users_of_any_claim();
                }
            }
            Observation::Queues(tree) => {
                let event = Event::QueuesSet(Box::new(by_limits(*tree)));
                if self.engine.validate(&event).is_ok() {
                    self.engine.apply(now, &event);
                    self.dirty.extend(self.gangs.keys().cloned());
                }
            }
            Observation::LocalQueues(queues) => {
                if self.local_queues.as_ref() != Some(&*queues) {
                    self.local_queues = Some(*queues);
                    self.dirty.extend(self.gangs.keys().cloned());
                }
            }
            Observation::Reservation(facts) => self.note_reservation(*facts),
            Observation::ReservationGone(name) => self.reservations.remove(&name),
            Observation::Bound(id) => self.note_bound(now, &id),
            Observation::BindRefused(id, reason) => self.note_refused(now, &id, &reason),
            Observation::Untold(pod) => self.note_untold(&pod),
            Observation::WorkloadUntold(workload) => self.note_untold_workload(&workload),
            Observation::PriorityClass(class) => {
                if self.priorities.insert(class) {
                    self.dirty.extend(self.groups.with_workload());
                }
            }
            Observation::PriorityClassGone(name) => {
                self.priorities.remove(&name);
                self.dirty.extend(self.groups.with_workload());
            }
            Observation::Done(workload) => self.note_answer(now, &workload, false),
            Observation::Refused(workload) => self.note_answer(now, &workload, true),
            Observation::Devices(change) => self.take_in_devices(*change),
        }
    }

    pub(crate) fn take_in_node(&mut self, mut facts: NodeFacts) {
        self.devices.describe(&mut facts);
        // Most reports of a node are signs of life, which change nothing here.
        if self.nodes.is_same(&facts) {
            return;
        }
        if !self.nodes.is_known(&facts.name) {
            self.came_or_went.insert(facts.name.clone());
        }
        if self.nodes.insert(facts) {
            self.dirty.extend(self.gangs.keys().cloned());
        }
        self.dirty.append(&mut self.refused);
    }

    fn take_in_group(&mut self, mut facts: GroupFacts) {
        // Kueue starts and stops its own.
        let is_of_kueue = facts.workload.as_ref().is_some_and(|workload| workload.is_of_kueue);
        if is_of_kueue && self.local_queues.is_none() {
            facts.workload = None;
        }
        let gang = GangRef::of_object(facts.kind, facts.key.clone());
        let waiting = self.groups.waiting_for(facts.kind, &facts.key);
        if self.groups.get(&gang).is_none() {
            self.note_new_group(self.last, &gang);
        }
        if self.groups.insert(facts) {
            self.dirty.extend(waiting);
            self.regroup(&gang, self.groups.clusters_of(&gang));
            self.dirty.insert(GangKey::Group(gang));
        }
    }

    fn take_in_pod(&mut self, mut facts: PodFacts) {
        let key = facts.key.clone();
        let old = self.pods.get(&key).map(|pod| &pod.facts);
        if old.is_some_and(|old| old.uid != facts.uid) {
            self.remove_pod(&key);
        }
        if let Some(old) = self.pods.get(&key).map(|pod| &pod.facts) {
            // A binding is never taken back: an older report of the pod arrives late.
            facts.node = facts.node.or_else(|| old.node.clone());
            facts.shared_gpu = facts.shared_gpu.or(old.shared_gpu);
            if **old == facts {
                return;
            }
            self.leave_gang(&key);
        }
        self.devices.note_pod(&facts);
        match self.pods.get_mut(&key) {
            Some(pod) => *pod.facts = facts,
            None => drop(self.pods.insert(key.clone(), Pod::new(facts))),
        }
        self.note_holder(&key);
        self.note_sharer(&key);
        self.note_carrier(&key);
        let pod = &self.pods[&key];
        if pod.facts.is_ours {
            self.join_gang(&key);
        } else if pod.facts.node.is_some() && !pod.has_ended() {
            self.count_as_foreign(&key);
        }
        if self.pods[&key].has_ended() {
            self.forget_carrier(&key);
            self.forget_foreign(&key);
            self.devices.forget_pod(&self.pods[&key].facts);
        }
    }

    pub(crate) fn remove_pod(&mut self, key: &ObjectKey) {
        self.forget_carrier(key);
        self.forget_foreign(key);
        self.leave_gang(key);
        if let Some(pod) = self.pods.remove(key) {
            self.forget_holder(&pod.facts);
            self.forget_sharer(&pod);
            self.devices.forget_pod(&pod.facts);
        }
    }

    pub(crate) fn join_gang(&mut self, key: &ObjectKey) {
        let facts = &self.pods[key].facts;
        if let Some(named) = &facts.gang {
            self.members.entry(named.clone()).or_default().insert(key.clone());
        }
        let gang = self.groups.gang_of(facts);
        self.gangs.entry(gang.clone()).or_default().pods.insert(key.clone());
        self.dirty.insert(gang);
    }

    fn leave_gang(&mut self, key: &ObjectKey) {
        let Some(pod) = self.pods.get(key).filter(|pod| pod.facts.is_ours) else { return };
        if let Some(named) = &pod.facts.gang
            && let Some(members) = self.members.get_mut(named)
        {
            members.remove(key);
            if members.is_empty() {
                self.members.remove(named);
            }
        }
        let gang = self.groups.gang_of(&pod.facts);
        if let Some(known) = self.gangs.get_mut(&gang) {
            known.pods.remove(key);
        }
        self.dirty.insert(gang);
    }

    /// Puts the pods of an object into their gangs anew, after the object changed. `clusters` are those of a RayJob.
    fn regroup(&mut self, object: &GangRef, clusters: Vec<GangRef>) {
        let mut parts = self.parts_of(object);
        parts.extend(clusters);
        for part in parts {
            let pods = self.members.get(&part).cloned().unwrap_or_default();
            for key in pods {
                // It may be in any: as a single pod, in the gang that it names, or in that of the RayJob.
                let named = [&part, object].map(|gang| GangKey::Group(gang.clone()));
                for gang in [GangKey::Pod(key.clone())].into_iter().chain(named) {
                    if let Some(known) = self.gangs.get_mut(&gang)
                        && known.pods.remove(&key)
                    {
                        self.dirty.insert(gang);
                    }
                }
                self.join_gang(&key);
                self.end_job_of_other_gang(&key);
            }
        }
    }

    /// Returns the gangs that pods name of an object.
    pub(crate) fn parts_of(&self, object: &GangRef) -> Vec<GangRef> {
        let same = |gang: &&GangRef| gang.kind == object.kind && gang.object == object.object;
        let named = self.members.range(object.clone()..).map(|(gang, _)| gang);
        named.take_while(same).cloned().collect()
    }

    /// Returns the pods that name a gang.
    pub(crate) fn members_of(&self, gang: &GangRef) -> impl Iterator<Item = &Pod> {
        let members = self.members.get(gang).into_iter().flatten();
        members.filter_map(|pod| self.pods.get(pod))
    }

    /// Ends the job of a pod that is in another gang now, whose look adopts it.
    fn end_job_of_other_gang(&mut self, key: &ObjectKey) {
        let Some(pod) = self.pods.get(key) else { return };
        let Some(job) = pod.job else { return };
        let gang = self.groups.gang_of(&pod.facts);
        if self.batches.get(&job).is_some_and(|batch| batch.gang != gang) {
            self.end_batch(self.last, job);
        }
    }

    /// Marks the gangs on nodes that came or went.
    fn mark_gangs_on_nodes(&mut self) {
        let nodes = std::mem::take(&mut self.came_or_went);
        if nodes.is_empty() {
            return;
        }
        let there = self.pods.values().filter(|pod| {
            pod.facts.is_ours && pod.place().is_some_and(|place| nodes.contains(place))
        });
        self.dirty.extend(there.map(|pod| self.groups.gang_of(&pod.facts)));
    }

    fn mark_users_of(&mut self, claim: &ObjectKey) {
        let users = self.pods.values().filter(|pod| {
            pod.facts.is_ours
                && pod.facts.key.namespace == claim.namespace
                && pod.facts.claims.contains(&claim.name)
        });
        self.dirty.extend(users.map(|pod| self.groups.gang_of(&pod.facts)));
    }

    fn mark_users_of_any_claim(&mut self) {
        let users = self
            .pods
            .values()
            .filter(|pod| pod.facts.is_ours && pod.is_waiting() && !pod.facts.claims.is_empty());
        self.dirty.extend(users.map(|pod| self.groups.gang_of(&pod.facts)));
    }

    fn note_bound(&mut self, now: Time, id: &PodId) {
        self.devices.confirm_choice(&id.uid);
        let Some(pod) = self.pods.get_mut(&id.key).filter(|pod| pod.facts.uid == id.uid) else {
            return;
        };
        let Some(node) = pod.binding.take() else { return };
        self.counts.bound += 1;
        pod.facts.node.get_or_insert(node);
        let gang = self.groups.gang_of(&pod.facts);
        if let Some(known) = self.gangs.get_mut(&gang) {
            known.failures = 0;
            known.retry_at = None;
            known.retry_reason = None;
        }
        self.dirty.insert(gang);
        if let Some(job) = pod.job {
            self.report_rank(now, job, &id.key);
        }
    }

    fn report_rank(&mut self, now: Time, job: JobId, pod: &ObjectKey) {
        let Some(batch) = self.batches.get(&job) else { return };
        let Some(placed) = &batch.placed else { return };
        let Some(rank) = batch.pods.iter().position(|one| one == pod) else { return };
        self.engine.apply(
            now,
            &Event::Task(TaskReport {
                id: placed.id,
                rank: Rank(rank as u32),
                observation: TaskObservation::Started,
            }),
        );
    }

    fn note_refused(&mut self, now: Time, id: &PodId, reason: &str) {
        self.devices.forget_choice(&id.uid);
        let Some(pod) = self.pods.get_mut(&id.key).filter(|pod| pod.facts.uid == id.uid) else {
            return;
        };
        let Some(node) = pod.binding.take() else { return };
        self.nodes.remove_selected(&node, &id.key);
        pod.shared_gpu = None;
        self.counts.refused += 1;
        let gang = self.groups.gang_of(&pod.facts);
        if let Some(known) = self.gangs.get_mut(&gang) {
            let text = format!("binding {} to {node} was refused: {reason}", id.key.name);
            known.note_refusal(now, Some(text.into()));
        }
        self.dirty.insert(gang);
        self.note_sharer(&id.key);
    }

    // ---- use from outside ----

    /// Counts a pod that runs as use from outside the engine.
    pub(crate) fn count_as_foreign(&mut self, key: &ObjectKey) {
        let Some(pod) = self.pods.get_mut(key) else { return };
        let Some(node) = pod.place().cloned() else { return };
        pod.foreign_on = Some(node.clone());
        let placed = PodFacts { node: Some(node.clone()), ..PodFacts::clone(&pod.facts) };
        // A pod that runs has its devices: what keeps others from theirs does not concern it.
        let facts = self.devices.resolve(&placed).unwrap_or(placed);
        let mut take = job::take(&facts, &self.apart);
        if self.is_holder(&facts) {
            // Its GPU counts for those who have shares of it.
            take.requests.0.remove(gpu_share::RESOURCE);
        }
        self.nodes.add_foreign(&node, key, take);
    }

    pub(crate) fn forget_foreign(&mut self, key: &ObjectKey) {
        let Some(node) = self.pods.get_mut(key).and_then(|pod| pod.foreign_on.take()) else {
            return;
        };
        self.nodes.remove_foreign(&node, key);
    }

    // ---- engine ----

    /// Tells the engine of nodes that changed.
    pub(crate) fn sync_nodes(&mut self, now: Time) {
        for event in self.nodes.take_changes() {
            self.engine.apply(now, &event);
        }
    }

    pub(crate) fn take_job_id(&mut self) -> JobId {
        let id = self.next_job;
        self.next_job = JobId(id.0 + 1);
        id
    }

    pub(crate) fn insert_batch(&mut self, job: JobId, batch: Batch) {
        self.gangs.entry(batch.gang.clone()).or_default().jobs.insert(job);
        for pod in &batch.pods {
            if let Some(pod) = self.pods.get_mut(pod) {
                pod.job = Some(job);
            }
        }
        self.batches.insert(job, batch);
    }

    /// Has a gang looked at in this step or the next one.
    pub(crate) fn mark(&mut self, gang: GangKey) {
        self.dirty.insert(gang);
    }

    pub(crate) fn wake_at(&mut self, at: Time, gang: &GangKey) {
        self.wakes.schedule(gang, at);
    }

    fn carry_out_effects(&mut self) {
        for effect in self.engine.take_effects() {
            match effect {
                Effect::Prepare { id, placement, .. } => {
                    let place = |task: &muster_model::TaskPlacement| {
                        let spec = self.engine.node_spec(task.node);
                        let node =
                            spec.map_or_else(|| NodeName("".into()), |spec| spec.name.clone());
                        Place { node, devices: task.devices, share: task.share }
                    };
                    let places = placement.iter().map(place).collect();
                    self.bind(Placed { id, places, is_stopping: false });
                }
                Effect::Stop { id, cause } => {
                    // Nothing else asks for a requeue here.
                    let is_set_aside = cause == StopCause::Requeued;
                    let reason = if is_set_aside { SET_ASIDE } else { PREEMPTED };
                    self.stop(id.element.job, reason);
                }
                Effect::Go { .. } | Effect::Checkpoint { .. } | Effect::Forget { .. } => {}
            }
        }
    }

    /// Binds the pods of a job that was placed, or keeps the places for those that are expected. A job
    /// that was adopted has its nodes already.
    fn bind(&mut self, placed: Placed) {
        let job = placed.id.element.job;
        let Some(batch) = self.batches.get_mut(&job) else { return };
        if batch.placed.is_some() {
            return;
        }
        for place in &placed.places {
            self.nodes.hold(place);
        }
        batch.placed = Some(placed);
        let first = batch.pods.first().cloned();
        if first.is_some_and(|pod| self.is_expected(&pod)) {
            self.keep_places(job);
        } else {
            self.send_bindings(job);
        }
    }

    /// Deletes the pods of a job; all pods of its gang where the rest would be fewer than the gang
    /// needs. Where a controller would make them again at once, it is suspended.
    pub(crate) fn stop(&mut self, job: JobId, reason: &str) {
        let Some(batch) = self.batches.get_mut(&job) else { return };
        let Some(placed) = batch.placed.as_mut().filter(|placed| !placed.is_stopping) else {
            return;
        };
        placed.is_stopping = true;
        let own = batch.pods.clone();
        let key = batch.gang.clone();
        let Some(gang) = self.gangs.get(&key) else { return };
        let running: Vec<&PodFacts> = gang
            .pods
            .iter()
            .filter_map(|key| self.pods.get(key))
            .filter(|pod| pod.is_running())
            .map(|pod| &*pod.facts)
            .collect();
        let left = running.iter().filter(|pod| !own.contains(&pod.key)).count();
        let minimum = self.groups.minimum(&key, &running).unwrap_or_default();
        let is_whole = left >= minimum as usize;
        let evicted =
            if is_whole { own } else { running.iter().map(|pod| pod.key.clone()).collect() };
        if self.groups.workload(&key).is_some() && (left == 0 || !is_whole) {
            self.suspend(&key, reason);
            // What it keeps for expected pods is given up in the next step.
            self.wake_at(self.last, &key);
        } else {
            self.evict(&evicted, &Arc::from(reason));
        }
    }
}

/// Returns a queue tree that plans by time limits, whatever it says: run times of pods are not predicted.
fn by_limits(tree: QueueTree) -> QueueTree {
    QueueTree { estimates: PlannedRuntimes::Requested, ..tree }
}
