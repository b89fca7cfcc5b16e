//! Settings of the queue file that a scheduler cannot express, or handles differently.

use std::collections::BTreeSet;

use muster_model::queue::{Backfill, IdlePolicy, PlacementPolicy, PlannedRuntimes};
use muster_model::{Protection, QueueSpec, QueueTree};

use super::shares::PlannedQueue;
use super::{Plane, QueueFilesInput};

/// Returns one line for each setting, first those of the whole tree.
pub(super) fn of(plane: Plane, input: &QueueFilesInput<'_>) -> Vec<String> {
    let queues = PlannedQueue::all(input.queues);
    let mut lines = of_tree(plane, input.queues);
    let mut settings = vec![(
        queues.iter().any(|queue| !queue.spec.groups.is_empty()),
        "`groups`: Kubernetes has only namespaces, the `users`; a queue with groups alone is open to all of them",
    )];
    if plane != Plane::Kueue {
        let is_closed = |queue: &PlannedQueue<'_>| {
            !queue.spec.users.is_empty() || !queue.spec.groups.is_empty()
        };
        settings
            .push((queues.iter().any(is_closed), "`users`: every namespace may use every queue"));
        let models = queues.iter().flat_map(|queue| queue.spec.quota.keys());
        let models: BTreeSet<_> = models.collect();
        settings.push((models.len() > 1, "`quota`: GPUs of all models count together"));
    }
    lines.extend(
        settings.into_iter().filter(|(is_set, _)| *is_set).map(|(_, line)| line.to_owned()),
    );
    for queue in &queues {
        lines.extend(of_queue(plane, queue.spec).map(|line| format!("{}: {line}", queue.path)));
    }
    lines
}

fn of_tree(plane: Plane, tree: &QueueTree) -> Vec<String> {
    let mut lines = Vec::new();
    let mut say = |line: &str| lines.push(line.to_owned());
    match (tree.backfill, plane) {
        (Backfill::None, Plane::Kueue) => {}
        (Backfill::None, _) => {
            say("`backfill: none`: later jobs start before a wide one that waits")
        }
        _ => say(
            "`backfill`: there are no time limits to plan by, so no job has a reserved start: one that needs many GPUs may wait for ever behind small ones",
        ),
    }
    match plane {
        Plane::Kueue => say(
            "`half-life`: past use counts between the namespaces of a queue; between queues only what they hold counts",
        ),
        Plane::Volcano => {
            say("`half-life`: only what queues hold now counts, not what they have used")
        }
        Plane::Kai => say(
            "`half-life`: only what queues hold now counts, unless its time-aware fairness is set up, which needs Prometheus",
        ),
    }
    if plane == Plane::Kai && !(tree.preemption.reclaim && tree.preemption.priority) {
        say("`preemption`: KAI always reclaims lent quota, and preempts for a higher priority");
    }
    if tree.placement != PlacementPolicy::Pack {
        say("`placement`: full nodes are filled first, as with `pack`");
    }
    if tree.estimates == PlannedRuntimes::Predicted {
        say("`estimates`: nothing is planned by run times");
    }
    if tree.defragment.is_some() && plane != Plane::Kai {
        say("`defragment`: running jobs are not moved");
    }
    if tree.default_time.is_some() {
        say("`default-time`: there are no time limits but the job's own");
    }
    lines
}

fn of_queue(plane: Plane, queue: &QueueSpec) -> impl Iterator<Item = &'static str> {
    let limits = &queue.limits;
    let has_idle_action = queue.idle.is_some_and(|idle| idle.action != IdlePolicy::DEFAULT.action);
    let is_protected = |protection: Option<Protection>| {
        protection.is_some_and(|protection| protection != Protection::None)
    };
    let keeps_protection = plane == Plane::Kai && matches!(queue.protect, Some(Protection::For(_)));
    [
        (queue.lend.is_some() && plane == Plane::Kai, "`lend`: all of its idle quota is lent"),
        (
            queue.weight != 1 && plane == Plane::Volcano && !queue.quota.is_empty(),
            "`weight`: what it may borrow goes by use, not by weight",
        ),
        (queue.priority.is_some(), "`priority`: any priority class may be used"),
        (limits.running_jobs.is_some(), "`running-jobs` has no counterpart"),
        (limits.pending_jobs.is_some(), "`pending-jobs` has no counterpart"),
        (
            limits.gpus_per_user.is_some(),
            "`gpus-per-user`: give each namespace a queue, or a ResourceQuota",
        ),
        (limits.time.is_some(), "`time`: a job may set `activeDeadlineSeconds`, and need not"),
        (limits.borrowed_time.is_some(), "`borrowed-time` has no counterpart"),
        (queue.budget.is_some(), "`budget` has no counterpart"),
        (
            is_protected(queue.protect) && !keeps_protection,
            "`protect`: its jobs may be preempted at any time",
        ),
        (is_protected(queue.max_protect), "`max-protect`: jobs cannot be protected"),
        (
            queue.default_time.is_some(),
            "`default-time`: there are no time limits but the job's own",
        ),
        (has_idle_action, "`idle`: idle jobs keep their GPUs"),
    ]
    .into_iter()
    .filter(|(is_set, _)| *is_set)
    .map(|(_, line)| line)
}
