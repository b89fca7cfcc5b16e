//! Each rule for Kubernetes passes on a sound cluster, and fails on the same cluster with one change.
//! A rule without such a change fails a test here.

use std::collections::BTreeSet;

use muster_doctor::{kubernetes_rule_texts, ray_object_rule_texts};
use muster_model::check::CheckReport;
use serde_json::{Value, json};

use crate::cluster::{EARLIER, SampleCluster, node, object, pod, rank};
use crate::site::failed;

/// Rule, change of the cluster, and a part of the evidence.
type ClusterCase = (&'static str, ClusterChange, &'static str);

type ClusterChange = fn(SampleCluster) -> SampleCluster;

/// Label of the pods of a PodGroup of coscheduling.
const POD_GROUP: &str = "scheduling.x-k8s.io/pod-group";

const FAILS: &[ClusterCase] = &[
    (
        "gang-on-default-scheduler",
        |cluster| {
            cluster.set("Pod", "train-0", "spec.schedulerName", json!("default-scheduler")).set(
                "Pod",
                "train-1",
                "spec.schedulerName",
                json!(""),
            )
        },
        "JobSet ml/train: default-scheduler places 2 pods with 16 GPUs",
    ),
    (
        "gang-half-running",
        |cluster| cluster.without_named("train-1").with(rank(1, None)),
        "JobSet ml/train: 1 of 2 pods hold 8 GPUs, for 60 min without the others",
    ),
    (
        "gang-without-minimum",
        |cluster| grouped(cluster, Some(json!({"minMember": 1}))),
        "PodGroup ml/pair: 2 pods with GPUs, and its minimum is 1",
    ),
    (
        "gang-without-minimum",
        |cluster| grouped(cluster, Some(json!({}))),
        "PodGroup ml/pair: 2 pods with GPUs, and its minimum is 1",
    ),
    (
        "gang-without-minimum",
        |cluster| grouped(cluster, None),
        "PodGroup ml/pair does not exist; pods with GPUs that name it: 2",
    ),
    (
        "gang-crash-multiplies",
        |cluster| cluster.set("JobSet", "train", &format!("{OF_JOBS}.backoffLimit"), json!(6)),
        "JobSet ml/train: backoffLimit is 6",
    ),
    (
        "gang-crash-multiplies",
        |cluster| cluster.set("JobSet", "train", &format!("{OF_JOBS}.backoffLimit"), Value::Null),
        "JobSet ml/train: backoffLimit is 6, the default",
    ),
    (
        "gang-crash-multiplies",
        |cluster| {
            let path = format!("{OF_JOBS}.template.spec.restartPolicy");
            cluster.set("JobSet", "train", &path, json!("OnFailure"))
        },
        "JobSet ml/train: restartPolicy is OnFailure",
    ),
    (
        "gang-scheduler-not-used",
        |cluster| {
            let path = "spec.schedulerName";
            let cluster = cluster.set("Pod", "train-0", path, json!(""));
            cluster.set("Pod", "train-1", path, json!(""))
        },
        "muster-system/muster-scheduler is installed, and default-scheduler places 1 gang: JobSet ml/train",
    ),
    (
        "gang-scheduler-not-used",
        |cluster| cluster.set("Deployment", "muster-scheduler", "status", json!({})),
        "muster-system/muster-scheduler has no ready replica; `muster` is named by 2 pods",
    ),
    (
        "two-schedulers-on-nodes",
        |cluster| cluster.set("Pod", "chat-0", "spec.schedulerName", json!("volcano")),
        "default-scheduler and volcano on n3",
    ),
    (
        "small-pods-spread",
        |cluster| {
            cluster.without("KubeSchedulerConfiguration").with(kube_scheduler(&["kube-scheduler"]))
        },
        "kube-scheduler runs without --config; 3 pods with fewer than 8 GPUs",
    ),
    (
        "small-pods-spread",
        |cluster| {
            cluster.without("KubeSchedulerConfiguration").with(json!({
                "apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration",
                "profiles": [{"pluginConfig": [{
                    "name": "NodeResourcesFit",
                    "args": {"scoringStrategy": {"type": "MostAllocated", "resources": [{"name": "cpu"}]}},
                }]}],
            }))
        },
        "scoringStrategy is MostAllocated, and does not count GPUs",
    ),
    (
        "nodes-also-in-slurm",
        |cluster| cluster.slurm_nodes(Some(&["n2", "s1"])),
        "n2 is a node of Slurm, too",
    ),
    (
        "gpus-not-usable",
        |cluster| cluster.set("Node", "n4", "status.allocatable", json!({"nvidia.com/gpu": "7"})),
        "n4 has 8 GPUs, of which pods can use 7",
    ),
    (
        "gpus-not-usable",
        |cluster| cluster.set("Node", "n4", "status", json!({})),
        "n4 has the label nvidia.com/gpu.present, and offers no GPU",
    ),
    (
        "gpu-software-not-ready",
        |cluster| cluster.set("DaemonSet", "nvidia-device-plugin", "status.numberReady", json!(3)),
        "DaemonSet gpu-operator/nvidia-device-plugin: ready on 3 of 4 nodes",
    ),
    (
        "gpu-software-not-ready",
        |cluster| {
            let mut policy =
                object("nvidia.com/v1", "ClusterPolicy", "", "cluster-policy", json!({}));
            policy["status"] = json!({"state": "notReady"});
            cluster.with(policy)
        },
        "ClusterPolicy cluster-policy of the GPU Operator: notReady",
    ),
    (
        "gpus-offered-twice",
        |cluster| cluster.with(resource_slice()),
        "n4 offers 8 GPUs by a device plugin, and a ResourceSlice",
    ),
    (
        "gpus-shared-by-tenants",
        |cluster| shared(cluster, "ml"),
        "n3 (time-slicing) has pods of ml, web",
    ),
    (
        "no-topology-labels",
        |cluster| cluster.set("Node", "n4", "metadata.labels", json!({})),
        "without such a label, unlike others: n4",
    ),
    (
        "no-topology-labels",
        |cluster| {
            let zone = "topology.kubernetes.io/zone";
            let cluster = cluster.set("Node", "n1", "metadata.labels", json!({zone: "a"}));
            let cluster = cluster.set("Node", "n2", "metadata.labels", json!({zone: "b"}));
            let cluster = cluster.set("Node", "n3", "metadata.labels", json!({zone: "b"}));
            cluster.set("Node", "n4", "metadata.labels", json!({zone: "b"}))
        },
        "4 nodes with GPUs are in 2 zones",
    ),
    ("k3s-beyond-envelope", |cluster| with_k3s(cluster, 9), "k3s runs on 9 nodes with GPUs"),
    (
        "gpus-without-quota",
        |cluster| cluster.without("ResourceQuota"),
        "namespace web has no quota on GPUs; 3 GPUs are used by chat-0, chat-1, chat-2",
    ),
    (
        "gpus-without-quota",
        |cluster| {
            let hard = json!({"requests.cpu": "4"});
            cluster.set("ResourceQuota", "gpus", "spec.hard", hard)
        },
        "namespace web has no quota on GPUs; 3 GPUs are used by chat-0, chat-1, chat-2",
    ),
    (
        "notebook-without-limit",
        |cluster| cluster.set("Pod", "chat-0", "metadata.labels", json!({"notebook-name": "ann"})),
        "web/chat-0: 1 GPU, and idle notebooks are not culled",
    ),
    (
        "notebook-without-limit",
        |cluster| {
            let labels = json!({"component": "singleuser-server"});
            let created = json!("2026-11-18T12:00:00Z");
            let cluster = cluster.set("Pod", "chat-0", "metadata.labels", labels);
            cluster.set("Pod", "chat-0", "metadata.creationTimestamp", created)
        },
        "web/chat-0: 1 GPU, for more than a day",
    ),
    (
        "shared-memory-small",
        |cluster| cluster.set("Pod", "train-0", "spec.containers.0.volumeMounts", json!([])),
        "JobSet ml/train: 1 pod with 8 GPUs",
    ),
    (
        "shared-memory-small",
        |cluster| {
            let limits = json!({"limits": {"nvidia.com/gpu": "2"}});
            let container = json!({"name": "main", "resources": limits});
            cluster.set("Pod", "chat-0", "spec.containers.0", container)
        },
        "ReplicaSet web/chat-5d4f: 1 pod with 2 GPUs",
    ),
    (
        "kueue-admits-nothing",
        |cluster| cluster.set("ClusterQueue", "research", "spec.stopPolicy", json!("Hold")),
        "ClusterQueue research is stopped: stopPolicy is Hold",
    ),
    (
        "kueue-admits-nothing",
        |cluster| {
            let active = json!({"type": "Active", "status": "False", "reason": "FlavorNotFound",
                                "message": "references missing ResourceFlavor: h100"});
            cluster.set("ClusterQueue", "research", "status", json!({"conditions": [active]}))
        },
        "ClusterQueue research is not active: references missing ResourceFlavor: h100 (FlavorNotFound)",
    ),
    (
        "kueue-admits-nothing",
        |cluster| cluster.set("ClusterQueue", "research", "spec.namespaceSelector", Value::Null),
        "ClusterQueue research has no namespaceSelector, so that it serves no namespace",
    ),
    (
        "kueue-admits-nothing",
        |cluster| {
            let cluster = cluster.set("ClusterQueue", "research", "spec.cohortName", json!(""));
            cluster.set("ClusterQueue", "research", &format!("{OF_QUOTA}.nominalQuota"), json!("0"))
        },
        "ClusterQueue research admits no job with GPUs: their quota is 0, and there is no cohort to borrow from",
    ),
    (
        "kueue-admits-nothing",
        |cluster| cluster.set("LocalQueue", "team", "spec.clusterQueue", json!("gone")),
        "LocalQueue ml/team names the ClusterQueue gone, which does not exist",
    ),
    (
        "kueue-flavor-without-nodes",
        |cluster| cluster.with(flavor("h100", &json!({"pool": "h100", "zone": "b"}))),
        "ResourceFlavor h100 is for nodes with pool=h100, zone=b, and no node has that",
    ),
    (
        "kueue-lends-for-ever",
        |cluster| {
            let path = "spec.preemption.reclaimWithinCohort";
            cluster.set("ClusterQueue", "research", path, json!("Never"))
        },
        "ClusterQueue research lends up to 16 GPUs to cohort all, and reclaims none",
    ),
    (
        "kueue-lends-for-ever",
        |cluster| cluster.set("ClusterQueue", "research", "spec.preemption", Value::Null),
        "ClusterQueue research lends up to 16 GPUs to cohort all, and reclaims none",
    ),
    (
        "kueue-queue-missing",
        |cluster| cluster.with(waiting("Job", "batch/v1", "taem")),
        "Job ml/eval names the LocalQueue taem; its namespace has team",
    ),
    (
        "kueue-queue-missing",
        |cluster| {
            let mut job = waiting("RayJob", "ray.io/v1", "team");
            job["metadata"]["namespace"] = json!("web");
            cluster.with(job)
        },
        "RayJob web/eval names the LocalQueue team; its namespace has none",
    ),
    (
        "kueue-lacks-resource",
        |cluster| {
            let mut job = waiting("Job", "batch/v1", "team");
            job["spec"]["template"]["spec"]["containers"][0]["resources"]["requests"] =
                json!({"cpu": "8", "memory": "1Gi", "example.com/licence": 1});
            cluster.with(job)
        },
        "Job ml/eval: ClusterQueue research has no cpu, memory",
    ),
    (
        "gang-preempted-pod-by-pod",
        |cluster| {
            let class = json!("urgent");
            cluster.with(urgent()).set("Pod", "chat-0", "spec.priorityClassName", class)
        },
        "priority class urgent (1000) of 1 pod with GPUs can preempt pods of JobSet ml/train",
    ),
    (
        "budget-blocks-drains",
        |cluster| cluster.with(budget(3)),
        "web/chat: 3 of 3 pods must stay healthy",
    ),
    (
        "nodes-also-in-slurm",
        |cluster| {
            // A name with the domain; and every pod with GPUs tolerates the taint of their resource.
            let taints = json!([{"key": "nvidia.com/gpu", "effect": "NoSchedule"}]);
            cluster.slurm_nodes(Some(&["N2.example.com"])).set(
                "Node",
                "n2",
                "spec",
                json!({"taints": taints}),
            )
        },
        "n2 is a node of Slurm, too",
    ),
    (
        "gpus-not-usable",
        |cluster| {
            // What is known is told, whatever else is not.
            let allocatable = json!({"nvidia.com/gpu": "7"});
            let cluster = cluster.set("Node", "n4", "status.allocatable", allocatable);
            cluster
                .set("Node", "n3", "status", json!({}))
                .unlisted("resourceslices.resource.k8s.io")
        },
        "n4 has 8 GPUs, of which pods can use 7",
    ),
    (
        "gang-crash-multiplies",
        |cluster| {
            // It only leaves out failures by disruptions.
            let rules = json!({"rules": [{"action": "Ignore"}]});
            let cluster =
                cluster.set("JobSet", "train", &format!("{OF_JOBS}.backoffLimit"), json!(6));
            cluster.set("JobSet", "train", &format!("{OF_JOBS}.podFailurePolicy"), rules)
        },
        "JobSet ml/train: backoffLimit is 6",
    ),
];

