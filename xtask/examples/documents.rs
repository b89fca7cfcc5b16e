//! Prints a document that a crate generates from its types: `documents
//! openapi|job|queues|cluster|facts|site|chart`. An example rather than a part of xtask, so that xtask
//! itself links no other crate and compiles in seconds.

use std::process::ExitCode;

use serde_json::Value;

fn main() -> ExitCode {
    let name = std::env::args().nth(1).unwrap_or_default();
    if name == "chart" {
        print!("{}", muster_kubernetes::manifest::chart_template(&muster_spec::queues_schema()));
        return ExitCode::SUCCESS;
    }
    match document(&name) {
        Some(document) => {
            println!("{document:#}");
            ExitCode::SUCCESS
        }
        None => {
            eprintln!(
                "error: unknown document `{name}`\nhint: openapi, job, queues, cluster, facts, site or chart"
            );
            ExitCode::FAILURE
        }
    }
}

fn document(name: &str) -> Option<Value> {
    match name {
        "openapi" => Some(muster_api::openapi::document()),
        "job" => Some(muster_spec::schema()),
        "queues" => Some(muster_spec::queues_schema()),
        "cluster" => Some(muster_spec::cluster_schema()),
        "facts" => Some(muster_spec::facts_schema()),
        "site" => Some(muster_spec::site_schema()),
        _ => None,
    }
}
