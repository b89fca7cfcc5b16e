//! Queue objects of the cluster: together they are the queue tree. An object that is wrong is left
//! out and says so; if what is left is wrong, too, the last tree stays in force.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use muster_kubernetes::queue::{self, GROUP, POLICIES, POLICY, QUEUES, QueueSpecs, VERSION};
use muster_model::view::QueueView;
use muster_model::{GpuModel, QueueTree};
use serde_json::{Map, Value, json};

use crate::condition::Condition;

/// Change of a queue object; `None` means that it is gone.
#[derive(Debug)]
pub(crate) enum QueueChange {
    /// A `Queue`, by its name.
    Queue(Arc<str>, Option<Map<String, Value>>),
    /// The `SchedulerPolicy` that is read.
    Policy(Option<Map<String, Value>>),
}

/// Queue objects of a cluster, and the statuses that were written to them.
#[derive(Debug)]
pub(crate) struct QueueObjects {
    specs: QueueSpecs,
    policy: Option<Map<String, Value>>,
    is_changed: bool,
    /// Reasons for which objects are not in force, by address.
    defects: BTreeMap<String, String>,
    /// Status that was written last to each object, by address.
    written: BTreeMap<String, Value>,
}

impl QueueObjects {
    /// Makes the queue objects of a cluster; without any there is one queue.
    pub(crate) fn new() -> Self {
        Self {
            specs: QueueSpecs::new(),
            policy: None,
            is_changed: true,
            defects: BTreeMap::new(),
            written: BTreeMap::new(),
        }
    }

    pub(crate) fn take_in(&mut self, change: QueueChange) {
        // A status is a change of its object, too: every gang would be looked at again for each.
        self.is_changed |= match change {
            QueueChange::Queue(name, Some(spec)) => {
                self.specs.insert(name, spec.clone()) != Some(spec)
            }
            QueueChange::Queue(name, None) => {
                self.written.remove(&address(QUEUES, &name));
                self.specs.remove(&name).is_some()
            }
            QueueChange::Policy(spec) => {
                if spec.is_none() {
                    self.written.remove(&address(POLICIES, POLICY));
                }
                let is_changed = self.policy != spec;
                self.policy = spec;
                is_changed
            }
        };
    }

    /// Returns the new tree if the objects have changed and make one. `check` says why a tree
    /// cannot be used.
    pub(crate) fn take_tree(
        &mut self,
        check: impl Fn(&QueueTree) -> Result<(), String>,
    ) -> Option<QueueTree> {
        if !std::mem::take(&mut self.is_changed) {
            return None;
        }
        self.defects.clear();
        let read = |specs: &QueueSpecs, policy: Option<&Map<String, Value>>| {
            let tree = read_tree(specs, policy)?;
            check(&tree).map(|()| tree)
        };
        if let Ok(tree) = read(&self.specs, self.policy.as_ref()) {
            return Some(tree);
        }
        // 1. Each object alone shows which are wrong by themselves.
        let mut specs = self.specs.clone();
        specs.retain(|name, spec| {
            let alone = QueueSpecs::from([(Arc::clone(name), spec.clone())]);
            let result = read(&alone, None);
            if let Err(defect) = &result {
                self.defects.insert(address(QUEUES, name), defect.clone());
            }
            result.is_ok()
        });
        // 2. What is left may be wrong together: then nothing changes.
        match read(&specs, self.policy.as_ref()) {
            Ok(tree) => Some(tree),
            Err(defect) => {
                tracing::error!("the queue objects are not in force: {defect}");
                let invalid = match &self.policy {
                    Some(_) if read(&specs, None).is_ok() => vec![address(POLICIES, POLICY)],
                    _ => specs.keys().map(|name| address(QUEUES, name)).collect(),
                };
                self.defects.extend(invalid.into_iter().map(|one| (one, defect.clone())));
                None
            }
        }
    }

