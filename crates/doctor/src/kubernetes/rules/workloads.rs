//! Rules on pods with GPUs: quotas and limits that are missing, and memory that is too small.

use std::collections::{BTreeMap, BTreeSet};

use muster_kubernetes::group::GangRef;
use muster_kubernetes::node::is_gpu;
use muster_kubernetes::{instant, names};
use muster_model::check::Severity::Medium;
use muster_model::{Span, Time};
use muster_slurm::conf::evidence::{MissingInput, needs_input};
use serde_json::Value;

use super::KubernetesRule;
use crate::kubernetes::resource::{DEPLOYMENTS, QUOTAS};
use crate::kubernetes::view::{ClusterView, Gang, PodView, count, has_mark_of_kueue, some_of};
use crate::rule::{DocPage, RuleFinding, RuleResult, fail_if_any};

/// Schedulers with queues of their own, into which a pod without a label comes as well.
pub(super) const WITH_QUEUES: [&str; 5] =
    [names::SCHEDULER, "volcano", "kai-scheduler", "yunikorn", "koord-scheduler"];

/// Labels and annotations that name a queue (documentation of KAI and Volcano), beside those of Muster
/// and Kueue.
const QUEUE_LABELS: [&str; 3] =
    [names::QUEUE, "kai.scheduler/queue", "scheduling.volcano.sh/queue-name"];

/// Longest time for which a notebook in use holds GPUs without a break.
const NOTEBOOK_AGE: Span = Span::from_secs(86_400);

pub(super) const RULES: &[KubernetesRule] = &[
    KubernetesRule {
        id: "gpus-without-quota",
        severity: Medium,
        title: "a namespace can use all GPUs",
        meaning: "nothing keeps its pods from taking every GPU of the cluster",
        cure: "`kubectl create quota gpus --hard=requests.nvidia.com/gpu=N -n NAMESPACE`, or a queue with a quota (Muster, Kueue, Volcano, KAI)",
        page: DocPage::Web("https://kubernetes.io/docs/concepts/policy/resource-quotas/"),
        check: without_quota,
    },
    KubernetesRule {
        id: "notebook-without-limit",
        severity: Medium,
        title: "a notebook holds GPUs without a limit",
        meaning: "it keeps them over nights and weekends, when nobody types",
        cure: "culling of idle notebooks (Kubeflow: ENABLE_CULLING=true of the notebook controller; JupyterHub: `cull.enabled`), or `activeDeadlineSeconds` in the pod",
        page: DocPage::Web(
            "https://z2jh.jupyter.org/en/stable/jupyterhub/customizing/user-management.html",
        ),
        check: notebook_without_limit,
    },
    KubernetesRule {
        id: "shared-memory-small",
        severity: Medium,
        title: "pods with several GPUs have 64 MB of shared memory",
        meaning: "the container runtime's default: NCCL and data loaders fail with `bus error` or `no space left on device`",
        cure: "a volume `emptyDir: {medium: Memory}`, mounted at /dev/shm",
        page: DocPage::Web("https://kubernetes.io/docs/concepts/storage/volumes/#emptydir"),
        check: shared_memory,
    },
];

/// Returns the namespaces with a quota on GPUs.
pub(super) fn with_quota<'a>(cluster: &ClusterView<'a>) -> Result<BTreeSet<&'a str>, MissingInput> {
    let limits_gpus = |quota: &&Value| {
        let hard = quota["spec"]["hard"].as_object();
        let mut keys = hard.into_iter().flatten().map(|(key, _)| key.as_str());
        keys.any(|key| key.strip_prefix("requests.").is_some_and(is_gpu))
    };
    let quotas = cluster.list(QUOTAS)?.iter().filter(limits_gpus);
    Ok(quotas.filter_map(|quota| quota["metadata"]["namespace"].as_str()).collect())
}

/// Returns true for an object, or a pod, that is in a queue.
pub(super) fn names_queue(object: &Value) -> bool {
    ["labels", "annotations"].iter().any(|map| {
        let map = object["metadata"][*map].as_object();
        let mut keys = map.into_iter().flatten().map(|(key, _)| key.as_str());
        keys.any(|key| QUEUE_LABELS.contains(&key))
    }) || has_mark_of_kueue(object)
}

fn without_quota(cluster: &ClusterView<'_>) -> RuleResult {
    let pods = cluster.gpu_pods()?;
    let limited = with_quota(cluster)?;
    let groups = cluster.groups()?;
    let queued: BTreeMap<&GangRef, bool> = groups
        .known
        .iter()
        .map(|gang| (&gang.reference, gang.object.is_some_and(names_queue)))
        .collect();
    let mut open: BTreeMap<&str, (u64, Vec<&str>)> = BTreeMap::new();
    for pod in &pods {
        let namespace = pod.namespace();
        let gang = pod.facts.gang.as_ref().and_then(|gang| queued.get(gang));
        let is_queued = names_queue(pod.object)
            || gang.is_some_and(|is_queued| *is_queued)
            || WITH_QUEUES.contains(&pod.scheduler);
        if !is_queued && !limited.contains(namespace) {
            let (gpus, names) = open.entry(namespace).or_default();
            *gpus += pod.gpus;
            names.push(&pod.facts.key.name);
        }
    }
    let finding = |(namespace, (gpus, pods)): (&str, (u64, Vec<&str>))| {
        let gpus = count(gpus, "GPU");
        let says = format!(
            "namespace {namespace} has no quota on GPUs; {gpus} are used by {}",
            some_of(&pods)
        );
        RuleFinding::about(namespace, says)
    };
    let findings = open.into_iter().map(finding).collect();
    fail_if_any(findings, format!("{} with GPUs", count(pods.len(), "pod")))
}

