//! What every backend must do, as one suite that runs against any of them.
//!
//! A [`Subject`] says how to make the backend, bring it back after a restart, and let time pass.
//! The suite panics at the first thing that is not as [`crate::driver`] promises, as a test does;
//! it is here and not under `tests` so that every backend, in whatever crate, can be put through
//! it.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use muster_model::job::{AfterCheckpoint, CheckpointBy};
use muster_model::launch::{GangOrder, TaskOrder};
use muster_model::payload::{Command as Program, Identity};
use muster_model::{
    Attempt, AttemptId, Bytes, Checkpoint, CpuMilli, DeviceSet, ElementId, GpuMilli, JobId,
    NodeName, Observation, Rank, Span, StopCause, TaskCheckpoint, TaskExit,
};
use tokio::sync::mpsc::UnboundedReceiver;

use crate::driver::{Backend, Command, Expected, Report};

/// Longest wait for a report that must come.
const PATIENCE: Duration = Duration::from_secs(60);
/// Between two looks while waiting.
const PAUSE: Duration = Duration::from_millis(2);

/// The signal by which tasks of the suite are asked to save their progress.
const USR1: i32 = 10;

/// What a task of the suite does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Does {
    /// Ends at once with this code.
    Exit(i32),
    /// Ends at once by this signal.
    Signal(i32),
    /// Runs until it is stopped.
    Forever,
    /// Says that its progress is saved, as `step-1`, once by itself and whenever it is asked; runs
    /// until it is stopped.
    Save,
    /// Cannot be prepared.
    Refuse,
}

/// A backend to be tried.
pub trait Subject {
    /// The backend over the same machines as before; the first call starts with nothing. A backend
    /// returned earlier was dropped.
    fn boot(&mut self) -> (Arc<dyn Backend>, UnboundedReceiver<Report>);

    /// A program that does this.
    fn program(&self, does: Does) -> Program;

    /// As whom the tasks run.
    fn identity(&self) -> Identity;

    /// Lets time pass, where it does not by itself.
    fn tick(&mut self);
}

/// Runs every case, each on a job of its own. Needs a tokio runtime with time.
pub async fn suite(subject: &mut dyn Subject) {
    let mut bench = Bench::new(subject);
    stages_come_in_order(&mut bench, 1).await;
    nothing_runs_before_go(&mut bench, 2).await;
    one_refusal_leaves_the_rest_to_be_dropped(&mut bench, 3).await;
    ends_are_told_apart(&mut bench, 10).await;
    a_stop_works_at_every_stage(&mut bench, 20).await;
    commands_can_be_repeated(&mut bench, 30).await;
    stale_generations_are_refused(&mut bench, 40).await;
    tasks_are_found_after_a_restart(&mut bench, 50).await;
    forgetting_keeps_the_log_and_the_lock(&mut bench, 60).await;
    a_checkpoint_is_one_however_often_it_is_told(&mut bench, 70).await;
}

/// A backend and everything it has said.
struct Bench<'a> {
    subject: &'a mut dyn Subject,
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

impl<'a> Bench<'a> {
    fn new(subject: &'a mut dyn Subject) -> Self {
        let (backend, reports) = subject.boot();
        Self { subject, backend, reports, seen: BTreeMap::new(), sentinels: 0 }
    }

    /// The daemon dies and comes back; what was said before is forgotten.
    fn restart(&mut self) {
        self.seen.clear();
        let nobody: Arc<dyn Backend> = Arc::new(Nobody);
        drop(std::mem::replace(&mut self.backend, nobody));
        (self.backend, self.reports) = self.subject.boot();
    }

