//! Tests against a real Kubernetes control plane, which `cargo xtask kubernetes test` starts, and in whose
//! namespace they run: `real_nodes` in a cluster with real nodes, those of `peers` each in one with another scheduler, all
//! others in one with fake nodes. Without one each test is ignored with that reason; no part of the control plane is simulated.

#![allow(clippy::unwrap_used, reason = "a test that cannot unwrap should fail")]

mod access;
mod admission;
mod auto;
mod cases;
mod chaos;
mod check;
mod claims;
mod cluster;
#[path = "../conform/mod.rs"]
#[expect(dead_code, reason = "a part of the suite is not for Kubernetes: docs/kubernetes.md")]
mod conform;
mod definitions;
mod explain;
mod export;
mod gang_objects;
mod import;
mod init_queues;
mod inventory;
mod jobs;
mod kserve;
mod kueue;
mod peers;
mod pod_watch;
mod queues;
mod ray;
mod real_nodes;
mod reservations;
mod reserve;
mod scheduler;
mod scheduler_process;
mod settings_object;
mod start_terms;
mod submissions;
mod test_cluster;
