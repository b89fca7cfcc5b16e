//! Import of an experiment of Determined: a job file, most often of a sweep, and what a program that ran under
//! Determined must do differently. Text in, one report out, which covers every field of the experiment. The
//! caller validates the job file.
//!
//! What a field means is from Determined's reference of experiment configurations (version 0.38), and from the
//! source of its searchers where the reference is silent.
//!
//! `fields` holds the experiment with what became of each field; `parameters`, `searcher`, `resources`,
//! `environment` and `program` convert one part each into a `draft`; `reasons` has why the others have no
//! counterpart, and `findings` what is wrong or must change.

#![cfg_attr(test, allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test"))]

mod draft;
mod environment;
mod fields;
mod findings;
mod parameters;
mod program;
mod reasons;
mod resources;
mod searcher;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use muster_document::Document;
use muster_model::imported::{ImportReport, ImportSource, ImportedLaunch, LaunchMode};
use serde_json::Value;
use thiserror::Error;

use draft::ExperimentDraft;
use fields::ExperimentFields;

pub use findings::ids;

/// Error of importing an experiment.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum NotAnExperiment {
    /// The text is neither YAML nor JSON.
    #[error("it is neither YAML nor JSON: {0}")]
    NotYaml(String),
    /// The file has several documents.
    #[error("it has {0} documents, and an experiment is one")]
    Several(usize),
    /// The experiment names no program.
    #[error("the experiment has no `entrypoint`")]
    NoEntrypoint,
    /// The entry point is a class, which only Determined's own harness can run.
    #[error("its entry point `{0}` is a trial class, which only Determined's own program can run")]
    TrialClass(String),
    /// Its searcher is a program of its own.
    #[error("its searcher is `{0}`, which asks a program of its own for each trial")]
    CustomSearcher(String),
    /// A field cannot be read.
    #[error("line {line}: {why}")]
    BadField {
        /// Line of the field, from 1.
        line: u32,
        /// Reason, as a sentence without its full stop.
        why: String,
    },
}

impl NotAnExperiment {
    /// Returns the next step for the user.
    #[must_use]
    pub fn hint(&self) -> &'static str {
        match self {
            Self::NotYaml(_) => "`det experiment create --paused FILE .` checks it",
            Self::Several(_) => "write each experiment into a file of its own",
            Self::NoEntrypoint => {
                "write the program that it starts: `entrypoint: python3 train.py`"
            }
            Self::TrialClass(_) => {
                "make it a script that trains by itself, as with Determined's `pytorch.init()` or Core API, and \
                 name it: `entrypoint: python3 train.py`"
            }
            Self::CustomSearcher(_) => {
                "write the points into a file, one object per line, and name it as `params` of a sweep"
            }
            Self::BadField { .. } => "correct the field",
        }
    }
}

/// Returns true if a text looks like an experiment of Determined: a mapping with an entry point or a searcher,
/// and without the version of an object of Kubernetes.
#[must_use]
pub fn is_experiment(text: &str) -> bool {
    let has = |key: &str| {
        let quoted = format!("\"{key}\"");
        text.lines().any(|line| {
            line.strip_prefix(key).is_some_and(|rest| rest.starts_with(':'))
                || line.trim_start().starts_with(&quoted)
        })
    };
    !text.starts_with("#!") && !has("apiVersion") && (has("entrypoint") || has("searcher"))
}

/// Imports an experiment. `file` is its name, which names an experiment without a name.
///
/// # Errors
///
/// When the text is no experiment, or one that only Determined can run.
pub fn import(text: &str, file: &str) -> Result<ImportReport, NotAnExperiment> {
    // 1. Read it.
    let mut documents: Vec<Document> =
        muster_document::documents(text).map_err(NotAnExperiment::NotYaml)?;
    let document = match (documents.pop(), documents.len()) {
        (Some(document), 0) => document,
        (None, _) => return Err(NotAnExperiment::NoEntrypoint),
        (Some(_), others) => return Err(NotAnExperiment::Several(others + 1)),
    };
    let mut fields = ExperimentFields::new(document);
    // 2. Convert it part by part.
    let mut draft = ExperimentDraft { name: name(&mut fields, file), ..ExperimentDraft::default() };
    searcher::convert(&mut fields, &mut draft)?;
    parameters::convert(&mut fields, &mut draft)?;
    searcher::seed(&mut fields, &mut draft)?;
    resources::convert(&mut fields, &mut draft)?;
    if !draft.is_sweep() {
        searcher::without_sweep(&mut fields, &mut draft);
    }
    environment::convert(&mut fields, &mut draft);
    program::convert(&mut fields, &mut draft)?;
    // 3. Check what must change.
    let findings = findings::find(&fields, &draft);
    Ok(ImportReport {
        script: file.to_owned(),
        source: ImportSource::Determined,
        job: draft.yaml(),
        asks: asks(&draft),
        launch: launch(&draft),
        findings,
        options: fields.into_options(),
    })
}

/// Returns the name of the job: that of the experiment, else of its file, with the letters that a name may have.
fn name(fields: &mut ExperimentFields, file: &str) -> String {
    let stem = file.rsplit('/').next().unwrap_or(file).split('.').next().unwrap_or_default();
    let given = fields.text("/name").unwrap_or_default();
    let clean = |text: &str| {
        let letters = text.chars().map(|c| if is_name_letter(c) { c } else { '-' });
        let clean: String = letters.take(MAX_NAME).collect();
        clean.trim_matches('-').to_owned()
    };
    let name = clean(&given);
    if !given.is_empty() {
        if name == given {
            fields.field("/name", "name");
        } else {
            fields.near("/name", "name: letters that a name may not have are `-`");
        }
    }
    [name, clean(stem), "experiment".to_owned()]
        .into_iter()
        .find(|name| !name.is_empty())
        .unwrap_or_default()
}

/// Most letters of a name.
const MAX_NAME: usize = 64;

fn is_name_letter(c: char) -> bool {
    c.is_ascii_alphanumeric() || "._-".contains(c)
}

fn asks(draft: &ExperimentDraft) -> BTreeMap<String, String> {
    let trials = draft.trials.map(|trials| ("trials".to_owned(), trials.to_string()));
    let gpus = ("gpus".to_owned(), draft.slots.to_string());
    trials.into_iter().chain([gpus]).collect()
}

fn launch(draft: &ExperimentDraft) -> ImportedLaunch {
    let what = match &draft.run {
        Value::String(text) => text.lines().next().unwrap_or_default().to_owned(),
        other => other.to_string(),
    };
    let text = if draft.is_sweep() {
        format!("each trial is an element of the sweep and runs `{what}`")
    } else {
        format!("the trial is the job and runs `{what}`")
    };
    ImportedLaunch { how: LaunchMode::Trials, text, steps: Vec::new() }
}
