//! Objects and commands by which Ray clusters are workloads of a queue: the values of KubeRay's chart, a namespace
//! with the queue of its scheduler, and a script that applies them in order. An administrator reads and runs it.

use serde_json::{Value, json};

use crate::render::{GangScheduler, NVIDIA, yaml};
use crate::{kueue, names, queue};

/// Version of KubeRay's chart that the files were written for.
const KUBERAY: &str = "1.6.2";
/// Label of nodes with GPUs: NVIDIA's GPU feature discovery sets it. Kueue needs one where it places pods.
const GPU_NODES: (&str, &str) = ("nvidia.com/gpu.present", "true");

/// Queue of Ray clusters.
#[derive(Clone, Copy, Debug)]
pub struct RayQueue<'a> {
    /// Path of the queue, such as `research/rl`.
    pub queue: &'a str,
    /// Namespace of its jobs.
    pub namespace: &'a str,
    /// Model of the GPUs.
    pub model: &'a str,
    /// GPUs that it may use together.
    pub gpus: u64,
    /// CPUs and memory of the nodes; `None` if they are unknown.
    pub cpus: Option<u64>,
    /// Memory of the nodes.
    pub memory_gib: Option<u64>,
    /// Scheduler that has the queue.
    pub scheduler: GangScheduler,
}

/// Returns the values for the chart of KubeRay's operator.
#[must_use]
pub fn values(scheduler: GangScheduler) -> String {
    let text = match scheduler {
        GangScheduler::Volcano => {
            "# The operator makes a PodGroup of Volcano for every Ray cluster, and gives its pods to Volcano.\nbatchScheduler:\n  name: volcano\n"
        }
        GangScheduler::Kai => {
            "# The operator gives the pods of every Ray cluster to KAI, in the queue of the cluster's label.\nbatchScheduler:\n  name: kai-scheduler\n"
        }
        GangScheduler::Kueue => {
            "# Kueue starts and stops a RayJob by its `suspend`, and places its pods. The operator needs no scheduler of its own.\nbatchScheduler:\n  name: \"\"\n"
        }
        GangScheduler::Muster | GangScheduler::PodGroups | GangScheduler::None => {
            "# The pods name Muster's scheduler, which reads their gang from the RayCluster. The operator needs none of its own.\nbatchScheduler:\n  name: \"\"\n"
        }
    };
    format!("# Values of the chart kuberay/kuberay-operator, version {KUBERAY}.\n{text}")
}