/// Path to the Job of the JobSet.
const OF_JOBS: &str = "spec.replicatedJobs.0.template.spec";
/// Path to the quota for GPUs of a ClusterQueue.
const OF_QUOTA: &str = "spec.resourceGroups.0.flavors.0.resources.0";

/// Rules that a change necessarily fails, too.
const ALSO: &[(&str, &str)] = &[
    ("gang-on-default-scheduler", "gang-scheduler-not-used"),
    ("gang-scheduler-not-used", "gang-on-default-scheduler"),
];

/// Changes under which a rule still passes.
const PASSES: &[(&str, ClusterChange)] = &[
    ("gang-on-default-scheduler", |cluster| {
        let cluster =
            cluster.set("Pod", "train-0", "spec.schedulerName", json!("default-scheduler"));
        let cluster =
            cluster.set("Pod", "train-1", "spec.schedulerName", json!("default-scheduler"));
        let labels = json!({"kueue.x-k8s.io/queue-name": "team"});
        cluster.set("JobSet", "train", "metadata.labels", labels)
    }),
    ("gang-half-running", |cluster| {
        // It was created a moment ago.
        let cluster = cluster.without_named("train-1").with(rank(1, None));
        cluster.set("Pod", "train-1", "metadata.creationTimestamp", json!("2026-11-20T11:55:00Z"))
    }),
    ("gang-half-running", |cluster| {
        // It has its minimum, and waits for more.
        cluster.with(rank(2, None))
    }),
    ("gang-without-minimum", |cluster| grouped(cluster, Some(json!({"minMember": 2})))),
    ("gang-without-minimum", |cluster| {
        // Volcano makes a PodGroup for the pods of a Deployment.
        let spec = json!({"minMember": 1});
        let labels = json!({"scheduling.k8s.io/group-name": "podgroup-1"});
        cluster
            .set("Pod", "chat-0", "metadata.annotations", labels.clone())
            .set("Pod", "chat-1", "metadata.annotations", labels)
            .with(object("scheduling.volcano.sh/v1beta1", "PodGroup", "web", "podgroup-1", spec))
    }),
    ("gang-crash-multiplies", |cluster| {
        let cluster = cluster.set("JobSet", "train", &format!("{OF_JOBS}.backoffLimit"), json!(6));
        let ended = json!({"conditions": [{"type": "Completed", "status": "True"}]});
        cluster.set("JobSet", "train", "status", ended)
    }),
    ("small-pods-spread", |cluster| {
        let cluster = cluster.without("KubeSchedulerConfiguration");
        let cluster = cluster.without_named("chat-0").without_named("chat-1");
        cluster.without_named("chat-2")
    }),
    ("nodes-also-in-slurm", |cluster| {
        let taints = json!([{"key": "muster.run/slurm", "effect": "NoSchedule"}]);
        cluster.slurm_nodes(Some(&["n2"])).set("Node", "n2", "spec", json!({"taints": taints}))
    }),
    ("gpus-not-usable", |cluster| {
        // Its GPUs are offered by DRA.
        let capacity = json!({"cpu": "128"});
        let cluster = cluster.set("Node", "n4", "status.capacity", capacity.clone());
        cluster.set("Node", "n4", "status.allocatable", capacity).with(resource_slice())
    }),
    ("gpus-shared-by-tenants", |cluster| shared(cluster, "web")),
    ("no-topology-labels", |cluster| {
        let labels = json!({"example.com/place": "p1"});
        let levels = json!({"levels": [{"nodeLabel": "example.com/place"}]});
        let topology = object("kueue.x-k8s.io/v1beta2", "Topology", "", "default", levels);
        cluster.set("Node", "n4", "metadata.labels", labels).with(topology)
    }),
    ("k3s-beyond-envelope", |cluster| with_k3s(cluster, 8)),
    ("gpus-without-quota", |cluster| {
        let cluster = cluster.without("ResourceQuota");
        let labels = json!({"kueue.x-k8s.io/queue-name": "team"});
        let cluster = cluster.set("Pod", "chat-0", "metadata.labels", labels.clone());
        let cluster = cluster.set("Pod", "chat-1", "metadata.labels", labels.clone());
        cluster.set("Pod", "chat-2", "metadata.labels", labels)
    }),
    ("notebook-without-limit", |cluster| {
        let labels = json!({"notebook-name": "ann"});
        let cluster = cluster.set("Pod", "chat-0", "metadata.labels", labels);
        cluster.set("Pod", "chat-0", "spec.activeDeadlineSeconds", json!(28800))
    }),
    ("notebook-without-limit", |cluster| {
        let labels = json!({"notebook-name": "ann"});
        cluster.with(notebook_controller(json!({"value": "true"}))).set(
            "Pod",
            "chat-0",
            "metadata.labels",
            labels,
        )
    }),
    ("shared-memory-small", |cluster| {
        let cluster = cluster.set("Pod", "train-0", "spec.containers.0.volumeMounts", json!([]));
        cluster.set("Pod", "train-0", "spec.hostIPC", json!(true))
    }),
    ("kueue-admits-nothing", |cluster| {
        // It has no quota of its own, and borrows.
        cluster.set("ClusterQueue", "research", &format!("{OF_QUOTA}.nominalQuota"), json!("0"))
    }),
    ("kueue-flavor-without-nodes", |cluster| {
        // One is for all nodes, one for a node that exists, and one is used by no queue.
        let cluster = cluster.set("Node", "n2", "metadata.labels.pool", json!("h100"));
        let cluster = cluster.with(flavor("h100", &json!({"pool": "h100"})));
        let cluster = cluster.with(flavor("unused", &json!({"pool": "gone"})));
        cluster.with(flavor("any", &json!({})))
    }),
    ("kueue-lends-for-ever", |cluster| {
        let cluster = cluster.set("ClusterQueue", "research", "spec.preemption", Value::Null);
        cluster.set("ClusterQueue", "research", &format!("{OF_QUOTA}.lendingLimit"), json!("0"))
    }),
    ("kueue-lacks-resource", |cluster| cluster.with(waiting("Job", "batch/v1", "team"))),
    ("kueue-queue-missing", |cluster| {
        // It has been started, or cancelled.
        let mut started = waiting("Job", "batch/v1", "taem");
        started["spec"]["suspend"] = json!(false);
        let mut cancelled = waiting("JobSet", "jobset.x-k8s.io/v1alpha2", "taem");
        cancelled["metadata"]["annotations"] = json!({"muster.run/cancelled": "ann"});
        cluster.with(started).with(cancelled)
    }),
    ("gang-preempted-pod-by-pod", |cluster| {
        let cluster = cluster.with(urgent());
        let cluster = cluster.set("Pod", "chat-0", "spec.priorityClassName", json!("urgent"));
        cluster.set("PriorityClass", "urgent", "preemptionPolicy", json!("Never"))
    }),
    ("budget-blocks-drains", |cluster| cluster.with(budget(2))),
    ("two-schedulers-on-nodes", |cluster| {
        // Another name of the same scheduler.
        let name = json!("gke.io/optimize-utilization-scheduler");
        cluster.set("Pod", "chat-0", "spec.schedulerName", name)
    }),
    ("gang-scheduler-not-used", |cluster| {
        // Kueue admits the gang as a whole.
        let labels = json!({"kueue.x-k8s.io/queue-name": "team"});
        let cluster = cluster.set("Pod", "train-0", "spec.schedulerName", json!(""));
        let cluster = cluster.set("Pod", "train-1", "spec.schedulerName", json!(""));
        cluster.set("JobSet", "train", "metadata.labels", labels)
    }),
    ("gpus-not-usable", |cluster| {
        // The GPU Operator leaves it out.
        let cluster = cluster.set("Node", "n4", "status", json!({}));
        let label =
            json!({"nvidia.com/gpu.present": "true", "nvidia.com/gpu.deploy.operands": "false"});
        cluster.set("Node", "n4", "metadata.labels", label)
    }),
    ("gang-crash-multiplies", |cluster| {
        let cluster = cluster.set("JobSet", "train", &format!("{OF_JOBS}.backoffLimit"), json!(6));
        let path = format!("{OF_JOBS}.backoffLimitPerIndex");
        cluster.set("JobSet", "train", &path, json!(1))
    }),
    ("kueue-lends-for-ever", |cluster| {
        // No namespace has jobs in it: its quota is for the others.
        cluster.without("LocalQueue").set(
            "ClusterQueue",
            "research",
            "spec.preemption",
            Value::Null,
        )
    }),
];

