//! Two control planes side by side, dimension by dimension. Which plane stands how is known in
//! `advise`; nothing here judges.

use schemars::JsonSchema;
use serde::Serialize;

use super::{Changes, Fact, Facts, Label, Plane, Source};

/// How well a plane does something.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Standing {
    /// Not at all.
    None,
    /// It can be made to.
    Weak,
    /// With something installed on top.
    AddOn,
    /// As it comes.
    Native,
}

impl Standing {
    /// The word in tables and in JSON.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Standing::None => "none",
            Standing::Weak => "weak",
            Standing::AddOn => "add-on",
            Standing::Native => "native",
        }
    }
}

/// Two planes compared.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Comparison {
    /// The planes, as they were asked for.
    pub planes: [Plane; 2],
    /// The facts that weigh the dimensions; absent when none were given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Changes>")]
    pub facts: Option<Facts>,
    /// Every dimension: those that matter for the facts first.
    pub dimensions: Vec<Compared>,
    /// What it comes to for the facts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verdict: Option<Verdict>,
}

/// Two planes in one dimension.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Compared {
    /// Its id; stays the same once published.
    pub id: &'static str,
    /// What is compared, for people.
    pub title: &'static str,
    /// The facts that make it matter; empty when it does not matter for them, or when there are
    /// none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Vec<String>")]
    pub matters_for: Vec<Fact>,
    /// The plane that stands better today; absent when both stand the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ahead: Option<Plane>,
    /// Both planes, in the order of `planes`.
    pub cells: [Cell; 2],
}

/// One plane in one dimension.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Cell {
    /// The plane.
    pub plane: Plane,
    /// How it stands, as the page has it.
    pub standing: Standing,
    /// Why, in our words.
    pub text: &'static str,
    /// Where that was read.
    pub source: Source,
    /// What has become true since, where the page has aged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub today: Option<Today>,
}

impl Cell {
    /// How it stands today.
    #[must_use]
    pub fn standing_today(&self) -> Standing {
        self.today.map_or(self.standing, |today| today.standing)
    }
}

/// What has become true since a page was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Today {
    /// How the plane stands now; often the same.
    pub standing: Standing,
    /// What is different.
    pub text: &'static str,
    /// Where that was read.
    pub source: Source,
}

/// What a comparison comes to for given facts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Verdict {
    /// What the advice says for these facts.
    pub advice: Label,
    /// How each plane fares, in the order of `planes`.
    pub fares: [Fare; 2],
}

/// How a plane fares for given facts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Fare {
    /// The plane.
    pub plane: Plane,
    /// Dimensions that matter in which it is ahead of the other.
    pub ahead_in: u32,
    /// What the advice makes of it.
    pub role: Role,
    /// The smallest change of facts for which the advice chooses it; empty when it is chosen, or
    /// when the facts of a workload never lead to it.
    #[serde(default, skip_serializing_if = "is_unchanged")]
    pub chosen_if: Changes,
}

fn is_unchanged(changes: &Changes) -> bool {
    changes.0.is_empty()
}

/// What the advice makes of a plane.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// It is the answer.
    Chosen,
    /// It carries the answer: the host of Ray.
    Host,
    /// It gets the other pool of a split fleet.
    OtherPool,
    /// It has no part in the answer.
    NotChosen,
}
