//! End-to-end tests of the built binary: real daemon, supervisors and processes, each test in a
//! home of its own.

#![allow(clippy::unwrap_used, reason = "a test that cannot unwrap should fail")]

mod actions;
mod advise;
mod auto;
mod check;
mod check_kubernetes;
mod check_ray;
mod checkpoint;
mod choosing;
mod codes;
mod compare;
#[path = "../conform/mod.rs"]
mod conform;
mod conforms;
mod contention;
mod crash;
mod daemon;
mod debug_dump;
mod docs;
mod drain;
mod elastic;
mod environments;
mod first_minute;
mod home;
mod import;
mod import_kubernetes;
mod import_slurm;
mod init_hybrid;
mod init_none;
mod init_ray;
mod init_slurm;
mod inventory;
mod jobs;
mod logs;
mod metrics;
mod mistakes;
mod notices;
mod output;
mod packing;
mod page;
mod place;
mod preempt;
mod prove;
mod pty;
mod random;
mod remote;
mod reserve;
mod restore;
mod services;
mod simulate;
mod simulate_calibrate;
mod simulate_policy;
mod simulate_variants;
mod slices;
mod start;
mod sweeps;
mod terminal;
mod top;
mod trace;
mod tutorial;
mod ui;
mod usage;
mod views;
mod whatif;
