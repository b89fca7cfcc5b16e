//! Kueue's queues on a real API server, with Kueue's definitions and without its controller: quotas of a
//! cohort that are borrowed and reclaimed, Jobs with Kueue's label, and wrong objects that say so.

use serde_json::{Value, json};

use crate::cluster::{KubernetesCluster, TestNamespace, pod_spec, success, until};
use crate::definitions::Definition;
use crate::scheduler_process::SchedulerProcess;

const GROUP: &str = "kueue.x-k8s.io";
const VERSION: &str = "v1beta2";
/// Label of the nodes by which flavors select them.
const LEAF: &str = "network.topology.nvidia.com/leaf";

pub fn install(cluster: &KubernetesCluster) {
    let definition = |kind, plural, scope, published| Definition {
        group: GROUP,
        version: VERSION,
        kind,
        plural,
        scope,
        published: Some(published),
    };
    for one in [
        definition(
            "ClusterQueue",
            "clusterqueues",
            "Cluster",
            "kueue/kueue.x-k8s.io_clusterqueues.yaml",
        ),
        definition("Cohort", "cohorts", "Cluster", "kueue/kueue.x-k8s.io_cohorts.yaml"),
        definition(
            "LocalQueue",
            "localqueues",
            "Namespaced",
            "kueue/kueue.x-k8s.io_localqueues.yaml",
        ),
        definition(
            "ResourceFlavor",
            "resourceflavors",
            "Cluster",
            "kueue/kueue.x-k8s.io_resourceflavors.yaml",
        ),
    ] {
        one.install(cluster);
    }
}

/// Object of the cluster, deleted when dropped.
struct ClusterObject<'a> {
    cluster: &'a KubernetesCluster,
    kind: &'static str,
    name: &'static str,
}

impl<'a> ClusterObject<'a> {
    fn apply(
        cluster: &'a KubernetesCluster,
        kind: &'static str,
        name: &'static str,
        spec: &Value,
    ) -> Self {
        let object = Self { cluster, kind, name };
        object.change(spec);
        object
    }

    fn change(&self, spec: &Value) {
        let object = object(self.kind, self.name, spec);
        let words = ["apply", "--filename=-"];
        success(&words, &self.cluster.kubectl_with(&words, &object.to_string()));
    }

    fn status(&self) -> Value {
        self.cluster.get(&[&resource(self.kind), self.name])["status"].clone()
    }

    fn active(&self) -> String {
        active(&self.status())
    }
}

impl Drop for ClusterObject<'_> {
    fn drop(&mut self) {
        self.cluster.kubectl_with(&["delete", &resource(self.kind), self.name], "");
    }
}

fn resource(kind: &str) -> String {
    format!("{}s.{GROUP}", kind.to_lowercase())
}

fn object(kind: &str, name: &str, spec: &Value) -> Value {
    json!({
        "apiVersion": format!("{GROUP}/{VERSION}"), "kind": kind,
        "metadata": {"name": name}, "spec": spec,
    })
}

/// Returns the condition `Active` as one text.
fn active(status: &Value) -> String {
    let condition = &status["conditions"][0];
    let part = |key: &str| condition[key].as_str().unwrap_or_default().to_owned();
    format!("{} {}: {}", part("status"), part("reason"), part("message"))
}

/// Returns a ClusterQueue with GPUs of a flavor, open to all namespaces.
fn cluster_queue(flavor: &str, gpus: u32) -> Value {
    let quota = json!({"name": "nvidia.com/gpu", "nominalQuota": gpus});
    json!({
        "namespaceSelector": {},
        "resourceGroups": [{
            "coveredResources": ["nvidia.com/gpu"],
            "flavors": [{"name": flavor, "resources": [quota]}],
        }],
        "preemption": {"reclaimWithinCohort": "Any", "withinClusterQueue": "LowerPriority"},
    })
}

/// Returns a ClusterQueue with some settings replaced.
fn with(mut queue: Value, changes: &Value) -> Value {
    for (key, value) in changes.as_object().unwrap() {
        queue[key] = value.clone();
    }
    queue
}

fn local_queue(name: &str, cluster_queue: &str) -> Value {
    object("LocalQueue", name, &json!({"clusterQueue": cluster_queue}))
}

