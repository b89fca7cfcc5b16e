//! SIGKILL to each part of a Ray job, once it runs and at random moments: the job ends with the right code, and
//! nothing is left of it.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::thread;
use std::time::Duration;

use muster_model::view::JobState;

use crate::home::{Home, kill};
use crate::random::TestRng;
use crate::ray::{PATIENCE, node_folders, nothing_runs_in, processes, submit};

/// Program that waits for a file, and then fails with 7.
const PROGRAM: &str = "say('ready', str(os.getpid()))\n\
                       while not os.path.exists('end'):\n    time.sleep(0.1)\n\
                       sys.exit(7)\n";

/// Longest time from a job's submission to the kill: its program runs by then on a quiet machine.
const LONGEST_MILLIS: u64 = 15_000;

/// Part of a Ray job that a test kills.
#[derive(Clone, Copy, Debug)]
enum Victim {
    Program,
    Gcs,
    Raylet,
    Launcher,
    /// Launcher of a node without the program.
    OtherLauncher,
    Daemon,
}

impl Victim {
    const ALL: [Self; 6] =
        [Self::Program, Self::Gcs, Self::Raylet, Self::Launcher, Self::OtherLauncher, Self::Daemon];

    /// Exit codes with which the job may end.
    fn codes(self) -> &'static [i32] {
        match self {
            Self::Program | Self::Launcher | Self::OtherLauncher => &[137],
            // The program may notice before the launcher does, and fail; 125 while the cluster starts.
            Self::Gcs | Self::Raylet => &[75, 1, 125],
            // Without the daemon the job goes on.
            Self::Daemon => &[7],
        }
    }

    /// Returns the pid of this part of a job; `None` while it does not run.
    fn pid(self, home: &Home) -> Option<u32> {
        let nodes = node_folders(home);
        let has_rank = |node: &&(PathBuf, i32), is_head: bool| {
            let environment = fs::read(format!("/proc/{}/environ", node.1)).unwrap_or_default();
            environment.split(|byte| *byte == 0).any(|one| one == b"RANK=0") == is_head
        };
        let node = |is_head: bool| nodes.iter().find(|node| has_rank(node, is_head));
        let of = |node: Option<&(PathBuf, i32)>, program: &str| {
            let own = processes(node?.0.to_str().unwrap());
            own.into_iter().find(|pid| processes(program).contains(pid))
        };
        let pid = match self {
            Self::Program => home.read("ready").parse().ok(),
            Self::Gcs => of(node(true), "gcs/gcs_server"),
            Self::Raylet => of(node(false), "raylet/raylet"),
            Self::Launcher => node(true).map(|node| node.1),
            Self::OtherLauncher => node(false).map(|node| node.1),
            Self::Daemon => None,
        };
        pid.and_then(|pid| u32::try_from(pid).ok())
    }
}

/// Submits a job of two nodes, kills a part of it after some time, and looks at what is left.
fn check(home: &Home, job: u64, victim: Victim, after: Option<Duration>) {
    for name in ["ready", "end"] {
        let _ = fs::remove_file(home.path(name));
    }
    submit(home, "killed", "tasks: 2\ngpus-per-task: 1\nrestart: never", "", PROGRAM);
    let is_ready = || home.path("ready").exists();
    match after {
        None => home.until_within(PATIENCE, "the program runs", is_ready),
        Some(time) => thread::sleep(time),
    }
    let folders = RefCell::new(BTreeSet::new());
    let look = || folders.borrow_mut().extend(node_folders(home).into_iter().map(|node| node.0));
    let is_over = || home.job(job).state.is_final();
    if matches!(victim, Victim::Daemon) {
        home.kill_daemon();
        home.start_daemon(None);
        home.until_within(PATIENCE, "the program runs", is_ready);
        look();
        home.write("end", "");
    } else {
        // What is killed while the cluster starts may be started again.
        home.until_within(PATIENCE, &format!("it ends without its {victim:?}"), || {
            look();
            victim.pid(home).into_iter().for_each(kill);
            is_over()
        });
    }
    home.until_within(PATIENCE, "it ends", is_over);
    let log = home.words(&format!("logs {job}")).stdout;
    assert_eq!(home.job(job).state, JobState::Failed, "{victim:?} after {after:?}: {log}");
    let code = home.words(&format!("wait {job}")).code;
    assert!(victim.codes().contains(&code), "{victim:?} after {after:?}: {code}: {log}");
    let folders = Vec::from_iter(folders.into_inner());
    assert!(!folders.is_empty());
    nothing_runs_in(&folders);
}

