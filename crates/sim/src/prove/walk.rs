//! One order of arrivals, step by step, under both admissions.

use std::collections::BTreeMap;

use muster_model::proof::{AdmissionRun, GangProof, GangStatus, OrderVerdict, ProofStep};

use super::scenario::{ArrivalOrder, GangScenario, letter};
use super::trial::{Admission, GangTrial};
use crate::world::WorldError;

/// Walks through an order under both admissions.
///
/// # Errors
/// The engine failed.
pub fn play_engine(scenario: &GangScenario, order: &ArrivalOrder) -> Result<GangProof, WorldError> {
    Ok(GangProof {
        gpus: scenario.gpus(),
        gpus_per_pod: scenario.gpus_per_pod(),
        gangs: scenario.gangs(),
        order: order.letters(),
        per_pod: run(scenario, order, Admission::PerPod)?,
        gang: run(scenario, order, Admission::Gang)?,
    })
}

fn run(
    scenario: &GangScenario,
    order: &ArrivalOrder,
    admission: Admission,
) -> Result<AdmissionRun, WorldError> {
    // 1. Every arrival that leads to a submission.
    let mut trial = GangTrial::new(scenario, admission)?;
    let mut steps = Vec::new();
    for (at, gang) in order.gangs().iter().enumerate() {
        let Some(arrival) = trial.arrive(*gang)? else { continue };
        steps.push(ProofStep {
            at: at as u32 + 1,
            gang: letter(*gang),
            pods: arrival.pods,
            decided: trial.decided(&arrival),
            held_pods: held(&trial),
            free_gpus: trial.free_gpus(),
        });
    }
    // 2. Whether the remaining arrivals could change anything.
    let is_settled = trial.branches()?.iter().all(|(_, after)| after.held() == trial.held());
    let stand = |gang: usize| GangStatus {
        gang: letter(gang),
        need_pods: scenario.needs()[gang],
        arrived_pods: trial.arrived()[gang],
        held_pods: trial.held()[gang],
        runs: trial.runs(gang),
    };
    Ok(AdmissionRun {
        steps,
        gangs: (0..scenario.needs().len()).map(stand).collect(),
        free_gpus: trial.free_gpus(),
        verdict: if is_settled { trial.verdict() } else { OrderVerdict::Open },
    })
}

fn held(trial: &GangTrial) -> BTreeMap<char, u32> {
    trial.held().iter().enumerate().map(|(gang, pods)| (letter(gang), *pods)).collect()
}
