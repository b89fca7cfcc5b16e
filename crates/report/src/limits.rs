//! What a queue's limits, quota and budgets refuse, as sentences. Which of them applies, and when
//! it is refilled, is in the reason; nothing is worked out here but what is left.

use muster_model::{GpuMilli, Reason, Span, Time};

use crate::amount::{gpus, hours, is_are};
use crate::clock;
use crate::reason::Line;
use crate::style::Style;

/// The sentences of an explanation; none for a reason of another kind.
pub(crate) fn lines(reason: &Reason, now: Time, style: &Style) -> Vec<Line> {
    match reason {
        Reason::Quota { queue, model, asked, used, nominal, borrowable, lent } => vec![
            Line::new(
                "quota",
                format!("{queue} uses {used} of its {nominal} {model}; this asks for {asked} more"),
            ),
            Line::new("", quota_margin(*borrowable, used.0.saturating_sub(nominal.0), *lent))
                .with("muster queues"),
        ],
        Reason::BorrowedTime { queue, model, asked, used, nominal, length, limit } => vec![
            Line::new(
                "quota",
                format!("{queue} uses {used} of its {nominal} {model}; this asks for {asked} more"),
            )
            .with("muster queues"),
            Line::new("", format!("it borrows for at most {limit}, this {}", lasts(*length))),
            Line::new("", shorter_or_within(*asked, *nominal)),
        ],
        Reason::MayNotBorrow { queue, model, asked, used, nominal } => vec![
            Line::new(
                "quota",
                format!("{used} of {nominal} {model} of {queue} are used, this asks for {asked}"),
            ),
            Line::new("", "it is protected from preemption, and what cannot be taken back is not lent"),
            Line::new("", "without `protect` it may borrow what others leave"),
        ],
        Reason::RunningJobs { queue, running, limit } => {
            vec![
                Line::new("limit", format!("{queue} runs {running} jobs of at most {limit}"))
                    .with("muster queues"),
            ]
        }
        Reason::GpusPerUser { queue, user, asked, used, limit } => vec![Line::new(
            "limit",
            format!(
                "{user} holds {} in {queue}, of at most {limit}; this asks for {asked} more",
                gpus(*used)
            ),
        )],
        Reason::Budget { .. } => budget_lines(reason, now, style),
        Reason::PendingJobs { queue, user, pending, limit } => vec![
            Line::new(
                "limit",
                format!("{user} has {pending} jobs waiting in {queue}, of at most {limit}; an array is one"),
            )
            .with("muster ps"),
        ],
        _ => Vec::new(),
    }
}

/// How long something is held; limit and grace together.
pub(crate) fn lasts(length: Option<Span>) -> String {
    length.map_or("has no time limit".to_owned(), |length| {
        format!("can last {length}, grace included")
    })
}

/// `research has 12.0 of 5000.0 GPU-hours left, asks for 64.0; refilled at Dec 01 00:00`.
pub(crate) fn short_budget(reason: &Reason, now: Time, style: &Style) -> String {
    let Reason::Budget { asked_gpu_secs: asked, budget_gpu_secs: budget, refills_at, .. } = reason
    else {
        return String::new();
    };
    let (whose, all, asks) = (holder(reason), hours(*budget), hours_up(*asked));
    if reason.is_permanent() {
        return format!("{whose} has a budget of {all} GPU-hours, this can take {asks}");
    }
    let left = hours(left(reason));
    let at = clock::time(*refills_at, now, style);
    format!("{whose} has {left} of {all} GPU-hours left, asks for {asks}; refilled at {at}")
}

fn budget_lines(reason: &Reason, now: Time, style: &Style) -> Vec<Line> {
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
    let (whose, all, asks) = (holder(reason), hours(*budget), hours_up(*asked));
    if reason.is_permanent() {
        let text = format!("{whose} has {all} GPU-hours at a time, this can take {asks}");
        return vec![Line::new("budget", text).with("muster run … --time")];
    }
    let (left, used, promised) = (hours(left(reason)), hours(*used), hours(*promised));
    let at = clock::time(*refills_at, now, style);
    vec![
        Line::new("budget", format!("{whose} has {left} of {all} GPU-hours left"))
            .with("muster queues"),
        Line::new(
            "",
            format!("this can take {asks}; {used} are used, {promised} promised to what runs"),
        ),
        Line::new("", format!("it is refilled at {at}")),
    ]
}

/// What is asked for, in hours with one decimal, rounded up: nothing reads as 0.0 that is refused.
pub(crate) fn hours_up(secs: u64) -> String {
    hours(secs.saturating_add(359))
}

/// Whose budget it is: `research`, `ann in research`.
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

/// What a queue could borrow beyond the thousandths that it has borrowed, or how much of its own is
/// lent.
fn quota_margin(borrowable: GpuMilli, borrowed: u32, lent: GpuMilli) -> String {
    match (borrowable.0.saturating_sub(borrowed), borrowed, lent.0) {
        (0, 0, 0) => "nothing can be borrowed now".to_owned(),
        (0, 0, _) => format!("{lent} of it {} lent to other queues now", is_are(lent)),
        (0, ..) => "nothing more can be borrowed now".to_owned(),
        (more, 0, _) => format!("{} could be borrowed now", GpuMilli(more)),
        (more, ..) => format!("{} more could be borrowed now", GpuMilli(more)),
    }
}
