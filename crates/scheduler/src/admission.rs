//! Admission: a suspended workload waits without pods. Pods that are only expected stand in its gang
//! for those that its controller will make. Once they have nodes the workload is resumed, and keeps the
//! nodes until its real pods are there and take them, all at once.
//!
//! Invariant: the expected pods of a gang are in one job, or in none, and never beside real ones.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use muster_kubernetes::object::ObjectKey;
use muster_kubernetes::pod::PodFacts;
use muster_model::{JobId, Span, Time};

use crate::gang::{GangKey, Pod, Request};
use crate::held::Place;
use crate::job;
use crate::nodes::Take;
use crate::observation::{Action, Observation, PodId, WorkloadId};
use crate::scheduler::Scheduler;

/// Longest time between two pods of a workload that was resumed, until all are there. Controllers make
/// some 20 pods a second (the default limit of their client), the first within a second.
pub(crate) const ARRIVE_WITHIN: Span = Span::from_secs(60);

/// Stage of a gang between its suspension and the start of its pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// Its pods are there, or it has no workload: expected pods are not needed.
    Present,
    /// Its suspension is on the way: nothing of it starts.
    Suspending,
    /// Suspended, and pods of its last run are still there.
    Ending,
    /// Its pods are yet to come.
    Expecting,
}

impl Scheduler {
    /// Brings the expected pods of a gang in line with its workload. Returns its stage.
    pub(crate) fn admit(&mut self, now: Time, key: &GangKey) -> Stage {
        self.release_void_places(now, key);
        self.take_places(now, key);
        let stage = self.stage(key);
        match stage {
            Stage::Present | Stage::Suspending => self.drop_expected(now, key),
            Stage::Ending | Stage::Expecting => self.set_expected(key),
        }
        self.limit_wait(now, key);
        self.stage(key)
    }

    fn stage(&self, key: &GangKey) -> Stage {
        let gang = self.gangs.get(key);
        if gang.is_some_and(|gang| {
            gang.request == Some(Request::Suspend) || gang.suspend_next.is_some()
        }) {
            return Stage::Suspending;
        }
        let Some(workload) = self.groups.workload(key) else { return Stage::Present };
        if self.expected_job(key).is_some() {
            return Stage::Expecting;
        }
        let real = || self.real_pods(key);
        if workload.is_suspended {
            let has_rest = real().any(|pod| !pod.has_ended());
            return if has_rest { Stage::Ending } else { Stage::Expecting };
        }
        let waiting = real().filter(|pod| pod.is_waiting()).count();
        let has_run = real().any(|pod| pod.is_running() || pod.has_ended());
        let is_complete = workload.size().is_some_and(|size| waiting >= size);
        if has_run || is_complete { Stage::Present } else { Stage::Expecting }
    }

    fn real_pods(&self, key: &GangKey) -> impl Iterator<Item = &Pod> {
        let pods = self.gangs.get(key).into_iter().flat_map(|gang| &gang.pods);
        pods.filter_map(|pod| self.pods.get(pod)).filter(|pod| !pod.is_expected)
    }

    /// Returns the placed job that keeps nodes for expected pods.
    fn expected_job(&self, key: &GangKey) -> Option<JobId> {
        let jobs = &self.gangs.get(key)?.jobs;
        jobs.iter().copied().find(|job| {
            let batch = self.batches.get(job).filter(|batch| batch.placed.is_some());
            batch.and_then(|batch| batch.pods.first()).is_some_and(|pod| self.is_expected(pod))
        })
    }

    pub(crate) fn is_expected(&self, pod: &ObjectKey) -> bool {
        self.pods.get(pod).is_some_and(|pod| pod.is_expected)
    }

    // ---- expected pods ----

    /// Makes the expected pods of a workload, unless they have nodes already.
    fn set_expected(&mut self, key: &GangKey) {
        if self.expected_job(key).is_some() {
            return;
        }
        let wanted = self.expected_facts(key).unwrap_or_default();
        let names: BTreeSet<&ObjectKey> = wanted.iter().map(|facts| &facts.key).collect();
        let gang = self.gangs.entry(key.clone()).or_default();
        let pods = &self.pods;
        let is_expected = |pod: &ObjectKey| pods.get(pod).is_some_and(|pod| pod.is_expected);
        let surplus: Vec<ObjectKey> = gang
            .pods
            .iter()
            .filter(|pod| is_expected(pod) && !names.contains(pod))
            .cloned()
            .collect();
        for pod in surplus {
            self.remove_pod(&pod);
        }
        let is_dirty = self.dirty.contains(key);
        for facts in wanted {
            let name = facts.key.clone();
            match self.pods.get_mut(&name) {
                Some(pod) => *pod.facts = facts,
                None => {
                    let pod = Pod { is_expected: true, ..Pod::new(facts) };
                    self.pods.insert(name.clone(), pod);
                    self.join_gang(&name);
                }
            }
        }
        // `join_gang` marks the gang as changed, but this reconciliation sees the new pods already.
        if !is_dirty {
            self.dirty.remove(key);
        }
    }

