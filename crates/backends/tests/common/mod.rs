//! Shared fixture of the tests with real processes: a backend in a temporary directory, orders, and
//! waiting for reports.
#![allow(dead_code, reason = "each test binary uses its own part of this")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use muster_backends::cgroup::Hierarchies;
use muster_backends::driver::{Backend, BackendCommand, ExpectedTask, Report};
use muster_backends::local::{LocalBackend, LocalConfig, TaskLimits, VirtualGpus};
use muster_backends::order::{GangOrder, TaskOrder};
use muster_backends::process;
use muster_backends::record::TaskDir;
use muster_model::payload::{Identity, TaskCommand as Program};
use muster_model::{
    Attempt, AttemptId, Bytes, CpuMilli, DeviceSet, ElementId, GpuMilli, JobId, Observation, Rank,
    Span, StopCause, TaskExit,
};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

/// Longest wait for anything; only a failing test waits it out.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// A backend over a temporary directory, which can die and come back.
pub struct Rig {
    pub temp: tempfile::TempDir,
    pub backend: Option<LocalBackend>,
    pub reports: UnboundedReceiver<Report>,
    pub groups: Groups,
    pub system: bool,
    pub limits: TaskLimits,
}

/// Control groups that the backend may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Groups {
    Found,
    None,
}

impl Rig {
    pub fn new(groups: Groups) -> Self {
        Self::with(groups, false)
    }

    pub fn with(groups: Groups, system: bool) -> Self {
        let temp = tempfile::Builder::new().prefix("muster-local-").tempdir().unwrap();
        let (_, reports) = unbounded_channel();
        let mut rig =
            Self { temp, backend: None, reports, groups, system, limits: TaskLimits::default() };
        rig.boot();
        rig
    }

    /// Restarts the backend over the same directories, as a new daemon would. Actors of the old one
    /// exit because their report channel is closed.
    pub fn boot(&mut self) {
        self.backend = None;
        let (to, reports) = unbounded_channel();
        self.reports = reports;
        let config = LocalConfig {
            epochs: Default::default(),
            state_dir: self.temp.path().join("state"),
            runtime_dir: self.temp.path().join("run"),
            supervisor: vec![
                env!("CARGO_BIN_EXE_muster-supervise-for-tests").into(),
                "__supervise".into(),
            ],
            virtual_gpus: Some(VirtualGpus::of(8)),
            node_name: "here".into(),
            system: self.system,
            limits: self.limits,
            booted: muster_model::Time(0),
        };
        let backend = match self.groups {
            Groups::Found => LocalBackend::new(config, to),
            Groups::None => LocalBackend::with_hierarchies(config, to, Hierarchies::none()),
        };
        self.backend = Some(backend.unwrap());
    }

    pub fn backend(&self) -> &LocalBackend {
        self.backend.as_ref().unwrap()
    }

    pub fn execute(&self, command: BackendCommand) {
        self.backend().execute(command);
    }

    pub fn adopt(&self, tasks: &[(AttemptId, u32)]) {
        let expected = tasks.iter().map(|(id, rank)| ExpectedTask {
            id: *id,
            rank: Rank(*rank),
            node: "here".into(),
        });
        self.backend().adopt(expected.collect());
    }

    /// Returns the next report on a task, except those on signal delivery.
    pub async fn next(&mut self) -> (AttemptId, u32, Observation) {
        loop {
            let next = self.next_of_all().await;
            if !matches!(next.2, Observation::Signalled(_)) {
                return next;
            }
        }
    }

    /// Returns the next report on a task.
    pub async fn next_of_all(&mut self) -> (AttemptId, u32, Observation) {
        let report = tokio::time::timeout(PATIENCE, self.reports.recv()).await;
        match report.expect("a report in time").expect("an open channel") {
            Report::Task(task) => (task.id, task.rank.0, task.observation),
            Report::Metric { .. } | Report::Foreign { .. } => {
                panic!("virtual devices have no foreign users")
            }
        }
    }

    /// Waits for reports of `count` ranks that `wanted` accepts; panics on any other report.
    pub async fn all(
        &mut self,
        count: usize,
        wanted: impl Fn(&Observation) -> bool,
    ) -> BTreeMap<u32, Observation> {
        let mut seen = BTreeMap::new();
        while seen.len() < count {
            let (_, rank, what) = self.next().await;
            assert!(wanted(&what), "unexpected {what:?} of rank {rank}");
            seen.insert(rank, what);
        }
        seen
    }

    /// Prepares the gang, sends Go, and waits until every task runs.
    pub async fn start(&mut self, order: &GangOrder) {
        let count = order.tasks.len();
        self.execute(BackendCommand::Prepare(order.clone().into()));
        self.all(count, |what| *what == Observation::Prepared).await;
        self.execute(BackendCommand::Go(order.id));
        self.all(count, |what| matches!(what, Observation::Prepared | Observation::Started)).await;
    }

