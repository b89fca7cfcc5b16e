//! Files on disk, and their handling after damage, upgrades and full disks.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use muster_daemon::DaemonMode;
use muster_daemon::store::{Retention, SqliteStore};
use muster_model::unit::{Span, Time};
use muster_model::view::JobState;
use muster_model::{Event, QueueTree};
use muster_runtime::{JOURNAL_VERSION, Runtime, StepInput, StoreError};
use rusqlite::Connection;

use crate::site::{ANN, ANN_ANEW, ROOT, TestSite, node, until};

fn open(dir: &Path) -> Result<Runtime<SqliteStore>, StoreError> {
    Runtime::open(SqliteStore::open(dir)?, QueueTree::single())
}

pub fn tamper(dir: &Path, statement: &str) {
    Connection::open(dir.join("muster.db")).unwrap().execute_batch(statement).unwrap();
}

/// Returns the kinds of all records of the journal, oldest first.
pub fn journal_kinds(site: &TestSite) -> Vec<String> {
    let connection = Connection::open(site.dir.path().join("muster.db")).unwrap();
    let mut query = connection.prepare("SELECT kind FROM journal ORDER BY seq").unwrap();
    query.query_map([], |row| row.get(0)).unwrap().collect::<Result<_, _>>().unwrap()
}

/// Makes a state directory with a node in it.
fn used() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let mut runtime = open(dir.path()).unwrap();
    runtime
        .step(Time(1), vec![StepInput::Event(Event::NodeJoined(Box::new(node("n1", 8))))])
        .unwrap();
    dir
}

#[test]
fn the_file_is_its_owners_alone_and_has_one_daemon() {
    let dir = used();
    let first = open(dir.path()).unwrap();
    for entry in fs::read_dir(dir.path()).unwrap() {
        let entry = entry.unwrap();
        assert_eq!(
            entry.metadata().unwrap().permissions().mode() & 0o077,
            0,
            "{:?}",
            entry.file_name()
        );
    }
    assert!(matches!(open(dir.path()), Err(StoreError::Locked(_))));
    drop(first);
    assert!(open(dir.path()).is_ok());
}

#[test]
fn a_lock_that_a_child_of_a_dead_daemon_still_holds_is_waited_for() {
    let dir = used();
    // As after a fork: the child has the same open file, and this process has closed it.
    let lock = fs::File::open(dir.path().join("lock")).unwrap();
    rustix::fs::flock(&lock, rustix::fs::FlockOperation::NonBlockingLockExclusive).unwrap();
    let mut child = std::process::Command::new("sleep").arg("0.3").stdin(lock).spawn().unwrap();
    assert!(open(dir.path()).is_ok());
    assert!(child.wait().unwrap().success());
}

#[test]
fn a_newer_binary_s_state_is_refused() {
    let dir = used();
    let newer = JOURNAL_VERSION + 1;
    tamper(
        dir.path(),
        &format!("UPDATE meta SET value = '{newer}' WHERE name = 'journal_version'"),
    );
    assert_eq!(open(dir.path()).err().unwrap(), StoreError::NewerVersion { found: newer });
    let dir = used();
    tamper(dir.path(), "PRAGMA user_version = 99");
    assert_eq!(open(dir.path()).err().unwrap(), StoreError::NewerVersion { found: 99 });
}

#[test]
fn damage_is_named_and_not_guessed_over() {
    for (statement, named) in [
        ("UPDATE journal SET body = '{\"event\":{\"NodeJoined\"'", "journal record 1"),
        ("UPDATE journal SET body = '{\"event\":{\"Teleported\":{}}}'", "journal record 1"),
        ("INSERT INTO snapshots VALUES (1, 0, 0, 'no JSON')", "the snapshot"),
    ] {
        let dir = used();
        tamper(dir.path(), statement);
        match open(dir.path()) {
            Err(StoreError::Corrupt(what)) => assert!(what.contains(named), "{what}"),
            Err(other) => panic!("{statement}: {other:?}"),
            Ok(_) => panic!("{statement}: it was read"),
        }
    }
    let dir = used();
    fs::write(
        dir.path().join("muster.db"),
        "this is not a database, nor was it ever one; ".repeat(100),
    )
    .unwrap();
    let _logs = [
        fs::remove_file(dir.path().join("muster.db-wal")),
        fs::remove_file(dir.path().join("muster.db-shm")),
    ];
    assert!(matches!(open(dir.path()), Err(StoreError::Corrupt(_))));
}

