//! Kueue's queues in a cluster that has left Kueue: together they are the queue tree, and Muster writes
//! their status, as Kueue's controller did. A defect of one object holds only that object's pods.

use std::collections::BTreeMap;
use std::sync::Arc;

use muster_kubernetes::kueue::{
    self, CLUSTER_QUEUES, ClusterQueue, ClusterQueueText, CohortText, FlavorText, GROUP,
    LOCAL_QUEUES, LocalQueue, LocalQueueText, LocalQueues, NamespaceText, Objects, Reading,
};
use muster_kubernetes::object::ObjectKey;
use muster_model::QueueTree;
use muster_model::view::QueueView;
use muster_scheduler::{QueueCounts, Scheduler};
use serde_json::{Value, json};

use crate::condition::Condition;

/// Namespace of events on objects of the cluster.
const CLUSTER_EVENTS: &str = "default";

/// Change of an object that describes queues.
#[derive(Debug)]
pub(crate) enum KueueChange {
    ClusterQueue(ClusterQueueText),
    ClusterQueueGone(Arc<str>),
    Cohort(CohortText),
    CohortGone(Arc<str>),
    LocalQueue(LocalQueueText),
    LocalQueueGone(ObjectKey),
    Flavor(FlavorText),
    FlavorGone(Arc<str>),
    Namespace(NamespaceText),
    NamespaceGone(Arc<str>),
}

/// Event for a Cohort, whose status has no conditions.
pub(crate) struct CohortNote {
    /// Cohort, in the namespace of its events.
    pub(crate) key: ObjectKey,
    pub(crate) uid: Arc<str>,
    pub(crate) text: String,
}

/// Kueue's objects, what they are as queues, and the statuses that were written to them.
#[derive(Debug)]
pub(crate) struct KueueQueues {
    /// API group and version, such as `kueue.x-k8s.io/v1beta2`.
    version: String,
    objects: Objects,
    uids_of_cohorts: BTreeMap<Arc<str>, Arc<str>>,
    is_changed: bool,
    /// Nodes for which the objects were read last.
    nodes_version: Option<u64>,
    in_force: Option<Reading>,
    /// Text of the last event for each Cohort.
    told: BTreeMap<Arc<str>, String>,
    /// Status that was written last to each object, by address.
    written: BTreeMap<String, Value>,
}

impl KueueQueues {
    pub(crate) fn new() -> Self {
        Self {
            version: format!("{GROUP}/{}", kueue::VERSIONS[0]),
            objects: Objects::default(),
            uids_of_cohorts: BTreeMap::new(),
            is_changed: true,
            nodes_version: None,
            in_force: None,
            told: BTreeMap::new(),
            written: BTreeMap::new(),
        }
    }

    /// Notes the version in which the cluster serves the objects.
    pub(crate) fn set_version(&mut self, version: String) {
        self.version = version;
    }

    pub(crate) fn take_in(&mut self, change: KueueChange) {
        let objects = &mut self.objects;
        let is_changed = match change {
            KueueChange::ClusterQueue(text) => {
                let mut spec = text.spec;
                spec.is_deleted = text.metadata.deletion_timestamp.is_some();
                replace(&mut objects.cluster_queues, text.metadata.name, spec)
            }
            KueueChange::ClusterQueueGone(name) => {
                self.written.remove(&format!("/apis/{}/{CLUSTER_QUEUES}/{name}", self.version));
                objects.cluster_queues.remove(&name).is_some()
            }
            KueueChange::Cohort(text) => {
                let name = text.metadata.name;
                self.uids_of_cohorts.insert(Arc::clone(&name), text.metadata.uid);
                replace(&mut objects.cohorts, name, text.spec)
            }
            KueueChange::CohortGone(name) => {
                self.uids_of_cohorts.remove(&name);
                self.told.remove(&name);
                objects.cohorts.remove(&name).is_some()
            }
            KueueChange::LocalQueue(text) => {
                replace(&mut objects.local_queues, text.metadata.key(), text.spec)
            }
            KueueChange::LocalQueueGone(key) => {
                self.written.remove(&local_queue_address(&self.version, &key));
                objects.local_queues.remove(&key).is_some()
            }
            KueueChange::Flavor(text) => {
                replace(&mut objects.flavors, text.metadata.name, text.spec)
            }
            KueueChange::FlavorGone(name) => objects.flavors.remove(&name).is_some(),
            KueueChange::Namespace(text) => {
                replace(&mut objects.namespaces, text.metadata.name, text.metadata.labels)
            }
            KueueChange::NamespaceGone(name) => objects.namespaces.remove(&name).is_some(),
        };
        self.is_changed |= is_changed;
    }

