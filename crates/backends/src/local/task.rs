//! One actor per task: it starts or finds the supervisor, forwards commands, reports its messages,
//! and determines the task's status when the connection breaks.

use std::sync::Arc;
use std::time::Duration;

use crate::driver::Report;
use crate::order::GangOrder;
use muster_model::sweep::MetricReport;
use muster_model::{AttemptId, Observation, Rank, StopCause, TaskExit};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use super::idle_supervisors::IdleSupervisor;
use super::launch::{self, Launched};
use super::state::{ActorCommand, AttemptTasks, BackendState, Shared, TaskEntry, is_final};
use super::status::{TaskStatus, is_own_claim, sweep, task_status};
use super::watch::{SupervisorWatch, WATCH_PAUSE, WatchResult};
use crate::env;
use crate::port;
use crate::record;
use crate::supervise::REUSE_TIMEOUT;
use crate::wire::{FromSupervisor, LineBuffer, ToSupervisor, line};

/// Time in which the Prepare of an expected task without a claim must be repeated: the daemon may
/// have died between deciding a start and carrying it out.
const UNCLAIMED_TIMEOUT: Duration = Duration::from_secs(2);

/// Expectation of the daemon about a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Expectation {
    /// The daemon expects this task and gets its reports.
    Expected,
    /// The daemon does not know this task: it is ended and forgotten.
    Unexpected,
}

/// Prepares every task of a gang.
pub(super) fn prepare(shared: &Arc<Shared>, order: &Arc<GangOrder>) {
    let id = order.id;
    let mut state = shared.state();
    // 1. Ignore attempts older than the newest one.
    if state.newest.get(&id.element).is_some_and(|newest| *newest > id.attempt) {
        return;
    }
    state.newest.insert(id.element, id.attempt);
    // A restored state orders attempts again that ran after its backup: their records have the end.
    if record::newest_attempt(&shared.jobs_of(id.element.job), id.element) > Some(id.attempt) {
        report_superseded(shared, &mut state, order);
        return;
    }

    // 2. Lease ports: those of an interrupted earlier Prepare, else new ones.
    let known =
        state.gangs.get(&id).map(|gang| gang.ports.clone()).filter(|ports| !ports.is_empty());
    let ports = known.or_else(|| launch::earlier_ports(shared, order)).unwrap_or_else(|| {
        let wanted = env::groups(order).len();
        (0..wanted).map_while(|_| state.leases.take(|port| port::hold(port).is_ok())).collect()
    });
    for port in &ports {
        state.leases.keep(*port);
    }
    state.gangs.entry(id).or_default().ports.clone_from(&ports);

    // 3. Start an actor per task; one that exists repeats its reports, or launches if it was
    //    waiting for the order.
    for task in &order.tasks {
        let launch = ActorCommand::Launch(Arc::clone(order), ports.clone());
        match state.gangs.get(&id).and_then(|gang| gang.tasks.get(&task.rank)) {
            Some(TaskEntry { to, last: None, .. }) => drop(to.send(launch)),
            Some(entry) => {
                entry.observations().into_iter().for_each(|what| shared.send(id, task.rank, what))
            }
            None => {
                let to = spawn_actor(
                    shared,
                    id,
                    task.rank,
                    ActorStart::AwaitLaunch,
                    Expectation::Expected,
                );
                let _ = to.send(launch);
                state.gangs.entry(id).or_default().tasks.insert(task.rank, TaskEntry::new(to));
            }
        }
    }
}

/// Reports the status of each task of an attempt that is older than another one on disk. Starts no
/// task.
fn report_superseded(shared: &Arc<Shared>, state: &mut BackendState, order: &GangOrder) {
    for task in &order.tasks {
        let tasks = &mut state.gangs.entry(order.id).or_default().tasks;
        let to = || {
            spawn_actor(shared, order.id, task.rank, ActorStart::ReadRecord, Expectation::Expected)
        };
        let entry = tasks.entry(task.rank).or_insert_with(|| TaskEntry::new(to()));
        entry.observations().into_iter().for_each(|what| shared.send(order.id, task.rank, what));
    }
}

