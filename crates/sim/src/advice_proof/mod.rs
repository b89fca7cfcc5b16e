//! The simulation behind `muster advise --prove`: the advised site as a fleet and a load, the
//! schedulers that are tried on it, and whether their figures support the advice. What the site
//! file does not say is assumed and listed. It does not change the advice, and is unrelated to the
//! gang admission proofs of `prove/`.
//!
//! * `machines.rs`: nodes and queues; `kinds.rs`: kinds of work; `load.rs`: jobs
//! * `candidates.rs`: schedulers to try, and the model of each
//! * `verdict.rs`: a run as a row, several seeds as one row, all rows compared with the advice

mod candidates;
mod kinds;
mod load;
mod machines;
mod verdict;

pub use candidates::{Candidate, candidates};
pub use load::{LoadRequest, Work, work};
pub use machines::{nodes, queues};
pub use verdict::{counted, gpu_hours, over_seeds, row, verdict};

/// Reason why a site cannot be simulated.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotSimulated {
    /// The fleet exceeds the limit that bounds memory use.
    #[error("a fleet of {nodes} nodes with {gpus} GPUs is too large to simulate")]
    TooLarge {
        /// Number of nodes of the fleet.
        nodes: u32,
        /// Number of GPUs of the fleet.
        gpus: u32,
    },
    /// The nodes are too few to hold the GPUs, as in an elastic fleet.
    #[error("{gpus} GPUs are more than {nodes} nodes can hold")]
    TooDense {
        /// Number of nodes of the fleet.
        nodes: u32,
        /// Number of GPUs of the fleet.
        gpus: u32,
    },
    /// The cluster has no GPU.
    #[error("the cluster has no GPU")]
    NoGpus,
    /// The load would take too long to simulate.
    #[error("the mix gives more than {most} jobs")]
    TooManyJobs {
        /// Most jobs that are generated.
        most: usize,
    },
}
