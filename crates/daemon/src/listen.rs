//! Socket server: accepts connections, identifies their users and serves HTTP on them, with limits
//! on the number of connections and the time for a request head. Independent of the routes.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use axum::Router;
use axum::response::IntoResponse;
use hyper::body::Incoming;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{Semaphore, watch};

use crate::auth::{Caller, DaemonMode, Peer, Peers};
use crate::failure::ApiFailure;

/// Most connections of one user at a time: long polls, followed logs and sessions hold one each.
const MAX_CONNECTIONS_PER_USER: usize = 256;

/// Most connections of all users at a time, except root's, so that an administrator can still
/// connect.
const MAX_CONNECTIONS: usize = 2048;

/// Most connections beyond these limits that get an error response; further ones are closed at
/// once.
const MAX_REFUSALS: usize = 64;

/// Longest time for the request and error response of such a connection.
const REFUSAL_TIMEOUT: Duration = Duration::from_secs(1);

/// Longest time for a request head; an idle connection is closed.
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);

/// Time for which an identified caller is cached.
const CALLER_TTL: Duration = Duration::from_secs(60);

/// User id of the machine's administrator.
const ROOT: u32 = 0;

/// Most cached callers; beyond it the cache is cleared.
const MAX_CALLERS: usize = 1024;

/// Time that open requests have after the daemon is stopped.
const SHUTDOWN_GRACE: Duration = Duration::from_millis(500);

/// Serves connections until `stop` turns true.
pub(crate) async fn serve(
    listener: UnixListener,
    router: Router,
    mode: DaemonMode,
    peers: Arc<dyn Peers>,
    mut stop: watch::Receiver<bool>,
) {
    let state = Arc::new(ListenerState {
        peers,
        mode,
        callers: Mutex::default(),
        counts: Mutex::default(),
        refusals: Semaphore::new(MAX_REFUSALS),
    });
    let mut connections = tokio::task::JoinSet::new();
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = stopped(&mut stop) => break,
        };
        match accepted {
            Ok((stream, _)) => {
                connections.spawn(connection(stream, router.clone(), state.clone(), stop.clone()));
            }
            Err(error) => {
                // Out of file descriptors: let some connections end first.
                tracing::warn!(%error, "a connection could not be accepted");
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
        while connections.try_join_next().is_some() {}
    }
    drop(listener);
    let rest = async { while connections.join_next().await.is_some() {} };
    let _cut_off = tokio::time::timeout(SHUTDOWN_GRACE, rest).await;
}

async fn connection(
    stream: UnixStream,
    router: Router,
    state: Arc<ListenerState>,
    mut stop: watch::Receiver<bool>,
) {
    let peer = match state.peers.peer(&stream) {
        Ok(peer) => peer,
        Err(error) => {
            tracing::warn!(%error, "the peer of a connection cannot be identified");
            return;
        }
    };
    // Shared with sessions, which outlive the HTTP on this connection.
    let slot = match state.acquire_slot(peer.uid) {
        Ok(slot) => Some(Arc::new(slot)),
        Err(limit) => return refuse(stream, &state, limit.into()).await,
    };
    let caller = state.caller(peer).await;
    let routes = TowerToHyperService::new(router);
    let service = service_fn(move |mut request: hyper::Request<Incoming>| {
        let routes = routes.clone();
        let caller = caller.clone();
        let slot = slot.clone();
        async move {
            match caller {
                Ok(caller) => {
                    request.extensions_mut().insert(caller);
                    request.extensions_mut().insert(slot);
                    routes.call(request).await
                }
                Err(failure) => Ok(failure.into_response()),
            }
        }
    });
    let http = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .serve_connection(TokioIo::new(stream), service)
        .with_upgrades();
    let mut http = std::pin::pin!(http);
    tokio::select! {
        // The client closed the connection; not worth a log line.
        _ended = http.as_mut() => {}
        () = stopped(&mut stop) => {
            http.as_mut().graceful_shutdown();
            let _cut_off = tokio::time::timeout(SHUTDOWN_GRACE, http).await;
        }
    }
}

/// Responds to one request with the limit that is reached, and closes. The number of such
/// connections is bounded, too.
async fn refuse(stream: UnixStream, state: &ListenerState, failure: ApiFailure) {
    let Ok(_permit) = state.refusals.try_acquire() else { return };
    let service = service_fn(move |_: hyper::Request<Incoming>| {
        let answer = failure.clone().into_response();
        async move { Ok::<_, Infallible>(answer) }
    });
    let http = hyper::server::conn::http1::Builder::new()
        .keep_alive(false)
        .serve_connection(TokioIo::new(stream), service);
    let _cut_off = tokio::time::timeout(REFUSAL_TIMEOUT, http).await;
}