    /// Returns the statuses that have changed: address of the object, and status. `models` are the
    /// GPU models of the nodes; without `with_usage`, a change of used GPU time alone is none.
    pub(crate) fn take_statuses(
        &mut self,
        views: &[QueueView],
        models: &BTreeSet<GpuModel>,
        with_usage: bool,
    ) -> Vec<(String, Value)> {
        let views: BTreeMap<String, &QueueView> =
            views.iter().map(|view| (queue::object_name(view.name.as_str()), view)).collect();
        let mut statuses: Vec<(String, Map<String, Value>, Option<String>)> = self
            .specs
            .iter()
            .map(|(name, spec)| {
                let numbers = views.get(&**name).map(|view| numbers(view)).unwrap_or_default();
                (address(QUEUES, name), numbers, unknown_models(spec, models))
            })
            .collect();
        if self.policy.is_some() {
            statuses.push((address(POLICIES, POLICY), Map::new(), None));
        }
        statuses
            .into_iter()
            .filter_map(|(address, mut status, remark)| {
                let old = self.written.get(&address);
                let condition = condition(self.defects.get(&address), remark);
                status.insert("conditions".to_owned(), condition.alone(old));
                let status = Value::Object(status);
                if old.is_some_and(|old| {
                    *old == status || (!with_usage && without_usage(old) == without_usage(&status))
                }) {
                    return None;
                }
                self.written.insert(address.clone(), status.clone());
                Some((address, status))
            })
            .collect()
    }

    /// Forgets the status of an object that could not be written: it is written again.
    pub(crate) fn forget_status(&mut self, address: &str) {
        self.written.remove(address);
    }
}

/// Returns the address of a queue object.
fn address(plural: &str, name: &str) -> String {
    format!("/apis/{GROUP}/{VERSION}/{plural}/{name}")
}

/// Reads objects as the queue file that they are.
fn read_tree(specs: &QueueSpecs, policy: Option<&Map<String, Value>>) -> Result<QueueTree, String> {
    let file = queue::queue_file(specs, policy).to_string();
    muster_spec::parse_queues(&file, None).map_err(|problems| {
        let text: Vec<String> = problems.iter().map(|one| one.one_line()).collect();
        queue::message_on_objects(&text.join("; "))
    })
}

/// Keys of a status that change whenever something runs.
const USAGE_KEYS: [&str; 2] = ["usageGpuSeconds", "sharePpm"];

fn without_usage(status: &Value) -> Map<String, Value> {
    let mut rest = status.as_object().cloned().unwrap_or_default();
    rest.retain(|key, _| !USAGE_KEYS.contains(&key.as_str()));
    rest
}

fn numbers(view: &QueueView) -> Map<String, Value> {
    let gpus = |milli: u64| milli.div_ceil(1000);
    let used = view.gpus.iter().map(|one| u64::from(one.used.0)).sum();
    let borrowed = view.gpus.iter().map(|one| u64::from(one.borrowed.0)).sum();
    let status = json!({
        "usedGpus": gpus(used),
        "borrowedGpus": gpus(borrowed),
        "running": view.running,
        "waiting": view.waiting,
        USAGE_KEYS[0]: view.usage_gpu_secs,
        USAGE_KEYS[1]: view.share_ppm,
    });
    status.as_object().cloned().unwrap_or_default()
}

/// Returns a remark about a quota for GPUs that no node has: it limits nothing.
fn unknown_models(spec: &Map<String, Value>, models: &BTreeSet<GpuModel>) -> Option<String> {
    let quota = spec.get("quota").and_then(Value::as_object)?;
    let unknown: Vec<&str> = quota
        .keys()
        .map(String::as_str)
        .filter(|name| !models.contains(&GpuModel::from(*name)))
        .collect();
    let known: Vec<String> = models.iter().map(ToString::to_string).collect();
    (!unknown.is_empty()).then(|| {
        format!(
            "the settings are in force, but no node has GPUs of the model {}; there are: {}",
            unknown.join(", "),
            if known.is_empty() { "none".to_owned() } else { known.join(", ") }
        )
    })
}

