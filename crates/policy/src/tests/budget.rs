//! Budgets, against a literal implementation of the definition: every element that ever ran is
//! added up anew for each question.

use muster_model::queue::QueueBudget;
use muster_model::{QueueTree, Reason, Span, Time};
use proptest::prelude::*;

use super::trees::{leaf, policy, tree};
use crate::{BudgetCharge, LeafId, Policy, UserId};

const HOUR: u64 = 3_600_000;

/// Returns a tree with two budgets on the path of `p/a`, one on that of `p/b`, periods of different
/// lengths and phases, and a queue without a budget.
fn budgeted() -> QueueTree {
    let mut tree = tree("p\n a\n b\nq\n");
    let budget = |gpu_hours, gpu_hours_per_user, hours: u64, start: u64| {
        let every = Span(hours * HOUR);
        let start = Time(start);
        Some(QueueBudget { gpu_hours, gpu_hours_per_user, every, start })
    };
    tree.queues[0].budget = budget(Some(12), Some(7), 6, 100 * HOUR + 17);
    tree.queues[0].queues[0].budget = budget(Some(5), None, 4, 0);
    tree
}

/// Element that runs or ran.
#[derive(Clone, Debug)]
struct OracleRun {
    leaf: usize,
    user: u32,
    milli: u64,
    from: u64,
    length: Option<u64>,
    ended: Option<u64>,
}

const LEAVES: [&str; 3] = ["p/a", "p/b", "q"];

/// Budget of the tree above, as in the definition.
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
    fn period(&self, at: u64) -> (u64, u64) {
        let mut begin = 0;
        let mut end = if self.phase == 0 { self.every } else { self.phase };
        while end <= at {
            (begin, end) = (end, end + self.every);
        }
        (begin, end)
    }

    fn counts(&self, one: &OracleRun, user: u32) -> bool {
        self.leaves.contains(&one.leaf) && (!self.per_user || one.user == user)
    }

    /// Returns the charge of an element to the period that contains `now`.
    fn charge(&self, one: &OracleRun, now: u64) -> u64 {
        let (begin, end) = self.period(now);
        match (one.length, one.ended) {
            (Some(_), _) if self.period(one.from).0 != begin => 0,
            (Some(length), None) => one.milli * length,
            (Some(length), Some(ended)) => one.milli * length.min(ended - one.from),
            (None, ended) => one.milli * ended.unwrap_or(end).saturating_sub(one.from.max(begin)),
        }
    }

    fn charged(&self, story: &[OracleRun], user: u32, now: u64) -> u64 {
        story.iter().filter(|one| self.counts(one, user)).map(|one| self.charge(one, now)).sum()
    }

    fn admits(&self, story: &[OracleRun], new: &OracleRun, now: u64) -> bool {
        let budget = self.hours * 1000 * HOUR;
        let holds = story.iter().chain([new]).filter(|one| self.counts(one, new.user));
        let endless: u64 = holds
            .filter(|one| one.length.is_none() && one.ended.is_none())
            .map(|one| one.milli)
            .sum();
        !self.counts(new, new.user)
            || self.charged(story, new.user, now) + self.charge(new, now) <= budget
                && (new.length.is_some() || endless * self.every <= budget)
    }
}

#[derive(Clone, Debug)]
struct BudgetStep {
    wait: u64,
    ends: bool,
    pick: usize,
    user: u32,
    milli: u64,
    length: Option<u64>,
}

