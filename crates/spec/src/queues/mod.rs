//! Reader of the queue file. Refuses trees that make no sense, at the line that causes it; the
//! effect of quotas and weights is in the crate `policy`.

mod document;

use std::collections::BTreeMap;
use std::sync::Arc;

use muster_model::notice::{NoticeAddress, NoticeRule};
use muster_model::queue::{
    Backfill, Defragment, IdlePolicy, QueueBudget, QueueLimits, QueueSpec, QueueTree,
};
use muster_model::{GpuModel, QueueName, Span, Time};

use crate::diagnostic::{Diagnostics, Problem, Problems, show};
use crate::field::{Field, Item, Located, OneOrMany, ROOT, Text, Whole};
use crate::job::fields::{Length, duplicates, used_twice};
use crate::job::notify;
use crate::site::join;
use crate::source::Sources;
use crate::suggest::nearest;
use crate::yaml;

pub(crate) use document::QueuesDocument;
use document::{
    BackfillRule, BudgetDocument, DefragmentDocument, IdleDocument, LimitsDocument, Queue,
    QueueDocument,
};

/// Most queues of one tree, parents included.
const MAX_QUEUES: usize = 10_000;
/// Default half-life of usage; as Slurm's `PriorityDecayHalfLife`.
const DEFAULT_HALF_LIFE: Span = Span::from_secs(7 * 86_400);
/// Default number of blocked jobs per leaf that hold a reservation under conservative backfill.
const DEFAULT_DEPTH: u32 = 16;
/// Shortest period of a budget: each refill that a job waits for causes a planning pass.
const SHORTEST_WINDOW: Span = Span::from_secs(60);
/// Shortest time after which a job counts as idle: three polls of the loads.
const SHORTEST_IDLE: Span = Span::from_secs(60);

/// Content of a queue file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueFile {
    /// Everything that the scheduler needs.
    pub tree: QueueTree,
    /// Rules of notices by leaf. They may hold secrets, so they are not in the tree.
    pub notices: QueueNotices,
}

/// Rules of the notices about all jobs of a leaf; a leaf without any is left out.
pub type QueueNotices = BTreeMap<QueueName, Vec<NoticeRule>>;

/// Reads the tree of a queue file.
///
/// # Errors
/// Everything that is wrong with the file.
pub fn parse_queues(source: &str, file: Option<&str>) -> Result<QueueTree, Diagnostics> {
    parse_queue_file(source, file).map(|file| file.tree)
}

/// Reads a queue file.
///
/// # Errors
/// Everything that is wrong with it.
pub fn parse_queue_file(source: &str, file: Option<&str>) -> Result<QueueFile, Diagnostics> {
    let sources = Arc::new(Sources::new(source, file));
    let mut problems = Problems::default();
    let tree = yaml::read_one(&sources, "queues", "queues: [{name: research}]", &mut problems)
        .and_then(|node| QueuesDocument::read(&node, ROOT, &mut problems))
        .and_then(|document| {
            let mut notices = QueueNotices::new();
            let items = document.queues.as_ref().map_or(&[][..], |queues| &queues.value.0);
            collect_notices(items, ("", &[]), &mut notices, &mut problems);
            Some(QueueFile { tree: tree(&document, &mut problems)?, notices })
        });
    match tree {
        Some(file) => problems.finish(file, &sources),
        None => Err(problems.into_diagnostics(&sources)),
    }
}

fn tree(document: &QueuesDocument, problems: &mut Problems) -> Option<QueueTree> {
    let before = problems.len();
    let mut leaves = Vec::new();
    let mut count = 0;
    let items = document.queues.as_ref().map_or(&[][..], |queues| &queues.value.0);
    promised(items, problems);
    let queues = siblings(items, "", &mut leaves, &mut count, problems);
    if count > MAX_QUEUES {
        let message = format!("{count} queues; at most {MAX_QUEUES}");
        problems.add(Problem::new(message));
    }
    let half_life =
        document.half_life.as_ref().map_or(DEFAULT_HALF_LIFE, |written| written.value.0);
    if let Some(written) =
        document.half_life.as_ref().filter(|written| written.value.0 < Span::from_secs(1))
    {
        problems
            .add(Problem::new("`half-life` is too short").at(written.place, "the smallest is 1s"));
    }
    let tree = QueueTree {
        half_life,
        backfill: backfill(document, problems),
        preemption: document.preemption.as_ref().map(|rule| rule.value.0).unwrap_or_default(),
        estimates: document.estimates.as_ref().map(|rule| rule.value.0).unwrap_or_default(),
        placement: document.placement.as_ref().map(|rule| rule.value.0).unwrap_or_default(),
        defragment: document
            .defragment
            .as_ref()
            .and_then(|written| defragment(&written.value, problems)),
        patience: match &document.patience {
            Some(written) => written.value.0,
            None => Some(QueueTree::PATIENCE),
        },
        reclaim_after: document
            .reclaim_after
            .as_ref()
            .map_or(QueueTree::RECLAIM_AFTER, |written| written.value.0),
        fair_share_after: match &document.fair_share_after {
            Some(written) => written.value.0,
            None => Some(QueueTree::FAIR_SHARE_AFTER),
        },
        default_time: document.default_time.as_ref().and_then(|written| time(written, problems)),
        default_queue: default_queue(document.default_queue.as_ref(), &leaves, problems)?,
        queues,
    };
    (problems.len() == before).then_some(tree)
}