impl RayQueue<'_> {
    /// Returns the file with the namespace and the queue.
    #[must_use]
    pub fn manifest(&self) -> String {
        let note = match self.scheduler {
            GangScheduler::Muster => {
                "# If it is the first queue of the cluster, add one for the other namespaces: their pods have none then.\n"
            }
            _ => "",
        };
        format!(
            "# The namespace {} and the queue {} for all GPUs of the nodes that its Ray clusters are sized for. No ResourceQuota\n# beside it: that refuses single pods, and leaves a part of a cluster.\n{note}{}",
            self.namespace,
            self.queue,
            yaml(&self.objects())
        )
    }

    /// Returns the namespace, and the objects of the queue.
    fn objects(&self) -> Vec<Value> {
        let name = queue::object_name(self.queue);
        let mut namespace = json!({
            "apiVersion": "v1", "kind": "Namespace", "metadata": {"name": self.namespace},
        });
        let object = |version: &str, kind: &str, name: &str, spec: Value| json!({"apiVersion": version, "kind": kind, "metadata": {"name": name}, "spec": spec});
        let mut objects = match self.scheduler {
            GangScheduler::Kueue => self.of_kueue(&name),
            GangScheduler::Volcano => {
                let spec = json!({"weight": 1, "reclaimable": true, "capability": {NVIDIA: self.gpus.to_string()}});
                vec![object("scheduling.volcano.sh/v1beta1", "Queue", &name, spec)]
            }
            GangScheduler::Kai => {
                let parent = format!("{name}-parent");
                // -1 is no limit.
                let open = json!({"quota": -1, "limit": -1, "overQuotaWeight": 1});
                let gpus = json!({"quota": self.gpus, "limit": self.gpus, "overQuotaWeight": 1});
                let resources = json!({"gpu": gpus, "cpu": open, "memory": open});
                let leaf = json!({"parentQueue": parent, "resources": resources});
                let version = "scheduling.run.ai/v2";
                vec![
                    object(version, "Queue", &parent, json!({"resources": resources})),
                    object(version, "Queue", &name, leaf),
                ]
            }
            GangScheduler::Muster | GangScheduler::PodGroups | GangScheduler::None => {
                // What else is created there, such as a RayCluster by hand, waits in the queue, too.
                namespace["metadata"]["labels"] = json!({names::QUEUE: name});
                let spec =
                    json!({"quota": {self.model: self.gpus}, "namespaces": [self.namespace]});
                let version = format!("{}/{}", queue::GROUP, queue::VERSION);
                vec![object(&version, "Queue", &name, spec)]
            }
        };
        objects.insert(0, namespace);
        objects
    }

    /// Returns the objects of Kueue. With a topology it admits a workload only where all of its pods have nodes.
    fn of_kueue(&self, name: &str) -> Vec<Value> {
        let object = |kind: &str, name: &str, spec: Value| {
            let version = format!("{}/v1beta2", kueue::GROUP);
            json!({"apiVersion": version, "kind": kind, "metadata": {"name": name}, "spec": spec})
        };
        let amount =
            |resource: &str, amount: String| json!({"name": resource, "nominalQuota": amount});
        // It admits nothing that asks for a resource without a quota; more than any cluster has is no limit.
        let cpus = self.cpus.map_or("1M".to_owned(), |cpus| cpus.to_string());
        let memory = self.memory_gib.map_or("1Ei".to_owned(), |memory| format!("{memory}Gi"));
        let resources =
            [amount(NVIDIA, self.gpus.to_string()), amount("cpu", cpus), amount("memory", memory)];
        let (label, value) = GPU_NODES;
        let mut local = object("LocalQueue", last(self.queue), json!({"clusterQueue": name}));
        local["metadata"]["namespace"] = json!(self.namespace);
        vec![
            object("Topology", "hosts", json!({"levels": [{"nodeLabel": names::HOSTNAME}]})),
            object(
                "ResourceFlavor",
                name,
                json!({"nodeLabels": {label: value}, "topologyName": "hosts"}),
            ),
            object(
                "ClusterQueue",
                name,
                json!({
                    "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": self.namespace}},
                    "preemption": {"reclaimWithinCohort": "Any", "withinClusterQueue": "LowerPriority"},
                    "resourceGroups": [{
                        "coveredResources": [NVIDIA, "cpu", "memory"],
                        "flavors": [{"name": name, "resources": resources}],
                    }],
                }),
            ),
            local,
        ]
    }

    /// Returns the script that installs KubeRay and the queue, and checks the sample. `option` is the scheduler as
    /// `muster export kuberay --scheduler` takes it.
    #[must_use]
    pub fn steps(&self, option: &str) -> String {
        let before = match self.scheduler {
            GangScheduler::Kueue => {
                "#   Kueue 0.15 or later, with ray.io/rayjob among its integrations and the feature gate TopologyAwareScheduling (both\n#   are defaults): it admits a Ray cluster only when all pods have a node. Nodes with GPUs have the label\n#   nvidia.com/gpu.present=true (GPU feature discovery); queue.yaml selects them by it."
            }
            GangScheduler::Volcano => {
                "#   Volcano. A Ray cluster without the label volcano.sh/queue-name is in the queue `default`."
            }
            GangScheduler::Kai => "#   KAI.",
            GangScheduler::Muster | GangScheduler::PodGroups | GangScheduler::None => {
                "#   Muster's scheduler: muster init kubernetes --image IMAGE | kubectl apply -f -"
            }
        };
        format!(
            "\
#!/bin/sh
# Installs KubeRay so that its Ray clusters wait in the queue {queue}, and start whole. Read it, then run it where kubectl
# and helm reach the cluster. A second run changes nothing.
#
# Before:
#   KubeRay's repository of charts, which `helm repo add kuberay` names (https://docs.ray.io/en/latest/cluster/kubernetes).
{before}
set -eu
cd \"$(dirname \"$0\")\"

# 1. KubeRay's operator.
helm upgrade --install kuberay-operator kuberay/kuberay-operator --version {KUBERAY} \\
    --namespace kuberay-system --create-namespace --values kuberay-values.yaml

# 2. The namespace and its queue.
kubectl apply -f queue.yaml

# 3. The sample: put your program into program.yaml first; this is what rayjob.yaml was made by.
#   muster export kuberay program.yaml --scheduler {option} -o rayjob.yaml --force
muster check ray rayjob.yaml
kubectl apply --dry-run=server -f rayjob.yaml
echo 'ready: `kubectl create -f rayjob.yaml`, or `muster run --on kubernetes program.yaml`, starts the sample' >&2
",
            queue = self.queue,
        )
    }
}

/// Returns the last part of the path of a queue, by which Kueue's LocalQueue is named.
fn last(queue: &str) -> &str {
    queue.rsplit('/').next().unwrap_or(queue)
}
