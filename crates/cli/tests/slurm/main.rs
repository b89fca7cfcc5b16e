//! Against a real Slurm cluster, which `cargo xtask slurm test` starts, and whose namespace these
//! tests run in. Without one each is ignored with that reason; nothing here pretends to be Slurm.

#![allow(clippy::unwrap_used, reason = "a test that cannot unwrap should fail")]

mod acts;
mod agreement;
mod check;
mod cluster;
#[path = "../conform/mod.rs"]
mod conform;
mod conforms;
mod cost;
mod drawn;
mod explain;
mod export;
mod failure;
mod gang;
mod given_away;
mod init;
mod jobs;
mod model;
mod muster;
mod outage;
mod output;
mod promise;
mod reconcile;
mod refused;
mod rest;
mod verify;
