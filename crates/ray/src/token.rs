//! The secret by which the nodes of a cluster, its program and its users know each other. Without one,
//! every user who reaches the head can run programs as the user of the job.

use std::collections::BTreeMap;
use std::sync::Arc;

use muster_model::payload::TaskCommand;

/// Variable of Ray with the secret (since Ray 2.52).
pub const TOKEN: &str = "RAY_AUTH_TOKEN";

/// Sets the secret of a cluster that has none in its environment: 32 hexadecimal digits from
/// random bytes.
///
/// # Errors
///
/// Returns the error of the random source.
pub fn set_token<E>(
    env: &mut BTreeMap<String, String>,
    commands: &BTreeMap<Arc<str>, TaskCommand>,
    fill: impl FnOnce(&mut [u8]) -> Result<(), E>,
) -> Result<(), E> {
    if commands.values().any(begins_cluster) && !env.contains_key(TOKEN) {
        let mut secret = [0; 16];
        fill(&mut secret)?;
        env.insert(TOKEN.to_owned(), format!("{:032x}", u128::from_be_bytes(secret)));
    }
    Ok(())
}

/// Returns true for a node of a cluster of the job's own, not of one that it joins.
#[must_use]
pub fn begins_cluster(command: &TaskCommand) -> bool {
    matches!(command, TaskCommand::Ray(task) if task.join.is_none())
}