/// Adds the rules of the leaves below a queue, given by its path and its rules.
fn collect_notices(
    items: &[Item<Queue>],
    (parent, inherited): (&str, &[NoticeRule]),
    notices: &mut QueueNotices,
    problems: &mut Problems,
) {
    for item in items {
        let queue = &item.value.0;
        let name = queue.name.as_ref().map_or("", |name| &name.value.0);
        let path = join(parent, name);
        let own = queue.notify.as_ref().map(|written| {
            let rules = notify::rules(&written.value, problems);
            if rules.iter().any(|rule| matches!(rule.to, NoticeAddress::Command(_))) {
                problems.add(
                    Problem::new("`notify` of a queue takes no command")
                        .at(written.place, "expected mail addresses and URLs")
                        .hint("a command belongs to a job: it runs as the job's user".to_owned()),
                );
            }
            rules
        });
        let rules = own.as_deref().unwrap_or(inherited);
        match &queue.queues {
            Some(below) => collect_notices(&below.value.0, (&path, rules), notices, problems),
            None if rules.is_empty() => {}
            None => {
                notices.insert(path.as_str().into(), rules.to_vec());
            }
        }
    }
}

fn siblings(
    items: &[Item<Queue>],
    parent: &str,
    leaves: &mut Vec<String>,
    count: &mut usize,
    problems: &mut Problems,
) -> Vec<QueueSpec> {
    let name_of =
        |queue: &Queue| queue.0.name.as_ref().map_or(String::new(), |name| name.value.0.clone());
    for pair in duplicates(items, |queue| queue.0.name.as_ref().map_or("", |name| &name.value.0)) {
        problems.add(used_twice("queues", &join(parent, &name_of(&pair.1.value)), pair));
    }
    let mut specs = Vec::with_capacity(items.len());
    for item in items {
        let path = join(parent, &name_of(&item.value));
        *count += 1;
        let below = match &item.value.0.queues {
            Some(below) => siblings(&below.value.0, &path, leaves, count, problems),
            None => {
                leaves.push(path);
                Vec::new()
            }
        };
        specs.push(queue(&item.value.0, below, problems));
    }
    specs
}

fn queue(document: &QueueDocument, queues: Vec<QueueSpec>, problems: &mut Problems) -> QueueSpec {
    let quota = quota(document, problems);
    check_cohort(document, problems);
    let whole = |written: &Located<Whole<0, 1_000_000_000>>| written.value.0 as u64;
    QueueSpec {
        name: document
            .name
            .as_ref()
            .map_or_else(|| Arc::from(""), |name| name.value.0.as_str().into()),
        weight: document.weight.as_ref().map_or(1, |weight| weight.value.0 as u32),
        quota,
        borrow: document.borrow.as_ref().map(whole),
        lend: document.lend.as_ref().map(whole),
        priority: document.priority.as_ref().map(|range| (range.value.0, range.value.1)),
        limits: document
            .limits
            .as_ref()
            .map(|limits| ceilings(&limits.value, problems))
            .unwrap_or_default(),
        budget: document.budget.as_ref().and_then(|budget| self::budget(budget, problems)),
        protect: document.protect.as_ref().map(|protect| protect.value.0),
        max_protect: document.max_protect.as_ref().map(|protect| protect.value.0),
        default_time: document.default_time.as_ref().and_then(|written| time(written, problems)),
        idle: document.idle.as_ref().map(|written| idle(&written.value, problems)),
        users: names(document.users.as_ref(), "user", problems)
            .map(|name| name.as_str().into())
            .collect(),
        groups: names(document.groups.as_ref(), "group", problems)
            .map(|name| name.as_str().into())
            .collect(),
        queues,
    }
}

