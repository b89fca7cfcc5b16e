//! Pods as a job of the engine.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use muster_kubernetes::gpu_share;
use muster_kubernetes::names::{self, PODS};
use muster_kubernetes::node::is_gpu;
use muster_kubernetes::pod::{PodFacts, Wishes};
use muster_kubernetes::rule::NodeRule;
use muster_kubernetes::span;
use muster_model::job::{GpuRequest, Resources};
use muster_model::{
    Bytes, CpuMilli, GpuMilli, JobSpec, NodeConstraint, Span, TaskGroup, Time, Topology,
    TopologyRule,
};

use crate::apart::Apart;
use crate::assignment::Assignment;
use crate::nodes::{NodeTable, Take};
use crate::rules::{RuleId, YES};

/// Beginning of the names of host ports, of which every node has one.
pub(crate) const PORT: &str = "port/";

/// Shape of a pod: pods of one shape are tasks of one group.
type Shape = (Take, NodeRule);

/// Terms of a job that its pods and its gang object give together.
pub(crate) struct Terms {
    /// Name that users know the gang by.
    pub(crate) name: Arc<str>,
    /// Terms that labels and annotations name.
    pub(crate) wishes: Wishes,
    /// Run time after which a controller ends the pods.
    pub(crate) deadline_secs: Option<u64>,
    /// Earliest start; `None` means at once.
    pub(crate) begin: Option<Time>,
}

/// Returns the resources that a pod takes on its node.
pub(crate) fn take(pod: &PodFacts, apart: &Apart) -> Take {
    let ports = pod.host_ports.iter().map(|port| Arc::from(format!("{PORT}{port}")));
    Take {
        requests: pod.requests.clone(),
        singles: ports.collect(),
        apart: apart.units_of(pod),
        gpu_share: pod.gpu_share.map_or(0, |asked| asked.share.0),
    }
}

/// Makes a job of pods, each with its rule for nodes. Returns the job, and the rank of each pod as
/// indices into `pods`.
///
/// # Errors
/// Why no job can be made of them, for users.
pub(crate) fn of_pods(
    nodes: &mut NodeTable,
    assignment: &Assignment,
    terms: &Terms,
    apart: &Apart,
    pods: &[(&PodFacts, NodeRule)],
) -> Result<(JobSpec, Vec<usize>), String> {
    // 1. Pods by shape; each shape is a group of tasks.
    let mut shapes: BTreeMap<Shape, Vec<usize>> = BTreeMap::new();
    for (at, (pod, rule)) in pods.iter().enumerate() {
        shapes.entry((take(pod, apart), rule.clone())).or_default().push(at);
    }
    let rules: BTreeSet<&NodeRule> = shapes.keys().map(|(_, rule)| rule).collect();
    let has_one_rule = rules.len() == 1;
    let roles: Vec<Option<&str>> =
        shapes.values().map(|members| members.first().and_then(|at| role(pods[*at].0))).collect();
    let mut groups = Vec::new();
    let mut constraint = NodeConstraint::default();
    for ((take, rule), members) in &shapes {
        let rule = nodes.rule(rule);
        nodes.add_singles(&take.singles);
        nodes.add_apart_keys(take.apart.keys());
        let mut task = resources(nodes, assignment, rule, take)?;
        if has_one_rule {
            constraint.labels.insert(rule.key(), YES.into());
        } else {
            nodes.use_rule_per_group(rule);
            task.extras.insert(rule.key(), 1);
        }
        groups.push(TaskGroup::of(group_name(&roles, groups.len()), members.len() as u32, task));
    }

    // 2. Terms of the whole.
    let facts = || pods.iter().map(|(pod, _)| *pod);
    let first = facts().next().ok_or("there are no pods")?;
    let mut spec = JobSpec::plain(Arc::clone(&terms.name), &*first.key.namespace, groups);
    spec.queue = assignment.queue.clone();
    spec.priority = facts().map(|pod| pod.priority).max().unwrap_or_default();
    spec.preempts = facts().all(|pod| pod.preempts);
    spec.grace = Span::from_secs(facts().map(|pod| pod.grace_secs).max().unwrap_or_default());
    spec.time_limit = time_limit(terms, facts())?;
    spec.begin = terms.begin;
    constraint.topology = topology(nodes, assignment.topology(&terms.wishes)?)?;
    constraint.advance_reservation = terms.wishes.reservation.as_deref().map(Into::into);
    spec.constraint = constraint;
    Ok((spec, shapes.into_values().flatten().collect()))
}