    fn order(&self, id: AttemptId, tasks: &[Does]) -> Arc<GangOrder> {
        let node = self.backend.nodes().first().expect("a backend offers a node").name.clone();
        let task = |(rank, does): (usize, &Does)| TaskOrder {
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
            tasks: tasks.iter().enumerate().map(task).collect(),
        })
    }

    fn execute(&self, command: Command) {
        self.backend.execute(command);
    }

    fn stop(&self, id: AttemptId) {
        self.execute(Command::Stop(id, StopCause::Cancelled));
    }

    fn adopt(&self, tasks: &[(AttemptId, u32)]) {
        let node = NodeName::from("any");
        let expected = tasks.iter().map(|(id, rank)| Expected {
            id: *id,
            rank: Rank(*rank),
            node: node.clone(),
        });
        self.backend.adopt(expected.collect());
    }

    fn said(&self, id: AttemptId, rank: u32) -> &[Observation] {
        self.seen.get(&(id, Rank(rank))).map_or(&[], Vec::as_slice)
    }

    fn end(&self, id: AttemptId, rank: u32) -> Option<&Observation> {
        self.said(id, rank).iter().find(|what| is_end(what))
    }

    fn checkpoint(&self, id: AttemptId, rank: u32) -> Option<&TaskCheckpoint> {
        self.said(id, rank).iter().rev().find_map(|what| match what {
            Observation::Checkpointed(noted) => Some(noted),
            _ => None,
        })
    }

    /// Takes reports until `holds`.
    async fn until(&mut self, what: &str, holds: impl Fn(&Self) -> bool) {
        let start = Instant::now();
        loop {
            while let Ok(report) = self.reports.try_recv() {
                if let Report::Task(task) = report {
                    self.seen.entry((task.id, task.rank)).or_default().push(task.what);
                }
            }
            if holds(self) {
                return;
            }
            assert!(start.elapsed() < PATIENCE, "{what}: did not happen; seen: {:#?}", self.seen);
            self.subject.tick();
            tokio::time::sleep(PAUSE).await;
        }
    }

    async fn until_said(&mut self, id: AttemptId, ranks: u32, what: &Observation) {
        self.until(&format!("{what:?} of every task of {id}"), |bench| {
            (0..ranks).all(|rank| bench.said(id, rank).contains(what))
        })
        .await;
    }

    async fn until_over(&mut self, id: AttemptId, ranks: u32) {
        self.until(&format!("the end of every task of {id}"), |bench| {
            (0..ranks).all(|rank| bench.end(id, rank).is_some())
        })
        .await;
    }

    async fn prepare(&mut self, id: AttemptId, tasks: &[Does]) {
        self.execute(Command::Prepare(self.order(id, tasks)));
        self.until_said(id, tasks.len() as u32, &Observation::Prepared).await;
    }

    async fn start(&mut self, id: AttemptId, tasks: &[Does]) {
        self.prepare(id, tasks).await;
        self.execute(Command::Go(id));
        self.until_said(id, tasks.len() as u32, &Observation::Started).await;
    }

    /// Another gang goes through its whole life: whatever an earlier command would have caused had
    /// its chance.
    async fn sentinel(&mut self) {
        self.sentinels += 1;
        let id = id(1_000 + self.sentinels, 1);
        self.start(id, &[Does::Exit(0)]).await;
        self.until_over(id, 1).await;
    }
}

async fn stages_come_in_order(bench: &mut Bench<'_>, job: u64) {
    let id = id(job, 1);
    bench.start(id, &[Does::Exit(0), Does::Exit(0), Does::Exit(0)]).await;
    bench.until_over(id, 3).await;
    for rank in 0..3 {
        let mut said = bench.said(id, rank).to_vec();
        said.dedup();
        let success = Observation::Exited(TaskExit::Code { code: 0 });
        assert_eq!(said, [Observation::Prepared, Observation::Started, success]);
    }
}

async fn nothing_runs_before_go(bench: &mut Bench<'_>, job: u64) {
    let id = id(job, 1);
    bench.prepare(id, &[Does::Exit(0), Does::Exit(0)]).await;
    bench.sentinel().await;
    for rank in 0..2 {
        assert!(bench.said(id, rank).iter().all(|what| *what == Observation::Prepared));
        assert!(!bench.backend.log_path(id, Rank(rank)).exists() || log_is_empty(bench, id, rank));
    }
    bench.stop(id);
    bench.until_over(id, 2).await;
}

fn log_is_empty(bench: &Bench<'_>, id: AttemptId, rank: u32) -> bool {
    std::fs::read(bench.backend.log_path(id, Rank(rank))).is_ok_and(|text| text.is_empty())
}

async fn one_refusal_leaves_the_rest_to_be_dropped(bench: &mut Bench<'_>, job: u64) {
    let id = id(job, 1);
    bench.execute(Command::Prepare(bench.order(id, &[Does::Exit(0), Does::Refuse, Does::Exit(0)])));
    bench
        .until("a refusal and two prepared tasks", |bench| {
            bench.end(id, 1).is_some()
                && [0, 2].iter().all(|rank| bench.said(id, *rank).contains(&Observation::Prepared))
        })
        .await;
    let end = bench.end(id, 1);
    assert!(
        matches!(end, Some(Observation::Refused { .. } | Observation::Impossible { .. })),
        "{end:?}"
    );
    bench.execute(Command::Stop(id, StopCause::GangFailed));
    bench.until_over(id, 3).await;
    for rank in [0, 2] {
        assert_eq!(bench.end(id, rank), Some(&Observation::Exited(TaskExit::Stopped)));
    }
    assert!((0..3).all(|rank| !bench.said(id, rank).contains(&Observation::Started)));
}

