//! How many GPUs of a real cluster each placement policy gets into use: the lists that FGD was measured with (Weng et al.,
//! USENIX ATC 2023; Alibaba's cluster-trace-gpu-v2023, 1,213 nodes with 6,212 GPUs). Pods come one by one, each is placed or
//! lost, none ends; what counts is the part of the GPUs that is held when 1.3 times all of them were asked for.
//!
//! `cargo bench -p muster-engine --bench openb -- DIR`, where DIR holds `openb_node_list_gpu_node.csv`,
//! `openb_pod_list_default.csv.gz` and `arrival-order/*.txt.gz`. The data is not ours to keep here: without DIR it does
//! nothing.

#![allow(clippy::disallowed_methods, reason = "a bench reads files and the clock; the library may not")]

#[allow(dead_code, unused_imports, reason = "shared with the other benches, which use the rest")]
mod mix;

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Instant;

use mix::Numbers;
use muster_engine::Engine;
use muster_model::job::{GpuRequest, Resources};
use muster_model::node::Device;
use muster_model::queue::PlacementPolicy;
use muster_model::{
    Bytes, CpuMilli, Event, GpuMilli, GpuModel, JobId, JobSpec, NodeSpec, QueueTree, Target, Time,
};

/// One pod: what it asks for.
#[derive(Clone, Debug)]
struct Pod {
    cpus: u32,
    memory: u64,
    gpus: u32,
    milli: u32,
    models: Vec<GpuModel>,
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).filter(|arg| !arg.starts_with("--")).collect();
    let Some(dir) = args.first().map(PathBuf::from) else {
        println!("no directory with the lists was named: nothing is measured");
        return;
    };
    let nodes = nodes(&plain(&dir.join("openb_node_list_gpu_node.csv")));
    let pods = pods(&unpacked(&dir.join("openb_pod_list_default.csv.gz")));
    let mut orders: Vec<PathBuf> = std::fs::read_dir(dir.join("arrival-order"))
        .expect("a folder")
        .map(|one| one.expect("a file").path())
        .collect();
    orders.sort();
    println!(
        "{:<36} {:>8} {:>8} {:>8} {:>8} {:>8}",
        "order", "random", "pack", "spread", "best-fit", "fragm."
    );
    for order in &orders {
        let names = unpacked(order);
        let arrivals: Vec<&Pod> =
            names.lines().map(|name| &pods[name.split("-tuned").next().unwrap_or(name)]).collect();
        let mut row = vec![format!("{:.2}", random(&nodes, &arrivals))];
        let mut rates = Vec::new();
        for policy in ["pack", "spread", "best-fit", "fragmentation"] {
            let (_, policy) =
                PlacementPolicy::ALL.into_iter().find(|(name, _)| *name == policy).expect("known");
            let begin = Instant::now();
            row.push(format!("{:.2}", placed(&nodes, &arrivals, policy)));
            rates.push(format!("{:.0}/s", arrivals.len() as f64 / begin.elapsed().as_secs_f64()));
        }
        let name = order.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        println!("{name:<36} {:>8} {:>8} {:>8} {:>8} {:>8}", row[0], row[1], row[2], row[3], row[4]);
        println!(
            "{:<36} {:>8} {:>8} {:>8} {:>8} {:>8}",
            "  pods a second", "", rates[0], rates[1], rates[2], rates[3]
        );
    }
}

