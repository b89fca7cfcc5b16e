//! What is wrong with a cluster, and with one job's place in it: evidence in, findings out. The
//! rules are closed, ordered lists of data. This crate reads no files and asks no cluster.

#![cfg_attr(test, allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test"))]

mod baseline;
mod conf;
mod document;
mod evidence;
mod grammar;
pub mod hosts;
pub mod job;
mod judge;
mod kubernetes;
pub mod prove;
mod rule;
mod rules;
mod sarif;
mod source;
mod told;

pub use baseline::{baseline, known_in};
pub use document::{document, explain, ids};
pub use evidence::Evidence;
pub use judge::check;
pub use kubernetes::kubernetes_nodes;
pub use rule::minutes;
pub use sarif::sarif;
pub use source::{Source, SourceKind, includes};
pub use told::{Entry, Switch};
