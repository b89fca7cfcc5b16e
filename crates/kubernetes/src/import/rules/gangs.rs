//! Rules on gangs: whether all pods start together, and restart together.

use muster_document::child;
use muster_model::check::Severity;

use super::super::finding::{ObjectFacts, ObjectRule, RuleHit};
use crate::names;

pub(in super::super) const RULES: &[ObjectRule] = &[
    ObjectRule {
        id: "gang-restarts-in-part",
        severity: Severity::High,
        title: "one pod of a gang is restarted while the others wait for it",
        cure: "restart all or none: `restartPolicy: Never` with `backoffLimit: 0`, and a JobSet with `failurePolicy: {maxRestarts: N}` for whole restarts; in Volcano the action `RestartJob`",
        find: half_restarts,
    },
    ObjectRule {
        id: "least-pods-differ",
        severity: Severity::High,
        title: "a gang may start with a part of its pods",
        cure: "make the number that of all pods; with 1 each pod is on its own",
        find: least_pods_differ,
    },
    ObjectRule {
        id: "least-pods-missing",
        severity: Severity::Medium,
        title: "a Job of Volcano does not say how many pods start together",
        cure: "write `minAvailable`: without it Volcano's webhook decides, if it is installed",
        find: least_pods_missing,
    },
    ObjectRule {
        id: "kai-starts-in-part",
        severity: Severity::High,
        title: "KAI starts the pods of a gang one by one",
        cure: "annotate the Job or JobSet: `kai.scheduler/batch-min-member: \"N\"` with the number of its pods; KAI makes the PodGroup itself",
        find: kai_in_part,
    },
    ObjectRule {
        id: "gang-becomes-several-jobs",
        severity: Severity::High,
        title: "different pods of one PodGroup become jobs that start one by one",
        cure: "write them as the `groups` of one job",
        find: several_jobs,
    },
];

/// A number between one and all: the pods that start hold GPUs, and wait for those that do not.
fn least_pods_differ(facts: &ObjectFacts<'_>) -> Vec<RuleHit> {
    let hits = facts.jobs.iter().filter_map(|job| {
        let least = job.least.as_ref()?;
        let pods = job.draft.pods() + least.others;
        let object = &facts.objects[least.object];
        let field = least.at.rsplit('/').next().unwrap_or_default().replace("~1", "/");
        (least.pods != 1 && least.pods != pods).then(|| {
            let says = format!("{}: {field} is {} of {pods} pods", object.title(), least.pods);
            (object.line(&least.at), says)
        })
    });
    hits.collect()
}

fn least_pods_missing(facts: &ObjectFacts<'_>) -> Vec<RuleHit> {
    let jobs = facts.jobs.iter().filter(|job| {
        let is_volcano = facts.objects[job.object].group() == "batch.volcano.sh";
        is_volcano && job.least.is_none() && job.draft.pods() > 1
    });
    jobs.map(|job| {
        let object = &facts.objects[job.object];
        (object.line("/spec"), format!("{}: {} pods", object.title(), job.draft.pods()))
    })
    .collect()
}

/// KAI takes the number from an annotation; PodGroups by hand are for pods without an owner.
fn kai_in_part(facts: &ObjectFacts<'_>) -> Vec<RuleHit> {
    let hits = facts.jobs.iter().filter_map(|job| {
        let object = &facts.objects[job.object];
        let scheduler = format!("{}/spec/schedulerName", job.templates[0]);
        let is_kai = object.peek_text(&scheduler) == Some(names::KAI_SCHEDULER);
        let is_read = matches!(object.kind(), "Job" | "JobSet");
        let annotation = child("/metadata/annotations", names::KAI_MIN_MEMBER);
        let pods = job.draft.pods();
        let is_gang = is_kai && is_read && pods > 1 && job.draft.service.is_none();
        (is_gang && object.get(&annotation).is_none()).then(|| {
            let says = format!("{}: {pods} pods, of which one is enough to start", object.title());
            (object.line("/metadata"), says)
        })
    });
    hits.collect()
}

fn several_jobs(facts: &ObjectFacts<'_>) -> Vec<RuleHit> {
    let hits = facts.jobs.iter().filter_map(|job| {
        let least = job.least.as_ref().filter(|least| least.others > 0 && job.mpi.is_none())?;
        let object = &facts.objects[least.object];
        let says = format!("{}: {} pods", object.title(), job.draft.pods() + least.others);
        Some((object.line("/spec"), says))
    });
    hits.collect()
}

/// Pods of a gang that start again alone: the collective calls of the others fail or hang.
fn half_restarts(facts: &ObjectFacts<'_>) -> Vec<RuleHit> {
    let hits = facts.roles().filter(|role| {
        // KubeRay replaces a node, and Ray goes on without it.
        let is_gang = role.job.draft.pods() > 1 && !role.job.is_own && role.job.ray.is_none();
        // A launcher that starts again starts all ranks again.
        is_gang && !(role.job.mpi.is_some() && role.group.name == "launcher")
    });
    hits.filter_map(|role| {
        let policy = role.object.peek_text(&format!("{}/spec/restartPolicy", role.at));
        if role.object.kind() == "LeaderWorkerSet" {
            let at = "/spec/leaderWorkerTemplate/restartPolicy";
            let policy =
                role.object.peek_text(at).filter(|policy| !policy.starts_with("Recreate"))?;
            return Some((
                role.object.line(at),
                format!("{}: restartPolicy: {policy}", role.title()),
            ));
        }
        if policy == Some("OnFailure") {
            return Some((
                role.line("restartPolicy"),
                format!("{}: restartPolicy: OnFailure", role.title()),
            ));
        }
        let spec = role.at.strip_suffix("/template")?;
        // Kubeflow has the policy beside the template.
        let beside = format!("{spec}/restartPolicy");
        if let Some(policy @ ("OnFailure" | "Always" | "ExitCode")) = role.object.peek_text(&beside)
        {
            let says = format!("{}: restartPolicy: {policy}", role.title());
            return Some((role.object.line(&beside), says));
        }
        for at in role.object.children("/spec/policies") {
            let action = format!("{at}/action");
            if let Some(part @ ("RestartTask" | "RestartPod")) = role.object.peek_text(&action) {
                let says = format!("{}: {part}", role.title());
                return Some((role.object.line(&action), says));
            }
        }
        let limit = format!("{spec}/backoffLimit");
        let is_job = role.object.kind() == "Job" && role.object.group() == "batch"
            || role.object.kind() == "JobSet";
        let says = match role.object.peek_number(&limit) {
            Some(0) => return None,
            Some(count) => format!("backoffLimit: {count}"),
            None => "no backoffLimit, which means 6".to_owned(),
        };
        is_job.then(|| (role.object.line(&limit), format!("{}: {says}", role.title())))
    })
    .collect()
}
