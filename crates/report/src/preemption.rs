//! Parts of `muster explain` on preemption: the victims of a pending job, and why other jobs cannot
//! be preempted or moved for it.

use muster_model::view::{
    EvictionView, MovesView, NotMovedReason, NotPreemptedReason, NotPreemptedView,
};
use muster_model::{ElementId, EvictionCause, QueueName};

use crate::RenderContext;
use crate::amount::{count, hours};
use crate::clock;
use crate::explanation_line::ExplanationLine;
use crate::limits::hours_up;

/// Names listed in a line; `--json` has more.
const NAMED: usize = 3;

/// Describes the eviction of other jobs for this one; in the conditional if it is not submitted
/// yet.
pub(crate) fn preempting(evicting: u32, by: &str, is_submitted: bool) -> Vec<ExplanationLine> {
    let victims = count(evicting.into(), "job");
    let (are, end) = match (is_submitted, evicting) {
        (true, 1) => ("is being", "ends"),
        (true, _) => ("are being", "end"),
        (false, _) => ("would be", "end"),
    };
    let text = format!("{victims} that {are} preempted for it and {end} by {by}");
    vec![
        ExplanationLine::new("waits for", text),
        ExplanationLine::new("", "then it starts on the GPUs nominated for it"),
    ]
}

/// Lists the jobs that are being evicted for this one.
pub(crate) fn victims(leaving: &[EvictionView], context: RenderContext) -> Vec<ExplanationLine> {
    let line = |(at, one): (usize, &EvictionView)| {
        let job = context.words.named_job(&one.name, one.element);
        let by = clock::time(one.by, context);
        let how = match one.saves_until {
            Some(until) if one.undelivered => format!(
                "does not handle its checkpoint signal, is stopped at {} and ends by {by}",
                clock::time(until, context)
            ),
            Some(until) => {
                format!("may save a checkpoint until {}, ends by {by}", clock::time(until, context))
            }
            None => format!("is being stopped, ends by {by}"),
        };
        let rest = match one.cause {
            EvictionCause::Shrunk => "; resumes with fewer tasks",
            EvictionCause::Moved => "; resumes on other GPUs",
            EvictionCause::Opportunistic
            | EvictionCause::Reclaimed
            | EvictionCause::Outranked
            | EvictionCause::Grown => "",
        };
        let label = if at == 0 { "victims" } else { "" };
        ExplanationLine::new(label, format!("{job} of {} {how}{rest}", one.queue))
    };
    let mut lines: Vec<ExplanationLine> =
        leaving.iter().take(NAMED).enumerate().map(line).collect();
    if leaving.len() > NAMED {
        lines.push(ExplanationLine::new("", "and others"));
    }
    lines
}

/// Explains why no job can be preempted, in one sentence.
pub(crate) fn not_preempted(
    stays: &[NotPreemptedView],
    queue: &QueueName,
    context: RenderContext,
) -> Option<ExplanationLine> {
    let mut alike: Vec<Vec<&NotPreemptedView>> = Vec::new();
    for one in stays {
        match alike.iter_mut().find(|those| (those[0].why, those[0].until) == (one.why, one.until))
        {
            Some(those) => those.push(one),
            None => alike.push(vec![one]),
        }
    }
    let words: Vec<String> =
        alike.iter().map(|those| not_preempted_because(those, queue, context)).collect();
    (!words.is_empty()).then(|| {
        ExplanationLine::new("preempt", format!("no job can be preempted: {}", words.join("; ")))
    })
}

