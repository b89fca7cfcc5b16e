//! The whole daemon in this process, with a fake backend, a clock that jumps and a store with
//! injected faults. Only the socket, SQLite and the requests are real.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod contract;
mod crash;
mod faults;
mod fuzz;
mod gpu_use;
mod grants;
mod idle_gpus;
mod jobs;
mod logs;
mod notices;
mod oversize;
mod queue_notices;
mod site;
mod store;
mod users;
