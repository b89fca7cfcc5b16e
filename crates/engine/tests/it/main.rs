//! Integration tests of the engine, one binary.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop there")]

mod arrays;
mod bounds;
mod check;
mod cluster;
mod defragment;
mod drain;
mod easy;
mod elastic;
mod evicted;
mod expected;
mod explain;
mod idle_gpus;
mod life;
mod patience;
mod places;
mod preempt;
mod progress;
mod random;
mod review;
mod score;
mod topology;
