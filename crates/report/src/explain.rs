//! The output of `muster explain`: why an element is pending, when it starts, and which changes
//! would start it now.

use muster_model::Reason;
use muster_model::view::{
    Eta, Explanation, GangView, Holder, HolderEnd, JobChange, JobState, PatienceView, UsedOutside,
};

use crate::RenderContext;
use crate::advance_reservations;
use crate::amount::{count, ordinal};
use crate::clock;
use crate::explanation_line::ExplanationLine;
use crate::gang;
use crate::nodes;
use crate::placed;
use crate::preemption;
use crate::reason;
use crate::style::{Ink, clean, wrap};
use crate::table::Labels;
use crate::words::Words;

/// Holders named, those that end first; `--json` lists more.
const HOLDERS_NAMED: usize = 4;

/// Command that submits a changed job; `…` stands for the user's job file or command.
const RUN: &str = "muster run …";

/// Returns the explanation of an element as text.
#[must_use]
pub fn explain(explanation: &Explanation, context: RenderContext) -> String {
    let mut text = heading(explanation, context);
    text.push_str(&layout(&body(explanation, true, context), context));
    text
}

/// Returns the explanation of a gang of pods as text.
#[must_use]
pub fn gang(explanation: &Explanation, gang: &GangView, context: RenderContext) -> String {
    let context = context.in_words(Words::Pods(&gang.jobs));
    let mut text = heading(explanation, context);
    let mut lines = gang::lines(gang, context);
    // Commands are for jobs with a number, and for job files.
    let body = body(explanation, true, context).into_iter();
    lines.extend(body.map(|line| ExplanationLine { command: None, ..line }));
    lines.extend(gang::remarks(gang));
    text.push_str(&layout(&lines, context));
    text
}

/// Returns the output of `run --dry-run` for a job that was not submitted.
#[must_use]
pub fn dry_run(explanation: &Explanation, context: RenderContext) -> String {
    let name = clean(&explanation.name);
    if explanation.reasons.is_empty() {
        return format!("{name} would start now in {}\n", explanation.queue);
    }
    let words = words(explanation);
    let refused = explanation.reasons.iter().any(Reason::is_permanent);
    let verdict = if refused { "would be refused" } else { "would wait" };
    format!("{name} {verdict}: {words}\n{}", layout(&body(explanation, false, context), context))
}

/// Most nodes that a line for pods names.
const MAX_NAMED: usize = 3;

/// Returns the explanation of a pending element on one line, for the pods that are its tasks: its
/// reasons, its start, and one change that would start it now.
#[must_use]
pub fn of_pods(explanation: &Explanation, context: RenderContext) -> String {
    let mut parts: Vec<String> = Vec::new();
    for reason in &explanation.reasons {
        // Drained nodes count as none.
        let no_node = match reason {
            Reason::Capacity(gap) if gap.nodes_eligible == 0 => out_of_service(explanation),
            _ => None,
        };
        let text = no_node.unwrap_or_else(|| reason::short(reason, context));
        if !parts.contains(&text) {
            parts.push(text);
        }
    }
    if parts.is_empty() {
        parts.push("starts in the next planning pass".to_owned());
    }
    parts.extend(advance_reservations::holders(&explanation.set_aside, context));
    parts.extend(explanation.eta.map(|eta| {
        if eta.predicted {
            return format!("starts {}", predicted_start(eta, context));
        }
        let promise =
            if eta.reserved { "reserved" } else { "unless a job with precedence arrives" };
        format!("starts at {} at the latest, {promise}", clock::time(eta.start, context))
    }));
    parts.extend(
        explanation
            .sooner
            .first()
            .map(|change| format!("{} it would start now", change_of_pods(change))),
    );
    parts.join("; ")
}

/// Names nodes that a pod could use if they were in service; `None` if there are none.
fn out_of_service(explanation: &Explanation) -> Option<String> {
    let nodes: Vec<String> = explanation
        .out_of_service
        .iter()
        .filter(|one| one.devices.is_empty())
        .map(|one| format!("{} ({})", clean(one.node.as_str()), clean(&one.drain.reason)))
        .collect();
    let (named, more) = nodes.split_at(nodes.len().min(MAX_NAMED));
    let more = if more.is_empty() { "" } else { " and others" };
    (!named.is_empty()).then(|| {
        format!("the nodes that it may use are out of service: {}{more}", named.join(", "))
    })
}