/// Returns a suspended Indexed Job as Kueue's users write it; each pod takes a whole node.
fn job(name: &str, queue: &str, pods: u32) -> Value {
    json!({
        "apiVersion": "batch/v1", "kind": "Job",
        "metadata": {"name": name, "labels": {"kueue.x-k8s.io/queue-name": queue}},
        "spec": {
            "suspend": true,
            "completionMode": "Indexed", "parallelism": pods, "completions": pods,
            "template": {"spec": pod_spec("muster", 8)},
        },
    })
}

fn pod(name: &str, queue: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "labels": {"kueue.x-k8s.io/queue-name": queue}},
        "spec": pod_spec("muster", 8),
    })
}

fn waits_for(namespace: &TestNamespace, pod: &str, expected: &str) {
    until(&format!("{pod}: {expected}"), || namespace.reason(pod) == expected);
}

#[test]
#[ignore = "needs a Kubernetes cluster: cargo xtask kubernetes test"]
fn jobs_of_kueue_borrow_in_their_cohort_and_give_it_back() {
    let cluster = KubernetesCluster::here();
    install(&cluster);
    let _flavor = ClusterObject::apply(&cluster, "ResourceFlavor", "kueue-gpus", &json!({}));
    let queue = with(cluster_queue("kueue-gpus", 32), &json!({"cohortName": "kueue-teams"}));
    let lender = ClusterObject::apply(&cluster, "ClusterQueue", "kueue-lender", &queue);
    let borrower = ClusterObject::apply(&cluster, "ClusterQueue", "kueue-borrower", &queue);
    let _scheduler = SchedulerProcess::active_with_kueue(&cluster);
    let namespace = cluster.namespace("kueue-cohort");
    namespace.create_object(&local_queue("own", "kueue-lender"));
    namespace.create_object(&local_queue("guests", "kueue-borrower"));

    // 1. All eight nodes: 32 GPUs of the own quota, and 32 borrowed.
    namespace.create_object(&job("wide", "guests", 8));
    let of_job = |name: &str| format!("job-name={name}");
    until("the borrower has all nodes", || namespace.bound(&of_job("wide")) == 8);
    until("its queue says what it uses", || {
        let status = borrower.status();
        let used = &status["flavorsUsage"][0]["resources"][0];
        status["admittedWorkloads"] == 1
            && used["total"].as_str() == Some("64")
            && used["borrowed"].as_str() == Some("32")
    });
    assert_eq!(borrower.active(), "True Ready: its pods may start");
    let status = namespace.objects(&resource("LocalQueue"), "");
    let guests = status.iter().find(|queue| queue["metadata"]["name"] == "guests").unwrap();
    assert_eq!(active(&guests["status"]), "True Ready: its pods may start");
    assert_eq!(guests["status"]["admittedWorkloads"], 1);

    // 2. The lender takes its own back: the borrowing Job is suspended as a whole.
    namespace.create_object(&job("owner", "own", 4));
    until("the lender has its quota", || namespace.bound(&of_job("owner")) == 4);
    until("the borrower waits and says why", || {
        let wide = cluster.get(&["job", "wide", "--namespace", namespace.name()]);
        let conditions = wide["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let is_told = conditions.iter().any(|one| {
            let text = one["message"].as_str().unwrap_or_default();
            one["type"] == "muster.run/Admitted" && text.contains("kueue-borrower")
        });
        wide["spec"]["suspend"] == json!(true) && is_told
    });
    until("nothing of it is left", || namespace.bound(&of_job("wide")) == 0);
    until("the queues count both", || {
        lender.status()["admittedWorkloads"] == 1 && borrower.status()["pendingWorkloads"] == 1
    });

    // 3. A smaller one fits beside it, within its own quota, and without a Job.
    namespace.create_object(&pod("small", "guests"));
    until("the small one runs", || namespace.has_node("small"));
}

