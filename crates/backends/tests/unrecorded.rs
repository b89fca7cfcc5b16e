//! Task directories that are deleted while no daemon runs: whatever is lost with them, no attempt
//! starts a second time, and no process of a first start is left.
#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod common;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use common::{Groups, Rig, gang, id, is_running, pid_in, until};
use muster_backends::driver::{Backend, BackendCommand, ExpectedTask};
use muster_backends::order::GangOrder;
use muster_backends::process;
use muster_model::{AttemptId, Observation, Rank, TaskExit};
use rustix::process::Signal;

/// Parts of the state that are deleted.
#[derive(Clone, Copy, Debug)]
enum Loss {
    TaskDirectory,
    Claim,
    ClaimAndOrder,
    AllJobs,
    AllJobsButHiddenFiles,
    TaskDirectoryAndLiveList,
    TaskDirectoryAndEntry,
    /// The directory of all jobs is moved away.
    AllJobsMoved,
}

impl Loss {
    const ALL: [Loss; 8] = [
        Loss::TaskDirectory,
        Loss::Claim,
        Loss::ClaimAndOrder,
        Loss::AllJobs,
        Loss::AllJobsButHiddenFiles,
        Loss::TaskDirectoryAndLiveList,
        Loss::TaskDirectoryAndEntry,
        Loss::AllJobsMoved,
    ];

    /// Carries the loss out on the state of the rig, which has had one job.
    fn happen(self, rig: &Rig, task: &Path) {
        let jobs = rig.path("state/jobs");
        let entries = |dir: &Path| -> Vec<PathBuf> {
            fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).collect()
        };
        match self {
            Loss::TaskDirectory => fs::remove_dir_all(task).unwrap(),
            Loss::Claim => fs::remove_file(task.join("claim.json")).unwrap(),
            Loss::ClaimAndOrder => {
                fs::remove_file(task.join("claim.json")).unwrap();
                fs::remove_file(task.join("order.json")).unwrap();
            }
            Loss::AllJobs => fs::remove_dir_all(jobs).unwrap(),
            Loss::AllJobsButHiddenFiles => {
                for path in entries(&jobs) {
                    if !path.file_name().unwrap().to_str().unwrap().starts_with('.') {
                        fs::remove_dir_all(path).unwrap();
                    }
                }
            }
            Loss::TaskDirectoryAndLiveList => {
                fs::remove_dir_all(task).unwrap();
                fs::remove_dir_all(jobs.join(".live")).unwrap();
            }
            Loss::TaskDirectoryAndEntry => {
                fs::remove_dir_all(task).unwrap();
                entries(&jobs.join(".live")).iter().for_each(|path| fs::remove_file(path).unwrap());
            }
            Loss::AllJobsMoved => fs::rename(jobs, rig.path("moved")).unwrap(),
        }
    }
}

/// Ends the daemon as a kill does: its actors report nothing any more.
fn kill_daemon(rig: &mut Rig) {
    rig.backend = None;
    let (_, closed) = tokio::sync::mpsc::unbounded_channel();
    rig.reports = closed;
}

fn past(rig: &Rig, tasks: &[(AttemptId, u32)]) -> Vec<(AttemptId, Observation)> {
    let expected: Vec<ExpectedTask> = tasks
        .iter()
        .map(|(id, rank)| ExpectedTask { id: *id, rank: Rank(*rank), node: "here".into() })
        .collect();
    let past = rig.backend().past(&expected);
    past.into_iter().map(|past| (past.report.id, past.report.observation)).collect()
}

/// Restarts the daemon after a loss, and repeats the order as a journal without the start requires.
/// Returns the reason for which the task was lost.
async fn restart_and_repeat(rig: &mut Rig, order: &GangOrder) -> String {
    rig.boot();
    let reports = past(rig, &[(order.id, 0)]);
    let [(about, Observation::Lost { reason })] = reports.as_slice() else {
        panic!("expected a loss, got {reports:?}");
    };
    assert_eq!(*about, order.id);
    repeat_in_vain(rig, order).await;
    reason.to_string()
}

