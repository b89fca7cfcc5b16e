//! A simulated world around the production engine: what is decided here is decided by the code that
//! runs jobs.
//!
//! * `world.rs`: nodes, submissions and tasks that do as they are told, around one engine
//! * `scenario/`: scripts that are documentation and test, around the whole runtime
//! * `storm/`: whole stories under faults, each from one number
//! * `flat/`: schedulers on processors that are all alike, as the literature compares them
//! * `fleet/`: nodes with GPUs, jobs of a trace, and whoever decides between them: the engine, or a
//!   model of another
//! * `advised/`: a site that advice is on as a fleet and a load, and what figures say of the advice
//! * `measure.rs`: what simulations measure alike
//! * `packing/`: how much of a cluster each placement policy fills, pod by pod, and what of the
//!   rest is of no use
//! * `peers/`: models of how others schedule
//! * `dice.rs`: choices from one number; `arrivals.rs`: loads made denser, or less well known
//! * `trace/`: what is in a trace; traces made from a recipe
//! * `whatif/`: what would become of a site with more nodes, another quota, another policy
//! * `prove/`: what placing gangs pod by pod comes to, and what gang admission comes to
//!
//! It must not hold scheduling logic of its own, and no clock, file, thread or source of chance:
//! the same question gets the same answer on every machine.

#![cfg_attr(
    test,
    allow(clippy::unwrap_used, reason = "a test that cannot go on should stop there")
)]

pub mod advised;
mod arrivals;
mod dice;
pub mod flat;
pub mod fleet;
mod measure;
pub mod packing;
pub mod peers;
pub mod prove;
pub mod scenario;
pub mod storm;
pub mod trace;
pub mod whatif;
pub mod world;

pub use world::{World, WorldError};
