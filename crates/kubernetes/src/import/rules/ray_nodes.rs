//! Rules on the pods of KubeRay: whether a node of Ray offers what its container has, and whether all have one
//! version of Ray and demand a secret.

use muster_document::child;
use muster_model::check::Severity;

use super::super::finding::{ObjectFacts, ObjectRule, RuleHit};
use super::super::found::RayGroup;
use super::ray::{Cluster, clusters};
use crate::node::is_gpu;
use crate::quantity;
use crate::render::version_of_image;

pub(in super::super) const RULES: &[ObjectRule] = &[
    ObjectRule {
        id: "ray-gpus-differ",
        severity: Severity::High,
        title: "a Ray node offers another number of GPUs than its container has",
        cure: "remove `num-gpus` from `rayStartParams`: KubeRay takes the number from the container's limits",
        find: gpus_differ,
    },
    ObjectRule {
        id: "ray-offers-more-memory",
        severity: Severity::High,
        title: "a Ray node offers more memory than its container may use",
        cure: "make `memory` and `object-store-memory` of `rayStartParams` no more than the container's limit together: past that the kernel kills the node",
        find: more_memory,
    },
    ObjectRule {
        id: "ray-offers-the-machine",
        severity: Severity::Medium,
        title: "a Ray node offers all CPUs or all memory of its machine",
        cure: "request CPUs, and limit memory: without them Ray counts what the machine has",
        find: offers_the_machine,
    },
    ObjectRule {
        id: "ray-version-differs",
        severity: Severity::High,
        title: "the nodes of a Ray cluster have different versions of Ray",
        cure: "write one image for head and workers, and its version as `rayVersion`: nodes of another version, also of Python, cannot join",
        find: versions,
    },
    ObjectRule {
        id: "ray-without-token",
        severity: Severity::Medium,
        title: "whoever reaches the head of the Ray cluster can run programs on it",
        cure: "write `authOptions: {mode: token}` and `rayVersion`, which must be 2.52 or later",
        find: without_token,
    },
    ObjectRule {
        id: "ray-token-rejected",
        severity: Severity::High,
        title: "KubeRay rejects a secret for this version of Ray",
        cure: "write `rayVersion`: 2.52 or later",
        find: rejected_token,
    },
    ObjectRule {
        id: "ray-restart-rejected",
        severity: Severity::High,
        title: "KubeRay rejects the restart policy of the pods",
        cure: "write `restartPolicy: Never`, or leave it out",
        find: restart_policy,
    },
];

/// Returns what a function finds in head and groups of workers.
fn in_nodes(
    facts: &ObjectFacts<'_>,
    find: impl Fn(&Cluster<'_>, &Node) -> Option<RuleHit>,
) -> Vec<RuleHit> {
    let hits = clusters(facts).flat_map(|cluster| {
        let groups = cluster.job.ray.iter().flat_map(|ray| &ray.groups);
        groups.filter_map(|group| find(&cluster, &Node::of(&cluster, group))).collect::<Vec<_>>()
    });
    hits.collect()
}

/// Pods of a group, each a node of Ray.
struct Node {
    at: String,
    title: String,
    limits: Vec<(String, String)>,
    requests: Vec<(String, String)>,
}

impl Node {
    fn of(cluster: &Cluster<'_>, group: &RayGroup) -> Self {
        let resources = format!("{}/template/spec/containers/0/resources", group.at);
        let amounts = |part: &str| cluster.object.texts(&format!("{resources}/{part}"));
        Self {
            at: group.at.clone(),
            title: format!("{}, {}", cluster.object.title(), group.name),
            limits: amounts("limits"),
            requests: amounts("requests"),
        }
    }

    fn image<'a>(&self, cluster: &Cluster<'a>) -> &'a str {
        cluster
            .object
            .peek_text(&format!("{}/template/spec/containers/0/image", self.at))
            .unwrap_or("")
    }

    fn param(&self, cluster: &Cluster<'_>, name: &str) -> Option<u64> {
        let at = child(&format!("{}/rayStartParams", self.at), name);
        cluster.object.peek_text(&at)?.trim().parse().ok()
    }

    fn has_param(&self, cluster: &Cluster<'_>, name: &str) -> bool {
        cluster.object.get(&child(&format!("{}/rayStartParams", self.at), name)).is_some()
    }

    fn limit(&self, is_it: impl Fn(&str) -> bool) -> Option<&str> {
        self.limits.iter().find(|(name, _)| is_it(name)).map(|(_, amount)| amount.as_str())
    }

    fn hit(&self, cluster: &Cluster<'_>, field: &str, says: &str) -> RuleHit {
        (cluster.object.line(&format!("{}/{field}", self.at)), format!("{}: {says}", self.title))
    }
}

