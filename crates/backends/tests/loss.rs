//! Deaths of supervisors and daemons: no process is left, no attempt runs twice, and real exits are
//! found.
#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod common;

use common::{Groups, Rig, gang, id, is_running, pid_in, stop, until};
use muster_backends::driver::BackendCommand;
use muster_backends::process::{self, ProcessKey};
use muster_backends::record::{OrderRecord, TaskDir, TaskEnd};
use muster_model::{Observation, Span, TaskExit};
use rustix::process::Signal;

/// Returns a script that starts an orphan in a session of its own that ignores SIGTERM, and runs
/// for ever.
fn script(rig: &Rig) -> String {
    let dir = rig.temp.path().display();
    format!(
        "setsid sh -c 'trap \"\" TERM HUP; (while :; do sleep 0.1; done) & echo $! > {dir}/e; mv {dir}/e {dir}/escaped'; \
         echo $$ > {dir}/m; mv {dir}/m {dir}/main; while :; do sleep 0.1; done"
    )
}

async fn a_killed_supervisor_is_a_lost_task(groups: Groups, mechanism: &str, while_down: bool) {
    let mut rig = Rig::new(groups);
    let order = gang(id(1, 1), &[script(&rig).as_str()]);
    rig.start(&order).await;
    let main = pid_in(&rig.path("main")).await;
    let escaped = pid_in(&rig.path("escaped")).await;
    let supervisor = rig.supervisor_pid(order.id, 0);
    if while_down {
        rig.backend = None;
        let (_, closed) = tokio::sync::mpsc::unbounded_channel();
        rig.reports = closed;
        process::signal(supervisor, Signal::KILL);
        until("its end", || !is_running(supervisor)).await;
        rig.boot();
        rig.adopt(&[(order.id, 0)]);
    } else {
        process::signal(supervisor, Signal::KILL);
    }
    let reason = rig.lost().await;
    assert!(reason.contains("supervisor was killed") && reason.contains(mechanism), "{reason}");
    assert!(!is_running(main) && !is_running(escaped), "a process of the lost task still runs");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tasks_of_a_killed_supervisor_are_killed_by_control_group() {
    let mechanism = match Rig::new(Groups::Found).backend.as_ref().unwrap() {
        backend
            if muster_backends::driver::Backend::capabilities(backend)
                .kill_by
                .starts_with("cgroup") =>
        {
            "control group"
        }
        _ => "environment tag",
    };
    a_killed_supervisor_is_a_lost_task(Groups::Found, mechanism, false).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tasks_of_a_killed_supervisor_are_killed_by_tag_and_the_reason_names_it() {
    a_killed_supervisor_is_a_lost_task(Groups::None, "environment tag", false).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_supervisor_killed_while_the_daemon_is_down_is_found() {
    a_killed_supervisor_is_a_lost_task(Groups::Found, "killed by", true).await;
    a_killed_supervisor_is_a_lost_task(Groups::None, "environment tag", true).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn exits_while_the_daemon_was_down_are_found() {
    let mut rig = Rig::new(Groups::Found);
    let release = rig.path("release");
    let script = format!("while [ ! -e {} ]; do sleep 0.02; done; exit 9", release.display());
    let order = gang(id(1, 1), &[script.as_str()]);
    rig.start(&order).await;
    let dir = rig.task_dir(order.id, 0);
    rig.backend = None;
    let (_, closed) = tokio::sync::mpsc::unbounded_channel();
    rig.reports = closed;
    std::fs::write(release, "").unwrap();
    until("the record of its end", || dir.join("exit.json").exists()).await;
    rig.boot();
    rig.adopt(&[(order.id, 0)]);
    assert_eq!(rig.exit().await, TaskExit::Code { code: 9 });
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tasks_that_are_not_expected_are_ended_and_forgotten() {
    let mut rig = Rig::new(Groups::Found);
    let order = gang(id(1, 1), &[script(&rig).as_str()]);
    rig.start(&order).await;
    let main = pid_in(&rig.path("main")).await;
    let escaped = pid_in(&rig.path("escaped")).await;
    rig.boot();
    rig.adopt(&[]);
    until("its end", || !is_running(main) && !is_running(escaped)).await;
    let dir = rig.task_dir(order.id, 0);
    until("its order to be forgotten", || !dir.join("order.json").exists()).await;
    let live = rig.path("state/jobs/.live");
    until("the list of live tasks to be empty", || {
        std::fs::read_dir(&live).unwrap().next().is_none()
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_claim_of_another_boot_means_that_the_task_is_lost() {
    let mut rig = Rig::new(Groups::Found);
    let order = gang(id(1, 1), &["sleep 1000"]);
    rig.start(&order).await;
    let path = rig.task_dir(order.id, 0).join("claim.json");
    let claim = std::fs::read_to_string(&path).unwrap();
    let own = ProcessKey::of(std::process::id() as i32).unwrap();
    std::fs::write(&path, claim.replace(&own.boot_id, "00000000-another-boot")).unwrap();
    rig.boot();
    rig.adopt(&[(order.id, 0)]);
    assert!(rig.lost().await.contains("rebooted"));
    std::fs::write(&path, claim).unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reused_pid_does_not_count_as_the_supervisor() {
    let mut rig = Rig::new(Groups::Found);
    let order = gang(id(1, 1), &["sleep 1000"]);
    rig.start(&order).await;
    let path = rig.task_dir(order.id, 0).join("claim.json");
    let mut claim: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
    let supervisor = rig.supervisor_pid(order.id, 0);
    process::signal(supervisor, Signal::KILL);
    assert!(rig.lost().await.contains("killed"));
    // This test's own pid with another start time: alive, but not the supervisor.
    claim["supervisor"]["pid"] = std::process::id().into();
    std::fs::write(&path, claim.to_string()).unwrap();
    rig.boot();
    rig.adopt(&[(order.id, 0)]);
    assert!(rig.lost().await.contains("killed"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_interrupted_prepare_is_finished_by_its_repetition() {
    let mut rig = Rig::new(Groups::Found);
    let order = gang(id(1, 1), &["exit 0", "exit 0"]);
    // The daemon died after it had created one directory and before it wrote a file into it.
    std::fs::create_dir_all(rig.task_dir(order.id, 0)).unwrap();
    rig.adopt(&[(order.id, 0), (order.id, 1)]);
    rig.execute(BackendCommand::Prepare(order.clone().into()));
    rig.all(2, |what| *what == Observation::Prepared).await;
    rig.execute(BackendCommand::Go(order.id));
    let mut over = 0;
    while over < 2 {
        match rig.next().await.2 {
            Observation::Exited(exit) => {
                assert_eq!(exit, TaskExit::Code { code: 0 });
                over += 1;
            }
            Observation::Prepared | Observation::Started => {}
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn damaged_records_lose_the_task_and_leave_nothing() {
    for name in ["claim.json", "exit.json"] {
        let mut rig = Rig::new(Groups::Found);
        let order = gang(id(1, 1), &[script(&rig).as_str()]);
        rig.start(&order).await;
        let main = pid_in(&rig.path("main")).await;
        let escaped = pid_in(&rig.path("escaped")).await;
        std::fs::write(rig.task_dir(order.id, 0).join(name), "{\"version\":").unwrap();
        rig.boot();
        rig.adopt(&[(order.id, 0)]);
        assert!(rig.lost().await.contains("not readable"));
        assert!(!is_running(main) && !is_running(escaped));
        // The rig reads claims during its cleanup.
        std::fs::remove_file(rig.task_dir(order.id, 0).join("claim.json")).unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_crashes_of_the_daemon_run_everything_once() {
    let mut rig = Rig::new(Groups::Found);
    let ran = rig.path("ran");
    std::fs::create_dir(&ran).unwrap();
    let script = format!(
        "mkdir {}/$MUSTER_JOB_ID-$RANK || exit 99; exit $((MUSTER_JOB_ID % 7))",
        ran.display()
    );
    for job in 1..=20 {
        let order = gang(id(job, 1), &[script.as_str(), script.as_str()]);
        // The daemon dies somewhere between Prepare and the end; its successor repeats what is
        // outstanding.
        let mut prepared = std::collections::BTreeSet::new();
        let mut over = std::collections::BTreeMap::new();
        let mut crash_after = job % 6;
        rig.execute(BackendCommand::Prepare(order.clone().into()));
        while over.len() < 2 {
            if crash_after == 0 {
                rig.boot();
                match prepared.len() {
                    2 => rig.execute(BackendCommand::Go(order.id)),
                    _ => rig.execute(BackendCommand::Prepare(order.clone().into())),
                }
                rig.adopt(&[(order.id, 0), (order.id, 1)]);
                crash_after = u64::MAX;
            }
            let (about, rank, what) = rig.next().await;
            if about != order.id {
                // A repeated report of an earlier job's end.
                continue;
            }
            crash_after = crash_after.saturating_sub(1);
            match what {
                Observation::Prepared => {
                    if prepared.insert(rank) && prepared.len() == 2 {
                        rig.execute(BackendCommand::Go(order.id));
                    }
                }
                Observation::Started => {}
                Observation::Exited(exit) => {
                    prepared.extend([0, 1]);
                    over.insert(rank, exit);
                }
                other => panic!("{other:?} of {}", order.id),
            }
        }
        let expected = TaskExit::Code { code: (job % 7) as i32 };
        assert!(over.values().all(|exit| *exit == expected), "{over:?}");
        rig.execute(BackendCommand::Forget(order.id));
    }
    assert_eq!(std::fs::read_dir(ran).unwrap().count(), 40);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_emptied_runtime_directory_does_not_lose_a_task() {
    let mut rig = Rig::new(Groups::Found);
    let order = gang(id(1, 1), &["sleep 1000"]);
    rig.start(&order).await;
    std::fs::remove_dir_all(rig.path("run")).unwrap();
    rig.boot();
    rig.adopt(&[(order.id, 0)]);
    assert_eq!(rig.next().await.2, Observation::Started);
    rig.execute(common::stop(order.id));
    assert_eq!(rig.exit().await, TaskExit::Stopped);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_that_stops_its_supervisor_can_still_be_ended() {
    let mut rig = Rig::new(Groups::Found);
    let go = rig.path("go");
    let script = format!(
        "until [ -e {} ]; do sleep 0.02; done; kill -STOP $PPID; while :; do sleep 0.1; done",
        go.display()
    );
    let order = gang(id(1, 1), &[script.as_str()]);
    rig.start(&order).await;
    std::fs::write(go, "").unwrap();
    let supervisor = rig.supervisor_pid(order.id, 0);
    until("it is stopped", || process::is_stopped(supervisor)).await;
    rig.execute(stop(order.id));
    assert_eq!(rig.exit().await, TaskExit::Stopped);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_prepared_task_is_refused_when_no_daemon_connects_within_the_timeout() {
    let mut rig = Rig::new(Groups::Found);
    let order = gang(id(1, 1), &["echo ran"]);
    rig.execute(BackendCommand::Prepare(order.clone().into()));
    rig.all(1, |what| *what == Observation::Prepared).await;
    // A second supervisor gets the same order for another attempt, with a short timeout, and has no
    // daemon from the start.
    let written = rig.task_dir(order.id, 0).join("order.json");
    let mut record: OrderRecord = serde_json::from_slice(&std::fs::read(written).unwrap()).unwrap();
    assert!(record.go_timeout.is_some_and(|timeout| timeout >= Span::from_secs(60)));
    record.id = id(2, 1);
    record.go_timeout = Some(Span(50));
    record.hold_port = None;
    record.socket = rig.path("other-socket");
    record.checkpoint_file = Some(rig.path("other-pipe"));
    for group in &mut record.cgroup.dirs {
        group.path.as_mut_os_string().push("-other");
    }
    let dir = TaskDir::at(rig.path("other"));
    dir.create().unwrap();
    dir.write_order(&record).unwrap();
    let mut supervisor =
        std::process::Command::new(env!("CARGO_BIN_EXE_muster-supervise-for-tests"))
            .arg("__supervise")
            .arg(dir.path())
            .stdin(std::process::Stdio::null())
            .spawn()
            .unwrap();
    assert!(supervisor.wait().unwrap().success());
    let end = dir.exit().unwrap().unwrap().end;
    assert!(
        matches!(&end, TaskEnd::Refused(reason) if reason.contains("no daemon connected")),
        "{end:?}"
    );
    assert_eq!(std::fs::read_to_string(dir.log()).unwrap(), "");
    // The first task, whose daemon is connected, has waited meanwhile, and runs.
    rig.execute(BackendCommand::Go(order.id));
    assert_eq!(rig.exit().await, TaskExit::Code { code: 0 });
}
