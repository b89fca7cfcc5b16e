//! Resources that are quantities: CPUs, memory and named extras. Devices are not among them, since
//! each has an identity.

use muster_model::job::Resources;
use serde::{Deserialize, Serialize};

/// Interned name of an extra resource; dense, in order of first use.
pub(crate) type ExtraId = u16;

/// Vector of resource quantities.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Scalars {
    /// CPUs, in thousandths of one.
    pub(crate) cpus: u64,
    /// Amount of memory, in bytes.
    pub(crate) memory: u64,
    /// Extra resources by id, ascending; a request has no zeros.
    pub(crate) extras: Vec<(ExtraId, u64)>,
}

impl Scalars {
    /// Returns the request of one task; `extra` interns names.
    pub(crate) fn of_task(task: &Resources, mut extra: impl FnMut(&str) -> ExtraId) -> Self {
        let mut extras: Vec<_> = task
            .extras
            .iter()
            .filter(|(_, count)| **count > 0)
            .map(|(name, count)| (extra(name), *count))
            .collect();
        extras.sort_unstable();
        Self { cpus: u64::from(task.cpus.0), memory: task.memory.0, extras }
    }

    /// True when all quantities are zero.
    pub(crate) fn is_zero(&self) -> bool {
        self.cpus == 0 && self.memory == 0 && self.extras.iter().all(|(_, count)| *count == 0)
    }

    /// Adds another vector `times` times.
    pub(crate) fn add(&mut self, other: &Scalars, times: u64) {
        self.cpus = self.cpus.saturating_add(other.cpus.saturating_mul(times));
        self.memory = self.memory.saturating_add(other.memory.saturating_mul(times));
        for (id, count) in &other.extras {
            let more = count.saturating_mul(times);
            match self.extras.binary_search_by_key(id, |(id, _)| *id) {
                Ok(at) => self.extras[at].1 = self.extras[at].1.saturating_add(more),
                Err(at) => self.extras.insert(at, (*id, more)),
            }
        }
    }

    /// Subtracts another vector, saturating at zero.
    pub(crate) fn sub(&mut self, other: &Scalars) {
        self.cpus = self.cpus.saturating_sub(other.cpus);
        self.memory = self.memory.saturating_sub(other.memory);
        for (id, count) in &other.extras {
            if let Ok(at) = self.extras.binary_search_by_key(id, |(id, _)| *id) {
                self.extras[at].1 = self.extras[at].1.saturating_sub(*count);
            }
        }
    }

    /// Returns the quantity of one extra resource.
    pub(crate) fn extra(&self, id: ExtraId) -> u64 {
        self.extras.binary_search_by_key(&id, |(id, _)| *id).map_or(0, |at| self.extras[at].1)
    }

    /// Returns how many times `need` fits into what is left of `self` after `used`.
    pub(crate) fn fits(&self, used: &Scalars, need: &Scalars) -> u64 {
        let times = |limit: u64, used: u64, need: u64| {
            limit.saturating_sub(used).checked_div(need).unwrap_or(u64::MAX)
        };
        let plain = times(self.cpus, used.cpus, need.cpus).min(times(
            self.memory,
            used.memory,
            need.memory,
        ));
        need.extras
            .iter()
            .map(|(id, count)| times(self.extra(*id), used.extra(*id), *count))
            .fold(plain, u64::min)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_scarcest_quantity_decides_how_often_a_task_fits() {
        let limit = Scalars { cpus: 8_000, memory: 100, extras: vec![(0, 3)] };
        let used = Scalars { cpus: 2_000, memory: 10, extras: vec![] };
        for (need, expected) in [
            (Scalars::default(), u64::MAX),
            (Scalars { cpus: 2_000, ..Scalars::default() }, 3),
            (Scalars { cpus: 2_000, memory: 45, ..Scalars::default() }, 2),
            (Scalars { extras: vec![(0, 2)], ..Scalars::default() }, 1),
            (Scalars { extras: vec![(7, 1)], ..Scalars::default() }, 0),
        ] {
            assert_eq!(limit.fits(&used, &need), expected, "{need:?}");
        }
    }

    #[test]
    fn subtraction_inverts_addition_and_saturates_at_zero() {
        let some = Scalars { cpus: 5, memory: 6, extras: vec![(1, 2)] };
        let mut sum = Scalars::default();
        sum.add(&some, 3);
        assert_eq!(sum, Scalars { cpus: 15, memory: 18, extras: vec![(1, 6)] });
        for _ in 0..4 {
            sum.sub(&some);
        }
        assert!(sum.is_zero());
    }
}
