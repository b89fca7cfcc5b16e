//! Reasons that come from a queue's limits, quotas and budgets, as text. The reason says which one
//! applies and when it is refilled; only the remaining amount is computed here.

use muster_model::{GpuMilli, Reason, Span};

use crate::RenderContext;
use crate::amount::{gpus, hours, is_are};
use crate::clock;
use crate::explanation_line::ExplanationLine;

/// Returns a fragment for a table row; empty for a reason of another kind.
pub(crate) fn short(reason: &Reason, context: RenderContext) -> String {
    match reason {
        Reason::Quota { queue, model, asked, used, nominal, lent, .. } => {
            let lent = if lent.0 > 0 { format!(", {lent} lent") } else { String::new() };
            format!("quota of {queue}: {used} of {nominal} {model} used{lent}, asks for {asked}")
        }
        Reason::BorrowedTime { queue, model, asked, used, nominal, length, limit } => format!(
            "{queue} borrows for at most {limit}, this {}: {used} of {nominal} {model} used, asks for {asked}",
            lasts(*length)
        ),
        Reason::MayNotBorrow { queue, model, asked, used, nominal } => format!(
            "protected, so it cannot borrow: {used} of {nominal} {model} of {queue} used, asks for {asked}"
        ),
        Reason::RunningJobs { queue, running, limit } => {
            format!("{queue} runs {running} of {limit} jobs")
        }
        Reason::GpusPerUser { queue, user, used, limit, .. } => {
            format!("{user} holds {used} of {limit} GPUs in {queue}")
        }
        Reason::Budget { .. } => short_budget(reason, context),
        Reason::PendingJobs { queue, user, pending, limit } => {
            format!("{user} has {pending} of at most {limit} jobs waiting in {queue}")
        }
        _ => String::new(),
    }
}

/// Returns the sentences of an explanation; none for a reason of another kind.
pub(crate) fn lines(reason: &Reason, context: RenderContext) -> Vec<ExplanationLine> {
    match reason {
        Reason::Quota { queue, model, asked, used, nominal, borrowable, lent } => vec![
            ExplanationLine::new(
                "quota",
                format!("{queue} uses {used} of its {nominal} {model}; this asks for {asked} more"),
            ),
            ExplanationLine::new("", quota_margin(*borrowable, used.0.saturating_sub(nominal.0), *lent))
                .with("muster queues"),
        ],
        Reason::BorrowedTime { queue, model, asked, used, nominal, length, limit } => vec![
            ExplanationLine::new(
                "quota",
                format!("{queue} uses {used} of its {nominal} {model}; this asks for {asked} more"),
            )
            .with("muster queues"),
            ExplanationLine::new("", format!("it borrows for at most {limit}, this {}", lasts(*length))),
            ExplanationLine::new("", shorter_or_within(*asked, *nominal)),
        ],
        Reason::MayNotBorrow { queue, model, asked, used, nominal } => vec![
            ExplanationLine::new(
                "quota",
                format!("{used} of {nominal} {model} of {queue} are used, this asks for {asked}"),
            ),
            ExplanationLine::new("", "it is protected from preemption, and quota that cannot be reclaimed is not lent"),
            ExplanationLine::new("", "without `protect` it may borrow idle quota"),
        ],
        Reason::RunningJobs { queue, running, limit } => {
            vec![
                ExplanationLine::new("limit", format!("{queue} runs {running} jobs of at most {limit}"))
                    .with("muster queues"),
            ]
        }
        Reason::GpusPerUser { queue, user, asked, used, limit } => vec![ExplanationLine::new(
            "limit",
            format!(
                "{user} holds {} in {queue}, of at most {limit}; this asks for {asked} more",
                gpus(*used)
            ),
        )],
        Reason::Budget { .. } => budget_lines(reason, context),
        Reason::PendingJobs { queue, user, pending, limit } => vec![
            ExplanationLine::new(
                "limit",
                format!("{user} has {pending} jobs waiting in {queue}, of at most {limit}; an array counts as one"),
            )
            .with("muster ps"),
        ],
        _ => Vec::new(),
    }
}

