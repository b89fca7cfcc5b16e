//! Queues above a job, as the queue file in force names them.

use muster_model::QueueSpec;

use super::{Ledger, LedgerJob};

/// Returns the queues above a job, from the top; jobs of a removed queue are in the default queue.
pub(crate) fn path_of<'a>(ledger: &'a Ledger, job: &LedgerJob) -> Vec<(String, &'a QueueSpec)> {
    let walk = |path: &str| {
        let mut level = &ledger.queues.queues;
        let mut found = Vec::new();
        let mut name = String::new();
        for part in path.split('/') {
            let queue = level.iter().find(|queue| *queue.name == *part)?;
            name = if name.is_empty() { part.to_owned() } else { format!("{name}/{part}") };
            found.push((name.clone(), queue));
            level = &queue.queues;
        }
        level.is_empty().then_some(found)
    };
    walk(job.leaf.as_str())
        .or_else(|| walk(ledger.queues.default_queue.as_str()))
        .unwrap_or_default()
}
