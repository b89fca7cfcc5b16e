//! The relay to a port of the head's node passes bytes in both directions, and ends with either side.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]
#![allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "the test runs Python")]

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::process::{Command, Stdio};

use muster_ray::RELAY;

#[test]
fn bytes_pass_both_ways_until_the_server_closes() {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let port = listener.local_addr().unwrap().port().to_string();
    let mut relay = Command::new("python3")
        .args(["-c", RELAY, &port])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let request: Vec<u8> = (0..=255).cycle().take(300_000).collect();
    let answer: Vec<u8> = request.iter().rev().copied().collect();
    let expected = request.clone();
    let sent = answer.clone();
    let server = std::thread::spawn(move || {
        let (mut connection, _) = listener.accept().unwrap();
        let mut read = vec![0; expected.len()];
        connection.read_exact(&mut read).unwrap();
        assert_eq!(read, expected);
        connection.write_all(&sent).unwrap();
    });
    let mut input = relay.stdin.take().unwrap();
    input.write_all(&request).unwrap();
    // The input stays open: the end of the server ends the relay.
    let mut read = Vec::new();
    relay.stdout.take().unwrap().read_to_end(&mut read).unwrap();
    assert_eq!(read, answer);
    assert!(relay.wait().unwrap().success());
    drop(input);
    server.join().unwrap();
}