#[test]
#[ignore = "needs a Kubernetes cluster: cargo xtask kubernetes test"]
fn wrong_objects_of_kueue_say_so_and_stop_nothing_else() {
    let cluster = KubernetesCluster::here();
    install(&cluster);
    let flavor = |name, labels| {
        ClusterObject::apply(&cluster, "ResourceFlavor", name, &json!({"nodeLabels": labels}))
    };
    let _leaf = flavor("kueue-leaf2", json!({(LEAF): "leaf2"}));
    let queue = |name, changes: Value| {
        let spec = with(cluster_queue("kueue-leaf2", 32), &changes);
        ClusterObject::apply(&cluster, "ClusterQueue", name, &spec)
    };
    let good = queue("kueue-good", json!({}));
    let cohort = |name, parent: &str| {
        ClusterObject::apply(&cluster, "Cohort", name, &json!({"parentName": parent}))
    };
    let left = cohort("kueue-left", "kueue-right");
    let _right = cohort("kueue-right", "kueue-left");
    let cyclic = queue("kueue-cyclic", json!({"cohortName": "kueue-left"}));
    let lost = cluster_queue("kueue-lost-flavor", 8);
    let lost = ClusterObject::apply(&cluster, "ClusterQueue", "kueue-lost", &lost);
    let no_one = json!({"namespaceSelector": {"matchLabels": {"no": "namespace"}}});
    let _closed = queue("kueue-closed", no_one);
    let held = queue("kueue-held", json!({"stopPolicy": "Hold"}));
    let mut unknown = cluster_queue("kueue-leaf2", 8);
    for path in
        ["/resourceGroups/0/coveredResources/0", "/resourceGroups/0/flavors/0/resources/0/name"]
    {
        *unknown.pointer_mut(path).unwrap() = json!("example.com/accelerator");
    }
    let unknown = ClusterObject::apply(&cluster, "ClusterQueue", "kueue-unknown", &unknown);
    let _scheduler = SchedulerProcess::active_with_kueue(&cluster);
    let namespace = cluster.namespace("kueue-wrong");
    for name in ["good", "cyclic", "lost", "closed", "held", "unknown", "missing"] {
        namespace.create_object(&local_queue(name, &format!("kueue-{name}")));
        namespace.create_object(&pod(name, name));
    }
    namespace.create_object(&pod("nowhere", "none"));
    namespace.create_object(&pod("silent", ""));
    let mut rack = pod("rack", "good");
    rack["metadata"]["annotations"] =
        json!({"kueue.x-k8s.io/podset-required-topology": "example.com/rack"});
    namespace.create_object(&rack);

    // 1. Each pod says why it waits, and the good one runs on a node of its flavor.
    until("the good pod has a node", || namespace.has_node("good"));
    let node = namespace.pod("good")["spec"]["nodeName"].as_str().unwrap().to_owned();
    assert!(["node5", "node6", "node7", "node8"].contains(&node.as_str()), "{node}");
    let cycle = "the parents of Cohorts form a cycle: kueue-left, kueue-right, kueue-left";
    let reasons = [
        ("cyclic", format!("ClusterQueue kueue-cyclic starts nothing: {cycle}")),
        (
            "lost",
            "ClusterQueue kueue-lost starts nothing: there is no ResourceFlavor kueue-lost-flavor; create it, or correct the flavor's name"
                .to_owned(),
        ),
        (
            "closed",
            "namespace kueue-wrong may not use ClusterQueue kueue-closed: its `namespaceSelector` does not match"
                .to_owned(),
        ),
        ("held", "ClusterQueue kueue-held starts nothing (`stopPolicy: Hold`)".to_owned()),
        ("unknown", "ClusterQueue kueue-unknown has no quota of nvidia.com/gpu".to_owned()),
        (
            "missing",
            "LocalQueue missing names ClusterQueue kueue-missing, which does not exist; create it, or change `clusterQueue`"
                .to_owned(),
        ),
        ("nowhere", "namespace kueue-wrong has no LocalQueue none".to_owned()),
        (
            "silent",
            "it names no queue with the label kueue.x-k8s.io/queue-name, and namespace kueue-wrong has no LocalQueue default"
                .to_owned(),
        ),
    ];
    waits_for(
        &namespace,
        "rack",
        "example.com/rack is not a topology level of this cluster; the scheduler's option --level sets them",
    );
    for (pod, expected) in &reasons {
        waits_for(&namespace, pod, expected);
    }

    // 2. The objects say it too.
    until("the queue in a cycle says so", || {
        cyclic.active() == format!("False CohortInvalid: {}", reasons[0].1)
    });
    let expected = format!("False FlavorNotFound: {}", reasons[1].1);
    until(&expected, || lost.active() == expected);
    let expected = format!("False Stopped: {}", reasons[3].1);
    until(&expected, || held.active() == expected);
    let expected = "True Ready: its pods may start; quotas of example.com/accelerator limit nothing: only GPUs are counted";
    until(expected, || unknown.active() == expected);
    assert_eq!(good.active(), "True Ready: its pods may start");
    until("the LocalQueues say so", || {
        let queues = namespace.objects(&resource("LocalQueue"), "");
        let of = |name: &str| {
            let found = queues.iter().find(|queue| queue["metadata"]["name"] == name);
            active(&found.unwrap()["status"])
        };
        of("missing").starts_with("False ClusterQueueDoesNotExist: ")
            && of("closed").starts_with("False NamespaceNotSelected: ")
            && of("cyclic").starts_with("False ClusterQueueIsInactive: ")
            && of("good").starts_with("True Ready: ")
    });
    until("the Cohort has an event", || {
        let selector = "--field-selector=involvedObject.kind=Cohort,involvedObject.name=kueue-left";
        let events = cluster.get(&["events", "--namespace=default", selector]);
        events["items"].as_array().is_some_and(|events| {
            events.iter().any(|event| event["message"] == cycle && event["reason"] == "NotInForce")
        })
    });

    // 3. What is mended is in force.
    left.change(&json!({}));
    until("the cycle is broken", || namespace.has_node("cyclic"));
    let _found = flavor("kueue-lost-flavor", json!({(LEAF): "leaf2"}));
    until("the flavor exists", || namespace.has_node("lost"));
    held.change(&cluster_queue("kueue-leaf2", 8));
    until("the queue is no longer held", || namespace.has_node("held"));
    assert!(namespace.has_node("good"));

    // 4. A queue that is drained stops what runs in it.
    good.change(&with(cluster_queue("kueue-leaf2", 32), &json!({"stopPolicy": "HoldAndDrain"})));
    namespace.wait("good", "delete");
    assert!(namespace.has_node("held"));
}

