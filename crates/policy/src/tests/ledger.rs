//! Counters of running elements and usage: inverses, restores, and that reading changes nothing.

use muster_model::{Span, Time};
use proptest::prelude::*;

use super::trees::{
    HeldElement, PolicyStep, WEEK_MS, age, any_steps, any_tree, element, h100, leaf, leaves,
    observable, policy, tree,
};
use crate::{EntrySlot, Inconsistency, Policy};

const HOUR_MS: u64 = 3_600_000;

#[test]
fn usage_is_gpu_seconds_while_little_time_has_passed_and_halves_later() {
    let mut policy = policy(tree("p\n a\n b\n"), 8, 0);
    let a = leaf(&policy, "p/a");
    let ada = policy.intern_user(&"ada".into());
    let model = h100(&policy);
    policy.hold(Time(0), a, ada, &[(model, 2000)]);
    assert_eq!(
        policy.decayed_usage(Time(1000), a, ada),
        1,
        "just below 2: a second's decay is not nothing"
    );
    // 2 GPUs for an hour are 7200 GPU-seconds; in that hour decay takes 0.2 %.
    assert_eq!(policy.decayed_usage(Time(HOUR_MS), a, ada), 7185);
    policy.release(Time(HOUR_MS), a, ada, &[(model, 2000)]);
    assert_eq!(policy.decayed_usage(Time(HOUR_MS + WEEK_MS), a, ada), 3592);
    assert_eq!(policy.decayed_usage(Time(HOUR_MS + 2 * WEEK_MS), a, ada), 1796);
    let usage: Vec<u64> = policy
        .queue_views(Time(HOUR_MS + WEEK_MS))
        .iter()
        .map(|view| view.usage_gpu_secs)
        .collect();
    assert_eq!(usage, [3592, 3592, 0]);
    assert_eq!(policy.usage_rows(Time(HOUR_MS)), [("ada".into(), "p/a".into(), 7185)]);
    assert_eq!(policy.usage_rows(Time(100 * WEEK_MS)), []);
    // An instant before the last change reads as that change.
    assert_eq!(policy.decayed_usage(Time(0), a, ada), 7185);
}

#[test]
fn a_share_is_usage_and_what_runs_by_capacity_and_weight() {
    let mut policy = policy(tree("p weight 2\nq\n"), 8, 4);
    let p = leaf(&policy, "p");
    let q = leaf(&policy, "q");
    let ada = policy.intern_user(&"ada".into());
    let model = h100(&policy);
    let a100 = policy.intern_model(&"a100".into());
    let shares = |policy: &Policy, now| {
        policy.queue_views(now).iter().map(|view| view.share_ppm).collect::<Vec<_>>()
    };
    policy.hold(Time(0), p, ada, &[(model, 4000), (a100, 1000)]);
    // Half of one model outweighs a quarter of the other; weight 2 halves it.
    assert_eq!(shares(&policy, Time(0)), [250_000, 0]);
    policy.hold(Time(0), q, ada, &[(a100, 1000)]);
    assert_eq!(shares(&policy, Time(0)), [250_000, 250_000]);
    // In a half-life, usage grows to 1/(2 ln 2) = 0.7213 of what is held.
    assert_eq!(shares(&policy, Time(WEEK_MS)), [430_336, 430_336]);
    policy.release(Time(WEEK_MS), q, ada, &[(a100, 1000)]);
    assert_eq!(shares(&policy, Time(WEEK_MS)), [430_336, 180_336]);
    // A model that the cluster no longer has is ignored.
    policy.set_capacity(Time(WEEK_MS), &[8000]);
    assert_eq!(shares(&policy, Time(WEEK_MS)), [430_336, 0]);
}

#[test]
fn fully_decayed_usage_is_dropped() {
    let mut policy = policy(tree("p\n"), 4, 0);
    let p = leaf(&policy, "p");
    let ada = policy.intern_user(&"ada".into());
    let model = h100(&policy);
    policy.hold(Time(5), p, ada, &[]);
    policy.hold(Time(7), p, ada, &[(model, 1000)]);
    policy.release(Time(7), p, ada, &[(model, 1000)]);
    let stored = serde_json::to_string(&policy).unwrap();
    let mut restored: Policy = serde_json::from_str(&stored).unwrap();
    restored.restore_hold(p, ada, &[]);
    assert_eq!(format!("{:?}", restored.queues.leaves), format!("{:?}", policy.queues.leaves));
}