/// Forwards a command to every task of an attempt. After a restart the tasks are first found on
/// disk.
pub(super) fn send_command(shared: &Arc<Shared>, id: AttemptId, command: &ActorCommand) {
    let mut state = shared.state();
    if state.newest.get(&id.element).is_some_and(|newest| *newest > id.attempt) {
        return;
    }
    let on_disk = if state.gangs.contains_key(&id) {
        Vec::new()
    } else {
        record::ranks(&shared.jobs_of(id.element.job), id)
    };
    if !on_disk.is_empty() {
        state.newest.insert(id.element, id.attempt);
    }
    for rank in on_disk {
        let to = spawn_actor(shared, id, rank, ActorStart::ReadRecord, Expectation::Expected);
        state.gangs.entry(id).or_default().tasks.insert(rank, TaskEntry::new(to));
    }
    for (rank, entry) in state.gangs.get(&id).iter().flat_map(|gang| &gang.tasks) {
        match &entry.last {
            Some(last) if is_final(last) => shared.send(id, *rank, last.clone()),
            _ => drop(entry.to.send(command.clone())),
        }
    }
}

/// Forgets an attempt whose tasks are all over.
pub(super) fn forget(shared: &Arc<Shared>, id: AttemptId) {
    let mut state = shared.state();
    let is_over = |gang: &AttemptTasks| {
        gang.tasks.values().all(|entry| entry.last.as_ref().is_some_and(is_final))
    };
    if state.gangs.get(&id).is_some_and(|gang| !is_over(gang)) {
        tracing::warn!(attempt = %id, "attempt not forgotten: it has live tasks");
        return;
    }
    let gang = state.gangs.remove(&id).unwrap_or_default();
    gang.ports.into_iter().for_each(|port| state.leases.release(port));
    // A forgotten attempt is in the journal: confirm to its idle supervisors that the end is
    // durable.
    gang.tasks.into_values().filter_map(|entry| entry.idle).for_each(|idle| state.idle.add(idle));
    if !state.idle.is_empty() {
        let shared = Arc::clone(shared);
        shared.runtime.clone().spawn(async move {
            tokio::time::sleep(REUSE_TIMEOUT).await;
            shared.state().idle.prune();
        });
    }
    if state.newest.get(&id.element) == Some(&id.attempt) {
        state.newest.remove(&id.element);
    }
    drop(state);
    let shared = Arc::clone(shared);
    let runtime = shared.runtime.clone();
    runtime.spawn_blocking(move || {
        for rank in record::ranks(&shared.jobs_of(id.element.job), id) {
            forget_task(&shared, id, rank);
        }
    });
}

/// Deletes the records, socket, pipe and groups of one task.
fn forget_task(shared: &Shared, id: AttemptId, rank: Rank) {
    let dir = shared.dir(id, rank);
    let is_alive = || matches!(dir.claimed(), Ok(Some(claim)) if claim.supervisor.is_alive());
    if matches!(dir.exit(), Ok(None)) && is_alive() && !is_own_claim(&dir) {
        tracing::warn!(attempt = %id, %rank, "task not forgotten: its supervisor still runs");
        return;
    }
    if let Ok(Some(order)) = dir.order() {
        let _ = order.cgroup.remove();
    }
    dir.forget();
    let _ = std::fs::remove_file(shared.socket(id, rank));
    let _ = std::fs::remove_file(shared.checkpoint_file(id, rank));
    let _ = std::fs::remove_file(shared.report_file(id, rank));
    shared.live.remove(id, rank);
}

/// First step of an actor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ActorStart {
    /// Wait for the launch command.
    AwaitLaunch,
    /// Read the task's status from disk.
    ReadRecord,
}

/// Starts the actor of a task.
pub(super) fn spawn_actor(
    shared: &Arc<Shared>,
    id: AttemptId,
    rank: Rank,
    start: ActorStart,
    expectation: Expectation,
) -> UnboundedSender<ActorCommand> {
    let (to, inbox) = unbounded_channel();
    let actor = TaskActor {
        shared: Arc::clone(shared),
        id,
        rank,
        expectation,
        go: false,
        checkpoint: None,
        stop: None,
        reused_launch: None,
    };
    shared.runtime.spawn(actor.run(inbox, start));
    to
}

