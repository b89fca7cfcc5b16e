//! Writer of the queue file. The text reads back as the same tree; a tree that the format cannot
//! express is refused, never changed.

use std::fmt::Write as _;

use muster_model::Time;
use muster_model::job::Protection;
use muster_model::queue::{
    Backfill, IdlePolicy, PlacementPolicy, PlannedRuntimes, QueueBudget, QueueSpec, QueueTree,
};

use crate::cluster_writer::{comments, scalar};
use crate::diagnostic::Diagnostics;
use crate::quantity::{instant_text, span_text};
use crate::queues::parse_queues;

/// Reason for which a tree cannot be written.
#[derive(Debug, thiserror::Error)]
pub enum UnwritableQueues {
    /// A reader would refuse it: no queues, children with more quota than their parent, ...
    #[error("{0}")]
    Refused(Box<Diagnostics>),
    /// A reader would see another tree.
    #[error("a queue file cannot express this tree: it reads back as another one")]
    Differs,
}

/// Returns the queue file of a tree, with comments at its top.
///
/// # Errors
/// See [`UnwritableQueues`].
pub fn write_queues(tree: &QueueTree, heading: &[String]) -> Result<String, UnwritableQueues> {
    // 1. Text; defaults are left out, except for the settings that users look for first.
    let mut text = String::new();
    comments(&mut text, "", heading);
    let _ = writeln!(text, "half-life: {}", span_text(tree.half_life));
    match tree.backfill {
        Backfill::Easy => {}
        Backfill::None => text.push_str("backfill: none\n"),
        Backfill::Conservative { depth } => {
            let _ = writeln!(text, "backfill: conservative\nbackfill-depth: {depth}");
        }
    }
    let preemption = match (tree.preemption.reclaim, tree.preemption.priority) {
        (true, true) => "all",
        (true, false) => "reclaim",
        (false, true) => "priority",
        (false, false) => "none",
    };
    let _ = writeln!(text, "preemption: {preemption}");
    if let Some((name, _)) = PlacementPolicy::ALL
        .iter()
        .find(|(_, policy)| *policy == tree.placement && *policy != PlacementPolicy::default())
    {
        let _ = writeln!(text, "placement: {name}");
    }
    if tree.estimates == PlannedRuntimes::Predicted {
        text.push_str("estimates: predicted\n");
    }
    if let Some(defragment) = &tree.defragment {
        let every = span_text(defragment.every);
        let _ =
            writeln!(text, "defragment: {{gpu-hours: {}, every: {every}}}", defragment.gpu_hours);
    }
    for (key, value, default) in [
        ("patience", tree.patience, QueueTree::PATIENCE),
        ("fair-share-after", tree.fair_share_after, QueueTree::FAIR_SHARE_AFTER),
    ] {
        if value != Some(default) {
            let value = value.map_or_else(|| "none".to_owned(), span_text);
            let _ = writeln!(text, "{key}: {value}");
        }
    }
    if tree.reclaim_after != QueueTree::RECLAIM_AFTER {
        let _ = writeln!(text, "reclaim-after: {}", span_text(tree.reclaim_after));
    }
    if let Some(time) = tree.default_time {
        let _ = writeln!(text, "default-time: {}", span_text(time));
    }
    let _ = writeln!(text, "default-queue: {}", scalar(tree.default_queue.as_str()));
    text.push_str("queues:\n");
    queues(&mut text, &tree.queues, 1);

    // 2. Check that it reads back as the same tree.
    let read =
        parse_queues(&text, None).map_err(|error| UnwritableQueues::Refused(Box::new(error)))?;
    if read == *tree { Ok(text) } else { Err(UnwritableQueues::Differs) }
}

fn queues(text: &mut String, all: &[QueueSpec], depth: usize) {
    let indent = "  ".repeat(2 * depth - 1);
    for queue in all {
        let fields = fields(queue);
        if queue.queues.is_empty() {
            let _ = writeln!(text, "{indent}- {{{}}}", fields.join(", "));
            continue;
        }
        for (index, field) in fields.iter().enumerate() {
            let lead = if index == 0 { "- " } else { "  " };
            let _ = writeln!(text, "{indent}{lead}{field}");
        }
        let _ = writeln!(text, "{indent}  queues:");
        queues(text, &queue.queues, depth + 1);
    }
}

/// Returns the fields of a queue except for its children, each on one line.
fn fields(queue: &QueueSpec) -> Vec<String> {
    let mut fields = vec![format!("name: {}", scalar(&queue.name))];
    let mut say = |name: &str, value: Option<String>| {
        fields.extend(value.map(|value| format!("{name}: {value}")))
    };
    say("weight", (queue.weight != 1).then(|| queue.weight.to_string()));
    let quota: Vec<String> = queue
        .quota
        .iter()
        .map(|(model, gpus)| format!("{}: {gpus}", scalar(model.as_str())))
        .collect();
    say("quota", (!quota.is_empty()).then(|| format!("{{{}}}", quota.join(", "))));
    say("borrow", queue.borrow.map(|gpus| gpus.to_string()));
    say("lend", queue.lend.map(|gpus| gpus.to_string()));
    say("priority", queue.priority.map(|(low, high)| format!("[{low}, {high}]")));
    let limits = [
        ("running-jobs", queue.limits.running_jobs.map(|limit| limit.to_string())),
        ("gpus-per-user", queue.limits.gpus_per_user.map(|limit| limit.to_string())),
        ("pending-jobs", queue.limits.pending_jobs.map(|limit| limit.to_string())),
        ("time", queue.limits.time.map(span_text)),
        ("borrowed-time", queue.limits.borrowed_time.map(span_text)),
    ];
    let limits: Vec<String> = limits
        .into_iter()
        .filter_map(|(name, limit)| Some(format!("{name}: {}", limit?)))
        .collect();
    say("limits", (!limits.is_empty()).then(|| format!("{{{}}}", limits.join(", "))));
    say("budget", queue.budget.as_ref().map(budget));
    say("protect", queue.protect.map(protection));
    say("max-protect", queue.max_protect.map(protection));
    say("default-time", queue.default_time.map(span_text));
    say("idle", queue.idle.map(idle));
    say("users", list(queue.users.iter().map(|user| user.as_str())));
    say("groups", list(queue.groups.iter().map(|group| &**group)));
    fields
}

fn idle(policy: IdlePolicy) -> String {
    format!("{{after: {}, action: {}}}", span_text(policy.after), policy.action.word())
}

fn protection(protect: Protection) -> String {
    match protect {
        Protection::None => "none".to_owned(),
        Protection::For(span) => span_text(span),
        Protection::Always => "always".to_owned(),
    }
}

/// Returns names as a list; `None` if there are none.
fn list<'n>(names: impl Iterator<Item = &'n str>) -> Option<String> {
    let names: Vec<String> = names.map(scalar).collect();
    (!names.is_empty()).then(|| format!("[{}]", names.join(", ")))
}

fn budget(budget: &QueueBudget) -> String {
    let hours =
        [("gpu-hours", budget.gpu_hours), ("gpu-hours-per-user", budget.gpu_hours_per_user)];
    let mut fields: Vec<String> =
        hours.into_iter().filter_map(|(name, hours)| Some(format!("{name}: {}", hours?))).collect();
    fields.push(format!("every: {}", span_text(budget.every)));
    if budget.start != Time(0) {
        fields.push(format!("start: {}", scalar(&instant_text(budget.start))));
    }
    format!("{{{}}}", fields.join(", "))
}
