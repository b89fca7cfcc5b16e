//! What a job executes and as whom. The engine never sees it; it lies in the store behind a
//! [`crate::PayloadId`].
//!
//! It holds the submitter's environment, which may contain secrets: it has no `Display`, its
//! `Debug` hides values, and it never enters a view.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// Command, environment and identity of a job.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Payload {
    /// Per task group, by name, what to run.
    pub commands: BTreeMap<Arc<str>, Command>,
    /// The submitter's environment as it was at submission, with the spec's `env` on top.
    pub env: BTreeMap<String, String>,
    /// Working directory.
    pub workdir: PathBuf,
    /// File mode creation mask.
    pub umask: u32,
    /// As whom it runs.
    pub identity: Identity,
    /// A terminal is attached: rank 0 runs on a pseudo-terminal.
    pub interactive: bool,
    /// Files that its user names for its output.
    #[serde(default, skip_serializing_if = "crate::OutputFiles::is_empty")]
    pub files: crate::OutputFiles,
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

/// What one task runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Command {
    /// Program and arguments, no shell.
    Argv(Vec<String>),
    /// Text for `/bin/sh -c`, or for the interpreter that a `#!` line names.
    Script(String),
}

/// A user of the machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    /// Login name.
    pub user: crate::id::UserName,
    /// Numeric user id.
    pub uid: u32,
    /// Numeric primary group id.
    pub gid: u32,
}