async fn ends_are_told_apart(bench: &mut Bench<'_>, job: u64) {
    let rows = [
        (Does::Exit(0), TaskExit::Code { code: 0 }),
        (Does::Exit(3), TaskExit::Code { code: 3 }),
        (Does::Signal(9), TaskExit::Signal { signal: 9 }),
        (Does::Signal(11), TaskExit::Signal { signal: 11 }),
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
        ..(*bench.order(limited, &[Does::Forever])).clone()
    };
    bench.execute(Command::Prepare(Arc::new(order)));
    bench.until_said(limited, 1, &Observation::Prepared).await;
    bench.execute(Command::Go(limited));
    bench.until_over(limited, 1).await;
    assert_eq!(bench.end(limited, 0), Some(&Observation::Exited(TaskExit::TimedOut)));
}

async fn a_stop_works_at_every_stage(bench: &mut Bench<'_>, job: u64) {
    let stopped = Observation::Exited(TaskExit::Stopped);
    // Right behind Prepare, without waiting for an answer.
    let early = id(job, 1);
    bench.execute(Command::Prepare(bench.order(early, &[Does::Forever, Does::Forever])));
    bench.stop(early);
    bench.until_said(early, 2, &stopped).await;
    // Prepared.
    let prepared = id(job + 1, 1);
    bench.prepare(prepared, &[Does::Forever]).await;
    bench.stop(prepared);
    bench.until_said(prepared, 1, &stopped).await;
    assert!(!bench.said(prepared, 0).contains(&Observation::Started));
    // Right behind Go.
    let going = id(job + 2, 1);
    bench.prepare(going, &[Does::Forever, Does::Forever]).await;
    bench.execute(Command::Go(going));
    bench.stop(going);
    bench.until_said(going, 2, &stopped).await;
    // Running.
    let running = id(job + 3, 1);
    bench.start(running, &[Does::Forever, Does::Forever]).await;
    bench.stop(running);
    bench.until_said(running, 2, &stopped).await;
    // Over: its true end stands.
    let over = id(job + 4, 1);
    bench.start(over, &[Does::Exit(4)]).await;
    bench.until_over(over, 1).await;
    bench.stop(over);
    bench.sentinel().await;
    let code = Observation::Exited(TaskExit::Code { code: 4 });
    assert!(bench.said(over, 0).iter().filter(|what| is_end(what)).all(|what| *what == code));
}

async fn commands_can_be_repeated(bench: &mut Bench<'_>, job: u64) {
    let id = id(job, 1);
    let order = bench.order(id, &[Does::Forever, Does::Exit(2)]);
    for _ in 0..3 {
        bench.execute(Command::Prepare(Arc::clone(&order)));
    }
    bench.until_said(id, 2, &Observation::Prepared).await;
    bench.execute(Command::Prepare(order));
    for _ in 0..3 {
        bench.execute(Command::Go(id));
    }
    bench.until_said(id, 2, &Observation::Started).await;
    for _ in 0..3 {
        bench.stop(id);
    }
    bench.until_over(id, 2).await;
    for rank in 0..2 {
        let mut said = bench.said(id, rank).to_vec();
        let order = |what: &Observation| match what {
            Observation::Prepared => 0,
            Observation::Started => 1,
            _ => 2,
        };
        assert!(said.is_sorted_by_key(order), "a stage came again after a later one: {said:?}");
        said.dedup();
        assert_eq!(said.len(), 3, "a second end was reported: {said:?}");
    }
}

async fn stale_generations_are_refused(bench: &mut Bench<'_>, job: u64) {
    let (old, new) = (id(job, 1), id(job, 2));
    bench.start(new, &[Does::Forever]).await;
    bench.execute(Command::Prepare(bench.order(old, &[Does::Exit(0)])));
    bench.execute(Command::Go(old));
    bench.stop(old);
    bench.sentinel().await;
    assert!(bench.said(old, 0).is_empty(), "a stale attempt was answered");
    assert!(bench.end(new, 0).is_none(), "a stale stop ended the newer attempt");
    bench.stop(new);
    bench.until_over(new, 1).await;
}

