//! Expected run times: planning goes by them, limits stay hard, and no queue head waits for ever because of them.

use muster_model::queue::PlannedRuntimes;
use muster_model::view::{Eta, JobState};
use muster_model::{Drain, Event, QueueTree, Reason, Time};

use crate::cluster::{JobBuilder, TestCluster, job, node, span};

fn predicting(patience: &str) -> QueueTree {
    QueueTree {
        estimates: PlannedRuntimes::Predicted,
        patience: Some(span(patience)),
        ..QueueTree::single()
    }
}

fn expected(ask: JobBuilder, text: &str) -> JobBuilder {
    ask.with(|spec| spec.expected_runtime = Some(span(text)))
}

/// Returns a node with 2 GPUs, one of which a job holds, expected for 10 s of its 100 s; `wide` needs both.
fn waiting_gang(tree: QueueTree) -> TestCluster {
    let mut cluster = TestCluster::with_queues(&[node("a", 2)], tree);
    cluster.submit(expected(job("runs").gpus(1).limit("100s"), "10s"));
    cluster.submit(job("wide").gpus(2).limit("50s"));
    cluster.expect("wide", JobState::Pending);
    cluster
}

#[test]
fn a_job_passes_if_it_is_expected_to_end_in_time() {
    let mut cluster = waiting_gang(predicting("15m"));
    let wide = cluster.element("wide", 0);
    let explanation = cluster.engine.explain(cluster.now, wide).unwrap();
    // A holder of what it needs is listed with the end of its time limit.
    assert_eq!(explanation.holders[0].ends_by, Some(cluster.now + span("100s")));
    assert_eq!(explanation.holders[0].expected_end, Some(cluster.now + span("10s")));
    let eta = explanation.eta;
    assert_eq!(
        eta,
        Some(Eta { start: cluster.now + span("10s"), reserved: true, predicted: true })
    );
    cluster.submit(job("by limit").gpus(1).limit("20s"));
    cluster.expect("by limit", JobState::Pending);
    cluster.submit(expected(job("expected").gpus(1).limit("20s"), "5s"));
    cluster.expect("expected", JobState::Running);
    // Without the setting, limits count: the gang's start is planned later, and what is behind it has time.
    let mut cluster = waiting_gang(QueueTree::single());
    cluster.submit(job("by limit").gpus(1).limit("20s"));
    cluster.expect("by limit", JobState::Running);
}

#[test]
fn views_tell_predictions_from_promises() {
    let views = |tree| {
        let mut cluster = waiting_gang(tree);
        cluster.submit(job("by limit").gpus(1).limit("200s"));
        let view = |name| cluster.engine.job(cluster.now, cluster.element(name, 0).job).unwrap();
        let runs = view("runs");
        let wide = view("wide");
        let behind = view("by limit");
        let end = runs.elements[0].expected_end.map(|end| end.since(cluster.now));
        let Some(Reason::Reserved { predicted, .. }) = behind.waiting_for else {
            panic!("{behind:?}")
        };
        let placed = cluster.engine.explain(cluster.now, cluster.element("runs", 0)).unwrap();
        let placed = placed.placement.unwrap();
        let next = placed.next.unwrap().predicted;
        assert!([predicted, placed.predicted, next].iter().all(|one| *one == wide.eta_predicted));
        assert_eq!(runs.elements[0].ends_by, Some(cluster.now + span("100s")));
        (wide.eta.unwrap().since(cluster.now), wide.eta_predicted, end)
    };
    assert_eq!(views(predicting("15m")), (span("10s"), true, Some(span("10s"))));
    assert_eq!(views(QueueTree::single()), (span("100s"), false, None));
}

#[test]
fn a_setting_that_was_changed_leaves_predictions_of_what_runs() {
    let mut cluster = waiting_gang(predicting("15m"));
    cluster.step(vec![Event::QueuesSet(Box::new(QueueTree::single()))]);
    let wide = cluster.element("wide", 0);
    let predicted = |cluster: &mut TestCluster| {
        cluster.engine.explain(cluster.now, wide).unwrap().eta.unwrap().predicted
    };
    assert!(predicted(&mut cluster));
    cluster.exit("runs", 0);
    cluster.expect("wide", JobState::Running);
    cluster.submit(job("next").gpus(2).limit("50s"));
    let next = cluster.element("next", 0);
    cluster.advance("10s");
    let eta = cluster.engine.explain(cluster.now, next).unwrap().eta.unwrap();
    assert!(!eta.predicted, "{eta:?}");
}