/// Returns a change in the words of pods, whose settings have other names than those of a job file.
fn change_of_pods(change: &JobChange) -> String {
    match change {
        JobChange::Tasks { tasks } => format!("with {}", count(u64::from(*tasks), "pod")),
        JobChange::GpusPerTask { gpus, .. } => {
            format!("with {} per pod", count(u64::from(*gpus), "GPU"))
        }
        JobChange::Nodes { nodes } => format!("on {}", count(u64::from(*nodes), "node")),
        JobChange::Share { share, .. } => format!("with {share} of a GPU per pod"),
        JobChange::AnyNode => "without its rules for nodes".to_owned(),
        JobChange::TimeLimit { limit } => format!("with a time limit of {limit}"),
        JobChange::Model { model } => format!("on GPUs of the model {model}"),
        JobChange::Queue { queue } => format!("in queue {queue}"),
        JobChange::PreferTopology { level } => {
            format!("with the topology level {level} preferred, not required,")
        }
    }
}

fn words(explanation: &Explanation) -> String {
    let mut words: Vec<&str> = Vec::new();
    for reason in &explanation.reasons {
        let word = match reason {
            Reason::Native { code, .. } => code,
            _ => reason::word(reason),
        };
        if !words.contains(&word) {
            words.push(word);
        }
    }
    words.join(", ")
}

fn heading(explanation: &Explanation, context: RenderContext) -> String {
    let name = clean(&explanation.name);
    let name = match explanation.element.index {
        0 => name.into_owned(),
        index => format!("{name}[{index}]"),
    };
    let verb = match explanation.state {
        JobState::Failed => "",
        JobState::Cancelled | JobState::Preempted => "was ",
        _ => "is ",
    };
    let word = context.paint(Ink::of(explanation.state), explanation.state.word());
    let state = format!("{verb}{word}");
    match (explanation.state, explanation.reasons.is_empty()) {
        (JobState::Held, _) => format!("{name} {state}\n"),
        // A plan was made for the answer; the scheduler of the cluster makes its own.
        (JobState::Pending, true) if matches!(context.words, Words::Pods(_)) => {
            format!("{name} {state}: nothing holds it back in a plan made now\n")
        }
        (JobState::Pending, true) => {
            format!("{name} {state}: it starts in the next planning pass\n")
        }
        (_, false) => format!("{name} {state}: {}\n", words(explanation)),
        (JobState::Failed, true) => {
            format!("{name} {state}; see `muster show {}`\n", explanation.element.job)
        }
        (_, true) => format!("{name} {state}\n"),
    }
}

fn body(
    explanation: &Explanation,
    is_submitted: bool,
    context: RenderContext,
) -> Vec<ExplanationLine> {
    let mut lines = Vec::new();
    if let Some(placement) = &explanation.placement {
        lines.extend(placed::lines(placement, context));
    }
    if let Some(preempted) = &explanation.preempted {
        lines.extend(placed::preempted(preempted, context));
    }
    for reason in &explanation.reasons {
        let known = match reason {
            Reason::Preempting { evicting, by } => {
                preemption::preempting(*evicting, &clock::time(*by, context), is_submitted)
            }
            _ => reason::lines(reason, explanation.element, context),
        };
        for mut line in known {
            if line.label == "free now" {
                line.text = with_holders(line.text, &explanation.holders, context);
            }
            lines.push(line);
        }
    }
    lines.extend(preemption::victims(&explanation.evictions, context));
    lines.extend(preemption::not_preempted(
        &explanation.not_preempted,
        &explanation.queue,
        context,
    ));
    lines.extend(explanation.moves.as_ref().map(|moves| preemption::not_moved(moves, context)));
    for one in &explanation.out_of_service {
        let node = clean(one.node.as_str());
        let what = match &one.devices[..] {
            [] => node.into_owned(),
            devices => format!("{} of {node}", crate::amount::gpu_indices(devices)),
        };
        let drain = nodes::drain(&one.drain, context);
        lines.push(ExplanationLine::new("drained", format!("{what} {drain}")));
    }
    for one in &explanation.used_outside {
        lines.push(ExplanationLine::new("outside", used_outside(one)));
    }
    for one in &explanation.set_aside {
        lines.push(ExplanationLine::new("reserved", advance_reservations::set_aside(one, context)));
    }
    lines.extend(explanation.patience.as_ref().map(|patience| patience_line(patience, context)));
    if let Some((position, waiting)) = explanation.position {
        lines.push(ExplanationLine::new("queue", queue_line(explanation, position, waiting)));
    }
    lines.extend(starts(explanation, context));
    for (place, change) in explanation.sooner.iter().enumerate() {
        let (what, flags) = match context.words {
            Words::Jobs => change_words(change),
            Words::Pods(_) => (change_of_pods(change), String::new()),
        };
        let label = if place == 0 { "sooner" } else { "" };
        let line = ExplanationLine::new(label, format!("{what} it would start now"));
        lines.push(if flags.is_empty() { line } else { line.with(format!("{RUN} {flags}")) });
    }
    lines
}

