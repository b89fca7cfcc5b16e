//! Conformance suite for backends: one set of tests of the contract in [`crate::driver`].
//!
//! A [`ConformanceSubject`] creates the backend, restarts it, and advances time. The suite panics
//! at the first violation, as a test does. It is here and not under `tests` so that backends of
//! other crates can use it.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::order::{GangOrder, TaskOrder};
use muster_model::job::{AfterCheckpoint, CheckpointBy};
use muster_model::payload::{Identity, TaskCommand as Program};
use muster_model::{
    Attempt, AttemptId, Bytes, Checkpoint, CpuMilli, DeviceSet, ElementId, GpuMilli, JobId,
    NodeName, Observation, Rank, Span, StopCause, TaskCheckpoint, TaskExit,
};
use tokio::sync::mpsc::UnboundedReceiver;

use crate::driver::{Backend, BackendCommand, ExpectedTask, Report};

/// Longest wait for an expected report.
const PATIENCE: Duration = Duration::from_secs(60);
/// Pause between two checks while waiting.
const PAUSE: Duration = Duration::from_millis(2);

/// Checkpoint signal of the suite's tasks.
const USR1: i32 = 10;

/// Behaviour of a task of the suite.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskBehaviour {
    /// Exits at once with this code.
    Exit(i32),
    /// Dies at once by this signal.
    Signal(i32),
    /// Runs until it is stopped.
    Forever,
    /// Acknowledges a checkpoint `step-1`, once at its start and at each request; runs until it is
    /// stopped.
    Save,
    /// Cannot be prepared and is refused.
    Refuse,
}

/// A backend under test.
pub trait ConformanceSubject {
    /// Starts the backend over the same machines as before; the first call starts without state.
    /// The backend returned earlier was dropped.
    fn boot(&mut self) -> (Arc<dyn Backend>, UnboundedReceiver<Report>);

    /// Returns a program with this behaviour.
    fn program(&self, does: TaskBehaviour) -> Program;

    /// Returns the user as whom the tasks run.
    fn identity(&self) -> Identity;

    /// Advances time, where it does not advance by itself.
    fn tick(&mut self);
}

/// Runs every case, each on a job of its own. Requires a tokio runtime with time enabled.
pub async fn suite(subject: &mut dyn ConformanceSubject) {
    let mut bench = ConformanceRun::new(subject);
    stages_come_in_order(&mut bench, 1).await;
    nothing_runs_before_go(&mut bench, 2).await;
    a_task_that_waits_for_no_other_starts_at_once(&mut bench, 5).await;
    one_refusal_leaves_the_rest_to_be_dropped(&mut bench, 3).await;
    kinds_of_exit_are_distinguished(&mut bench, 10).await;
    a_stop_works_at_every_stage(&mut bench, 20).await;
    commands_can_be_repeated(&mut bench, 30).await;
    stale_generations_are_refused(&mut bench, 40).await;
    tasks_are_found_after_a_restart(&mut bench, 50).await;
    forgetting_keeps_the_log_and_the_lock(&mut bench, 60).await;
    a_repeated_checkpoint_counts_once(&mut bench, 70).await;
}

/// The backend under test and all its reports so far.
struct ConformanceRun<'a> {
    subject: &'a mut dyn ConformanceSubject,
    backend: Arc<dyn Backend>,
    reports: UnboundedReceiver<Report>,
    seen: BTreeMap<(AttemptId, Rank), Vec<Observation>>,
    sentinels: u64,
}

fn id(job: u64, attempt: u32) -> AttemptId {
    AttemptId { element: ElementId::single(JobId(job)), attempt: Attempt(attempt) }
}

fn is_end(what: &Observation) -> bool {
    matches!(
        what,
        Observation::Exited(_)
            | Observation::Lost { .. }
            | Observation::Refused { .. }
            | Observation::Impossible { .. }
    )
}

