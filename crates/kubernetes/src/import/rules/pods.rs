//! Rules on the pods of a job: what they request, their image and their program.

use muster_model::NodeSpec;
use muster_model::check::Severity;

use super::super::finding::{ObjectFacts, ObjectRule, RoleFacts, RuleHit};
use super::super::found::FoundJob;
use super::super::is_lost;
use crate::quantity;

pub(in super::super) const RULES: &[ObjectRule] = &[
    ObjectRule {
        id: "no-node-has-it",
        severity: Severity::High,
        title: "a pod requests more than any node has",
        cure: "request less for each pod, and have more pods: a pod runs on one node",
        find: too_large_pods,
    },
    ObjectRule {
        id: "cluster-too-small",
        severity: Severity::High,
        title: "all pods together need more than the nodes have",
        cure: "request fewer pods: they start together, or never",
        find: too_large_gangs,
    },
    ObjectRule {
        id: "gpus-without-limit",
        severity: Severity::High,
        title: "GPUs are requested without a limit, which the API server rejects",
        cure: "write them under `limits`: for extended resources both are the same",
        find: requests_only,
    },
    ObjectRule {
        id: "no-command",
        severity: Severity::High,
        title: "the image's own command runs, which the object does not show",
        cure: "write `command`; `docker image inspect` shows the entry point of an image",
        find: without_command,
    },
    ObjectRule {
        id: "image-not-pinned",
        severity: Severity::Medium,
        title: "the image can change between the pods of one job",
        cure: "write a version, or the digest: `image: NAME@sha256:…`",
        find: latest,
    },
    ObjectRule {
        id: "no-time-limit",
        severity: Severity::Medium,
        title: "no time limit is requested",
        cure: "add `activeDeadlineSeconds` to the pods, of KubeRay to the RayJob: without one a job cannot be backfilled, and a hang holds its GPUs for ever",
        find: without_time,
    },
    ObjectRule {
        id: "small-shared-memory",
        severity: Severity::Medium,
        title: "/dev/shm has 64 MB, on which data loaders and NCCL fail",
        cure: "mount an `emptyDir` with `medium: Memory` at /dev/shm",
        find: small_shm,
    },
    ObjectRule {
        id: "field-lost",
        severity: Severity::Medium,
        title: "a field of the objects is not in the job",
        cure: "see above for its replacement; if there is none, keep the objects",
        find: lost,
    },
];

fn too_large_pods(facts: &ObjectFacts<'_>) -> Vec<RuleHit> {
    let Some(nodes) = facts.nodes else { return Vec::new() };
    let most = |value: fn(&NodeSpec) -> u64| nodes.iter().map(value).max().unwrap_or_default();
    let hits = facts.roles().flat_map(|role| {
        let task = &role.group.task;
        let each = role.group.tasks_per_pod;
        let amounts = [
            ("GPUs", task.gpus * each, most(gpus)),
            (
                "CPUs",
                task.cpus_milli.div_ceil(1000) * each,
                most(|node| u64::from(node.cpus.0) / 1000),
            ),
            (
                "GiB of memory",
                (task.memory_bytes * each).div_ceil(1 << 30),
                most(|node| node.memory.0 >> 30),
            ),
        ];
        let too_much = amounts.into_iter().filter(|(_, asked, most)| asked > most);
        let hits: Vec<RuleHit> = too_much
            .map(|(unit, asked, most)| {
                let says = format!(
                    "{}: {asked} {unit} for a pod, the largest node has {most}",
                    role.title()
                );
                (role.line("containers/0/resources"), says)
            })
            .collect();
        hits
    });
    hits.collect()
}

fn gpus(node: &NodeSpec) -> u64 {
    node.devices.iter().filter(|device| device.slice_of.is_none()).count() as u64
}

/// Counts how many pods the nodes hold, each by the GPUs of its pods, one role after the other.
fn too_large_gangs(facts: &ObjectFacts<'_>) -> Vec<RuleHit> {
    let Some(nodes) = facts.nodes else { return Vec::new() };
    // Replicas of a service are gangs of their own.
    let is_gang = |job: &&FoundJob| job.draft.service.is_none() || job.draft.pods() > 1;
    let hits = facts.jobs.iter().filter(is_gang).filter_map(|job| {
        let groups = &job.draft.groups;
        let asked = job.draft.gpus();
        let all: u64 = nodes.iter().map(gpus).sum();
        let object = &facts.objects[job.object];
        let line = object.line("/spec");
        if asked > all {
            let says = format!(
                "{}: {} pods need {asked} GPUs, all nodes have {all}",
                object.title(),
                job.draft.pods()
            );
            return Some((line, says));
        }
        let [group] = &groups[..] else { return None };
        let each = group.tasks_per_pod * group.task.gpus;
        if each == 0 {
            return None;
        }
        let holds = |node: &NodeSpec| {
            let pods = gpus(node) / each;
            if group.is_spread { pods.min(1) } else { pods }
        };
        let fit: u64 = nodes.iter().map(holds).sum();
        // Pods too large for any node have a rule of their own.
        let is_too_large = nodes.iter().all(|node| gpus(node) < each);
        (fit < group.pods && !is_too_large).then(|| {
            (
                line,
                format!(
                    "{}: {} pods with {each} GPUs each, the nodes hold {fit}",
                    object.title(),
                    group.pods
                ),
            )
        })
    });
    hits.collect()
}

