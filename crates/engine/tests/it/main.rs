//! Integration tests of the engine, one binary.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop there")]

mod arrays;
mod bounds;
mod defragment;
mod drain;
mod easy;
mod elastic;
mod explain;
mod judge;
mod leaving;
mod life;
mod patience;
mod places;
mod preempt;
mod progress;
mod random;
mod review;
mod score;
mod topology;
mod world;
