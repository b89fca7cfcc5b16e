//! The daemon stops and starts again; jobs are not affected.

use std::io::{BufRead, BufReader, Read};

use muster_model::view::JobState;

use crate::home::{Home, alive};

#[test]
fn jobs_outlive_the_daemon_and_keep_their_true_exit_codes() {
    let home = Home::with_gpus(4);
    let early = home.gate("early");
    let late = home.gate("late");
    let first = home.sh("--gpus 1", &format!("{early}; exit 4"));
    let second = home.sh("--gpus 1", &format!("{late}; exit 3"));
    let third = home.run("--gpus 4", &["true"]);
    home.until_state(first, JobState::Running);
    home.until_state(second, JobState::Running);

    let stopped = home.words("stop-daemon").ok();
    assert_eq!(
        stopped.stderr,
        "stopped; 3 jobs are kept: running jobs keep running, and the next daemon finds them\n"
    );
    home.words("ps").code(3);
    // One job ends while no daemon is running.
    let supervisors = home.pids_of("__supervise");
    home.open("early");
    home.until("one supervisor has ended", || {
        supervisors.iter().filter(|pid| alive(**pid)).count() == 1
    });

    home.start_daemon(None);
    home.words(&format!("wait {first}")).code(4);
    assert_eq!(home.job(second).state, JobState::Running);
    home.open("late");
    home.words(&format!("wait {second}")).code(3);
    home.words(&format!("wait {third}")).ok();
    assert_eq!(
        home.words("nodes --json").json::<muster_api::types::NodeList>().nodes[0].devices.len(),
        4
    );
}

#[test]
fn a_job_that_is_no_longer_kept_leaves_no_directory() {
    let home = Home::with_gpus(2);
    let array = home.sh("--array 0-1 --tasks 2 --gpus-per-task 1", "echo out");
    home.words(&format!("wait {array}")).ok();
    let kept = home.run("", &["true"]);
    home.words(&format!("wait {kept}")).ok();
    let logs =
        home.words(&format!("show {array}[1] --json")).json::<muster_api::types::JobDetail>().logs;
    let dir = |job: u64| {
        std::path::PathBuf::from(&logs[1]).ancestors().nth(5).unwrap().join(job.to_string())
    };
    assert!(dir(array).join("1/1/1/output.log").exists(), "{logs:?}");
    home.words("stop-daemon").ok();

    let mut daemon = home.spawn(&["serve", "--background", "--keep-jobs", "1"]);
    home.until("its directory is gone", || !dir(array).exists());
    assert!(dir(kept).exists());
    home.words("stop-daemon").ok();
    assert!(daemon.wait().unwrap().success());
}

#[test]
fn stop_with_cancel_leaves_nothing_behind() {
    let home = Home::with_gpus(2);
    let gate = home.gate("never");
    let job = home.sh("--gpus 2 --grace 1s", &gate);
    home.run("--gpus 2", &["true"]);
    home.until_state(job, JobState::Running);
    let stopped = home.words("stop-daemon --cancel").ok();
    assert_eq!(stopped.stderr, "cancelled 2 jobs\nstopped\n");
    assert!(home.pids_of("never").is_empty());
}

#[test]
fn logs_are_followed_to_the_end() {
    let home = Home::with_gpus(1);
    let gate = home.gate("go");
    let job = home.sh("", &format!("echo one; {gate}; echo two"));
    let mut follow = home.spawn(&["logs", "-f", &job.to_string()]);
    let mut lines = BufReader::new(follow.stdout.take().unwrap());
    let mut line = String::new();
    lines.read_line(&mut line).unwrap();
    assert_eq!(line, "one\n");
    home.open("go");
    let mut rest = String::new();
    lines.read_to_string(&mut rest).unwrap();
    assert_eq!(rest, "two\n");
    assert!(follow.wait().unwrap().success());
    assert_eq!(home.words(&format!("logs {job} --tail 1")).ok().stdout, "two\n");
}

#[test]
fn a_watch_without_a_terminal_appends_a_line_per_state() {
    let home = Home::with_gpus(1);
    let run = home.words("run --watch --gpus 1 --name short -- true").ok();
    let lines: Vec<&str> = run.stdout.lines().collect();
    assert!(lines[0].contains(" 1 short "), "{}", run.stdout);
    assert!(lines.iter().any(|line| line.contains(" 1 short done")), "{}", run.stdout);
    assert!(run.stdout.ends_with(": done\n"), "{}", run.stdout);
    assert!(!run.stdout.contains('\x1b'));
}

#[test]
fn ctrl_c_detaches_a_watch_and_jobs_go_on() {
    let home = Home::with_gpus(1);
    let gate = home.gate("go");
    let mut watch = home.spawn(&["run", "--watch", "--", "sh", "-c", &gate]);
    let mut lines = BufReader::new(watch.stdout.take().unwrap());
    let mut line = String::new();
    while !line.contains("running") {
        line.clear();
        assert!(lines.read_line(&mut line).unwrap() > 0, "it ended before it ran");
    }
    let pid = rustix::process::Pid::from_child(&watch);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    let output = watch.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130));
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("detached; the job keeps running"), "{said}");
    assert!(said.contains("`muster cancel 1` ends them"), "{said}");
    assert_eq!(home.job(1).state, JobState::Running);
    home.open("go");
    home.words("wait 1").ok();
}

