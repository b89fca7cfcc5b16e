//! Writer of the cluster file. The text reads back as the same cluster; a cluster that the format
//! cannot express is refused, never changed.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use muster_model::node::Device;
use muster_model::unit::Bytes;
use muster_model::{NodeName, NodeSpec, hostlist};

use crate::cluster::{Cluster, parse_cluster};
use crate::diagnostic::Diagnostics;

/// Comments of a cluster file, a line each.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClusterNotes {
    /// Comment at the top of the file.
    pub heading: Vec<String>,
    /// Comments above the entries of nodes.
    pub nodes: BTreeMap<NodeName, Vec<String>>,
}

/// Reason for which a cluster cannot be written.
#[derive(Debug, thiserror::Error)]
pub enum Unwritable {
    /// A reader would refuse it: no nodes, an invalid name, a domain in two wider ones, ...
    #[error("{0}")]
    Refused(Box<Diagnostics>),
    /// A reader would see another node: devices of one model that differ in size or are not
    /// adjacent, or devices that were detected and not declared.
    #[error(
        "a cluster file cannot express the devices of node `{0}`: devices of one model are identical there, and have no ids"
    )]
    Differs(NodeName),
}

/// Returns the cluster file of a cluster. Adjacent nodes that are identical, with equal notes,
/// share an entry.
///
/// # Errors
/// See [`Unwritable`].
pub fn write_cluster(cluster: &Cluster, notes: &ClusterNotes) -> Result<String, Unwritable> {
    // 1. Text, an entry per run of equal nodes.
    let mut text = String::new();
    comments(&mut text, "", &notes.heading);
    if !cluster.levels.is_empty() {
        let levels: Vec<String> = cluster.levels.iter().map(|level| scalar(level)).collect();
        let _ = writeln!(text, "levels: [{}]", levels.join(", "));
    }
    text.push_str("nodes:\n");
    let of = |node: &NodeSpec| notes.nodes.get(&node.name).map_or(&[][..], Vec::as_slice);
    let bodies: Vec<String> =
        cluster.nodes.iter().map(|node| body(node, &cluster.levels)).collect();
    let mut start = 0;
    while start < bodies.len() {
        let same = |at: &usize| {
            bodies[*at] == bodies[start] && of(&cluster.nodes[*at]) == of(&cluster.nodes[start])
        };
        let end = (start + 1..bodies.len()).find(|at| !same(at)).unwrap_or(bodies.len());
        let names = cluster.nodes[start..end].iter().map(|node| node.name.as_str());
        for (index, name) in hostlist::fold(names).iter().enumerate() {
            if index == 0 {
                comments(&mut text, "  ", of(&cluster.nodes[start]));
            }
            let _ = writeln!(text, "  - {{name: {}, {}}}", scalar(name), bodies[start]);
        }
        start = end;
    }

    // 2. Check that it reads back as the same cluster.
    let read = parse_cluster(&text, None).map_err(|error| Unwritable::Refused(Box::new(error)))?;
    let differs = read.nodes.iter().zip(&cluster.nodes).find(|(read, node)| read != node);
    match differs {
        Some((_, node)) => Err(Unwritable::Differs(node.name.clone())),
        None => Ok(text),
    }
}

pub(crate) fn comments(text: &mut String, indent: &str, lines: &[String]) {
    for line in lines {
        // Text of users, such as the reason of a drain, must not end the comment.
        let line: String = line.chars().map(|c| if is_plain(c) { c } else { ' ' }).collect();
        let _ = writeln!(text, "{}", format!("{indent}# {line}").trim_end());
    }
}

/// Returns the fields of an entry after its name.
fn body(node: &NodeSpec, levels: &[std::sync::Arc<str>]) -> String {
    let mut fields = devices(node);
    if node.cpus.0 > 0 {
        fields.push(format!("cpus: {}", node.cpus));
    }
    fields.extend(size("memory", node.memory));
    if !node.domains.is_empty() {
        fields.push(map("domain", levels.iter().zip(&node.domains)));
    }
    if !node.labels.is_empty() {
        fields.push(map("labels", &node.labels));
    }
    if !node.extras.is_empty() {
        let pairs: Vec<String> =
            node.extras.iter().map(|(name, count)| format!("{}: {count}", scalar(name))).collect();
        fields.push(format!("extras: {{{}}}", pairs.join(", ")));
    }
    fields.join(", ")
}

