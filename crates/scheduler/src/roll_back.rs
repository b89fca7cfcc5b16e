//! Roll-back of half-started gangs: when the last pods of a gang find no nodes, since their bindings
//! were refused or another scheduler filled the nodes, the first ones give theirs up again.

use std::sync::Arc;

use muster_kubernetes::object::ObjectKey;
use muster_kubernetes::pod::PodFacts;
use muster_model::{Span, Time};

use crate::gang::{Gang, GangKey, Pod};
use crate::scheduler::Scheduler;

/// Longest time for which a part of a gang stays bound while the rest finds no nodes. Other
/// schedulers fill nodes at the same time, so a second try is worth some seconds; more would strand
/// GPUs.
const AFTER: Span = Span::from_secs(30);

impl Scheduler {
    /// Deletes the bound part of a gang that has been half started for too long.
    pub(crate) fn roll_back_part(&mut self, now: Time, key: &GangKey) {
        let Some(gang) = self.gangs.get(key) else { return };
        let pods: Vec<&Pod> = pods_of(self, gang);
        let is_half = self.is_half_started(key, &pods);
        // A binding on its way would come alone: its answer is awaited first.
        let is_answered = pods.iter().all(|pod| pod.binding.is_none());
        let since = if is_half { gang.partial_since.or(Some(now)) } else { None };
        let is_over = is_answered && since.is_some_and(|since| now.since(since) >= AFTER);
        let evicted: Vec<ObjectKey> = pods
            .iter()
            .filter(|pod| is_over && pod.is_running())
            .map(|pod| pod.facts.key.clone())
            .collect();
        if let Some(gang) = self.gangs.get_mut(key) {
            gang.partial_since = since.filter(|_| !is_over);
        }
        if let Some(since) = since.filter(|since| now < *since + AFTER) {
            self.wake_at(since + AFTER, key);
        }
        self.counts.rolled_back += u64::from(is_over);
        let reason = format!("only a part of the gang could be started within {AFTER}");
        if is_over && self.groups.workload(key).is_some_and(|workload| !workload.is_suspended) {
            self.suspend(key, &reason);
        } else {
            self.evict(&evicted, &Arc::from(reason));
        }
    }

    /// Returns true if pods of the gang are bound and others, that it needs, are not. Pods that were
    /// made later than the first binding are replacements, whose absence is no half start.
    fn is_half_started(&self, key: &GangKey, pods: &[&Pod]) -> bool {
        let bound = || pods.iter().filter(|pod| pod.is_running() && pod.facts.node.is_some());
        let lacking: Vec<&PodFacts> = pods
            .iter()
            .filter(|pod| pod.is_waiting() || pod.binding.is_some())
            .map(|pod| &*pod.facts)
            .collect();
        let first = bound().filter_map(|pod| pod.facts.bound_at.as_ref()).min();
        let Some(first) = first else { return false };
        let Ok(minimum) = self.groups.minimum(key, &lacking) else { return false };
        let have = bound().count() + self.groups.succeeded(key, pods.iter().copied());
        let missing = (minimum as usize).saturating_sub(have);
        let original = lacking.iter().filter(|pod| pod.created <= *first).count();
        missing > 0 && original >= missing
    }
}

fn pods_of<'a>(scheduler: &'a Scheduler, gang: &Gang) -> Vec<&'a Pod> {
    gang.pods.iter().filter_map(|key| scheduler.pods.get(key)).collect()
}
