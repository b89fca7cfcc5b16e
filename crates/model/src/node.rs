//! Nodes and their devices: capacity, and what processes outside Muster use of it.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::id::{NodeName, UserName};
use crate::unit::{Bytes, CpuMilli, Time};

/// GPU model as users write it: lower case, no vendor, no blanks: `h100`, `rtxpro6000`, `virtual`.
#[derive(
    Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(transparent)]
pub struct GpuModel(pub Arc<str>);

impl GpuModel {
    /// Returns the model as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<&str> for GpuModel {
    fn from(text: &str) -> Self {
        Self(text.into())
    }
}

impl fmt::Display for GpuModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

/// Node as it joins or changes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeSpec {
    /// Host name, unique in the cluster.
    pub name: NodeName,
    /// GPUs and MIG slices, by device index; at most [`DeviceSet::MAX_DEVICES`].
    pub devices: Vec<Device>,
    /// Number of CPUs in thousandths.
    pub cpus: CpuMilli,
    /// Memory of the node in bytes.
    pub memory: Bytes,
    /// Extra resources (licences, NICs) in whole units.
    pub extras: BTreeMap<Arc<str>, u64>,
    /// Labels that node constraints match.
    pub labels: BTreeMap<Arc<str>, Arc<str>>,
    /// Topology domain of the node per level, widest first; empty when no topology is known.
    pub domains: Vec<Arc<str>>,
}

impl NodeSpec {
    /// Makes a node without devices, extra resources, labels and topology.
    #[must_use]
    pub fn plain(name: impl Into<NodeName>, cpus: CpuMilli, memory: Bytes) -> Self {
        Self {
            name: name.into(),
            devices: Vec::new(),
            cpus,
            memory,
            extras: BTreeMap::new(),
            labels: BTreeMap::new(),
            domains: Vec::new(),
        }
    }
}

/// GPU, or a MIG slice as a device of its own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Device {
    /// GPU model of the device.
    pub model: GpuModel,
    /// Memory in bytes; 0 when unknown.
    pub memory: Bytes,
    /// Value for the vendor's visible-devices variable: an index or a UUID. Empty for a virtual
    /// device.
    pub uuid: Arc<str>,
    /// True when the device is declared in the configuration, without hardware behind it.
    pub is_virtual: bool,
    /// UUID of the whole device that a slice belongs to; `None` for a whole device.
    pub slice_of: Option<Arc<str>>,
}

impl Device {
    /// Makes a whole device that is declared, without hardware behind it.
    #[must_use]
    pub fn declared(model: impl Into<GpuModel>, memory: Bytes) -> Self {
        Self { model: model.into(), memory, uuid: "".into(), is_virtual: true, slice_of: None }
    }
}

/// Set of devices of one node, by index. At most [`DeviceSet::MAX_DEVICES`] per node: one bit each,
/// so that counting and choosing are single instructions. Serialises as a list of indices.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DeviceSet(pub u128);

impl DeviceSet {
    /// Largest number of devices per node: 16 GPUs in 7 MIG slices each are 112.
    pub const MAX_DEVICES: usize = 128;

    /// Set without any device.
    pub const EMPTY: DeviceSet = DeviceSet(0);

    /// Returns the set of devices `0..count`.
    #[must_use]
    pub fn first(count: usize) -> Self {
        match count {
            Self::MAX_DEVICES.. => Self(u128::MAX),
            _ => Self((1 << count) - 1),
        }
    }

    /// Returns the set of one device.
    #[must_use]
    pub fn one(index: usize) -> Self {
        Self(1 << index)
    }

    /// Adds a device to the set.
    pub fn insert(&mut self, index: usize) {
        self.0 |= 1 << index;
    }

    /// Returns the number of devices.
    #[must_use]
    pub fn len(self) -> u32 {
        self.0.count_ones()
    }

