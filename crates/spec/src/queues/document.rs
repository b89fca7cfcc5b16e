//! The fields of a queue file. Their combinations are checked in the parent module.

use muster_model::queue::{IdleAction, PlacementPolicy, PlannedRuntimes};
use muster_model::{Preemption, Time};
use schemars::{JsonSchema, Schema, SchemaGenerator};

use crate::diagnostic::{Problem, Problems};
use crate::field::{Field, Many, Named, OneOrMany, Text, Whole, document, inline_schema, parsed};
use crate::job::fields::{JobName, Length, LengthOrNone, Protect};
use crate::job::notify::Notify;
use crate::quantity::{Malformed, parse_instant, parse_whole};
use crate::suggest::nearest;
use crate::yaml::{Node, Value};

document! {
    /// Queues for Muster: shares, quotas, limits and access.
    QueuesDocument ("queues") requires ["queues"] foreign &[("tree", "queues"), ("default", "default-queue")] => {
        /// Half-life of usage in fair share: usage counts half after this time. 7d by default.
        "half-life" half_life: Length,
        /// Protection of blocked jobs from later ones: `easy` (default) reserves for the first of
        /// each leaf, `conservative` for several, `none` keeps strict order.
        "backfill" backfill: BackfillRule,
        /// Blocked jobs of each leaf that hold a reservation under conservative backfill. 16 by
        /// default.
        "backfill-depth" backfill_depth: Whole<1, 10_000>,
        /// Allowed preemption: `reclaim` (a queue within its quota reclaims GPUs that others
        /// borrow), `priority` (within a leaf, higher preempts lower), `all` (the default) or
        /// `none`.
        "preemption" preemption: PreemptionRule,
        /// Run times by which starts are planned: `requested` (the default) are the time limits,
        /// `predicted` comes from the last jobs of each user, with time limits as the end.
        "estimates" estimates: EstimatesRule,
        /// Choice among suitable nodes: `pack` (default) keeps whole nodes free, `spread` loads all
        /// equally, `best-fit` leaves the least unused, `fragmentation` keeps the most capacity
        /// usable for typical jobs.
        "placement" placement: PlacementRule,
        /// Moves running jobs that save checkpoints, to free adjacent GPUs for a gang that waits
        /// only because of fragmentation, if that costs less GPU time than its wait. Off by
        /// default.
        "defragment" defragment: DefragmentDocument,
        /// Time after which GPUs that become free are kept for a gang that is first in its queue,
        /// behind jobs without a time limit, until it starts: `10m`, or `none`. 15m by default.
        "patience" patience: LengthOrNone,
        /// Time for which a job waits for quota that its queue has lent, before it stops a borrower
        /// that would lose more work than this for each GPU: `30m`, or `0s` for at once. 1h by
        /// default.
        "reclaim-after" reclaim_after: Length,
        /// Time after which a waiting job comes before newer ones of its queue, by the share of its user; newer ones
        /// follow in order of submission. `0s` orders all by share, `none` all by submission. 1h by default.
        "fair-share-after" fair_share_after: LengthOrNone,
        /// Time limit of jobs that do not set one. None by default.
        "default-time" default_time: Length,
        /// Leaf that a job without `queue` waits in. By default the leaf named `default`, or else
        /// the first leaf.
        "default-queue" default_queue: Text,
        /// Queues at the top level.
        "queues" queues: Many<Queue>,
    }
}

document! {
    /// Budget for moving running jobs to reduce fragmentation.
    DefragmentDocument ("defragment") requires ["gpu-hours", "every"] foreign &[("hours", "gpu-hours"), ("budget", "gpu-hours"), ("window", "every"), ("period", "every")] => {
        /// GPU-hours in each period: for each job that is moved, the GPU time since its last
        /// checkpoint and until it has stopped.
        "gpu-hours" gpu_hours: Whole<1, 1_000_000_000>,
        /// Length of a period.
        "every" every: Length,
    }
}

