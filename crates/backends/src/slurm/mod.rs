//! Slurm's text formats: jobs and nodes that its programs print, batch scripts, and configuration
//! files. All modules are pure functions except `tool`, which runs Slurm's programs here or over
//! ssh, and `rest`, which queries slurmrestd.

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