    /// Returns the pods that a workload will have, in the order of their ranks.
    ///
    /// # Errors
    /// Why they are not known, for users.
    fn expected_facts(&self, key: &GangKey) -> Result<Vec<PodFacts>, String> {
        let Some(workload) = self.groups.workload(key) else { return Ok(Vec::new()) };
        let mut all = Vec::new();
        for one in workload.pods.as_ref().map_err(String::clone)? {
            let mut facts = one.pod.clone();
            self.priorities.set(&mut facts, one.priority_class.as_deref())?;
            for _ in 0..one.count {
                let mut facts = facts.clone();
                // No name of a pod has a slash.
                facts.key.name = format!("{}/{}", facts.key.name, all.len()).into();
                all.push(facts);
            }
        }
        if all.is_empty() { Err("it asks for no pods".to_owned()) } else { Ok(all) }
    }

    /// Returns the pods that should be one pending job; `None` for a gang whose real pods count.
    ///
    /// # Errors
    /// Why it must wait.
    pub(crate) fn expected_batches(
        &self,
        key: &GangKey,
        stage: Stage,
    ) -> Option<Result<Vec<Vec<ObjectKey>>, String>> {
        match stage {
            Stage::Present => return None,
            Stage::Suspending => return Some(Ok(Vec::new())),
            Stage::Ending => {
                return Some(Err("the pods of its last run have not ended yet".to_owned()));
            }
            Stage::Expecting => {}
        }
        if self.expected_job(key).is_some() {
            return Some(Ok(Vec::new()));
        }
        Some(self.expected_facts(key).and_then(|all| {
            match all.iter().find_map(|facts| facts.not_understood.as_deref()) {
                Some(what) => Err(format!("not supported by this scheduler: {what}")),
                None => Ok(vec![all.into_iter().map(|facts| facts.key).collect()]),
            }
        }))
    }

    fn drop_expected(&mut self, now: Time, key: &GangKey) {
        if let Some(job) = self.expected_job(key) {
            self.end_batch(now, job);
        }
        let Some(gang) = self.gangs.get(key) else { return };
        let expected: Vec<ObjectKey> =
            gang.pods.iter().filter(|pod| self.is_expected(pod)).cloned().collect();
        for pod in expected {
            self.remove_pod(&pod);
        }
    }

    // ---- places ----

    /// Gives up the nodes of expected pods that will not come: the workload is preempted, or still
    /// suspended though no request is on its way.
    fn release_void_places(&mut self, now: Time, key: &GangKey) {
        let Some(job) = self.expected_job(key) else { return };
        let placed = self.batches.get(&job).and_then(|batch| batch.placed.as_ref());
        let is_stopping = placed.is_some_and(|placed| placed.is_stopping);
        let has_request = self.gangs.get(key).is_some_and(|gang| gang.request.is_some());
        let is_suspended = self.groups.workload(key).is_none_or(|workload| workload.is_suspended);
        if is_stopping || (is_suspended && !has_request) {
            self.end_batch(now, job);
        }
    }

    /// Binds the real pods of a workload to the nodes of the expected ones, once all are there. Pods
    /// that need more than their template says are planned anew.
    fn take_places(&mut self, now: Time, key: &GangKey) {
        let Some(job) = self.expected_job(key) else { return };
        let mut arrivals: Vec<PodFacts> = self
            .real_pods(key)
            .filter(|pod| pod.is_waiting())
            .map(|pod| PodFacts::clone(&pod.facts))
            .collect();
        if arrivals.len() < self.batches[&job].pods.len()
            || arrivals.iter().any(|pod| self.devices.awaited(pod).is_some())
        {
            return;
        }
        // One that cannot get its devices suits no place.
        arrivals = arrivals.iter().filter_map(|pod| self.devices.resolve(pod).ok()).collect();
        self.describe_nodes();
        arrivals.sort_by(|a, b| (a.index, &a.created, &a.key).cmp(&(b.index, &b.created, &b.key)));
        let planned = self.planned(job);
        let Some(pods) = self.matched(job, &planned, arrivals.iter().collect()) else {
            self.end_batch(now, job);
            return;
        };
        let Some(batch) = self.batches.get_mut(&job) else { return };
        let expected = std::mem::replace(&mut batch.pods, pods);
        for pod in expected {
            self.remove_pod(&pod);
        }
        self.send_bindings(job);
    }