/// Returns a ResourceFlavor for nodes with these labels.
fn flavor(name: &str, labels: &Value) -> Value {
    object("kueue.x-k8s.io/v1beta2", "ResourceFlavor", "", name, json!({"nodeLabels": labels}))
}

/// Kinds without which a rule is not tested, and a part of what the report then asks for.
const NOT_TESTED: &[ClusterCase] = &[
    ("gang-on-default-scheduler", |cluster| cluster.unlisted("pods"), "the right to list pods"),
    (
        "gang-on-default-scheduler",
        |cluster| cluster.unlisted("jobsets.jobset.x-k8s.io"),
        "the right to list jobsets.jobset.x-k8s.io",
    ),
    (
        "gang-half-running",
        |cluster| cluster.unlisted("jobsets.jobset.x-k8s.io"),
        "the right to list jobsets.jobset.x-k8s.io",
    ),
    ("gang-without-minimum", |cluster| cluster.unlisted("pods"), "the right to list pods"),
    (
        "gang-crash-multiplies",
        |cluster| cluster.unlisted("jobs.batch"),
        "the right to list jobs.batch",
    ),
    (
        "gang-scheduler-not-used",
        |cluster| cluster.unlisted("deployments.apps"),
        "the right to list deployments.apps",
    ),
    ("two-schedulers-on-nodes", |cluster| cluster.unlisted("pods"), "the right to list pods"),
    (
        "small-pods-spread",
        |cluster| cluster.without("KubeSchedulerConfiguration"),
        "the KubeSchedulerConfiguration of kube-scheduler",
    ),
    (
        "small-pods-spread",
        |cluster| {
            let words = ["kube-scheduler", "--config=/etc/scheduler.yaml"];
            cluster.without("KubeSchedulerConfiguration").with(kube_scheduler(&words))
        },
        "/etc/scheduler.yaml of kube-scheduler",
    ),
    ("nodes-also-in-slurm", |cluster| cluster.slurm_nodes(None), "--slurm-nodes"),
    ("gpus-not-usable", |cluster| cluster.unlisted("nodes"), "the right to list nodes"),
    (
        "gpus-not-usable",
        |cluster| {
            let cluster = cluster.set("Node", "n4", "status", json!({}));
            cluster.unlisted("resourceslices.resource.k8s.io")
        },
        "the right to list resourceslices.resource.k8s.io",
    ),
    (
        "gpu-software-not-ready",
        |cluster| cluster.unlisted("daemonsets.apps"),
        "the right to list daemonsets.apps",
    ),
    (
        "gpus-offered-twice",
        |cluster| cluster.unlisted("resourceslices.resource.k8s.io"),
        "the right to list resourceslices.resource.k8s.io",
    ),
    ("gpus-shared-by-tenants", |cluster| cluster.unlisted("pods"), "the right to list pods"),
    (
        "no-topology-labels",
        |cluster| {
            let cluster = cluster.set("Node", "n1", "metadata.labels", json!({}));
            let cluster = cluster.set("Node", "n2", "metadata.labels", json!({}));
            let cluster = cluster.set("Node", "n3", "metadata.labels", json!({}));
            cluster.set("Node", "n4", "metadata.labels", json!({}))
        },
        "such labels, or whether 4 nodes are in one rack",
    ),
    ("k3s-beyond-envelope", |cluster| cluster.unlisted("nodes"), "the right to list nodes"),
    (
        "gpus-without-quota",
        |cluster| cluster.unlisted("resourcequotas"),
        "the right to list resourcequotas",
    ),
    (
        "notebook-without-limit",
        |cluster| {
            let from = json!({"valueFrom": {"configMapKeyRef": {"name": "config"}}});
            let labels = json!({"notebook-name": "ann"});
            cluster.with(notebook_controller(from)).set("Pod", "chat-0", "metadata.labels", labels)
        },
        "ENABLE_CULLING of the notebook controller",
    ),
    ("shared-memory-small", |cluster| cluster.unlisted("pods"), "the right to list pods"),
    (
        "kueue-admits-nothing",
        |cluster| cluster.unlisted("localqueues.kueue.x-k8s.io"),
        "the right to list localqueues.kueue.x-k8s.io",
    ),
    (
        "kueue-flavor-without-nodes",
        |cluster| cluster.unlisted("resourceflavors.kueue.x-k8s.io"),
        "the right to list resourceflavors.kueue.x-k8s.io",
    ),
    (
        "kueue-lends-for-ever",
        |cluster| cluster.unlisted("clusterqueues.kueue.x-k8s.io"),
        "the right to list clusterqueues.kueue.x-k8s.io",
    ),
    (
        "kueue-queue-missing",
        |cluster| cluster.unlisted("jobs.batch"),
        "the right to list jobs.batch",
    ),
    (
        "kueue-lacks-resource",
        |cluster| cluster.unlisted("clusterqueues.kueue.x-k8s.io"),
        "the right to list clusterqueues.kueue.x-k8s.io",
    ),
    (
        "gang-preempted-pod-by-pod",
        |cluster| cluster.unlisted("priorityclasses.scheduling.k8s.io"),
        "the right to list priorityclasses.scheduling.k8s.io",
    ),
    (
        "budget-blocks-drains",
        |cluster| cluster.unlisted("poddisruptionbudgets.policy"),
        "the right to list poddisruptionbudgets.policy",
    ),
];

