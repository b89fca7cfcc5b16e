//! Selections of devices: what a class and the selectors of a request pick on each node. A selection
//! becomes an amount of one resource, and a label of the nodes where it picks all devices that the
//! resource counts; so what is counted can be given.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use muster_kubernetes::device::selector::Selector;
use muster_kubernetes::device::{DeviceFacts, PREFIX};
use muster_model::NodeName;

/// Class and expressions; equal ones pick the same devices.
pub(super) type SelectionKey = (Arc<str>, Vec<Arc<str>>);

/// Selection of devices, and what it picks.
#[derive(Debug)]
pub(super) struct Selection {
    class: Arc<str>,
    /// Label that nodes get on which the selection picks devices.
    pub(super) label: String,
    /// Expressions that a device must satisfy, or why one of them cannot be read.
    selectors: Result<Vec<Selector>, String>,
    picks: BTreeMap<NodeName, Pick>,
}

/// Devices of a node that a selection picks.
#[derive(Debug, PartialEq, Eq)]
enum Pick {
    /// All that a resource counts, and no others.
    All(Arc<str>),
    /// A part of what a resource counts, or devices of several resources.
    Part,
    /// None, since the expressions have no answer.
    Unknown(String),
}

impl Selection {
    pub(super) fn new(number: usize, (class, expressions): &SelectionKey) -> Self {
        let parse = |text: &Arc<str>| {
            Selector::parse(text).map_err(|error| format!("{text:?} cannot be read: {error}"))
        };
        Self {
            class: Arc::clone(class),
            label: format!("{PREFIX}{number}"),
            selectors: expressions.iter().map(parse).collect(),
            picks: BTreeMap::new(),
        }
    }

    /// Evaluates the selection on the devices of a node.
    pub(super) fn evaluate<'a>(
        &mut self,
        node: &NodeName,
        devices: impl Iterator<Item = &'a DeviceFacts>,
    ) {
        match self.pick(devices) {
            Some(pick) => drop(self.picks.insert(node.clone(), pick)),
            None => drop(self.picks.remove(node)),
        }
    }

    fn pick<'a>(&self, devices: impl Iterator<Item = &'a DeviceFacts>) -> Option<Pick> {
        let mut picked: BTreeSet<Arc<str>> = BTreeSet::new();
        let mut left: BTreeSet<Arc<str>> = BTreeSet::new();
        let mut unknown = None;
        for device in devices {
            match self.matches(device) {
                Ok(true) => drop(picked.insert(device.resource())),
                Ok(false) => drop(left.insert(device.resource())),
                Err(error) => {
                    unknown = Some(error);
                    left.insert(device.resource());
                }
            }
        }
        let mut resources = picked.iter();
        match (resources.next(), resources.next()) {
            (None, _) => unknown.map(Pick::Unknown),
            (Some(one), None) if !left.contains(one) => Some(Pick::All(Arc::clone(one))),
            _ => Some(Pick::Part),
        }
    }

    /// Returns true if the selection picks this device.
    ///
    /// # Errors
    /// Why the expressions have no answer.
    pub(super) fn matches(&self, device: &DeviceFacts) -> Result<bool, String> {
        for selector in self.selectors.as_ref().map_err(String::clone)? {
            if !selector.matches(device)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Returns true if the selection picks devices of this node.
    pub(super) fn has(&self, node: &NodeName) -> bool {
        matches!(self.picks.get(node), Some(Pick::All(_)))
    }

    /// Returns the resource that the picked devices are counted by.
    ///
    /// # Errors
    /// Why there is none, for users.
    pub(super) fn resource(&self) -> Result<Arc<str>, String> {
        let class = &self.class;
        let resources: BTreeSet<&Arc<str>> = self
            .picks
            .values()
            .filter_map(|pick| match pick {
                Pick::All(resource) => Some(resource),
                _ => None,
            })
            .collect();
        let mut all = resources.iter();
        match (all.next(), all.next()) {
            (Some(one), None) => return Ok(Arc::clone(one)),
            (Some(one), Some(other)) => {
                let names = format!("{} and {}", name(one), name(other));
                return Err(format!(
                    "not supported by this scheduler: a claim for devices of several kinds ({names}) by the class {class}"
                ));
            }
            (None, _) => {}
        }
        if let Err(error) = &self.selectors {
            return Err(format!("a selector for devices of the class {class}: {error}"));
        }
        if self.picks.values().any(|pick| *pick == Pick::Part) {
            return Err(format!(
                "not supported by this scheduler: a claim that selects some of the devices of one kind on a node (class {class})"
            ));
        }
        let error = self.picks.values().find_map(|pick| match pick {
            Pick::Unknown(error) => Some(error),
            _ => None,
        });
        Err(match error {
            Some(error) => format!(
                "no device is selected by its claim (class {class}); a selector has no answer: {error}"
            ),
            None => format!("no device of the cluster is selected by its claim (class {class})"),
        })
    }
}

/// Returns the name of a resource for users: driver and type.
fn name(resource: &str) -> &str {
    resource.strip_prefix(PREFIX).unwrap_or(resource)
}
