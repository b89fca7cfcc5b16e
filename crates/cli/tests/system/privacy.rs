//! Privacy between users: a user learns nothing of another's jobs except that they exist, and
//! cannot act on them.

use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::net::UnixStream;

use muster_api::types::JobList;
use muster_model::view::JobState;
use rustix::fs::{Access, AtFlags, CWD, accessat};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::actor::{SiteUser, number};
use crate::raw::{as_user, attach, send, submission};
use crate::site::{SharedSite, command_line};

/// In the job's environment, in its command, in its directory's name and in its output.
const SECRETS: [&str; 4] = ["env-5ecret", "cmd-5ecret", "dir-5ecret", "out-5ecret"];

/// A job that runs until its gate opens, with a secret in every place that can hold one.
fn secretive(alice: SiteUser<'_>) -> u64 {
    alice.shell("mkdir dir-5ecret").ok();
    let script =
        format!("echo out-5ecret; : cmd-5ecret; echo $$ $PPID > ~/pids; {}", alice.gate("go"));
    let mut submission = alice.submission("--gpus 1 --grace 1s --name plain", &script);
    submission.env("TOKEN", "env-5ecret").current_dir(alice.home().join("dir-5ecret"));
    let job = number(submission);
    alice.until_state(job, JobState::Running);
    alice.site.until("it is up", || alice.read("pids").ends_with('\n'));
    job
}

#[track_caller]
fn assert_clean(what: &str, text: &str) {
    for secret in SECRETS {
        assert!(!text.contains(secret), "{what} shows {secret}:\n{text}");
    }
}

#[test]
#[ignore = "needs root: system mode runs jobs as two different users"]
fn what_others_are_shown_holds_no_secret() {
    let site = SharedSite::with_gpus(2);
    let alice = site.alice();
    let mallory = site.mallory();
    let job = secretive(alice);
    // One that cannot start: why it cannot names a directory and a program.
    alice.shell("mkdir -m 000 dir-5ecret/closed").ok();
    let spec =
        alice.write("closed.yaml", "name: stuck\nworkdir: dir-5ecret/closed\nrun: [cmd-5ecret]\n");
    let stuck = number(alice.command(&["run", "--json", spec.to_str().unwrap()]));
    alice.words(&format!("wait {stuck}")).code(125);
    let why = alice.words(&format!("show {stuck}")).ok().stdout;
    assert!(why.contains("dir-5ecret/closed"), "its owner is told why: {why}");
    let pending = alice.submit("--gpus 2 --name later", "echo cmd-5ecret");

    // All subcommands with output, as text and as JSON.
    for verb in [
        "ps",
        "ps -a",
        "ps --json",
        "ps -a --json",
        "nodes",
        "nodes --json",
        "queues",
        "queues --json",
        "usage",
        "usage --json",
        "info",
    ] {
        let shown = mallory.words(verb).ok();
        assert_clean(verb, &shown.text());
    }
    for job in [job, stuck, pending] {
        for verb in ["show JOB", "show JOB --json", "explain JOB", "explain JOB --json"] {
            let verb = verb.replace("JOB", &job.to_string());
            let shown = mallory.words(&verb);
            assert_clean(&verb, &shown.text());
        }
    }
    // All responses of the API, also those that no subcommand uses.
    let socket = site.socket();
    for line in [
        "GET /v1/jobs?all=true".to_owned(),
        format!("GET /v1/jobs?ids={job},{stuck}"),
        format!("GET /v1/jobs/{job}"),
        format!("GET /v1/jobs/{stuck}"),
        format!("GET /v1/jobs/{job}/explain"),
        "GET /v1/timeline?since=0".to_owned(),
        "GET /v1/changes".to_owned(),
        "GET /v1/daemon".to_owned(),
    ] {
        let mallory = mallory.account;
        let (status, body) =
            as_user(mallory.uid, mallory.gid, || send(&socket, &line, "", &Value::Null));
        assert_eq!(status, 200, "{line}: {body}");
        assert_clean(&line, &body.to_string());
    }

    // That it exists is no secret; what it is made of is.
    let theirs = mallory.show(job);
    assert_eq!(theirs.job.user.as_str(), alice.account.name);
    assert!(theirs.commands.is_none() && theirs.workdir.is_none() && theirs.logs.is_empty());
    let own = alice.show(job);
    assert!(own.commands.unwrap()["main"].contains("cmd-5ecret"));
    assert!(own.workdir.unwrap().ends_with("dir-5ecret"));
    // The environment is shown to no user, not even root.
    assert!(!site.root().words(&format!("show {job} --json")).ok().text().contains("env-5ecret"));
}

