//! A new tree under a running policy.

use muster_model::{Span, Time};
use proptest::prelude::*;

use super::trees::{
    HeldElement, WEEK_MS, age, any_steps, any_tree, drain, element, h100, leaf, leaves, observable,
    policy, tree,
};
use crate::{EntrySlot, Inconsistency, Policy};

#[test]
fn what_keeps_its_name_keeps_its_id_and_usage() {
    let mut policy = policy(tree("p\n a\n b\nq\n"), 8, 0);
    let [a, b, q] = ["p/a", "p/b", "q"].map(|name| leaf(&policy, name));
    let ada = policy.intern_user(&"ada".into());
    let model = h100(&policy);
    for leaf in [a, b] {
        policy.hold(Time(0), leaf, ada, &[(model, 1000)]);
        policy.queues_mut().enqueue(leaf, ada, 0, age(u64::from(leaf.0)), EntrySlot(leaf.0));
    }
    policy.release(Time(WEEK_MS), a, ada, &[(model, 1000)]);
    let now = Time(2 * WEEK_MS);
    let usage_of_p = |policy: &Policy| {
        let views = policy.queue_views(now);
        views.iter().find(|view| view.name.as_str() == "p").map(|view| view.usage_gpu_secs)
    };
    let used = policy.decayed_usage(now, a, ada);
    let used_by_p = usage_of_p(&policy);
    // b goes, q becomes the default, the rest is turned around.
    let mut next = tree("q\np weight 2\n c\n a quota 1\n");
    next.half_life = Span(WEEK_MS / 7);
    policy.replace_tree(now, next).unwrap();
    assert_eq!(
        (leaf(&policy, "p/a"), leaf(&policy, "q"), policy.queues().leaf(&"p/b".into())),
        (a, q, None)
    );
    assert_eq!(
        (
            policy.queues().current_leaf(a),
            policy.queues().current_leaf(b),
            policy.queues().leaf_name(b).as_str()
        ),
        (a, q, "p/b")
    );
    // Usage up to now was made under the old half-life; from now on it halves in a day.
    assert_eq!((policy.decayed_usage(now, a, ada), usage_of_p(&policy)), (used, used_by_p));
    assert_eq!(policy.decayed_usage(now + Span(WEEK_MS / 7), a, ada), used / 2);
    // Running and pending elements of b are in q, and can be ended under either id. The same usage
    // is seven times the share under the shorter half-life, so q is first.
    assert_eq!(drain(&policy, now), [EntrySlot(b.0), EntrySlot(a.0)]);
    assert_eq!(policy.usage_rows(now)[1], ("ada".into(), "q".into(), 0));
    policy.release(now + Span(1000), b, ada, &[(model, 1000)]);
    policy.queues_mut().dequeue(b, ada, 0, u64::from(b.0));
    assert_eq!(policy.inconsistencies(), vec![]);
    assert_eq!(policy.queue_views(now)[0].running, 0);
}

#[test]
fn a_tree_that_is_refused_changes_nothing() {
    let mut policy = policy(tree("p\n"), 8, 0);
    let before = observable(&policy, Time(5));
    policy.replace_tree(Time(5), tree("p weight 0\n")).unwrap_err();
    assert_eq!(observable(&policy, Time(5)), before);
}

#[test]
fn smaller_quotas_stop_starts_but_nothing_that_runs() {
    let mut policy = policy(tree("p quota 8\nq\n"), 8, 0);
    let p = leaf(&policy, "p");
    let ada = policy.intern_user(&"ada".into());
    let model = h100(&policy);
    policy.hold(Time(0), p, ada, &[(model, 8000)]);
    policy.replace_tree(Time(0), tree("p quota 4\nq quota 2 lend 1\n")).unwrap();
    assert!(
        policy
            .inconsistencies()
            .contains(&Inconsistency::Overdraft { queue: "".into(), model: "h100".into() })
    );
    policy.check_start(p, ada, &[(model, 1)], None).unwrap_err();
    // What q keeps is available all the same; what it lends is used for now.
    let q = leaf(&policy, "q");
    assert_eq!(policy.check_start(q, ada, &[(model, 1000)], None), Ok(()));
    policy.check_start(q, ada, &[(model, 1001)], None).unwrap_err();
    policy.release(Time(1), p, ada, &[(model, 8000)]);
    assert_eq!(policy.inconsistencies(), vec![]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn any_tree_can_take_over_from_any_other(first in any_tree(), second in any_tree(), steps in any_steps(25)) {
        let mut policy = policy(first.clone(), 16, 8);
        let old = leaves(&policy);
        let mut held = Vec::<HeldElement>::new();
        let mut now = Time(0);
        for (seq, step) in steps.iter().enumerate() {
            now.0 += step.wait_ms;
            let one = element(&mut policy, &old, step);
            policy.queues_mut().enqueue(one.leaf, one.user, 0, age(seq as u64), EntrySlot(seq as u32));
            policy.hold(now, one.leaf, one.user, &one.gpus);
            held.push(one);
        }
        let sound = |found: Vec<Inconsistency>| found.iter().all(|found| matches!(found, Inconsistency::Overdraft { .. }));
        policy.replace_tree(now, second).unwrap();
        prop_assert!(sound(policy.inconsistencies()), "{:?}", policy.inconsistencies());
        let mut given: Vec<u32> = drain(&policy, now).iter().map(|slot| slot.0).collect();
        given.sort_unstable();
        prop_assert!(given.iter().copied().eq(0..steps.len() as u32));
        // Everything can be ended under the present ids, and nothing is left.
        for (seq, one) in held.iter().enumerate() {
            let leaf = policy.queues().current_leaf(one.leaf);
            policy.release(now, leaf, one.user, &one.gpus);
            policy.queues_mut().dequeue(leaf, one.user, 0, seq as u64);
        }
        prop_assert_eq!(policy.inconsistencies(), vec![]);
        prop_assert!(policy.queue_views(now).iter().all(|view| view.running == 0 && view.waiting == 0));
        policy.replace_tree(now, first).unwrap();
        prop_assert_eq!(policy.inconsistencies(), vec![]);
    }
}
