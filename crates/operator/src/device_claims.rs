//! Claims of devices on the API server: they get their devices and their pod before the pod gets its
//! node, since the kubelet starts no pod whose claims are not reserved for it.

use http::Method;
use muster_kubernetes::device;
use muster_model::NodeName;
use muster_scheduler::{ClaimBinding, ClaimId, Observation, PodId};
use serde_json::{Value, json};

use crate::actions::{Executor, FIRST_PAUSE, seconds};
use crate::address::{get, merge, with_body};
use crate::error::{code, is_transient, message};

/// Finalizer by which a claim with devices is kept until they are free (API documentation of
/// ResourceClaim).
const FINALIZER: &str = "resource.kubernetes.io/delete-protection";

/// Outcome of one try to change a claim.
enum Change {
    /// The claim is as it should be.
    Done,
    /// Reason for which it cannot be so, for users.
    Refused(String),
}

impl Executor {
    /// Binds a pod after its claims have devices. Where one gets none, or the binding is refused, the
    /// claims that only this pod has lose theirs again.
    pub(crate) async fn bind_with(
        &self,
        pod: &PodId,
        node: &NodeName,
        claims: &[ClaimBinding],
        told: &Value,
    ) -> Observation {
        for claim in claims {
            if let Err(error) = self.reserve(pod, claim).await {
                let key = &claim.claim.key;
                tracing::warn!("the resource claim {key} cannot be reserved for {pod}: {error}");
                self.free_all(pod, claims).await;
                return Observation::BindRefused(pod.clone(), error.into());
            }
        }
        let answer = self.bind(pod, node, told).await;
        if matches!(answer, Observation::BindRefused(..)) {
            self.free_all(pod, claims).await;
        }
        answer
    }

    async fn free_all(&self, pod: &PodId, claims: &[ClaimBinding]) {
        for binding in claims {
            self.free(&binding.claim, pod).await;
        }
    }

    /// Gives a claim its devices, unless it has them, and reserves it for a pod.
    async fn reserve(&self, pod: &PodId, binding: &ClaimBinding) -> Result<(), String> {
        let change = |claim: &mut Value| reserve(claim, pod, binding);
        match self.change_claim(&binding.claim, true, change).await {
            Change::Done => Ok(()),
            Change::Refused(error) => Err(error),
        }
    }

    /// Takes a pod off a claim, and its devices from the claim where that was the last one.
    pub(crate) async fn free(&self, claim: &ClaimId, pod: &PodId) {
        if let Change::Refused(error) =
            self.change_claim(claim, false, |claim| free(claim, pod)).await
        {
            tracing::warn!("the resource claim {} keeps its devices: {error}", claim.key);
        }
    }

    /// Changes the status of a claim until the API server has it so, or says that it never will.
    /// `edit` returns false where the status is already right.
    async fn change_claim(
        &self,
        claim: &ClaimId,
        keeps: bool,
        edit: impl Fn(&mut Value) -> Result<bool, String>,
    ) -> Change {
        let mut pause = FIRST_PAUSE;
        loop {
            let error = match self.try_to_change_claim(claim, keeps, &edit).await {
                Ok(change) => return change,
                Err(error) => error,
            };
            // Its controller changed it at the same time.
            let is_race = code(&error) == Some(409);
            if !is_race && !is_transient(&error) {
                return Change::Refused(message(&error));
            }
            self.rest(&mut pause).await;
        }
    }

    async fn try_to_change_claim(
        &self,
        claim: &ClaimId,
        keeps: bool,
        edit: &impl Fn(&mut Value) -> Result<bool, String>,
    ) -> Result<Change, kube::Error> {
        let path = path(claim);
        let mut object = match self.client.request::<Value>(get(&path)).await {
            Ok(object) if object["metadata"]["uid"] == json!(*claim.uid) => object,
            Err(error) if code(&error) != Some(404) => return Err(error),
            // Another claim of the name, or none: there is nothing to free.
            Ok(_) | Err(_) if !keeps => return Ok(Change::Done),
            Ok(_) | Err(_) => return Ok(Change::Refused("it is gone".to_owned())),
        };
        match edit(&mut object) {
            Err(error) => return Ok(Change::Refused(error)),
            Ok(false) => return Ok(Change::Done),
            Ok(true) => {}
        }
        // 1. The finalizer is there before the devices, and goes after them.
        let has_devices = object["status"]["allocation"].is_object();
        if has_devices {
            let status = object["status"].take();
            object = self.set_finalizer(&path, object, true).await?;
            object["status"] = status;
        }
        // 2. The devices, unless the claim was changed since it was read.
        let status = format!("{path}/status");
        let object = self.client.request(with_body(Method::PUT, &status, &object)).await?;
        if !has_devices {
            self.set_finalizer(&path, object, false).await?;
        }
        Ok(Change::Done)
    }