/// Returns a job of a GPU that waits in a queue of Kueue.
fn waiting(kind: &str, version: &str, queue: &str) -> Value {
    let container = json!({"name": "main", "resources": {"limits": {"nvidia.com/gpu": "1"}}});
    let template = json!({"spec": {"containers": [container]}});
    let spec = json!({"suspend": true, "template": template});
    let mut job = object(version, kind, "ml", "eval", spec);
    job["metadata"]["labels"] = json!({"kueue.x-k8s.io/queue-name": queue});
    job
}

/// Adds two pods of a PodGroup of coscheduling, on a node of their own.
fn grouped(cluster: SampleCluster, spec: Option<Value>) -> SampleCluster {
    let member = |name: &str| {
        let mut pod = pod("ml", name, 4, Some("n4"));
        pod["metadata"]["labels"] = json!({POD_GROUP: "pair"});
        pod["spec"]["schedulerName"] = json!("scheduler-plugins-scheduler");
        pod
    };
    let cluster = cluster.with(member("pair-0")).with(member("pair-1"));
    match spec {
        Some(spec) => {
            cluster.with(object("scheduling.x-k8s.io/v1alpha1", "PodGroup", "ml", "pair", spec))
        }
        None => cluster,
    }
}

/// Has the GPUs of `n3` shared between its pods and one of a namespace.
fn shared(cluster: SampleCluster, namespace: &str) -> SampleCluster {
    let mut other = pod(namespace, "other", 1, Some("n3"));
    other["metadata"]["labels"] = json!({"kueue.x-k8s.io/queue-name": "team"});
    let labels = json!({"nvidia.com/gpu.replicas": "4", "example.com/rack": "r1"});
    cluster.set("Node", "n3", "metadata.labels", labels).with(other)
}

