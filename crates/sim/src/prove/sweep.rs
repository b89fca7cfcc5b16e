//! Outcomes of all orders for two equal gangs, over sizes of the pool and of the gangs.

use std::ops::RangeInclusive;

use muster_model::proof::{GangSweep, SweepCell};

use super::count::{CountError, MAX_ENGINE_STEPS, StepBudget, orders, outcomes};
use super::scenario::{GangScenario, ScenarioError};
use super::trial::Admission;

/// Gangs that contend in each cell.
pub const GANGS: usize = 2;

/// Reason why the sweep failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SweepError {
    /// A pool or gang size is invalid.
    #[error(transparent)]
    Scenario(#[from] ScenarioError),
    /// A cell was not counted.
    #[error(transparent)]
    Count(#[from] CountError),
}

/// Counts the outcomes of all orders for every pool and gang size.
///
/// # Errors
/// A size is invalid, or there is too much to count.
pub fn sweep(
    pools: RangeInclusive<u32>,
    sizes: RangeInclusive<u32>,
    gpus_per_pod: u32,
) -> Result<GangSweep, SweepError> {
    let mut budget = StepBudget(MAX_ENGINE_STEPS);
    let mut cells = Vec::new();
    for need in sizes {
        for gpus in pools.clone() {
            let scenario = GangScenario::new(gpus, gpus_per_pod, vec![need; GANGS])?;
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
