//! Option value of the commands for Kubernetes: the objects of a cluster that describe its queues.

/// System whose objects describe the queues of a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum QueueObjects {
    /// `Queue` objects of Muster
    Muster,
    /// ClusterQueues, Cohorts and LocalQueues of Kueue, which Muster replaces
    Kueue,
}
