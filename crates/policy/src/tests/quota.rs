//! Quota: example rows, and the walk along the path against an oracle that hands out every GPU as a
//! token.

use std::collections::{BTreeMap, VecDeque};

use muster_model::{QueueSpec, QueueTree, Reason, Time};
use proptest::prelude::*;

use super::trees::{
    self, HeldElement, any_steps, any_tree, element, h100, leaf, leaves, policy, tree, use_by_leaf,
};
use crate::{Inconsistency, LeafId, ModelId, Policy};

const EXAMPLE: &str = "research quota 32\n vision quota 16 borrow 8\n language quota 8 lend 2\n";

/// Checks whether `asked` more GPUs may start in `queue`, with these whole GPUs held: `ok`, or the
/// numbers of the refusal.
fn check(text: &str, held: &[(&str, u64)], queue: &str, asked: u64, expected: &str) {
    let mut policy = policy(tree(text), 64, 64);
    let user = policy.intern_user(&"ada".into());
    let model = h100(&policy);
    for (queue, gpus) in held {
        let leaf = leaf(&policy, queue);
        policy.hold(Time(0), leaf, user, &[(model, gpus * 1000)]);
    }
    let got = match policy.check_start(leaf(&policy, queue), user, &[(model, asked * 1000)], None) {
        Ok(()) => "ok".to_owned(),
        Err(Reason::Quota { queue, asked, used, nominal, borrowable, lent, .. }) => {
            assert!(
                used.0 + asked.0 + lent.0 > nominal.0 + borrowable.0,
                "the numbers do not explain it"
            );
            format!("{queue}: {used} of {nominal}, borrowable {borrowable}, lent {lent}")
        }
        Err(other) => format!("{other:?}"),
    };
    assert_eq!(got, expected, "{text}{held:?} {queue} {asked}");
}

#[test]
fn the_worked_example_of_the_definition() {
    let vision = "research/vision";
    let language = "research/language";
    check(EXAMPLE, &[], vision, 24, "ok");
    check(EXAMPLE, &[], vision, 25, "research/vision: 0 of 16, borrowable 8, lent 0");
    check(EXAMPLE, &[(language, 10)], vision, 22, "ok");
    check(EXAMPLE, &[(language, 10)], vision, 23, "research/vision: 0 of 16, borrowable 6, lent 0");
    check(
        EXAMPLE,
        &[(language, 10), (vision, 22)],
        language,
        1,
        "research/language: 10 of 8, borrowable 2, lent 0",
    );
}

#[test]
fn a_sibling_lends_what_it_leaves_unused_up_to_its_limit() {
    let two = "p\n a quota 8\n b quota 8\n";
    check(two, &[], "p/a", 16, "ok");
    check(two, &[], "p/a", 17, "p/a: 0 of 8, borrowable 8, lent 0");
    check(two, &[("p/b", 5)], "p/a", 11, "ok");
    check(two, &[("p/b", 5)], "p/a", 12, "p/a: 0 of 8, borrowable 3, lent 0");
    check(two, &[("p/b", 12)], "p/a", 4, "ok");
    check(two, &[("p/b", 12)], "p/a", 5, "p/a: 0 of 8, borrowable 0, lent 4");
    let keeps = "p\n a quota 8 borrow 4\n b quota 8 lend 3\n";
    check(keeps, &[], "p/a", 11, "ok");
    check(keeps, &[], "p/a", 12, "p/a: 0 of 8, borrowable 3, lent 0");
    check(keeps, &[("p/a", 11)], "p/b", 5, "ok");
    check(keeps, &[("p/a", 11)], "p/b", 6, "p/b: 0 of 8, borrowable 0, lent 3");
    let closed = "p\n a quota 8 borrow 0\n b quota 8 lend 0\n";
    check(closed, &[("p/a", 8)], "p/a", 1, "p/a: 8 of 8, borrowable 0, lent 0");
    check(closed, &[("p/a", 8)], "p/b", 8, "ok");
}

#[test]
fn cousins_lend_through_their_parents() {
    let cousins = "p borrow 4 quota 8\n a quota 8\nq quota 8 lend 6\n c quota 8\n";
    check(cousins, &[], "p/a", 12, "ok");
    check(cousins, &[], "p/a", 13, "p/a: 0 of 8, borrowable 4, lent 0");
    check(cousins, &[("q/c", 5)], "p/a", 12, "p/a: 0 of 8, borrowable 3, lent 0");
    check(cousins, &[("p/a", 12)], "q/c", 4, "ok");
    check(cousins, &[("p/a", 12)], "q/c", 5, "q/c: 0 of 8, borrowable 0, lent 4");
}

