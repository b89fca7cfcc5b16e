//! Required pod anti-affinity, as far as it is supported: pods that keep away from their own kind
//! on one node, which is how replicas are spread.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Deserialize;
use serde::de::IgnoredAny;

use crate::names;
use crate::object::Metadata;
use crate::rule::LabelSelector;

/// Required term of a pod affinity or anti-affinity.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct PodAffinityTerm {
    label_selector: Option<LabelSelector>,
    topology_key: String,
    #[serde(flatten)]
    others: BTreeMap<String, IgnoredAny>,
}

/// Returns true if a key selects pods with these labels in this namespace, whether they carry the term
/// or not.
#[must_use]
pub fn selects(key: &str, namespace: &str, labels: &BTreeMap<String, String>) -> bool {
    let Some((own, terms)) = key.split_once('/') else { return false };
    let has = |term: &str| {
        term.split_once('=')
            .is_some_and(|(name, value)| labels.get(name).is_some_and(|is| is == value))
    };
    own == namespace && (terms.is_empty() || terms.split(',').all(has))
}

/// Returns the key of a term, with the namespace and the labels that it selects; pods with equal terms
/// have equal keys. The error says which part of the term is not supported.
pub(crate) fn key(term: &PodAffinityTerm, pod: &Metadata) -> Result<Arc<str>, String> {
    if term.topology_key != names::HOSTNAME {
        return Err(format!("pod anti-affinity by `{}`", term.topology_key));
    }
    if let Some(field) = term.others.keys().next() {
        return Err(format!("pod anti-affinity with `{field}`"));
    }
    let selector =
        term.label_selector.as_ref().filter(|selector| selector.match_expressions.is_empty());
    let Some(selector) = selector else {
        return Err("pod anti-affinity with `matchExpressions` or without a selector".to_owned());
    };
    if selector.match_labels.iter().any(|(key, value)| pod.labels.get(key) != Some(value)) {
        return Err("pod anti-affinity to pods with other labels than its own".to_owned());
    }
    let labels: Vec<String> =
        selector.match_labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
    Ok(format!("{}/{}", pod.namespace, labels.join(",")).into())
}
