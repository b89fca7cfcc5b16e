//! Readiness probe of a replica of a service: one successful connection to its port on this machine
//! makes it ready. It never ends a task: whether the service is healthy is not checked.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream};
use std::time::Duration;

/// Pause between the first two probes; it doubles each time.
const PAUSE_MIN: Duration = Duration::from_millis(100);
/// Longest pause between two probes.
const PAUSE_MAX: Duration = Duration::from_secs(2);
/// Timeout of one connection. A local connection succeeds at once, or the service's accept queue is
/// full and it is not ready.
const PATIENCE: Duration = Duration::from_millis(50);

/// Probes a port until it accepts a connection.
#[derive(Debug)]
pub(super) struct Readiness {
    port: u16,
    pause: Duration,
    /// Time of the next probe; `None` before the task runs, and once it is ready.
    pub(super) due: Option<Duration>,
    pub(super) is_ready: bool,
}

impl Readiness {
    pub(super) fn new(port: u16) -> Self {
        Self { port, pause: PAUSE_MIN, due: None, is_ready: false }
    }

    /// Starts probing, once the user's program runs.
    pub(super) fn begin(&mut self, now: Duration) {
        self.due = Some(now + self.pause);
    }

    /// Tries to connect. Returns true when that succeeds.
    pub(super) fn probe(&mut self, now: Duration) -> bool {
        let addresses: [SocketAddr; 2] =
            [(Ipv4Addr::LOCALHOST, self.port).into(), (Ipv6Addr::LOCALHOST, self.port).into()];
        self.is_ready = addresses.iter().any(|at| TcpStream::connect_timeout(at, PATIENCE).is_ok());
        self.pause = (self.pause * 2).min(PAUSE_MAX);
        self.due = (!self.is_ready).then_some(now + self.pause);
        self.is_ready
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_ready_once_the_port_is_listened_on() {
        // Bound from the start: a port that was only checked to be free may be in use by now.
        let held = crate::port::hold(0).unwrap();
        let port = SocketAddr::try_from(rustix::net::getsockname(&held).unwrap()).unwrap().port();
        let mut readiness = Readiness::new(port);
        readiness.begin(Duration::ZERO);
        assert_eq!(readiness.due, Some(PAUSE_MIN));
        assert!(!readiness.probe(Duration::from_secs(1)));
        assert_eq!(readiness.due, Some(Duration::from_secs(1) + PAUSE_MIN * 2));
        rustix::net::listen(&held, 8).unwrap();
        assert!(readiness.probe(Duration::from_secs(2)));
        assert_eq!(readiness.due, None);
    }
}