    /// Returns tree and LocalQueues if the objects or the nodes have changed.
    pub(crate) fn take_queues(
        &mut self,
        scheduler: &Scheduler,
    ) -> Option<(QueueTree, LocalQueues)> {
        let nodes_version = Some(scheduler.nodes_version());
        let is_changed = std::mem::take(&mut self.is_changed);
        if !is_changed && self.nodes_version == nodes_version {
            return None;
        }
        self.nodes_version = nodes_version;
        let models = |labels: &_, resource: &str| scheduler.models_on(labels, resource);
        let reading = kueue::read(&self.objects, &models);
        if let Err(defect) = scheduler.check_queues(&reading.tree) {
            tracing::error!("the queues of Kueue are not in force: {defect}");
            return None;
        }
        let before = self.in_force.replace(reading);
        let reading = self.in_force.as_ref()?;
        let is_same = before.is_some_and(|before| {
            before.tree == reading.tree && before.local_queues == reading.local_queues
        });
        (!is_same).then(|| (reading.tree.clone(), reading.local_queues.clone()))
    }

    /// Returns the statuses that have changed: address of the object, and status.
    pub(crate) fn take_statuses(
        &mut self,
        views: &[QueueView],
        counts: &BTreeMap<ObjectKey, QueueCounts>,
    ) -> Vec<(String, Value)> {
        let Some(reading) = &self.in_force else { return Vec::new() };
        let mut sums: BTreeMap<&str, QueueCounts> = BTreeMap::new();
        let mut statuses: Vec<(String, Value, Condition<'_>)> = Vec::new();
        for (key, queue) in reading.local_queues.iter() {
            let own = counts.get(key).copied().unwrap_or_default();
            if let Some(target) = &queue.target {
                let sum = sums.entry(&target.name).or_default();
                sum.pending += own.pending;
                sum.admitted += own.admitted;
            }
            let address = local_queue_address(&self.version, key);
            statuses.push((address, numbers(own), state_of_local_queue(queue)));
        }
        for (name, queue) in &reading.cluster_queues {
            let view = views.iter().find(|view| view.name == queue.queue);
            let mut status = numbers(sums.get(&**name).copied().unwrap_or_default());
            let usage = flavors_usage(queue, view);
            status["flavorsUsage"] = usage.clone();
            status["flavorsReservation"] = usage;
            let address = format!("/apis/{}/{CLUSTER_QUEUES}/{name}", self.version);
            statuses.push((address, status, state_of_cluster_queue(queue)));
        }
        let mut changed = Vec::new();
        for (address, mut status, condition) in statuses {
            let old = self.written.get(&address);
            status["conditions"] = condition.alone(old);
            if old != Some(&status) {
                self.written.insert(address.clone(), status.clone());
                changed.push((address, status));
            }
        }
        changed
    }

    /// Forgets the status of an object that could not be written: it is written again.
    pub(crate) fn forget_status(&mut self, address: &str) {
        self.written.remove(address);
    }

    /// Returns the notes of Cohorts that have changed.
    pub(crate) fn take_notes(&mut self) -> Vec<CohortNote> {
        let Some(reading) = &self.in_force else { return Vec::new() };
        self.told.retain(|name, _| reading.cohort_notes.contains_key(name));
        let mut notes = Vec::new();
        for (name, text) in &reading.cohort_notes {
            if self.told.get(name) == Some(text) {
                continue;
            }
            self.told.insert(Arc::clone(name), text.clone());
            tracing::warn!("Cohort {name}: {text}");
            // A Cohort that is only referred to has no object.
            if let Some(uid) = self.uids_of_cohorts.get(name) {
                let key = ObjectKey::new(CLUSTER_EVENTS, name);
                notes.push(CohortNote { key, uid: Arc::clone(uid), text: text.clone() });
            }
        }
        notes
    }

    /// Returns the version of the objects, such as `kueue.x-k8s.io/v1beta2`.
    pub(crate) fn version(&self) -> &str {
        &self.version
    }
}

/// Records an object; returns true if it has changed.
fn replace<K: Ord, V: PartialEq>(all: &mut BTreeMap<K, V>, key: K, value: V) -> bool {
    if all.get(&key) == Some(&value) {
        return false;
    }
    all.insert(key, value);
    true
}

fn local_queue_address(version: &str, key: &ObjectKey) -> String {
    format!("/apis/{version}/namespaces/{}/{LOCAL_QUEUES}/{}", key.namespace, key.name)
}

fn numbers(counts: QueueCounts) -> Value {
    json!({
        "pendingWorkloads": counts.pending,
        "reservingWorkloads": counts.admitted,
        "admittedWorkloads": counts.admitted,
    })
}

fn state_of_local_queue(queue: &LocalQueue) -> Condition<'_> {
    let (is_true, reason, message) = match &queue.hold {
        None => (true, "Ready", "its pods may start".to_owned()),
        Some(hold) => (false, hold.reason, hold.message.clone()),
    };
    Condition { kind: "Active", is_true, reason, message }
}

