//! Parts of every test cluster, whatever runs in it: its folder and network namespace, its processes, the
//! programs that it needs, and how the test command starts and stops it. Knows neither Slurm nor
//! Kubernetes.

pub mod cgroup;
pub mod command;
pub mod detached;
pub mod folder;
pub mod namespace;
pub mod packages;
pub mod process;
pub mod temporary;
