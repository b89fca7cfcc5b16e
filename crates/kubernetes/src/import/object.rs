//! An object of the file, with a note for each of its fields: what it became in the job. A field
//! without a note is reported as not converted, so that nothing is dropped silently.

use std::collections::BTreeMap;

use muster_document::{Document, child};
use muster_model::imported::{ImportOutcome, ImportedOption};
use serde_json::Value;

use super::reasons;

/// Longest value that is shown with the name of its field.
const LONGEST: usize = 60;

/// Pointer in a TrainJob of the pods that it has from its runtime.
pub(super) const COPY: &str = "/template";

/// Object with notes on its fields. Fields are named by JSON pointers.
pub(super) struct ImportedObject {
    document: Document,
    notes: BTreeMap<String, FieldNote>,
}

/// Result for a field, and for those in it that have none of their own.
#[derive(Clone)]
pub(super) struct FieldNote {
    becomes: ImportOutcome,
    text: String,
}

impl ImportedObject {
    pub(super) fn new(document: Document) -> Self {
        let mut object = Self { document, notes: BTreeMap::new() };
        for at in ["/apiVersion", "/kind", "/metadata/name"] {
            object.field(at, "says what it is");
        }
        for at in SET_BY_SERVER {
            object.field(at, "set by the cluster");
        }
        object
    }

    /// Returns a value without taking note of it.
    pub(super) fn get(&self, at: &str) -> Option<&Value> {
        self.document.value.pointer(at).filter(|value| !value.is_null())
    }

    pub(super) fn peek_text(&self, at: &str) -> Option<&str> {
        self.get(at)?.as_str()
    }

    pub(super) fn peek_number(&self, at: &str) -> Option<u64> {
        self.get(at)?.as_u64()
    }

    /// Returns true if a flag is set.
    pub(super) fn is_set(&self, at: &str) -> bool {
        self.get(at).and_then(Value::as_bool) == Some(true)
    }

    /// Returns the keys of a mapping, or the indices of a list, as pointers.
    pub(super) fn children(&self, at: &str) -> Vec<String> {
        match self.get(at) {
            Some(Value::Object(map)) => map.keys().map(|key| child(at, key)).collect(),
            Some(Value::Array(list)) => {
                (0..list.len()).map(|index| child(at, &index.to_string())).collect()
            }
            _ => Vec::new(),
        }
    }

    /// Returns the entries of a mapping of texts.
    pub(super) fn texts(&self, at: &str) -> Vec<(String, String)> {
        let entries = self.get(at).and_then(Value::as_object).into_iter().flatten();
        entries.filter_map(|(key, value)| Some((key.clone(), scalar(value)?))).collect()
    }

    pub(super) fn kind(&self) -> &str {
        self.peek_text("/kind").unwrap_or_default()
    }

    /// Returns the API group: the part of `apiVersion` before `/`; empty for the core group.
    pub(super) fn group(&self) -> &str {
        self.peek_text("/apiVersion").and_then(|text| text.split_once('/')).map_or("", |two| two.0)
    }

    pub(super) fn name(&self) -> &str {
        self.peek_text("/metadata/name")
            .or_else(|| self.peek_text("/metadata/generateName"))
            .unwrap_or_default()
    }

    /// Returns the object as users name it: `Job train`.
    pub(super) fn title(&self) -> String {
        format!("{} {}", self.kind(), self.name())
    }

    /// Returns the line of a field, or of the nearest field around it that is written.
    pub(super) fn line(&self, at: &str) -> Option<u32> {
        let mut at = at;
        loop {
            if let Some(line) = self.document.lines.get(at) {
                return Some(*line);
            }
            at = &at[..at.rfind('/')?];
        }
    }

    /// Takes a text that becomes a field of the job.
    pub(super) fn text(&mut self, at: &str, target: &str) -> Option<String> {
        let text = scalar(self.get(at)?)?;
        self.field(at, target);
        Some(text)
    }

    /// Takes a number that becomes a field of the job.
    pub(super) fn number(&mut self, at: &str, target: &str) -> Option<u64> {
        let number = self.peek_number(at)?;
        self.field(at, target);
        Some(number)
    }

    /// Notes that a field is in the job, with the same meaning.
    pub(super) fn field(&mut self, at: &str, target: &str) {
        self.note(at, ImportOutcome::Field, target);
    }

    /// Notes that a field is in the job, with nearly the same meaning.
    pub(super) fn near(&mut self, at: &str, difference: &str) {
        self.note(at, ImportOutcome::Near, difference);
    }

    /// Notes that a field is not in the job.
    pub(super) fn lost(&mut self, at: &str, why: &str) {
        self.note(at, ImportOutcome::NotMapped, why);
    }

    /// Returns true if a field has a note of its own.
    pub(super) fn is_noted(&self, at: &str) -> bool {
        self.notes.contains_key(at)
    }