/// A namespace that opts in has its Jobs suspended; they keep the queue that they name.
#[test]
#[ignore = "needs a Kubernetes cluster: cargo xtask kubernetes test"]
fn jobs_of_kueue_need_no_change_in_a_namespace_that_opts_in() {
    let cluster = KubernetesCluster::here();
    install(&cluster);
    let _flavor = ClusterObject::apply(&cluster, "ResourceFlavor", "kueue-opt-in", &json!({}));
    let queue = |name| {
        ClusterObject::apply(&cluster, "ClusterQueue", name, &cluster_queue("kueue-opt-in", 8))
    };
    let (named, own) = (queue("kueue-named"), queue("kueue-own"));
    let _scheduler = SchedulerProcess::active_with_kueue(&cluster);
    let namespace = cluster.namespace("kueue-opt-in");
    cluster.kubectl(&["label", "namespace", namespace.name(), "muster.run/queue=own"]);
    namespace.create_object(&local_queue("named", "kueue-named"));
    namespace.create_object(&local_queue("own", "kueue-own"));
    let plain = |name: &str, labels: Value| {
        let mut job = job(name, "", 1);
        job["metadata"]["labels"] = labels;
        job["spec"].as_object_mut().unwrap().remove("suspend");
        job["spec"]["template"]["spec"].as_object_mut().unwrap().remove("schedulerName");
        job
    };
    let words = ["create", "--filename=-", "--namespace", namespace.name()];
    let try_words = [&words[..], &["--dry-run=server", "--output=json"]].concat();
    let labelled = plain("labelled", json!({"kueue.x-k8s.io/queue-name": "named"}));
    until("the policy applies, and leaves Kueue's label alone", || {
        let made = success(&try_words, &cluster.kubectl_with(&try_words, &labelled.to_string()));
        let made: Value = serde_json::from_str(&made).unwrap();
        made["spec"]["suspend"] == json!(true)
            && made["metadata"]["labels"]["muster.run/queue"].is_null()
    });
    namespace.create_object(&labelled);
    namespace.create_object(&plain("unlabelled", json!({})));
    until("both run", || namespace.bound("") == 2);
    until("each in its queue", || {
        [&named, &own].iter().all(|queue| queue.status()["admittedWorkloads"] == 1)
    });
}