fn plain(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn unpacked(path: &Path) -> String {
    let output = Command::new("gzip").arg("-dc").arg(path).output().expect("gzip is there");
    assert!(output.status.success(), "{} is not a gzip file", path.display());
    String::from_utf8(output.stdout).expect("text")
}

fn nodes(text: &str) -> Vec<NodeSpec> {
    let device = |model: &str, _: usize| Device {
        model: GpuModel::from(model.to_lowercase().as_str()),
        memory: Bytes(0),
        uuid: "".into(),
        is_virtual: true,
        slice_of: None,
    };
    let node = |line: &str| {
        let [name, cpus, memory, gpus, model] = line.split(',').collect::<Vec<_>>()[..] else {
            panic!("not a node: {line}")
        };
        let number = |text: &str| text.parse::<u64>().expect("a number");
        NodeSpec {
            name: name.into(),
            devices: (0..number(gpus) as usize).map(|at| device(model, at)).collect(),
            cpus: CpuMilli(number(cpus) as u32),
            memory: Bytes(number(memory) << 20),
            extras: BTreeMap::new(),
            labels: BTreeMap::new(),
            domains: Vec::new(),
        }
    };
    text.lines().skip(1).map(node).collect()
}

fn pods(text: &str) -> HashMap<String, Pod> {
    let pod = |line: &str| {
        let fields: Vec<&str> = line.split(',').collect();
        let number = |at: usize| fields[at].parse::<u64>().expect("a number");
        let models = fields[5].split('|').filter(|model| !model.is_empty());
        let pod = Pod {
            cpus: number(1) as u32,
            memory: number(2) << 20,
            gpus: number(3) as u32,
            milli: number(4) as u32,
            models: models.map(|model| GpuModel::from(model.to_lowercase().as_str())).collect(),
        };
        (fields[0].to_owned(), pod)
    };
    text.lines().skip(1).map(pod).collect()
}

fn spec(pod: &Pod) -> JobSpec {
    let mut spec = mix::single("pod");
    let (devices, share) = match pod.milli {
        0 | 1000.. => (pod.gpus, 0),
        milli => (0, milli),
    };
    let gpu = GpuRequest { devices, share: GpuMilli(share), models: pod.models.clone() };
    spec.groups[0].task =
        Resources { gpu, cpus: CpuMilli(pod.cpus), memory: Bytes(pod.memory), ..Resources::default() };
    (spec.queue, spec.time_limit) = ("default".into(), None);
    spec
}

fn part(held: u64, nodes: &[NodeSpec]) -> f64 {
    let all: usize = nodes.iter().map(|node| node.devices.len()).sum();
    held as f64 / (all as f64 * 10.0)
}

/// Per cent of all GPUs that are held in the end, placed by the engine.
fn placed(nodes: &[NodeSpec], arrivals: &[&Pod], placement: PlacementPolicy) -> f64 {
    let tree = QueueTree { placement, ..QueueTree::single() };
    let mut engine = Engine::new(tree).expect("one queue");
    for node in nodes {
        engine.apply(Time(0), &Event::NodeJoined(Box::new(node.clone())));
    }
    let mut held = 0;
    for (at, pod) in arrivals.iter().enumerate() {
        let (now, job) = (Time(1 + at as u64), JobId(1 + at as u64));
        engine.apply(now, &Event::Submitted { job, spec: Arc::new(spec(pod)) });
        let plan = engine.plan(now);
        engine.check(now, &plan).expect("plans are right");
        engine.commit(now, &plan);
        for (_, placement, _) in plan.starts() {
            held += placement
                .iter()
                .map(|task| u64::from(task.devices.len()) * u64::from(task.share.0))
                .sum::<u64>();
        }
        if plan.decisions.is_empty() {
            let target = Target { job, index: None };
            engine.apply(now, &Event::Cancel { target, by: "user0".into() });
        }
        drop((engine.take_effects(), engine.take_facts()));
    }
    part(held, nodes)
}

/// The same with a node drawn among all that have room, and devices of it drawn as well; without the engine.
fn random(nodes: &[NodeSpec], arrivals: &[&Pod]) -> f64 {
    let mut numbers = Numbers::new();
    let mut free: Vec<(u32, u64, Vec<u32>)> =
        nodes.iter().map(|node| (node.cpus.0, node.memory.0, vec![1000; node.devices.len()])).collect();
    let mut held = 0;
    for pod in arrivals {
        let least = pod.milli.min(1000);
        let has_room = |at: &usize| {
            let (cpus, memory, devices) = &free[*at];
            let model = &nodes[*at].devices.first().map(|device| &device.model);
            let accepted = pod.gpus == 0
                || pod.models.is_empty()
                || model.is_some_and(|model| pod.models.contains(model));
            let enough = devices.iter().filter(|room| **room >= least.max(1)).count() >= pod.gpus as usize;
            accepted && enough && *cpus >= pod.cpus && *memory >= pod.memory
        };
        let candidates: Vec<usize> = (0..nodes.len()).filter(has_room).collect();
        if candidates.is_empty() {
            continue;
        }
        let (cpus, memory, devices) = &mut free[candidates[numbers.below(candidates.len() as u64) as usize]];
        *cpus -= pod.cpus;
        *memory -= pod.memory;
        let mut rooms: Vec<usize> = (0..devices.len()).filter(|at| devices[*at] >= least.max(1)).collect();
        for _ in 0..pod.gpus {
            let at = rooms.swap_remove(numbers.below(rooms.len() as u64) as usize);
            devices[at] -= least;
            held += u64::from(least);
        }
    }
    part(held, nodes)
}
