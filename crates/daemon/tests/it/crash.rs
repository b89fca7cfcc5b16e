//! The daemon is killed at any moment; tasks keep running. Afterwards every job ends exactly once,
//! with its own status, and no gang was ever started in part.

use std::collections::{BTreeMap, BTreeSet};

use muster_model::view::JobState;
use muster_model::{AttemptId, Event, JobId, Observation, Rank, Span};
use muster_runtime::JournalRecord;
use rusqlite::Connection;

use crate::site::{StoreFault, TestSite, request, until};

/// Small, seeded random number generator (xorshift64*, Vigna 2016); a failure can be reproduced
/// from its seed.
struct SeededRng(u64);

impl SeededRng {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) % sides
    }
}

/// Returns the text of job `number`, and the state in which it must end.
fn job(number: i64) -> (String, JobState) {
    let tasks = number % 4 + 1;
    let (command, state) = match number % 5 {
        0 => ("exit 7", JobState::Failed),
        1 => ("sleep 3", JobState::Done),
        _ => ("exit 0", JobState::Done),
    };
    (
        format!(
            "{{name: job-{number}, tasks: {tasks}, gpus-per-task: 1, time: 5m, run: {command}}}"
        ),
        state,
    )
}

async fn crash_loop(seed: u64, jobs: i64) {
    let mut dice = SeededRng(seed);
    let mut site = TestSite::new(|world| world);
    site.boot().await;
    let mut expected: BTreeMap<JobId, JobState> = BTreeMap::new();
    let mut next = 0;
    let mut crashes = 0;
    let mut waiting = None;
    while next < jobs || count(&site, "history") < jobs {
        // 1. The daemon will be killed at one of its next writes, before or after it is durable.
        let left = dice.roll(25) as u32;
        site.switch.set(if dice.roll(2) == 0 {
            StoreFault::CrashBefore(left)
        } else {
            StoreFault::CrashAfter(left)
        });

        // 2. Until then: submissions, each retried with its own key until it is answered, while
        // tasks progress.
        for _ in 0..200 {
            if site.switch.is_dead() {
                break;
            }
            if next < jobs {
                let (text, state) = job(next);
                let retried = waiting.take().unwrap_or_else(|| request(&text));
                match site.client().submit(&retried).await {
                    Ok(answer) => {
                        expected.insert(answer.jobs[0].job, state);
                        next += 1;
                    }
                    Err(_) => waiting = Some(retried),
                }
            }
            site.world.step();
            tokio::task::yield_now().await;
            if next == jobs && count(&site, "history") == jobs {
                break;
            }
        }

        // 3. The daemon is gone; another one starts on its state.
        crashes += 1;
        let _dead = site.core.take().unwrap().shut_down();
        for _ in 0..dice.roll(4) {
            site.world.step();
        }
        site.boot().await;
    }
    assert!(crashes > 5, "seed {seed}: the loop ended before it tried anything");
    check_history(&site, seed, &expected);
    check_journal(&site, seed);
    assert!(
        site.world.live().is_empty(),
        "seed {seed}: tasks outlive their jobs: {:?}",
        site.world.live()
    );
}

fn database(site: &TestSite) -> Connection {
    Connection::open(site.dir.path().join("muster.db")).unwrap()
}

fn count(site: &TestSite, table: &str) -> i64 {
    database(site)
        .query_row(&format!("SELECT count(*) FROM {table}"), [], |row| row.get(0))
        .unwrap()
}

/// Checks that every job ended once, as expected, on its first attempt: the end of the daemon does
/// not end jobs.
fn check_history(site: &TestSite, seed: u64, expected: &BTreeMap<JobId, JobState>) {
    let database = database(site);
    let mut query = database.prepare("SELECT job, state FROM history ORDER BY job").unwrap();
    let rows =
        query.query_map([], |row| Ok((row.get::<_, i64>(0)?, row.get::<_, String>(1)?))).unwrap();
    let found: BTreeMap<JobId, String> = rows
        .map(|row| row.map(|(job, state)| (JobId(job.unsigned_abs()), state)).unwrap())
        .collect();
    let wanted: BTreeMap<JobId, String> =
        expected.iter().map(|(job, state)| (*job, state.word().to_owned())).collect();
    assert_eq!(found, wanted, "seed {seed}");
    let attempts: (i64, i64, i64) = database
        .query_row(
            "SELECT count(*), max(attempt), count(*) FILTER (WHERE ended IS NULL) FROM attempts",
            [],
            |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)),
        )
        .unwrap();
    assert_eq!(
        attempts,
        (expected.len() as i64, 1, 0),
        "seed {seed}: attempts, highest number, open ones"
    );
}

