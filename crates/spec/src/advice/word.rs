//! Words of a site file that set facts: fabrics, hostings, control planes, and common foreign words
//! for them.

use crate::diagnostic::{Problem, Problems, show};
use crate::field::scalar;
use crate::suggest::nearest;
use crate::yaml::Node;

/// Fabrics between nodes, and whether they support RDMA.
pub(super) const FABRICS: [(&str, bool); 3] =
    [("ethernet", false), ("roce", true), ("infiniband", true)];

/// Kinds of hosting of a fleet, and whether they are bare metal.
pub(super) const HOSTINGS: [(&str, bool); 2] = [("bare-metal", true), ("cloud", false)];

/// Foreign words for the words of these fields.
const FOREIGN_WORDS: &[(&str, &str)] = &[
    ("ib", "infiniband"),
    ("ndr", "infiniband"),
    ("hdr", "infiniband"),
    ("rocev2", "roce"),
    ("tcp", "ethernet"),
    ("on-prem", "bare-metal"),
    ("on-premises", "bare-metal"),
    ("colocation", "bare-metal"),
    ("vm", "cloud"),
    ("vms", "cloud"),
    ("aws", "cloud"),
    ("gcp", "cloud"),
    ("azure", "cloud"),
    ("k8s", "kubernetes"),
    ("openshift", "kubernetes"),
    ("eks", "kubernetes"),
    ("gke", "kubernetes"),
    ("aks", "kubernetes"),
    ("rke2", "kubernetes"),
    ("kuberay", "ray"),
];

/// Reads one of a few words.
pub(super) fn word<'a>(
    node: &Node,
    name: &str,
    known: &[&'a str],
    problems: &mut Problems,
) -> Option<&'a str> {
    let expected = match known {
        [one, other] => format!("`{one}` or `{other}`"),
        _ => known.iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", "),
    };
    let text = scalar(node, name, &format!("one of {}", known.join(", ")), problems)?;
    if let Some(word) = known.iter().find(|word| **word == text) {
        return Some(word);
    }
    let none = matches!(text.to_lowercase().as_str(), "none" | "nothing");
    let none = none && name == "people.operates";
    let hint = match meant(text, known) {
        _ if none => Some("write `operates: []`".to_owned()),
        Some(meant) => Some(format!("did you mean `{meant}`?")),
        None => None,
    };
    let message = format!("`{name}` cannot be {}", show(text));
    problems.add(Problem::new(message).at(node.place, format!("expected {expected}")).hint(hint));
    None
}

/// Returns the word that a user probably meant: a foreign word's equivalent, or the nearest.
pub(super) fn meant<'a>(text: &str, known: &[&'a str]) -> Option<&'a str> {
    let plain = text.to_lowercase().replace('_', "-");
    let foreign = FOREIGN_WORDS.iter().find(|(theirs, _)| *theirs == plain);
    let foreign = foreign.and_then(|(_, ours)| known.iter().copied().find(|word| word == ours));
    foreign.or_else(|| nearest(text, known.iter().copied()))
}
