//! Placement: which devices of which nodes a whole gang gets, now or at a later instant. It works on
//! the pool alone, and knows no jobs, queues or limits; these are in `state` and `plan`.

pub(crate) mod capacity_bound;
pub(crate) mod classes;
pub(crate) mod closest;
pub(crate) mod feasibility;
pub(crate) mod gang;
pub(crate) mod gap;
pub(crate) mod node_walk;
pub(crate) mod request;
pub(crate) mod reserve;
pub(crate) mod score;