#[test]
fn a_quota_that_is_used_up_refuses_and_recovers() {
    let dir = used();
    let store = SqliteStore::open(dir.path()).unwrap();
    store.cap_pages(30).unwrap();
    let mut runtime = Runtime::open(store, QueueTree::single()).unwrap();
    let event = |round: u64| Event::NodeDrained {
        node: "n1".into(),
        drained: round.is_multiple_of(2),
        reason: "x".repeat(2000).into(),
    };
    let mut taken = 0;
    let failure = loop {
        match runtime.step(Time(2 + taken), vec![StepInput::Event(event(taken))]) {
            Ok(_) => taken += 1,
            Err(failure) => break failure,
        }
        assert!(taken < 1000, "the quota has no effect");
    };
    assert!(matches!(failure.error, StoreError::Full(_)), "{:?}", failure.error);
    let drained = runtime.engine().unwrap().nodes()[0].drained.is_some();
    assert_eq!(drained, taken % 2 == 1, "the state is that of the last durable step");
    assert!(
        matches!(runtime.step(Time(9999), vec![]).unwrap_err().error, StoreError::Full(_)),
        "it is probed"
    );

    runtime.store().cap_pages(1_000_000).unwrap();
    runtime.step(Time(10_000), vec![StepInput::Event(event(taken))]).unwrap();
    drop(runtime);
    assert_eq!(open(dir.path()).unwrap().last(), Time(10_000));
}

#[test]
fn a_directory_that_cannot_be_written_is_refused_with_a_hint() {
    if rustix::process::geteuid().is_root() {
        // Permissions do not bind root; a path that is not a directory does.
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("file");
        fs::write(&file, "").unwrap();
        assert!(open(&file).is_err());
        return;
    }
    let dir = used();
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o500)).unwrap();
    fs::remove_file(dir.path().join("none")).unwrap_err();
    let refused = open(dir.path()).err();
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o700)).unwrap();
    assert!(matches!(refused, Some(StoreError::ReadOnly(_))), "{refused:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn secrets_leave_the_file_with_their_job() {
    let mut site = TestSite::start().await;
    let job = site.submit("{name: x, gpus: 1, run: run}").await[0];
    site.reach(job, JobState::Running).await;
    let held = |site: &TestSite| {
        let files = fs::read_dir(site.dir.path()).unwrap().map(|entry| entry.unwrap().path());
        let files = files
            .filter(|path| path.file_name().unwrap().to_string_lossy().starts_with("muster.db"));
        files
            .map(|path| fs::read(path).unwrap())
            .any(|bytes| bytes.windows(7).any(|bytes| bytes == b"hunter2"))
    };
    assert!(held(&site), "the environment must be somewhere while the job runs");
    let cancel = muster_api::types::ActionRequest { index: None };
    site.client().act(job, muster_api::JobAction::Cancel, cancel).await.unwrap();
    site.reach(job, JobState::Cancelled).await;
    site.stop();
    assert!(!held(&site), "the environment of an ended job is still in the file");
}

