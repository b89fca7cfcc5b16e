//! Tests of the scheduler against an API server in memory: what the scheduler asks for happens there,
//! late, out of order or not at all.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod admission;
mod apart;
mod chaos;
mod claims;
mod cluster;
mod devices;
mod gangs;
mod inspect;
mod kueue;
mod metrics;
mod objects;
mod outside;
mod reservations;
mod restart;
mod shares;
mod start;
mod waiting;
