//! Pods, as far as a scheduler reads them. A field or value that would constrain the placement and
//! is not supported is named in [`PodFacts::not_understood`]: such a pod waits, the constraint is
//! never ignored.

use std::collections::BTreeMap;
use std::sync::Arc;

use muster_model::NodeName;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::Value;

use crate::anti_affinity::{self, PodAffinityTerm};
use crate::gpu_share::{self, GpuShare};
use crate::group::GangRef;
use crate::names;
use crate::object::{Metadata, ObjectKey};
use crate::priority;
use crate::resources::{self, Container, Quantities, Requirements, Text};
use crate::rule::{NodeRule, SelectorTerm, Toleration};
use crate::volume::Volume;

/// Pod, as far as scheduling reads it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodFacts {
    /// Namespace and name of the pod.
    pub key: ObjectKey,
    /// Id that is never reused.
    pub uid: Arc<str>,
    /// Creation in RFC 3339.
    pub created: String,
    /// True when the pod asks for Muster's scheduler.
    pub is_ours: bool,
    /// Node that the pod is bound to.
    pub node: Option<NodeName>,
    /// Instant of its binding in RFC 3339.
    pub bound_at: Option<String>,
    /// Stage of its life.
    pub phase: PodPhase,
    /// True once deletion was requested.
    pub is_terminating: bool,
    /// True while a scheduling gate keeps it from being scheduled.
    pub is_gated: bool,
    /// Requested resources, without the pod itself.
    pub requests: Quantities,
    /// Rules for its node.
    pub rule: NodeRule,
    /// Ports of the node that it takes, as `8080/TCP`.
    pub host_ports: Vec<Arc<str>>,
    /// Persistent volume claims, by name in its namespace.
    pub claims: Vec<Arc<str>>,
    /// Claims that must have devices before the pod starts.
    pub device_claims: Vec<DeviceClaim>,
    /// Labels, by which terms of other pods select it; shared by pods of one template.
    pub labels: Arc<BTreeMap<String, String>>,
    /// Kinds of pods that it keeps away from on a node, its own among them: keys of
    /// [`crate::anti_affinity`].
    pub apart: Vec<Arc<str>>,
    /// Priority, from its priority class.
    pub priority: i32,
    /// False if no other pod may be evicted for it.
    pub preempts: bool,
    /// Time between SIGTERM and SIGKILL, in seconds.
    pub grace_secs: u64,
    /// Run time in seconds after which the kubelet ends it; `None` means no limit.
    pub deadline_secs: Option<u64>,
    /// Expected run time, queue and topology that labels and annotations name.
    pub wishes: Wishes,
    /// Index among the pods of an Indexed Job.
    pub index: Option<u32>,
    /// Gang that it belongs to; `None` for a pod of its own.
    pub gang: Option<GangRef>,
    /// Share of a GPU that it asks for beside its requests.
    pub gpu_share: Option<GpuShare>,
    /// Number of the GPU of which it got a share when it was bound.
    pub shared_gpu: Option<usize>,
    /// Number of the GPU that it holds for others, if it is in the namespace of the scheduler.
    pub held_gpu: Option<usize>,
    /// First constraint that is not supported.
    pub not_understood: Option<String>,
}

/// Claim of devices that a pod names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeviceClaim {
    /// A claim that users made.
    Named(Arc<str>),
    /// A claim of the pod's own.
    OfTemplate {
        /// Template that it is made from.
        template: Arc<str>,
        /// Name of the claim once it is made.
        made: Option<Arc<str>>,
    },
}

/// Stage in the life of a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PodPhase {
    /// Not started, or not ended.
    Active,
    /// All its containers ended with success.
    Succeeded,
    /// At least one container failed, or the kubelet ended it.
    Failed,
}

/// Scheduling terms that labels and annotations of a pod or gang object name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wishes {
    /// Queue as a label value; where Kueue's queues are read, a LocalQueue. `None` means the queue of
    /// Kueue's label, else the default one.
    pub queue: Option<String>,
    /// Terms that labels and annotations of Kueue name.
    pub kueue: KueueWishes,
    /// Expected run time, as text with a unit.
    pub time_limit: Option<String>,
    /// Number of pods without which the gang does not start.
    pub gang_size: Option<String>,
    /// Topology level in one domain of which the whole gang must be.
    pub required_topology: Option<String>,
    /// Topology level of which the gang should use few domains.
    pub preferred_topology: Option<String>,
    /// Advance reservation in which the gang runs.
    pub reservation: Option<String>,
}