#[tokio::test(flavor = "multi_thread")]
async fn elements_from_before_they_were_kept_are_found_by_their_attempts() {
    let mut site = TestSite::start().await;
    let job = site.submit("{name: a, gpus: 1, array: 5-8, run: exit 3}").await[0];
    site.reach(job, JobState::Failed).await;
    site.stop();
    tamper(site.dir.path(), "DROP TABLE elements; DROP TABLE unstarted; PRAGMA user_version = 1");
    site.boot().await;
    let detail = site.client().job(job, Some(7)).await.unwrap();
    let outcome = detail.job.elements[0].outcome.clone().unwrap();
    assert_eq!((detail.job.elements[0].element.index, outcome.exit_code()), (7, 3));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_left_of_a_list_is_found_by_its_indices_and_was_one_range_before() {
    let mut site = TestSite::new(|world| world.eager());
    site.boot().await;
    let job = site.submit("{name: a, gpus: 1, array: '1,3,7-9%1', run: run}").await[0];
    site.reach(job, JobState::Running).await;
    let cancel = muster_api::types::ActionRequest { index: None };
    site.client().act(job, muster_api::JobAction::Cancel, cancel).await.unwrap();
    site.reach(job, JobState::Cancelled).await;
    for (index, is_there) in [(1, true), (2, false), (3, true), (5, false), (8, true), (10, false)]
    {
        assert_eq!(site.client().job(job, Some(index)).await.is_ok(), is_there, "{index}");
    }
    site.stop();
    tamper(
        site.dir.path(),
        "CREATE TABLE rests (job INTEGER PRIMARY KEY, first, last, step, ended, outcome);
         INSERT INTO rests SELECT job, 2, 9, 1, ended, outcome FROM unstarted WHERE first = 7;
         DROP TABLE unstarted; PRAGMA user_version = 3",
    );
    site.boot().await;
    assert!(
        site.client().job(job, Some(5)).await.is_ok()
            && site.client().job(job, Some(10)).await.is_err()
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn owners_of_earlier_versions_get_their_numbers() {
    let mut site = TestSite::new(|world| world.eager());
    site.mode = DaemonMode::System;
    site.boot().await;
    let ended = site.submit("{name: ended, gpus: 1, run: exit 0}").await[0];
    site.reach(ended, JobState::Done).await;
    let live = site.submit("{name: live, gpus: 1, run: run}").await[0];
    site.reach(live, JobState::Running).await;
    site.stop();
    tamper(
        site.dir.path(),
        "UPDATE journal SET body = json_remove(body, '$.event.Submitted.spec.uid');
         UPDATE history SET view = json_remove(view, '$.uid');
         PRAGMA user_version = 3",
    );
    site.boot().await;
    let uid = async |job| site.client_of(ROOT).job(job, None).await.unwrap().job.uid;
    assert_eq!(uid(live).await, Some(rustix::process::geteuid().as_raw()), "by its payload");
    assert_eq!(uid(ended).await, Some(u32::MAX), "no account of this machine has the name");
    assert!(site.client_of(ANN).job(live, None).await.unwrap().commands.is_some());
    for stranger in [ANN, ANN_ANEW] {
        assert!(site.client_of(stranger).job(ended, None).await.unwrap().commands.is_none());
    }
}

/// Returns the number of rows in a table of a site's store.
fn rows(site: &TestSite, table: &str) -> u32 {
    let connection = Connection::open(site.dir.path().join("muster.db")).unwrap();
    connection.query_row(&format!("SELECT count(*) FROM {table}"), [], |row| row.get(0)).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn retention_lets_go_of_jobs_and_their_logs() {
    let mut site = TestSite::new(|world| world.eager());
    site.retention = Retention { history: Span::from_secs(3600), ..Retention::default() };
    site.boot().await;
    let array = site.submit("{name: a, gpus: 1, array: 0-30%2, run: run}").await[0];
    site.reach(array, JobState::Running).await;
    let cancel = muster_api::types::ActionRequest { index: None };
    site.client().act(array, muster_api::JobAction::Cancel, cancel).await.unwrap();
    site.reach(array, JobState::Cancelled).await;
    assert!(rows(&site, "elements") == 2 && rows(&site, "unstarted") == 1);
    let job = site.submit("{name: x, gpus: 1, run: exit 0}").await[0];
    site.reach(job, JobState::Done).await;
    assert_eq!(rows(&site, "elements"), 2, "the last view of a job without an array has it");
    let log = site.client().job(job, None).await.unwrap().logs[0].clone();
    assert!(Path::new(&log).exists());
    site.clock.jump(7200);
    until(async || {
        site.core.as_ref().unwrap().wake();
        site.client().job(job, None).await.is_err().then_some(())
    })
    .await;
    assert!(!Path::new(&log).parent().unwrap().exists());
    assert!(rows(&site, "elements") == 0 && rows(&site, "unstarted") == 0);
    let usage = site.client().usage().await.unwrap();
    assert_eq!(usage.rows[0].jobs, 3, "sums outlive what they were made of");
}

/// Retention of more jobs than one call deletes: the next rounds continue without waiting for the
/// next due time.
#[tokio::test(flavor = "multi_thread")]
async fn retention_keeps_up_with_a_backlog() {
    let mut site = TestSite::new(|world| world.eager());
    site.retention = Retention { history: Span::from_secs(3600), ..Retention::default() };
    site.boot().await;
    let documents: String = (0..120).map(|_| "---\n{name: x, gpus: 1, run: exit 0}\n").collect();
    let jobs = site.submit(&documents).await;
    for job in &jobs {
        site.reach(*job, JobState::Done).await;
    }
    assert_eq!(rows(&site, "history"), 120);
    site.clock.jump(7200);
    until(async || {
        site.core.as_ref().unwrap().wake();
        (rows(&site, "history") == 0).then_some(())
    })
    .await;
}
