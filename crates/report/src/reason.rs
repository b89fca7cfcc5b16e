//! Reasons as text: one word for a heading, a fragment for a table row, labelled sentences for
//! `explain`. Each of the three covers every variant of [`Reason`].

use muster_model::reason::{CapacityGap, HeadReservedPlace, Limiting};
use muster_model::{ElementId, Reason, Span, Time, UserName};

use crate::RenderContext;
use crate::advance_reservations;
use crate::amount::{count, element, gpus, is_are, models, times};
use crate::clock;
use crate::explanation_line::ExplanationLine;
use crate::limits;
use crate::preemption;
use crate::style::clean;
use crate::topology::{self, GapBasis};
use crate::words::Words;

/// Name of the only group of a job without roles.
const ONLY_GROUP: &str = "main";

/// Release of an object of Kubernetes.
const RELEASE_OF_PODS: &str = "its annotation muster.run/held is removed";

/// Returns one or two words: `capacity`, `quota`.
#[must_use]
pub fn word(reason: &Reason) -> &'static str {
    match reason {
        Reason::Held | Reason::HeldByAdmin { .. } => "on hold",
        Reason::NotBefore { restarts: 0, .. } => "begin time",
        Reason::NotBefore { .. } => "restart",
        Reason::Dependency { .. } => "dependency",
        Reason::ArrayCap { .. } => "array cap",
        Reason::Quota { .. } => "quota",
        Reason::BorrowedTime { .. } => "borrowed time",
        Reason::MayNotBorrow { .. } => "own quota",
        Reason::RunningJobs { .. } => "running-jobs limit",
        Reason::GpusPerUser { .. } => "gpus-per-user limit",
        Reason::Budget { .. } => "budget",
        Reason::PendingJobs { .. } => "pending-jobs limit",
        Reason::Capacity(_) => "capacity",
        Reason::Topology(_) => "topology",
        Reason::Reserved { .. } => "reservation",
        Reason::HeadReserved { .. } => "kept for another job",
        Reason::UpcomingDrain { .. } => "drain",
        Reason::Preempting { .. } => "preempting",
        Reason::UpcomingAdvanceReservation { .. }
        | Reason::AdvanceReservationNotActive { .. }
        | Reason::AdvanceReservationEnds { .. }
        | Reason::AdvanceReservationOver { .. }
        | Reason::AdvanceReservationTooShort { .. } => "advance reservation",
        Reason::Behind { .. } => "strict order",
        Reason::NeverFits(_) | Reason::NeverInTopology(_) => "never fits",
        Reason::TimeLimit { .. } => "time limit",
        Reason::Priority { .. } => "priority",
        Reason::Native { .. } => "external scheduler",
    }
}

