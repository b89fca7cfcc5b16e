//! Outcomes of all orders of arrivals, counted exactly without walking through each: orders that
//! lead to the same arrivals and holdings are merged, and from a state in which no arrival gets
//! anything the rest is counted at once. Every step from one state to the next is a submission to
//! the engine.

use std::collections::BTreeMap;

use muster_model::proof::{GangOrders, OrderCounts, OrderVerdict};

use super::scenario::GangScenario;
use super::trial::{Admission, GangTrial};
use super::ways::{MAX_ORDERS, multinomial, share};
use crate::world::WorldError;

/// Most submissions for one answer: a few seconds.
pub const MAX_ENGINE_STEPS: u64 = 40_000;

/// Reason why the outcomes were not counted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CountError {
    /// The number of orders exceeds exact arithmetic.
    #[error("there are more than 10^37 orders of {pods} pods; exact counting stops there")]
    TooManyOrders {
        /// Pods of all gangs together.
        pods: u32,
    },
    /// Counting would take too long.
    #[error(
        "counting needs more than {MAX_ENGINE_STEPS} decisions of the engine, which is the limit"
    )]
    TooManySteps,
    /// The engine failed on a submission.
    #[error(transparent)]
    World(#[from] WorldError),
}

/// Remaining engine decisions for one answer.
#[derive(Clone, Copy, Debug)]
pub(super) struct StepBudget(pub(super) u64);

/// Counts the outcomes of all orders of all pods under both admissions.
///
/// # Errors
/// There are too many to be counted exactly in a few seconds, or the engine failed.
pub fn all_orders(scenario: &GangScenario) -> Result<GangOrders, CountError> {
    let mut budget = StepBudget(MAX_ENGINE_STEPS);
    let orders = orders(scenario)?;
    Ok(GangOrders {
        gpus: scenario.gpus(),
        gpus_per_pod: scenario.gpus_per_pod(),
        gangs: scenario.gangs(),
        orders,
        per_pod: outcomes(scenario, Admission::PerPod, &mut budget)?,
        gang: outcomes(scenario, Admission::Gang, &mut budget)?,
    })
}

/// Returns the number of orders of all pods.
pub(super) fn orders(scenario: &GangScenario) -> Result<u128, CountError> {
    let pods = scenario.needs().iter().sum();
    let orders =
        multinomial(scenario.needs().iter().copied()).filter(|orders| *orders <= MAX_ORDERS);
    orders.ok_or(CountError::TooManyOrders { pods })
}

/// Counts the outcomes of all orders under one admission.
pub(super) fn outcomes(
    scenario: &GangScenario,
    admission: Admission,
    budget: &mut StepBudget,
) -> Result<OrderCounts, CountError> {
    let all = orders(scenario)?;
    let before = budget.0;
    let mut counts: BTreeMap<OrderVerdict, u128> = BTreeMap::new();
    let mut layer = BTreeMap::from([(Vec::new(), (GangTrial::new(scenario, admission)?, 1u128))]);
    while !layer.is_empty() {
        let mut next = BTreeMap::new();
        for (trial, ways) in layer.into_values() {
            // 1. One more arrival of each gang.
            let branches = trial.branches()?;
            let steps = budget.0.checked_sub(branches.len() as u64);
            budget.0 = steps.ok_or(CountError::TooManySteps)?;
            // 2. If no arrival gets a GPU, no later one does, since no job ends: all orders of the
            //    rest have the same outcome and are counted in one step.
            if branches.iter().all(|(_, after)| after.held() == trial.held()) {
                let left = (0..scenario.needs().len()).map(|gang| trial.left(gang));
                let rest =
                    multinomial(left).expect("a part of the orders that were counted before");
                *counts.entry(trial.verdict()).or_default() += ways * rest;
                continue;
            }
            // 3. Orders that lead to the same arrivals and holdings are merged.
            for (gang, after) in branches {
                let more = trial
                    .count_orders(gang)
                    .expect("a part of the orders that were counted before");
                let key = [after.arrived(), after.held()].concat();
                next.entry(key).or_insert((after, 0)).1 += ways * more;
            }
        }
        layer = next;
    }
    let count = |verdict| share(counts.get(&verdict).copied().unwrap_or(0), all);
    Ok(OrderCounts {
        deadlock: count(OrderVerdict::Deadlock),
        waste: count(OrderVerdict::Waste),
        whole: count(OrderVerdict::Whole),
        engine_steps: before - budget.0,
    })
}
