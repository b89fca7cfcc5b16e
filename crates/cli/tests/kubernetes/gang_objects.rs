//! Gangs of every supported API on a real API server: the PodGroups of Kubernetes itself, and objects
//! of the definitions that others publish.

use serde_json::{Value, json};

use crate::cluster::{KubernetesCluster, TestNamespace, pod_spec, until};
use crate::definitions::Definition;
use crate::scheduler_process::SchedulerProcess;

/// API of a gang object, and an object that needs five pods.
struct GangApi {
    group: &'static str,
    version: &'static str,
    kind: &'static str,
    plural: &'static str,
    /// File with the published definition.
    published: Option<&'static str>,
    spec: Value,
    /// Label by which a pod names the object.
    label: &'static str,
}

fn apis() -> Vec<GangApi> {
    let containers = || json!({"spec": {"containers": [{"name": "main", "image": "none"}]}});
    let worker = |replicas: u32| json!({"replicas": replicas, "template": containers()});
    vec![
        GangApi {
            group: "scheduling.x-k8s.io",
            version: "v1alpha1",
            kind: "PodGroup",
            plural: "podgroups",
            published: None,
            spec: json!({"minMember": 5}),
            label: "scheduling.x-k8s.io/pod-group",
        },
        GangApi {
            group: "scheduling.volcano.sh",
            version: "v1beta1",
            kind: "PodGroup",
            plural: "podgroups",
            published: Some("volcano/scheduling.volcano.sh_podgroups.yaml"),
            spec: json!({"minMember": 5}),
            label: "volcano.sh/group-name",
        },
        GangApi {
            group: "scheduling.run.ai",
            version: "v2alpha2",
            kind: "PodGroup",
            plural: "podgroups",
            published: Some("kai/scheduling.run.ai_podgroups.yaml"),
            spec: json!({"minMember": 5}),
            label: "pod-group-name",
        },
        GangApi {
            group: "jobset.x-k8s.io",
            version: "v1alpha2",
            kind: "JobSet",
            plural: "jobsets",
            published: Some("jobset/jobset.x-k8s.io_jobsets.yaml"),
            spec: json!({"replicatedJobs": [
                {"name": "head", "replicas": 1, "template": {"spec": {"parallelism": 1, "template": containers()}}},
                {"name": "workers", "replicas": 2, "template": {"spec": {"parallelism": 2, "template": containers()}}},
            ]}),
            label: "jobset.sigs.k8s.io/jobset-name",
        },
        GangApi {
            group: "ray.io",
            version: "v1",
            kind: "RayCluster",
            plural: "rayclusters",
            published: Some("kuberay/ray.io_rayclusters.yaml"),
            spec: json!({
                "headGroupSpec": {"rayStartParams": {}, "template": containers()},
                "workerGroupSpecs": [{
                    "groupName": "workers", "replicas": 4, "minReplicas": 4, "maxReplicas": 4,
                    "rayStartParams": {}, "template": containers(),
                }],
            }),
            label: "ray.io/cluster",
        },
        GangApi {
            group: "leaderworkerset.x-k8s.io",
            version: "v1",
            kind: "LeaderWorkerSet",
            plural: "leaderworkersets",
            published: None,
            spec: json!({"replicas": 1, "leaderWorkerTemplate": {"size": 5, "workerTemplate": containers()}}),
            label: "leaderworkerset.sigs.k8s.io/name",
        },
        GangApi {
            group: "kubeflow.org",
            version: "v1",
            kind: "PyTorchJob",
            plural: "pytorchjobs",
            published: None,
            spec: json!({"pytorchReplicaSpecs": {"Master": worker(1), "Worker": worker(4)}}),
            label: "training.kubeflow.org/job-name",
        },
    ]
}

impl GangApi {
    fn definition(&self) -> Definition {
        let Self { group, version, kind, plural, published, .. } = *self;
        Definition { group, version, kind, plural, scope: "Namespaced", published }
    }

    fn object(&self, name: &str) -> Value {
        json!({
            "apiVersion": format!("{}/{}", self.group, self.version),
            "kind": self.kind,
            "metadata": {"name": name},
            "spec": self.spec,
        })
    }
}

/// Returns a pod that takes a whole node of the test cluster.
fn pod(name: &str, labels: &Value) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": labels},
        "spec": pod_spec("muster", 8),
    })
}

/// Creates four pods of a gang that needs five, then the fifth.
fn starts_as_a_whole(namespace: &TestNamespace, gang: &dyn Fn(usize) -> Value) {
    for index in 0..4 {
        namespace.create_object(&gang(index));
    }
    let expected = "the gang needs 5 pods, and 4 exist";
    until(expected, || namespace.reason("pod-0") == expected);
    assert_eq!(namespace.bound(""), 0);
    namespace.create_object(&gang(4));
    until("the whole gang has its nodes", || namespace.bound("") == 5);
}

#[test]
#[ignore = "needs a Kubernetes cluster: cargo xtask kubernetes test"]
fn the_objects_of_others_make_gangs() {
    let cluster = KubernetesCluster::here();
    for api in apis() {
        api.definition().install(&cluster);
    }
    let _scheduler = SchedulerProcess::active(&cluster);
    for api in apis() {
        let namespace = cluster.namespace("objects-of-others");
        namespace.create_object(&api.object("gang"));
        println!("{} {}", api.group, api.kind);
        starts_as_a_whole(&namespace, &|index| {
            pod(&format!("pod-{index}"), &json!({(api.label): "gang"}))
        });
        namespace.end();
    }
}

#[test]
#[ignore = "needs a Kubernetes cluster: cargo xtask kubernetes test"]
fn pod_groups_of_kubernetes_make_gangs() {
    let cluster = KubernetesCluster::here();
    let _scheduler = SchedulerProcess::active(&cluster);
    let namespace = cluster.namespace("native-gangs");
    let group = |name: &str, pods: u32| {
        json!({
            "apiVersion": "scheduling.k8s.io/v1beta1",
            "kind": "PodGroup",
            "metadata": {"name": name},
            "spec": {"schedulingPolicy": {"gang": {"minCount": pods}}},
        })
    };
    namespace.create_object(&group("empty", 2));
    namespace.create_object(&group("gang", 5));
    let of = |name: &str, group: &str| {
        let mut one = pod(name, &json!({}));
        one["spec"]["schedulingGroup"] = json!({"podGroupName": group});
        one
    };
    starts_as_a_whole(&namespace, &|index| of(&format!("pod-{index}"), "gang"));
    // A gang with no place waits as a whole, and so does a pod whose group does not exist.
    namespace.create_object(&group("second", 4));
    for index in 0..4 {
        namespace.create_object(&of(&format!("second-{index}"), "second"));
    }
    until("the second gang waits", || namespace.reason("second-0").contains("are free"));
    namespace.create_object(&of("orphan", "none"));
    let expected = "PodGroup none does not exist in namespace native-gangs";
    until(expected, || namespace.reason("orphan") == expected);
    assert_eq!(namespace.bound(""), 5);
    let is_told =
        |event: &Value| event["reason"] == "NoPods" && event["involvedObject"]["name"] == "empty";
    until("a group that no pod names says so", || {
        namespace.objects("events", "").iter().any(is_told)
    });
}
