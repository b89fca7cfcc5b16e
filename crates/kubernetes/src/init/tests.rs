//! The files for other schedulers: in full for one site, and what their quotas add up to.

use std::collections::{BTreeMap, BTreeSet};

use muster_model::{GpuModel, QueueSpec};
use muster_spec::{parse_cluster, parse_queues};
use serde_json::Value;

use super::*;
use crate::documents;
use crate::kueue::Objects;
use crate::object::ObjectKey;

const CLUSTER: &str = "\
levels: [block, rack]
nodes:
  - {name: \"gpu-[1-2]\", gpus: 8, gpu: h100, cpus: 96, memory: 1000GiB, domain: {block: b1, rack: r1}}
  - {name: gpu-3, gpus: 8, gpu: h100, cpus: 96, memory: 1000GiB, domain: {block: b1, rack: r2}}
  - {name: old-1, gpus: 4, gpu: a100, cpus: 32, memory: 256GiB, domain: {block: b2, rack: r3}}
  - {name: cpu-1, cpus: 64, memory: 256GiB, domain: {block: b2, rack: r3}}
";

const QUEUES: &str = "\
half-life: 14d
default-time: 4h
queues:
  - name: research
    quota: {h100: 16}
    weight: 3
    queues:
      - {name: vision, quota: {h100: 8}, borrow: 4, users: [vision, robots]}
      - {name: language, quota: {h100: 4, a100: 2}, lend: 1, limits: {running-jobs: 50}}
      - {name: students}
  - {name: serving, protect: 30m, users: [serving], groups: [oncall]}
";

/// Calls a function with the site of two texts.
fn with_site<T>(cluster: &str, queues: &str, call: impl Fn(&QueueFilesInput<'_>) -> T) -> T {
    let cluster = parse_cluster(cluster, None).unwrap();
    let queues = parse_queues(queues, None).unwrap();
    let input = QueueFilesInput {
        nodes: &cluster.nodes,
        levels: &cluster.levels,
        queues: &queues,
        namespace: "ml",
    };
    call(&input)
}

fn made(plane: Plane) -> QueueFiles {
    with_site(CLUSTER, QUEUES, |input| render(plane, input)).unwrap()
}

fn refusal(cluster: &str, queues: &str) -> String {
    with_site(cluster, queues, |input| render(Plane::Kueue, input)).unwrap_err().to_string()
}

fn objects(made: &QueueFiles) -> Vec<Value> {
    let yaml = made.files.iter().filter(|(name, _)| name.ends_with(".yaml"));
    yaml.flat_map(|(_, text)| documents::values(text).unwrap()).collect()
}

#[test]
fn files_in_full() {
    for plane in [Plane::Kueue, Plane::Volcano, Plane::Kai] {
        let made = made(plane);
        let files: String =
            made.files.iter().map(|(name, text)| format!("==> {name} <==\n{text}\n")).collect();
        let lines = made.unsupported.join("\n");
        insta::assert_snapshot!(plane.name(), format!("{files}==> notes <==\n{lines}\n"));
    }
}

/// Our own reader of Kueue's objects finds the queues that they were made of.
#[test]
fn the_objects_of_kueue_read_back_as_the_queue_tree() {
    let made = made(Plane::Kueue);
    let mut found = Objects::default();
    for object in objects(&made) {
        let name: Arc<str> = object["metadata"]["name"].as_str().unwrap().into();
        let spec = object["spec"].clone();
        match object["kind"].as_str().unwrap() {
            "Cohort" => drop(found.cohorts.insert(name, serde_json::from_value(spec).unwrap())),
            "ClusterQueue" => {
                found.cluster_queues.insert(name, serde_json::from_value(spec).unwrap());
            }
            "ResourceFlavor" => {
                found.flavors.insert(name, serde_json::from_value(spec).unwrap());
            }
            "LocalQueue" => {
                let namespace = object["metadata"]["namespace"].as_str().unwrap();
                let key = ObjectKey::new(namespace, &name);
                found.local_queues.insert(key, serde_json::from_value(spec).unwrap());
            }
            "Namespace" => {
                let label = ("kubernetes.io/metadata.name".to_owned(), name.to_string());
                found.namespaces.insert(name, BTreeMap::from([label]));
            }
            _ => {}
        }
    }
    let read = crate::kueue::read(&found, &|labels, _| {
        let model = |flavor: &String| (flavor != "cpu").then(|| GpuModel::from(flavor.as_str()));
        labels.values().filter_map(model).collect()
    });
    // What Muster leaves to others, and how it reads limits on one of two models.
    let expected = [
        "tolerations of flavor",
        "no node of flavor cpu",
        "only GPUs are counted",
        "write them",
        "Limit holds for each GPU model",
    ];
    let of_cohorts = read.cohort_notes.values().map(String::as_str);
    let of_queues = read.cluster_queues.values().flat_map(|one| &one.remarks).map(String::as_str);
    for note in of_cohorts.chain(of_queues).flat_map(|notes| notes.split("; ")) {
        assert!(expected.iter().any(|part| note.contains(part)), "{note}");
    }
    assert!(read.cluster_queues.values().all(|queue| queue.hold.is_none()));

    let mut queues = BTreeMap::new();
    collect(&read.tree.queues, &mut queues);
    let quota = |h100: u64, a100: u64| BTreeMap::from([("h100", h100), ("a100", a100)]);
    for (name, expected, weight, borrow, lend) in [
        ("muster-root", quota(24, 4), 1, Some(0), None),
        ("research", quota(16, 2), 3, None, None),
        ("research.vision", quota(8, 0), 1, Some(4), None),
        ("research.language", quota(4, 2), 1, None, Some(1)),
        ("research.students", quota(0, 0), 1, None, None),
        ("serving", quota(0, 0), 1, None, None),
    ] {
        let queue: &QueueSpec = queues[name];
        let found: BTreeMap<&str, u64> =
            queue.quota.iter().map(|(model, gpus)| (model.as_str(), *gpus)).collect();
        assert_eq!(found, expected, "{name}");
        assert_eq!((queue.weight, queue.borrow, queue.lend), (weight, borrow, lend), "{name}");
    }
    let local: BTreeSet<String> = found.local_queues.keys().map(ToString::to_string).collect();
    let expected =
        ["ml/language", "ml/students", "robots/vision", "serving/serving", "vision/vision"];
    assert_eq!(local, expected.map(str::to_owned).into());
}

fn collect<'a>(queues: &'a [QueueSpec], all: &mut BTreeMap<&'a str, &'a QueueSpec>) {
    for queue in queues {
        all.insert(&queue.name, queue);
        collect(&queue.queues, all);
    }
}

#[test]
fn no_cpu_and_no_memory_of_the_nodes_is_lost() {
    let milli = |text: &str| crate::quantity::milli(text).unwrap();
    let mut sums: BTreeMap<(String, String), u128> = BTreeMap::new();
    for object in objects(&made(Plane::Kueue)) {
        let groups = object["spec"]["resourceGroups"].as_array().cloned().unwrap_or_default();
        for flavor in groups.iter().flat_map(|group| group["flavors"].as_array().unwrap()) {
            for resource in flavor["resources"].as_array().unwrap() {
                let word = |value: &Value| value.as_str().unwrap().to_owned();
                let sum = sums.entry((word(&flavor["name"]), word(&resource["name"]))).or_default();
                *sum += milli(resource["nominalQuota"].as_str().unwrap());
            }
        }
    }
    let mut expect = |flavor: &str, resource: &str, expected: &str| {
        let sum = sums.remove(&(flavor.to_owned(), resource.to_owned()));
        assert_eq!(sum, Some(milli(expected)), "{flavor} {resource}");
    };
    for (flavor, cpus, memory, gpus) in
        [("h100", "288", "3000Gi", "24"), ("a100", "32", "256Gi", "4"), ("cpu", "64", "256Gi", "0")]
    {
        expect(flavor, "cpu", cpus);
        expect(flavor, "memory", memory);
        expect(flavor, "nvidia.com/gpu", gpus);
    }
    assert_eq!(sums, BTreeMap::new());
}

#[test]
fn nodes_of_a_known_product_need_no_label_of_ours() {
    let cluster = "\
nodes:
  - {name: a, gpus: 8, gpu: h100, cpus: 8, memory: 8GiB, labels: {nvidia.com/gpu.product: NVIDIA-H100-80GB-HBM3}}
";
    let made = with_site(cluster, "queues: [{name: default}]", |input| {
        render(Plane::Kueue, input).unwrap()
    });
    assert_eq!(made.files.len(), 2, "no script");
    let flavor = objects(&made).into_iter().find(|one| one["kind"] == "ResourceFlavor").unwrap();
    let product = &flavor["spec"]["nodeLabels"]["nvidia.com/gpu.product"];
    assert_eq!(product, "NVIDIA-H100-80GB-HBM3");
}

#[test]
fn what_cannot_be_written_is_refused() {
    let queue = "queues: [{name: default}]";
    let node = |fields: &str| format!("nodes: [{{name: a, {fields}}}]");
    let good = node("gpus: 8, gpu: h100, cpus: 8, memory: 8GiB");
    for (cluster, queues, expected) in [
        (node("cpus: 8, memory: 8GiB"), queue, "no node has a GPU"),
        (
            node("gpus: 8, gpu: h100, cpus: 8"),
            queue,
            "`memory` is missing for 1 of 1 nodes, such as a",
        ),
        (
            node("gpus: 8, gpu: h100, cpus: 8, memory: 8GiB").replace("name: a", "name: A_1"),
            queue,
            "node `A_1` cannot be the name of an object of Kubernetes",
        ),
        (
            good.clone(),
            "queues: [{name: Vision}]",
            "queue `Vision` cannot be the name of an object of Kubernetes",
        ),
        (
            good.clone(),
            "queues: [{name: a, queues: [{name: gpu}]}, {name: b, queues: [{name: gpu}]}]",
            "queues `a/gpu` and `b/gpu` would both be the LocalQueue `gpu` of the namespace ml",
        ),
    ] {
        assert_eq!(refusal(&cluster, queues), expected);
    }
}

/// The domains are values of labels, and in Volcano names of objects.
#[test]
fn domains_that_cannot_be_names_are_refused() {
    let refused = |plane, domains: [&str; 2]| {
        let node = |name: &str, domain: &str| {
            format!(
                "  - {{name: {name}, gpus: 8, gpu: h100, cpus: 8, memory: 8GiB, domain: {{rack: \"{domain}\"}}}}\n"
            )
        };
        let nodes = node("a", domains[0]) + &node("b", domains[1]);
        let cluster = format!("levels: [rack]\nnodes:\n{nodes}");
        let made = with_site(&cluster, "queues: [{name: default}]", |input| render(plane, input));
        made.err().map(|error| error.to_string())
    };
    let error = |domain: &str| {
        Some(format!("topology domain `{domain}` cannot be the name of an object of Kubernetes"))
    };
    for plane in [Plane::Kueue, Plane::Volcano, Plane::Kai] {
        assert_eq!(refused(plane, ["R1", "r2.b"]), None, "{plane:?}");
        assert_eq!(refused(plane, ["_r", "r2"]), error("_r"), "{plane:?}");
        let in_volcano = |error: Option<String>| error.filter(|_| plane == Plane::Volcano);
        assert_eq!(refused(plane, ["r_1", "r_2"]), in_volcano(error("r_1")), "{plane:?}");
        let same = "rack R1 and rack r1 would both be the HyperNode `rack-r1`".to_owned();
        assert_eq!(refused(plane, ["R1", "r1"]), in_volcano(Some(same)), "{plane:?}");
    }
}
