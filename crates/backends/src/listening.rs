//! TCP sockets of this machine that listen, and those that the processes of a job listen on: where a proxy may connect
//! for the job's user. It connects to nothing.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;

use crate::probe::processes::{EnvVariables, ranks_of};
use crate::process::read_at_once;

/// State of a listening socket in `/proc/net/tcp` (`TCP_LISTEN`).
const LISTEN: &str = "0A";

/// Socket that listens on this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListeningSocket {
    /// Address that it is bound to; unspecified for all addresses.
    pub address: SocketAddr,
    /// Uid of the user that opened it.
    pub uid: u32,
    inode: u64,
}

/// Returns all listening sockets of the network namespace of this process.
///
/// # Errors
/// `/proc` cannot be read.
pub fn listening_sockets() -> io::Result<Vec<ListeningSocket>> {
    let mut found = Vec::new();
    for table in ["/proc/self/net/tcp", "/proc/self/net/tcp6"] {
        match read_at_once(Path::new(table)) {
            Ok(text) => {
                found.extend(String::from_utf8_lossy(&text).lines().filter_map(parse));
            }
            // A kernel without IPv6 has no such table.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    Ok(found)
}

/// Returns the address at which a process of a user's job listens on a port, to connect to from this machine. `None` when
/// none does, or none that this process may see.
///
/// # Errors
/// `/proc` cannot be read.
pub fn listens_at(
    job: u64,
    index: Option<u32>,
    port: u16,
    uid: u32,
) -> io::Result<Option<SocketAddr>> {
    let mut sockets = listening_sockets()?;
    // An environment is what a process says of itself: another user's may name the job, too.
    sockets.retain(|socket| socket.address.port() == port && socket.uid == uid);
    if sockets.is_empty() {
        return Ok(None);
    }
    let ranks = ranks_of(job, index, &EnvVariables::new());
    let inodes: BTreeSet<u64> =
        ranks.iter().flatten().flat_map(|process| open_sockets(process.pid)).collect();
    let own = sockets.iter().filter(|socket| inodes.contains(&socket.inode));
    // A program on both families is the same on both.
    Ok(own.map(|socket| reachable(socket.address)).min_by_key(SocketAddr::is_ipv6))
}

/// Returns whether the sockets behind an address are those of a user, and there is one. A connection that was made
/// before this call leads to that user, if it does now.
///
/// # Errors
/// `/proc` cannot be read.
pub fn belongs_to(address: SocketAddr, uid: u32) -> io::Result<bool> {
    let mut sockets = listening_sockets()?;
    sockets.retain(|socket| reachable(socket.address) == address);
    Ok(!sockets.is_empty() && sockets.iter().all(|socket| socket.uid == uid))
}

/// Returns the address by which this machine reaches a socket: loopback for one that is bound to all addresses, of the
/// same family, so that another socket on the same port is not meant.
fn reachable(bound: SocketAddr) -> SocketAddr {
    let ip = match bound.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, bound.port())
}

/// Returns the inodes of the sockets that a process has open; none where this user may not see them.
fn open_sockets(pid: u32) -> Vec<u64> {
    let Ok(entries) = fs::read_dir(format!("/proc/{pid}/fd")) else { return Vec::new() };
    let links = entries.flatten().filter_map(|entry| fs::read_link(entry.path()).ok());
    let inode = |link: std::path::PathBuf| {
        link.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok()
    };
    links.filter_map(inode).collect()
}

/// Parses a line of `/proc/net/tcp`; `None` for a socket that does not listen, and for the heading.
fn parse(line: &str) -> Option<ListeningSocket> {
    let fields: Vec<&str> = line.split_ascii_whitespace().collect();
    let [_, local, _, LISTEN, _, _, _, uid, _, inode, ..] = fields[..] else { return None };
    let (ip, port) = local.split_once(':')?;
    let port = u16::from_str_radix(port, 16).ok()?;
    let address = SocketAddr::new(parse_ip(ip)?, port);
    Some(ListeningSocket { address, uid: uid.parse().ok()?, inode: inode.parse().ok()? })
}

/// Parses an address as the kernel writes it: words of 32 bits, each in the byte order of the machine.
fn parse_ip(text: &str) -> Option<IpAddr> {
    let word = |at: usize| {
        let word = u32::from_str_radix(text.get(8 * at..8 * at + 8)?, 16).ok()?;
        Some(word.to_ne_bytes())
    };
    match text.len() {
        8 => Some(Ipv4Addr::from(word(0)?).into()),
        32 => {
            let mut bytes = [0; 16];
            for at in 0..4 {
                bytes[4 * at..4 * at + 4].copy_from_slice(&word(at)?);
            }
            Some(Ipv6Addr::from(bytes).into())
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use rustix::process::getuid;

    use super::*;

    #[test]
    fn lines_of_the_kernel_are_read() {
        let word = |bytes: [u8; 4]| format!("{:08X}", u32::from_ne_bytes(bytes));
        let line = |ip: &str, state: &str| {
            format!(
                "  0: {ip}:1F90 00000000:0000 {state} 00000000:00000000 00:00000000 00000000  1000        0 34567 1 0"
            )
        };
        let v4 = word([127, 0, 0, 1]);
        let parsed = parse(&line(&v4, LISTEN)).unwrap();
        assert_eq!(parsed.address, "127.0.0.1:8080".parse().unwrap());
        assert_eq!((parsed.uid, parsed.inode), (1000, 34567));
        let v6 = [[0; 4], [0; 4], [0; 4], [0, 0, 0, 1]].map(word).concat();
        assert_eq!(parse(&line(&v6, LISTEN)).unwrap().address, "[::1]:8080".parse().unwrap());
        assert_eq!(parse(&line(&v4, "01")), None, "a connection");
        assert_eq!(parse("  sl  local_address rem_address   st tx_queue"), None);
        assert_eq!(parse(""), None);
    }

    #[test]
    fn a_socket_of_this_process_is_found_with_its_user() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let is_own = |socket: &ListeningSocket| socket.address == address;
        let found = listening_sockets().unwrap().into_iter().find(is_own).unwrap();
        assert_eq!(found.uid, getuid().as_raw());
        assert!(open_sockets(std::process::id()).contains(&found.inode));
        assert!(belongs_to(address, found.uid).unwrap());
        assert!(!belongs_to(address, found.uid + 1).unwrap());
        let port = address.port();
        assert_eq!(listens_at(1, None, port, found.uid).unwrap(), None, "no process of that job");
        drop(listener);
        assert!(!belongs_to(address, found.uid).unwrap());
        assert!(!listening_sockets().unwrap().iter().any(is_own));
    }

    #[test]
    fn a_socket_on_all_addresses_is_reached_by_loopback_of_its_family() {
        for (bound, expected) in [
            ("0.0.0.0:80", "127.0.0.1:80"),
            ("[::]:80", "[::1]:80"),
            ("127.0.0.1:80", "127.0.0.1:80"),
            ("10.0.0.3:80", "10.0.0.3:80"),
        ] {
            assert_eq!(reachable(bound.parse().unwrap()), expected.parse().unwrap());
        }
    }
}