#[test]
fn the_start_of_a_head_that_is_planned_by_limits_is_a_promise() {
    let mut cluster = TestCluster::with_queues(&[node("a", 2)], predicting("1s"));
    cluster.submit(expected(job("runs").gpus(1).limit("2000s"), "10s"));
    let limit = cluster.now + span("2000s");
    cluster.submit(job("wide").gpus(2).limit("50s"));
    let wide = cluster.element("wide", 0);
    let eta = |cluster: &mut TestCluster| cluster.engine.explain(cluster.now, wide).unwrap().eta;
    assert!(eta(&mut cluster).unwrap().predicted);
    // 672 times the patience.
    cluster.advance("673s");
    assert_eq!(eta(&mut cluster), Some(Eta { start: limit, reserved: true, predicted: false }));
}

#[test]
fn an_exceeded_expectation_is_extended_and_ends_nothing() {
    let mut cluster = waiting_gang(predicting("15m"));
    let wide = cluster.element("wide", 0);
    cluster.advance("11s");
    cluster.expect("runs", JobState::Running);
    // A minute is added to the ten seconds.
    let eta = cluster.engine.explain(cluster.now, wide).unwrap().eta.unwrap();
    assert_eq!(eta.start, cluster.now + span("59s"));
    // At last its limit counts.
    cluster.advance("60s");
    let eta = cluster.engine.explain(cluster.now, wide).unwrap().eta.unwrap();
    assert_eq!(eta.start, cluster.now + span("29s"));
}

#[test]
fn drains_go_by_the_time_limit() {
    let mut cluster = TestCluster::with_queues(&[node("a", 2)], predicting("15m"));
    let from = cluster.now + span("30s");
    let drain = Some(Drain { from, by: None, reason: "fan".into(), stop: false });
    cluster.step(vec![Event::DrainSet { node: "a".into(), devices: None, drain }]);
    cluster.submit(expected(job("may last").gpus(1).limit("40s"), "5s"));
    cluster.expect("may last", JobState::Pending);
    cluster.submit(expected(job("ends before").gpus(1).limit("20s"), "5s"));
    cluster.expect("ends before", JobState::Running);
}

fn runs(cluster: &TestCluster, name: &str) -> bool {
    let view = cluster.engine.element(cluster.now, cluster.element(name, 0));
    view.is_some_and(|view| view.state == JobState::Running)
}

/// Every 5 s a job of one GPU comes, of which 5 s are expected; it runs for 40 s. Returns when the gang starts.
fn gang_behind_underestimated_jobs(tree: QueueTree) -> Option<Time> {
    let mut cluster = TestCluster::with_queues(&[node("a", 2)], tree);
    let small = |nth: u32| expected(job(&format!("s{nth}")).gpus(1).limit("60s"), "5s");
    cluster.submit(small(0));
    cluster.submit(job("wide").gpus(2).limit("50s"));
    let mut running: Vec<(String, Time)> = vec![("s0".to_owned(), cluster.now)];
    for nth in 1..200 {
        cluster.submit(small(nth));
        let names = (1..=nth).map(|nth| format!("s{nth}"));
        let new: Vec<String> = names
            .filter(|name| runs(&cluster, name))
            .filter(|name| running.iter().all(|(known, _)| known != name))
            .collect();
        running.extend(new.into_iter().map(|name| (name, cluster.now)));
        cluster.advance("5s");
        for (name, since) in std::mem::take(&mut running) {
            if cluster.now >= since + span("40s") {
                cluster.exit(&name, 0);
            } else {
                running.push((name, since));
            }
        }
        if runs(&cluster, "wide") {
            return Some(cluster.now);
        }
    }
    None
}

#[test]
fn a_queue_head_that_wrong_expectations_keep_waiting_is_planned_by_limits() {
    assert_eq!(
        gang_behind_underestimated_jobs(predicting("15m")),
        None,
        "not within a quarter of an hour"
    );
    // 672 times the patience: eleven minutes.
    let start = gang_behind_underestimated_jobs(predicting("1s")).unwrap();
    assert!(start < Time(1_000_000) + span("800s"), "it starts soon after: {start:?}");
    let by_limits = gang_behind_underestimated_jobs(QueueTree::single()).unwrap();
    assert!(by_limits <= start);
}
