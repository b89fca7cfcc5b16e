//! Why pods wait, told to users: at most a few explanations a second, each again only when its text
//! has changed.

use std::collections::BTreeMap;
use std::sync::Arc;

use muster_engine::EventRefusal;
use muster_kubernetes::device;
use muster_kubernetes::names::PODS;
use muster_kubernetes::object::ObjectKey;
use muster_model::reason::Limiting;
use muster_model::{Reason, Span, Time};
use muster_report::{RenderContext, Words, explain, reason};

use crate::apart::APART;
use crate::gang::{Explained, GangKey, Pod};
use crate::job::PORT;
use crate::observation::{Action, PodId, WorkloadId};
use crate::rules::RuleId;
use crate::scheduler::Scheduler;

/// Wait before the first explanation: most pods start sooner, and need none.
const FIRST_AFTER: Span = Span(500);
/// Time between two explanations of a gang; in between the old one stands.
const AGAIN_AFTER: Span = Span::from_secs(10);
/// Time between two rounds of explanations, and most gangs in a round: an explanation plans anew,
/// which takes up to some milliseconds in a large cluster.
const ROUND: Span = Span(250);
const PER_ROUND: usize = 8;

impl Scheduler {
    /// Plans the explanation of a gang of which a pod waits.
    pub(crate) fn schedule_explanation(&mut self, now: Time, key: &GangKey) {
        let has_workload = self.groups.workload(key).is_some();
        let Some(gang) = self.gangs.get_mut(key) else { return };
        let pods = &self.pods;
        let is_waiting = |pod: &ObjectKey| pods.get(pod).is_some_and(Pod::is_waiting);
        let is_held = has_workload && gang.hold.is_some();
        if !is_held && !gang.pods.iter().any(is_waiting) {
            gang.explained = None;
            self.to_explain.remove(key);
            return;
        }
        // What keeps a gang from the engine changes only with its objects, so it is told at once.
        let at = if gang.hold.is_some() || gang.explained.is_none() {
            now + FIRST_AFTER
        } else {
            now + AGAIN_AFTER
        };
        self.to_explain.schedule(key, at);
    }

    /// Adds the explanations that are due.
    pub(crate) fn explain_pending(&mut self, now: Time) {
        if now < self.next_explanations {
            return;
        }
        let due = self.to_explain.take_due(now, PER_ROUND);
        if !due.is_empty() {
            self.next_explanations = now + ROUND;
        }
        for key in due {
            self.explain_gang(now, &key);
        }
    }

    fn explain_gang(&mut self, now: Time, key: &GangKey) {
        let Some(text) = self.explanation(now, key) else { return };
        let Some(gang) = self.gangs.get(key) else { return };
        let pods = gang.pods.iter().filter_map(|pod| Some((pod, self.pods.get(pod)?)));
        let (expected, real): (Vec<_>, Vec<_>) =
            pods.filter(|(_, pod)| pod.is_waiting()).partition(|(_, pod)| pod.is_expected);
        let has_workload = gang.hold.is_some() || !expected.is_empty();
        let workload = self.workload_id(key).filter(|_| has_workload);
        if real.is_empty() && workload.is_none() {
            return;
        }
        let before = gang.explained.as_ref().filter(|reported| reported.text == text);
        let is_reported =
            |pod: &ObjectKey| before.is_some_and(|reported| reported.pods.contains(pod));
        let reported: Vec<PodId> = real
            .iter()
            .filter(|(key, _)| !is_reported(key))
            .map(|(key, pod)| PodId { key: (*key).clone(), uid: Arc::clone(&pod.facts.uid) })
            .collect();
        let explained = Explained {
            text: Arc::clone(&text),
            pods: real.into_iter().map(|(key, _)| key.clone()).collect(),
            has_workload: workload.is_some(),
        };
        if let Some(workload) =
            workload.filter(|_| before.is_none_or(|reported| !reported.has_workload))
        {
            self.actions.push(Action::ExplainWorkload { workload, text: Arc::clone(&text) });
        }
        if !reported.is_empty() {
            self.actions.push(Action::Explain { pods: reported, text });
        }
        self.to_explain.schedule(key, now + AGAIN_AFTER);
        if let Some(gang) = self.gangs.get_mut(key) {
            gang.explained = Some(explained);
        }
    }

