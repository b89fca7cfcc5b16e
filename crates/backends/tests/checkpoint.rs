//! Checkpoint acknowledgements and requests, with real processes.
#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod common;

use std::io::{Read, Write};

use common::{Groups, Rig, gang, id, stop, until};
use muster_backends::driver::{Backend, BackendCommand};
use muster_backends::local::checkpoint::acknowledge;
use muster_backends::local::session;
use muster_backends::order::GangOrder;
use muster_model::job::{AfterCheckpoint, CheckpointBy};
use muster_model::{
    Checkpoint, CheckpointTo, Observation, Rank, Span, TaskCheckpoint, TaskExit, TaskSignalled,
};

/// Script that runs until it is stopped.
const ENDLESS: &str = "trap 'exit 0' TERM; while :; do sleep 0.02; done";

/// Returns checkpoint terms with SIGUSR1.
fn asks(lead: Span) -> Checkpoint {
    Checkpoint {
        signal: 10,
        lead,
        by: CheckpointBy::First,
        then: AfterCheckpoint::Continue,
        to: Default::default(),
    }
}

impl Rig {
    /// Returns the next checkpoint; stages may be reported before it.
    async fn checkpoint(&mut self) -> TaskCheckpoint {
        loop {
            match self.next().await.2 {
                Observation::Checkpointed(checkpoint) => return checkpoint,
                Observation::Prepared | Observation::Started => {}
                other => panic!("expected a checkpoint, got {other:?}"),
            }
        }
    }

