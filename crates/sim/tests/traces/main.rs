//! Known schedules and placements: of small loads defined here, and, where the public traces are
//! beside the repository, published ones.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop there")]

mod data;
mod flat;
mod kueue;
mod packing;
mod published;
