//! A backend without processes, for tests: tasks follow a script in virtual steps of one second.
//!
//! [`FakeWorld`] represents the machines and outlives [`FakeBackend`], the daemon's part, so that
//! restarts can be tested. It fulfils the contract of [`crate::driver`] (see [`crate::conform`]);
//! its options only choose among behaviours of a real machine.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::order::{GangOrder, TaskOrder};
use muster_model::view::GpuLoad;
use muster_model::{
    Attempt, AttemptId, ElementId, Foreign, NodeName, NodeSpec, Observation, Rank, TaskCheckpoint,
    TaskExit, TaskReport, Time,
};

use crate::driver::{
    Backend, BackendCommand, Capabilities, ExpectedTask, PastReport, Report, Reports,
};

/// Scripted behaviour of one task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Script {
    /// Reason for which it refuses to be prepared; `None` does not refuse.
    pub refuse: Option<String>,
    /// Steps until it is prepared or refuses.
    pub prepare_steps: u64,
    /// Steps from Go until it has started.
    pub start_steps: u64,
    /// Steps from its start to its end; `None` runs until it is stopped.
    pub run_steps: Option<u64>,
    /// End of the task when it is not stopped.
    pub end: ScriptedEnd,
    /// Steps from Stop to its end.
    pub stop_steps: u64,
    /// Label of the checkpoints that it acknowledges, one at its start and one per request; `None`
    /// acknowledges none.
    pub saves: Option<String>,
}

/// End of a scripted task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ScriptedEnd {
    /// Its process ends with this exit.
    Exit(TaskExit),
    /// Its supervisor is killed, with this reason of the loss.
    Lost(String),
}

impl Default for Script {
    /// Returns the script of a task that is prepared, started and successful, each at the next
    /// step.
    fn default() -> Self {
        Self {
            refuse: None,
            prepare_steps: 1,
            start_steps: 1,
            run_steps: Some(1),
            end: ScriptedEnd::Exit(TaskExit::Code { code: 0 }),
            stop_steps: 1,
            saves: None,
        }
    }
}

impl Script {
    /// Parses the task's command as a script: `exit N`, `signal N`, `oom`, `lose`, `refuse`, `run`
    /// (for ever), `sleep N`, `save LABEL` (and run for ever), `true`, `false`; any other command
    /// succeeds at once.
    #[must_use]
    pub fn by_command(_: &GangOrder, task: &TaskOrder) -> Self {
        let parts = task.command.parts();
        let words: Vec<&str> = match parts.as_slice() {
            [text] => text.split_whitespace().collect(),
            words => words.to_vec(),
        };
        let number = |text: &str| text.parse::<i32>().unwrap_or(0);
        let exit = |exit| Self { end: ScriptedEnd::Exit(exit), ..Self::default() };
        match words.as_slice() {
            ["exit", code] => exit(TaskExit::Code { code: number(code) }),
            ["signal", signal] => exit(TaskExit::Signal { signal: number(signal) }),
            ["oom"] => exit(TaskExit::OutOfMemory),
            ["lose"] => Self {
                end: ScriptedEnd::Lost("its supervisor was killed".to_owned()),
                ..Self::default()
            },
            ["refuse"] => Self { refuse: Some("scripted to refuse".to_owned()), ..Self::default() },
            ["run"] => Self { run_steps: None, ..Self::default() },
            ["sleep", steps] => {
                Self { run_steps: Some(number(steps).unsigned_abs().into()), ..Self::default() }
            }
            ["save", label] => {
                Self { run_steps: None, saves: Some((*label).to_owned()), ..Self::default() }
            }
            ["false"] => exit(TaskExit::Code { code: 1 }),
            _ => Self::default(),
        }
    }
}

type Scripts = Arc<dyn Fn(&GangOrder, &TaskOrder) -> Script + Send + Sync>;

/// The machines of a fake cluster. Clones share their state.
#[derive(Clone)]
pub struct FakeWorld {
    inner: Arc<Mutex<FakeState>>,
    scripts: Scripts,
}

