//! Tests of documents as users write them: what they mean, what is refused and how, and that
//! nothing hostile gets through.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod clusters;
mod facts;
mod hostile;
mod kubernetes;
mod meaning;
mod mistakes;
mod notify;
mod partitions;
mod properties;
mod quantities;
mod queue_files;
mod ray;
mod recipes;
mod schemas;
mod sites;
mod support;
mod topology;
mod traces;
