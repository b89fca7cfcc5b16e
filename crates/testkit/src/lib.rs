//! Test equipment around the production engine and runtime. No crate links it except as a
//! dev-dependency (`cargo xtask tidy` checks that), so nothing of it is in the binary.
//!
//! * `scenario/`: scripts that are documentation and test, around the whole runtime
//! * `dst/`: deterministic simulation test under faults, each run from one seed
//! * `mem_store.rs`, `faulty_store.rs`: the store of both, in memory
//! * `rng.rs`: pseudorandom numbers of `dst/`
//!
//! It must not hold scheduling logic of its own, nor use clocks, files, threads or randomness: the
//! same input gives the same result on every machine.

pub mod dst;
mod faulty_store;
mod mem_store;
pub mod rng;
pub mod scenario;

pub use faulty_store::{FaultyStore, StoreFault};
pub use mem_store::MemStore;
