//! Access control by the queue file: which users may submit to which queue, with which priority and
//! protection, the default time limit, and the policy for idle jobs. On a shared daemon users have only these grants; its
//! admins, and the owner of a personal daemon, are not checked. Pure: groups are an argument.

use std::sync::Arc;

use muster_model::queue::IdlePolicy;
use muster_model::{
    JobSpec, Protection, QueueName, QueueSpec, QueueTree, Replicas, Service, Span, UserName,
    WorkloadKind,
};

use crate::quantity::span_text;

/// A user, and the unix groups that they are in.
#[derive(Clone, Copy, Debug)]
pub struct Submitter<'a> {
    /// Name of the user.
    pub user: &'a UserName,
    /// Names of the user's unix groups.
    pub groups: &'a [Arc<str>],
}

/// A request that is not granted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Denied {
    /// Message that says what is not granted.
    pub message: String,
    /// Next step for the user.
    pub hint: String,
}

/// Grants of a queue to users who may submit to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grants {
    /// The highest priority of a job.
    pub max_priority: i32,
    /// The longest protection of a single job.
    pub max_protect: Protection,
    /// Users who may submit; if `groups` is also empty, all users may.
    pub users: Vec<UserName>,
    /// Groups whose members may also submit.
    pub groups: Vec<Arc<str>>,
}

impl Grants {
    /// Returns the grants of a queue; for each, the nearest ancestor that sets it decides.
    #[must_use]
    pub fn of(tree: &QueueTree, queue: &QueueName) -> Self {
        let path = path(tree, queue);
        let nearest = |of: fn(&QueueSpec) -> Option<Protection>| {
            path.iter().rev().find_map(|queue| of(queue))
        };
        let named =
            path.iter().rev().find(|queue| !queue.users.is_empty() || !queue.groups.is_empty());
        let priority = path.iter().filter_map(|queue| queue.priority).map(|(_, highest)| highest);
        Self {
            // Each range on the path must admit a job, so the smallest decides.
            max_priority: priority.min().unwrap_or(0),
            max_protect: nearest(|queue| queue.max_protect)
                .or_else(|| nearest(|queue| queue.protect))
                .unwrap_or_default(),
            users: named.map(|queue| queue.users.clone()).unwrap_or_default(),
            groups: named.map(|queue| queue.groups.clone()).unwrap_or_default(),
        }
    }

    /// Returns true if the user may submit to the queue.
    #[must_use]
    pub fn admits(&self, submitter: Submitter<'_>) -> bool {
        self.users.is_empty() && self.groups.is_empty()
            || self.users.contains(submitter.user)
            || self.groups.iter().any(|group| submitter.groups.contains(group))
    }
}

/// Checks that a user who is no admin may submit a job.
///
/// # Errors
/// The first request that the queue does not grant.
pub fn check(tree: &QueueTree, submitter: Submitter<'_>, spec: &JobSpec) -> Result<(), Denied> {
    // Field by field: a new one does not compile until it is decided here whether it needs a grant.
    let JobSpec {
        name: _,
        user: _,
        uid: _,
        queue,
        priority,
        // Size and duration are subject to quota and limits, which hold for all users.
        groups: _,
        time_limit: _,
        expected_runtime: _,
        grace: _,
        constraint: _,
        array: _,
        after: _,
        restart: _,
        checkpoint: _,
        held: _,
        begin: _,
        protect,
        payload: _,
        kind,
        tier: _,
        grow_after: _,
        preempts: _,
    } = spec;
    let grants = Grants::of(tree, queue);
    if !grants.admits(submitter) {
        return Err(not_admitted(queue, &grants));
    }
    if *priority > grants.max_priority.max(0) {
        let most = grants.max_priority.max(0);
        return Err(Denied {
            message: format!(
                "queue {queue} grants no priority above {most}; this job has {priority}"
            ),
            hint: format!(
                "leave out `priority`, or give at most {most}; an admin grants more with `priority: [lowest, highest]` of the queue"
            ),
        });
    }
    if *protect > grants.max_protect {
        return Err(Denied {
            message: format!("queue {queue} grants {}", protection(grants.max_protect)),
            hint: "leave out `protect`; an admin grants it with `max-protect` of the queue"
                .to_owned(),
        });
    }
    match kind {
        WorkloadKind::Task | WorkloadKind::Notebook(_) => Ok(()),
        WorkloadKind::Service(Service { replicas, port: _ }) => {
            check_replicas(&grants, queue, *replicas)
        }
    }
}

