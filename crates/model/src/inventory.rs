//! Inventories: declared nodes with notes for users, as read from a list of nodes that a control
//! plane prints. The list is recognised by content; the readers are in the crates that know the
//! text of one control plane. It does not read which devices are in use.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

use crate::{Bytes, CpuMilli, Device, DeviceSet, GpuModel, NodeSpec};

/// Maximum length of a GPU model or topology domain in a cluster file.
const MAX_WORD: usize = 64;
/// Maximum length of a node name: that of host names (hostname(7)).
const MAX_NAME: usize = 253;

/// Information that the text does not contain.
#[derive(Clone, Debug, Default)]
pub struct InventoryOptions {
    /// Topology levels, widest first, each with the Kubernetes label for a node's domain.
    pub levels: Vec<(Arc<str>, String)>,
    /// Kubernetes labels to keep in addition to pool and zone.
    pub keep_labels: Vec<String>,
    /// Model of GPUs for which the text has none.
    pub gpu: Option<GpuModel>,
}

/// The nodes of one list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inventory {
    /// Command whose output was recognised, such as `sinfo --json`.
    pub source: &'static str,
    /// Topology levels, widest first.
    pub levels: Vec<Arc<str>>,
    /// Nodes sorted by name, with numbers in names compared by value.
    pub nodes: Vec<ListedNode>,
    /// Hints for users on further data in the list.
    pub hints: Vec<String>,
}

/// A node, with notes on data for which a cluster file has no field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedNode {
    /// The node; its devices are declared, and all devices of a model have the same memory.
    pub node: NodeSpec,
    /// Notes for users: out of service, slices, devices left out.
    pub notes: Vec<String>,
}

/// Error of reading an inventory.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InventoryError {
    /// The text is empty.
    #[error("the text is empty")]
    Empty,
    /// The text is not JSON.
    #[error("this is not JSON: {0}")]
    NotJson(String),
    /// The text is JSON, but not a list of nodes.
    #[error("this is neither Slurm's nor Kubernetes' list of nodes: {0}")]
    Unrecognised(String),
    /// The list has no nodes.
    #[error("{source_name} lists no nodes{why}")]
    NoNodes {
        /// Command whose output was recognised.
        source_name: &'static str,
        /// Message of the program after `: `; empty without one.
        why: String,
    },
    /// One row is invalid.
    #[error("{row}: {what}")]
    Row {
        /// Number of the row, from 1, with its name where it has one.
        row: String,
        /// Description of the defect.
        what: String,
    },
    /// The levels do not fit the nodes.
    #[error("{0}")]
    Levels(String),
}

impl InventoryError {
    /// Returns the next step for the user, if there is one.
    #[must_use]
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Empty | Self::NotJson(_) | Self::Unrecognised(_) => Some(
                "use the output of `sinfo -N --json`, `scontrol show nodes --json` or `kubectl get nodes -o json`",
            ),
            Self::NoNodes { why, .. } if why.is_empty() => {
                Some("run the command as a user who may list the nodes")
            }
            Self::NoNodes { .. } | Self::Row { .. } => None,
            Self::Levels(_) => {
                Some("name levels from the widest: --level block=LABEL --level leaf=LABEL")
            }
        }
    }
}

/// Reader for the list of one control plane; `None` where the value is not such a list.
pub type InventoryReader =
    fn(&Value, &InventoryOptions) -> Option<Result<Inventory, InventoryError>>;

/// Reads a list of nodes with the first reader that recognises it.
///
/// # Errors
/// See [`InventoryError`]; one invalid row rejects the whole list, so that no node is silently
/// missing.
pub fn read(
    text: &str,
    options: &InventoryOptions,
    readers: &[InventoryReader],
) -> Result<Inventory, InventoryError> {
    if text.trim().is_empty() {
        return Err(InventoryError::Empty);
    }
    let value: Value =
        serde_json::from_str(text).map_err(|error| InventoryError::NotJson(error.to_string()))?;
    let mut inventory = readers
        .iter()
        .find_map(|read| read(&value, options))
        .unwrap_or_else(|| Err(InventoryError::Unrecognised(shape(&value))))?;
    inventory.nodes.sort_by_cached_key(|listed| natural(listed.node.name.as_str()));
    let twice = inventory.nodes.windows(2).find(|pair| pair[0].node.name == pair[1].node.name);
    match twice {
        Some(pair) => {
            Err(row(format!("node `{}`", pair[0].node.name), "it is listed twice".to_owned()))
        }
        None => Ok(inventory),
    }
}

/// Checks that level names are valid in a cluster file.
pub fn check_levels(levels: &[(Arc<str>, String)]) -> Result<(), InventoryError> {
    /// Maximum number of levels in a cluster file.
    const MOST: usize = 8;
    let wrong = |what: String| Err(InventoryError::Levels(what));
    if levels.len() > MOST {
        return wrong(format!("{} levels; at most {MOST}", levels.len()));
    }
    for (index, (level, _)) in levels.iter().enumerate() {
        if !is_word(level, MAX_WORD) {
            return wrong(format!(
                "{level:?} is not the name of a level: letters, digits, `.`, `_` and `-`"
            ));
        }
        if **level == *"node" {
            return wrong("`node` is always the last level; leave it out".to_owned());
        }
        if levels[..index].iter().any(|(before, _)| before == level) {
            return wrong(format!("two levels are named `{level}`"));
        }
    }
    Ok(())
}

