//! Priority classes, for pods that do not exist yet: the API server sets the priority of the others.

use std::collections::BTreeMap;
use std::sync::Arc;

use muster_kubernetes::pod::PodFacts;
use muster_kubernetes::priority::PriorityClass;

/// Priority classes by name.
#[derive(Debug, Default)]
pub(crate) struct Priorities(BTreeMap<Arc<str>, PriorityClass>);

impl Priorities {
    /// Records a class; returns true if it changed.
    pub(crate) fn insert(&mut self, class: PriorityClass) -> bool {
        self.0.insert(Arc::clone(&class.name), class.clone()) != Some(class)
    }

    pub(crate) fn remove(&mut self, name: &str) {
        self.0.remove(name);
    }

    /// Sets the priority of an expected pod as the API server will; without a name that of the
    /// default class, if there is one.
    ///
    /// # Errors
    /// The class does not exist.
    pub(crate) fn set(&self, pod: &mut PodFacts, name: Option<&str>) -> Result<(), String> {
        let class = match name {
            Some(name) => Some(
                self.0
                    .get(name)
                    .ok_or_else(|| format!("the priority class {name} does not exist"))?,
            ),
            None => self.0.values().find(|class| class.is_default),
        };
        let Some(class) = class else { return Ok(()) };
        pod.priority = class.value;
        pod.preempts = class.preempts;
        Ok(())
    }
}