impl<'a> ConformanceRun<'a> {
    fn new(subject: &'a mut dyn ConformanceSubject) -> Self {
        let (backend, reports) = subject.boot();
        Self { subject, backend, reports, seen: BTreeMap::new(), sentinels: 0 }
    }

    /// Restarts the backend, as after a death of the daemon; earlier reports are dropped.
    fn restart(&mut self) {
        self.seen.clear();
        let none: Arc<dyn Backend> = Arc::new(NullBackend);
        drop(std::mem::replace(&mut self.backend, none));
        (self.backend, self.reports) = self.subject.boot();
    }

    fn order(&self, id: AttemptId, tasks: &[TaskBehaviour]) -> Arc<GangOrder> {
        let node = self.backend.nodes().first().expect("a backend offers a node").name.clone();
        let task = |(rank, does): (usize, &TaskBehaviour)| TaskOrder {
            rank: Rank(rank as u32),
            group: "main".into(),
            command: self.subject.program(*does),
            node: node.clone(),
            node_rank: 0,
            local_rank: rank as u32,
            local_world_size: tasks.len() as u32,
            devices: DeviceSet::EMPTY,
            device_names: Vec::new(),
            virtual_devices: true,
            share: GpuMilli(0),
            cpus: CpuMilli(0),
            memory: Bytes(0),
        };
        Arc::new(GangOrder {
            id,
            job_name: "conformance".into(),
            array_index: None,
            identity: self.subject.identity(),
            env: BTreeMap::from([("PATH".to_owned(), "/usr/bin:/bin".to_owned())]),
            workdir: PathBuf::from("/"),
            umask: 0o022,
            interactive: false,
            files: muster_model::OutputFiles::default(),
            environment: muster_model::TaskEnvironment::default(),
            time_limit: None,
            grace: Span::from_secs(1),
            checkpoint: Some(Checkpoint {
                signal: USR1,
                lead: Span::from_secs(1),
                by: CheckpointBy::First,
                then: AfterCheckpoint::Continue,
                to: Default::default(),
            }),
            last_checkpoint: None,
            replica: None,
            idle: None,
            metric: None,
            starts_at_once: false,
            tasks: tasks.iter().enumerate().map(task).collect(),
        })
    }

    fn execute(&self, command: BackendCommand) {
        self.backend.execute(command);
    }

    fn stop(&self, id: AttemptId) {
        self.execute(BackendCommand::Stop(id, StopCause::Cancelled));
    }

    fn adopt(&self, tasks: &[(AttemptId, u32)]) {
        let node = NodeName::from("any");
        let expected = tasks.iter().map(|(id, rank)| ExpectedTask {
            id: *id,
            rank: Rank(*rank),
            node: node.clone(),
        });
        self.backend.adopt(expected.collect());
    }

    fn observations(&self, id: AttemptId, rank: u32) -> &[Observation] {
        self.seen.get(&(id, Rank(rank))).map_or(&[], Vec::as_slice)
    }

    fn end(&self, id: AttemptId, rank: u32) -> Option<&Observation> {
        self.observations(id, rank).iter().find(|what| is_end(what))
    }

    fn checkpoint(&self, id: AttemptId, rank: u32) -> Option<&TaskCheckpoint> {
        self.observations(id, rank).iter().rev().find_map(|what| match what {
            Observation::Checkpointed(checkpoint) => Some(checkpoint),
            _ => None,
        })
    }

    /// Receives reports until the condition holds.
    async fn until(&mut self, what: &str, holds: impl Fn(&Self) -> bool) {
        let start = Instant::now();
        loop {
            while let Ok(report) = self.reports.try_recv() {
                if let Report::Task(task) = report {
                    self.seen.entry((task.id, task.rank)).or_default().push(task.observation);
                }
            }
            if holds(self) {
                return;
            }
            assert!(start.elapsed() < PATIENCE, "{what}: not reported; seen: {:#?}", self.seen);
            self.subject.tick();
            tokio::time::sleep(PAUSE).await;
        }
    }

