//! Node events: nodes join, leave, are drained, and are partly used by processes outside Muster.

use std::collections::BTreeSet;
use std::sync::Arc;

use muster_model::{
    CommandTarget, DeviceSet, ElementId, Event, NodeName, NodeSpec, TaskPlacement, Time,
};
use muster_policy::ModelId;
use smallvec::SmallVec;

use super::State;
use super::job::RunStage;
use super::jobs::JobTable;

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
            if let Some(ordinal) = self.jobs.ordinal_of(element) {
                self.lose_tasks(now, element.job, ordinal, node, reason);
            }
        }
    }

    /// Returns events that requeue the elements still on nodes and devices whose drain has begun
    /// and stops running jobs.
    pub(crate) fn drained_away(&self, now: Time) -> Vec<Event> {
        if self.pool.stopping_drains().next().is_none() {
            return Vec::new();
        }
        let mut elements = BTreeSet::new();
        for id in self.pool.stopping_drains() {
            let node = self.pool.node(id);
            let stopped = node.drains.stopped(&node.spec, now);
            for holding in node.holds.iter().map(|hold| self.pool.holding(hold.key)) {
                let is_on = |task: &TaskPlacement| {
                    task.node == id
                        && (stopped.whole || !task.devices.and(stopped.devices).is_empty())
                };
                if holding.placement.iter().any(is_on) && !self.jobs.is_stopping(holding.element) {
                    elements.insert(holding.element);
                }
            }
        }
        let target =
            |element: ElementId| CommandTarget { job: element.job, index: Some(element.index) };
        elements.into_iter().map(|element| Event::Requeue(target(element))).collect()
    }

    /// Passes the capacity of the cluster to the policy: every device of every node that is up.
    pub(super) fn publish_capacity(&mut self, now: Time) {
        let milli: Vec<u64> = self.pool.devices_up().iter().map(|devices| devices * 1000).collect();
        self.policy.set_capacity(now, &milli);
    }
}

impl JobTable {
    /// True when an element runs no attempt, or one that is being stopped.
    pub(crate) fn is_stopping(&self, element: ElementId) -> bool {
        let run = self.element(element).and_then(|known| known.run.as_ref());
        run.is_none_or(|run| matches!(run.stage, RunStage::Stopping(_)))
    }
}
