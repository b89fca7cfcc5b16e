//! Terminal sessions: attaching to a task's own terminal, and a shell beside a task.
#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod common;

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use common::{Groups, PATIENCE, Rig, gang, id, is_running, stop, until};
use muster_backends::driver::Backend;
use muster_backends::local::session::{self, Decoder, Frame, open};
use muster_backends::order::GangOrder;
use muster_backends::socket;
use muster_backends::wire::{Hello, TerminalTarget};
use muster_model::{AttemptId, Rank, TaskExit};

/// A client with a terminal.
struct Person {
    stream: UnixStream,
    decoder: Decoder,
    shown: String,
    last: Option<Frame>,
}

impl Person {
    fn at(rig: &Rig, id: AttemptId, target: TerminalTarget) -> Self {
        let path = rig.backend().task_socket(id, Rank(0)).unwrap();
        let mut stream = session::connect(&path).unwrap();
        stream.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
        let hello = Hello::Terminal {
            target,
            term: Some("dumb".into()),
            rows: 33,
            cols: 111,
            command: Vec::new(),
        };
        stream.write_all(&open(&hello)).unwrap();
        Self { stream, decoder: Decoder::default(), shown: String::new(), last: None }
    }

    fn types(&mut self, text: &str) {
        self.stream.write_all(&Frame::Data(text.into()).encode()).unwrap();
    }

    /// Reads until the condition holds; panics after [`PATIENCE`].
    fn until(&mut self, what: &str, holds: impl Fn(&Self) -> bool) {
        let start = Instant::now();
        let mut buffer = [0; 4096];
        while !holds(self) {
            assert!(
                start.elapsed() < PATIENCE,
                "timed out waiting for {what}; shown: {:?}, {:?}",
                self.shown,
                self.last
            );
            if let Ok(count) = self.stream.read(&mut buffer) {
                self.decoder.push(&buffer[..count]);
            }
            while let Some(frame) = self.decoder.next_frame().unwrap() {
                match frame {
                    Frame::Data(bytes) => self.shown.push_str(&String::from_utf8_lossy(&bytes)),
                    other => self.last = Some(other),
                }
            }
        }
    }

    fn sees(&mut self, text: &str) {
        self.until(text, |person| person.shown.contains(text));
    }

    fn ends_with(&mut self, frame: &Frame) {
        self.until(&format!("{frame:?}"), |person| person.last.as_ref() == Some(frame));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_interactive_task_is_attached_left_and_attached_again() {
    let mut rig = Rig::new(Groups::Found);
    let script = "test -t 0 && test -t 1 && echo on-a-terminal; echo size $(stty size); \
                  while read line; do echo \"got <$line>\"; [ \"$line\" = bye ] && exit 4; done";
    let order = GangOrder { interactive: true, ..gang(id(1, 1), &[script]) };
    rig.start(&order).await;
    let mut first = Person::at(&rig, order.id, TerminalTarget::Auto);
    first.sees("on-a-terminal");
    first.types("hello\n");
    first.sees("got <hello>");
    drop(first);

    // The task continues, and later clients see the earlier output.
    let mut second = Person::at(&rig, order.id, TerminalTarget::Main);
    second.sees("got <hello>");
    let mut third = Person::at(&rig, order.id, TerminalTarget::Main);
    third.sees("got <hello>");
    second.types("bye\n");
    third.sees("got <bye>");
    second.ends_with(&Frame::Exit { code: 4 });
    third.ends_with(&Frame::Exit { code: 4 });
    assert_eq!(rig.exit().await, TaskExit::Code { code: 4 });
    assert!(rig.log(order.id, 0).contains("got <hello>"), "terminal output is logged too");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_shell_beside_a_task_has_its_directory_and_devices_and_ends_with_it() {
    let mut rig = Rig::new(Groups::Found);
    let mut order = gang(id(1, 1), &["while :; do sleep 0.05; done"]);
    order.env.insert("SHELL".into(), "/bin/sh".into());
    order.workdir = "/usr".into();
    rig.start(&order).await;

    let mut person = Person::at(&rig, order.id, TerminalTarget::Auto);
    person.types(
        "echo place=$PWD gpus=$CUDA_VISIBLE_DEVICES job=$MUSTER_JOB_ID term=$TERM; stty size\n",
    );
    person.sees("place=/usr gpus=0 job=1 term=dumb");
    person.sees("33 111");
    person.stream.write_all(&Frame::Window { rows: 20, cols: 60 }.encode()).unwrap();
    person.types("sleep 0.01; stty size; exit 7\n");
    person.sees("20 60");
    person.ends_with(&Frame::Exit { code: 7 });

    // Another shell and the processes that it started end with the task.
    let mut other = Person::at(&rig, order.id, TerminalTarget::Shell);
    other.types("sleep 1000 & echo pid=$!=\n");
    other.until("a pid", |person| {
        person.shown.split("pid=").nth(2).is_some_and(|rest| rest.contains('='))
    });
    let pid = other.shown.split("pid=").nth(2).unwrap().split('=').next().unwrap().parse().unwrap();
    assert!(is_running(pid));
    rig.execute(stop(order.id));
    assert_eq!(rig.exit().await, TaskExit::Stopped);
    assert!(!is_running(pid));
    other.until("the end of the session", |person| person.last.is_some());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_disconnect_hangs_up_only_the_shell() {
    let mut rig = Rig::new(Groups::Found);
    let order = gang(id(1, 1), &["while :; do sleep 0.05; done"]);
    rig.start(&order).await;
    let mut person = Person::at(&rig, order.id, TerminalTarget::Shell);
    person.types("echo pid=$$=\n");
    person.until("a pid", |person| {
        person.shown.split("pid=").nth(2).is_some_and(|rest| rest.contains('='))
    });
    let pid =
        person.shown.split("pid=").nth(2).unwrap().split('=').next().unwrap().parse().unwrap();
    drop(person);
    until("the shell to end", || !is_running(pid)).await;
    rig.execute(stop(order.id));
    assert_eq!(rig.exit().await, TaskExit::Stopped);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn impossible_sessions_get_an_error() {
    let mut rig = Rig::new(Groups::Found);
    let order = gang(id(1, 1), &["while :; do sleep 0.05; done"]);
    rig.start(&order).await;
    let mut person = Person::at(&rig, order.id, TerminalTarget::Main);
    person.ends_with(&Frame::Error("the task has no terminal of its own".into()));
    // Invalid bytes on the socket close that connection and affect no other.
    let path = rig.backend().task_socket(order.id, Rank(0)).unwrap();
    let mut client = session::connect(&path).unwrap();
    client
        .write_all(b"{\"hello\":\"control\"}\n{\"do\":\"stop\",\"cause\":\"cancelled\"}\n")
        .unwrap();
    assert_eq!(client.read(&mut [0; 9]).unwrap(), 0, "a client was accepted as a daemon");
    for noise in [&b"GET / HTTP/1.1\r\n\r\n"[..], &[0; 70_000], b"{}\n", b"\n"] {
        let mut stream = socket::connect(&path).unwrap();
        let _ = stream.write_all(noise);
        let mut rest = Vec::new();
        let _ = stream.read_to_end(&mut rest);
        assert!(rest.is_empty());
    }
    let mut person = Person::at(&rig, order.id, TerminalTarget::Shell);
    person.types("exit 3\n");
    person.ends_with(&Frame::Exit { code: 3 });
    rig.execute(stop(order.id));
    assert_eq!(rig.exit().await, TaskExit::Stopped);
}
