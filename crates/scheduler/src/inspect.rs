//! Answers to a user who asks about one pod or gang object: the engine's explanation of the job that is
//! made of it, and what its pods do. Nothing is changed.

use std::collections::{BTreeMap, BTreeSet};

use muster_kubernetes::group::{GangRef, GroupKind};
use muster_kubernetes::instant;
use muster_kubernetes::names;
use muster_kubernetes::object::ObjectKey;
use muster_model::view::{Explanation, GangPods, GangSource, GangView, JobState};
use muster_model::{ElementId, JobId, Reason, Time};

use crate::gang::{Gang, GangKey, Pod};
use crate::scheduler::Scheduler;

/// Code of the condition by which pods say that they wait.
const UNSCHEDULABLE: &str = "Unschedulable";

/// Object that a user asks about.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Subject {
    /// One pod, whose gang is explained.
    Pod(ObjectKey),
    /// A gang object, or the gang of a label.
    Group(GroupKind, ObjectKey),
}

impl Subject {
    /// Returns namespace and name.
    #[must_use]
    pub fn key(&self) -> &ObjectKey {
        match self {
            Subject::Pod(key) | Subject::Group(_, key) => key,
        }
    }

    /// Returns the object as kubectl writes it: `pod/train-0`, `job/train`.
    #[must_use]
    pub fn text(&self) -> String {
        let kind = match self {
            Subject::Pod(_) => "pod".to_owned(),
            Subject::Group(kind, _) => kind.word(),
        };
        format!("{kind}/{}", self.key().name)
    }
}

impl Scheduler {
    /// Explains the gang of a pod or object, or one of the gangs of an object that has several: the
    /// first that waits. `None` if no job is made of it: its pods are of another scheduler, have ended,
    /// or do not exist. Call it after [`Scheduler::step`].
    pub fn inspect(&mut self, now: Time, subject: &Subject) -> Option<(Explanation, GangView)> {
        let now = now.max(self.last);
        let key = self.gang_of(subject)?;
        let gang = self.gangs.get(&key)?;
        let job = self.job_of(subject, gang);
        let view = self.gang_view(subject, &key);
        let waits = view.pods.waiting + view.pods.expected > 0;
        let hold = gang.hold.clone().filter(|_| waits);
        let (explanation, notes) = match (hold, job) {
            (Some(hold), None) => (self.blank(&key, Some(hold.to_string())), Vec::new()),
            (hold, Some(job)) => {
                let (explanation, mut notes) = self.explain_job(now, &key, job)?;
                notes.extend(hold.map(|hold| format!("other pods of it wait: {hold}")));
                (explanation, notes)
            }
            (None, None) => return None,
        };
        let jobs = self.names_in(&explanation);
        Some((explanation, GangView { jobs, notes, ..view }))
    }

    fn gang_of(&self, subject: &Subject) -> Option<GangKey> {
        match subject {
            Subject::Pod(key) => {
                let pod = self.pods.get(key).filter(|pod| pod.facts.is_ours)?;
                Some(self.groups.gang_of(&pod.facts))
            }
            Subject::Group(kind, key) => {
                let object = GangRef::of_object(*kind, key.clone());
                let parts = self.parts_of(&object);
                let members = parts.iter().flat_map(|part| self.members_of(part));
                let mut keys: BTreeSet<GangKey> =
                    members.map(|pod| self.groups.gang_of(&pod.facts)).collect();
                keys.insert(GangKey::Group(object));
                keys.retain(|key| self.gangs.contains_key(key));
                let waits = |key: &GangKey| self.pods_of(key).any(lacks_node);
                keys.into_iter().min_by_key(|key| !waits(key))
            }
        }
    }

    /// Returns the job of a pod; of a gang the pending one, if there is one.
    fn job_of(&self, subject: &Subject, gang: &Gang) -> Option<JobId> {
        if let Subject::Pod(key) = subject {
            return self.pods.get(key)?.job;
        }
        let waits = |job: &JobId| {
            let pods = self.batches.get(job).into_iter().flat_map(|batch| &batch.pods);
            pods.filter_map(|pod| self.pods.get(pod)).any(lacks_node)
        };
        gang.jobs.iter().copied().min_by_key(|job| !waits(job))
    }

    /// Explains a job of a gang; returns remarks, too.
    fn explain_job(
        &mut self,
        now: Time,
        key: &GangKey,
        job: JobId,
    ) -> Option<(Explanation, Vec<String>)> {
        let batch = self.batches.get(&job)?;
        let is_placed = batch.placed.is_some();
        let lacking =
            batch.pods.iter().filter_map(|pod| self.pods.get(pod)).filter(|pod| lacks_node(pod));
        if is_placed && lacking.count() > 0 {
            return Some((self.blank(key, None), self.arrival(key).into_iter().collect()));
        }
        let mut explanation = self.engine_explanation(now, key, job)?;
        // A process that lists the cluster does not know since when a gang is first in its queue.
        explanation.patience = None;
        if explanation.state == JobState::Starting {
            explanation.state = JobState::Running;
        }
        Some((explanation, Vec::new()))
    }

