//! Backup and restore by each procedure of docs/operations.md, and unplanned losses. No job gets
//! the exit code or output of another, nothing runs twice, and a restore does not end running jobs.

use std::fs;

use muster_model::Outcome;
use muster_model::view::JobState;
use rusqlite::Connection;

use crate::home::{Home, alive};

/// Error message of a daemon whose state is older than its task directories.
const OLDER: &str = "the state is older than its task directories";

/// Copies the database as docs/operations.md says, also while the daemon runs.
fn back_up(home: &Home, copy: &str) {
    let to = home.path(copy);
    let _absent = fs::remove_file(&to);
    let connection = Connection::open(home.path("m/muster.db")).unwrap();
    connection.busy_timeout(crate::home::PATIENCE).unwrap();
    connection.execute("VACUUM INTO ?1", [to.to_str().unwrap()]).unwrap();
}

fn remove_database(home: &Home) {
    for name in ["muster.db", "muster.db-wal", "muster.db-shm"] {
        let _absent = fs::remove_file(home.path("m").join(name));
    }
}

fn restore(home: &Home, copy: &str) {
    remove_database(home);
    fs::copy(home.path(copy), home.path("m/muster.db")).unwrap();
}

/// Returns the error message of a daemon that refuses to start.
fn refusal(home: &Home) -> String {
    let run = home.words("serve --background").code(1);
    assert!(run.stdout.contains(OLDER), "{}", run.stdout);
    assert!(run.stdout.contains("--accept-older-state"), "{}", run.stdout);
    run.stdout
}

fn accept_and_start(home: &Home) {
    home.words("serve --accept-older-state").ok();
    home.start_daemon(None);
}

fn pid_in(home: &Home, name: &str) -> u32 {
    home.until("it runs", || !home.read(name).trim().is_empty());
    home.read(name).trim().parse().unwrap()
}

/// Submits a job with one GPU that prints its name, records that it ran, waits at a gate and exits
/// with a code.
fn waiting(home: &Home, name: &str, code: u8) -> u64 {
    let gate = home.gate(&format!("{name}.go"));
    let script =
        format!("echo {name}; echo $$ >> {name}.pid; {gate}; echo end of {name}; exit {code}");
    home.sh(&format!("--name {name} --gpus 1"), &script)
}

/// A new job gets its own number, process, exit code and output.
fn a_new_job_is_its_own(home: &Home, above: u64) {
    let job = home.sh("--name new --gpus 1", "echo new >> new.ran; echo only new; exit 9");
    assert!(job > above, "job {job} has a number that was given before: {above}");
    home.words(&format!("wait {job}")).code(9);
    assert_eq!(home.words(&format!("logs {job}")).ok().stdout, "only new\n");
    assert_eq!(home.read("new.ran"), "new\n");
}

#[test]
fn a_copy_made_while_the_daemon_runs_is_the_state() {
    let home = Home::with_gpus(4);
    let done = home.sh("", "echo done; exit 3");
    home.words(&format!("wait {done}")).code(3);
    let runs = waiting(&home, "runs", 4);
    home.until_state(runs, JobState::Running);
    home.words("stop-daemon").ok();
    back_up(&home, "copy.db");
    restore(&home, "copy.db");

    home.start_daemon(None);
    assert_eq!(home.words(&format!("logs {done}")).ok().stdout, "done\n");
    home.open("runs.go");
    home.words(&format!("wait {runs}")).code(4);
    assert_eq!(home.read("runs.pid").lines().count(), 1);
    a_new_job_is_its_own(&home, runs);
}

