//! A scenario in progress: the arrivals so far, submitted to a world, and what each gang holds
//! there. It counts the engine's decisions and makes none.

use muster_engine::EventRefusal;
use muster_model::proof::{OrderVerdict, SubmissionDecision};
use muster_model::{Decision, JobId, Reason};

use super::scenario::GangScenario;
use super::ways;
use crate::world::{World, WorldError};

/// Job that is submitted when a pod arrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Admission {
    /// The pod, as a job of its own.
    PerPod,
    /// The whole gang as one job, with its first pod; its other pods are part of that.
    Gang,
}

/// Arrivals so far, and what they hold.
#[derive(Clone, Debug)]
pub struct GangTrial<'s> {
    scenario: &'s GangScenario,
    admission: Admission,
    world: World,
    /// Gang of every job, by number from 1.
    owners: Vec<usize>,
    arrived: Vec<u32>,
    held: Vec<u32>,
}

/// Result of one arrival.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// Its job; `None` if it was refused.
    pub job: Option<JobId>,
    /// Number of submitted pods.
    pub pods: u32,
    /// Devices it got; empty if it is pending.
    pub devices: Vec<u16>,
    /// Reason of a refusal.
    pub refused: Option<Reason>,
}

impl<'s> GangTrial<'s> {
    /// Creates an idle pool.
    ///
    /// # Errors
    /// The engine rejects the pool.
    pub fn new(scenario: &'s GangScenario, admission: Admission) -> Result<Self, WorldError> {
        let world = World::new([scenario.node()])?;
        let none = vec![0; scenario.needs().len()];
        Ok(Self {
            scenario,
            admission,
            world,
            owners: Vec::new(),
            arrived: none.clone(),
            held: none,
        })
    }

    /// Submits the next pod of a gang (under gang admission: the gang), if any is left, and returns
    /// the result.
    ///
    /// # Errors
    /// The engine failed; refusing a gang that can never fit is a result.
    pub fn arrive(&mut self, gang: usize) -> Result<Option<Arrival>, WorldError> {
        let left = self.left(gang);
        if left == 0 {
            return Ok(None);
        }
        let pods = match self.admission {
            Admission::PerPod => 1,
            Admission::Gang => left,
        };
        self.arrived[gang] += pods;
        let (job, decisions) = match self.world.submit(self.scenario.job(gang, pods)) {
            Ok(submitted) => submitted,
            Err(WorldError::Refused(EventRefusal::NeverStarts(reason))) => {
                return Ok(Some(Arrival {
                    job: None,
                    pods,
                    devices: Vec::new(),
                    refused: Some(reason),
                }));
            }
            Err(error) => return Err(error),
        };
        self.owners.push(gang);
        let mut devices = Vec::new();
        for decision in decisions {
            // No evictions happen: all jobs have the same queue and priority.
            let Decision::Start { id, placement, .. } = decision else { continue };
            let owner = self.owners[id.element.job.0 as usize - 1];
            self.held[owner] += placement.len() as u32;
            if id.element.job == job {
                devices.extend(
                    placement.iter().flat_map(|task| task.devices.iter()).map(|at| at as u16),
                );
            }
        }
        devices.sort_unstable();
        Ok(Some(Arrival { job: Some(job), pods, devices, refused: None }))
    }

    /// Returns the arrival for reports, with the engine's reason if it is pending.
    #[must_use]
    pub fn decided(&self, arrival: &Arrival) -> SubmissionDecision {
        match (&arrival.refused, arrival.devices.is_empty()) {
            (Some(reason), _) => SubmissionDecision::Refused { reason: reason.clone() },
            (None, false) => SubmissionDecision::Placed { devices: arrival.devices.clone() },
            (None, true) => {
                let view =
                    arrival.job.and_then(|job| self.world.engine().job(self.world.now(), job));
                SubmissionDecision::Waits { reason: view.and_then(|view| view.waiting_for) }
            }
        }
    }

    /// Returns the state after one more arrival of each gang that has pods left.
    ///
    /// # Errors
    /// The engine failed.
    pub fn branches(&self) -> Result<Vec<(usize, GangTrial<'s>)>, WorldError> {
        let mut branches = Vec::new();
        for gang in (0..self.arrived.len()).filter(|gang| self.left(*gang) > 0) {
            let mut after = self.clone();
            after.arrive(gang)?;
            branches.push((gang, after));
        }
        Ok(branches)
    }

    /// Returns the pods of a gang that have not arrived.
    #[must_use]
    pub fn left(&self, gang: usize) -> u32 {
        self.scenario.needs()[gang] - self.arrived[gang]
    }

    /// Returns the pods that arrived, by gang.
    #[must_use]
    pub fn arrived(&self) -> &[u32] {
        &self.arrived
    }

    /// Returns the pods that hold GPUs, by gang.
    #[must_use]
    pub fn held(&self) -> &[u32] {
        &self.held
    }

    /// Returns whether all pods of a gang hold GPUs.
    #[must_use]
    pub fn runs(&self, gang: usize) -> bool {
        self.held[gang] == self.scenario.needs()[gang]
    }

    /// Returns the free GPUs.
    #[must_use]
    pub fn free_gpus(&self) -> u32 {
        self.scenario.gpus() - self.held.iter().sum::<u32>() * self.scenario.gpus_per_pod()
    }

    /// Returns the outcome, if no later arrival gets a GPU.
    #[must_use]
    pub fn verdict(&self) -> OrderVerdict {
        let gangs = 0..self.held.len();
        let is_part = |gang: usize| self.held[gang] > 0 && !self.runs(gang);
        match (gangs.clone().any(is_part), gangs.clone().any(|gang| self.runs(gang))) {
            (false, _) => OrderVerdict::Whole,
            (true, true) => OrderVerdict::Waste,
            (true, false) => OrderVerdict::Deadlock,
        }
    }

    /// Returns the number of orders of the remaining letters in which this arrival comes next. A
    /// pod is a single letter, so there is one. A gang arrives with its first letter, and its other
    /// letters may have any positions among the remaining ones. `None` beyond 128 bits.
    pub(super) fn count_orders(&self, gang: usize) -> Option<u128> {
        match self.admission {
            Admission::PerPod => Some(1),
            Admission::Gang => {
                let left: u32 = (0..self.arrived.len()).map(|gang| self.left(gang)).sum();
                ways::binomial(left - 1, self.left(gang) - 1)
            }
        }
    }

    /// Returns the world with its engine.
    #[must_use]
    pub fn world(&self) -> &World {
        &self.world
    }
}
