//! Placement policies compared with their definitions: every place of a small cluster is tried, and
//! the best taken, by plain arithmetic on the test's own records.

use std::cmp::Reverse;

use muster_model::job::GpuRequest;
use muster_model::queue::PlacementPolicy;
use muster_model::{GpuMilli, NodeSpec, QueueTree};
use proptest::prelude::*;

use crate::cluster::{JobBuilder, TestCluster, job, node_of};
use crate::random::TestRng;

fn tree(placement: PlacementPolicy) -> QueueTree {
    QueueTree { placement, ..QueueTree::single() }
}

/// Node as the test records it.
#[derive(Clone, Debug)]
struct ModelNode {
    name: String,
    /// Model and free thousandths of each device.
    devices: Vec<(String, u64)>,
    cpus: u64,
    all_cpus: u64,
}

/// Task as the test requests it.
#[derive(Clone, Debug, PartialEq)]
struct ModelTask {
    model: Option<String>,
    gpus: u64,
    milli: u64,
    cpus: u64,
}

impl ModelTask {
    fn ask(&self, name: &str) -> JobBuilder {
        let ask = job(name).cpus(self.cpus as u32).with(|spec| {
            let gpu = &mut spec.groups[0].task.gpu;
            *gpu = GpuRequest {
                share: GpuMilli(self.milli as u32),
                ..GpuRequest::whole(self.gpus as u32)
            };
            if self.milli > 0 {
                gpu.devices = 0;
            }
        });
        match &self.model {
            Some(model) => ask.models(&[model]),
            None => ask,
        }
    }

    fn least(&self) -> u64 {
        if self.milli > 0 { self.milli } else { 1000 }
    }

    /// Returns all ways to put the task on a node.
    fn ways(&self, host: &ModelNode) -> Vec<Vec<usize>> {
        if host.cpus < self.cpus {
            return Vec::new();
        }
        if self.gpus == 0 && self.milli == 0 {
            return vec![Vec::new()];
        }
        let mut ways = Vec::new();
        let mut models: Vec<&str> = host.devices.iter().map(|(model, _)| model.as_str()).collect();
        models.sort_unstable();
        models.dedup();
        for model in models {
            let is_free =
                |at: &usize| host.devices[*at].0 == model && host.devices[*at].1 >= self.least();
            let capacities: Vec<usize> = (0..host.devices.len()).filter(is_free).collect();
            if self.model.as_deref().is_some_and(|wanted| wanted != model) {
                continue;
            }
            match self.milli {
                // Whole devices of one model are equal; the lowest indices are taken.
                0 if capacities.len() >= self.gpus as usize => {
                    ways.push(capacities[..self.gpus as usize].to_vec())
                }
                0 => {}
                _ => ways.extend(capacities.into_iter().map(|at| vec![at])),
            }
        }
        ways
    }

    fn on(&self, host: &ModelNode, way: &[usize]) -> ModelNode {
        let mut after = host.clone();
        after.cpus -= self.cpus;
        for at in way {
            after.devices[*at].1 -= self.least();
        }
        after
    }
}

impl ModelNode {
    fn idle(&self) -> u64 {
        self.devices.iter().map(|(_, free)| free).sum()
    }

    /// Returns the idle thousandths that a task cannot use.
    fn unusable_for(&self, want: &ModelTask) -> u64 {
        let useful: Vec<usize> = want
            .ways(self)
            .iter()
            .flat_map(|way| {
                let model = &self.devices[way[0]].0;
                (0..self.devices.len()).filter(move |at| {
                    self.devices[*at].0 == *model && self.devices[*at].1 >= want.least()
                })
            })
            .collect();
        (0..self.devices.len()).filter(|at| !useful.contains(at)).map(|at| self.devices[at].1).sum()
    }
}

fn millionths(some: u64, all: u64) -> i64 {
    (some * 1_000_000 / all.max(1)) as i64
}

/// Returns the score of a place by the definition of a policy.
fn weight(
    policy: PlacementPolicy,
    hosts: &[ModelNode],
    seen: &[ModelTask],
    want: &ModelTask,
    host: &ModelNode,
    way: &[usize],
) -> i64 {
    let after = want.on(host, way);
    let is_plain = way.is_empty();
    match policy {
        PlacementPolicy::Pack => unreachable!("packing has its own tests"),
        PlacementPolicy::Spread if is_plain => {
            millionths(host.all_cpus - after.cpus, host.all_cpus)
        }
        PlacementPolicy::Spread => {
            let model = &host.devices[way[0]].0;
            let of_model = || after.devices.iter().filter(|(known, _)| known == model);
            let all = 1000 * of_model().count() as u64;
            millionths(all - of_model().map(|(_, free)| free).sum::<u64>(), all)
        }
        PlacementPolicy::BestFit => left_over(hosts, host),
        PlacementPolicy::Fragmentation => {
            let usual: Vec<&ModelTask> =
                seen.iter().filter(|one| one.gpus + one.milli > 0).collect();
            let growth: i64 = usual
                .iter()
                .map(|one| after.unusable_for(one) as i64 - host.unusable_for(one) as i64)
                .sum();
            let devices = growth as f64 / 1000.0 / usual.len().max(1) as f64;
            100 - (100.0 / (1.0 + devices.exp())).floor() as i64
        }
    }
}

