//! Data types of advice: facts, thresholds, control planes, citations and answers. The rules that
//! lead from facts to an answer are in `advise`.

mod answer;
mod comparison;
mod control_plane;
mod fact;
mod proof;
mod schema;
mod site;
mod source;
mod threshold;
mod work_kind;

pub use answer::{
    Advice, AskedNeed, Dispute, DisputeKind, DisputePosition, FiredRule, Flip, Layer, Operations,
    RuleEffect, SiteAdvice, Warning, WorkloadOnSite,
};
pub use comparison::{
    Compared, ComparedSystem, Comparison, ComparisonCell, ComparisonVerdict, CurrentSupport,
    PlaneResult, PlaneRole, SupportLevel,
};
pub use control_plane::{ControlPlane, Label, Ruleset};
pub use fact::{Contradiction, Fact, FactChanges, FactKind, FactValue, Facts};
pub use proof::{
    PROVED, ProofConclusion, ProofVerdict, ProvedKind, ProvedPlane, ProvedRole, SiteProof,
};
pub use schema::answer_schema;
pub use site::{MixEntry, SiteProfile};
pub use source::{Citation, CitedPage};
pub use threshold::{Threshold, Thresholds};
pub use work_kind::WorkKind;
