//! Nodes join, leave, are drained, and are partly used by others.

use std::sync::Arc;

use muster_model::{DeviceSet, Foreign, NodeName, NodeSpec, Time};
use muster_policy::ModelId;
use smallvec::SmallVec;

use super::State;

impl State {
    pub(super) fn node_joined(&mut self, now: Time, spec: &NodeSpec) {
        let mut models: SmallVec<[(ModelId, DeviceSet); 1]> = SmallVec::new();
        for (index, device) in spec.devices.iter().enumerate().take(DeviceSet::MAX_DEVICES) {
            let model = self.policy.intern_model(&device.model);
            match models.iter_mut().find(|(known, _)| *known == model) {
                Some((_, devices)) => devices.insert(index),
                None => models.push((model, DeviceSet::one(index))),
            }
        }
        models.sort_unstable_by_key(|(model, _)| *model);
        self.pool.join(spec.clone(), models);
        self.publish_capacity(now);
    }

    pub(super) fn node_lost(&mut self, now: Time, name: &NodeName, reason: &Arc<str>) {
        let Some(node) = self.pool.find(name) else { return };
        self.pool.set_up(node, false);
        self.publish_capacity(now);
        let holds = self.pool.node(node).holds.iter();
        let mut elements: Vec<_> = holds.map(|hold| self.pool.holding(hold.key).element).collect();
        elements.sort_unstable();
        for element in elements {
            let ordinal = self.jobs.get(&element.job).and_then(|job| job.record.ordinal_of(element.index));
            if let Some(ordinal) = ordinal {
                self.lose_tasks(now, element.job, ordinal, node, reason);
            }
        }
    }

    pub(super) fn node_drained(&mut self, name: &NodeName, drained: bool, reason: &Arc<str>) {
        if let Some(node) = self.pool.find(name) {
            self.pool.set_drained(node, drained.then(|| Arc::clone(reason)));
        }
    }

    pub(super) fn foreign_use(&mut self, name: &NodeName, foreign: &Foreign) {
        if let Some(node) = self.pool.find(name)
            && self.pool.node(node).foreign != *foreign
        {
            self.pool.set_foreign(node, foreign.clone());
        }
    }

    /// Tells the policy what the cluster has: every device of every node that is up.
    pub(super) fn publish_capacity(&mut self, now: Time) {
        let milli: Vec<u64> = self.pool.devices_up().iter().map(|devices| devices * 1000).collect();
        self.policy.set_capacity(now, &milli);
    }
}
