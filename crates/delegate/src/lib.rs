//! Stands before a queue that decides by itself: answers the API's routes from it, in the caller's
//! process and as the caller, so that every verb works there without a daemon. The queue is the
//! truth. What is kept here is what it cannot keep: scripts as they were handed on, output, and
//! Muster's own ids. Nothing here schedules.

#![cfg_attr(test, allow(clippy::unwrap_used, reason = "a test that cannot unwrap should fail"))]

mod refusal;
pub mod slurm;