    /// Returns the next report on the signal delivery of a request.
    async fn signalled(&mut self) -> TaskSignalled {
        loop {
            match self.next_of_all().await.2 {
                Observation::Signalled(signalled) => return signalled,
                Observation::Prepared | Observation::Started | Observation::Checkpointed(_) => {}
                other => panic!("expected a signal, got {other:?}"),
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_write_at_any_time_is_a_checkpoint_and_survives_the_daemon() {
    let mut rig = Rig::new(Groups::Found);
    let script = format!("echo 'step 7' > \"$MUSTER_CHECKPOINT_FILE\"; {ENDLESS}");
    let order = gang(id(1, 1), &[script.as_str()]);
    rig.start(&order).await;
    let first = rig.checkpoint().await;
    assert_eq!((first.count, &*first.label, first.warned), (1, "step 7", false));

    rig.boot();
    rig.adopt(&[(order.id, 0)]);
    assert_eq!(
        rig.checkpoint().await,
        first,
        "the same again, for a daemon that may have missed it"
    );
    rig.execute(stop(order.id));
    assert_eq!(rig.exit().await, TaskExit::Stopped);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_last_checkpoint_of_a_task_is_reported_before_its_end() {
    let mut rig = Rig::new(Groups::Found);
    let script = "trap 'printf \"step 9\" > \"$MUSTER_CHECKPOINT_FILE\"; exit 0' TERM; echo up; while :; do sleep 0.02; done";
    let order = gang(id(1, 1), &[script]);
    rig.start(&order).await;
    let log = rig.task_dir(order.id, 0);
    until("its handler", || rig.log(order.id, 0).contains("up")).await;
    rig.execute(stop(order.id));
    assert_eq!(&*rig.checkpoint().await.label, "step 9");
    assert_eq!(rig.exit().await, TaskExit::Stopped);
    // A daemon that was down finds it on disk.
    rig.boot();
    rig.adopt(&[(order.id, 0)]);
    assert_eq!(&*rig.checkpoint().await.label, "step 9");
    assert_eq!(rig.exit().await, TaskExit::Stopped);
    assert!(log.join("checkpoint.json").exists());
    rig.execute(BackendCommand::Forget(order.id));
    until("it to be forgotten", || !log.join("checkpoint.json").exists()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_acknowledgements_after_the_warning_answer_it() {
    let mut rig = Rig::new(Groups::Found);
    let script = "trap 'echo after > \"$MUSTER_CHECKPOINT_FILE\"' USR1; trap 'exit 0' TERM; \
                  echo before > \"$MUSTER_CHECKPOINT_FILE\"; while :; do sleep 0.02; done";
    let order = GangOrder {
        time_limit: Some(Span(603_000)),
        checkpoint: Some(asks(Span(600_000))),
        ..gang(id(1, 1), &[script])
    };
    rig.start(&order).await;
    let before = rig.checkpoint().await;
    assert_eq!((&*before.label, before.warned), ("before", false));
    let after = rig.checkpoint().await;
    assert_eq!((after.count, &*after.label, after.warned), (2, "after", true));
    rig.execute(stop(order.id));
    assert_eq!(rig.exit().await, TaskExit::Stopped);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pauses_grow_while_a_task_keeps_writing() {
    let mut rig = Rig::new(Groups::Found);
    let order = gang(id(1, 1), &["exec yes 'step' > \"$MUSTER_CHECKPOINT_FILE\""]);
    rig.start(&order).await;
    let first = rig.checkpoint().await;
    let second = rig.checkpoint().await;
    let third = rig.checkpoint().await;
    assert_eq!((first.count, second.count, third.count), (1, 2, 3));
    assert!(second.at.since(first.at) >= Span(900), "{first:?} {second:?}");
    assert!(third.at.since(second.at) >= Span(1_800), "{second:?} {third:?}");
    rig.execute(stop(order.id));
    // The pipe is read once more at the end of the task.
    assert_eq!(rig.checkpoint().await.count, 4);
    assert_eq!(rig.exit().await, TaskExit::Stopped);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_attempt_gets_the_last_checkpoint_of_the_previous_one() {
    let mut rig = Rig::new(Groups::Found);
    let script = "echo \"$MUSTER_RESTART_COUNT:$MUSTER_LAST_CHECKPOINT\"";
    let fresh = GangOrder {
        env: [("MUSTER_LAST_CHECKPOINT".to_owned(), "of another job".to_owned())].into(),
        ..gang(id(1, 1), &[script])
    };
    rig.run(&fresh).await;
    assert_eq!(rig.log(fresh.id, 0), "0:\n");
    let again = GangOrder { last_checkpoint: Some("step 7".into()), ..gang(id(1, 3), &[script]) };
    rig.run(&again).await;
    assert_eq!(rig.log(again.id, 0), "2:step 7\n");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_is_signalled_once_and_its_answer_is_distinguished_from_earlier_ones() {
    let mut rig = Rig::new(Groups::Found);
    let script = "n=0; trap 'n=$((n+1)); echo $n > \"$MUSTER_CHECKPOINT_FILE\"' USR1; trap 'exit 0' TERM; \
                  echo before > \"$MUSTER_CHECKPOINT_FILE\"; while :; do sleep 0.02; done";
    let order = GangOrder { checkpoint: Some(asks(Span(1_000))), ..gang(id(1, 1), &[script]) };
    rig.start(&order).await;
    assert_eq!(rig.checkpoint().await.answers, 0);
    for (request, repeats) in [(1, 3), (2, 1)] {
        for _ in 0..repeats {
            rig.execute(BackendCommand::Checkpoint(order.id, request));
        }
        let answer = rig.checkpoint().await;
        assert_eq!(
            (answer.answers, answer.label.parse()),
            (request, Ok(request)),
            "one signal per request"
        );
    }
    // A restarted daemon repeats the request, and gets the recorded answer without a new signal.
    rig.boot();
    rig.adopt(&[(order.id, 0)]);
    rig.execute(BackendCommand::Checkpoint(order.id, 2));
    let again = rig.checkpoint().await;
    assert_eq!((again.count, again.answers, &*again.label), (3, 2, "2"));
    rig.execute(stop(order.id));
    assert_eq!(rig.exit().await, TaskExit::Stopped);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_acknowledgement_over_the_socket_is_on_disk_when_answered_and_clients_cannot_send_one() {
    let mut rig = Rig::new(Groups::Found);
    let order = gang(
        id(1, 1),
        &[&format!("trap 'exit 0' TERM; echo old > \"$MUSTER_CHECKPOINT_FILE\"; {ENDLESS}")],
    );
    let socket = rig.backend().task_socket(order.id, Rank(0)).unwrap();
    rig.execute(BackendCommand::Prepare(order.clone().into()));
    rig.all(1, |what| *what == Observation::Prepared).await;
    assert_eq!(acknowledge(&socket, "too early").unwrap(), None, "it does not run yet");
    rig.execute(BackendCommand::Go(order.id));
    assert_eq!(&*rig.checkpoint().await.label, "old");

    let acknowledged = acknowledge(&socket, "step 5").unwrap().unwrap();
    assert_eq!((acknowledged.count, &*acknowledged.label), (2, "step 5"));
    let record =
        std::fs::read_to_string(rig.task_dir(order.id, 0).join("checkpoint.json")).unwrap();
    assert!(record.contains("step 5"), "{record}");
    assert_eq!(rig.checkpoint().await, acknowledged, "reported like any other");

    // A client's bytes are relayed on a connection that accepts only terminal sessions.
    let mut client = session::connect(&socket).unwrap();
    client.write_all(b"{\"hello\":\"saved\",\"label\":\"step 6\"}\n").unwrap();
    let mut answer = Vec::new();
    client.read_to_end(&mut answer).unwrap();
    assert_eq!((answer.len(), acknowledge(&socket, "step 7").unwrap().unwrap().count), (0, 3));
    rig.execute(stop(order.id));
    assert_eq!(rig.checkpoint().await.count, 3);
    assert_eq!(rig.exit().await, TaskExit::Stopped);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_program_gets_the_signal_and_the_shell_around_it_survives() {
    for groups in [Groups::Found, Groups::None] {
        let mut rig = Rig::new(groups);
        let inner = "trap 'echo saved > \"$MUSTER_CHECKPOINT_FILE\"' USR1; echo up; while :; do sleep 0.02; done";
        let script = format!(
            "cat > inner.sh <<'END'\n{inner}\nEND\nsleep 600 &\nsh inner.sh\necho it ended with $?\n"
        );
        let dir = tempfile::tempdir().unwrap();
        let order = GangOrder {
            checkpoint: Some(asks(Span::from_secs(60))),
            workdir: dir.path().to_owned(),
            ..gang(id(1, 1), &[script.as_str()])
        };
        rig.start(&order).await;
        until("its handler", || rig.log(order.id, 0).contains("up")).await;
        rig.execute(BackendCommand::Checkpoint(order.id, 1));
        assert_eq!(rig.signalled().await, TaskSignalled { request: 1, warned: false, reached: 1 });
        assert_eq!(
            (&*rig.checkpoint().await.label, rig.log(order.id, 0).as_str()),
            ("saved", "up\n")
        );
        rig.execute(stop(order.id));
        assert_eq!(rig.exit().await, TaskExit::Stopped);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_that_no_process_handles_ends_none_and_reaches_one_that_handles_it_later() {
    let mut rig = Rig::new(Groups::Found);
    let dir = tempfile::tempdir().unwrap();
    let handler =
        "trap 'echo saved > \"$MUSTER_CHECKPOINT_FILE\"' USR1; while :; do sleep 0.02; done";
    let script = format!("sleep 600 &\nuntil [ -e ready ]; do sleep 0.02; done\n{handler}");
    let order = GangOrder {
        checkpoint: Some(asks(Span::from_secs(60))),
        workdir: dir.path().to_owned(),
        ..gang(id(1, 1), &[script.as_str()])
    };
    rig.start(&order).await;
    rig.execute(BackendCommand::Checkpoint(order.id, 1));
    assert_eq!(rig.signalled().await, TaskSignalled { request: 1, warned: false, reached: 0 });
    // A restarted daemon gets the report again.
    rig.boot();
    rig.adopt(&[(order.id, 0)]);
    assert_eq!(rig.signalled().await, TaskSignalled { request: 1, warned: false, reached: 0 });
    std::fs::write(dir.path().join("ready"), "").unwrap();
    assert_eq!(rig.signalled().await.reached, 1);
    assert_eq!(&*rig.checkpoint().await.label, "saved");
    rig.execute(stop(order.id));
    assert_eq!(rig.exit().await, TaskExit::Stopped);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_shell_with_an_exit_trap_survives_and_gets_the_signal_where_the_job_says_so() {
    for (to, trap, reached) in [
        (CheckpointTo::Handlers, "", 0),
        (CheckpointTo::Outermost, "trap 'echo saved > \"$MUSTER_CHECKPOINT_FILE\"' USR1; ", 1),
    ] {
        let mut rig = Rig::new(Groups::Found);
        let script = format!(
            "#!/bin/bash\ntrap 'echo cleaned up' EXIT; {trap}echo up\nwhile :; do sleep 0.02; done"
        );
        let checkpoint = Checkpoint { to, ..asks(Span::from_secs(60)) };
        let order =
            GangOrder { checkpoint: Some(checkpoint), ..gang(id(1, 1), &[script.as_str()]) };
        rig.start(&order).await;
        until("its handler", || rig.log(order.id, 0).contains("up")).await;
        rig.execute(BackendCommand::Checkpoint(order.id, 1));
        assert_eq!(rig.signalled().await.reached, reached);
        if reached > 0 {
            assert_eq!(&*rig.checkpoint().await.label, "saved");
        }
        assert_eq!(rig.log(order.id, 0), "up\n", "the shell still runs");
        rig.execute(stop(order.id));
        assert_eq!(rig.exit().await, TaskExit::Stopped);
    }
}