/// The record of a cluster with many queues and models has a limited size.
#[test]
fn only_what_was_used_is_stored() {
    let mut policy = policy(tree("p\nq\n"), 4, 4);
    let p = leaf(&policy, "p");
    let ada = policy.intern_user(&"ada".into());
    let model = h100(&policy);
    policy.hold(Time(0), p, ada, &[(model, 1000)]);
    policy.release(Time(HOUR_MS), p, ada, &[(model, 1000)]);
    let stored = serde_json::to_value(policy.usage_record(Time(HOUR_MS))).unwrap();
    let queues = stored["queues"].as_object().unwrap();
    assert_eq!(queues.keys().collect::<Vec<_>>(), ["", "p"]);
    assert_eq!(queues["p"].as_array().unwrap().len(), 1, "{stored}");
    let record = serde_json::from_value(stored).unwrap();
    let resumed = Policy::with_usage(record).unwrap();
    assert_eq!(resumed.usage_rows(Time(HOUR_MS)), policy.usage_rows(Time(HOUR_MS)));
}

#[test]
fn a_new_model_extends_every_row() {
    let mut policy = policy(tree("p quota 4\n"), 4, 0);
    let p = leaf(&policy, "p");
    let ada = policy.intern_user(&"ada".into());
    policy.hold(Time(0), p, ada, &[]);
    let h200 = policy.intern_model(&"h200".into());
    assert_eq!(policy.check_start(p, ada, &[(h200, 99_000)], None), Ok(()));
    policy.hold(Time(5), p, ada, &[(h200, 99_000)]);
    policy.set_capacity(Time(5), &[4000, 0, 198_000]);
    assert_eq!(policy.queue_views(Time(5))[0].share_ppm, 500_000);
    assert_eq!(policy.inconsistencies(), vec![]);
}

/// Drives a policy through starts and ends, admitted or not; calls `look` after each.
fn drive(
    policy: &mut Policy,
    steps: &[PolicyStep],
    look: impl Fn(&Policy, Time),
) -> (Time, Vec<HeldElement>) {
    let leaves = leaves(policy);
    let mut held = Vec::<HeldElement>::new();
    let mut now = Time(1);
    for step in steps {
        now.0 += step.wait_ms;
        if step.is_start || held.is_empty() {
            let started = element(policy, &leaves, step);
            policy.hold(now, started.leaf, started.user, &started.gpus);
            held.push(started);
        } else {
            let ended = held.swap_remove(step.pick % held.len());
            policy.release(now, ended.leaf, ended.user, &ended.gpus);
        }
        look(policy, now);
    }
    (now, held)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn undo_is_the_exact_inverse_of_try(tree in any_tree(), past in any_steps(20), tries in any_steps(12)) {
        let mut policy = policy(tree, 16, 8);
        let (now, _) = drive(&mut policy, &past, |_, _| ());
        let leaves = leaves(&policy);
        let tried: Vec<HeldElement> = tries.iter().map(|step| element(&mut policy, &leaves, step)).collect();
        let before = observable(&policy, now);
        let stored = serde_json::to_string(&policy).unwrap();
        for one in &tried {
            policy.try_hold(one.leaf, one.user, &one.gpus);
        }
        prop_assert_eq!(serde_json::to_string(&policy).unwrap(), stored);
        let running: u32 = policy.queue_views(now).iter().map(|view| view.running).sum();
        prop_assert!(running >= tried.len() as u32, "a try is counted");
        for one in &tried {
            policy.undo_hold(one.leaf, one.user, &one.gpus);
        }
        prop_assert_eq!(observable(&policy, now), before);
    }

    #[test]
    fn a_restored_policy_continues_unchanged(
        tree in any_tree(),
        past in any_steps(20),
        future in any_steps(10),
        gap in 0u64..WEEK_MS,
    ) {
        let mut policy = policy(tree, 16, 8);
        let (now, held) = drive(&mut policy, &past, |_, _| ());
        let mut restored: Policy = serde_json::from_str(&serde_json::to_string(&policy).unwrap()).unwrap();
        for one in &held {
            restored.restore_hold(one.leaf, one.user, &one.gpus);
        }
        let later = now + Span(gap);
        prop_assert_eq!(observable(&restored, later), observable(&policy, later));
        for policy in [&mut policy, &mut restored] {
            for one in &held {
                policy.release(later, one.leaf, one.user, &one.gpus);
            }
            drive(policy, &future, |_, _| ());
        }
        prop_assert_eq!(observable(&restored, later), observable(&policy, later));
    }

    #[test]
    fn reading_changes_nothing_and_a_replay_is_exact(tree in any_tree(), steps in any_steps(20)) {
        let mut watched = policy(tree.clone(), 16, 8);
        let mut alone = policy(tree, 16, 8);
        let (now, _) = drive(&mut watched, &steps, |policy, now| {
            for look in 0..3 {
                let moment = now + Span(look * WEEK_MS / 3);
                assert_eq!(observable(policy, moment), observable(policy, moment));
            }
        });
        drive(&mut alone, &steps, |_, _| ());
        prop_assert_eq!(observable(&watched, now), observable(&alone, now));
    }

    /// Starts and ends of other queues update a queue's usage more often; that may change it by
    /// rounding only.
    #[test]
    fn usage_does_not_depend_on_how_often_it_is_settled(moments in prop::collection::vec(0u64..WEEK_MS, 0..50)) {
        let mut busy = policy(tree("p\n"), 16, 0);
        let p = leaf(&busy, "p");
        let model = h100(&busy);
        let ada = busy.intern_user(&"ada".into());
        let bob = busy.intern_user(&"bob".into());
        busy.hold(Time(0), p, ada, &[(model, 3000)]);
        let mut quiet = busy.clone();
        let mut moments = moments;
        moments.sort_unstable();
        for moment in &moments {
            busy.hold(Time(*moment), p, bob, &[(model, 1000)]);
            busy.release(Time(*moment), p, bob, &[(model, 1000)]);
        }
        quiet.release(Time(WEEK_MS), p, ada, &[(model, 3000)]);
        busy.release(Time(WEEK_MS), p, ada, &[(model, 3000)]);
        let usage = |policy: &Policy| policy.queues.nodes[1].usage[usize::from(model.0)].at(Time(WEEK_MS), WEEK_MS);
        prop_assert!(usage(&busy).abs_diff(usage(&quiet)) <= 2 * moments.len() as u64 + 2);
        prop_assert_eq!(busy.decayed_usage(Time(WEEK_MS), p, bob), 0);
    }
}

