//! Rules on objects of KubeRay: the size of a cluster, and how it starts and ends. What its nodes offer is in
//! `ray_nodes`.

use muster_document::child;
use muster_model::check::Severity;

use super::super::finding::{ObjectFacts, ObjectRule, RuleHit};
use super::super::found::FoundJob;
use super::super::object::ImportedObject;
use crate::names;

pub(in super::super) const RULES: &[ObjectRule] = &[
    ObjectRule {
        id: "ray-starts-in-part",
        severity: Severity::High,
        title: "nothing starts the nodes of a Ray cluster together",
        cure: "label it with the queue of a gang scheduler: `kueue.x-k8s.io/queue-name`; or `volcano.sh/queue-name` or `kai.scheduler/queue`, with KubeRay's operator started with that `--batch-scheduler`",
        find: starts_in_part,
    },
    ObjectRule {
        id: "ray-job-outside-gang",
        severity: Severity::High,
        title: "a RayJob on a cluster that exists is outside of every queue and gang",
        cure: "write `rayClusterSpec` in place of `clusterSelector`: a cluster of its own, which ends with the program",
        find: on_another_cluster,
    },
    ObjectRule {
        id: "ray-cluster-never-ends",
        severity: Severity::Medium,
        title: "a RayCluster holds its GPUs until somebody deletes it",
        cure: "write a RayJob with the program, or submit the imported job with its `run` and `time`",
        find: without_end,
    },
    ObjectRule {
        id: "ray-job-keeps-cluster",
        severity: Severity::High,
        title: "the cluster of a RayJob holds its GPUs when the program has ended",
        cure: "write `shutdownAfterJobFinishes: true`, and `ttlSecondsAfterFinished` of a few minutes at most",
        find: keeps_cluster,
    },
    ObjectRule {
        id: "ray-replicas-out-of-bounds",
        severity: Severity::High,
        title: "KubeRay makes another number of workers than `replicas`",
        cure: "write `replicas` between `minReplicas` and `maxReplicas`",
        find: out_of_bounds,
    },
    ObjectRule {
        id: "ray-bounds-without-autoscaler",
        severity: Severity::Medium,
        title: "the bounds of a group of workers have no effect",
        cure: "write `enableInTreeAutoscaling: true`, or the number of `replicas` in all three fields",
        find: unused_bounds,
    },
    ObjectRule {
        id: "ray-never-has-workers",
        severity: Severity::High,
        title: "a group of workers with GPUs never has any",
        cure: "write `replicas`, or `enableInTreeAutoscaling: true` with `maxReplicas`",
        find: no_workers,
    },
    ObjectRule {
        id: "ray-scales-without-bound",
        severity: Severity::High,
        title: "a group of workers may grow without bound",
        cure: "write `maxReplicas` as the number that its queue may have: each waiting task makes the autoscaler ask for more",
        find: unbounded,
    },
    ObjectRule {
        id: "kueue-rejects-ray",
        severity: Severity::High,
        title: "Kueue does not admit this object of KubeRay",
        cure: "write `shutdownAfterJobFinishes: true`, a name other than `head` for groups of workers, and no autoscaler without the annotation `kueue.x-k8s.io/elastic-job: \"true\"`",
        find: rejected_by_kueue,
    },
    ObjectRule {
        id: "kai-rejects-ray-job",
        severity: Severity::High,
        title: "KubeRay does not start a RayJob of KAI whose program is submitted from a pod of its own",
        cure: "write `submissionMode: SidecarMode`",
        find: rejected_with_kai,
    },
    ObjectRule {
        id: "ray-service-needs-twice",
        severity: Severity::Medium,
        title: "each upgrade of a RayService needs its GPUs twice",
        cure: "write `upgradeStrategy: {type: None}`, or keep as many GPUs free: a second cluster starts beside the first, and waits for ever without them",
        find: needs_twice,
    },
    ObjectRule {
        id: "ray-service-becomes-job",
        severity: Severity::High,
        title: "a job does not replace what a RayService does",
        cure: "keep the RayService where users depend on it: it replaces a broken cluster before it ends the old one, and has an address",
        find: services,
    },
];

/// Most replicas of a group that KubeRay knows: the default of `maxReplicas`.
const UNBOUNDED: u64 = 2_147_483_647;

/// Shortest time after the end of a program for which held GPUs are worth a finding, in seconds.
const LONG_AFTER_END_SECS: u64 = 600;

/// Labels by which KubeRay or a scheduler makes a gang of a cluster.
const GANG_LABELS: [&str; 5] = [
    names::KUEUE_QUEUE,
    names::QUEUE,
    names::KAI_QUEUE,
    names::VOLCANO_QUEUE_LABEL,
    "ray.io/gang-scheduling-enabled",
];

