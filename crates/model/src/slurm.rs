//! What a job says to Slurm in Slurm's own words, and nobody else reads. What has a word of
//! Muster's stands in [`crate::JobSpec`]; here is only the rest. Values have passed `spec`'s
//! checks: one line each, without control characters.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::unit::Span;

/// The section `slurm` of a job.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SlurmOptions {
    /// `--partition`; several in order of Slurm's choice.
    pub partitions: Vec<Arc<str>>,
    /// `--account`; without it the last component of the job's queue, if it names one.
    pub account: Option<Arc<str>>,
    /// `--qos`.
    pub qos: Option<Arc<str>>,
    /// `--constraint`: features, with `&`, `|`, `[…]` as Slurm has them.
    pub constraint: Option<Arc<str>>,
    /// `--licenses`: `name` or `name:count`, each.
    pub licenses: Vec<Arc<str>>,
    /// `--nodelist`: nodes that must be among those of the job.
    pub nodelist: Vec<Arc<str>>,
    /// `--exclusive`: nobody else on its nodes.
    pub exclusive: bool,
    /// `--dependency=singleton`: one job of this name and user at a time.
    pub singleton: bool,
    /// `--switches`: at most so many leaf switches.
    pub switches: Option<Switches>,
    /// `--segment`: so many nodes together in a block of topology/block.
    pub segment_nodes: Option<u32>,
    /// `--requeue` or `--no-requeue`; `None` is as the cluster has it.
    pub requeue: Option<bool>,
    /// Modules that are loaded before the program runs.
    pub modules: Vec<Arc<str>>,
    /// Conda environment, by name or path, that is activated before the program runs.
    pub conda: Option<Arc<str>>,
    /// Python virtual environment, by path, as `uv venv` or `python -m venv` make it.
    pub venv: Option<Arc<str>>,
    /// Image that the program runs in.
    pub container: Option<Container>,
    /// Shell text that every task runs before its program.
    pub setup: Option<Arc<str>>,
    /// Further options of sbatch, as `--name=value`, each.
    pub options: Vec<Arc<str>>,
    /// Where single groups wait, by their names; what is said there takes the place of what the job
    /// says.
    pub groups: BTreeMap<Arc<str>, GroupOptions>,
}

/// What one group of a job says to Slurm.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GroupOptions {
    /// `--partition` of its component.
    pub partitions: Vec<Arc<str>>,
    /// `--constraint` of its component.
    pub constraint: Option<Arc<str>>,
}

/// How many leaf switches, and for how long Slurm waits for that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Switches {
    /// At most.
    pub count: u32,
    /// Slurm takes any number after it has waited so long; `None`: as long as the cluster lets a
    /// job wait for that.
    pub wait: Option<Span>,
}

/// A container, by Pyxis or Apptainer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Container {
    /// `registry/name:tag`, or a file.
    pub image: Arc<str>,
    /// `SOURCE:TARGET` or `SOURCE:TARGET:ro`, each; beside the working directory.
    pub mounts: Vec<Arc<str>>,
}
