//! Adoption: pods that are bound already become running jobs of the engine, with their nodes and the instant
//! at which they got them. So the scheduler takes over after a restart, and keeps the rest of a gang whose pods end one
//! by one.

use std::sync::Arc;

use muster_kubernetes::instant;
use muster_kubernetes::node::is_gpu;
use muster_kubernetes::object::ObjectKey;
use muster_kubernetes::pod::PodFacts;
use muster_kubernetes::rule::NodeRule;
use muster_model::{
    Attempt, AttemptId, Decision, DeviceSet, ElementId, Event, GpuMilli, JobId, JobSpec,
    NodeConstraint, Plan, Span, TaskPlacement, Time,
};

use crate::assignment::Assignment;
use crate::batch::{Batch, Placed};
use crate::gang::{GangKey, Pod};
use crate::held::{Place, WHOLE};
use crate::job;
use crate::rules::RuleId;
use crate::scheduler::Scheduler;

/// Remaining time of a running pod whose limit has passed: Muster does not enforce limits of pods.
const LEAST_LEFT: Span = Span::from_secs(1);

impl Scheduler {
    /// Adopts all pods of a gang that have a node and no job.
    pub(crate) fn adopt_running(&mut self, now: Time, key: &GangKey) {
        let Some(gang) = self.gangs.get(key) else { return };
        let is_adoptable = |pod: &Pod| {
            pod.job.is_none()
                && !pod.has_ended()
                && pod.place().is_some_and(|node| self.nodes.is_known(node))
        };
        let pods: Vec<ObjectKey> = gang
            .pods
            .iter()
            .filter(|key| self.pods.get(key).is_some_and(is_adoptable))
            .cloned()
            .collect();
        for pods in self.running_batches(key, pods) {
            for pod in &pods {
                self.forget_foreign(pod);
            }
            if let Err(pods) = self.adopt(now, key, pods) {
                for pod in &pods {
                    self.count_as_foreign(pod);
                }
                self.sync_nodes(now);
            }
        }
    }

    /// Divides running pods of a gang into jobs, as they were before a restart. The pods up to the minimum of
    /// the gang are one job. Each other pod is a job of its own, so that it can be preempted alone. All pods
    /// of a workload that Muster resumes are one job.
    fn running_batches(&self, key: &GangKey, mut pods: Vec<ObjectKey>) -> Vec<Vec<ObjectKey>> {
        if pods.is_empty() {
            return Vec::new();
        }
        if self.groups.workload(key).is_some() {
            return vec![pods];
        }
        let facts = pods.iter().filter_map(|key| self.pods.get(key)).map(|pod| &*pod.facts);
        let facts: Vec<&PodFacts> = facts.collect();
        let Ok(minimum) = self.groups.minimum(key, &facts) else { return vec![pods] };
        let gang = self.gangs.get(key).into_iter().flat_map(|gang| &gang.pods);
        let all = || gang.clone().filter_map(|key| self.pods.get(key));
        let running = all().filter(|pod| pod.is_running() && pod.job.is_some()).count();
        let have = running + self.groups.succeeded(key, all());
        let missing = (minimum as usize).saturating_sub(have).min(pods.len());
        let order =
            |pod: &Pod| (!pod.is_running(), pod.facts.created.clone(), pod.facts.key.clone());
        pods.sort_by_cached_key(|key| self.pods.get(key).map(order));
        let alone = pods.split_off(missing);
        let together = (!pods.is_empty()).then_some(pods);
        together.into_iter().chain(alone.into_iter().map(|pod| vec![pod])).collect()
    }

    /// Adopts pods as one job; returns them if the engine does not accept that.
    fn adopt(
        &mut self,
        now: Time,
        key: &GangKey,
        pods: Vec<ObjectKey>,
    ) -> Result<(), Vec<ObjectKey>> {
        let Some((mut spec, ranks)) = self.spec_of_running(now, key, &pods) else {
            return Err(pods);
        };
        // The nodes no longer count these pods as those of others, and know the ports and groups of
        // which a node takes one pod.
        self.sync_nodes(now);
        let pods: Vec<ObjectKey> = ranks.into_iter().map(|at| pods[at].clone()).collect();
        // Its reservation may be over by now, be for others, or have other nodes.
        let is_adopted = self.adopt_as(now, key, &spec, &pods)
            || spec.constraint.advance_reservation.take().is_some()
                && self.adopt_as(now, key, &spec, &pods);
        if is_adopted { Ok(()) } else { Err(pods) }
    }

    /// Adopts pods as this job, by rank; returns false if the engine does not accept that.
    fn adopt_as(&mut self, now: Time, key: &GangKey, spec: &JobSpec, pods: &[ObjectKey]) -> bool {
        let Some((places, placement)) = self.places_of(spec, pods) else { return false };
        let id = self.take_job_id();
        let event = Event::Submitted { job: id, spec: Arc::new(spec.clone()) };
        if self.engine.validate(&event).is_err() {
            return false;
        }
        self.engine.apply(now, &event);
        let attempt = AttemptId { element: ElementId::single(id), attempt: Attempt(1) };
        let start = Decision::Start { id: attempt, placement: placement.into(), backfilled: false };
        let plan = Plan { decisions: vec![start], ..Plan::default() };
        if self.engine.check(now, &plan).is_err() {
            self.cancel_job(now, id);
            return false;
        }
        self.engine.commit(now, &plan);
        for place in &places {
            self.nodes.hold(place);
        }
        let placed = Placed { id: attempt, places, is_stopping: false };
        self.insert_batch(
            id,
            Batch {
                gang: key.clone(),
                pods: pods.to_vec(),
                spec: Arc::new(spec.clone()),
                is_held: false,
                placed: Some(placed),
            },
        );
        self.report_bound(now, id);
        if let Some(since) = self.bound_since(pods) {
            self.engine.apply(now, &Event::RunningSince { id: attempt, since });
        }
        true
    }