/// A cluster of an object.
pub(super) struct Cluster<'a> {
    pub(super) job: &'a FoundJob,
    pub(super) object: &'a ImportedObject,
    /// Pointer of its specification.
    pub(super) at: &'a str,
}

impl Cluster<'_> {
    /// Returns the pointers of all groups of workers, also of those without pods.
    fn workers(&self) -> Vec<String> {
        self.object.children(&format!("{}/workerGroupSpecs", self.at))
    }

    fn number(&self, at: &str, field: &str) -> Option<u64> {
        self.object.peek_number(&format!("{at}/{field}"))
    }

    pub(super) fn scales(&self) -> bool {
        self.object.is_set(&format!("{}/enableInTreeAutoscaling", self.at))
    }

    /// Returns a group in words: `RayCluster a, group b`.
    fn title(&self, at: &str) -> String {
        let name = self.object.peek_text(&format!("{at}/groupName")).unwrap_or_default();
        format!("{}, group {name}", self.object.title())
    }

    fn hit(&self, at: &str, says: String) -> RuleHit {
        (self.object.line(at), says)
    }
}

/// Returns the cluster of each object that has one.
pub(super) fn clusters<'a>(facts: &'a ObjectFacts<'_>) -> impl Iterator<Item = Cluster<'a>> {
    facts.jobs.iter().filter_map(|job| {
        let at = job.ray.as_ref()?.cluster.as_deref()?;
        Some(Cluster { job, object: &facts.objects[job.object], at })
    })
}

