//! Trees for tests: from a few lines of text, and random ones.

use std::collections::BTreeMap;

use muster_model::{QueueSpec, QueueTree, Span, Time};
use proptest::prelude::*;

use crate::{EntryAge, EntrySlot, LeafId, ModelId, Policy, UserId};

pub(super) const WEEK_MS: u64 = 7 * 86_400_000;

/// Returns the age of an entry that was submitted at the beginning.
pub(super) fn age(seq: u64) -> EntryAge {
    EntryAge { seq, submitted: Time(0) }
}

/// Parses a tree of one queue per line, nested by one space per level: a name, then pairs of a
/// keyword and a value. `quota` is for model `h100`, `quota-a100` for the other. The first leaf is
/// the default queue.
pub(super) fn tree(text: &str) -> QueueTree {
    let lines: Vec<(usize, &str)> = text
        .lines()
        .filter(|line| !line.trim().is_empty())
        .map(|line| (line.len() - line.trim_start().len(), line.trim()))
        .collect();
    let (queues, rest) = parse(&lines, 0);
    assert!(rest.is_empty(), "indented too far: {rest:?}");
    with_queues(queues)
}

pub(super) fn with_queues(queues: Vec<QueueSpec>) -> QueueTree {
    let mut default = String::new();
    let mut level = &queues;
    while let Some(first) = level.first() {
        default = if default.is_empty() {
            first.name.to_string()
        } else {
            format!("{default}/{}", first.name)
        };
        level = &first.queues;
    }
    QueueTree {
        half_life: Span(WEEK_MS),
        default_queue: default.into(),
        queues,
        ..QueueTree::single()
    }
}

fn parse<'a>(
    mut lines: &'a [(usize, &'a str)],
    depth: usize,
) -> (Vec<QueueSpec>, &'a [(usize, &'a str)]) {
    let mut queues = Vec::new();
    while let Some((indent, line)) = lines.first()
        && *indent == depth
    {
        let mut queue = queue(line);
        (queue.queues, lines) = parse(&lines[1..], depth + 1);
        queues.push(queue);
    }
    (queues, lines)
}

fn queue(line: &str) -> QueueSpec {
    let mut words = line.split_whitespace();
    let mut queue = QueueSpec::named(words.next().unwrap());
    while let (Some(word), Some(value)) = (words.next(), words.next()) {
        let number = || value.parse::<u64>().unwrap();
        match word {
            "quota" => drop(queue.quota.insert("h100".into(), number())),
            "quota-a100" => drop(queue.quota.insert("a100".into(), number())),
            "borrow" => queue.borrow = Some(number()),
            "lend" => queue.lend = Some(number()),
            "weight" => queue.weight = number() as u32,
            "running" => queue.limits.running_jobs = Some(number() as u32),
            "per-user" => queue.limits.gpus_per_user = Some(number()),
            "time" => queue.limits.time = Some(Span::from_secs(number())),
            "priority" => {
                let (low, high) = value.split_once("..").unwrap();
                queue.priority = Some((low.parse().unwrap(), high.parse().unwrap()));
            }
            _ => panic!("no such word: {word}"),
        }
    }
    queue
}

/// Returns a policy with both models known and capacities given in whole GPUs.
pub(super) fn policy(tree: QueueTree, h100: u64, a100: u64) -> Policy {
    let mut policy = Policy::new(tree).unwrap();
    let models =
        [(policy.intern_model(&"h100".into()), h100), (policy.intern_model(&"a100".into()), a100)];
    let mut capacity = vec![0; policy.models().len()];
    for (model, gpus) in models {
        capacity[usize::from(model.0)] = gpus * 1000;
    }
    policy.set_capacity(Time(0), &capacity);
    policy
}

pub(super) fn leaf(policy: &Policy, name: &str) -> LeafId {
    policy.queues().leaf(&name.into()).unwrap_or_else(|| panic!("no leaf {name}"))
}

pub(super) fn h100(policy: &Policy) -> ModelId {
    policy.models().find(&"h100".into()).unwrap()
}

/// Returns all views of a policy at an instant, as text.
pub(super) fn observable(policy: &Policy, now: Time) -> String {
    let stored = serde_json::to_string(policy).unwrap();
    let views = serde_json::to_string(&policy.queue_views(now)).unwrap();
    let order = drain(policy, now);
    format!(
        "{stored}\n{views}\n{:?}\n{order:?}\n{:?}",
        policy.usage_rows(now),
        policy.inconsistencies()
    )
}

/// Returns the entries of a whole pass in which nothing starts.
pub(super) fn drain(policy: &Policy, now: Time) -> Vec<EntrySlot> {
    let mut pass = policy.begin_pass(now);
    std::iter::from_fn(|| pass.next(policy)).collect()
}