struct TaskActor {
    shared: Arc<Shared>,
    id: AttemptId,
    rank: Rank,
    expectation: Expectation,
    /// Commands so far, repeated on a new connection.
    go: bool,
    checkpoint: Option<u32>,
    stop: Option<StopCause>,
    /// The launch of a task that was assigned to an idle supervisor, which may have ended before it
    /// claimed the task.
    reused_launch: Option<(Arc<GangOrder>, Vec<u16>)>,
}

/// Next step of an actor.
enum NextStep {
    /// Exchange messages with the supervisor.
    Follow(UnixStream),
    /// Determine the status of the task from disk.
    ReadStatus,
    /// Wait for the launch of a task that no supervisor has claimed.
    AwaitLaunch,
    /// Report the end of the task.
    Over(Observation),
    /// Exit: the report channel is closed; the next daemon will find the supervisor.
    DaemonGone,
}

impl TaskActor {
    async fn run(mut self, mut inbox: UnboundedReceiver<ActorCommand>, start: ActorStart) {
        let mut launched = false;
        let mut next = match start {
            ActorStart::AwaitLaunch => NextStep::AwaitLaunch,
            ActorStart::ReadRecord => NextStep::ReadStatus,
        };
        loop {
            next = match next {
                NextStep::Follow(stream) => self.follow(stream, &mut inbox).await,
                NextStep::ReadStatus => {
                    match self.read_status(launched && self.reused_launch.is_none()).await {
                        TaskStatus::Connected(stream) => self.connected(stream),
                        TaskStatus::Over(what) => {
                            self.report_recorded_checkpoint().await;
                            NextStep::Over(what)
                        }
                        TaskStatus::Unclaimed => match self.reused_launch.take() {
                            Some((order, ports)) => self.launch(order, ports, false).await,
                            None => NextStep::AwaitLaunch,
                        },
                    }
                }
                NextStep::AwaitLaunch => {
                    launched = true;
                    self.await_launch(&mut inbox).await
                }
                NextStep::Over(what) => break self.finish(what).await,
                NextStep::DaemonGone => break,
            };
        }
    }

    /// Waits for the launch of an unclaimed task; without one the task is over, and is claimed here
    /// so that a late supervisor cannot start it.
    async fn await_launch(&mut self, inbox: &mut UnboundedReceiver<ActorCommand>) -> NextStep {
        let received = tokio::time::timeout(UNCLAIMED_TIMEOUT, inbox.recv());
        let reason = match self.expectation {
            Expectation::Unexpected => "the daemon did not expect it",
            Expectation::Expected => match received.await {
                Ok(Some(ActorCommand::Launch(order, ports))) => {
                    return self.launch(order, ports, true).await;
                }
                Ok(Some(ActorCommand::Stop(_))) => {
                    return self.finish_unstarted(Observation::Exited(TaskExit::Stopped)).await;
                }
                Ok(Some(ActorCommand::Go | ActorCommand::Checkpoint(_)) | None) | Err(_) => {
                    "this machine has no record of it"
                }
            },
        };
        self.finish_unstarted(Observation::Lost { reason: reason.into() }).await
    }

    async fn finish_unstarted(&self, what: Observation) -> NextStep {
        let shared = Arc::clone(&self.shared);
        let id = self.id;
        let rank = self.rank;
        let claimed = blocking(move || {
            let dir = shared.dir(id, rank);
            if !dir.path().exists() {
                // The directory may have been deleted while the task ran.
                sweep(&shared, &dir, id, rank);
                return true;
            }
            let own = crate::process::ProcessKey::of(std::process::id() as i32);
            own.is_ok_and(|own| dir.claim(own).is_ok())
        });
        if claimed.await { NextStep::Over(what) } else { NextStep::ReadStatus }
    }