/// Explains why these jobs cannot be preempted, all of them for the same reason.
fn not_preempted_because(
    those: &[&NotPreemptedView],
    queue: &QueueName,
    context: RenderContext,
) -> String {
    let is_one = those.len() == 1;
    let who = names(those, context);
    let (has, is) = if is_one { ("has", "is") } else { ("have", "are") };
    match (those[0].why, those[0].until) {
        (NotPreemptedReason::NotLowerPriority, _) => format!("{who} {has} no lower priority"),
        (NotPreemptedReason::Protected, Some(until)) => {
            format!("{who} {is} protected until {}", clock::time(until, context))
        }
        (NotPreemptedReason::Protected, None) => format!("{who} {is} protected"),
        (NotPreemptedReason::WithinQuota, _) => {
            format!("{who} {is} within the quota of another queue")
        }
        (NotPreemptedReason::WouldExceedQuota, _) => {
            format!("{queue} would exceed its own quota, so it cannot reclaim from {who}")
        }
        (NotPreemptedReason::WouldLoseWork, until) => {
            let until = until.map_or_else(String::new, |until| clock::time(until, context));
            format!(
                "{who} would lose too much work to be preempted before {until} (`reclaim-after`)"
            )
        }
        (NotPreemptedReason::OpportunisticCandidate, _) => {
            format!("{who} {has} precedence, and this job runs only in idle capacity")
        }
        (NotPreemptedReason::NeverPreempts, _) => "its preemption policy is Never".to_owned(),
        (NotPreemptedReason::Disabled, _) => {
            format!("`preemption` of the queue file protects {who}")
        }
        (NotPreemptedReason::NotSufficient, _) => format!("preempting {who} would not be enough"),
    }
}

/// Describes which jobs could be moved to free GPUs for this one, and why they are not.
pub(crate) fn not_moved(moves: &MovesView, context: RenderContext) -> ExplanationLine {
    let jobs = moves.jobs.iter().map(|one| (&*one.name, one.element));
    let moved = first_names(jobs, moves.count as usize, context);
    let cost = hours_up(moves.cost_gpu_secs);
    let why = match moves.why {
        NotMovedReason::Disabled => "but `defragment` of the queue file is off".to_owned(),
        NotMovedReason::BudgetSpent { left_gpu_secs, refills_at } => {
            let left = format!("but the budget for moves has {} left", hours(left_gpu_secs));
            match refills_at {
                Some(at) => format!("{left} until {}", clock::time(at, context)),
                None => format!("{left}, and is never large enough"),
            }
        }
        NotMovedReason::TooCostly { worth_gpu_secs } => {
            format!("which is more than waiting costs ({})", hours(worth_gpu_secs))
        }
    };
    ExplanationLine::new(
        "moving",
        format!(
            "if {moved} moved to other GPUs it would start, at a cost of {cost} GPU-hours, {why}"
        ),
    )
}

/// `left (1), sweep[3] (2) and 4 more`.
fn names(those: &[&NotPreemptedView], context: RenderContext) -> String {
    first_names(those.iter().map(|one| (&*one.name, one.element)), those.len(), context)
}