    async fn until_reported(&mut self, id: AttemptId, ranks: u32, what: &Observation) {
        self.until(&format!("{what:?} of every task of {id}"), |bench| {
            (0..ranks).all(|rank| bench.observations(id, rank).contains(what))
        })
        .await;
    }

    async fn until_over(&mut self, id: AttemptId, ranks: u32) {
        self.until(&format!("the end of every task of {id}"), |bench| {
            (0..ranks).all(|rank| bench.end(id, rank).is_some())
        })
        .await;
    }

    async fn prepare(&mut self, id: AttemptId, tasks: &[TaskBehaviour]) {
        self.execute(BackendCommand::Prepare(self.order(id, tasks)));
        self.until_reported(id, tasks.len() as u32, &Observation::Prepared).await;
    }

    async fn start(&mut self, id: AttemptId, tasks: &[TaskBehaviour]) {
        self.prepare(id, tasks).await;
        self.execute(BackendCommand::Go(id));
        self.until_reported(id, tasks.len() as u32, &Observation::Started).await;
    }

    /// Runs another gang from start to end, so that delayed effects of earlier commands would show.
    async fn sentinel(&mut self) {
        self.sentinels += 1;
        let id = id(1_000 + self.sentinels, 1);
        self.start(id, &[TaskBehaviour::Exit(0)]).await;
        self.until_over(id, 1).await;
    }
}

async fn stages_come_in_order(bench: &mut ConformanceRun<'_>, job: u64) {
    let id = id(job, 1);
    bench
        .start(id, &[TaskBehaviour::Exit(0), TaskBehaviour::Exit(0), TaskBehaviour::Exit(0)])
        .await;
    bench.until_over(id, 3).await;
    for rank in 0..3 {
        let mut observations = bench.observations(id, rank).to_vec();
        observations.dedup();
        let success = Observation::Exited(TaskExit::Code { code: 0 });
        assert_eq!(observations, [Observation::Prepared, Observation::Started, success]);
    }
}

async fn a_task_that_waits_for_no_other_starts_at_once(bench: &mut ConformanceRun<'_>, job: u64) {
    for (job, does) in (job..).zip([TaskBehaviour::Exit(3), TaskBehaviour::Refuse]) {
        let id = id(job, 1);
        let order = GangOrder { starts_at_once: true, ..(*bench.order(id, &[does])).clone() };
        bench.execute(BackendCommand::Prepare(Arc::new(order)));
        bench.until_over(id, 1).await;
        let mut observations = bench.observations(id, 0).to_vec();
        observations.dedup();
        match (does, observations.as_slice()) {
            (
                TaskBehaviour::Exit(_),
                [Observation::Started, Observation::Exited(TaskExit::Code { code: 3 })],
            )
            | (
                TaskBehaviour::Refuse,
                [Observation::Refused { .. } | Observation::Impossible { .. }],
            ) => {}
            other => panic!("{other:?}"),
        }
    }
}

async fn nothing_runs_before_go(bench: &mut ConformanceRun<'_>, job: u64) {
    let id = id(job, 1);
    bench.prepare(id, &[TaskBehaviour::Exit(0), TaskBehaviour::Exit(0)]).await;
    bench.sentinel().await;
    for rank in 0..2 {
        assert!(bench.observations(id, rank).iter().all(|what| *what == Observation::Prepared));
        assert!(!bench.backend.log_path(id, Rank(rank)).exists() || log_is_empty(bench, id, rank));
    }
    bench.stop(id);
    bench.until_over(id, 2).await;
}

fn log_is_empty(bench: &ConformanceRun<'_>, id: AttemptId, rank: u32) -> bool {
    std::fs::read(bench.backend.log_path(id, Rank(rank))).is_ok_and(|text| text.is_empty())
}

