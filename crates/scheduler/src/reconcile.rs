//! Reconciliation: brings the jobs of one gang in line with its pods. Level-triggered: it looks at
//! what is, not at what changed, so a lost or repeated observation does no harm.

use std::collections::BTreeSet;
use std::sync::Arc;

use muster_kubernetes::object::ObjectKey;
use muster_kubernetes::pod::PodFacts;
use muster_kubernetes::rule::NodeRule;
use muster_model::{
    CommandTarget, Event, JobId, JobSpec, Observation as TaskObservation, Rank, TaskReport, Time,
};

use crate::assignment::Assignment;
use crate::batch::Batch;
use crate::gang::{Gang, GangKey};
use crate::held::Place;
use crate::job::{self, Terms};
use crate::observation::Action;
use crate::scheduler::Scheduler;

impl Scheduler {
    /// Brings the jobs of a gang in line with its pods.
    pub(crate) fn reconcile(&mut self, now: Time, key: &GangKey) {
        self.dissolve_broken(now, key);
        self.leave_old_queue(now, key);
        self.adopt_running(now, key);
        self.evict_without_holder(key);
        self.drain(key);
        let stage = self.admit(now, key);
        let wanted = self.expected_batches(key, stage).unwrap_or_else(|| self.wanted_batches(key));
        let (hold, wanted) = match wanted {
            Ok(wanted) => (None, wanted),
            Err(hold) => (Some(hold), Vec::new()),
        };
        let hold = self.form_jobs(now, key, wanted).or(hold);
        self.hold_jobs(now, key, stage);
        if let Some(gang) = self.gangs.get_mut(key) {
            gang.hold = hold.map(Arc::from);
        }
        self.roll_back_part(now, key);
        self.tell_empty_group(now, key);
        self.schedule_explanation(now, key);
        if self.gangs.get(key).is_some_and(Gang::is_unused) {
            self.gangs.remove(key);
        }
    }

    /// Ends placed jobs of which a pod is gone, has ended or is elsewhere, or a node is gone. What
    /// is left of them is adopted again.
    fn dissolve_broken(&mut self, now: Time, key: &GangKey) {
        let Some(gang) = self.gangs.get(key) else { return };
        let broken: Vec<JobId> =
            gang.jobs.iter().copied().filter(|job| self.is_broken(*job)).collect();
        for job in broken {
            self.end_batch(now, job);
        }
    }

    fn is_broken(&self, job: JobId) -> bool {
        let Some(batch) = self.batches.get(&job) else { return true };
        let Some(placed) = &batch.placed else { return false };
        let is_there = |(pod, place): (&ObjectKey, &Place)| {
            let node = &place.node;
            self.pods.get(pod).is_some_and(|pod| !pod.has_ended() && pod.place() == Some(node))
                && self.nodes.is_known(node)
        };
        !batch.pods.iter().zip(&placed.places).all(is_there)
    }

    /// Ends the job of a batch in the engine; its pods have none then.
    pub(crate) fn end_batch(&mut self, now: Time, job: JobId) {
        let Some(batch) = self.batches.remove(&job) else { return };
        self.cancel_job(now, job);
        if let Some(gang) = self.gangs.get_mut(&batch.gang) {
            gang.jobs.remove(&job);
        }
        for pod in &batch.pods {
            if let Some(pod) = self.pods.get_mut(pod)
                && pod.job == Some(job)
            {
                pod.job = None;
                if pod.is_expected {
                    pod.binding = None;
                }
            }
        }
        let Some(placed) = batch.placed else { return };
        for (rank, place) in placed.places.iter().enumerate() {
            self.nodes.release(place);
            self.engine.apply(
                now,
                &Event::Task(TaskReport {
                    id: placed.id,
                    rank: Rank(rank as u32),
                    observation: TaskObservation::Lost { reason: "the gang changed".into() },
                }),
            );
        }
    }

