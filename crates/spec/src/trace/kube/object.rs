//! Objects of the Kubernetes API: the parts of a Pod and of a Job that a trace needs. Both have the
//! same type, with optional fields for what only one of them has.

use std::collections::BTreeMap;

use serde::Deserialize;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Object {
    pub(super) kind: Option<String>,
    pub(super) metadata: Metadata,
    pub(super) spec: Spec,
    #[serde(default)]
    pub(super) status: KubeStatus,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Metadata {
    pub(super) name: String,
    pub(super) namespace: Option<String>,
    pub(super) creation_timestamp: Option<String>,
    #[serde(default)]
    pub(super) labels: BTreeMap<String, String>,
    #[serde(default)]
    pub(super) annotations: BTreeMap<String, String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Spec {
    #[serde(default)]
    pub(super) containers: Vec<Container>,
    #[serde(default)]
    pub(super) init_containers: Vec<Container>,
    pub(super) active_deadline_seconds: Option<u64>,
    pub(super) priority: Option<i32>,
    pub(super) scheduling_group: Option<SchedulingGroup>,
    pub(super) parallelism: Option<u32>,
    pub(super) completions: Option<u32>,
    pub(super) template: Option<Template>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct SchedulingGroup {
    pub(super) pod_group_name: Option<String>,
}

#[derive(Deserialize)]
pub(super) struct Template {
    pub(super) spec: Box<Spec>,
}

#[derive(Deserialize)]
pub(super) struct Container {
    #[serde(default)]
    pub(super) resources: ResourceQuantities,
}

#[derive(Default, Deserialize)]
pub(super) struct ResourceQuantities {
    #[serde(default)]
    pub(super) requests: BTreeMap<String, String>,
    #[serde(default)]
    pub(super) limits: BTreeMap<String, String>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct KubeStatus {
    pub(super) phase: Option<String>,
    pub(super) start_time: Option<String>,
    pub(super) completion_time: Option<String>,
    pub(super) conditions: Vec<JobCondition>,
    pub(super) container_statuses: Vec<ContainerStatus>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct JobCondition {
    #[serde(rename = "type")]
    pub(super) kind: String,
    pub(super) status: String,
    pub(super) last_transition_time: Option<String>,
}

#[derive(Deserialize)]
pub(super) struct ContainerStatus {
    #[serde(default)]
    pub(super) state: ContainerState,
}

#[derive(Default, Deserialize)]
pub(super) struct ContainerState {
    pub(super) terminated: Option<Terminated>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Terminated {
    pub(super) started_at: Option<String>,
    pub(super) finished_at: Option<String>,
}
