//! Shares of a GPU by annotation. A device plugin gives each device to one pod, so a pod of Muster's own, the
//! holder, has the device, and the pods with shares are told which one it is. Nothing keeps one of them from
//! the others' memory: a share is what is counted, not what is enforced.

use std::sync::Arc;

use muster_model::GpuMilli;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::object::{Metadata, ObjectKey};
use crate::resources::{Container, Quantities};
use crate::{names, node};

/// Resource of which the holder has one.
pub const RESOURCE: &str = "nvidia.com/gpu";

/// Thousandths of a whole device.
const WHOLE: u32 = 1000;

/// Container of the holder that reports which GPU it has.
const REPORTER: &str = "report";

/// Share of a GPU that a pod asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GpuShare {
    /// Thousandths of one device, 1 to 999.
    pub share: GpuMilli,
    /// True if a container takes its GPU from the annotation [`names::GPU_IDS`].
    pub is_read: bool,
}

/// Reads the share that a pod asks for; `None` for a pod without one.
///
/// # Errors
/// What is wrong with it, for users.
pub(crate) fn of_pod(
    metadata: &Metadata,
    requests: &Quantities,
    containers: &[Container],
) -> Result<Option<GpuShare>, String> {
    let value = |key: &str| metadata.label_or_annotation(key);
    if let Some(key) = names::KAI_FRACTION_TERMS.into_iter().find(|key| value(key).is_some()) {
        return Err(format!("the annotation {key}; {} gives a share of one GPU", names::GPU_SHARE));
    }
    let asked = [names::GPU_SHARE, names::KAI_FRACTION];
    let Some((key, text)) = asked.into_iter().find_map(|key| Some((key, value(key)?))) else {
        return Ok(None);
    };
    let share = thousandths(text)
        .ok_or_else(|| format!("the annotation {key}: {text:?} is no share from 0.001 to 0.999"))?;
    let mut whole = requests.0.iter().filter(|(name, units)| node::is_gpu(name) && **units > 0);
    if let Some((resource, _)) = whole.next() {
        return Err(format!("the annotation {key} beside {resource}: ask for one or the other"));
    }
    let is_read = containers.iter().any(Container::reads_gpu);
    Ok(Some(GpuShare { share: GpuMilli(share), is_read }))
}

/// Parses `0.25` as 250; `None` for other texts, and for what is no part of one device.
fn thousandths(text: &str) -> Option<u32> {
    let digits = text.strip_prefix('0').unwrap_or(text).strip_prefix('.')?;
    let is_number =
        (1..=3).contains(&digits.len()) && digits.bytes().all(|one| one.is_ascii_digit());
    let number: u32 = digits.parse().ok().filter(|_| is_number)?;
    let share = number * 10_u32.pow(3 - digits.len() as u32);
    (1..WHOLE).contains(&share).then_some(share)
}

/// Returns the number, among the devices of its node, of the GPU of which a bound pod has a share.
pub(crate) fn index_of(metadata: &Metadata) -> Option<usize> {
    metadata.annotations.get(names::GPU_INDEX)?.parse().ok()
}

/// Returns the number of the GPU that a pod says it holds for others. Only those in the namespace of the
/// scheduler are its holders.
pub(crate) fn held_by(metadata: &Metadata) -> Option<usize> {
    metadata.labels.get(names::GPU_HOLDER)?.parse().ok()
}

/// Returns the annotations that a pod with a share gets when it is bound.
#[must_use]
pub fn annotations(index: usize, ids: &str) -> Value {
    json!({names::GPU_IDS: ids, names::GPU_INDEX: index.to_string()})
}

/// Returns the variable by which a container takes its GPU from the annotation of its pod.
#[must_use]
pub fn variable() -> Value {
    let field = json!({"fieldPath": format!("metadata.annotations['{}']", names::GPU_IDS)});
    json!({"name": names::VISIBLE_GPUS, "valueFrom": {"fieldRef": field}})
}

/// Returns the key of the pod that holds a GPU of a node.
#[must_use]
pub fn holder_key(namespace: &str, node: &str, index: usize) -> ObjectKey {
    ObjectKey::new(namespace, &format!("gpu-{index}.{node}"))
}