document! {
    /// A queue: a leaf that jobs wait in, or a parent of others.
    QueueDocument ("queue") requires ["name"] foreign &[("share", "weight"), ("nominal", "quota"), ("children", "queues"), ("borrowing", "borrow"), ("lending", "lend"), ("allow-users", "users"), ("allow-groups", "groups"), ("default-walltime", "default-time"), ("max-priority", "priority")] => {
        /// Its own name, without its parents'.
        "name" name: JobName,
        /// Share of its parent relative to its siblings. 1 by default.
        "weight" weight: Whole<1, 1_000_000>,
        /// Nominal quota of GPUs per model: `{h100: 16}`.
        "quota" quota: Named<Whole<0, 1_000_000_000>>,
        /// GPUs per model that it may borrow beyond its quota while other queues do not use them.
        /// By default as many as are lent.
        "borrow" borrow: Whole<0, 1_000_000_000>,
        /// GPUs per model of its quota that it lends while it does not use them. By default all.
        "lend" lend: Whole<0, 1_000_000_000>,
        /// Lowest and highest priority of its jobs: `[0, 100]`.
        "priority" priority: PriorityRange,
        /// Limits of its whole subtree.
        "limits" limits: LimitsDocument,
        /// GPU-hours that its jobs may use per period.
        "budget" budget: BudgetDocument,
        /// Time for which its jobs cannot be preempted once they hold their GPUs: `always`, a time
        /// such as 30m, or `none`. By default as set by the parent queue, or `none`.
        "protect" protect: Protect,
        /// Longest protection that users of a shared daemon may set for single jobs here: `always`,
        /// a time such as 30m, or `none`. By default as set by the parent queue, or as `protect`.
        "max-protect" max_protect: Protect,
        /// Time limit of jobs that do not set one. By default as set by the parent queue.
        "default-time" default_time: Length,
        /// Policy for jobs that leave all their GPUs idle. By default as set by the parent queue, or
        /// `{after: 30m, action: notify}`.
        "idle" idle: IdleDocument,
        /// Addresses that are told of all jobs of the queue: mail addresses, URLs, or mappings with
        /// events. By default as set by the parent queue; `none` for no notices.
        "notify" notify: OneOrMany<Notify>,
        /// Users of a shared daemon who may submit here, in addition to members of `groups`.
        /// Without both, as set by the parent queue.
        "users" users: OneOrMany<Text>,
        /// Unix groups whose members may submit here.
        "groups" groups: OneOrMany<Text>,
        /// Child queues of this queue.
        "queues" queues: Many<Queue>,
    }
}

document! {
    /// Policy for jobs all of whose GPUs are under 5 % busy. It does not apply to services.
    IdleDocument ("idle") requires [] foreign &[("for", "after"), ("time", "after"), ("do", "action"), ("then", "action")] => {
        /// Time after which a job counts as idle. 30m by default, at least 1m.
        "after" after: Length,
        /// `notify` marks the job and sends its notices (default); `requeue` also stops it, after a
        /// checkpoint if it has any, and it waits as long as `after` before it may start again;
        /// `cancel` ends it.
        "action" action: IdleActionWord,
    }
}

document! {
    /// Limits of a queue.
    LimitsDocument ("limits") requires [] foreign &[("max-jobs", "running-jobs"), ("jobs", "running-jobs"), ("gpus", "gpus-per-user"), ("walltime", "time"), ("submit-jobs", "pending-jobs"), ("borrow-time", "borrowed-time"), ("borrowing-time", "borrowed-time")] => {
        /// Jobs (array elements) running at once.
        "running-jobs" running_jobs: Whole<1, 1_000_000_000>,
        /// GPUs that one user may hold at once.
        "gpus-per-user" gpus_per_user: Whole<1, 1_000_000_000>,
        /// Pending jobs of one user; an array counts as one. Further submissions are refused.
        "pending-jobs" pending_jobs: Whole<1, 1_000_000_000>,
        /// Longest time limit of a job; jobs without a time limit are then refused.
        "time" time: LengthOrNone,
        /// Longest time that a job may hold borrowed GPUs, time limit and grace together; a job
        /// that may run longer starts only within the quota.
        "borrowed-time" borrowed_time: Length,
    }
}

