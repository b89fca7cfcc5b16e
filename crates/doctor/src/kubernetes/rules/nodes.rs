//! Rules on nodes and their GPUs.

use std::collections::BTreeSet;

use muster_kubernetes::instant;
use muster_kubernetes::node::is_gpu;
use muster_model::advice::Threshold;
use muster_model::check::Severity::{High, Low, Medium};
use muster_model::{Span, Time};
use muster_slurm::conf::evidence::needs_input;
use serde_json::Value;

use super::KubernetesRule;
use crate::kubernetes::resource::{CLUSTER_POLICIES, DAEMON_SETS, RESOURCE_SLICES, TOPOLOGIES};
use crate::kubernetes::view::{ClusterView, NodeView, count, name_of, quantity, some_of};
use crate::rule::{DocPage, RuleFinding, RuleResult, fail_if_any, judge};

/// Maximum number of nodes below one leaf switch; a fabric with 64 ports and no oversubscription
/// has 32.
const ONE_LEAF: usize = 32;

/// Labels of nodes with their place in the network or in a rack: those of Topograph and of clouds
/// (documentation of AWS, Google Cloud and Oracle Cloud, November 2026).
const TOPOLOGY_PREFIXES: [&str; 7] = [
    "nvidia.com/gpu.clique",
    "network.topology.nvidia.com/",
    "fabric.topograph.run/",
    "accelerator.topograph.run/",
    "topology.k8s.aws/network-node-layer-",
    "cloud.google.com/gce-topology-",
    "oci.oraclecloud.com/rdma.",
];

/// Last words of labels that administrators set themselves.
const TOPOLOGY_WORDS: [&str; 5] = ["rack", "block", "leaf", "spine", "switch"];

/// Servers with which embedded etcd survives the loss of one (documentation of k3s).
const QUORUM: usize = 3;

/// Time in which a new node gets its driver and device plugin.
const START: Span = Span::from_secs(600);

/// Labels with which discovery marks nodes with GPUs of NVIDIA or AMD.
const GPU_PRESENT: [&str; 4] = [
    "nvidia.com/gpu.present",
    "feature.node.kubernetes.io/pci-10de.present",
    "feature.node.kubernetes.io/pci-0302_10de.present",
    "feature.node.kubernetes.io/amd-gpu",
];

/// Drivers that offer GPUs by Dynamic Resource Allocation, and the resource of the device plugin for
/// the same devices.
const DRA_DRIVERS: [(&str, &str); 2] =
    [("gpu.nvidia.com", "nvidia.com/gpu"), ("gpu.amd.com", "amd.com/gpu")];

