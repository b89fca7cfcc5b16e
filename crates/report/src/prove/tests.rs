//! Tests of the text of proofs: the example, the other verdicts, counts of every length, grids on
//! narrow terminals.

use std::collections::BTreeMap;

use muster_model::GpuMilli;
use muster_model::proof::{GangOrders, GangStatus, GangSweep, OrderCounts, OrderShare, SweepCell};
use muster_model::reason::{CapacityGap, Limiting};

use super::*;

fn gap(needed: u32, free: u32, total: u32) -> CapacityGap {
    CapacityGap {
        group: "main".into(),
        tasks_needed: needed,
        tasks_placeable: free,
        tasks_per_node: None,
        beside: Vec::new(),
        gpus_per_task: GpuMilli(1000),
        models: Vec::new(),
        gpus_free: GpuMilli(free * 1000),
        gpus_total: GpuMilli(total * 1000),
        nodes_eligible: 1,
        nodes_fitting: 0,
        limiting: Limiting::Gpus,
    }
}

fn placed(devices: &[u16]) -> SubmissionDecision {
    SubmissionDecision::Placed { devices: devices.to_vec() }
}

fn step(at: u32, gang: char, decided: SubmissionDecision, held: &[u32], free: u32) -> ProofStep {
    let held_pods: BTreeMap<char, u32> = ('a'..).zip(held.iter().copied()).collect();
    ProofStep { at, gang, pods: 1, decided, held_pods, free_gpus: free }
}

fn run(
    steps: Vec<ProofStep>,
    stands: &[(u32, u32, u32)],
    free: u32,
    verdict: OrderVerdict,
) -> AdmissionRun {
    let stand = |(gang, (need, arrived, held)): (char, &(u32, u32, u32))| GangStatus {
        gang,
        need_pods: *need,
        arrived_pods: *arrived,
        held_pods: *held,
        runs: held == need,
    };
    AdmissionRun {
        steps,
        gangs: ('a'..).zip(stands).map(stand).collect(),
        free_gpus: free,
        verdict,
    }
}

fn proof(
    gpus: u32,
    needs: &[u32],
    order: &str,
    per_pod: AdmissionRun,
    gang: AdmissionRun,
) -> GangProof {
    let gangs =
        ('a'..).zip(needs).map(|(gang, need)| GangNeed { gang, need_pods: *need }).collect();
    GangProof { gpus, gpus_per_pod: 1, gangs, order: order.into(), per_pod, gang }
}

fn waits(needed: u32, free: u32) -> SubmissionDecision {
    SubmissionDecision::Waits { reason: Some(Reason::Capacity(Box::new(gap(needed, free, 3)))) }
}

