//! Answer of the advice: a label with its reasons. Fields are in the order of the published JSON;
//! empty fields are absent.

use std::borrow::Cow;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::Serialize;

use super::{Citation, ControlPlane, Fact, FactChanges, Facts, Label, SiteProof};

/// Advice on one workload.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Advice {
    /// Recommendation: `primary`, `addon`, `hybrid`.
    #[serde(flatten)]
    pub label: Label,
    /// Rules that fired, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rules: Vec<FiredRule>,
    /// Failure modes that this choice invites.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<Warning>,
    /// Layers of the recommended stack, from the top.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub composition: Vec<Layer>,
    /// Smallest changes of facts that change the answer.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub flips: Vec<Flip>,
    /// Questions of this case on which the pages disagree.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub disputes: Vec<Dispute>,
}

/// Rule that fired for this case.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct FiredRule {
    /// Id of the rule, an anchor of docs/advise.md.
    pub id: &'static str,
    /// Effect of the rule on the label.
    pub effect: RuleEffect,
    /// Reason in one sentence.
    pub sentence: Cow<'static, str>,
    /// Source of the rule.
    pub source: Citation,
}

/// Effect of a fired rule on the label.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum RuleEffect {
    /// Choice of the control plane.
    Choice,
    /// Addition of a component that the rest requires.
    Required,
    /// Addition of an optional component.
    Added,
    /// Split of the fleet between two control planes.
    Split,
    /// No effect: it only gives a reason.
    Reason,
}

/// Failure mode that the choice invites.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Warning {
    /// Id of the warning, an anchor of docs/advise.md.
    pub id: &'static str,
    /// Description of the failure.
    pub sentence: Cow<'static, str>,
    /// Symptom of the failure.
    pub tell: Cow<'static, str>,
    /// Advice to prevent or fix it.
    pub cure: Cow<'static, str>,
    /// Source of the warning.
    pub source: Citation,
}

/// Layer of the stack, or pool of a split fleet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Layer {
    /// Name of the layer.
    pub name: &'static str,
    /// Names of the layers below that it runs on; empty at the bottom.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub on: Vec<&'static str>,
}

/// Change of facts that changes the answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Flip {
    /// Facts to change, with their new values.
    pub change: FactChanges,
    /// Label that the change leads to.
    #[serde(flatten)]
    pub label: Label,
}

/// Question on which the pages disagree.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Dispute {
    /// Id of the dispute, an anchor of docs/advise.md.
    pub id: &'static str,
    /// Kind of the disagreement.
    pub kind: DisputeKind,
    /// Question that decides between the sides.
    pub question: &'static str,
    /// Statement of each side; the first two oppose each other.
    pub positions: &'static [DisputePosition],
    /// Choice of Muster with its reason: `k3s, because …`.
    pub muster: &'static str,
}

/// Kind of a disagreement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum DisputeKind {
    /// Two pages that disagree.
    Pages,
    /// Page that contradicts itself.
    Itself,
    /// Page that is outdated.
    Aged,
}

/// Side of a dispute.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct DisputePosition {
    /// Source of the statement.
    pub source: Citation,
    /// Summary of the statement.
    #[serde(rename = "says")]
    pub text: &'static str,
}

/// Advice on a site.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct SiteAdvice {
    /// Answer in the same form as for one workload.
    #[serde(flatten)]
    pub advice: Advice,
    /// One answer to each need that the site has, in the order in which it states them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub asked: Vec<AskedNeed>,
    /// Cost of staying with each product that the site operates.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub staying: Vec<FiredRule>,
    /// Each kind of work in the mix on the recommended stack.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub workloads: Vec<WorkloadOnSite>,
    /// Ways to share GPUs, and their isolation.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sharing: Vec<FiredRule>,
    /// Ways to run notebooks.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notebooks: Vec<FiredRule>,
    /// Effort of running the recommended stack.
    pub operations: Operations,
    /// Steps of the first week, in order.
    pub first_week: Vec<Cow<'static, str>>,
    /// Simulation of the site's load, on request. It does not change the advice.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proof: Option<SiteProof>,
}

/// Answer to a need of the site.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct AskedNeed {
    /// Id of the answer, an anchor of docs/advise.md.
    pub id: &'static str,
    /// Need that it answers.
    #[schemars(with = "String")]
    pub need: Fact,
    /// Answer in one sentence.
    pub sentence: &'static str,
}

/// Kind of work on the recommended stack.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct WorkloadOnSite {
    /// Name of the kind in the site file.
    pub name: Arc<str>,
    /// Percentage of the GPU-hours; absent when the site does not give it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub share_percent: Option<u32>,
    /// Facts about this kind of work.
    #[schemars(with = "FactChanges")]
    pub facts: Facts,
    /// Label that it would get as the only workload.
    pub alone: Label,
    /// Control plane that it runs on at this site.
    pub runs_on: ControlPlane,
    /// Way in which it runs there, and the drawbacks.
    pub how: Cow<'static, str>,
}

/// Effort of running a stack.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Operations {
    /// Components that must be installed, operated and upgraded.
    pub components: Vec<&'static str>,
    /// Staff that the stack requires.
    pub staff: Cow<'static, str>,
    /// Component or process that fails first.
    pub breaks_first: &'static str,
    /// Source of these statements.
    pub source: Citation,
}