async fn one_refusal_leaves_the_rest_to_be_dropped(bench: &mut ConformanceRun<'_>, job: u64) {
    let id = id(job, 1);
    bench.execute(BackendCommand::Prepare(
        bench.order(id, &[TaskBehaviour::Exit(0), TaskBehaviour::Refuse, TaskBehaviour::Exit(0)]),
    ));
    bench
        .until("a refusal and two prepared tasks", |bench| {
            bench.end(id, 1).is_some()
                && [0, 2]
                    .iter()
                    .all(|rank| bench.observations(id, *rank).contains(&Observation::Prepared))
        })
        .await;
    let end = bench.end(id, 1);
    assert!(
        matches!(end, Some(Observation::Refused { .. } | Observation::Impossible { .. })),
        "{end:?}"
    );
    bench.execute(BackendCommand::Stop(id, StopCause::GangFailed));
    bench.until_over(id, 3).await;
    for rank in [0, 2] {
        assert_eq!(bench.end(id, rank), Some(&Observation::Exited(TaskExit::Stopped)));
    }
    assert!((0..3).all(|rank| !bench.observations(id, rank).contains(&Observation::Started)));
}

async fn kinds_of_exit_are_distinguished(bench: &mut ConformanceRun<'_>, job: u64) {
    let rows = [
        (TaskBehaviour::Exit(0), TaskExit::Code { code: 0 }),
        (TaskBehaviour::Exit(3), TaskExit::Code { code: 3 }),
        (TaskBehaviour::Signal(9), TaskExit::Signal { signal: 9 }),
        (TaskBehaviour::Signal(11), TaskExit::Signal { signal: 11 }),
    ];
    for ((does, expected), job) in rows.into_iter().zip(job..) {
        bench.start(id(job, 1), &[does]).await;
        bench.until_over(id(job, 1), 1).await;
        assert_eq!(bench.end(id(job, 1), 0), Some(&Observation::Exited(expected)));
    }
    let limited = id(job + 9, 1);
    let order = GangOrder {
        time_limit: Some(Span(200)),
        checkpoint: None,
        ..(*bench.order(limited, &[TaskBehaviour::Forever])).clone()
    };
    bench.execute(BackendCommand::Prepare(Arc::new(order)));
    bench.until_reported(limited, 1, &Observation::Prepared).await;
    bench.execute(BackendCommand::Go(limited));
    bench.until_over(limited, 1).await;
    assert_eq!(bench.end(limited, 0), Some(&Observation::Exited(TaskExit::TimedOut)));
}

async fn a_stop_works_at_every_stage(bench: &mut ConformanceRun<'_>, job: u64) {
    let stopped = Observation::Exited(TaskExit::Stopped);
    // Directly after Prepare, without waiting for its report.
    let early = id(job, 1);
    bench.execute(BackendCommand::Prepare(
        bench.order(early, &[TaskBehaviour::Forever, TaskBehaviour::Forever]),
    ));
    bench.stop(early);
    bench.until_reported(early, 2, &stopped).await;
    // Prepared.
    let prepared = id(job + 1, 1);
    bench.prepare(prepared, &[TaskBehaviour::Forever]).await;
    bench.stop(prepared);
    bench.until_reported(prepared, 1, &stopped).await;
    assert!(!bench.observations(prepared, 0).contains(&Observation::Started));
    // Directly after Go.
    let going = id(job + 2, 1);
    bench.prepare(going, &[TaskBehaviour::Forever, TaskBehaviour::Forever]).await;
    bench.execute(BackendCommand::Go(going));
    bench.stop(going);
    bench.until_reported(going, 2, &stopped).await;
    // Running.
    let running = id(job + 3, 1);
    bench.start(running, &[TaskBehaviour::Forever, TaskBehaviour::Forever]).await;
    bench.stop(running);
    bench.until_reported(running, 2, &stopped).await;
    // Over: its real end stays.
    let over = id(job + 4, 1);
    bench.start(over, &[TaskBehaviour::Exit(4)]).await;
    bench.until_over(over, 1).await;
    bench.stop(over);
    bench.sentinel().await;
    let code = Observation::Exited(TaskExit::Code { code: 4 });
    assert!(
        bench.observations(over, 0).iter().filter(|what| is_end(what)).all(|what| *what == code)
    );
}