#[test]
fn a_waste_and_a_refusal() {
    let per_pod = vec![
        step(1, 'a', placed(&[0]), &[1, 0], 2),
        step(2, 'a', placed(&[1]), &[2, 0], 1),
        step(3, 'b', placed(&[2]), &[2, 1], 0),
        step(4, 'b', waits(1, 0), &[2, 1], 0),
        step(5, 'b', waits(1, 0), &[2, 1], 0),
    ];
    let refused = SubmissionDecision::Refused { reason: Reason::NeverFits(Box::new(gap(4, 1, 3))) };
    let gang = vec![step(1, 'a', placed(&[0, 1]), &[2, 0], 1), step(3, 'b', refused, &[2, 0], 1)];
    let proof = proof(
        3,
        &[2, 4],
        "aabbb",
        run(per_pod, &[(2, 2, 2), (4, 3, 1)], 0, OrderVerdict::Waste),
        run(gang, &[(2, 2, 2), (4, 4, 0)], 1, OrderVerdict::Whole),
    );
    insta::assert_snapshot!(super::gang(&proof, RenderContext::plain()), @r"
    pool of 3 GPUs; a needs 2 pods, b needs 4 pods; 1 GPU per pod; arrivals aabbb

    pod by pod: each pod is a job of its own and takes what is free
      STEP  POD  POOL  HELD                FREE
         1  a    a··   a 1 of 2, b 0 of 4     2  gets GPU 0
         2  a    aa·   a 2 of 2, b 0 of 4     1  gets GPU 1: a runs
         3  b    aab   a 2 of 2, b 1 of 4     0  gets GPU 2
       4,5  bb   aab   a 2 of 2, b 1 of 4     0  waits: needs 1 GPU, none is free

    gang admission: each gang is one job, whose pods all start together
      STEP  GANG  POOL  HELD                FREE
         1  a     aa·   a 2 of 2, b 0 of 4     1  gets GPUs 0,1: a runs
         3  b     aa·   a 2 of 2, b 0 of 4     1  refused: needs 4 GPUs together, the pool has 3

    ADMISSION       HELD                RUNS  FREE  VERDICT
    pod by pod      a 2 of 2, b 1 of 4  a        0  waste
    gang admission  a 2 of 2, b 0 of 4  a        1  whole

    why   b holds 1 GPU and cannot run; under gang admission a waiting gang holds nothing
    next  muster prove gang --gpus 3 --need 2,4 --all-orders
    ");
}

#[test]
fn an_open_end_on_a_narrow_terminal() {
    let steps = || vec![step(1, 'a', placed(&[0]), &[1, 0], 39)];
    let proof = proof(
        40,
        &[2, 2],
        "a",
        run(steps(), &[(2, 1, 1), (2, 0, 0)], 39, OrderVerdict::Open),
        run(
            vec![step(1, 'a', placed(&[0, 1]), &[2, 0], 38)],
            &[(2, 2, 2), (2, 0, 0)],
            38,
            OrderVerdict::Open,
        ),
    );
    insta::assert_snapshot!(super::gang(&proof, RenderContext::plain().with_width(60)), @r"
    pool of 40 GPUs; a and b need 2 pods each; 1 GPU per pod;
    arrivals a

    pod by pod: each pod is a job of its own and takes what is
    free
      STEP  POD  HELD                FREE
         1  a    a 1 of 2, b 0 of 2    39  gets GPU 0

    gang admission: each gang is one job, whose pods all start
    together
      STEP  GANG  HELD                FREE
         1  a     a 2 of 2, b 0 of 2    38  gets GPUs 0,1: a
                                            runs

    ADMISSION       HELD                RUNS     FREE  VERDICT
    pod by pod      a 1 of 2, b 0 of 2  nothing    39  open
    gang admission  a 2 of 2, b 0 of 2  a          38  open

    why   3 pods may still arrive and 39 GPUs stay free until
          then: the rest of the order decides
    next  muster prove gang --gpus 40 --need 2,2 --all-orders
    ");
}

#[test]
fn many_gangs_and_long_orders_stay_readable() {
    let letters: String = ('a'..='z').cycle().take(78).collect();
    let held = |pods| -> Vec<u32> { (0..26).map(|gang| u32::from(gang < pods)).collect() };
    let mut steps: Vec<ProofStep> = ('a'..='h')
        .zip(0..8u16)
        .map(|(gang, at)| {
            step(
                u32::from(at) + 1,
                gang,
                placed(&[at]),
                &held(u32::from(at) + 1),
                7 - u32::from(at),
            )
        })
        .collect();
    steps.extend(
        ('i'..='z').cycle().zip(9..=78).map(|(gang, at)| step(at, gang, waits(1, 0), &held(8), 0)),
    );
    let stands: Vec<(u32, u32, u32)> = held(8).into_iter().map(|held| (3, 3, held)).collect();
    let none_held: Vec<(u32, u32, u32)> = vec![(3, 0, 0); 26];
    let proof = proof(
        8,
        &[3; 26],
        &letters,
        run(steps, &stands, 0, OrderVerdict::Deadlock),
        run(Vec::new(), &none_held, 8, OrderVerdict::Open),
    );
    insta::assert_snapshot!(super::gang(&proof, RenderContext::plain()), @r"
    pool of 8 GPUs; a to z need 3 pods each; 1 GPU per pod; arrivals abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyzabcdefg…

    pod by pod: each pod is a job of its own and takes what is free
      STEP  POD           POOL      HELD                                                        FREE
         1  a             a·······  a 1 of 3                                                       7  gets GPU 0
         2  b             ab······  a 1 of 3, b 1 of 3                                             6  gets GPU 1
         3  c             abc·····  a 1 of 3, b 1 of 3, c 1 of 3                                   5  gets GPU 2
         4  d             abcd····  a 1 of 3, b 1 of 3, c 1 of 3, d 1 of 3                         4  gets GPU 3
         5  e             abcde···  a 1 of 3, b 1 of 3, c 1 of 3, d 1 of 3, e 1 of 3               3  gets GPU 4
         6  f             abcdef··  a 1 of 3, b 1 of 3, c 1 of 3, d 1 of 3, e 1 of 3, f 1 of 3     2  gets GPU 5
         7  g             abcdefg·  7 pods of 7 gangs                                              1  gets GPU 6
         8  h             abcdefgh  8 pods of 8 gangs                                              0  gets GPU 7
      9-78  ijklmnopqrs…  abcdefgh  8 pods of 8 gangs                                              0  waits: needs 1 GPU, none is free

    gang admission: each gang is one job, whose pods all start together

    ADMISSION       HELD               RUNS     FREE  VERDICT
    pod by pod      8 pods of 8 gangs  nothing     0  deadlock
    gang admission  nothing            nothing     8  open

    why   a pod keeps its GPU while the rest of its gang waits for one (8 gangs lack pods), so nothing ever runs; under gang admission a waiting gang holds nothing
    next  muster prove gang --gpus 8 --need 3,3,3,3,3,3,3,3,3,3,3,3,3,3,3,3,3,3,3,3,3,3,3,3,3,3 --all-orders
    ");
}

fn part(orders: u128, numerator: u128, denominator: u128, ppm: u32) -> OrderShare {
    OrderShare { orders, numerator, denominator, ppm }
}

const NONE: OrderShare = OrderShare { orders: 0, numerator: 0, denominator: 1, ppm: 0 };

fn all(orders: u128) -> OrderShare {
    part(orders, 1, 1, 1_000_000)
}

#[test]
fn counts_of_every_length() {
    let counts = |deadlock, waste, whole| OrderCounts { deadlock, waste, whole, engine_steps: 40 };
    let found = |orders, per_pod, gang| GangOrders {
        gpus: 8,
        gpus_per_pod: 2,
        gangs: vec![GangNeed { gang: 'a', need_pods: 1 }, GangNeed { gang: 'b', need_pods: 5 }],
        orders,
        per_pod,
        gang,
    };
    let short = found(
        252,
        counts(part(140, 5, 9, 555_555), part(112, 4, 9, 444_444), NONE),
        counts(NONE, NONE, all(252)),
    );
    insta::assert_snapshot!(orders(&short, RenderContext::plain()), @r"
    pool of 8 GPUs; a needs 1 pod, b needs 5 pods; 2 GPUs per pod; 252 orders of arrival

    ADMISSION       DEADLOCK          WASTE             WHOLE
    pod by pod      140 (5/9, 55.6%)  112 (4/9, 44.4%)  none
    gang admission  none              none              all 252

    how   the engine decided 80 submissions; orders that lead to the same arrivals and holdings are counted together
    next  muster prove gang --sweep
    ");
    let many = 10_u128.pow(34);
    let long = found(
        many,
        counts(
            part(1, 1, many, 0),
            part(many - 2, many / 2 - 1, many / 2, 999_999),
            part(1, 1, many, 0),
        ),
        counts(NONE, NONE, all(many)),
    );
    insta::assert_snapshot!(orders(&long, RenderContext::plain()), @r"
    pool of 8 GPUs; a needs 1 pod, b needs 5 pods; 2 GPUs per pod; 10000000000000000000000000000000000 orders of arrival

    ADMISSION       DEADLOCK   WASTE   WHOLE
    pod by pod      1 (<0.1%)  >99.9%  1 (<0.1%)
    gang admission  none       none    all

    how   the engine decided 80 submissions; orders that lead to the same arrivals and holdings are counted together
    next  muster prove gang --sweep
    ");
}

#[test]
fn a_grid_takes_the_room_there_is() {
    let cell = |(gpus, deadlock): (u32, OrderShare)| {
        let counts = |deadlock| OrderCounts { deadlock, waste: NONE, whole: NONE, engine_steps: 1 };
        SweepCell {
            gpus,
            need_pods: 7,
            orders: 1000,
            per_pod: counts(deadlock),
            gang: counts(NONE),
        }
    };
    let shares = [
        (9, NONE),
        (10, part(1, 1, 1000, 1000)),
        (11, part(556, 139, 250, 556_000)),
        (12, part(999, 999, 1000, 999_000)),
        (13, all(1000)),
    ];
    let sweep_of = |cells| GangSweep { gangs: 2, gpus_per_pod: 1, cells };
    let found = sweep_of(shares.map(cell).to_vec());
    insta::assert_snapshot!(sweep(&found, RenderContext::plain()), @r"
    2 gangs of equal size, 1 GPU per pod; percent of all orders of arrival, · is none

    deadlock, pod by pod: nothing ever runs
        GPUS   9  10  11  12  13
      need 7   ·  <1  56 >99 100

    waste, pod by pod: a gang that does not run holds GPUs
        GPUS   9  10  11  12  13
      need 7   ·   ·   ·   ·   ·

    gang admission: no order deadlocks or wastes in any of 5 cells
    ");
    let narrow = sweep(&found, RenderContext::plain().with_width(20));
    assert!(
        narrow.contains(
            "    GPUS   9  10  11\n  need 7   ·  <1  56\n    GPUS  12  13\n  need 7 >99 100\n"
        ),
        "{narrow}"
    );
    let mut broken = found.clone();
    broken.cells[0].gang.waste = all(1000);
    assert!(
        sweep(&broken, RenderContext::plain())
            .ends_with("gang admission: orders deadlock or waste in 1 of 5 cells\n")
    );
    let mut small = found;
    small.cells[0].gpus = 6;
    assert!(
        sweep(&small, RenderContext::plain())
            .ends_with("5 cells; a gang larger than the pool is refused at once\n")
    );
}