/// Scheduling terms in Kueue's labels and annotations. All but the queue are used only where Kueue's
/// queues are read; elsewhere Kueue applies them itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KueueWishes {
    /// Name of a LocalQueue.
    pub queue: Option<String>,
    /// Node label in one domain of which all pods must be.
    pub required_topology: Option<String>,
    /// Node label of which few domains should be used.
    pub preferred_topology: Option<String>,
    /// Node label in one domain of which each slice of the pods must be.
    pub slice_topology: Option<String>,
}

impl Wishes {
    /// Reads the labels and annotations of an object.
    #[must_use]
    pub fn of(metadata: &Metadata) -> Self {
        let value = |key| metadata.label_or_annotation(key).map(str::to_owned);
        Self {
            queue: value(names::QUEUE),
            kueue: KueueWishes {
                queue: value(names::KUEUE_QUEUE),
                required_topology: value(names::KUEUE_REQUIRED_TOPOLOGY),
                preferred_topology: value(names::KUEUE_PREFERRED_TOPOLOGY),
                slice_topology: value(names::KUEUE_SLICE_TOPOLOGY),
            },
            time_limit: value(names::TIME_LIMIT),
            gang_size: value(names::GANG_SIZE),
            required_topology: value(names::REQUIRED_TOPOLOGY),
            preferred_topology: value(names::PREFERRED_TOPOLOGY),
            reservation: value(names::RESERVATION),
        }
    }

    /// Returns the LocalQueue that these terms name, where Kueue's queues are read.
    #[must_use]
    pub fn local_queue(&self) -> Option<&str> {
        self.queue.as_deref().or(self.kueue.queue.as_deref())
    }

    /// Returns these terms, and those of the gang object where these name none.
    #[must_use]
    pub fn or(&self, other: &Self) -> Self {
        let pick =
            |own: &Option<String>, other: &Option<String>| own.clone().or_else(|| other.clone());
        Self {
            queue: pick(&self.queue, &other.queue),
            kueue: KueueWishes {
                queue: pick(&self.kueue.queue, &other.kueue.queue),
                required_topology: pick(
                    &self.kueue.required_topology,
                    &other.kueue.required_topology,
                ),
                preferred_topology: pick(
                    &self.kueue.preferred_topology,
                    &other.kueue.preferred_topology,
                ),
                slice_topology: pick(&self.kueue.slice_topology, &other.kueue.slice_topology),
            },
            time_limit: pick(&self.time_limit, &other.time_limit),
            gang_size: pick(&self.gang_size, &other.gang_size),
            required_topology: pick(&self.required_topology, &other.required_topology),
            preferred_topology: pick(&self.preferred_topology, &other.preferred_topology),
            reservation: pick(&self.reservation, &other.reservation),
        }
    }
}