fn notebook_without_limit(cluster: &ClusterView<'_>) -> RuleResult {
    let pods = cluster.gpu_pods()?;
    let open = || {
        let without = pods.iter().filter(|pod| pod.facts.deadline_secs.is_none());
        without.filter(|pod| pod.facts.node.is_some())
    };
    let of_kubeflow = |pod: &&&&PodView<'_>| !pod.label("notebook-name").is_empty();
    let of_hub = |pod: &&&&PodView<'_>| pod.label("component") == "singleuser-server";
    let finding = |pod: &&&PodView<'_>, why: &str| {
        let name = pod.name();
        let says = format!("{name}: {}, {why}", count(pod.gpus, "GPU"));
        RuleFinding::about(name, says)
    };
    let mut findings = Vec::new();
    if open().any(|pod| of_kubeflow(&&pod)) && !culls(cluster)? {
        let kubeflow = open().filter(|pod| of_kubeflow(&pod));
        findings.extend(kubeflow.map(|pod| finding(&pod, "and idle notebooks are not culled")));
    }
    let is_old = |pod: &&&&PodView<'_>| {
        let created = instant::parse(&pod.facts.created).unwrap_or(cluster.now);
        age(created, cluster.now) > NOTEBOOK_AGE
    };
    let old = open().filter(|pod| of_hub(&pod) && is_old(&pod));
    findings.extend(old.map(|pod| finding(&pod, "for more than a day")));
    fail_if_any(findings, format!("{} with GPUs", count(pods.len(), "pod")))
}

fn age(since: Time, now: Time) -> Span {
    Span(now.0.saturating_sub(since.0))
}

/// Returns whether Kubeflow's notebook controller stops idle notebooks.
fn culls(cluster: &ClusterView<'_>) -> Result<bool, MissingInput> {
    let mut deployments = cluster.list(DEPLOYMENTS)?.iter();
    let is_it = |one: &&Value| one["metadata"]["name"] == "notebook-controller-deployment";
    let Some(controller) = deployments.find(is_it) else { return Ok(false) };
    let containers = controller["spec"]["template"]["spec"]["containers"].as_array();
    let mut variables = containers
        .into_iter()
        .flatten()
        .flat_map(|container| container["env"].as_array().into_iter().flatten());
    match variables.find(|one| one["name"] == "ENABLE_CULLING") {
        Some(one) if one["valueFrom"].is_object() => {
            needs_input("ENABLE_CULLING of the notebook controller, which a ConfigMap sets")
        }
        Some(one) => Ok(one["value"] == "true"),
        None => Ok(false),
    }
}

fn shared_memory(cluster: &ClusterView<'_>) -> RuleResult {
    let gangs = cluster.gangs()?;
    let pods = cluster.gpu_pods()?;
    let by_reference: BTreeMap<&GangRef, &Gang<'_>> =
        gangs.known.iter().map(|gang| (&gang.reference, gang)).collect();
    let mut small: BTreeMap<String, Vec<&PodView<'_>>> = BTreeMap::new();
    for pod in &pods {
        let gang = pod.facts.gang.as_ref().and_then(|reference| by_reference.get(reference));
        if (gang.is_none() && pod.gpus < 2) || has_shared_memory(pod.spec()) {
            continue;
        }
        let owner = &pod.object["metadata"]["ownerReferences"][0];
        let title = match (gang, owner["kind"].as_str()) {
            (Some(gang), _) => gang.title(),
            (None, Some(kind)) => {
                let name = owner["name"].as_str().unwrap_or_default();
                format!("{kind} {}/{name}", pod.namespace())
            }
            (None, None) => format!("Pod {}", pod.name()),
        };
        small.entry(title).or_default().push(pod);
    }
    let finding = |(title, pods): (String, Vec<&PodView<'_>>)| {
        let gpus = count(pods.iter().map(|pod| pod.gpus).sum::<u64>(), "GPU");
        let says = format!("{title}: {} with {gpus}", count(pods.len(), "pod"));
        RuleFinding::about(title, says)
    };
    let findings = small.into_iter().map(finding).collect();
    gangs.judge(findings, format!("{} with GPUs", count(pods.len(), "pod")))
}

/// Returns true if a pod has a volume at /dev/shm, or that of its node.
fn has_shared_memory(spec: &Value) -> bool {
    let containers = spec["containers"].as_array().into_iter().flatten();
    let mut mounts =
        containers.flat_map(|container| container["volumeMounts"].as_array().into_iter().flatten());
    spec["hostIPC"] == true || mounts.any(|mount| mount["mountPath"] == "/dev/shm")
}