fn requests_only(facts: &ObjectFacts<'_>) -> Vec<RuleHit> {
    let hits = facts.roles().filter_map(|role| {
        let at = format!("{}/spec/containers/0/resources", role.at);
        let limits = role.object.texts(&format!("{at}/limits"));
        let requests = role.object.texts(&format!("{at}/requests"));
        let missing = requests.iter().find(|(name, amount)| {
            let limit = limits.iter().find(|(known, _)| known == name).map(|(_, limit)| limit);
            name.contains('/')
                && limit.and_then(|text| quantity::milli(text)) != quantity::milli(amount)
        });
        let (name, amount) = missing?;
        Some((
            role.line("containers/0/resources/requests"),
            format!("{}: {name}: {amount}", role.title()),
        ))
    });
    hits.collect()
}

fn without_command(facts: &ObjectFacts<'_>) -> Vec<RuleHit> {
    let hits = facts.roles().filter(|role| {
        let has = |field: &str| {
            role.object.get(&format!("{}/spec/containers/0/{field}", role.at)).is_some()
        };
        // KubeRay starts the nodes of a cluster.
        if role.job.ray.is_some() {
            return false;
        }
        // The MPI operator starts an SSH server in workers.
        let is_worker = role.job.mpi.is_some() && role.group.name != "launcher";
        has("image") && !has("command") && !is_worker && role.has_whole_template()
    });
    hits.map(|role| (role.line("containers/0"), format!("{}: {}", role.title(), image(&role))))
        .collect()
}

fn image<'a>(role: &RoleFacts<'a>) -> &'a str {
    role.object.peek_text(&format!("{}/spec/containers/0/image", role.at)).unwrap_or_default()
}

fn latest(facts: &ObjectFacts<'_>) -> Vec<RuleHit> {
    let hits = facts.roles().filter_map(|role| {
        let image = image(&role);
        let name = image.rsplit('/').next().unwrap_or(image);
        let is_open =
            !image.contains('@') && name.split_once(':').is_none_or(|(_, tag)| tag == "latest");
        let says = if name.contains(':') { "" } else { ", which means latest" };
        (is_open && !image.is_empty())
            .then(|| (role.line("containers/0/image"), format!("{}: {image}{says}", role.title())))
    });
    hits.collect()
}

fn without_time(facts: &ObjectFacts<'_>) -> Vec<RuleHit> {
    let jobs = facts.jobs.iter().filter(|job| {
        let uses_gpus = job.draft.groups.iter().any(|group| group.task.gpus > 0);
        // Clusters without a program have a rule of their own.
        let has_end = job.ray.as_ref().is_none_or(|ray| ray.entrypoint.is_some());
        let is_open = job.draft.time_secs.is_none() && job.draft.service.is_none();
        is_open && has_end && uses_gpus && !job.is_own
    });
    jobs.map(|job| {
        let object = &facts.objects[job.object];
        (object.line("/spec"), format!("{}: no activeDeadlineSeconds", object.title()))
    })
    .collect()
}

fn small_shm(facts: &ObjectFacts<'_>) -> Vec<RuleHit> {
    let hits = facts.roles().filter(|role| {
        let mounts = role.object.children(&format!("{}/spec/containers/0/volumeMounts", role.at));
        let has_shm = mounts
            .iter()
            .any(|at| role.object.peek_text(&format!("{at}/mountPath")) == Some("/dev/shm"));
        let uses_host = role.object.is_set(&format!("{}/spec/hostIPC", role.at));
        let gpus = role.group.task.gpus * role.group.tasks_per_pod;
        // KubeRay mounts one as large as the limit of memory.
        let is_mounted = has_shm || role.job.ray.is_some();
        gpus > 1 && role.has_whole_template() && !is_mounted && !uses_host
    });
    hits.map(|role| {
        let says = format!(
            "{}: {} GPUs, nothing is mounted at /dev/shm",
            role.title(),
            role.group.task.gpus * role.group.tasks_per_pod
        );
        (role.line("containers/0"), says)
    })
    .collect()
}

fn lost(facts: &ObjectFacts<'_>) -> Vec<RuleHit> {
    let lost = facts.options.iter().flatten().filter(|option| is_lost(option.becomes));
    lost.map(|option| (Some(option.line), option.option.clone())).collect()
}