/// Returns the role that a controller labels a pod with.
fn role(pod: &PodFacts) -> Option<&str> {
    names::ROLE_LABELS.iter().find_map(|label| pod.labels.get(*label)).map(String::as_str)
}

/// Returns the name of a group, given the roles of all: its role, unless another group has the same one.
fn group_name(roles: &[Option<&str>], at: usize) -> String {
    if roles.len() == 1 {
        return "main".to_owned();
    }
    let alike = roles.iter().filter(|role| **role == roles[at]).count();
    match roles[at].filter(|_| alike == 1) {
        Some(role) => role.to_owned(),
        None => format!("group-{at}"),
    }
}

fn resources(
    nodes: &NodeTable,
    assignment: &Assignment,
    rule: RuleId,
    take: &Take,
) -> Result<Resources, String> {
    let mut task = Resources::default();
    for (name, units) in &take.requests.0 {
        if !nodes.offers(name) {
            return Err(format!("no node has the resource {name}"));
        }
        match &**name {
            "cpu" => {
                task.cpus = CpuMilli(
                    u32::try_from(*units)
                        .map_err(|_| format!("{units} thousandths of a CPU are too many"))?,
                );
            }
            "memory" => task.memory = Bytes(*units),
            name if is_gpu(name) && task.gpu.is_none() => {
                let devices =
                    u32::try_from(*units).map_err(|_| format!("{units} of {name} are too many"))?;
                let models = assignment.models(name, nodes.models(rule, name))?;
                task.gpu = GpuRequest { models, ..GpuRequest::whole(devices) };
            }
            name if is_gpu(name) => {
                return Err(format!(
                    "a pod with two kinds of GPUs ({name} and another) is not supported"
                ));
            }
            _ => drop(task.extras.insert(Arc::clone(name), *units)),
        }
    }
    if take.gpu_share > 0 {
        if !nodes.offers(gpu_share::RESOURCE) {
            return Err(format!("no node has the resource {}", gpu_share::RESOURCE));
        }
        let models = nodes.models(rule, gpu_share::RESOURCE);
        let models = assignment.models(gpu_share::RESOURCE, models)?;
        let share = GpuMilli(take.gpu_share);
        task.gpu = GpuRequest { models, share, ..GpuRequest::default() };
    }
    task.extras.insert(PODS.into(), 1);
    task.extras.extend(take.singles.iter().map(|single| (Arc::clone(single), 1)));
    task.extras.extend(take.apart.iter().map(|(key, units)| (Arc::clone(key), *units)));
    Ok(task)
}

/// Returns the time limit: the annotation, or the shortest deadline of pods and controller.
fn time_limit<'a>(
    terms: &Terms,
    pods: impl Iterator<Item = &'a PodFacts>,
) -> Result<Option<Span>, String> {
    if let Some(text) = &terms.wishes.time_limit {
        let span = span::parse(text);
        return span.map(Some).ok_or_else(|| {
            format!(
                "{} is {text:?}; write seconds, or a number with s, m, h or d",
                names::TIME_LIMIT
            )
        });
    }
    let deadlines = pods.filter_map(|pod| pod.deadline_secs).chain(terms.deadline_secs);
    Ok(deadlines.min().map(Span::from_secs))
}

fn topology(
    nodes: &NodeTable,
    (required, preferred): (Option<&str>, Option<&str>),
) -> Result<Option<Topology>, String> {
    let level = |text: &str| {
        if text == names::HOSTNAME || text == Topology::NODE {
            return Ok(Topology::NODE.into());
        }
        nodes.level(text).ok_or_else(|| {
            format!("{text} is not a topology level of this cluster; the scheduler's option --level sets them")
        })
    };
    let rule = match (required, preferred) {
        (Some(text), _) => TopologyRule::Required(level(text)?),
        (None, Some(text)) => TopologyRule::Preferred(level(text)?),
        (None, None) => return Ok(None),
    };
    Ok(Some(Topology { rule, segment: None }))
}
