//! Objects of a cluster at one instant, by kind. A kind is listed, perhaps with no object, or
//! unknown with the reason; it never counts as empty because it was not read.

use std::collections::{BTreeMap, BTreeSet};

use muster_kubernetes::instant;
use muster_model::Time;
use muster_slurm::conf::evidence::MissingInput;
use serde_json::Value;

use super::resource::{DEFINITIONS, Resource};

/// Objects of a cluster, and what else its rules need.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    /// Files and addresses that were read, in order.
    pub read: Vec<String>,
    /// Instant of the snapshot; `None` for the newest one that its objects name.
    pub at: Option<Time>,
    /// Names of the nodes of a Slurm cluster, if given.
    pub slurm_nodes: Option<BTreeSet<String>>,
    lists: BTreeMap<Resource, Vec<Value>>,
    unread: BTreeMap<Resource, String>,
}

impl Snapshot {
    /// Adds objects of a kind, which is listed from now on. Of an object that is added twice the first
    /// stays.
    pub fn add(&mut self, resource: Resource, objects: Vec<Value>) {
        let list = self.lists.entry(resource).or_default();
        let id = |object: &Value| {
            (object["metadata"]["namespace"].clone(), object["metadata"]["name"].clone())
        };
        let mut known: BTreeSet<String> = list.iter().map(|one| format!("{:?}", id(one))).collect();
        list.extend(objects.into_iter().filter(|one| known.insert(format!("{:?}", id(one)))));
    }

    /// Notes why a kind could not be read.
    pub fn set_unread(&mut self, resource: Resource, reason: String) {
        self.unread.insert(resource, reason);
    }

    /// Returns the kinds that were listed, with their objects.
    pub fn lists(&self) -> impl Iterator<Item = (&Resource, &[Value])> {
        self.lists.iter().map(|(resource, objects)| (resource, objects.as_slice()))
    }

    /// Returns the objects of a kind; the error says what is missing.
    pub(crate) fn list(&self, resource: Resource) -> Result<&[Value], MissingInput> {
        if let Some(objects) = self.lists.get(&resource) {
            return Ok(objects);
        }
        if let Some(reason) = self.unread.get(&resource) {
            return Err(MissingInput(reason.clone()));
        }
        if !resource.is_built_in()
            && let Some(definitions) = self.lists.get(&DEFINITIONS)
        {
            let name = resource.full_name();
            if !definitions.iter().any(|one| one["metadata"]["name"] == name.as_str()) {
                return Ok(&[]);
            }
        }
        Err(MissingInput(format!("`kubectl get {} -A -o json`", resource.full_name())))
    }

    /// Returns the instant to which ages are counted.
    pub(crate) fn now(&self) -> Time {
        let mut newest = Time(0);
        if let Some(at) = self.at {
            return at;
        }
        for object in self.lists.values().flatten() {
            add_newest(object, &mut newest);
        }
        newest
    }
}

/// Raises an instant to the newest one in the metadata and status of an object. Its specification may
/// name instants to come.
fn add_newest(object: &Value, newest: &mut Time) {
    let created = &object["metadata"]["creationTimestamp"];
    add_instants(created, newest);
    add_instants(&object["status"], newest);
}

fn add_instants(value: &Value, newest: &mut Time) {
    match value {
        Value::String(text) => {
            if let Some(at) = instant::parse(text) {
                *newest = (*newest).max(at);
            }
        }
        Value::Array(items) => items.iter().for_each(|item| add_instants(item, newest)),
        Value::Object(fields) => fields.values().for_each(|field| add_instants(field, newest)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::resource::{CLUSTER_QUEUES, PODS};
    use super::*;

    #[test]
    fn a_kind_that_was_not_read_is_unknown_unless_it_is_not_defined() {
        let mut snapshot = Snapshot::default();
        let needed = |snapshot: &Snapshot| snapshot.list(CLUSTER_QUEUES).unwrap_err().0;
        assert_eq!(needed(&snapshot), "`kubectl get clusterqueues.kueue.x-k8s.io -A -o json`");
        let mut forbidden = snapshot.clone();
        forbidden.add(DEFINITIONS, Vec::new());
        forbidden.set_unread(CLUSTER_QUEUES, "the right to list them".to_owned());
        assert_eq!(needed(&forbidden), "the right to list them");
        let defined = json!({"metadata": {"name": "clusterqueues.kueue.x-k8s.io"}});
        let mut with_kueue = snapshot.clone();
        with_kueue.add(DEFINITIONS, vec![defined]);
        assert!(with_kueue.list(CLUSTER_QUEUES).is_err());
        snapshot.add(DEFINITIONS, Vec::new());
        assert!(snapshot.list(CLUSTER_QUEUES).unwrap().is_empty());
        assert!(snapshot.list(PODS).is_err());
    }

    #[test]
    fn the_newest_instant_of_the_objects_counts() {
        let mut snapshot = Snapshot::default();
        let pod = |name: &str, at: &str| {
            json!({"metadata": {"name": name, "creationTimestamp": at},
                   "spec": {"until": "2031-01-01T00:00:00Z"},
                   "status": {"conditions": [{"lastTransitionTime": "2026-11-20T12:00:05Z"}]}})
        };
        snapshot
            .add(PODS, vec![pod("a", "2026-11-20T12:00:00Z"), pod("a", "2026-11-21T12:00:00Z")]);
        assert_eq!(snapshot.list(PODS).unwrap().len(), 1);
        assert_eq!(snapshot.now(), Time(1_795_176_005_000));
    }
}
