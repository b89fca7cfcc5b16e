//! One actor per task: starts or finds its supervisor, forwards commands, reports what it says, and
//! finds out what happened when it falls silent.

use std::sync::Arc;
use std::time::Duration;

use muster_model::launch::GangOrder;
use muster_model::{AttemptId, Observation, Rank, StopCause, TaskExit};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use super::adopt::{Found, find_out, sweep};
use super::idle::Idle;
use super::launch::{self, Launched};
use super::state::{Entry, Gang, Shared, State, is_final};
use super::watch::{WATCH_PAUSE, Watch, Watched};
use crate::env;
use crate::port;
use crate::record::{self, TaskDir};
use crate::supervise::STAY;
use crate::wire::{FromSupervisor, Lines, ToSupervisor, line};

/// A task that is expected but was never claimed gets this long for its Prepare to be repeated: the
/// daemon may have died between deciding a start and carrying it out.
const UNCLAIMED_PATIENCE: Duration = Duration::from_secs(2);

/// What an actor is told.
#[derive(Clone, Debug)]
pub(super) enum ToTask {
    /// Prepare it, unless that has been done.
    Launch(Arc<GangOrder>, Vec<u16>),
    /// Run it.
    Go,
    /// Ask it to save its progress.
    Checkpoint(u32),
    /// End it.
    Stop(StopCause),
}

/// Who wants to know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Audience {
    /// The daemon expects this task.
    Daemon,
    /// Nobody: it is ended and forgotten.
    Nobody,
}

/// Prepares every task of a gang.
pub(super) fn prepare(shared: &Arc<Shared>, order: &Arc<GangOrder>) {
    let id = order.id;
    let mut state = shared.state();
    // 1. Never older than what was seen.
    if state.newest.get(&id.element).is_some_and(|newest| *newest > id.attempt) {
        return;
    }
    state.newest.insert(id.element, id.attempt);
    // A restored state orders again what has run since the copy was made: its record says how it
    // ended.
    if record::newest_attempt(&shared.jobs_of(id.element.job), id.element) > Some(id.attempt) {
        find(shared, &mut state, order);
        return;
    }

    // 2. Ports: those of an interrupted earlier Prepare, else new ones.
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

    // 3. An actor per task; one that exists repeats what it last said, or launches if it was
    //    waiting for this.
    for task in &order.tasks {
        let launch = ToTask::Launch(Arc::clone(order), ports.clone());
        match state.gangs.get(&id).and_then(|gang| gang.tasks.get(&task.rank)) {
            Some(Entry { to, last: None, .. }) => drop(to.send(launch)),
            Some(entry) => {
                entry.said().into_iter().for_each(|what| shared.send(id, task.rank, what))
            }
            None => {
                let to = start(shared, id, task.rank, Begin::Wait, Audience::Daemon);
                let _ = to.send(launch);
                state.gangs.entry(id).or_default().tasks.insert(task.rank, Entry::new(to));
            }
        }
    }
}

/// Reports what became of each task of an attempt that is older than another one on disk. Starts
/// none.
fn find(shared: &Arc<Shared>, state: &mut State, order: &GangOrder) {
    for task in &order.tasks {
        let tasks = &mut state.gangs.entry(order.id).or_default().tasks;
        let to = || start(shared, order.id, task.rank, Begin::Find, Audience::Daemon);
        let entry = tasks.entry(task.rank).or_insert_with(|| Entry::new(to()));
        entry.said().into_iter().for_each(|what| shared.send(order.id, task.rank, what));
    }
}

