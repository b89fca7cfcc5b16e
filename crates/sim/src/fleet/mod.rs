//! A fleet: nodes with GPUs, jobs that come from a trace, and a control plane that decides between
//! them. The world is the same for all control planes: it keeps the clock, holds what is given,
//! lets a job run once all of its tasks hold what they need, breaks nodes, and counts. Whoever
//! decides sees the same desk and gives the same few orders, the production engine like a model of
//! another.
//!
//! * `site.rs`: what there is; `load.rs`: what arrives
//! * `pool.rs`: what is free; `desk.rs`: orders and what follows from them at once
//! * `domains.rs`: how nodes lie to each other
//! * `waiting.rs`: what of the idle GPUs the waiting jobs could use
//! * `kept.rs`: nodes that somebody keeps and does not use
//! * `run.rs`: time passes
//! * `failures.rs`: what breaks, and when
//! * `record.rs`: what is counted while it runs; `figures.rs`: what that comes to; `intervals.rs`:
//!   over several seeds
//! * `horizon.rs`: until when unfinished jobs are counted
//! * `told.rs`: events by name, what is drawn, how things stand at an instant
//! * `engine.rs`: the production engine as one of those who decide
//! * `plane.rs`: what whoever decides is told and asked; all of them by name
//!
//! At one instant what ends does so first, then what is broken is mended and something else breaks,
//! then jobs arrive, then whoever decides does. No scheduling logic stands here.

mod desk;
mod domains;
mod engine;
mod failures;
mod figures;
mod horizon;
mod intervals;
mod kept;
mod load;
mod plane;
mod pool;
mod record;
mod run;
mod site;
mod told;
mod waiting;

pub use desk::{Desk, Fate, Terms};
pub use domains::Domains;
pub use engine::EnginePlane;
pub use failures::Failures;
pub use figures::{figures, size_name};
pub use horizon::{Finished, to_common_horizon};
pub(crate) use intervals::interval;
pub use intervals::over_seeds;
pub use load::{FleetJob, FleetLoad, JobNo, Loading};
pub use plane::{Plane, PlaneError, Scheduler};
pub use pool::{Pool, PoolNode};
pub use record::{Bar, Happening, Record};
pub use run::Fleet;
pub use site::Site;
pub use told::{event, gantt, instant};
