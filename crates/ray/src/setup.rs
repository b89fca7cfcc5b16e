//! Job files to begin with on a fleet: a program on a Ray cluster, and a cluster for several programs, both
//! sized for the nodes. The user adds the program; nothing is submitted.

use std::collections::BTreeMap;

use muster_model::{GpuModel, NodeSpec};
use serde_json::json;

/// Nodes that the job files start with, where there are so many: the smallest gang.
const LEAST: u32 = 2;
/// CPUs and memory of a head that has no GPUs, where the nodes have as much to spare (docs/ray.md: 2 GB for
/// the head itself, the rest for the program).
const HEAD_CPUS: u32 = 2;
const HEAD_MEMORY_GIB: u64 = 8;

/// Equal nodes that a Ray cluster is sized for: of a fleet the kind with the most GPUs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RayNodes {
    /// Number of the nodes.
    pub nodes: u32,
    /// Whole GPUs of each.
    pub gpus: u32,
    /// Model of the GPUs.
    pub model: GpuModel,
    /// True if the fleet has other models as well.
    pub has_other_models: bool,
    /// CPUs of the smallest of them; `None` if those of one are unknown.
    pub cpus: Option<u32>,
    /// Memory of the smallest of them; `None` if that of one is unknown.
    pub memory_gib: Option<u64>,
}

fn known(amount: &u64) -> bool {
    *amount > 0
}

impl RayNodes {
    /// Returns the nodes of a fleet that Ray clusters are sized for; `None` if no node has a whole GPU. Slices of a
    /// GPU are left out: a Ray node has whole GPUs.
    #[must_use]
    pub fn of(fleet: &[NodeSpec]) -> Option<Self> {
        let mut kinds: BTreeMap<(GpuModel, u32), Vec<&NodeSpec>> = BTreeMap::new();
        for node in fleet {
            let mut models: BTreeMap<&GpuModel, u32> = BTreeMap::new();
            for device in node.devices.iter().filter(|device| device.slice_of.is_none()) {
                *models.entry(&device.model).or_default() += 1;
            }
            let most = models.into_iter().max_by_key(|(_, count)| *count);
            if let Some((model, count)) = most {
                kinds.entry((model.clone(), count)).or_default().push(node);
            }
        }
        let models: std::collections::BTreeSet<GpuModel> =
            kinds.keys().map(|(model, _)| model.clone()).collect();
        let total = |gpus: u32, nodes: &[&NodeSpec]| u64::from(gpus) * nodes.len() as u64;
        let ((model, gpus), nodes) =
            kinds.into_iter().max_by_key(|((_, gpus), nodes)| total(*gpus, nodes))?;
        let least = |of: fn(&NodeSpec) -> u64| nodes.iter().map(|node| of(node)).min();
        Some(Self {
            nodes: u32::try_from(nodes.len()).unwrap_or(u32::MAX),
            gpus,
            model,
            has_other_models: models.len() > 1,
            cpus: least(|node| u64::from(node.cpus.0 / 1000))
                .filter(known)
                .and_then(|cpus| u32::try_from(cpus).ok()),
            memory_gib: least(|node| node.memory.0 >> 30).filter(known),
        })
    }

    /// Returns one of the machines as Ray nodes of a GPU each, so that its clusters can grow and shrink.
    #[must_use]
    pub fn of_machine(&self) -> Self {
        Self {
            nodes: self.gpus,
            gpus: 1,
            model: self.model.clone(),
            has_other_models: false,
            cpus: self.cpus.map(|cpus| cpus / self.gpus).filter(|cpus| *cpus > 0),
            memory_gib: self.memory_gib.map(|memory| memory / u64::from(self.gpus)).filter(known),
        }
    }

    /// Returns the GPUs of all of them.
    #[must_use]
    pub fn all_gpus(&self) -> u64 {
        u64::from(self.nodes) * u64::from(self.gpus)
    }

    /// Returns the nodes that the job files start with.
    fn least(&self) -> u32 {
        self.nodes.min(LEAST)
    }

    /// Returns the CPUs of a Ray node beside others of the same machine, an eighth of which is left to the system.
    fn worker_cpus(&self, others: u32) -> Option<u32> {
        self.cpus.map(|cpus| (cpus - cpus.div_ceil(8)).saturating_sub(others).max(1))
    }

    fn worker_memory_gib(&self, others_gib: u64) -> Option<u64> {
        let left = |memory: u64| (memory - memory.div_ceil(8)).saturating_sub(others_gib).max(1);
        self.memory_gib.map(left)
    }

    fn head_cpus(&self) -> u32 {
        self.cpus.map_or(HEAD_CPUS, |cpus| (cpus / 8).clamp(1, HEAD_CPUS))
    }

