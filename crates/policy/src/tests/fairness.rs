//! Fair share in the long run: if every user always has pending entries, use follows the weights.

use muster_model::Time;

use super::trees::{age, h100, leaf, policy, tree};
use crate::{EntrySlot, LeafId, ModelId, Policy, UserId};

const HOUR_MS: u64 = 3_600_000;
/// Number of GPUs of the cluster.
const CAPACITY: u64 = 256;
/// Number of GPUs of the largest element.
const LARGEST: u64 = 4;

/// Cluster in which every (leaf, user) always has a pending entry. Elements take 1 to 4 GPUs for 1
/// to 12 hours, by a fixed sequence of numbers.
struct FairnessCluster {
    policy: Policy,
    model: ModelId,
    waiting: Vec<(LeafId, UserId)>,
    /// (end, leaf, user, milli)
    running: Vec<(u64, LeafId, UserId, u64)>,
    free: u64,
    random: u64,
    /// GPU-hours by index of `waiting`.
    used: Vec<u64>,
}

impl FairnessCluster {
    fn new(text: &str, users: &[(&str, &str)]) -> Self {
        let mut policy = policy(tree(text), CAPACITY, 0);
        let model = h100(&policy);
        let mut waiting = Vec::new();
        for (seq, (queue, user)) in users.iter().enumerate() {
            let pair = (leaf(&policy, queue), policy.intern_user(&(*user).into()));
            policy.queues_mut().enqueue(pair.0, pair.1, 0, age(seq as u64), EntrySlot(seq as u32));
            waiting.push(pair);
        }
        let used = vec![0; waiting.len()];
        Self { policy, model, waiting, running: Vec::new(), free: CAPACITY, random: 1, used }
    }

    /// Returns a number below `bound` (Knuth's MMIX generator, its upper half).
    fn random(&mut self, bound: u64) -> u64 {
        self.random = self
            .random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.random >> 33) % bound
    }

    /// Simulates one hour: ends, then starts in order until the first that does not fit.
    fn hour(&mut self, hour: u64) {
        let now = Time(hour * HOUR_MS);
        let ended: Vec<_> = self.running.extract_if(.., |(end, ..)| *end <= hour).collect();
        for (_, leaf, user, milli) in ended {
            self.policy.release(now, leaf, user, &[(self.model, milli)]);
            self.free += milli / 1000;
        }
        loop {
            // The same entry may start again: a new pass each time.
            let Some(slot) = self.policy.begin_pass(now).next(&self.policy) else { return };
            let (leaf, user) = self.waiting[slot.0 as usize];
            let gpus = 1 + self.random(LARGEST);
            if gpus > self.free {
                return;
            }
            let hours = 1 + self.random(12);
            self.free -= gpus;
            self.policy.hold(now, leaf, user, &[(self.model, gpus * 1000)]);
            self.running.push((hour + hours, leaf, user, gpus * 1000));
            self.used[slot.0 as usize] += gpus * hours;
        }
    }
}

/// Checks that after 20 half-lives each (leaf, user) has used its part of all GPU-hours, given in
/// permille, within a bound.
///
/// The bound: a start goes to the lowest share, so just after it a queue is ahead by at most one
/// element of `g` GPUs. That lead is the same whatever the weight, and it counts as running and in
/// time as usage, `1 + 1/ln 2 = 2.44` capacities in all. So the part differs by at most `g / (2.44
/// × capacity)`, here 6.4 permille; 2 more are allowed for the first weeks, in which usage has not
/// converged. (On 16 GPUs the same lead is a tenth of the cluster: shares cannot be finer than the
/// elements.)
fn check(text: &str, users: &[(&str, &str)], expected: &[u64]) {
    let mut cluster = FairnessCluster::new(text, users);
    for hour in 0..20 * 7 * 24 {
        cluster.hour(hour);
    }
    let total: u64 = cluster.used.iter().sum();
    assert!(total > 20 * 7 * 24 * CAPACITY * 95 / 100, "the cluster was idle");
    let bound = LARGEST * 100_000 / (244 * CAPACITY) + 2;
    for (used, expected) in cluster.used.iter().zip(expected) {
        let permille = used * 1000 / total;
        assert!(
            permille.abs_diff(*expected) <= bound,
            "{permille}, not {expected} ± {bound}: {:?}",
            cluster.used
        );
    }
}

#[test]
fn siblings_use_by_weight() {
    check("a\nb\n", &[("a", "u"), ("b", "u")], &[500, 500]);
    check("a weight 3\nb\n", &[("a", "u"), ("b", "u")], &[750, 250]);
    check("a weight 7\nb weight 2\nc\n", &[("a", "u"), ("b", "u"), ("c", "u")], &[700, 200, 100]);
}

#[test]
fn weight_counts_among_siblings_only() {
    // More leaves, or heavier ones, do not make a parent's part larger.
    let nested = "p\n a weight 3\n b\nq\n";
    check(nested, &[("p/a", "u"), ("p/b", "u"), ("q", "u")], &[375, 125, 500]);
}

#[test]
fn users_of_a_leaf_use_the_same() {
    check("a\nb\n", &[("a", "u"), ("a", "v"), ("b", "u")], &[250, 250, 500]);
}

/// A queue that had no jobs is not compensated in full: usage decays, so that after its return no
/// queue starves for long.
#[test]
fn a_queue_that_returns_catches_up_and_then_shares() {
    let mut cluster = FairnessCluster::new("a\nb\n", &[("a", "u"), ("b", "u")]);
    let (b, user) = cluster.waiting[1];
    let week = 7 * 24;
    cluster.policy.queues_mut().dequeue(b, user, 0, 1);
    (0..4 * week).for_each(|hour| cluster.hour(hour));
    assert_eq!(cluster.used[1], 0);
    cluster.policy.queues_mut().enqueue(b, user, 0, age(1), EntrySlot(1));
    (4 * week..24 * week).for_each(|hour| cluster.hour(hour));
    let before = cluster.used.clone();
    (24 * week..30 * week).for_each(|hour| cluster.hour(hour));
    let [a, b] = [0, 1].map(|index| cluster.used[index] - before[index]);
    assert!((a * 1000 / (a + b)).abs_diff(500) <= 10, "{a} against {b}");
}
