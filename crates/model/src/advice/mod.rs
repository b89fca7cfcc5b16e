//! The vocabulary of advice: facts, thresholds, control planes, sources, and the answer that people
//! and programs are shown. Which facts lead to which answer is decided in `advise`; nothing here
//! decides.

mod answer;
mod comparison;
mod fact;
mod plane;
mod proof;
mod schema;
mod site;
mod source;
mod threshold;

pub use answer::{
    Advice, Changes, Dispute, DisputeKind, FiredRule, Flip, Layer, Operations, Position,
    RuleEffect, SiteAdvice, Warning, WorkloadOnSite,
};
pub use comparison::{Cell, Compared, Comparison, Fare, Role, Standing, Today, Verdict};
pub use fact::{Contradiction, Fact, Facts, Kind, Value};
pub use plane::{Label, Plane, Ruleset};
pub use proof::{PROVED, ProofSays, ProofVerdict, ProvedKind, ProvedPlane, ProvedRole, SiteProof};
pub use schema::answer_schema;
pub use site::{MixEntry, SiteProfile};
pub use source::{Page, Source};
pub use threshold::{Threshold, Thresholds};
