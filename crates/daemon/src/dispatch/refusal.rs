//! The engine's refusals in the API's words.

use muster_model::{Reason, Time};
use muster_report::Style;
use muster_runtime::Refused;
use muster_runtime::engine::Refusal;

use crate::failure::Failure;

/// What the client is told.
pub(super) fn failure(refused: Refused) -> Failure {
    engine(&refused.refusal)
}

fn engine(refusal: &Refusal) -> Failure {
    match refusal {
        Refusal::Never(reason) | Refusal::TooMany(reason) => {
            Failure::Refused { message: sentence(reason), hints: hints(reason) }
        }
        Refusal::UnknownJob(job) => Failure::no_job(*job),
        Refusal::UnknownElement(_) | Refusal::UnknownNode(_) | Refusal::UnknownDevice { .. } => {
            Failure::NotFound(refusal.to_string())
        }
        Refusal::NotWaiting(_) => Failure::conflict(refusal.to_string(), "cancel or requeue it instead"),
        Refusal::HeldByAdmin { by, .. } => {
            Failure::Denied { message: refusal.to_string(), hint: format!("ask {by} to release it") }
        }
        Refusal::NoCheckpoint(_) => Failure::conflict(
            refusal.to_string(),
            "write `checkpoint: {signal: USR1, grace: 60s}` into its spec; docs/jobs.md says what the signal asks for",
        ),
        Refusal::NoService(_) => {
            Failure::conflict(refusal.to_string(), "write `kind: service` into its spec and submit it again")
        }
        Refusal::NotRunning(_) => Failure::conflict(
            refusal.to_string(),
            "only what runs can save its progress; `muster ps` shows what does",
        ),
        Refusal::Ended(_) => Failure::conflict(refusal.to_string(), "requeue it to run it again"),
        Refusal::WindowExists(window) => Failure::conflict(
            refusal.to_string(),
            format!("`muster reserve {window} --drop` takes it back, or choose another name"),
        ),
        Refusal::WindowTaken { in_way, .. } if in_way.is_empty() => Failure::Refused {
            message: refusal.to_string(),
            hints: vec![
                "the others are out of service or set aside already: `muster reserve` lists the reservations, `muster nodes` \
                 what is there"
                    .to_owned(),
            ],
        },
        Refusal::WindowTaken { .. } => Failure::Refused {
            message: refusal.to_string(),
            hints: vec![
                "let it begin later, ask for less, or give `--stop` to have those stopped and queued again"
                    .to_owned(),
            ],
        },
        Refusal::WindowOverlaps { .. } | Refusal::UnknownWindow(_) | Refusal::NotForYou(_) => {
            let hints = vec!["`muster reserve` lists them".to_owned()];
            Failure::Refused { message: refusal.to_string(), hints }
        }
        Refusal::BadWindow(_) => Failure::bad_request(refusal.to_string()),
        Refusal::UnknownQueue(_) | Refusal::NoQueue(_) => Failure::Refused {
            message: refusal.to_string(),
            hints: vec!["`muster queues` lists them".to_owned()],
        },
        Refusal::UnknownDependency(job) => Failure::Refused {
            message: format!("it waits for job {job}, which is unknown or ended long ago"),
            hints: vec!["`muster ps --all` lists the jobs that are known".to_owned()],
        },
        // Names of one submission were resolved before; what is left is a number that nobody has
        // yet.
        Refusal::DependencyCycle { on, .. } => Failure::Refused {
            message: format!("it waits for job {on}, and there is no such job yet"),
            hints: vec!["a job can wait only for earlier ones; `muster ps --all` lists them".to_owned()],
        },
        Refusal::Malformed(_)
        | Refusal::NoTasks
        | Refusal::TooManyDevices { .. }
        | Refusal::JobExists(_)
        | Refusal::Queues(_) => Failure::Refused { message: refusal.to_string(), hints: Vec::new() },
    }
}

fn sentence(reason: &Reason) -> String {
    // A permanent reason names no instant, so the clock does not matter.
    muster_report::reason::short(reason, Time(0), &Style::plain())
}

fn hints(reason: &Reason) -> Vec<String> {
    let hint = match reason {
        Reason::NeverFits(_) => {
            "ask for less, or for another model; `muster nodes` shows what there is"
        }
        Reason::NeverInTopology(_) => "ask for less, or write `preferred` instead of `required`",
        Reason::TimeLimit { .. } => {
            "give a time limit that the queue admits, or take another queue"
        }
        Reason::BorrowedTime { .. } => {
            "give a shorter time limit, ask for fewer GPUs, or take another queue; `muster queues` shows the quotas"
        }
        Reason::Priority { .. } => "give a priority that the queue admits",
        Reason::Budget { .. } => {
            "give a shorter time limit, ask for fewer GPUs, or take another queue; `muster queues` shows the budgets"
        }
        Reason::WindowTooShort { .. } => "give a time limit that fits in, grace included",
        Reason::PendingJobs { .. } => {
            "wait until some have started, or cancel some; an array of many elements counts as one job"
        }
        _ => return Vec::new(),
    };
    vec![hint.to_owned()]
}
