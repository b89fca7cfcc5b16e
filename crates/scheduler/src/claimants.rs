//! Pods that claim devices: they are looked at, and counted, anew when devices or claims change.

use muster_kubernetes::object::ObjectKey;

use crate::gang::GangKey;
use crate::observation::DeviceChange;
use crate::scheduler::Scheduler;

impl Scheduler {
    pub(crate) fn take_in_devices(&mut self, change: DeviceChange) {
        match change {
            DeviceChange::Slice(slice) => self.devices.insert_slice(slice),
            DeviceChange::SliceGone(name) => self.devices.remove_slice(&name),
            DeviceChange::Class(class) => self.devices.insert_class(class),
            DeviceChange::ClassGone(name) => self.devices.remove_class(&name),
            DeviceChange::Claim(claim) => {
                let pods = self.devices.insert_claim(claim);
                self.mark_claimants(&pods);
            }
            DeviceChange::ClaimGone(key) => {
                let pods = self.devices.remove_claim(&key);
                self.mark_claimants(&pods);
            }
            DeviceChange::Template(key, requests) => self.devices.insert_template(key, requests),
            DeviceChange::TemplateGone(key) => self.devices.remove_template(&key),
        }
    }

    /// Has the pods looked at that name a claim of devices which changed.
    fn mark_claimants(&mut self, pods: &[ObjectKey]) {
        for key in pods {
            let Some(pod) = self.pods.get(key) else { continue };
            let is_foreign = pod.foreign_on.is_some();
            if pod.facts.is_ours {
                self.mark(self.groups.gang_of(&pod.facts));
            }
            if is_foreign {
                self.count_as_foreign(key);
            }
        }
    }

    /// Describes nodes anew whose devices changed, counts what others have of them, and has the pods looked
    /// at that wait for devices.
    pub(crate) fn sync_devices(&mut self) {
        self.describe_nodes();
        if !self.devices.take_is_changed() {
            return;
        }
        let claimants = || self.pods.values().filter(|pod| !pod.facts.device_claims.is_empty());
        let waiting = claimants().filter(|pod| pod.facts.is_ours && pod.is_waiting());
        let gangs: Vec<GangKey> = waiting.map(|pod| self.groups.gang_of(&pod.facts)).collect();
        // What those of others have counts only once its devices are known.
        let foreign = claimants().filter(|pod| pod.foreign_on.is_some());
        let foreign: Vec<ObjectKey> = foreign.map(|pod| pod.facts.key.clone()).collect();
        for gang in gangs {
            self.mark(gang);
        }
        for pod in &foreign {
            self.count_as_foreign(pod);
        }
    }

    /// Describes nodes anew whose devices, or whose selections of devices, changed.
    pub(crate) fn describe_nodes(&mut self) {
        for name in self.devices.take_changed_nodes() {
            if let Some(facts) = self.nodes.facts(&name).cloned() {
                self.take_in_node(facts);
            }
        }
    }
}