#[test]
#[ignore = "needs root: system mode runs jobs as two different users"]
fn others_jobs_cannot_be_touched() {
    let site = SharedSite::with_gpus(1);
    let alice = site.alice();
    let mallory = site.mallory();
    let root = site.root();
    let job = secretive(alice);
    let waiting = alice.submit("--gpus 1", "true");
    let held = alice.submit("--hold", "true");
    for (verb, job) in [
        ("logs", job),
        ("logs -f", job),
        ("cancel", job),
        ("requeue", job),
        ("cancel", waiting),
        ("hold", waiting),
        ("release", held),
        ("cancel", held),
    ] {
        let refused = mallory.words(&format!("{verb} {job}")).code(1);
        let expected = format!("error: job {job} belongs to another user");
        assert!(refused.stderr.contains(&expected), "{verb}: {}", refused.text());
        assert_clean(verb, &refused.text());
    }
    // A terminal and an element are refused alike.
    let socket = site.socket();
    let refused =
        as_user(mallory.account.uid, mallory.account.gid, || attach(&socket, job)).unwrap_err();
    assert_eq!(refused.0, 403, "{}", refused.1);
    let body = json!({"index": 0});
    let line = format!("POST /v1/jobs/{job}/cancel");
    let (status, _) =
        as_user(mallory.account.uid, mallory.account.gid, || send(&socket, &line, "", &body));
    assert_eq!(status, 403);
    // Actions that affect all users are for administrators.
    let queues = mallory.write("queues.yaml", "queues: [{name: mine}]\n");
    for words in [
        format!("queues --set {}", queues.display()),
        format!(
            "nodes drain {}",
            site.root().words("nodes --json").json::<Value>()["nodes"][0]["name"].as_str().unwrap()
        ),
        "stop-daemon".to_owned(),
        "stop-daemon --cancel".to_owned(),
    ] {
        let refused = mallory.words(&words);
        assert_ne!(refused.code, 0, "{words}: {}", refused.text());
        assert_ne!(refused.code, 2, "{words} is no command line: {}", refused.text());
    }
    // Nothing of that changed anything.
    assert_eq!(alice.show(job).job.state, JobState::Running);
    assert_eq!(alice.show(waiting).job.state, JobState::Pending);
    assert_eq!(alice.show(held).job.state, JobState::Held);

    // Root may.
    assert!(root.words(&format!("logs {job}")).ok().stdout.contains("out-5ecret"));
    root.words(&format!("release {held}")).ok();
    root.words(&format!("cancel {waiting} {job}")).ok();
    alice.words(&format!("wait {job}")).code(130);
    alice.words(&format!("wait {held}")).ok();
    // An ended job is as closed as a running one.
    for verb in ["logs", "requeue"] {
        let refused = mallory.words(&format!("{verb} {job}")).code(1);
        assert!(refused.stderr.contains("belongs to another user"), "{verb}: {}", refused.text());
    }
}

