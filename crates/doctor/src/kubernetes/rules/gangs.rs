//! Rules on gangs: pods that work only together.

use muster_kubernetes::group::{APIS, GroupKind};
use muster_kubernetes::instant;
use muster_model::check::Severity::{High, Medium};
use muster_model::{Span, Time};
use serde_json::Value;

use super::KubernetesRule;
use crate::kubernetes::resource::Resource;
use crate::kubernetes::view::{
    ClusterView, DEFAULT_SCHEDULER, Gang, PodView, count, gpus_of_spec, name_of, size,
};
use crate::rule::{DocPage, RuleFinding, RuleResult, judge};

/// Time for which part of a gang may wait for the rest: images of tens of gigabytes are pulled after
/// binding, so that what keeps a pod from being bound for longer is no start-up.
const GRACE: Span = Span::from_secs(600);

/// Default of `backoffLimit` (API documentation of JobSpec).
const DEFAULT_BACKOFF: u64 = 6;

pub(super) const RULES: &[KubernetesRule] = &[
    KubernetesRule {
        id: "gang-on-default-scheduler",
        severity: High,
        title: "gangs are placed pod by pod",
        meaning: "each pod takes its GPUs as soon as it fits: two gangs that fit one after the other can hold parts of the cluster for ever, and neither runs",
        cure: "`schedulerName` of a gang scheduler in the pods, such as Muster, Volcano, KAI or coscheduling; or a queue of Kueue, which admits a gang as a whole",
        page: DocPage::Web(
            "https://kubernetes.io/docs/concepts/scheduling-eviction/gang-scheduling/",
        ),
        check: on_default_scheduler,
    },
    KubernetesRule {
        id: "gang-half-running",
        severity: High,
        title: "part of a gang holds GPUs and waits for the rest",
        meaning: "the pods that run hold their GPUs idle until the others start, which may never happen",
        cure: "suspend or delete its Job (or JobSet), which frees the GPUs; then submit it with `schedulerName` of a gang scheduler",
        page: DocPage::Web(
            "https://kubernetes.io/docs/concepts/scheduling-eviction/gang-scheduling/",
        ),
        check: half_running,
    },
    KubernetesRule {
        id: "gang-without-minimum",
        severity: Medium,
        title: "a gang does not say how many pods it needs",
        meaning: "the gang scheduler starts each of its pods alone, as if they were independent",
        cure: "`minMember` of the PodGroup (`minAvailable` of a Volcano Job): the number of pods without which none can work",
        page: DocPage::Web("https://volcano.sh/en/docs/podgroup/"),
        check: without_minimum,
    },
    KubernetesRule {
        id: "gang-crash-multiplies",
        severity: Medium,
        title: "one crash of a gang is counted and restarted pod by pod",
        meaning: "the other pods hang or crash after the first, each is a failure of its own: the job is given up after one incident, or its pods restart at different times and never meet",
        cure: "`restartPolicy: Never` and `backoffLimit: 0` in the Job, and restarts of the whole gang: `failurePolicy.maxRestarts` of a JobSet",
        page: DocPage::Web("https://jobset.sigs.k8s.io/docs/concepts/"),
        check: crash_multiplies,
    },
];

fn on_default_scheduler(cluster: &ClusterView<'_>) -> RuleResult {
    let gangs = cluster.gangs()?;
    let finding = |gang: &Gang<'_>| {
        let alone = gang.placed_one_by_one();
        // Of Ray clusters, `ray-not-a-gang` judges those without pods as well.
        if alone.is_empty() || gang.reference.kind == GroupKind::RayCluster {
            return None;
        }
        let gpus: u64 = alone.iter().map(|pod| pod.gpus).sum();
        let title = gang.title();
        let pods = count(alone.len(), "pod");
        let says =
            format!("{title}: {DEFAULT_SCHEDULER} places {pods} with {}", count(gpus, "GPU"));
        Some(RuleFinding::about(title, says))
    };
    let findings = gangs.known.iter().filter_map(finding).collect();
    gangs.judge(findings, format!("{} with GPUs", count(gangs.known.len(), "gang")))
}

fn half_running(cluster: &ClusterView<'_>) -> RuleResult {
    let gangs = cluster.gangs()?;
    let findings = gangs.known.iter().filter_map(|gang| half_of(gang, cluster.now)).collect();
    gangs.judge(findings, format!("{} with GPUs", count(gangs.known.len(), "gang")))
}

/// Returns the finding about a gang of which too few pods have a node, for longer than the grace.
fn half_of(gang: &Gang<'_>, now: Time) -> Option<RuleFinding> {
    let has_ended =
        |object: &Value| object["status"]["succeeded"].as_u64().is_some_and(|count| count > 0);
    let pods = gang.pods.iter().copied().filter(|pod| !pod.facts.is_terminating);
    let (bound, waiting): (Vec<&PodView<'_>>, Vec<&PodView<'_>>) =
        pods.partition(|pod| pod.facts.node.is_some());
    let is_half = !bound.is_empty() && !waiting.is_empty() && bound.len() < gang.needed as usize;
    if !is_half || gang.object.is_some_and(has_ended) {
        return None;
    }
    // The state lasts since its last change.
    let bindings = bound.iter().filter_map(|pod| pod.facts.bound_at.as_deref());
    let creations = waiting.iter().map(|pod| pod.facts.created.as_str());
    let since = bindings.chain(creations).filter_map(instant::parse).max()?;
    let lasts = Span(now.0.saturating_sub(since.0));
    let gpus: u64 = bound.iter().map(|pod| pod.gpus).sum();
    if lasts < GRACE || gpus == 0 {
        return None;
    }
    let title = gang.title();
    let says = format!(
        "{title}: {} of {} pods hold {}, for {} min without the others",
        bound.len(),
        gang.needed,
        count(gpus, "GPU"),
        lasts.0 / 60_000
    );
    Some(RuleFinding::about(title, says))
}