/// Returns the condition `Ready`.
fn condition(defect: Option<&String>, remark: Option<String>) -> Condition<'static> {
    let (is_true, reason, message) = match (defect, remark) {
        (None, None) => (true, "InForce", "the settings are in force".to_owned()),
        (None, Some(remark)) => (true, "UnknownModel", remark),
        (Some(defect), _) => (false, "Invalid", defect.clone()),
    };
    Condition { kind: "Ready", is_true, reason, message }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn objects(queues: &[(&str, Value)], policy: Option<Value>) -> QueueObjects {
        let mut objects = QueueObjects::new();
        for (name, spec) in queues {
            let spec = spec.as_object().cloned();
            objects.take_in(QueueChange::Queue((*name).into(), spec));
        }
        objects.take_in(QueueChange::Policy(policy.and_then(|spec| spec.as_object().cloned())));
        objects
    }

    fn message<'a>(statuses: &'a [(String, Value)], name: &str) -> &'a str {
        let found = statuses.iter().find(|(address, _)| address.ends_with(&format!("/{name}")));
        found.and_then(|(_, status)| status["conditions"][0]["message"].as_str()).unwrap_or("none")
    }

    #[test]
    fn a_wrong_queue_is_left_out_and_says_so() {
        let mut objects = objects(
            &[("good", json!({"weight": 2})), ("bad", json!({"defaultTime": "soon"}))],
            None,
        );
        let tree = objects.take_tree(|_| Ok(())).expect("the good queue is a tree");
        assert_eq!(tree.queues.len(), 1);
        assert_eq!(&*tree.queues[0].name, "good");
        let statuses = objects.take_statuses(&[], &BTreeSet::new(), true);
        assert_eq!(message(&statuses, "good"), "the settings are in force");
        assert!(message(&statuses, "bad").contains("`defaultTime`"), "{statuses:?}");
        assert!(
            objects.take_statuses(&[], &BTreeSet::new(), true).is_empty(),
            "nothing has changed"
        );
        assert!(objects.take_tree(|_| Ok(())).is_none(), "nothing has changed");
    }

    #[test]
    fn a_report_of_the_same_settings_changes_nothing() {
        let mut objects = objects(&[("only", json!({"weight": 2}))], Some(json!({})));
        assert!(objects.take_tree(|_| Ok(())).is_some());
        let spec = |weight| json!({"weight": weight}).as_object().cloned();
        let mut is_changed = |change| {
            objects.take_in(change);
            objects.take_tree(|_| Ok(())).is_some()
        };
        assert!(!is_changed(QueueChange::Queue("only".into(), spec(2))));
        assert!(!is_changed(QueueChange::Queue("other".into(), None)));
        assert!(!is_changed(QueueChange::Policy(Some(Map::new()))));
        assert!(is_changed(QueueChange::Queue("only".into(), spec(3))));
        assert!(is_changed(QueueChange::Policy(None)));
        assert!(is_changed(QueueChange::Queue("only".into(), None)));
    }

    #[test]
    fn used_time_alone_is_written_only_when_it_is_wanted() {
        let mut objects = objects(&[("only", json!({}))], None);
        let view = |running, usage_gpu_secs| QueueView {
            name: "only".into(),
            is_leaf: true,
            weight: 1,
            gpus: Vec::new(),
            waiting: 0,
            running,
            usage_gpu_secs,
            share_ppm: usage_gpu_secs,
            budget: None,
            default_time: None,
            idle: None,
            access: None,
        };
        let mut take = |running, usage, with_usage| {
            objects.take_statuses(&[view(running, usage)], &BTreeSet::new(), with_usage)
        };
        assert_eq!(take(1, 10, false).len(), 1, "the first status");
        assert!(take(1, 20, false).is_empty());
        assert_eq!(take(1, 20, true)[0].1["usageGpuSeconds"], 20);
        assert_eq!(take(2, 30, false)[0].1["usageGpuSeconds"], 30, "something else has changed");
    }

    #[test]
    fn a_wrong_policy_changes_nothing() {
        let mut objects = objects(&[("only", json!({}))], Some(json!({"defaultQueue": "missing"})));
        assert!(objects.take_tree(|_| Ok(())).is_none());
        let statuses = objects.take_statuses(&[], &BTreeSet::new(), true);
        assert!(message(&statuses, "default").contains("`defaultQueue`"), "{statuses:?}");
        assert_eq!(message(&statuses, "only"), "the settings are in force");
    }
}