impl fmt::Debug for FakeWorld {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FakeWorld").field("inner", &self.inner).finish_non_exhaustive()
    }
}

#[derive(Debug, Default)]
struct FakeState {
    nodes: Vec<NodeSpec>,
    log_dir: PathBuf,
    step: u64,
    tasks: BTreeMap<(AttemptId, Rank), FakeTask>,
    newest: BTreeMap<ElementId, Attempt>,
    commands: Vec<BackendCommand>,
    reports: Option<Reports>,
    is_eager: bool,
    repeats: bool,
    now: Option<Time>,
    loads: BTreeMap<(NodeName, u16), GpuLoad>,
}

#[derive(Debug)]
struct FakeTask {
    script: Script,
    starts_at_once: bool,
    stage: FakeStage,
    /// Step at which its next stage is due; `None` when it waits for a command.
    due: Option<u64>,
    limit_steps: Option<u64>,
    started_at: u64,
    saved: Option<TaskCheckpoint>,
    /// Number of the newest checkpoint request.
    newest_request: u32,
    is_forgotten: bool,
    ended: Option<Time>,
}

impl FakeTask {
    /// Lets the prepared task run, from this step on.
    fn release(&mut self, step: u64) {
        self.stage = FakeStage::Released;
        self.due = Some(step + self.script.start_steps);
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum FakeStage {
    Ordered,
    Prepared,
    Released,
    Running,
    Stopping,
    Over(Observation),
}

impl FakeWorld {
    /// Creates machines whose tasks follow [`Script::by_command`]. Logs go to `log_dir`, one line
    /// per started task.
    #[must_use]
    pub fn new(nodes: Vec<NodeSpec>, log_dir: PathBuf) -> Self {
        let world = FakeState { nodes, log_dir, ..FakeState::default() };
        Self { inner: Arc::new(Mutex::new(world)), scripts: Arc::new(Script::by_command) }
    }

    /// Uses `scripts` instead of [`Script::by_command`].
    #[must_use]
    pub fn scripted(
        mut self,
        scripts: impl Fn(&GangOrder, &TaskOrder) -> Script + Send + Sync + 'static,
    ) -> Self {
        self.scripts = Arc::new(scripts);
        self
    }

    /// Advances automatically after each command, until nothing is due.
    #[must_use]
    pub fn eager(self) -> Self {
        self.world().is_eager = true;
        self
    }

    /// Sends every report twice.
    #[must_use]
    pub fn repeating(self) -> Self {
        self.world().repeats = true;
        self
    }

    /// Sets the time that is recorded for later ends of tasks, on the daemon's time line.
    pub fn set_now(&self, now: Time) {
        self.world().now = Some(now);
    }

    /// Advances by one step: all due changes happen, in order of attempt and rank.
    pub fn step(&self) {
        self.world().advance(1);
    }

    /// Advances until nothing is due; a task that runs for ever is never due.
    pub fn run_until_idle(&self) {
        self.world().settle();
    }

    /// Returns all commands so far, oldest first, across restarts.
    #[must_use]
    pub fn commands(&self) -> Vec<BackendCommand> {
        self.world().commands.clone()
    }

    /// Returns the tasks that are not over.
    #[must_use]
    pub fn live(&self) -> Vec<(AttemptId, Rank)> {
        let world = self.world();
        let live = world.tasks.iter().filter(|(_, task)| !matches!(task.stage, FakeStage::Over(_)));
        live.map(|(key, _)| *key).collect()
    }

    /// Kills a task's supervisor.
    pub fn lose(&self, id: AttemptId, rank: Rank) {
        self.world().over(
            id,
            rank,
            Observation::Lost { reason: "its supervisor was killed".into() },
        );
    }

    /// Reports devices in use by processes outside Muster.
    pub fn foreign(&self, node: NodeName, foreign: Foreign) {
        self.world().send(Report::Foreign { node, foreign });
    }

    /// Sets how busy a device is, in percent; `None` takes its load away.
    pub fn set_busy(&self, node: NodeName, index: u16, percent: Option<u8>) {
        let load = |percent| GpuLoad { busy_percent: Some(percent), ..GpuLoad::default() };
        let mut world = self.world();
        match percent {
            Some(percent) => world.loads.insert((node, index), load(percent)),
            None => world.loads.remove(&(node, index)),
        };
    }

    fn world(&self) -> MutexGuard<'_, FakeState> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl FakeState {
    fn settle(&mut self) {
        while let Some(due) = self.tasks.values().filter_map(|task| task.due).min() {
            self.advance(due.saturating_sub(self.step).max(1));
        }
    }

    fn advance(&mut self, steps: u64) {
        self.step += steps;
        let due = |task: &FakeTask| task.due.is_some_and(|due| due <= self.step);
        let keys: Vec<_> =
            self.tasks.iter().filter(|(_, task)| due(task)).map(|(key, _)| *key).collect();
        for (id, rank) in keys {
            self.advance_task(id, rank);
        }
    }

    /// Moves a task to its next stage.
    fn advance_task(&mut self, id: AttemptId, rank: Rank) {
        let step = self.step;
        let Some(task) = self.tasks.get_mut(&(id, rank)) else { return };
        task.due = None;
        match task.stage {
            FakeStage::Ordered => match task.script.refuse.clone() {
                Some(reason) => self.over(id, rank, Observation::Refused { reason: reason.into() }),
                None if task.starts_at_once => task.release(step),
                None => {
                    task.stage = FakeStage::Prepared;
                    self.report(id, rank, Observation::Prepared);
                }
            },
            FakeStage::Released => {
                task.stage = FakeStage::Running;
                task.started_at = step;
                let runs = [task.script.run_steps, task.limit_steps].into_iter().flatten().min();
                task.due = runs.map(|steps| step + steps);
                let path = log_file(&self.log_dir, id, rank);
                let _ = path.parent().map(std::fs::create_dir_all);
                let _ = std::fs::write(path, format!("rank {rank} of {id}\n"));
                let label = task.script.saves.clone();
                self.report(id, rank, Observation::Started);
                if let Some(label) = label {
                    self.save(id, rank, label.into());
                }
            }
            FakeStage::Running => {
                let ran = step - task.started_at;
                let what = match task.limit_steps {
                    Some(limit)
                        if ran >= limit && task.script.run_steps.is_none_or(|run| run > limit) =>
                    {
                        Observation::Exited(TaskExit::TimedOut)
                    }
                    _ => match task.script.end.clone() {
                        ScriptedEnd::Exit(exit) => Observation::Exited(exit),
                        ScriptedEnd::Lost(reason) => Observation::Lost { reason: reason.into() },
                    },
                };
                self.over(id, rank, what);
            }
            FakeStage::Stopping => self.over(id, rank, Observation::Exited(TaskExit::Stopped)),
            FakeStage::Prepared | FakeStage::Over(_) => {}
        }
    }

    fn over(&mut self, id: AttemptId, rank: Rank, what: Observation) {
        if let Some(task) = self.tasks.get_mut(&(id, rank))
            && !matches!(task.stage, FakeStage::Over(_))
        {
            task.stage = FakeStage::Over(what.clone());
            task.due = None;
            task.ended = self.now;
            self.report(id, rank, what);
        }
    }

    /// Acknowledges a checkpoint of the task.
    fn save(&mut self, id: AttemptId, rank: Rank, label: Arc<str>) {
        let at = Time(self.step * 1000);
        let Some(task) = self.tasks.get_mut(&(id, rank)) else { return };
        let count = task.saved.as_ref().map_or(0, |saved| saved.count) + 1;
        let saved =
            TaskCheckpoint { count, answers: task.newest_request, warned: false, at, label };
        task.saved = Some(saved.clone());
        self.report(id, rank, Observation::Checkpointed(saved));
    }

    fn report(&self, id: AttemptId, rank: Rank, what: Observation) {
        self.send(Report::Task(TaskReport { id, rank, observation: what }));
    }

    fn send(&self, report: Report) {
        for _ in 0..=usize::from(self.repeats) {
            if let Some(reports) = &self.reports {
                // A daemon that is down adopts its tasks after its restart.
                let _ = reports.send(report.clone());
            }
        }
    }

    /// Reports the present stage of a task again.
    fn repeat(&self, id: AttemptId, rank: Rank) {
        if let Some(saved) = self.tasks.get(&(id, rank)).and_then(|task| task.saved.clone()) {
            self.report(id, rank, Observation::Checkpointed(saved));
        }
        match self.tasks.get(&(id, rank)).map(|task| &task.stage) {
            Some(FakeStage::Prepared | FakeStage::Released) => {
                self.report(id, rank, Observation::Prepared)
            }
            Some(FakeStage::Running | FakeStage::Stopping) => {
                self.report(id, rank, Observation::Started)
            }
            Some(FakeStage::Over(what)) => self.report(id, rank, what.clone()),
            Some(FakeStage::Ordered) | None => {}
        }
    }

    fn ranks(&self, id: AttemptId) -> Vec<Rank> {
        let range = (id, Rank(0))..=(id, Rank(u32::MAX));
        self.tasks.range(range).map(|((_, rank), _)| *rank).collect()
    }

    fn is_stale(&self, id: AttemptId) -> bool {
        self.newest.get(&id.element).is_some_and(|newest| *newest > id.attempt)
    }

    fn prepare(&mut self, order: &GangOrder, scripts: &Scripts) {
        if self.is_stale(order.id) {
            return;
        }
        self.newest.insert(order.id.element, order.id.attempt);
        for task in &order.tasks {
            let key = (order.id, task.rank);
            if self.tasks.contains_key(&key) {
                self.repeat(order.id, task.rank);
                continue;
            }
            let script = scripts(order, task);
            let due = Some(self.step + script.prepare_steps);
            let limit_steps = order.time_limit.map(|limit| limit.as_secs().max(1));
            let task = FakeTask {
                script,
                starts_at_once: order.starts_at_once,
                stage: FakeStage::Ordered,
                due,
                limit_steps,
                started_at: 0,
                saved: None,
                newest_request: 0,
                is_forgotten: false,
                ended: None,
            };
            self.tasks.insert(key, task);
        }
    }

    fn go(&mut self, id: AttemptId) {
        for rank in self.ranks(id) {
            let step = self.step;
            match self.tasks.get_mut(&(id, rank)) {
                Some(task) if task.stage == FakeStage::Prepared => task.release(step),
                _ => self.repeat(id, rank),
            }
        }
    }

    /// Requests a checkpoint of every task; those with a label acknowledge at once.
    fn request_checkpoint(&mut self, id: AttemptId, request: u32) {
        for rank in self.ranks(id) {
            let Some(task) = self.tasks.get_mut(&(id, rank)) else { continue };
            if task.stage == FakeStage::Running && task.newest_request < request {
                task.newest_request = request;
                if let Some(label) = task.script.saves.clone() {
                    self.save(id, rank, label.into());
                }
            }
        }
    }

    fn stop(&mut self, id: AttemptId) {
        for rank in self.ranks(id) {
            let step = self.step;
            match self.tasks.get_mut(&(id, rank)) {
                Some(task) if matches!(task.stage, FakeStage::Running | FakeStage::Released) => {
                    task.stage = FakeStage::Stopping;
                    task.due = Some(step + task.script.stop_steps);
                }
                Some(task) if matches!(task.stage, FakeStage::Ordered | FakeStage::Prepared) => {
                    self.over(id, rank, Observation::Exited(TaskExit::Stopped));
                }
                _ => self.repeat(id, rank),
            }
        }
    }
}

fn log_file(dir: &std::path::Path, id: AttemptId, rank: Rank) -> PathBuf {
    dir.join(crate::live::task_name(None, id, rank)).join("output.log")
}

/// The daemon's part of a fake cluster.
#[derive(Debug)]
pub struct FakeBackend {
    world: FakeWorld,
}

impl FakeBackend {
    /// Connects to the machines; an earlier connection gets no further reports.
    #[must_use]
    pub fn new(world: FakeWorld, reports: Reports) -> Self {
        world.world().reports = Some(reports);
        Self { world }
    }
}

impl Backend for FakeBackend {
    fn capabilities(&self) -> Capabilities {
        Capabilities { name: "fake", kill_by: "decree".to_owned(), ..Capabilities::default() }
    }

    fn nodes(&self) -> Vec<NodeSpec> {
        self.world.world().nodes.clone()
    }

    fn gpu_loads(&self, node: &NodeSpec) -> Vec<Option<GpuLoad>> {
        let world = self.world.world();
        let load = |(index, _)| world.loads.get(&(node.name.clone(), index)).copied();
        (0..).zip(&node.devices).map(load).collect()
    }

    fn execute(&self, command: BackendCommand) {
        let mut world = self.world.world();
        world.commands.push(command.clone());
        match command {
            BackendCommand::Prepare(order) => world.prepare(&order, &self.world.scripts),
            BackendCommand::Go(id) if !world.is_stale(id) => world.go(id),
            BackendCommand::Checkpoint(id, request) if !world.is_stale(id) => {
                world.request_checkpoint(id, request)
            }
            BackendCommand::Stop(id, _) if !world.is_stale(id) => world.stop(id),
            BackendCommand::Go(_) | BackendCommand::Checkpoint(..) | BackendCommand::Stop(..) => {}
            BackendCommand::Forget(id) => {
                for rank in world.ranks(id) {
                    if let Some(task) = world.tasks.get_mut(&(id, rank)) {
                        task.is_forgotten = matches!(task.stage, FakeStage::Over(_));
                    }
                }
            }
        }
        if world.is_eager {
            world.settle();
        }
    }

    fn past(&self, expected: &[ExpectedTask]) -> Vec<PastReport> {
        let world = self.world.world();
        let of_task = |task: &ExpectedTask| {
            let found = world.tasks.get(&(task.id, task.rank))?;
            let FakeStage::Over(what) = found.stage.clone() else { return None };
            let report = TaskReport { id: task.id, rank: task.rank, observation: what };
            found.ended.map(|at| PastReport { at, report })
        };
        expected.iter().filter_map(of_task).collect()
    }

    fn adopt(&self, expected: Vec<ExpectedTask>) {
        let mut world = self.world.world();
        for ExpectedTask { id, rank, .. } in &expected {
            if world.tasks.contains_key(&(*id, *rank)) {
                world.repeat(*id, *rank);
            } else {
                let reason = "there is no record of it".into();
                world.report(*id, *rank, Observation::Lost { reason });
            }
        }
        let is_wanted = |id, rank| expected.iter().any(|task| (task.id, task.rank) == (id, rank));
        let strays: Vec<_> =
            world.tasks.keys().filter(|(id, rank)| !is_wanted(*id, *rank)).copied().collect();
        let reports = world.reports.take();
        for (id, rank) in strays {
            world.over(id, rank, Observation::Exited(TaskExit::Stopped));
        }
        world.reports = reports;
        if world.is_eager {
            world.settle();
        }
    }

    fn log_path(&self, id: AttemptId, rank: Rank) -> PathBuf {
        log_file(&self.world.world().log_dir, id, rank)
    }

    fn discard(&self, id: AttemptId, tasks: u32) {
        let dir = self.world.world().log_dir.clone();
        for rank in 0..tasks {
            let path = log_file(&dir, id, Rank(rank));
            // A task that never ran has no log.
            let _absent = std::fs::remove_file(&path);
            let _absent = path.parent().map(std::fs::remove_dir);
        }
    }

    fn task_socket(&self, _: AttemptId, _: Rank) -> Option<PathBuf> {
        None
    }
}
