//! Order: example rows, and the lazy merge against a plain sort that starts over for every entry.

use std::collections::BTreeSet;

use muster_model::{QueueTree, Span, Tier, Time};
use proptest::prelude::*;

use super::trees::{
    HeldElement, WEEK_MS, age, any_steps, any_tree, drain, element, h100, leaf, leaves, policy,
    tree,
};
use crate::intern::ROOT;
use crate::{EntryAge, EntrySlot, LeafId, Policy, UserId};

/// Checks the order of entries, given the GPUs held by (queue, user) and the pending (queue, user,
/// priority). Entries are numbered from 0 in order of age.
fn check(text: &str, held: &[(&str, &str, u64)], waiting: &[(&str, &str, i32)], expected: &[u32]) {
    let mut policy = policy(tree(text), 64, 0);
    let model = h100(&policy);
    for (queue, user, gpus) in held {
        let leaf = leaf(&policy, queue);
        let user = policy.intern_user(&(*user).into());
        policy.hold(Time(0), leaf, user, &[(model, gpus * 1000)]);
    }
    let mut keys = Vec::new();
    for (seq, (queue, user, priority)) in waiting.iter().enumerate() {
        let leaf = leaf(&policy, queue);
        let user = policy.intern_user(&(*user).into());
        policy.queues_mut().enqueue(leaf, user, *priority, age(seq as u64), EntrySlot(seq as u32));
        keys.push((leaf, user, *priority, age(seq as u64)));
    }
    let order: Vec<u32> = drain(&policy, Time(0)).iter().map(|slot| slot.0).collect();
    assert_eq!(order, expected, "{text}{held:?}");
    // Each entry's position in its leaf is its place among the leaf's entries in that order.
    for (slot, (leaf, user, priority, age)) in keys.iter().enumerate() {
        let in_leaf: Vec<&u32> =
            order.iter().filter(|other| keys[**other as usize].0 == *leaf).collect();
        let place = in_leaf.iter().position(|other| **other == slot as u32).unwrap();
        let position = policy.position(Time(0), *leaf, *user, *priority, *age);
        assert_eq!(position, (place as u32 + 1, in_leaf.len() as u32), "entry {slot}");
    }
}

#[test]
fn in_a_leaf_priority_then_share_then_age() {
    let queue = "p\n";
    check(queue, &[], &[("p", "b", 0), ("p", "a", 0), ("p", "b", 0)], &[0, 1, 2]);
    check(queue, &[], &[("p", "b", 0), ("p", "a", 1), ("p", "b", 2)], &[2, 1, 0]);
    check(
        queue,
        &[("p", "a", 1)],
        &[("p", "a", 0), ("p", "b", 0), ("p", "a", 0), ("p", "c", 0)],
        &[1, 3, 0, 2],
    );
    check(
        queue,
        &[("p", "a", 1), ("p", "b", 2)],
        &[("p", "b", 0), ("p", "a", 0), ("p", "b", 1)],
        &[2, 1, 0],
    );
}

/// All normal entries come before opportunistic ones, whatever the shares of queues and users.
#[test]
fn opportunistic_entries_come_after_all_queues() {
    let last = |priority| Tier::Opportunistic.order(priority);
    let two = "p\nq\n";
    check(two, &[], &[("p", "a", last(5)), ("q", "a", 0), ("p", "a", -9)], &[2, 1, 0]);
    check(
        two,
        &[("q", "a", 8)],
        &[
            ("p", "a", last(0)),
            ("q", "a", 0),
            ("q", "a", last(0)),
            ("p", "b", last(1)),
            ("q", "b", -3),
        ],
        &[1, 4, 3, 0, 2],
    );
    check(two, &[("p", "a", 8)], &[("p", "a", last(0)), ("q", "a", last(0))], &[1, 0]);
}

#[test]
fn skipped_users_stay_skipped_for_opportunistic_entries() {
    let mut policy = policy(tree("p\n"), 64, 0);
    let p = leaf(&policy, "p");
    let ann = policy.intern_user(&"ann".into());
    let bob = policy.intern_user(&"bob".into());
    for (at, (user, priority)) in [
        (ann, 0),
        (bob, 0),
        (ann, Tier::Opportunistic.order(0)),
        (bob, Tier::Opportunistic.order(0)),
    ]
    .into_iter()
    .enumerate()
    {
        policy.queues_mut().enqueue(p, user, priority, age(at as u64), EntrySlot(at as u32));
    }
    let mut pass = policy.begin_pass(Time(0));
    pass.skip_user(&policy, p, ann);
    let given: Vec<u32> = std::iter::from_fn(|| pass.next(&policy)).map(|slot| slot.0).collect();
    assert_eq!(given, [1, 3]);
}

