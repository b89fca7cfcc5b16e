//! Placement pod by pod: the engine does with single pods what a counter does.

use muster_model::JobId;
use muster_model::proof::{OrderVerdict, SubmissionDecision};
use muster_model::view::JobState;
use muster_sim::prove::{Admission, GangScenario, GangTrial, play_engine};
use proptest::prelude::*;

use crate::oracle::{every_order, greedy_pods, letters, verdict};

#[test]
fn two_gangs_of_five_in_turns_on_eight_gpus_deadlock() {
    let scenario = GangScenario::new(8, 1, vec![5, 5]).unwrap();
    let proof = play_engine(&scenario, &scenario.order("abababab").unwrap()).unwrap();
    let run = &proof.per_pod;
    for (at, step) in run.steps.iter().enumerate() {
        assert_eq!(step.decided, SubmissionDecision::Placed { devices: vec![at as u16] });
        assert_eq!(step.free_gpus, 7 - at as u32);
    }
    let stands: Vec<(u32, u32, bool)> =
        run.gangs.iter().map(|gang| (gang.arrived_pods, gang.held_pods, gang.runs)).collect();
    assert_eq!(stands, [(4, 4, false), (4, 4, false)]);
    assert_eq!((run.free_gpus, run.verdict), (0, OrderVerdict::Deadlock));
}

#[test]
fn verdicts_of_whole_and_of_unfinished_orders() {
    for (gpus, per_pod, needs, order, expected) in [
        (8, 1, &[5, 5][..], "abababab", OrderVerdict::Deadlock),
        (8, 1, &[5, 5], "aaaaabbb", OrderVerdict::Waste),
        (5, 1, &[5, 5], "aaaaabbbbb", OrderVerdict::Whole),
        (10, 1, &[5, 5], "ababababab", OrderVerdict::Whole),
        // One gang lacks pods that can still arrive.
        (8, 1, &[5, 5], "aaaaab", OrderVerdict::Open),
        (8, 1, &[5, 5], "ab", OrderVerdict::Open),
        (8, 1, &[5, 5], "aaaaa", OrderVerdict::Open),
        // The pool is full: later arrivals are pending.
        (5, 1, &[5, 5], "aaaaa", OrderVerdict::Whole),
        (4, 1, &[3, 3], "aabb", OrderVerdict::Deadlock),
        // A GPU is free, and no pod of two can have it.
        (5, 2, &[2, 2], "ab", OrderVerdict::Deadlock),
        (5, 2, &[2, 2], "aabb", OrderVerdict::Whole),
        (9, 3, &[2, 2, 2], "aab", OrderVerdict::Waste),
    ] {
        let scenario = GangScenario::new(gpus, per_pod, needs.to_vec()).unwrap();
        let proof = play_engine(&scenario, &scenario.order(order).unwrap()).unwrap();
        assert_eq!(proof.per_pod.verdict, expected, "{gpus} GPUs, {needs:?} of {per_pod}, {order}");
    }
}

#[test]
fn every_order_of_small_gangs_matches_the_counter() {
    let mut cases = 0;
    for (needs, per_pod) in [(vec![3, 3], 1), (vec![2, 4], 1), (vec![2, 2, 2], 1), (vec![3, 2], 2)]
    {
        for order in every_order(&needs) {
            for gpus in per_pod..=7 {
                let scenario = GangScenario::new(gpus, per_pod, needs.clone()).unwrap();
                let proof =
                    play_engine(&scenario, &scenario.order(&letters(&order)).unwrap()).unwrap();
                let held: Vec<u32> =
                    proof.per_pod.gangs.iter().map(|gang| gang.held_pods).collect();
                assert_eq!(held, greedy_pods(gpus, per_pod, &needs, &order), "{gpus}, {order:?}");
                assert_eq!(proof.per_pod.verdict, verdict(&needs, &held), "{gpus}, {order:?}");
                cases += 1;
            }
        }
    }
    assert_eq!(cases, 7 * (20 + 15 + 90) + 6 * 10);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn arrivals_match_a_counter_and_the_engine(
        gpus in 1u32..=32,
        per_pod in 1u32..=3,
        needs in proptest::collection::vec(1u32..=9, 2..=5),
        picks in proptest::collection::vec(any::<prop::sample::Index>(), 1..=40),
    ) {
        let per_pod = per_pod.min(gpus);
        let scenario = GangScenario::new(gpus, per_pod, needs.clone()).unwrap();
        let mut trial = GangTrial::new(&scenario, Admission::PerPod).unwrap();
        let mut order = Vec::new();
        for pick in picks {
            let gang = pick.index(needs.len());
            if trial.arrive(gang).unwrap().is_some() {
                order.push(gang);
            }
        }
        prop_assert_eq!(trial.held(), greedy_pods(gpus, per_pod, &needs, &order));
        let engine = trial.world().engine();
        prop_assert_eq!(engine.sanity_check(), []);
        // The engine's own view: pods that hold GPUs run, the rest is pending.
        let state = |job: usize| engine.job(trial.world().now(), JobId(job as u64 + 1)).unwrap().state;
        let running = (0..order.len()).filter(|job| state(*job) == JobState::Running).count();
        let waiting = (0..order.len()).filter(|job| state(*job) == JobState::Pending).count();
        prop_assert_eq!(running as u32, trial.held().iter().sum::<u32>());
        prop_assert_eq!(running + waiting, order.len());
    }
}