    /// Returns how many pods of a workload exist that Muster has started.
    fn arrival(&self, key: &GangKey) -> Option<String> {
        let workload = self.groups.workload(key).filter(|workload| !workload.is_suspended)?;
        let real = self.pods_of(key).filter(|pod| !pod.is_expected && !pod.has_ended());
        let there = real.count();
        let size = workload.size()?;
        Some(format!("it is no longer suspended; {there} of its {size} pods exist"))
    }

    /// Returns an explanation without the engine: of a gang that starts at once, or that
    /// waits for a reason of its own.
    fn blank(&self, key: &GangKey, hold: Option<String>) -> Explanation {
        let job = ElementId::single(JobId(0));
        let reason = |message| Reason::Native {
            code: UNSCHEDULABLE.to_owned(),
            message,
            evidence: Vec::new(),
        };
        Explanation {
            reasons: hold.into_iter().map(reason).collect(),
            ..Explanation::blank(job, key.to_string(), JobState::Pending, "".into())
        }
    }

    fn gang_view(&self, subject: &Subject, key: &GangKey) -> GangView {
        let mut pods = GangPods::default();
        for pod in self.pods_of(key) {
            let count = match pod {
                pod if pod.is_expected => &mut pods.expected,
                pod if pod.has_ended() => &mut pods.ended,
                pod if pod.facts.node.is_some() => &mut pods.running,
                _ => &mut pods.waiting,
            };
            *count += 1;
        }
        let ended = self.groups.succeeded(key, self.pods_of(key));
        pods.ended = pods.ended.max(u32::try_from(ended).unwrap_or(u32::MAX));
        let bound = self.pods_of(key).filter(|pod| !pod.has_ended());
        let since = bound.filter_map(|pod| pod.facts.bound_at.as_ref()).min();
        GangView {
            object: subject.text(),
            gang: self.text_of(key),
            namespace: subject.key().namespace.to_string(),
            scheduler: names::SCHEDULER.to_owned(),
            source: GangSource::Plan,
            pods,
            since: since.and_then(|since| instant::parse(since)),
            missing_rules: Vec::new(),
            notes: Vec::new(),
            jobs: BTreeMap::new(),
        }
    }

    /// Returns a gang as kubectl writes its object.
    fn text_of(&self, key: &GangKey) -> String {
        let GangKey::Group(named) = key else { return format!("pod/{key}") };
        let kind = self.groups.workload_facts(key).map_or(named.kind, |facts| facts.kind);
        let part = match &*named.part {
            "" => String::new(),
            part => format!(" group {part}"),
        };
        format!("{}/{key}{part}", kind.word())
    }

    fn pods_of(&self, key: &GangKey) -> impl Iterator<Item = &Pod> {
        let pods = self.gangs.get(key).into_iter().flat_map(|gang| &gang.pods);
        pods.filter_map(|pod| self.pods.get(pod))
    }

    /// Returns namespace and name of the gangs that an explanation names by their jobs.
    pub(crate) fn names_in(&self, explanation: &Explanation) -> BTreeMap<JobId, String> {
        let name = |job: JobId| {
            let gang = &self.batches.get(&job)?.gang;
            let namespace = match gang {
                GangKey::Group(named) => &named.object.namespace,
                GangKey::Pod(pod) => &pod.namespace,
            };
            Some((job, format!("{namespace}/{gang}")))
        };
        jobs_in(explanation).into_iter().filter_map(name).collect()
    }
}

/// Returns true for a pod that needs a node and is not bound to one, whatever is planned for it.
fn lacks_node(pod: &Pod) -> bool {
    let facts = &pod.facts;
    facts.node.is_none() && !pod.has_ended() && !facts.is_terminating && !facts.is_gated
}

/// Returns the jobs that an explanation names.
fn jobs_in(explanation: &Explanation) -> BTreeSet<JobId> {
    let of_reason = |reason: &Reason| match reason {
        Reason::Reserved { element, .. }
        | Reason::HeadReserved { element, .. }
        | Reason::Behind { element } => Some(element.job),
        Reason::Dependency { on, .. } => Some(*on),
        _ => None,
    };
    let moved = explanation.moves.iter().flat_map(|moves| &moves.jobs).map(|one| one.element);
    let next = explanation.placement.iter().filter_map(|placement| placement.next.as_ref());
    let elements = explanation
        .holders
        .iter()
        .map(|one| one.element)
        .chain(explanation.evictions.iter().map(|one| one.element))
        .chain(explanation.not_preempted.iter().map(|one| one.element))
        .chain(next.map(|next| next.element))
        .chain(moved);
    let reasons = explanation.reasons.iter().filter_map(of_reason);
    elements.map(|element| element.job).chain(reasons).collect()
}