pub(super) const RULES: &[KubernetesRule] = &[
    KubernetesRule {
        id: "nodes-also-in-slurm",
        severity: High,
        title: "Slurm starts jobs on the same nodes",
        meaning: "neither system sees the other's jobs: GPUs, memory and cores are allocated twice",
        cure: "give each node to one of them: drain it in Slurm, or `kubectl taint node NODE muster.run/slurm=:NoSchedule`; `muster init hybrid` writes both sides",
        page: DocPage::Web(
            "https://kubernetes.io/docs/concepts/scheduling-eviction/taint-and-toleration/",
        ),
        check: in_slurm,
    },
    KubernetesRule {
        id: "gpus-not-usable",
        severity: High,
        title: "a node has GPUs that pods cannot use",
        meaning: "they are paid for and idle: the driver, the container toolkit or the device plugin does not work there, or a GPU has failed",
        cure: "`kubectl describe node NODE`, and the log of the device plugin's pod on it; with the GPU Operator, of nvidia-operator-validator",
        page: DocPage::Web(
            "https://docs.nvidia.com/datacenter/cloud-native/gpu-operator/latest/troubleshooting.html",
        ),
        check: not_usable,
    },
    KubernetesRule {
        id: "gpu-software-not-ready",
        severity: High,
        title: "software for GPUs is not ready on all nodes",
        meaning: "new pods with GPUs do not start on the nodes where it is missing, or start without isolation and metrics",
        cure: "`kubectl describe` of the object in the finding; `kubectl logs` of its pods that are not ready",
        page: DocPage::Web(
            "https://docs.nvidia.com/datacenter/cloud-native/gpu-operator/latest/troubleshooting.html",
        ),
        check: not_ready,
    },
    KubernetesRule {
        id: "gpus-offered-twice",
        severity: High,
        title: "a device plugin and DRA offer the same GPUs",
        meaning: "neither sees what the other has allocated: two pods get the same GPU",
        cure: "one of both on each node: no device plugin where the DRA driver allocates GPUs (with the GPU Operator `devicePlugin.enabled=false`)",
        page: DocPage::Web(
            "https://docs.nvidia.com/datacenter/cloud-native/gpu-operator/latest/dra-intro-install.html",
        ),
        check: offered_twice,
    },
    KubernetesRule {
        id: "gpus-shared-by-tenants",
        severity: High,
        title: "namespaces share GPUs by time-slicing or MPS",
        meaning: "time-slicing isolates neither memory nor faults; MPS limits memory, but a fault of one pod ends all pods on the GPU",
        cure: "nodes of its own for each namespace, or MIG, which isolates memory and faults",
        page: DocPage::Web(
            "https://docs.nvidia.com/datacenter/cloud-native/gpu-operator/latest/gpu-sharing.html",
        ),
        check: shared_by_tenants,
    },
    KubernetesRule {
        id: "no-topology-labels",
        severity: Medium,
        title: "nodes do not say in which rack or below which switch they are",
        meaning: "no scheduler can place a gang close together, and its collectives cross the spine",
        cure: "labels on each node, by Topograph or by hand: `kubectl label node NODE network.topology.nvidia.com/leaf=LEAF`",
        page: DocPage::Web("https://kueue.sigs.k8s.io/docs/concepts/topology_aware_scheduling/"),
        check: no_topology,
    },
    KubernetesRule {
        id: "k3s-beyond-envelope",
        severity: Low,
        title: "k3s runs more nodes with GPUs than a small cluster has",
        meaning: "by default its state is one SQLite file on one server: when that is down, no pod is placed or replaced",
        cure: "three servers with embedded etcd, on machines without jobs; or full Kubernetes",
        page: DocPage::Web("https://docs.k3s.io/datastore/ha-embedded"),
        check: k3s,
    },
];

fn in_slurm(cluster: &ClusterView<'_>) -> RuleResult {
    let nodes = cluster.nodes()?;
    let Some(slurm) = &cluster.snapshot.slurm_nodes else {
        return needs_input("--slurm-nodes with the names of Slurm's nodes");
    };
    let slurm: BTreeSet<String> = slurm.iter().map(|name| short(name)).collect();
    let shared = nodes.iter().filter(|node| slurm.contains(&short(&node.facts.name.0)));
    // Pods keep away from tainted nodes unless they ask for them; those with GPUs tolerate a taint of their
    // resource (admission plugin ExtendedResourceToleration).
    let is_closed = |node: &NodeView<'_>| {
        let mut taints = node.facts.taints.iter();
        taints.any(|taint| !is_gpu(&taint.key)) || node.facts.out_of_service.is_some()
    };
    let open = shared.filter(|node| !is_closed(node));
    let findings = open.map(|node| finding(node, "is a node of Slurm, too".to_owned())).collect();
    fail_if_any(
        findings,
        format!("Slurm has {}, none of which takes pods", count(slurm.len(), "node")),
    )
}

/// Returns the first part of a node's name: Kubernetes often adds the domain.
fn short(name: &str) -> String {
    name.split('.').next().unwrap_or_default().to_ascii_lowercase()
}

fn finding(node: &NodeView<'_>, says: String) -> RuleFinding {
    let name = &node.facts.name;
    RuleFinding::about(name.to_string(), format!("{name} {says}"))
}

fn not_usable(cluster: &ClusterView<'_>) -> RuleResult {
    let mut findings = Vec::new();
    let mut missing = None;
    let by_dra: BTreeSet<&str> = match cluster.list(RESOURCE_SLICES) {
        Ok(slices) => {
            let of_gpus = slices.iter().filter(|slice| driver_of(slice).is_some());
            of_gpus.filter_map(|slice| slice["spec"]["nodeName"].as_str()).collect()
        }
        Err(unread) => {
            missing = Some(unread);
            BTreeSet::new()
        }
    };
    let mut unknown = false;
    for node in cluster.nodes()?.iter().filter(|node| is_for_pods(node, cluster.now)) {
        let capacity = node.object["status"]["capacity"].as_object().into_iter().flatten();
        let of_gpus = capacity.filter(|(name, _)| is_gpu(name));
        let all: u64 = of_gpus.map(|(_, units)| quantity(units)).sum();
        let mark = GPU_PRESENT.iter().find(|label| node.label(label) == "true");
        if let (0, 0, Some(mark)) = (node.gpus, all, mark) {
            unknown |= missing.is_some();
            if missing.is_none() && !by_dra.contains(node.facts.name.0.as_ref()) {
                findings.push(finding(node, format!("has the label {mark}, and offers no GPU")));
            }
        } else if all > node.gpus {
            let says = format!("has {}, of which pods can use {}", count(all, "GPU"), node.gpus);
            findings.push(finding(node, says));
        }
    }
    let pass = format!("{} with GPUs", count(cluster.gpu_nodes()?.len(), "node"));
    judge(findings, missing.filter(|_| unknown), pass)
}

