//! A model of Slurm: multifactor priority with fair tree, the main scheduler, backfill,
//! select/cons_tres with whole GPUs, and topology/tree where the site has topology. A gang is one
//! job, which starts as a whole.
//!
//! * `settings.rs`: the site's Slurm settings, and their reasons
//! * `accounts.rs`: the queue tree as accounts and users; `limits.rs`: caps
//! * `fair_tree.rs`: usage, and the rank of users; `queue.rs`: priority, and pending jobs
//! * `room.rs`: room for tasks, now and later; `switches.rs`: node selection
//! * `plan.rs`: reservations over time; `backfill.rs`: a backfill pass
//! * `preempt.rs`: preemption by QOS
//! * `state.rs`: pending and running jobs; `controller.rs`: when each part runs
//!
//! Source: SchedMD/slurm at 284c3b9 (26.11.0-rc1), documentation and behaviour; it contains no code
//! of Slurm. What is left out is listed in docs/models.md.

mod accounts;
mod backfill;
mod capacity;
mod controller;
mod fair_tree;
mod limits;
mod node_set;
mod plan;
mod preempt;
mod queue;
mod settings;
mod state;
mod switches;

pub use controller::Slurm;
pub use settings::{QosPreemption, SlurmSettings};
