//! Effort of operating a recommendation: the components to install, run and upgrade, the staff, and
//! the part that breaks first. It follows from the label, and from needs that no label names.

use std::borrow::Cow;

use muster_model::GpuModel;
use muster_model::advice::{Citation, CitedPage, ControlPlane, Fact, Operations};

use crate::case::FactsCase;
use crate::condition::Condition::{self, All, Any, Is, Never};
use crate::gpus;
use crate::site::terms::{
    GANGS, ON_KUBERNETES, POOL, PROVIDED, SLURM as SLURM_CHOSEN, SLURM_SERVES, SUBSTRATE,
};

/// Operating effort of one control plane.
struct Stack {
    components: &'static [&'static str],
    staff: &'static str,
    breaks_first: &'static str,
    source: Citation,
}

const NONE: Stack = Stack {
    components: &["ssh", "tmux", "nvidia-smi", "a page of conventions"],
    staff: "nobody; the users coordinate among themselves",
    breaks_first: "the agreement: a GPU is held and forgotten, or two people start at once",
    source: Citation::new(CitedPage::Kentino, "the honest small-team reality"),
};

const SLURM: Stack = Stack {
    components: &[
        "slurmctld",
        "slurmdbd",
        "MariaDB under slurmdbd",
        "slurmd on every node",
        "munge on every node",
        "slurm.conf, gres.conf and cgroup.conf, the same everywhere",
        "NVIDIA driver on every node",
        "shared file system",
    ],
    staff: "one part-time SRE",
    breaks_first: "slurmctld, one process unless a backup with a shared file system is set up: running jobs go on, nothing \
                   new starts; without slurmdbd fair share and limits are not updated",
    source: Citation::new(CitedPage::Kentino, "SLURM is right when; comparison: state / SPOF"),
};

const KUBERNETES: Stack = Stack {
    components: &[
        "etcd",
        "kube-apiserver",
        "kube-controller-manager",
        "kube-scheduler",
        "kubelet on every node",
        "containerd on every node",
        "network plugin (CNI)",
        "kube-proxy",
        "CoreDNS",
        "ingress controller",
        "storage driver (CSI)",
        "cert-manager",
        "Prometheus",
        "Grafana",
        "GPU Operator",
        "NVIDIA driver container",
        "NVIDIA container toolkit",
        "device plugin or DRA driver",
        "GPU and node feature discovery",
        "DCGM exporter",
        "MIG manager",
    ],
    staff: "a platform team: 0.5 to 1.0 full-time people for six months, then 0.25; 5 to 10 times the load of Slurm for pure \
            batch training",
    breaks_first: "etcd and the api-server: slow disks under etcd, or a controller that lists too much; Pods that run go on, \
                   nothing is scheduled or healed",
    source: Citation::new(
        CitedPage::Kentino,
        "what Kubernetes costs: at minimum 20 components; decision tree, step 3",
    ),
};

const K3S: Stack = Stack {
    components: &[
        "k3s server (API, controllers, scheduler and datastore in one binary)",
        "k3s agent on every other node",
        "GPU Operator",
        "NVIDIA driver and container toolkit",
        "device plugin",
    ],
    staff: "part of one person's time; less than full Kubernetes, more than none",
    breaks_first: "the one server with its SQLite file, unless three run embedded etcd; then its size: it is not made for a \
                   datacentre",
    source: Citation::new(
        CitedPage::Overview,
        "Kubernetes & k3s; k3s documentation 2026: architecture",
    ),
};

const RAY: Stack = Stack {
    components: &[
        "Ray head (GCS, dashboard, autoscaler)",
        "raylet on every worker",
        "Redis, where the head must survive",
        "NVIDIA driver on every node",
    ],
    staff: "one owner per Ray cluster, on top of its host",
    breaks_first: "the Ray head: its control store is in memory, and without Redis the whole Ray cluster goes with it; then \
                   the host's own",
    source: Citation::new(CitedPage::Upstream, "Ray documentation 2026: GCS fault tolerance"),
};

/// Components implied by a word of the label.
const PARTS: &[(&str, &[&str])] = &[
    ("Kueue", &["Kueue"]),
    ("Volcano", &["Volcano scheduler", "Volcano controllers and admission"]),
    ("KAI", &["KAI scheduler"]),
    ("Kubeflow", &["Kubeflow Trainer"]),
    ("KubeRay", &["KubeRay operator"]),
    ("Karpenter", &["Karpenter or Cluster Autoscaler"]),
    ("Run:ai", &["Run:ai control plane and scheduler"]),
    ("KServe", &["KServe"]),
    ("Argo", &["Argo CD"]),
];