/// Returns a fragment for a table row.
#[must_use]
pub fn short(reason: &Reason, context: RenderContext) -> String {
    match reason {
        Reason::Held => match context.words {
            Words::Jobs => "on hold".to_owned(),
            Words::Pods(_) => format!("on hold until {RELEASE_OF_PODS}"),
        },
        Reason::HeldByAdmin { by } => format!("held by {by}, an administrator"),
        Reason::NotBefore { until, restarts: 0 } => {
            format!("begins at {}", clock::time(*until, context))
        }
        Reason::NotBefore { until, restarts } => {
            format!("restart {restarts} in {}", clock::remaining(until.since(context.now)))
        }
        Reason::Dependency { on, kind } => format!("waits for {on} to {}", kind.verb()),
        Reason::ArrayCap { cap, .. } => format!("{cap} at a time"),
        Reason::Quota { .. }
        | Reason::BorrowedTime { .. }
        | Reason::MayNotBorrow { .. }
        | Reason::RunningJobs { .. }
        | Reason::GpusPerUser { .. }
        | Reason::Budget { .. }
        | Reason::PendingJobs { .. } => limits::short(reason, context),
        Reason::Capacity(gap) => short_gap(gap, context),
        Reason::Topology(gap) => topology::short(gap, GapBasis::Now, context),
        Reason::Reserved { element: other, start, predicted, .. } => {
            let starts = if *predicted { "is predicted to start" } else { "starts" };
            format!(
                "would delay {}, which {starts} at {}",
                context.words.short_job(*other),
                clock::time(*start, context)
            )
        }
        Reason::HeadReserved { element: other, .. } => {
            format!(
                "free GPUs are kept for {}, which has been first in its queue for longer than `patience`",
                context.words.job(*other)
            )
        }
        Reason::UpcomingDrain { node, from, .. } => {
            format!("would run into the drain of {node} at {}", clock::time(*from, context))
        }
        Reason::Preempting { evicting, by } => {
            let victims = count((*evicting).into(), "job");
            format!("preempts {victims}, ended by {} at the latest", clock::time(*by, context))
        }
        Reason::UpcomingAdvanceReservation { .. }
        | Reason::AdvanceReservationNotActive { .. }
        | Reason::AdvanceReservationEnds { .. }
        | Reason::AdvanceReservationOver { .. }
        | Reason::AdvanceReservationTooShort { .. } => advance_reservations::short(reason, context),
        Reason::Behind { element: other } => {
            format!("behind {} in strict order", context.words.short_job(*other))
        }
        Reason::NeverFits(gap) => {
            format!("never fits: {}", limiting(gap, context).unwrap_or_else(|| total(gap)))
        }
        Reason::NeverInTopology(gap) => {
            format!("never fits: {}", topology::short(gap, GapBasis::WhenIdle, context))
        }
        Reason::TimeLimit { queue, limit, .. } => format!("{queue} admits at most {limit}"),
        Reason::Priority { queue, asked, range: (lowest, highest) } => {
            format!("{queue} admits priority {lowest} to {highest}, not {asked}")
        }
        Reason::Native { message: says, .. } => says.clone(),
    }
}

fn held_by_admin(by: &UserName) -> ExplanationLine {
    ExplanationLine::new("waits for", format!("its release by an administrator: {by} holds it"))
}

/// Returns the sentences of an explanation. The caller adds the holders to the `free now` line of a
/// capacity gap.
#[must_use]
pub fn lines(reason: &Reason, id: ElementId, context: RenderContext) -> Vec<ExplanationLine> {
    let at = |time: Time| clock::time(time, context);
    match reason {
        Reason::Held
        | Reason::HeldByAdmin { .. }
        | Reason::NotBefore { .. }
        | Reason::Dependency { .. }
        | Reason::ArrayCap { .. } => own_terms(reason, id, context),
        Reason::Quota { .. }
        | Reason::BorrowedTime { .. }
        | Reason::MayNotBorrow { .. }
        | Reason::RunningJobs { .. }
        | Reason::GpusPerUser { .. }
        | Reason::Budget { .. }
        | Reason::PendingJobs { .. } => limits::lines(reason, context),
        Reason::Capacity(gap) => {
            let free = format!("{} of {}", gap.gpus_free, gap.gpus_total);
            gap_lines(gap, "free now", &free, context)
        }
        Reason::Topology(gap) => topology::lines(gap, GapBasis::Now, context),
        Reason::Reserved { element: other, start, predicted, fits_if_shorter_than } => {
            let start = clock::planned_start(*start, *predicted, context);
            reserved_lines(*other, &start, *fits_if_shorter_than, context)
        }
        Reason::HeadReserved { element: other, since, places } => {
            kept_lines(*other, &at(*since), places, context)
        }
        Reason::UpcomingDrain { node, from, fits_if_shorter_than } => {
            let line = ExplanationLine::new(
                "drain",
                format!("{node} takes only jobs that end by {}", at(*from)),
            );
            match fits_if_shorter_than {
                Some(limit) => vec![line.with(format!("muster run … --time {limit}"))],
                None => vec![line],
            }
        }
        Reason::Preempting { evicting, by } => preemption::preempting(*evicting, &at(*by), true),
        Reason::UpcomingAdvanceReservation { .. }
        | Reason::AdvanceReservationNotActive { .. }
        | Reason::AdvanceReservationEnds { .. }
        | Reason::AdvanceReservationOver { .. }
        | Reason::AdvanceReservationTooShort { .. } => advance_reservations::lines(reason, context),
        Reason::Behind { element: other } => {
            let text = "which waits for capacity; backfill is off here";
            let line =
                ExplanationLine::new("behind", format!("{}, {text}", context.words.job(*other)));
            vec![line.with(format!("muster explain {}", element(*other)))]
        }
        Reason::NeverFits(gap) => gap_lines(gap, "there are", &total(gap), context),
        Reason::NeverInTopology(gap) => topology::lines(gap, GapBasis::WhenIdle, context),
        Reason::TimeLimit { .. } | Reason::Priority { .. } => outside_range(reason),
        Reason::Native { code, message: says, evidence } => native(code, says, evidence),
    }
}