/// Returns what a function finds in each group of workers.
fn in_groups(
    facts: &ObjectFacts<'_>,
    find: impl Fn(&Cluster<'_>, &str) -> Option<RuleHit>,
) -> Vec<RuleHit> {
    let hits = clusters(facts).flat_map(|cluster| {
        let workers = cluster.workers();
        workers.iter().filter_map(|at| find(&cluster, at)).collect::<Vec<_>>()
    });
    hits.collect()
}

fn starts_in_part(facts: &ObjectFacts<'_>) -> Vec<RuleHit> {
    let hits = clusters(facts).filter_map(|cluster| {
        let pods = cluster.job.draft.pods();
        let has_label = |key: &str| cluster.object.get(&child("/metadata/labels", key)).is_some();
        let scheduler = format!("{}/spec/schedulerName", cluster.job.templates[0]);
        let is_stock =
            cluster.object.peek_text(&scheduler).is_none_or(|name| name == "default-scheduler");
        (pods > 1 && is_stock && !GANG_LABELS.iter().any(|key| has_label(key)))
            .then(|| cluster.hit("/metadata", format!("{}: {pods} pods", cluster.object.title())))
    });
    hits.collect()
}

fn on_another_cluster(facts: &ObjectFacts<'_>) -> Vec<RuleHit> {
    let jobs =
        facts.jobs.iter().filter(|job| job.ray.as_ref().is_some_and(|ray| ray.cluster.is_none()));
    jobs.map(|job| {
        let object = &facts.objects[job.object];
        let at = "/spec/clusterSelector";
        let name = object.peek_text(&format!("{at}/ray.io~1cluster")).unwrap_or("?");
        (object.line(at), format!("{}: RayCluster {name}", object.title()))
    })
    .collect()
}

fn without_end(facts: &ObjectFacts<'_>) -> Vec<RuleHit> {
    let of_kind = clusters(facts).filter(|cluster| cluster.object.kind() == "RayCluster");
    of_kind.map(|cluster| cluster.hit("/spec", cluster.object.title())).collect()
}

fn keeps_cluster(facts: &ObjectFacts<'_>) -> Vec<RuleHit> {
    let hits = clusters(facts).filter_map(|cluster| {
        let object = cluster.object;
        if object.kind() != "RayJob" || object.get("/spec/deletionStrategy").is_some() {
            return None;
        }
        let at = "/spec/shutdownAfterJobFinishes";
        if !object.is_set(at) {
            let says = format!("{}: shutdownAfterJobFinishes is false", object.title());
            return Some(cluster.hit(at, says));
        }
        let at = "/spec/ttlSecondsAfterFinished";
        let secs = object.peek_number(at).filter(|secs| *secs >= LONG_AFTER_END_SECS)?;
        Some(cluster.hit(at, format!("{}: for {secs}s", object.title())))
    });
    hits.collect()
}

fn out_of_bounds(facts: &ObjectFacts<'_>) -> Vec<RuleHit> {
    in_groups(facts, |cluster, at| {
        let replicas = cluster.number(at, "replicas")?;
        // The API server fills in these bounds (the CRD's defaults).
        let least = cluster.number(at, "minReplicas").unwrap_or(0);
        let most = cluster.number(at, "maxReplicas").unwrap_or(UNBOUNDED);
        (replicas < least || replicas > most || least > most).then(|| {
            let says = format!("{}: {replicas} of {least} to {most}", cluster.title(at));
            cluster.hit(&format!("{at}/replicas"), says)
        })
    })
}

fn unused_bounds(facts: &ObjectFacts<'_>) -> Vec<RuleHit> {
    in_groups(facts, |cluster, at| {
        let least = cluster.number(at, "minReplicas").unwrap_or(0);
        let most = cluster.number(at, "maxReplicas")?;
        let replicas = cluster.number(at, "replicas").unwrap_or(least);
        (!cluster.scales() && least < most).then(|| {
            let says = format!("{}: {least} to {most}, it stays at {replicas}", cluster.title(at));
            cluster.hit(&format!("{at}/maxReplicas"), says)
        })
    })
}

fn no_workers(facts: &ObjectFacts<'_>) -> Vec<RuleHit> {
    in_groups(facts, |cluster, at| {
        let limits = format!("{at}/template/spec/containers/0/resources/limits");
        let limits = cluster.object.texts(&limits);
        let has_gpus = limits.iter().any(|(name, _)| crate::node::is_gpu(name));
        let least = cluster.number(at, "minReplicas").unwrap_or(0);
        let replicas = cluster.number(at, "replicas").unwrap_or(least).max(least);
        (has_gpus && replicas == 0 && !cluster.scales())
            .then(|| cluster.hit(&format!("{at}/replicas"), cluster.title(at)))
    })
}

fn unbounded(facts: &ObjectFacts<'_>) -> Vec<RuleHit> {
    in_groups(facts, |cluster, at| {
        let most = cluster.number(at, "maxReplicas").unwrap_or(UNBOUNDED);
        (cluster.scales() && most >= UNBOUNDED)
            .then(|| cluster.hit(&format!("{at}/maxReplicas"), cluster.title(at)))
    })
}

fn rejected_by_kueue(facts: &ObjectFacts<'_>) -> Vec<RuleHit> {
    let hits = clusters(facts).filter_map(|cluster| {
        let object = cluster.object;
        let has_queue = object.get(&child("/metadata/labels", names::KUEUE_QUEUE)).is_some();
        let elastic = child("/metadata/annotations", "kueue.x-k8s.io/elastic-job");
        let is_elastic = object.peek_text(&elastic) == Some("true");
        let is_kept = object.kind() == "RayJob" && !object.is_set("/spec/shutdownAfterJobFinishes");
        let is_head = |at: &&String| object.peek_text(&format!("{at}/groupName")) == Some("head");
        let (at, why) = if is_kept {
            ("/spec/shutdownAfterJobFinishes".to_owned(), "shutdownAfterJobFinishes is false")
        } else if cluster.scales() && !is_elastic {
            (format!("{}/enableInTreeAutoscaling", cluster.at), "it scales")
        } else {
            let workers = cluster.workers();
            (workers.iter().find(is_head)?.clone(), "a group of workers is named head")
        };
        has_queue.then(|| cluster.hit(&at, format!("{}: {why}", object.title())))
    });
    hits.collect()
}

fn rejected_with_kai(facts: &ObjectFacts<'_>) -> Vec<RuleHit> {
    let hits = clusters(facts).filter_map(|cluster| {
        let object = cluster.object;
        let at = "/spec/submissionMode";
        let mode = object.peek_text(at).unwrap_or("K8sJobMode");
        let has_queue = object.get(&child("/metadata/labels", names::KAI_QUEUE)).is_some();
        (object.kind() == "RayJob" && has_queue && mode == "K8sJobMode")
            .then(|| cluster.hit(at, format!("{}: {mode}", object.title())))
    });
    hits.collect()
}

fn needs_twice(facts: &ObjectFacts<'_>) -> Vec<RuleHit> {
    let hits = clusters(facts).filter_map(|cluster| {
        let at = "/spec/upgradeStrategy/type";
        let strategy = cluster.object.peek_text(at).unwrap_or("NewCluster");
        let gpus = cluster.job.draft.gpus();
        let is_twice = strategy == "NewCluster" && gpus > 0;
        (cluster.object.kind() == "RayService" && is_twice).then(|| {
            cluster.hit(at, format!("{}: {gpus} GPUs, {}", cluster.object.title(), 2 * gpus))
        })
    });
    hits.collect()
}

fn services(facts: &ObjectFacts<'_>) -> Vec<RuleHit> {
    let of_kind = clusters(facts).filter(|cluster| cluster.object.kind() == "RayService");
    of_kind.map(|cluster| cluster.hit("/spec", cluster.object.title())).collect()
}
