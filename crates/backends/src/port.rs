//! Rendezvous ports: the range they are leased from, and how a port is reserved without listening
//! on it.

use std::collections::BTreeSet;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddrV4, SocketAddrV6};
use std::ops::RangeInclusive;
use std::os::fd::OwnedFd;

use rustix::net::sockopt::set_socket_reuseaddr;
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, socket_with};

/// Range that ports are leased from when it does not overlap the kernel's ephemeral range (by
/// default 32768–60999): above the registered services that GPU hosts usually run, below the
/// ephemeral ports.
pub const PREFERRED: RangeInclusive<u16> = 20_000..=29_999;

/// Minimum number of ports of a usable range.
const MIN_PORTS: u16 = 1000;

/// Returns the range to lease from, given the ephemeral range: the part of [`PREFERRED`] outside
/// it, else the larger of the ranges below and above it. No outgoing connection can take a port of
/// the result.
#[must_use]
pub fn lease_range(ephemeral: RangeInclusive<u16>) -> RangeInclusive<u16> {
    let low = *ephemeral.start();
    let high = *ephemeral.end();
    let first = *PREFERRED.start();
    let last = *PREFERRED.end();
    if high < first || low > last {
        return PREFERRED;
    }
    let candidates = [
        first..=last.min(low.saturating_sub(1)),
        first.max(high.saturating_add(1))..=last,
        1024..=low.saturating_sub(1).max(1024),
        high.saturating_add(1)..=u16::MAX,
    ];
    let size = |range: &RangeInclusive<u16>| range.end().saturating_sub(*range.start());
    let preferred = candidates[..2].iter().find(|range| size(range) >= MIN_PORTS);
    preferred
        .or_else(|| candidates[2..].iter().max_by_key(|range| size(range)))
        .cloned()
        .unwrap_or(PREFERRED)
}

/// Parses the contents of `/proc/sys/net/ipv4/ip_local_port_range`.
#[must_use]
pub fn parse_ephemeral(text: &str) -> Option<RangeInclusive<u16>> {
    let mut numbers = text.split_ascii_whitespace();
    Some(numbers.next()?.parse().ok()?..=numbers.next()?.parse().ok()?)
}

/// Reserves a port: binds it on all addresses without listening. No other process can bind it, and
/// early connections are refused, as by a server that is not up yet.
pub fn hold(port: u16) -> io::Result<OwnedFd> {
    bind_any(port, false)
}

/// Reserves a port as [`hold`] does, for a program that uses the same port again: connections of
/// the previous run in TIME_WAIT do not prevent it, a listener does.
pub fn hold_again(port: u16) -> io::Result<OwnedFd> {
    bind_any(port, true)
}

fn bind_any(port: u16, again: bool) -> io::Result<OwnedFd> {
    let open = |family| {
        let socket = socket_with(family, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
        set_socket_reuseaddr(&socket, again)?;
        Ok::<_, rustix::io::Errno>(socket)
    };
    let dual = open(AddressFamily::INET6).and_then(|socket| {
        bind(&socket, &SocketAddrV6::new(Ipv6Addr::UNSPECIFIED, port, 0, 0))?;
        Ok(socket)
    });
    match dual {
        Ok(socket) => Ok(socket),
        Err(rustix::io::Errno::ADDRINUSE) => Err(rustix::io::Errno::ADDRINUSE.into()),
        Err(_) => {
            let socket = open(AddressFamily::INET)?;
            bind(&socket, &SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, port))?;
            Ok(socket)
        }
    }
}

/// The ports leased to live attempts of this daemon.
#[derive(Debug)]
pub struct Leases {
    range: RangeInclusive<u16>,
    taken: BTreeSet<u16>,
    next: u16,
}

impl Leases {
    /// Creates an empty set of leases. `seed` spreads the daemons of several users over the range.
    #[must_use]
    pub fn new(range: RangeInclusive<u16>, seed: u32) -> Self {
        let size = u32::from(*range.end() - *range.start()) + 1;
        let next = *range.start() + (seed % size) as u16;
        Self { range, taken: BTreeSet::new(), next }
    }

    /// Leases a port that no live attempt has and for which `is_free` holds; `None` when the range
    /// is exhausted.
    pub fn take(&mut self, is_free: impl Fn(u16) -> bool) -> Option<u16> {
        for _ in self.range.clone() {
            let port = self.next;
            self.next = if port == *self.range.end() { *self.range.start() } else { port + 1 };
            if !self.taken.contains(&port) && is_free(port) {
                self.taken.insert(port);
                return Some(port);
            }
        }
        None
    }

    /// Marks the port of an adopted attempt as leased.
    pub fn keep(&mut self, port: u16) {
        self.taken.insert(port);
    }

    /// Ends the lease of a port.
    pub fn release(&mut self, port: u16) {
        self.taken.remove(&port);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leases_stay_out_of_the_ephemeral_range() {
        for (ephemeral, expected) in [
            (32_768..=60_999, 20_000..=29_999),
            (25_000..=60_999, 20_000..=24_999),
            (10_000..=22_000, 22_001..=29_999),
            (1_024..=65_000, 65_001..=65_535),
            (15_000..=64_000, 1_024..=14_999),
        ] {
            assert_eq!(lease_range(ephemeral), expected);
        }
        assert_eq!(parse_ephemeral("32768\t60999\n"), Some(32_768..=60_999));
        assert_eq!(parse_ephemeral("x"), None);
    }

    #[test]
    fn a_lease_is_unique_until_it_is_given_back() {
        let mut leases = Leases::new(20_000..=20_002, 7);
        let first = leases.take(|_| true).unwrap();
        assert_eq!(first, 20_001);
        let rest = [leases.take(|_| true), leases.take(|_| true), leases.take(|_| true)];
        assert_eq!(rest, [Some(20_002), Some(20_000), None]);
        leases.release(first);
        assert_eq!(leases.take(|_| true), Some(first));
    }

    /// Requires one of a few tries to succeed: another program may bind a released port at once.
    fn once_in_a_few(attempt: impl Fn() -> std::io::Result<()>) {
        let tries: Vec<_> = (0..8).map_while(|_| attempt().err()).collect();
        assert!(tries.len() < 8, "{tries:?}");
    }

    #[test]
    fn a_port_is_held_again_beside_old_connections_and_not_beside_a_listener() {
        once_in_a_few(|| {
            let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
            let port = listener.local_addr().unwrap().port();
            assert!(hold_again(port).is_err());
            // The server closes first, so that its end of the connection is remembered.
            let client = std::net::TcpStream::connect(("127.0.0.1", port)).unwrap();
            let (server, _) = listener.accept().unwrap();
            drop((server, listener));
            drop(client);
            assert!(hold(port).is_err());
            hold_again(port).map(drop)
        });
    }

    #[test]
    fn a_held_port_refuses_connections_and_binds() {
        once_in_a_few(|| {
            let held = hold(0).unwrap();
            let address =
                std::net::SocketAddr::try_from(rustix::net::getsockname(&held).unwrap()).unwrap();
            let port = address.port();
            assert!(hold(port).is_err());
            assert!(std::net::TcpStream::connect(("127.0.0.1", port)).is_err());
            drop(held);
            std::net::TcpListener::bind(("127.0.0.1", port)).map(drop)
        });
    }
}
