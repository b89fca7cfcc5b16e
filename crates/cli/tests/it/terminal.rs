//! Terminals: `run -it`, `attach` and live views.

use muster_api::query::AttachQuery;
use muster_api::{Client, ClientError};
use muster_model::JobId;
use muster_model::view::JobState;
use rustix::process::Signal;
use rustix::termios::{LocalModes, tcgetattr};

use crate::home::{Home, HomeRun};
use crate::pty::Typist;

#[test]
fn an_interactive_job_has_a_terminal_keys_and_its_exit_code() {
    let home = Home::with_gpus(2);
    let script = "tty; echo gpus=$CUDA_VISIBLE_DEVICES; while [ \"$(stty size)\" != '30 100' ]; do sleep 0.02; done; \
                  echo sized; read word; echo got-$word; exit 7";
    let mut typist = Typist::new(&home, &["run", "--gpus", "2", "-it", "--", "sh", "-c", script]);
    typist.until("/dev/pts/");
    typist.until("gpus=0,1");
    typist.until("sized");
    typist.keys("hello\r");
    typist.until("got-hello");
    typist.until("rank 0 exited with 7");
    assert_eq!(typist.code(), 7);
    let modes = tcgetattr(&typist.far).unwrap().local_modes;
    assert!(modes.contains(LocalModes::ICANON | LocalModes::ECHO), "the terminal was left raw");
}

#[test]
fn a_program_that_ends_at_once_still_shows_what_it_wrote() {
    let home = Home::with_gpus(1);
    for _ in 0..10 {
        let mut typist = Typist::new(&home, &["run", "-it", "--", "tty"]);
        assert_eq!(typist.code(), 0, "{}", typist.seen());
        typist.until("/dev/pts/");
    }
}

#[test]
fn window_changes_arrive() {
    let home = Home::with_gpus(1);
    let script =
        "echo ready; while [ \"$(stty size)\" != '40 120' ]; do sleep 0.02; done; echo resized";
    let mut typist = Typist::new(&home, &["run", "-it", "--", "sh", "-c", script]);
    typist.until("ready");
    typist.resize(40, 120);
    typist.until("resized");
    assert_eq!(typist.code(), 0);
}

#[test]
fn a_session_can_be_left_and_taken_up_again() {
    let home = Home::with_gpus(1);
    let mut typist = Typist::new(
        &home,
        &["run", "-it", "--", "sh", "-c", "echo up; read word; echo got-$word; exit 9"],
    );
    typist.until("up");
    typist.keys("~.");
    typist.until("detached; job 1 keeps running");
    assert_eq!(typist.code(), 0);
    assert_eq!(home.job(1).state, JobState::Running);

    let mut again = Typist::new(&home, &["attach", "1"]);
    again.until("up");
    again.keys("back\r");
    again.until("got-back");
    assert_eq!(again.code(), 9);
    home.words("wait 1").code(9);
}

#[test]
fn attach_opens_a_shell_beside_the_task() {
    let home = Home::with_gpus(2);
    let gate = home.gate("go");
    let job = home.sh("--gpus 1", &gate);
    home.until_state(job, JobState::Running);
    let mut typist = Typist::new(&home, &["attach", &job.to_string()]);
    typist.keys("echo job-$MUSTER_JOB_ID gpu-$CUDA_VISIBLE_DEVICES\r");
    typist.until(&format!("job-{job} gpu-0"));
    typist.keys("exit 5\r");
    assert_eq!(typist.code(), 5);
    assert_eq!(home.job(job).state, JobState::Running);
    home.open("go");
    home.words(&format!("wait {job}")).ok();
}

#[test]
fn the_terminal_is_restored_when_the_client_is_terminated() {
    let home = Home::with_gpus(1);
    let mut typist = Typist::new(&home, &["run", "-it", "--", "sh", "-c", "echo up; read word"]);
    typist.until("up");
    assert!(!tcgetattr(&typist.far).unwrap().local_modes.contains(LocalModes::ICANON));
    typist.signal(Signal::TERM);
    typist.code();
    assert!(tcgetattr(&typist.far).unwrap().local_modes.contains(LocalModes::ICANON));
}

