//! Gangs: the pods that start together, and what keeps them from starting.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use crate::awaited::Awaited;
use muster_kubernetes::group::workload::Workload;
use muster_kubernetes::group::{GangRef, GroupFacts, GroupKind, GroupSize, ObjectRef, Progress};
use muster_kubernetes::object::ObjectKey;
use muster_kubernetes::pod::{PodFacts, PodPhase, Wishes};
use muster_model::{JobId, NodeName, Reason, Span, Time};

/// Identifies a gang: that of an object or annotation, or a single pod.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum GangKey {
    /// All pods that name this gang.
    Group(GangRef),
    /// A pod of its own.
    Pod(ObjectKey),
}

impl fmt::Display for GangKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            GangKey::Group(group) => write!(f, "{}", group.object.name),
            GangKey::Pod(pod) => write!(f, "{}", pod.name),
        }
    }
}

/// Pod, and what became of it.
#[derive(Debug)]
pub(crate) struct Pod {
    /// Boxed, since a map also takes memory for entries that it does not have yet.
    pub(crate) facts: Box<PodFacts>,
    /// Job of the engine that the pod is a task of.
    pub(crate) job: Option<JobId>,
    /// Node of a binding that the API server has not answered yet, or that is kept for an expected
    /// pod.
    pub(crate) binding: Option<NodeName>,
    /// Number of the GPU of which it gets a share with that binding; it stays after the binding.
    pub(crate) shared_gpu: Option<usize>,
    /// Node and number of the GPU for which the table of nodes lists the pod as a sharer.
    pub(crate) sharing: Option<(NodeName, usize)>,
    /// Node on which the pod counts as use from outside.
    pub(crate) foreign_on: Option<NodeName>,
    /// True once its deletion was requested here.
    pub(crate) is_evicted: bool,
    /// True for a pod that does not exist yet: its workload is suspended, or was resumed just now.
    pub(crate) is_expected: bool,
}

impl Pod {
    pub(crate) fn new(facts: PodFacts) -> Self {
        Self {
            facts: Box::new(facts),
            job: None,
            binding: None,
            shared_gpu: None,
            sharing: None,
            foreign_on: None,
            is_evicted: false,
            is_expected: false,
        }
    }

    /// Returns the node that the pod runs on, or is being bound to.
    pub(crate) fn place(&self) -> Option<&NodeName> {
        self.facts.node.as_ref().or(self.binding.as_ref())
    }

    /// Returns the number of the GPU of which the pod has a share, or gets one.
    pub(crate) fn shared_gpu(&self) -> Option<usize> {
        self.facts.shared_gpu.or(self.shared_gpu)
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.facts.phase != PodPhase::Active
    }

    /// Returns true if the pod needs a node.
    pub(crate) fn is_waiting(&self) -> bool {
        self.place().is_none()
            && !self.has_ended()
            && !self.facts.is_terminating
            && !self.facts.is_gated
    }

    /// Returns true if the pod runs, and will go on.
    pub(crate) fn is_running(&self) -> bool {
        self.place().is_some()
            && !self.has_ended()
            && !self.facts.is_terminating
            && !self.is_evicted
    }
}

/// Request for the workload of a gang.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Request {
    /// Its controller may make pods.
    Resume,
    /// Its controller must end its pods.
    Suspend,
}

/// Explanation that users were given last.
#[derive(Debug)]
pub(crate) struct Explained {
    pub(crate) text: Arc<str>,
    /// Pods that it was told of.
    pub(crate) pods: BTreeSet<ObjectKey>,
    /// True if the workload was told too.
    pub(crate) has_workload: bool,
}

/// A gang: its pods and jobs.
#[derive(Debug, Default)]
pub(crate) struct Gang {
    pub(crate) pods: BTreeSet<ObjectKey>,
    pub(crate) jobs: BTreeSet<JobId>,
    /// Reason for which its waiting pods are not even submitted to the engine.
    pub(crate) hold: Option<Arc<str>>,
    /// Reasons beside a user's hold for which its pending job is held in the engine.
    pub(crate) waits: Vec<Reason>,
    /// Id of its workload, the stages of awaited objects that are noted on it, and those that were last
    /// requested to be; `None` while both are equal.
    pub(crate) noting: Option<[Arc<str>; 3]>,
    /// Refused bindings since the last whole start.
    pub(crate) failures: u32,
    /// Earliest instant of the next start after a refused binding.
    pub(crate) retry_at: Option<Time>,
    /// Reason of the wait until then, as users read it.
    pub(crate) retry_reason: Option<Arc<str>>,
    /// Instant since which only a part of the gang is bound.
    pub(crate) partial_since: Option<Time>,
    pub(crate) explained: Option<Explained>,
    /// Request for its workload that the API server has not answered yet.
    pub(crate) request: Option<Request>,
    /// Reason for which its workload is suspended after that answer.
    pub(crate) suspend_next: Option<Arc<str>>,
    /// Instant of the last arrival at a workload that was resumed, and the number of pods that were
    /// there; `None` when no pod is awaited.
    pub(crate) arrivals: Option<(Time, usize)>,
}