/// Adds nodes of k3s with GPUs.
fn with_k3s(cluster: SampleCluster, nodes: usize) -> SampleCluster {
    let k3s = (0..nodes).map(|at| {
        let mut node = node(&format!("k{at}"));
        node["status"]["nodeInfo"]["kubeletVersion"] = json!("v1.36.2+k3s1");
        node
    });
    k3s.fold(cluster, SampleCluster::with)
}

/// Returns a ResourceSlice with GPUs of `n4`.
fn resource_slice() -> Value {
    let spec = json!({"driver": "gpu.nvidia.com", "nodeName": "n4"});
    object("resource.k8s.io/v1", "ResourceSlice", "", "n4-gpus", spec)
}

/// Returns the controller of Kubeflow's notebooks, with its switch for culling.
fn notebook_controller(mut culling: Value) -> Value {
    culling["name"] = json!("ENABLE_CULLING");
    let pod = json!({"containers": [{"name": "manager", "env": [culling]}]});
    let spec = json!({"template": {"spec": pod}});
    object("apps/v1", "Deployment", "kubeflow", "notebook-controller-deployment", spec)
}

/// Returns a priority class above that of the gang.
fn urgent() -> Value {
    json!({
        "apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass",
        "metadata": {"name": "urgent"}, "value": 1000,
    })
}