    fn head_memory_gib(&self) -> u64 {
        self.memory_gib.map_or(HEAD_MEMORY_GIB, |memory| (memory / 8).clamp(1, HEAD_MEMORY_GIB))
    }

    /// Returns the lines of a task that has the GPUs of a node, beside the head's pod where `beside_head`: a RayJob's has
    /// KubeRay's submitter as well, of 0.5 CPU and 200 MiB (KubeRay 1.6).
    fn task(&self, with_model: bool, beside_head: bool) -> Vec<(&'static str, String)> {
        let cpus = if beside_head { self.head_cpus() + 1 } else { 0 };
        let memory_gib = if beside_head { self.head_memory_gib() + 1 } else { 0 };
        let mut lines = vec![("gpus-per-task", self.gpus.to_string())];
        let model = (with_model && self.has_other_models).then(|| quoted(self.model.as_str()));
        lines.extend(model.map(|model| ("gpu", model)));
        lines.extend(self.worker_cpus(cpus).map(|cpus| ("cpus", cpus.to_string())));
        lines.extend(
            self.worker_memory_gib(memory_gib).map(|memory| ("memory", format!("{memory}GiB"))),
        );
        lines
    }
}

/// Place that the job files are for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetupPlace<'a> {
    /// The machine of a daemon, whose GPUs are a Ray node each.
    Machine,
    /// Slurm, with the QOS of further nodes.
    Slurm {
        /// Name of that QOS.
        growth_qos: &'a str,
    },
    /// Pods of Kubernetes, by a RayJob of KubeRay or by a Job with the launcher.
    Kubernetes {
        /// Namespace of the jobs.
        namespace: &'a str,
        /// Image of all pods; the version in its tag is that of the cluster.
        image: &'a str,
        /// True if a cluster may grow: Kueue starts those of a fixed size.
        grows: bool,
    },
}

/// Terms of the job files.
#[derive(Clone, Copy, Debug)]
pub struct RaySetup<'a> {
    /// Nodes that they are sized for.
    pub nodes: &'a RayNodes,
    /// Place that they are for.
    pub place: SetupPlace<'a>,
    /// Queue of the jobs.
    pub queue: Option<&'a str>,
    /// Interpreter that has Ray; `None` for that of the path, or of the image.
    pub python: Option<&'a str>,
}

/// Returns the job file of a program on a cluster of its own.
#[must_use]
pub fn program_job(setup: &RaySetup<'_>) -> String {
    let nodes = setup.nodes;
    let grows = nodes.nodes > nodes.least() && setup.may_grow();
    let size = setup.size(nodes.least());
    let mut text =
        setup.heading("A program on a Ray cluster of its own, which ends with the program.");
    text.push_str(match setup.place {
        _ if !grows => "",
        SetupPlace::Machine => GROWS,
        SetupPlace::Slurm { .. } => GROWS_ON_SLURM,
        SetupPlace::Kubernetes { .. } => GROWS_ON_KUBERNETES,
    });
    text.push_str("name: program\nkind: ray\n");
    if matches!(setup.place, SetupPlace::Kubernetes { .. }) {
        text.push_str(&format!(
            "groups:\n  - {{name: head, gpus-per-task: 0, cpus: {}, memory: {}GiB}}\n  - {{name: worker, tasks: {size}",
            nodes.head_cpus(),
            nodes.head_memory_gib()
        ));
        for (name, value) in nodes.task(false, true) {
            text.push_str(&format!(", {name}: {value}"));
        }
        text.push_str("}\n");
    } else {
        text.push_str(&setup.tasks(&size));
    }
    text.push_str("time: 12h\n");
    let idle = grows.then(|| ("idle", "5m".to_owned()));
    text.push_str(&setup.terms(grows, idle));
    text.push_str("run: python train.py\n");
    text.push_str(&setup.kubernetes(true));
    text
}

/// Returns the job file of a cluster that waits for programs.
#[must_use]
pub fn cluster_job(setup: &RaySetup<'_>) -> String {
    // KubeRay has no such cluster that ends: it is a Job, which keeps its size.
    let on_kubernetes = matches!(setup.place, SetupPlace::Kubernetes { .. });
    let grows = setup.nodes.nodes > 1 && !on_kubernetes;
    let size = match setup.nodes.nodes {
        most if grows => format!("1..{most}"),
        _ => setup.nodes.least().to_string(),
    };
    let mut text = setup.heading(
        "A Ray cluster for several programs: `muster ray submit lab -- python train.py` runs one on it. It ends when\n# none has run for `idle`.",
    );
    text.push_str("name: lab\nkind: ray\n");
    text.push_str(&setup.tasks(&size));
    text.push_str("time: 24h\n");
    text.push_str(&setup.terms(grows, Some(("idle", "30m".to_owned()))));
    text.push_str(&setup.kubernetes(false));
    text
}