/// `GPU 0 of n1 is in use outside Muster, by python3 (pid 812, user anna)`.
fn used_outside(used: &UsedOutside) -> String {
    let node = clean(used.node.as_str());
    let gpus = crate::amount::gpu_indices(&used.devices);
    let are = if used.devices.len() == 1 { "is" } else { "are" };
    let by = nodes::foreign_processes(&used.processes);
    let by = if by.is_empty() { by } else { format!(", by {by}") };
    format!("{gpus} of {node} {are} in use outside Muster{by}")
}

/// Returns when an element starts if run times are as predicted.
fn predicted_start(eta: Eta, context: RenderContext) -> String {
    let start = clock::planned_start(eta.start, eta.predicted, context);
    format!("{start} from those of their users before")
}

/// Describes how long the element has been first in its queue, and which GPUs are kept for it.
fn patience_line(patience: &PatienceView, context: RenderContext) -> ExplanationLine {
    let for_long = context.now.since(patience.since);
    let text = match (patience.keeps_from > context.now, patience.is_kept) {
        (true, _) => {
            let from = clock::time(patience.keeps_from, context);
            format!(
                "has been first for {for_long}; from {from} on every GPU that becomes free is kept for it"
            )
        }
        (false, true) => {
            format!(
                "has been first for {for_long}: {} for it until it starts",
                reason::kept_on(&patience.kept, context)
            )
        }
        (false, false) => {
            format!(
                "has been first for {for_long}; no GPU is kept, since its {}s cannot all be placed now",
                context.words.task()
            )
        }
    };
    ExplanationLine::new("patience", text)
}

/// `3 of 8; left (1) holds 5 until 12:00:20 (its time limit), sweep (3) holds 2 without a time
/// limit`.
fn with_holders(free: String, holders: &[Holder], context: RenderContext) -> String {
    let mut words: Vec<String> = holders
        .iter()
        .take(HOLDERS_NAMED)
        .map(|holder| {
            let job = context.words.named_job(&holder.name, holder.element);
            let end = match holder.end {
                HolderEnd::TimeLimit => "its time limit",
                HolderEnd::Grace => "its time limit and grace",
                HolderEnd::Stopping => "at the latest, being stopped",
            };
            let predicted =
                holder.expected_end.map(|at| format!("predicted {}", clock::time(at, context)));
            let until = match (holder.ends_by, predicted) {
                (Some(by), None) => format!("until {} ({end})", clock::time(by, context)),
                (Some(by), Some(predicted)) => {
                    format!("until {} ({end}; {predicted})", clock::time(by, context))
                }
                (None, None) => "without a time limit".to_owned(),
                (None, Some(predicted)) => format!("without a time limit ({predicted})"),
            };
            format!("{job} holds {} {until}", holder.gpus)
        })
        .collect();
    if holders.len() > HOLDERS_NAMED {
        words.push("others hold the rest".to_owned());
    }
    if words.is_empty() { free } else { format!("{free}; {}", words.join(", ")) }
}

/// Returns true if the job's own terms keep it out of the queue order: then it has no position, and
/// its quota was not checked.
fn is_outside(reason: &Reason) -> bool {
    matches!(
        reason,
        Reason::Held
            | Reason::HeldByAdmin { .. }
            | Reason::NotBefore { .. }
            | Reason::Dependency { .. }
            | Reason::ArrayCap { .. }
    ) || matches!(reason, Reason::Native { code, .. } if code == "Dependency")
}

