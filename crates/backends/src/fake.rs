//! A backend without processes: tasks follow a script in virtual steps, one step standing for one
//! second.
//!
//! [`FakeWorld`] is the machine and outlives [`FakeBackend`], the daemon's half, so that restarts
//! can be tried. It keeps the contract of [`crate::driver`] (see [`crate::conform`]); its knobs
//! only choose among what a real machine may do.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use muster_model::launch::{GangOrder, TaskOrder};
use muster_model::payload::Command as Program;
use muster_model::{
    Attempt, AttemptId, ElementId, Foreign, NodeName, NodeSpec, Observation, Rank, TaskCheckpoint,
    TaskExit, TaskReport, Time,
};

use crate::driver::{Backend, Capabilities, Command, Expected, PastReport, Report, Reports};

/// What one task does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Script {
    /// Refuses to be prepared, for this reason.
    pub refuse: Option<String>,
    /// Steps until it is prepared or refuses.
    pub prepare_steps: u64,
    /// Steps from Go until it has started.
    pub start_steps: u64,
    /// Steps from its start to its end; `None` runs until it is stopped.
    pub run_steps: Option<u64>,
    /// How it ends when nobody stops it.
    pub end: End,
    /// Steps from Stop to its end.
    pub stop_steps: u64,
    /// What it calls the checkpoints that it acknowledges: one as soon as it runs, and one whenever
    /// it is asked.
    pub saves: Option<String>,
}

/// How a scripted task ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// Its process ended.
    Exit(TaskExit),
    /// Its supervisor was killed.
    Lost(String),
}

impl Default for Script {
    /// Ready, started and done with success, each at the next step.
    fn default() -> Self {
        Self {
            refuse: None,
            prepare_steps: 1,
            start_steps: 1,
            run_steps: Some(1),
            end: End::Exit(TaskExit::Code { code: 0 }),
            stop_steps: 1,
            saves: None,
        }
    }
}

