//! Payload of a job: command, environment and identity. The engine never sees it; it is in the
//! store under a [`crate::PayloadId`].
//!
//! It holds the submitter's environment, which may contain secrets: it has no `Display`, its
//! `Debug` hides values, and it is never part of a view.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::environment::TaskEnvironment;
use crate::job::Checkpoint;
use crate::notice::NoticeRule;
use crate::sweep::Sweep;
use crate::unit::{Bytes, CpuMilli, Span};

/// Command, environment and identity of a job.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Payload {
    /// Command of each task group, by the name of the group.
    pub commands: BTreeMap<Arc<str>, TaskCommand>,
    /// Environment of the submitter at submission, overridden by the spec's `env`.
    pub env: BTreeMap<String, String>,
    /// Working directory of the tasks.
    pub workdir: PathBuf,
    /// File mode creation mask.
    pub umask: u32,
    /// User that the tasks run as.
    pub identity: Identity,
    /// True when a terminal is attached: rank 0 runs on a pseudo-terminal.
    pub interactive: bool,
    /// Files for the output, when the user names them.
    #[serde(default, skip_serializing_if = "crate::OutputFiles::is_empty")]
    pub files: crate::OutputFiles,
    /// Parameters of a sweep, whose points are the indices of the elements; `None` for other jobs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sweep: Option<Box<Sweep>>,
    /// Rules of the notices about the job.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notices: Vec<NoticeRule>,
    /// Environment that is activated before the program.
    #[serde(default, skip_serializing_if = "TaskEnvironment::is_empty")]
    pub environment: TaskEnvironment,
}

impl fmt::Debug for Payload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Payload")
            .field("commands", &self.commands)
            .field("env", &format_args!("{} variables, hidden", self.env.len()))
            .field("workdir", &self.workdir)
            .field("identity", &self.identity)
            .finish_non_exhaustive()
    }
}

/// Command of one task.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TaskCommand {
    /// Program and arguments, without a shell.
    Argv(Vec<String>),
    /// Text for `/bin/sh -c`, or for the interpreter that a `#!` line names.
    Script(String),
    /// Node of a Ray cluster; on rank 0 also the program that runs on the cluster.
    Ray(Box<RayTask>),
}

impl TaskCommand {
    /// Returns the command as a user would type it; for a node of a Ray cluster its program, or a comment if
    /// it has none.
    #[must_use]
    pub fn text(&self) -> String {
        match self {
            Self::Argv(words) => {
                words.iter().map(|word| shell_word(word)).collect::<Vec<_>>().join(" ")
            }
            Self::Script(text) => text.clone(),
            Self::Ray(task) => match (&task.driver, &task.join) {
                (Some(driver), _) => driver.text(),
                (None, Some(head)) => format!("# nodes of the Ray cluster at {head}"),
                (None, None) => "# a Ray cluster for `muster ray submit`".to_owned(),
            },
        }
    }

    /// Returns the texts that the command consists of.
    #[must_use]
    pub fn parts(&self) -> Vec<&str> {
        match self {
            Self::Argv(words) => words.iter().map(String::as_str).collect(),
            Self::Script(text) => vec![text],
            Self::Ray(task) => task.driver.as_ref().map_or_else(Vec::new, Self::parts),
        }
    }
}

/// Names of the fields of a runtime environment of Ray (Ray 2.60, `RuntimeEnv.known_fields`).
pub const RUNTIME_ENV_FIELDS: [&str; 16] = [
    "working_dir",
    "py_modules",
    "pip",
    "uv",
    "conda",
    "env_vars",
    "excludes",
    "config",
    "py_executable",
    "image_uri",
    "container",
    "java_jars",
    "worker_process_setup_hook",
    "nsight",
    "_nsight",
    "_rocprof_sys",
];

