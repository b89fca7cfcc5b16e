//! Persistent volumes as rules for nodes: a pod runs where all its volumes can be reached.

use std::collections::BTreeMap;
use std::sync::Arc;

use muster_kubernetes::object::ObjectKey;
use muster_kubernetes::pod::PodFacts;
use muster_kubernetes::rule::{NodeRule, SelectorTerm};

/// Claims and volumes of the cluster.
#[derive(Debug, Default)]
pub(crate) struct Volumes {
    /// Volume of each claim; `None` while the claim is not bound.
    pub(crate) claims: BTreeMap<ObjectKey, Option<Arc<str>>>,
    /// Terms of each volume; `None` for a volume that every node reaches.
    pub(crate) volumes: BTreeMap<Arc<str>, Option<Vec<SelectorTerm>>>,
}

impl Volumes {
    /// Returns the pod's rule for nodes, with those of its volumes.
    ///
    /// # Errors
    /// The claim that is not bound.
    pub(crate) fn rule(&self, pod: &PodFacts) -> Result<NodeRule, String> {
        let mut rule = pod.rule.clone();
        for name in &pod.claims {
            let key =
                ObjectKey { namespace: Arc::clone(&pod.key.namespace), name: Arc::clone(name) };
            let volume = match self.claims.get(&key) {
                None => return Err(format!("the volume claim {name} does not exist")),
                Some(None) => {
                    return Err(format!(
                        "the volume claim {name} is not bound; claims that wait for a pod (WaitForFirstConsumer) are not supported"
                    ));
                }
                Some(Some(volume)) => volume,
            };
            match self.volumes.get(volume) {
                None => {
                    return Err(format!("the volume {volume} of the claim {name} does not exist"));
                }
                Some(None) => {}
                Some(Some(terms)) => rule.affinity.push(terms.clone()),
            }
        }
        rule.affinity.sort();
        rule.affinity.dedup();
        Ok(rule)
    }
}