/// Of two users, `used` holds a GPU and `idle` none; each entry is given by its user and how long it has waited.
#[test]
fn shares_count_once_an_entry_has_waited() {
    let minutes = |count: u64| Span::from_secs(60 * count);
    let entries = [("used", 40), ("used", 30), ("idle", 20), ("used", 8), ("idle", 5)];
    for (fair_share_after, expected, next) in [
        (Some(minutes(0)), [2, 4, 0, 1, 3], None),
        (Some(minutes(15)), [2, 0, 1, 3, 4], Some(7)),
        (Some(minutes(35)), [0, 1, 2, 3, 4], Some(5)),
        (None, [0, 1, 2, 3, 4], None),
    ] {
        let mut policy = policy(QueueTree { fair_share_after, ..tree("p\n") }, 64, 0);
        let leaf = leaf(&policy, "p");
        let model = h100(&policy);
        let now = Time(0) + minutes(60);
        let user = policy.intern_user(&"used".into());
        policy.hold(now, leaf, user, &[(model, 1000)]);
        let mut known = Vec::new();
        for (at, (user, waited)) in entries.into_iter().enumerate() {
            let user = policy.intern_user(&user.into());
            let age = EntryAge { seq: at as u64, submitted: now - minutes(waited) };
            policy.queues_mut().enqueue(leaf, user, 0, age, EntrySlot(at as u32));
            known.push((user, 0, age));
        }
        let order: Vec<u32> = drain(&policy, now).iter().map(|slot| slot.0).collect();
        assert_eq!(order, expected, "{fair_share_after:?}");
        assert_eq!(policy.next_share_start(now), next.map(|next| now + minutes(next)));
        for (place, at) in order.iter().enumerate() {
            let (user, priority, age) = known[*at as usize];
            let position = policy.position(now, leaf, user, priority, age);
            assert_eq!(position, (place as u32 + 1, 5), "entry {at}");
            let mut behind = order[place + 1..].iter().map(|other| known[*other as usize]);
            assert!(behind.all(|other| policy.precedes(now, leaf, known[*at as usize], other)));
        }
    }
}

/// A user is skipped from the first entry on, or in the middle, at every priority.
#[test]
fn a_skipped_user_has_no_more_entries_of_that_leaf() {
    let mut policy = policy(tree("p\nq\n"), 64, 0);
    let p = leaf(&policy, "p");
    let q = leaf(&policy, "q");
    let ann = policy.intern_user(&"ann".into());
    let bob = policy.intern_user(&"bob".into());
    let waiting = [(p, ann, 1), (p, ann, 1), (p, bob, 1), (p, ann, 0), (p, bob, 0), (q, ann, 0)];
    for (at, (leaf, user, priority)) in waiting.into_iter().enumerate() {
        policy.queues_mut().enqueue(leaf, user, priority, age(at as u64), EntrySlot(at as u32));
    }
    for (after, expected) in [(0, vec![2, 4, 5]), (1, vec![0, 2, 4, 5]), (4, vec![0, 1, 2, 4, 5])] {
        let mut pass = policy.begin_pass(Time(0));
        let mut given: Vec<u32> = Vec::new();
        given.extend((0..after.min(3)).filter_map(|_| pass.next(&policy)).map(|slot| slot.0));
        if after == 4 {
            // A start in between closes the leaf.
            pass.note_start(&policy, p, bob);
        }
        pass.skip_user(&policy, p, ann);
        given.extend(std::iter::from_fn(|| pass.next(&policy)).map(|slot| slot.0));
        assert_eq!(given, expected, "skipped after {after}");
    }
}

