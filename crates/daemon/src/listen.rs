//! The socket: accepting connections, telling who they are, serving HTTP on them, with limits on
//! how many there are and how long a head may take. It knows no route.

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

use crate::auth::{Caller, Mode, Peer, Peers};
use crate::failure::Failure;

/// Connections of one user at a time: long polls, followed logs and sessions hold one each.
const MAX_CONNECTIONS_PER_USER: usize = 256;

/// Connections of all users at a time, root's aside: whoever mends things gets in.
const MAX_CONNECTIONS: usize = 2048;

/// Connections beyond these limits that are told so; more at a time are closed without a word.
const MAX_REFUSALS: usize = 64;

/// How long one that is told so may take to ask and to be answered.
const REFUSAL_TIMEOUT: Duration = Duration::from_secs(1);

/// A request's head must be there after this long; an idle connection is closed.
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);

/// How long the user database's answer is believed.
const CALLER_TTL: Duration = Duration::from_secs(60);

/// The user who administers the machine.
const ROOT: u32 = 0;

/// Callers remembered at most; beyond it all are asked for again.
const CALLERS: usize = 1024;

/// How long open requests may go on after the daemon was told to stop.
const LAST_REQUESTS: Duration = Duration::from_millis(500);

/// Serves connections until `stop` turns true.
pub(crate) async fn serve(
    listener: UnixListener,
    router: Router,
    mode: Mode,
    peers: Arc<dyn Peers>,
    mut stop: watch::Receiver<bool>,
) {
    let desk = Arc::new(Desk {
        peers,
        mode,
        known: Mutex::default(),
        seats: Mutex::default(),
        refusals: Semaphore::new(MAX_REFUSALS),
    });
    let mut connections = tokio::task::JoinSet::new();
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = told(&mut stop) => break,
        };
        match accepted {
            Ok((stream, _)) => {
                connections.spawn(connection(stream, router.clone(), desk.clone(), stop.clone()));
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
    let _cut_off = tokio::time::timeout(LAST_REQUESTS, rest).await;
}

async fn connection(
    stream: UnixStream,
    router: Router,
    desk: Arc<Desk>,
    mut stop: watch::Receiver<bool>,
) {
    let peer = match desk.peers.peer(&stream) {
        Ok(peer) => peer,
        Err(error) => {
            tracing::warn!(%error, "a connection from nobody");
            return;
        }
    };
    // Shared with what outlives the HTTP on this connection: a session holds it after the upgrade.
    let seat = match desk.sit(peer.uid) {
        Ok(seat) => Some(Arc::new(seat)),
        Err(full) => return refuse(stream, &desk, full.into()).await,
    };
    let caller = desk.caller(peer).await;
    let routes = TowerToHyperService::new(router);
    let service = service_fn(move |mut request: hyper::Request<Incoming>| {
        let (routes, caller, seat) = (routes.clone(), caller.clone(), seat.clone());
        async move {
            match caller {
                Ok(caller) => {
                    request.extensions_mut().insert(caller);
                    request.extensions_mut().insert(seat);
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
        // A client that hangs up is not worth a line.
        _ended = http.as_mut() => {}
        () = told(&mut stop) => {
            http.as_mut().graceful_shutdown();
            let _cut_off = tokio::time::timeout(LAST_REQUESTS, http).await;
        }
    }
}

/// Answers one request with why there is no place, and closes. What is held for those beyond the
/// limits is bounded, too.
async fn refuse(stream: UnixStream, desk: &Desk, failure: Failure) {
    let Ok(_place) = desk.refusals.try_acquire() else { return };
    let service = service_fn(move |_: hyper::Request<Incoming>| {
        let answer = failure.clone().into_response();
        async move { Ok::<_, Infallible>(answer) }
    });
    let http = hyper::server::conn::http1::Builder::new()
        .keep_alive(false)
        .serve_connection(TokioIo::new(stream), service);
    let _cut_off = tokio::time::timeout(REFUSAL_TIMEOUT, http).await;
}

/// Ends when the daemon is told to stop, or when nobody is left who could tell it.
async fn told(stop: &mut watch::Receiver<bool>) {
    let _gone = stop.wait_for(|stop| *stop).await.is_err();
}

/// Who is known, and how many connections each user has.
struct Desk {
    peers: Arc<dyn Peers>,
    mode: Mode,
    known: Mutex<BTreeMap<u32, (Instant, Caller)>>,
    seats: Mutex<Seats>,
    refusals: Semaphore,
}

impl Desk {
    fn sit(self: &Arc<Self>, uid: u32) -> Result<Seat, Full> {
        self.seats.lock().unwrap_or_else(PoisonError::into_inner).take(uid)?;
        Ok(Seat { desk: self.clone(), uid })
    }

    async fn caller(&self, peer: Peer) -> Result<Caller, Failure> {
        let fresh = |(since, caller): &(Instant, Caller)| {
            (since.elapsed() < CALLER_TTL).then(|| caller.clone())
        };
        let known = self
            .known
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .get(&peer.uid)
            .and_then(fresh);
        if let Some(caller) = known {
            return Ok(caller);
        }
        // The user database may be on a network.
        let (peers, mode) = (self.peers.clone(), self.mode);
        let asked = tokio::task::spawn_blocking(move || Caller::admit(&*peers, peer, mode)).await;
        let caller = asked.map_err(|error| Failure::Internal(error.to_string()))??;
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= CALLERS {
            known.clear();
        }
        known.insert(peer.uid, (Instant::now(), caller.clone()));
        Ok(caller)
    }
}

/// How many connections each user has.
#[derive(Default)]
struct Seats(BTreeMap<u32, usize>);

/// There is no place for another connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Full {
    /// This user has as many as a user may have.
    User,
    /// All together have as many as the daemon serves.
    Daemon,
}

impl Seats {
    fn take(&mut self, uid: u32) -> Result<(), Full> {
        let all: usize =
            self.0.iter().filter(|(uid, _)| **uid != ROOT).map(|(_, taken)| taken).sum();
        if uid != ROOT && all >= MAX_CONNECTIONS {
            return Err(Full::Daemon);
        }
        let taken = self.0.entry(uid).or_default();
        if *taken >= MAX_CONNECTIONS_PER_USER {
            return Err(Full::User);
        }
        *taken += 1;
        Ok(())
    }

    fn leave(&mut self, uid: u32) {
        if let Some(taken) = self.0.get_mut(&uid) {
            *taken -= 1;
            if *taken == 0 {
                self.0.remove(&uid);
            }
        }
    }
}

impl From<Full> for Failure {
    fn from(full: Full) -> Self {
        let (message, hint) = match full {
            Full::User => (
                format!("this user has {MAX_CONNECTIONS_PER_USER} connections open"),
                "end some of them: followed logs, watches, sessions",
            ),
            Full::Daemon => (
                format!("the users of this daemon have {MAX_CONNECTIONS} connections open"),
                "try again in a moment; an administrator sees with `ss -xp` whose they are",
            ),
        };
        Self::Busy { message, hint: hint.to_owned() }
    }
}

/// A connection's place among its user's, in every request's extensions as [`HeldSeat`].
pub(crate) struct Seat {
    desk: Arc<Desk>,
    uid: u32,
}

/// The seat of the connection that a request came on.
pub(crate) type HeldSeat = Option<Arc<Seat>>;

impl Drop for Seat {
    fn drop(&mut self) {
        self.desk.seats.lock().unwrap_or_else(PoisonError::into_inner).leave(self.uid);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_user_takes_all_places_and_root_gets_in_when_all_are_taken() {
        let mut seats = Seats::default();
        let users = MAX_CONNECTIONS / MAX_CONNECTIONS_PER_USER;
        for uid in (1000..).take(users) {
            assert!((0..MAX_CONNECTIONS_PER_USER).all(|_| seats.take(uid).is_ok()));
            let full = if uid == 999 + users as u32 { Full::Daemon } else { Full::User };
            assert_eq!(seats.take(uid), Err(full));
        }
        assert_eq!(seats.take(7), Err(Full::Daemon));
        assert_eq!(seats.take(ROOT), Ok(()));
        seats.leave(1000);
        assert_eq!(seats.take(7), Ok(()));
        assert_eq!(seats.take(1000), Err(Full::Daemon));
    }
}
