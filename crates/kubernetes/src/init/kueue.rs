//! Files for Kueue: a ResourceFlavor per model of GPU, a Cohort per parent queue, a ClusterQueue per leaf, and a
//! LocalQueue in each namespace that may use it. What no queue owns is the quota of the Cohort above all.

use std::collections::{BTreeMap, BTreeSet};

use muster_model::queue::Backfill;
use muster_model::{QueueSpec, QueueTree};
use serde_json::{Value, json};

use super::flavor::{Amount, NodeFlavor};
use super::shares::{PlannedQueue, Shares};
use super::{CONFIG, NODE_LABELS, QUEUES, QueueFilesError, QueueFilesInput, file, labels, object};

/// API version of the objects.
const VERSION: &str = "kueue.x-k8s.io/v1beta2";
/// Cohort above all queues.
const ROOT: &str = "muster-root";
/// Name of the topology.
const TOPOLOGY: &str = "muster";
/// Time in which all pods of an admitted job must run; otherwise it gives its quota back.
const READY_TIMEOUT: &str = "10m";

pub(super) fn files(
    input: &QueueFilesInput<'_>,
    shares: &Shares<'_>,
) -> Result<Vec<(&'static str, String)>, QueueFilesError> {
    let mut objects = vec![topology(input)];
    objects.extend(shares.flavors.iter().map(flavor));
    objects.push(root(shares));
    for queue in &shares.queues {
        objects.push(if queue.is_leaf() {
            cluster_queue(input.queues, shares, queue)
        } else {
            cohort(shares, queue)
        });
    }
    let local = local_queues(input, shares)?;
    let namespaces: BTreeSet<&str> = local.keys().map(|(namespace, _)| *namespace).collect();
    objects.splice(0..0, namespaces.into_iter().map(namespace));
    objects.extend(local.into_iter().map(|((namespace, name), queue)| {
        json!({
            "apiVersion": VERSION,
            "kind": "LocalQueue",
            "metadata": {"name": name, "namespace": namespace},
            "spec": {"clusterQueue": queue.name()},
        })
    }));
    let labels = labels::script(input, &shares.flavors).map(|script| (NODE_LABELS, script));
    let mut files: Vec<_> = labels.into_iter().collect();
    files.push((CONFIG, file(CONFIG_COMMENT, &[config(input.queues)])));
    files.push((QUEUES, file(QUEUES_COMMENT, &objects)));
    Ok(files)
}

const CONFIG_COMMENT: &str = "\
The settings of Kueue 0.19: its defaults, with fair sharing between queues, decayed usage between the namespaces of
a queue, and quota that returns when not all pods of a job start. Apply it after Kueue itself, then restart it:
  kubectl apply --server-side --force-conflicts -f config.yaml
  kubectl -n kueue-system rollout restart deployment kueue-controller-manager";

const QUEUES_COMMENT: &str = "\
The queues. Label the nodes before (node-labels.sh, if it is there), then: kubectl apply --server-side -f queues.yaml";

fn config(tree: &QueueTree) -> Value {
    let configuration = json!({
        "apiVersion": "config.kueue.x-k8s.io/v1beta2",
        "kind": "Configuration",
        "health": {"healthProbeBindAddress": ":8081"},
        "metrics": {"bindAddress": ":8443"},
        "webhook": {"port": 9443},
        "leaderElection": {"leaderElect": true, "resourceName": "c1f6bfd2.kueue.x-k8s.io"},
        "clientConnection": {"qps": 300, "burst": 500},
        "waitForPodsReady": {"timeout": READY_TIMEOUT, "blockAdmission": false},
        "fairSharing": {"preemptionStrategies": ["LessThanOrEqualToFinalShare", "LessThanInitialShare"]},
        "admissionFairSharing": {
            "usageHalfLifeTime": format!("{}s", tree.half_life.0 / 1000),
            "usageSamplingInterval": "1m",
            // Usage counts GPUs only, as in Muster.
            "resourceWeights": {"cpu": 0, "memory": 0},
        },
        "integrations": {"frameworks": [
            "batch/job", "jobset.x-k8s.io/jobset", "trainer.kubeflow.org/trainjob", "kubeflow.org/mpijob",
            "ray.io/rayjob", "ray.io/raycluster", "ray.io/rayservice", "leaderworkerset.x-k8s.io/leaderworkerset",
            "pod", "deployment", "statefulset",
        ]},
    });
    json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "kueue-manager-config", "namespace": "kueue-system"},
        "data": {"controller_manager_config.yaml": crate::render::yaml(&[configuration])},
    })
}

fn namespace(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
}

/// Returns the Topology. With the node as a level, Kueue admits a job only if its pods fit on nodes, not only into the
/// quota.
fn topology(input: &QueueFilesInput<'_>) -> Value {
    object(VERSION, "Topology", TOPOLOGY, &labels::topology(input))
}

fn flavor(flavor: &NodeFlavor) -> Value {
    let (label, value) = &flavor.label;
    let mut spec = json!({"nodeLabels": {*label: value}, "topologyName": TOPOLOGY});
    if flavor.model.is_some() {
        spec["tolerations"] =
            json!([{"key": flavor.resource, "operator": "Exists", "effect": "NoSchedule"}]);
    }
    object(VERSION, "ResourceFlavor", &flavor.name, &spec)
}

fn root(shares: &Shares<'_>) -> Value {
    let groups = groups(shares, |flavor| (shares.unowned(flavor), Bounds::default()));
    object(VERSION, "Cohort", ROOT, &json!({"resourceGroups": groups}))
}

