//! A scenario under way: what has arrived, submitted to a world, and what each gang holds there. It
//! counts what the engine decided and decides nothing.

use muster_engine::Refusal;
use muster_model::proof::{Decided, Verdict};
use muster_model::{Decision, JobId, Reason};

use super::scenario::Scenario;
use super::ways;
use crate::world::{World, WorldError};

/// What is submitted when a pod arrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Admission {
    /// The pod, as a job of its own.
    PerPod,
    /// With the first pod of a gang all of it, as one job; its other pods are part of that.
    Gang,
}

/// Arrivals so far, and what they hold.
#[derive(Clone, Debug)]
pub struct Trial<'s> {
    scenario: &'s Scenario,
    admission: Admission,
    world: World,
    /// Gang of every job, by number from 1.
    owners: Vec<usize>,
    arrived: Vec<u32>,
    held: Vec<u32>,
}

/// What one arrival came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// Its job; none was made when it was refused.
    pub job: Option<JobId>,
    /// Pods submitted.
    pub pods: u32,
    /// Devices it got; empty when it waits.
    pub devices: Vec<u16>,
    /// Why it was refused.
    pub refused: Option<Reason>,
}

impl<'s> Trial<'s> {
    /// An idle pool.
    ///
    /// # Errors
    /// The engine does not accept the pool.
    pub fn new(scenario: &'s Scenario, admission: Admission) -> Result<Self, WorldError> {
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

    /// The next pod of a gang arrives (under gang admission: the gang), if any is left; answers
    /// what it came to.
    ///
    /// # Errors
    /// The engine failed; that it refuses a gang that can never fit is an answer.
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
            Err(WorldError::Refused(Refusal::Never(reason))) => {
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
            // Nobody makes anybody go here: all are of one queue and one priority.
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

    /// The arrival as it is shown, with the engine's reason if it waits.
    #[must_use]
    pub fn decided(&self, arrival: &Arrival) -> Decided {
        match (&arrival.refused, arrival.devices.is_empty()) {
            (Some(reason), _) => Decided::Refused { reason: reason.clone() },
            (None, false) => Decided::Placed { devices: arrival.devices.clone() },
            (None, true) => {
                let view =
                    arrival.job.and_then(|job| self.world.engine().job(self.world.now(), job));
                Decided::Waits { reason: view.and_then(|view| view.waiting_for) }
            }
        }
    }

    /// What one more arrival of each gang would come to, for every gang of which some is left.
    ///
    /// # Errors
    /// The engine failed.
    pub fn branches(&self) -> Result<Vec<(usize, Trial<'s>)>, WorldError> {
        let mut branches = Vec::new();
        for gang in (0..self.arrived.len()).filter(|gang| self.left(*gang) > 0) {
            let mut after = self.clone();
            after.arrive(gang)?;
            branches.push((gang, after));
        }
        Ok(branches)
    }

    /// Pods of a gang that have not arrived.
    #[must_use]
    pub fn left(&self, gang: usize) -> u32 {
        self.scenario.needs()[gang] - self.arrived[gang]
    }

    /// Pods that arrived, by gang.
    #[must_use]
    pub fn arrived(&self) -> &[u32] {
        &self.arrived
    }

    /// Pods that hold GPUs, by gang.
    #[must_use]
    pub fn held(&self) -> &[u32] {
        &self.held
    }

    /// All pods of a gang hold GPUs.
    #[must_use]
    pub fn runs(&self, gang: usize) -> bool {
        self.held[gang] == self.scenario.needs()[gang]
    }

    /// GPUs that nobody holds.
    #[must_use]
    pub fn free_gpus(&self) -> u32 {
        self.scenario.gpus() - self.held.iter().sum::<u32>() * self.scenario.gpus_per_pod()
    }

    /// What it comes to, if nothing that is still to arrive gets a GPU.
    #[must_use]
    pub fn verdict(&self) -> Verdict {
        let gangs = 0..self.held.len();
        let is_part = |gang: usize| self.held[gang] > 0 && !self.runs(gang);
        match (gangs.clone().any(is_part), gangs.clone().any(|gang| self.runs(gang))) {
            (false, _) => Verdict::Whole,
            (true, true) => Verdict::Waste,
            (true, false) => Verdict::Deadlock,
        }
    }

    /// In how many ways the letters of this arrival lie in what is left of an order. A pod is one
    /// letter, the next. The first letter of a gang is the next one, too; its others lie anywhere
    /// among the letters of gangs that are still to come. `None` beyond 128 bits.
    pub(super) fn ways(&self, gang: usize) -> Option<u128> {
        match self.admission {
            Admission::PerPod => Some(1),
            Admission::Gang => {
                let left: u32 = (0..self.arrived.len()).map(|gang| self.left(gang)).sum();
                ways::binomial(left - 1, self.left(gang) - 1)
            }
        }
    }

    /// The world, to read.
    #[must_use]
    pub fn world(&self) -> &World {
        &self.world
    }
}
