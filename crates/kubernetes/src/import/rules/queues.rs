//! Rules on the queues of Kueue in the same file: whether they admit the jobs that name them. A queue that
//! is not in the file may exist elsewhere: what depends on that is of medium severity, and says so.

use std::collections::BTreeMap;

use muster_document::child;
use muster_model::check::Severity;
use serde_json::Value;

use super::super::finding::{ObjectFacts, ObjectRule, RoleFacts, RuleHit};
use super::super::found::FoundJob;
use super::super::object::ImportedObject;
use crate::kueue::{GROUP, defect};
use crate::names;
use crate::node::is_gpu;
use crate::quantity::units;

pub(in super::super) const RULES: &[ObjectRule] = &[
    ObjectRule {
        id: "queue-admits-nothing",
        severity: Severity::High,
        title: "a queue of Kueue admits nothing",
        cure: "write `namespaceSelector: {}` for all namespaces, `stopPolicy: None`, and a `nominalQuota` above 0",
        find: admits_nothing,
    },
    ObjectRule {
        id: "queue-without-local-queue",
        severity: Severity::Medium,
        title: "a job names a queue that is none of the file's LocalQueues in its namespace",
        cure: "unless it is defined elsewhere, create the LocalQueue in the namespace of the job, or correct the label: without it Kueue never starts the job",
        find: without_local_queue,
    },
    ObjectRule {
        id: "queue-lacks-resource",
        severity: Severity::High,
        title: "a job requests a resource that its queue does not cover",
        cure: "add it to `coveredResources` and to the flavors of a resource group, or do not request it",
        find: lacks_resource,
    },
    ObjectRule {
        id: "queue-too-small",
        severity: Severity::High,
        title: "a job requests more GPUs than its queue can have",
        cure: "raise `nominalQuota`, or put the queue into a cohort from which it can borrow",
        find: too_small,
    },
    ObjectRule {
        id: "alone-in-cohort",
        severity: Severity::Medium,
        title: "a queue of Kueue is alone in its cohort in this file",
        cure: "unless other queues of the cohort are defined elsewhere, it cannot borrow: name the cohort of the queues from which it should; names are compared letter by letter",
        find: alone,
    },
    ObjectRule {
        id: "queue-lends-for-ever",
        severity: Severity::Medium,
        title: "a queue of Kueue lends GPUs and never gets them back",
        cure: "write `preemption: {reclaimWithinCohort: Any}`, or a `lendingLimit` on its GPUs",
        find: lends_for_ever,
    },
];

fn of_kind<'a>(
    facts: &'a ObjectFacts<'_>,
    kind: &'static str,
) -> impl Iterator<Item = &'a ImportedObject> {
    facts.objects.iter().filter(move |object| object.group() == GROUP && object.kind() == kind)
}

fn value(object: &ImportedObject) -> &Value {
    object.get("").unwrap_or(&Value::Null)
}

fn admits_nothing(facts: &ObjectFacts<'_>) -> Vec<RuleHit> {
    let mut hits: Vec<RuleHit> = of_kind(facts, "ClusterQueue")
        .filter_map(|queue| {
            let defect = defect::of_cluster_queue(value(queue))?;
            Some((queue.line("/spec"), format!("{} {defect}", queue.title())))
        })
        .collect();
    for queue in of_kind(facts, "LocalQueue") {
        let at = "/spec/clusterQueue";
        hits.extend(
            defect::stopped(value(queue))
                .map(|defect| (queue.line(at), format!("{} {defect}", queue.title()))),
        );
    }
    hits
}

/// Returns the label by which a job names a queue: its pointer, and the name.
fn label<'a>(facts: &'a ObjectFacts<'_>, job: &FoundJob) -> Option<(String, &'a str)> {
    let object = &facts.objects[job.object];
    let of_pods = format!("{}/metadata/labels", job.templates[0]);
    ["/metadata/labels", &of_pods].into_iter().find_map(|labels| {
        let at = child(labels, names::KUEUE_QUEUE);
        let name = object.peek_text(&at).filter(|name| !name.is_empty())?;
        Some((at, name))
    })
}

/// Returns true if two objects can be in one namespace; where none is written, the user chooses it.
fn shares_namespace(one: &ImportedObject, other: &ImportedObject) -> bool {
    let of = |object: &ImportedObject| object.peek_text("/metadata/namespace").map(str::to_owned);
    match (of(one), of(other)) {
        (Some(one), Some(other)) => one == other,
        _ => true,
    }
}

fn local_queue<'a>(facts: &'a ObjectFacts<'_>, job: &FoundJob) -> Option<&'a ImportedObject> {
    let (_, name) = label(facts, job)?;
    let object = &facts.objects[job.object];
    let is_its = |queue: &&ImportedObject| queue.name() == name && shares_namespace(queue, object);
    of_kind(facts, "LocalQueue").find(is_its)
}

fn cluster_queue<'a>(facts: &'a ObjectFacts<'_>, job: &FoundJob) -> Option<&'a ImportedObject> {
    let name = local_queue(facts, job)?.peek_text("/spec/clusterQueue")?;
    of_kind(facts, "ClusterQueue").find(|queue| queue.name() == name)
}

