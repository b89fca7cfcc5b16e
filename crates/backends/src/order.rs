//! Orders from the daemon to a backend: a started element with everything that its tasks need.
//!
//! The daemon joins an [`muster_model::Effect`] with its payload to make an order; backends carry it out
//! and make no choices.

use serde::{Deserialize, Serialize};
use std::sync::Arc;

use muster_model::payload::{Identity, TaskCommand};
use muster_model::sweep::Metric;
use muster_model::{
    AttemptId, Bytes, Checkpoint, CpuMilli, DeviceSet, GpuMilli, NodeName, OutputFiles, Rank, Span,
    TaskEnvironment,
};

/// Order to prepare one attempt of a gang.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GangOrder {
    /// Id of the attempt to prepare.
    pub id: AttemptId,
    /// Name of the job, for process lists and logs.
    pub job_name: Arc<str>,
    /// Array index to expose to the tasks; `None` when the job is not an array.
    pub array_index: Option<u32>,
    /// User that the tasks run as.
    pub identity: Identity,
    /// Environment without Muster's own variables.
    pub env: std::collections::BTreeMap<String, String>,
    /// Working directory of the tasks.
    pub workdir: std::path::PathBuf,
    /// File mode creation mask.
    pub umask: u32,
    /// True when rank 0 runs on a pseudo-terminal.
    pub interactive: bool,
    /// Patterns of the files for its output.
    #[serde(default)]
    pub files: OutputFiles,
    /// Environment that is activated before the program.
    #[serde(default)]
    pub environment: TaskEnvironment,
    /// Longest run time, from the moment that user processes run; `None` means no limit.
    pub time_limit: Option<Span>,
    /// Time between SIGTERM and SIGKILL.
    pub grace: Span,
    /// Checkpoint signal and its lead time before the time limit; `None` when the job takes no
    /// checkpoints.
    pub checkpoint: Option<Checkpoint>,
    /// Label of the last acknowledged checkpoint of an earlier attempt; `None` when there was none.
    pub last_checkpoint: Option<Arc<str>>,
    /// Replica of a service; `None` for other jobs.
    pub replica: Option<ReplicaOrder>,
    /// Idle time after which a task is stopped; `None` means never.
    pub idle: Option<Span>,
    /// Metric that rank 0 reports; `None` when it reports none.
    #[serde(default)]
    pub metric: Option<Metric>,
    /// True when each task runs as soon as it is prepared, without Go and without reporting that it
    /// is prepared: a single task waits for no other.
    #[serde(default)]
    pub starts_at_once: bool,
    /// Tasks by rank, dense from 0.
    pub tasks: Vec<TaskOrder>,
}

/// Replica of a service.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReplicaOrder {
    /// Index of the replica, from 0.
    pub index: u32,
    /// Port that rank 0 must listen on, reserved until its process runs; `None` when the service
    /// has no ports.
    pub port: Option<u16>,
}

/// Order for one task of a [`GangOrder`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskOrder {
    /// Rank in the gang.
    pub rank: Rank,
    /// Name of its task group (role).
    pub group: Arc<str>,
    /// Command that the task runs.
    pub command: TaskCommand,
    /// Node that the task runs on.
    pub node: NodeName,
    /// Position of the node among the gang's nodes, from 0, in order of first rank.
    pub node_rank: u32,
    /// Position among the gang's tasks on its node, from 0.
    pub local_rank: u32,
    /// Number of the gang's tasks on its node.
    pub local_world_size: u32,
    /// Devices that the task may use.
    pub devices: DeviceSet,
    /// Values for the visible-devices variables, in device order: UUIDs or indices; plain indices
    /// for virtual devices.
    pub device_names: Vec<Arc<str>>,
    /// True when the devices are virtual, without hardware behind them.
    pub virtual_devices: bool,
    /// Thousandths held of each device: 1000, or the share of the one device.
    pub share: GpuMilli,
    /// CPUs reserved for the task; 0 means none.
    pub cpus: CpuMilli,
    /// Memory reserved for the task in bytes, enforced where possible; 0 means none.
    pub memory: Bytes,
}