/// Returns the sentences of a reason that comes from the job's own terms; none for any other.
fn own_terms(reason: &Reason, id: ElementId, context: RenderContext) -> Vec<ExplanationLine> {
    let line = match reason {
        Reason::Held => match context.words {
            Words::Jobs => ExplanationLine::new("waits for", "its release")
                .with(format!("muster release {}", element(id))),
            Words::Pods(_) => ExplanationLine::new("on hold", format!("until {RELEASE_OF_PODS}")),
        },
        Reason::HeldByAdmin { by } => held_by_admin(by),
        Reason::NotBefore { until, restarts: 0 } => {
            let at = clock::time(*until, context);
            ExplanationLine::new("begins", format!("{at} at the earliest, as requested"))
        }
        Reason::NotBefore { until, restarts } => {
            let nth = crate::amount::ordinal(*restarts);
            let at = clock::time(*until, context);
            let remaining = clock::remaining(until.since(context.now));
            let text =
                format!("for the {nth} time at {at}, in {remaining}; the wait doubles each time");
            ExplanationLine::new("restarts", text)
        }
        Reason::Dependency { on, kind } => {
            ExplanationLine::new("waits for", format!("job {on} to {}", kind.verb()))
                .with(format!("muster show {on}"))
        }
        Reason::ArrayCap { running, cap } => ExplanationLine::new("array", capped(*running, *cap)),
        _ => return Vec::new(),
    };
    vec![line]
}

/// Returns the sentences of a time limit or priority that the queue does not admit; none for any
/// other reason.
fn outside_range(reason: &Reason) -> Vec<ExplanationLine> {
    let line = match reason {
        Reason::TimeLimit { queue, asked, limit } => {
            let asks =
                asked.map_or("has no time limit".to_owned(), |asked| format!("asks for {asked}"));
            let text = format!("{queue} admits at most {limit}, this {asks}");
            ExplanationLine::new("time", text).with(format!("muster run … --time {limit}"))
        }
        Reason::Priority { queue, asked, range: (lowest, highest) } => {
            let text = format!("{queue} admits {lowest} to {highest}, this asks for {asked}");
            let command = format!("muster run … --priority {}", asked.clamp(lowest, highest));
            ExplanationLine::new("priority", text).with(command)
        }
        _ => return Vec::new(),
    };
    vec![line]
}

fn native(code: &str, says: &str, evidence: &[String]) -> Vec<ExplanationLine> {
    let first = ExplanationLine::new("reason", format!("{says} ({code})"));
    std::iter::once(first)
        .chain(evidence.iter().map(|one| ExplanationLine::new("", one.clone())))
        .collect()
}

