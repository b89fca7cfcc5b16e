//! The answer of an import: the job that a script became, what each of its options became, what it
//! starts, and what is wrong with it. How a script is read is known in `backends`; nothing here
//! judges.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

use crate::check::Severity;

/// What a script became.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ImportReport {
    /// The script, as it was named.
    pub script: String,
    /// The job file, as YAML.
    pub job: String,
    /// Every option of the script, in its order.
    pub options: Vec<ImportedOption>,
    /// What the options ask Slurm for, by long names and in one way of writing; of several
    /// components, each after `N:`.
    pub asks: BTreeMap<String, String>,
    /// What the script starts.
    pub launch: ImportedLaunch,
    /// What is wrong with the script, the most severe first.
    pub findings: Vec<ImportFinding>,
}

/// An option of the script, and where it went.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ImportedOption {
    /// Line of the script, from 1.
    pub line: u32,
    /// As it was written.
    pub written: String,
    /// Its long name; empty for what is no option.
    pub option: String,
    /// What it became.
    pub becomes: Becomes,
    /// Where it went, or why it did not: a field of the job, an option of sbatch, a reason.
    pub says: String,
}

/// What an option became.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Becomes {
    /// A field of the job, which means the same.
    Field,
    /// A field of the job, which means nearly the same; what differs is said.
    Near,
    /// An option that is handed to sbatch as it is, by `slurm: {options: …}`.
    Raw,
    /// Nothing in the job.
    NotMapped,
}

/// What the body of a script starts, as far as that is certain.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ImportedLaunch {
    /// What the job's tasks run.
    pub how: LaunchMode,
    /// The same as a sentence.
    pub says: String,
    /// Programs that it starts, in order.
    pub steps: Vec<LaunchStep>,
}

/// How the body of a script became what tasks run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum LaunchMode {
    /// Every task runs the body, in which the one `srun` is taken away.
    EachTask,
    /// The first task alone runs the body as it is, as Slurm does on the first node.
    FirstTask,
    /// Every component runs its own program.
    Roles,
    /// It was made by `muster export slurm`, and is read back.
    Exported,
}

/// A program that a script starts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct LaunchStep {
    /// Line of the script, from 1.
    pub line: u32,
    /// What starts it, outermost first: `srun`, `torchrun`.
    pub launchers: Vec<String>,
    /// Copies that are started by the outermost; `None` is not known.
    pub tasks: Option<u64>,
    /// Processes that each of them starts; `None` is not known.
    pub per_task: Option<u64>,
    /// Processes in all; `None` is not known.
    pub processes: Option<u64>,
    /// What is not known, and why.
    pub unknown: Vec<String>,
}

/// One thing that is wrong with a script.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ImportFinding {
    /// Id of the rule.
    pub rule: &'static str,
    /// How much it matters.
    pub severity: Severity,
    /// What is wrong in general, as a fragment.
    pub title: &'static str,
    /// Line of the script, from 1; `None` where it is about what is missing.
    pub line: Option<u32>,
    /// What was seen here.
    pub evidence: String,
    /// What to do.
    pub cure: &'static str,
}
