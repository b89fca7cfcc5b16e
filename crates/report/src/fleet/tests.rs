//! Tests of the comparison on a fleet: snapshots of the terminal text.

use muster_model::simulation::{
    AddedNodes, Calibration, CalibrationVerdict, FigureChange, JobsChange,
};

use super::sample::{interval, run, size, stuck};
use super::*;

fn shown(runs: Vec<muster_model::simulation::FleetFigures>) -> String {
    comparison(&sample::comparison(runs), RenderContext::plain())
}

#[test]
fn two_runs_side_by_side() {
    let mut kube = run("kube-default", 6900.0);
    kube.hours.held_idle = 812.25;
    kube.hours.stranded = 1205.0;
    kube.user_fairness = 0.71;
    kube.node_spread = 1.8;
    kube.sizes[0] = size("1", 1000, 30.0);
    let mut muster = run("muster", 1810.0);
    (muster.hours.lost, muster.hours.stranded, muster.evictions, muster.breakdowns) =
        (31.4, 240.0, 12, 1);
    insta::assert_snapshot!(shown(vec![muster, kube]));
}

#[test]
fn what_was_interrupted_is_named_and_not_compared() {
    let mut easy = run("slurm", 20.0);
    (easy.is_partial, easy.arrived, easy.ended, easy.left) = (true, 400, 310, 90);
    insta::assert_snapshot!(shown(vec![run("muster", 1810.0), easy]));
}

#[test]
fn several_seeds_have_margins_and_what_lies_within_is_no_difference() {
    let with =
        |mut run: muster_model::simulation::FleetFigures, wait: f64, margin: f64, fair: f64| {
            run.intervals = vec![
                interval("turnaround_secs.mean", wait + 7200.0, margin),
                interval("waited_secs.mean", wait, margin),
                interval("used_share", 0.687, 0.004),
                interval("user_fairness", fair, 0.01),
            ];
            run
        };
    let runs = || {
        vec![
            with(run("muster", 1810.0), 1790.0, 95.0, 0.95),
            with(run("kueue", 1900.0), 1900.0, 80.0, 0.85),
        ]
    };
    let mut several = sample::comparison(runs());
    several.seeds = vec![1, 2, 3];
    insta::assert_snapshot!(comparison(&several, RenderContext::plain()));
}

#[test]
fn gangs_that_wait_for_each_other_come_first() {
    let mut muster = run("muster", 45.0);
    let kube = stuck(run("kube-default", 0.0));
    muster.sizes.truncate(1);
    let mut contention = sample::comparison(vec![kube, muster]);
    (contention.jobs, contention.nodes, contention.size) = (2, 1, 8.0);
    (contention.never_ran, contention.bad_rows, contention.strangers) = (0, 0, 0);
    contention.queues = None;
    insta::assert_snapshot!(comparison(&contention, RenderContext::plain()));
}

#[test]
fn every_width_is_kept() {
    let runs = vec![run("muster", 1810.0), run("kube-default", 6900.0), stuck(run("none", 1.0))];
    let compared = sample::comparison(runs);
    for width in [60, 80, 100, 200] {
        let text = comparison(&compared, RenderContext::plain().with_width(width));
        assert!(text.lines().all(|line| line.chars().count() <= width), "{width}:\n{text}");
        assert!(text.lines().all(|line| line.trim_end() == line), "{text}");
    }
}

fn said(runs: Vec<muster_model::simulation::FleetFigures>) -> Vec<String> {
    findings(&sample::comparison(runs))
}

#[test]
fn one_run_or_equal_runs_have_little_to_say() {
    assert_eq!(said(vec![run("muster", 90.0)]), Vec::<String>::new());
    let equal = said(vec![run("muster", 90.0), run("kueue", 90.0)]);
    assert_eq!(
        equal,
        [
            "from submission to end jobs take equally long under all of them: on average 2h01m, of which they wait 1m30s"
        ]
    );
    let none = said(vec![run("muster", 0.0), run("kueue", 0.0)]);
    assert_eq!(none, ["no job waits under any of them"]);
    assert_eq!(said(Vec::new()), Vec::<String>::new());
}

#[test]
fn a_run_without_waiting_is_not_infinitely_better() {
    let sentences = said(vec![run("muster", 0.0), run("kueue", 90.0)]);
    assert_eq!(
        sentences[0],
        "from submission to end jobs take on average under muster 2h, of which they wait 0s; under kueue 2h01m, of which they \
         wait 1m30s"
    );
}

#[test]
fn what_is_only_known_to_be_at_least_so_much_is_not_the_least() {
    let mut kube = stuck(run("kube-default", 45.0));
    (kube.left_holding, kube.left_held) = (0, 0.0);
    let sentences = said(vec![kube.clone(), run("muster", 90.0), run("kueue", 9000.0)]);
    assert!(
        sentences[1].contains("under muster 2h01m, of which they wait 1m30s; under kueue 4h30m"),
        "{sentences:?}"
    );
    let stuck_longest = said(vec![stuck(run("kube-default", 99_000.0)), run("muster", 90.0)]);
    assert!(stuck_longest[1].contains("; under kube-default at least 1d05h"), "{stuck_longest:?}");
    assert!(!said(vec![kube.clone(), kube]).iter().any(|sentence| sentence.contains("submission")));
}