/// Converts a node with detected devices for a cluster file: devices are grouped by model, whole
/// GPUs before slices, then the most numerous first. A cluster file has one memory size per model;
/// devices of other sizes are left out with a note.
#[must_use]
pub fn declared(mut node: NodeSpec, mut notes: Vec<String>) -> ListedNode {
    let mut kinds: Vec<(GpuModel, Bytes, bool, usize)> = Vec::new();
    for device in &node.devices {
        let is_slice = device.slice_of.is_some();
        match kinds
            .iter_mut()
            .find(|kind| (&kind.0, kind.1, kind.2) == (&device.model, device.memory, is_slice))
        {
            Some((.., count)) => *count += 1,
            None => kinds.push((device.model.clone(), device.memory, is_slice, 1)),
        }
    }
    kinds.sort_by_key(|(_, _, is_slice, count)| (*is_slice, std::cmp::Reverse(*count)));
    node.devices.clear();
    for (model, memory, is_slice, count) in kinds {
        let slices = if is_slice { " MIG slices" } else { "" };
        if node.devices.iter().any(|device| device.model == model) {
            let size =
                if memory.0 > 0 { format!(" of {memory}") } else { " of unknown size".to_owned() };
            notes.push(format!(
                "left out, since an entry holds one size of a model: {count} {model}{slices}{size}"
            ));
            continue;
        }
        if is_slice {
            notes.push(format!("{count} {model} are MIG slices, counted as devices"));
        }
        node.devices.extend(devices(&model, memory, count, false));
    }
    ListedNode { node, notes }
}

/// Returns `count` equal declared devices.
pub fn devices(model: &GpuModel, memory: Bytes, count: usize, is_slice: bool) -> Vec<Device> {
    let device = Device {
        model: model.clone(),
        memory,
        uuid: "".into(),
        is_virtual: true,
        slice_of: is_slice.then(|| "".into()),
    };
    vec![device; count]
}

/// Checks that a node is valid in a cluster file; done here, where the row of the list is known.
pub fn check(node: &NodeSpec) -> Result<(), String> {
    let name = node.name.as_str();
    if !is_word(name, MAX_NAME) {
        return Err(format!(
            "{name:?} is not the name of a node: letters, digits, `.`, `_` and `-`"
        ));
    }
    if node.devices.len() > DeviceSet::MAX_DEVICES {
        return Err(format!(
            "{} GPUs; a node has at most {}",
            node.devices.len(),
            DeviceSet::MAX_DEVICES
        ));
    }
    let labels = node.labels.iter().flat_map(|(name, value)| [name, value]);
    if let Some(text) = labels.chain(node.extras.keys()).find(|text| text.contains('\0')) {
        return Err(format!("{text:?} holds a NUL character"));
    }
    match node.devices.iter().find(|device| !is_word(device.model.as_str(), MAX_WORD)) {
        Some(device) => Err(format!("{:?} is not a GPU model", device.model.as_str())),
        None => Ok(()),
    }
}

/// Returns true for a valid name of a topology domain.
pub fn is_domain(text: &str) -> bool {
    is_word(text, MAX_WORD)
}

fn is_word(text: &str, longest: usize) -> bool {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    !text.is_empty()
        && text.len() <= longest
        && !text.starts_with(['-', '.'])
        && text.chars().all(allowed)
}

/// Checks the CPUs of a row, in thousandths.
pub fn cpus(milli: u128) -> Result<CpuMilli, String> {
    /// Maximum in a cluster file: a million CPUs.
    const MOST: u128 = 1_000_000_000;
    match u32::try_from(milli) {
        Ok(fits) if milli <= MOST => Ok(CpuMilli(fits)),
        _ => Err(format!("{} CPUs exceed the maximum of 1000000", milli / 1000)),
    }
}

/// Returns the error for an invalid row.
pub fn row(row: String, what: String) -> InventoryError {
    InventoryError::Row { row, what }
}

/// Describes a JSON value in a few words.
pub fn shape(value: &Value) -> String {
    const SHOWN: usize = 6;
    match value {
        Value::Null => "null".to_owned(),
        Value::Bool(_) => "true or false".to_owned(),
        Value::Number(_) => "a number".to_owned(),
        Value::String(_) => "text".to_owned(),
        Value::Array(items) => format!("a list of {}", items.len()),
        Value::Object(fields) => {
            let kind =
                fields.get("kind").and_then(Value::as_str).map(|kind| format!("of kind {kind:?} "));
            let names: Vec<String> =
                fields.keys().take(SHOWN).map(|name| format!("{name:?}")).collect();
            let more = if fields.len() > SHOWN { ", .." } else { "" };
            format!(
                "an object {}with {}{more}",
                kind.unwrap_or_default(),
                match names.len() {
                    0 => "no fields".to_owned(),
                    _ => names.join(", "),
                }
            )
        }
    }
}

/// Returns the sort key of a name in natural order: numbers compare by value.
fn natural(name: &str) -> Vec<(u64, String)> {
    let mut parts: Vec<(u64, String)> = vec![(0, String::new())];
    for letter in name.chars() {
        let in_number = parts.len().is_multiple_of(2);
        if letter.is_ascii_digit() != in_number {
            parts.push((0, String::new()));
        }
        if let Some((number, text)) = parts.last_mut() {
            if let Some(digit) = letter.to_digit(10) {
                *number = number.saturating_mul(10).saturating_add(u64::from(digit));
            }
            text.push(letter);
        }
    }
    parts
}

/// Removes duplicates; keeps the order of first occurrence.
pub fn once(words: impl IntoIterator<Item = String>) -> Vec<String> {
    let mut seen = BTreeMap::new();
    words.into_iter().filter(|word| seen.insert(word.clone(), ()).is_none()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_sort_by_number() {
        let mut names = ["n10", "n9", "n09", "a", "n1-2", "n1-10", "n1"];
        names.sort_by_cached_key(|name| natural(name));
        assert_eq!(names, ["a", "n1", "n1-2", "n1-10", "n09", "n9", "n10"]);
    }
}