fn queue_line(explanation: &Explanation, position: u32, waiting: u32) -> String {
    if explanation.reasons.iter().any(is_outside) {
        return explanation.queue.to_string();
    }
    let limited = explanation.reasons.iter().any(|reason| {
        matches!(
            reason,
            Reason::Quota { .. }
                | Reason::BorrowedTime { .. }
                | Reason::MayNotBorrow { .. }
                | Reason::RunningJobs { .. }
                | Reason::GpusPerUser { .. }
                | Reason::Budget { .. }
                | Reason::PendingJobs { .. }
                | Reason::Native { .. }
        )
    });
    let verdict = if limited { "" } else { "; quota is not the limit" };
    format!("{} of {waiting} in {}{verdict}", ordinal(position), explanation.queue)
}

fn starts(explanation: &Explanation, context: RenderContext) -> Option<ExplanationLine> {
    // The start of a job that waits for a release or another job is unknown, and capacity is not
    // the reason.
    let waits_for_capacity = !explanation.reasons.iter().any(is_outside)
        && explanation.reasons.iter().any(|reason| {
            matches!(
                reason,
                Reason::Capacity(_)
                    | Reason::Topology(_)
                    | Reason::Reserved { .. }
                    | Reason::UpcomingDrain { .. }
            )
        });
    // The estimate of an external scheduler is not binding, and a begin time is the earliest start.
    let native = explanation.reasons.iter().find_map(|reason| match reason {
        Reason::Native { code, .. } => Some(code.as_str()),
        _ => None,
    });
    if let (Some(code), Some(eta)) = (native, &explanation.eta) {
        let start = clock::time(eta.start, context);
        let says = match code {
            "BeginTime" => format!("{start} at the earliest"),
            _ => format!(
                "about {start}, as Slurm estimates now; new jobs with a higher priority can delay it"
            ),
        };
        return Some(ExplanationLine::new("starts", says));
    }
    match explanation.eta {
        Some(eta) => {
            let promise = match eta {
                Eta { predicted: true, .. } => predicted_start(eta, context),
                Eta { start, reserved: true, .. } => {
                    let start = clock::time(start, context);
                    format!("{start} at the latest, reserved; backfill cannot delay it")
                }
                Eta { start, .. } => {
                    let start = clock::time(start, context);
                    format!("{start} at the latest, unless a job with precedence arrives")
                }
            };
            Some(ExplanationLine::new("starts", promise))
        }
        None if waits_for_capacity => {
            let other = if explanation.used_outside.is_empty() {
                "out of service"
            } else {
                "in use outside Muster"
            };
            let text = format!("unknown: what it needs is held without a time limit, or {other}");
            Some(ExplanationLine::new("starts", text))
        }
        None => None,
    }
}

fn change_words(change: &JobChange) -> (String, String) {
    match change {
        JobChange::Tasks { tasks } => (format!("with tasks: {tasks}"), format!("--tasks {tasks}")),
        JobChange::GpusPerTask { per_node: Some(gpus), .. } => {
            (format!("with gpus: {gpus}"), format!("--gpus {gpus}"))
        }
        JobChange::GpusPerTask { gpus, per_node: None } => {
            (format!("with gpus-per-task: {gpus}"), format!("--gpus-per-task {gpus}"))
        }
        JobChange::Nodes { nodes } => (format!("with nodes: {nodes}"), format!("--nodes {nodes}")),
        JobChange::Share { share, per_node: true } => {
            (format!("with gpus: {share}"), format!("--gpus {share}"))
        }
        JobChange::Share { share, per_node: false } => {
            (format!("with gpus-per-task: {share}"), format!("--gpus-per-task {share}"))
        }
        // These have no option, only a field of the job file.
        JobChange::AnyNode => ("without its labels".to_owned(), String::new()),
        JobChange::TimeLimit { limit } => {
            (format!("with time: {limit}"), format!("--time {limit}"))
        }
        JobChange::Model { model } => (format!("with gpu: {model}"), format!("--gpu {model}")),
        JobChange::Queue { queue } => (format!("with queue: {queue}"), format!("--queue {queue}")),
        JobChange::PreferTopology { level } => {
            (format!("with topology: {{preferred: {level}}}, in several domains"), String::new())
        }
    }
}