#[test]
fn a_socket_that_was_removed_or_replaced_is_bound_again() {
    let home = Home::with_gpus(1);
    let socket = home.path("m/run/muster.sock");
    let pid = || home.words("info").json::<muster_api::types::DaemonInfo>().pid;
    let gate = home.gate("go");
    let daemon = pid();
    let job = home.sh("", &format!("echo one; {gate}; echo two"));
    let mut follow = home.spawn(&["logs", "-f", &job.to_string()]);
    let mut lines = BufReader::new(follow.stdout.take().unwrap());
    let mut line = String::new();
    lines.read_line(&mut line).unwrap();
    // 1. Removed: each verb waits for it, and what is connected goes on.
    std::fs::remove_file(&socket).unwrap();
    assert_eq!(home.job(job).state, JobState::Running);
    // 2. Something else in its place, and its whole directory gone.
    std::fs::remove_file(&socket).unwrap();
    std::fs::write(&socket, "tidy").unwrap();
    assert_eq!(home.job(job).state, JobState::Running);
    home.open("go");
    let mut rest = String::new();
    lines.read_to_string(&mut rest).unwrap();
    assert_eq!(rest, "two\n");
    assert!(follow.wait().unwrap().success());
    home.words(&format!("wait {job}")).ok();
    std::fs::remove_dir_all(socket.parent().unwrap()).unwrap();
    home.words("run --wait -- true").ok();
    assert_eq!(pid(), daemon, "the same daemon all the while");
}

#[test]
fn a_daemon_that_cannot_be_reached_is_named() {
    let home = Home::with_gpus(1);
    let socket = home.path("m/run/muster.sock");
    // A directory in place of the socket is not removed, since it may have contents.
    std::fs::remove_file(&socket).unwrap();
    std::fs::create_dir_all(socket.join("precious")).unwrap();
    let refused = home.words("ps").code(3);
    let pid = home.pids_of("serve")[0];
    assert!(
        refused.stderr.contains(&format!("runs as process {pid} but does not listen")),
        "{}",
        refused.stderr
    );
    std::fs::remove_dir_all(&socket).unwrap();
    home.words("ps").ok();
}

#[test]
fn two_first_runs_at_once_share_one_daemon() {
    let home = Home::new();
    let runs: Vec<_> = (0..4)
        .map(|_| home.spawn(&["run", "--virtual-gpus", "2", "--wait", "--", "true"]))
        .collect();
    for run in runs {
        let output = run.wait_with_output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
    assert_eq!(home.jobs().len(), 4);
    assert_eq!(home.pids_of("--background").len(), 1);
}

/// Regression test: the default time was stored in the queues at the start, so that it was lost
/// with other queues and not replaced by another default.
#[test]
fn a_default_time_holds_whatever_queues_are_set_and_until_the_next_serve() {
    let home = Home::new();
    let queues =
        home.write("queues.yaml", "queues: [{name: short, default-time: 1h}, {name: plain}]");
    let queues = queues.to_str().unwrap();
    let serve = |options: &str| {
        let words = format!("serve --background --virtual-gpus 2 {options}");
        let daemon = home.spawn(&words.split_whitespace().collect::<Vec<_>>());
        home.until("it listens", || home.words("info").code == 0);
        daemon
    };
    let limit = |options: &str| {
        let job = home.run(&format!("--hold {options}"), &["true"]);
        home.job(job).time_limit.map(|limit| limit.0 / 3_600_000)
    };
    let stop = |mut daemon: std::process::Child| {
        home.words("stop-daemon").ok();
        assert!(daemon.wait().unwrap().success());
    };

    // 1. Over other queues that are set.
    let daemon = serve("--default-time 2h");
    assert_eq!(limit(""), Some(2));
    let set = home.muster(&["queues", "--set", queues]).ok();
    assert!(!set.stderr.contains("--queues"), "{}", set.stderr);
    assert_eq!((limit("--queue plain"), limit("--queue short")), (Some(2), Some(1)));
    stop(daemon);
    // 2. A daemon that another command starts has the settings of the last one.
    assert_eq!(limit("--queue plain"), Some(2));
    home.words("stop-daemon").ok();
    // 3. Another value replaces it, and a start without one removes it.
    stop({
        let daemon = serve("--default-time 3h");
        assert_eq!(limit("--queue plain"), Some(3));
        daemon
    });
    stop({
        let daemon = serve("");
        assert_eq!((limit("--queue plain"), limit("--queue short")), (None, Some(1)));
        daemon
    });
    // 4. A queue file that the next start sets again is named.
    let daemon = serve(&format!("--queues {queues}"));
    let set = home.muster(&["queues", "--set", queues]).ok();
    let said = format!("{}{}", set.stdout, set.stderr);
    assert!(
        said.contains(&format!("starts with `--queues {queues}` replaces them by that file again")),
        "{said}"
    );
    stop(daemon);
}
