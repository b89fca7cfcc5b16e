//! Fleet simulation: nodes with GPUs, jobs of a trace, and a scheduler. The simulation is the same
//! for all schedulers: it keeps the clock, grants resources, runs a job once all of its tasks hold
//! what they need, breaks nodes, and counts. Every scheduler, the engine or a model, sees the same
//! cluster state and has the same few actions.
//!
//! * `site.rs`: nodes and queues; `load.rs`: jobs; `resample.rs`: jobs drawn anew; `more_nodes.rs`: added nodes
//! * `variants.rs`: the same jobs on several sites, and how these differ
//! * `pool.rs`: free resources; `cluster.rs`: cluster state and actions
//! * `domains.rs`: topology domains
//! * `waiting.rs`: idle GPUs that pending jobs could use
//! * `withheld.rs`: nodes withheld by their owner
//! * `run.rs`: advances time
//! * `failures.rs`: failures and repairs
//! * `record.rs`: counts during a run; `figures.rs`: figures; `intervals.rs`: several seeds
//! * `calibration.rs`: simulated waits beside recorded ones
//! * `horizon.rs`: common horizon for unfinished jobs
//! * `views.rs`: named events, Gantt charts, state at an instant
//! * `engine.rs`: the production engine as a scheduler
//! * `scheduler.rs`: the `Scheduler` trait, and all schedulers by name
//!
//! At one instant jobs end first, then repairs and failures happen, then jobs arrive, then the
//! scheduler decides.

mod calibration;
mod cluster;
mod domains;
mod engine;
mod error;
mod failures;
mod figures;
mod horizon;
mod intervals;
mod load;
mod more_nodes;
mod pool;
mod record;
mod resample;
mod run;
mod scheduler;
mod site;
mod variants;
mod views;
mod waiting;
mod withheld;

pub use calibration::calibration;
pub use cluster::{ClusterState, JobStatus, StopCosts};
pub use domains::Domains;
pub use engine::EngineScheduler;
pub(crate) use engine::idle_engine;
pub use error::SchedulerError;
pub use failures::Failures;
pub use figures::{figures, size_name};
pub use horizon::{Finished, to_common_horizon};
pub(crate) use intervals::interval;
pub use intervals::over_seeds;
pub use load::{FleetJob, FleetLoad, JobNo, Loading};
pub use more_nodes::{MoreNodes, NoSuchNode, more_nodes};
pub use pool::{Pool, PoolNode};
pub use record::{AllocationBar, ClusterEvent, FleetRecord};
pub use run::Fleet;
pub use scheduler::{Scheduler, SchedulerKind};
pub use site::FleetSite;
pub use variants::{SharedLoad, SharedLoading, differences};
pub use views::{event, gantt, instant};