/// Generates a random tree of up to three levels with quotas that add up, and some limits.
pub(super) fn any_tree() -> impl Strategy<Value = QueueTree> {
    let quota = || prop::option::weighted(0.6, 0u64..8);
    let small = || prop::option::weighted(0.4, 0u64..5);
    let own = (
        quota(),
        quota(),
        small(),
        small(),
        1u32..4,
        prop::option::weighted(0.2, 1u32..6),
        small(),
    );
    let leaf = own.clone().prop_map(|own| spec(own, Vec::new()));
    let queue = leaf.prop_recursive(2, 12, 4, move |inner| {
        (own.clone(), prop::collection::vec(inner, 1..4))
            .prop_map(|(own, children)| spec(own, children))
    });
    prop::collection::vec(queue, 1..4).prop_map(|mut queues| {
        name(&mut queues);
        with_queues(queues)
    })
}

type Own = (Option<u64>, Option<u64>, Option<u64>, Option<u64>, u32, Option<u32>, Option<u64>);

fn spec(
    (h100, a100, borrow, lend, weight, running, per_user): Own,
    queues: Vec<QueueSpec>,
) -> QueueSpec {
    let mut spec = QueueSpec { weight, queues, ..QueueSpec::named("") };
    for (model, own) in [("h100", h100), ("a100", a100)] {
        if let Some(own) = own {
            let promised: u64 = spec.queues.iter().map(|child| nominal(child, model)).sum();
            spec.quota.insert(model.into(), own.max(promised));
        }
    }
    if !spec.quota.is_empty() {
        (spec.borrow, spec.lend) = (borrow, lend);
    }
    spec.limits.running_jobs = running;
    spec.limits.gpus_per_user = per_user.map(|gpus| gpus + 2);
    spec
}

/// Returns the nominal quota of a queue: its own, or the sum of its children's.
pub(super) fn nominal(queue: &QueueSpec, model: &str) -> u64 {
    let own = queue.quota.get(&model.into()).copied();
    own.unwrap_or_else(|| queue.queues.iter().map(|child| nominal(child, model)).sum())
}

/// Names that sort against their order in the file.
fn name(queues: &mut [QueueSpec]) {
    let count = queues.len();
    for (index, queue) in queues.iter_mut().enumerate() {
        queue.name = format!("q{}", count - index).into();
        name(&mut queue.queues);
    }
}

/// Returns the leaves of a tree by path.
pub(super) fn leaves(policy: &Policy) -> Vec<LeafId> {
    let views = policy.queue_views(Time(0));
    views
        .iter()
        .filter(|view| view.is_leaf)
        .map(|view| policy.queues().leaf(&view.name).unwrap())
        .collect()
}

/// Step that an engine applies to a policy.
#[derive(Clone, Debug)]
pub(super) struct PolicyStep {
    /// Milliseconds since the step before.
    pub(super) wait_ms: u64,
    /// True to start an element, false to end the one at `pick`.
    pub(super) is_start: bool,
    pub(super) pick: usize,
    pub(super) user: u32,
    /// Thousandths of `h100` and `a100`.
    pub(super) milli: [u64; 2],
}

pub(super) fn any_steps(count: usize) -> impl Strategy<Value = Vec<PolicyStep>> {
    let milli = || prop_oneof![3 => Just(0u64), 3 => (1u64..4).prop_map(|gpus| gpus * 1000), 1 => Just(500u64)];
    let wait_ms = prop_oneof![Just(0u64), 1u64..5000, 1u64..WEEK_MS];
    let step = (wait_ms, prop::bool::weighted(0.65), 0usize..1000, 0u32..3, milli(), milli());
    let step = step.prop_map(|(wait_ms, is_start, pick, user, h100, a100)| PolicyStep {
        wait_ms,
        is_start,
        pick,
        user,
        milli: [h100, a100],
    });
    prop::collection::vec(step, 1..count)
}

/// Resources that an element holds.
#[derive(Clone, Debug)]
pub(super) struct HeldElement {
    pub(super) leaf: LeafId,
    pub(super) user: UserId,
    pub(super) gpus: Vec<(ModelId, u64)>,
}

/// Returns the element that a step would start.
pub(super) fn element(policy: &mut Policy, leaves: &[LeafId], step: &PolicyStep) -> HeldElement {
    let user = policy.intern_user(&format!("u{}", step.user).as_str().into());
    let models = ["h100", "a100"].map(|name| policy.intern_model(&name.into()));
    let gpus = models.into_iter().zip(step.milli).filter(|(_, milli)| *milli > 0).collect();
    HeldElement { leaf: leaves[step.pick % leaves.len()], user, gpus }
}

/// Returns the use of one model per leaf.
pub(super) fn use_by_leaf(held: &[HeldElement], model: ModelId) -> BTreeMap<LeafId, u64> {
    let mut sums = BTreeMap::new();
    for element in held {
        for (_, milli) in element.gpus.iter().filter(|(of, _)| *of == model) {
            *sums.entry(element.leaf).or_default() += milli;
        }
    }
    sums
}