impl Script {
    /// Reads a script off the task's command: `exit N`, `signal N`, `oom`, `lose`, `refuse`, `run`
    /// (for ever), `sleep N`, `save LABEL` (and run for ever), `true`, `false`; everything else
    /// succeeds at once.
    #[must_use]
    pub fn by_command(_: &GangOrder, task: &TaskOrder) -> Self {
        let words: Vec<&str> = match &task.command {
            Program::Argv(argv) => argv.iter().map(String::as_str).collect(),
            Program::Script(text) => text.split_whitespace().collect(),
        };
        let number = |text: &str| text.parse::<i32>().unwrap_or(0);
        let exit = |exit| Self { end: End::Exit(exit), ..Self::default() };
        match words.as_slice() {
            ["exit", code] => exit(TaskExit::Code { code: number(code) }),
            ["signal", signal] => exit(TaskExit::Signal { signal: number(signal) }),
            ["oom"] => exit(TaskExit::OutOfMemory),
            ["lose"] => {
                Self { end: End::Lost("its supervisor was killed".to_owned()), ..Self::default() }
            }
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

/// The machines of a fake cluster. Clones share it.
#[derive(Clone)]
pub struct FakeWorld {
    inner: Arc<Mutex<World>>,
    scripts: Scripts,
}

impl fmt::Debug for FakeWorld {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FakeWorld").field("inner", &self.inner).finish_non_exhaustive()
    }
}

#[derive(Debug, Default)]
struct World {
    nodes: Vec<NodeSpec>,
    log_dir: PathBuf,
    step: u64,
    tasks: BTreeMap<(AttemptId, Rank), Task>,
    newest: BTreeMap<ElementId, Attempt>,
    commands: Vec<Command>,
    reports: Option<Reports>,
    is_eager: bool,
    repeats: bool,
    now: Option<Time>,
}

#[derive(Debug)]
struct Task {
    script: Script,
    stage: Stage,
    /// Step at which its next stage is due.
    due: Option<u64>,
    limit_steps: Option<u64>,
    started_at: u64,
    saved: Option<TaskCheckpoint>,
    /// The newest request that it has seen.
    asked: u32,
    is_forgotten: bool,
    ended: Option<Time>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Stage {
    Ordered,
    Prepared,
    Released,
    Running,
    Stopping,
    Over(Observation),
}

impl FakeWorld {
    /// Machines that follow [`Script::by_command`]. Logs go to `log_dir`, one line per task that
    /// starts.
    #[must_use]
    pub fn new(nodes: Vec<NodeSpec>, log_dir: PathBuf) -> Self {
        let world = World { nodes, log_dir, ..World::default() };
        Self { inner: Arc::new(Mutex::new(world)), scripts: Arc::new(Script::by_command) }
    }

    /// Scripts tasks by `scripts` instead.
    #[must_use]
    pub fn scripted(
        mut self,
        scripts: impl Fn(&GangOrder, &TaskOrder) -> Script + Send + Sync + 'static,
    ) -> Self {
        self.scripts = Arc::new(scripts);
        self
    }

    /// Steps by itself whenever it is told something, until nothing is due.
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

    /// Records the ends of tasks from now on as of this instant of the daemon's time line.
    pub fn set_now(&self, now: Time) {
        self.world().now = Some(now);
    }

    /// One virtual step: everything due by then happens, in order of attempt and rank.
    pub fn step(&self) {
        self.world().advance(1);
    }

    /// Steps until nothing is due; a task that runs for ever is never due.
    pub fn settle(&self) {
        self.world().settle();
    }

    /// Every command so far, oldest first, over all restarts.
    #[must_use]
    pub fn commands(&self) -> Vec<Command> {
        self.world().commands.clone()
    }

    /// Tasks that hold their place: prepared or running.
    #[must_use]
    pub fn live(&self) -> Vec<(AttemptId, Rank)> {
        let world = self.world();
        let live = world.tasks.iter().filter(|(_, task)| !matches!(task.stage, Stage::Over(_)));
        live.map(|(key, _)| *key).collect()
    }

    /// A task's supervisor is killed, now.
    pub fn lose(&self, id: AttemptId, rank: Rank) {
        self.world().over(
            id,
            rank,
            Observation::Lost { reason: "its supervisor was killed".into() },
        );
    }

    /// Somebody else's processes are seen.
    pub fn foreign(&self, node: NodeName, foreign: Foreign) {
        self.world().send(Report::Foreign { node, foreign });
    }

    fn world(&self) -> MutexGuard<'_, World> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl World {
    fn settle(&mut self) {
        while let Some(due) = self.tasks.values().filter_map(|task| task.due).min() {
            self.advance(due.saturating_sub(self.step).max(1));
        }
    }

    fn advance(&mut self, steps: u64) {
        self.step += steps;
        let due = |task: &Task| task.due.is_some_and(|due| due <= self.step);
        let keys: Vec<_> =
            self.tasks.iter().filter(|(_, task)| due(task)).map(|(key, _)| *key).collect();
        for (id, rank) in keys {
            self.happen(id, rank);
        }
    }

    /// The next stage of a task.
    fn happen(&mut self, id: AttemptId, rank: Rank) {
        let step = self.step;
        let Some(task) = self.tasks.get_mut(&(id, rank)) else { return };
        task.due = None;
        match task.stage {
            Stage::Ordered => match task.script.refuse.clone() {
                Some(reason) => self.over(id, rank, Observation::Refused { reason: reason.into() }),
                None => {
                    task.stage = Stage::Prepared;
                    self.report(id, rank, Observation::Prepared);
                }
            },
            Stage::Released => {
                task.stage = Stage::Running;
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
            Stage::Running => {
                let ran = step - task.started_at;
                let what = match task.limit_steps {
                    Some(limit)
                        if ran >= limit && task.script.run_steps.is_none_or(|run| run > limit) =>
                    {
                        Observation::Exited(TaskExit::TimedOut)
                    }
                    _ => match task.script.end.clone() {
                        End::Exit(exit) => Observation::Exited(exit),
                        End::Lost(reason) => Observation::Lost { reason: reason.into() },
                    },
                };
                self.over(id, rank, what);
            }
            Stage::Stopping => self.over(id, rank, Observation::Exited(TaskExit::Stopped)),
            Stage::Prepared | Stage::Over(_) => {}
        }
    }

    fn over(&mut self, id: AttemptId, rank: Rank, what: Observation) {
        if let Some(task) = self.tasks.get_mut(&(id, rank))
            && !matches!(task.stage, Stage::Over(_))
        {
            task.stage = Stage::Over(what.clone());
            task.due = None;
            task.ended = self.now;
            self.report(id, rank, what);
        }
    }

    /// A process of the task says that its progress is saved.
    fn save(&mut self, id: AttemptId, rank: Rank, label: Arc<str>) {
        let at = Time(self.step * 1000);
        let Some(task) = self.tasks.get_mut(&(id, rank)) else { return };
        let count = task.saved.as_ref().map_or(0, |saved| saved.count) + 1;
        let saved = TaskCheckpoint { count, answers: task.asked, warned: false, at, label };
        task.saved = Some(saved.clone());
        self.report(id, rank, Observation::Checkpointed(saved));
    }

    fn report(&self, id: AttemptId, rank: Rank, what: Observation) {
        self.send(Report::Task(TaskReport { id, rank, what }));
    }

    fn send(&self, report: Report) {
        for _ in 0..=usize::from(self.repeats) {
            if let Some(reports) = &self.reports {
                // A daemon that is down asks again when it is back.
                let _ = reports.send(report.clone());
            }
        }
    }

    /// Says the present stage of a task again.
    fn repeat(&self, id: AttemptId, rank: Rank) {
        if let Some(saved) = self.tasks.get(&(id, rank)).and_then(|task| task.saved.clone()) {
            self.report(id, rank, Observation::Checkpointed(saved));
        }
        match self.tasks.get(&(id, rank)).map(|task| &task.stage) {
            Some(Stage::Prepared | Stage::Released) => self.report(id, rank, Observation::Prepared),
            Some(Stage::Running | Stage::Stopping) => self.report(id, rank, Observation::Started),
            Some(Stage::Over(what)) => self.report(id, rank, what.clone()),
            Some(Stage::Ordered) | None => {}
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
            let task = Task {
                script,
                stage: Stage::Ordered,
                due,
                limit_steps,
                started_at: 0,
                saved: None,
                asked: 0,
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
                Some(task) if task.stage == Stage::Prepared => {
                    task.stage = Stage::Released;
                    task.due = Some(step + task.script.start_steps);
                }
                _ => self.repeat(id, rank),
            }
        }
    }

    /// Whoever saves at all does so when asked.
    fn ask(&mut self, id: AttemptId, request: u32) {
        for rank in self.ranks(id) {
            let Some(task) = self.tasks.get_mut(&(id, rank)) else { continue };
            if task.stage == Stage::Running && task.asked < request {
                task.asked = request;
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
                Some(task) if matches!(task.stage, Stage::Running | Stage::Released) => {
                    task.stage = Stage::Stopping;
                    task.due = Some(step + task.script.stop_steps);
                }
                Some(task) if matches!(task.stage, Stage::Ordered | Stage::Prepared) => {
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

/// The daemon's half of a fake cluster.
#[derive(Debug)]
pub struct FakeBackend {
    world: FakeWorld,
}

impl FakeBackend {
    /// Connects to the machines; an earlier connection hears nothing more.
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

    fn execute(&self, command: Command) {
        let mut world = self.world.world();
        world.commands.push(command.clone());
        match command {
            Command::Prepare(order) => world.prepare(&order, &self.world.scripts),
            Command::Go(id) if !world.is_stale(id) => world.go(id),
            Command::Checkpoint(id, request) if !world.is_stale(id) => world.ask(id, request),
            Command::Stop(id, _) if !world.is_stale(id) => world.stop(id),
            Command::Go(_) | Command::Checkpoint(..) | Command::Stop(..) => {}
            Command::Forget(id) => {
                for rank in world.ranks(id) {
                    if let Some(task) = world.tasks.get_mut(&(id, rank)) {
                        task.is_forgotten = matches!(task.stage, Stage::Over(_));
                    }
                }
            }
        }
        if world.is_eager {
            world.settle();
        }
    }

    fn past(&self, expected: &[Expected]) -> Vec<PastReport> {
        let world = self.world.world();
        let of_task = |task: &Expected| {
            let found = world.tasks.get(&(task.id, task.rank))?;
            let Stage::Over(what) = found.stage.clone() else { return None };
            let report = TaskReport { id: task.id, rank: task.rank, what };
            found.ended.map(|at| PastReport { at, report })
        };
        expected.iter().filter_map(of_task).collect()
    }

    fn adopt(&self, expected: Vec<Expected>) {
        let mut world = self.world.world();
        for Expected { id, rank, .. } in &expected {
            match world.tasks.contains_key(&(*id, *rank)) {
                true => world.repeat(*id, *rank),
                false => world.report(
                    *id,
                    *rank,
                    Observation::Lost { reason: "nothing is known of it".into() },
                ),
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
            // It may never have run.
            let _absent = std::fs::remove_file(&path);
            let _absent = path.parent().map(std::fs::remove_dir);
        }
    }

    fn task_socket(&self, _: AttemptId, _: Rank) -> Option<PathBuf> {
        None
    }
}
