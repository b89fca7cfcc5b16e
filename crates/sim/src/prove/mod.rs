//! Placement of gangs pod by pod, compared with gang admission, on the production engine. Three
//! questions: one order of arrivals step by step ([`play_engine`]), the outcomes of all orders counted
//! ([`all_orders`]), and that over pool and gang sizes ([`sweep()`]).
//!
//! No job ends here: a pod that waits for the rest of its gang keeps what it holds.

mod count;
mod scenario;
pub mod sweep;
mod trial;
mod walk;
pub mod ways;

pub use count::{CountError, MAX_ENGINE_STEPS, all_orders};
pub use scenario::{ArrivalOrder, GangScenario, MAX_GANGS, MAX_PODS, ScenarioError};
pub use sweep::{SweepError, sweep};
pub use trial::{Admission, GangTrial};
pub use walk::play_engine;
