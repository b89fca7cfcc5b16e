//! The container that fetches the files of a git repository into the working directory, before the tasks of a
//! pod start. Errors of git go to its standard error, which `muster logs` shows.

use muster_model::kubernetes::GitSource;
use serde_json::{Value, json};

use super::JobShape;

/// Volume with the credentials, and its path in the container.
pub(crate) const CREDENTIALS: &str = "git";
const CREDENTIALS_PATH: &str = "/muster/git";

/// Program of the container, which gets the address, the branch, tag or commit, and the directory. A commit
/// that the server does not give alone is fetched with all branches.
const FETCH: &str = include_str!("fetch.sh");

/// Reference of the default branch.
const DEFAULT_BRANCH: &str = "HEAD";

/// Returns the container that fetches the files to a directory, which is mounted.
pub(super) fn container(
    job: &JobShape<'_>,
    source: &GitSource,
    dir: &str,
    mount: Value,
    resources: Value,
) -> Value {
    let image = source.image.as_deref().or(job.input.options.image.as_deref());
    let reference = source.reference.as_deref().unwrap_or(DEFAULT_BRANCH);
    let mut mounts = vec![mount];
    if source.secret.is_some() {
        let path = CREDENTIALS_PATH;
        mounts.push(json!({"name": CREDENTIALS, "mountPath": path, "readOnly": true}));
    }
    json!({
        "name": "git",
        "image": image,
        "command": ["sh", "-c", FETCH, "git", &*source.url, reference, dir],
        "resources": resources,
        "volumeMounts": mounts,
    })
}

/// Returns the volume with the credentials, which only that container mounts.
pub(super) fn credentials(job: &JobShape<'_>) -> Option<Value> {
    let secret = job.input.options.git.as_ref()?.secret.as_deref()?;
    Some(json!({"name": CREDENTIALS, "secret": {"secretName": secret}}))
}

/// Returns the address and the reference that a command of such a container fetches; `None` for other
/// commands.
pub(crate) fn fetched_source<'a>(command: &[&'a str]) -> Option<(&'a str, Option<&'a str>)> {
    match *command {
        ["sh", "-c", FETCH, "git", url, reference, _] => {
            Some((url, Some(reference).filter(|reference| *reference != DEFAULT_BRANCH)))
        }
        _ => None,
    }
}