const GROWS: &str = "\
# It starts with the fewest nodes. Further ones are opportunistic jobs, which it asks for while parts of the program wait.
";
const GROWS_ON_SLURM: &str = "\
# It starts with the fewest nodes. Further ones are jobs of their own, which it asks for while parts of the program wait.
# SBATCH_QOS puts those, and not the first nodes, into a QOS whose jobs others preempt; growth.sh makes it. Without the
# line they are in the QOS of the job, as far as its limits allow, and preempted as little as the job.
";
const GROWS_ON_KUBERNETES: &str = "\
# It starts with the fewest workers; KubeRay's autoscaler adds others, one by one, while parts of the program wait.
";

impl RaySetup<'_> {
    fn may_grow(&self) -> bool {
        !matches!(self.place, SetupPlace::Kubernetes { grows: false, .. })
    }

    fn size(&self, least: u32) -> String {
        match self.nodes.nodes {
            most if most > least && self.may_grow() => format!("{least}..{most}"),
            _ => least.to_string(),
        }
    }

    fn heading(&self, what: &str) -> String {
        let nodes = self.nodes;
        let plural = if nodes.nodes == 1 { "" } else { "s" };
        let sized = match self.place {
            SetupPlace::Machine => {
                format!("a machine with {} {}: each is a Ray node", nodes.nodes, nodes.model)
            }
            SetupPlace::Slurm { .. } | SetupPlace::Kubernetes { .. } => format!(
                "{} node{plural} with {} {} each: a Ray node has all GPUs of its machine",
                nodes.nodes, nodes.gpus, nodes.model
            ),
        };
        let head = match self.place {
            SetupPlace::Kubernetes { .. } => "",
            SetupPlace::Machine | SetupPlace::Slurm { .. } => " The first is the head, too.",
        };
        let rest = if nodes.cpus.is_some() || nodes.memory_gib.is_some() {
            "\n# An eighth of the CPUs and the memory is left to the system."
        } else {
            ""
        };
        let is_kubernetes = matches!(self.place, SetupPlace::Kubernetes { .. });
        let others = if is_kubernetes && nodes.has_other_models {
            "\n# Nodes have other models as well: add `labels: {nvidia.com/gpu.product: …}` to select one."
        } else {
            ""
        };
        format!("# {what}\n# Sized for {sized}.{head}{rest}{others}\n")
    }

    fn tasks(&self, size: &str) -> String {
        let with_model = !matches!(self.place, SetupPlace::Kubernetes { .. });
        let mut text = format!("tasks: {size}\n");
        for (name, value) in self.nodes.task(with_model, false) {
            text.push_str(&format!("{name}: {value}\n"));
        }
        text
    }

    /// Returns the lines on queue, environment and Ray.
    fn terms(&self, grows: bool, idle: Option<(&'static str, String)>) -> String {
        let mut text = String::new();
        if let Some(queue) = self.queue {
            text.push_str(&format!("queue: {}\n", quoted(queue)));
        }
        if let SetupPlace::Slurm { growth_qos } = self.place
            && grows
        {
            text.push_str(&format!("env: {{SBATCH_QOS: {}}}\n", quoted(growth_qos)));
        }
        let python = self.python.map(|python| ("python", quoted(python)));
        let ray: Vec<String> = idle
            .into_iter()
            .chain(python)
            .map(|(name, value)| format!("{name}: {value}"))
            .collect();
        if !ray.is_empty() {
            text.push_str(&format!("ray: {{{}}}\n", ray.join(", ")));
        }
        text
    }

    fn kubernetes(&self, is_kuberay: bool) -> String {
        let SetupPlace::Kubernetes { namespace, image, .. } = self.place else {
            return String::new();
        };
        let image = quoted(image);
        let namespace = quoted(namespace);
        let kuberay = if is_kuberay { ", kuberay: true" } else { "" };
        format!("kubernetes: {{image: {image}, namespace: {namespace}{kuberay}}}\n")
    }
}

/// Words that some reader of YAML takes for another type than text.
const MEANT_OTHERWISE: [&str; 9] = ["true", "false", "null", "yes", "no", "on", "off", "y", "n"];

/// Returns a value of a job file: as it is if that is a plain word of YAML, else in quotes.
fn quoted(text: &str) -> String {
    let is_plain = text.starts_with(|c: char| c.is_ascii_alphabetic() || "./".contains(c))
        && text.chars().all(|c| c.is_ascii_alphanumeric() || "-_./".contains(c))
        && !MEANT_OTHERWISE.contains(&text.to_ascii_lowercase().as_str());
    if is_plain { text.to_owned() } else { json!(text).to_string() }
}