/// Lays out labels in one column, sentences in the next, and commands after them if they fit.
fn layout(lines: &[ExplanationLine], context: RenderContext) -> String {
    const GAP: usize = 2;
    let longest = lines.iter().map(|line| line.label.len()).max().unwrap_or(0).max(9);
    let labels = Labels { indent: 2, width: longest + GAP, ink: Ink::Faint };
    let text_start = labels.indent + labels.width;
    let space = context.width.map_or(usize::MAX, |width| width.saturating_sub(text_start).max(20));
    let beside = lines
        .iter()
        .filter(|line| line.command.is_some())
        .map(|line| line.text.chars().count())
        .filter(|&width| width <= 48)
        .max()
        .unwrap_or(0);

    let mut text = String::new();
    for line in lines {
        let mut wrapped = wrap(&clean(&line.text), space);
        if let Some(command) = &line.command {
            let fits = beside.saturating_add(GAP + command.chars().count()) <= space;
            let command = context.paint(Ink::Strong, command);
            match wrapped.last_mut().filter(|last| fits && last.chars().count() <= beside) {
                Some(last) => *last = format!("{last:<beside$}{:GAP$}{command}", ""),
                None => wrapped.push(command),
            }
        }
        text.push_str(&labels.lines(line.label, wrapped, context));
    }
    text
}

#[cfg(test)]
mod tests {
    use muster_model::{DependencyKind, ForeignProcess, JobId};

    use super::*;
    use crate::sample::{self, NOON};