/// Returns the capacity left before the task: it takes the same everywhere.
fn left_over(hosts: &[ModelNode], host: &ModelNode) -> i64 {
    let most = |of: fn(&ModelNode) -> u64| hosts.iter().map(of).max().unwrap_or(0);
    millionths(host.idle(), 1000 * most(|host| host.devices.len() as u64))
        + millionths(host.cpus * 1000, most(|host| host.all_cpus) * 1000)
}

/// Returns node and devices by definition.
fn best(
    policy: PlacementPolicy,
    hosts: &[ModelNode],
    seen: &[ModelTask],
    want: &ModelTask,
) -> Option<(usize, Vec<usize>)> {
    let mut ways = Vec::new();
    for (at, host) in hosts.iter().enumerate() {
        for way in want.ways(host) {
            let weight = weight(policy, hosts, seen, want, host, &way);
            // With equal scores the best fit wins; then names.
            let tie =
                if policy == PlacementPolicy::Fragmentation { left_over(hosts, host) } else { 0 };
            let capacity = way.first().map_or(0, |device| host.devices[*device].1);
            let device = match policy {
                PlacementPolicy::Spread => Err(Reverse(capacity)),
                _ => Ok(capacity),
            };
            // Models were visited in the order of their names.
            let model = way.first().map(|device| host.devices[*device].0.clone());
            let device = if want.milli > 0 { Some(device) } else { None };
            ways.push(((weight, tie, at, model, device, way.clone()), (at, way)));
        }
    }
    ways.into_iter().min_by(|(one, _), (other, _)| one.cmp(other)).map(|(_, place)| place)
}

fn host(spec: &NodeSpec) -> ModelNode {
    ModelNode {
        name: spec.name.to_string(),
        devices: spec.devices.iter().map(|device| (device.model.to_string(), 1000)).collect(),
        cpus: u64::from(spec.cpus.0) / 1000,
        all_cpus: u64::from(spec.cpus.0) / 1000,
    }
}

fn random_want(rng: &mut TestRng) -> ModelTask {
    let (gpus, milli) = *rng.pick(&[
        (1, 0),
        (1, 0),
        (2, 0),
        (4, 0),
        (0, 500),
        (0, 300),
        (0, 250),
        (0, 700),
        (0, 0),
    ]);
    let model = rng.chance(30).then(|| (*rng.pick(&["a100", "slice"])).to_owned());
    ModelTask { model: model.filter(|_| gpus + milli > 0), gpus, milli, cpus: rng.below(7) }
}

/// Starts and ends random single tasks; each must get the place that its policy defines.
fn run_random_tasks(policy: PlacementPolicy, seed: u64) {
    let rng = &mut TestRng::new(seed);
    let nodes: Vec<NodeSpec> = (0..1 + rng.below(5))
        .map(|at| {
            let mut node = node_of(
                &format!("n{at}"),
                *rng.pick(&[1, 2, 4, 4, 8]),
                "a100",
                *rng.pick(&[4, 16, 32]),
            );
            let slices = rng.below(3) as usize;
            let first = node.devices.len().saturating_sub(slices).max(1);
            node.devices[first..].iter_mut().for_each(|device| device.model = "slice".into());
            node
        })
        .collect();
    let mut hosts: Vec<ModelNode> = nodes.iter().map(host).collect();
    let mut cluster = TestCluster::with_queues(&nodes, tree(policy));
    let mut seen = Vec::<ModelTask>::new();
    let mut running = Vec::<(String, ModelTask, usize, Vec<usize>)>::new();
    // Below 16 tasks every one of them redraws the mix, and all are typical.
    for at in 0..15 {
        let want = random_want(rng);
        let name = format!("j{at}");
        // A task that no idle cluster could host is refused, and not counted.
        if cluster.try_submit(want.ask(&name)).is_err() {
            continue;
        }
        seen.push(want.clone());
        match best(policy, &hosts, &seen, &want) {
            None => {
                cluster.expect(&name, muster_model::view::JobState::Pending);
                cluster.cancel(&name);
            }
            Some((node, way)) => {
                let devices: Vec<u16> = way.iter().map(|device| *device as u16).collect();
                let expected = vec![(hosts[node].name.as_str().into(), devices)];
                assert_eq!(
                    cluster.places(&name),
                    expected,
                    "{policy:?} {seed}: {want:?} of {seen:?} on {hosts:?}"
                );
                hosts[node] = want.on(&hosts[node], &way);
                running.push((name, want, node, way));
            }
        }
        if rng.chance(30) && !running.is_empty() {
            let (name, want, node, way) = running.remove(rng.below(running.len() as u64) as usize);
            cluster.exit(&name, 0);
            hosts[node].cpus += want.cpus;
            way.iter().for_each(|device| hosts[node].devices[*device].1 += want.least());
        }
    }
    assert!(hosts.iter().all(|host| host.devices.iter().all(|(_, free)| *free <= 1000)));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn every_task_gets_the_place_that_its_policy_defines(seed in any::<u64>()) {
        for policy in [PlacementPolicy::Spread, PlacementPolicy::BestFit, PlacementPolicy::Fragmentation] {
            run_random_tasks(policy, seed);
        }
    }
}