    /// Adds the finalizer to a claim, or removes it; returns the claim as it is then.
    async fn set_finalizer(
        &self,
        path: &str,
        object: Value,
        is_wanted: bool,
    ) -> Result<Value, kube::Error> {
        let all = object["metadata"]["finalizers"].as_array().cloned().unwrap_or_default();
        if all.contains(&json!(FINALIZER)) == is_wanted {
            return Ok(object);
        }
        let mut wanted = all;
        if is_wanted {
            wanted.push(json!(FINALIZER));
        } else {
            wanted.retain(|one| one != FINALIZER);
        }
        let version = &object["metadata"]["resourceVersion"];
        let body = json!({"metadata": {"resourceVersion": version, "finalizers": wanted}});
        self.client.request(merge(path, &body)).await
    }
}

fn path(claim: &ClaimId) -> String {
    let api = format!("/apis/{}/{}", device::GROUP, device::VERSION);
    let key = &claim.key;
    format!("{api}/namespaces/{}/{}/{}", key.namespace, device::CLAIMS, key.name)
}

/// Gives a claim its devices, and adds a pod to its users; returns false if it is so already.
fn reserve(claim: &mut Value, pod: &PodId, binding: &ClaimBinding) -> Result<bool, String> {
    if claim["metadata"]["deletionTimestamp"].is_string() {
        return Err("it is being deleted".to_owned());
    }
    let status = &mut claim["status"];
    let mut is_changed = false;
    match (&binding.allocation, status["allocation"].is_object()) {
        (None, false) => return Err("it has lost its devices".to_owned()),
        (Some(allocation), true) if devices(allocation) != devices(&status["allocation"]) => {
            return Err("it has got other devices".to_owned());
        }
        (Some(allocation), false) => {
            status["allocation"] = allocation.clone();
            status["allocation"]["allocationTimestamp"] = json!(seconds());
            is_changed = true;
        }
        (Some(_) | None, true) => {}
    }
    let mut users = status["reservedFor"].as_array().cloned().unwrap_or_default();
    if !users.iter().any(|user| user["uid"] == json!(*pod.uid)) {
        users.push(json!({"resource": "pods", "name": pod.key.name, "uid": pod.uid}));
        status["reservedFor"] = json!(users);
        is_changed = true;
    }
    Ok(is_changed)
}

/// Takes a pod off a claim, and the devices where no user is left; returns false if it has none.
fn free(claim: &mut Value, pod: &PodId) -> Result<bool, String> {
    let status = &mut claim["status"];
    let mut users = status["reservedFor"].as_array().cloned().unwrap_or_default();
    let before = users.len();
    users.retain(|user| user["uid"] != json!(*pod.uid));
    let is_last = users.is_empty() && status["allocation"].is_object();
    if users.len() == before && !is_last {
        return Ok(false);
    }
    if users.is_empty() {
        *status = json!({});
    } else {
        status["reservedFor"] = json!(users);
    }
    Ok(true)
}

/// Returns request and names of the devices of an allocation.
fn devices(allocation: &Value) -> Vec<[&Value; 4]> {
    let results = allocation["devices"]["results"].as_array().into_iter().flatten();
    results.map(|one| ["request", "driver", "pool", "device"].map(|name| &one[name])).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use muster_kubernetes::object::ObjectKey;

    use super::*;

    fn pod(name: &str) -> PodId {
        PodId { key: ObjectKey::new("team", name), uid: Arc::from(format!("uid-{name}")) }
    }

    fn binding(device: Option<&str>) -> ClaimBinding {
        let allocation = device.map(|device| {
            json!({"devices": {"results": [
                {"request": "gpus", "driver": "d", "pool": "a", "device": device},
            ]}})
        });
        let claim = ClaimId { key: ObjectKey::new("team", "c"), uid: "u".into() };
        ClaimBinding { claim, allocation }
    }

    #[test]
    fn a_claim_gets_its_devices_once_and_loses_them_with_its_last_pod() {
        let mut claim = json!({"metadata": {}, "status": {}});
        assert_eq!(
            reserve(&mut claim, &pod("p"), &binding(None)),
            Err("it has lost its devices".to_owned())
        );
        assert_eq!(reserve(&mut claim, &pod("p"), &binding(Some("gpu-0"))), Ok(true));
        // The answer was lost, and the request is repeated.
        assert_eq!(reserve(&mut claim, &pod("p"), &binding(Some("gpu-0"))), Ok(false));
        assert_eq!(
            reserve(&mut claim, &pod("p"), &binding(Some("gpu-1"))),
            Err("it has got other devices".to_owned())
        );
        assert_eq!(reserve(&mut claim, &pod("q"), &binding(None)), Ok(true));
        assert_eq!(free(&mut claim, &pod("p")), Ok(true));
        assert_eq!(free(&mut claim, &pod("p")), Ok(false));
        assert!(claim["status"]["allocation"].is_object());
        assert_eq!(free(&mut claim, &pod("q")), Ok(true));
        assert_eq!(claim["status"], json!({}));
        assert_eq!(free(&mut claim, &pod("q")), Ok(false));
    }

    #[test]
    fn a_claim_that_is_being_deleted_gets_no_devices() {
        let mut claim =
            json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}, "status": {}});
        assert!(reserve(&mut claim, &pod("p"), &binding(Some("gpu-0"))).is_err());
    }
}