/// Every invariant that the audit recomputes is reported once its number is wrong.
#[test]
fn the_audit_finds_wrong_numbers() {
    let mut sound = policy(tree("p quota 4 per-user 4\n a\n b\n"), 8, 0);
    let a = leaf(&sound, "p/a");
    let ada = sound.intern_user(&"ada".into());
    let model = h100(&sound);
    sound.hold(Time(0), a, ada, &[(model, 1000)]);
    sound.queues_mut().enqueue(a, ada, 0, age(1), EntrySlot(1));
    assert_eq!(sound.inconsistencies(), vec![]);
    let at = usize::from(model.0);
    let check = |expected: Inconsistency, bend: &dyn Fn(&mut Policy)| {
        let mut bent = sound.clone();
        bend(&mut bent);
        assert!(
            bent.inconsistencies().contains(&expected),
            "{expected:?}: {:?}",
            bent.inconsistencies()
        );
    };
    let queue = || "p".into();
    let name = || "h100".into();
    check(Inconsistency::Running { queue: queue() }, &|policy| policy.queues.nodes[1].running += 1);
    check(Inconsistency::Pending { queue: queue() }, &|policy| policy.queues.nodes[1].pending = 0);
    check(Inconsistency::Pending { queue: queue() }, &|policy| {
        policy.queues.nodes[1].pending_children.clear()
    });
    check(Inconsistency::Held { queue: queue(), model: name() }, &|policy| {
        policy.queues.nodes[1].held[at] -= 1
    });
    check(Inconsistency::HeldByUser { queue: queue() }, &|policy| {
        policy.queues.nodes[1].held_by_user.clear()
    });
    check(Inconsistency::Taken { queue: queue(), model: name() }, &|policy| {
        policy.queues.nodes[1].quota[at].taken += 1
    });
    check(Inconsistency::Rate { queue: queue(), model: name() }, &|policy| {
        policy.queues.nodes[1].usage[at].restore_rate(1)
    });
    check(Inconsistency::Rate { queue: "p/a".into(), model: name() }, &|policy| {
        policy.try_hold(a, ada, &[(model, 1000)]);
    });
    check(Inconsistency::Overdraft { queue: "".into(), model: name() }, &|policy| {
        policy.hold(Time(0), a, ada, &[(model, 4000)]);
    });
}
