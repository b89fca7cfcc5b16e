//! PodGroups that no pod names: after a while their owner is told, since a name with a mistake in it is
//! seen nowhere else.

use std::sync::Arc;

use muster_kubernetes::group::{GangRef, GroupKind};
use muster_model::{Span, Time};

use crate::gang::GangKey;
use crate::observation::{Action, WorkloadId};
use crate::scheduler::Scheduler;

/// Time within which the pods of a new PodGroup come.
const PODS_WITHIN: Span = Span::from_secs(60);

impl Scheduler {
    /// Plans a look at a PodGroup that was not there before. Those that a process finds at its start may
    /// have had pods.
    pub(crate) fn note_new_group(&mut self, now: Time, gang: &GangRef) {
        let is_pod_group = matches!(
            gang.kind,
            GroupKind::Native | GroupKind::Coscheduling | GroupKind::Volcano | GroupKind::Kai
        );
        if self.is_started && is_pod_group {
            self.empty_groups.insert(gang.clone(), now + PODS_WITHIN);
            self.wake_at(now + PODS_WITHIN, &GangKey::Group(gang.clone()));
        }
    }

    /// Tells the owner of a PodGroup that is due, and that no pod names.
    pub(crate) fn tell_empty_group(&mut self, now: Time, key: &GangKey) {
        let GangKey::Group(gang) = key else { return };
        if self.empty_groups.get(gang).is_none_or(|due| now < *due) {
            return;
        }
        self.empty_groups.remove(gang);
        let Some(facts) = self.groups.get(gang) else { return };
        if self.pods.values().any(|pod| pod.facts.gang.as_ref() == Some(gang)) {
            return;
        }
        let group =
            WorkloadId { kind: facts.kind, key: facts.key.clone(), uid: Arc::clone(&facts.uid) };
        let text = format!("no pod of the namespace named this PodGroup within {PODS_WITHIN}");
        self.actions.push(Action::NoteEmptyGroup { group, text: text.into() });
    }
}
