//! Queues of Kueue: pods name a LocalQueue of their namespace, and its ClusterQueue says on which nodes
//! their quota counts.

use muster_kubernetes::kueue::Objects;
use muster_kubernetes::node::NodeFacts;
use muster_kubernetes::object::ObjectKey;
use muster_kubernetes::pod::PodPhase;
use muster_scheduler::Subject;
use serde_json::{Value, json};

use crate::cluster::Cluster;
use crate::objects::{JobBuilder, PodBuilder, job, labelled_node, pod};

const LABEL: &str = "kueue.x-k8s.io/queue-name";

/// Returns the objects of two ClusterQueues of eight GPUs each, with a LocalQueue of the same name.
fn objects(a: Value, b: Value) -> Objects {
    let mut objects = Objects::default();
    objects.namespaces.insert("team".into(), [].into());
    for pool in ["h", "a"] {
        let spec = json!({"nodeLabels": {"pool": pool}});
        objects.flavors.insert(pool.into(), serde_json::from_value(spec).unwrap());
    }
    for (name, changes) in [("a", a), ("b", b)] {
        let mut spec = json!({
            "namespaceSelector": {},
            "resourceGroups": [{
                "coveredResources": ["nvidia.com/gpu"],
                "flavors": [{"name": "h", "resources": [{"name": "nvidia.com/gpu", "nominalQuota": 8}]}],
            }],
            "preemption": {"reclaimWithinCohort": "Any", "withinClusterQueue": "LowerPriority"},
        });
        for (key, value) in changes.as_object().unwrap() {
            spec[key] = value.clone();
        }
        objects.cluster_queues.insert(name.into(), serde_json::from_value(spec).unwrap());
        let local_queue = serde_json::from_value(json!({"clusterQueue": name})).unwrap();
        objects.local_queues.insert(ObjectKey::new("team", name), local_queue);
    }
    objects
}

fn in_cohort() -> Value {
    json!({"cohortName": "c"})
}

/// Returns two nodes with eight H100 each and one with eight A100.
fn nodes() -> Vec<NodeFacts> {
    let node = |name, pool: &str, product: &str| {
        labelled_node(name, 8, json!({"pool": pool, "nvidia.com/gpu.product": product}))
    };
    vec![
        node("a1", "a", "NVIDIA-A100-SXM4-80GB"),
        node("h1", "h", "NVIDIA-H100-80GB-HBM3"),
        node("h2", "h", "NVIDIA-H100-80GB-HBM3"),
    ]
}

fn of_queue(name: &str, queue: &str, gpus: u32) -> PodBuilder {
    pod(name, gpus).label(LABEL, queue)
}

fn suspended(name: &str, queue: &str, pods: usize) -> JobBuilder {
    let mut job = job(name, pods);
    job.0["metadata"]["labels"] = json!({LABEL: queue});
    job
}

fn counts(cluster: &Cluster, queue: &str) -> (u64, u64) {
    let counts = cluster.scheduler.counts_of_queues();
    let own = counts.get(&ObjectKey::new("team", queue)).copied().unwrap_or_default();
    (own.pending, own.admitted)
}

#[test]
fn quota_counts_on_the_nodes_of_its_flavor() {
    let mut cluster = Cluster::with_kueue(nodes(), objects(json!({}), json!({})));
    for name in ["a-0", "a-1"] {
        cluster.create(&of_queue(name, "a", 8));
    }
    cluster.run(2_000);
    assert_eq!((cluster.bound("a-"), counts(&cluster, "a")), (1, (1, 1)));
    assert_eq!(cluster.places("a-"), ["a-0=h1"]);
    assert!(cluster.reported("a-1").contains("quota"), "{}", cluster.reported("a-1"));
    let mut both = objects(json!({}), json!({}));
    let quota = json!([{"name": "nvidia.com/gpu", "nominalQuota": 8}]);
    let flavors = json!([{"name": "h", "resources": quota}, {"name": "a", "resources": quota}]);
    let group = json!([{"coveredResources": ["nvidia.com/gpu"], "flavors": flavors}]);
    let spec = json!({"namespaceSelector": {}, "resourceGroups": group});
    both.cluster_queues.insert("a".into(), serde_json::from_value(spec).unwrap());
    cluster.set_kueue(both);
    cluster.run(2_000);
    assert_eq!(cluster.bound("a-"), 2);
    assert_eq!(cluster.places("a-"), ["a-0=h1", "a-1=a1"]);
}

