//! Runs short-lived programs, with a deadline, on the machine or where Slurm's commands find the
//! cluster.

use std::ffi::OsStr;

use anyhow::Result;

use super::cluster::SlurmTestCluster;
pub use crate::test_cluster::command::outside;
use crate::test_cluster::command::{under, with_input as input_under};

/// Runs a program inside the cluster's namespace; returns its output, or an error that contains it.
pub fn inside<S: AsRef<OsStr>>(cluster: &SlurmTestCluster, words: &[S]) -> Result<String> {
    under(cluster.inside(), words)
}

/// Runs a program as [`inside`] does, with a text on its standard input.
pub fn with_input<S: AsRef<OsStr>>(
    cluster: &SlurmTestCluster,
    words: &[S],
    input: &str,
) -> Result<String> {
    input_under(cluster.inside(), words, input)
}
