//! Invalid scenarios, each rejected with a hint.

use muster_sim::prove::{GangScenario, ScenarioError};

fn check(gpus: u32, per_pod: u32, needs: &[u32], order: &str, message: &str, hint: &str) {
    let made = GangScenario::new(gpus, per_pod, needs.to_vec());
    let error: ScenarioError = made.and_then(|scenario| scenario.order(order)).unwrap_err();
    assert_eq!(error.to_string(), message);
    assert!(error.hint().contains(hint), "{}", error.hint());
}

#[test]
fn errors_name_the_cause_and_a_remedy() {
    check(0, 1, &[5, 5], "ab", "the pool has no GPU", "1 to 128 GPUs");
    check(
        129,
        1,
        &[5, 5],
        "ab",
        "the pool is one node of 129 GPUs; a node has at most 128",
        "1 to 128",
    );
    check(8, 0, &[5, 5], "ab", "pods ask for no GPU", "--gpus-per-pod 1");
    check(2, 4, &[5, 5], "ab", "a pod asks for 4 GPUs, and the pool has 2", "--gpus-per-pod 2");
    check(8, 1, &[5], "a", "gangs: 1; there must be 2 to 26", "--need 5,5");
    check(8, 1, &[1; 27], "a", "gangs: 27; there must be 2 to 26", "--need 5,5");
    check(8, 1, &[5, 0], "a", "gang b needs no pod", "leave b out");
    check(
        8,
        1,
        &[1000, 1],
        "a",
        "the gangs have 1001 pods in total; at most 1000 are supported",
        "smaller",
    );
    check(
        8,
        1,
        &[u32::MAX, u32::MAX],
        "a",
        "the gangs have 8589934590 pods in total; at most 1000 are supported",
        "smaller",
    );
    check(8, 1, &[5, 5], "", "the order is empty", "one letter per pod");
    check(
        8,
        1,
        &[5, 5],
        "abca",
        "the order names `c` at place 3, but there is no such gang",
        "a to b",
    );
    check(
        8,
        1,
        &[5, 5],
        "aB",
        "the order names `B` at place 2, but there is no such gang",
        "a to b",
    );
    check(
        8,
        1,
        &[2, 5],
        "aaab",
        "the order has 3 pods of gang a, which needs 2",
        "set the need of gang a to 3",
    );
}

#[test]
fn without_an_order_gangs_alternate_until_complete() {
    for (needs, expected) in [
        (&[5, 5][..], "ababababab"),
        (&[1, 3], "abbb"),
        (&[2, 1, 3], "abcacc"),
        (&[1; 26], "abcdefghijklmnopqrstuvwxyz"),
    ] {
        let scenario = GangScenario::new(8, 1, needs.to_vec()).unwrap();
        assert_eq!(scenario.in_turns().letters(), expected);
        assert_eq!(scenario.order(expected).unwrap(), scenario.in_turns());
    }
}
