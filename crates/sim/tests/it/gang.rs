//! Gang admission: whole or nothing, never more than there is, and exactly what packing by hand in
//! order gives.

use muster_model::proof::{AdmissionRun, OrderVerdict, SubmissionDecision};
use muster_model::reason::Reason;
use muster_sim::prove::{Admission, GangScenario, GangTrial, play_engine};
use proptest::prelude::*;

use crate::oracle::{every_order, first_feasible, letters};

fn held(run: &AdmissionRun) -> Vec<u32> {
    run.gangs.iter().map(|gang| gang.held_pods).collect()
}

/// Submits whole gangs in an order and answers what each holds at the end.
fn admit(scenario: &GangScenario, order: &[usize]) -> Vec<u32> {
    let mut trial = GangTrial::new(scenario, Admission::Gang).unwrap();
    for gang in order {
        trial.arrive(*gang).unwrap();
    }
    trial.held().to_vec()
}

#[test]
fn of_two_gangs_of_five_on_eight_gpus_one_runs_and_three_gpus_stay_free() {
    let scenario = GangScenario::new(8, 1, vec![5, 5]).unwrap();
    let proof = play_engine(&scenario, &scenario.order("abababab").unwrap()).unwrap();
    assert_eq!(held(&proof.gang), [5, 0]);
    assert_eq!((proof.gang.free_gpus, proof.gang.verdict), (3, OrderVerdict::Whole));
    let [first, second] = &proof.gang.steps[..] else { panic!("one submission per gang") };
    assert_eq!((first.at, first.pods, second.at), (1, 5, 2));
    assert_eq!(first.decided, SubmissionDecision::Placed { devices: vec![0, 1, 2, 3, 4] });
    let SubmissionDecision::Waits { reason: Some(Reason::Capacity(gap)) } = &second.decided else {
        panic!("{:?}", second.decided)
    };
    assert_eq!((gap.tasks_needed, gap.gpus_free.0), (5, 3000));
}

/// Returns whether some gang holds GPUs for part of its pods.
fn in_part(held: &[u32], needs: &[u32]) -> bool {
    held.iter().zip(needs).any(|(held, need)| *held != 0 && held != need)
}

#[test]
fn the_check_for_parts_trips_on_placement_pod_by_pod() {
    let scenario = GangScenario::new(8, 1, vec![5, 5]).unwrap();
    let mut trial = GangTrial::new(&scenario, Admission::PerPod).unwrap();
    for gang in scenario.in_turns().gangs() {
        trial.arrive(*gang).unwrap();
    }
    assert!(in_part(trial.held(), scenario.needs()));
}

#[test]
fn two_gangs_that_fit_run_under_both_admissions() {
    let scenario = GangScenario::new(10, 1, vec![5, 5]).unwrap();
    let proof = play_engine(&scenario, &scenario.in_turns()).unwrap();
    for run in [&proof.per_pod, &proof.gang] {
        assert_eq!(held(run), [5, 5]);
        assert!(run.gangs.iter().all(|gang| gang.runs));
        assert_eq!((run.free_gpus, run.verdict), (0, OrderVerdict::Whole));
    }
    // With one GPU less, and pod by pod, one of them holds four for nothing.
    let scenario = GangScenario::new(9, 1, vec![5, 5]).unwrap();
    let proof = play_engine(&scenario, &scenario.in_turns()).unwrap();
    assert_eq!((held(&proof.per_pod), proof.per_pod.verdict), (vec![5, 4], OrderVerdict::Waste));
    assert_eq!((held(&proof.gang), proof.gang.verdict), (vec![5, 0], OrderVerdict::Whole));
}

#[test]
fn a_gang_larger_than_the_pool_is_refused_whole_and_fills_the_pool_pod_by_pod() {
    let scenario = GangScenario::new(4, 1, vec![5, 2]).unwrap();
    let proof = play_engine(&scenario, &scenario.order("aaaaabb").unwrap()).unwrap();
    assert_eq!((held(&proof.per_pod), proof.per_pod.verdict), (vec![4, 0], OrderVerdict::Deadlock));
    let SubmissionDecision::Refused { reason: Reason::NeverFits(gap) } =
        &proof.gang.steps[0].decided
    else {
        panic!("{:?}", proof.gang.steps[0])
    };
    assert_eq!((gap.tasks_needed, gap.gpus_total.0), (5, 4000));
    assert_eq!((held(&proof.gang), proof.gang.verdict), (vec![0, 2], OrderVerdict::Whole));
}

#[test]
fn gang_admission_packs_whole_gangs_in_order() {
    let mut cases = 0;
    let pairs = (1..=6).flat_map(|a| (1..=6).map(move |b| vec![a, b]));
    let triples = pairs.clone().flat_map(|pair| (1..=6).map(move |c| [&pair[..], &[c]].concat()));
    for needs in pairs.chain(triples) {
        let orders = every_order(&vec![1; needs.len()]);
        for gpus in 1..=12 {
            let scenario = GangScenario::new(gpus, 1, needs.clone()).unwrap();
            for order in &orders {
                let expected = first_feasible(gpus, 1, &needs, order);
                assert_eq!(admit(&scenario, order), expected, "{gpus} GPUs, {needs:?}, {order:?}");
                cases += 1;
            }
        }
    }
    assert_eq!(cases, 12 * (36 * 2 + 216 * 6));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, ..ProptestConfig::default() })]

    #[test]
    fn gangs_are_placed_whole_and_within_the_pool(
        gpus in 1u32..=64,
        per_pod in 1u32..=4,
        needs in proptest::collection::vec(1u32..=24, 2..=26),
        seed in any::<u64>(),
    ) {
        let per_pod = per_pod.min(gpus);
        let order = shuffled(needs.len(), seed);
        let scenario = GangScenario::new(gpus, per_pod, needs.clone()).unwrap();
        let mut trial = GangTrial::new(&scenario, Admission::Gang).unwrap();
        for gang in &order {
            trial.arrive(*gang).unwrap();
            prop_assert!(!in_part(trial.held(), &needs));
            // The counts agree with what the engine holds: devices, and whole runs.
            let engine = trial.world().engine();
            let busy: usize = engine.nodes().iter().flat_map(|node| &node.devices)
                .filter(|device| device.used.0 > 0).count();
            prop_assert!(busy as u32 <= gpus);
            prop_assert_eq!(busy as u32, gpus - trial.free_gpus());
            prop_assert_eq!(engine.sanity_check(), []);
        }
        prop_assert_eq!(trial.held(), first_feasible(gpus, per_pod, &needs, &order), "{}", letters(&order));
        prop_assert_eq!(trial.verdict(), OrderVerdict::Whole);
    }
}

/// A random order of gangs, one arrival each.
fn shuffled(gangs: usize, seed: u64) -> Vec<usize> {
    let mut order: Vec<usize> = (0..gangs).collect();
    let mut state = seed | 1;
    for at in (1..gangs).rev() {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        order.swap(at, (state % (at as u64 + 1)) as usize);
    }
    order
}
