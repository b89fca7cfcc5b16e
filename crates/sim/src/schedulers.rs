//! Creates schedulers by name: the production engine and the models of others.

use crate::fleet::{EngineScheduler, FleetSite, Scheduler, SchedulerError, SchedulerKind};
use crate::peers;
use crate::peers::kube::{KubeDefault, Scoring};
use crate::peers::kueue::{Binding, Kueue};
use crate::peers::slurm::{Slurm, SlurmSettings};

impl SchedulerKind {
    /// Creates the scheduler before any arrival. Its random numbers come from the seed.
    ///
    /// # Errors
    /// The engine rejects the site.
    pub fn begin(self, site: &FleetSite, seed: u64) -> Result<Box<dyn Scheduler>, SchedulerError> {
        self.begin_as(site, seed, SlurmSettings::default())
    }

    /// As [`Self::begin`], with the site's own Slurm settings.
    ///
    /// # Errors
    /// As [`Self::begin`].
    pub fn begin_as(
        self,
        site: &FleetSite,
        seed: u64,
        slurm: SlurmSettings,
    ) -> Result<Box<dyn Scheduler>, SchedulerError> {
        Ok(match self {
            SchedulerKind::Muster => Box::new(EngineScheduler::new(site)?),
            SchedulerKind::KubeDefault => Box::new(KubeDefault::new(site, seed)),
            SchedulerKind::KubePacked => {
                Box::new(KubeDefault::new(site, seed).scoring(Scoring::MostAllocated))
            }
            SchedulerKind::Slurm => {
                Box::new(Slurm::new(site, SlurmSettings { preemption: None, ..slurm }))
            }
            SchedulerKind::SlurmPreempt => {
                let preemption = Some(slurm.preemption.unwrap_or_default());
                Box::new(Slurm::new(site, SlurmSettings { preemption, ..slurm }))
            }
            SchedulerKind::External => {
                return Err(SchedulerError::Policy("no command is given".to_owned()));
            }
            SchedulerKind::None => Box::new(peers::none::People::default()),
            SchedulerKind::Ray => Box::new(peers::ray::Ray::new(site)),
            SchedulerKind::Kai => Box::new(peers::kai::Kai::new(site)),
            SchedulerKind::Volcano => Box::new(peers::volcano::Volcano::new(site, seed)),
            SchedulerKind::KubeGang => Box::new(peers::kube::KubeGang::new(site, seed)),
            SchedulerKind::Kueue => Box::new(Kueue::new(site, seed, Binding::Stock)),
            SchedulerKind::KueueReady => Box::new(Kueue::new(site, seed, Binding::BlocksAdmission)),
            SchedulerKind::KueueTas => Box::new(Kueue::new(site, seed, Binding::Topology)),
        })
    }
}
