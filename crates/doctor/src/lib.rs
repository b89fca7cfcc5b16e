//! Checks of a cluster's configuration and of one job's placement: evidence in, findings out. The
//! rules are closed, ordered lists of data. This crate reads no files and queries no cluster.

#![cfg_attr(test, allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test"))]

mod baseline;
mod conf;
mod document;
mod entries;
mod evidence;
mod grammar;
pub mod job;
mod kubernetes;
pub mod prove;
mod report;
mod rule;
mod rules;
mod sarif;
mod source;

pub use baseline::{baseline, known_in};
pub use document::{document, explain, ids};
pub use entries::{ConfEntry, TopologySwitch};
pub use evidence::Evidence;
pub use kubernetes::kubernetes_nodes;
pub use report::check;
pub use rule::minutes;
pub use sarif::sarif;
pub use source::{CheckSource, SourceKind, includes};