/// Passes a command to every task of an attempt. After a restart they are first found on disk.
pub(super) fn send(shared: &Arc<Shared>, id: AttemptId, command: &ToTask) {
    let mut state = shared.state();
    if state.newest.get(&id.element).is_some_and(|newest| *newest > id.attempt) {
        return;
    }
    let on_disk = match state.gangs.contains_key(&id) {
        true => Vec::new(),
        false => record::ranks(&shared.jobs_of(id.element.job), id),
    };
    if !on_disk.is_empty() {
        state.newest.insert(id.element, id.attempt);
    }
    for rank in on_disk {
        let to = start(shared, id, rank, Begin::Find, Audience::Daemon);
        state.gangs.entry(id).or_default().tasks.insert(rank, Entry::new(to));
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
    let is_over =
        |gang: &Gang| gang.tasks.values().all(|entry| entry.last.as_ref().is_some_and(is_final));
    if state.gangs.get(&id).is_some_and(|gang| !is_over(gang)) {
        tracing::warn!(attempt = %id, "asked to forget an attempt that has live tasks");
        return;
    }
    let gang = state.gangs.remove(&id).unwrap_or_default();
    gang.ports.into_iter().for_each(|port| state.leases.release(port));
    // What is forgotten is in the journal, so these may be told that the end is durable.
    gang.tasks.into_values().filter_map(|entry| entry.idle).for_each(|idle| state.idle.add(idle));
    if !state.idle.is_empty() {
        let shared = Arc::clone(shared);
        shared.runtime.clone().spawn(async move {
            tokio::time::sleep(STAY).await;
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
            clear(&shared, id, rank);
        }
    });
}

/// Deletes what is kept of one task for re-adoption.
fn clear(shared: &Shared, id: AttemptId, rank: Rank) {
    let dir = shared.dir(id, rank);
    let is_alive = matches!(dir.claimed(), Ok(Some(claim)) if claim.supervisor.is_alive());
    if is_alive && matches!(dir.ended(), Ok(None)) && !is_own_claim(&dir) {
        tracing::warn!(attempt = %id, %rank, "not forgotten: its supervisor lives");
        return;
    }
    if let Ok(Some(order)) = dir.order() {
        let _ = order.cgroup.remove();
    }
    dir.forget();
    let _ = std::fs::remove_file(shared.socket(id, rank));
    let _ = std::fs::remove_file(shared.checkpoint_file(id, rank));
    shared.live.remove(id, rank);
}

/// True for a claim by this very process, which says "never to be started"; see
/// [`Actor::never_ran`].
pub(super) fn is_own_claim(dir: &TaskDir) -> bool {
    let own = std::process::id() as i32;
    matches!(dir.claimed(), Ok(Some(claim)) if claim.supervisor.pid == own)
}

/// How an actor begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Begin {
    /// With the launch that is about to be sent.
    Wait,
    /// With what is on disk.
    Find,
}

/// Starts the actor of a task.
pub(super) fn start(
    shared: &Arc<Shared>,
    id: AttemptId,
    rank: Rank,
    begin: Begin,
    audience: Audience,
) -> UnboundedSender<ToTask> {
    let (to, inbox) = unbounded_channel();
    let actor = Actor {
        shared: Arc::clone(shared),
        id,
        rank,
        audience,
        go: false,
        checkpoint: None,
        stop: None,
        handed: None,
    };
    shared.runtime.spawn(actor.run(inbox, begin));
    to
}

struct Actor {
    shared: Arc<Shared>,
    id: AttemptId,
    rank: Rank,
    audience: Audience,
    /// Commands so far, repeated on a new connection.
    go: bool,
    checkpoint: Option<u32>,
    stop: Option<StopCause>,
    /// The launch, once the task was handed to a supervisor that had waited: that may have ended
    /// before it took the task.
    handed: Option<(Arc<GangOrder>, Vec<u16>)>,
}

/// What to do next.
enum Next {
    /// Follow a supervisor.
    Follow(UnixStream),
    /// Find out what became of the task.
    FindOut,
    /// No supervisor has ever owned it: launch it when told.
    AwaitLaunch,
    /// It is over.
    Over(Observation),
    /// The daemon no longer listens; its successor will find the supervisor.
    Unheard,
}