fn kept_lines(
    other: ElementId,
    since: &str,
    places: &[HeadReservedPlace],
    context: RenderContext,
) -> Vec<ExplanationLine> {
    let kept = kept_on(places, context);
    let job = context.words.job(other);
    let text = format!("{kept} for {job}, which has been first in its queue since {since}");
    vec![ExplanationLine::new("kept", text).with(format!("muster explain {}", element(other)))]
}

fn reserved_lines(
    other: ElementId,
    start: &str,
    fits: Option<Span>,
    context: RenderContext,
) -> Vec<ExplanationLine> {
    let job = context.words.job(other);
    let fitting = match fits {
        Some(limit) => format!("it fits before that with a time limit of at most {limit}"),
        None => "without a time limit it is treated as endless".to_owned(),
    };
    let text = format!("now, but would delay {job}, which starts {start}");
    let line =
        ExplanationLine::new("would fit", text).with(format!("muster explain {}", element(other)));
    vec![line, ExplanationLine::new("", fitting)]
}

fn gap_lines(
    gap: &CapacityGap,
    label: &'static str,
    present: &str,
    context: RenderContext,
) -> Vec<ExplanationLine> {
    let mut lines = vec![ExplanationLine::new("needs", needs(gap, context))];
    if gap.gpus_per_task.0 > 0 {
        lines.push(ExplanationLine::new(label, present));
    }
    lines.extend(limiting(gap, context).map(|limiting| ExplanationLine::new("", limiting)));
    lines
}

/// Describes the cap of an array: its other elements run, or are planned before this one.
fn capped(running: u32, cap: u32) -> String {
    if running < cap {
        format!("at most {cap} of its elements may run at a time, and {cap} are before it")
    } else {
        format!("{running} of its elements run, at most {cap} may at a time")
    }
}

/// `5 GPUs together (one gang), any model`; of a job with several roles, for which.
fn needs(gap: &CapacityGap, context: RenderContext) -> String {
    let each = gap.gpus_per_task;
    let all = times(each, gap.tasks_needed);
    let models = models(&gap.models);
    let needs = match (gap.tasks_needed, each.0) {
        (1, 0) => format!("{} without GPU", context.words.tasks(1)),
        (n, 0) => format!("{} without GPU, together (one gang)", context.words.tasks(n)),
        (1, 1..1000) => format!("{each} of one GPU, {models}"),
        (1, 1000) => format!("1 GPU, {models}"),
        (1, _) => format!("{} on one node, {models}", gpus(each)),
        (_, 1000) => format!("{} together (one gang), {models}", gpus(all)),
        (n, _) => format!(
            "{} of {} each, {all} together (one gang), {models}",
            context.words.tasks(n),
            gpus(each)
        ),
    };
    match gap.group.as_str() {
        ONLY_GROUP => needs,
        group => format!("for {group}, {needs}"),
    }
}

fn short_gap(gap: &CapacityGap, context: RenderContext) -> String {
    let all = times(gap.gpus_per_task, gap.tasks_needed);
    if !gap.beside.is_empty() {
        return crowded(gap, context);
    }
    match limiting(gap, context) {
        Some(limiting) if gap.tasks_needed > 1 && gap.limiting != Limiting::Gpus => {
            let needed = context.words.tasks(gap.tasks_needed);
            format!("{} of {needed} fit: {limiting}", gap.tasks_placeable)
        }
        Some(limiting) => limiting,
        None => {
            let together = if gap.tasks_needed > 1 { " together" } else { "" };
            let free = match gap.gpus_free.0 {
                0 => "none is free".to_owned(),
                _ => format!("{} {} free", gap.gpus_free, is_are(gap.gpus_free)),
            };
            format!("needs {}{together}, {free}", gpus(all))
        }
    }
}

/// Describes all that exists, for a gap that waiting does not close.
fn total(gap: &CapacityGap) -> String {
    format!(
        "{} in all, on {} that it may use",
        gpus(gap.gpus_total),
        count(gap.nodes_eligible.into(), "node")
    )
}

