//! Disagreements about one workload, as a closed list. Data only.

mod choice;
mod kubernetes;
mod slurm;

use muster_model::advice::ControlPlane;

use super::says;
use crate::condition::Condition::{self, Chosen};
use crate::list::joined;
use crate::rule::Disagreement;

use choice::CHOICE;
use kubernetes::KUBERNETES;
use slurm::SLURM;

/// The chosen control plane is Ray, on any host.
const RAY: Condition = Chosen(&[ControlPlane::Ray]);

/// Disagreements about one workload: first those that would change the choice, then those about
/// add-ons.
pub(crate) const WORKLOAD: &[Disagreement] = &joined::<
    Disagreement,
    { CHOICE.len() + KUBERNETES.len() + SLURM.len() },
>(&[CHOICE, KUBERNETES, SLURM]);