#[test]
fn pods_without_a_queue_wait() {
    let mut cluster =
        Cluster::with_kueue(nodes(), objects(json!({}), json!({"stopPolicy": "Hold"})));
    cluster.create(&pod("silent", 1));
    cluster.create(&of_queue("wrong", "c", 1));
    cluster.create(&of_queue("held", "b", 1));
    cluster.create(&pod("by-path", 1).label("muster.run/queue", "a"));
    cluster.run(2_000);
    assert_eq!(cluster.bound(""), 1);
    assert_eq!(cluster.reported("wrong"), "namespace team has no LocalQueue c");
    assert!(cluster.reported("silent").starts_with("it names no queue with the label"));
    assert_eq!(cluster.reported("held"), "ClusterQueue b starts nothing (`stopPolicy: Hold`)");
    assert!(cluster.pod("by-path").node.is_some(), "Muster's label names a LocalQueue too");
    assert_eq!(counts(&cluster, "b"), (1, 0));
    assert_eq!(counts(&cluster, "default"), (1, 0));
}

#[test]
fn topologies_in_kueues_words_are_rules() {
    let mut cluster = Cluster::with_kueue(nodes(), objects(json!({}), json!({})));
    let required = "kueue.x-k8s.io/podset-required-topology";
    let host =
        |name| of_queue(name, "a", 4).gang("g", 2).annotation(required, "kubernetes.io/hostname");
    cluster.create(&of_queue("filler", "b", 1));
    cluster.create_all([host("g-0"), host("g-1")]);
    cluster.create(&of_queue("rack", "a", 1).annotation(required, "example.com/rack"));
    let slices = "kueue.x-k8s.io/podset-slice-required-topology";
    cluster.create(&of_queue("slices", "b", 1).annotation(slices, "kubernetes.io/hostname"));
    cluster.run(2_000);
    let places: Vec<String> = cluster.places("g-").iter().map(|at| at[4..].to_owned()).collect();
    assert_eq!(places.len(), 2);
    assert_eq!(places[0], places[1], "both are on one node");
    assert!(cluster.reported("rack").starts_with("example.com/rack is not a topology level"));
    let expected = format!("not supported by this scheduler: the annotation {slices}");
    assert_eq!(cluster.reported("slices"), expected);
}

/// Also after a restart: the pods tell their queue.
#[test]
fn what_is_borrowed_is_reclaimed_and_its_job_suspended() {
    let mut cluster = Cluster::with_kueue(nodes(), objects(in_cohort(), in_cohort()));
    cluster.create_job(&suspended("wide", "a", 16));
    cluster.run(5_000);
    assert_eq!((cluster.bound("wide"), counts(&cluster, "a")), (16, (0, 1)));
    cluster.restart_scheduler();
    cluster.create_job(&suspended("owner", "b", 8));
    cluster.run(60_000);
    assert!(cluster.is_suspended("wide"));
    assert_eq!((cluster.bound("wide"), cluster.bound("owner")), (0, 8));
    assert_eq!((counts(&cluster, "a"), counts(&cluster, "b")), ((1, 0), (0, 1)));
}

#[test]
fn pods_that_run_follow_their_queue_into_a_cohort() {
    let mut cluster = Cluster::with_kueue(nodes(), objects(json!({}), json!({})));
    cluster.create(&of_queue("first", "a", 8));
    cluster.run(2_000);
    cluster.set_kueue(objects(in_cohort(), json!({})));
    cluster.create(&of_queue("second", "a", 8));
    cluster.run(2_000);
    assert_eq!(cluster.bound(""), 1, "the first still counts");
    assert_eq!(counts(&cluster, "a"), (1, 1));
    cluster.set_kueue(objects(in_cohort(), in_cohort()));
    cluster.run(2_000);
    assert_eq!(cluster.bound(""), 2, "the second borrows");
}

