//! Resource claims: how many devices of which classes a pod needs, and which ones it was given.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Value, json};

use super::DeviceId;
use super::class::ClassFacts;
use super::selector::SelectorText;
use crate::object::{Metadata, ObjectKey};
use crate::rule::SelectorTerm;

/// Most pods that may use one claim at the same time (API documentation of ResourceClaimStatus).
pub const MAX_USERS: usize = 256;

/// Request for devices within a claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceRequest {
    /// Name, unique in the claim.
    pub name: Arc<str>,
    /// Class of which the devices must be.
    pub class: Arc<str>,
    /// Expressions that a device must satisfy beside those of its class.
    pub selectors: Vec<Arc<str>>,
    /// Devices that are needed, at least one.
    pub count: u64,
}

/// Devices that a claim asks for.
#[derive(Clone, Debug, PartialEq)]
pub struct DeviceRequests {
    /// Requests, or the first term of the claim that is not supported.
    pub all: Result<Vec<DeviceRequest>, String>,
    /// Configuration for the drivers, passed on with the allocation.
    pub config: Vec<Value>,
}

/// Devices that a claim was given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AllocatedDevices {
    /// Devices that no other claim may have.
    pub devices: Vec<DeviceId>,
    /// Terms of which a node must satisfy one to reach the devices; `None` means every node does.
    pub terms: Option<Vec<SelectorTerm>>,
}

/// Resource claim, as far as scheduling reads it.
#[derive(Clone, Debug, PartialEq)]
pub struct ClaimFacts {
    /// Namespace and name of the claim.
    pub key: ObjectKey,
    /// Id that is never reused.
    pub uid: Arc<str>,
    /// Devices that it asks for.
    pub requests: DeviceRequests,
    /// Devices that it was given; `None` before that.
    pub allocated: Option<AllocatedDevices>,
    /// Ids of the pods that may use it now.
    pub users: Vec<Arc<str>>,
    /// True for a claim that something else than pods uses.
    pub has_other_users: bool,
    /// True once its deletion was requested.
    pub is_terminating: bool,
}

/// Resource claim as the API server prints it.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct ClaimText {
    /// Metadata of the claim.
    pub metadata: Metadata,
    spec: ClaimSpec,
    status: Status,
}

