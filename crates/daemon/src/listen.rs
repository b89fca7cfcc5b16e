//! The socket: accepting connections, telling who they are, serving HTTP on them, with limits on how many there are and
//! how long a head may take. It knows no route.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use axum::Router;
use axum::response::IntoResponse;
use hyper::body::Incoming;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::watch;

use crate::auth::{Caller, Mode, Peer, Peers};
use crate::failure::Failure;

/// Connections of one user at a time: long polls, followed logs and sessions hold one each.
const MAX_CONNECTIONS_PER_USER: usize = 256;

/// A request's head must be there after this long; an idle connection is closed.
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);

/// How long the user database's answer is believed.
const CALLER_TTL: Duration = Duration::from_secs(60);

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
    let desk = Arc::new(Desk { peers, mode, known: Mutex::default(), seats: Mutex::default() });
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

async fn connection(stream: UnixStream, router: Router, desk: Arc<Desk>, mut stop: watch::Receiver<bool>) {
    let peer = match desk.peers.peer(&stream) {
        Ok(peer) => peer,
        Err(error) => {
            tracing::warn!(%error, "a connection from nobody");
            return;
        }
    };
    // Shared with what outlives the HTTP on this connection: a session holds it after the upgrade.
    let seat = desk.sit(peer.uid).map(Arc::new);
    let caller = match seat {
        Some(_) => desk.caller(peer).await,
        None => Err(Failure::Busy {
            message: format!("this user has {MAX_CONNECTIONS_PER_USER} connections open"),
            hint: "end some of them: followed logs, watches, sessions".to_owned(),
        }),
    };
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

/// Ends when the daemon is told to stop, or when nobody is left who could tell it.
async fn told(stop: &mut watch::Receiver<bool>) {
    let _gone = stop.wait_for(|stop| *stop).await.is_err();
}

/// Who is known, and how many connections each user has.
struct Desk {
    peers: Arc<dyn Peers>,
    mode: Mode,
    known: Mutex<BTreeMap<u32, (Instant, Caller)>>,
    seats: Mutex<BTreeMap<u32, usize>>,
}

impl Desk {
    /// Takes a seat; `None` when the user has no more.
    fn sit(self: &Arc<Self>, uid: u32) -> Option<Seat> {
        let mut seats = self.seats.lock().unwrap_or_else(PoisonError::into_inner);
        let taken = seats.entry(uid).or_default();
        if *taken >= MAX_CONNECTIONS_PER_USER {
            return None;
        }
        *taken += 1;
        Some(Seat { desk: self.clone(), uid })
    }

    async fn caller(&self, peer: Peer) -> Result<Caller, Failure> {
        let fresh =
            |(since, caller): &(Instant, Caller)| (since.elapsed() < CALLER_TTL).then(|| caller.clone());
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner).get(&peer.uid).and_then(fresh);
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

/// A connection's place among its user's, in every request's extensions as [`HeldSeat`].
pub(crate) struct Seat {
    desk: Arc<Desk>,
    uid: u32,
}

/// The seat of the connection that a request came on.
pub(crate) type HeldSeat = Option<Arc<Seat>>;

impl Drop for Seat {
    fn drop(&mut self) {
        let mut seats = self.desk.seats.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(taken) = seats.get_mut(&self.uid) {
            *taken -= 1;
            if *taken == 0 {
                seats.remove(&self.uid);
            }
        }
    }
}
