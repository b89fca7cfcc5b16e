//! Counts pods for the terms by which others keep apart from them, as pods come and go.

use std::sync::Arc;

use muster_kubernetes::object::ObjectKey;

use crate::apart::{is_only_selected, resource};
use crate::scheduler::Scheduler;

impl Scheduler {
    /// Records what a pod keeps away from. The first carrier of a term changes what the pods take that
    /// it selects.
    pub(crate) fn note_carrier(&mut self, key: &ObjectKey) {
        let Some(pod) = self.pods.get(key) else { return };
        for term in self.apart.insert(&pod.facts) {
            let pods = self.pods.values();
            let selected: Vec<ObjectKey> = pods
                .filter(|pod| !pod.has_ended() && is_only_selected(&term, &pod.facts))
                .map(|pod| pod.facts.key.clone())
                .collect();
            for key in &selected {
                self.count_selected(key, &resource(&term));
            }
        }
    }

    /// Counts a pod for a term that it did not count for until now.
    fn count_selected(&mut self, key: &ObjectKey, resource: &Arc<str>) {
        let Some(pod) = self.pods.get(key) else { return };
        if pod.foreign_on.is_some() {
            return self.count_as_foreign(key);
        }
        match pod.place().cloned() {
            // Its job in the engine was made without the term, and stays as it is.
            Some(node) if pod.job.is_some() => self.nodes.add_selected(&node, key, resource),
            _ => {
                let gang = self.groups.gang_of(&pod.facts);
                if pod.facts.is_ours {
                    self.mark(gang);
                }
            }
        }
    }

    /// Forgets what a pod keeps away from, and what it counts for beside its job.
    pub(crate) fn forget_carrier(&mut self, key: &ObjectKey) {
        let Some(pod) = self.pods.get(key) else { return };
        self.apart.remove(&pod.facts);
        if let Some(node) = pod.place() {
            self.nodes.remove_selected(node, key);
        }
    }
}