/// Template of claims, one for each pod that names it, as the API server prints it.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct TemplateText {
    /// Metadata of the template.
    pub metadata: Metadata,
    spec: TemplateSpec,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct TemplateSpec {
    spec: ClaimSpec,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct ClaimSpec {
    devices: Devices,
    #[serde(flatten)]
    others: BTreeMap<String, IgnoredAny>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Devices {
    requests: Vec<Request>,
    constraints: Vec<IgnoredAny>,
    config: Vec<Value>,
    #[serde(flatten)]
    others: BTreeMap<String, IgnoredAny>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Request {
    name: Arc<str>,
    exactly: Option<Exactly>,
    #[serde(flatten)]
    others: BTreeMap<String, IgnoredAny>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Exactly {
    device_class_name: Arc<str>,
    selectors: Vec<SelectorText>,
    allocation_mode: String,
    count: Option<u64>,
    admin_access: bool,
    /// Devices with taints are not used, so tolerations change nothing.
    #[serde(rename = "tolerations")]
    _tolerations: IgnoredAny,
    #[serde(flatten)]
    others: BTreeMap<String, IgnoredAny>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Status {
    allocation: Option<Allocation>,
    reserved_for: Vec<User>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Allocation {
    devices: Results,
    node_selector: Option<NodeSelector>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Results {
    results: Vec<Given>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Given {
    driver: Arc<str>,
    pool: Arc<str>,
    device: Arc<str>,
    admin_access: bool,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct NodeSelector {
    node_selector_terms: Vec<SelectorTerm>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct User {
    api_group: String,
    resource: String,
    uid: Arc<str>,
}

impl ClaimText {
    /// Returns what scheduling needs of the claim.
    #[must_use]
    pub fn facts(self) -> ClaimFacts {
        let is_pod = |user: &User| user.api_group.is_empty() && user.resource == "pods";
        let users = self.status.reserved_for;
        ClaimFacts {
            key: self.metadata.key(),
            requests: self.spec.requests(),
            allocated: self.status.allocation.map(Allocation::facts),
            has_other_users: !users.iter().all(is_pod),
            users: users.into_iter().filter(is_pod).map(|user| user.uid).collect(),
            is_terminating: self.metadata.deletion_timestamp.is_some(),
            uid: self.metadata.uid,
        }
    }
}

impl TemplateText {
    /// Returns the devices that each claim of the template asks for.
    #[must_use]
    pub fn requests(self) -> DeviceRequests {
        self.spec.spec.requests()
    }
}

impl ClaimSpec {
    fn requests(self) -> DeviceRequests {
        let not_understood = self.not_understood();
        let all = self.devices.requests.into_iter().map(Request::facts).collect();
        DeviceRequests { all: not_understood.map_or(all, Err), config: self.devices.config }
    }

    /// Returns the first term, beside the requests, that is not supported.
    fn not_understood(&self) -> Option<String> {
        if !self.devices.constraints.is_empty() {
            return Some("a resource claim with constraints between its devices".to_owned());
        }
        let field = self.others.keys().chain(self.devices.others.keys()).next()?;
        Some(format!("a resource claim with the field `{field}`"))
    }
}

impl Request {
    fn facts(self) -> Result<DeviceRequest, String> {
        let Some(exactly) = self.exactly.filter(|_| self.others.is_empty()) else {
            return Err("a resource claim with alternatives (`firstAvailable`)".to_owned());
        };
        if exactly.admin_access {
            return Err("a resource claim with `adminAccess`".to_owned());
        }
        if !matches!(exactly.allocation_mode.as_str(), "" | "ExactCount") {
            let mode = exactly.allocation_mode;
            return Err(format!("a resource claim with `allocationMode: {mode}`"));
        }
        if let Some(field) = exactly.others.keys().next() {
            return Err(format!("a resource claim with the field `{field}`"));
        }
        Ok(DeviceRequest {
            name: self.name,
            class: exactly.device_class_name,
            selectors: exactly.selectors.iter().map(SelectorText::expression).collect(),
            count: exactly.count.unwrap_or(1),
        })
    }
}

impl Allocation {
    fn facts(self) -> AllocatedDevices {
        let exclusive = self.devices.results.into_iter().filter(|given| !given.admin_access);
        AllocatedDevices {
            devices: exclusive
                .map(|given| DeviceId {
                    driver: given.driver,
                    pool: given.pool,
                    name: given.device,
                })
                .collect(),
            terms: self.node_selector.map(|selector| selector.node_selector_terms),
        }
    }
}

/// Returns the allocation of a claim as the API server takes it: these devices of one node, each with
/// the name of its request, and the configuration of classes and claim for the drivers.
#[must_use]
pub fn allocation(
    node: &str,
    chosen: &[(Arc<str>, DeviceId)],
    requests: &DeviceRequests,
    classes: &BTreeMap<Arc<str>, ClassFacts>,
) -> Value {
    let results: Vec<Value> = chosen
        .iter()
        .map(|(request, id)| {
            json!({"request": request, "driver": id.driver, "pool": id.pool, "device": id.name})
        })
        .collect();
    let asked = requests.all.as_deref().unwrap_or_default();
    let mut by_class: BTreeMap<&Arc<str>, Vec<&str>> = BTreeMap::new();
    for request in asked {
        by_class.entry(&request.class).or_default().push(&request.name);
    }
    // The claim's own comes last: drivers let later entries override earlier ones.
    let of_classes = by_class.into_iter().flat_map(|(class, names)| {
        let config = classes.get(class).map(|class| &*class.config).unwrap_or_default();
        config.iter().map(move |one| {
            let mut one = one.clone();
            one["source"] = json!("FromClass");
            one["requests"] = json!(names);
            one
        })
    });
    let of_claim = requests.config.iter().map(|one| {
        let mut one = one.clone();
        one["source"] = json!("FromClaim");
        one
    });
    let config: Vec<Value> = of_classes.chain(of_claim).collect();
    let mut devices = json!({"results": results});
    if !config.is_empty() {
        devices["config"] = json!(config);
    }
    let term = json!({"key": "metadata.name", "operator": "In", "values": [node]});
    json!({
        "devices": devices,
        "nodeSelector": {"nodeSelectorTerms": [{"matchFields": [term]}]},
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claim(spec: &Value, status: &Value) -> ClaimFacts {
        let object = json!({
            "metadata": {"name": "c", "namespace": "team", "uid": "u"},
            "spec": {"devices": spec}, "status": status,
        });
        serde_json::from_value::<ClaimText>(object).unwrap().facts()
    }

    fn gpus(count: u64) -> Value {
        json!({"requests": [{"name": "gpus", "exactly": {
            "deviceClassName": "gpu.nvidia.com", "allocationMode": "ExactCount", "count": count,
            "selectors": [{"cel": {"expression": "true"}}],
        }}]})
    }

    #[test]
    fn requests_and_devices_are_read() {
        let facts = claim(
            &gpus(2),
            &json!({
                "allocation": {
                    "devices": {"results": [
                        {"request": "gpus", "driver": "d", "pool": "a", "device": "gpu-1"},
                        {"request": "gpus", "driver": "d", "pool": "a", "device": "gpu-2", "adminAccess": true},
                    ]},
                    "nodeSelector": {"nodeSelectorTerms": [{"matchFields": [
                        {"key": "metadata.name", "operator": "In", "values": ["a"]},
                    ]}]},
                },
                "reservedFor": [{"resource": "pods", "name": "p", "uid": "p1"}],
            }),
        );
        let all = facts.requests.all.unwrap();
        assert_eq!(
            (&*all[0].class, all[0].count, all[0].selectors.len()),
            ("gpu.nvidia.com", 2, 1)
        );
        let allocated = facts.allocated.unwrap();
        // A device with administrative access stays free for others.
        assert_eq!(allocated.devices.len(), 1);
        assert_eq!(allocated.terms.unwrap().len(), 1);
        assert_eq!(facts.users, ["p1".into()]);
        assert!(!facts.has_other_users);
    }

    #[test]
    fn unsupported_terms_are_named() {
        let request = |exactly: Value| json!({"requests": [{"name": "a", "exactly": exactly}]});
        for (spec, expected) in [
            (
                request(json!({"deviceClassName": "c", "allocationMode": "All"})),
                "`allocationMode: All`",
            ),
            (request(json!({"deviceClassName": "c", "adminAccess": true})), "`adminAccess`"),
            (request(json!({"deviceClassName": "c", "capacity": {}})), "the field `capacity`"),
            (json!({"requests": [{"name": "a", "firstAvailable": []}]}), "alternatives"),
            (json!({"requests": [], "constraints": [{"matchAttribute": "x"}]}), "constraints"),
            (json!({"requests": [], "extra": 1}), "the field `extra`"),
        ] {
            let error = claim(&spec, &json!({})).requests.all.unwrap_err();
            assert!(error.contains(expected), "{spec}: {error}");
        }
    }

    #[test]
    fn an_allocation_carries_the_configuration_of_classes_and_claim() {
        let mut spec = gpus(1);
        spec["config"] =
            json!([{"requests": ["gpus"], "opaque": {"driver": "d", "parameters": {"a": 2}}}]);
        let requests = claim(&spec, &json!({})).requests;
        let class = ClassFacts {
            name: "gpu.nvidia.com".into(),
            selectors: Vec::new(),
            config: vec![json!({"opaque": {"driver": "d", "parameters": {"a": 1}}})],
        };
        let id = DeviceId { driver: "d".into(), pool: "a".into(), name: "gpu-1".into() };
        let classes = BTreeMap::from([(class.name.clone(), class)]);
        let made = allocation("a", &[("gpus".into(), id)], &requests, &classes);
        assert_eq!(
            made,
            json!({
                "devices": {
                    "results": [{"request": "gpus", "driver": "d", "pool": "a", "device": "gpu-1"}],
                    "config": [
                        {"source": "FromClass", "requests": ["gpus"], "opaque": {"driver": "d", "parameters": {"a": 1}}},
                        {"source": "FromClaim", "requests": ["gpus"], "opaque": {"driver": "d", "parameters": {"a": 2}}},
                    ],
                },
                "nodeSelector": {"nodeSelectorTerms": [{"matchFields": [
                    {"key": "metadata.name", "operator": "In", "values": ["a"]},
                ]}]},
            })
        );
    }
}
