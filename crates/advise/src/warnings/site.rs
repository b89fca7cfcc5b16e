//! Failure modes of a site, as a closed list: of the decision itself, of the fleet, of the control
//! plane that was chosen, of the people. Data only.

mod decision;
mod fleet;
mod people;
mod plane;

use crate::list::joined;
use crate::rule::Hazard;

use decision::DECISION;
use fleet::FLEET;
use people::PEOPLE;
use plane::PLANE;

/// Failure modes of a site, most dangerous first.
pub(crate) const SITE: &[Hazard] = &joined::<
    Hazard,
    { DECISION.len() + FLEET.len() + PLANE.len() + PEOPLE.len() },
>(&[DECISION, FLEET, PLANE, PEOPLE]);
