//! The conformance suite on every backend of this crate.
#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod common;

use std::sync::Arc;

use common::{Groups, Rig};
use muster_backends::conform::{ConformanceSubject, TaskBehaviour, suite};
use muster_backends::driver::{Backend, Report};
use muster_backends::fake::{FakeBackend, FakeWorld};
use muster_model::payload::{Identity, TaskCommand};
use muster_model::{Bytes, CpuMilli, NodeSpec};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

fn identity() -> Identity {
    Identity {
        user: "root".into(),
        uid: rustix::process::geteuid().as_raw(),
        gid: rustix::process::getegid().as_raw(),
    }
}

struct Fake {
    world: FakeWorld,
}

impl ConformanceSubject for Fake {
    fn boot(&mut self) -> (Arc<dyn Backend>, UnboundedReceiver<Report>) {
        let (to, reports) = unbounded_channel();
        (Arc::new(FakeBackend::new(self.world.clone(), to)), reports)
    }

    fn program(&self, does: TaskBehaviour) -> TaskCommand {
        TaskCommand::Argv(match does {
            TaskBehaviour::Exit(code) => vec!["exit".into(), code.to_string()],
            TaskBehaviour::Signal(signal) => vec!["signal".into(), signal.to_string()],
            TaskBehaviour::Forever => vec!["run".into()],
            TaskBehaviour::Save => vec!["save".into(), "step-1".into()],
            TaskBehaviour::Refuse => vec!["refuse".into()],
        })
    }

    fn identity(&self) -> Identity {
        identity()
    }

    fn tick(&mut self) {
        self.world.step();
    }
}

fn node() -> NodeSpec {
    NodeSpec::plain("here", CpuMilli(1000), Bytes(1 << 30))
}

#[tokio::test]
async fn the_fake_conforms() {
    let temp = tempfile::tempdir().unwrap();
    suite(&mut Fake { world: FakeWorld::new(vec![node()], temp.path().into()) }).await;
}

#[tokio::test]
async fn the_fake_conforms_while_it_repeats_itself() {
    let temp = tempfile::tempdir().unwrap();
    suite(&mut Fake { world: FakeWorld::new(vec![node()], temp.path().into()).repeating() }).await;
}

struct Local {
    rig: Rig,
}

/// A backend that shares its place with the rig.
impl ConformanceSubject for Local {
    fn boot(&mut self) -> (Arc<dyn Backend>, UnboundedReceiver<Report>) {
        self.rig.boot();
        let (_, closed) = unbounded_channel();
        let reports = std::mem::replace(&mut self.rig.reports, closed);
        (Arc::new(self.rig.backend.take().unwrap()), reports)
    }

    fn program(&self, does: TaskBehaviour) -> TaskCommand {
        match does {
            TaskBehaviour::Exit(code) => TaskCommand::Script(format!("exit {code}")),
            TaskBehaviour::Signal(signal) => TaskCommand::Script(format!("kill -{signal} $$")),
            TaskBehaviour::Forever => TaskCommand::Argv(vec!["sleep".into(), "1000".into()]),
            TaskBehaviour::Save => {
                let save = "echo step-1 > \"$MUSTER_CHECKPOINT_FILE\"";
                TaskCommand::Script(format!(
                    "trap '{save}' USR1; {save}; while :; do sleep 0.02; done"
                ))
            }
            TaskBehaviour::Refuse => TaskCommand::Argv(vec!["no-such-program-anywhere".into()]),
        }
    }

    fn identity(&self) -> Identity {
        identity()
    }

    fn tick(&mut self) {}
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_local_backend_conforms() {
    suite(&mut Local { rig: Rig::new(Groups::Found) }).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_local_backend_conforms_without_control_groups() {
    suite(&mut Local { rig: Rig::new(Groups::None) }).await;
}