    pub(crate) fn cancel_job(&mut self, now: Time, job: JobId) {
        let target = CommandTarget { job, index: None };
        self.engine
            .apply(now, &Event::Cancel { target, by: muster_kubernetes::names::SCHEDULER.into() });
    }

    /// Returns the pods that should be one pending job each, or why none should.
    fn wanted_batches(&self, key: &GangKey) -> Result<Vec<Vec<ObjectKey>>, String> {
        let Some(gang) = self.gangs.get(key) else { return Ok(Vec::new()) };
        let pods = || gang.pods.iter().filter_map(|key| self.pods.get(key));
        let mut waiting: Vec<&PodFacts> =
            pods().filter(|pod| pod.is_waiting()).map(|pod| &*pod.facts).collect();
        if waiting.is_empty() {
            return Ok(Vec::new());
        }
        waiting.sort_by(|a, b| (&a.created, &a.key).cmp(&(&b.created, &b.key)));
        if let Some(what) = waiting.iter().find_map(|pod| pod.not_understood.as_deref()) {
            return Err(format!("not supported by this scheduler: {what}"));
        }
        if let Some(what) = waiting.iter().find_map(|pod| self.share_obstacle(pod)) {
            return Err(what);
        }
        if let Some(what) = waiting.iter().find_map(|pod| self.devices.awaited(pod)) {
            return Err(what);
        }
        let minimum = self.groups.minimum(key, &waiting)?;
        let running = pods().filter(|pod| pod.is_running()).count();
        let succeeded = self.groups.succeeded(key, pods());
        let missing = (minimum as usize).saturating_sub(running + succeeded);
        if missing == 0 {
            return Ok(waiting.iter().map(|pod| vec![pod.key.clone()]).collect());
        }
        if waiting.len() < missing {
            return Err(format!(
                "the gang needs {minimum} pods, and {} exist",
                running + succeeded + waiting.len()
            ));
        }
        // The rest follows once the gang has its minimum.
        Ok(vec![waiting[..missing].iter().map(|pod| pod.key.clone()).collect()])
    }

    /// Submits the wanted jobs, keeps those that are pending with the same terms, and cancels the
    /// others. Returns why a job was not accepted.
    fn form_jobs(
        &mut self,
        now: Time,
        key: &GangKey,
        wanted: Vec<Vec<ObjectKey>>,
    ) -> Option<String> {
        let pending = |scheduler: &Self| -> BTreeSet<JobId> {
            let jobs = scheduler.gangs.get(key).map(|gang| gang.jobs.clone()).unwrap_or_default();
            jobs.into_iter().filter(|job| scheduler.batches[job].placed.is_none()).collect()
        };
        // 1. Jobs whose pods are exactly wanted, and those with as many of the same pods.
        let mut hold = None;
        let mut specs = Vec::new();
        for pods in wanted {
            match self.spec_of_waiting(key, &pods) {
                Ok(made) => specs.push(made),
                Err(text) => {
                    self.refused.insert(key.clone());
                    hold = Some(text);
                }
            }
        }
        let mut free = pending(self);
        let mut new = Vec::new();
        for (spec, pods) in specs {
            let same_first = pods
                .iter()
                .find_map(|pod| self.pods.get(pod)?.job.filter(|job| free.contains(job)));
            let kept = same_first
                .into_iter()
                .chain(free.iter().copied())
                .find(|job| *self.batches[job].spec == spec);
            match kept {
                Some(job) => {
                    free.remove(&job);
                    self.set_pods(job, pods);
                }
                None => new.push((spec, pods)),
            }
        }
        // 2. The others end before new ones come, so that limits on pending jobs count right.
        for job in free {
            self.end_batch(now, job);
        }
        // 3. New jobs.
        if !new.is_empty() {
            self.sync_nodes(now);
        }
        for (spec, pods) in new {
            hold = self.submit(now, key, spec, pods).err().or(hold);
        }
        hold
    }

