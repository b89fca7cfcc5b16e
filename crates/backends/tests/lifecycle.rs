//! The whole life of real processes: stages, kinds of exit, stops, limits, logs, environment.
#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod common;

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use common::{Groups, Rig, gang, id, is_running, pid_in, stop, until};
use muster_backends::driver::{Backend, BackendCommand};
use muster_backends::order::GangOrder;
use muster_model::job::{AfterCheckpoint, CheckpointBy};
use muster_model::{
    Bytes, Checkpoint, CpuMilli, Observation, OutputFiles, Rank, Span, StopCause, TaskExit,
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kinds_of_exit_are_distinguished_and_output_is_logged() {
    let mut rig = Rig::new(Groups::Found);
    for (job, script, expected) in [
        (1, "exit 0", TaskExit::Code { code: 0 }),
        (2, "exit 7", TaskExit::Code { code: 7 }),
        (3, "kill -SEGV $$", TaskExit::Signal { signal: 11 }),
        (4, "#!/bin/sh\nexit 5", TaskExit::Code { code: 5 }),
    ] {
        let order = gang(id(job, 1), &[script]);
        assert_eq!(rig.run(&order).await, expected, "{script}");
    }
    // Reopening the output by name does not truncate it; standard input is empty.
    let order =
        gang(id(5, 1), &["echo out; echo err >&2; echo again > /dev/stderr; cat; echo end"]);
    assert_eq!(rig.run(&order).await, TaskExit::Code { code: 0 });
    assert_eq!(rig.log(id(5, 1), 0), "out\nerr\nagain\nend\n");
    // A large output arrives completely.
    let order = gang(id(6, 1), &["seq 1 200000"]);
    assert_eq!(rig.run(&order).await, TaskExit::Code { code: 0 });
    assert_eq!(rig.log(id(6, 1), 0).lines().count(), 200_000);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_user_process_of_64_runs_before_go() {
    let mut rig = Rig::new(Groups::Found);
    let ran = rig.path("ran");
    std::fs::create_dir(&ran).unwrap();
    let script = format!("touch {}/$RANK", ran.display());
    let order = gang(id(1, 1), &[script.as_str(); 64]);
    rig.execute(BackendCommand::Prepare(order.clone().into()));
    rig.all(64, |what| *what == Observation::Prepared).await;
    assert_eq!(std::fs::read_dir(&ran).unwrap().count(), 0);
    rig.execute(BackendCommand::Go(order.id));
    let mut over = 0;
    while over < 64 {
        if let Observation::Exited(exit) = rig.next().await.2 {
            assert_eq!(exit, TaskExit::Code { code: 0 });
            over += 1;
        }
    }
    assert_eq!(std::fs::read_dir(&ran).unwrap().count(), 64);
}

/// Runs two ranks, which must succeed.
async fn run_both(rig: &mut Rig, order: GangOrder) {
    let id = order.id;
    rig.execute(BackendCommand::Prepare(order.into()));
    let mut prepared = BTreeSet::new();
    let mut over = BTreeSet::new();
    while over.len() < 2 {
        // Reports may be repeated, also those of the previous attempt.
        match rig.next().await {
            (of, rank, Observation::Prepared) if of == id => {
                prepared.insert(rank);
                if prepared.len() == 2 {
                    rig.execute(BackendCommand::Go(id));
                }
            }
            (of, rank, Observation::Exited(exit)) if of == id => {
                assert_eq!(exit, TaskExit::Code { code: 0 });
                over.insert(rank);
            }
            _ => {}
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn output_is_written_to_the_files_that_a_job_names() {
    let mut rig = Rig::new(Groups::Found);
    let dir = rig.path("work");
    std::fs::create_dir(&dir).unwrap();
    let named = |output: &str, error: Option<&str>| OutputFiles {
        output: Some(output.to_owned()),
        error: error.map(str::to_owned),
    };
    let read = |name: &str| std::fs::read_to_string(dir.join(name)).unwrap();
    // 1. One file for all ranks, appended to at each start; a relative path starts at the working
    //    directory.
    let one = |attempt| GangOrder {
        files: named("new/all.txt", None),
        workdir: dir.clone(),
        ..gang(id(1, attempt), &["echo $RANK; echo err >&2", "echo $RANK; echo err >&2"])
    };
    run_both(&mut rig, one(1)).await;
    run_both(&mut rig, one(2)).await;
    let text = read("new/all.txt");
    let mut lines: Vec<&str> = text.lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, ["0", "0", "1", "1", "err", "err", "err", "err"]);
    // Muster's own log has a line with the path, and none of the output.
    let log = rig.log(id(1, 1), 0);
    assert_eq!(
        log,
        format!(
            "muster: output is written to {}, as the job specifies\n",
            dir.join("new/all.txt").display()
        )
    );
    // 2. One file per rank, and another for standard error.
    let order = GangOrder {
        files: named("%x-%j-%t", Some("err-%t")),
        workdir: dir.clone(),
        ..gang(id(2, 1), &["echo a; echo e >&2", "echo b"])
    };
    let name = order.job_name.clone();
    run_both(&mut rig, order).await;
    assert_eq!(
        (read(&format!("{name}-2-0")), read(&format!("{name}-2-1"))),
        ("a\n".into(), "b\n".into())
    );
    assert_eq!((read("err-0"), read("err-1")), ("e\n".into(), String::new()));
    // 3. A path that is not a regular file is refused before the program runs, and a pipe without a
    //    reader does not block.
    std::fs::create_dir(dir.join("folder")).unwrap();
    rustix::fs::mknodat(
        rustix::fs::CWD,
        dir.join("pipe"),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::from_raw_mode(0o600),
        0,
    )
    .unwrap();
    for (job, output) in [(3, "folder"), (4, "pipe"), (5, "/dev/full"), (6, "new/all.txt/x")] {
        let order = GangOrder {
            files: named(output, None),
            workdir: dir.clone(),
            ..gang(id(job, 1), &["touch ran"])
        };
        rig.execute(BackendCommand::Prepare(order.into()));
        let reason = loop {
            match rig.next().await {
                (of, _, what) if of != id(job, 1) => drop(what),
                (_, _, Observation::Impossible { reason } | Observation::Refused { reason }) => {
                    break reason;
                }
                (_, _, other) => panic!("{output}: {other:?}"),
            }
        };
        assert!(reason.contains("cannot write the output into"), "{reason}");
    }
    assert!(!dir.join("ran").exists());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_task_that_cannot_run_is_refused_before_any_task_runs() {
    let mut rig = Rig::new(Groups::Found);
    let ran = rig.path("ran");
    let touch = format!("touch {}", ran.display());
    let order = gang(id(1, 1), &[touch.as_str(), "#!/no/such/interpreter\n"]);
    rig.execute(BackendCommand::Prepare(order.clone().into()));
    let seen = rig.all(2, |_| true).await;
    assert_eq!(seen[&0], Observation::Prepared);
    let Observation::Impossible { reason } = &seen[&1] else { panic!("{seen:?}") };
    assert!(reason.contains("/no/such/interpreter"), "{reason}");
    rig.execute(BackendCommand::Stop(order.id, StopCause::GangFailed));
    let seen = rig.all(2, |what| *what != Observation::Prepared).await;
    assert_eq!(seen[&0], Observation::Exited(TaskExit::Stopped));
    assert!(!ran.exists());

    let order = GangOrder { workdir: "/no/such/dir".into(), ..gang(id(2, 1), &["true"]) };
    rig.execute(BackendCommand::Prepare(order.into()));
    let Observation::Refused { reason } = rig.next().await.2 else { panic!("not refused") };
    assert!(reason.contains("/no/such/dir"), "{reason}");
}

/// Returns a script that ignores SIGTERM and starts an orphan in a session of its own that ignores
/// SIGTERM too. Both write their pids.
fn stubborn(rig: &Rig) -> String {
    let dir = rig.temp.path().display();
    format!(
        "trap '' TERM; setsid sh -c 'trap \"\" TERM; (while :; do sleep 0.1; done) & echo $! > {dir}/escaped.tmp; \
         mv {dir}/escaped.tmp {dir}/escaped' ; echo $$ > {dir}/main; while :; do sleep 0.1; done"
    )
}

async fn stubborn_task_is_ended(groups: Groups) {
    let mut rig = Rig::new(groups);
    let order = gang(id(1, 1), &[stubborn(&rig).as_str()]);
    rig.start(&order).await;
    let escaped = pid_in(&rig.path("escaped")).await;
    let main = pid_in(&rig.path("main")).await;
    let stopped_at = Instant::now();
    rig.execute(stop(order.id));
    assert_eq!(rig.exit().await, TaskExit::Stopped);
    assert!(stopped_at.elapsed() >= Duration::from_millis(order.grace.0), "no grace was given");
    assert!(
        !is_running(main) && !is_running(escaped),
        "something is left when the exit is reported"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stubborn_task_is_ended_by_its_control_group() {
    stubborn_task_is_ended(Groups::Found).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stubborn_task_is_ended_without_a_control_group() {
    stubborn_task_is_ended(Groups::None).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn remaining_processes_are_ended_before_the_exit_is_reported() {
    for groups in [Groups::Found, Groups::None] {
        let mut rig = Rig::new(groups);
        let left = rig.path("left");
        let script = format!("setsid sh -c 'sleep 1000 & echo $! > {}' ; exit 3", left.display());
        assert_eq!(rig.run(&gang(id(1, 1), &[script.as_str()])).await, TaskExit::Code { code: 3 });
        assert!(!is_running(pid_in(&left).await));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_limit_ends_a_task_that_ignores_it_and_warns_before() {
    let mut rig = Rig::new(Groups::Found);
    let script = "trap 'echo saved' USR1; trap 'echo terminated' TERM; echo up; while :; do sleep 0.05; done";
    let order = GangOrder {
        time_limit: Some(Span(900)),
        checkpoint: Some(Checkpoint {
            signal: 10,
            lead: Span(500),
            by: CheckpointBy::First,
            then: AfterCheckpoint::Continue,
            to: Default::default(),
        }),
        ..gang(id(1, 1), &[script])
    };
    rig.start(&order).await;
    let started = Instant::now();
    until("the checkpoint", || rig.log(order.id, 0).contains("saved")).await;
    let saved = started.elapsed();
    assert_eq!(rig.exit().await, TaskExit::TimedOut);
    let ended = started.elapsed();
    assert!(saved < Duration::from_millis(900), "warned after the limit: {saved:?}");
    // Limit plus grace, less the time between the start and its report.
    assert!(ended >= Duration::from_millis(1100), "ended too early: {ended:?}");
    // Shells also print the signal that ended their sleeping child.
    let log = rig.log(order.id, 0);
    let lines: Vec<&str> =
        log.lines().filter(|line| ["up", "saved", "terminated"].contains(line)).collect();
    assert_eq!(lines, ["up", "saved", "terminated"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_task_that_obeys_at_its_limit_is_timed_out_too() {
    let mut rig = Rig::new(Groups::Found);
    let script = "trap 'exit 0' TERM; while :; do sleep 0.02; done";
    let order = GangOrder { time_limit: Some(Span(100)), ..gang(id(1, 1), &[script]) };
    assert_eq!(rig.run(&order).await, TaskExit::TimedOut);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn memory_limits_are_enforced_where_capabilities_say_so() {
    let mut rig = Rig::new(Groups::Found);
    let mut order = gang(id(1, 1), &["head -c 300m /dev/zero | tail -c 300m > /dev/null"]);
    order.tasks[0].memory = Bytes(64 << 20);
    let exit = rig.run(&order).await;
    match rig.backend().capabilities().memory_enforced_by {
        Some(_) => assert_eq!(exit, TaskExit::OutOfMemory),
        None => {
            println!("not run: no writable memory controller; capabilities say convention");
            assert_eq!(exit, TaskExit::Code { code: 0 });
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn process_limits_are_enforced_where_capabilities_say_so() {
    let mut rig = Rig::new(Groups::Found);
    rig.limits.processes = Some(20);
    rig.boot();
    // Each process waits for its child until a fork fails, so all of them exist at the same time.
    let script = "n=0; while [ $n -lt 60 ]; do sleep 30 & n=$((n+1)); done; echo all of them";
    let exit = rig.run(&gang(id(1, 1), &[script])).await;
    let log = rig.log(id(1, 1), 0);
    match rig.backend().capabilities().processes_enforced_by {
        Some(_) => {
            assert_ne!(exit, TaskExit::Code { code: 0 }, "{log}");
            assert!(!log.contains("all of them"), "{log}");
            assert!(log.contains("muster: the limit of 20 processes was reached"), "{log}");
        }
        None => println!("not run: no writable pids controller; capabilities say so"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn output_beyond_the_limit_is_dropped_from_the_middle() {
    let mut rig = Rig::new(Groups::Found);
    rig.limits.log = Bytes(8000);
    rig.boot();
    let order = gang(id(1, 1), &["echo begin; seq 1 20000; echo end"]);
    assert_eq!(rig.run(&order).await, TaskExit::Code { code: 0 });
    let first = rig.backend().log_path(order.id, Rank(0));
    let files = muster_backends::segments::list(&first).unwrap();
    let kept: u64 = files.iter().map(|file| std::fs::metadata(&file.path).unwrap().len()).sum();
    assert!(kept <= 8000, "{kept}");
    assert!(rig.log(order.id, 0).starts_with("begin\n1\n2\n"));
    let last = std::fs::read_to_string(&files.last().unwrap().path).unwrap();
    assert!(last.ends_with("\n20000\nend\n"), "{last}");
    let whole: u64 = "begin\nend\n".len() as u64
        + (1..=20_000).map(|n: u32| n.to_string().len() as u64 + 1).sum::<u64>();
    assert_eq!(muster_backends::segments::missing(&first).dropped, whole - kept);
    // The directory is deleted with all segments.
    rig.execute(BackendCommand::Forget(order.id));
    until("it to be forgotten", || !rig.task_dir(order.id, 0).join("order.json").exists()).await;
    rig.backend().discard(order.id, 1);
    assert!(!rig.task_dir(order.id, 0).exists());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cpu_limits_are_set_where_capabilities_say_so() {
    let mut rig = Rig::new(Groups::Found);
    let script = "cat /sys/fs/cgroup/cpu$(grep :cpu: /proc/self/cgroup | cut -d: -f3)/cpu.cfs_quota_us \
                  2>/dev/null || cat /sys/fs/cgroup$(grep ^0:: /proc/self/cgroup | cut -d: -f3)/cpu.max";
    let mut order = gang(id(1, 1), &[script]);
    order.tasks[0].cpus = CpuMilli(1500);
    assert_eq!(rig.run(&order).await, TaskExit::Code { code: 0 });
    match rig.backend().capabilities().cpu_enforced_by {
        Some(_) => assert!(rig.log(order.id, 0).starts_with("150000"), "{}", rig.log(order.id, 0)),
        None => println!("not run: no writable CPU controller; capabilities say convention"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_rendezvous_port_is_reserved_until_the_ranks_run() {
    let mut rig = Rig::new(Groups::Found);
    let order = gang(
        id(1, 1),
        &["echo $RANK $WORLD_SIZE $MASTER_ADDR:$MASTER_PORT $CUDA_VISIBLE_DEVICES"; 3],
    );
    rig.execute(BackendCommand::Prepare(order.clone().into()));
    rig.all(3, |what| *what == Observation::Prepared).await;
    let text = std::fs::read_to_string(rig.task_dir(order.id, 0).join("order.json")).unwrap();
    let port: u16 = serde_json::from_str::<serde_json::Value>(&text).unwrap()["ports"][0]
        .as_u64()
        .unwrap() as u16;
    assert!(std::net::TcpListener::bind(("0.0.0.0", port)).is_err(), "the port is not held");
    rig.execute(BackendCommand::Go(order.id));
    let mut over = 0;
    while over < 3 {
        over += usize::from(matches!(rig.next().await.2, Observation::Exited(_)));
    }
    for rank in 0..3 {
        assert_eq!(rig.log(order.id, rank), format!("{rank} 3 127.0.0.1:{port} {rank}\n"));
    }
    // Released; another daemon on this machine may try the same port in between.
    common::until("the port is free", || std::net::TcpListener::bind(("0.0.0.0", port)).is_ok())
        .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_taken_port_refuses_the_gang() {
    let mut rig = Rig::new(Groups::Found);
    // The order is on disk but there is no supervisor, as after a crash of the daemon, and another
    // process has taken its port since.
    let order = gang(id(1, 1), &["true"]);
    rig.execute(BackendCommand::Prepare(order.clone().into()));
    rig.all(1, |what| *what == Observation::Prepared).await;
    let path = rig.task_dir(order.id, 0).join("order.json");
    let text = std::fs::read_to_string(path).unwrap().replace("1.0.1.0", "2.0.1.0");
    let mut record: serde_json::Value = serde_json::from_str(&text).unwrap();
    let taken = std::net::TcpListener::bind("0.0.0.0:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    (record["hold_port"], record["ports"][0]) = (port.into(), port.into());
    let next = gang(id(2, 1), &["true"]);
    record["id"] = serde_json::to_value(next.id).unwrap();
    let dir = rig.task_dir(next.id, 0);
    std::fs::create_dir_all(&dir).unwrap();
    std::fs::write(dir.join("order.json"), record.to_string()).unwrap();
    rig.execute(BackendCommand::Prepare(next.into()));
    let Observation::Refused { reason } = rig.next().await.2 else { panic!("not refused") };
    assert!(reason.contains("rendezvous port"), "{reason}");
    rig.execute(stop(order.id));
    assert_eq!(rig.exit().await, TaskExit::Stopped);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_task_gets_its_environment_directory_and_mask_and_nothing_else() {
    let mut rig = Rig::new(Groups::Found);
    let mut order = gang(
        id(1, 1),
        &[
            "env | cut -d= -f1 | sort | grep -v '^_$'; pwd; umask; ls -l /proc/self/fd | grep -c ' -> '",
        ],
    );
    order.env.insert("SECRET".into(), "s3cret".into());
    order.workdir = "/usr".into();
    order.umask = 0o027;
    assert_eq!(rig.run(&order).await, TaskExit::Code { code: 0 });
    let log = rig.log(order.id, 0);
    assert!(log.ends_with("/usr\n0027\n4\n"), "{log}");
    let ours = muster_backends::env::TAG_VARIABLE;
    assert!(log.contains("SECRET\n") && log.contains(ours) && !log.contains("CARGO"), "{log}");
    rig.execute(BackendCommand::Forget(order.id));
    let dir = rig.task_dir(order.id, 0);
    until("the order to be forgotten", || !dir.join("order.json").exists()).await;
    assert!(rig.backend().log_path(order.id, Rank(0)).exists());
    for entry in std::fs::read_dir(&dir).unwrap() {
        let text = std::fs::read_to_string(entry.unwrap().path()).unwrap();
        assert!(!text.contains("s3cret"), "a secret outlives its job");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn resource_usage_is_recorded() {
    let mut rig = Rig::new(Groups::Found);
    let order = gang(id(1, 1), &["i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done; ulimit -Sn"]);
    assert_eq!(rig.run(&order).await, TaskExit::Code { code: 0 });
    let text = std::fs::read_to_string(rig.task_dir(order.id, 0).join("exit.json")).unwrap();
    let ended: muster_backends::record::ExitRecord = serde_json::from_str(&text).unwrap();
    let usage = ended.usage.unwrap();
    assert!(usage.cpu_ms >= 10 && usage.max_rss_bytes >= 1 << 19, "{usage:?}");
    // The task has the limit of open files that this process was started with, not the raised one.
    let order =
        muster_backends::record::TaskDir::at(rig.task_dir(order.id, 0)).order().unwrap().unwrap();
    let soft =
        order.open_files.or(rustix::process::getrlimit(rustix::process::Resource::Nofile).current);
    assert_eq!(rig.log(order.id, 0).trim().parse().ok(), soft);
}
