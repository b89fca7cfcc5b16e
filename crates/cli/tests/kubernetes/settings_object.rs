//! Objects of Muster's own kinds in the test cluster: queues and advance reservations.

use serde_json::{Value, json};

use crate::cluster::{KubernetesCluster, success};

/// Object of the cluster, deleted when dropped.
pub struct SettingsObject<'a> {
    cluster: &'a KubernetesCluster,
    kind: &'static str,
    name: &'static str,
}

impl<'a> SettingsObject<'a> {
    /// Creates an object of this kind and name, or changes it.
    pub fn apply(
        cluster: &'a KubernetesCluster,
        kind: &'static str,
        name: &'static str,
        spec: &Value,
    ) -> Self {
        let object = Self { cluster, kind, name };
        object.change(spec);
        object
    }

    pub fn change(&self, spec: &Value) {
        let object = json!({
            "apiVersion": "muster.run/v1alpha1",
            "kind": self.kind,
            "metadata": {"name": self.name},
            "spec": spec,
        });
        let words = ["apply", "--filename=-"];
        success(&words, &self.cluster.kubectl_with(&words, &object.to_string()));
    }

    pub fn status(&self) -> Value {
        self.cluster.get(&[&self.resource(), self.name])["status"].clone()
    }

    /// Returns why its settings are in force or not; empty before it has a status.
    pub fn message(&self) -> String {
        let condition = &self.status()["conditions"][0]["message"];
        condition.as_str().unwrap_or_default().to_owned()
    }

    /// Returns the kind with its group: other systems have queues, too.
    fn resource(&self) -> String {
        format!("{}.muster.run", self.kind.to_ascii_lowercase())
    }
}

impl Drop for SettingsObject<'_> {
    fn drop(&mut self) {
        self.cluster.kubectl_with(&["delete", &self.resource(), self.name], "");
    }
}