#[test]
fn an_older_copy_is_refused_and_once_accepted_gives_no_number_twice() {
    let home = Home::with_gpus(4);
    let kept = waiting(&home, "kept", 5);
    let waits = home.sh("--name waits --gpus 4", "echo waits >> waits.ran; echo waits; exit 6");
    home.until_state(kept, JobState::Running);
    back_up(&home, "copy.db");
    // Changes after the copy: one new job that ended, one that runs, and progress of older jobs.
    let ended = home.sh("--name ended --gpus 1", "echo a secret of ended; exit 3");
    home.words(&format!("wait {ended}")).code(3);
    home.open("kept.go");
    home.words(&format!("wait {kept}")).code(5);
    home.words(&format!("wait {waits}")).code(6);
    let stray = waiting(&home, "stray", 7);
    let pid = pid_in(&home, "stray.pid");
    home.kill_daemon();
    restore(&home, "copy.db");

    let said = refusal(&home);
    assert!(said.contains(&format!("job {stray} rank 0")), "{said}");
    assert!(alive(pid), "a refused start ends nothing");
    accept_and_start(&home);
    a_new_job_is_its_own(&home, stray);
    for lost in [ended, stray] {
        home.words(&format!("logs {lost}")).code(4);
    }
    // Jobs in the copy continue from the records of their processes, and are not run again.
    home.words(&format!("wait {kept}")).code(5);
    home.words(&format!("wait {waits}")).code(6);
    assert_eq!(home.words(&format!("logs {waits}")).ok().stdout, "waits\n");
    assert_eq!(
        (home.read("waits.ran").as_str(), home.read("kept.pid").lines().count()),
        ("waits\n", 1)
    );

    assert!(alive(pid), "an accepted state ends nothing that it does not know");
    let warnings = home.words("info").json::<muster_api::types::DaemonInfo>().warnings;
    assert!(
        warnings.iter().any(|text| text.contains(&format!("job {stray} rank 0"))),
        "{warnings:?}"
    );
    home.open("stray.go");
    home.until("it ends by itself", || !alive(pid));
    assert_eq!(home.read("stray.pid").lines().count(), 1);
    // After acceptance the state is consistent: the next start needs no option.
    home.words("stop-daemon").ok();
    home.start_daemon(None);
    assert!(home.words("serve --accept-older-state").code(1).stderr.contains("another daemon"));
}

#[test]
fn a_lost_log_of_the_database_is_found() {
    let home = Home::with_gpus(2);
    let runs = waiting(&home, "runs", 4);
    let pid = pid_in(&home, "runs.pid");
    home.kill_daemon();
    fs::remove_file(home.path("m/muster.db-wal")).unwrap();
    fs::remove_file(home.path("m/muster.db-shm")).unwrap();
    refusal(&home);
    assert!(alive(pid));
    home.words("serve --accept-older-state").ok();
    home.start_daemon(Some(2));
    assert!(alive(pid));
    a_new_job_is_its_own(&home, runs);
    home.open("runs.go");
    home.until("it ends by itself", || !alive(pid));
}

#[test]
fn a_deleted_database_gives_no_number_twice() {
    let home = Home::with_gpus(2);
    let ended = home.sh("", "echo a secret; exit 3");
    home.words(&format!("wait {ended}")).code(3);
    let runs = waiting(&home, "runs", 4);
    let pid = pid_in(&home, "runs.pid");
    home.words("stop-daemon").ok();
    remove_database(&home);
    refusal(&home);
    home.words("serve --accept-older-state").ok();
    home.start_daemon(Some(2));
    a_new_job_is_its_own(&home, runs);
    home.words(&format!("logs {ended}")).code(4);
    assert!(alive(pid));
    home.open("runs.go");
    home.until("it ends by itself", || !alive(pid));
    assert!(home.read("runs.pid").lines().count() == 1);
}