#[test]
fn a_gang_is_placed_task_by_task_and_whole_under_every_policy() {
    for (name, policy) in PlacementPolicy::ALL {
        let mut cluster = TestCluster::with_queues(
            &[node_of("a", 4, "h100", 64), node_of("b", 4, "h100", 64)],
            tree(policy),
        );
        cluster.submit(job("six").tasks(6).gpus(1));
        assert_eq!(cluster.places("six").len(), 6, "{name}");
        cluster.submit(job("late").tasks(3).gpus(1));
        cluster.expect("late", muster_model::view::JobState::Pending);
        let on_a = cluster.places("six").iter().filter(|(node, _)| node.as_str() == "a").count();
        let expected = if policy == PlacementPolicy::Spread { 3 } else { 4 };
        assert_eq!(on_a, expected, "{name}");
        // Blocks are on nodes of their own, under every policy.
        cluster.cancel("late");
        cluster.exit("six", 0);
        cluster.submit(job("blocks").tasks(4).per_node(2).gpus(1));
        let nodes: Vec<String> =
            cluster.places("blocks").iter().map(|(node, _)| node.to_string()).collect();
        assert_eq!(nodes, ["a", "a", "b", "b"], "{name}");
        cluster.submit(job("pairs").tasks(4).per_node(2).share(500));
        let nodes: Vec<String> =
            cluster.places("pairs").iter().map(|(node, _)| node.to_string()).collect();
        assert_eq!(nodes, ["a", "a", "b", "b"], "{name}");
    }
}

#[test]
fn a_placement_policy_can_change_and_the_mix_survives_a_restart() {
    let nodes: Vec<NodeSpec> = (0..4).map(|at| node_of(&format!("n{at}"), 4, "h100", 64)).collect();
    let mut cluster = TestCluster::with_queues(&nodes, tree(PlacementPolicy::Pack));
    for at in 0..6 {
        cluster.submit(job(&format!("share{at}")).share(300).limit("1h"));
    }
    cluster
        .step(vec![muster_model::Event::QueuesSet(Box::new(tree(PlacementPolicy::Fragmentation)))]);
    for at in 0..6 {
        cluster.submit(job(&format!("whole{at}")).gpus(1 + at % 2).limit("1h"));
    }
    let snapshot = cluster.engine.snapshot();
    let written = crate::cluster::text(&snapshot);
    assert!(written.contains("\"mix\""), "what was learnt is durable");
    let restored = muster_engine::Engine::restore(serde_json::from_str(&written).unwrap()).unwrap();
    let replayed = cluster.replayed(tree(PlacementPolicy::Pack));
    for mut engine in [restored, replayed] {
        assert_eq!(crate::cluster::text(&engine.snapshot()), written);
        let mut before = cluster.engine.clone();
        for (at, ask) in [job("next").share(700), job("last").gpus(2)].into_iter().enumerate() {
            let event = muster_model::Event::Submitted {
                job: muster_model::JobId(cluster.next_id().0 + at as u64),
                spec: std::sync::Arc::new(ask.spec),
            };
            before.apply(cluster.now, &event);
            engine.apply(cluster.now, &event);
            assert_eq!(engine.plan(cluster.now), before.plan(cluster.now));
        }
    }
    // Packing needs no mix.
    cluster.step(vec![muster_model::Event::QueuesSet(Box::new(tree(PlacementPolicy::Pack)))]);
    assert!(!crate::cluster::text(&cluster.engine.snapshot()).contains("\"mix\""));
}