fn cohort(shares: &Shares<'_>, queue: &PlannedQueue<'_>) -> Value {
    let amount = |flavor: &NodeFlavor| {
        (shares.rest(flavor, queue.spec), Bounds::of(flavor, queue.spec, u64::MAX))
    };
    let spec = json!({
        "parentName": parent(queue),
        "fairSharing": {"weight": queue.spec.weight.to_string()},
        "resourceGroups": groups(shares, amount),
    });
    object(VERSION, "Cohort", &queue.name(), &spec)
}

fn cluster_queue(tree: &QueueTree, shares: &Shares<'_>, queue: &PlannedQueue<'_>) -> Value {
    let amount = |flavor: &NodeFlavor| {
        let owned = shares.owned(flavor, queue.spec);
        (owned, Bounds::of(flavor, queue.spec, owned.gpus))
    };
    let selector = if queue.namespaces.is_empty() {
        json!({})
    } else {
        let key = "kubernetes.io/metadata.name";
        json!({"matchExpressions": [{"key": key, "operator": "In", "values": queue.namespaces}]})
    };
    let word = |is_on: bool, word: &'static str| if is_on { word } else { "Never" };
    let is_strict = tree.backfill == Backfill::None;
    json!({
        "apiVersion": VERSION,
        "kind": "ClusterQueue",
        "metadata": {"name": queue.name()},
        "spec": {
            "cohortName": parent(queue),
            "namespaceSelector": selector,
            "queueingStrategy": if is_strict { "StrictFIFO" } else { "BestEffortFIFO" },
            "fairSharing": {"weight": queue.spec.weight.to_string()},
            "admissionScope": {"admissionMode": "UsageBasedAdmissionFairSharing"},
            "preemption": {
                "reclaimWithinCohort": word(tree.preemption.reclaim, "Any"),
                "withinClusterQueue": word(tree.preemption.priority, "LowerPriority"),
            },
            "resourceGroups": groups(shares, amount),
        },
    })
}

fn parent(queue: &PlannedQueue<'_>) -> String {
    queue.parent.as_deref().map_or(ROOT.to_owned(), crate::queue::object_name)
}

/// Limits on the GPUs of a flavor.
#[derive(Clone, Copy, Debug, Default)]
struct Bounds {
    borrowing: Option<u64>,
    lending: Option<u64>,
}

impl Bounds {
    /// Returns the limits of a queue whose quota lists the model of a flavor; more than `most` is never lent.
    fn of(flavor: &NodeFlavor, spec: &QueueSpec, most: u64) -> Self {
        match &flavor.model {
            Some(model) if spec.quota.contains_key(model) => {
                Self { borrowing: spec.borrow, lending: spec.lend.map(|lend| lend.min(most)) }
            }
            _ => Self::default(),
        }
    }
}

/// Returns the quotas of all flavors. Every group covers the same resources, or Kueue would refuse pods with the others.
fn groups(shares: &Shares<'_>, amount: impl Fn(&NodeFlavor) -> (Amount, Bounds)) -> Value {
    let of_gpus: BTreeSet<&str> =
        shares.flavors.iter().filter(|one| one.model.is_some()).map(|one| one.resource).collect();
    let covered: Vec<&str> = ["cpu", "memory"].into_iter().chain(of_gpus.iter().copied()).collect();
    let quotas = |flavor: &NodeFlavor| {
        let (amount, bounds) = amount(flavor);
        let plain = |name: &str, quota: String| json!({"name": name, "nominalQuota": quota});
        let mut resources = vec![plain("cpu", amount.cpu()), plain("memory", amount.memory())];
        for resource in &of_gpus {
            let is_own = flavor.model.is_some() && *resource == flavor.resource;
            let mut quota = plain(resource, if is_own { amount.gpus } else { 0 }.to_string());
            let limits = [("borrowingLimit", bounds.borrowing), ("lendingLimit", bounds.lending)];
            for (key, limit) in limits.into_iter().filter(|_| is_own) {
                if let Some(limit) = limit {
                    quota[key] = json!(limit.to_string());
                }
            }
            resources.push(quota);
        }
        json!({"name": flavor.name, "resources": resources})
    };
    let flavors: Vec<Value> = shares.flavors.iter().map(quotas).collect();
    json!([{"coveredResources": covered, "flavors": flavors}])
}

type LocalQueues<'a> = BTreeMap<(&'a str, &'a str), &'a PlannedQueue<'a>>;

/// Returns the LocalQueues by namespace and name, which is the last part of the queue's path, as `muster run` names it.
fn local_queues<'a>(
    input: &QueueFilesInput<'a>,
    shares: &'a Shares<'a>,
) -> Result<LocalQueues<'a>, QueueFilesError> {
    let mut all: LocalQueues<'a> = BTreeMap::new();
    for queue in shares.queues.iter().filter(|queue| queue.is_leaf()) {
        let everywhere = queue.namespaces.is_empty().then_some(input.namespace);
        for namespace in queue.namespaces.iter().copied().chain(everywhere) {
            let name: &str = &queue.spec.name;
            if let Some(other) = all.insert((namespace, name), queue) {
                return Err(QueueFilesError::SameLocalQueue(
                    other.path.clone(),
                    queue.path.clone(),
                    name.to_owned(),
                    namespace.to_owned(),
                ));
            }
        }
    }
    Ok(all)
}