#[test]
#[ignore = "needs root: system mode runs jobs as two different users"]
fn files_and_sockets_of_the_daemon_are_closed() {
    let site = SharedSite::with_gpus(1);
    let alice = site.alice();
    let mallory = site.mallory();
    let job = secretive(alice);
    let files = site.files();
    let named = |end: &str| files.iter().any(|path| path.to_string_lossy().ends_with(end));
    for expected in ["/muster.db", "/order.json", "/claim.json", "/output.log", "/muster.sock"] {
        assert!(named(expected), "there is no {expected} to try: {files:?}");
    }
    let sockets: Vec<_> = files
        .iter()
        .filter(|path| std::fs::metadata(path).is_ok_and(|meta| meta.file_type().is_socket()))
        .collect();
    assert!(sockets.len() >= 2, "one of the daemon, one of a supervisor: {sockets:?}");

    let public = [site.path("m/run"), site.path("m/run/muster.sock")];
    // A task acknowledges its checkpoints through a pipe of its own user, in a directory that can
    // be passed and not listed.
    let passage = site.path("m/run/checkpoints");
    let pipes = files.iter().filter(|path| path.starts_with(&passage) && **path != passage).count();
    assert!(pipes > 0, "there is no pipe to try: {files:?}");
    for actor in [&alice, &mallory] {
        as_user(actor.account.uid, actor.account.gid, || {
            for path in files.iter().filter(|path| !public.contains(path)) {
                let may = |access| accessat(CWD, path, access, AtFlags::EACCESS).is_ok();
                if *path == passage {
                    assert!(!may(Access::READ_OK) && !may(Access::WRITE_OK), "{}", path.display());
                    continue;
                }
                if path.starts_with(&passage) && actor.account.uid == alice.account.uid {
                    assert!(may(Access::WRITE_OK), "{} takes no word of its task", path.display());
                    continue;
                }
                // The owner too: what a user may see goes through the daemon, which checks who
                // asks. The name of a closed directory can be seen; what is in it cannot.
                assert!(
                    !may(Access::READ_OK) && !may(Access::WRITE_OK) && !may(Access::EXEC_OK),
                    "{}",
                    path.display()
                );
                assert!(std::fs::File::open(path).is_err(), "{} can be opened", path.display());
            }
            for socket in sockets.iter().filter(|path| !public.contains(path)) {
                assert!(UnixStream::connect(socket).is_err(), "{} takes a user", socket.display());
            }
            // Nor can anything be put in their place.
            for dir in ["m", "m/run", "m/state"] {
                assert!(
                    std::fs::write(site.path(dir).join("planted"), "").is_err(),
                    "{dir} can be written to"
                );
                assert!(
                    std::fs::rename(site.path(dir), site.path("moved")).is_err(),
                    "{dir} can be moved"
                );
            }
        });
    }
    for path in &files {
        let Ok(meta) = std::fs::symlink_metadata(path) else { continue };
        let owner =
            if path.starts_with(&passage) && *path != passage { alice.account.uid } else { 0 };
        assert_eq!(meta.uid(), owner, "{}", path.display());
        assert!(
            public.contains(path) || meta.mode() & 0o002 == 0,
            "{} is open to all",
            path.display()
        );
    }
    assert_eq!(alice.show(job).job.state, JobState::Running);
}

#[test]
#[ignore = "needs root: system mode runs jobs as two different users"]
fn processes_of_others_and_of_root_cannot_be_reached() {
    let site = SharedSite::with_gpus(1);
    let alice = site.alice();
    let mallory = site.mallory();
    let job = secretive(alice);
    let pids: Vec<u32> =
        alice.read("pids").split_whitespace().map(|pid| pid.parse().unwrap()).collect();
    let task = pids[0];
    let supervisor = pids[1];
    assert!(command_line(supervisor).contains("__supervise"), "{}", command_line(supervisor));
    // A command line can be read by all: it holds a path and nothing of the job.
    assert_clean("the supervisor's command line", &command_line(supervisor));

    let daemon = site.daemon_pid();
    let closed = |pid: u32, who: &str| {
        let number = Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
        // 0 asks whether one might.
        for signal in [Signal::TERM, Signal::STOP, Signal::KILL] {
            assert_eq!(kill_process(number, signal), Err(rustix::io::Errno::PERM), "{who}");
        }
        for name in ["environ", "mem", "maps", "fd", "cwd", "root", "exe"] {
            let path = format!("/proc/{pid}/{name}");
            let opened = if name == "fd" {
                std::fs::read_dir(&path).map(drop)
            } else {
                std::fs::File::open(&path).map(drop)
            };
            assert!(opened.is_err(), "{who}: {path}");
        }
    };
    as_user(mallory.account.uid, mallory.account.gid, || {
        closed(task, "another user's task");
        closed(supervisor, "another user's supervisor");
        closed(daemon, "the daemon");
    });
    // The job's own user has no more access to the processes that root runs for the job.
    as_user(alice.account.uid, alice.account.gid, || {
        closed(supervisor, "its own supervisor");
        closed(daemon, "the daemon");
    });
    assert_eq!(alice.show(job).job.state, JobState::Running);
    alice.words(&format!("cancel {job}")).ok();
    alice.words(&format!("wait {job}")).code(130);
}

