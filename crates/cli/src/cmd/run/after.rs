//! `--after NAME`: names of jobs that are submitted already become their numbers. Names of
//! documents in the same file stay.

use std::collections::BTreeSet;

use anyhow::Result;
use muster_api::Client;
use serde_json::{Map, Value};

use crate::exit::Failure;
use crate::jobref::{self, Owner};

/// What may stand before the jobs.
const KINDS: [&str; 4] = ["afterok", "afternotok", "afterany", "after"];

/// Replaces the names of the field `after` that no document has.
///
/// # Errors
/// When no job of this user has a name, or several that have not ended.
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
            numbers.push(match is_known {
                true => job.to_owned(),
                false => number_of(client, job).await?,
            });
        }
        let jobs = numbers.join(":");
        *text = kind.map_or(jobs.clone(), |kind| format!("{kind}:{jobs}"));
    }
    Ok(())
}

async fn number_of(client: &Client, name: &str) -> Result<String> {
    let found = jobref::by_name(client, name, Owner::Own).await?;
    let job = found.ok_or_else(|| {
        Failure::not_found(format!("none of your jobs is called `{name}`, which --after names"))
            .hint("`muster ps -a` lists them; a number is taken as it is")
    })?;
    Ok(job.to_string())
}
