//! Rules on jobs that wait for Kueue: whether the queue that they name exists, and can admit them. Queues
//! themselves are in `kueue.rs`.

use std::collections::BTreeSet;

use muster_kubernetes::group::{APIS, GroupKind};
use muster_kubernetes::kueue::defect;
use muster_kubernetes::names;
use muster_kubernetes::node::is_gpu;
use muster_model::check::Severity::High;
use muster_slurm::conf::evidence::MissingInput;
use serde_json::Value;

use super::KubernetesRule;
use crate::kubernetes::resource::{CLUSTER_QUEUES, LOCAL_QUEUES, Resource};
use crate::kubernetes::view::{ClusterView, count, name_of, some_of};
use crate::rule::{DocPage, RuleFinding, RuleResult, judge};

pub(super) const RULES: &[KubernetesRule] = &[
    KubernetesRule {
        id: "kueue-queue-missing",
        severity: High,
        title: "a suspended job names a queue that its namespace does not have",
        meaning: "Kueue never starts it, and its object does not say why",
        cure: "create the LocalQueue in the namespace of the job, or correct the label `kueue.x-k8s.io/queue-name`",
        page: DocPage::Web("https://kueue.sigs.k8s.io/docs/concepts/local_queue/"),
        check: queue_missing,
    },
    KubernetesRule {
        id: "kueue-lacks-resource",
        severity: High,
        title: "a suspended job requests a resource that its queue does not cover",
        meaning: "no flavor of the ClusterQueue has a quota of it, so that Kueue never admits the job",
        cure: "add it to `coveredResources` and to the flavors of a resource group, or do not request it",
        page: DocPage::Web("https://kueue.sigs.k8s.io/docs/concepts/cluster_queue/"),
        check: lacks_resource,
    },
];

/// Jobs that wait for Kueue.
struct WaitingJobs<'a> {
    jobs: Vec<WaitingJob<'a>>,
    /// Input without which there may be others.
    missing: Option<MissingInput>,
}

struct WaitingJob<'a> {
    title: String,
    object: &'a Value,
    /// Name of its LocalQueue.
    queue: &'a str,
}

impl<'a> WaitingJobs<'a> {
    fn of(cluster: &ClusterView<'a>) -> Self {
        let is_job = |kind| {
            !matches!(
                kind,
                GroupKind::Native | GroupKind::Coscheduling | GroupKind::Volcano | GroupKind::Kai
            )
        };
        let groups = APIS.iter().filter(|api| is_job(api.kind)).map(Resource::of_group);
        let mut waiting = Self { jobs: Vec::new(), missing: None };
        for resource in groups {
            match cluster.list(resource) {
                Ok(list) => {
                    let jobs = list.iter().filter_map(|object| WaitingJob::of(&resource, object));
                    waiting.jobs.extend(jobs);
                }
                Err(missing) => waiting.missing = Some(missing),
            }
        }
        waiting
    }

    /// Fails where there are findings; without any it passes if all jobs are known.
    fn judge(self, findings: Vec<RuleFinding>) -> RuleResult {
        let jobs = count(self.jobs.len(), "suspended job");
        judge(findings, self.missing, format!("{jobs} of Kueue's queues"))
    }
}

impl<'a> WaitingJob<'a> {
    fn of(resource: &Resource, object: &'a Value) -> Option<Self> {
        let metadata = &object["metadata"];
        let queue = metadata["labels"][names::KUEUE_QUEUE].as_str()?;
        let spec = &object["spec"];
        let is_suspended = spec["suspend"] == true || spec["runPolicy"]["suspend"] == true;
        let is_cancelled = metadata["annotations"][names::CANCELLED].is_string();
        let title = format!("{} {}", resource.kind, name_of(object));
        (is_suspended && !is_cancelled).then_some(Self { title, object, queue })
    }

    fn namespace(&self) -> &Value {
        &self.object["metadata"]["namespace"]
    }

    fn is_its_queue(&self, queue: &Value) -> bool {
        let metadata = &queue["metadata"];
        metadata["name"] == self.queue && metadata["namespace"] == *self.namespace()
    }
}

fn queue_missing(cluster: &ClusterView<'_>) -> RuleResult {
    let queues = cluster.list(LOCAL_QUEUES)?;
    let waiting = WaitingJobs::of(cluster);
    let finding = |job: &WaitingJob<'_>| {
        if queues.iter().any(|queue| job.is_its_queue(queue)) {
            return None;
        }
        let own = queues.iter().filter(|queue| queue["metadata"]["namespace"] == *job.namespace());
        let own: Vec<&str> = own.filter_map(|queue| queue["metadata"]["name"].as_str()).collect();
        let there = if own.is_empty() { "none".to_owned() } else { some_of(&own) };
        let title = &job.title;
        let says = format!("{title} names the LocalQueue {}; its namespace has {there}", job.queue);
        Some(RuleFinding::about(title.clone(), says))
    };
    let findings = waiting.jobs.iter().filter_map(finding).collect();
    waiting.judge(findings)
}

/// Kueue's configuration may leave out other resources.
fn lacks_resource(cluster: &ClusterView<'_>) -> RuleResult {
    let queues = cluster.list(CLUSTER_QUEUES)?;
    let local = cluster.list(LOCAL_QUEUES)?;
    let waiting = WaitingJobs::of(cluster);
    let finding = |job: &WaitingJob<'_>| {
        // Queues that do not exist are findings of other rules.
        let target = &local.iter().find(|queue| job.is_its_queue(queue))?["spec"]["clusterQueue"];
        let queue = queues.iter().find(|queue| queue["metadata"]["name"] == *target)?;
        let mut requested = BTreeSet::new();
        add_requests(&job.object["spec"], &mut requested);
        let missing: Vec<&str> =
            requested.into_iter().filter(|name| !defect::covers(queue, name)).collect();
        let title = &job.title;
        (!missing.is_empty()).then(|| {
            let says =
                format!("{title}: ClusterQueue {} has no {}", name_of(queue), missing.join(", "));
            RuleFinding::about(title.clone(), says)
        })
    };
    let findings = waiting.jobs.iter().filter_map(finding).collect();
    waiting.judge(findings)
}

/// Adds CPUs, memory and GPUs that the pods in a specification request; a limit alone is a request. Kinds
/// have their pod templates in different places.
fn add_requests<'a>(spec: &'a Value, requested: &mut BTreeSet<&'a str>) {
    match spec {
        Value::Object(fields) => {
            let containers =
                ["containers", "initContainers"].iter().filter_map(|key| fields.get(*key));
            for container in containers.flat_map(|list| list.as_array().into_iter().flatten()) {
                let amounts = ["requests", "limits"].map(|part| &container["resources"][part]);
                let amounts = amounts.into_iter().filter_map(Value::as_object).flatten();
                let names = amounts.map(|(name, _)| name.as_str());
                requested
                    .extend(names.filter(|name| is_gpu(name) || matches!(*name, "cpu" | "memory")));
            }
            fields.values().for_each(|field| add_requests(field, requested));
        }
        Value::Array(items) => items.iter().for_each(|item| add_requests(item, requested)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}
