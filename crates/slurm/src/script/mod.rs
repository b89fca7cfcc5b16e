//! Generates a batch script from a job: directives, then the commands of every rank. Pure
//! functions. Anything that Slurm cannot do is refused or reported in a warning, never dropped
//! silently.

mod body;
mod checkpoint;
mod container;
mod directive;
mod listener;
mod notices;
pub mod operator;
mod output;
pub mod quote;
mod request;
mod shape;

use std::collections::BTreeMap;
use std::sync::Arc;

use muster_model::notice::NoticeRule;
use muster_model::payload::TaskCommand;
use muster_model::slurm::SlurmOptions;
use muster_model::sweep::Sweep;
use muster_model::{JobSpec, OutputFiles, Time, Unsupported};

pub use directive::Directive;

/// Input of a generated script.
#[derive(Clone, Copy, Debug)]
pub struct ScriptInput<'a> {
    /// Job specification; dependencies are Slurm job numbers.
    pub spec: &'a JobSpec,
    /// Command of each group, by name.
    pub commands: &'a BTreeMap<Arc<str>, TaskCommand>,
    /// Environment variables of the job.
    pub env: &'a BTreeMap<String, String>,
    /// Working directory; `None` is the directory of the submission.
    pub workdir: Option<&'a str>,
    /// Parameters of a sweep; `None` for other jobs.
    pub sweep: Option<&'a Sweep>,
    /// Rules of the notices about the job.
    pub notices: &'a [NoticeRule],
    /// Patterns of the output files.
    pub files: &'a OutputFiles,
    /// Options for Slurm only, with what the job says of its environment.
    pub slurm: &'a SlurmOptions,
    /// Files that hold secrets, by the variable that each becomes.
    pub secrets: &'a BTreeMap<Arc<str>, Arc<str>>,
    /// Muster's directory of the job; `None` for a script that runs without Muster.
    pub directory: Option<JobDirectory<'a>>,
    /// Path of this program on the nodes; `None` for a script that runs without Muster.
    pub program: Option<&'a str>,
    /// True if every rank is to be verified before its program starts; needs [`Self::program`].
    pub verify: bool,
    /// Current time: begin times are passed on relative to it.
    pub now: Time,
}

/// Directory in which Muster keeps a job's files.
#[derive(Clone, Copy, Debug)]
pub struct JobDirectory<'a> {
    /// Muster's job id: letters and digits.
    pub id: &'a str,
    /// Absolute path for output and marks, which every node sees.
    pub dir: &'a str,
}

/// Generated script, with notes for the user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GeneratedScript {
    /// Text of the batch script.
    pub text: String,
    /// Long names of the options that it sets: variables of sbatch's environment must not override
    /// them.
    pub options: Vec<&'static str>,
    /// Settings of the job that Slurm handles differently.
    pub warnings: Vec<String>,
    /// Features that a script without Muster lacks; empty for others.
    pub left_out: Vec<&'static str>,
}

// An import recognises the parts of an exported script by these marks.

/// First line below the directives of a script that runs without Muster.
pub(super) const MADE: &str =
    "# Made by `muster export slurm`. It needs Slurm and bash, not Muster.";
/// Mark above the job's own variables.
pub(super) const VARIABLES: &str = "\n# The job's own variables.\n";
/// Mark above the set-up of every task.
pub(super) const SETUP: &str = "# Before the program.\n";
/// Mark above the program of a task.
pub(super) const PROGRAM: &str = "# The program.\n";

/// Mark above the evaluation of checkpoints where each rank saves.
pub(super) const ALL_SAVE: &str =
    "# All ranks save: the oldest of their words counts, once each has said one.\n";
/// Mark where a script with time slices requests a checkpoint.
pub(super) const ASKS: &str = "  scancel --signal=";
pub(super) use listener::PASSES_ON;

/// Returns the name of a signal, as sbatch takes it.
pub(super) fn signal_named(number: i32) -> Option<&'static str> {
    request::SIGNALS.iter().find(|(known, _)| *known == number).map(|(_, name)| *name)
}

/// Generates the script.
///
/// # Errors
///
/// All settings of the job that Slurm cannot support.
pub fn render(source: &ScriptInput<'_>) -> Result<GeneratedScript, Vec<Unsupported>> {
    // 1. Generate the directives.
    let request = request::request(source)?;
    // 2. Generate the body.
    let mut text = String::from("#!/bin/bash\n");
    for directive in &request.directives {
        text.push_str(&directive.line());
    }
    text.push_str(&body::body(source, &request.roles));
    let options = request.directives.iter().map(|directive| directive.name).collect();
    let left_out = if source.directory.is_none() { body::left_out(source) } else { Vec::new() };
    Ok(GeneratedScript { text, options, warnings: request.warnings, left_out })
}