    /// Runs a one-task job to its end.
    pub async fn run(&mut self, order: &GangOrder) -> TaskExit {
        self.start(order).await;
        self.exit().await
    }

    /// Returns the next exit; panics on any other report but a start.
    pub async fn exit(&mut self) -> TaskExit {
        loop {
            match self.next().await.2 {
                Observation::Exited(exit) => return exit,
                Observation::Started => {}
                other => panic!("expected an exit, got {other:?}"),
            }
        }
    }

    pub async fn lost(&mut self) -> String {
        match self.next().await.2 {
            Observation::Lost { reason } => reason.to_string(),
            other => panic!("expected a loss, got {other:?}"),
        }
    }

    pub fn task_dir(&self, id: AttemptId, rank: u32) -> PathBuf {
        self.backend().log_path(id, Rank(rank)).parent().unwrap().to_owned()
    }

    pub fn log(&self, id: AttemptId, rank: u32) -> String {
        std::fs::read_to_string(self.backend().log_path(id, Rank(rank))).unwrap_or_default()
    }

    pub fn supervisor_pid(&self, id: AttemptId, rank: u32) -> i32 {
        let text = std::fs::read_to_string(self.task_dir(id, rank).join("claim.json")).unwrap();
        let claim: serde_json::Value = serde_json::from_str(&text).unwrap();
        claim["supervisor"]["pid"].as_i64().unwrap() as i32
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.temp.path().join(name)
    }
}

impl Drop for Rig {
    /// Ends processes that a failed test left, according to the supervisors' claims.
    fn drop(&mut self) {
        let mut open = vec![self.temp.path().join("state/jobs")];
        while let Some(dir) = open.pop() {
            for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
                let path = entry.path();
                if path.is_dir() {
                    open.push(path);
                } else if path.file_name().is_some_and(|name| name == "claim.json") {
                    end_task(&TaskDir::at(path.parent().unwrap().to_owned()));
                }
            }
        }
    }
}

/// Ends a supervisor that still lives, and everything below it.
fn end_task(dir: &TaskDir) {
    if let Ok(Some(claim)) = dir.claimed()
        && claim.supervisor.is_alive()
        && claim.supervisor.pid != std::process::id() as i32
    {
        for pid in
            process::descendants(claim.supervisor.pid).into_iter().chain([claim.supervisor.pid])
        {
            process::signal(pid, rustix::process::Signal::KILL);
        }
    }
    if let Ok(Some(order)) = dir.order() {
        let _ = order.cgroup.kill_all(PATIENCE);
        let _ = process::poll_until(PATIENCE, || order.cgroup.remove());
    }
}

pub fn id(job: u64, attempt: u32) -> AttemptId {
    AttemptId { element: ElementId::single(JobId(job)), attempt: Attempt(attempt) }
}

/// Returns a gang with one task and one GPU per script.
pub fn gang(id: AttemptId, scripts: &[&str]) -> GangOrder {
    let count = scripts.len() as u32;
    let tasks = scripts.iter().enumerate().map(|(rank, script)| TaskOrder {
        rank: Rank(rank as u32),
        group: "main".into(),
        command: Program::Script((*script).to_owned()),
        node: "here".into(),
        node_rank: 0,
        local_rank: rank as u32,
        local_world_size: count,
        devices: DeviceSet::one(rank % 8),
        device_names: vec![(rank % 8).to_string().into()],
        virtual_devices: true,
        share: GpuMilli(1000),
        cpus: CpuMilli(0),
        memory: Bytes(0),
    });
    GangOrder {
        id,
        job_name: "test".into(),
        array_index: None,
        identity: Identity {
            user: "root".into(),
            uid: rustix::process::geteuid().as_raw(),
            gid: rustix::process::getegid().as_raw(),
        },
        env: BTreeMap::from([("PATH".to_owned(), "/usr/bin:/bin".to_owned())]),
        workdir: "/".into(),
        umask: 0o022,
        interactive: false,
        files: muster_model::OutputFiles::default(),
        environment: muster_model::TaskEnvironment::default(),
        time_limit: None,
        grace: Span(300),
        checkpoint: None,
        last_checkpoint: None,
        replica: None,
        idle: None,
        metric: None,
        starts_at_once: false,
        tasks: tasks.collect(),
    }
}

/// Polls until `holds`, and fails after [`PATIENCE`].
pub async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < PATIENCE, "timed out waiting for: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Waits for the pid that a script writes to a file, and returns it.
pub async fn pid_in(path: &Path) -> i32 {
    let mut pid = None;
    until(&format!("a pid in {}", path.display()), || {
        pid = std::fs::read_to_string(path).ok().and_then(|text| text.trim().parse().ok());
        pid.is_some()
    })
    .await;
    pid.unwrap()
}

pub fn is_running(pid: i32) -> bool {
    muster_backends::process::Stat::read(pid).is_some_and(|stat| !stat.is_zombie)
}

pub fn stop(id: AttemptId) -> BackendCommand {
    BackendCommand::Stop(id, StopCause::Cancelled)
}
