//! Gang of pods in a Kubernetes cluster, as `muster explain` shows it beside the explanation of the job
//! that the engine makes of it.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::id::JobId;
use crate::unit::Time;

/// Gang of pods, or a pod of its own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GangView {
    /// Object that was asked for, as kubectl writes it: `pod/train-0`.
    pub object: String,
    /// Object that the pods are a gang of, such as `job/train`; equal to `object` for a single pod.
    pub gang: String,
    /// Namespace in which both are.
    pub namespace: String,
    /// Scheduler that the pods ask for.
    pub scheduler: String,
    /// Source of the reasons.
    pub source: GangSource,
    /// Pods by what they do.
    pub pods: GangPods,
    /// Instant since which the first of its running pods has its node; `None` if none runs.
    pub since: Option<Time>,
    /// Rights that the user lacks and that a plan needs: `list nodes`.
    pub missing_rules: Vec<String>,
    /// Remarks about the object or the scheduler, one sentence each.
    pub notes: Vec<String>,
    /// Gangs that the explanation names by a number, which has no meaning outside of it.
    pub jobs: BTreeMap<JobId, String>,
}

/// Source of the reasons for which pods wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum GangSource {
    /// The engine, which planned for the cluster as it is now.
    Plan,
    /// The condition of the object, which its scheduler wrote last.
    Condition,
}

/// Numbers of pods of a gang.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GangPods {
    /// Pods that do not exist yet, since their object is suspended.
    pub expected: u32,
    /// Pods without a node.
    pub waiting: u32,
    /// Pods with a node that have not ended.
    pub running: u32,
    /// Pods that have ended.
    pub ended: u32,
}