    /// Returns what was planned for the expected pods of a job, by rank.
    fn planned(&mut self, job: JobId) -> Vec<Take> {
        let expected = self.batches[&job].pods.iter().filter_map(|pod| self.pods.get(pod));
        let of = |pod: &Pod| {
            let resolved = self.devices.resolve(&pod.facts);
            job::take(resolved.as_ref().unwrap_or(&pod.facts), &self.apart)
        };
        expected.map(of).collect()
    }

    /// Returns a real pod for each rank of a job, of those that need no more than was planned.
    fn matched(
        &self,
        job: JobId,
        planned: &[Take],
        arrivals: VecDeque<&PodFacts>,
    ) -> Option<Vec<ObjectKey>> {
        let batch = &self.batches[&job];
        let placed = batch.placed.as_ref()?;
        let mut free: Vec<(Take, VecDeque<&PodFacts>)> = Vec::new();
        for facts in arrivals {
            let demand = job::take(facts, &self.apart);
            match free.iter_mut().find(|(known, _)| *known == demand) {
                Some((_, alike)) => alike.push_back(facts),
                None => free.push((demand, VecDeque::from([facts]))),
            }
        }
        let mut pods = Vec::new();
        for (planned, Place { node, .. }) in planned.iter().zip(&placed.places) {
            let suits = |facts: &PodFacts| {
                facts.not_understood.is_none()
                    && self.share_obstacle(facts).is_none()
                    && self.volumes.rule(facts).is_ok_and(|rule| self.nodes.suits(node, &rule))
            };
            let fits = |(demand, alike): &&mut (Take, VecDeque<&PodFacts>)| {
                demand.fits_in(planned) && alike.front().is_some_and(|facts| suits(facts))
            };
            // Those that are planned exactly so come first: larger places are left to larger pods.
            let exact =
                free.iter().position(|(demand, alike)| demand == planned && !alike.is_empty());
            let found = match exact.and_then(|at| free.get_mut(at)).filter(|one| fits(one)) {
                Some(found) => Some(found),
                None => free.iter_mut().find(|one| fits(one)),
            };
            pods.push(found?.1.pop_front()?.key.clone());
        }
        Some(pods)
    }

    /// Binds the pods of a placed job.
    pub(crate) fn send_bindings(&mut self, job: JobId) {
        let Some(batch) = self.batches.get(&job) else { return };
        let Some(placed) = &batch.placed else { return };
        let mut is_refused = false;
        for (key, place) in batch.pods.iter().zip(&placed.places) {
            let node = &place.node;
            let gpu = self.nodes.number_of_shared(place);
            let Some(pod) = self.pods.get_mut(key) else { continue };
            pod.shared_gpu = gpu;
            pod.job = Some(job);
            pod.binding = Some(node.clone());
            let id = PodId { key: key.clone(), uid: Arc::clone(&pod.facts.uid) };
            match self.devices.choose(&pod.facts, node) {
                Ok(claims) => {
                    self.actions.push(Action::Bind { pod: id, node: node.clone(), claims, gpu });
                }
                // Another scheduler was faster, as where the API server refuses.
                Err(error) => {
                    is_refused = true;
                    self.inbox.push(Observation::BindRefused(id, error.into()));
                }
            }
        }
        if is_refused {
            let gang = batch.gang.clone();
            self.wake_at(self.last, &gang);
        }
        for pod in self.batches[&job].pods.clone() {
            self.note_sharer(&pod);
        }
    }

    // ---- requests ----

    pub(crate) fn workload_id(&self, key: &GangKey) -> Option<WorkloadId> {
        let facts = self.groups.workload_facts(key)?;
        Some(WorkloadId { kind: facts.kind, key: facts.key.clone(), uid: Arc::clone(&facts.uid) })
    }