#[test]
fn a_whole_directory_that_is_put_back_is_found_older_too() {
    let home = Home::with_gpus(2);
    let first = home.sh("", "exit 3");
    home.words(&format!("wait {first}")).code(3);
    home.words("stop-daemon").ok();
    let copy = |from: &str, to: &str| {
        let status = std::process::Command::new("cp")
            .arg("-a")
            .args([home.path(from), home.path(to)])
            .status();
        assert!(status.unwrap().success());
    };
    copy("m", "copy");
    home.start_daemon(None);
    let later = home.sh("", "echo a secret; exit 4");
    home.words(&format!("wait {later}")).code(4);
    home.words("stop-daemon").ok();
    // Sockets are not part of a backup.
    fs::rename(home.path("m/run"), home.path("run")).unwrap();
    fs::remove_dir_all(home.path("m")).unwrap();
    copy("copy", "m");
    fs::remove_dir_all(home.path("m/run")).unwrap();
    fs::rename(home.path("run"), home.path("m/run")).unwrap();

    refusal(&home);
    accept_and_start(&home);
    a_new_job_is_its_own(&home, later);
    home.words(&format!("wait {first}")).code(3);
}

/// Removes the reports that a process runs from the journal, as if the daemon had been killed after
/// the start and before it wrote them.
fn forget_that_it_runs(home: &Home) {
    let connection = Connection::open(home.path("m/muster.db")).unwrap();
    let forgotten = connection
        .execute("DELETE FROM journal WHERE kind = 'task' AND body LIKE '%\"Started\"%'", [])
        .unwrap();
    assert!(forgotten > 0, "the journal has the start");
    for entry in fs::read_dir(home.path("m/run")).unwrap() {
        let path = entry.unwrap().path();
        if path.file_name().unwrap().to_str().unwrap().starts_with("high-water.") {
            fs::remove_file(path).unwrap();
        }
    }
}

fn a_task_without_its_directory_is_lost(is_start_known: bool) {
    let home = Home::with_gpus(2);
    let runs = waiting(&home, "runs", 4);
    let pid = pid_in(&home, "runs.pid");
    home.until_state(runs, JobState::Running);
    home.kill_daemon();
    if !is_start_known {
        forget_that_it_runs(&home);
    }
    fs::remove_dir_all(home.path("m/jobs")).unwrap();
    home.start_daemon(None);
    home.words(&format!("wait {runs}")).code(125);
    home.until("its process is gone", || !alive(pid));
    let outcome = home.job(runs).elements[0].outcome.clone();
    assert!(matches!(outcome, Some(Outcome::Lost { .. })), "{outcome:?}");
    a_new_job_is_its_own(&home, runs);
    assert_eq!(home.read("runs.pid").lines().count(), 1, "it was started again");
}

#[test]
fn what_runs_without_its_directory_is_lost_and_leaves_nothing() {
    a_task_without_its_directory_is_lost(true);
}

#[test]
fn a_start_that_the_journal_does_not_have_is_not_repeated_without_its_directory() {
    a_task_without_its_directory_is_lost(false);
}

#[test]
fn with_everything_deleted_an_old_task_does_not_touch_a_new_job_of_its_number() {
    let home = Home::with_gpus(2);
    let old = waiting(&home, "old", 4);
    let pid = pid_in(&home, "old.pid");
    home.kill_daemon();
    fs::remove_dir_all(home.path("m")).unwrap();
    home.start_daemon(Some(2));
    let new = waiting(&home, "new", 6);
    assert_eq!(new, old, "nothing is left that tells");
    let own = pid_in(&home, "new.pid");
    home.open("old.go");
    home.until("the old one ends by itself", || !alive(pid));
    assert!(alive(own));
    assert_eq!(home.job(new).state, JobState::Running);
    home.open("new.go");
    home.words(&format!("wait {new}")).code(6);
    assert_eq!(home.words(&format!("logs {new}")).ok().stdout, "new\nend of new\n");
}