impl Gang {
    /// Longest wait after a refused binding.
    const MAX_RETRY: Span = Span::from_secs(30);

    pub(crate) fn is_unused(&self) -> bool {
        self.pods.is_empty()
            && self.jobs.is_empty()
            && self.request.is_none()
            && self.hold.is_none()
    }

    /// Notes a refused binding; the wait until the next start doubles each time, from one second.
    pub(crate) fn note_refusal(&mut self, now: Time, reason: Option<Arc<str>>) {
        self.retry_reason = reason;
        let wait = Span::from_secs(1 << self.failures.min(5)).min(Self::MAX_RETRY);
        self.failures = self.failures.saturating_add(1);
        self.retry_at = Some(now + wait);
    }

    /// Notes that the pods of its workload did not come; the wait until it is resumed again doubles
    /// each time, from one minute to 32.
    pub(crate) fn note_late(&mut self, now: Time, reason: &str) {
        self.retry_reason = Some(reason.into());
        let wait = Span::from_secs(60 << self.failures.min(5));
        self.failures = self.failures.saturating_add(1);
        self.retry_at = Some(now + wait);
    }
}

/// Gang objects by the gang that they describe.
#[derive(Debug, Default)]
pub(crate) struct Groups {
    all: BTreeMap<(GroupKind, ObjectKey), GroupFacts>,
    /// TrainJobs that Muster starts and stops, with the pods of their JobSets.
    train_jobs: BTreeMap<ObjectKey, GroupFacts>,
    /// RayJobs that Muster starts and stops, by the RayClusters that KubeRay has made for them: one for each start. A RayJob
    /// that is stopped forgets its cluster before the pods have ended.
    ray_jobs: BTreeMap<ObjectKey, ObjectKey>,
    awaited: Awaited,
}

impl Groups {
    /// Records an object; returns true if it changed. A report that is older than the known one
    /// arrives late, and is ignored.
    pub(crate) fn insert(&mut self, facts: GroupFacts) -> bool {
        let key = (facts.kind, facts.key.clone());
        let is_known = self.all.get(&key).is_some_and(|known| {
            *known == facts || (known.uid == facts.uid && facts.generation < known.generation)
        });
        if is_known {
            return false;
        }
        if let Some(old) = self.all.get(&key) {
            self.awaited.note_over(old);
        }
        self.awaited.note_there(&facts);
        if let Some(cluster) = facts.ray_cluster.as_ref().filter(|_| facts.workload.is_some()) {
            self.ray_jobs.insert(ObjectKey::new(&key.1.namespace, cluster), key.1.clone());
        }
        self.all.insert(key.clone(), facts);
        self.join_train_job(&key.1);
        true
    }

    pub(crate) fn remove(&mut self, kind: GroupKind, key: &ObjectKey) -> bool {
        let gone = self.all.remove(&(kind, key.clone()));
        if let Some(facts) = &gone {
            self.awaited.note_gone(facts);
            if kind == GroupKind::RayJob {
                self.ray_jobs.retain(|_, job| job != key);
            }
        }
        self.join_train_job(key);
        gone.is_some()
    }

    /// Returns the gangs that wait for an object.
    pub(crate) fn waiting_for(&self, kind: GroupKind, key: &ObjectKey) -> Vec<GangKey> {
        self.awaited.waiting_for(kind, key).into_iter().map(GangKey::Group).collect()
    }

    /// Returns how far an object is, or was when it went; `None` for one that was never seen.
    pub(crate) fn progress(&self, namespace: &str, object: &ObjectRef) -> Option<Progress> {
        let key = (object.kind, ObjectKey::new(namespace, &object.name));
        let there = self.all.get(&key).map(|facts| facts.progress);
        there.or_else(|| self.awaited.gone(&key))
    }

    /// Joins a TrainJob with the JobSet that the Trainer makes for it.
    fn join_train_job(&mut self, key: &ObjectKey) {
        let train_job = self.all.get(&(GroupKind::TrainJob, key.clone()));
        let Some(mut joined) = train_job.filter(|facts| facts.workload.is_some()).cloned() else {
            self.train_jobs.remove(key);
            return;
        };
        let job_set = self.all.get(&(GroupKind::JobSet, key.clone()));
        if let (Some(workload), Some(pods)) =
            (&mut joined.workload, job_set.and_then(|facts| facts.pods_of_owner.as_ref()))
        {
            workload.pods.clone_from(pods);
        }
        self.train_jobs.insert(key.clone(), joined);
    }

    pub(crate) fn get(&self, gang: &GangRef) -> Option<&GroupFacts> {
        self.all.get(&(gang.kind, gang.object.clone()))
    }

