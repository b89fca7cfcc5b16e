//! Sends notices: takes those that are due from the store, has a process of the job's user send each, and records the
//! result. Also finds the events that come with time: a limit that is near, GPUs that are idle; and has queues act on
//! the latter.

mod idle_action;
mod limit;
mod poll;
mod process;

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::sync::Arc;
use std::time::Duration;

use muster_backends::driver::Backend;
use muster_backends::notice::NoticeTask;
use muster_model::Identity;
use muster_model::unit::Time;
use nix::unistd::User;
use tokio::sync::watch;
use tokio::task::JoinSet;

use idle_action::IdleActions;
use poll::EventPoller;

use crate::auth::DaemonMode;
use crate::clock::Clock;
use crate::dispatch::Handle;
use crate::failure::ApiFailure;
use crate::gpu_use::GpuUseMeter;
use crate::rest::ApiState;
use crate::store::{DueNotice, HistoryReader, NoticeTry};

/// Most notices that are sent at once.
const AT_ONCE: usize = 8;
/// Most of one user or queue: an address that hangs must not keep those of others.
const OF_EACH_USER: u32 = 2;
/// Account without rights that sends the notices of queues, where the daemon is root (ADR 0056).
const SENDER_OF_QUEUES: &str = "nobody";
/// Shortest time between two reads of the store, where every change of any job may bring a notice.
const PAUSE: Duration = Duration::from_millis(200);
/// Longest time between two reads.
const LONGEST: Duration = Duration::from_secs(60);

/// Parts that send notices.
struct NoticeSender {
    /// Reader of the notices.
    reader: HistoryReader,
    /// Dispatcher, which writes results.
    handle: Handle,
    /// Clock of the daemon.
    clock: Arc<dyn Clock>,
    /// Revision, which changes when there may be a new notice.
    revision: watch::Receiver<u64>,
    /// Name of this machine in notices.
    host: String,
    /// Program that sends one notice, which it gets on standard input.
    program: Vec<OsString>,
    /// Backend, which knows the device files that are closed.
    backend: Arc<dyn Backend>,
    /// True if the daemon is root and the program changes to the user of the notice, or to [`SENDER_OF_QUEUES`].
    as_user: bool,
}

/// Sends notices and polls for timed events until the daemon stops. Without a program nothing is sent.
pub(crate) fn spawn(app: &ApiState, program: Vec<OsString>, poll_every: Duration) {
    let poller = EventPoller {
        reader: app.reader.clone(),
        handle: app.handle.clone(),
        clock: app.clock.clone(),
        site: app.site.clone(),
        loads: Arc::clone(&app.loads),
        idle: Arc::clone(&app.idle),
        every: poll_every,
        gpu_use: GpuUseMeter::default(),
        actions: IdleActions::default(),
    };
    spawn_until_stop(poller.run(), &app.stop);
    if program.is_empty() {
        return;
    }
    let sender = NoticeSender {
        reader: app.reader.clone(),
        handle: app.handle.clone(),
        clock: app.clock.clone(),
        revision: app.revision.clone(),
        host: app.about.host.clone(),
        program,
        backend: app.backend.clone(),
        as_user: app.about.mode == DaemonMode::System,
    };
    spawn_until_stop(sender.run(), &app.stop);
}

fn spawn_until_stop(work: impl Future<Output = ()> + Send + 'static, stop: &watch::Sender<bool>) {
    let mut stops = stop.subscribe();
    tokio::spawn(async move {
        tokio::select! {
            () = work => {}
            _ = stops.wait_for(|is_stopping| *is_stopping) => {}
        }
    });
}

