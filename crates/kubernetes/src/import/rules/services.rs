//! Rules on services: replicas that are no gang, autoscalers, and the GPUs over which a model is split.

use muster_model::check::Severity;
use serde_json::Value;

use super::super::finding::{ObjectFacts, ObjectRule, RuleHit};
use super::super::launch::launcher;
use super::super::object::ImportedObject;
use super::super::services::target;

pub(in super::super) const RULES: &[ObjectRule] = &[
    ObjectRule {
        id: "gang-in-replicas",
        severity: Severity::High,
        title: "replicas that wait for each other start and restart one by one",
        cure: "write a Job with `completionMode: Indexed`, a JobSet, or for a server a LeaderWorkerSet: its replicas are gangs",
        find: gangs,
    },
    ObjectRule {
        id: "model-parallel-differs",
        severity: Severity::High,
        title: "a model is split over another number of GPUs than a replica has",
        cure: "make them the same: tensor parallel × pipeline parallel, and pods of a replica × GPUs of a pod",
        find: model_parallel,
    },
    ObjectRule {
        id: "autoscaler-bounds",
        severity: Severity::High,
        title: "an autoscaler has more replicas at least than at most",
        cure: "write `minReplicas` below `maxReplicas`: the API server rejects it as it is",
        find: bounds,
    },
    ObjectRule {
        id: "autoscaler-without-effect",
        severity: Severity::Medium,
        title: "an autoscaler cannot change the number of replicas",
        cure: "write `maxReplicas` above `minReplicas`, name a Deployment, StatefulSet or LeaderWorkerSet, and request the resource whose utilization is measured",
        find: without_effect,
    },
    ObjectRule {
        id: "autoscaler-and-replicas",
        severity: Severity::Medium,
        title: "the number of replicas is fixed, and an autoscaler changes it",
        cure: "remove `replicas`: each `kubectl apply` sets it back, and stops replicas at work",
        find: fixed,
    },
];

/// Launchers that wait for other pods, in objects that start pods independently of each other.
fn gangs(facts: &ObjectFacts<'_>) -> Vec<RuleHit> {
    let hits = facts.roles().filter_map(|role| {
        let nodes = launcher(&role.group.task.run)?.nodes().filter(|nodes| *nodes > 1)?;
        let is_independent = matches!(role.object.kind(), "Deployment" | "StatefulSet");
        is_independent.then(|| {
            let says = format!("{}: its launcher waits for {nodes} pods", role.title());
            (role.line("containers/0"), says)
        })
    });
    hits.collect()
}

/// Compares the parts of a model with the GPUs of a replica, or of a gang.
fn model_parallel(facts: &ObjectFacts<'_>) -> Vec<RuleHit> {
    let hits = facts.roles().filter_map(|role| {
        let server = launcher(&role.group.task.run)?;
        let parts = server.model_parts()?;
        let gpus = role.job.draft.gpus();
        let has_copies = server.has("data-parallel-size") || server.has("dp-size");
        let differs = parts > gpus || parts < gpus && !has_copies;
        (gpus > 0 && differs).then(|| {
            let says = format!(
                "{}: {} splits the model into {parts} parts, a replica has {gpus} GPUs",
                role.title(),
                server.name
            );
            (role.line("containers/0/command"), says)
        })
    });
    hits.collect()
}

fn autoscalers<'a>(
    facts: &'a ObjectFacts<'_>,
) -> impl Iterator<Item = (&'a ImportedObject, Option<usize>)> {
    let is_scaler = |object: &&ImportedObject| object.kind() == "HorizontalPodAutoscaler";
    let scalers = facts.objects.iter().filter(is_scaler);
    scalers.map(|scaler| (scaler, target(scaler, facts.objects, facts.jobs)))
}

/// Returns the bounds of an autoscaler.
fn range(scaler: &ImportedObject) -> (u64, u64) {
    let number = |field: &str| scaler.peek_number(&format!("/spec/{field}")).unwrap_or(1);
    (number("minReplicas"), number("maxReplicas"))
}

fn bounds(facts: &ObjectFacts<'_>) -> Vec<RuleHit> {
    let hits = autoscalers(facts).filter_map(|(scaler, _)| {
        let (least, most) = range(scaler);
        let says = format!("{}: at least {least}, at most {most}", scaler.title());
        (least > most).then(|| (scaler.line("/spec/minReplicas"), says))
    });
    hits.collect()
}

fn without_effect(facts: &ObjectFacts<'_>) -> Vec<RuleHit> {
    let hits = autoscalers(facts).filter_map(|(scaler, target)| {
        let (least, most) = range(scaler);
        let title = scaler.title();
        if least == most {
            let says = format!("{title}: at least {least}, at most {most}");
            return Some((scaler.line("/spec/maxReplicas"), says));
        }
        let job = &facts.jobs[target?];
        let object = &facts.objects[job.object];
        let kind = object.kind();
        if !matches!(kind, "Deployment" | "StatefulSet" | "LeaderWorkerSet") {
            let says = format!("{title}: a {kind} has a fixed size");
            return Some((scaler.line("/spec/scaleTargetRef"), says));
        }
        let resource = unrequested(scaler, object, &job.templates[0])?;
        let says = format!("{title}: no {resource} is requested, of which it measures a share");
        Some((scaler.line("/spec/metrics"), says))
    });
    hits.collect()
}

/// Returns the resource of which an autoscaler measures the utilization, and the pods request none. A limit
/// alone is a request of the same amount.
fn unrequested<'a>(
    scaler: &'a ImportedObject,
    object: &ImportedObject,
    template: &str,
) -> Option<&'a str> {
    let resources = format!("{template}/spec/containers/0/resources");
    let metrics = scaler.get("/spec/metrics").and_then(Value::as_array)?;
    metrics.iter().find_map(|metric| {
        let resource = &metric["resource"];
        let name = resource["name"].as_str()?;
        let is_share = resource["target"]["type"] == "Utilization";
        let is_requested = ["requests", "limits"]
            .iter()
            .any(|part| object.get(&format!("{resources}/{part}/{name}")).is_some());
        (is_share && !is_requested).then_some(name)
    })
}

fn fixed(facts: &ObjectFacts<'_>) -> Vec<RuleHit> {
    let hits = autoscalers(facts).filter_map(|(scaler, target)| {
        let job = &facts.jobs[target?];
        let object = &facts.objects[job.object];
        let replicas = object.peek_number("/spec/replicas")?;
        // The API server writes the number into what it returns.
        let is_live = object.get("/metadata/uid").is_some();
        (!job.is_own && !is_live).then(|| {
            let says = format!("{}: replicas: {replicas}, and {}", object.title(), scaler.title());
            (object.line("/spec/replicas"), says)
        })
    });
    hits.collect()
}
