//! Slurm options of a job that only Slurm interprets. Options with an equivalent in Muster are in
//! [`crate::JobSpec`]. Values have passed the checks of `spec`: one line each, without control
//! characters.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::unit::Span;

/// Section `slurm` of a job file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SlurmOptions {
    /// `--partition`: partitions, of which Slurm chooses one in this order.
    pub partitions: Vec<Arc<str>>,
    /// `--account`; `None` means the last component of the job's queue, if it names one.
    pub account: Option<Arc<str>>,
    /// `--qos`: quality of service.
    pub qos: Option<Arc<str>>,
    /// `--constraint`: node features, combined with `&`, `|`, `[…]` in Slurm's syntax.
    pub constraint: Option<Arc<str>>,
    /// `--licenses`: `name` or `name:count` each.
    pub licenses: Vec<Arc<str>>,
    /// `--nodelist`: nodes that must be among those of the job.
    pub nodelist: Vec<Arc<str>>,
    /// `--exclusive`: no other job runs on its nodes.
    pub exclusive: bool,
    /// `--dependency=singleton`: one job of this name and user at a time.
    pub singleton: bool,
    /// `--switches`: highest number of leaf switches.
    pub switches: Option<LeafSwitches>,
    /// `--segment`: number of nodes that must be together in a block of topology/block.
    pub segment_nodes: Option<u32>,
    /// `--requeue` or `--no-requeue`; `None` means the cluster's default.
    pub requeue: Option<bool>,
    /// Environment modules that are loaded before the program runs.
    pub modules: Vec<Arc<str>>,
    /// Conda environment, by name or path, that is activated before the program runs.
    pub conda: Option<Arc<str>>,
    /// Path of a Python virtual environment, as made by `uv venv` or `python -m venv`.
    pub venv: Option<Arc<str>>,
    /// Container that the program runs in.
    pub container: Option<SlurmContainer>,
    /// Shell text that every task runs before its program.
    pub setup: Option<Arc<str>>,
    /// Further options of sbatch, each as `--name=value`.
    pub options: Vec<Arc<str>>,
    /// Options of single task groups, by name; they override those of the job.
    pub groups: BTreeMap<Arc<str>, GroupOptions>,
}

/// Slurm options of one task group of a job.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GroupOptions {
    /// `--partition` of its component.
    pub partitions: Vec<Arc<str>>,
    /// `--constraint` of its component.
    pub constraint: Option<Arc<str>>,
}

/// Limit on leaf switches, and the time for which Slurm waits for such a placement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeafSwitches {
    /// Highest number of leaf switches.
    pub count: u32,
    /// Wait after which Slurm accepts any number of switches; `None` means the cluster's default.
    pub wait: Option<Span>,
}

/// Container of a job, started by Pyxis or Apptainer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlurmContainer {
    /// Image: `registry/name:tag`, or a file.
    pub image: Arc<str>,
    /// Mounts beside the working directory, each as `SOURCE:TARGET` or `SOURCE:TARGET:ro`.
    pub mounts: Vec<Arc<str>>,
}