/// Returns a disruption budget of three pods, of which so many must stay.
fn budget(desired: u64) -> Value {
    let mut budget = object("policy/v1", "PodDisruptionBudget", "web", "chat", json!({}));
    budget["status"] = json!({"expectedPods": 3, "desiredHealthy": desired});
    budget
}

/// Returns the pod of the default scheduler, with its command.
fn kube_scheduler(command: &[&str]) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "namespace": "kube-system", "name": "kube-scheduler-c1", "creationTimestamp": EARLIER,
            "labels": {"component": "kube-scheduler"},
        },
        "spec": {"containers": [{"name": "kube-scheduler", "command": command}]},
        "status": {"phase": "Running"},
    })
}

fn needed(report: &CheckReport, rule: &str) -> String {
    let outcome = report.not_tested.iter().find(|outcome| outcome.rule == rule);
    outcome.unwrap_or_else(|| panic!("{rule} was tested: {report:#?}")).text.clone()
}

#[test]
fn a_sound_cluster_with_independent_deployments_passes_every_rule() {
    let report = SampleCluster::good().report();
    assert_eq!(report.findings, []);
    assert_eq!(report.not_tested, []);
    let passed: Vec<&str> = report.passed.iter().map(|outcome| outcome.rule).collect();
    assert_eq!(passed, kubernetes_rule_texts().map(|rule| rule.id).collect::<Vec<_>>());
}