/// Returns the fields for GPUs: of one model, or by model if there are several.
fn devices(node: &NodeSpec) -> Vec<String> {
    let mut kinds: Vec<(&Device, usize)> = Vec::new();
    for device in &node.devices {
        match kinds.iter_mut().find(|(known, _)| known.model == device.model) {
            Some((_, count)) => *count += 1,
            None => kinds.push((device, 1)),
        }
    }
    if let [] | [_] = kinds[..] {
        let mut fields = vec![format!("gpus: {}", node.devices.len())];
        if let Some((device, _)) = kinds.first() {
            fields.push(format!("gpu: {}", scalar(device.model.as_str())));
            fields.extend(size("gpu-memory", device.memory));
        }
        return fields;
    }
    let of = |device: &Device, what: String| format!("{}: {what}", scalar(device.model.as_str()));
    let counts: Vec<String> =
        kinds.iter().map(|(device, count)| of(device, count.to_string())).collect();
    let mut fields = vec![format!("gpus: {{{}}}", counts.join(", "))];
    let sizes: Vec<String> =
        kinds.iter().filter_map(|(device, _)| Some(of(device, in_unit(device.memory)?))).collect();
    if !sizes.is_empty() {
        fields.push(format!("gpu-memory: {{{}}}", sizes.join(", ")));
    }
    fields
}

fn map<K: AsRef<str>, V: AsRef<str>>(
    name: &str,
    pairs: impl IntoIterator<Item = (K, V)>,
) -> String {
    let pair =
        |(name, value): (K, V)| format!("{}: {}", scalar(name.as_ref()), scalar(value.as_ref()));
    let pairs: Vec<String> = pairs.into_iter().map(pair).collect();
    format!("{name}: {{{}}}", pairs.join(", "))
}

/// Returns a field with a size; `None` if the size is unknown.
fn size(name: &str, bytes: Bytes) -> Option<String> {
    in_unit(bytes).map(|size| format!("{name}: {size}"))
}

/// Returns a size in the unit that expresses it exactly in the smallest number; `None` if it is
/// unknown.
fn in_unit(bytes: Bytes) -> Option<String> {
    const UNITS: [(u64, &str); 6] = [
        (1_000_000_000, "GB"),
        (1 << 30, "GiB"),
        (1_000_000, "MB"),
        (1 << 20, "MiB"),
        (1 << 10, "KiB"),
        (1, "B"),
    ];
    let exact = UNITS.into_iter().filter(|(unit, _)| bytes.0.is_multiple_of(*unit));
    let (unit, word) = exact.max_by_key(|(unit, _)| *unit)?;
    (bytes.0 > 0).then(|| format!("{}{word}", bytes.0 / unit))
}

/// Returns text as a YAML value: a plain word if no reader could take it for another type.
pub(crate) fn scalar(text: &str) -> String {
    const MEANT_OTHERWISE: [&str; 9] =
        ["null", "true", "false", "yes", "no", "on", "off", "y", "n"];
    let is_word = text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-' | '/'))
        && !MEANT_OTHERWISE.contains(&text.to_ascii_lowercase().as_str());
    if is_word {
        return text.to_owned();
    }
    let mut quoted = String::from('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            _ if is_plain(c) => quoted.push(c),
            _ => {
                let _ = write!(quoted, "\\U{:08X}", u32::from(c));
            }
        }
    }
    quoted.push('"');
    quoted
}

/// Returns true for characters that YAML takes literally, in quotes and in comments.
fn is_plain(c: char) -> bool {
    matches!(c, ' '..='~') || (!c.is_ascii() && c.is_alphanumeric())
}