#[test]
fn a_queue_without_a_quota_is_bounded_by_the_nearest_above_that_has_one() {
    let shared = "p quota 8\n a\n b quota 4 lend 1\n";
    check(shared, &[], "p/a", 5, "ok");
    check(shared, &[], "p/a", 6, "p: 0 of 8, borrowable 0, lent 3");
    check(shared, &[("p/a", 5)], "p/b", 3, "ok");
    let mixed = "p\n a\n b quota 4\n";
    check(mixed, &[], "p/a", 1000, "ok");
    check(mixed, &[("p/a", 1000)], "p/b", 4, "ok");
    check(mixed, &[("p/a", 1000)], "p/b", 5, "p/b: 0 of 4, borrowable 0, lent 0");
    check("p\n", &[], "p", 1_000_000, "ok");
    check("p quota-a100 0\n", &[], "p", 1_000_000, "ok");
}

#[test]
fn a_model_listed_twice_is_judged_as_one() {
    let policy = policy(tree("p quota 8\n"), 8, 0);
    let model = h100(&policy);
    let p = leaf(&policy, "p");
    let check = |first, second| {
        policy.check_start(p, crate::UserId(0), &[(model, first), (model, second)], None).is_ok()
    };
    assert!(check(4000, 4000));
    assert!(!check(4000, 4001));
}

/// Oracle. Every GPU of a nominal quota is a token at the queue that it belongs to and to none of
/// its children. A token may move up to the parent if the queue lends it and down to a child if
/// that may borrow it; every GPU in use needs one. All uses can be covered exactly if the maximum
/// flow covers them.
fn tokens_cover(
    tree: &QueueTree,
    policy: &Policy,
    model: ModelId,
    used: &BTreeMap<LeafId, u64>,
) -> bool {
    let source = 0;
    let sink = 1;
    let root = 2;
    let mut flow = Flow { edges: vec![Vec::new(); 3] };
    let mut needed = 0;
    let name = policy.models().name(model).as_str().to_owned();
    for queue in &tree.queues {
        let mut scene = Scene { policy, name: &name, used, needed: &mut needed, flow: &mut flow };
        scene.add(queue, "", root, false, [source, sink]);
    }
    flow.largest(source, sink) == needed
}

struct Scene<'a> {
    policy: &'a Policy,
    name: &'a str,
    used: &'a BTreeMap<LeafId, u64>,
    needed: &'a mut u64,
    flow: &'a mut Flow,
}

impl Scene<'_> {
    fn add(
        &mut self,
        queue: &QueueSpec,
        above: &str,
        parent: usize,
        bounded: bool,
        [source, sink]: [usize; 2],
    ) {
        let here = self.flow.edges.len();
        self.flow.edges.push(Vec::new());
        let path = if above.is_empty() {
            queue.name.to_string()
        } else {
            format!("{above}/{}", queue.name)
        };
        let own = queue.quota.get(&self.name.into()).copied();
        let bounded = bounded || own.is_some();
        let promised: u64 = queue.queues.iter().map(|child| trees::nominal(child, self.name)).sum();
        let limit = |limit: Option<u64>| {
            if own.is_some() { limit.map_or(u64::MAX, |gpus| gpus * 1000) } else { u64::MAX }
        };
        self.flow.add(source, here, (own.unwrap_or(promised) - promised) * 1000);
        self.flow.add(here, parent, limit(queue.lend));
        self.flow.add(parent, here, limit(queue.borrow));
        if let Some(leaf) = self.policy.queues().leaf(&path.as_str().into())
            && bounded
        {
            let used = self.used.get(&leaf).copied().unwrap_or(0);
            self.flow.add(here, sink, used);
            *self.needed += used;
        }
        for child in &queue.queues {
            self.add(child, &path, here, bounded, [source, sink]);
        }
    }
}

/// Network of capacities: `edges[from]` lists (to, left). The reverse of an edge is the last one
/// listed the other way.
struct Flow {
    edges: Vec<Vec<(usize, u64)>>,
}

impl Flow {
    fn add(&mut self, from: usize, to: usize, capacity: u64) {
        match self.edges[from].iter_mut().find(|(other, _)| *other == to) {
            Some((_, left)) => *left = left.saturating_add(capacity),
            None => self.edges[from].push((to, capacity)),
        }
        if !self.edges[to].iter().any(|(other, _)| *other == from) {
            self.edges[to].push((from, 0));
        }
    }

    /// Augments along shortest paths (Edmonds and Karp).
    fn largest(&mut self, source: usize, sink: usize) -> u64 {
        let mut total = 0;
        while let Some(path) = self.path(source, sink) {
            let left = |pair: &[usize]| {
                self.edges[pair[0]].iter().find(|(to, _)| *to == pair[1]).unwrap().1
            };
            let by = path.windows(2).map(left).min().unwrap();
            for pair in path.windows(2) {
                self.edges[pair[0]].iter_mut().find(|(to, _)| *to == pair[1]).unwrap().1 -= by;
                let back =
                    &mut self.edges[pair[1]].iter_mut().find(|(to, _)| *to == pair[0]).unwrap().1;
                *back = back.saturating_add(by);
            }
            total += by;
        }
        total
    }