#[test]
fn each_change_fails_its_rule_and_no_other() {
    for (rule, change, evidence) in FAILS {
        let report = change(SampleCluster::good()).report();
        let also = ALSO.iter().filter(|(of, _)| of == rule).map(|(_, other)| *other);
        let allowed: BTreeSet<&str> = also.chain([*rule]).collect();
        let failed: BTreeSet<&str> = failed(&report).into_iter().collect();
        assert!(failed.contains(rule), "{rule}: {failed:?}, not {evidence}");
        assert!(failed.is_subset(&allowed), "{rule}: {failed:?}");
        let says: Vec<&str> = report
            .findings
            .iter()
            .filter(|finding| finding.rule == *rule)
            .map(|finding| finding.evidence.as_str())
            .collect();
        assert!(says.iter().any(|text| text.contains(evidence)), "{rule}: {says:?}");
    }
}

#[test]
fn harmless_changes_fail_nothing() {
    for (rule, change) in PASSES {
        let report = change(SampleCluster::good()).report();
        assert!(!failed(&report).contains(rule), "{rule}: {:#?}", report.findings);
        assert!(report.passed.iter().any(|outcome| outcome.rule == *rule), "{rule}: not passed");
    }
}

#[test]
fn without_its_input_a_rule_is_not_tested() {
    for (rule, change, text) in NOT_TESTED {
        let report = change(SampleCluster::good()).report();
        let needed = needed(&report, rule);
        assert!(needed.contains(text), "{rule}: {needed}");
    }
}

#[test]
fn every_rule_has_a_failing_and_an_untested_case() {
    let fails: BTreeSet<&str> = FAILS.iter().map(|(rule, ..)| *rule).collect();
    let untested: BTreeSet<&str> = NOT_TESTED.iter().map(|(rule, ..)| *rule).collect();
    // Those on objects of KubeRay have theirs in `ray_objects.rs`.
    let of_ray: BTreeSet<&str> = ray_object_rule_texts().map(|rule| rule.id).collect();
    let all: BTreeSet<&str> = kubernetes_rule_texts().map(|rule| rule.id).collect();
    let all: BTreeSet<&str> = all.difference(&of_ray).copied().collect();
    assert_eq!(fails, all);
    assert_eq!(untested, all);
}

/// Objects that cannot be read are left out, and the others are judged.
#[test]
fn objects_of_any_form_are_survived() {
    let cluster = SampleCluster::good()
        .with(json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": 7}}))
        .with(json!({"apiVersion": "v1", "kind": "Node", "spec": [], "status": "x"}))
        .with(json!({"apiVersion": "batch/v1", "kind": "Job", "spec": {"template": 1}}))
        .with(json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": null}));
    assert_eq!(failed(&cluster.report()), [""; 0]);
}
