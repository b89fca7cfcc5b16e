//! Which control plane fits a workload or a site: facts in, a label with its reasons, warnings,
//! flips and disputes out. The rules are closed, ordered lists of data; one evaluator reads them.
//! This crate reads no files, renders no output and does not see running jobs.

#![cfg_attr(test, allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test"))]

mod case;
mod compare;
mod condition;
mod conventions;
mod decide;
mod disputes;
mod document;
mod flips;
mod from_job;
pub mod gpus;
mod list;
mod overrides;
mod rule;
mod site;
mod warnings;
mod workload;

pub use compare::compare;
pub use conventions::conventions;
pub use document::{anchors, doc_link, document};
pub use from_job::{UNSEEN, facts_of};
pub use site::{Route, Undecided, advise_site, label_site, route, route_targets};
pub use workload::{advise, label};