/// `2 of 4 tasks of rollout fit beside trainer`.
fn crowded(gap: &CapacityGap, context: RenderContext) -> String {
    let fit = if gap.tasks_needed == 1 { "fits" } else { "fit" };
    let beside: Vec<&str> = gap.beside.iter().map(String::as_str).collect();
    let tasks = context.words.tasks(gap.tasks_needed);
    format!(
        "{} of {tasks} of {} {fit} beside {}",
        gap.tasks_placeable,
        gap.group,
        beside.join(" and ")
    )
}

/// `needs 16 CPUs per task, a node has at most 4.5 free`: after placing the tasks that fit, if any.
fn short_of(
    gap: &CapacityGap,
    (asked, what): (&str, &str),
    free: &str,
    context: RenderContext,
) -> String {
    let needs = match gap.tasks_per_node {
        Some(block) if block > 1 => format!("needs {block} × {asked}{what} on one node"),
        _ => format!("needs {asked}{what} per {}", context.words.task()),
    };
    match gap.tasks_placeable {
        0 => format!("{needs}, a node has at most {free} free"),
        _ => format!("{needs}; with those placed a node has at most {free} free"),
    }
}

/// Describes the resource that runs out, unless the plain GPU count says it.
fn limiting(gap: &CapacityGap, context: RenderContext) -> Option<String> {
    if !gap.beside.is_empty() {
        return Some(crowded(gap, context));
    }
    let spread =
        gap.gpus_free >= times(gap.gpus_per_task, gap.tasks_needed) && gap.gpus_per_task.0 > 0;
    match &gap.limiting {
        Limiting::Gpus if spread => Some(format!(
            "{} {} free, but fragmented: {} of {} {}",
            gpus(gap.gpus_free),
            is_are(gap.gpus_free),
            gap.tasks_placeable,
            context.words.tasks(gap.tasks_needed),
            if gap.tasks_needed == 1 { "fits" } else { "fit" },
        )),
        Limiting::Gpus => None,
        Limiting::Nodes => Some(format!(
            "{} of {} can take its {}s",
            gap.nodes_fitting,
            count(gap.nodes_eligible.into(), "node"),
            context.words.task()
        )),
        Limiting::Cpus { asked, free } => {
            Some(short_of(gap, (&asked.to_string(), " CPUs"), &free.to_string(), context))
        }
        Limiting::Memory { asked, free } => {
            Some(short_of(gap, (&asked.to_string(), " of memory"), &free.to_string(), context))
        }
        Limiting::Extra { name, asked: 1, free: 0 } if gap.tasks_placeable == 0 => {
            Some(format!("no node has a free {name}"))
        }
        Limiting::Extra { name, asked, free } => {
            let of = format!(" of {name}");
            Some(short_of(gap, (&asked.to_string(), &of), &free.to_string(), context))
        }
        Limiting::Constraint => {
            Some("no node has the labels and models that it asks for".to_owned())
        }
    }
}

