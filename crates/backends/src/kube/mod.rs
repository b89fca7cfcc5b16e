//! Kubernetes as text: the nodes that `kubectl` prints, and the commands that mark a pool of nodes.
//! Pure; nothing here talks to a cluster.

pub mod nodes;
pub mod pool;
mod quantity;