#[test]
fn a_drained_queue_suspends_its_jobs_and_deletes_its_pods() {
    let mut cluster = Cluster::with_kueue(nodes(), objects(json!({}), json!({})));
    cluster.create_job(&suspended("drained", "a", 8));
    cluster.create(&of_queue("pod", "b", 4));
    cluster.run(5_000);
    assert_eq!((cluster.bound("drained"), cluster.bound("pod")), (8, 1));
    let stop = || json!({"stopPolicy": "HoldAndDrain"});
    cluster.set_kueue(objects(stop(), stop()));
    cluster.run(5_000);
    assert!(cluster.is_suspended("drained"));
    assert!(cluster.pods.is_empty(), "{:?}", cluster.pods.keys());
    let reason = "its queue is drained (`stopPolicy: HoldAndDrain`)";
    assert_eq!(cluster.suspensions, [("drained".to_owned(), reason.to_owned())]);
    cluster.set_kueue(objects(json!({}), json!({})));
    cluster.run(5_000);
    assert_eq!(cluster.bound("drained"), 8);
}

#[test]
fn jobs_with_kueues_label_alone_are_left_to_kueue_elsewhere() {
    let mut cluster = Cluster::new(nodes());
    cluster.create_job(&suspended("other", "a", 1));
    cluster.run(5_000);
    assert!(cluster.is_suspended("other"));
    assert!(cluster.told_jobs.is_empty());
    // Kueue resumes it, and has counted its quota.
    let key = ObjectKey::new("team", "other");
    cluster.change_job(&key, |job| job["spec"]["suspend"] = json!(false));
    cluster.run(5_000);
    assert_eq!(cluster.bound("other"), 1);
}

/// Quotas of flavors that are selected by other labels than the product are known only with the nodes.
#[test]
fn a_new_process_preempts_no_job_within_its_quota() {
    let mut both = objects(in_cohort(), in_cohort());
    let spec = json!({"nodeLabels": {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"}});
    both.flavors.insert("product".into(), serde_json::from_value(spec).unwrap());
    let quota = json!([{"name": "nvidia.com/gpu", "nominalQuota": 8}]);
    let flavors = json!([{"name": "product", "resources": quota}]);
    let groups = json!([{"coveredResources": ["nvidia.com/gpu"], "flavors": flavors}]);
    let b = json!({"cohortName": "c", "namespaceSelector": {}, "resourceGroups": groups,
        "preemption": {"reclaimWithinCohort": "Any", "withinClusterQueue": "LowerPriority"}});
    both.cluster_queues.insert("b".into(), serde_json::from_value(b).unwrap());
    let mut cluster = Cluster::with_kueue(nodes().split_off(2), both);
    cluster.create(&of_queue("a-0", "a", 8));
    cluster.run(2_000);
    cluster.create(&of_queue("b-0", "b", 8));
    cluster.run(60_000);
    assert_eq!((cluster.bound("a-0"), cluster.bound("b-0")), (1, 0));
    cluster.restart_scheduler();
    cluster.run(60_000);
    assert_eq!((cluster.bound("a-0"), cluster.bound("b-0")), (1, 0));
}

/// A wrong gang, whose job stays in the queue of one of its pods.
#[test]
fn a_gang_that_names_two_queues_keeps_its_job() {
    let mut cluster = Cluster::with_kueue(nodes(), objects(json!({}), json!({})));
    let member = |name, queue| of_queue(name, queue, 4).gang("g", 2);
    cluster.create_all([member("g-0", "a"), member("g-1", "b")]);
    cluster.run(2_000);
    assert_eq!(cluster.bound("g-"), 2);
    // What is left is adopted in the queue that it names.
    cluster.end("g-0", PodPhase::Succeeded);
    cluster.run(2_000);
    let number = |cluster: &mut Cluster| {
        let subject = Subject::Pod(ObjectKey::new("team", "g-1"));
        cluster.scheduler.inspect(cluster.now, &subject).expect("it runs").0.element.job
    };
    let job = number(&mut cluster);
    let mut seen = cluster.pod("g-1").clone();
    seen.bound_at = Some("2026-11-20T12:00:00Z".into());
    cluster.put(seen);
    cluster.run(2_000);
    assert_eq!(number(&mut cluster), job);
}
