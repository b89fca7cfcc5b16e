//! Rules on how the pods of a Ray cluster start, and on who reaches it.

use muster_model::check::Severity::High;
use muster_slurm::conf::evidence::MissingInput;
use serde_json::Value;

use super::super::{GANG_SCHEDULERS, KubernetesRule};
use crate::kubernetes::ray::{PORTS, RayObject};
use crate::kubernetes::resource::{DEPLOYMENTS, SERVICES};
use crate::kubernetes::view::{ClusterView, count, has_mark_of_kueue, name_of};
use crate::rule::{DocPage, RuleFinding, RuleResult, fail_if_any, judge};

/// Labels of a cluster by which KubeRay makes a gang of its pods (KubeRay 1.6).
const GANG_LABELS: [&str; 2] = ["ray.io/gang-scheduling-enabled", "kai.scheduler/queue"];

/// Options with which KubeRay's operator makes a gang of every cluster.
const GANG_OPTIONS: [&str; 2] = ["--batch-scheduler", "--enable-batch-scheduler"];

/// Label of the pods of a cluster, which Services select.
const CLUSTER_LABEL: &str = "ray.io/cluster";

pub(super) const RULES: &[KubernetesRule] = &[
    KubernetesRule {
        id: "ray-not-a-gang",
        severity: High,
        title: "the pods of a Ray cluster start one by one",
        meaning: "two clusters that fit one after the other can each hold a part of the GPUs for ever, or workers hold GPUs without a head",
        cure: "KubeRay's operator with `--batch-scheduler`, the cluster in a queue of Kueue, or `schedulerName` of a gang scheduler in its pods",
        page: DocPage::Web(
            "https://docs.ray.io/en/latest/cluster/kubernetes/k8s-ecosystem/volcano.html",
        ),
        check: not_a_gang,
    },
    KubernetesRule {
        id: "ray-exposed",
        severity: High,
        title: "a Ray cluster runs programs for everybody who reaches a node",
        meaning: "every host that reaches a node of Kubernetes, or the load balancer, can run code in the pods of the cluster",
        cure: "a Service of type ClusterIP and `kubectl port-forward`, or `authOptions.mode: token` in the cluster",
        page: DocPage::Web("https://docs.ray.io/en/latest/ray-security/index.html"),
        check: exposed,
    },
];

fn not_a_gang(cluster: &ClusterView<'_>) -> RuleResult {
    let rays = RayObject::all(cluster)?;
    let pods_with_gpus = |ray: &RayObject<'_>| -> u64 {
        ray.groups().iter().filter(|group| group.gpus() > 0).map(|group| group.pods).sum()
    };
    let is_alone = |ray: &&RayObject<'_>| pods_with_gpus(ray) > 1 && !is_gang(ray);
    let alone: Vec<&RayObject<'_>> = rays.iter().filter(is_alone).collect();
    let pass = count(rays.len(), "Ray cluster");
    if alone.is_empty() || operator_makes_gangs(cluster)? {
        return fail_if_any(Vec::new(), pass);
    }
    let finding = |ray: &RayObject<'_>| {
        let title = ray.title();
        let pods = count(pods_with_gpus(ray), "pod");
        let says = format!("{title}: {pods} with {}, of no gang", count(ray.gpus(), "GPU"));
        RuleFinding::about(title, says)
    };
    fail_if_any(alone.into_iter().map(finding).collect(), pass)
}

/// Returns true if an object itself says that its pods start together.
fn is_gang(ray: &RayObject<'_>) -> bool {
    let labels = &ray.object["metadata"]["labels"];
    let is_of_gang_scheduler = |spec: &Value| {
        let named = spec["schedulerName"].as_str().unwrap_or_default();
        GANG_SCHEDULERS.iter().any(|(name, _)| *name == named)
    };
    has_mark_of_kueue(ray.object)
        || GANG_LABELS.iter().any(|label| labels[*label].is_string())
        || ray.groups().iter().any(|group| is_of_gang_scheduler(group.spec()))
}