fn without_local_queue(facts: &ObjectFacts<'_>) -> Vec<RuleHit> {
    if of_kind(facts, "LocalQueue").next().is_none() {
        return Vec::new();
    }
    let hits = facts.jobs.iter().filter_map(|job| {
        let (at, name) = label(facts, job)?;
        let object = &facts.objects[job.object];
        let is_missing = local_queue(facts, job).is_none();
        is_missing.then(|| (object.line(&at), format!("{}: {name}", object.title())))
    });
    hits.collect()
}

/// Returns what the pods of a role request; a limit alone is a request.
fn requests(role: &RoleFacts<'_>) -> BTreeMap<String, u64> {
    let mut all = BTreeMap::new();
    for container in role.object.children(&format!("{}/spec/containers", role.at)) {
        let mut own = BTreeMap::new();
        for part in ["limits", "requests"] {
            let amounts = role.object.get(&format!("{container}/resources/{part}"));
            let amounts = amounts.and_then(Value::as_object).into_iter().flatten();
            own.extend(amounts.map(|(name, amount)| (name.clone(), units(amount))));
        }
        for (name, amount) in own {
            *all.entry(name).or_default() += amount * role.group.pods;
        }
    }
    all
}

/// Other resources may be left out by the configuration of Kueue.
fn lacks_resource(facts: &ObjectFacts<'_>) -> Vec<RuleHit> {
    let hits = facts.roles().flat_map(|role| {
        let queue = cluster_queue(facts, role.job);
        let lacks = |name: &String| {
            let is_counted = is_gpu(name) || matches!(name.as_str(), "cpu" | "memory");
            is_counted && queue.is_some_and(|queue| !defect::covers(value(queue), name))
        };
        let missing: Vec<String> = requests(&role).into_keys().filter(lacks).collect();
        let queue = queue.map(ImportedObject::title).unwrap_or_default();
        (!missing.is_empty()).then(|| {
            let says = format!("{}: {queue} has no {}", role.title(), missing.join(", "));
            (role.line("containers/0/resources"), says)
        })
    });
    hits.collect()
}

/// Compares whole jobs: Kueue admits all pods of a job, or none.
fn too_small(facts: &ObjectFacts<'_>) -> Vec<RuleHit> {
    let is_counted = |job: &&FoundJob| job.draft.service.is_none() && job.draft.array.is_none();
    let hits = facts.jobs.iter().filter(is_counted).filter_map(|job| {
        let queue = cluster_queue(facts, job)?;
        let roles = facts.roles().filter(|role| role.job.object == job.object);
        let mut asked: BTreeMap<String, u64> = BTreeMap::new();
        for (name, amount) in roles.flat_map(|role| requests(&role)) {
            *asked.entry(name).or_default() += amount;
        }
        // Other queues of the cohort may be defined elsewhere.
        let can_borrow = !defect::cohort(value(queue)).is_empty();
        let most = |name: &str| defect::nominal(value(queue), name);
        let (name, amount) = asked.into_iter().find(|(name, amount)| {
            is_gpu(name) && defect::covers(value(queue), name) && *amount > most(name)
        })?;
        (!can_borrow).then(|| {
            let object = &facts.objects[job.object];
            let says = format!(
                "{}: {amount} {name}, {} has {}",
                object.title(),
                queue.title(),
                most(&name)
            );
            (object.line("/spec"), says)
        })
    });
    hits.collect()
}

/// Returns true if nothing else in the file has the cohort of a queue.
fn is_alone(facts: &ObjectFacts<'_>, queue: &ImportedObject) -> bool {
    let cohort = defect::cohort(value(queue));
    let members = of_kind(facts, "ClusterQueue").filter(|one| defect::cohort(value(one)) == cohort);
    // A Cohort may have quota, or a parent that has.
    let has_object = of_kind(facts, "Cohort").any(|one| one.name() == cohort);
    !cohort.is_empty() && members.count() < 2 && !has_object
}

fn alone(facts: &ObjectFacts<'_>) -> Vec<RuleHit> {
    let queues = of_kind(facts, "ClusterQueue").filter(|queue| is_alone(facts, queue));
    let hits = queues.map(|queue| {
        let at = ["/spec/cohortName", "/spec/cohort"].map(|at| queue.get(at).map(|_| at));
        let line = queue.line(at.into_iter().flatten().next().unwrap_or("/spec"));
        (line, format!("{}: {}", queue.title(), defect::cohort(value(queue))))
    });
    hits.collect()
}

fn lends_for_ever(facts: &ObjectFacts<'_>) -> Vec<RuleHit> {
    let has_jobs = |queue: &ImportedObject| {
        of_kind(facts, "LocalQueue")
            .any(|one| one.peek_text("/spec/clusterQueue") == Some(queue.name()))
    };
    let hits = of_kind(facts, "ClusterQueue").filter_map(|queue| {
        let lent = defect::lent_for_ever(value(queue));
        let is_lender = lent > 0 && has_jobs(queue) && !is_alone(facts, queue);
        is_lender.then(|| (queue.line("/spec"), format!("{}: up to {lent} GPUs", queue.title())))
    });
    hits.collect()
}