/// Returns the first few names, and the number of the others.
fn first_names<'a>(
    named: impl Iterator<Item = (&'a str, ElementId)>,
    count: usize,
    context: RenderContext,
) -> String {
    let named: Vec<String> =
        named.take(NAMED).map(|(name, id)| context.words.named_job(name, id)).collect();
    match count.saturating_sub(named.len()) {
        0 => named.join(", "),
        more => format!("{} and {more} more", named.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use muster_model::Time;
    use muster_model::view::MovedJob;

    use super::*;
    use crate::sample::{NOON, after, id};

    fn one(job: u64, why: NotPreemptedReason, until: Option<Time>) -> NotPreemptedView {
        NotPreemptedView { element: id(job, 0), name: "left".to_owned(), why, until }
    }

    #[test]
    fn why_each_job_cannot_be_preempted() {
        let cases = [
            (one(1, NotPreemptedReason::NotLowerPriority, None), "left (1) has no lower priority"),
            (
                one(1, NotPreemptedReason::Protected, Some(after(60))),
                "left (1) is protected until 12:01:00",
            ),
            (one(1, NotPreemptedReason::Protected, None), "left (1) is protected"),
            (
                one(1, NotPreemptedReason::WithinQuota, None),
                "left (1) is within the quota of another queue",
            ),
            (
                one(1, NotPreemptedReason::WouldExceedQuota, None),
                "a would exceed its own quota, so it cannot reclaim from left (1)",
            ),
            (
                one(1, NotPreemptedReason::WouldLoseWork, Some(after(60))),
                "left (1) would lose too much work to be preempted before 12:01:00 (`reclaim-after`)",
            ),
            (
                one(1, NotPreemptedReason::OpportunisticCandidate, None),
                "left (1) has precedence, and this job runs only in idle capacity",
            ),
            (one(1, NotPreemptedReason::NeverPreempts, None), "its preemption policy is Never"),
            (
                one(1, NotPreemptedReason::Disabled, None),
                "`preemption` of the queue file protects left (1)",
            ),
            (
                one(1, NotPreemptedReason::NotSufficient, None),
                "preempting left (1) would not be enough",
            ),
        ];
        for (stay, expected) in cases {
            let line = not_preempted(&[stay], &"a".into(), RenderContext::plain().at(NOON))
                .expect("a sentence");
            assert_eq!(
                (line.label, line.text),
                ("preempt", format!("no job can be preempted: {expected}"))
            );
        }
        assert_eq!(not_preempted(&[], &"a".into(), RenderContext::plain().at(NOON)), None);
    }

    #[test]
    fn jobs_with_the_same_reason_are_named_together() {
        let all: Vec<NotPreemptedView> = (1..=5)
            .map(|job| {
                one(
                    job,
                    if job == 2 {
                        NotPreemptedReason::Protected
                    } else {
                        NotPreemptedReason::NotLowerPriority
                    },
                    None,
                )
            })
            .collect();
        assert_eq!(
            not_preempted(&all, &"a".into(), RenderContext::plain().at(NOON))
                .expect("a sentence")
                .text,
            "no job can be preempted: left (1), left (3), left (4) and 1 more have no lower priority; left (2) is protected"
        );
    }

    #[test]
    fn jobs_that_could_be_moved_and_why_they_are_not() {
        let jobs: Vec<MovedJob> =
            (1..=4).map(|job| MovedJob { element: id(job, 0), name: "left".to_owned() }).collect();
        let text = |why| {
            not_moved(
                &MovesView { jobs: jobs.clone(), count: 12, cost_gpu_secs: 3601, why },
                RenderContext::plain().at(NOON),
            )
            .text
        };
        let moved = "if left (1), left (2), left (3) and 9 more moved to other GPUs it would start, at a cost of 1.1 GPU-hours";
        let spent = |refills_at| NotMovedReason::BudgetSpent { left_gpu_secs: 1800, refills_at };
        let cases = [
            (NotMovedReason::Disabled, "but `defragment` of the queue file is off"),
            (spent(Some(after(60))), "but the budget for moves has 0.5 left until 12:01:00"),
            (spent(None), "but the budget for moves has 0.5 left, and is never large enough"),
            (
                NotMovedReason::TooCostly { worth_gpu_secs: 720 },
                "which is more than waiting costs (0.2)",
            ),
        ];
        for (why, expected) in cases {
            assert_eq!(text(why), format!("{moved}, {expected}"));
        }
    }

    #[test]
    fn victims_save_a_checkpoint_or_are_stopped() {
        let view = |job, saves_until, cause| EvictionView {
            element: id(job, 0),
            name: "left".to_owned(),
            queue: "b".into(),
            cause,
            saves_until,
            by: after(90),
            undelivered: job == 5,
        };
        let all = [
            view(1, Some(after(60)), EvictionCause::Reclaimed),
            view(2, None, EvictionCause::Moved),
            view(3, None, EvictionCause::Shrunk),
            view(4, None, EvictionCause::Opportunistic),
        ];
        let lines: Vec<String> = victims(&all, RenderContext::plain().at(NOON))
            .into_iter()
            .map(|line| format!("{:<8}{}", line.label, line.text))
            .collect();
        assert_eq!(
            lines,
            [
                "victims left (1) of b may save a checkpoint until 12:01:00, ends by 12:01:30",
                "        left (2) of b is being stopped, ends by 12:01:30; resumes on other GPUs",
                "        left (3) of b is being stopped, ends by 12:01:30; resumes with fewer tasks",
                "        and others",
            ]
        );
    }

    #[test]
    fn before_submission_preemption_is_conditional() {
        let text =
            |count, is_submitted| preempting(count, "12:00:00", is_submitted)[0].text.clone();
        assert_eq!(text(1, true), "1 job that is being preempted for it and ends by 12:00:00");
        assert_eq!(text(2, true), "2 jobs that are being preempted for it and end by 12:00:00");
        assert_eq!(text(2, false), "2 jobs that would be preempted for it and end by 12:00:00");
    }
}