    /// Returns true when the set has no device.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Returns true when the device is in the set.
    #[must_use]
    pub fn contains(self, index: usize) -> bool {
        index < Self::MAX_DEVICES && self.0 >> index & 1 == 1
    }

    /// Returns the devices that are in both sets.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// Returns the devices that are in either set.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Returns the devices of this set that are not in the other.
    #[must_use]
    pub fn minus(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// Returns the `count` lowest devices of the set (all of them when there are fewer).
    #[must_use]
    pub fn lowest(self, count: u32) -> Self {
        let mut rest = self.0;
        for _ in 0..count {
            rest &= rest.wrapping_sub(1);
        }
        Self(self.0 & !rest)
    }

    /// Returns the indices in ascending order.
    pub fn iter(self) -> impl Iterator<Item = usize> {
        let mut rest = self.0;
        std::iter::from_fn(move || {
            (rest != 0).then(|| {
                let index = rest.trailing_zeros() as usize;
                rest &= rest - 1;
                index
            })
        })
    }
}

impl FromIterator<usize> for DeviceSet {
    fn from_iter<I: IntoIterator<Item = usize>>(indices: I) -> Self {
        let mut set = Self::EMPTY;
        for index in indices {
            set.insert(index);
        }
        set
    }
}

impl Serialize for DeviceSet {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.iter())
    }
}

impl<'de> Deserialize<'de> for DeviceSet {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let indices = Vec::<usize>::deserialize(deserializer)?;
        match indices.iter().find(|index| **index >= Self::MAX_DEVICES) {
            Some(index) => {
                Err(serde::de::Error::custom(format!("device index {index} is out of range")))
            }
            None => Ok(indices.into_iter().collect()),
        }
    }
}

/// Capacity of a node that processes outside Muster use, such as a GPU process started by hand or
/// the pods of another scheduler. Replaces the last observation of the same node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Foreign {
    /// Devices that run a process outside Muster; no part of them is allocated.
    pub devices: DeviceSet,
    /// Processes on those devices, where they are known; a few of each device.
    #[serde(default)]
    pub processes: Vec<ForeignProcess>,
    /// Devices taken out of service by an administrator or a health check.
    pub drained: DeviceSet,
    /// CPUs in use outside Muster.
    pub cpus: CpuMilli,
    /// Memory in use outside Muster, in bytes.
    pub memory: Bytes,
    /// Units of extra resources in use outside Muster.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub extras: BTreeMap<Arc<str>, u64>,
}

/// Process outside Muster that uses a device.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub struct ForeignProcess {
    /// Index of the device on its node.
    pub device: u16,
    /// Process id on the node.
    pub pid: u32,
    /// Name of its program; empty when unknown.
    pub program: String,
    /// User that it runs as; empty when unknown.
    pub user: String,
}

/// Drain of a node or of devices: no new job that would still run at its start. Running jobs
/// continue unless `stop` is set.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Drain {
    /// Start of the drain; until then, jobs that end in time still start.
    pub from: Time,
    /// User that asked for it; `None` when unknown.
    pub by: Option<UserName>,
    /// Reason, for users; may be empty.
    pub reason: Arc<str>,
    /// True when jobs that still run at the start of the drain are stopped and queued again.
    #[serde(default)]
    pub stop: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn device_sets_count_choose_and_round_trip() {
        let set: DeviceSet = [1, 3, 5, 127].into_iter().collect();
        assert_eq!(set.len(), 4);
        assert_eq!(set.lowest(2).iter().collect::<Vec<_>>(), [1, 3]);
        assert_eq!(set.lowest(9), set);
        assert_eq!(DeviceSet::first(128).len(), 128);
        let text = serde_json::to_string(&set).expect("a list of numbers always serialises");
        assert_eq!(text, "[1,3,5,127]");
        assert_eq!(serde_json::from_str::<DeviceSet>(&text).expect("round trip"), set);
        assert!(serde_json::from_str::<DeviceSet>("[128]").is_err());
    }
}
