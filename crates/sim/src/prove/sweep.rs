//! The outcomes of all orders for two equal gangs, over sizes of the pool and of the gangs.

use std::ops::RangeInclusive;

use muster_model::proof::{GangSweep, SweepCell};

use super::count::{Budget, CountError, MAX_ENGINE_STEPS, orders, outcomes};
use super::scenario::{Scenario, ScenarioError};
use super::trial::Admission;

/// Gangs that contend in each cell.
pub const GANGS: usize = 2;

/// What was not swept, and why.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SweepError {
    /// A pool or gang size that is none.
    #[error(transparent)]
    Scenario(#[from] ScenarioError),
    /// A cell was not counted.
    #[error(transparent)]
    Count(#[from] CountError),
}

/// Counts the outcomes of all orders for every pool and gang size.
///
/// # Errors
/// A size that is none, or too much to count.
pub fn sweep(
    pools: RangeInclusive<u32>,
    sizes: RangeInclusive<u32>,
    gpus_per_pod: u32,
) -> Result<GangSweep, SweepError> {
    let mut budget = Budget(MAX_ENGINE_STEPS);
    let mut cells = Vec::new();
    for need in sizes {
        for gpus in pools.clone() {
            let scenario = Scenario::new(gpus, gpus_per_pod, vec![need; GANGS])?;
            cells.push(SweepCell {
                gpus,
                need_pods: need,
                orders: orders(&scenario)?,
                per_pod: outcomes(&scenario, Admission::PerPod, &mut budget)?,
                gang: outcomes(&scenario, Admission::Gang, &mut budget)?,
            });
        }
    }
    Ok(GangSweep { gangs: GANGS as u32, gpus_per_pod, cells })
}
