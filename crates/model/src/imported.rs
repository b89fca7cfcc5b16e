//! Report of an import: the resulting job, the mapping of each option of a script or field of an
//! object, the programs that it starts, and findings. `slurm` parses scripts, `kubernetes` objects and
//! `determined` experiments; this module holds only values.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

use crate::check::Severity;

/// Report on an imported script, or on imported objects.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ImportReport {
    /// Path of the file as the user gave it.
    pub script: String,
    /// System that the file was written for.
    pub source: ImportSource,
    /// Job file as YAML; one document for each job.
    pub job: String,
    /// Options of the script, or fields of the objects, in their order.
    pub options: Vec<ImportedOption>,
    /// Options as requested from Slurm, by long name and in normalised form; those of component N
    /// of a heterogeneous job have the prefix `N:`. Of objects: `pods`, `gpus` and `time`, where there
    /// are several jobs with the prefix `NAME:`.
    pub asks: BTreeMap<String, String>,
    /// Programs that the script starts.
    pub launch: ImportedLaunch,
    /// Problems of the script, the most severe first.
    pub findings: Vec<ImportFinding>,
}

/// System that an imported file was written for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ImportSource {
    /// Slurm: a script for sbatch.
    Slurm,
    /// Kubernetes: objects such as Jobs.
    Kubernetes,
    /// Determined: the configuration of an experiment.
    Determined,
}

/// Option of a script or field of an object, and its mapping.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ImportedOption {
    /// Line of the file, from 1.
    pub line: u32,
    /// Text of the option in the file.
    pub written: String,
    /// Long name of the option, or path of the field; empty when the line is not an option.
    pub option: String,
    /// Result of the mapping.
    pub becomes: ImportOutcome,
    /// Target of the mapping (a field of the job, an option of sbatch), or the reason why there is
    /// none.
    #[serde(rename = "says")]
    pub text: String,
}

/// Result of mapping an option.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ImportOutcome {
    /// Mapped to a field of the job with the same meaning.
    Field,
    /// Mapped to a field of the job with nearly the same meaning; `says` has the difference.
    Near,
    /// Passed to sbatch unchanged, through `slurm: {options: …}`.
    Raw,
    /// Not mapped to anything in the job.
    NotMapped,
}

/// Programs that the body of a script starts, as far as they can be determined.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ImportedLaunch {
    /// Mapping of the body to tasks.
    pub how: LaunchMode,
    /// The same as a sentence.
    #[serde(rename = "says")]
    pub text: String,
    /// Programs that the body starts, in order.
    pub steps: Vec<LaunchStep>,
}

/// Mapping of the body of a script to the tasks of the job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum LaunchMode {
    /// Every task runs the body without its single `srun`.
    EachTask,
    /// Only the first task runs the body unchanged, as Slurm does on the first node.
    FirstTask,
    /// Every component runs its own program.
    Roles,
    /// The file was written by `muster export` and is read back.
    Exported,
    /// Every task runs the command of its container.
    Containers,
    /// Every trial of an experiment runs its entry point.
    Trials,
    /// Every task is a node of a Ray cluster, on which the first runs what is left of the body.
    Ray,
}

/// Program that a script starts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct LaunchStep {
    /// Line of the script, from 1.
    pub line: u32,
    /// Launchers of the program, outermost first: `srun`, `torchrun`.
    pub launchers: Vec<String>,
    /// Copies that the outermost launcher starts; `None` when unknown.
    pub tasks: Option<u64>,
    /// Processes that each copy starts; `None` when unknown.
    pub per_task: Option<u64>,
    /// Processes in total; `None` when unknown.
    pub processes: Option<u64>,
    /// Numbers that are unknown, and why.
    pub unknown: Vec<String>,
}

/// Problem of a script.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ImportFinding {
    /// Id of the rule that found it.
    pub rule: &'static str,
    /// Severity of the problem.
    pub severity: Severity,
    /// Title of the rule, as a fragment.
    pub title: &'static str,
    /// Line of the script, from 1; `None` when something is missing from the script.
    pub line: Option<u32>,
    /// Observation in this script.
    pub evidence: String,
    /// Advice to fix the problem.
    pub cure: &'static str,
}