document! {
    /// GPU-hours of a queue per period, refilled at the start of each period.
    BudgetDocument ("budget") requires ["every"] foreign &[("hours", "gpu-hours"), ("per-user", "gpu-hours-per-user"), ("window", "every"), ("period", "every"), ("from", "start")] => {
        /// GPU-hours of all jobs of the subtree together.
        "gpu-hours" gpu_hours: Whole<1, 1_000_000_000>,
        /// GPU-hours of each user's jobs in the subtree.
        "gpu-hours-per-user" gpu_hours_per_user: Whole<1, 1_000_000_000>,
        /// Length of a period.
        "every" every: Length,
        /// Start of one period, from which the others follow; a day is in UTC. By default
        /// 1970-01-01.
        "start" start: WindowStart,
    }
}

/// Start of a budget period: a day, or an instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WindowStart(pub(crate) Time);

inline_schema!(WindowStart, { "type": "string", "examples": ["2026-11-01", "2026-11-01T06:00:00Z"] });

impl Field for WindowStart {
    fn read(node: &Node, name: &str, problems: &mut Problems) -> Option<Self> {
        parsed(node, name, "a day or an instant", problems, |text| {
            // A day alone has ten letters, as in `2026-11-01`.
            let instant = match text.trim().len() {
                10 => parse_instant(&format!("{}T00:00Z", text.trim())),
                _ => parse_instant(text),
            };
            instant.map(Self).map_err(|error| Malformed {
                label: error
                    .label
                    .replace("`+2h`, or an instant", "a day such as `2026-11-01`, or an instant"),
                ..error
            })
        })
    }
}

/// A queue in the list of another. A separate type, so that the tree has a finite schema.
#[derive(Clone, Debug, Default)]
pub(crate) struct Queue(pub(crate) QueueDocument);

impl JsonSchema for Queue {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        "queue_entry".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        generator.subschema_for::<QueueDocument>()
    }
}

impl Field for Queue {
    fn read(node: &Node, name: &str, problems: &mut Problems) -> Option<Self> {
        QueueDocument::read(node, name, problems).map(Self)
    }
}

/// Kind of backfill: `none`, `easy` or `conservative`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BackfillRule {
    None,
    Easy,
    Conservative,
}

inline_schema!(BackfillRule, { "enum": ["none", "easy", "conservative"] });

impl Field for BackfillRule {
    fn read(node: &Node, name: &str, problems: &mut Problems) -> Option<Self> {
        parsed(node, name, "a kind of backfill", problems, |text| match text {
            "none" => Ok(Self::None),
            "easy" => Ok(Self::Easy),
            "conservative" => Ok(Self::Conservative),
            _ => Err(Malformed {
                label: "expected `none`, `easy` or `conservative`".to_owned(),
                hint: nearest(text, ["none", "easy", "conservative"])
                    .map(|near| format!("did you mean `{near}`?")),
            }),
        })
    }
}

/// Allowed preemption: `none`, `reclaim`, `priority` or `all`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PreemptionRule(pub(crate) Preemption);

inline_schema!(PreemptionRule, { "enum": ["none", "reclaim", "priority", "all"] });

impl Field for PreemptionRule {
    fn read(node: &Node, name: &str, problems: &mut Problems) -> Option<Self> {
        parsed(node, name, "a kind of preemption", problems, |text| match text {
            "none" => Ok(Self(Preemption::OFF)),
            "reclaim" => Ok(Self(Preemption { reclaim: true, priority: false })),
            "priority" => Ok(Self(Preemption { reclaim: false, priority: true })),
            "all" => Ok(Self(Preemption { reclaim: true, priority: true })),
            _ => Err(Malformed {
                label: "expected `none`, `reclaim`, `priority` or `all`".to_owned(),
                hint: nearest(text, ["none", "reclaim", "priority", "all"])
                    .map(|near| format!("did you mean `{near}`?")),
            }),
        })
    }
}