async fn commands_can_be_repeated(bench: &mut ConformanceRun<'_>, job: u64) {
    let id = id(job, 1);
    let order = bench.order(id, &[TaskBehaviour::Forever, TaskBehaviour::Exit(2)]);
    for _ in 0..3 {
        bench.execute(BackendCommand::Prepare(Arc::clone(&order)));
    }
    bench.until_reported(id, 2, &Observation::Prepared).await;
    bench.execute(BackendCommand::Prepare(order));
    for _ in 0..3 {
        bench.execute(BackendCommand::Go(id));
    }
    bench.until_reported(id, 2, &Observation::Started).await;
    for _ in 0..3 {
        bench.stop(id);
    }
    bench.until_over(id, 2).await;
    for rank in 0..2 {
        let mut observations = bench.observations(id, rank).to_vec();
        let order = |what: &Observation| match what {
            Observation::Prepared => 0,
            Observation::Started => 1,
            _ => 2,
        };
        assert!(
            observations.is_sorted_by_key(order),
            "a stage came again after a later one: {observations:?}"
        );
        observations.dedup();
        assert_eq!(observations.len(), 3, "a second end was reported: {observations:?}");
    }
}

async fn stale_generations_are_refused(bench: &mut ConformanceRun<'_>, job: u64) {
    let old = id(job, 1);
    let new = id(job, 2);
    bench.start(new, &[TaskBehaviour::Forever]).await;
    bench.execute(BackendCommand::Prepare(bench.order(old, &[TaskBehaviour::Exit(0)])));
    bench.execute(BackendCommand::Go(old));
    bench.stop(old);
    bench.sentinel().await;
    assert!(bench.observations(old, 0).is_empty(), "a stale attempt was answered");
    assert!(bench.end(new, 0).is_none(), "a stale stop ended the newer attempt");
    bench.stop(new);
    bench.until_over(new, 1).await;
}

async fn tasks_are_found_after_a_restart(bench: &mut ConformanceRun<'_>, job: u64) {
    let prepared = id(job, 1);
    let running = id(job + 1, 1);
    let ending = id(job + 2, 1);
    let unknown = id(job + 3, 1);
    let stray = id(job + 4, 1);
    bench.prepare(prepared, &[TaskBehaviour::Exit(6)]).await;
    bench.start(running, &[TaskBehaviour::Forever]).await;
    bench.start(ending, &[TaskBehaviour::Exit(5)]).await;
    bench.until_over(ending, 1).await;
    bench.start(stray, &[TaskBehaviour::Forever]).await;

    bench.restart();
    bench.adopt(&[(prepared, 0), (running, 0), (ending, 0), (unknown, 0)]);
    bench.until_reported(prepared, 1, &Observation::Prepared).await;
    bench.until_reported(running, 1, &Observation::Started).await;
    bench.until_reported(ending, 1, &Observation::Exited(TaskExit::Code { code: 5 })).await;
    bench.until_over(unknown, 1).await;
    assert!(matches!(bench.end(unknown, 0), Some(Observation::Lost { .. })));

    // Adopted tasks obey commands again.
    bench.execute(BackendCommand::Go(prepared));
    bench.until_reported(prepared, 1, &Observation::Exited(TaskExit::Code { code: 6 })).await;
    bench.stop(running);
    bench.until_reported(running, 1, &Observation::Exited(TaskExit::Stopped)).await;
    assert!(bench.observations(stray, 0).is_empty(), "an unexpected task was reported");
}