/// Returns true for a node whose GPUs pods should be able to use: not one that the GPU Operator leaves out, or
/// gives to virtual machines (its documentation, November 2026), and not one that has just been added.
fn is_for_pods(node: &NodeView<'_>, now: Time) -> bool {
    let workload = node.label("nvidia.com/gpu.workload.config");
    let created = node.object["metadata"]["creationTimestamp"].as_str().and_then(instant::parse);
    let is_new = created.is_some_and(|created| now.0.saturating_sub(created.0) < START.0);
    let is_left_out = node.label("nvidia.com/gpu.deploy.operands") == "false";
    !is_left_out && !is_new && ["", "container"].contains(&workload)
}

/// Returns the resource of a device plugin for the devices that a ResourceSlice offers; `None` for
/// devices other than GPUs.
fn driver_of(slice: &Value) -> Option<&'static str> {
    let of_gpus = DRA_DRIVERS.iter().find(|(driver, _)| slice["spec"]["driver"] == *driver);
    of_gpus.map(|(_, resource)| *resource)
}

/// Returns true for the name of a DaemonSet that makes GPUs usable.
fn is_gpu_software(name: &str) -> bool {
    name.starts_with("nvidia-")
        || ["amdgpu", "amd-gpu", "intel-gpu", "gpu-feature-discovery"]
            .iter()
            .any(|word| name.contains(word))
}

fn not_ready(cluster: &ClusterView<'_>) -> RuleResult {
    let mut findings = Vec::new();
    let mut names = Vec::new();
    for set in cluster.list(DAEMON_SETS)? {
        if !set["metadata"]["name"].as_str().is_some_and(is_gpu_software) {
            continue;
        }
        let number = |field: &str| set["status"][field].as_u64().unwrap_or(0);
        let ready = number("numberReady");
        let desired = number("desiredNumberScheduled");
        let name = name_of(set);
        if ready < desired {
            let says = format!("DaemonSet {name}: ready on {ready} of {}", count(desired, "node"));
            findings.push(RuleFinding::about(name.clone(), says));
        }
        names.push(name);
    }
    let policies = cluster.list(CLUSTER_POLICIES);
    for policy in policies.as_deref().unwrap_or_default() {
        let name = name_of(policy);
        if let Some(state) = policy["status"]["state"].as_str().filter(|state| *state != "ready") {
            let says = format!("ClusterPolicy {name} of the GPU Operator: {state}");
            findings.push(RuleFinding::about(name.clone(), says));
        }
        names.push(name);
    }
    let pass = if names.is_empty() { "none is installed".to_owned() } else { some_of(&names) };
    judge(findings, policies.err(), pass)
}

fn offered_twice(cluster: &ClusterView<'_>) -> RuleResult {
    let slices = cluster.list(RESOURCE_SLICES)?;
    let nodes = cluster.gpu_nodes()?;
    let is_twice = |node: &&&NodeView<'_>| {
        slices.iter().filter(|slice| slice["spec"]["nodeName"] == *node.facts.name.0).any(|slice| {
            driver_of(slice).is_some_and(|resource| node.facts.allocatable.get(resource) > 0)
        })
    };
    let findings = nodes
        .iter()
        .filter(is_twice)
        .map(|node| {
            let gpus = count(node.gpus, "GPU");
            finding(node, format!("offers {gpus} by a device plugin, and a ResourceSlice"))
        })
        .collect();
    fail_if_any(findings, format!("{} with GPUs", count(nodes.len(), "node")))
}