async fn tasks_are_found_after_a_restart(bench: &mut Bench<'_>, job: u64) {
    let (prepared, running, ending) = (id(job, 1), id(job + 1, 1), id(job + 2, 1));
    let (unknown, stray) = (id(job + 3, 1), id(job + 4, 1));
    bench.prepare(prepared, &[Does::Exit(6)]).await;
    bench.start(running, &[Does::Forever]).await;
    bench.start(ending, &[Does::Exit(5)]).await;
    bench.until_over(ending, 1).await;
    bench.start(stray, &[Does::Forever]).await;

    bench.restart();
    bench.adopt(&[(prepared, 0), (running, 0), (ending, 0), (unknown, 0)]);
    bench.until_said(prepared, 1, &Observation::Prepared).await;
    bench.until_said(running, 1, &Observation::Started).await;
    bench.until_said(ending, 1, &Observation::Exited(TaskExit::Code { code: 5 })).await;
    bench.until_over(unknown, 1).await;
    assert!(matches!(bench.end(unknown, 0), Some(Observation::Lost { .. })));

    // Found, they are under command again.
    bench.execute(Command::Go(prepared));
    bench.until_said(prepared, 1, &Observation::Exited(TaskExit::Code { code: 6 })).await;
    bench.stop(running);
    bench.until_said(running, 1, &Observation::Exited(TaskExit::Stopped)).await;
    assert!(bench.said(stray, 0).is_empty(), "an unexpected task was reported");
}

async fn a_checkpoint_is_one_however_often_it_is_told(bench: &mut Bench<'_>, job: u64) {
    let id = id(job, 1);
    bench.start(id, &[Does::Save, Does::Forever]).await;
    bench.until("a checkpoint", |bench| bench.checkpoint(id, 0).is_some()).await;
    let first = bench.checkpoint(id, 0).expect("just seen").clone();
    assert_eq!((first.count, &*first.label, first.warned), (1, "step-1", false));

    // Found again, it is the same, and it comes before the end that it belongs to.
    bench.restart();
    bench.adopt(&[(id, 0), (id, 1)]);
    bench.until_said(id, 2, &Observation::Started).await;
    bench.until("the checkpoint again", |bench| bench.checkpoint(id, 0).is_some()).await;
    assert_eq!(bench.checkpoint(id, 0), Some(&first));
    // Asked for, it is another, once per request.
    for _ in 0..3 {
        bench.execute(Command::Checkpoint(id, 1));
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
    let mut said = bench.said(id, 0).to_vec();
    // Backends that signal processes say how far the request got, too.
    said.retain(|what| !matches!(what, Observation::Signalled(_)));
    said.dedup();
    let stopped = Observation::Exited(TaskExit::Stopped);
    said.truncate(2);
    assert_eq!(said, [Observation::Checkpointed(answer), stopped], "of a task that is over");
    assert!(bench.checkpoint(id, 1).is_none(), "a task was told what another has said");
}

async fn forgetting_keeps_the_log_and_the_lock(bench: &mut Bench<'_>, job: u64) {
    let id = id(job, 1);
    bench.start(id, &[Does::Exit(0)]).await;
    bench.until_over(id, 1).await;
    bench.execute(Command::Forget(id));
    bench.execute(Command::Forget(id));
    bench.sentinel().await;
    assert!(bench.backend.log_path(id, Rank(0)).exists(), "the log went with the rest");
    bench.restart();
    bench.execute(Command::Prepare(bench.order(id, &[Does::Exit(0)])));
    bench.execute(Command::Go(id));
    bench.sentinel().await;
    assert!(!bench.said(id, 0).contains(&Observation::Started), "the same attempt ran twice");
    bench.backend.discard(id, 1);
    assert!(!bench.backend.log_path(id, Rank(0)).exists(), "the log outlives its attempt's end");
}

/// Stands in while a backend is being replaced.
struct Nobody;

impl Backend for Nobody {
    fn capabilities(&self) -> crate::driver::Capabilities {
        crate::driver::Capabilities::default()
    }

    fn nodes(&self) -> Vec<muster_model::NodeSpec> {
        Vec::new()
    }

    fn execute(&self, _: Command) {}

    fn past(&self, _: &[Expected]) -> Vec<crate::driver::PastReport> {
        Vec::new()
    }

    fn adopt(&self, _: Vec<Expected>) {}

    fn log_path(&self, _: AttemptId, _: Rank) -> PathBuf {
        PathBuf::new()
    }

    fn discard(&self, _: AttemptId, _: u32) {}

    fn task_socket(&self, _: AttemptId, _: Rank) -> Option<PathBuf> {
        None
    }
}