#[test]
#[ignore = "needs Ray: `cargo xtask recipes` has it"]
fn whatever_is_killed_the_job_ends_and_nothing_is_left() {
    let home = Home::with_gpus(2);
    for (job, victim) in (1..).zip(Victim::ALL) {
        check(&home, job, victim, None);
    }
}

/// Longest time from the loss of the control store to the end of the job: a call of Ray to it takes 40 s to fail.
const NOTICED_WITHIN: Duration = Duration::from_secs(90);

#[test]
#[ignore = "needs Ray: `cargo xtask recipes` has it"]
fn a_head_that_lost_its_control_store_waits_for_no_node() {
    let home = Home::with_gpus(2);
    submit(&home, "lost", "tasks: 2\ngpus-per-task: 1\nrestart: never\ngrace: 1s", "", PROGRAM);
    // The second node never joins, so the head waits for it.
    home.until_within(PATIENCE, "the other launcher runs", || {
        Victim::OtherLauncher.pid(&home).is_some_and(|pid| {
            let stopped = Command::new("kill").args(["-STOP", &pid.to_string()]).status();
            stopped.is_ok_and(|status| status.success())
        })
    });
    home.until_within(PATIENCE, "the head runs", || {
        let logs = node_folders(&home).into_iter().map(|node| node.0.join("start.log"));
        let mut texts = logs.filter_map(|log| fs::read_to_string(log).ok());
        texts.any(|text| text.contains("Ray runtime started"))
    });
    home.until_within(PATIENCE, "it has a control store", || {
        Victim::Gcs.pid(&home).inspect(|pid| kill(*pid)).is_some()
    });
    home.until_within(NOTICED_WITHIN, "it ends", || home.job(1).state.is_final());
    let log = home.words("logs 1").stdout;
    assert!(log.contains("the control store (GCS) of the head has ended"), "{log}");
}

/// `MUSTER_TEST_RAY_KILLS=100` for the long run.
#[test]
#[ignore = "needs Ray: `cargo xtask recipes` has it"]
fn kills_at_random_moments_leave_nothing() {
    let number = |name: &str, usual: u64| {
        std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(usual)
    };
    let seed = number("MUSTER_TEST_SEED", 1);
    let mut rng = TestRng(seed);
    let home = Home::with_gpus(2);
    let kills = number("MUSTER_TEST_RAY_KILLS", 2);
    for job in 1..=kills {
        let victim = Victim::ALL[usize::try_from(rng.below(Victim::ALL.len() as u64)).unwrap()];
        let after = Duration::from_millis(rng.below(LONGEST_MILLIS));
        println!("seed {seed}, job {job}: {victim:?} after {after:?}");
        check(&home, job, victim, Some(after));
    }
    // The next job removes the directories of launchers that were killed.
    home.write("end", "");
    submit(&home, "last", "gpus: 1", "", PROGRAM);
    home.words(&format!("wait {}", kills + 1)).code(7);
    let left = fs::read_dir("/dev/shm").unwrap().filter_map(Result::ok);
    let left: Vec<_> =
        left.filter(|one| one.file_name().to_string_lossy().contains("plasma")).collect();
    assert!(left.is_empty(), "{left:?}");
}
