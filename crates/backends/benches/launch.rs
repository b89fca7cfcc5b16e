//! Throughput of the local backend for one-task gangs of `true`, from Prepare to a recorded exit,
//! and latency from Prepare to the start. Prints figures; `cargo bench -p muster-backends --bench
//! launch`.
#![allow(clippy::unwrap_used, reason = "a failed unwrap ends the benchmark")]

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use muster_backends::driver::{Backend, BackendCommand, Report};
use muster_backends::local::{LocalBackend, LocalConfig, TaskLimits};
use muster_backends::order::{GangOrder, TaskOrder};
use muster_model::payload::{Identity, TaskCommand as Program};
use muster_model::{
    Attempt, AttemptId, Bytes, CpuMilli, DeviceSet, ElementId, GpuMilli, JobId, Observation, Rank,
    Span,
};
use tokio::sync::mpsc::unbounded_channel;

/// Number of tasks, in all and at the same time: the array of the project's goal (300 per second on
/// two cores).
const TASKS: u64 = 2000;
const AT_ONCE: u64 = 64;
/// Number of starts whose latency is measured.
const STARTS: u64 = 200;

fn order(job: u64) -> GangOrder {
    let task = TaskOrder {
        rank: Rank(0),
        group: "main".into(),
        command: Program::Argv(vec!["true".into()]),
        node: "here".into(),
        node_rank: 0,
        local_rank: 0,
        local_world_size: 1,
        devices: DeviceSet::EMPTY,
        device_names: Vec::new(),
        virtual_devices: true,
        share: GpuMilli(0),
        cpus: CpuMilli(0),
        memory: Bytes(0),
    };
    GangOrder {
        id: AttemptId { element: ElementId::single(JobId(job)), attempt: Attempt(1) },
        job_name: "bench".into(),
        array_index: None,
        identity: Identity { user: "bench".into(), uid: 0, gid: 0 },
        env: BTreeMap::from([("PATH".to_owned(), "/usr/bin:/bin".to_owned())]),
        workdir: "/".into(),
        umask: 0o022,
        interactive: false,
        files: muster_model::OutputFiles::default(),
        environment: muster_model::TaskEnvironment::default(),
        time_limit: None,
        grace: Span::from_secs(5),
        checkpoint: None,
        last_checkpoint: None,
        replica: None,
        idle: None,
        metric: None,
        starts_at_once: false,
        tasks: vec![task],
    }
}

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() {
    // `cargo test --benches` runs this without `--bench`, only to see that it builds.
    if !std::env::args().any(|arg| arg == "--bench") {
        return;
    }
    let temp = tempfile::tempdir().unwrap();
    let (to, mut reports) = unbounded_channel();
    let config = LocalConfig {
        epochs: Default::default(),
        state_dir: temp.path().join("state"),
        runtime_dir: temp.path().join("run"),
        supervisor: vec![
            env!("CARGO_BIN_EXE_muster-supervise-for-tests").into(),
            "__supervise".into(),
        ],
        virtual_gpus: None,
        node_name: "here".into(),
        system: false,
        limits: TaskLimits::default(),
        booted: muster_model::Time(0),
    };
    let backend = LocalBackend::new(config, to).unwrap();
    println!("{:?}", backend.capabilities());
    let mut next = async || match reports.recv().await.unwrap() {
        Report::Task(task) => (task.id, task.observation),
        Report::Metric { .. } | Report::Foreign { .. } => panic!("no devices, no foreign users"),
    };

    let mut latencies: Vec<Duration> = Vec::new();
    for job in 1..=STARTS {
        let prepared_at = Instant::now();
        backend.execute(BackendCommand::Prepare(order(job).into()));
        loop {
            match next().await {
                (id, Observation::Prepared) => backend.execute(BackendCommand::Go(id)),
                (_, Observation::Started) => latencies.push(prepared_at.elapsed()),
                (_, Observation::Exited(_)) => break,
                (id, other) => panic!("{id}: {other:?}"),
            }
        }
    }
    latencies.sort_unstable();
    let median = latencies[latencies.len() / 2];
    let p99 = latencies[latencies.len() * 99 / 100];
    println!("prepare to started, one at a time: median {median:?}, p99 {p99:?}");

    let start = Instant::now();
    let mut ordered = 0;
    let mut over = 0;
    while over < TASKS {
        while ordered < TASKS && ordered - over < AT_ONCE {
            ordered += 1;
            backend.execute(BackendCommand::Prepare(order(STARTS + ordered).into()));
        }
        match next().await {
            (id, Observation::Prepared) => backend.execute(BackendCommand::Go(id)),
            (_, Observation::Started) => {}
            (id, Observation::Exited(_)) => {
                over += 1;
                backend.execute(BackendCommand::Forget(id));
            }
            (id, other) => panic!("{id}: {other:?}"),
        }
    }
    let rate = TASKS as f64 / start.elapsed().as_secs_f64();
    println!("{TASKS} tasks of `true`, {AT_ONCE} at once: {rate:.0} per second");
}
