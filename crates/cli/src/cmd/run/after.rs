//! `--after NAME`: replaces names of jobs that are already submitted by their numbers. Names of
//! documents in the same file are kept.

use std::collections::BTreeSet;

use anyhow::Result;
use muster_api::Client;
use serde_json::{Map, Value};

use crate::exit::Failure;
use crate::jobref::{self, JobOwner};

/// Kinds of dependency that may precede the jobs, as in `afterok:12`.
const KINDS: [&str; 4] = ["afterok", "afternotok", "afterany", "after"];

/// Replaces the names in the field `after` that are not names of documents.
///
/// # Errors
/// When no job of this user has such a name, or several that have not ended have it.
pub async fn resolve(
    client: &Client,
    fields: &mut Map<String, Value>,
    documents: &BTreeSet<String>,
) -> Result<()> {
    let Some(Value::Array(waits)) = fields.get_mut("after") else { return Ok(()) };
    for wait in waits {
        let Value::String(text) = wait else { continue };
        let (kind, jobs) = match text.split_once(':') {
            Some((kind, jobs)) if KINDS.contains(&kind) => (Some(kind), jobs),
            _ => (None, text.as_str()),
        };
        let mut numbers = Vec::new();
        for job in jobs.split(':') {
            let is_known = job.parse::<u64>().is_ok() || documents.contains(job) || job.is_empty();
            numbers.push(if is_known { job.to_owned() } else { number_of(client, job).await? });
        }
        let jobs = numbers.join(":");
        *text = kind.map_or(jobs.clone(), |kind| format!("{kind}:{jobs}"));
    }
    Ok(())
}

async fn number_of(client: &Client, name: &str) -> Result<String> {
    let found = jobref::by_name(client, name, JobOwner::Own).await?;
    let job = found.ok_or_else(|| {
        Failure::not_found(format!("--after {name}: none of your jobs has this name"))
            .hint("`muster ps -a` lists your jobs")
    })?;
    Ok(job.to_string())
}
