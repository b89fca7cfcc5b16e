//! Budgets, against the definition read literally: every element that ever ran is added up anew for
//! each question.

use muster_model::queue::Budget;
use muster_model::{QueueTree, Reason, Span, Time};
use proptest::prelude::*;

use super::trees::{leaf, policy, tree};
use crate::{LeafId, Policy, Promise, UserId};

const HOUR: u64 = 3_600_000;

/// Two budgets on the path of `p/a`, one on that of `p/b`, windows of different lengths and phases,
/// and a queue without.
fn budgeted() -> QueueTree {
    let mut tree = tree("p\n a\n b\nq\n");
    let budget = |gpu_hours, gpu_hours_per_user, hours: u64, start: u64| {
        let (every, start) = (Span(hours * HOUR), Time(start));
        Some(Budget { gpu_hours, gpu_hours_per_user, every, start })
    };
    tree.queues[0].budget = budget(Some(12), Some(7), 6, 100 * HOUR + 17);
    tree.queues[0].queues[0].budget = budget(Some(5), None, 4, 0);
    tree
}

/// An element that runs or ran.
#[derive(Clone, Debug)]
struct Ran {
    leaf: usize,
    user: u32,
    milli: u64,
    from: u64,
    length: Option<u64>,
    ended: Option<u64>,
}

const LEAVES: [&str; 3] = ["p/a", "p/b", "q"];

/// A budget of the tree above, as the definition has it.
struct Naive {
    leaves: &'static [usize],
    per_user: bool,
    hours: u64,
    every: u64,
    phase: u64,
}

const NAIVE: [Naive; 3] = [
    Naive { leaves: &[0], per_user: false, hours: 5, every: 4 * HOUR, phase: 0 },
    Naive { leaves: &[0, 1], per_user: false, hours: 12, every: 6 * HOUR, phase: 4 * HOUR + 17 },
    Naive { leaves: &[0, 1], per_user: true, hours: 7, every: 6 * HOUR, phase: 4 * HOUR + 17 },
];

impl Naive {
    fn window(&self, at: u64) -> (u64, u64) {
        let mut begin = 0;
        let mut end = if self.phase == 0 { self.every } else { self.phase };
        while end <= at {
            (begin, end) = (end, end + self.every);
        }
        (begin, end)
    }

    fn counts(&self, one: &Ran, user: u32) -> bool {
        self.leaves.contains(&one.leaf) && (!self.per_user || one.user == user)
    }

    /// What an element takes of the window that `now` lies in.
    fn takes(&self, one: &Ran, now: u64) -> u64 {
        let (begin, end) = self.window(now);
        match (one.length, one.ended) {
            (Some(_), _) if self.window(one.from).0 != begin => 0,
            (Some(length), None) => one.milli * length,
            (Some(length), Some(ended)) => one.milli * length.min(ended - one.from),
            (None, ended) => one.milli * ended.unwrap_or(end).saturating_sub(one.from.max(begin)),
        }
    }

    fn charged(&self, story: &[Ran], user: u32, now: u64) -> u64 {
        story.iter().filter(|one| self.counts(one, user)).map(|one| self.takes(one, now)).sum()
    }

    fn admits(&self, story: &[Ran], new: &Ran, now: u64) -> bool {
        let budget = self.hours * 1000 * HOUR;
        let holds = story.iter().chain([new]).filter(|one| self.counts(one, new.user));
        let endless: u64 = holds
            .filter(|one| one.length.is_none() && one.ended.is_none())
            .map(|one| one.milli)
            .sum();
        !self.counts(new, new.user)
            || self.charged(story, new.user, now) + self.takes(new, now) <= budget
                && (new.length.is_some() || endless * self.every <= budget)
    }
}

#[derive(Clone, Debug)]
struct Step {
    wait: u64,
    ends: bool,
    pick: usize,
    user: u32,
    milli: u64,
    length: Option<u64>,
}

fn any_step() -> impl Strategy<Value = Step> {
    // Whole hours hit the boundaries of one grid, the odd 17 ms those of the other, on both sides.
    let wait = prop_oneof![
        3 => Just(0u64),
        3 => 1u64..3 * HOUR,
        2 => (0u64..5).prop_map(|hours| hours * HOUR),
        2 => (0u64..5).prop_map(|hours| hours * HOUR + 17),
        1 => Just(1u64),
        1 => 10 * HOUR..40 * HOUR,
    ];
    let length =
        prop::option::weighted(0.8, prop_oneof![1u64..4 * HOUR, Just(HOUR), Just(9 * HOUR)]);
    let step = (wait, prop::bool::weighted(0.35), 0usize..100, 0u32..2, 1u64..9, length);
    step.prop_map(|(wait, ends, pick, user, half, length)| Step {
        wait,
        ends,
        pick,
        user,
        milli: half * 500,
        length,
    })
}

