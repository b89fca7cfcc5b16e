//! Names of users, jobs and nodes in an answer: snapshots have numbers in their place.

use std::collections::BTreeMap;

use anyhow::Result;
use muster_api::Client;
use muster_api::query::JobFilter;
use muster_model::JobId;
use muster_model::simulation::WhatIf;
use serde_json::Value;

use crate::exit::Failure;

/// Replaces the numbers in an answer by names.
pub async fn with_names(
    client: &Client,
    answer: WhatIf,
    names: &BTreeMap<String, String>,
) -> Result<WhatIf> {
    let mut value = serde_json::to_value(answer)?;
    rename(&mut value, names);
    let mut answer: WhatIf = serde_json::from_value(value)?;
    let jobs = client.jobs(JobFilter::default()).await.map_err(Failure::from)?.jobs;
    let jobs: BTreeMap<JobId, String> = jobs.into_iter().map(|job| (job.job, job.name)).collect();
    for waiting in &mut answer.waiting {
        waiting.name = jobs.get(&waiting.job).cloned().unwrap_or_default();
    }
    Ok(answer)
}

/// Replaces every string that is the number of a name.
fn rename(value: &mut Value, names: &BTreeMap<String, String>) {
    match value {
        Value::String(text) => {
            if let Some(name) = names.get(text) {
                text.clone_from(name);
            }
        }
        Value::Array(values) => values.iter_mut().for_each(|value| rename(value, names)),
        Value::Object(fields) => fields.values_mut().for_each(|value| rename(value, names)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}
