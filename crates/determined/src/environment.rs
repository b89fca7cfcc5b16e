//! Image, variables and mounts.

use serde_json::Value;

use crate::draft::ExperimentDraft;
use crate::fields::ExperimentFields;

/// Variables that Muster sets itself, or that only Determined reads.
const OWN: [&str; 3] = ["PET_", "MUSTER_", "DET_"];

/// Converts the environment of a trial.
pub(crate) fn convert(fields: &mut ExperimentFields, draft: &mut ExperimentDraft) {
    let at = "/environment/image";
    draft.image = match fields.get(at) {
        Some(Value::String(image)) => Some(image.clone()),
        Some(Value::Object(_)) => {
            for_device(fields, at, draft.slots).and_then(|image| Some(image.as_str()?.to_owned()))
        }
        _ => None,
    };
    match fields.get(at) {
        _ if draft.image.is_none() => fields.lost(at, "it names no image"),
        Some(Value::Object(_)) => fields.near(at, "image: that for the devices of the job"),
        _ => fields.field(at, "image"),
    }
    variables(fields, draft);
    mounts(fields, draft);
}

/// Returns the entry of a mapping by kind of device that a trial uses.
fn for_device(fields: &ExperimentFields, at: &str, slots: u64) -> Option<Value> {
    let order: &[&str] =
        if slots > 0 { &["cuda", "gpu", "rocm", "cpu"] } else { &["cpu", "cuda", "gpu", "rocm"] };
    order.iter().find_map(|kind| fields.get(&format!("{at}/{kind}")).cloned())
}

fn variables(fields: &mut ExperimentFields, draft: &mut ExperimentDraft) {
    let at = "/environment/environment_variables";
    let list = match fields.get(at) {
        Some(Value::Array(list)) => list.clone(),
        Some(Value::Object(_)) => match for_device(fields, at, draft.slots) {
            Some(Value::Array(list)) => list,
            _ => return,
        },
        _ => return,
    };
    let mut left_out = Vec::new();
    for entry in list.iter().filter_map(Value::as_str) {
        let (name, value) = entry.split_once('=').unwrap_or((entry, ""));
        if OWN.iter().any(|prefix| name.starts_with(prefix)) {
            left_out.push(name.to_owned());
        } else {
            draft.env.retain(|(known, _)| known != name);
            draft.env.push((name.to_owned(), value.to_owned()));
        }
    }
    match (list.is_empty(), left_out.is_empty()) {
        (true, _) => fields.field(at, "none"),
        (false, true) => fields.field(at, "env"),
        (false, false) => fields.near(at, format!("env, without {}", left_out.join(", "))),
    }
}

fn mounts(fields: &mut ExperimentFields, draft: &mut ExperimentDraft) {
    let at = "/bind_mounts";
    let Some(Value::Array(mounts)) = fields.get(at).cloned() else {
        return fields.lost(at, "it is no list of mounts");
    };
    if draft.image.is_none() && !mounts.is_empty() {
        return fields.lost(at, "without an image the program sees the folders of the node");
    }
    let mut left_out = Vec::new();
    for mount in &mounts {
        let text = |key: &str| mount.get(key).and_then(Value::as_str).unwrap_or_default();
        let host = text("host_path");
        let inside = text("container_path");
        if host.starts_with('/') && inside.starts_with('/') {
            let mode = if mount["read_only"] == true { ":ro" } else { "" };
            draft.mounts.push(format!("{host}:{inside}{mode}"));
        } else {
            left_out.push(format!("`{inside}`, since both paths of a mount are absolute"));
        }
    }
    match (draft.mounts.is_empty(), left_out.is_empty()) {
        (true, true) => fields.field(at, "none"),
        (true, false) => fields.lost(at, format!("without {}", left_out.join(", "))),
        (false, true) => fields.field(at, "mounts"),
        (false, false) => fields.near(at, format!("mounts, without {}", left_out.join(", "))),
    }
}