    async fn launch(
        &mut self,
        order: Arc<GangOrder>,
        ports: Vec<u16>,
        may_reuse: bool,
    ) -> NextStep {
        let refused =
            |reason: String| NextStep::Over(Observation::Refused { reason: reason.into() });
        let Some(place) = order.tasks.iter().position(|task| task.rank == self.rank) else {
            return refused("the order does not name this rank".to_owned());
        };
        if ports.len() < env::groups(&order).len() {
            return refused("no rendezvous port is free".to_owned());
        }
        if order.tasks[place].node != self.shared.config.node_name {
            return refused(format!("this machine is not {}", order.tasks[place].node));
        }
        self.shared.rejoin.note_start();
        // The semaphore is never closed.
        let permit = self.shared.launches.acquire().await;
        let shared = Arc::clone(&self.shared);
        let outcome = blocking(move || {
            let launched = launch::launch(&shared, &order, &order.tasks[place], &ports, may_reuse);
            launched.map(|launched| (launched, order, ports))
        });
        let outcome = outcome.await;
        drop(permit);
        match outcome {
            Ok((Launched::New(stream), ..)) => self.connected(stream),
            Ok((Launched::Reused(stream), order, ports)) => {
                self.reused_launch = Some((order, ports));
                self.connected(stream)
            }
            Ok((Launched::Claimed, ..)) => NextStep::ReadStatus,
            Err(reason) => refused(reason),
        }
    }

    fn connected(&self, stream: std::os::unix::net::UnixStream) -> NextStep {
        match stream.set_nonblocking(true).and_then(|()| UnixStream::from_std(stream)) {
            Ok(stream) => NextStep::Follow(stream),
            Err(error) => {
                let reason = format!("cannot use the connection to its supervisor: {error}");
                NextStep::Over(Observation::Lost { reason: reason.into() })
            }
        }
    }

    /// Forwards in both directions until the task is over or the connection breaks.
    async fn follow(
        &mut self,
        stream: UnixStream,
        inbox: &mut UnboundedReceiver<ActorCommand>,
    ) -> NextStep {
        let (mut from, mut to) = stream.into_split();
        let mut lines = LineBuffer::default();
        let mut buffer = [0; 1024];
        let mut watch = SupervisorWatch::default();
        let first = tokio::time::Instant::now() + WATCH_PAUSE;
        let mut checks = tokio::time::interval_at(first, WATCH_PAUSE);
        checks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        if self.expectation == Expectation::Unexpected {
            self.stop.get_or_insert(StopCause::Cancelled);
        }
        let repeated = [
            self.go.then_some(ToSupervisor::Go),
            self.checkpoint.map(|request| ToSupervisor::Checkpoint { request }),
            self.stop.map(|cause| ToSupervisor::Stop { cause }),
        ];
        for command in repeated.into_iter().flatten() {
            let _ = to.write_all(&line(&command)).await;
        }
        loop {
            tokio::select! {
                read = from.read(&mut buffer) => match read {
                    Ok(count) if count > 0 && lines.push(&buffer[..count]) => {}
                    _ => return NextStep::ReadStatus,
                },
                () = self.shared.reports.closed() => return NextStep::DaemonGone,
                _ = checks.tick() => if watch.check(&self.shared.dir(self.id, self.rank)) == WatchResult::Killed {
                    return NextStep::ReadStatus;
                },
                Some(command) = inbox.recv() => {
                    if let Some(message) = self.record_command(command) {
                        // The read detects a broken connection.
                        let _ = to.write_all(&line(&message)).await;
                    }
                }
            }
            while let Some(text) = lines.next_line() {
                match serde_json::from_slice(&text) {
                    Ok(FromSupervisor::Prepared) => self.report(Observation::Prepared),
                    Ok(FromSupervisor::Started) => self.report(Observation::Started),
                    Ok(FromSupervisor::Signalled { signalled }) => {
                        self.report(Observation::Signalled(signalled));
                    }
                    Ok(FromSupervisor::Impossible { reason }) => {
                        return NextStep::Over(Observation::Impossible { reason: reason.into() });
                    }
                    Ok(FromSupervisor::Ready) => self.report(Observation::Ready),
                    Ok(FromSupervisor::Checkpointed { checkpoint }) => {
                        self.report(Observation::Checkpointed(checkpoint));
                    }
                    Ok(FromSupervisor::Reported { report }) => self.report_metric(report),
                    Ok(FromSupervisor::Exited { exit, reusable }) => {
                        if reusable && let Ok(stream) = from.reunite(to) {
                            self.keep_idle_supervisor(stream);
                        }
                        return NextStep::Over(Observation::Exited(exit));
                    }
                    Ok(FromSupervisor::Refused { reason }) => {
                        return NextStep::Over(Observation::Refused { reason: reason.into() });
                    }
                    Ok(FromSupervisor::Claimed) => return NextStep::ReadStatus,
                    // An unknown message of a newer supervisor is ignored.
                    Err(_) => {}
                }
            }
        }
    }