/// Returns the pod that holds a GPU of a node, which it is bound to. Its first container says as its last
/// words which GPU the kubelet gave to the pod, and the second one has the same.
#[must_use]
pub fn holder(key: &ObjectKey, node: &str, index: usize, image: &str) -> Value {
    let limits = json!({RESOURCE: 1, "cpu": "10m", "memory": "64Mi"});
    let security = json!({
        "allowPrivilegeEscalation": false,
        "readOnlyRootFilesystem": true,
        "capabilities": {"drop": ["ALL"]},
    });
    let container = |name: &str, words: &[&str]| {
        json!({
            "name": name,
            "image": image,
            "command": words,
            "resources": {"limits": limits, "requests": limits},
            "securityContext": security,
        })
    };
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": &*key.name,
            "namespace": &*key.namespace,
            "labels": {
                names::GPU_HOLDER: index.to_string(),
                "app.kubernetes.io/name": "muster-gpu-holder",
            },
        },
        "spec": {
            "nodeName": node,
            "automountServiceAccountToken": false,
            "enableServiceLinks": false,
            "terminationGracePeriodSeconds": 1,
            "securityContext": {
                "runAsNonRoot": true,
                "runAsUser": 65_534,
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            // The node was chosen already; a GPU in use is no reason to leave it.
            "tolerations": [{"operator": "Exists"}],
            "initContainers": [container(REPORTER, &["muster", "__hold-gpu", "--report=/dev/termination-log"])],
            "containers": [container("hold", &["muster", "__hold-gpu"])],
        },
    })
}

/// State of a holder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HolderState {
    /// State before the kubelet has given it a GPU, with the reason if the kubelet tells one.
    Starting(Option<String>),
    /// State with a GPU: its ids, as [`names::VISIBLE_GPUS`] takes them.
    Holds(Arc<str>),
    /// State after a failure, with the reason: it never gets a GPU.
    Failed(String),
    /// State after a request to delete it: another pod may get its GPU soon.
    Leaving,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct HolderText {
    metadata: Metadata,
    status: HolderStatus,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct HolderStatus {
    phase: String,
    reason: String,
    message: String,
    init_container_statuses: Vec<ContainerStatus>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ContainerStatus {
    state: ContainerState,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ContainerState {
    terminated: Option<Ended>,
    waiting: Option<Waiting>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Ended {
    exit_code: i32,
    message: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Waiting {
    reason: String,
    message: String,
}

/// Reads the state of a holder from the pod as the API server prints it.
#[must_use]
pub fn holder_state(pod: Value) -> HolderState {
    let text: HolderText = serde_json::from_value(pod).unwrap_or_default();
    if text.metadata.deletion_timestamp.is_some() {
        return HolderState::Leaving;
    }
    let status = text.status;
    if matches!(&*status.phase, "Failed" | "Succeeded") {
        return HolderState::Failed(joined(&status.reason, &status.message));
    }
    let state = status.init_container_statuses.into_iter().next().unwrap_or_default().state;
    match (state.terminated, state.waiting) {
        (Some(Ended { exit_code: 0, message }), _) if !message.trim().is_empty() => {
            HolderState::Holds(message.trim().into())
        }
        (Some(ended), _) => {
            HolderState::Starting(Some(joined("it reported no GPU", &ended.message)))
        }
        (None, Some(waiting)) => {
            HolderState::Starting(Some(joined(&waiting.reason, &waiting.message)))
        }
        (None, None) => HolderState::Starting(None),
    }
}

fn joined(reason: &str, message: &str) -> String {
    let parts = [reason.trim(), message.trim()];
    parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(": ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_parts_of_one_device() {
        for (text, expected) in [
            ("0.5", Some(500)),
            (".25", Some(250)),
            ("0.001", Some(1)),
            ("0.999", Some(999)),
            ("0", None),
            ("0.0", None),
            ("1", None),
            ("1.5", None),
            ("0.1234", None),
            ("0.", None),
            ("half", None),
            ("-0.5", None),
        ] {
            assert_eq!(thousandths(text), expected, "{text}");
        }
    }

    /// The kubelet reports the last words of the first container as its message.
    #[test]
    fn a_holder_says_which_gpu_it_has_or_why_it_has_none() {
        let of = |status: Value| holder_state(json!({"status": status}));
        assert_eq!(of(json!({"phase": "Pending"})), HolderState::Starting(None));
        let waiting = json!({"initContainerStatuses": [
            {"state": {"waiting": {"reason": "ErrImagePull", "message": "not found"}}},
        ]});
        assert_eq!(of(waiting), HolderState::Starting(Some("ErrImagePull: not found".to_owned())));
        let ended = |code: i32, message: &str| {
            json!({"initContainerStatuses": [
                {"state": {"terminated": {"exitCode": code, "message": message}}},
            ]})
        };
        assert_eq!(of(ended(0, "GPU-1\n")), HolderState::Holds("GPU-1".into()));
        let silent = HolderState::Starting(Some("it reported no GPU: no driver".to_owned()));
        assert_eq!(of(ended(1, "no driver")), silent);
        let failed =
            json!({"phase": "Failed", "reason": "UnexpectedAdmissionError", "message": "no GPU"});
        assert_eq!(of(failed), HolderState::Failed("UnexpectedAdmissionError: no GPU".to_owned()));
        let leaving = json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}});
        assert_eq!(holder_state(leaving), HolderState::Leaving);
    }
}
