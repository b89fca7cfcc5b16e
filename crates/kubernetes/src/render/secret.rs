//! The secret of a Ray cluster, which is in an object of its own: fewer users may read that than the pods.

use muster_model::payload::TaskCommand;
use serde_json::{Value, json};

use super::JobShape;

/// Key of the secret in its object.
const KEY: &str = "token";

/// Returns the content of the object with the secret of the cluster; `None` for jobs without one.
pub(super) fn content(job: &JobShape<'_>) -> Option<Value> {
    let token = job.input.env.get(muster_ray::TOKEN).filter(|_| is_ray(job))?;
    Some(json!({KEY: token}))
}

/// Returns the variable of a container that has the secret; `None` for other variables.
pub(super) fn variable(job: &JobShape<'_>, name: &str) -> Option<Value> {
    (name == muster_ray::TOKEN && is_ray(job)).then(|| {
        let key = json!({"name": job.name, "key": KEY});
        json!({"name": name, "valueFrom": {"secretKeyRef": key}})
    })
}

fn is_ray(job: &JobShape<'_>) -> bool {
    job.input.commands.values().any(|command| matches!(command, TaskCommand::Ray(_)))
}
