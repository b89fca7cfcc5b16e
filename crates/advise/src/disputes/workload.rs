//! Disagreements about one workload, as a closed list. Data only.

mod choice;
mod kubernetes;
mod slurm;

use muster_model::advice::{Page, Plane, Position, Source};

use crate::condition::Condition::{self, Chosen};
use crate::list::joined;
use crate::rule::Disagreement;

use choice::CHOICE;
use kubernetes::KUBERNETES;
use slurm::SLURM;

/// The label is ray, whichever host is added.
const RAY: Condition = Chosen(&[Plane::Ray]);

/// What a page says at one place.
const fn says(page: Page, section: &'static str, says: &'static str) -> Position {
    Position { source: Source::new(page, section), says }
}

/// Disagreements about one workload: those that would change the choice, then those about what is added to it.
pub(crate) const WORKLOAD: &[Disagreement] =
    &joined::<Disagreement, { CHOICE.len() + KUBERNETES.len() + SLURM.len() }>(&[CHOICE, KUBERNETES, SLURM]);
