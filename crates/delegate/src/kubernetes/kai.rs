//! The release of KAI in a cluster, as far as it decides how a gang starts: releases before 0.13 start the
//! pods of a JobSet one by one, whatever it says.

use muster_kubernetes::names;
use serde_json::Value;

use super::server::ApiServer;
use super::{RequestError, Result};

/// API group of KAI's PodGroups.
const GROUP: &str = "scheduling.run.ai";

/// Field of PodGroups since KAI 0.15. 0.13 and 0.14 start JobSets as gangs, too, but have the same definitions as 0.12,
/// which does not.
const FIELD: &str = "minSubGroup";

/// Refuses gangs that this cluster's KAI may start in part: their objects are the same in all releases.
pub(super) async fn check_release(
    server: &ApiServer,
    mut jobs: impl Iterator<Item = (&str, &Value)>,
) -> Result<()> {
    let is_gang = |main: &Value| {
        main["kind"] == "JobSet"
            && main["metadata"]["annotations"][names::KAI_MIN_MEMBER].is_string()
    };
    let Some((name, _)) = jobs.find(|(_, main)| is_gang(main)) else { return Ok(()) };
    let Some(version) = server.versions(GROUP, "podgroups").first() else { return Ok(()) };
    let described = server.get(&format!("/openapi/v3/apis/{version}")).await?;
    if !described.as_ref().is_some_and(is_old) {
        return Ok(());
    }
    Err(RequestError::refused(format!(
        "`{name}` could start pod by pod: the KAI of this cluster is older than 0.15, and releases before 0.13 start no JobSet as a gang"
    ))
    .hint("an administrator can install a newer release"))
}

/// Returns true if the PodGroups that an API server describes are those of an old release.
fn is_old(described: &Value) -> bool {
    let schemas = described["components"]["schemas"].as_object().into_iter().flatten();
    let mut groups = schemas.filter(|(name, _)| name.ends_with(".PodGroup"));
    groups.any(|(_, schema)| {
        let fields = schema.pointer("/properties/spec/properties");
        fields.is_some_and(|fields| fields.get(FIELD).is_none())
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_release_is_known_by_the_fields_of_its_groups() {
        let described = |fields: Value| {
            let spec = json!({"properties": {"spec": {"properties": fields}}});
            json!({"components": {"schemas": {"ai.run.scheduling.v2alpha2.PodGroup": spec}}})
        };
        let field = json!({"type": "integer"});
        assert!(is_old(&described(json!({"minMember": field}))));
        assert!(!is_old(&described(json!({"minMember": field, FIELD: field}))));
        // Nothing is known of it.
        assert!(!is_old(&json!({"components": {"schemas": {}}})));
    }
}