#[test]
fn across_queues_the_lowest_share_by_weight_at_every_level() {
    let two = "p\n a\n b\nq\n";
    check(two, &[("p/a", "u", 1)], &[("p/a", "u", 9), ("p/b", "u", 0), ("q", "u", 0)], &[2, 1, 0]);
    check(
        two,
        &[("q", "u", 2), ("p/b", "u", 1)],
        &[("q", "u", 0), ("p/b", "u", 0), ("p/a", "u", 0)],
        &[2, 1, 0],
    );
    let weighted = "p weight 3\nq\n";
    check(weighted, &[("p", "u", 2), ("q", "u", 1)], &[("q", "u", 0), ("p", "u", 0)], &[1, 0]);
    check(weighted, &[("p", "u", 4), ("q", "u", 1)], &[("p", "u", 0), ("q", "u", 0)], &[1, 0]);
}

#[test]
fn equal_shares_go_by_running_elements_then_name() {
    let two = "b\na\n";
    check(two, &[], &[("b", "u", 0), ("a", "u", 0)], &[1, 0]);
    // Jobs without GPUs have no share; still the queue that runs fewer of them is next.
    check(two, &[("a", "u", 0)], &[("a", "u", 0), ("b", "u", 0)], &[1, 0]);
    check(
        "b\na weight 2\n",
        &[("a", "u", 0), ("b", "u", 0)],
        &[("b", "u", 0), ("a", "u", 0)],
        &[1, 0],
    );
}

#[test]
fn a_pass_follows_starts_and_skips_leaves() {
    let mut policy = policy(tree("a\nb\n"), 8, 0);
    let a = leaf(&policy, "a");
    let b = leaf(&policy, "b");
    let model = h100(&policy);
    let user = policy.intern_user(&"u".into());
    for seq in 0..6 {
        policy.queues_mut().enqueue(
            if seq < 3 { a } else { b },
            user,
            0,
            age(seq),
            EntrySlot(seq as u32),
        );
    }
    let mut pass = policy.begin_pass(Time(0));
    let mut order = Vec::new();
    while let Some(slot) = pass.next(&policy) {
        order.push(slot.0);
        let leaf = if slot.0 < 3 { a } else { b };
        policy.try_hold(leaf, user, &[(model, 1000)]);
        pass.note_start(&policy, leaf, user);
        if slot.0 == 1 {
            pass.skip_leaf(&policy, a);
        }
    }
    assert_eq!(order, [0, 3, 1, 4, 5]);
    assert_eq!(pass.next(&policy), None, "a pass that is over stays over");
}

#[test]
fn more_entries_than_a_chunk_come_in_order() {
    let mut policy = policy(tree("a\n"), 8, 0);
    let a = leaf(&policy, "a");
    let users = [policy.intern_user(&"u".into()), policy.intern_user(&"v".into())];
    for seq in 0..1000u64 {
        policy.queues_mut().enqueue(
            a,
            users[(seq % 3 == 0) as usize],
            0,
            age(seq),
            EntrySlot(seq as u32),
        );
    }
    assert!(drain(&policy, Time(0)).iter().map(|slot| slot.0).eq(0..1000));
    for seq in (0..1000).step_by(2) {
        policy.queues_mut().dequeue(a, users[(seq % 3 == 0) as usize], 0, seq);
    }
    assert!(drain(&policy, Time(0)).iter().map(|slot| slot.0).eq((1..1000).step_by(2)));
    assert_eq!(policy.queue_views(Time(0))[0].waiting, 500);
    assert_eq!(policy.inconsistencies(), vec![]);
}

/// Entry of the oracle.
#[derive(Clone, Debug)]
struct OracleEntry {
    held: HeldElement,
    priority: i32,
    seq: u64,
    waited: Span,
}

impl OracleEntry {
    fn age(&self) -> EntryAge {
        EntryAge { seq: self.seq, submitted: Time(WEEK_MS) - self.waited }
    }
}