#[test]
fn a_watch_on_a_terminal_redraws_in_place_and_ends_with_a_summary() {
    let home = Home::with_gpus(2);
    let gate = home.gate("go");
    let mut typist = Typist::new(
        &home,
        &["run", "--watch", "--gpus", "1", "--name", "drawn", "--", "sh", "-c", &gate],
    );
    typist.until("running");
    typist.until("gpu 0 │");
    home.open("go");
    typist.until("1 job ended in ");
    assert_eq!(typist.code(), 0);
    assert!(typist.seen().contains("\x1b[J"), "it was not redrawn");
}

#[test]
fn without_a_terminal_there_is_none_to_connect() {
    let home = Home::new();
    let run = home.words("run -it -- true").code(2);
    assert!(
        run.stderr.starts_with("error: this needs a terminal on stdin and stdout\nhint: "),
        "{}",
        run.stderr
    );
    assert!(!home.path("m").exists());
}

#[test]
fn open_sessions_count_among_the_connections_of_their_user() {
    let home = Home::with_gpus(1);
    let gate = home.gate("never");
    let job = home.sh("", &gate);
    home.until_state(job, JobState::Running);
    let client = Client::new(home.path("m/run/muster.sock"));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let refused = runtime.block_on(async {
        let mut sessions = Vec::new();
        // More sessions than the daemon allows per user.
        for _ in 0..300 {
            match client.attach(JobId(job), AttachQuery::default()).await {
                Ok(session) => sessions.push(session),
                Err(ClientError::Api(body)) => return Some(body.code),
                Err(other) => panic!("{other}"),
            }
        }
        None
    });
    assert_eq!(refused.as_deref(), Some("busy"));
    drop(runtime);
    home.until("a connection is taken again", || home.words("ps").code == 0);
}

/// If a job inherited ignored signals, a hang-up would leave its shell running, and Ctrl-C would
/// have no effect in it.
#[test]
fn signals_of_a_terminal_end_programs_though_the_daemon_was_started_with_nohup() {
    let home = Home::new();
    home.start_daemon_deaf();
    let script =
        "for s in HUP INT QUIT; do sh -c \"kill -$s \\$\\$\" && echo deaf to $s; done; echo done";
    let job = home.run("", &["sh", "-c", script]);
    home.words(&format!("wait {job}")).ok();
    let said = home.words(&format!("logs {job}")).ok().stdout;
    assert!(said.ends_with("done\n") && !said.contains("deaf"), "{said}");
}

#[test]
fn a_command_runs_beside_the_task_with_a_terminal_and_without() {
    let home = Home::with_gpus(2);
    let gate = home.gate("go");
    let job = home.sh("--gpus 1", &gate);
    home.until_state(job, JobState::Running);
    let number = job.to_string();
    let words = [
        "attach",
        &number,
        "--",
        "sh",
        "-c",
        "echo gpu-$CUDA_VISIBLE_DEVICES of-$MUSTER_JOB_ID; exit 6",
    ];
    let run = home.muster(&words).code(6);
    assert_eq!(run.stdout, format!("gpu-0 of-{job}\n"));
    let mut typist = Typist::new(
        &home,
        &["attach", &number, "--", "sh", "-c", "read word; echo got-$word; exit 3"],
    );
    typist.keys("hello\r");
    typist.until("got-hello");
    assert_eq!(typist.code(), 3);
    // Without a command a terminal is required.
    assert!(home.words(&format!("attach {job}")).code(2).stderr.contains("needs a terminal"));
    home.open("go");
    home.words(&format!("wait {job}")).ok();
}

#[test]
fn a_narrow_terminal_without_utf8_gets_lines_that_fit_in_ascii() {
    let home = Home::with_gpus(1);
    let name = "a-name-of-a-job-that-is-far-too-long-for-any-narrow-terminal";
    home.run(&format!("--gpus 1 --hold --name {name}"), &["true"]);
    home.run("--gpus 1 --hold --name bidi", &["true"]);
    let mut narrow = Typist::sized(&home, &["ps"], 24, 60, &[("LC_ALL", "C")]);
    assert_eq!(narrow.code(), 0);
    narrow.until("bidi");
    let seen = narrow.seen();
    assert!(seen.is_ascii(), "{seen:?}");
    assert!(seen.lines().all(|line| line.trim_end().len() <= 60), "{seen}");
    assert!(seen.contains("a-name-of") && seen.contains('~'), "{seen}");
    let plain =
        HomeRun::of(home.command(&["show", name]).env("LC_ALL", "C").output().unwrap()).ok();
    assert!(plain.stdout.is_ascii(), "{plain:?}");
}
