//! Conversion of the engine's rejections into API errors.

use muster_model::Reason;
use muster_report::RenderContext;
use muster_runtime::RefusedInput;
use muster_runtime::engine::EventRefusal;

use crate::failure::ApiFailure;

/// Returns the API error for a rejection.
pub(super) fn failure(refused: RefusedInput) -> ApiFailure {
    engine(&refused.refusal)
}

fn engine(refusal: &EventRefusal) -> ApiFailure {
    match refusal {
        EventRefusal::NeverStarts(reason) | EventRefusal::TooManyPending(reason) => {
            ApiFailure::Refused { message: sentence(reason), hints: hints(reason) }
        }
        EventRefusal::UnknownJob(job) => ApiFailure::no_job(*job),
        EventRefusal::UnknownElement(_) | EventRefusal::UnknownNode(_) | EventRefusal::UnknownDevice { .. } => {
            ApiFailure::NotFound(refusal.to_string())
        }
        EventRefusal::NotWaiting(_) => ApiFailure::conflict(refusal.to_string(), "cancel or requeue it instead"),
        EventRefusal::HeldByAdmin { by, .. } => {
            ApiFailure::Denied { message: refusal.to_string(), hint: format!("ask {by} to release it") }
        }
        EventRefusal::NoCheckpoint(_) => ApiFailure::conflict(
            refusal.to_string(),
            "write `checkpoint: {signal: USR1, grace: 60s}` into its spec; docs/jobs.md explains the signal",
        ),
        EventRefusal::NoService(_) => {
            ApiFailure::conflict(refusal.to_string(), "write `kind: service` into its spec and submit it again")
        }
        EventRefusal::NotRunning(_) => ApiFailure::conflict(
            refusal.to_string(),
            "only running jobs can save their progress; `muster ps` shows them",
        ),
        EventRefusal::Ended(_) => ApiFailure::conflict(refusal.to_string(), "requeue it to run it again"),
        EventRefusal::ReservationExists(name) => ApiFailure::conflict(
            refusal.to_string(),
            format!("delete it with `muster reserve {name} --drop`, or choose another name"),
        ),
        EventRefusal::ReservationConflict { conflicts: in_way, .. } if in_way.is_empty() => ApiFailure::Refused {
            message: refusal.to_string(),
            hints: vec![
                "the other GPUs are out of service or reserved already: `muster reserve` lists the reservations, \
                 `muster nodes` the GPUs"
                    .to_owned(),
            ],
        },
        EventRefusal::ReservationConflict { .. } => ApiFailure::Refused {
            message: refusal.to_string(),
            hints: vec![
                "let it begin later, request less, or use `--stop` to stop and requeue those jobs"
                    .to_owned(),
            ],
        },
        EventRefusal::ReservationOverlaps { .. } | EventRefusal::UnknownReservation(_) | EventRefusal::ReservationNotAllowed(_) => {
            let hints = vec!["`muster reserve` lists them".to_owned()];
            ApiFailure::Refused { message: refusal.to_string(), hints }
        }
        EventRefusal::InvalidReservation(_) => ApiFailure::bad_request(refusal.to_string()),
        EventRefusal::UnknownQueue(_) | EventRefusal::NoQueue(_) => ApiFailure::Refused {
            message: refusal.to_string(),
            hints: vec!["`muster queues` lists them".to_owned()],
        },
        EventRefusal::UnknownDependency(job) => ApiFailure::Refused {
            message: format!("it waits for job {job}, which is unknown or ended long ago"),
            hints: vec!["`muster ps --all` lists the jobs that are known".to_owned()],
        },
        // Names within a submission are resolved before; only a number without a job can get here.
        EventRefusal::DependencyCycle { on, .. } => ApiFailure::Refused {
            message: format!("it waits for job {on}, and there is no such job yet"),
            hints: vec!["a job can depend only on earlier ones; `muster ps --all` lists them".to_owned()],
        },
        EventRefusal::Malformed(_)
        | EventRefusal::NoTasks
        | EventRefusal::TooManyDevices { .. }
        | EventRefusal::JobExists(_)
        | EventRefusal::Queues(_) => ApiFailure::Refused { message: refusal.to_string(), hints: Vec::new() },
    }
}

fn sentence(reason: &Reason) -> String {
    // A permanent reason contains no instant, so any value of the clock will do.
    muster_report::reason::short(reason, RenderContext::plain())
}

fn hints(reason: &Reason) -> Vec<String> {
    let hint = match reason {
        Reason::NeverFits(_) => "request less, or another model; `muster nodes` shows the GPUs",
        Reason::NeverInTopology(_) => "request less, or write `preferred` instead of `required`",
        Reason::TimeLimit { .. } => "set a time limit that the queue accepts, or use another queue",
        Reason::BorrowedTime { .. } => {
            "set a shorter time limit, request fewer GPUs, or use another queue; `muster queues` shows the quotas"
        }
        Reason::Priority { .. } => "set a priority that the queue accepts",
        Reason::Budget { .. } => {
            "set a shorter time limit, request fewer GPUs, or use another queue; `muster queues` shows the budgets"
        }
        Reason::AdvanceReservationTooShort { .. } => {
            "give a time limit that fits in, grace included"
        }
        Reason::PendingJobs { .. } => {
            "wait until some have started, or cancel some; an array of many elements counts as one job"
        }
        _ => return Vec::new(),
    };
    vec![hint.to_owned()]
}