/// Placement policy: `pack`, `spread`, `best-fit` or `fragmentation`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PlacementRule(pub(crate) PlacementPolicy);

inline_schema!(PlacementRule, { "enum": ["pack", "spread", "best-fit", "fragmentation"] });

impl Field for PlacementRule {
    fn read(node: &Node, name: &str, problems: &mut Problems) -> Option<Self> {
        parsed(node, name, "a placement policy", problems, |text| {
            let known = PlacementPolicy::ALL.into_iter().find(|(name, _)| *name == text);
            known.map(|(_, policy)| Self(policy)).ok_or_else(|| Malformed {
                label: "expected `pack`, `spread`, `best-fit` or `fragmentation`".to_owned(),
                hint: nearest(text, PlacementPolicy::ALL.map(|(name, _)| name))
                    .map(|near| format!("did you mean `{near}`?")),
            })
        })
    }
}

/// Run times by which starts are planned: `requested` or `predicted`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EstimatesRule(pub(crate) PlannedRuntimes);

inline_schema!(EstimatesRule, { "enum": ["requested", "predicted"] });

impl Field for EstimatesRule {
    fn read(node: &Node, name: &str, problems: &mut Problems) -> Option<Self> {
        parsed(node, name, "a kind of estimate", problems, |text| {
            let known = PlannedRuntimes::ALL.into_iter().find(|(name, _)| *name == text);
            known.map(|(_, runtimes)| Self(runtimes)).ok_or_else(|| Malformed {
                label: "expected `requested` or `predicted`".to_owned(),
                hint: nearest(text, PlannedRuntimes::ALL.map(|(name, _)| name))
                    .map(|near| format!("did you mean `{near}`?")),
            })
        })
    }
}

/// Action on idle jobs: `notify`, `requeue` or `cancel`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct IdleActionWord(pub(crate) IdleAction);

inline_schema!(IdleActionWord, { "enum": ["notify", "requeue", "cancel"] });

impl Field for IdleActionWord {
    fn read(node: &Node, name: &str, problems: &mut Problems) -> Option<Self> {
        parsed(node, name, "an action on idle jobs", problems, |text| {
            let known = IdleAction::ALL.into_iter().find(|action| action.word() == text);
            known.map(Self).ok_or_else(|| Malformed {
                label: "expected `notify`, `requeue` or `cancel`".to_owned(),
                hint: nearest(text, IdleAction::ALL.map(IdleAction::word))
                    .map(|near| format!("did you mean `{near}`?")),
            })
        })
    }
}

/// Lowest and highest priority: `[0, 100]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PriorityRange(pub(crate) i32, pub(crate) i32);

inline_schema!(PriorityRange, {
    "type": "array", "items": { "type": "integer" }, "minItems": 2, "maxItems": 2, "examples": [[0, 100]],
});

impl Field for PriorityRange {
    fn read(node: &Node, name: &str, problems: &mut Problems) -> Option<Self> {
        let ends = match &node.value {
            Value::List(nodes) if nodes.len() == 2 => nodes,
            _ => {
                let label = "expected the lowest and the highest, such as `[0, 100]`";
                problems.add(
                    Problem::new(format!("`{name}` is not a range of priorities"))
                        .at(node.place, label),
                );
                return None;
            }
        };
        let end = |node: &Node, problems: &mut Problems| {
            parsed(node, name, "a range of priorities", problems, |text| {
                let number = i32::try_from(parse_whole(text)?).ok();
                let fits = number.filter(|number| (-1_000_000..=1_000_000).contains(number));
                fits.ok_or_else(|| Malformed {
                    label: "expected -1000000 to 1000000".to_owned(),
                    hint: None,
                })
            })
        };
        let low = end(&ends[0], problems);
        let high = end(&ends[1], problems);
        let low = low?;
        let high = high?;
        if low > high {
            let label = format!("this range runs backwards; write `[{high}, {low}]`");
            problems.add(Problem::new(format!("`{name}` admits nothing")).at(node.place, label));
            return None;
        }
        Some(Self(low, high))
    }
}