fn without_minimum(cluster: &ClusterView<'_>) -> RuleResult {
    let kinds = [GroupKind::Coscheduling, GroupKind::Volcano, GroupKind::Kai];
    let groups = cluster.groups()?;
    // Schedulers make PodGroups of independent pods, too.
    let of_kind = || {
        let known = groups.known.iter().filter(|gang| kinds.contains(&gang.reference.kind));
        known.filter(|gang| !gang.pods.iter().all(|pod| is_independent(pod)))
    };
    let finding = |gang: &Gang<'_>| {
        let pods = gang.pods.iter().filter(|pod| pod.gpus > 0).count();
        let title = gang.title();
        let says = match gang.object {
            None => format!("{title} does not exist; pods with GPUs that name it: {pods}"),
            Some(_) if gang.needed <= 1 && pods > 1 => {
                format!("{title}: {pods} pods with GPUs, and its minimum is 1")
            }
            Some(_) => return None,
        };
        Some(RuleFinding::about(title, says))
    };
    let findings = of_kind().filter_map(finding).collect();
    groups.judge(findings, count(of_kind().count(), "PodGroup"))
}

/// Returns true for a pod whose controller replaces it without regard to the others: that of a
/// Deployment, or of a Job that has no indices.
fn is_independent(pod: &PodView<'_>) -> bool {
    let owners = pod.object["metadata"]["ownerReferences"].as_array().into_iter().flatten();
    let mut controllers = owners.filter(|owner| owner["controller"] == true);
    controllers.any(|owner| {
        owner["kind"] == "ReplicaSet"
            || (owner["kind"] == "Job" && pod.facts.index.is_none())
                && owner["apiVersion"].as_str().is_some_and(|text| text.starts_with("batch/"))
    })
}

fn crash_multiplies(cluster: &ClusterView<'_>) -> RuleResult {
    let mut findings = Vec::new();
    let mut missing = None;
    let mut gangs = 0;
    for api in APIS.iter().filter(|api| matches!(api.kind, GroupKind::Job | GroupKind::JobSet)) {
        let objects = cluster.list(Resource::of_group(api));
        missing = missing.or(objects.as_ref().err().cloned());
        for object in objects.unwrap_or_default() {
            let owner = &object["metadata"]["ownerReferences"][0];
            let has_owner = owner.is_object() && owner["kind"] != "CronJob";
            let templates = templates(api.kind, object);
            let has_gpus = templates.iter().any(|job| gpus_of_spec(&job["template"]["spec"]) > 0);
            if has_owner || has_ended(object) || !has_gpus || size(api.kind, object) <= 1 {
                continue;
            }
            gangs += 1;
            let name = name_of(object);
            let defects: Vec<String> = templates.iter().filter_map(|job| defect(job)).collect();
            if let Some(first) = defects.first() {
                let title = format!("{} {name}", api.name);
                findings.push(RuleFinding::about(title.clone(), format!("{title}: {first}")));
            }
        }
    }
    judge(findings, missing, format!("Jobs and JobSets that are gangs with GPUs: {gangs}"))
}

/// Returns the specifications of the Jobs of a Job or JobSet.
fn templates(kind: GroupKind, object: &Value) -> Vec<&Value> {
    if kind == GroupKind::Job {
        return vec![&object["spec"]];
    }
    let jobs = object["spec"]["replicatedJobs"].as_array();
    jobs.into_iter().flatten().map(|job| &job["template"]["spec"]).collect()
}

/// Returns how a Job restarts pods of a gang one by one.
fn defect(job: &Value) -> Option<String> {
    // Its indices are independent.
    if job["backoffLimitPerIndex"].is_u64() {
        return None;
    }
    if job["template"]["spec"]["restartPolicy"] == "OnFailure" {
        return Some("restartPolicy is OnFailure".to_owned());
    }
    let limit = job["backoffLimit"].as_u64();
    let mut rules = job["podFailurePolicy"]["rules"].as_array().into_iter().flatten();
    let is_handled = rules.any(|rule| rule["action"] == "FailJob");
    match limit {
        Some(0) => None,
        _ if is_handled => None,
        Some(limit) => Some(format!("backoffLimit is {limit}")),
        None => Some(format!("backoffLimit is {DEFAULT_BACKOFF}, the default")),
    }
}

/// Returns true for an object that has ended.
fn has_ended(object: &Value) -> bool {
    let conditions = object["status"]["conditions"].as_array().into_iter().flatten();
    let ends = ["Complete", "Completed", "Failed"];
    conditions
        .filter(|one| one["status"] == "True")
        .any(|one| one["type"].as_str().is_some_and(|kind| ends.contains(&kind)))
}