/// Returns the default time limit of jobs.
fn time(written: &Located<Length>, problems: &mut Problems) -> Option<Span> {
    if written.value.0 < Span::from_secs(1) {
        problems.add(
            Problem::new("`default-time` is too short").at(written.place, "the smallest is 1s"),
        );
        return None;
    }
    Some(written.value.0)
}

/// Returns the policy for idle jobs.
fn idle(document: &IdleDocument, problems: &mut Problems) -> IdlePolicy {
    if let Some(written) = document.after.as_ref().filter(|written| written.value.0 < SHORTEST_IDLE)
    {
        let label = format!("the smallest is {SHORTEST_IDLE}: loads are read every 20 s");
        problems.add(Problem::new("`after` is too short").at(written.place, label));
    }
    let default = IdlePolicy::DEFAULT;
    IdlePolicy {
        after: document.after.as_ref().map_or(default.after, |written| written.value.0),
        action: document.action.as_ref().map_or(default.action, |written| written.value.0),
    }
}

/// Returns users or groups; the name of an account has no blanks.
fn names<'d>(
    written: Option<&'d Located<OneOrMany<Text>>>,
    what: &str,
    problems: &mut Problems,
) -> impl Iterator<Item = &'d String> + use<'d> {
    let items = written.map_or(&[][..], |written| &written.value.0);
    for item in items {
        let name = &item.value.0;
        if name.is_empty()
            || name.contains(|c: char| c.is_whitespace() || c.is_control() || c == ',')
        {
            let message = format!("{} is not the name of a {what}", show(name));
            problems.add(
                Problem::new(message).at(item.place, "write several names as a list: `[ann, bob]`"),
            );
        }
    }
    items.iter().map(|item| &item.value.0)
}

fn quota(document: &QueueDocument, problems: &mut Problems) -> BTreeMap<GpuModel, u64> {
    let mut quota: BTreeMap<GpuModel, u64> = BTreeMap::new();
    for item in document.quota.iter().flat_map(|quota| &quota.value.0) {
        let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
        let model = item.name.to_lowercase();
        if model.is_empty() || !model.chars().all(allowed) {
            let message = format!("{} is not a GPU model", show(&item.name));
            problems
                .add(Problem::new(message).at(item.name_place, "expected a word such as `h100`"));
        } else if quota.insert(GpuModel(model.into()), item.value.0 as u64).is_some() {
            let message = format!("{} has two quotas", show(&item.name));
            problems.add(Problem::new(message).at(item.name_place, "model names ignore case"));
        }
    }
    quota
}

/// Refuses borrowing and lending without a quota, to which they are relative.
fn check_cohort(document: &QueueDocument, problems: &mut Problems) {
    let Some(quota) = &document.quota else {
        let limits = document.limits.as_ref();
        let cohort = [
            ("borrow", document.borrow.as_ref().map(|written| written.key)),
            ("lend", document.lend.as_ref().map(|written| written.key)),
            (
                "borrowed-time",
                limits
                    .and_then(|limits| limits.value.borrowed_time.as_ref())
                    .map(|written| written.key),
            ),
        ];
        for (name, key) in cohort {
            if let Some(key) = key {
                problems.add(
                    Problem::new(format!("`{name}` needs `quota`"))
                        .at(key, "this queue has no quota")
                        .hint(
                            "add `quota: {h100: 8}`, or remove it: a queue without quota is not limited"
                                .to_owned(),
                        ),
                );
            }
        }
        return;
    };
    let largest = quota.value.0.iter().map(|item| item.value.0).max().unwrap_or(0);
    if let Some(lend) = document.lend.as_ref().filter(|lend| lend.value.0 > largest) {
        problems.add(
            Problem::new("`lend` is more than the quota")
                .at(lend.place, format!("the largest quota here is {largest}"))
                .also(quota.place, "of this")
                .hint("to lend all, remove `lend`".to_owned()),
        );
    }
}

fn ceilings(document: &LimitsDocument, problems: &mut Problems) -> QueueLimits {
    let time = document.time.as_ref().and_then(|time| time.value.0);
    if let Some(written) = document.time.as_ref().filter(|_| time == Some(Span(0))) {
        problems.add(Problem::new("`time` is 0").at(written.place, "no job could run"));
    }
    QueueLimits {
        running_jobs: document.running_jobs.as_ref().map(|limit| limit.value.0 as u32),
        gpus_per_user: document.gpus_per_user.as_ref().map(|limit| limit.value.0 as u64),
        pending_jobs: document.pending_jobs.as_ref().map(|limit| limit.value.0 as u32),
        time,
        borrowed_time: document.borrowed_time.as_ref().map(|limit| limit.value.0),
    }
}

