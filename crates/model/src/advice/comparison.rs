//! Comparison of two systems, dimension by dimension. The entries are in `advise`; this
//! module holds only values.

use std::fmt;

use schemars::JsonSchema;
use serde::Serialize;

use super::{Citation, ControlPlane, Fact, FactChanges, Facts, Label};

/// Degree to which a control plane supports a feature.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum SupportLevel {
    /// Not supported at all.
    None,
    /// Possible with a workaround.
    Weak,
    /// Supported by an add-on.
    AddOn,
    /// Supported by the control plane itself.
    Native,
}

impl SupportLevel {
    /// Returns the word in tables and in JSON.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            SupportLevel::None => "none",
            SupportLevel::Weak => "weak",
            SupportLevel::AddOn => "add-on",
            SupportLevel::Native => "native",
        }
    }
}

/// System that is compared: a control plane, or Muster, which is one itself on one machine only.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ComparedSystem {
    /// Muster, with what it rides on past one machine.
    Muster,
    /// Control plane by itself.
    #[serde(untagged)]
    Plane(ControlPlane),
}

impl ComparedSystem {
    /// Returns the word on the command line and in JSON.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            ComparedSystem::Muster => "muster",
            ComparedSystem::Plane(plane) => plane.name(),
        }
    }
}

impl From<ControlPlane> for ComparedSystem {
    fn from(plane: ControlPlane) -> Self {
        ComparedSystem::Plane(plane)
    }
}

impl fmt::Display for ComparedSystem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Comparison of two systems, dimension by dimension.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Comparison {
    /// The two systems, in the requested order.
    pub planes: [ComparedSystem; 2],
    /// Facts that weight the dimensions; absent when none were given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<FactChanges>")]
    pub facts: Option<Facts>,
    /// Every dimension: those that matter for the facts first.
    pub dimensions: Vec<Compared>,
    /// Verdict for the facts; absent when none were given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verdict: Option<ComparisonVerdict>,
}

/// Comparison in one dimension.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Compared {
    /// Id of the dimension; stable once published.
    pub id: &'static str,
    /// Title of the dimension.
    pub title: &'static str,
    /// Facts that make the dimension matter; empty when it does not matter for them, or when there
    /// are none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Vec<String>")]
    pub matters_for: Vec<Fact>,
    /// System with the better support today; absent when both are equal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ahead: Option<ComparedSystem>,
    /// Both systems, in the order of `planes`.
    pub cells: [ComparisonCell; 2],
}

/// One system in one dimension.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ComparisonCell {
    /// System that is rated.
    pub plane: ComparedSystem,
    /// Degree of support according to the page.
    pub standing: SupportLevel,
    /// Reason for the rating.
    pub text: &'static str,
    /// Source of the rating.
    pub source: Citation,
    /// Present rating, when the page is outdated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub today: Option<CurrentSupport>,
}

impl ComparisonCell {
    /// Returns the degree of support today.
    #[must_use]
    pub fn standing_today(&self) -> SupportLevel {
        self.today.map_or(self.standing, |today| today.standing)
    }
}

/// Present rating where a page is outdated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct CurrentSupport {
    /// Degree of support today; often the same.
    pub standing: SupportLevel,
    /// Description of the difference.
    pub text: &'static str,
    /// Source of the present rating.
    pub source: Citation,
}

/// Verdict of a comparison for given facts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ComparisonVerdict {
    /// Label that the advice gives for these facts.
    pub advice: Label,
    /// Result of each system, in the order of `planes`.
    pub fares: [PlaneResult; 2],
}

/// Result of one system for given facts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct PlaneResult {
    /// System that is rated.
    pub plane: ComparedSystem,
    /// Number of dimensions that matter in which it is better than the other.
    pub ahead_in: u32,
    /// Role of the system in the advice.
    pub role: PlaneRole,
    /// Smallest change of facts for which the advice chooses it; empty when it is chosen, or when
    /// the facts of a workload never lead to it.
    #[serde(default, skip_serializing_if = "is_unchanged")]
    pub chosen_if: FactChanges,
}

fn is_unchanged(changes: &FactChanges) -> bool {
    changes.0.is_empty()
}

/// Role of a system in the advice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum PlaneRole {
    /// Chosen by the advice as the answer.
    Chosen,
    /// Host of the answer: Ray runs on it.
    Host,
    /// Control plane of the other pool of a split fleet.
    OtherPool,
    /// Muster, which runs jobs through the answer, or by itself on one machine.
    OnTop,
    /// No part of the answer.
    NotChosen,
}
