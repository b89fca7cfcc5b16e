//! Schedules and placements that are known: of small loads that stand here, and, where the public
//! traces lie beside the repository, those that others have published.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop there")]

mod data;
mod flat;
mod kueue;
mod packing;
mod published;
