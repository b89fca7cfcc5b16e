//! Counts over all orders are those of walking through every single order.

use std::collections::BTreeMap;

use muster_model::proof::{OrderCounts, OrderVerdict};
use muster_sim::prove::{CountError, GangScenario, SweepError, all_orders, play_engine, sweep};

use crate::oracle::{every_order, greedy_pods, letters, verdict};

fn counts(counts: &OrderCounts) -> [u128; 3] {
    [counts.deadlock.orders, counts.waste.orders, counts.whole.orders]
}

fn tallied(tally: &BTreeMap<OrderVerdict, u128>) -> [u128; 3] {
    [OrderVerdict::Deadlock, OrderVerdict::Waste, OrderVerdict::Whole]
        .map(|verdict| tally.get(&verdict).copied().unwrap_or(0))
}

#[test]
fn two_gangs_of_five_on_eight_gpus_never_go_well_pod_by_pod() {
    let found = all_orders(&GangScenario::new(8, 1, vec![5, 5]).unwrap()).unwrap();
    assert_eq!(found.orders, 252);
    assert_eq!(counts(&found.per_pod), [140, 112, 0]);
    assert_eq!(counts(&found.gang), [0, 0, 252]);
    let deadlock = found.per_pod.deadlock;
    assert_eq!((deadlock.numerator, deadlock.denominator, deadlock.ppm), (5, 9, 555_555));
}

#[test]
fn counts_match_an_enumeration_of_every_order() {
    let mut orders = 0;
    for (needs, per_pod) in [
        (vec![1, 1], 1),
        (vec![3, 3], 1),
        (vec![4, 2], 1),
        (vec![2, 3], 2),
        (vec![2, 2, 1], 1),
        (vec![1, 2, 3], 1),
        (vec![1, 1, 1, 1], 1),
    ] {
        for gpus in per_pod..=7 {
            let scenario = GangScenario::new(gpus, per_pod, needs.clone()).unwrap();
            let mut per_pod = BTreeMap::new();
            let mut gang = BTreeMap::new();
            for order in every_order(&needs) {
                let proof =
                    play_engine(&scenario, &scenario.order(&letters(&order)).unwrap()).unwrap();
                *per_pod.entry(proof.per_pod.verdict).or_default() += 1;
                *gang.entry(proof.gang.verdict).or_default() += 1;
                orders += 1;
            }
            let found = all_orders(&scenario).unwrap();
            assert_eq!(counts(&found.per_pod), tallied(&per_pod), "{gpus} GPUs, {needs:?}");
            assert_eq!(counts(&found.gang), tallied(&gang), "{gpus} GPUs, {needs:?}");
            assert_eq!(found.orders, tallied(&gang).iter().sum::<u128>());
        }
    }
    assert_eq!(orders, 7 * (2 + 20 + 15 + 30 + 60 + 24) + 6 * 10);
}

#[test]
fn counts_of_larger_gangs_match_the_counter() {
    for (gpus, needs) in [(8, vec![5, 5]), (9, vec![5, 6]), (7, vec![3, 3, 3]), (4, vec![6, 5])] {
        let mut tally = BTreeMap::new();
        for order in every_order(&needs) {
            *tally.entry(verdict(&needs, &greedy_pods(gpus, 1, &needs, &order))).or_default() += 1;
        }
        let found = all_orders(&GangScenario::new(gpus, 1, needs.clone()).unwrap()).unwrap();
        assert_eq!(counts(&found.per_pod), tallied(&tally), "{gpus} GPUs, {needs:?}");
    }
}

#[test]
fn large_counts_are_exact_and_larger_ones_are_refused() {
    // Two gangs of 60 on 119 GPUs: only the last pod gets nothing, that of the gang that does not
    // own the last GPU.
    let found = all_orders(&GangScenario::new(119, 1, vec![60, 60]).unwrap()).unwrap();
    assert_eq!(found.orders, 96_614_908_840_363_322_603_893_139_521_372_656);
    assert_eq!(counts(&found.per_pod), [0, found.orders, 0]);
    assert_eq!(counts(&found.gang), [0, 0, found.orders]);

    let refused =
        |gpus, needs: &[u32]| all_orders(&GangScenario::new(gpus, 1, needs.to_vec()).unwrap());
    assert_eq!(refused(8, &[65, 65]), Err(CountError::TooManyOrders { pods: 130 }));
    assert_eq!(refused(8, &[500, 500]), Err(CountError::TooManyOrders { pods: 1000 }));
    assert_eq!(refused(128, &[1; 26]), Err(CountError::TooManySteps));
}

#[test]
fn a_sweep_is_the_counts_of_each_pool_and_size() {
    let found = sweep(1..=6, 1..=3, 1).unwrap();
    assert_eq!(found.cells.len(), 18);
    for cell in &found.cells {
        let scenario = GangScenario::new(cell.gpus, 1, vec![cell.need_pods; 2]).unwrap();
        let alone = all_orders(&scenario).unwrap();
        assert_eq!(
            (cell.orders, &cell.per_pod, &cell.gang),
            (alone.orders, &alone.per_pod, &alone.gang)
        );
        assert_eq!(counts(&cell.gang), [0, 0, cell.orders]);
        // A pool with room for all, or gangs of one pod, cannot deadlock.
        if cell.gpus >= 2 * cell.need_pods || cell.need_pods == 1 {
            assert_eq!(counts(&cell.per_pod), [0, 0, cell.orders], "{cell:?}");
        }
    }
    assert!(matches!(sweep(0..=3, 1..=2, 1), Err(SweepError::Scenario(_))));
}