/// Components implied by runs over the nodes of a rack that NVLink connects.
const IN_RACKS: &[(Condition, &str)] = &[
    (
        All(&[ON_KUBERNETES, GANGS]),
        "DRA driver with ComputeDomains, for NVLink between the nodes of a rack",
    ),
    (
        All(&[SLURM_CHOSEN, GANGS]),
        "IMEX on every node, started for the nodes of a job, for NVLink between them",
    ),
];

/// Components implied by needs that no label names.
const BROUGHT: &[(Condition, &str)] = &[
    (All(&[ON_KUBERNETES, GANGS, Is(Fact::FleetRdma)]), "Network Operator or RDMA device plugin"),
    (All(&[ON_KUBERNETES, Is(Fact::Notebooks)]), "JupyterHub"),
    (Is(Fact::Tracking), "tracking server such as MLflow"),
    (
        All(&[
            SLURM_CHOSEN,
            Any(&[Is(Fact::DistributedPython), Is(Fact::Gitops), Is(Fact::MultiCluster)]),
        ]),
        "slurmrestd with JWT, for programs that submit",
    ),
    (All(&[SLURM_CHOSEN, SUBSTRATE, Is(Fact::OperatesSlinky)]), "slurm-operator"),
    (All(&[SLURM_CHOSEN, SUBSTRATE, Is(Fact::OperatesSoperator)]), "Soperator"),
    (All(&[SLURM_CHOSEN, SUBSTRATE, Is(Fact::OperatesSunk)]), "SUNK"),
    (
        All(&[
            SLURM_CHOSEN,
            SUBSTRATE,
            Never(&Any(&[
                Is(Fact::OperatesSlinky),
                Is(Fact::OperatesSoperator),
                Is(Fact::OperatesSunk),
            ])),
        ]),
        "slurm-operator or Soperator",
    ),
];

/// A provider runs the control plane of Kubernetes.
const PROVIDER_RUNS_IT: Condition = Any(&[Is(Fact::ManagedPlane), PROVIDED]);

/// NVIDIA's components and their replacements where every GPU is AMD's; `None` without one. Source:
/// AMD GPU Operator, components, 2026.
const ON_AMD: &[(&str, Option<&str>)] = &[
    ("nvidia-smi", Some("amd-smi")),
    ("NVIDIA driver on every node", Some("amdgpu driver and ROCm on every node")),
    ("NVIDIA driver and container toolkit", Some("amdgpu driver")),
    ("GPU Operator", Some("AMD GPU Operator")),
    ("NVIDIA driver container", Some("Kernel Module Management")),
    ("NVIDIA container toolkit", None),
    ("GPU and node feature discovery", Some("node labeller and feature discovery")),
    ("DCGM exporter", Some("device metrics exporter")),
    ("MIG manager", None),
];