/// Oracle: descends from the root to the child of lowest rank that has an entry left, and there
/// takes the first in a full sort.
fn first_of(
    policy: &Policy,
    now: Time,
    left: &[OracleEntry],
    skipped: &BTreeSet<LeafId>,
) -> Option<usize> {
    let is_below = |node: usize, leaf: LeafId| {
        let mut at = Some(policy.queues.node_of(leaf));
        while at.is_some_and(|at| at != node) {
            at = policy.queues.nodes[at?].parent;
        }
        at
    };
    let left: Vec<(usize, &OracleEntry)> =
        left.iter().enumerate().filter(|(_, entry)| !skipped.contains(&entry.held.leaf)).collect();
    let mut node = ROOT;
    while !policy.queues.nodes[node].is_leaf() {
        let mut children = policy.queues.nodes[node].children.clone();
        children.retain(|child| {
            left.iter().any(|(_, entry)| is_below(*child, entry.held.leaf).is_some())
        });
        children.sort_by_key(|child| policy.queue_rank(now, *child));
        node = *children.first()?;
    }
    let mut here: Vec<_> = left
        .into_iter()
        .filter(|(_, entry)| policy.queues.node_of(entry.held.leaf) == node)
        .collect();
    here.sort_by_key(|(_, entry)| {
        let share = policy.user_share(now, entry.held.leaf, entry.held.user);
        let rest = match policy.tree().fair_share_after {
            Some(after) if entry.waited >= after => (0, share),
            Some(after) => (after.0 - entry.waited.0, share),
            None => (u64::MAX - entry.waited.0, share),
        };
        (std::cmp::Reverse(entry.priority), rest, entry.seq)
    });
    here.first().map(|(index, _)| *index)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(250))]

    /// `moves` decide what happens after each entry: start it, start and undo it, skip its leaf, or
    /// nothing.
    #[test]
    fn the_merge_equals_sorting_anew_for_every_entry(
        tree in any_tree(),
        past in any_steps(10),
        waiting in any_steps(60),
        moves in prop::collection::vec(0u8..12, 60),
        fair_share_after in prop::option::of(0u64..100),
    ) {
        let fair_share_after = fair_share_after.map(Span::from_secs);
        let mut policy = policy(QueueTree { fair_share_after, ..tree }, 16, 8);
        let leaves = leaves(&policy);
        for step in &past {
            let one = element(&mut policy, &leaves, step);
            policy.hold(Time(step.wait_ms), one.leaf, one.user, &one.gpus);
        }
        let mut left = Vec::new();
        for (seq, step) in waiting.iter().enumerate() {
            let entry = OracleEntry { held: element(&mut policy, &leaves, step), priority: (step.pick % 3) as i32 - 1, seq: (seq as u64) ^ 5, waited: Span::from_secs(64 - (((seq as u64) ^ 5) & !1)) };
            policy.queues_mut().enqueue(entry.held.leaf, entry.held.user, entry.priority, entry.age(), EntrySlot(entry.seq as u32));
            left.push(entry);
        }
        let now = Time(WEEK_MS);
        let mut pass = policy.begin_pass(now);
        let mut skipped = BTreeSet::new();
        // A restarted pass keeps nothing of its former state.
        for at in 0..moves.len() / 2 {
            pass.next(&policy);
            let leaf = leaves[at % leaves.len()];
            match at % 3 {
                0 => pass.skip_user(&policy, leaf, UserId(at as u32 % 4)),
                1 => pass.note_start(&policy, leaf, UserId(at as u32 % 4)),
                _ if at % 5 == 0 => pass.skip_leaf(&policy, leaf),
                _ => {}
            }
        }
        pass.restart(&policy, now);
        for choice in moves {
            let expected = first_of(&policy, now, &left, &skipped);
            let given = pass.next(&policy);
            prop_assert_eq!(given, expected.map(|index| EntrySlot(left[index].seq as u32)));
            let Some(index) = expected else { break };
            let OracleEntry { held: HeldElement { leaf, user, gpus }, .. } = left.swap_remove(index);
            match choice {
                0..=5 => {
                    policy.try_hold(leaf, user, &gpus);
                    pass.note_start(&policy, leaf, user);
                }
                6 => {
                    policy.try_hold(leaf, user, &gpus);
                    pass.note_start(&policy, leaf, user);
                    policy.undo_hold(leaf, user, &gpus);
                    pass.note_start(&policy, leaf, user);
                }
                7 => {
                    // Another element starts than the one returned.
                    let other = leaves[index % leaves.len()];
                    let by = UserId(user.0);
                    policy.try_hold(other, by, &gpus);
                    pass.note_start(&policy, other, by);
                }
                8 => {
                    pass.skip_leaf(&policy, leaf);
                    skipped.insert(leaf);
                }
                _ => {}
            }
        }
    }
}
