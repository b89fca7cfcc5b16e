//! What is said of a fleet, as a whole: snapshots of the terminal text.

use super::sample::{interval, run, size, stuck};
use super::*;

fn shown(runs: Vec<muster_model::simulation::FleetFigures>) -> String {
    comparison(&sample::comparison(runs), &Style::plain())
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
    (muster.hours.lost, muster.hours.stranded, muster.evictions, muster.breakdowns) = (31.4, 240.0, 12, 1);
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
    let with = |mut run: muster_model::simulation::FleetFigures, wait: f64, margin: f64, fair: f64| {
        run.intervals = vec![
            interval("wait_secs.mean", wait, margin),
            interval("used_share", 0.687, 0.004),
            interval("user_fairness", fair, 0.01),
        ];
        run
    };
    let runs = || {
        vec![with(run("muster", 1810.0), 1790.0, 95.0, 0.95), with(run("kueue", 1900.0), 1900.0, 80.0, 0.85)]
    };
    let mut several = sample::comparison(runs());
    several.seeds = vec![1, 2, 3];
    insta::assert_snapshot!(comparison(&several, &Style::plain()));
}

#[test]
fn gangs_that_wait_for_each_other_come_first() {
    let (mut muster, kube) = (run("muster", 45.0), stuck(run("kube-default", 0.0)));
    muster.sizes.truncate(1);
    let mut contention = sample::comparison(vec![kube, muster]);
    (contention.jobs, contention.nodes, contention.size) = (2, 1, 8.0);
    (contention.never_ran, contention.bad_rows, contention.strangers) = (0, 0, 0);
    contention.queues = None;
    insta::assert_snapshot!(comparison(&contention, &Style::plain()));
}

#[test]
fn every_width_is_kept() {
    let runs = vec![run("muster", 1810.0), run("kube-default", 6900.0), stuck(run("none", 1.0))];
    let compared = sample::comparison(runs);
    for width in [60, 80, 100, 200] {
        let text = comparison(&compared, &Style::plain().with_width(width));
        let body = text.split_once("\n\n").expect("a head and a body").1;
        assert!(runs::widest(body) <= width, "{width}:\n{text}");
        assert!(text.lines().all(|line| line.trim_end() == line), "{text}");
    }
}
