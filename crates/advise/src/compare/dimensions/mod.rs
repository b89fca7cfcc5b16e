//! Every dimension of a comparison, as a closed list in four groups. Data only: the rows of the
//! comparison page's table, of Kentino's workload table, Hyperstack's factors and behaviours, and
//! further statements of the pages about each control plane.

mod fleet;
mod people;
mod placement;
mod work;

use super::dimension::Dimension;

/// Groups of dimensions, in the order in which they are shown.
pub(crate) const GROUPS: [&[Dimension]; 4] =
    [work::WORK, placement::PLACEMENT, people::PEOPLE, fleet::FLEET];

/// Returns every dimension, in the order in which they are shown.
pub(crate) fn all() -> impl Iterator<Item = &'static Dimension> {
    GROUPS.into_iter().flatten()
}