    #[test]
    fn a_gang_that_waits_for_capacity() {
        let text = explain(&sample::explanation(), RenderContext::plain().at(NOON));
        insta::assert_snapshot!(text, @r"
        right is pending: capacity
          needs      5 GPUs together (one gang), any model
          free now   3 of 8; left (1) holds 5 until 12:00:20 (its time limit and grace), sweep (3) holds 2 without a time limit
          queue      1st of 1 in default; quota is not the limit
          starts     12:00:20 at the latest, reserved; backfill cannot delay it
          sooner     with tasks: 3 it would start now  muster run … --tasks 3
        ");
    }

    #[test]
    fn a_dependency_is_not_blamed_on_capacity() {
        let mut explanation = sample::explanation();
        let dependency = Reason::Dependency { on: JobId(5), kind: DependencyKind::AfterOk };
        explanation.reasons.insert(0, dependency);
        explanation.eta = None;
        assert!(!explain(&explanation, RenderContext::plain().at(NOON)).contains("starts"));
        explanation.reasons.remove(0);
        assert!(
            explain(&explanation, RenderContext::plain().at(NOON)).contains("starts     unknown")
        );
    }

    #[test]
    fn a_narrow_terminal_wraps_and_loses_nothing() {
        let text = explain(&sample::explanation(), RenderContext::plain().at(NOON).with_width(60));
        assert!(text.lines().all(|line| line.chars().count() <= 60), "{text}");
        insta::assert_snapshot!(text, @r"
        right is pending: capacity
          needs      5 GPUs together (one gang), any model
          free now   3 of 8; left (1) holds 5 until 12:00:20 (its
                     time limit and grace), sweep (3) holds 2
                     without a time limit
          queue      1st of 1 in default; quota is not the limit
          starts     12:00:20 at the latest, reserved; backfill
                     cannot delay it
          sooner     with tasks: 3 it would start now
                     muster run … --tasks 3
        ");
    }

    #[test]
    fn every_reason_as_the_only_one() {
        let mut text = String::new();
        for reason in sample::every_reason() {
            let is_held = matches!(reason, Reason::Held | Reason::HeldByAdmin { .. });
            let state = if is_held { JobState::Held } else { JobState::Pending };
            let explanation = Explanation {
                state,
                reasons: vec![reason],
                holders: Vec::new(),
                eta: None,
                sooner: Vec::new(),
                ..sample::explanation()
            };
            text.push_str(&explain(&explanation, RenderContext::plain().at(NOON)));
        }
        insta::assert_snapshot!(text, @r"
        right is held
          waits for  its release  muster release 2
          queue      default
        right is held
          waits for  its release by an administrator: root holds it
          queue      default
        right is pending: begin time
          begins     12:01:30 at the earliest, as requested
          queue      default
        right is pending: restart
          restarts   for the 2nd time at 12:00:08, in 8s; the wait doubles each time
          queue      default
        right is pending: dependency
          waits for  job 4 to start  muster show 4
          queue      default
        right is pending: dependency
          waits for  job 4 to end  muster show 4
          queue      default
        right is pending: dependency
          waits for  job 4 to succeed  muster show 4
          queue      default
        right is pending: dependency
          waits for  job 4 to fail  muster show 4
          queue      default
        right is pending: array cap
          array      2 of its elements run, at most 2 may at a time
          queue      default
        right is pending: quota
          quota      research/vision uses 14 of its 16 h100; this asks for 4 more
                     nothing can be borrowed now  muster queues
          queue      1st of 1 in default
        right is pending: quota
          quota      research/vision uses 8 of its 16 h100; this asks for 4 more
                     6 of them are lent to other queues now  muster queues
          queue      1st of 1 in default
        right is pending: quota
          quota      research/vision uses 16 of its 16 h100; this asks for 8 more
                     4 could be borrowed now  muster queues
          queue      1st of 1 in default
        right is pending: borrowed time
          quota      vision uses 14 of its 16 h100; this asks for 4 more
                     muster queues
                     it borrows for at most 4h, this can last 8h, grace included
                     with a shorter time limit it could start, or within its quota
          queue      1st of 1 in default
        right is pending: borrowed time
          quota      vision uses 0 of its 0 h100; this asks for 4 more
                     muster queues
                     it borrows for at most 4h, this has no time limit
                     with a shorter time limit it could start
          queue      1st of 1 in default
        right is pending: running-jobs limit
          limit      vision runs 50 jobs of at most 50  muster queues
          queue      1st of 1 in default
        right is pending: budget
          budget     research has 12.0 of 5000.0 GPU-hours left  muster queues
                     this can take 64.0; 4000.0 are used, 988.0 reserved for running jobs
                     it is refilled at Nov 21 00:00
          queue      1st of 1 in default
        right is pending: budget
          budget     alice in vision has 200.0 GPU-hours per budget period, this can take 400.0
                     muster run … --time
          queue      1st of 1 in default
        right is pending: pending-jobs limit
          limit      alice has 100 jobs waiting in vision, of at most 100; an array counts as one
                     muster ps
          queue      1st of 1 in default
        right is pending: gpus-per-user limit
          limit      alice holds 15 GPUs in vision, of at most 16; this asks for 2 more
          queue      1st of 1 in default
        right is pending: capacity
          needs      5 GPUs together (one gang), any model
          free now   3 of 8
          queue      1st of 1 in default; quota is not the limit
          starts     unknown: what it needs is held without a time limit, or out of service
        right is pending: capacity
          needs      4 tasks of 8 GPUs each, 32 together (one gang), h100 or a100
          free now   40 of 64
                     40 GPUs are free, but fragmented: 2 of 4 tasks fit
          queue      1st of 1 in default; quota is not the limit
          starts     unknown: what it needs is held without a time limit, or out of service
        right is pending: capacity
          needs      for trainer, 4 tasks of 8 GPUs each, 32 together (one gang), h100 or a100
          free now   40 of 64
                     2 of 8 nodes can take its tasks
          queue      1st of 1 in default; quota is not the limit
          starts     unknown: what it needs is held without a time limit, or out of service
        right is pending: capacity
          needs      for rollout, 5 GPUs together (one gang), any model
          free now   3 of 8
                     3 of 5 tasks of rollout fit beside trainer
          queue      1st of 1 in default; quota is not the limit
          starts     unknown: what it needs is held without a time limit, or out of service
        right is pending: capacity
          needs      1 GPU, any model
          free now   0 of 8
                     needs 2 × 16 CPUs on one node, a node has at most 4.5 free
          queue      1st of 1 in default; quota is not the limit
          starts     unknown: what it needs is held without a time limit, or out of service
        right is pending: capacity
          needs      8 GPUs on one node, any model
          free now   0 of 8
          queue      1st of 1 in default; quota is not the limit
          starts     unknown: what it needs is held without a time limit, or out of service
        right is pending: capacity
          needs      1 GPU, any model
          free now   0 of 8
          queue      1st of 1 in default; quota is not the limit
          starts     unknown: what it needs is held without a time limit, or out of service
        right is pending: capacity
          needs      0.5 of one GPU, any model
          free now   0 of 8
          queue      1st of 1 in default; quota is not the limit
          starts     unknown: what it needs is held without a time limit, or out of service
        right is pending: capacity
          needs      1 task without GPU
                     needs 16 CPUs per task, a node has at most 4.5 free
          queue      1st of 1 in default; quota is not the limit
          starts     unknown: what it needs is held without a time limit, or out of service
        right is pending: capacity
          needs      5 GPUs together (one gang), any model
          free now   3 of 8
                     needs 64GiB of memory per task; with those placed a node has at most 1.5GiB free
          queue      1st of 1 in default; quota is not the limit
          starts     unknown: what it needs is held without a time limit, or out of service
        right is pending: capacity
          needs      5 GPUs together (one gang), any model
          free now   3 of 8
                     needs 2 of intel.com/qat per task; with those placed a node has at most 1 free
          queue      1st of 1 in default; quota is not the limit
          starts     unknown: what it needs is held without a time limit, or out of service
        right is pending: reservation
          would fit  now, but would delay job 2, which starts at 12:00:20 at the latest
                     muster explain 2
                     it fits before that with a time limit of at most 14s
          queue      1st of 1 in default; quota is not the limit
          starts     unknown: what it needs is held without a time limit, or out of service
        right is pending: reservation
          would fit  now, but would delay job 3[7], which starts about 12:00:20, if jobs run as long as predicted
                     muster explain 3[7]
                     without a time limit it is treated as endless
          queue      1st of 1 in default; quota is not the limit
          starts     unknown: what it needs is held without a time limit, or out of service
        right is pending: kept for another job
          kept       GPUs 0-2 of n1 are kept for job 2, which has been first in its queue since 12:00:00
                     muster explain 2
          queue      1st of 1 in default; quota is not the limit
        right is pending: preempting
          waits for  2 jobs that are being preempted for it and end by 12:01:30
                     then it starts on the GPUs nominated for it
          queue      1st of 1 in default; quota is not the limit
        right is pending: own quota
          quota      12 of 16 h100 of vision are used, this asks for 8
                     it is protected from preemption, and quota that cannot be reclaimed is not lent
                     without `protect` it may borrow idle quota
          queue      1st of 1 in default
        right is pending: strict order
          behind     job 2, which waits for capacity; backfill is off here
                     muster explain 2
          queue      1st of 1 in default; quota is not the limit
        right is pending: never fits
          needs      16 GPUs together (one gang), any model
          there are  8 GPUs in all, on 1 node that it may use
          queue      1st of 1 in default; quota is not the limit
        right is pending: never fits
          needs      5 GPUs together (one gang), h100
          there are  8 GPUs in all, on 1 node that it may use
                     no node has the labels and models that it asks for
          queue      1st of 1 in default; quota is not the limit
        right is pending: time limit
          time       vision admits at most 2d, this asks for 3d  muster run … --time 2d
          queue      1st of 1 in default; quota is not the limit
        right is pending: time limit
          time       vision admits at most 2d, this has no time limit  muster run … --time 2d
          queue      1st of 1 in default; quota is not the limit
        right is pending: priority
          priority   vision admits 0 to 10, this asks for 100  muster run … --priority 10
          queue      1st of 1 in default; quota is not the limit
        ");
    }

    #[test]
    fn gpus_in_use_outside_muster_are_named_with_their_processes() {
        let process = |device, program: &str, user: &str| ForeignProcess {
            device,
            pid: 812,
            program: program.into(),
            user: user.into(),
        };
        let used = |node: &str, devices: &[u16], processes| UsedOutside {
            node: node.into(),
            devices: devices.to_vec(),
            processes,
        };
        let explanation = Explanation {
            eta: None,
            holders: Vec::new(),
            sooner: Vec::new(),
            used_outside: vec![
                used("n1", &[0], vec![process(0, "python3", "anna")]),
                used("n2", &[2, 3], vec![process(2, "", ""), process(3, "jupyter", "ben")]),
                used("n3", &[1], Vec::new()),
            ],
            ..sample::explanation()
        };
        let text = explain(&explanation, RenderContext::plain().at(NOON));
        insta::assert_snapshot!(text, @r"
        right is pending: capacity
          needs      5 GPUs together (one gang), any model
          free now   3 of 8
          outside    GPU 0 of n1 is in use outside Muster, by python3 (pid 812, user anna)
          outside    GPUs 2,3 of n2 are in use outside Muster, by a process (pid 812), jupyter (pid 812, user ben)
          outside    GPU 1 of n3 is in use outside Muster
          queue      1st of 1 in default; quota is not the limit
          starts     unknown: what it needs is held without a time limit, or in use outside Muster
        ");
    }

    #[test]
    fn many_holders_are_not_all_named() {
        let mut explanation = sample::explanation();
        explanation.holders = vec![explanation.holders[0].clone(); 10];
        let text = explain(&explanation, RenderContext::plain().at(NOON));
        assert_eq!(text.matches("left (1) holds 5").count(), HOLDERS_NAMED);
        assert!(text.contains(", others hold the rest\n"), "{text}");
    }

    #[test]
    fn every_change_comes_with_the_command() {
        let sooner = vec![
            JobChange::Tasks { tasks: 3 },
            JobChange::GpusPerTask { gpus: 1, per_node: None },
            JobChange::TimeLimit { limit: muster_model::Span::from_secs(14) },
            JobChange::Model { model: "a100".into() },
            JobChange::Queue { queue: "research/vision".into() },
        ];
        let explanation = Explanation {
            sooner,
            reasons: Vec::new(),
            position: None,
            eta: None,
            ..sample::explanation()
        };
        insta::assert_snapshot!(explain(&explanation, RenderContext::plain().at(NOON)), @r"
        right is pending: it starts in the next planning pass
          sooner     with tasks: 3 it would start now                muster run … --tasks 3
                     with gpus-per-task: 1 it would start now        muster run … --gpus-per-task 1
                     with time: 14s it would start now               muster run … --time 14s
                     with gpu: a100 it would start now               muster run … --gpu a100
                     with queue: research/vision it would start now  muster run … --queue research/vision
        ");
    }

    #[test]
    fn what_does_not_wait_says_so_and_a_dry_run_speaks_in_the_conditional() {
        let mut explanation = sample::explanation();
        insta::assert_snapshot!(dry_run(&explanation, RenderContext::plain().at(NOON)).lines().next().unwrap(), @"right would wait: capacity");
        explanation.reasons.clear();
        assert_eq!(
            dry_run(&explanation, RenderContext::plain().at(NOON)),
            "right would start now in default\n"
        );
        explanation.state = JobState::Running;
        let text = explain(
            &Explanation { position: None, eta: None, sooner: Vec::new(), ..explanation },
            RenderContext::plain().at(NOON),
        );
        assert_eq!(text, "right is running\n");
        // What failed before it ran has its reason.
        let failed =
            Explanation { state: JobState::Failed, sooner: Vec::new(), ..sample::explanation() };
        let text = explain(&failed, RenderContext::plain().at(NOON));
        assert!(text.starts_with("right failed: capacity\n"), "{text}");
    }

    #[test]
    fn an_unreserved_and_an_unknown_start_are_told_apart() {
        let unreserved = Explanation {
            eta: Some(Eta {
                start: NOON + muster_model::Span::from_secs(20),
                reserved: false,
                predicted: false,
            }),
            ..sample::explanation()
        };
        assert!(
            explain(&unreserved, RenderContext::plain().at(NOON))
                .contains("unless a job with precedence arrives")
        );
        let predicted = Explanation {
            eta: unreserved.eta.map(|eta| Eta { reserved: true, predicted: true, ..eta }),
            ..sample::explanation()
        };
        let text = explain(&predicted, RenderContext::plain().at(NOON));
        assert!(text.contains("about 12:00:20, if jobs run as long as predicted"), "{text}");
        // The ends of the jobs that hold what it needs are told beside their limits.
        let mut predicted = predicted;
        for holder in &mut predicted.holders {
            holder.expected_end = Some(sample::after(8));
        }
        let text = explain(&predicted, RenderContext::plain().at(NOON));
        for held in [
            "left (1) holds 5 until 12:00:20 (its time limit and grace; predicted 12:00:08)",
            "sweep (3) holds 2 without a time limit (predicted 12:00:08)",
        ] {
            assert!(text.contains(held), "{text}");
        }
        assert!(!text.contains("at the latest, reserved"), "{text}");
        let unknown = Explanation { eta: None, ..sample::explanation() };
        assert!(
            explain(&unknown, RenderContext::plain().at(NOON))
                .contains("unknown: what it needs is held without a time limit, or out of service")
        );
    }
}