fn gpus_differ(facts: &ObjectFacts<'_>) -> Vec<RuleHit> {
    in_nodes(facts, |cluster, node| {
        let offered = node.param(cluster, "num-gpus")?;
        let has = node.limit(is_gpu).and_then(quantity::whole).unwrap_or(0);
        let says = format!("num-gpus is {offered}, the container has {has}");
        (offered != has).then(|| node.hit(cluster, "rayStartParams/num-gpus", &says))
    })
}

fn more_memory(facts: &ObjectFacts<'_>) -> Vec<RuleHit> {
    in_nodes(facts, |cluster, node| {
        let limit = node.limit(|name| name == "memory").and_then(quantity::whole)?;
        // Without one, KubeRay passes the whole limit; without the other, Ray takes it of what the container has.
        let memory = node.param(cluster, "memory").unwrap_or(0);
        let store = node.param(cluster, "object-store-memory").unwrap_or(0);
        let offered = memory.saturating_add(store);
        let says = format!("{offered} bytes, the limit is {limit}");
        (offered > limit).then(|| node.hit(cluster, "rayStartParams", &says))
    })
}

fn offers_the_machine(facts: &ObjectFacts<'_>) -> Vec<RuleHit> {
    in_nodes(facts, |cluster, node| {
        let is_named = |amounts: &[(String, String)], name: &str| {
            amounts.iter().any(|(known, _)| known == name)
        };
        let has_cpus = is_named(&node.limits, "cpu")
            || is_named(&node.requests, "cpu")
            || node.has_param(cluster, "num-cpus");
        let has_memory = is_named(&node.limits, "memory") || node.has_param(cluster, "memory");
        let says = match (has_cpus, has_memory) {
            (true, true) => return None,
            (false, true) => "no number of CPUs",
            (true, false) => "no limit of memory",
            (false, false) => "no number of CPUs, no limit of memory",
        };
        Some(node.hit(cluster, "template/spec/containers/0", says))
    })
}

fn versions(facts: &ObjectFacts<'_>) -> Vec<RuleHit> {
    let hits = clusters(facts).flat_map(|cluster| {
        let named = cluster.object.peek_text(&format!("{}/rayVersion", cluster.at));
        let groups = cluster.job.ray.iter().flat_map(|ray| &ray.groups);
        let nodes: Vec<Node> = groups.map(|group| Node::of(&cluster, group)).collect();
        let head = nodes.first().map_or("", |node| node.image(&cluster));
        let differs = nodes.iter().filter_map(|node| {
            let image = node.image(&cluster);
            let version = version_of_image(image);
            let says = match (named, &version) {
                (Some(named), Some(version)) if named != version => {
                    format!("{image}, rayVersion is {named}")
                }
                _ if image != head => format!("{image}, that of the head is {head}"),
                _ => return None,
            };
            Some(node.hit(&cluster, "template/spec/containers/0/image", &says))
        });
        differs.collect::<Vec<_>>()
    });
    hits.collect()
}

/// Returns true if the specification asks for a secret.
fn has_token(cluster: &Cluster<'_>) -> bool {
    cluster.object.peek_text(&format!("{}/authOptions/mode", cluster.at)) == Some("token")
}

fn without_token(facts: &ObjectFacts<'_>) -> Vec<RuleHit> {
    let open = clusters(facts).filter(|cluster| !has_token(cluster));
    open.map(|cluster| (cluster.object.line(cluster.at), cluster.object.title())).collect()
}

fn rejected_token(facts: &ObjectFacts<'_>) -> Vec<RuleHit> {
    let hits = clusters(facts).filter(has_token).filter_map(|cluster| {
        let at = format!("{}/rayVersion", cluster.at);
        let version = cluster.object.peek_text(&at);
        let is_old = version.is_none_or(|version| !crate::render::has_token(version));
        let says = version.unwrap_or("no rayVersion");
        let line = cluster.object.line(&format!("{}/authOptions", cluster.at));
        is_old.then(|| (line, format!("{}: {says}", cluster.object.title())))
    });
    hits.collect()
}

/// The autoscaler of version 2 replaces pods itself, and a program in the head's pod must not start twice.
fn restart_policy(facts: &ObjectFacts<'_>) -> Vec<RuleHit> {
    in_nodes(facts, |cluster, node| {
        let object = cluster.object;
        let scaler = format!("{}/autoscalerOptions/version", cluster.at);
        let is_v2 = cluster.scales() && object.peek_text(&scaler) == Some("v2");
        let is_head = node.at.ends_with("/headGroupSpec");
        let is_sidecar = is_head && object.peek_text("/spec/submissionMode") == Some("SidecarMode");
        let at = format!("{}/template/spec/restartPolicy", node.at);
        let policy = object.peek_text(&at).filter(|policy| *policy != "Never")?;
        let says = format!("restartPolicy: {policy}");
        (is_v2 || is_sidecar).then(|| node.hit(cluster, "template/spec/restartPolicy", &says))
    })
}