/// Terms of one node of a Ray cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RayTask {
    /// Program that rank 0 runs on the cluster, and whose exit code is the job's; `None` for a cluster that
    /// waits for programs, and for nodes that join another one.
    pub driver: Option<TaskCommand>,
    /// Nodes that must have joined before the program starts.
    pub nodes: u32,
    /// GPUs that the node offers.
    pub gpus: u32,
    /// CPUs that the node offers, in thousandths; 0 for one per GPU and one more.
    pub cpus: CpuMilli,
    /// Memory that the node offers in bytes, its object store included; 0 leaves it to Ray.
    pub memory: Bytes,
    /// Share of the memory for the object store, in percent.
    pub object_store_percent: u32,
    /// True when the head runs a dashboard, which also answers what the cluster waits for.
    pub has_dashboard: bool,
    /// Python interpreter that has Ray.
    pub python: String,
    /// Checkpoint signal, which rank 0 passes to its program; `None` when the job takes no checkpoints.
    pub checkpoint: Option<Checkpoint>,
    /// Version of Ray that the job needs; `None` for any.
    pub version: Option<String>,
    /// Address of the head of another cluster, which the node joins; `None` for a cluster of its own.
    #[serde(default)]
    pub join: Option<String>,
    /// Time without work after which a node that joined another cluster leaves it, and after which a cluster
    /// without a program ends; `None` for never.
    #[serde(default)]
    pub idle: Option<Span>,
    /// Time from SIGTERM to SIGKILL, within which a node that joined another cluster leaves it.
    #[serde(default)]
    pub grace: Span,
    /// Further nodes that the cluster may ask for; `None` for a cluster of fixed size.
    #[serde(default)]
    pub growth: Option<RayGrowth>,
    /// Runtime environment of Ray for the tasks and actors of programs, a mapping in JSON; `None` for that of the
    /// nodes.
    #[serde(default)]
    pub runtime_env: Option<String>,
}

impl RayTask {
    /// Returns the one node of a cluster without GPUs, with Ray's defaults.
    #[must_use]
    pub fn new(driver: Option<TaskCommand>) -> Self {
        Self {
            driver,
            nodes: 1,
            gpus: 0,
            cpus: CpuMilli(0),
            memory: Bytes(0),
            object_store_percent: Self::OBJECT_STORE_PERCENT,
            has_dashboard: true,
            python: "python3".to_owned(),
            checkpoint: None,
            version: None,
            join: None,
            idle: None,
            grace: Span::default(),
            growth: None,
            runtime_env: None,
        }
    }

    /// Default share of a node's memory for its object store: what Ray takes of a machine's.
    const OBJECT_STORE_PERCENT: u32 = 30;
}

/// Further nodes that a Ray cluster may ask for while parts of its program wait.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RayGrowth {
    /// Group that the nodes are like.
    pub group: Arc<str>,
    /// Most nodes that it may have besides its own.
    pub nodes: u32,
    /// GPUs that each of them offers.
    pub gpus: u32,
    /// CPUs of each, in thousandths; 0 for one per GPU and one more.
    pub cpus: CpuMilli,
    /// Memory of each in bytes; 0 leaves it to Ray.
    pub memory: Bytes,
    /// Job file in JSON that adds a node to the cluster; `tasks`, `name`, `time` and `ray.join` are set when it
    /// is submitted.
    pub job: String,
    /// Time limit of the cluster's own job; `None` for none.
    pub time_limit: Option<Span>,
}

/// Returns a word as it is typed in a shell: in single quotes unless it is plain.
#[must_use]
pub fn shell_word(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,+@%".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

/// Unix user of the machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    /// Login name of the user.
    pub user: crate::id::UserName,
    /// Numeric user id of the user.
    pub uid: u32,
    /// Numeric primary group id.
    pub gid: u32,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_read_back_as_they_were() {
        for (word, expected) in [
            ("train.py", "train.py"),
            ("", "''"),
            ("a b", "'a b'"),
            ("it's", "'it'\\''s'"),
            ("$HOME", "'$HOME'"),
        ] {
            assert_eq!(shell_word(word), expected);
        }
    }
}
