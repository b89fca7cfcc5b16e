//! Slurm's text formats: jobs, nodes and accounts that its programs print, batch scripts, and
//! configuration files. Text in, values out, and back: this crate runs no program, reads no file
//! and opens no connection (`delegate` does), and makes no scheduling decision.

#![cfg_attr(test, allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test"))]

pub mod conf;
pub mod gres;
pub mod import;
pub mod import_conf;
pub mod init;
pub mod inventory;
pub mod job;
pub mod json;
pub mod limits;
pub mod node;
pub mod pool;
pub mod ray_growth;
pub mod reason;
pub mod sacctmgr;
pub mod script;
mod sizes;
pub mod squeue;
pub mod state;
pub mod time;
pub mod tres;
pub mod variables;
