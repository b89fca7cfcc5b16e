//! What tasks this cluster usually gets: a bounded count of the needs that were submitted, recent
//! ones weighing more, and the typical mix that is drawn from it now and then. It is a fold of
//! submissions, so a replay draws the same mix, and between two draws it stays as it is, so that
//! what was worked out with it stays true. It scores nothing.

use std::collections::BTreeMap;

use muster_policy::ModelId;
use serde::{Deserialize, Serialize};

use super::shape::{GroupNeed, Shape};

/// Different needs that are counted; when one more comes, the rarest gives way to it and leaves it
/// its count (Space-Saving; Metwally, Agrawal, El Abbadi 2005), so that no frequent one is missed.
const MOST_COUNTED: usize = 256;
/// Tasks of one submission that count: a single large array is not what the cluster usually gets.
const MOST_OF_ONE: u64 = 1024;
/// From so many tasks on all counts are halved: what was usual is forgotten.
const MEMORY: u64 = 1 << 16;
/// A mix is drawn anew when so large a part of what was seen is new.
const NEWS: u64 = 16;
/// Of all tasks, the typical ones make up so many per cent; as the authors of FGD take it.
const TYPICAL_PERCENT: u64 = 95;
/// And they are no more than this.
const MOST_TYPICAL: usize = 64;

/// What one task needs of a node, as far as fragmentation goes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct Need {
    /// Models that it accepts, ascending; `None` is any.
    pub(crate) models: Option<Vec<ModelId>>,
    /// Whole devices of one model together, or else 0.
    pub(crate) devices: u32,
    /// Thousandths of one device, or else 0.
    pub(crate) share: u16,
    pub(crate) cpus: u64,
    pub(crate) memory: u64,
}

impl Need {
    /// What tasks of a group need of one node together: those that must be together are one need.
    fn of(group: &GroupNeed) -> Self {
        let block = if group.devices > 0 { group.per_node.unwrap_or(1) } else { 1 };
        let mut models = group.models.as_ref().map(|models| models.to_vec());
        if let Some(models) = &mut models {
            models.sort_unstable();
            models.dedup();
        }
        Self {
            models,
            devices: group.devices.saturating_mul(block),
            share: group.share,
            cpus: group.scalars.cpus.saturating_mul(u64::from(block)),
            memory: group.scalars.memory.saturating_mul(u64::from(block)),
        }
    }
}

/// See the module's description.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Mix {
    /// A list, since the keys of a map in JSON are text.
    #[serde(with = "as_list")]
    counts: BTreeMap<Need, u64>,
    total: u64,
    /// Counted since the mix was drawn.
    news: u64,
    typical: Vec<Typical>,
}

/// Typical needs that are alike in devices.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Typical {
    /// As in [`Need`].
    pub(crate) models: Option<Vec<ModelId>>,
    pub(crate) devices: u32,
    pub(crate) share: u16,
    /// CPUs and memory that each of them needs, and how many tasks of it were counted.
    pub(crate) asks: Vec<(u64, u64, u64)>,
    /// How many tasks together.
    pub(crate) tasks: u64,
    /// The most that any of them needs.
    pub(crate) cpus: u64,
    pub(crate) memory: u64,
}

impl Typical {
    /// Of how many of its tasks are so many CPUs and so much memory enough?
    pub(crate) fn tasks_within(&self, cpus: u64, memory: u64) -> u64 {
        if self.cpus <= cpus && self.memory <= memory {
            return self.tasks;
        }
        let within = self.asks.iter().filter(|ask| ask.0 <= cpus && ask.1 <= memory);
        within.map(|(_, _, tasks)| tasks).sum()
    }

    fn add(&mut self, need: &Need, tasks: u64) {
        self.asks.push((need.cpus, need.memory, tasks));
        self.tasks += tasks;
        (self.cpus, self.memory) = (self.cpus.max(need.cpus), self.memory.max(need.memory));
    }
}

impl Mix {
    /// True when nothing was counted.
    pub(crate) fn is_empty(&self) -> bool {
        self.counts.is_empty()
    }

    /// Typical needs.
    pub(crate) fn typical(&self) -> &[Typical] {
        &self.typical
    }

    /// Counts what a job of so many elements asks for. Tasks without a GPU are not counted: to them
    /// all that is idle is lost, wherever another task goes, so they tell no place from another.
    /// Answers whether another mix was drawn.
    pub(crate) fn see(&mut self, shape: &Shape, elements: u32) -> bool {
        for group in shape.groups.iter().filter(|group| group.wants_gpu() && group.tasks > 0) {
            let need = Need::of(group);
            let tasks = u64::from(group.tasks).saturating_mul(u64::from(elements)).min(MOST_OF_ONE);
            self.count(need, tasks);
        }
        let is_due = self.news > 0 && self.news * NEWS >= self.total;
        if is_due {
            self.draw();
        }
        is_due
    }

    fn count(&mut self, need: Need, tasks: u64) {
        self.total += tasks;
        self.news += tasks;
        let mut inherited = 0;
        if !self.counts.contains_key(&need)
            && self.counts.len() >= MOST_COUNTED
            && let Some(rarest) =
                self.counts.iter().min_by_key(|(_, count)| **count).map(|(need, _)| need.clone())
        {
            inherited = self.counts.remove(&rarest).unwrap_or(0);
        }
        *self.counts.entry(need).or_default() += tasks + inherited;
        if self.total > MEMORY {
            self.counts.retain(|_, count| {
                *count /= 2;
                *count > 0
            });
            self.total = self.counts.values().sum();
        }
    }

    fn draw(&mut self) {
        self.news = 0;
        let mut by_count: Vec<(Need, u64)> =
            self.counts.iter().map(|(need, count)| (need.clone(), *count)).collect();
        by_count.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        let mut sum = 0;
        let is_typical = |(_, count): &&(Need, u64)| {
            let is_short = sum * 100 < self.total * TYPICAL_PERCENT;
            sum += count;
            is_short
        };
        self.typical.clear();
        for (need, tasks) in by_count.iter().take_while(is_typical).take(MOST_TYPICAL) {
            let (models, devices, share) = (&need.models, need.devices, need.share);
            let alike = |one: &&mut Typical| {
                (&one.models, one.devices, one.share) == (models, devices, share)
            };
            if let Some(known) = self.typical.iter_mut().find(alike) {
                known.add(need, *tasks);
                continue;
            }
            let models = models.clone();
            let mut first =
                Typical { models, devices, share, asks: Vec::new(), tasks: 0, cpus: 0, memory: 0 };
            first.add(need, *tasks);
            self.typical.push(first);
        }
    }
}

mod as_list {
    use std::collections::BTreeMap;

    use serde::{Deserialize, Deserializer, Serializer};

    use super::Need;

    pub(super) fn serialize<S: Serializer>(
        counts: &BTreeMap<Need, u64>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(counts)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<BTreeMap<Need, u64>, D::Error> {
        Ok(Vec::<(Need, u64)>::deserialize(deserializer)?.into_iter().collect())
    }
}