    /// Returns the gang that a pod's gang is a part of: that of a RayJob for its RayCluster, else itself.
    pub(crate) fn whole(&self, gang: &GangRef) -> GangRef {
        let is_cluster = gang.kind == GroupKind::RayCluster;
        match is_cluster.then(|| self.ray_jobs.get(&gang.object)).flatten() {
            Some(job) => GangRef::of_object(GroupKind::RayJob, job.clone()),
            None => gang.clone(),
        }
    }

    /// Returns the gangs that are parts of that of a RayJob.
    pub(crate) fn clusters_of(&self, gang: &GangRef) -> Vec<GangRef> {
        if gang.kind != GroupKind::RayJob {
            return Vec::new();
        }
        let clusters = self.ray_jobs.iter().filter(|(_, job)| **job == gang.object);
        clusters.map(|(name, _)| GangRef::of_object(GroupKind::RayCluster, name.clone())).collect()
    }

    /// Returns the object that Muster starts and stops for this gang.
    pub(crate) fn workload_facts(&self, gang: &GangKey) -> Option<&GroupFacts> {
        let GangKey::Group(named) = gang else { return None };
        let train_job = self.train_jobs.get(&named.object);
        train_job
            .filter(|_| named.kind == GroupKind::JobSet)
            .or_else(|| self.get(named))
            .filter(|facts| facts.workload.is_some())
    }

    pub(crate) fn workload(&self, gang: &GangKey) -> Option<&Workload> {
        self.workload_facts(gang)?.workload.as_ref()
    }

    /// Returns the gangs of all workloads.
    pub(crate) fn with_workload(&self) -> impl Iterator<Item = GangKey> + '_ {
        let all = self.all.values().filter(|facts| facts.workload.is_some());
        all.map(|facts| GangKey::Group(GangRef::of_object(facts.kind, facts.key.clone())))
    }

    /// Returns the gang of a pod: that which it names, unless the pods there are independent.
    pub(crate) fn gang_of(&self, pod: &PodFacts) -> GangKey {
        let alone = || GangKey::Pod(pod.key.clone());
        let Some(named) = &pod.gang else { return alone() };
        // The pods of a workload that Muster resumes start together, and are suspended together.
        let is_independent = self
            .get(named)
            .is_some_and(|facts| facts.size == GroupSize::Independent && facts.workload.is_none());
        if is_independent && pod.wishes.gang_size.is_none() {
            return alone();
        }
        GangKey::Group(self.whole(named))
    }

    /// Returns the terms of a pod, with those of its gang object.
    pub(crate) fn wishes(&self, pod: &PodFacts) -> Wishes {
        let Some(gang) = &pod.gang else { return pod.wishes.clone() };
        let workload = self.workload_facts(&GangKey::Group(self.whole(gang)));
        let objects = self.get(gang).into_iter().chain(workload);
        objects.fold(pod.wishes.clone(), |wishes, object| wishes.or(&object.wishes))
    }

    /// Returns the number of pods of a gang that have succeeded: of those that exist, or as its
    /// controller counts them.
    pub(crate) fn succeeded<'a>(
        &self,
        gang: &GangKey,
        pods: impl Iterator<Item = &'a Pod>,
    ) -> usize {
        let seen = pods.filter(|pod| pod.facts.phase == PodPhase::Succeeded).count();
        let GangKey::Group(named) = gang else { return seen };
        seen.max(self.get(named).map_or(0, |facts| facts.succeeded as usize))
    }

    /// Returns the number of pods without which a gang does not start; 0 for a single pod.
    ///
    /// # Errors
    /// Why it is unknown.
    pub(crate) fn minimum(&self, gang: &GangKey, pods: &[&PodFacts]) -> Result<u32, String> {
        let GangKey::Group(named) = gang else { return Ok(0) };
        let annotated = pods.iter().filter_map(|pod| pod.wishes.gang_size.as_deref()).next();
        if named.kind == GroupKind::Annotated || named.kind == GroupKind::Job {
            match annotated.map(str::parse::<u32>) {
                Some(Ok(pods)) if pods > 0 => return Ok(pods),
                Some(_) => {
                    return Err(format!(
                        "the annotation {} is {:?}, not a number of pods",
                        muster_kubernetes::names::GANG_SIZE,
                        annotated.unwrap_or_default()
                    ));
                }
                None if named.kind == GroupKind::Annotated => {
                    return Err(format!(
                        "the pods of gang {} lack the annotation {}",
                        named.object.name,
                        muster_kubernetes::names::GANG_SIZE
                    ));
                }
                None => {}
            }
        }
        match self.get(named).map(|facts| &facts.size) {
            None => Err(format!("{named} does not exist in namespace {}", named.object.namespace)),
            Some(GroupSize::Independent) => Ok(0),
            Some(GroupSize::Gang(pods)) => Ok(*pods),
            Some(GroupSize::NotUnderstood(what)) => {
                Err(format!("{named} asks for {what}, which is not supported"))
            }
        }
    }
}
