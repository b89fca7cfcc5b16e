//! Gangs with an instant each at which to look at them again.

use std::collections::{BTreeMap, BTreeSet};

use muster_model::Time;

use crate::gang::GangKey;

/// Gangs by instant; one instant per gang, the earlier one where two are asked for.
#[derive(Debug, Default)]
pub(crate) struct Agenda {
    by_time: BTreeSet<(Time, GangKey)>,
    by_gang: BTreeMap<GangKey, Time>,
}

impl Agenda {
    /// Asks for a look at `at` at the latest.
    pub(crate) fn schedule(&mut self, key: &GangKey, at: Time) {
        match self.by_gang.get(key) {
            Some(known) if *known <= at => return,
            Some(known) => drop(self.by_time.remove(&(*known, key.clone()))),
            None => {}
        }
        self.by_gang.insert(key.clone(), at);
        self.by_time.insert((at, key.clone()));
    }

    pub(crate) fn remove(&mut self, key: &GangKey) {
        if let Some(at) = self.by_gang.remove(key) {
            self.by_time.remove(&(at, key.clone()));
        }
    }

    /// Takes at most `most` gangs that are due.
    pub(crate) fn take_due(&mut self, now: Time, most: usize) -> Vec<GangKey> {
        let due: Vec<GangKey> = self
            .by_time
            .iter()
            .take_while(|(at, _)| *at <= now)
            .take(most)
            .map(|(_, key)| key.clone())
            .collect();
        for key in &due {
            self.remove(key);
        }
        due
    }

    pub(crate) fn next(&self) -> Option<Time> {
        self.by_time.first().map(|(at, _)| *at)
    }
}
