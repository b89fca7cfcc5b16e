//! Rules on what a Ray node offers, beside what its job has. `ray start` reads the machine, not the job.

use muster_model::Bytes;
use muster_model::check::Severity::{High, Medium};
use muster_slurm::conf::evidence::MissingInput;

use super::RayRule;
use crate::ray::process::option;
use crate::ray::view::{HostView, ProcessView, amount};
use crate::rule::{DocPage, RuleFinding, RuleResult, fail_if_any, judge};

const START: DocPage = DocPage::Web("https://docs.ray.io/en/latest/cluster/cli.html#ray-start");

/// Path of the memory-backed file system that Ray uses for its object store.
const SHARED_MEMORY: &str = "/dev/shm";

pub(super) const RULES: &[RayRule] = &[
    RayRule {
        id: "ray-gpus-beyond-job",
        severity: High,
        title: "a Ray node offers more GPUs than its job has",
        meaning: "actors are placed on GPUs of other jobs, or wait for devices that they cannot open",
        cure: "`ray start --num-gpus` with the GPUs of the allocation, such as $SLURM_GPUS_ON_NODE; a job of `kind: ray` does so",
        page: START,
        check: gpus,
    },
    RayRule {
        id: "ray-cpus-beyond-job",
        severity: Medium,
        title: "a Ray node offers more CPUs than its job has",
        meaning: "Ray starts a worker for each CPU of the machine, and they share the few of the job",
        cure: "`ray start --num-cpus` with the CPUs of the allocation, such as $SLURM_CPUS_ON_NODE; a job of `kind: ray` does so",
        page: START,
        check: cpus,
    },
    RayRule {
        id: "ray-memory-beyond-job",
        severity: Medium,
        title: "a Ray node offers more memory than its job has",
        meaning: "the kernel ends the job when tasks and objects use what Ray promised them",
        cure: "`ray start --memory --object-store-memory`, together less than the job's memory; a job of `kind: ray` does so",
        page: DocPage::Web(
            "https://docs.ray.io/en/latest/ray-core/scheduling/memory-management.html",
        ),
        check: memory,
    },
    RayRule {
        id: "ray-store-beyond-shared-memory",
        severity: Medium,
        title: "the object store is on disk, or larger than shared memory",
        meaning: "objects are read and written at the speed of a disk, or puts fail with a bus error when /dev/shm is full",
        cure: "`--object-store-memory` below the size of /dev/shm, or a larger /dev/shm (`--shm-size` of a container)",
        page: DocPage::Web(
            "https://docs.ray.io/en/latest/ray-core/scheduling/memory-management.html",
        ),
        check: store,
    },
];

/// Judges the nodes in jobs: what each offers of a resource, and what its job has.
fn beyond(
    host: &HostView<'_>,
    noun: &str,
    offers: impl Fn(&ProcessView<'_>) -> f64,
    has: impl Fn(&ProcessView<'_>) -> Result<f64, MissingInput>,
    text: impl Fn(f64) -> String,
) -> RuleResult {
    let mut missing = None;
    let mut findings = Vec::new();
    for node in host.nodes().filter(|node| node.is_in_job()) {
        let offered = offers(node);
        match has(node) {
            Ok(own) if offered > own => {
                let title = node.title();
                let says = format!("{title} offers {}, its job has {}", text(offered), text(own));
                findings.push(RuleFinding::about(format!("{} {noun}", node.owner), says));
            }
            Ok(_) => {}
            Err(needed) => missing = missing.or(Some(needed)),
        }
    }
    judge(findings, missing, host.seen())
}

fn gpus(host: &HostView<'_>) -> RuleResult {
    let has = |node: &ProcessView<'_>| {
        if node.offers("GPU") <= 0.0 {
            return Ok(0.0);
        }
        if let Some(missing) = node.unread() {
            return Err(missing);
        }
        let listed = node
            .variable("CUDA_VISIBLE_DEVICES")
            .map(|list| list.split(',').filter(|one| !one.trim().is_empty()).count() as f64);
        let of_slurm = node.variable("SLURM_GPUS_ON_NODE").and_then(|number| number.parse().ok());
        let least = listed.into_iter().chain(of_slurm).reduce(f64::min);
        let says =
            || MissingInput(format!("the GPUs of {}: CUDA_VISIBLE_DEVICES is not set", node.owner));
        least.ok_or_else(says)
    };
    beyond(host, "GPU", |node| node.offers("GPU"), has, |number| amount(number, "GPU"))
}

fn cpus(host: &HostView<'_>) -> RuleResult {
    let has = |node: &ProcessView<'_>| {
        // A CPU for each GPU and one: so many offers a job of Muster that names none, whatever it gets.
        if node.offers("CPU") <= node.offers("GPU") + 1.0 {
            return Ok(node.offers("CPU"));
        }
        let of_slurm = node.variable("SLURM_CPUS_ON_NODE").and_then(|number| number.parse().ok());
        let allowed = node.process.cpus.map(|cpus| cpus as f64);
        let least = allowed.into_iter().chain(of_slurm).reduce(f64::min);
        least.ok_or_else(|| MissingInput(format!("the CPUs of {}", node.owner)))
    };
    beyond(host, "CPU", |node| node.offers("CPU"), has, |number| amount(number, "CPU"))
}

fn memory(host: &HostView<'_>) -> RuleResult {
    let has = |node: &ProcessView<'_>| {
        let of_slurm =
            node.variable("SLURM_MEM_PER_NODE").and_then(|text| text.parse::<u64>().ok());
        let of_slurm = of_slurm.filter(|megabytes| *megabytes > 0).map(|megabytes| megabytes << 20);
        let least = node.process.memory_bytes.into_iter().chain(of_slurm).min();
        let says = || MissingInput(format!("a limit on the memory of {}", node.owner));
        least.map(|bytes| bytes as f64).ok_or_else(says)
    };
    let offers =
        |node: &ProcessView<'_>| node.offers("memory") + node.offers("object_store_memory");
    beyond(host, "memory", offers, has, |bytes| Bytes(bytes as u64).to_string())
}

fn store(host: &HostView<'_>) -> RuleResult {
    let mut missing = None;
    let mut findings = Vec::new();
    for node in host.nodes() {
        let bytes = node.offers("object_store_memory") as u64;
        let title = node.title();
        let says = match option(&node.process.arguments, "plasma_directory") {
            Some(directory) if !directory.starts_with(SHARED_MEMORY) => {
                format!("{title}: its object store of {} is in {directory}", Bytes(bytes))
            }
            _ => match node.process.shared_memory_bytes {
                Some(size) if bytes > size => format!(
                    "{title}: its object store of {} is larger than {SHARED_MEMORY}, which has {}",
                    Bytes(bytes),
                    Bytes(size)
                ),
                Some(_) => continue,
                None => {
                    let pid = node.process.pid;
                    let says = format!("the size of {SHARED_MEMORY} of process {pid}");
                    missing = Some(MissingInput(says));
                    continue;
                }
            },
        };
        findings.push(RuleFinding::about(format!("{} {}", node.owner, node.gcs), says));
    }
    match missing {
        Some(_) => judge(findings, missing, host.seen()),
        None => fail_if_any(findings, host.seen()),
    }
}