impl Actor {
    async fn run(mut self, mut inbox: UnboundedReceiver<ToTask>, begin: Begin) {
        let mut launched = false;
        let mut next = match begin {
            Begin::Wait => Next::AwaitLaunch,
            Begin::Find => Next::FindOut,
        };
        loop {
            next = match next {
                Next::Follow(stream) => self.follow(stream, &mut inbox).await,
                Next::FindOut => match self.find_out(launched && self.handed.is_none()).await {
                    Found::Connected(stream) => self.connected(stream),
                    Found::Over(what) => {
                        self.report_recorded_checkpoint().await;
                        Next::Over(what)
                    }
                    Found::Unclaimed => match self.handed.take() {
                        Some((order, ports)) => self.launch(order, ports, false).await,
                        None => Next::AwaitLaunch,
                    },
                },
                Next::AwaitLaunch => {
                    launched = true;
                    self.await_launch(&mut inbox).await
                }
                Next::Over(what) => break self.over(what).await,
                Next::Unheard => break,
            };
        }
    }

    /// Waits for the launch of a task that no supervisor owns; without one it is over, and claimed
    /// so that a straggling supervisor cannot start it later.
    async fn await_launch(&mut self, inbox: &mut UnboundedReceiver<ToTask>) -> Next {
        let told = tokio::time::timeout(UNCLAIMED_PATIENCE, inbox.recv());
        let reason = match self.audience {
            Audience::Nobody => "it was not expected",
            Audience::Daemon => match told.await {
                Ok(Some(ToTask::Launch(order, ports))) => {
                    return self.launch(order, ports, true).await;
                }
                Ok(Some(ToTask::Stop(_))) => {
                    return self.never_ran(Observation::Exited(TaskExit::Stopped)).await;
                }
                Ok(Some(ToTask::Go | ToTask::Checkpoint(_)) | None) | Err(_) => {
                    "nothing is known of it on this machine"
                }
            },
        };
        self.never_ran(Observation::Lost { reason: reason.into() }).await
    }

    async fn never_ran(&self, what: Observation) -> Next {
        let (shared, id, rank) = (Arc::clone(&self.shared), self.id, self.rank);
        let claimed = blocking(move || {
            let dir = shared.dir(id, rank);
            if !dir.path().exists() {
                // Its directory may have been deleted while it ran.
                sweep(&shared, &dir, id, rank);
                return true;
            }
            let own = crate::process::ProcessKey::of(std::process::id() as i32);
            own.is_ok_and(|own| dir.claim(own).is_ok())
        });
        match claimed.await {
            true => Next::Over(what),
            false => Next::FindOut,
        }
    }