    /// Keeps the connection to an idle supervisor until the end of its task is durable.
    fn keep_idle_supervisor(&self, stream: UnixStream) {
        let Ok(stream) = stream.into_std() else { return };
        let mut state = self.shared.state();
        let gang = state.gangs.get_mut(&self.id);
        if let Some(entry) = gang.and_then(|gang| gang.tasks.get_mut(&self.rank)) {
            entry.idle = Some(IdleSupervisor::new(stream));
        }
    }

    fn record_command(&mut self, command: ActorCommand) -> Option<ToSupervisor> {
        match command {
            ActorCommand::Launch(..) => Some(ToSupervisor::Status),
            ActorCommand::Go => {
                self.go = true;
                Some(ToSupervisor::Go)
            }
            ActorCommand::Checkpoint(request) => {
                self.checkpoint = self.checkpoint.max(Some(request));
                Some(ToSupervisor::Checkpoint { request })
            }
            ActorCommand::Stop(cause) => {
                self.stop = Some(cause);
                Some(ToSupervisor::Stop { cause })
            }
        }
    }

    async fn read_status(&self, launched: bool) -> TaskStatus {
        match self.task_status().await {
            // Its supervisor died before it claimed the task, so none will claim it later.
            TaskStatus::Unclaimed if launched => {
                let reason = "its supervisor exited before it claimed the task".into();
                match self.finish_unstarted(Observation::Refused { reason }).await {
                    NextStep::Over(what) => TaskStatus::Over(what),
                    _ => self.task_status().await,
                }
            }
            found => found,
        }
    }

    async fn task_status(&self) -> TaskStatus {
        let shared = Arc::clone(&self.shared);
        let id = self.id;
        let rank = self.rank;
        blocking(move || task_status(&shared, id, rank)).await
    }

    fn report(&self, what: Observation) {
        if self.expectation == Expectation::Expected {
            self.shared.report(self.id, self.rank, what);
        }
    }

    fn report_metric(&self, report: MetricReport) {
        if self.expectation == Expectation::Expected {
            let _gone = self.shared.reports.send(Report::Metric { id: self.id, report });
        }
    }

    /// Reports the recorded checkpoint and metric of a supervisor that has exited. Repeating it changes
    /// nothing.
    async fn report_recorded_checkpoint(&self) {
        let dir = self.shared.dir(self.id, self.rank);
        let (ended, saved) = blocking(move || (dir.exit(), dir.checkpoint())).await;
        let ended = ended.ok().flatten();
        if let Some(signalled) = ended.as_ref().and_then(|ended| ended.signalled) {
            self.report(Observation::Signalled(signalled));
        }
        if let Some(report) = ended.and_then(|ended| ended.report) {
            self.report_metric(report);
        }
        if let Ok(Some(record)) = saved {
            self.report(Observation::Checkpointed(record.checkpoint));
        }
    }

    async fn finish(&self, what: Observation) {
        match self.expectation {
            Expectation::Expected => self.shared.report(self.id, self.rank, what),
            Expectation::Unexpected => {
                if self.stop.is_some() {
                    tracing::info!(attempt = %self.id, rank = %self.rank, "ended a task that was not expected");
                }
                let shared = Arc::clone(&self.shared);
                let id = self.id;
                let rank = self.rank;
                blocking(move || forget_task(&shared, id, rank)).await;
            }
        }
    }
}

/// Runs blocking file and process operations outside the async threads.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    match tokio::task::spawn_blocking(work).await {
        Ok(value) => value,
        Err(error) => std::panic::resume_unwind(error.into_panic()),
    }
}
