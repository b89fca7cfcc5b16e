//! Checks of a cluster's configuration and of one job's placement: evidence in, findings out. The
//! rules are closed, ordered lists of data. `slurm` collects the evidence from the text of a cluster,
//! `kubernetes` reads its objects, and `ray` judges the processes of a machine; this crate reads no files
//! and queries no cluster.

#![cfg_attr(test, allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test"))]

mod baseline;
mod document;
pub mod job;
pub mod kubernetes;
pub mod prove;
pub mod ray;
mod report;
mod rule;
mod rules;
mod sarif;

pub use baseline::{baseline, known_in};
pub use document::{
    document, explain, kubernetes_rule_texts, ray_host_rule_texts, ray_object_rule_texts,
    rule_texts,
};
pub use kubernetes::kubernetes_nodes;
pub use report::{
    check, check_kubernetes, check_ray_host, check_ray_objects, check_ray_scripts, failed_rules,
    of_import,
};
pub use rule::RuleText;
pub use sarif::sarif;
