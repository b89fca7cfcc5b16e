//! Tests against a real Kubernetes control plane with fake nodes, which `cargo xtask kubernetes test`
//! starts, and in whose namespace they run. Without one each test is ignored with that reason; no part of
//! the control plane is simulated.

#![allow(clippy::unwrap_used, reason = "a test that cannot unwrap should fail")]

mod access;
mod cluster;
mod inventory;
mod test_cluster;
