//! An experiment with what became of each of its fields.

use std::collections::BTreeMap;

use muster_document::{Document, child};
use muster_model::imported::{ImportOutcome, ImportedOption};
use serde_json::Value;

use crate::{NotAnExperiment, reasons};

/// Most letters of a value that are shown.
const MAX_SHOWN: usize = 60;

/// ExperimentFields of an experiment, by JSON pointer (RFC 6901), and what became of those that were read.
#[derive(Debug)]
pub(crate) struct ExperimentFields {
    document: Document,
    notes: BTreeMap<String, (ImportOutcome, String)>,
}

impl ExperimentFields {
    pub(crate) fn new(document: Document) -> Self {
        Self { document, notes: BTreeMap::new() }
    }

    /// Returns a value; `None` where it is missing or null.
    pub(crate) fn get(&self, at: &str) -> Option<&Value> {
        self.document.value.pointer(at).filter(|value| !value.is_null())
    }

    /// Returns a scalar as text.
    pub(crate) fn text(&self, at: &str) -> Option<String> {
        self.get(at).and_then(scalar)
    }

    /// Returns a whole number of at least zero.
    pub(crate) fn whole(&self, at: &str) -> Result<Option<u64>, NotAnExperiment> {
        let Some(value) = self.get(at) else { return Ok(None) };
        let rounded = || value.as_f64().filter(|one| *one >= 0.0 && one.fract() == 0.0);
        match value.as_u64().or_else(|| rounded().map(|one| one as u64)) {
            Some(number) => Ok(Some(number)),
            None => Err(NotAnExperiment::BadField {
                line: self.line(at),
                why: format!("`{}` is no whole number", key(at)),
            }),
        }
    }

    pub(crate) fn line(&self, at: &str) -> u32 {
        self.document.lines.get(at).copied().unwrap_or(1)
    }

    /// Records that a field, with all below it, has a counterpart with the same meaning.
    pub(crate) fn field(&mut self, at: &str, becomes: impl Into<String>) {
        self.note(at, ImportOutcome::Field, becomes.into());
    }

    /// Records a counterpart with nearly the same meaning; the text has the difference.
    pub(crate) fn near(&mut self, at: &str, becomes: impl Into<String>) {
        self.note(at, ImportOutcome::Near, becomes.into());
    }

    /// Records that a field is handed on to sbatch.
    pub(crate) fn raw(&mut self, at: &str, becomes: impl Into<String>) {
        self.note(at, ImportOutcome::Raw, becomes.into());
    }

    /// Records that a field has no counterpart, and why.
    pub(crate) fn lost(&mut self, at: &str, why: impl Into<String>) {
        self.note(at, ImportOutcome::NotMapped, why.into());
    }

    fn note(&mut self, at: &str, outcome: ImportOutcome, text: String) {
        if self.get(at).is_some() {
            self.notes.insert(at.to_owned(), (outcome, text));
        }
    }

    /// Returns what became of every field, in the order of the file.
    pub(crate) fn into_options(self) -> Vec<ImportedOption> {
        let mut options = Vec::new();
        self.list("", &self.document.value, &mut options);
        options.sort_by_key(|option| option.line);
        options
    }

    /// Lists a value: as a whole where something is known about it, else what is in it.
    fn list(&self, at: &str, value: &Value, options: &mut Vec<ImportedOption>) {
        let known = self.notes.get(at).cloned();
        let known =
            known.or_else(|| reasons::of(at).map(|why| (ImportOutcome::NotMapped, why.to_owned())));
        match (known, value) {
            (Some((becomes, text)), _) => options.push(self.option(at, value, becomes, text)),
            (None, Value::Object(map)) if !map.is_empty() || reasons::is_part(at) => {
                map.iter().for_each(|(key, value)| self.list(&child(at, key), value, options));
            }
            (None, Value::Null) => {}
            (None, _) => {
                let text = reasons::of_unread(at).to_owned();
                options.push(self.option(at, value, ImportOutcome::NotMapped, text));
            }
        }
    }

    fn option(
        &self,
        at: &str,
        value: &Value,
        becomes: ImportOutcome,
        text: String,
    ) -> ImportedOption {
        let path =
            at.trim_start_matches('/').replace('/', ".").replace("~1", "/").replace("~0", "~");
        let shown = match scalar(value) {
            Some(text) if text.len() <= MAX_SHOWN && !text.contains('\n') => text,
            _ => "…".to_owned(),
        };
        ImportedOption {
            line: self.line(at),
            written: format!("{}: {shown}", key(at)),
            option: path,
            becomes,
            text,
        }
    }
}

/// Returns the name of a field within what holds it.
fn key(at: &str) -> String {
    at.rsplit('/').next().unwrap_or_default().replace("~1", "/").replace("~0", "~")
}

/// Returns a scalar as text.
pub(crate) fn scalar(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(value) => Some(value.to_string()),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}