fn budget(written: &Located<BudgetDocument>, problems: &mut Problems) -> Option<QueueBudget> {
    let document = &written.value;
    if document.gpu_hours.is_none() && document.gpu_hours_per_user.is_none() {
        problems.add(
            Problem::new("`budget` has no GPU-hours")
                .at(written.key, "of how many?")
                .hint("add `gpu-hours: 5000`, or `gpu-hours-per-user: 200`".to_owned()),
        );
    }
    let every = window(document.every.as_ref()?, problems);
    let hours = |written: &Located<Whole<1, 1_000_000_000>>| written.value.0 as u64;
    Some(QueueBudget {
        gpu_hours: document.gpu_hours.as_ref().map(hours),
        gpu_hours_per_user: document.gpu_hours_per_user.as_ref().map(hours),
        every,
        start: document.start.as_ref().map_or(Time(0), |start| start.value.0),
    })
}

fn defragment(document: &DefragmentDocument, problems: &mut Problems) -> Option<Defragment> {
    let every = window(document.every.as_ref()?, problems);
    Some(Defragment { gpu_hours: document.gpu_hours.as_ref()?.value.0 as u64, every })
}

/// Returns the length of a budget period.
fn window(every: &Located<Length>, problems: &mut Problems) -> Span {
    if every.value.0 < SHORTEST_WINDOW {
        let label = format!("the smallest is {SHORTEST_WINDOW}");
        problems.add(Problem::new("`every` is too short").at(every.place, label));
    }
    every.value.0
}

fn backfill(document: &QueuesDocument, problems: &mut Problems) -> Backfill {
    let rule = document.backfill.as_ref().map(|rule| rule.value);
    let depth = document.backfill_depth.as_ref();
    if let Some(depth) = depth.filter(|_| rule != Some(BackfillRule::Conservative)) {
        problems.add(
            Problem::new("`backfill-depth` needs conservative backfill")
                .at(depth.key, "it has no effect otherwise")
                .hint("add `backfill: conservative`".to_owned()),
        );
    }
    match rule {
        Some(BackfillRule::None) => Backfill::None,
        Some(BackfillRule::Conservative) => Backfill::Conservative {
            depth: depth.map_or(DEFAULT_DEPTH, |depth| depth.value.0 as u32),
        },
        Some(BackfillRule::Easy) | None => Backfill::Easy,
    }
}

fn default_queue(
    written: Option<&Located<Text>>,
    leaves: &[String],
    problems: &mut Problems,
) -> Option<QueueName> {
    let Some(written) = written else {
        let named = leaves.iter().find(|leaf| *leaf == "default").or(leaves.first());
        return named.map(|leaf| QueueName(leaf.as_str().into()));
    };
    let name = written.value.0.as_str();
    if leaves.iter().any(|leaf| leaf == name) {
        return Some(QueueName(name.into()));
    }
    let near = nearest(name, leaves.iter().map(String::as_str));
    let hint = match near {
        Some(near) => format!("did you mean `{near}`?"),
        None => {
            format!("write its whole path, such as `{}`", leaves.first().map_or("", String::as_str))
        }
    };
    problems.add(
        Problem::new("`default-queue` is not a leaf of this tree")
            .at(written.place, "no leaf has this path")
            .hint(hint),
    );
    None
}

/// Returns the nominal GPUs per model of queues together, and refuses children with more quota than
/// their parent. A queue without quota for a model has the quota of its children.
fn promised(items: &[Item<Queue>], problems: &mut Problems) -> BTreeMap<String, i64> {
    let mut together: BTreeMap<String, i64> = BTreeMap::new();
    for item in items {
        let below = item.value.0.queues.as_ref();
        let mut nominal =
            below.map_or_else(BTreeMap::new, |below| promised(&below.value.0, problems));
        for own in item.value.0.quota.iter().flat_map(|quota| &quota.value.0) {
            let children = nominal.insert(own.name.to_lowercase(), own.value.0).unwrap_or(0);
            if let Some(below) = below.filter(|_| children > own.value.0) {
                problems.add(
                    Problem::new("the queues below have more quota than this one")
                        .at(own.place, format!("{} of {}", own.value.0, show(&own.name)))
                        .also(below.key, format!("{children} in all")),
                );
            }
        }
        for (model, gpus) in nominal {
            let sum = together.entry(model).or_insert(0);
            *sum = sum.saturating_add(gpus);
        }
    }
    together
}
