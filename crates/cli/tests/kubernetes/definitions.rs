//! Definitions of the objects of other projects: as published, read from `shared/crds` beside the
//! repository where that is. Where it is not, a definition without a schema stands in.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::cluster::{KubernetesCluster, success, until};

/// Kind of object of another project.
pub struct Definition {
    pub group: &'static str,
    pub version: &'static str,
    pub kind: &'static str,
    pub plural: &'static str,
    /// `Namespaced`, or `Cluster` for objects without a namespace.
    pub scope: &'static str,
    /// File with the published definition.
    pub published: Option<&'static str>,
}

/// Returns the folder of published definitions, or says that it is not there.
fn folder() -> Option<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(3)?.join("shared/crds");
    if folder.is_dir() {
        return Some(folder);
    }
    println!("no {}: definitions without a schema stand in", folder.display());
    None
}

impl Definition {
    /// Installs the published definition, or one that accepts any object, and waits until it is served.
    pub fn install(&self, cluster: &KubernetesCluster) {
        let name = format!("{}.{}", self.plural, self.group);
        match self.published.and_then(|file| Some(folder()?.join(file))) {
            Some(file) => {
                let file = format!("--filename={}", file.display());
                cluster.kubectl(&["apply", "--server-side", &file]);
            }
            None => {
                let words = ["apply", "--filename=-"];
                let output = cluster.kubectl_with(&words, &self.stand_in(&name).to_string());
                success(&words, &output);
            }
        }
        // `kubectl wait` fails on an object that has no conditions yet.
        until("the definition is served", || {
            let definition = cluster.get(&["customresourcedefinition", &name]);
            let conditions = definition["status"]["conditions"].as_array().cloned();
            let is_established =
                |one: &Value| one["type"] == "Established" && one["status"] == "True";
            conditions.unwrap_or_default().iter().any(is_established)
        });
    }

    fn stand_in(&self, name: &str) -> Value {
        let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
        json!({
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            // The API server rejects definitions of groups in `k8s.io` without this annotation.
            "metadata": {"name": name, "annotations": {"api-approved.kubernetes.io": "unapproved, for tests"}},
            "spec": {
                "group": self.group,
                "scope": self.scope,
                "names": {"kind": self.kind, "plural": self.plural, "singular": self.kind.to_lowercase()},
                "versions": [{
                    "name": self.version, "served": true, "storage": true,
                    "subresources": {"status": {}},
                    "schema": {"openAPIV3Schema": schema},
                }],
            },
        })
    }
}