    fn path(&self, source: usize, sink: usize) -> Option<Vec<usize>> {
        let mut from: BTreeMap<usize, usize> = BTreeMap::from([(source, source)]);
        let mut queue = VecDeque::from([source]);
        while let Some(node) = queue.pop_front() {
            for (to, left) in &self.edges[node] {
                if *left > 0 && !from.contains_key(to) {
                    from.insert(*to, node);
                    queue.push_back(*to);
                }
            }
        }
        let mut path = vec![sink];
        while *path.last()? != source {
            path.push(*from.get(path.last()?)?);
        }
        path.reverse();
        Some(path)
    }
}

fn covered(tree: &QueueTree, policy: &Policy, held: &[HeldElement]) -> bool {
    let models = policy.models();
    models.ids().all(|model| tokens_cover(tree, policy, model, &use_by_leaf(held, model)))
}

fn without_limits(queues: &mut [QueueSpec]) {
    for queue in queues {
        queue.limits = Default::default();
        without_limits(&mut queue.queues);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// Admitted exactly if tokens cover all uses after the start; and then no queue is ever
    /// overdrawn.
    #[test]
    fn a_start_is_admitted_iff_tokens_cover_it(mut tree in any_tree(), steps in any_steps(40)) {
        without_limits(&mut tree.queues);
        let mut policy = policy(tree.clone(), 16, 16);
        let leaves = leaves(&policy);
        let mut held = Vec::<HeldElement>::new();
        let mut now = Time(0);
        for step in &steps {
            now.0 += step.wait_ms;
            if !step.is_start && !held.is_empty() {
                let ended = held.swap_remove(step.pick % held.len());
                policy.release(now, ended.leaf, ended.user, &ended.gpus);
                continue;
            }
            let started = element(&mut policy, &leaves, step);
            let verdict = policy.check_start(started.leaf, started.user, &started.gpus, None);
            let mut after = held.clone();
            after.push(started.clone());
            prop_assert_eq!(verdict.is_ok(), covered(&tree, &policy, &after), "{:?}", verdict);
            if verdict.is_ok() {
                policy.hold(now, started.leaf, started.user, &started.gpus);
                held = after;
            }
            prop_assert_eq!(policy.inconsistencies(), vec![]);
        }
    }

    /// Justifies the limit cache of a pass: while holds only grow, admitted or not, a refusal stays
    /// valid.
    #[test]
    fn what_is_refused_stays_refused_while_holds_grow(
        tree in any_tree(),
        asked in any_steps(12),
        starts in any_steps(20),
    ) {
        let mut policy = policy(tree, 16, 8);
        let leaves = leaves(&policy);
        let asked: Vec<HeldElement> = asked.iter().map(|step| element(&mut policy, &leaves, step)).collect();
        let mut refused = vec![false; asked.len()];
        for step in &starts {
            let started = element(&mut policy, &leaves, step);
            policy.try_hold(started.leaf, started.user, &started.gpus);
            for (one, refused) in asked.iter().zip(&mut refused) {
                let verdict = policy.check_start(one.leaf, one.user, &one.gpus, None);
                prop_assert!(!*refused || verdict.is_err(), "{:?} was refused before {:?}", one, started);
                *refused = verdict.is_err();
            }
        }
    }

    /// Conversely, starts without a verdict show up as an overdraft exactly if tokens do not cover
    /// them.
    #[test]
    fn an_overdraft_is_reported_iff_tokens_do_not_cover(mut tree in any_tree(), steps in any_steps(12)) {
        without_limits(&mut tree.queues);
        let mut policy = policy(tree.clone(), 16, 16);
        let leaves = leaves(&policy);
        let mut held = Vec::new();
        for step in &steps {
            let forced = element(&mut policy, &leaves, step);
            policy.hold(Time(0), forced.leaf, forced.user, &forced.gpus);
            held.push(forced);
        }
        let found = policy.inconsistencies();
        prop_assert!(found.iter().all(|found| matches!(found, Inconsistency::Overdraft { .. })), "{:?}", found);
        prop_assert_eq!(found.is_empty(), covered(&tree, &policy, &held));
    }

    /// With every leaf within its nominal quota, a start that stays within it is admitted:
    /// reclaiming always suffices.
    #[test]
    fn within_nominal_is_admitted_once_nobody_borrows(mut tree in any_tree(), steps in any_steps(40)) {
        without_limits(&mut tree.queues);
        let mut policy = policy(tree, 16, 16);
        let leaves = leaves(&policy);
        for step in &steps {
            let started = element(&mut policy, &leaves, step);
            policy.try_hold(started.leaf, started.user, &started.gpus);
            let is_within = |leaf: &LeafId| started.gpus.iter().all(|(model, _)| policy.queues().borrowed(*leaf, *model) == 0);
            let is_within = leaves.iter().all(is_within);
            policy.undo_hold(started.leaf, started.user, &started.gpus);
            if is_within {
                prop_assert_eq!(policy.check_start(started.leaf, started.user, &started.gpus, None), Ok(()));
                policy.hold(Time(0), started.leaf, started.user, &started.gpus);
            }
        }
    }
}
