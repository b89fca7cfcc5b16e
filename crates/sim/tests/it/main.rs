//! What is proved about gangs, against plain oracles that share no code with the engine.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop there")]

mod gang;
mod oracle;
mod orders;
mod per_pod;
mod scenario;
