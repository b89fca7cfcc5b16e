//! `muster prove`: text of the example, the counts and the grid, stable JSON, exact error messages.
//! No daemon is started.

use std::collections::{BTreeMap, BTreeSet};

use muster_model::proof::{GangOrders, GangProof, GangSweep, OrderVerdict, SubmissionDecision};

use crate::home::Home;

#[test]
fn the_example_deadlocks_pod_by_pod_and_runs_one_gang_whole() {
    let home = Home::new();
    let run = home.words("prove gang --gpus 8 --need 5,5 --order abababab").ok();
    insta::assert_snapshot!(run.stdout, @r"
    pool of 8 GPUs; a and b need 5 pods each; 1 GPU per pod; arrivals abababab

    pod by pod: each pod is a job of its own and takes what is free
      STEP  POD  POOL      HELD                FREE
         1  a    a·······  a 1 of 5, b 0 of 5     7  gets GPU 0
         2  b    ab······  a 1 of 5, b 1 of 5     6  gets GPU 1
         3  a    aba·····  a 2 of 5, b 1 of 5     5  gets GPU 2
         4  b    abab····  a 2 of 5, b 2 of 5     4  gets GPU 3
         5  a    ababa···  a 3 of 5, b 2 of 5     3  gets GPU 4
         6  b    ababab··  a 3 of 5, b 3 of 5     2  gets GPU 5
         7  a    abababa·  a 4 of 5, b 3 of 5     1  gets GPU 6
         8  b    abababab  a 4 of 5, b 4 of 5     0  gets GPU 7

    gang admission: each gang is one job, whose pods all start together
      STEP  GANG  POOL      HELD                FREE
         1  a     aaaaa···  a 5 of 5, b 0 of 5     3  gets GPUs 0-4: a runs
         2  b     aaaaa···  a 5 of 5, b 0 of 5     3  waits: needs 5 GPUs together, 3 are free

    ADMISSION       HELD                RUNS     FREE  VERDICT
    pod by pod      a 4 of 5, b 4 of 5  nothing     0  deadlock
    gang admission  a 5 of 5, b 0 of 5  a           3  whole

    why   a pod keeps its GPU while the rest of its gang waits for one (a lacks 1, b lacks 1), so nothing ever runs; under gang admission a waiting gang holds nothing
    next  muster prove gang --gpus 8 --need 5,5 --all-orders
    ");
    assert_eq!(run.stderr, "");
    assert!(!home.path("m").exists());
}

#[test]
fn where_both_fit_both_run_and_without_an_order_the_gangs_take_turns() {
    let home = Home::new();
    let proof: GangProof = home.words("prove gang --gpus 10 --json").json();
    assert_eq!(proof.order, "ababababab");
    for run in [&proof.per_pod, &proof.gang] {
        assert!(run.gangs.iter().all(|gang| gang.runs));
        assert_eq!((run.free_gpus, run.verdict), (0, OrderVerdict::Whole));
    }
    let text = home.words("prove gang --gpus 10").ok().stdout;
    assert!(text.contains("both have the same result"), "{text}");
}

#[test]
fn a_gang_larger_than_the_pool_is_an_answer() {
    let home = Home::new();
    let proof: GangProof =
        home.words("prove gang --gpus 4 --need 5,2 --order aaaab -o json").json();
    assert_eq!(
        (proof.per_pod.verdict, proof.gang.verdict),
        (OrderVerdict::Deadlock, OrderVerdict::Whole)
    );
    assert!(matches!(proof.gang.steps[0].decided, SubmissionDecision::Refused { .. }));
    let text = home.words("prove gang --gpus 4 --need 5,2 --order aaaab").ok().stdout;
    assert!(text.contains("refused: needs 5 GPUs together, the pool has 4"), "{text}");
    assert!(text.contains("gang admission refuses a gang that can never fit"), "{text}");
}

#[test]
fn all_orders_are_counted_and_a_sweep_is_a_grid() {
    let home = Home::new();
    insta::assert_snapshot!(home.words("prove gang --all-orders").ok().stdout, @r"
    pool of 8 GPUs; a and b need 5 pods each; 1 GPU per pod; 252 orders of arrival

    ADMISSION       DEADLOCK          WASTE             WHOLE
    pod by pod      140 (5/9, 55.6%)  112 (4/9, 44.4%)  none
    gang admission  none              none              all 252

    how   the engine decided 62 submissions; orders that lead to the same arrivals and holdings are counted together
    next  muster prove gang --sweep
    ");
    let found: GangOrders = home.words("prove gang --all-orders --json").json();
    assert_eq!(
        (found.orders, found.per_pod.deadlock.orders, found.gang.whole.orders),
        (252, 140, 252)
    );
    let text = home.words("prove gang --sweep --pools 4..9 --sizes 3..5").ok().stdout;
    insta::assert_snapshot!(text, @r"
    2 gangs of equal size, 1 GPU per pod; percent of all orders of arrival, · is none

    deadlock, pod by pod: nothing ever runs
        GPUS   4   5   6   7   8   9
      need 3  60   ·   ·   ·   ·   ·
      need 4  97  86  57   ·   ·   ·
      need 5 100  99  95  83  56   ·

    waste, pod by pod: a gang that does not run holds GPUs
        GPUS   4   5   6   7   8   9
      need 3  40 100   ·   ·   ·   ·
      need 4   ·  14  43 100   ·   ·
      need 5   ·   ·   5  17  44 100

    gang admission: no order deadlocks or wastes in any of 18 cells; a gang larger than the pool is refused at once
    ");
    let swept: GangSweep = home.words("prove gang --sweep --pools 8 --sizes 5 --json").json();
    let [cell] = &swept.cells[..] else { panic!("one pool, one size: {swept:?}") };
    assert_eq!((cell.gpus, cell.need_pods, cell.per_pod.clone()), (8, 5, found.per_pod));
}

/// Collects the paths of values in a document, with the strings there, or the kind of value.
fn places(at: &str, value: &serde_json::Value, found: &mut BTreeMap<String, BTreeSet<String>>) {
    use serde_json::Value;
    let leaf = match value {
        Value::Object(fields) => {
            return fields
                .iter()
                .for_each(|(name, value)| places(&format!("{at}/{name}"), value, found));
        }
        Value::Array(items) if !items.is_empty() => {
            return items.iter().for_each(|item| places(&format!("{at}[]"), item, found));
        }
        Value::Array(_) => "[]",
        Value::String(word) => word,
        Value::Number(_) => "number",
        Value::Bool(_) => "bool",
        Value::Null => "null",
    };
    found.entry(at.to_owned()).or_default().insert(leaf.to_owned());
}

#[test]
fn the_shape_of_the_json_is_kept() {
    let home = Home::new();
    let mut proof: serde_json::Value =
        home.words("prove gang --gpus 1 --need 1,2 --order ab --json").json();
    let mut found = BTreeMap::new();
    for one in ["per_pod", "gang"] {
        places("per_pod|gang", &proof[one].take(), &mut found);
    }
    places("", &proof, &mut found);
    let line = |(place, words): (String, BTreeSet<String>)| {
        format!("{place}: {}\n", words.into_iter().collect::<Vec<_>>().join(" | "))
    };
    insta::assert_snapshot!(found.into_iter().map(line).collect::<String>(), @r"
    /gang: null
    /gangs[]/gang: a | b
    /gangs[]/need_pods: number
    /gpus: number
    /gpus_per_pod: number
    /order: ab
    /per_pod: null
    per_pod|gang/free_gpus: number
    per_pod|gang/gangs[]/arrived_pods: number
    per_pod|gang/gangs[]/gang: a | b
    per_pod|gang/gangs[]/held_pods: number
    per_pod|gang/gangs[]/need_pods: number
    per_pod|gang/gangs[]/runs: bool
    per_pod|gang/steps[]/at: number
    per_pod|gang/steps[]/decided/devices[]: number
    per_pod|gang/steps[]/decided/is: placed | refused | waits
    per_pod|gang/steps[]/decided/reason/beside: []
    per_pod|gang/steps[]/decided/reason/gpus_free: number
    per_pod|gang/steps[]/decided/reason/gpus_per_task: number
    per_pod|gang/steps[]/decided/reason/gpus_total: number
    per_pod|gang/steps[]/decided/reason/group: main
    per_pod|gang/steps[]/decided/reason/limiting: gpus
    per_pod|gang/steps[]/decided/reason/models: []
    per_pod|gang/steps[]/decided/reason/nodes_eligible: number
    per_pod|gang/steps[]/decided/reason/nodes_fitting: number
    per_pod|gang/steps[]/decided/reason/reason: capacity | never_fits
    per_pod|gang/steps[]/decided/reason/tasks_needed: number
    per_pod|gang/steps[]/decided/reason/tasks_per_node: null
    per_pod|gang/steps[]/decided/reason/tasks_placeable: number
    per_pod|gang/steps[]/free_gpus: number
    per_pod|gang/steps[]/gang: a | b
    per_pod|gang/steps[]/held_pods/a: number
    per_pod|gang/steps[]/held_pods/b: number
    per_pod|gang/steps[]/pods: number
    per_pod|gang/verdict: whole
    ");
    insta::assert_snapshot!(home.words("prove gang --gpus 3 --need 2,2 --all-orders --json").ok().stdout, @r#"
    {
      "gpus": 3,
      "gpus_per_pod": 1,
      "gangs": [
        {
          "gang": "a",
          "need_pods": 2
        },
        {
          "gang": "b",
          "need_pods": 2
        }
      ],
      "orders": 6,
      "per_pod": {
        "deadlock": {
          "orders": 0,
          "numerator": 0,
          "denominator": 1,
          "ppm": 0
        },
        "waste": {
          "orders": 6,
          "numerator": 1,
          "denominator": 1,
          "ppm": 1000000
        },
        "whole": {
          "orders": 0,
          "numerator": 0,
          "denominator": 1,
          "ppm": 0
        },
        "engine_steps": 12
      },
      "gang": {
        "deadlock": {
          "orders": 0,
          "numerator": 0,
          "denominator": 1,
          "ppm": 0
        },
        "waste": {
          "orders": 0,
          "numerator": 0,
          "denominator": 1,
          "ppm": 0
        },
        "whole": {
          "orders": 6,
          "numerator": 1,
          "denominator": 1,
          "ppm": 1000000
        },
        "engine_steps": 4
      }
    }
    "#);
}

#[test]
fn mistakes_are_told_exactly() {
    let home = Home::new();
    let check = |words: &str, error: &str, hint: &str| {
        let run = home.words(&format!("prove gang {words}")).code(2);
        assert_eq!(run.stdout, "", "{words}");
        assert!(run.stderr.contains(error), "{words}: {}", run.stderr);
        assert!(run.stderr.contains(hint), "{words}: {}", run.stderr);
    };
    check(
        "--order abc",
        "the order names `c` at place 3, but there is no such gang",
        "hint: the gangs of `--need` are a to b",
    );
    check(
        "--need 1,5 --order aab",
        "the order has 2 pods of gang a, which needs 1",
        "hint: set the need of gang a to 2, or write a at most 1 times in the order",
    );
    check("--need 5,0", "gang b needs no pod", "hint: leave b out");
    check("--need 5", "gangs: 1; there must be 2 to 26", "hint: `--need 5,5`");
    check("--gpus 0", "the pool has no GPU", "hint: a pool has 1 to 128 GPUs");
    check("--gpus 129", "a node has at most 128", "hint: a pool has 1 to 128 GPUs");
    check(
        "--gpus 2 --gpus-per-pod 4",
        "a pod asks for 4 GPUs, and the pool has 2",
        "hint: with `--gpus-per-pod 2`",
    );
    check("--gpus -3", "invalid value '-3' for '--gpus <N>': below 0", "");
    check("--gpus 1e3", "in digits: `1000`", "");
    check("--need 5,100000000000000000000", "for '--need <PODS,...>': above 4294967295", "");
    check("--need 5,x", "for '--need <PODS,...>': expected digits only", "");
    check(
        "--all-orders --need 300,300",
        "more than 10^37 orders of 600 pods",
        "hint: use fewer or smaller gangs",
    );
    check(
        "--all-orders --gpus 32 --need 8,8,8,8,8",
        "more than 40000 decisions of the engine",
        "hint: use fewer",
    );
    check("--all-orders --order ab", "cannot be used with", "");
    check("--sweep --need 5,5", "cannot be used with", "");
    check("--pools 1..4", "--sweep", "");
    check("--sweep --pools 8..4", "did you mean `4..8`?", "");
    check("--sweep --sizes 0..4", "`0` is not a size", "");
    check("--sweep --pools 1..500", "a node has at most 128", "hint: a pool has 1 to 128 GPUs");
    check(
        "--sweep --pools 1..128 --sizes 1..60",
        "40000 decisions of the engine",
        "hint: narrow `--pools` or `--sizes`",
    );
    let run = home.muster(&["prove", "gang", "--order", ""]).code(2);
    assert!(
        run.stderr.contains("error: the order is empty\nhint: one letter per pod"),
        "{}",
        run.stderr
    );
    assert!(!home.path("m").exists());
}