impl NoticeSender {
    /// Sends notices for ever.
    async fn run(mut self) {
        let mut sending = Sending::default();
        loop {
            let next = match self.due().await {
                Ok((due, next)) => {
                    for notice in due {
                        sending.start(notice, &self);
                    }
                    next
                }
                Err(error) => {
                    tracing::warn!(?error, "the notices cannot be read");
                    None
                }
            };
            tokio::time::sleep(PAUSE).await;
            let until = next.map(|next| Duration::from_millis(next.since(self.clock.now()).0));
            tokio::select! {
                Some(done) = sending.next() => self.record(done, &mut sending).await,
                changed = self.revision.changed() => if changed.is_err() { return },
                () = tokio::time::sleep(until.unwrap_or(LONGEST).min(LONGEST)) => {}
            }
        }
    }

    /// Returns the account that the program changes to; `None` if it stays the daemon's user. A notice of a queue has
    /// no `sender`: its address must not be known to the job's user, and root must not send it.
    fn account(&self, sender: Option<Identity>) -> Result<Option<Identity>, String> {
        if !self.as_user {
            return Ok(None);
        }
        if sender.is_some() {
            return Ok(sender);
        }
        match User::from_name(SENDER_OF_QUEUES) {
            Ok(Some(found)) => Ok(Some(Identity {
                user: SENDER_OF_QUEUES.into(),
                uid: found.uid.as_raw(),
                gid: found.gid.as_raw(),
            })),
            Ok(None) => Err(format!("this machine has no account `{SENDER_OF_QUEUES}`")),
            Err(error) => Err(format!("cannot look up `{SENDER_OF_QUEUES}`: {error}")),
        }
    }

    async fn due(&self) -> Result<(Vec<DueNotice>, Option<Time>), ApiFailure> {
        let reader = self.reader.clone();
        let now = self.clock.now();
        tokio::task::spawn_blocking(move || reader.due_notices(now, OF_EACH_USER))
            .await
            .map_err(|error| ApiFailure::Internal(error.to_string()))?
            .map_err(ApiFailure::Store)
    }

    /// Records the result of a try; while the store cannot be written, the notice counts as being sent.
    async fn record(&self, done: NoticeTry, sending: &mut Sending) {
        if let Err(error) = &done.result {
            tracing::warn!(
                job = %done.notice.order.notice.job,
                to = done.notice.order.to.label(),
                error,
                "a notice could not be sent"
            );
        }
        let id = done.notice.id;
        while let Err(error) = self.handle.notice_tried(done.clone()).await {
            tracing::warn!(?error, "the result of a notice cannot be written");
            tokio::time::sleep(Duration::from_secs(5)).await;
        }
        sending.forget(id);
    }
}

/// Notices that are being sent.
#[derive(Default)]
struct Sending {
    processes: JoinSet<NoticeTry>,
    /// Keys of the notices, with the user or queue that each is sent for, until the result is written.
    notices: BTreeSet<(i64, String)>,
}

impl Sending {
    /// Starts to send a notice, unless it is being sent or too many are; those are due again later.
    fn start(&mut self, notice: DueNotice, sender: &NoticeSender) {
        let sent_for = notice.sent_for();
        let as_many = self.notices.iter().filter(|(_, other)| *other == sent_for).count();
        let is_sent = self.notices.iter().any(|(id, _)| *id == notice.id);
        if is_sent || self.notices.len() >= AT_ONCE || as_many >= OF_EACH_USER as usize {
            return;
        }
        self.notices.insert((notice.id, sent_for));
        let program = sender.program.clone();
        let mut order = notice.order.clone();
        order.host.clone_from(&sender.host);
        let account = sender.account(order.sender.take());
        let closed_device_files = sender.backend.closed_device_files();
        self.processes.spawn(async move {
            let result = match account {
                Ok(account) => {
                    order.sender = account;
                    process::send(&program, &NoticeTask { order, closed_device_files }).await
                }
                Err(error) => Err(error),
            };
            NoticeTry { notice, result }
        });
    }

    /// Returns the next result; `None` when nothing is being sent.
    async fn next(&mut self) -> Option<NoticeTry> {
        // A task that panicked has logged it; its notice is sent again by the next daemon.
        self.processes.join_next().await?.ok()
    }

    fn forget(&mut self, id: i64) {
        self.notices.retain(|(other, _)| *other != id);
    }
}
