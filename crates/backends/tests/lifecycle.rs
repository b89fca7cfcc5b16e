//! Real processes through their whole life: stages, exits told apart, stops, limits, logs, environment.
#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod common;

use common::{Groups, Rig, gang, id};
use muster_model::TaskExit;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn exits_are_told_apart_and_output_is_logged() {
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
    let order = gang(id(5, 1), &["echo out; echo err >&2; echo again > /dev/stderr; cat; echo end"]);
    assert_eq!(rig.run(&order).await, TaskExit::Code { code: 0 });
    insta::assert_snapshot!(rig.log(id(5, 1), 0), @r"
    out
    err
    again
    end
    ");
}