/// Returns the component that takes this part on the fleet.
fn on_fleet(part: &'static str, amd: bool) -> Option<&'static str> {
    let other = ON_AMD.iter().find(|(nvidia, _)| amd && *nvidia == part);
    other.map_or(Some(part), |(_, instead)| *instead)
}

/// Returns the effort of operating a decided case.
pub(crate) fn of(case: &FactsCase<'_>, models: &[GpuModel]) -> Operations {
    // 1. The control plane, and Kubernetes beside or below it.
    let label = case.label();
    let words = format!("{} {}", label.addon, label.hybrid.as_deref().unwrap_or_default());
    let first = stack(label.primary);
    let second = POOL.holds(case).then_some(&KUBERNETES);

    // 2. Their components, each once.
    let mut components: Vec<&'static str> = Vec::new();
    let own =
        [Some(first), second].into_iter().flatten().flat_map(|stack| stack.components).copied();
    let named = PARTS
        .iter()
        .filter(|(word, _)| words.contains(word))
        .flat_map(|(_, parts)| *parts)
        .copied();
    let brought = BROUGHT.iter().filter(|(needed, _)| needed.holds(case)).map(|(_, part)| *part);
    let racks = IN_RACKS.iter().filter(|(when, _)| gpus::span_racks(models) && when.holds(case));
    let brought = brought.chain(racks.map(|(_, part)| *part));
    let amd = gpus::are_amd(models);
    for part in own.chain(named).chain(brought).filter_map(|part| on_fleet(part, amd)) {
        if !components.contains(&part) {
            components.push(part);
        }
    }

    // 3. A provider operates what it runs today.
    let is_provided = PROVIDER_RUNS_IT.holds(case);
    if is_provided {
        components.retain(|part| !PROVIDED_PARTS.contains(part));
    }
    let breaks_first = match label.primary {
        ControlPlane::Kubernetes if is_provided => {
            "the add-ons that you run: GPU Operator, queue and gang scheduler, after an upgrade by the provider"
        }
        _ => first.breaks_first,
    };
    Operations { components, staff: staff(case, &words, first), breaks_first, source: first.source }
}

/// Components that the provider of a managed control plane runs.
const PROVIDED_PARTS: [&str; 4] =
    ["etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler"];

/// Returns the staff that a stack requires. Where nodes and users are many, the sum comes first.
fn staff(case: &FactsCase<'_>, words: &str, first: &Stack) -> Cow<'static, str> {
    let primary = case.label().primary;
    if primary == ControlPlane::None {
        return NONE.staff.into();
    }
    if words.contains("run by a provider") {
        return "the provider runs hardware, drivers, fabric, cluster and orchestrator; you operate your workloads"
            .into();
    }
    let base = match primary {
        _ if POOL.holds(case) && case.facts.is(Fact::ManagedPlane) => {
            "a part-time SRE for Slurm; 0.25 full-time people for the add-ons of the managed cluster; and an owner of \
             the boundary"
        }
        _ if POOL.holds(case) => {
            "a part-time SRE for Slurm, and a platform team for Kubernetes: 0.5 to 1.0 full-time people for six months, \
             then 0.25; and an owner of the boundary between them"
        }
        _ if SLURM_SERVES.holds(case) => {
            "one part-time SRE, also for the services: Slurm neither checks nor updates them"
        }
        ControlPlane::Kubernetes if case.facts.is(Fact::ManagedPlane) => {
            "0.25 full-time people for GPU Operator, queue and add-ons; the provider runs the control plane"
        }
        _ => first.staff,
    };
    let nodes = case.facts.get(Fact::FleetNodes);
    let users = case.facts.get(Fact::Users);
    let by_size = nodes / NODES_PER_HUNDREDTH + users / USERS_PER_HUNDREDTH;
    if by_size < WORTH_SAYING {
        return base.into();
    }
    let planes = if POOL.holds(case) { 2 } else { 1 };
    format!(
        "about {} for the control plane, faults of {nodes} nodes and questions of {users} users, an assumption of Muster \
         without data; of these {base}",
        full_time(by_size + planes * PER_CONTROL_PLANE)
    )
    .into()
}

/// Returns a number of hundredths of a full-time person in words, in halves: the estimate is no finer.
fn full_time(hundredths: u32) -> String {
    let halves = (hundredths + 25) / 50;
    let half = if halves % 2 == 1 { ".5" } else { "" };
    let people = if halves == 2 { "person" } else { "people" };
    format!("{}{half} full-time {people}", halves / 2)
}

/// Hundredths of a full-time person that one control plane takes steadily: what kentino says of Kubernetes, and an
/// assumption for others.
const PER_CONTROL_PLANE: u32 = 25;
/// Nodes that take a hundredth of a full-time person: 100 nodes take one, by their faults and upgrades.
/// An assumption without data.
const NODES_PER_HUNDREDTH: u32 = 1;
/// Users that take a hundredth of a full-time person: 300 users take one, by their questions. An
/// assumption without data.
const USERS_PER_HUNDREDTH: u32 = 3;
/// Smaller efforts, in hundredths, are within those of the control plane.
const WORTH_SAYING: u32 = 50;

/// Returns the formula of the estimate in words, for the documentation.
pub(crate) fn staff_formula() -> String {
    format!(
        "full-time people = {} per control plane + nodes / {} + users / {}, rounded to halves; said where nodes and users \
         take {} or more. Only a site that has a control plane, and operates it itself",
        Fact::PlatformFte.value(PER_CONTROL_PLANE),
        NODES_PER_HUNDREDTH * 100,
        USERS_PER_HUNDREDTH * 100,
        Fact::PlatformFte.value(WORTH_SAYING)
    )
}

const fn stack(plane: ControlPlane) -> &'static Stack {
    match plane {
        ControlPlane::None => &NONE,
        ControlPlane::Slurm => &SLURM,
        ControlPlane::Kubernetes => &KUBERNETES,
        ControlPlane::K3s => &K3S,
        ControlPlane::Ray => &RAY,
    }
}
