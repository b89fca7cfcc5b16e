//! Simulations around the production engine: the code that schedules real jobs decides here, too.
//!
//! * `world.rs`: one engine with nodes, jobs and tasks that react at once
//! * `flat/`: schedulers on identical processors, as the literature compares them
//! * `fleet/`: nodes with GPUs, jobs of a trace, and a scheduler: the engine, or a model of another
//! * `advice_proof/`: a site's fleet and load under the advised scheduler and others
//! * `measure.rs`: measures shared by simulations
//! * `packing/`: GPU allocation and fragmentation of placement policies
//! * `peers/`: models of other schedulers
//! * `rng.rs`: pseudorandom numbers; `arrivals.rs`: faster arrivals, noisy estimates
//! * `trace/`: statistics of traces; traces generated from a recipe
//! * `whatif/`: forecasts of a site with other nodes, quotas or policies
//! * `prove/`: gangs placed pod by pod, compared with gang admission
//!
//! It must not hold scheduling logic of its own, nor use clocks, files, threads or randomness: the
//! same input gives the same result on every machine.

#![cfg_attr(
    test,
    allow(clippy::unwrap_used, reason = "a test that cannot go on should stop there")
)]

pub mod advice_proof;
mod arrivals;
pub mod flat;
pub mod fleet;
mod measure;
pub mod packing;
pub mod peers;
pub mod prove;
mod rng;
mod schedulers;
pub mod trace;
pub mod whatif;
pub mod world;

pub use world::{World, WorldError};
