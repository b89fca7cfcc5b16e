//! Compares the measure of fragmentation with a direct implementation of its definition, task by
//! task and device by device; and tests the typical mix.

use muster_model::queue::PlacementPolicy;
use muster_policy::ModelId;
use smallvec::SmallVec;

use super::workload_mix::WorkloadMix;
use super::{Scoring, fragmentation, weigh};
use crate::fixture;
use crate::pool::node_kind::{LargestCapacity, NodeCondition, TaskDemand};
use crate::pool::scalars::Scalars;
use crate::pool::shape::{GroupNeed, Shape};

/// Generator of choices from one seed.
struct ScoreTestRng(u64);

impl ScoreTestRng {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % bound
    }

    fn pick<T: Clone>(&mut self, from: &[T]) -> T {
        from[self.below(from.len() as u64) as usize].clone()
    }
}

/// Task of the definition.
#[derive(Clone, Debug)]
struct DefinitionTask {
    models: Option<Vec<ModelId>>,
    devices: u32,
    share: u16,
    cpus: u64,
    memory: u64,
    popularity: u64,
}

/// Node of the definition: devices one by one.
#[derive(Clone, Debug)]
struct DefinitionNode {
    devices: Vec<(ModelId, u16)>,
    cpus: u64,
    memory: u64,
}

impl DefinitionNode {
    fn condition(&self) -> NodeCondition {
        let mut models: Vec<ModelId> = self.devices.iter().map(|(model, _)| *model).collect();
        models.sort_unstable();
        models.dedup();
        let rooms_of = |model| {
            let mut free_shares: SmallVec<[u16; 8]> = self
                .devices
                .iter()
                .filter(|(known, _)| *known == model)
                .map(|(_, free)| *free)
                .collect();
            free_shares.sort_unstable_by(|one, other| other.cmp(one));
            (model, free_shares)
        };
        NodeCondition {
            free: models.into_iter().map(rooms_of).collect(),
            cpus: self.cpus,
            memory: self.memory,
            all_cpus: 64_000,
        }
    }

    /// Returns how much of the node a task cannot use, device by device.
    fn lost_to(&self, task: &DefinitionTask) -> u64 {
        let least = if task.share > 0 { task.share } else { 1000 };
        let count = if task.share > 0 { 1 } else { task.devices as usize };
        let can_use = |(model, free): &(ModelId, u16)| {
            let accepted = task.models.as_ref().is_none_or(|models| models.contains(model));
            let equal = self
                .devices
                .iter()
                .filter(|(other, free)| other == model && *free >= least)
                .count();
            accepted
                && *free >= least
                && equal >= count
                && self.cpus >= task.cpus
                && self.memory >= task.memory
        };
        self.devices
            .iter()
            .filter(|device| !can_use(device))
            .map(|(_, free)| u64::from(*free))
            .sum()
    }

    fn fragmentation(&self, tasks: &[DefinitionTask]) -> i64 {
        tasks.iter().map(|task| (self.lost_to(task) * task.popularity) as i64).sum()
    }
}

fn task(rng: &mut ScoreTestRng) -> DefinitionTask {
    let share = rng.pick(&[0, 0, 100, 250, 500, 700]);
    DefinitionTask {
        models: rng.pick(&[None, None, Some(vec![ModelId(0)]), Some(vec![ModelId(1), ModelId(0)])]),
        devices: if share > 0 { 0 } else { rng.pick(&[1, 1, 2, 4]) },
        share,
        cpus: rng.below(5) * 4_000,
        memory: rng.below(3) * 10,
        popularity: 1 + rng.below(9),
    }
}

fn need(task: &DefinitionTask) -> GroupNeed {
    GroupNeed {
        name: "worker".into(),
        tasks: task.popularity as u32,
        per_node: None,
        devices: task.devices,
        share: task.share,
        models: task.models.as_ref().map(|models| models.iter().copied().collect()),
        scalars: Scalars { cpus: task.cpus, memory: task.memory, extras: Vec::new() },
    }
}

fn shape(groups: Vec<GroupNeed>) -> Shape {
    let mut shape = Shape::new(&fixture::spec(1), |_| None, |_| 0);
    shape.groups = groups.into();
    shape
}

/// Returns a node and typical tasks, few enough that all of them are typical.
fn case(rng: &mut ScoreTestRng) -> (DefinitionNode, Vec<DefinitionTask>, WorkloadMix) {
    let free = |rng: &mut ScoreTestRng| rng.pick(&[1000, 1000, 900, 700, 500, 300, 250, 0]);
    let devices =
        (0..1 + rng.below(8)).map(|_| (ModelId(rng.pick(&[0, 0, 0, 1])), free(rng))).collect();
    let node = DefinitionNode { devices, cpus: rng.below(6) * 4_000, memory: rng.below(4) * 10 };
    let tasks: Vec<DefinitionTask> = (0..1 + rng.below(5)).map(|_| task(rng)).collect();
    let mut mix = WorkloadMix::default();
    mix.count_submission(&shape(tasks.iter().map(need).collect()), 1);
    (node, tasks, mix)
}

/// Returns the tasks of the mix that make up 95 per cent, the most frequent first: the M of the
/// definition.
fn typical(mut tasks: Vec<DefinitionTask>) -> Vec<DefinitionTask> {
    let mut sums: Vec<DefinitionTask> = Vec::new();
    for task in tasks.drain(..) {
        let key = |one: &DefinitionTask| {
            let mut models = one.models.clone();
            models.iter_mut().for_each(|models| models.sort_unstable());
            (models, one.devices, one.share, one.cpus, one.memory)
        };
        match sums.iter_mut().find(|known| key(known) == key(&task)) {
            Some(known) => known.popularity += task.popularity,
            None => sums.push(task),
        }
    }
    let total: u64 = sums.iter().map(|task| task.popularity).sum();
    let rank = |task: &DefinitionTask| {
        let mut models = task.models.clone();
        models.iter_mut().for_each(|models| models.sort_unstable());
        (
            std::cmp::Reverse(task.popularity),
            models,
            task.devices,
            task.share,
            task.cpus,
            task.memory,
        )
    };
    sums.sort_by_key(rank);
    let mut sum = 0;
    sums.into_iter()
        .take_while(|task| {
            let is_short = sum * 100 < total * 95;
            sum += task.popularity;
            is_short
        })
        .collect()
}