    /// Returns the job of pods that run. They keep their nodes, so it has no constraint beside
    /// its advance reservation; of its time limit what is left counts, since it starts now in the engine.
    fn spec_of_running(
        &mut self,
        now: Time,
        key: &GangKey,
        pods: &[ObjectKey],
    ) -> Option<(JobSpec, Vec<usize>)> {
        let mut terms = self.terms(key, pods)?;
        terms.wishes.required_topology = None;
        terms.wishes.preferred_topology = None;
        let facts: Vec<PodFacts> = pods.iter().filter_map(|pod| self.placed_facts(pod)).collect();
        let facts: Vec<(&PodFacts, NodeRule)> =
            facts.iter().map(|facts| (facts, NodeRule::default())).collect();
        let assignment = Assignment::of_running(
            self.engine.tree(),
            self.local_queues.as_ref(),
            &terms.wishes,
            &facts.first()?.0.key.namespace,
        );
        let made = job::of_pods(&mut self.nodes, &assignment, &terms, &self.apart, &facts);
        let (mut spec, ranks) = made
            .or_else(|_| {
                terms.wishes.time_limit = None;
                job::of_pods(&mut self.nodes, &assignment, &terms, &self.apart, &facts)
            })
            .ok()?;
        let advance_reservation = spec.constraint.advance_reservation;
        spec.constraint = NodeConstraint { advance_reservation, ..NodeConstraint::default() };
        let elapsed = self.bound_since(pods).map_or(Span(0), |since| now.since(since));
        let left = |limit: Span| Span(limit.0.saturating_sub(elapsed.0)).max(LEAST_LEFT);
        spec.time_limit = spec.time_limit.map(left);
        // A pod that runs has its ports and its place; only quantities are counted.
        for group in &mut spec.groups {
            group.task.extras.retain(|name, _| !RuleId::is_key(name));
        }
        Some((spec, ranks))
    }

    /// Returns the instant at which the first of these pods got its node; `None` if none has one yet.
    fn bound_since(&self, pods: &[ObjectKey]) -> Option<Time> {
        let pods = pods.iter().filter_map(|key| self.pods.get(key));
        pods.filter_map(|pod| instant::parse(pod.facts.bound_at.as_deref()?)).min()
    }

    /// Returns a pod that has a node, or is being bound to one, with the devices that it claims.
    fn placed_facts(&mut self, pod: &ObjectKey) -> Option<PodFacts> {
        let pod = self.pods.get(pod)?;
        let placed = PodFacts {
            node: pod.place().cloned(),
            shared_gpu: pod.shared_gpu(),
            ..PodFacts::clone(&pod.facts)
        };
        Some(self.devices.resolve(&placed).unwrap_or(placed))
    }

    /// Returns nodes and devices of running pods, by rank, for us and for the engine.
    fn places_of(
        &mut self,
        spec: &JobSpec,
        pods: &[ObjectKey],
    ) -> Option<(Vec<Place>, Vec<TaskPlacement>)> {
        let mut places: Vec<Place> = Vec::new();
        let mut placement = Vec::new();
        let groups = (0u16..).zip(&spec.groups);
        let group_of =
            groups.flat_map(|(at, group)| std::iter::repeat_n(at, group.min_tasks as usize));
        for (key, group) in pods.iter().zip(group_of) {
            let facts = self.placed_facts(key)?;
            let name = facts.node.as_ref()?;
            let gpu = facts.requests.0.iter().find(|(name, _)| is_gpu(name));
            let taken = places
                .iter()
                .filter(|place| place.node == *name)
                .fold(DeviceSet::EMPTY, |all, place| all.or(place.devices));
            let (devices, share) = match (gpu, facts.gpu_share) {
                (_, Some(asked)) => {
                    let number = facts.shared_gpu?;
                    (self.nodes.shared_device(name, number, asked.share)?, asked.share)
                }
                (Some((resource, count)), None) => {
                    let free = |taken| self.nodes.free_devices(name, resource, *count, taken);
                    let unsuitable = self.unsuitable_devices(spec, name);
                    (free(taken.or(unsuitable)).or_else(|| free(taken))?, WHOLE)
                }
                (None, None) => (DeviceSet::EMPTY, GpuMilli(0)),
            };
            let share = if devices.is_empty() { GpuMilli(0) } else { share };
            places.push(Place { node: name.clone(), devices, share });
            placement.push(TaskPlacement {
                group,
                node: self.engine.node_id(name)?,
                devices,
                share,
            });
        }
        Some((places, placement))
    }

    /// Reports to the engine which pods of a placed batch are bound.
    pub(crate) fn report_bound(&mut self, now: Time, job: JobId) {
        let Some(batch) = self.batches.get(&job) else { return };
        let Some(placed) = &batch.placed else { return };
        let is_bound =
            |pod: &ObjectKey| self.pods.get(pod).is_some_and(|pod| pod.facts.node.is_some());
        let ranks =
            (0u32..).zip(&batch.pods).filter(|(_, pod)| is_bound(pod)).map(|(rank, _)| rank);
        let reports: Vec<Event> = ranks.map(|rank| started(placed.id, rank)).collect();
        for event in reports {
            self.engine.apply(now, &event);
        }
    }
}

fn started(id: AttemptId, rank: u32) -> Event {
    Event::Task(muster_model::TaskReport {
        id,
        rank: muster_model::Rank(rank),
        observation: muster_model::Observation::Started,
    })
}