fn users(policy: &mut Policy) -> [UserId; 2] {
    ["ada", "bob"].map(|name| policy.intern_user(&name.into()))
}

fn promise(one: &Ran) -> Promise {
    Promise { from: Time(one.from), length: one.length.map(Span) }
}

/// The accounts as anybody sees them.
fn accounts(policy: &Policy, now: u64) -> String {
    format!("{:?}", ["p", "p/a"].map(|queue| policy.taken(Time(now), &queue.into())))
}

/// A policy that knows only what a snapshot of another keeps, and what runs.
fn restored(policy: &Policy, leaves: &[LeafId; 3], users: &[UserId; 2], story: &[Ran]) -> Policy {
    let stored = serde_json::to_string(policy).unwrap();
    let mut again: Policy = serde_json::from_str(&stored).unwrap();
    for one in story.iter().filter(|one| one.ended.is_none()) {
        again.restore_promise(leaves[one.leaf], users[one.user as usize], one.milli, promise(one));
    }
    again
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn budgets_are_what_the_definition_says_and_are_never_overrun(steps in prop::collection::vec(any_step(), 1..60)) {
        let mut policy = policy(budgeted(), 64, 0);
        let leaves = LEAVES.map(|name| leaf(&policy, name));
        let users = users(&mut policy);
        let (mut story, mut now) = (Vec::<Ran>::new(), 0);
        for step in steps {
            now += step.wait;
            // 1. Something ends, or starts if it may.
            let running: Vec<usize> = (0..story.len()).filter(|at| story[*at].ended.is_none()).collect();
            if step.ends && !running.is_empty() {
                let one = &mut story[running[step.pick % running.len()]];
                one.ended = Some(now);
                policy.settle(Time(now), leaves[one.leaf], users[one.user as usize], one.milli, promise(one));
            } else {
                let new = Ran { leaf: step.pick % 3, user: step.user, milli: step.milli, from: now, length: step.length, ended: None };
                let whose = (leaves[new.leaf], users[new.user as usize]);
                let admitted = policy.judge_promise(whose.0, whose.1, new.milli, promise(&new)).is_ok();
                prop_assert_eq!(admitted, NAIVE.iter().all(|naive| naive.admits(&story, &new, now)));
                // What fits is at most the longest, and the longest fits.
                if let (Some(longest), Some(length)) = (policy.longest_promise(Time(now), whose.0, whose.1, new.milli), new.length) {
                    prop_assert_eq!(admitted, length <= longest.0);
                }
                // Trying leaves no trace, and what is tried counts.
                let before = (accounts(&policy, now), serde_json::to_string(&policy).unwrap());
                policy.try_promise(whose.0, whose.1, new.milli, promise(&new));
                if !admitted {
                    policy.judge_promise(whose.0, whose.1, new.milli, promise(&new)).unwrap_err();
                }
                policy.undo_promise(whose.0, whose.1, new.milli, promise(&new));
                prop_assert_eq!(&before, &(accounts(&policy, now), serde_json::to_string(&policy).unwrap()));
                if admitted {
                    policy.promise(whose.0, whose.1, new.milli, promise(&new));
                    story.push(new);
                }
            }
            // 2. The accounts say what the definition says, now and in windows to come; nothing is
            //    overrun.
            for at in [now, now + 1, now + 4 * HOUR, now + 6 * HOUR, now + 50 * HOUR] {
                let (p, a) = (policy.taken(Time(at), &"p".into()).unwrap(), policy.taken(Time(at), &"p/a".into()).unwrap());
                prop_assert_eq!(a.all.0 + a.all.1, NAIVE[0].charged(&story, 0, at));
                prop_assert_eq!(p.all.0 + p.all.1, NAIVE[1].charged(&story, 0, at));
                prop_assert!(a.all.0 + a.all.1 <= 5 * 1000 * HOUR && p.all.0 + p.all.1 <= 12 * 1000 * HOUR);
                for (user, (used, promised)) in &p.users {
                    let number = u32::from(user.as_str() == "bob");
                    prop_assert_eq!(used + promised, NAIVE[2].charged(&story, number, at));
                    prop_assert!(used + promised <= 7 * 1000 * HOUR);
                }
            }
            // 3. A snapshot, and the same tree set again, change nothing.
            let again = restored(&policy, &leaves, &users, &story);
            prop_assert_eq!(accounts(&again, now), accounts(&policy, now));
            let mut replaced = policy.clone();
            replaced.replace_tree(Time(now), budgeted()).unwrap();
            for one in story.iter().filter(|one| one.ended.is_none()) {
                replaced.restore_promise(leaves[one.leaf], users[one.user as usize], one.milli, promise(one));
            }
            prop_assert_eq!(accounts(&replaced, now), accounts(&policy, now));
            policy = if step.pick % 2 == 0 { again } else { replaced };
        }
    }
}