/// `GPUs 0-2 of n1 are kept`.
pub(crate) fn kept_on(places: &[HeadReservedPlace], context: RenderContext) -> String {
    let one = |one: &HeadReservedPlace| {
        format!("{} of {}", context.words.gpu_list(&one.devices), clean(one.node.as_str()))
    };
    let all: Vec<String> = places.iter().filter(|one| !one.devices.is_empty()).map(one).collect();
    match &places {
        _ if all.is_empty() => "what becomes free is kept".to_owned(),
        [single] if single.devices.len() == 1 => format!("{} is kept", all[0]),
        _ => format!("{} are kept", all.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::{self, NOON};

    #[test]
    fn every_reason_has_a_word_and_a_fragment() {
        let text: String = sample::every_reason()
            .iter()
            .map(|reason| {
                format!("{}: {}\n", word(reason), short(reason, RenderContext::plain().at(NOON)))
            })
            .collect();
        insta::assert_snapshot!(text, @r"
        on hold: on hold
        on hold: held by root, an administrator
        begin time: begins at 12:01:30
        restart: restart 2 in 8s
        dependency: waits for 4 to start
        dependency: waits for 4 to end
        dependency: waits for 4 to succeed
        dependency: waits for 4 to fail
        array cap: 2 at a time
        quota: quota of research/vision: 14 of 16 h100 used, asks for 4
        quota: quota of research/vision: 8 of 16 h100 used, 6 lent, asks for 4
        quota: quota of research/vision: 16 of 16 h100 used, asks for 8
        borrowed time: vision borrows for at most 4h, this can last 8h, grace included: 14 of 16 h100 used, asks for 4
        borrowed time: vision borrows for at most 4h, this has no time limit: 0 of 0 h100 used, asks for 4
        running-jobs limit: vision runs 50 of 50 jobs
        budget: research has 12.0 of 5000.0 GPU-hours left, asks for 64.0; refilled at Nov 21 00:00
        budget: alice in vision has a budget of 200.0 GPU-hours, this can take 400.0
        pending-jobs limit: alice has 100 of at most 100 jobs waiting in vision
        gpus-per-user limit: alice holds 15 of 16 GPUs in vision
        capacity: needs 5 GPUs together, 3 are free
        capacity: 40 GPUs are free, but fragmented: 2 of 4 tasks fit
        capacity: 2 of 4 tasks fit: 2 of 8 nodes can take its tasks
        capacity: 3 of 5 tasks of rollout fit beside trainer
        capacity: needs 2 × 16 CPUs on one node, a node has at most 4.5 free
        capacity: needs 8 GPUs, none is free
        capacity: needs 1 GPU, none is free
        capacity: needs 0.5 GPU, none is free
        capacity: needs 16 CPUs per task, a node has at most 4.5 free
        capacity: 3 of 5 tasks fit: needs 64GiB of memory per task; with those placed a node has at most 1.5GiB free
        capacity: 3 of 5 tasks fit: needs 2 of intel.com/qat per task; with those placed a node has at most 1 free
        reservation: would delay 2, which starts at 12:00:20
        reservation: would delay 3[7], which is predicted to start at 12:00:20
        kept for another job: free GPUs are kept for job 2, which has been first in its queue for longer than `patience`
        preempting: preempts 2 jobs, ended by 12:01:30 at the latest
        own quota: protected, so it cannot borrow: 12 of 16 h100 of vision used, asks for 8
        strict order: behind 2 in strict order
        never fits: never fits: 8 GPUs in all, on 1 node that it may use
        never fits: never fits: no node has the labels and models that it asks for
        time limit: vision admits at most 2d
        time limit: vision admits at most 2d
        priority: vision admits priority 0 to 10, not 100
        ");
    }

    #[test]
    fn every_reason_has_sentences() {
        let id = ElementId { job: muster_model::JobId(2), index: 0 };
        let mut text = String::new();
        for reason in sample::every_reason() {
            for line in lines(&reason, id, RenderContext::plain().at(NOON)) {
                text.push_str(&format!(
                    "{:<10} {} [{}]\n",
                    line.label,
                    line.text,
                    line.command.unwrap_or_default()
                ));
            }
        }
        insta::assert_snapshot!(text, @r"
        waits for  its release [muster release 2]
        waits for  its release by an administrator: root holds it []
        begins     12:01:30 at the earliest, as requested []
        restarts   for the 2nd time at 12:00:08, in 8s; the wait doubles each time []
        waits for  job 4 to start [muster show 4]
        waits for  job 4 to end [muster show 4]
        waits for  job 4 to succeed [muster show 4]
        waits for  job 4 to fail [muster show 4]
        array      2 of its elements run, at most 2 may at a time []
        quota      research/vision uses 14 of its 16 h100; this asks for 4 more []
                   nothing can be borrowed now [muster queues]
        quota      research/vision uses 8 of its 16 h100; this asks for 4 more []
                   6 of them are lent to other queues now [muster queues]
        quota      research/vision uses 16 of its 16 h100; this asks for 8 more []
                   4 could be borrowed now [muster queues]
        quota      vision uses 14 of its 16 h100; this asks for 4 more [muster queues]
                   it borrows for at most 4h, this can last 8h, grace included []
                   with a shorter time limit it could start, or within its quota []
        quota      vision uses 0 of its 0 h100; this asks for 4 more [muster queues]
                   it borrows for at most 4h, this has no time limit []
                   with a shorter time limit it could start []
        limit      vision runs 50 jobs of at most 50 [muster queues]
        budget     research has 12.0 of 5000.0 GPU-hours left [muster queues]
                   this can take 64.0; 4000.0 are used, 988.0 reserved for running jobs []
                   it is refilled at Nov 21 00:00 []
        budget     alice in vision has 200.0 GPU-hours per budget period, this can take 400.0 [muster run … --time]
        limit      alice has 100 jobs waiting in vision, of at most 100; an array counts as one [muster ps]
        limit      alice holds 15 GPUs in vision, of at most 16; this asks for 2 more []
        needs      5 GPUs together (one gang), any model []
        free now   3 of 8 []
        needs      4 tasks of 8 GPUs each, 32 together (one gang), h100 or a100 []
        free now   40 of 64 []
                   40 GPUs are free, but fragmented: 2 of 4 tasks fit []
        needs      for trainer, 4 tasks of 8 GPUs each, 32 together (one gang), h100 or a100 []
        free now   40 of 64 []
                   2 of 8 nodes can take its tasks []
        needs      for rollout, 5 GPUs together (one gang), any model []
        free now   3 of 8 []
                   3 of 5 tasks of rollout fit beside trainer []
        needs      1 GPU, any model []
        free now   0 of 8 []
                   needs 2 × 16 CPUs on one node, a node has at most 4.5 free []
        needs      8 GPUs on one node, any model []
        free now   0 of 8 []
        needs      1 GPU, any model []
        free now   0 of 8 []
        needs      0.5 of one GPU, any model []
        free now   0 of 8 []
        needs      1 task without GPU []
                   needs 16 CPUs per task, a node has at most 4.5 free []
        needs      5 GPUs together (one gang), any model []
        free now   3 of 8 []
                   needs 64GiB of memory per task; with those placed a node has at most 1.5GiB free []
        needs      5 GPUs together (one gang), any model []
        free now   3 of 8 []
                   needs 2 of intel.com/qat per task; with those placed a node has at most 1 free []
        would fit  now, but would delay job 2, which starts at 12:00:20 at the latest [muster explain 2]
                   it fits before that with a time limit of at most 14s []
        would fit  now, but would delay job 3[7], which starts about 12:00:20, if jobs run as long as predicted [muster explain 3[7]]
                   without a time limit it is treated as endless []
        kept       GPUs 0-2 of n1 are kept for job 2, which has been first in its queue since 12:00:00 [muster explain 2]
        waits for  2 jobs that are being preempted for it and end by 12:01:30 []
                   then it starts on the GPUs nominated for it []
        quota      12 of 16 h100 of vision are used, this asks for 8 []
                   it is protected from preemption, and quota that cannot be reclaimed is not lent []
                   without `protect` it may borrow idle quota []
        behind     job 2, which waits for capacity; backfill is off here [muster explain 2]
        needs      16 GPUs together (one gang), any model []
        there are  8 GPUs in all, on 1 node that it may use []
        needs      5 GPUs together (one gang), h100 []
        there are  8 GPUs in all, on 1 node that it may use []
                   no node has the labels and models that it asks for []
        time       vision admits at most 2d, this asks for 3d [muster run … --time 2d]
        time       vision admits at most 2d, this has no time limit [muster run … --time 2d]
        priority   vision admits 0 to 10, this asks for 100 [muster run … --priority 10]
        ");
    }
}
