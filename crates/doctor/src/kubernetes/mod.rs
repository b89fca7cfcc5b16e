//! Checks of a Kubernetes cluster: a snapshot of its objects in, findings out. `resource` lists the
//! kinds of objects that are read, `dump` reads them from the output of kubectl, `view` has them as
//! the rules need them.

mod dump;
mod node_names;
pub mod prove;
pub(crate) mod ray;
pub mod resource;
pub(crate) mod rules;
mod snapshot;
pub(crate) mod view;

pub use dump::{DumpError, add_dump};
pub use node_names::{kubernetes_nodes, slurm_nodes};
pub use ray::complete_ray;
pub use snapshot::Snapshot;