fn state_of_cluster_queue(queue: &ClusterQueue) -> Condition<'_> {
    let (is_true, reason, first) = match &queue.hold {
        None => (true, "Ready", "its pods may start"),
        Some(hold) => (false, hold.reason, hold.message.as_str()),
    };
    let texts: Vec<&str> =
        std::iter::once(first).chain(queue.remarks.iter().map(String::as_str)).collect();
    Condition { kind: "Active", is_true, reason, message: texts.join("; ") }
}

/// Returns the GPUs in use by flavor. Flavors of one model are filled in their order.
fn flavors_usage(queue: &ClusterQueue, view: Option<&QueueView>) -> Value {
    let mut used: BTreeMap<&str, u64> = BTreeMap::new();
    for row in view.iter().flat_map(|view| &view.gpus) {
        used.insert(row.model.as_str(), u64::from(row.used.0).div_ceil(1000));
    }
    let of_gpus: Vec<_> = queue
        .groups
        .iter()
        .flat_map(|group| &group.flavors)
        .flat_map(|flavor| {
            flavor.nominal.iter().map(move |(name, nominal)| (flavor, name, nominal))
        })
        .collect();
    let mut flavors: BTreeMap<&str, Vec<Value>> = BTreeMap::new();
    for (at, (flavor, resource, nominal)) in of_gpus.iter().enumerate() {
        let model = flavor.models.get(*resource);
        let is_last =
            !of_gpus[at + 1..].iter().any(|(other, name, _)| other.models.get(*name) == model);
        let left = model.and_then(|model| used.get_mut(model.as_str()));
        let total = left.map_or(0, |left| {
            let own = if is_last { *left } else { (*left).min(**nominal) };
            *left -= own;
            own
        });
        flavors.entry(&flavor.name).or_default().push(json!({
            "name": resource,
            "total": total.to_string(),
            "borrowed": total.saturating_sub(**nominal).to_string(),
        }));
    }
    flavors
        .into_iter()
        .map(|(name, resources)| json!({"name": name, "resources": resources}))
        .collect()
}

#[cfg(test)]
mod tests {
    use muster_model::GpuMilli;
    use muster_model::view::QuotaView;
    use muster_scheduler::Observation;
    use serde_json::from_value;

    use super::*;