    async fn launch(&mut self, order: Arc<GangOrder>, ports: Vec<u16>, may_hand: bool) -> Next {
        let refused = |reason: String| Next::Over(Observation::Refused { reason: reason.into() });
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
            let launched = launch::launch(&shared, &order, &order.tasks[place], &ports, may_hand);
            launched.map(|launched| (launched, order, ports))
        });
        let outcome = outcome.await;
        drop(permit);
        match outcome {
            Ok((Launched::New(stream), ..)) => self.connected(stream),
            Ok((Launched::Handed(stream), order, ports)) => {
                self.handed = Some((order, ports));
                self.connected(stream)
            }
            Ok((Launched::Claimed, ..)) => Next::FindOut,
            Err(reason) => refused(reason),
        }
    }

    fn connected(&self, stream: std::os::unix::net::UnixStream) -> Next {
        match stream.set_nonblocking(true).and_then(|()| UnixStream::from_std(stream)) {
            Ok(stream) => Next::Follow(stream),
            Err(error) => {
                let reason = format!("cannot talk to its supervisor: {error}");
                Next::Over(Observation::Lost { reason: reason.into() })
            }
        }
    }

    /// Forwards in both directions until the task is over or the connection breaks.
    async fn follow(&mut self, stream: UnixStream, inbox: &mut UnboundedReceiver<ToTask>) -> Next {
        let (mut from, mut to) = stream.into_split();
        let mut lines = Lines::default();
        let mut buffer = [0; 1024];
        let mut watch = Watch::default();
        let mut looks = tokio::time::interval(WATCH_PAUSE);
        looks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        if self.audience == Audience::Nobody {
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
                    _ => return Next::FindOut,
                },
                () = self.shared.reports.closed() => return Next::Unheard,
                _ = looks.tick() => if watch.look(&self.shared.dir(self.id, self.rank)) == Watched::Killed {
                    return Next::FindOut;
                },
                Some(told) = inbox.recv() => {
                    if let Some(command) = self.note(told) {
                        // A broken connection is seen by the read.
                        let _ = to.write_all(&line(&command)).await;
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
                        return Next::Over(Observation::Impossible { reason: reason.into() });
                    }
                    Ok(FromSupervisor::Ready) => self.report(Observation::Ready),
                    Ok(FromSupervisor::Checkpointed { noted }) => {
                        self.report(Observation::Checkpointed(noted));
                    }
                    Ok(FromSupervisor::Exited { exit, stays }) => {
                        if stays && let Ok(stream) = from.reunite(to) {
                            self.keep(stream);
                        }
                        return Next::Over(Observation::Exited(exit));
                    }
                    Ok(FromSupervisor::Refused { reason }) => {
                        return Next::Over(Observation::Refused { reason: reason.into() });
                    }
                    Ok(FromSupervisor::Claimed) => return Next::FindOut,
                    // A newer supervisor says more than this daemon knows.
                    Err(_) => {}
                }
            }
        }
    }

    /// Keeps the connection to a supervisor that stays, until the end of its task is durable.
    fn keep(&self, stream: UnixStream) {
        let Ok(stream) = stream.into_std() else { return };
        let mut state = self.shared.state();
        let gang = state.gangs.get_mut(&self.id);
        if let Some(entry) = gang.and_then(|gang| gang.tasks.get_mut(&self.rank)) {
            entry.idle = Some(Idle::new(stream));
        }
    }

    fn note(&mut self, told: ToTask) -> Option<ToSupervisor> {
        match told {
            ToTask::Launch(..) => Some(ToSupervisor::Status),
            ToTask::Go => {
                self.go = true;
                Some(ToSupervisor::Go)
            }
            ToTask::Checkpoint(request) => {
                self.checkpoint = self.checkpoint.max(Some(request));
                Some(ToSupervisor::Checkpoint { request })
            }
            ToTask::Stop(cause) => {
                self.stop = Some(cause);
                Some(ToSupervisor::Stop { cause })
            }
        }
    }

    async fn find_out(&self, launched: bool) -> Found {
        let (shared, id, rank) = (Arc::clone(&self.shared), self.id, self.rank);
        match blocking(move || find_out(&shared, id, rank)).await {
            // Its supervisor died before it took the task: it will not come later, either.
            Found::Unclaimed if launched => {
                let reason = "its supervisor ended before it took the task".into();
                match self.never_ran(Observation::Refused { reason }).await {
                    Next::Over(what) => Found::Over(what),
                    _ => {
                        let (shared, id, rank) = (Arc::clone(&self.shared), self.id, self.rank);
                        blocking(move || find_out(&shared, id, rank)).await
                    }
                }
            }
            found => found,
        }
    }

    fn report(&self, what: Observation) {
        if self.audience == Audience::Daemon {
            self.shared.report(self.id, self.rank, what);
        }
    }

    /// What a supervisor noted that is no longer there to say it. Repeating it changes nothing.
    async fn report_recorded_checkpoint(&self) {
        let dir = self.shared.dir(self.id, self.rank);
        let (ended, saved) = blocking(move || (dir.ended(), dir.checkpointed())).await;
        if let Ok(Some(signalled)) = ended.map(|ended| ended.and_then(|ended| ended.signalled)) {
            self.report(Observation::Signalled(signalled));
        }
        if let Ok(Some(record)) = saved {
            self.report(Observation::Checkpointed(record.noted));
        }
    }

    async fn over(&self, what: Observation) {
        match self.audience {
            Audience::Daemon => self.shared.report(self.id, self.rank, what),
            Audience::Nobody => {
                if self.stop.is_some() {
                    tracing::info!(attempt = %self.id, rank = %self.rank, "ended a task that was not expected");
                }
                let (shared, id, rank) = (Arc::clone(&self.shared), self.id, self.rank);
                blocking(move || clear(&shared, id, rank)).await;
            }
        }
    }
}

/// Runs file and process work off the async threads.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    match tokio::task::spawn_blocking(work).await {
        Ok(value) => value,
        Err(error) => std::panic::resume_unwind(error.into_panic()),
    }
}
