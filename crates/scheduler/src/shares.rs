//! Pods with shares of a GPU, and the pods that hold GPUs for them. A holder is recognised by its label in
//! the namespace of the scheduler, where users create no pods.

use std::sync::Arc;

use muster_kubernetes::names;
use muster_kubernetes::object::ObjectKey;
use muster_kubernetes::pod::PodFacts;
use muster_model::NodeName;

use crate::gang::{GangKey, Pod};
use crate::held::Holder;
use crate::observation::{Action, PodId};
use crate::scheduler::Scheduler;

/// Reason of an eviction, for users.
const HOLDER_LOST: &str = "the pod that held its GPU is gone, so others could get the GPU";

impl Scheduler {
    /// Returns true for a pod that holds a GPU for pods with shares of it.
    pub(crate) fn is_holder(&self, pod: &PodFacts) -> bool {
        pod.held_gpu.is_some() && self.holders.as_ref() == Some(&pod.key.namespace)
    }

    /// Returns why a pod cannot get the share that it asks for, for users. A pod that does not exist yet may
    /// lack the variable: admission adds it when the pod is created.
    pub(crate) fn share_obstacle(&self, pod: &PodFacts) -> Option<String> {
        let asked = pod.gpu_share?;
        if self.holders.is_none() {
            return Some(format!(
                "a share of a GPU needs the option --gpu-holder-image of the scheduler ({})",
                names::GPU_SHARE
            ));
        }
        let is_made = !self.is_expected(&pod.key);
        (is_made && !asked.is_read).then(|| {
            format!(
                "no container has the variable {} from the annotation {}, so none would use its share of a GPU",
                names::VISIBLE_GPUS,
                names::GPU_IDS
            )
        })
    }

    /// Records what a pod holds for others.
    pub(crate) fn note_holder(&mut self, key: &ObjectKey) {
        let pod = &self.pods[key];
        let facts = &pod.facts;
        if !self.is_holder(facts) {
            return;
        }
        let (Some(node), Some(number)) = (facts.node.clone(), facts.held_gpu) else { return };
        let is_live = !pod.has_ended() && !facts.is_terminating;
        let pod = PodId { key: key.clone(), uid: Arc::clone(&facts.uid) };
        self.nodes.set_holder(&node, number, Holder { pod, is_live });
        self.mark_sharers_on(&node);
    }

    pub(crate) fn forget_holder(&mut self, facts: &PodFacts) {
        if let Some(node) = facts.node.as_ref().filter(|_| self.is_holder(facts)) {
            let pod = PodId { key: facts.key.clone(), uid: Arc::clone(&facts.uid) };
            self.nodes.remove_holder(node, &pod);
            self.mark_sharers_on(node);
        }
    }

    /// Asks for the deletion of the holders that no pod needs any more.
    pub(crate) fn free_holders(&mut self) {
        for holder in self.nodes.take_holders_to_free() {
            self.actions.push(Action::FreeGpu { holder });
        }
    }

    /// Records of which GPU a pod has a share, or gets one by a binding on its way.
    pub(crate) fn note_sharer(&mut self, key: &ObjectKey) {
        let Some(pod) = self.pods.get_mut(key) else { return };
        let has_share = pod.facts.gpu_share.is_some() && !pod.has_ended();
        let place = pod.place().cloned().zip(pod.shared_gpu()).filter(|_| has_share);
        if pod.sharing == place {
            return;
        }
        if let Some((node, number)) = std::mem::replace(&mut pod.sharing, place.clone()) {
            self.nodes.remove_sharer(&node, number, key);
        }
        if let Some((node, number)) = place {
            self.nodes.add_sharer(&node, number, key);
        }
    }

    pub(crate) fn forget_sharer(&mut self, pod: &Pod) {
        if let Some((node, number)) = &pod.sharing {
            self.nodes.remove_sharer(node, *number, &pod.facts.key);
        }
    }

    fn mark_sharers_on(&mut self, node: &NodeName) {
        for pod in self.nodes.sharers(node) {
            if let Some(pod) = self.pods.get(&pod) {
                self.mark(self.groups.gang_of(&pod.facts));
            }
        }
    }

    /// Deletes the pods of a gang whose GPU no holder has any more: a pod that expects to be alone may get
    /// it. The watch reports a holder before the pods that are bound to its GPU, so none is reported late.
    pub(crate) fn evict_without_holder(&mut self, key: &GangKey) {
        let Some(gang) = self.gangs.get(key).filter(|_| self.holders.is_some()) else { return };
        let has_lost_holder = |pod: &&Pod| {
            let number = pod.facts.gpu_share.and(pod.facts.shared_gpu);
            let node = pod.facts.node.as_ref().filter(|node| self.nodes.is_known(node));
            pod.is_running()
                && number
                    .zip(node)
                    .is_some_and(|(number, node)| !self.nodes.has_live_holder(node, number))
        };
        let lost: Vec<ObjectKey> = gang
            .pods
            .iter()
            .filter_map(|pod| self.pods.get(pod))
            .filter(has_lost_holder)
            .map(|pod| pod.facts.key.clone())
            .collect();
        self.evict(&lost, &Arc::from(HOLDER_LOST));
    }
}