    /// Returns the queues of a ClusterQueue with two flavors of the same GPUs, in a Cohort that is its
    /// own parent in the end.
    fn queues(cohort_parent: &str) -> (KueueQueues, Scheduler) {
        let mut queues = KueueQueues::new();
        let quota = |gpus: u32| json!([{"name": "nvidia.com/gpu", "nominalQuota": gpus}]);
        let flavors = json!([
            {"name": "reserved", "resources": quota(4)}, {"name": "spot", "resources": quota(2)},
        ]);
        let queue = json!({
            "metadata": {"name": "vision"},
            "spec": {"cohortName": "research", "namespaceSelector": {}, "resourceGroups": [
                {"coveredResources": ["nvidia.com/gpu"], "flavors": flavors},
            ]},
        });
        queues.take_in(KueueChange::ClusterQueue(from_value(queue).expect("a ClusterQueue")));
        for name in ["reserved", "spot"] {
            let flavor = json!({"metadata": {"name": name}, "spec": {}});
            queues.take_in(KueueChange::Flavor(from_value(flavor).expect("a flavor")));
        }
        let cohort = json!({
            "metadata": {"name": "research", "uid": "u1"}, "spec": {"parentName": cohort_parent},
        });
        queues.take_in(KueueChange::Cohort(from_value(cohort).expect("a Cohort")));
        let local_queue = json!({
            "metadata": {"name": "main", "namespace": "team"}, "spec": {"clusterQueue": "vision"},
        });
        queues.take_in(KueueChange::LocalQueue(from_value(local_queue).expect("a LocalQueue")));
        let mut scheduler =
            Scheduler::new(Vec::new(), QueueTree::single()).expect("a tree").by_local_queues();
        let node = json!({
            "metadata": {"name": "n", "labels": {"nvidia.com/gpu.product": "NVIDIA-H200"}},
            "status": {"allocatable": {"nvidia.com/gpu": "8"}},
        });
        let node: muster_kubernetes::node::NodeText = from_value(node).expect("a node");
        scheduler.observe(Observation::Node(Box::new(node.facts().expect("a node"))));
        scheduler.step(muster_model::Time(1));
        (queues, scheduler)
    }

    fn using(queue: &str, gpus: u32) -> QueueView {
        QueueView {
            name: queue.into(),
            is_leaf: true,
            weight: 1,
            gpus: vec![QuotaView {
                model: "h200".into(),
                nominal: Some(GpuMilli(6000)),
                used: GpuMilli(gpus * 1000),
                borrowed: GpuMilli(0),
            }],
            waiting: 0,
            running: 1,
            usage_gpu_secs: 0,
            share_ppm: 0,
            budget: None,
            default_time: None,
            idle: None,
            access: None,
        }
    }

    #[test]
    fn use_is_told_by_flavor_and_written_once() {
        let (mut queues, scheduler) = queues("");
        let (tree, _) = queues.take_queues(&scheduler).expect("a tree");
        assert_eq!(&*tree.queues[0].queues[0].name, "vision");
        assert!(queues.take_queues(&scheduler).is_none(), "nothing has changed");
        let counts = BTreeMap::from([(
            ObjectKey::new("team", "main"),
            QueueCounts { pending: 2, admitted: 1 },
        )]);
        let view = [using("research/vision", 7)];
        let statuses = queues.take_statuses(&view, &counts);
        let of = |end: &str| {
            let found = statuses.iter().find(|(address, _)| address.ends_with(end));
            found.expect("it has a status").1.clone()
        };
        let local = of("/namespaces/team/localqueues/main");
        assert_eq!(
            (&local["pendingWorkloads"], &local["admittedWorkloads"]),
            (&json!(2), &json!(1))
        );
        let status = of("/clusterqueues/vision");
        assert_eq!(status["pendingWorkloads"], 2);
        let usage = |name: &str, total: &str, borrowed: &str| {
            let of_gpus = json!({"name": "nvidia.com/gpu", "total": total, "borrowed": borrowed});
            json!({"name": name, "resources": [of_gpus]})
        };
        assert_eq!(
            status["flavorsUsage"],
            json!([usage("reserved", "4", "0"), usage("spot", "3", "1")])
        );
        let message = status["conditions"][0]["message"].as_str().unwrap_or_default();
        assert_eq!(
            message,
            "its pods may start; flavors reserved, spot share one quota: all are h200"
        );
        assert!(queues.take_statuses(&view, &counts).is_empty(), "nothing has changed");
        queues.forget_status("/apis/kueue.x-k8s.io/v1beta2/clusterqueues/vision");
        assert_eq!(queues.take_statuses(&view, &counts).len(), 1);
    }

    #[test]
    fn a_cohort_is_told_of_a_defect_once() {
        let (mut queues, scheduler) = queues("research");
        queues.take_queues(&scheduler).expect("a tree");
        let notes = queues.take_notes();
        assert_eq!(notes.len(), 1);
        assert_eq!((&*notes[0].uid, &*notes[0].key.namespace), ("u1", "default"));
        assert_eq!(notes[0].text, "the parents of Cohorts form a cycle: research, research");
        assert!(queues.take_notes().is_empty(), "it was told");
    }
}
