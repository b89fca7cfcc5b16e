//! Takes the snapshot of a Kubernetes cluster: from the API server, or from files; and writes one to
//! files. `muster-doctor` reads the text, and judges the objects.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Result;
use muster_delegate::kubernetes::{CheckedCluster, ListAnswer};
use muster_doctor::kubernetes::resource::Resource;
use muster_doctor::kubernetes::{DumpError, Snapshot, add_dump};
use muster_model::Time;
use serde_json::{Value, json};

use crate::exit::Failure;
use crate::output_files;
use crate::source::{text, unreadable};

/// Largest file in bytes that is read: a pod is some 10 KB, so these are the pods of a cluster of the
/// largest size that Kubernetes supports (150,000).
const MAX_BYTES: u64 = 2 << 30;

/// Greatest depth of folders: `kubectl cluster-info dump` writes one folder for each namespace.
const MAX_DEPTH: usize = 2;

/// Variable of Kubeflow's notebook controller that a rule reads.
const CULLING: &str = "ENABLE_CULLING";

const HINT: &str = "`kubectl get nodes,pods -A -o json` and `kubectl cluster-info dump` print such files; `muster check kubernetes --save DIR` writes all that the rules read";

/// Lists a cluster, which is that of a context.
pub async fn live(cluster: &CheckedCluster, context: Option<&str>) -> Snapshot {
    let resources: Vec<Resource> = Resource::all().collect();
    let kinds: Vec<(&str, &str)> = resources.iter().map(|one| (one.group, one.plural)).collect();
    let answers = cluster.list(&kinds).await;
    let mut snapshot = Snapshot::default();
    snapshot.at = Some(now());
    snapshot.read.push(match context {
        Some(context) => format!("the cluster of context {context}"),
        None => "the cluster".to_owned(),
    });
    for (resource, answer) in resources.into_iter().zip(answers) {
        match answer {
            ListAnswer::Listed { api_version, mut objects } => {
                for object in &mut objects {
                    object["apiVersion"] = json!(api_version);
                    object["kind"] = json!(resource.kind);
                }
                snapshot.add(resource, objects);
            }
            ListAnswer::NotServed => snapshot.add(resource, Vec::new()),
            ListAnswer::Forbidden => {
                snapshot.set_unread(resource, format!("the right to list {}", resource.full_name()))
            }
            ListAnswer::Failed(why) => {
                snapshot.set_unread(resource, format!("a list of {}: {why}", resource.full_name()))
            }
        }
    }
    snapshot
}

fn now() -> Time {
    Time(u64::try_from(jiff::Timestamp::now().as_millisecond()).unwrap_or(0))
}

/// Reads files, and the files of folders.
pub fn of_files(paths: &[PathBuf]) -> Result<Snapshot> {
    let mut snapshot = Snapshot::default();
    for path in paths {
        if path.is_dir() {
            let before = snapshot.read.len();
            add_folder(&mut snapshot, path, MAX_DEPTH)?;
            if snapshot.read.len() == before {
                let what = format!("{} contains no file with objects", path.display());
                return Err(Failure::usage(what).hint(HINT).into());
            }
            snapshot.read.truncate(before);
            snapshot.read.push(path.display().to_string());
        } else {
            add_file(&mut snapshot, path)?;
        }
    }
    Ok(snapshot)
}

/// Reads the files of a folder that end in `.json`, manifests in those that end in `.yaml`, and the files of
/// its folders.
fn add_folder(snapshot: &mut Snapshot, folder: &Path, depth: usize) -> Result<()> {
    let entries = fs::read_dir(folder).map_err(|error| unreadable(folder, &error))?;
    let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    paths.sort();
    for path in paths {
        if path.is_dir() && depth > 0 {
            add_folder(snapshot, &path, depth - 1)?;
        } else if path.is_file() && has_extension(&path, &["json"]) {
            add_file(snapshot, &path)?;
        } else if path.is_file() && has_extension(&path, &["yaml", "yml"]) {
            // Beside manifests there are values of charts and the like.
            let (name, text) = text(&path, MAX_BYTES)?;
            if add_dump(snapshot, "", &text).is_ok() {
                snapshot.read.push(name);
            }
        }
    }
    Ok(())
}