#[test]
fn what_is_promised_at_a_boundary_is_of_the_window_that_begins() {
    let mut policy = policy(budgeted(), 64, 0);
    let (a, [ada, _]) = (leaf(&policy, "p/a"), users(&mut policy));
    let hour = |from| Promise { from: Time(from), length: Some(Span(HOUR)) };
    let used = |policy: &Policy, at| policy.taken(Time(at), &"p/a".into()).unwrap().all;
    policy.promise(a, ada, 5000, hour(4 * HOUR - 1));
    assert_eq!(used(&policy, 4 * HOUR - 1), (0, 5000 * HOUR));
    // A millisecond later everything is there again, and the running job has been paid for.
    assert_eq!(used(&policy, 4 * HOUR), (0, 0));
    policy.judge_promise(a, ada, 5000, hour(4 * HOUR - 1)).unwrap_err();
    assert_eq!(policy.judge_promise(a, ada, 2000, hour(4 * HOUR)), Ok(()));
    policy.promise(a, ada, 2000, hour(4 * HOUR));
    // What ends after its window gives nothing back; what ends in its own gives back what it did
    // not use.
    policy.settle(Time(4 * HOUR + HOUR / 2), a, ada, 5000, hour(4 * HOUR - 1));
    assert_eq!(used(&policy, 5 * HOUR), (0, 2000 * HOUR));
    policy.settle(Time(4 * HOUR + HOUR / 2), a, ada, 2000, hour(4 * HOUR));
    assert_eq!(used(&policy, 5 * HOUR), (1000 * HOUR, 0));
    // It is charged no more than it promised, however long it took to get ready.
    policy.promise(a, ada, 1000, Promise { from: Time(5 * HOUR), length: Some(Span(1)) });
    policy.settle(
        Time(6 * HOUR),
        a,
        ada,
        1000,
        Promise { from: Time(5 * HOUR), length: Some(Span(1)) },
    );
    assert_eq!(used(&policy, 6 * HOUR), (1000 * HOUR + 1000, 0));
}

#[test]
fn an_endless_job_takes_the_rest_of_its_window_and_all_of_the_next() {
    let mut policy = policy(budgeted(), 64, 0);
    let (a, [ada, _]) = (leaf(&policy, "p/a"), users(&mut policy));
    let endless = |from| Promise { from: Time(from), length: None };
    // 2 GPUs for the last hour would fit, but not for a window of four.
    let refused = policy.judge_promise(a, ada, 2000, endless(3 * HOUR)).unwrap_err();
    assert!(
        matches!(refused, Reason::Budget { asked_gpu_secs: 28_800, budget_gpu_secs: 18_000, .. }),
        "{refused:?}"
    );
    assert_eq!(policy.judge_promise(a, ada, 1000, endless(3 * HOUR)), Ok(()));
    policy.promise(a, ada, 1000, endless(3 * HOUR));
    let used = |policy: &Policy, at| policy.taken(Time(at), &"p/a".into()).unwrap().all;
    assert_eq!(
        (used(&policy, 3 * HOUR), used(&policy, 4 * HOUR)),
        ((0, 1000 * HOUR), (0, 4000 * HOUR))
    );
    // Several windows later it ends, an hour into one.
    policy.settle(Time(41 * HOUR), a, ada, 1000, endless(3 * HOUR));
    assert_eq!((used(&policy, 41 * HOUR), used(&policy, 44 * HOUR)), ((1000 * HOUR, 0), (0, 0)));
}

#[test]
fn another_window_begins_anew_with_what_runs_and_a_snapshot_without_budgets_is_read() {
    let mut policy = policy(budgeted(), 64, 0);
    let (a, [ada, _]) = (leaf(&policy, "p/a"), users(&mut policy));
    let hour = Promise { from: Time(0), length: Some(Span(HOUR)) };
    policy.promise(a, ada, 2000, hour);
    policy.promise(a, ada, 1000, hour);
    policy.settle(Time(HOUR), a, ada, 2000, hour);
    let mut next = budgeted();
    next.queues[0].queues[0].budget.as_mut().unwrap().every = Span(3 * HOUR);
    policy.replace_tree(Time(HOUR), next).unwrap();
    policy.restore_promise(a, ada, 1000, hour);
    let taken = |queue: &str| policy.taken(Time(HOUR), &queue.into()).unwrap().all;
    assert_eq!((taken("p/a"), taken("p")), ((0, 1000 * HOUR), (2000 * HOUR, 1000 * HOUR)));
    // Written by a version that knew no budgets.
    let mut stored: serde_json::Value = serde_json::to_value(&policy).unwrap();
    stored.as_object_mut().unwrap().remove("budgets").unwrap();
    let tree = &mut stored["tree"]["queues"][1];
    tree.as_object_mut().unwrap().remove("budget").unwrap();
    tree["limits"].as_object_mut().unwrap().remove("pending_jobs").unwrap();
    let old: Policy = serde_json::from_value(stored).unwrap();
    assert_eq!(old.taken(Time(HOUR), &"q".into()), None);
}