#[test]
#[ignore = "needs root: system mode runs jobs as two different users"]
fn no_user_can_impersonate_another() {
    let site = SharedSite::with_gpus(1);
    let alice = site.alice();
    let mallory = site.mallory();
    let job = secretive(alice);
    let socket = site.socket();
    let name = alice.account.name.clone();
    let as_mallory = |line: &str, head: &str, body: &Value| {
        as_user(mallory.account.uid, mallory.account.gid, || send(&socket, line, head, body))
    };

    // 1. In a submission: what is no field changes nothing, or is refused.
    let mut claim = submission("claim", "echo ids: $(id -u) $(id -g) $USER");
    let fields = json!({
        "user": name, "uid": 0, "gid": 0,
        "identity": {"user": name, "uid": 0, "gid": 0},
        "caller": {"identity": {"user": "root", "uid": 0, "gid": 0}, "admin": true},
    });
    for (field, value) in fields.as_object().unwrap() {
        claim[field] = value.clone();
    }
    claim["env"]["USER"] = name.clone().into();
    let head =
        format!("x-user: {name}\r\nx-remote-user: root\r\nauthorization: Basic cm9vdDo=\r\n");
    let answer = as_mallory("POST /v1/jobs", &head, &claim);
    let own = crate::raw::number(&answer);
    assert_eq!(mallory.show(own).job.user.as_str(), mallory.account.name);
    let said = mallory.result(own);
    // USER is a variable like others, and buys nothing.
    assert_eq!(said, format!("ids: {} {} {name}\n", mallory.account.uid, mallory.account.gid));
    for field in ["user", "uid", "identity", "owner", "run-as"] {
        let mut claim = submission(field, "true");
        claim["overrides"][field] = name.clone().into();
        let (status, body) = as_mallory("POST /v1/jobs", "", &claim);
        assert_eq!(status, 422, "`{field}` in a spec: {body}");
    }

    // 2. In a request about another's job.
    for line in [
        format!("POST /v1/jobs/{job}/cancel?user={name}"),
        format!("POST /v1/jobs/{job}/hold"),
        format!("GET /v1/jobs/{job}/logs?user={name}"),
        format!("POST http://root@localhost/v1/jobs/{job}/cancel"),
    ] {
        let (status, body) =
            as_mallory(&line, &head, &json!({"index": null, "user": name, "caller": "root"}));
        assert!((400..500).contains(&status), "{line}: {status} {body}");
    }
    assert_eq!(alice.show(job).job.state, JobState::Running);

    // 3. By what the CLI takes from its environment.
    let mut liar = mallory.command(&["cancel", &job.to_string()]);
    let said = liar
        .env("USER", &name)
        .env("LOGNAME", &name)
        .env("HOME", alice.home())
        .env("SUDO_USER", &name)
        .output()
        .unwrap();
    assert_eq!(said.status.code(), Some(1), "{said:?}");
    assert_eq!(alice.show(job).job.state, JobState::Running);
}

#[test]
#[ignore = "needs root: system mode runs jobs as two different users"]
fn a_session_cannot_give_the_orders_of_a_daemon() {
    let site = SharedSite::with_gpus(1);
    let alice = site.alice();
    let job = secretive(alice);
    let socket = site.socket();
    // What the daemon passes on reaches the supervisor as from root: it must be a terminal's words
    // and nothing else.
    as_user(alice.account.uid, alice.account.gid, || {
        use std::io::{Read, Write};
        let mut session = attach(&socket, job).unwrap();
        session
            .write_all(b"{\"hello\":\"control\"}\n{\"do\":\"stop\",\"cause\":\"cancelled\"}\n")
            .unwrap();
        let mut answer = Vec::new();
        // The connection is closed, with or without an error message: no supervisor takes it for a
        // daemon, which would get the task's stage.
        let _broken = session.read_to_end(&mut answer);
        let answer = String::from_utf8_lossy(&answer).into_owned();
        assert!(!answer.contains("started"), "{answer}");
    });
    assert_eq!(alice.show(job).job.state, JobState::Running);
    let all: JobList = alice.words("ps --json").json();
    assert_eq!(all.jobs.len(), 1);
}

#[test]
#[ignore = "needs root: system mode runs jobs as two different users"]
fn a_refused_stop_of_the_daemon_cancels_no_jobs() {
    let site = SharedSite::with_gpus(2);
    let alice = site.alice();
    let job = alice.submit("--gpus 1 --grace 1s", &alice.gate("go"));
    alice.until_state(job, JobState::Running);

    // The hint of this must not lead there, either.
    let other = alice.words("run --virtual-gpus 7 -- true").code(2).stderr;
    assert!(other.contains("a daemon of your own") && !other.contains("stop-daemon"), "{other}");
    let refused = alice.words("stop-daemon --cancel").code(1).stderr;
    assert!(refused.contains("may stop the daemon"), "{refused}");
    assert_eq!(alice.show(job).job.state, JobState::Running);
}
