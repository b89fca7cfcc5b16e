//! Nodes according to the journal: what each has, and from when it accepts no new task.

use std::collections::BTreeMap;

use muster_model::{DeviceSet, Foreign, GpuModel, NodeId, NodeSpec, TaskPlacement, Time};

use super::Ledger;

/// A node according to the journal.
#[derive(Clone, Debug)]
pub(crate) struct LedgerNode {
    pub(crate) spec: NodeSpec,
    pub(crate) up: bool,
    /// Time from which no new task may run on the node.
    pub(crate) drained_from: Option<Time>,
    /// The same for single devices.
    devices_from: BTreeMap<usize, Time>,
    pub(crate) foreign: Foreign,
}

impl LedgerNode {
    pub(crate) fn new(spec: &NodeSpec) -> Self {
        let drained_from = None;
        let devices_from = BTreeMap::new();
        Self {
            spec: spec.clone(),
            up: true,
            drained_from,
            devices_from,
            foreign: Foreign::default(),
        }
    }

    /// Drains the node or some of its devices from an instant on, or ends the drain.
    pub(crate) fn set_drain(&mut self, devices: Option<DeviceSet>, from: Option<Time>) {
        let Some(devices) = devices else {
            self.drained_from = from;
            return;
        };
        for device in devices.iter() {
            self.devices_from.remove(&device);
            self.devices_from.extend(from.map(|from| (device, from)));
        }
    }

    /// Returns the time from which these devices accept no new task.
    pub(crate) fn closes(&self, devices: DeviceSet) -> Option<Time> {
        let single = devices.iter().filter_map(|device| self.devices_from.get(&device).copied());
        single.chain(self.drained_from).min()
    }
}

/// Returns whether a task placement uses a device of a node.
pub(crate) fn is_on(place: &TaskPlacement, node: NodeId, device: usize) -> bool {
    place.node == node && place.devices.contains(device)
}

/// Returns the GPU model of a task placement.
pub(crate) fn model_of<'a>(ledger: &'a Ledger, place: &TaskPlacement) -> Option<&'a GpuModel> {
    let device = place.devices.iter().next()?;
    let host = ledger.nodes.get(place.node.0 as usize)?;
    host.spec.devices.get(device).map(|device| &device.model)
}
