//! Slurm as text: jobs and nodes that its programs print, scripts that it takes, and the
//! configuration of a pool of nodes. All of it pure, but for `tool.rs`, which runs Slurm's programs
//! here or over ssh, and `rest.rs`, which asks slurmrestd.

pub mod conf;
pub mod gres;
pub mod host;
pub mod import;
pub mod init;
pub mod job;
pub mod json;
pub mod limits;
pub mod nodes;
pub mod reason;
pub mod rest;
pub mod sacctmgr;
pub mod script;
pub mod squeue;
pub mod state;
pub mod tool;
pub mod variables;