    /// Keeps the nodes of a placed job for the pods that its workload will have, and resumes it.
    pub(crate) fn keep_places(&mut self, job: JobId) {
        let Some(batch) = self.batches.get(&job) else { return };
        let Some(placed) = &batch.placed else { return };
        let key = batch.gang.clone();
        for (pod, place) in batch.pods.iter().zip(&placed.places) {
            if let Some(pod) = self.pods.get_mut(pod) {
                pod.job = Some(job);
                pod.binding = Some(place.node.clone());
            }
        }
        let Some(facts) = self.groups.workload_facts(&key) else { return };
        let generation = facts.generation;
        let is_suspended = facts.workload.as_ref().is_some_and(|workload| workload.is_suspended);
        let Some(workload) = self.workload_id(&key) else { return };
        let Some(gang) = self.gangs.get_mut(&key) else { return };
        if is_suspended && gang.request.is_none() {
            gang.request = Some(Request::Resume);
            self.actions.push(Action::Resume { workload, generation });
        }
    }

    /// Suspends the workload of a gang, which ends its pods; after the answer to a request that is on
    /// its way.
    pub(crate) fn suspend(&mut self, key: &GangKey, reason: &str) {
        let Some(workload) = self.workload_id(key) else { return };
        let Some(gang) = self.gangs.get_mut(key) else { return };
        if gang.request.is_some() {
            gang.suspend_next = Some(reason.into());
            return;
        }
        gang.request = Some(Request::Suspend);
        gang.suspend_next = None;
        gang.arrivals = None;
        for pod in &gang.pods {
            if let Some(pod) = self.pods.get_mut(pod) {
                pod.is_evicted = true;
            }
        }
        self.counts.suspended += 1;
        self.actions.push(Action::Suspend { workload, reason: reason.into() });
    }

    /// Takes the answer to a request.
    pub(crate) fn note_answer(&mut self, now: Time, workload: &WorkloadId, is_refused: bool) {
        let key = GangKey::Group(workload.gang());
        let Some(gang) = self.gangs.get_mut(&key) else { return };
        let request = gang.request.take();
        let next = gang.suspend_next.take();
        if request == Some(Request::Resume) {
            if is_refused {
                gang.note_refusal(now, None);
            } else {
                self.counts.resumed += 1;
            }
        }
        let is_suspended = self.groups.workload(&key).is_none_or(|one| one.is_suspended);
        if let Some(reason) = next
            && !is_suspended
        {
            self.suspend(&key, &reason);
        }
        self.mark(key);
    }

    /// Suspends a workload again that was resumed, and whose pods do not come, or find no nodes.
    fn limit_wait(&mut self, now: Time, key: &GangKey) {
        let waits = self.awaited_pods(key);
        let Some(gang) = self.gangs.get_mut(key) else { return };
        let Some((there, size)) = waits.filter(|_| gang.request.is_none()) else {
            gang.arrivals = None;
            return;
        };
        let known = gang.arrivals.filter(|(_, before)| *before >= there);
        let (since, _) = *gang.arrivals.insert(known.unwrap_or((now, there)));
        if now < since + ARRIVE_WITHIN {
            self.wake_at(since + ARRIVE_WITHIN, key);
            return;
        }
        // Its pods may be bound already: the answers are awaited, and looked at then.
        if self.real_pods(key).any(|pod| pod.binding.is_some()) {
            return;
        }
        let reason = if there < size {
            format!("no pod was created for {ARRIVE_WITHIN}; {there} of its {size} exist")
        } else {
            format!("its pods found no nodes within {ARRIVE_WITHIN}")
        };
        if let Some(gang) = self.gangs.get_mut(key) {
            gang.note_late(now, &reason);
        }
        self.suspend(key, &reason);
        self.drop_expected(now, key);
    }

    /// Returns how many pods of a resumed workload are there, and how many it should have; `None`
    /// unless all of them are awaited.
    fn awaited_pods(&self, key: &GangKey) -> Option<(usize, usize)> {
        let workload = self.groups.workload(key).filter(|workload| !workload.is_suspended)?;
        let real = || self.real_pods(key);
        let is_bound = real().any(|pod| pod.is_running() && pod.facts.node.is_some());
        // Once a pod has run, the controller may have reasons of its own to wait.
        let has_run = real().any(Pod::has_ended) && self.expected_job(key).is_none();
        if is_bound || has_run {
            return None;
        }
        let there = real().filter(|pod| !pod.has_ended() && !pod.facts.is_terminating).count();
        Some((there, workload.size().unwrap_or_default()))
    }
}
