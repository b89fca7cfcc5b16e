//! Slurm as text: the nodes that its programs print, and the configuration of a pool of nodes. Pure; nothing here runs Slurm.

pub mod conf;
mod gres;
pub mod nodes;