async fn a_repeated_checkpoint_counts_once(bench: &mut ConformanceRun<'_>, job: u64) {
    let id = id(job, 1);
    bench.start(id, &[TaskBehaviour::Save, TaskBehaviour::Forever]).await;
    bench.until("a checkpoint", |bench| bench.checkpoint(id, 0).is_some()).await;
    let first = bench.checkpoint(id, 0).expect("just seen").clone();
    assert_eq!((first.count, &*first.label, first.warned), (1, "step-1", false));

    // After adoption the same checkpoint is reported, before the end of the task.
    bench.restart();
    bench.adopt(&[(id, 0), (id, 1)]);
    bench.until_reported(id, 2, &Observation::Started).await;
    bench.until("the checkpoint again", |bench| bench.checkpoint(id, 0).is_some()).await;
    assert_eq!(bench.checkpoint(id, 0), Some(&first));
    // Each request gives one new checkpoint.
    for _ in 0..3 {
        bench.execute(BackendCommand::Checkpoint(id, 1));
    }
    bench
        .until("an answer", |bench| bench.checkpoint(id, 0).is_some_and(|last| last.answers == 1))
        .await;
    let answer = bench.checkpoint(id, 0).expect("just seen").clone();
    assert_eq!((answer.count, &*answer.label), (2, "step-1"));
    bench.stop(id);
    bench.until_over(id, 2).await;
    bench.restart();
    bench.adopt(&[(id, 0), (id, 1)]);
    bench.until_over(id, 2).await;
    let mut observations = bench.observations(id, 0).to_vec();
    // Backends that signal processes report the delivery, too.
    observations.retain(|what| !matches!(what, Observation::Signalled(_)));
    observations.dedup();
    let stopped = Observation::Exited(TaskExit::Stopped);
    observations.truncate(2);
    assert_eq!(
        observations,
        [Observation::Checkpointed(answer), stopped],
        "of a task that is over"
    );
    assert!(bench.checkpoint(id, 1).is_none(), "a task was given another task's checkpoint");
}

async fn forgetting_keeps_the_log_and_the_lock(bench: &mut ConformanceRun<'_>, job: u64) {
    let id = id(job, 1);
    bench.start(id, &[TaskBehaviour::Exit(0)]).await;
    bench.until_over(id, 1).await;
    bench.execute(BackendCommand::Forget(id));
    bench.execute(BackendCommand::Forget(id));
    bench.sentinel().await;
    assert!(bench.backend.log_path(id, Rank(0)).exists(), "the log went with the rest");
    bench.restart();
    bench.execute(BackendCommand::Prepare(bench.order(id, &[TaskBehaviour::Exit(0)])));
    bench.execute(BackendCommand::Go(id));
    bench.sentinel().await;
    assert!(
        !bench.observations(id, 0).contains(&Observation::Started),
        "the same attempt ran twice"
    );
    bench.backend.discard(id, 1);
    assert!(!bench.backend.log_path(id, Rank(0)).exists(), "the log outlives its attempt's end");
}

/// Backend without nodes, used while a backend is being replaced.
struct NullBackend;

impl Backend for NullBackend {
    fn capabilities(&self) -> crate::driver::Capabilities {
        crate::driver::Capabilities::default()
    }

    fn nodes(&self) -> Vec<muster_model::NodeSpec> {
        Vec::new()
    }

    fn execute(&self, _: BackendCommand) {}

    fn past(&self, _: &[ExpectedTask]) -> Vec<crate::driver::PastReport> {
        Vec::new()
    }

    fn adopt(&self, _: Vec<ExpectedTask>) {}

    fn log_path(&self, _: AttemptId, _: Rank) -> PathBuf {
        PathBuf::new()
    }

    fn discard(&self, _: AttemptId, _: u32) {}

    fn task_socket(&self, _: AttemptId, _: Rank) -> Option<PathBuf> {
        None
    }
}
