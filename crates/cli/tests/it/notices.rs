//! Notices as users set them up: by mail, to a webhook, by a command, and from a file of their own.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::thread::{self, JoinHandle};

use muster_model::notice::NoticeState;
use muster_model::view::JobState;
use serde_json::Value;

use crate::home::Home;

/// Reads one request; returns its body.
fn body(stream: &TcpStream) -> Value {
    let mut reader = BufReader::new(stream);
    let mut length = 0;
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).unwrap();
        if line == "\r\n" {
            break;
        }
        let header = line.split_once(": ");
        if let Some((name, value)) = header
            && name.eq_ignore_ascii_case("content-length")
        {
            length = value.trim().parse().unwrap();
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).unwrap();
    serde_json::from_slice(&body).unwrap()
}

/// Starts a server that answers these statuses, one connection each; returns its URL and the bodies that it got.
fn server(statuses: &'static [&'static str]) -> (String, JoinHandle<Vec<Value>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/hook/secret", listener.local_addr().unwrap());
    let answer = move |status: &&str| {
        let (mut stream, _) = listener.accept().unwrap();
        let body = body(&stream);
        let answer = format!("HTTP/1.1 {status}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
        stream.write_all(answer.as_bytes()).unwrap();
        body
    };
    (url, thread::spawn(move || statuses.iter().map(answer).collect()))
}

/// Waits until every notice of a job is sent; returns its sheet.
fn until_sent(home: &Home, job: u64, count: usize) -> String {
    home.until("the notices are sent", || {
        let detail: muster_api::types::JobDetail = home.words(&format!("show {job} --json")).json();
        let is_sent = |state: &NoticeState| matches!(state, NoticeState::Sent { .. });
        detail.notices.iter().filter(|one| is_sent(&one.state)).count() == count
    });
    home.words(&format!("show {job}")).ok().stdout
}

#[test]
fn a_failure_is_told_by_mail_webhook_and_command() {
    let home = Home::new();
    // A stand-in for the program of a mail server, before all others in the path of the daemon.
    fs::create_dir(home.path("bin")).unwrap();
    let mailbox = home.path("mailbox");
    let program = format!("#!/bin/sh\n{{ echo \"$@\"; cat; }} > {}\n", mailbox.display());
    let mailer = home.write("bin/sendmail", &program);
    fs::set_permissions(&mailer, fs::Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:/usr/bin:/bin", home.path("bin").display());
    let (url, requests) = server(&["200 OK"]);
    let told = home.path("told");
    home.write(
        "job.yaml",
        &format!(
            "name: train\nrun: exit 3\nnotify:\n- ada@example.org\n- {{webhook: {url}, on: failure, format: slack}}\n- {{command: 'echo \"$MUSTER_NOTICE_EVENT: $MUSTER_NOTICE_TEXT\" > {}', on: [start, end]}}\n",
            told.display()
        ),
    );
    let run = home.command(&["run", "job.yaml"]).env("PATH", path).output().unwrap();
    assert!(run.status.success(), "{run:?}");
    home.until_state(1, JobState::Failed);
    // The command has two events, the others one.
    let sheet = until_sent(&home, 1, 4);
    for line in [
        "failure to ada@example.org: sent ",
        "failure to 127.0.0.1: sent ",
        "start to `echo`: sent ",
    ] {
        assert!(sheet.contains(line), "{sheet}");
    }
    assert!(!sheet.contains("secret"), "{sheet}");
    let mail = home.read("mailbox");
    assert!(mail.starts_with("-i -- ada@example.org\nTo: ada@example.org\n"), "{mail}");
    assert!(mail.contains("Subject: job 1 (train) did not end well\n"), "{mail}");
    let bodies = requests.join().unwrap();
    let text = bodies[0]["text"].as_str().unwrap();
    assert!(text.starts_with("job 1 (train) on "), "{text}");
    assert!(text.ends_with(": rank 0 exited with 3"), "{text}");
    let told = home.read("told");
    assert!(
        told.starts_with("failure: job 1 (train) on ") || told.starts_with("start: "),
        "{told}"
    );
}

#[test]
fn an_address_that_hangs_keeps_no_other_notice_and_no_job() {
    let home = Home::with_gpus(1);
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/", silent.local_addr().unwrap());
    let told = home.path("told");
    home.write(
        "job.yaml",
        &format!("run: 'true'\nnotify: [{url}, {{command: touch {}}}]\n", told.display()),
    );
    home.words("run job.yaml --wait").ok();
    home.until("the other address is told", || told.exists());
    home.words("run --wait --notify none -- true").ok();
    let sheet = home.words("show 1").ok().stdout;
    assert!(sheet.contains("end to 127.0.0.1: to be sent"), "{sheet}");
    drop(silent);
}

#[test]
fn the_users_own_file_applies_to_jobs_that_say_nothing() {
    let home = Home::with_gpus(1);
    let (url, requests) = server(&["200 OK", "200 OK"]);
    fs::create_dir_all(home.path("home/.config/muster")).unwrap();
    home.write("home/.config/muster/notify.yaml", &format!("- {url}\n"));
    home.words("run --name own --wait -- true").ok();
    until_sent(&home, 1, 1);
    home.write("quiet.yaml", "run: 'true'\nnotify: none\n");
    home.words("run quiet.yaml --name quiet --wait").ok();
    home.words(&format!("run quiet.yaml --name option --wait --notify {url}")).ok();
    until_sent(&home, 3, 1);
    let bodies = requests.join().unwrap();
    let names: Vec<&str> = bodies.iter().map(|body| body["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["own", "option"]);
    assert_eq!(bodies[0]["event"], "end");

    home.write("home/.config/muster/notify.yaml", "- mail: nobody\n");
    let refused = home.words("run --name own -- true").code(2);
    assert!(refused.stderr.contains("notify.yaml:1:"), "{}", refused.stderr);
    assert!(refused.stderr.contains("expected a mail address"), "{}", refused.stderr);
    home.words("run --wait --notify none -- true").code(2);
}

#[test]
fn a_machine_without_mail_says_so() {
    let home = Home::with_gpus(1);
    home.words("run --wait --notify ada@example.org -- true").ok();
    let has_mailer =
        ["/usr/sbin/sendmail", "/usr/lib/sendmail", "/usr/bin/sendmail"].map(fs::metadata);
    if has_mailer.iter().any(Result::is_ok) {
        // The mail is left to that program; `muster show` tells how it went.
        home.until("the mail was tried", || {
            !home.words("show 1").ok().stdout.contains("to be sent")
        });
        return;
    }
    home.until("the mail was tried", || {
        home.words("show 1").ok().stdout.contains("this machine has no sendmail program")
    });
}
