//! Proofs about gangs, against plain oracles that share no code with the engine; and small
//! experiments.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop there")]

mod calibration;
mod definitions;
mod fleet;
mod gang;
mod instants;
mod kai;
mod kube;
mod kueue;
mod models;
mod none;
mod oracle;
mod orders;
mod packing;
mod per_pod;
mod ray;
mod reclaim;
mod scenario;
mod slurm;
mod slurm_preempt;
mod variants;
mod volcano;
mod whatif;
