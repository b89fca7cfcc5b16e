//! Reads the output of `kubectl get -o json` and `kubectl cluster-info dump`, and manifests in YAML, into a
//! snapshot. Objects of kinds that no rule reads are dropped.

use std::collections::BTreeMap;

use muster_kubernetes::documents;
use serde_json::{Deserializer, Value};

use super::resource::Resource;
use super::snapshot::Snapshot;

/// Reason for which a text is no dump.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DumpError {
    /// The text is no JSON, with the message of the parser.
    NotJson(String),
    /// The text is neither JSON nor YAML, with the message of the parser.
    NotYaml(String),
    /// No document of the text is an object of Kubernetes, or a list of some.
    NoObject,
}

/// First words of the line before the output of a container in `kubectl cluster-info dump`.
const LOGS_START: &str = "==== START logs for container ";
/// First words of the line after it.
const LOGS_END: &str = "==== END logs for container ";

/// Adds the objects of a text. `stem` is the name of its file without folder and extension: a list
/// without objects does not say of which kind it is, so a file named after a kind does.
///
/// # Errors
/// If the text is no such output.
pub fn add_dump(snapshot: &mut Snapshot, stem: &str, text: &str) -> Result<(), DumpError> {
    let text = without_logs(text);
    let mut is_read = false;
    if text.trim_start().starts_with('{') {
        for document in Deserializer::from_str(&text).into_iter::<Value>() {
            let document = document.map_err(|error| DumpError::NotJson(error.to_string()))?;
            is_read |= add_document(snapshot, stem, document);
        }
    } else {
        let all = documents::values(&text).map_err(DumpError::NotYaml)?;
        for document in all.into_iter().filter(Value::is_object) {
            is_read |= add_document(snapshot, stem, document);
        }
    }
    if is_read { Ok(()) } else { Err(DumpError::NoObject) }
}

/// Returns the text without the output of containers.
fn without_logs(text: &str) -> String {
    let mut kept = String::with_capacity(text.len());
    let mut is_log = false;
    for line in text.split_inclusive('\n') {
        if line.starts_with(LOGS_START) {
            is_log = true;
        } else if line.starts_with(LOGS_END) {
            is_log = false;
        } else if !is_log {
            kept.push_str(line);
        }
    }
    kept
}

/// Adds a list or a single object; returns whether it is one.
fn add_document(snapshot: &mut Snapshot, stem: &str, mut document: Value) -> bool {
    let Some(kind) = document["kind"].as_str().map(str::to_owned) else { return false };
    let version = document["apiVersion"].as_str().unwrap_or_default().to_owned();
    let Value::Array(items) = document["items"].take() else {
        if let Some(resource) = Resource::of_object(group_of(&version), &kind) {
            snapshot.add(resource, vec![document]);
        }
        return true;
    };
    // Items of a typed list, as the API server prints it, do not name their kind.
    let item_kind = kind.strip_suffix("List").unwrap_or_default();
    let listed = Resource::of_object(group_of(&version), item_kind)
        .or_else(|| Resource::of_file(stem).filter(|_| items.is_empty()));
    if let Some(resource) = listed {
        snapshot.add(resource, Vec::new());
    }
    let mut by_kind: BTreeMap<Resource, Vec<Value>> = BTreeMap::new();
    for item in items {
        let kind = item["kind"].as_str().unwrap_or(item_kind);
        let group = group_of(item["apiVersion"].as_str().unwrap_or(&version));
        if let Some(resource) = Resource::of_object(group, kind) {
            by_kind.entry(resource).or_default().push(item);
        }
    }
    for (resource, objects) in by_kind {
        snapshot.add(resource, objects);
    }
    true
}

/// Returns the API group of `batch/v1`; that of `v1` is empty.
fn group_of(version: &str) -> &str {
    version.split_once('/').map_or("", |(group, _)| group)
}

#[cfg(test)]
mod tests {
    use super::super::resource::{NODES, PODS, QUOTAS};
    use super::*;

    fn read(stem: &str, text: &str) -> Result<Snapshot, DumpError> {
        let mut snapshot = Snapshot::default();
        add_dump(&mut snapshot, stem, text).map(|()| snapshot)
    }

    fn names(snapshot: &Snapshot, resource: Resource) -> Vec<String> {
        let list = snapshot.list(resource).unwrap_or_default();
        list.iter().map(|one| one["metadata"]["name"].as_str().unwrap().to_owned()).collect()
    }

    #[test]
    fn lists_single_objects_and_typed_lists_are_read() {
        let pod = r#"{"kind":"Pod","apiVersion":"v1","metadata":{"name":"p"}}"#;
        for text in [
            pod.to_owned(),
            format!(r#"{{"kind":"List","apiVersion":"v1","items":[{pod}]}}"#),
            r#"{"kind":"PodList","apiVersion":"v1","items":[{"metadata":{"name":"p"}}]}"#
                .to_owned(),
        ] {
            assert_eq!(names(&read("x", &text).unwrap(), PODS), ["p"], "{text}");
        }
    }

    #[test]
    fn manifests_are_read() {
        let text = "# pods\n---\nkind: Pod\napiVersion: v1\nmetadata: {name: p}\n---\nkind: Secret\napiVersion: v1\n";
        assert_eq!(names(&read("x", text).unwrap(), PODS), ["p"]);
    }

    #[test]
    fn an_empty_list_counts_where_its_kind_is_known() {
        let empty = r#"{"kind":"List","apiVersion":"v1","items":[]}"#;
        assert!(read("resourcequotas", empty).unwrap().list(QUOTAS).is_ok());
        assert!(read("all", empty).unwrap().list(QUOTAS).is_err());
        let typed = r#"{"kind":"ResourceQuotaList","apiVersion":"v1","items":[]}"#;
        assert!(read("all", typed).unwrap().list(QUOTAS).is_ok());
    }

    #[test]
    fn the_output_of_cluster_info_has_logs_between_its_lists() {
        let text = "\
{\"kind\":\"NodeList\",\"apiVersion\":\"v1\",\"items\":[{\"metadata\":{\"name\":\"n\"}}]}
==== START logs for container c of pod a/b ====
{\"kind\": broken
==== END logs for container c of pod a/b ====
{\"kind\":\"PodList\",\"apiVersion\":\"v1\",\"items\":[{\"metadata\":{\"name\":\"p\"}}]}
";
        let snapshot = read("stdin", text).unwrap();
        assert_eq!(names(&snapshot, NODES), ["n"]);
        assert_eq!(names(&snapshot, PODS), ["p"]);
    }

    #[test]
    fn other_text_is_refused() {
        assert!(matches!(read("x", "{\"kind\": "), Err(DumpError::NotJson(_))));
        assert!(matches!(read("x", "kind: [\n"), Err(DumpError::NotYaml(_))));
        assert_eq!(read("x", "NAME READY\n").unwrap_err(), DumpError::NoObject);
        assert_eq!(read("x", "{}").unwrap_err(), DumpError::NoObject);
        assert_eq!(read("x", "").unwrap_err(), DumpError::NoObject);
    }
}
