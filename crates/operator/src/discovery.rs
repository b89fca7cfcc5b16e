//! What a cluster serves: its API groups with all their resources, in one request.

use kube::Client;
use kube::core::Status;
use kube::core::discovery::v2::APIGroupDiscovery;

use crate::error::code;

/// HTTP status of a server that does not know the form of answer.
const NOT_ACCEPTABLE: u16 = 406;

/// API groups that a cluster serves.
pub(crate) struct Discovery(Vec<APIGroupDiscovery>);

impl Discovery {
    /// Asks an API server what it serves.
    ///
    /// # Errors
    /// If it does not answer, or is older than Kubernetes 1.30.
    pub(crate) async fn of(client: &Client) -> Result<Self, kube::Error> {
        let groups = match client.list_api_groups_aggregated().await {
            Ok(list) => list.items,
            Err(error) if code(&error) == Some(NOT_ACCEPTABLE) => Vec::new(),
            Err(error) => return Err(error),
        };
        // An older server refuses this form, or answers in one of its own, in which no group is found. All serve some.
        if groups.is_empty() {
            let text = "the API server cannot list all resources in one answer: Muster needs Kubernetes 1.30 or later";
            let status = Status::failure(text, "NotAcceptable").with_code(NOT_ACCEPTABLE);
            return Err(kube::Error::Api(Box::new(status)));
        }
        Ok(Self(groups))
    }

    /// Returns true if the cluster serves any version of an API group.
    pub(crate) fn has_group(&self, name: &str) -> bool {
        self.group(name).next().is_some()
    }

    /// Returns the versions of an API group, the preferred one first.
    pub(crate) fn versions(&self, name: &str) -> impl Iterator<Item = &str> {
        let versions = self.group(name).flat_map(|group| &group.versions);
        versions.filter_map(|version| version.version.as_deref())
    }

    /// Returns true if a resource is served, which is named by its plural.
    pub(crate) fn serves(&self, group: &str, version: &str, plural: &str) -> bool {
        let versions = self.group(group).flat_map(|group| &group.versions);
        versions
            .filter(|one| one.version.as_deref() == Some(version))
            .flat_map(|one| &one.resources)
            .any(|resource| resource.resource.as_deref() == Some(plural))
    }

    fn group(&self, name: &str) -> impl Iterator<Item = &APIGroupDiscovery> {
        self.0.iter().filter(move |group| {
            group.metadata.as_ref().is_some_and(|it| it.name.as_deref() == Some(name))
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::error::message;
    use crate::fake_server::{Answer, ServerScript};

    #[tokio::test]
    async fn resources_are_found_by_group_and_version() {
        let answer = json!({"items": [{
            "metadata": {"name": "batch"},
            "versions": [{"version": "v1", "resources": [{"resource": "jobs"}]}, {"version": "v1beta1"}],
        }]});
        let (client, _script) = ServerScript::client([Answer::object("GET /apis", &answer)]);
        let discovery = Discovery::of(&client).await.unwrap();
        assert_eq!(discovery.versions("batch").collect::<Vec<_>>(), ["v1", "v1beta1"]);
        assert!(discovery.has_group("batch") && !discovery.has_group("apps"));
        assert!(discovery.serves("batch", "v1", "jobs"));
        assert!(!discovery.serves("batch", "v1beta1", "jobs"));
    }

    #[tokio::test]
    async fn an_api_server_that_is_too_old_is_refused() {
        let groups = json!({"kind": "APIGroupList", "groups": [{"name": "batch"}]});
        for answer in [Answer::object("GET /apis", &groups), Answer::refusal("GET /apis", 406)] {
            let (client, _script) = ServerScript::client([answer]);
            let error = Discovery::of(&client).await.err().expect("it is too old");
            assert!(message(&error).contains("Kubernetes 1.30 or later"), "{error}");
        }
    }
}