/// Repeats the order, also after another death of the daemon. It is not carried out.
async fn repeat_in_vain(rig: &mut Rig, order: &GangOrder) {
    for _ in 0..2 {
        rig.execute(BackendCommand::Prepare(order.clone().into()));
        rig.execute(BackendCommand::Go(order.id));
        rig.lost().await;
        kill_daemon(rig);
        rig.boot();
        assert_eq!(past(rig, &[(order.id, 0)]), [], "the claim is recorded now");
    }
}

/// Returns a script that records that it ran, and its pid, and runs for ever.
fn endless(rig: &Rig) -> String {
    let dir = rig.temp.path().display();
    format!("echo $$ >> {dir}/ran; while :; do sleep 0.1; done")
}

async fn what_runs_is_ended(groups: Groups, loss: Loss) {
    let mut rig = Rig::new(groups);
    let order = gang(id(1, 1), &[endless(&rig).as_str()]);
    rig.start(&order).await;
    let main = pid_in(&rig.path("ran")).await;
    let supervisor = rig.supervisor_pid(order.id, 0);
    let dir = rig.task_dir(order.id, 0);
    kill_daemon(&mut rig);
    loss.happen(&rig, &dir);
    let reason = restart_and_repeat(&mut rig, &order).await;
    assert!(reason.contains("was deleted") && reason.contains("killed by"), "{loss:?}: {reason}");
    until("the first process has ended", || !is_running(main)).await;
    until("its supervisor has exited", || !is_running(supervisor)).await;
    assert_eq!(fs::read_to_string(rig.path("ran")).unwrap().lines().count(), 1, "{loss:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_task_that_runs_is_ended_and_not_started_again() {
    for loss in Loss::ALL {
        what_runs_is_ended(Groups::Found, loss).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_control_groups_it_is_found_by_its_tag() {
    for loss in Loss::ALL {
        what_runs_is_ended(Groups::None, loss).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_supervisor_is_found_by_its_directory_alone() {
    let mut rig = Rig::new(Groups::None);
    let script = format!("exec env -i /bin/sh -c '{}'", endless(&rig));
    let order = gang(id(1, 1), &[script.as_str()]);
    rig.start(&order).await;
    let main = pid_in(&rig.path("ran")).await;
    let supervisor = rig.supervisor_pid(order.id, 0);
    let dir = rig.task_dir(order.id, 0);
    kill_daemon(&mut rig);
    Loss::TaskDirectoryAndEntry.happen(&rig, &dir);
    restart_and_repeat(&mut rig, &order).await;
    until("both have ended", || !is_running(main) && !is_running(supervisor)).await;
    assert_eq!(fs::read_to_string(rig.path("ran")).unwrap().lines().count(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn processes_of_a_dead_supervisor_are_found() {
    for groups in [Groups::Found, Groups::None] {
        // The daemon has a runtime of its own: an actor that lives on would see the supervisor die,
        // and end what it left.
        let daemon = tokio::runtime::Runtime::new().unwrap();
        let mut rig = {
            let _inside = daemon.enter();
            Rig::new(groups)
        };
        let dir = rig.temp.path().display().to_string();
        // The main process dies with its supervisor; this one does not.
        let script = format!("setsid sh -c '{}' & wait", endless(&rig));
        let order = gang(id(1, 1), &[script.as_str()]);
        rig.start(&order).await;
        let escaped = pid_in(Path::new(&format!("{dir}/ran"))).await;
        let supervisor = rig.supervisor_pid(order.id, 0);
        let task = rig.task_dir(order.id, 0);
        kill_daemon(&mut rig);
        let ended = move || daemon.shutdown_timeout(Duration::from_secs(10));
        tokio::task::spawn_blocking(ended).await.unwrap();
        process::signal(supervisor, Signal::KILL);
        until("it is dead", || !is_running(supervisor)).await;
        Loss::TaskDirectoryAndEntry.happen(&rig, &task);
        restart_and_repeat(&mut rig, &order).await;
        assert!(!is_running(escaped), "{groups:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_task_that_may_have_ended_is_not_started_again() {
    for loss in Loss::ALL {
        if matches!(loss, Loss::TaskDirectoryAndEntry) {
            // Nothing is left that tells it from a task that was never ordered.
            continue;
        }
        let mut rig = Rig::new(Groups::Found);
        let script = format!("echo $$ >> {}", rig.path("ran").display());
        let order = gang(id(1, 1), &[script.as_str()]);
        rig.start(&order).await;
        assert_eq!(rig.exit().await, TaskExit::Code { code: 0 });
        let supervisor = rig.supervisor_pid(order.id, 0);
        let dir = rig.task_dir(order.id, 0);
        kill_daemon(&mut rig);
        until("its supervisor has exited", || !is_running(supervisor)).await;
        loss.happen(&rig, &dir);
        if matches!(loss, Loss::Claim | Loss::ClaimAndOrder) {
            rig.boot();
            let end = (order.id, Observation::Exited(TaskExit::Code { code: 0 }));
            assert_eq!(past(&rig, &[(order.id, 0)]).last(), Some(&end), "its end is recorded");
            rig.execute(BackendCommand::Prepare(order.clone().into()));
            assert_eq!(rig.exit().await, TaskExit::Code { code: 0 });
        } else {
            let reason = restart_and_repeat(&mut rig, &order).await;
            assert!(reason.contains("may have run and ended"), "{loss:?}: {reason}");
        }
        assert_eq!(fs::read_to_string(rig.path("ran")).unwrap().lines().count(), 1, "{loss:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_task_that_the_state_does_not_expect_is_ended_and_its_attempt_does_not_start() {
    let mut rig = Rig::new(Groups::Found);
    let order = gang(id(1, 1), &[endless(&rig).as_str()]);
    rig.start(&order).await;
    let main = pid_in(&rig.path("ran")).await;
    kill_daemon(&mut rig);
    fs::remove_dir_all(rig.path("state/jobs")).unwrap();
    rig.boot();
    assert_eq!(past(&rig, &[]), []);
    assert!(!is_running(main));
    repeat_in_vain(&mut rig, &order).await;
    assert_eq!(fs::read_to_string(rig.path("ran")).unwrap().lines().count(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_order_that_was_never_carried_out_is_carried_out_once() {
    let mut rig = Rig::new(Groups::Found);
    let script = format!("echo $$ >> {}", rig.path("ran").display());
    let order = gang(id(1, 1), &[script.as_str()]);
    assert_eq!(past(&rig, &[]), []);
    kill_daemon(&mut rig);
    rig.boot();
    assert_eq!(past(&rig, &[(order.id, 0)]), []);
    rig.start(&order).await;
    assert_eq!(rig.exit().await, TaskExit::Code { code: 0 });
    assert_eq!(fs::read_to_string(rig.path("ran")).unwrap().lines().count(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_other_ranks_of_a_gang_keep_their_records() {
    let mut rig = Rig::new(Groups::Found);
    let order = gang(id(1, 1), &["sleep 1000", "sleep 1000"]);
    rig.start(&order).await;
    let dir = rig.task_dir(order.id, 1);
    kill_daemon(&mut rig);
    fs::remove_dir_all(dir).unwrap();
    rig.boot();
    let tasks = [(order.id, 0), (order.id, 1)];
    assert!(matches!(past(&rig, &tasks).as_slice(), [(_, Observation::Lost { .. })]));
    rig.adopt(&[(order.id, 0)]);
    assert_eq!(rig.next().await.2, Observation::Started);
    rig.execute(common::stop(order.id));
    assert_eq!(rig.exit().await, TaskExit::Stopped);
}