fn any_step() -> impl Strategy<Value = BudgetStep> {
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
    step.prop_map(|(wait, ends, pick, user, half, length)| BudgetStep {
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

fn budget_charge(one: &OracleRun) -> BudgetCharge {
    BudgetCharge { from: Time(one.from), length: one.length.map(Span) }
}

/// Returns the accounts as views show them.
fn accounts(policy: &Policy, now: u64) -> String {
    format!("{:?}", ["p", "p/a"].map(|queue| policy.budget_use(Time(now), &queue.into())))
}

/// Returns a policy restored from a snapshot of another, with running elements reported again.
fn restored(
    policy: &Policy,
    leaves: &[LeafId; 3],
    users: &[UserId; 2],
    story: &[OracleRun],
) -> Policy {
    let stored = serde_json::to_string(policy).unwrap();
    let mut again: Policy = serde_json::from_str(&stored).unwrap();
    for one in story.iter().filter(|one| one.ended.is_none()) {
        again.queues_mut().restore_charge(
            leaves[one.leaf],
            users[one.user as usize],
            one.milli,
            budget_charge(one),
        );
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
        let mut story = Vec::<OracleRun>::new();
        let mut now = 0;
        for step in steps {
            now += step.wait;
            // 1. An element ends, or starts if admitted.
            let running: Vec<usize> = (0..story.len()).filter(|at| story[*at].ended.is_none()).collect();
            if step.ends && !running.is_empty() {
                let one = &mut story[running[step.pick % running.len()]];
                one.ended = Some(now);
                policy.queues_mut().settle_charge(Time(now), leaves[one.leaf], users[one.user as usize], one.milli, budget_charge(one));
            } else {
                let new = OracleRun { leaf: step.pick % 3, user: step.user, milli: step.milli, from: now, length: step.length, ended: None };
                let whose = (leaves[new.leaf], users[new.user as usize]);
                let admitted = policy.check_charge(whose.0, whose.1, new.milli, budget_charge(&new)).is_ok();
                prop_assert_eq!(admitted, NAIVE.iter().all(|naive| naive.admits(&story, &new, now)));
                // An admitted duration is at most the longest, and the longest is admitted.
                if let (Some(longest), Some(length)) = (policy.queues().longest_affordable(Time(now), whose.0, whose.1, new.milli), new.length) {
                    prop_assert_eq!(admitted, length <= longest.0);
                }
                // A try counts and leaves no trace when undone.
                let before = (accounts(&policy, now), serde_json::to_string(&policy).unwrap());
                policy.queues_mut().try_charge(whose.0, whose.1, new.milli, budget_charge(&new));
                if !admitted {
                    policy.check_charge(whose.0, whose.1, new.milli, budget_charge(&new)).unwrap_err();
                }
                policy.queues_mut().undo_charge(whose.0, whose.1, new.milli, budget_charge(&new));
                prop_assert_eq!(&before, &(accounts(&policy, now), serde_json::to_string(&policy).unwrap()));
                if admitted {
                    policy.queues_mut().charge(whose.0, whose.1, new.milli, budget_charge(&new));
                    story.push(new);
                }
            }
            // 2. The accounts agree with the definition, now and in later periods; no budget is
            //    exceeded.
            for at in [now, now + 1, now + 4 * HOUR, now + 6 * HOUR, now + 50 * HOUR] {
                let a = policy.budget_use(Time(at), &"p/a".into()).unwrap();
                let p = policy.budget_use(Time(at), &"p".into()).unwrap();
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
                replaced.queues_mut().restore_charge(leaves[one.leaf], users[one.user as usize], one.milli, budget_charge(one));
            }
            prop_assert_eq!(accounts(&replaced, now), accounts(&policy, now));
            policy = if step.pick % 2 == 0 { again } else { replaced };
        }
    }
}

#[test]
fn a_charge_at_a_boundary_belongs_to_the_period_that_begins() {
    let mut policy = policy(budgeted(), 64, 0);
    let a = leaf(&policy, "p/a");
    let [ada, _] = users(&mut policy);
    let hour = |from| BudgetCharge { from: Time(from), length: Some(Span(HOUR)) };
    let used = |policy: &Policy, at| policy.budget_use(Time(at), &"p/a".into()).unwrap().all;
    policy.queues_mut().charge(a, ada, 5000, hour(4 * HOUR - 1));
    assert_eq!(used(&policy, 4 * HOUR - 1), (0, 5000 * HOUR));
    // A millisecond later the whole budget is available again, and the running job is already
    // charged.
    assert_eq!(used(&policy, 4 * HOUR), (0, 0));
    policy.check_charge(a, ada, 5000, hour(4 * HOUR - 1)).unwrap_err();
    assert_eq!(policy.check_charge(a, ada, 2000, hour(4 * HOUR)), Ok(()));
    policy.queues_mut().charge(a, ada, 2000, hour(4 * HOUR));
    // An element that ends after its period is refunded nothing; one that ends in it is refunded
    // what it did not use.
    policy.queues_mut().settle_charge(Time(4 * HOUR + HOUR / 2), a, ada, 5000, hour(4 * HOUR - 1));
    assert_eq!(used(&policy, 5 * HOUR), (0, 2000 * HOUR));
    policy.queues_mut().settle_charge(Time(4 * HOUR + HOUR / 2), a, ada, 2000, hour(4 * HOUR));
    assert_eq!(used(&policy, 5 * HOUR), (1000 * HOUR, 0));
    // It is charged no more than in advance, however long it took to get ready.
    policy.queues_mut().charge(
        a,
        ada,
        1000,
        BudgetCharge { from: Time(5 * HOUR), length: Some(Span(1)) },
    );
    policy.queues_mut().settle_charge(
        Time(6 * HOUR),
        a,
        ada,
        1000,
        BudgetCharge { from: Time(5 * HOUR), length: Some(Span(1)) },
    );
    assert_eq!(used(&policy, 6 * HOUR), (1000 * HOUR + 1000, 0));
}

#[test]
fn an_unlimited_job_is_charged_for_the_rest_of_its_period_and_all_of_the_next() {
    let mut policy = policy(budgeted(), 64, 0);
    let a = leaf(&policy, "p/a");
    let [ada, _] = users(&mut policy);
    let endless = |from| BudgetCharge { from: Time(from), length: None };
    // 2 GPUs for the last hour would fit, but not for a period of four.
    let refused = policy.check_charge(a, ada, 2000, endless(3 * HOUR)).unwrap_err();
    assert!(
        matches!(refused, Reason::Budget { asked_gpu_secs: 28_800, budget_gpu_secs: 18_000, .. }),
        "{refused:?}"
    );
    assert_eq!(policy.check_charge(a, ada, 1000, endless(3 * HOUR)), Ok(()));
    policy.queues_mut().charge(a, ada, 1000, endless(3 * HOUR));
    let used = |policy: &Policy, at| policy.budget_use(Time(at), &"p/a".into()).unwrap().all;
    assert_eq!(
        (used(&policy, 3 * HOUR), used(&policy, 4 * HOUR)),
        ((0, 1000 * HOUR), (0, 4000 * HOUR))
    );
    // It ends several periods later, an hour into one.
    policy.queues_mut().settle_charge(Time(41 * HOUR), a, ada, 1000, endless(3 * HOUR));
    assert_eq!((used(&policy, 41 * HOUR), used(&policy, 44 * HOUR)), ((1000 * HOUR, 0), (0, 0)));
}

#[test]
fn a_new_period_begins_with_running_jobs_and_a_snapshot_without_budgets_is_read() {
    let mut policy = policy(budgeted(), 64, 0);
    let a = leaf(&policy, "p/a");
    let [ada, _] = users(&mut policy);
    let hour = BudgetCharge { from: Time(0), length: Some(Span(HOUR)) };
    policy.queues_mut().charge(a, ada, 2000, hour);
    policy.queues_mut().charge(a, ada, 1000, hour);
    policy.queues_mut().settle_charge(Time(HOUR), a, ada, 2000, hour);
    let mut next = budgeted();
    next.queues[0].queues[0].budget.as_mut().unwrap().every = Span(3 * HOUR);
    policy.replace_tree(Time(HOUR), next).unwrap();
    policy.queues_mut().restore_charge(a, ada, 1000, hour);
    let taken = |queue: &str| policy.budget_use(Time(HOUR), &queue.into()).unwrap().all;
    assert_eq!((taken("p/a"), taken("p")), ((0, 1000 * HOUR), (2000 * HOUR, 1000 * HOUR)));
    // Snapshot of a version without budgets.
    let mut stored: serde_json::Value = serde_json::to_value(&policy).unwrap();
    stored.as_object_mut().unwrap().remove("budgets").unwrap();
    let tree = &mut stored["tree"]["queues"][1];
    tree.as_object_mut().unwrap().remove("budget").unwrap();
    tree["limits"].as_object_mut().unwrap().remove("pending_jobs").unwrap();
    let old: Policy = serde_json::from_value(stored).unwrap();
    assert_eq!(old.budget_use(Time(HOUR), &"q".into()), None);
}
