//! Reads the addresses of this machine and the sockets on which a process listens, from /proc; and asks a
//! dashboard whether it answers without a token.

use std::collections::BTreeSet;
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream};
use std::path::Path;
use std::time::Duration;

/// State of a listening socket in `/proc/net/tcp` (include/net/tcp_states.h).
const LISTENING: &str = "0A";

/// Longest wait for a dashboard on this machine.
const PATIENCE: Duration = Duration::from_secs(3);

/// Longest answer that is read: that of a dashboard has some 400 bytes.
const ANSWER_BYTES: u64 = 4096;

/// Returns the addresses of this machine.
pub fn own_addresses() -> BTreeSet<IpAddr> {
    let trie = fs::read_to_string("/proc/net/fib_trie").unwrap_or_default();
    let sixes = fs::read_to_string("/proc/net/if_inet6").unwrap_or_default();
    let six = |line: &str| {
        let bits = u128::from_str_radix(line.split(' ').next()?, 16).ok()?;
        Some(IpAddr::V6(Ipv6Addr::from_bits(bits)))
    };
    fours(&trie).into_iter().chain(sixes.lines().filter_map(six)).collect()
}

/// Returns the local addresses in a routing table: a line with the address is before `/32 host LOCAL`.
fn fours(trie: &str) -> BTreeSet<IpAddr> {
    let lines: Vec<&str> = trie.lines().collect();
    let address = |pair: &[&str]| {
        let is_local = pair[1].trim() == "/32 host LOCAL";
        pair[0].trim().strip_prefix("|-- ").filter(|_| is_local)?.parse().ok()
    };
    lines.windows(2).filter_map(address).collect()
}

/// Returns the addresses on which a process listens; `None` where its sockets cannot be listed.
pub fn listens(process: &Path) -> Option<Vec<SocketAddr>> {
    let links = fs::read_dir(process.join("fd")).ok()?.flatten();
    let inode = |link: fs::DirEntry| {
        let target = fs::read_link(link.path()).ok()?;
        let number = target.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?;
        Some(number.to_owned())
    };
    let inodes: BTreeSet<String> = links.filter_map(inode).collect();
    let tables = ["net/tcp", "net/tcp6"].map(|name| fs::read_to_string(process.join(name)));
    let mut found: Vec<SocketAddr> = tables
        .iter()
        .flatten()
        .flat_map(|table| table.lines())
        .filter_map(listening)
        .filter(|(inode, _)| inodes.contains(*inode))
        .map(|(_, address)| address)
        .collect();
    found.sort();
    Some(found)
}

/// Returns inode and address of a line of `/proc/net/tcp` or `tcp6` that is a listening socket.
fn listening(line: &str) -> Option<(&str, SocketAddr)> {
    let fields: Vec<&str> = line.split_ascii_whitespace().collect();
    let inode = fields.get(9)?;
    let local = fields.get(1).filter(|_| fields[3] == LISTENING)?;
    let (address, port) = local.split_once(':')?;
    Some((inode, SocketAddr::new(ip(address)?, u16::from_str_radix(port, 16).ok()?)))
}

/// Reads an address: words of 32 bits in hexadecimal, in the byte order of the machine.
fn ip(text: &str) -> Option<IpAddr> {
    let word = |at: usize| u32::from_str_radix(text.get(at..at + 8)?, 16).ok();
    if text.len() == 8 {
        return Some(IpAddr::V4(Ipv4Addr::from(word(0)?.to_ne_bytes())));
    }
    let mut bytes = [0; 16];
    for (at, part) in bytes.chunks_exact_mut(4).enumerate() {
        part.copy_from_slice(&word(at * 8)?.to_ne_bytes());
    }
    Some(IpAddr::V6(Ipv6Addr::from(bytes)))
}

/// Returns whether a server on this machine tells the version of Ray without a token; `None` if it does not
/// answer. A server of metrics answers every question with them.
pub fn tells_version(address: &SocketAddr) -> Option<bool> {
    let text = answer(address)?;
    Some(text.split(' ').nth(1) == Some("200") && text.contains("\"ray_version\""))
}

/// Returns the answer of a server to the question for the version of Ray, as far as it is short; `None` where
/// nothing came in time.
fn answer(address: &SocketAddr) -> Option<String> {
    let mut place = *address;
    match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => place.set_ip(Ipv4Addr::LOCALHOST.into()),
        IpAddr::V6(ip) if ip.is_unspecified() => place.set_ip(Ipv6Addr::LOCALHOST.into()),
        _ => {}
    }
    let mut stream = TcpStream::connect_timeout(&place, PATIENCE).ok()?;
    stream.set_read_timeout(Some(PATIENCE)).ok()?;
    stream.write_all(b"GET /api/version HTTP/1.0\r\nHost: localhost\r\n\r\n").ok()?;
    let mut bytes = Vec::new();
    // A timeout ends an answer as its end does, but for one that has not begun.
    let end = stream.take(ANSWER_BYTES).read_to_end(&mut bytes);
    (end.is_ok() || !bytes.is_empty()).then(|| String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sockets_that_listen_are_told() {
        let four = "   0: 00000000:18EB 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 4711 1 0 100";
        assert_eq!(listening(four), Some(("4711", "0.0.0.0:6379".parse().unwrap())));
        let six = "   1: 0000000000000000FFFF00000100007F:1F90 00000000000000000000000000000000:0000 0A 0:0 00:0 0 0 0 12 1";
        assert_eq!(listening(six), Some(("12", "[::ffff:127.0.0.1]:8080".parse().unwrap())));
        let open = "   0: 0100007F:18EB 00000000:0000 01 0:0 00:0 0 0 0 4711 1";
        assert_eq!(listening(open), None);
        assert_eq!(listening("  sl  local_address rem_address   st tx_queue"), None);
    }

    #[test]
    fn local_addresses_are_told_from_routes() {
        let trie = "\
Main:
  +-- 0.0.0.0/0 3 0 5
     |-- 192.0.2.0
        /24 link UNICAST
     |-- 192.0.2.2
        /32 host LOCAL
     |-- 192.0.2.255
        /32 link BROADCAST
";
        assert_eq!(fours(trie), BTreeSet::from(["192.0.2.2".parse().unwrap()]));
        assert!(own_addresses().contains(&IpAddr::V4(Ipv4Addr::LOCALHOST)));
    }
}
