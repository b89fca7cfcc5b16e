//! Objects that workloads wait for: which gangs wait for an object, and what became of objects that are
//! gone. An object may be deleted the moment it ends.

use std::collections::{BTreeMap, BTreeSet};

use muster_kubernetes::group::{GangRef, GroupFacts, GroupKind, Progress};
use muster_kubernetes::object::ObjectKey;

/// Objects that are gone and remembered, the last ones. What became of an object is noted on those that
/// wait for it within a step; this is for reports that arrive in another order than they were made.
const MOST_GONE: usize = 4_096;

/// Kind and name of an object.
type Object = (GroupKind, ObjectKey);

/// Gangs by the objects that they wait for, and the stages of objects that are gone.
#[derive(Debug, Default)]
pub(crate) struct Awaited {
    waiting: BTreeMap<Object, BTreeSet<GangRef>>,
    gone: BTreeMap<Object, (u64, Progress)>,
    /// Objects that are gone in the order in which they went.
    order: BTreeMap<u64, Object>,
    next: u64,
}

impl Awaited {
    /// Returns the gangs that wait for an object.
    pub(crate) fn waiting_for(&self, kind: GroupKind, key: &ObjectKey) -> Vec<GangRef> {
        let gangs = self.waiting.get(&(kind, key.clone()));
        gangs.into_iter().flatten().cloned().collect()
    }

    /// Returns what became of an object that is gone; `None` if it is not remembered.
    pub(crate) fn gone(&self, object: &Object) -> Option<Progress> {
        self.gone.get(object).map(|(_, progress)| *progress)
    }

    /// Notes that an object is there, and which others it waits for.
    pub(crate) fn note_there(&mut self, facts: &GroupFacts) {
        self.forget_gone(&(facts.kind, facts.key.clone()));
        for object in awaited_by(facts) {
            self.waiting.entry(object).or_default().insert(gang_of(facts));
        }
    }

    /// Notes that this state of an object is over.
    pub(crate) fn note_over(&mut self, facts: &GroupFacts) {
        let gang = gang_of(facts);
        for object in awaited_by(facts) {
            let Some(gangs) = self.waiting.get_mut(&object) else { continue };
            gangs.remove(&gang);
            if gangs.is_empty() {
                self.waiting.remove(&object);
            }
        }
    }

    /// Notes that an object is gone.
    pub(crate) fn note_gone(&mut self, facts: &GroupFacts) {
        self.note_over(facts);
        let object = (facts.kind, facts.key.clone());
        self.forget_gone(&object);
        let progress = if facts.progress.has_ended() { facts.progress } else { Progress::Deleted };
        self.next += 1;
        self.order.insert(self.next, object.clone());
        self.gone.insert(object, (self.next, progress));
        if self.order.len() > MOST_GONE
            && let Some((_, oldest)) = self.order.pop_first()
        {
            self.gone.remove(&oldest);
        }
    }

    fn forget_gone(&mut self, object: &Object) {
        if let Some((at, _)) = self.gone.remove(object) {
            self.order.remove(&at);
        }
    }
}

fn gang_of(facts: &GroupFacts) -> GangRef {
    GangRef::of_object(facts.kind, facts.key.clone())
}

/// Returns the objects that a workload waits for.
fn awaited_by(facts: &GroupFacts) -> impl Iterator<Item = Object> + '_ {
    let start = facts.workload.as_ref().and_then(|workload| workload.start.as_ref().ok());
    let namespace = &facts.key.namespace;
    let after = start.into_iter().flat_map(|start| &start.after);
    after.map(|one| (one.object.kind, ObjectKey::new(namespace, &one.object.name)))
}

#[cfg(test)]
mod tests {
    use muster_kubernetes::group::GroupText;
    use serde_json::json;

    use super::*;

    fn object(name: &str, end: &str) -> GroupFacts {
        let object = json!({
            "metadata": {"name": name, "namespace": "team"},
            "status": {"conditions": [{"type": end, "status": "True"}]},
        });
        serde_json::from_value::<GroupText>(object).unwrap().facts(GroupKind::Job)
    }

    #[test]
    fn the_last_objects_that_went_are_remembered() {
        let mut awaited = Awaited::default();
        let stage = |awaited: &Awaited, name: &str| {
            awaited.gone(&(GroupKind::Job, ObjectKey::new("team", name)))
        };
        awaited.note_gone(&object("a", "Complete"));
        awaited.note_gone(&object("b", "Failed"));
        awaited.note_gone(&object("c", ""));
        assert_eq!(
            ["a", "b", "c", "d"].map(|name| stage(&awaited, name)),
            [Some(Progress::Succeeded), Some(Progress::Failed), Some(Progress::Deleted), None]
        );
        // Another one of its name, which goes, too: now it is the youngest.
        awaited.note_there(&object("a", ""));
        assert_eq!(stage(&awaited, "a"), None);
        awaited.note_gone(&object("a", "Failed"));
        for at in 1..MOST_GONE {
            awaited.note_gone(&object(&format!("x{at}"), ""));
        }
        assert_eq!(
            ["a", "b", "c"].map(|name| stage(&awaited, name)),
            [Some(Progress::Failed), None, None]
        );
        assert_eq!((awaited.gone.len(), awaited.order.len()), (MOST_GONE, MOST_GONE));
    }
}
