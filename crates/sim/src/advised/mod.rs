//! What is behind `muster advise --prove`: the site that advice is on, made into a fleet and a
//! load; the control planes that are tried on it; and what their figures say of the advice. What
//! the file of a site does not say is assumed, and every assumption is told. It changes no advice,
//! and has nothing to do with what `prove/` shows of gang admission.
//!
//! * `machines.rs`: nodes and queues; `kinds.rs`: what each kind of work is like; `load.rs`: jobs
//!   of all kinds
//! * `planes.rs`: which control planes, and what stands for each
//! * `verdict.rs`: one run as a row, the rows of several seeds as one, and all rows beside the
//!   advice

mod kinds;
mod load;
mod machines;
mod planes;
mod verdict;

pub use load::{Asked, Work, work};
pub use machines::{nodes, queues};
pub use planes::{Contender, contenders};
pub use verdict::{counted, gpu_hours, over_seeds, row, verdict};

/// Why a site cannot be simulated as it is.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotSimulated {
    /// Memory has an end.
    #[error("a fleet of {nodes} nodes with {gpus} GPUs is more than is simulated")]
    TooLarge {
        /// Nodes.
        nodes: u32,
        /// GPUs.
        gpus: u32,
    },
    /// Nodes come and go, and those of now do not hold the GPUs.
    #[error("{gpus} GPUs are more than {nodes} nodes can hold")]
    TooDense {
        /// Nodes.
        nodes: u32,
        /// GPUs.
        gpus: u32,
    },
    /// Nothing to hold the work.
    #[error("the cluster has no GPU")]
    NoGpus,
    /// More than is worth waiting for.
    #[error("the mix comes to more than {most} jobs")]
    TooManyJobs {
        /// How many would have been made.
        most: usize,
    },
}