/// Describes how long the job can run, time limit and grace together.
pub(crate) fn lasts(length: Option<Span>) -> String {
    length.map_or("has no time limit".to_owned(), |length| {
        format!("can last {length}, grace included")
    })
}

/// `research has 12.0 of 5000.0 GPU-hours left, asks for 64.0; refilled at Dec 01 00:00`.
fn short_budget(reason: &Reason, context: RenderContext) -> String {
    let Reason::Budget { asked_gpu_secs: asked, budget_gpu_secs: budget, refills_at, .. } = reason
    else {
        return String::new();
    };
    let whose = holder(reason);
    let all = hours(*budget);
    let asks = hours_up(*asked);
    if reason.is_permanent() {
        return format!("{whose} has a budget of {all} GPU-hours, this can take {asks}");
    }
    let left = hours(left(reason));
    let at = clock::time(*refills_at, context);
    format!("{whose} has {left} of {all} GPU-hours left, asks for {asks}; refilled at {at}")
}

fn budget_lines(reason: &Reason, context: RenderContext) -> Vec<ExplanationLine> {
    let Reason::Budget {
        asked_gpu_secs: asked,
        used_gpu_secs: used,
        promised_gpu_secs: promised,
        budget_gpu_secs: budget,
        refills_at,
        ..
    } = reason
    else {
        return Vec::new();
    };
    let whose = holder(reason);
    let all = hours(*budget);
    let asks = hours_up(*asked);
    if reason.is_permanent() {
        let text = format!("{whose} has {all} GPU-hours per budget period, this can take {asks}");
        return vec![ExplanationLine::new("budget", text).with("muster run … --time")];
    }
    let left = hours(left(reason));
    let used = hours(*used);
    let promised = hours(*promised);
    let at = clock::time(*refills_at, context);
    vec![
        ExplanationLine::new("budget", format!("{whose} has {left} of {all} GPU-hours left"))
            .with("muster queues"),
        ExplanationLine::new(
            "",
            format!("this can take {asks}; {used} are used, {promised} reserved for running jobs"),
        ),
        ExplanationLine::new("", format!("it is refilled at {at}")),
    ]
}

/// Returns hours with one decimal, rounded up, so that no refused request reads as 0.0.
pub(crate) fn hours_up(secs: u64) -> String {
    hours(secs.saturating_add(359))
}

/// Returns the owner of the budget: `research`, `ann in research`.
fn holder(reason: &Reason) -> String {
    match reason {
        Reason::Budget { queue, user: Some(user), .. } => format!("{user} in {queue}"),
        Reason::Budget { queue, .. } => queue.to_string(),
        _ => String::new(),
    }
}

/// GPU-seconds that a budget has left.
fn left(reason: &Reason) -> u64 {
    match reason {
        Reason::Budget { used_gpu_secs, promised_gpu_secs, budget_gpu_secs, .. } => {
            budget_gpu_secs.saturating_sub(used_gpu_secs.saturating_add(*promised_gpu_secs))
        }
        _ => 0,
    }
}

fn shorter_or_within(asked: GpuMilli, nominal: GpuMilli) -> String {
    let within = if asked <= nominal { ", or within its quota" } else { "" };
    format!("with a shorter time limit it could start{within}")
}

/// Describes how much more a queue could borrow, or how much of its own quota is lent. `borrowed`
/// is in thousandths of a GPU.
fn quota_margin(borrowable: GpuMilli, borrowed: u32, lent: GpuMilli) -> String {
    match (borrowable.0.saturating_sub(borrowed), borrowed, lent.0) {
        (0, 0, 0) => "nothing can be borrowed now".to_owned(),
        (0, 0, _) => format!("{lent} of them {} lent to other queues now", is_are(lent)),
        (0, ..) => "nothing more can be borrowed now".to_owned(),
        (more, 0, _) => format!("{} could be borrowed now", GpuMilli(more)),
        (more, ..) => format!("{} more could be borrowed now", GpuMilli(more)),
    }
}
