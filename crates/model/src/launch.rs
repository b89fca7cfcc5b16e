//! Orders and reports between daemon and backend: a started element with everything its tasks need.
//!
//! Pure data. The daemon joins an [`crate::Effect`] with its payload to make these; backends carry
//! them out and make no choices.

use serde::{Deserialize, Serialize};
use std::sync::Arc;

use crate::id::{AttemptId, NodeName, Rank};
use crate::job::Checkpoint;
use crate::node::DeviceSet;
use crate::payload::{Command, Identity};
use crate::unit::{Bytes, CpuMilli, GpuMilli, Span};

/// Everything a backend needs to prepare one attempt of a gang.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GangOrder {
    /// Which attempt.
    pub id: AttemptId,
    /// Name of the job, for people reading process lists and logs.
    pub job_name: Arc<str>,
    /// Array index to expose, when the job is an array.
    pub array_index: Option<u32>,
    /// As whom it runs.
    pub identity: Identity,
    /// Environment before Muster's own variables.
    pub env: std::collections::BTreeMap<String, String>,
    /// Working directory.
    pub workdir: std::path::PathBuf,
    /// File mode creation mask.
    pub umask: u32,
    /// Rank 0 runs on a pseudo-terminal.
    pub interactive: bool,
    /// Files for its output, as patterns.
    #[serde(default)]
    pub files: crate::OutputFiles,
    /// Walltime from the moment user processes run.
    pub time_limit: Option<Span>,
    /// Between SIGTERM and SIGKILL.
    pub grace: Span,
    /// Warning before the limit.
    pub checkpoint: Option<Checkpoint>,
    /// What the last acknowledged checkpoint of an earlier attempt was called, when there was one.
    pub last_checkpoint: Option<Arc<str>>,
    /// Which replica of a service it is.
    pub replica: Option<ReplicaOrder>,
    /// Stop a task that has done nothing for so long.
    pub idle: Option<Span>,
    /// Tasks by rank, dense from 0.
    pub tasks: Vec<TaskOrder>,
}

/// A replica of a service.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReplicaOrder {
    /// Which, from 0.
    pub index: u32,
    /// Where rank 0 is to listen; held for it until its process runs.
    pub port: Option<u16>,
}

/// One task of a [`GangOrder`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskOrder {
    /// Rank in the gang.
    pub rank: Rank,
    /// Group (role) it belongs to.
    pub group: Arc<str>,
    /// What it runs.
    pub command: Command,
    /// Node it runs on.
    pub node: NodeName,
    /// Position of the node among the gang's nodes, in order of first rank.
    pub node_rank: u32,
    /// Position among the gang's tasks on its node.
    pub local_rank: u32,
    /// Tasks of the gang on its node.
    pub local_world_size: u32,
    /// Devices it may use.
    pub devices: DeviceSet,
    /// What the visible-devices variables take, in device order: UUIDs or indices; plain indices
    /// for virtual ones.
    pub device_names: Vec<Arc<str>>,
    /// True when the devices are virtual: no hardware behind them.
    pub virtual_devices: bool,
    /// Held per device: 1000, or the share of the one device.
    pub share: GpuMilli,
    /// CPUs set aside; 0 is none.
    pub cpus: CpuMilli,
    /// Memory set aside and enforced where it can be; 0 is none.
    pub memory: Bytes,
}
