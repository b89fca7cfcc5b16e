//! Kubernetes as text: parses the nodes that `kubectl` prints, and renders the commands that label
//! a pool of nodes. Pure; it never talks to a cluster.

pub mod nodes;
pub mod pool;
mod quantity;
