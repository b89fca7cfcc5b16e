//! The workload mix: bounded counts of the needs that were submitted, recent ones weighing more,
//! and the typical needs drawn from them from time to time. It is a fold of submissions, so a
//! replay draws the same mix; between two draws it is constant, so scores computed with it stay
//! valid. It scores nothing.

use std::collections::BTreeMap;

use muster_policy::ModelId;
use serde::{Deserialize, Serialize};

use crate::pool::shape::{GroupNeed, Shape};

/// Number of different needs that are counted. When one more comes, it replaces the rarest and
/// inherits its count (Space-Saving; Metwally, Agrawal, El Abbadi 2005), so that no frequent need
/// is missed.
const MAX_NEEDS: usize = 256;
/// Maximum number of tasks counted per submission: a single large array is not typical.
const MAX_TASKS_PER_SUBMISSION: u64 = 1024;
/// Number of counted tasks at which all counts are halved, so that old submissions lose weight.
const HALVE_AT: u64 = 1 << 16;
/// The typical needs are selected again once new tasks are more than one part in this many of all
/// counted tasks.
const REDRAW_FRACTION: u64 = 16;
/// Percentage of all tasks that the typical needs cover, as in the FGD paper.
const TYPICAL_PERCENT: u64 = 95;
/// Maximum number of typical needs.
const MAX_TYPICAL: usize = 64;

/// Needs of one task on a node, as far as fragmentation depends on them.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct TaskNeed {
    /// Accepted models, ascending; `None` for any.
    pub(crate) models: Option<Vec<ModelId>>,
    /// Whole devices of one model, or 0.
    pub(crate) devices: u32,
    /// Thousandths of one device, or 0.
    pub(crate) share: u16,
    pub(crate) cpus: u64,
    pub(crate) memory: u64,
}

impl TaskNeed {
    /// Returns the needs of a group on one node: tasks that must share a node are one need.
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

/// Counts of submitted needs, and the typical needs drawn from them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct WorkloadMix {
    /// Serialised as a list, since the keys of a JSON map are strings.
    #[serde(with = "as_list")]
    counts: BTreeMap<TaskNeed, u64>,
    total: u64,
    /// Tasks counted since the mix was drawn.
    #[serde(rename = "news")]
    since_draw: u64,
    typical: Vec<TypicalNeed>,
}

/// Typical needs with equal device requirements.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct TypicalNeed {
    /// Accepted models, as in [`TaskNeed`].
    pub(crate) models: Option<Vec<ModelId>>,
    pub(crate) devices: u32,
    pub(crate) share: u16,
    /// CPUs, memory and number of counted tasks of each need.
    pub(crate) asks: Vec<(u64, u64, u64)>,
    /// Number of tasks, of all needs together.
    pub(crate) tasks: u64,
    /// Maximum over all needs.
    pub(crate) cpus: u64,
    pub(crate) memory: u64,
}

impl TypicalNeed {
    /// Returns the number of its tasks that fit into these CPUs and this memory.
    pub(crate) fn tasks_within(&self, cpus: u64, memory: u64) -> u64 {
        if self.cpus <= cpus && self.memory <= memory {
            return self.tasks;
        }
        let within = self.asks.iter().filter(|ask| ask.0 <= cpus && ask.1 <= memory);
        within.map(|(_, _, tasks)| tasks).sum()
    }

    fn add(&mut self, need: &TaskNeed, tasks: u64) {
        self.asks.push((need.cpus, need.memory, tasks));
        self.tasks += tasks;
        self.cpus = self.cpus.max(need.cpus);
        self.memory = self.memory.max(need.memory);
    }
}

impl WorkloadMix {
    /// True when no task was counted.
    pub(crate) fn is_empty(&self) -> bool {
        self.counts.is_empty()
    }

    /// Returns the typical needs.
    pub(crate) fn typical(&self) -> &[TypicalNeed] {
        &self.typical
    }

    /// Counts the needs of a submitted job. Tasks without a GPU are not counted: to them all idle
    /// GPUs are lost, wherever other tasks are placed, so they do not distinguish places. Returns
    /// true when the mix was drawn again.
    pub(crate) fn count_submission(&mut self, shape: &Shape, elements: u32) -> bool {
        for group in shape.groups.iter().filter(|group| group.wants_gpu() && group.tasks > 0) {
            let need = TaskNeed::of(group);
            let tasks = u64::from(group.tasks)
                .saturating_mul(u64::from(elements))
                .min(MAX_TASKS_PER_SUBMISSION);
            self.count(need, tasks);
        }
        let is_due = self.since_draw > 0 && self.since_draw * REDRAW_FRACTION >= self.total;
        if is_due {
            self.draw();
        }
        is_due
    }

    fn count(&mut self, need: TaskNeed, tasks: u64) {
        self.total += tasks;
        self.since_draw += tasks;
        let mut inherited = 0;
        if !self.counts.contains_key(&need)
            && self.counts.len() >= MAX_NEEDS
            && let Some(rarest) =
                self.counts.iter().min_by_key(|(_, count)| **count).map(|(need, _)| need.clone())
        {
            inherited = self.counts.remove(&rarest).unwrap_or(0);
        }
        *self.counts.entry(need).or_default() += tasks + inherited;
        if self.total > HALVE_AT {
            self.counts.retain(|_, count| {
                *count /= 2;
                *count > 0
            });
            self.total = self.counts.values().sum();
        }
    }

    fn draw(&mut self) {
        self.since_draw = 0;
        let mut by_count: Vec<(TaskNeed, u64)> =
            self.counts.iter().map(|(need, count)| (need.clone(), *count)).collect();
        by_count.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        let mut sum = 0;
        let is_typical = |(_, count): &&(TaskNeed, u64)| {
            let is_short = sum * 100 < self.total * TYPICAL_PERCENT;
            sum += count;
            is_short
        };
        self.typical.clear();
        for (need, tasks) in by_count.iter().take_while(is_typical).take(MAX_TYPICAL) {
            let models = &need.models;
            let devices = need.devices;
            let share = need.share;
            let alike = |one: &&mut TypicalNeed| {
                (&one.models, one.devices, one.share) == (models, devices, share)
            };
            if let Some(known) = self.typical.iter_mut().find(alike) {
                known.add(need, *tasks);
                continue;
            }
            let models = models.clone();
            let mut first = TypicalNeed {
                models,
                devices,
                share,
                asks: Vec::new(),
                tasks: 0,
                cpus: 0,
                memory: 0,
            };
            first.add(need, *tasks);
            self.typical.push(first);
        }
    }
}

mod as_list {
    use std::collections::BTreeMap;

    use serde::{Deserialize, Deserializer, Serializer};

    use super::TaskNeed;

    pub(crate) fn serialize<S: Serializer>(
        counts: &BTreeMap<TaskNeed, u64>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(counts)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<BTreeMap<TaskNeed, u64>, D::Error> {
        Ok(Vec::<(TaskNeed, u64)>::deserialize(deserializer)?.into_iter().collect())
    }
}