/// Returns true if KubeRay's operator makes a gang of every cluster.
fn operator_makes_gangs(cluster: &ClusterView<'_>) -> Result<bool, MissingInput> {
    let needed = |missing: MissingInput| {
        MissingInput(format!("{}, for the options of KubeRay's operator", missing.0))
    };
    let deployments = cluster.list(DEPLOYMENTS).map_err(needed)?;
    let containers = deployments.iter().flat_map(|one| {
        one["spec"]["template"]["spec"]["containers"].as_array().into_iter().flatten()
    });
    let words = |container: &Value| -> Vec<String> {
        let lists = [&container["command"], &container["args"]];
        let words = lists.iter().filter_map(|list| list.as_array()).flatten();
        words.filter_map(|word| word.as_str().map(str::to_owned)).collect()
    };
    let is_operator = |container: &&Value| {
        container["image"].as_str().is_some_and(|image| image.contains("kuberay/operator"))
            || container["name"] == "kuberay-operator"
    };
    let mut operators = containers.filter(is_operator).peekable();
    if operators.peek().is_none() {
        return Err(MissingInput(
            "the Deployment of KubeRay's operator, for its options".to_owned(),
        ));
    }
    Ok(operators.flat_map(words).any(|word| {
        GANG_OPTIONS.iter().any(|option| word.starts_with(option) && !word.ends_with("=false"))
    }))
}

fn exposed(cluster: &ClusterView<'_>) -> RuleResult {
    let rays = RayObject::all(cluster)?;
    let has_token = |ray: &RayObject<'_>| ray.cluster["authOptions"]["mode"] == "token";
    let mut findings = Vec::new();
    for ray in rays.iter().filter(|ray| !has_token(ray)) {
        let kind = ray.cluster["headGroupSpec"]["serviceType"].as_str().unwrap_or_default();
        if is_outside(kind) {
            let title = ray.title();
            let says = format!("{title}: the Service of its head is a {kind}");
            findings.push(RuleFinding::about(title, says));
        }
    }
    let services = cluster.list(SERVICES);
    for service in services.as_deref().unwrap_or_default() {
        let spec = &service["spec"];
        let kind = spec["type"].as_str().unwrap_or_default();
        let selects = spec["selector"][CLUSTER_LABEL].as_str();
        let is_of_ray = selects.is_some()
            || spec["selector"]["ray.io/node-type"].is_string()
            || spec["selector"]["app.kubernetes.io/name"] == "kuberay";
        // KubeRay made it, as the cluster says, or its cluster asks for a token.
        let is_known = rays.iter().any(|ray| {
            selects.is_some_and(|name| ray.cluster_names.contains(&name))
                && (has_token(ray)
                    || is_outside(
                        ray.cluster["headGroupSpec"]["serviceType"].as_str().unwrap_or_default(),
                    ))
        });
        let open = open_ports(spec);
        if is_outside(kind) && is_of_ray && !is_known && !open.is_empty() {
            let title = format!("Service {}", name_of(service));
            let says = format!("{title}: a {kind} of {}", open.join(", "));
            findings.push(RuleFinding::about(title, says));
        }
    }
    judge(findings, services.err(), count(rays.len(), "Ray cluster"))
}

fn is_outside(kind: &str) -> bool {
    ["NodePort", "LoadBalancer"].contains(&kind)
}

/// Returns the servers of Ray behind the ports of a Service.
fn open_ports(spec: &Value) -> Vec<String> {
    let ports = spec["ports"].as_array().into_iter().flatten();
    let server = |port: &Value| {
        let number = port["targetPort"].as_u64().or_else(|| port["port"].as_u64())?;
        let (_, what) = PORTS.iter().find(|(of_ray, _)| *of_ray == number)?;
        Some(format!("{what} ({number})"))
    };
    ports.filter_map(server).collect()
}