#[cfg(test)]
mod tests {
    use muster_model::Device;
    use muster_model::unit::{Bytes, CpuMilli};

    use super::*;

    fn node(name: &str, gpus: usize, model: &str) -> NodeSpec {
        let mut node = NodeSpec::plain(name, CpuMilli(64_000), Bytes(1000 << 30));
        node.devices = vec![Device::declared(model, Bytes(0)); gpus];
        node
    }

    #[test]
    fn clusters_are_sized_for_the_kind_of_node_with_the_most_gpus() {
        let mut fleet = vec![node("a", 8, "h100"), node("b", 8, "h100"), node("c", 4, "l40s")];
        let nodes = RayNodes::of(&fleet).unwrap();
        assert_eq!((nodes.nodes, nodes.gpus, nodes.model.as_str()), (2, 8, "h100"));
        assert_eq!((nodes.worker_cpus(0), nodes.worker_memory_gib(0)), (Some(56), Some(875)));
        assert!(nodes.has_other_models);
        // A node whose size is unknown leaves the size of all open.
        fleet[1].cpus = CpuMilli(0);
        let nodes = RayNodes::of(&fleet).unwrap();
        assert_eq!((nodes.cpus, nodes.memory_gib), (None, Some(1000)));
        let machine = RayNodes { cpus: Some(64), ..nodes }.of_machine();
        assert_eq!((machine.nodes, machine.gpus, machine.cpus), (8, 1, Some(8)));
        assert_eq!((machine.all_gpus(), machine.memory_gib), (8, Some(125)));
        // Slices are not whole GPUs.
        for device in fleet.iter_mut().flat_map(|node| &mut node.devices) {
            device.slice_of = Some("GPU-1".into());
        }
        assert_eq!(RayNodes::of(&fleet), None);
    }

    /// Head, submitter and worker fit on one node, and leave an eighth of it.
    #[test]
    fn a_cluster_of_kuberay_fits_on_one_node() {
        for (cpus, memory_gib) in [(8, 32), (16, 64), (64, 1000)] {
            let node = RayNodes {
                nodes: 1,
                gpus: 1,
                model: GpuModel::from("l4"),
                has_other_models: false,
                cpus: Some(cpus),
                memory_gib: Some(memory_gib),
            };
            let head_cpus = node.head_cpus() + 1;
            let used = node.worker_cpus(head_cpus).unwrap() + head_cpus;
            assert!(used <= cpus * 7 / 8, "{used} of {cpus} CPUs");
            let head_gib = node.head_memory_gib() + 1;
            let used = node.worker_memory_gib(head_gib).unwrap() + head_gib;
            assert!(used <= memory_gib * 7 / 8, "{used} of {memory_gib} GiB");
        }
    }

    #[test]
    fn the_first_node_is_the_head_on_slurm_and_on_kubernetes_a_pod_without_gpus() {
        let fleet: Vec<NodeSpec> = ["a", "b", "c"].map(|name| node(name, 8, "h100")).into();
        let nodes = RayNodes::of(&fleet).unwrap();
        let slurm = SetupPlace::Slurm { growth_qos: "spare" };
        let setup = RaySetup { nodes: &nodes, place: slurm, queue: Some("lab/rl"), python: None };
        let text = program_job(&setup);
        let body = text.split_once("name: ").unwrap().1;
        assert_eq!(
            body,
            "program\nkind: ray\ntasks: 2..3\ngpus-per-task: 8\ncpus: 56\nmemory: 875GiB\ntime: 12h\nqueue: lab/rl\n\
             env: {SBATCH_QOS: spare}\nray: {idle: 5m}\nrun: python train.py\n"
        );
        let place = SetupPlace::Kubernetes { namespace: "ray", image: "r/ray:1", grows: false };
        let setup = RaySetup { place, queue: Some("ray"), python: Some("/opt/a b"), ..setup };
        let text = program_job(&setup);
        let body = text.split_once("name: ").unwrap().1;
        assert_eq!(
            body,
            "program\nkind: ray\ngroups:\n  - {name: head, gpus-per-task: 0, cpus: 2, memory: 8GiB}\n  \
             - {name: worker, tasks: 2, gpus-per-task: 8, cpus: 53, memory: 866GiB}\ntime: 12h\nqueue: ray\n\
             ray: {python: \"/opt/a b\"}\nrun: python train.py\n\
             kubernetes: {image: \"r/ray:1\", namespace: ray, kuberay: true}\n"
        );
    }
}