fn has_extension(path: &Path, among: &[&str]) -> bool {
    path.extension().and_then(|one| one.to_str()).is_some_and(|one| among.contains(&one))
}

fn add_file(snapshot: &mut Snapshot, path: &Path) -> Result<()> {
    let (name, text) = text(path, MAX_BYTES)?;
    let stem = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
    add_dump(snapshot, stem, &text).map_err(|error| {
        Failure::usage(match error {
            DumpError::NotJson(why) => format!("{name} is not JSON: {why}"),
            DumpError::NotYaml(why) => format!("{name} is neither JSON nor YAML: {why}"),
            DumpError::NoObject => format!("{name} holds no object of Kubernetes"),
        })
        .hint(HINT)
    })?;
    snapshot.read.push(name);
    Ok(())
}

/// Writes the lists to files of a folder, one for each kind. A kind that could not be listed has no
/// file, so that it stays unknown. Left out is what no rule reads and what may be a secret.
pub fn save(snapshot: &Snapshot, dir: &Path) -> Result<()> {
    let files: Vec<(String, String)> = snapshot
        .lists()
        .map(|(resource, objects)| {
            let mut objects = objects.to_vec();
            objects.iter_mut().for_each(remove_private);
            let list = json!({"apiVersion": "v1", "kind": "List", "items": objects});
            (format!("{}.json", resource.full_name()), format!("{list}\n"))
        })
        .collect();
    let files: Vec<(&str, String)> =
        files.iter().map(|(name, text)| (name.as_str(), text.clone())).collect();
    output_files::write_all(dir, &files, true)
}

/// Removes from an object the values of environment variables, but for the one that a rule reads, and the
/// copies of them in its metadata.
fn remove_private(object: &mut Value) {
    // An index would add a field that is missing.
    if let Some(metadata) = object.pointer_mut("/metadata").and_then(Value::as_object_mut) {
        metadata.remove("managedFields");
    }
    let annotations = object.pointer_mut("/metadata/annotations").and_then(Value::as_object_mut);
    if let Some(annotations) = annotations {
        annotations.remove("kubectl.kubernetes.io/last-applied-configuration");
    }
    remove_env_values(object);
}

fn remove_env_values(value: &mut Value) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(remove_env_values),
        Value::Object(fields) => {
            let variables = fields.get_mut("env").and_then(Value::as_array_mut);
            for variable in variables.into_iter().flatten() {
                if variable["name"] != CULLING
                    && let Some(variable) = variable.as_object_mut()
                {
                    variable.remove("value");
                }
            }
            fields.values_mut().for_each(remove_env_values);
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_variables_are_not_saved() {
        let container = json!({"name": "main", "env": [
            {"name": "TOKEN", "value": "secret"}, {"name": CULLING, "value": "true"},
        ]});
        let pod = |container: &Value| {
            json!({
                "metadata": {
                    "name": "a", "managedFields": [{}],
                    "annotations": {"kubectl.kubernetes.io/last-applied-configuration": "secret", "kept": "x"},
                },
                "spec": {"containers": [container]},
            })
        };
        let mut object =
            json!({"metadata": {"name": "job"}, "spec": {"template": pod(&container)}});
        let mut alone = pod(&container);
        remove_private(&mut object);
        remove_private(&mut alone);
        for text in [object.to_string(), alone.to_string()] {
            assert!(text.contains(r#"{"name":"ENABLE_CULLING","value":"true"}"#), "{text}");
            assert!(text.contains(r#"{"name":"TOKEN"}"#), "{text}");
        }
        assert!(!alone.to_string().contains("secret"), "{alone}");
        assert_eq!(object["metadata"], json!({"name": "job"}));
        assert!(alone["metadata"].get("managedFields").is_none());
    }
}
