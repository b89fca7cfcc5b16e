//! A job as the script that a careful user of Slurm would have typed: directives from the job's own
//! fields, then what every rank runs. Pure. What Slurm cannot promise is refused or said in a
//! warning, never left out in silence.

mod body;
mod container;
mod listener;
mod output;
pub mod quote;
mod request;
mod saving;
mod shape;

use std::collections::BTreeMap;
use std::sync::Arc;

use muster_model::payload::Command;
use muster_model::slurm::SlurmOptions;
use muster_model::{JobSpec, OutputFiles, Time};

pub use request::{Directive, Unfit};

/// Everything that a script is made of.
#[derive(Clone, Copy, Debug)]
pub struct Source<'a> {
    /// The job; dependencies are numbers of Slurm.
    pub spec: &'a JobSpec,
    /// What each group runs, by name.
    pub commands: &'a BTreeMap<Arc<str>, Command>,
    /// Variables of the job's own.
    pub env: &'a BTreeMap<String, String>,
    /// Where it runs; `None` is where it is submitted.
    pub workdir: Option<&'a str>,
    /// Files for its output, as patterns.
    pub files: &'a OutputFiles,
    /// What it says to Slurm alone.
    pub slurm: &'a SlurmOptions,
    /// Where Muster keeps what the job leaves; `None` for a script that runs without Muster.
    pub kept: Option<Kept<'a>>,
    /// This program, by a path that the nodes see, where every rank is to check its place before
    /// its program starts.
    pub verify: Option<&'a str>,
    /// Now: begin times are handed over as so long from now.
    pub now: Time,
}

/// What Muster keeps of a job.
#[derive(Clone, Copy, Debug)]
pub struct Kept<'a> {
    /// Muster's own id of it: letters and digits.
    pub id: &'a str,
    /// Where its output and marks go; an absolute path that every node sees.
    pub dir: &'a str,
}

/// A script, and what its user should know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Script {
    /// For sbatch.
    pub text: String,
    /// The options that it sets, by their long names: variables of sbatch's environment must not
    /// overrule them.
    pub options: Vec<&'static str>,
    /// What Slurm does otherwise than the job says.
    pub warnings: Vec<String>,
    /// What a script without Muster lacks; empty for others.
    pub left_out: Vec<&'static str>,
}

// By these marks an import knows what each part of an exported script is for.

/// The first line below the directives of a script that runs without Muster.
pub(super) const MADE: &str =
    "# Made by `muster export slurm`. It needs Slurm and bash, not Muster.";
/// Above the job's own variables.
pub(super) const VARIABLES: &str = "\n# The job's own variables.\n";
/// Above what every task runs before its program.
pub(super) const SETUP: &str = "# Before the program.\n";
/// Above the program of a task.
pub(super) const PROGRAM: &str = "# The program.\n";

/// Above what counts as saved where each rank saves.
pub(super) const ALL_SAVE: &str =
    "# All ranks save: the oldest of their words counts, once each has said one.\n";
/// Where a script that takes turns asks its ranks to save.
pub(super) const ASKS: &str = "  scancel --signal=";
pub(super) use listener::PASSES_ON;

/// The name of a signal, as sbatch takes it.
pub(super) fn signal_named(number: i32) -> Option<&'static str> {
    request::SIGNALS.iter().find(|(known, _)| *known == number).map(|(_, name)| *name)
}

/// Makes the script.
///
/// # Errors
/// Everything that Slurm cannot do for this job.
pub fn render(source: &Source<'_>) -> Result<Script, Vec<Unfit>> {
    // 1. What is asked of Slurm.
    let request = request::request(source)?;
    // 2. What every rank runs.
    let mut text = String::from("#!/bin/bash\n");
    for directive in &request.directives {
        text.push_str(&directive.line());
    }
    text.push_str(&body::body(source, &request.roles));
    let options = request.directives.iter().map(|directive| directive.name).collect();
    let left_out = if source.kept.is_none() { body::left_out(source) } else { Vec::new() };
    Ok(Script { text, options, warnings: request.warnings, left_out })
}