#[test]
fn jobs_that_never_end_are_told_with_or_without_what_they_hold() {
    let with = |left, left_holding, left_held| {
        let mut kube = run("kube-default", 45.0);
        (kube.left, kube.left_holding, kube.left_held) = (left, left_holding, left_held);
        said(vec![kube]).swap_remove(0)
    };
    assert_eq!(with(1, 0, 0.0), "under kube-default 1 job never ends");
    assert_eq!(
        with(1, 1, 0.5),
        "under kube-default 1 gang holds 0.5 GPU and waits for the rest of what it needs; nothing more happens"
    );
    assert_eq!(
        with(1205, 3, 12.0),
        "under kube-default 3 gangs hold 12 GPUs and wait for each other; nothing more happens, and 1,202 jobs beside them never \
         end"
    );
}

/// Two variants under two schedulers; the second queue file refuses jobs.
fn variants_compared() -> muster_model::simulation::FleetComparison {
    let on = |name: &str, run: muster_model::simulation::FleetFigures| {
        muster_model::simulation::FleetFigures { variant: name.to_owned(), ..run }
    };
    let runs = vec![
        on("site", run("muster", 1810.0)),
        on("site + 4", run("muster", 610.0)),
        on("site", run("kube-default", 6900.0)),
        on("site + 4", run("kube-default", 6900.0)),
    ];
    let mut shown = sample::comparison(runs);
    shown.variants = vec![sample::variant("site", 12), sample::variant("site + 4", 16)];
    (shown.variants[1].left_out, shown.variants[1].left_out_share) = (3, 0.125);
    shown.variants[1].added = Some(AddedNodes {
        nodes: 4,
        like: "node12".to_owned(),
        gpus: 8,
        model: Some("h100".to_owned()),
    });
    shown.differences = vec![
        sample::difference("muster", 1810.0, 610.0),
        sample::difference("kube-default", 6900.0, 6900.0),
    ];
    shown
}

#[test]
fn variants_are_rows_and_their_differences_are_told() {
    insta::assert_snapshot!(comparison(&variants_compared(), RenderContext::plain()));
}

#[test]
fn a_difference_says_when_it_is_not_over_the_same_jobs() {
    let mut shown = variants_compared();
    let one = &mut shown.differences[0];
    one.left = JobsChange { first: 0, here: 2 };
    one.refused = JobsChange { first: 1, here: 3 };
    shown.differences[1].turnaround_secs =
        FigureChange { first: 10.0, here: 20.0, margin: Some(12.0), may_be_chance: true };
    shown.differences[1].waited_secs =
        FigureChange { first: 90.0, here: 60.0, margin: Some(12.0), may_be_chance: false };
    let said = findings(&shown);
    assert!(said[0].contains("turnaround ≥ 2h10m (was 2h30m)"), "{said:?}");
    assert!(
        said[0].ends_with(
            "; 2 jobs never end (were 0), so the times are lower bounds; 3 jobs refused (were 1), so the times are not of the \
             same jobs"
        ),
        "{said:?}"
    );
    assert!(said[1].contains("turnaround 20s (no difference beyond chance)"), "{said:?}");
    assert!(said[1].contains("waited 1m (-30s ± 12s)"), "{said:?}");
}

#[test]
fn recorded_waits_come_before_the_figures() {
    let mut shown = sample::comparison(vec![run("muster", 1810.0), run("slurm", 2400.0)]);
    shown.calibration = vec![
        sample::calibration("muster", CalibrationVerdict::Close),
        sample::calibration("slurm", CalibrationVerdict::Poor),
    ];
    insta::assert_snapshot!(comparison(&shown, RenderContext::plain()));
    for width in [80, 100, 200] {
        let text = comparison(&shown, RenderContext::plain().with_width(width));
        assert!(text.lines().all(|line| line.chars().count() <= width), "{width}:\n{text}");
    }
}

#[test]
fn a_judgement_says_what_it_does_not_cover() {
    let mut shown = sample::comparison(Vec::new());
    shown.calibration = vec![Calibration {
        never_started: 2,
        not_replayed: 1200,
        refused: 1,
        start_before_submit: 3,
        ..sample::calibration("muster", CalibrationVerdict::TooFew)
    }];
    let [said, early] = &super::calibration(&shown)[..] else { panic!("two sentences") };
    for part in [
        "this says nothing about a load under which jobs wait",
        "; 2 never start in the replay",
        "; 1,200 ran in the trace but not in the replay",
        "; 1 refused in the replay",
        "(their mean 1h recorded, 1h10m simulated)",
    ] {
        assert!(said.contains(part), "{part}: {said}");
    }
    assert!(early.starts_with("3 jobs not compared, since the recorded start is before"));
    // An interrupted run is not judged; with several seeds, the judged one is named.
    shown.seeds = vec![7, 8];
    (shown.calibration[0].is_partial, shown.calibration[0].start_before_submit) = (true, 0);
    shown.calibration[0].verdict = CalibrationVerdict::Interrupted;
    let [said] = &super::calibration(&shown)[..] else { panic!("one sentence") };
    assert!(said.starts_with("muster (seed 7): interrupted, and not judged; so far, "), "{said}");
    assert!(said.contains("; 2 had not started at the interruption"), "{said}");
}