/// Returns how the GPUs of a node are shared without isolation.
fn sharing<'a>(node: &'a NodeView<'_>) -> Option<&'a str> {
    let strategy = node.label("nvidia.com/gpu.sharing-strategy");
    let replicas: u64 = node.label("nvidia.com/gpu.replicas").parse().unwrap_or(1);
    if ["time-slicing", "mps"].contains(&strategy) {
        Some(strategy)
    } else {
        (replicas > 1 || node.facts.allocatable.get("nvidia.com/gpu.shared") > 0)
            .then_some("time-slicing")
    }
}

fn shared_by_tenants(cluster: &ClusterView<'_>) -> RuleResult {
    let pods = cluster.gpu_pods()?;
    let nodes = cluster.gpu_nodes()?;
    let shared = || nodes.iter().filter_map(|node| Some((node, sharing(node)?)));
    let findings = shared().filter_map(|(node, strategy)| {
        let of_node = pods.iter().filter(|pod| pod.facts.node.as_ref() == Some(&node.facts.name));
        let tenants: BTreeSet<&str> = of_node.map(|pod| pod.namespace()).collect();
        let tenants: Vec<&str> = tenants.into_iter().collect();
        (tenants.len() > 1)
            .then(|| finding(node, format!("({strategy}) has pods of {}", some_of(&tenants))))
    });
    let findings = findings.collect();
    fail_if_any(findings, format!("{} with shared GPUs", count(shared().count(), "node")))
}

fn no_topology(cluster: &ClusterView<'_>) -> RuleResult {
    let topologies = cluster.list(TOPOLOGIES);
    let levels: BTreeSet<&str> = topologies
        .as_deref()
        .unwrap_or_default()
        .iter()
        .flat_map(|topology| topology["spec"]["levels"].as_array().into_iter().flatten())
        .filter_map(|level| level["nodeLabel"].as_str())
        .filter(|label| *label != muster_kubernetes::names::HOSTNAME)
        .collect();
    let is_topology = |label: &String| {
        let last = label.rsplit(['/', '-']).next().unwrap_or_default();
        levels.contains(label.as_str())
            || TOPOLOGY_WORDS.contains(&last)
            || TOPOLOGY_PREFIXES.iter().any(|prefix| label.starts_with(prefix))
    };
    let nodes = cluster.gpu_nodes()?;
    let (with, without): (Vec<&NodeView<'_>>, Vec<&NodeView<'_>>) =
        nodes.iter().copied().partition(|node| node.facts.labels.keys().any(is_topology));
    let names: Vec<String> = without.iter().map(|node| node.facts.name.to_string()).collect();
    let zones = nodes.iter().map(|node| node.label("topology.kubernetes.io/zone"));
    let zones: BTreeSet<&str> = zones.filter(|zone| !zone.is_empty()).collect();
    // A Topology that could not be read may name labels of the site's own.
    let fail = |says: String| match &topologies {
        Ok(_) => fail_if_any(vec![RuleFinding::about("nodes", says)], ""),
        Err(missing) => Err(missing.clone()),
    };
    let total = count(nodes.len(), "node");
    match without.len() {
        0 => fail_if_any(Vec::new(), format!("{total} with GPUs have such labels")),
        _ if nodes.len() == 1 => fail_if_any(Vec::new(), "one node has GPUs"),
        _ if !with.is_empty() => {
            fail(format!("without such a label, unlike others: {}", some_of(&names)))
        }
        _ if nodes.len() > ONE_LEAF => {
            fail(format!("{total} with GPUs are too many for one switch"))
        }
        _ if zones.len() > 1 => fail(format!("{total} with GPUs are in {} zones", zones.len())),
        _ => needs_input(format!("such labels, or whether {total} are in one rack")),
    }
}

fn k3s(cluster: &ClusterView<'_>) -> RuleResult {
    let nodes = cluster.gpu_nodes()?;
    let is_k3s = |node: &&&NodeView<'_>| {
        let version = node.object["status"]["nodeInfo"]["kubeletVersion"].as_str();
        version.is_some_and(|version| version.contains("+k3s"))
    };
    let of_k3s = nodes.iter().filter(is_k3s).count();
    let says = format!("k3s runs on {} with GPUs", count(of_k3s, "node"));
    let of_etcd = |node: &&NodeView<'_>| node.label("node-role.kubernetes.io/etcd") == "true";
    let has_quorum = cluster.nodes()?.iter().filter(of_etcd).count() >= QUORUM;
    let is_large = !has_quorum && of_k3s >= Threshold::K3sNodes.default() as usize;
    let finding = is_large.then(|| RuleFinding::about("k3s", says.clone()));
    fail_if_any(finding.into_iter().collect(), says)
}