/// Returns when the daemon is stopped, or when its parts are gone.
async fn stopped(stop: &mut watch::Receiver<bool>) {
    let _gone = stop.wait_for(|stop| *stop).await.is_err();
}

/// Cached callers, and the number of connections per user.
struct ListenerState {
    peers: Arc<dyn Peers>,
    mode: DaemonMode,
    callers: Mutex<BTreeMap<u32, (Instant, Caller)>>,
    counts: Mutex<ConnectionCounts>,
    refusals: Semaphore,
}

impl ListenerState {
    fn acquire_slot(self: &Arc<Self>, uid: u32) -> Result<ConnectionSlot, ConnectionLimit> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner).acquire(uid)?;
        Ok(ConnectionSlot { state: self.clone(), uid })
    }

    async fn caller(&self, peer: Peer) -> Result<Caller, ApiFailure> {
        let unexpired = |(since, caller): &(Instant, Caller)| {
            (since.elapsed() < CALLER_TTL).then(|| caller.clone())
        };
        let known = self
            .callers
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .get(&peer.uid)
            .and_then(unexpired);
        if let Some(caller) = known {
            return Ok(caller);
        }
        // The user database may be on a network.
        let peers = self.peers.clone();
        let mode = self.mode;
        let asked = tokio::task::spawn_blocking(move || Caller::admit(&*peers, peer, mode)).await;
        let caller = asked.map_err(|error| ApiFailure::Internal(error.to_string()))??;
        let mut known = self.callers.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= MAX_CALLERS {
            known.clear();
        }
        known.insert(peer.uid, (Instant::now(), caller.clone()));
        Ok(caller)
    }
}

/// Number of connections per user.
#[derive(Default)]
struct ConnectionCounts(BTreeMap<u32, usize>);

/// Limit on connections that is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ConnectionLimit {
    /// This user has the most connections of one user.
    User,
    /// All users together have the most connections of the daemon.
    Daemon,
}

impl ConnectionCounts {
    fn acquire(&mut self, uid: u32) -> Result<(), ConnectionLimit> {
        let all: usize =
            self.0.iter().filter(|(uid, _)| **uid != ROOT).map(|(_, taken)| taken).sum();
        if uid != ROOT && all >= MAX_CONNECTIONS {
            return Err(ConnectionLimit::Daemon);
        }
        let taken = self.0.entry(uid).or_default();
        if *taken >= MAX_CONNECTIONS_PER_USER {
            return Err(ConnectionLimit::User);
        }
        *taken += 1;
        Ok(())
    }

    fn release(&mut self, uid: u32) {
        if let Some(taken) = self.0.get_mut(&uid) {
            *taken -= 1;
            if *taken == 0 {
                self.0.remove(&uid);
            }
        }
    }
}

impl From<ConnectionLimit> for ApiFailure {
    fn from(limit: ConnectionLimit) -> Self {
        let (message, hint) = match limit {
            ConnectionLimit::User => (
                format!("this user has {MAX_CONNECTIONS_PER_USER} open connections, the limit"),
                "close some of them: followed logs, watches, sessions",
            ),
            ConnectionLimit::Daemon => (
                format!(
                    "the users of this daemon have {MAX_CONNECTIONS} open connections, the limit"
                ),
                "try again in a moment; an administrator can list them with `ss -xp`",
            ),
        };
        Self::Busy { message, hint: hint.to_owned() }
    }
}

/// Slot of a connection within its user's limit; stored in every request's extensions as
/// [`HeldSlot`].
pub(crate) struct ConnectionSlot {
    state: Arc<ListenerState>,
    uid: u32,
}

/// Slot of the connection that a request arrived on.
pub(crate) type HeldSlot = Option<Arc<ConnectionSlot>>;

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        self.state.counts.lock().unwrap_or_else(PoisonError::into_inner).release(self.uid);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_user_takes_all_places_and_root_gets_in_when_all_are_taken() {
        let mut counts = ConnectionCounts::default();
        let users = MAX_CONNECTIONS / MAX_CONNECTIONS_PER_USER;
        for uid in (1000..).take(users) {
            assert!((0..MAX_CONNECTIONS_PER_USER).all(|_| counts.acquire(uid).is_ok()));
            let limit = if uid == 999 + users as u32 {
                ConnectionLimit::Daemon
            } else {
                ConnectionLimit::User
            };
            assert_eq!(counts.acquire(uid), Err(limit));
        }
        assert_eq!(counts.acquire(7), Err(ConnectionLimit::Daemon));
        assert_eq!(counts.acquire(ROOT), Ok(()));
        counts.release(1000);
        assert_eq!(counts.acquire(7), Ok(()));
        assert_eq!(counts.acquire(1000), Err(ConnectionLimit::Daemon));
    }
}
