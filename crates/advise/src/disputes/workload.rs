//! Disagreements about one workload, as a closed list. Data only.

mod choice;
mod kubernetes;
mod slurm;

use muster_model::advice::Plane;

use super::says;
use crate::condition::Condition::{self, Chosen};
use crate::list::joined;
use crate::rule::Disagreement;

use choice::CHOICE;
use kubernetes::KUBERNETES;
use slurm::SLURM;

/// The label is ray, whichever host is added.
const RAY: Condition = Chosen(&[Plane::Ray]);

/// Disagreements about one workload: those that would change the choice, then those about what is
/// added to it.
pub(crate) const WORKLOAD: &[Disagreement] = &joined::<
    Disagreement,
    { CHOICE.len() + KUBERNETES.len() + SLURM.len() },
>(&[CHOICE, KUBERNETES, SLURM]);
