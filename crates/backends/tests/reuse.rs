//! Reuse of supervisors for short tasks: each task has its own records, and the death of an idle
//! supervisor never prevents a task from running.
#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod common;

use common::{Groups, Rig, gang, id, is_running, pid_in, until};
use muster_backends::driver::BackendCommand;
use muster_backends::order::GangOrder;
use muster_backends::process;
use muster_backends::record::TaskDir;
use muster_model::{Observation, TaskExit};
use rustix::process::Signal;

/// Runs a task to its end and forgets it, as a daemon does once the end is in its journal.
async fn run(rig: &mut Rig, order: &GangOrder) -> TaskExit {
    let exit = rig.run(order).await;
    rig.execute(BackendCommand::Forget(order.id));
    exit
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_supervisor_takes_the_next_task_and_keeps_their_records_apart() {
    for groups in [Groups::Found, Groups::None] {
        let mut rig = Rig::new(groups);
        // Uses some 60 MB, starts a child that must not outlive the task, and exits with 3.
        let first = gang(
            id(1, 1),
            &["x=$(head -c 60000000 /dev/zero | tr '\\0' x); sleep 600 & echo one; exit 3"],
        );
        assert_eq!(run(&mut rig, &first).await, TaskExit::Code { code: 3 });
        let exiting = rig.supervisor_pid(first.id, 0);

        // The first supervisor had to kill the child, so it is not reused.
        let second = gang(id(2, 1), &["x=$(head -c 60000000 /dev/zero | tr '\\0' x); echo two"]);
        assert_eq!(run(&mut rig, &second).await, TaskExit::Code { code: 0 });
        let reused = rig.supervisor_pid(second.id, 0);
        assert_ne!(exiting, reused);

        let third = gang(id(3, 1), &["echo three; exit 5"]);
        assert_eq!(run(&mut rig, &third).await, TaskExit::Code { code: 5 });
        assert_eq!(rig.supervisor_pid(third.id, 0), reused, "the idle supervisor");
        for (order, log) in [(&first, "one\n"), (&second, "two\n"), (&third, "three\n")] {
            assert_eq!(rig.log(order.id, 0), log);
        }
        let ended =
            |order: &GangOrder| TaskDir::at(rig.task_dir(order.id, 0)).exit().unwrap().unwrap();
        let memory = |order: &GangOrder| ended(order).usage.unwrap().max_rss_bytes;
        assert!(memory(&second) > 50_000_000, "{}", memory(&second));
        assert!(memory(&third) < 30_000_000, "includes the previous task: {}", memory(&third));
        assert!(ended(&third).started.is_some());

        until("the supervisor's end", || !is_running(reused)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_task_runs_once_although_its_idle_supervisor_is_killed() {
    let mut rig = Rig::new(Groups::Found);
    let first = gang(id(1, 1), &["true"]);
    rig.run(&first).await;
    let waiting = rig.supervisor_pid(first.id, 0);
    // While stopped, it is assigned the task but does not claim it.
    process::signal(waiting, Signal::STOP);
    until("its stop", || process::is_stopped(waiting)).await;
    rig.execute(BackendCommand::Forget(first.id));
    let ran = rig.path("ran");
    let second = gang(id(2, 1), &[&format!("echo $$ >> {}", ran.display())]);
    rig.execute(BackendCommand::Prepare(second.clone().into()));
    rig.execute(BackendCommand::Go(second.id));
    until("its order", || rig.task_dir(second.id, 0).join("order.json").exists()).await;
    process::signal(waiting, Signal::KILL);
    assert_eq!(rig.exit().await, TaskExit::Code { code: 0 });
    assert_ne!(rig.supervisor_pid(second.id, 0), waiting);
    assert_eq!(std::fs::read_to_string(ran).unwrap().lines().count(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_idle_supervisor_exits_with_its_daemon_and_the_task_s_end_is_found() {
    let mut rig = Rig::new(Groups::Found);
    let order = gang(id(1, 1), &["exit 7"]);
    rig.run(&order).await;
    let waiting = rig.supervisor_pid(order.id, 0);
    rig.boot();
    until("its end", || !is_running(waiting)).await;
    rig.adopt(&[(order.id, 0)]);
    assert_eq!(rig.exit().await, TaskExit::Code { code: 7 });
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_task_of_a_reused_supervisor_is_adopted_and_commands_are_not_mixed_up() {
    let mut rig = Rig::new(Groups::Found);
    let first = gang(id(1, 1), &["true"]);
    run(&mut rig, &first).await;
    let pid = rig.path("pid");
    let second = gang(id(2, 1), &[&format!("echo $$ > {}; sleep 600", pid.display())]);
    rig.start(&second).await;
    let main = pid_in(&pid).await;
    assert_eq!(rig.supervisor_pid(first.id, 0), rig.supervisor_pid(second.id, 0));

    rig.boot();
    rig.adopt(&[(first.id, 0), (second.id, 0)]);
    let mut seen = Vec::new();
    while seen.len() < 2 {
        let (task, _, what) = rig.next().await;
        seen.push((task, what));
    }
    assert!(
        seen.contains(&(first.id, Observation::Exited(TaskExit::Code { code: 0 }))),
        "{seen:?}"
    );
    assert!(seen.contains(&(second.id, Observation::Started)), "{seen:?}");
    rig.execute(common::stop(first.id));
    rig.execute(common::stop(second.id));
    until("its end", || !is_running(main)).await;
}