    /// Returns the notes on a field, and on those in it.
    pub(super) fn notes_at(&self, at: &str) -> Vec<(String, FieldNote)> {
        let notes = self.notes.range(at.to_owned()..);
        let is_in = |key: &str| key.strip_prefix(at).is_some_and(|rest| rest.starts_with('/'));
        let notes = notes.filter(|(key, _)| is_in(key) || *key == at);
        notes.map(|(key, note)| (key.clone(), note.clone())).collect()
    }

    /// Puts a note on a field.
    pub(super) fn put_note(&mut self, at: &str, note: FieldNote) {
        self.notes.insert(at.to_owned(), note);
    }

    fn note(&mut self, at: &str, becomes: ImportOutcome, text: &str) {
        if self.get(at).is_some() {
            self.notes.insert(at.to_owned(), FieldNote { becomes, text: text.to_owned() });
        }
    }

    /// Returns the result for every field, in the order of their lines.
    pub(super) fn options(&self) -> Vec<ImportedOption> {
        let mut options = Vec::new();
        self.visit("", &self.document.value, None, &mut options);
        options.sort_by_key(|option| option.line);
        options
    }

    fn visit(
        &self,
        at: &str,
        value: &Value,
        outer: Option<&FieldNote>,
        options: &mut Vec<ImportedOption>,
    ) {
        let is_empty = match value {
            Value::Object(map) => map.is_empty(),
            Value::Array(list) => list.is_empty(),
            _ => false,
        };
        // The pods of a TrainJob have their notes where they are written.
        let is_copy = at == COPY && self.kind() == "TrainJob";
        if is_empty || is_copy {
            return;
        }
        let note = self.notes.get(at).or(outer);
        let below = format!("{at}/");
        let has_notes_below = self
            .notes
            .range(below.clone()..)
            .next()
            .is_some_and(|(key, _)| key.starts_with(&below));
        if has_notes_below || at.is_empty() {
            let children = self.children(at);
            for at in children {
                if let Some(value) = self.get(&at) {
                    self.visit(&at, value, note, options);
                }
            }
            return;
        }
        let fallback =
            || FieldNote { becomes: ImportOutcome::NotMapped, text: reasons::of(at).to_owned() };
        let FieldNote { becomes, text } = note.cloned().unwrap_or_else(fallback);
        let option = path(at);
        let shown = scalar(value).filter(|text| text.len() <= LONGEST && !text.contains('\n'));
        // Values of variables may be secrets.
        let shown = shown.filter(|_| !at.contains("/env/"));
        let written = shown.map_or_else(|| option.clone(), |text| format!("{option}: {text}"));
        options.push(ImportedOption {
            line: self.line(at).unwrap_or(1),
            written,
            option,
            becomes,
            text,
        });
    }
}

/// Fields that the API server or a controller sets.
const SET_BY_SERVER: [&str; 10] = [
    "/metadata/uid",
    "/metadata/resourceVersion",
    "/metadata/generation",
    "/metadata/creationTimestamp",
    "/metadata/managedFields",
    "/metadata/finalizers",
    "/metadata/selfLink",
    "/metadata/ownerReferences",
    "/metadata/annotations/kubectl.kubernetes.io~1last-applied-configuration",
    "/status",
];

/// Returns a scalar as text.
pub(super) fn scalar(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(flag) => Some(flag.to_string()),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

/// Returns a pointer as users write the path: `spec.template.spec.containers[0].image`.
fn path(at: &str) -> String {
    let mut path = String::new();
    for part in at.split('/').skip(1) {
        let part = part.replace("~1", "/").replace("~0", "~");
        let is_index = !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
        if is_index || part.contains(['.', '/']) {
            path.push_str(&format!("[{part}]"));
        } else {
            if !path.is_empty() {
                path.push('.');
            }
            path.push_str(&part);
        }
    }
    path
}

#[cfg(test)]
mod tests {
    use super::*;
    use muster_document::documents;

    #[test]
    fn what_has_no_note_is_not_converted() {
        let text = "kind: Job\nspec:\n  a: {b: 1, c: 2}\n  d: [1]\n  e: 7\nstatus: {x: 1}\n";
        let mut object = ImportedObject::new(documents(text).unwrap().remove(0));
        object.field("/spec/a/b", "gpus");
        object.near("/spec/e", "nearly");
        let options = object.options();
        let rows: Vec<(u32, &str, ImportOutcome)> =
            options.iter().map(|one| (one.line, one.written.as_str(), one.becomes)).collect();
        assert_eq!(
            rows,
            [
                (1, "kind: Job", ImportOutcome::Field),
                (3, "spec.a.b: 1", ImportOutcome::Field),
                (3, "spec.a.c: 2", ImportOutcome::NotMapped),
                (4, "spec.d", ImportOutcome::NotMapped),
                (5, "spec.e: 7", ImportOutcome::Near),
                (6, "status", ImportOutcome::Field),
            ]
        );
    }

    #[test]
    fn paths_are_written_as_users_know_them() {
        for (pointer, expected) in [
            ("/spec/template/spec/containers/0/image", "spec.template.spec.containers[0].image"),
            ("/metadata/labels/a.b~1c", "metadata.labels[a.b/c]"),
        ] {
            assert_eq!(path(pointer), expected);
        }
    }
}