/// Pod as the API server prints it.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct PodText {
    /// Metadata of the pod.
    pub metadata: Metadata,
    spec: Spec,
    status: Status,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Status {
    phase: String,
    conditions: Vec<Condition>,
    resource_claim_statuses: Vec<ClaimStatus>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ClaimStatus {
    name: String,
    resource_claim_name: Option<Arc<str>>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ResourceClaim {
    name: String,
    resource_claim_name: Option<Arc<str>>,
    resource_claim_template_name: Option<Arc<str>>,
    #[serde(flatten)]
    others: BTreeMap<String, IgnoredAny>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Condition {
    r#type: String,
    status: String,
    last_transition_time: Option<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Spec {
    scheduler_name: String,
    node_name: Option<String>,
    containers: Vec<Container>,
    init_containers: Vec<Container>,
    resources: Option<Requirements>,
    overhead: Option<BTreeMap<String, Text>>,
    node_selector: BTreeMap<String, String>,
    affinity: Affinity,
    tolerations: Vec<Toleration>,
    priority: i32,
    preemption_policy: Option<String>,
    termination_grace_period_seconds: Option<u64>,
    active_deadline_seconds: Option<u64>,
    scheduling_gates: Vec<IgnoredAny>,
    scheduling_group: Option<SchedulingGroup>,
    topology_spread_constraints: Vec<SpreadConstraint>,
    resource_claims: Vec<ResourceClaim>,
    volumes: Vec<Volume>,
    #[serde(flatten)]
    others: BTreeMap<String, IgnoredAny>,
}

/// Fields of a pod's specification that do not constrain its placement (API of Kubernetes 1.37).
const WITHOUT_CONSTRAINT: [&str; 24] = [
    "automountServiceAccountToken",
    "dnsConfig",
    "dnsPolicy",
    "enableServiceLinks",
    "ephemeralContainers",
    "hostAliases",
    "hostIPC",
    "hostNetwork",
    "hostPID",
    "hostUsers",
    "hostname",
    "hostnameOverride",
    "imagePullSecrets",
    "os",
    "priorityClassName",
    "readinessGates",
    "restartPolicy",
    "runtimeClassName",
    "securityContext",
    "serviceAccount",
    "serviceAccountName",
    "setHostnameAsFQDN",
    "shareProcessNamespace",
    "subdomain",
];

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Affinity {
    node_affinity: Option<NodeAffinity>,
    pod_affinity: Option<PodAffinity>,
    pod_anti_affinity: Option<PodAffinity>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct NodeAffinity {
    required_during_scheduling_ignored_during_execution: Option<NodeSelectorTerms>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct NodeSelectorTerms {
    node_selector_terms: Vec<SelectorTerm>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct PodAffinity {
    required_during_scheduling_ignored_during_execution: Vec<PodAffinityTerm>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct SchedulingGroup {
    pod_group_name: Option<String>,
    #[serde(flatten)]
    others: BTreeMap<String, IgnoredAny>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct SpreadConstraint {
    when_unsatisfiable: String,
}

/// Default of `terminationGracePeriodSeconds` (API documentation of PodSpec).
const DEFAULT_GRACE_SECS: u64 = 30;

impl PodText {
    /// Makes a pod that does not exist yet, with the specification of a template.
    ///
    /// # Errors
    /// Where the specification is none of a pod.
    pub fn of_template(metadata: Metadata, spec: &Value) -> serde_json::Result<Self> {
        Ok(Self { metadata, spec: Spec::deserialize(spec)?, status: Status::default() })
    }

    /// Returns what scheduling needs of the pod.
    #[must_use]
    pub fn facts(self) -> PodFacts {
        let (requests, malformed) = match resources::of_pod(
            &self.spec.containers,
            &self.spec.init_containers,
            self.spec.resources.as_ref(),
            self.spec.overhead.as_ref(),
        ) {
            Ok(requests) => (requests, None),
            Err(error) => (Quantities::default(), Some(error)),
        };
        let rule = self.spec.rule();
        let apart = self.apart();
        let is_bound = self.spec.node_name.as_deref().is_some_and(|name| !name.is_empty());
        let share = gpu_share::of_pod(&self.metadata, &requests, &self.spec.containers);
        let group =
            self.spec.scheduling_group.as_ref().and_then(|group| group.pod_group_name.as_deref());
        let gang = GangRef::of_pod(&self.metadata, group);
        let not_understood = malformed
            .or_else(|| gang.as_ref().err().cloned())
            .or_else(|| rule.unknown_operator())
            .or_else(|| apart.as_ref().err().cloned())
            .or_else(|| share.as_ref().err().cloned())
            .or_else(|| self.spec.not_understood());
        let key = self.metadata.key();
        let wishes = Wishes::of(&self.metadata);
        let index = self.metadata.label_or_annotation(names::COMPLETION_INDEX);
        PodFacts {
            index: index.and_then(|index| index.parse().ok()),
            key,
            is_ours: self.spec.scheduler_name == names::SCHEDULER,
            node: self
                .spec
                .node_name
                .as_deref()
                .filter(|name| !name.is_empty())
                .map(NodeName::from),
            bound_at: self.status.bound_at(),
            phase: match self.status.phase.as_str() {
                "Succeeded" => PodPhase::Succeeded,
                "Failed" => PodPhase::Failed,
                _ => PodPhase::Active,
            },
            is_terminating: self.metadata.deletion_timestamp.is_some(),
            is_gated: !self.spec.scheduling_gates.is_empty(),
            requests,
            rule,
            host_ports: self.spec.host_ports(),
            claims: self.spec.claims(&self.metadata.name),
            device_claims: self.device_claims(),
            apart: apart.unwrap_or_default(),
            priority: self.spec.priority,
            preempts: self.spec.preemption_policy.as_deref() != Some(priority::NEVER),
            grace_secs: self.spec.termination_grace_period_seconds.unwrap_or(DEFAULT_GRACE_SECS),
            deadline_secs: self.spec.active_deadline_seconds,
            wishes,
            gang: gang.unwrap_or_default(),
            gpu_share: share.ok().flatten(),
            // Before the binding, which sets the annotation, a user may have set it.
            shared_gpu: gpu_share::index_of(&self.metadata).filter(|_| is_bound),
            held_gpu: gpu_share::held_by(&self.metadata),
            not_understood,
            labels: Arc::new(self.metadata.labels),
            uid: self.metadata.uid,
            created: self.metadata.creation_timestamp.unwrap_or_default(),
        }
    }

    fn device_claims(&self) -> Vec<DeviceClaim> {
        let made = |name: &str| {
            let status = self.status.resource_claim_statuses.iter().find(|one| one.name == name);
            status.and_then(|status| status.resource_claim_name.clone())
        };
        let of = |claim: &ResourceClaim| match &claim.resource_claim_template_name {
            Some(template) => {
                DeviceClaim::OfTemplate { template: Arc::clone(template), made: made(&claim.name) }
            }
            None => DeviceClaim::Named(claim.resource_claim_name.clone().unwrap_or_default()),
        };
        self.spec.resource_claims.iter().map(of).collect()
    }

    fn apart(&self) -> Result<Vec<Arc<str>>, String> {
        let Some(anti) = &self.spec.affinity.pod_anti_affinity else { return Ok(Vec::new()) };
        anti.required_during_scheduling_ignored_during_execution
            .iter()
            .map(|term| anti_affinity::key(term, &self.metadata))
            .collect()
    }
}

impl Status {
    fn bound_at(&self) -> Option<String> {
        let scheduled = self.conditions.iter().find(|one| one.r#type == "PodScheduled")?;
        scheduled.last_transition_time.clone().filter(|_| scheduled.status == "True")
    }
}

impl Spec {
    fn rule(&self) -> NodeRule {
        let affinity = self.affinity.node_affinity.as_ref();
        let required = affinity
            .and_then(|one| one.required_during_scheduling_ignored_during_execution.as_ref());
        let mut tolerations = self.tolerations.clone();
        // Two orders of the same tolerations are the same rule.
        tolerations.sort();
        NodeRule {
            selector: self.node_selector.clone(),
            affinity: required
                .map(|required| required.node_selector_terms.clone())
                .into_iter()
                .collect(),
            tolerations,
        }
    }

    fn host_ports(&self) -> Vec<Arc<str>> {
        let containers = self.containers.iter().chain(&self.init_containers);
        let mut ports: Vec<Arc<str>> = containers
            .flat_map(|container| container.ports.iter().flatten())
            .filter(|port| port.host_port > 0)
            .map(|port| {
                let protocol = port.protocol.as_deref().unwrap_or("TCP");
                format!("{}/{protocol}", port.host_port).into()
            })
            .collect();
        ports.sort();
        ports.dedup();
        ports
    }

    fn claims(&self, pod: &str) -> Vec<Arc<str>> {
        self.volumes.iter().filter_map(|volume| volume.claim(pod)).collect()
    }

    /// Returns the first constraint that is not supported.
    fn not_understood(&self) -> Option<String> {
        let is_unnamed = |claim: &ResourceClaim| {
            claim.resource_claim_name.is_none() && claim.resource_claim_template_name.is_none()
        };
        if self.resource_claims.iter().any(is_unnamed) {
            return Some("a resource claim without a name".to_owned());
        }
        let mut fields = self.resource_claims.iter().flat_map(|claim| claim.others.keys());
        if let Some(field) = fields.next() {
            return Some(format!("the field `spec.resourceClaims[].{field}`"));
        }
        let affinity = self.affinity.pod_affinity.as_ref();
        if affinity
            .is_some_and(|one| !one.required_during_scheduling_ignored_during_execution.is_empty())
        {
            return Some("required pod affinity".to_owned());
        }
        if self
            .topology_spread_constraints
            .iter()
            .any(|one| one.when_unsatisfiable != "ScheduleAnyway")
        {
            return Some(
                "a topology spread constraint with `whenUnsatisfiable: DoNotSchedule`".to_owned(),
            );
        }
        if let Some(field) =
            self.scheduling_group.as_ref().and_then(|group| group.others.keys().next())
        {
            return Some(format!("the field `spec.schedulingGroup.{field}`"));
        }
        let policy = self.preemption_policy.as_deref();
        if let Some(policy) = policy.filter(|policy| !priority::POLICIES.contains(policy)) {
            return Some(format!("the preemption policy `{policy}`"));
        }
        if let Some(volume) = self.volumes.iter().find_map(Volume::not_understood) {
            return Some(volume);
        }
        let unknown =
            self.others.keys().find(|field| !WITHOUT_CONSTRAINT.contains(&field.as_str()))?;
        Some(format!("the field `spec.{unknown}`"))
    }
}

#[cfg(test)]
mod tests;