/// Checks that gangs start as a whole: no task starts before all are prepared, and every rank
/// reports.
fn check_journal(site: &TestSite, seed: u64) {
    let database = database(site);
    let mut query = database.prepare("SELECT body FROM journal ORDER BY seq").unwrap();
    let rows = query.query_map([], |row| row.get::<_, String>(0)).unwrap();
    let mut tasks: BTreeMap<JobId, u32> = BTreeMap::new();
    let mut gangs: BTreeMap<AttemptId, usize> = BTreeMap::new();
    let mut prepared: BTreeMap<AttemptId, BTreeSet<Rank>> = BTreeMap::new();
    let mut ran: BTreeMap<AttemptId, BTreeSet<Rank>> = BTreeMap::new();
    for row in rows {
        match serde_json::from_str::<JournalRecord>(&row.unwrap()).unwrap() {
            JournalRecord::Event(Event::Submitted { job, spec }) => {
                assert!(
                    tasks.insert(job, spec.min_tasks()).is_none(),
                    "seed {seed}: job {job} was submitted twice"
                );
            }
            JournalRecord::Plan(plan) => {
                for (id, placement, _) in plan.starts() {
                    assert_eq!(
                        placement.len() as u32,
                        tasks[&id.element.job],
                        "seed {seed}: {id} starts in part"
                    );
                    assert!(
                        gangs.insert(id, placement.len()).is_none(),
                        "seed {seed}: {id} was started twice"
                    );
                }
            }
            JournalRecord::Event(Event::Task(report)) => match report.observation {
                Observation::Prepared => {
                    prepared.entry(report.id).or_default().insert(report.rank);
                }
                Observation::Started => {
                    // A single task may report its start without being prepared before.
                    let ready = prepared.get(&report.id).map_or(0, BTreeSet::len);
                    let gang = gangs[&report.id];
                    assert!(ready == gang || gang == 1, "seed {seed}: {} runs in part", report.id);
                    ran.entry(report.id).or_default().insert(report.rank);
                }
                // It started and ended while no daemon ran.
                Observation::Exited(_) => {
                    ran.entry(report.id).or_default().insert(report.rank);
                }
                // Not a stage.
                Observation::Checkpointed(_) | Observation::Signalled(_) | Observation::Ready => {}
                Observation::Lost { reason } => {
                    panic!("seed {seed}: {} was lost: {reason}", report.id)
                }
                Observation::Refused { reason } | Observation::Impossible { reason } => {
                    panic!("seed {seed}: {} was refused: {reason}", report.id)
                }
            },
            JournalRecord::Event(_) => {}
        }
    }
    assert_eq!(gangs.len(), tasks.len(), "seed {seed}");
    for (id, tasks) in gangs {
        assert_eq!(
            ran.get(&id).map_or(0, BTreeSet::len),
            tasks,
            "seed {seed}: {id} did not run whole"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hundred_jobs_survive_a_daemon_that_keeps_dying() {
    for seed in [1, 2, 3] {
        crash_loop(seed * 0x9e37_79b9, 100).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_ended_while_the_daemon_was_down_is_found() {
    let mut site = TestSite::new(|world| world);
    site.boot().await;
    let job = site.submit("{name: long, tasks: 2, gpus-per-task: 1, run: exit 4}").await[0];
    until(async || {
        site.world.step();
        (site.client().job(job, None).await.unwrap().job.state == JobState::Running).then_some(())
    })
    .await;
    site.stop();
    site.world.run_until_idle();
    site.boot().await;
    let view = site.reach(job, JobState::Failed).await;
    assert_eq!(view.elements[0].outcome.as_ref().unwrap().exit_code(), 4);
    assert_eq!(view.elements[0].attempt, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_is_charged_up_to_its_end_and_not_up_to_the_return_of_the_daemon() {
    let mut site = TestSite::new(|world| world);
    site.boot().await;
    let job =
        site.submit("{name: two, tasks: 2, gpus-per-task: 1, time: 5m, run: sleep 9}").await[0];
    let running = until(async || {
        let view = site.client().job(job, None).await.unwrap().job;
        if view.state == JobState::Running {
            return Some(view);
        }
        site.world.step();
        None
    })
    .await;
    site.stop();
    let end = running.elements[0].started.unwrap() + Span::from_secs(60);
    site.world.set_now(end);
    site.world.run_until_idle();
    site.clock.jump(3600);
    site.boot().await;
    let view = site.reach(job, JobState::Done).await;
    assert_eq!((view.ended, view.elements[0].ended), (Some(end), Some(end)));
    let usage = site.client().usage().await.unwrap().rows;
    let charged: u64 = usage.iter().map(|row| row.gpu_secs).sum();
    assert!((120..130).contains(&charged), "two GPUs for a minute: {usage:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_end_that_is_recorded_as_to_come_is_now() {
    let mut site = TestSite::new(|world| world);
    site.boot().await;
    let job = site.submit("{name: one, gpus: 1, run: exit 0}").await[0];
    site.stop();
    site.world.set_now(muster_model::Time(u64::MAX));
    site.world.run_until_idle();
    site.boot().await;
    site.is_stepped = true;
    let view = site.reach(job, JobState::Done).await;
    let now = muster_daemon::clock::Clock::now(&*site.clock);
    assert!(view.ended.unwrap() <= now, "{view:?}");
}