/// Checks that a user who is no admin may scale a service. Guaranteed replicas are always
/// protected.
///
/// # Errors
/// The queue does not grant it.
pub fn check_scale(
    tree: &QueueTree,
    queue: &QueueName,
    (had, wanted): (Replicas, Replicas),
) -> Result<(), Denied> {
    if wanted.guaranteed <= had.guaranteed {
        return Ok(());
    }
    check_replicas(&Grants::of(tree, queue), queue, wanted)
}

fn check_replicas(grants: &Grants, queue: &QueueName, replicas: Replicas) -> Result<(), Denied> {
    if replicas.guaranteed == 0 || grants.max_protect == Protection::Always {
        return Ok(());
    }
    let Replicas { guaranteed: floor, max: ceiling } = replicas;
    Err(Denied {
        message: format!(
            "{floor} replicas would be guaranteed, and queue {queue} grants {}",
            protection(grants.max_protect)
        ),
        hint: format!(
            "`replicas: 0..{ceiling}` asks for them while GPUs are idle; an admin grants them with `max-protect: always` of the queue"
        ),
    })
}

/// Returns the default time limit of a queue, and the queue that sets it; `None` for the whole
/// tree.
#[must_use]
pub fn default_time(tree: &QueueTree, queue: &QueueName) -> Option<(Span, Option<Arc<str>>)> {
    let path = path(tree, queue);
    let nearest = path
        .iter()
        .rev()
        .find_map(|queue| Some((queue.default_time?, Some(Arc::clone(&queue.name)))));
    nearest.or_else(|| tree.default_time.map(|time| (time, None)))
}

/// Returns the policy of a queue for jobs that leave their GPUs idle; `None` means
/// [`IdlePolicy::DEFAULT`].
#[must_use]
pub fn idle_policy(tree: &QueueTree, queue: &QueueName) -> Option<IdlePolicy> {
    path(tree, queue).iter().rev().find_map(|queue| queue.idle)
}

fn not_admitted(queue: &QueueName, grants: &Grants) -> Denied {
    let list = |names: &mut dyn Iterator<Item = String>| names.collect::<Vec<_>>().join(", ");
    let users = list(&mut grants.users.iter().map(ToString::to_string));
    let groups = list(&mut grants.groups.iter().map(ToString::to_string));
    let admitted = match (users.is_empty(), groups.is_empty()) {
        (_, true) => users,
        (true, false) => format!("members of {groups}"),
        (false, false) => format!("{users} and members of {groups}"),
    };
    Denied {
        message: format!("only {admitted} may submit to queue {queue}"),
        hint: "`muster queues` shows which queues you may use".to_owned(),
    }
}

fn protection(most: Protection) -> String {
    match most {
        Protection::None => "no protection".to_owned(),
        Protection::For(span) => format!("protection for at most {}", span_text(span)),
        Protection::Always => "any protection".to_owned(),
    }
}

/// Returns the queues from the root to a queue.
fn path<'t>(tree: &'t QueueTree, queue: &QueueName) -> Vec<&'t QueueSpec> {
    let mut path = Vec::new();
    let mut below = &tree.queues;
    for name in queue.as_str().split('/') {
        let Some(next) = below.iter().find(|one| &*one.name == name) else { break };
        path.push(next);
        below = &next.queues;
    }
    path
}