#[test]
fn fragmentation_is_what_its_definition_says() {
    for seed in 1..2_000 {
        let mut rng = ScoreTestRng(seed * 0x9E37_79B9);
        let (node, tasks, mix) = case(&mut rng);
        let tasks = typical(tasks);
        let condition = node.condition();
        assert_eq!(
            fragmentation::of(&mix, &condition),
            node.fragmentation(&tasks),
            "{seed}: {node:?} {tasks:?}"
        );
        // A task on every device on which it fits: compare growth with the definition before and
        // after.
        let new = task(&mut rng);
        let models = || [ModelId(0), ModelId(1)].into_iter();
        let accepts =
            |model: &ModelId| new.models.as_ref().is_none_or(|models| models.contains(model));
        let demand = TaskDemand {
            models: models().filter(accepts).collect(),
            devices: new.devices,
            share: new.share,
            cpus: new.cpus,
            memory: new.memory,
        };
        if node.cpus < new.cpus || node.memory < new.memory {
            continue;
        }
        let mut least = None;
        for at in 0..node.devices.len() {
            let (model, free) = node.devices[at];
            let needed = if new.share > 0 { new.share } else { 1000 };
            let mut after = node.clone();
            (after.cpus, after.memory) = (node.cpus - new.cpus, node.memory - new.memory);
            let equal: Vec<usize> = (at..node.devices.len())
                .filter(|other| node.devices[*other].0 == model && node.devices[*other].1 >= needed)
                .take(if new.share > 0 { 1 } else { new.devices as usize })
                .collect();
            let enough = new.share > 0 || equal.len() == new.devices as usize;
            if free < needed || !accepts(&model) || !enough {
                continue;
            }
            equal.iter().for_each(|at| after.devices[*at].1 -= needed);
            let expected = after.fragmentation(&tasks) - node.fragmentation(&tasks);
            let found = fragmentation::growth(&mix, &condition, &demand, model, free);
            assert_eq!(found, expected, "{seed}: {new:?} at {at} of {node:?}");
            least = Some(least.map_or(expected, |least: i64| least.min(expected)));
        }
        let scoring = Scoring { policy: PlacementPolicy::Fragmentation, mix: &mix };
        let largest = LargestCapacity { devices: 8000, cpus: 64_000 };
        let weight = weigh::condition(scoring, &condition, largest, &demand);
        let least = least.map(|growth| fragmentation::points(&mix, growth));
        assert_eq!(weight.map(|(weight, _)| weight), least, "{seed}: {new:?} on {node:?}");
    }
}

#[test]
fn points_are_what_the_authors_give() {
    let mut mix = WorkloadMix::default();
    let mut usual = need(&task(&mut ScoreTestRng(7)));
    usual.tasks = 3;
    mix.count_submission(&shape(vec![usual]), 1);
    for growth in -30_000..30_000 {
        let devices = growth as f64 / 3.0 / 1000.0;
        let kept = (100.0 / (1.0 + devices.exp())).floor() as i64;
        assert_eq!(fragmentation::points(&mix, growth), 100 - kept, "{growth}");
    }
}

#[test]
fn the_mix_is_what_was_submitted_lately() {
    let of = |devices: u32, tasks: u32| {
        let mut need = need(&task(&mut ScoreTestRng(7)));
        (need.models, need.share, need.devices, need.tasks) = (None, 0, devices, tasks);
        shape(vec![need])
    };
    let devices = |mix: &WorkloadMix| {
        mix.typical().iter().map(|one| (one.devices, one.tasks)).collect::<Vec<_>>()
    };
    // 1. Only the first submission is known; the last five per cent are not typical.
    let mut mix = WorkloadMix::default();
    assert!(mix.count_submission(&of(1, 97), 1));
    assert_eq!(devices(&mix), [(1, 97)]);
    assert!(!mix.count_submission(&of(8, 3), 1), "3 of 100 do not change the typical mix");
    assert!(mix.count_submission(&of(1, 1), 5), "but 8 of 105 are");
    assert_eq!(devices(&mix), [(1, 102)]);
    assert!(mix.count_submission(&of(8, 20), 1));
    assert_eq!(devices(&mix), [(1, 102), (8, 23)]);
    // 2. Old submissions are dropped; a huge array counts as a large one.
    for _ in 0..600 {
        mix.count_submission(&of(4, 1), 1_000_000);
    }
    assert_eq!(devices(&mix).first().map(|(devices, _)| *devices), Some(4));
    assert!(!devices(&mix).iter().any(|(devices, _)| *devices == 8));
    // 3. However many different needs there are, few are kept, including a frequent one.
    for at in 0..5_000u32 {
        mix.count_submission(&of(1000 + at, 1), 1);
        if at % 4 == 0 {
            mix.count_submission(&of(2, 1), 10);
        }
    }
    assert!(mix.typical().iter().map(|one| one.asks.len()).sum::<usize>() <= 64);
    assert!(devices(&mix).iter().any(|(devices, tasks)| *devices == 2 && *tasks > 1_000));
    assert!(serde_json::to_string(&mix).unwrap().len() < 64 << 10);
}
