//! A model of Slurm: multifactor priority with fair tree, the main scheduler, backfill,
//! select/cons_tres with whole GPUs, and topology/tree where the site has topology. A gang is one
//! job: all of it starts at one instant or none.
//!
//! * `settings.rs`: how the site has set Slurm up, and why
//! * `accounts.rs`: the queue tree as accounts and users; `limits.rs`: caps on what they hold
//! * `fair_tree.rs`: usage, and the rank of users; `queue.rs`: priority, and the jobs that wait
//! * `room.rs`: where how many tasks fit, now and later; `switches.rs`: which of these nodes a job
//!   gets
//! * `plan.rs`: reservations over time; `backfill.rs`: a backfill pass
//! * `state.rs`: what all of these share: jobs that wait and run; `plane.rs`: when what is done
//!
//! Source: SchedMD/slurm at 284c3b9 (26.11.0-rc1), documentation and behaviour; no code of it is
//! here. What is left out stands in docs/models.md.

mod accounts;
mod backfill;
mod fair_tree;
mod limits;
mod node_set;
mod plan;
mod plane;
mod queue;
mod room;
mod settings;
mod state;
mod switches;

pub use plane::Slurm;
pub use settings::Settings;