    /// Has a pod told again with the next explanation of its gang.
    pub(crate) fn note_untold(&mut self, id: &PodId) {
        let Some(pod) = self.pods.get(&id.key).filter(|pod| pod.facts.uid == id.uid) else {
            return;
        };
        let gang = self.groups.gang_of(&pod.facts);
        if let Some(explained) = self.gangs.get_mut(&gang).and_then(|gang| gang.explained.as_mut())
        {
            explained.pods.remove(&id.key);
        }
    }

    /// Has a workload told again with the next explanation of its gang.
    pub(crate) fn note_untold_workload(&mut self, workload: &WorkloadId) {
        let key = GangKey::Group(workload.gang());
        if let Some(explained) = self.gangs.get_mut(&key).and_then(|gang| gang.explained.as_mut()) {
            explained.has_workload = false;
        }
    }

    /// Returns why a gang waits, as one sentence; `None` if it does not.
    pub(crate) fn explanation(&mut self, now: Time, key: &GangKey) -> Option<Arc<str>> {
        let gang = self.gangs.get(key)?;
        if let Some(hold) = &gang.hold {
            return Some(Arc::clone(hold));
        }
        let batches = &self.batches;
        let pending = gang
            .jobs
            .iter()
            .copied()
            .find(|job| batches.get(job).is_some_and(|batch| batch.placed.is_none()))?;
        let explanation = self.engine_explanation(now, key, pending)?;
        let names = self.names_in(&explanation);
        let context = RenderContext::plain().at(now).in_words(Words::Pods(&names));
        Some(explain::of_pods(&explanation, context).into())
    }

    /// Returns a refusal of the engine as text for users.
    pub(crate) fn refusal_text(&self, now: Time, refusal: &EventRefusal) -> String {
        let names = BTreeMap::new();
        let context = RenderContext::plain().at(now).in_words(Words::Pods(&names));
        let text = |given: &Reason| reason::short(given, context);
        match refusal {
            EventRefusal::NeverStarts(given) | EventRefusal::TooManyPending(given) => {
                text(&in_words_of_pods(given.clone()))
            }
            EventRefusal::UnknownReservation(name) => match self.reservations.defect(name) {
                Some(defect) => format!("the reservation {name} is not in force: {defect}"),
                None => refusal.to_string(),
            },
            EventRefusal::ReservationNotAllowed(name) => {
                format!("the reservation {name} is for other namespaces and queues")
            }
            other => other.to_string(),
        }
    }
}

/// Replaces resources that only the engine's jobs have, such as host ports, by words for users.
pub(crate) fn in_words_of_pods(mut reason: Reason) -> Reason {
    if let Reason::Capacity(gap) | Reason::NeverFits(gap) = &mut reason
        && let Limiting::Extra { name, .. } = &mut gap.limiting
    {
        if RuleId::is_key(name) {
            gap.limiting = Limiting::Constraint;
        } else if **name == *PODS {
            *name = "pod slot".into();
        } else if let Some(port) = name.strip_prefix(PORT) {
            *name = format!("host port {port}").into();
        } else if let Some(device) = name.strip_prefix(device::PREFIX) {
            *name = device.into();
        } else if name.starts_with(APART) && gap.tasks_placeable == 0 {
            let name = "place that pod anti-affinity allows".into();
            gap.limiting = Limiting::Extra { name, asked: 1, free: 0 };
        } else if name.starts_with(APART) {
            gap.limiting = Limiting::Nodes;
        }
    }
    reason
}
