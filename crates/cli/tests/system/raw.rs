//! Requests as a hostile client would write them, byte by byte, from a thread with that user's
//! credentials.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;

use muster_backends::local::session::{Decoder, Frame};
use rustix::process::{Gid, Uid};
use serde_json::Value;

/// Runs `act` on a thread that is this user, with no group but the one given, for good.
pub fn as_user<T: Send>(uid: u32, gid: u32, act: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            // Credentials belong to a thread for the kernel; they end with it.
            let uid = Uid::from_raw(uid);
            let gid = Gid::from_raw(gid);
            rustix::thread::set_thread_groups(&[]).unwrap();
            rustix::thread::set_thread_res_gid(gid, gid, gid).unwrap();
            rustix::thread::set_thread_res_uid(uid, uid, uid).unwrap();
            act()
        });
        thread.join().unwrap()
    })
}

/// Sends a request with extra headers, and returns status and body.
pub fn send(socket: &Path, line: &str, head: &str, body: &Value) -> (u16, Value) {
    let body = if body.is_null() { String::new() } else { body.to_string() };
    let mut stream = UnixStream::connect(socket).unwrap();
    let length = body.len();
    let request = format!(
        "{line} HTTP/1.1\r\nhost: muster\r\nconnection: close\r\ncontent-type: application/json\r\n{head}\
         content-length: {length}\r\n\r\n{body}"
    );
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    (status, serde_json::from_str(body).unwrap_or(Value::String(body.to_owned())))
}

/// A submission of a script under a key.
pub fn submission(key: &str, script: &str) -> Value {
    serde_json::json!({
        "key": key,
        "source": "",
        "overrides": {"run": ["sh", "-c", script]},
        "env": {"PATH": "/usr/bin:/bin"},
        "workdir": "/",
        "umask": 0o022,
    })
}

/// The job's number in the answer to a submission.
#[track_caller]
pub fn number((status, body): &(u16, Value)) -> u64 {
    assert_eq!(*status, 200, "{body}");
    body["jobs"][0]["job"].as_u64().unwrap()
}

/// Opens a terminal session beside rank 0 of a job; `Err` with status and body when it is refused.
pub fn attach(socket: &Path, job: u64) -> Result<UnixStream, (u16, String)> {
    let mut stream = UnixStream::connect(socket).unwrap();
    stream.set_read_timeout(Some(crate::site::PATIENCE)).unwrap();
    let request = format!(
        "POST /v1/jobs/{job}/attach HTTP/1.1\r\nhost: muster\r\nconnection: upgrade\r\nupgrade: muster-session\r\n\
         content-length: 0\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).unwrap();
    // The head byte by byte: what follows belongs to the session.
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") && stream.read(&mut byte).unwrap() == 1 {
        head.push(byte[0]);
    }
    let head = String::from_utf8(head).unwrap();
    match head.split(' ').nth(1).unwrap().parse().unwrap() {
        101 => Ok(stream),
        status => {
            let length =
                head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap();
            let mut body = vec![0; length.trim().parse().unwrap()];
            stream.read_exact(&mut body).unwrap();
            Err((status, String::from_utf8(body).unwrap()))
        }
    }
}

/// Types into a shell beside a task until it exits, and returns what the terminal showed.
pub fn type_into(mut session: UnixStream, keys: &str) -> String {
    let hello = serde_json::json!({"hello": "terminal", "target": "shell", "term": "dumb", "rows": 30, "cols": 200});
    session.write_all(format!("{hello}\n").as_bytes()).unwrap();
    session.write_all(&Frame::Data(keys.as_bytes().to_vec()).encode()).unwrap();
    let mut decoder = Decoder::default();
    let mut shown = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        match decoder.next_frame().unwrap() {
            Some(Frame::Data(bytes)) => shown.extend(bytes),
            Some(Frame::Window { .. }) => {}
            Some(end @ (Frame::Exit { .. } | Frame::Error(_))) => {
                assert_eq!(end, Frame::Exit { code: 0 }, "{}", String::from_utf8_lossy(&shown));
                return String::from_utf8(shown).unwrap();
            }
            None => {
                let count = session.read(&mut buffer).unwrap();
                assert!(count > 0, "the session broke: {}", String::from_utf8_lossy(&shown));
                decoder.push(&buffer[..count]);
            }
        }
    }
}
