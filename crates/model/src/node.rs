//! Nodes and their devices: what there is, and what others have taken of it.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::id::{NodeName, UserName};
use crate::unit::{Bytes, CpuMilli, Time};

/// Model of a GPU as users name it: lower case, no vendor, no blanks: `h100`, `rtxpro6000`,
/// `virtual`.
#[derive(
    Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(transparent)]
pub struct GpuModel(pub Arc<str>);

impl GpuModel {
    /// The model as text.
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

/// A host, as it joins or changes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeSpec {
    /// Unique name.
    pub name: NodeName,
    /// GPUs and MIG slices, by device index; at most [`DeviceSet::MAX_DEVICES`].
    pub devices: Vec<Device>,
    /// CPUs.
    pub cpus: CpuMilli,
    /// Memory.
    pub memory: Bytes,
    /// Named extras in whole units.
    pub extras: BTreeMap<Arc<str>, u64>,
    /// Labels that constraints match.
    pub labels: BTreeMap<Arc<str>, Arc<str>>,
    /// Domain per topology level, widest first; empty where no topology is known.
    pub domains: Vec<Arc<str>>,
}

/// One GPU, or one MIG slice (a device of its own).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Device {
    /// Model.
    pub model: GpuModel,
    /// Memory; 0 when unknown.
    pub memory: Bytes,
    /// What the vendor's visible-devices variable takes: an index or a UUID. Empty for a virtual
    /// device.
    pub uuid: Arc<str>,
    /// Declared, not found: no hardware behind it.
    pub is_virtual: bool,
    /// Whole device that a slice was cut from, by UUID; `None` for a whole device.
    pub slice_of: Option<Arc<str>>,
}

/// A set of devices of one node, by index. At most [`DeviceSet::MAX_DEVICES`] per node: a bit each,
/// so that counting and choosing are single instructions. Serialises as a list of indices.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DeviceSet(pub u128);

impl DeviceSet {
    /// Largest number of devices a node can have: 16 GPUs in 7 MIG slices each is 112.
    pub const MAX_DEVICES: usize = 128;

    /// No device.
    pub const EMPTY: DeviceSet = DeviceSet(0);

    /// Devices `0..count`.
    #[must_use]
    pub fn first(count: usize) -> Self {
        match count {
            Self::MAX_DEVICES.. => Self(u128::MAX),
            _ => Self((1 << count) - 1),
        }
    }

    /// Just this device.
    #[must_use]
    pub fn one(index: usize) -> Self {
        Self(1 << index)
    }

    /// Adds a device.
    pub fn insert(&mut self, index: usize) {
        self.0 |= 1 << index;
    }

    /// How many devices.
    #[must_use]
    pub fn len(self) -> u32 {
        self.0.count_ones()
    }

    /// True when there is none.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// True when the device is in the set.
    #[must_use]
    pub fn contains(self, index: usize) -> bool {
        index < Self::MAX_DEVICES && self.0 >> index & 1 == 1
    }

    /// Devices in both.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// Devices in either.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Devices of this set that are not in the other.
    #[must_use]
    pub fn minus(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// The `count` lowest devices of the set (all of them when there are fewer).
    #[must_use]
    pub fn lowest(self, count: u32) -> Self {
        let mut rest = self.0;
        for _ in 0..count {
            rest &= rest.wrapping_sub(1);
        }
        Self(self.0 & !rest)
    }

    /// Indices, ascending.
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

/// Capacity of a node that others hold: a person's GPU process, a rival scheduler's pods. Replaces
/// the last observation of the same node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Foreign {
    /// Devices on which something foreign runs: not given away, whole.
    pub devices: DeviceSet,
    /// Devices taken out of service by an administrator or a health check.
    pub drained: DeviceSet,
    /// CPUs in use by others.
    pub cpus: CpuMilli,
    /// Memory in use by others.
    pub memory: Bytes,
}

/// Out of service: nothing new that would still be there at an instant. What runs goes on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Drain {
    /// From when nothing new may be there; until then, what ends in time still starts.
    pub from: Time,
    /// Who asked for it, when that is known.
    pub by: Option<UserName>,
    /// Why, for people; may be empty.
    pub reason: Arc<str>,
    /// What is still there at that instant is stopped and queued again.
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
