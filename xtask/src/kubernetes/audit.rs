//! The audit log of a test cluster: which rights a service account used, compared with those that its roles give
//! it. A right that no test uses may be one too many.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde_json::{Deserializer, Value};

use super::cluster::KubernetesTestCluster;

/// Policy that records the requests of one account, without their bodies.
const POLICY: &str = include_str!("conf/audit.yaml");
/// Answer to a request without the right to it.
const FORBIDDEN: u64 = 403;

/// Rights that the API server checks beside those of another request, so that no request of its own uses them:
/// resource, subresource, verb.
const CHECKED_BESIDE: [(&str, &str, &str); 1] =
    [("resourceclaims.resource.k8s.io", "binding", "update")];

/// Right to one kind of request.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct AccessRight {
    /// API group and resource, such as `pods` or `leases.coordination.k8s.io`, without a subresource.
    resource: String,
    /// Part of the resource, such as `status`; empty for the resource itself.
    subresource: String,
    verb: String,
}

/// Rights of an account in test clusters.
#[derive(Debug, Default)]
pub struct RightsAudit {
    given: BTreeSet<AccessRight>,
    used: BTreeSet<AccessRight>,
    /// Resources that a cluster serves.
    served: BTreeSet<String>,
}

/// Writes the policy of the API server that records the requests of an account, `NAMESPACE/NAME`.
pub fn write_policy(cluster: &KubernetesTestCluster, account: &str) -> Result<()> {
    let user = format!("system:serviceaccount:{}", account.replace('/', ":"));
    fs::write(cluster.dir().join("etc/audit.yaml"), POLICY.replace("{user}", &user))?;
    Ok(())
}

/// Options of the API server for an audited account.
pub const API_SERVER: &str = "--audit-policy-file={dir}/etc/audit.yaml --audit-log-path={dir}/log/audit.log --audit-log-maxsize=4000";

impl RightsAudit {
    /// Adds the rights that manifests give in roles of this name. `manifests` is a file in the cluster's folder.
    pub fn add_given(
        &mut self,
        cluster: &KubernetesTestCluster,
        manifests: &Path,
        role: &str,
    ) -> Result<()> {
        let file = format!("--filename={}", manifests.display());
        let words = ["kubectl", "create", "--dry-run=client", "--output=json", &file];
        let text = cluster.run(&words)?;
        let mut rights = Vec::new();
        for object in Deserializer::from_str(&text).into_iter::<Value>() {
            let object = object.context("kubectl printed no JSON")?;
            let items = object["items"].as_array().cloned().unwrap_or_else(|| vec![object]);
            let roles = items.iter().filter(|one| one["metadata"]["name"] == role);
            rights.extend(roles.flat_map(rights_of));
        }
        ensure!(
            !rights.is_empty(),
            "the manifests have no role {role}: adapt ROLE in xtask/src/kubernetes/test.rs"
        );
        self.given.extend(rights);
        Ok(())
    }

    /// Adds the requests of a cluster that ran, and what it serves.
    pub fn add_cluster(&mut self, cluster: &KubernetesTestCluster) -> Result<()> {
        let log = fs::read_to_string(cluster.dir().join("log/audit.log"))?;
        self.used.extend(log.lines().filter_map(used_right));
        let served = cluster.run(&["kubectl", "api-resources", "--output=name"])?;
        self.served.extend(served.lines().map(str::to_owned));
        Ok(())
    }

    /// Returns the rights that were not used although the clusters serve the resource.
    pub fn superfluous(&self) -> Vec<String> {
        self.unused().filter(|right| self.is_known(right)).map(AccessRight::text).collect()
    }

    /// Returns the rights that could not be used: no cluster serves the resource.
    pub fn untested(&self) -> Vec<String> {
        self.unused().filter(|right| !self.is_known(right)).map(AccessRight::text).collect()
    }

    fn unused(&self) -> impl Iterator<Item = &AccessRight> {
        self.given.difference(&self.used).filter(|right| !right.is_checked_beside())
    }

    /// Returns true if a cluster serves the resource, or has served it.
    fn is_known(&self, right: &AccessRight) -> bool {
        self.served.contains(&right.resource)
            || self.used.iter().any(|used| used.resource == right.resource)
    }
}

impl AccessRight {
    fn new(group: &str, resource: &str, subresource: &str, verb: &str) -> Self {
        let dot = if group.is_empty() { "" } else { "." };
        Self {
            resource: format!("{resource}{dot}{group}"),
            subresource: subresource.to_owned(),
            verb: verb.to_owned(),
        }
    }

    fn is_checked_beside(&self) -> bool {
        CHECKED_BESIDE.contains(&(&self.resource, &self.subresource, &self.verb))
    }

    fn text(&self) -> String {
        let Self { resource, subresource, verb } = self;
        match subresource.as_str() {
            "" => format!("{verb} {resource}"),
            part => format!("{verb} {resource}/{part}"),
        }
    }
}

/// Returns the rights of a role.
fn rights_of(role: &Value) -> Vec<AccessRight> {
    let texts = |value: &Value| -> Vec<String> {
        let list = value.as_array().into_iter().flatten();
        list.filter_map(|one| one.as_str().map(str::to_owned)).collect()
    };
    let mut rights = Vec::new();
    for rule in role["rules"].as_array().into_iter().flatten() {
        for group in texts(&rule["apiGroups"]) {
            for resource in texts(&rule["resources"]) {
                let (name, part) = resource.split_once('/').unwrap_or((&resource, ""));
                let verbs = texts(&rule["verbs"]);
                rights.extend(verbs.iter().map(|verb| AccessRight::new(&group, name, part, verb)));
            }
        }
    }
    rights
}

/// Returns the right that a line of the audit log used.
fn used_right(line: &str) -> Option<AccessRight> {
    let event: Value = serde_json::from_str(line).ok()?;
    if event["responseStatus"]["code"].as_u64() == Some(FORBIDDEN) {
        return None;
    }
    let object = &event["objectRef"];
    Some(AccessRight::new(
        object["apiGroup"].as_str().unwrap_or_default(),
        object["resource"].as_str()?,
        object["subresource"].as_str().unwrap_or_default(),
        event["verb"].as_str()?,
    ))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn event(verb: &str, object: Value, code: u64) -> String {
        json!({"verb": verb, "objectRef": object, "responseStatus": {"code": code}}).to_string()
    }

    #[test]
    fn unused_rights_are_found() {
        let role = json!({"rules": [
            {"apiGroups": [""], "resources": ["pods", "pods/status"], "verbs": ["list", "patch"]},
            {"apiGroups": ["example.com"], "resources": ["things"], "verbs": ["get"]},
            {"apiGroups": ["resource.k8s.io"], "resources": ["resourceclaims/binding"], "verbs": ["update"]},
        ]});
        let used = [
            event("list", json!({"resource": "pods"}), 200),
            event("patch", json!({"resource": "pods", "subresource": "status"}), 409),
            // A refused request uses no right.
            event("patch", json!({"resource": "pods"}), 403),
            "a line that is torn".to_owned(),
        ];
        let audit = RightsAudit {
            given: rights_of(&role).into_iter().collect(),
            used: used.iter().filter_map(|line| used_right(line)).collect(),
            served: BTreeSet::new(),
        };
        assert_eq!(audit.superfluous(), ["patch pods", "list pods/status"]);
        assert_eq!(audit.untested(), ["get things.example.com"]);
    }
}
