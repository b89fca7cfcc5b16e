//! Pods that keep apart on nodes. A pod with a required anti-affinity, its carrier here, shares no node
//! with a pod that its term selects, whichever of them comes first, and whether that pod has the term
//! or not.
//!
//! For the engine every node has a resource for each term: a carrier takes all units of it, and a pod
//! that is only selected takes one.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use muster_kubernetes::anti_affinity::selects;
use muster_kubernetes::object::ObjectKey;
use muster_kubernetes::pod::PodFacts;

/// Beginning of the names of these resources.
pub(crate) const APART: &str = "apart/";
/// Units that every node has, more than there are pods on one.
pub(crate) const UNITS: u64 = 1 << 20;

/// Carriers by term, and terms by namespace.
#[derive(Debug, Default)]
pub(crate) struct Apart(BTreeMap<Arc<str>, BTreeMap<Arc<str>, BTreeSet<ObjectKey>>>);

impl Apart {
    /// Returns the units that a pod takes, by resource.
    pub(crate) fn units_of(&self, pod: &PodFacts) -> BTreeMap<Arc<str>, u64> {
        let known = self.0.get(&pod.key.namespace).into_iter().flat_map(|terms| terms.keys());
        let selected = known.filter(|term| is_only_selected(term, pod));
        let carried = pod.apart.iter().map(|term| (resource(term), UNITS));
        selected.map(|term| (resource(term), 1)).chain(carried).collect()
    }

    /// Records a carrier; returns the terms of which it is the first.
    pub(crate) fn insert(&mut self, pod: &PodFacts) -> Vec<Arc<str>> {
        if pod.apart.is_empty() {
            return Vec::new();
        }
        let terms = self.0.entry(Arc::clone(&pod.key.namespace)).or_default();
        let is_new = |term: &&Arc<str>| {
            let carriers = terms.entry(Arc::clone(term)).or_default();
            carriers.insert(pod.key.clone()) && carriers.len() == 1
        };
        pod.apart.iter().filter(is_new).cloned().collect()
    }

    /// Removes a pod that is gone from the terms that it carries.
    pub(crate) fn remove(&mut self, pod: &PodFacts) {
        let Some(terms) = self.0.get_mut(&pod.key.namespace) else { return };
        for term in &pod.apart {
            if let Some(carriers) = terms.get_mut(term) {
                carriers.remove(&pod.key);
            }
        }
        terms.retain(|_, carriers| !carriers.is_empty());
        if terms.is_empty() {
            self.0.remove(&pod.key.namespace);
        }
    }
}

/// Returns true for a pod that a term selects, and that does not carry it.
pub(crate) fn is_only_selected(term: &Arc<str>, pod: &PodFacts) -> bool {
    !pod.apart.contains(term) && selects(term, &pod.key.namespace, &pod.labels)
}

/// Returns the resource of a term.
pub(crate) fn resource(term: &str) -> Arc<str> {
    format!("{APART}{term}").into()
}