#[test]
fn states_that_share_a_runtime_directory_do_not_contradict_each_other() {
    let home = Home::new();
    fs::create_dir(home.path("runtime")).unwrap();
    let run = |state: &str, words: &[&str]| {
        let mut command = home.command(words);
        command.env_remove("MUSTER_HOME");
        command
            .env("XDG_STATE_HOME", home.path(state))
            .env("XDG_RUNTIME_DIR", home.path("runtime"));
        crate::home::HomeRun::of(command.output().unwrap()).ok()
    };
    for state in ["a", "b", "a"] {
        run(state, &["run", "--wait", "--virtual-gpus", "1", "--", "true"]);
        run(state, &["stop-daemon"]);
    }
}

/// Pseudo-random numbers (splitmix64), so that a failure can be run again.
struct RestoreRng(u64);

impl RestoreRng {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % bound
    }
}

/// Steps of a run of random losses; `MUSTER_TEST_LOSSES=200` for a long one.
fn losses() -> u64 {
    std::env::var("MUSTER_TEST_LOSSES").ok().and_then(|count| count.parse().ok()).unwrap_or(15)
}

/// Starts a daemon on whatever state there is; where that is refused, accepts the state first.
fn start_on_what_is_left(home: &Home) {
    let accepted = home.words("serve --accept-older-state").ok();
    assert!(accepted.stderr.contains("accept"), "{}", accepted.stderr);
    home.start_daemon(Some(4));
}

#[test]
fn random_losses_and_restores_mix_no_jobs_up() {
    let seed =
        std::env::var("MUSTER_TEST_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1);
    println!("seed {seed}");
    let mut rng = RestoreRng(seed);
    let home = Home::with_gpus(4);
    let mut submitted = 0;
    let mut copies = 0;
    let mut numbers = std::collections::BTreeSet::new();
    for step in 0..losses() {
        for _ in 0..1 + rng.below(5) {
            submitted += 1;
            let pause = rng.below(300);
            // Each prints a unique name, and its exit code is derived from it.
            let script = format!(
                "echo $$ >> ran.j{submitted}; echo j{submitted}; sleep {pause}e-3; exit {}",
                submitted % 7
            );
            let number =
                home.sh(&format!("--name j{submitted} --gpus {}", 1 + rng.below(3)), &script);
            assert!(numbers.insert(number), "step {step}: number {number} was given twice");
        }
        match rng.below(6) {
            0 | 1 => {
                back_up(&home, &format!("copy.{copies}"));
                copies += 1;
            }
            2 if copies > 0 => {
                home.kill_daemon();
                restore(&home, &format!("copy.{}", rng.below(copies)));
                start_on_what_is_left(&home);
            }
            3 => {
                home.kill_daemon();
                let _absent = fs::remove_file(home.path("m/muster.db-wal"));
                let _absent = fs::remove_file(home.path("m/muster.db-shm"));
                start_on_what_is_left(&home);
            }
            4 if rng.below(4) == 0 => {
                home.kill_daemon();
                remove_database(&home);
                start_on_what_is_left(&home);
            }
            _ => {
                home.kill_daemon();
                home.start_daemon(None);
            }
        }
    }

    let known: Vec<String> = home.jobs().iter().map(|job| job.job.to_string()).collect();
    if !known.is_empty() {
        let _code = home.muster(&[&["wait".to_owned()], known.as_slice()].concat());
    }
    for view in home.jobs() {
        let name = &view.name;
        let code: i32 = name[1..].parse::<i32>().unwrap() % 7;
        let outcome = &view.elements[0].outcome;
        assert_eq!(
            outcome.as_ref().map(Outcome::exit_code),
            Some(code),
            "{name}, job {}: {outcome:?}",
            view.job
        );
        assert_eq!(
            home.words(&format!("logs {}", view.job)).ok().stdout,
            format!("{name}\n"),
            "job {}",
            view.job
        );
        assert_eq!(
            home.read(&format!("ran.{name}")).lines().count(),
            1,
            "{name} ran other than once"
        );
    }
    for job in 1..=submitted {
        assert!(home.read(&format!("ran.j{job}")).lines().count() <= 1, "j{job} ran twice");
    }
}