    fn set_pods(&mut self, job: JobId, pods: Vec<ObjectKey>) {
        let Some(batch) = self.batches.get_mut(&job) else { return };
        if batch.pods == pods {
            return;
        }
        let old = std::mem::replace(&mut batch.pods, pods.clone());
        for pod in &old {
            if let Some(pod) = self.pods.get_mut(pod) {
                pod.job = None;
            }
        }
        for pod in &pods {
            if let Some(pod) = self.pods.get_mut(pod) {
                pod.job = Some(job);
            }
        }
    }

    fn submit(
        &mut self,
        now: Time,
        key: &GangKey,
        spec: JobSpec,
        pods: Vec<ObjectKey>,
    ) -> Result<(), String> {
        let retry_at = self.gangs.get(key).and_then(|gang| gang.retry_at).filter(|at| *at > now);
        let submitted = JobSpec { begin: spec.begin.max(retry_at), ..spec.clone() };
        let job = self.take_job_id();
        let event = Event::Submitted { job, spec: Arc::new(submitted) };
        if let Err(refusal) = self.engine.validate(&event) {
            self.refused.insert(key.clone());
            return Err(self.refusal_text(now, &refusal));
        }
        self.engine.apply(now, &event);
        self.insert_batch(
            job,
            Batch { gang: key.clone(), pods, spec: Arc::new(spec), is_held: false, placed: None },
        );
        Ok(())
    }

    /// Returns the job of waiting pods, with the pods by rank.
    fn spec_of_waiting(
        &mut self,
        key: &GangKey,
        pods: &[ObjectKey],
    ) -> Result<(JobSpec, Vec<ObjectKey>), String> {
        let terms = self.terms(key, pods).ok_or("its pods are gone")?;
        let first = pods.first().ok_or("its pods are gone")?;
        let assignment = Assignment::of_waiting(
            self.engine.tree(),
            self.local_queues.as_ref(),
            &terms.wishes,
            &first.namespace,
        )?;
        let mut facts: Vec<(PodFacts, NodeRule)> = Vec::new();
        for pod in pods {
            let Some(pod) = self.pods.get(pod) else { continue };
            let resolved = self.devices.resolve(&pod.facts)?;
            let mut rule = self.volumes.rule(&resolved)?;
            assignment.restrict(&resolved, &mut rule);
            facts.push((resolved, rule));
        }
        self.describe_nodes();
        let borrowed: Vec<(&PodFacts, NodeRule)> =
            facts.iter().map(|(facts, rule)| (facts, rule.clone())).collect();
        let (spec, ranks) =
            job::of_pods(&mut self.nodes, &assignment, &terms, &self.apart, &borrowed)?;
        Ok((spec, ranks.into_iter().map(|at| pods[at].clone()).collect()))
    }

    /// Returns name and terms of pods of a gang.
    pub(crate) fn terms(&self, key: &GangKey, pods: &[ObjectKey]) -> Option<Terms> {
        let first = &self.pods.get(pods.first()?)?.facts;
        let group = first.gang.as_ref().and_then(|gang| self.groups.get(&self.groups.whole(gang)));
        Some(Terms {
            name: key.to_string().into(),
            wishes: self.groups.wishes(first),
            deadline_secs: group.and_then(|group| group.deadline_secs),
            begin: if self.is_expected(&first.key) { self.earliest_start(key) } else { None },
        })
    }

    /// Asks for the deletion of pods, once each.
    pub(crate) fn evict(&mut self, pods: &[ObjectKey], reason: &Arc<str>) {
        for key in pods {
            let Some(pod) =
                self.pods.get_mut(key).filter(|pod| !pod.is_evicted && !pod.is_expected)
            else {
                continue;
            };
            pod.is_evicted = true;
            if !pod.facts.is_terminating {
                let id =
                    crate::observation::PodId { key: key.clone(), uid: Arc::clone(&pod.facts.uid) };
                self.counts.evicted += 1;
                self.actions.push(Action::Evict { pod: id, reason: Arc::clone(reason) });
            }
        }
    }
}
