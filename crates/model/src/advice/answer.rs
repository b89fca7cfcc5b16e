//! The answer: a label, and all that stands behind it. Fields are in the order of the published
//! JSON. What is empty is absent.

use std::borrow::Cow;
use std::sync::Arc;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};

use super::{Fact, Facts, Label, Plane, SiteProof, Source, Value};

/// Advice on one workload.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Advice {
    /// What to take: `primary`, `addon`, `hybrid`.
    #[serde(flatten)]
    pub label: Label,
    /// Rules that fired, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rules: Vec<FiredRule>,
    /// Failure modes that this choice invites.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<Warning>,
    /// What rides on what, from the top.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub composition: Vec<Layer>,
    /// The smallest changes of facts that change the answer.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub flips: Vec<Flip>,
    /// Where the pages disagree on this very case.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub disputes: Vec<Dispute>,
}

/// A rule that fired.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct FiredRule {
    /// Its id, an anchor of docs/advise.md.
    pub id: &'static str,
    /// What it did to the label.
    pub effect: RuleEffect,
    /// Why, in one sentence.
    pub sentence: Cow<'static, str>,
    /// Where it is from.
    pub source: Source,
}

/// What a rule that fired did to the label.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum RuleEffect {
    /// It chose the plane.
    Choice,
    /// It put something in front that the rest cannot do without.
    Required,
    /// It added something.
    Added,
    /// It split the fleet.
    Split,
    /// Nothing: it gives a reason.
    Reason,
}

/// A failure mode that the choice invites.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Warning {
    /// Its id, an anchor of docs/advise.md.
    pub id: &'static str,
    /// What goes wrong.
    pub sentence: Cow<'static, str>,
    /// How it shows.
    pub tell: Cow<'static, str>,
    /// What to do.
    pub cure: Cow<'static, str>,
    /// Where it is from.
    pub source: Source,
}

/// One layer of the stack, or one pool of a split fleet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Layer {
    /// What it is.
    pub name: &'static str,
    /// Names of the layers that it rides on; none at the bottom.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub on: Vec<&'static str>,
}

/// A change of facts that changes the answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Flip {
    /// Facts to change, with their new values.
    pub change: Changes,
    /// The answer it leads to.
    #[serde(flatten)]
    pub label: Label,
}

/// New values of facts, in the order of facts; a mapping in JSON.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Changes(pub Vec<(Fact, Value)>);

impl Serialize for Changes {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (fact, value) in &self.0 {
            map.serialize_entry(fact.name(), value)?;
        }
        map.end()
    }
}

impl JsonSchema for Changes {
    fn schema_name() -> Cow<'static, str> {
        "Changes".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "new values of facts, by name",
            "type": "object",
            "additionalProperties": { "type": ["boolean", "number"] }
        })
    }
}

/// Where pages disagree.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Dispute {
    /// Its id, an anchor of docs/advise.md.
    pub id: &'static str,
    /// Who disagrees with whom.
    pub kind: DisputeKind,
    /// The question that decides.
    pub question: &'static str,
    /// What each says.
    pub positions: &'static [Position],
    /// What Muster does here, and why.
    pub muster: &'static str,
}

/// Who disagrees with whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum DisputeKind {
    /// Two pages.
    Pages,
    /// A page with itself.
    Itself,
    /// A page with what has become true since.
    Aged,
}

/// One side of a dispute.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Position {
    /// Who says so.
    pub source: Source,
    /// What it comes to, in our words.
    pub says: &'static str,
}

/// Advice on a site.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct SiteAdvice {
    /// The same answer as for one workload.
    #[serde(flatten)]
    pub advice: Advice,
    /// How each kind of work in the mix runs there.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub workloads: Vec<WorkloadOnSite>,
    /// How GPUs are shared, and what that isolates.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sharing: Vec<FiredRule>,
    /// How notebooks are run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notebooks: Vec<FiredRule>,
    /// What it takes to run the recommended stack.
    pub operations: Operations,
    /// What a simulation shows beside it, where that was asked for. It changes nothing of the
    /// above.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proof: Option<SiteProof>,
}

/// One kind of work on the recommended plane.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct WorkloadOnSite {
    /// What the site calls it.
    pub name: Arc<str>,
    /// Part of the GPU-hours, in percent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub share_percent: Option<u32>,
    /// Its facts.
    #[schemars(with = "Changes")]
    pub facts: Facts,
    /// What it would get if it were alone.
    pub alone: Label,
    /// Where it runs on this site.
    pub runs_on: Plane,
    /// How it runs there, and what that costs it.
    pub how: Cow<'static, str>,
}

/// What it takes to run a stack.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Operations {
    /// What must be installed, kept running and upgraded.
    pub components: Vec<&'static str>,
    /// People that it takes.
    pub staff: &'static str,
    /// What breaks first.
    pub breaks_first: &'static str,
    /// Where that is from.
    pub source: Source,
}
