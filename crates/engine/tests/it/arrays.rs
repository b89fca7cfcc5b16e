//! Arrays and dependencies.

use muster_engine::{AccountingFact, EventRefusal};
use muster_model::job::DependencyKind::{After, AfterAny, AfterNotOk, AfterOk};
use muster_model::view::JobState;
use muster_model::{CommandTarget, ElementId, Event, JobId, Outcome, Rank, Reason};

use crate::cluster::{TestCluster, job, node, span};

#[test]
fn an_array_runs_at_most_its_cap_at_once_in_order_of_its_indices() {
    let mut cluster = TestCluster::new(&[node("n1", 8)]);
    cluster.submit(job("sweep").gpus(1).array(10, 15, Some(2)));
    let view = cluster.engine.job(cluster.now, cluster.id("sweep")).unwrap();
    let array = view.array.unwrap();
    assert_eq!((array.total, array.waiting, array.active), (6, 4, 2));
    assert!(matches!(view.waiting_for, Some(Reason::ArrayCap { running: 2, cap: 2 })));
    for index in 10..=15 {
        assert_eq!(cluster.state_of("sweep", index), JobState::Running);
        cluster.exits("sweep", index, 0);
    }
    assert_eq!(cluster.engine.counts().jobs, 0);
    let starts: Vec<u32> = cluster.starts.iter().map(|(element, _)| element.index).collect();
    assert_eq!(starts, [10, 11, 12, 13, 14, 15]);
}

#[test]
fn an_array_step_skips_indices() {
    let mut cluster = TestCluster::new(&[node("n1", 8)]);
    let array = muster_model::Array::range(1, 8, 3, None);
    cluster.submit(job("sweep").gpus(1).with(|spec| spec.array = Some(array)));
    let starts: Vec<u32> = cluster.starts.iter().map(|(element, _)| element.index).collect();
    assert_eq!(starts, [1, 4, 7]);
    let two = CommandTarget { index: Some(2), ..cluster.target("sweep") };
    let id = ElementId { job: two.job, index: 2 };
    assert_eq!(cluster.engine.validate(&Event::Hold(two)), Err(EventRefusal::UnknownElement(id)));
}

#[test]
fn a_list_has_the_indices_that_it_names() {
    let mut cluster = TestCluster::new(&[node("n1", 2)]);
    let array = muster_model::Array::list(vec![1, 3, 7, 8, 9], None);
    cluster.submit(job("sweep").gpus(1).with(|spec| spec.array = array));
    cluster.exits("sweep", 1, 0);
    cluster.exits("sweep", 3, 1);
    let starts: Vec<u32> = cluster.starts.iter().map(|(element, _)| element.index).collect();
    assert_eq!(starts, [1, 3, 7, 8]);
    for unknown in [0, 2, 4, 10] {
        let target = CommandTarget { index: Some(unknown), ..cluster.target("sweep") };
        let id = ElementId { job: target.job, index: unknown };
        assert_eq!(
            cluster.engine.validate(&Event::Hold(target)),
            Err(EventRefusal::UnknownElement(id))
        );
    }
}

#[test]
fn the_rest_of_a_cancelled_list_ends_by_range() {
    let mut cluster = TestCluster::new(&[node("n1", 1)]);
    let array = muster_model::Array::list(vec![1, 3, 7, 8, 9], None);
    cluster.submit(job("sweep").gpus(1).with(|spec| spec.array = array));
    let all = cluster.target("sweep");
    cluster.step(vec![Event::Hold(CommandTarget { index: Some(8), ..all })]);
    cluster.cancel("sweep");
    let rests: Vec<(u32, u32, u32)> = cluster
        .facts
        .iter()
        .filter_map(|fact| match fact {
            AccountingFact::RestEnded { count, first, last, .. } => Some((*count, *first, *last)),
            _ => None,
        })
        .collect();
    assert_eq!(rests, [(1, 3, 3), (2, 7, 9)]);
}

#[test]
fn a_large_array_starts_more_than_its_tickets_in_one_pass_and_costs_one_job_while_it_waits() {
    let nodes: Vec<_> = (0..50).map(|at| node(&format!("n{at:02}"), 8)).collect();
    let mut cluster = TestCluster::new(&nodes);
    cluster.submit(job("sweep").gpus(1).array(0, 99_999, None));
    assert_eq!(cluster.starts.len(), 400);
    assert_eq!(cluster.engine.counts().pending, 100_000 - 400);
    let queue = &cluster.engine.queues(cluster.now)[0];
    assert_eq!((queue.waiting, queue.running), (100_000 - 400, 400));
}

#[test]
fn arrays_of_two_users_share_the_cluster() {
    let mut cluster = TestCluster::new(&[node("n1", 8)]);
    cluster.submit(job("first").gpus(8));
    cluster.submit(job("a").gpus(1).user("ann").array(0, 99, None));
    cluster.submit(job("b").gpus(1).user("bob").array(0, 99, None));
    cluster.exit("first", 0);
    let of =
        |name| cluster.engine.job(cluster.now, cluster.id(name)).unwrap().array.unwrap().active;
    // ann has used the cluster before, so bob is first until he holds as much.
    assert_eq!(of("a") + of("b"), 8);
    assert!(of("a") >= 3 && of("b") >= 3, "{} and {}", of("a"), of("b"));
}

#[test]
fn elements_are_held_released_cancelled_and_requeued_one_by_one() {
    let mut cluster = TestCluster::new(&[node("n1", 2)]);
    cluster.submit(job("sweep").gpus(1).array(0, 5, None));
    let one = |cluster: &TestCluster, index| CommandTarget {
        index: Some(index),
        ..cluster.target("sweep")
    };
    cluster.step(vec![Event::Hold(one(&cluster, 2))]);
    cluster.step(vec![Event::Cancel { target: one(&cluster, 3), by: "ann".into() }]);
    cluster.exits("sweep", 0, 0);
    assert_eq!(cluster.state_of("sweep", 2), JobState::Held);
    assert_eq!(cluster.state_of("sweep", 3), JobState::Cancelled);
    assert_eq!(cluster.state_of("sweep", 4), JobState::Running);
    cluster.exits("sweep", 1, 0);
    assert_eq!(cluster.state_of("sweep", 5), JobState::Running);
    cluster.step(vec![Event::Requeue(one(&cluster, 3))]);
    cluster.step(vec![Event::Release(one(&cluster, 2))]);
    cluster.exits("sweep", 4, 0);
    cluster.exits("sweep", 5, 0);
    assert_eq!(cluster.state_of("sweep", 2), JobState::Running);
    assert_eq!(cluster.state_of("sweep", 3), JobState::Running);
    cluster.exits("sweep", 2, 0);
    cluster.exits("sweep", 3, 0);
    assert_eq!(cluster.engine.counts().jobs, 0);
}

#[test]
fn cancelling_an_array_ends_what_waits_together_and_stops_what_runs() {
    let mut cluster = TestCluster::new(&[node("n1", 2)]);
    let id = cluster.submit(job("sweep").gpus(1).array(0, 99_999, None));
    cluster.cancel("sweep");
    assert_eq!(cluster.engine.counts().jobs, 0);
    let rest = cluster.facts.iter().find_map(|fact| match fact {
        AccountingFact::RestEnded { job, count, .. } if *job == id => Some(*count),
        _ => None,
    });
    assert_eq!(rest, Some(99_998));
    let view = cluster.facts.iter().find_map(|fact| match fact {
        AccountingFact::JobEnded { view, succeeded: false, .. } => Some(view.clone()),
        _ => None,
    });
    assert_eq!(view.unwrap().state, JobState::Cancelled);
}

#[test]
fn an_array_that_was_cancelled_in_part_can_be_requeued_while_it_is_in_memory() {
    let mut cluster = TestCluster::new(&[node("n1", 2)]);
    cluster.submit(job("sweep").gpus(1).array(0, 9, None));
    cluster.auto_respond = false;
    cluster.cancel("sweep");
    assert_eq!(cluster.state_of("sweep", 7), JobState::Cancelled);
    cluster.auto_respond = true;
    let ids = [cluster.attempt("sweep", 0), cluster.attempt("sweep", 1)];
    cluster.step(vec![Event::Requeue(cluster.target("sweep"))]);
    assert_eq!(cluster.state_of("sweep", 7), JobState::Pending);
    for id in ids {
        let exit = muster_model::Observation::Exited(muster_model::TaskExit::Stopped);
        cluster.task(id, 0, exit);
    }
    // The two that were being stopped are cancelled; the others run.
    assert_eq!(cluster.state_of("sweep", 2), JobState::Running);
    assert_eq!(cluster.outcome("sweep", 0), Some(Outcome::Cancelled { by: "ann".into() }));
}

#[test]
fn dependencies_are_satisfied_by_the_state_of_the_other_job() {
    for (kind, code, before, after) in [
        (After, 0, JobState::Running, None),
        (AfterAny, 0, JobState::Pending, Some(JobState::Running)),
        (AfterAny, 1, JobState::Pending, Some(JobState::Running)),
        (AfterOk, 0, JobState::Pending, Some(JobState::Running)),
        (AfterNotOk, 1, JobState::Pending, Some(JobState::Running)),
        (AfterOk, 1, JobState::Pending, None),
        (AfterNotOk, 0, JobState::Pending, None),
    ] {
        let mut cluster = TestCluster::new(&[node("n1", 8)]);
        let first = cluster.submit(job("first").gpus(1));
        cluster.submit(job("second").gpus(1).after(kind, first));
        cluster.expect("second", before);
        if before == JobState::Pending {
            let view = cluster.engine.job(cluster.now, cluster.id("second")).unwrap();
            assert_eq!(view.waiting_for, Some(Reason::Dependency { on: first, kind }));
        }
        cluster.exit("first", code);
        match after {
            Some(state) => cluster.expect("second", state),
            None if kind == After => cluster.expect("second", JobState::Running),
            None => cluster.expect_ended("second", &Outcome::DependencyFailed { on: first }),
        }
    }
}

#[test]
fn an_unsatisfiable_dependency_ends_a_whole_chain() {
    let mut cluster = TestCluster::new(&[node("n1", 1)]);
    let mut last = cluster.submit(job("j0").gpus(1));
    for at in 1..1000 {
        last = cluster.submit(job(&format!("j{at}")).gpus(1).after(AfterOk, last));
    }
    let any = cluster.submit(job("clean-up").gpus(1).after(AfterAny, last));
    cluster.exit("j0", 1);
    cluster.expect_ended("j1", &Outcome::DependencyFailed { on: JobId(1) });
    cluster.expect_ended("j999", &Outcome::DependencyFailed { on: JobId(999) });
    assert_eq!(cluster.engine.counts().jobs, 1);
    cluster.expect("clean-up", JobState::Running);
    // Ended jobs are remembered for later ones.
    cluster.submit(job("too-late").gpus(1).after(AfterOk, last));
    cluster.expect_ended("too-late", &Outcome::DependencyFailed { on: last });
    cluster.exit("clean-up", 0);
    cluster.submit(job("in-time").gpus(1).after(AfterOk, any));
    cluster.expect("in-time", JobState::Running);
}

#[test]
fn dependencies_on_itself_on_later_and_on_unknown_jobs_are_refused_by_name() {
    let mut cluster = TestCluster::new(&[node("n1", 1)]);
    cluster.submit(job("first").gpus(1));
    let own = cluster.next_id();
    for on in [own, JobId(own.0 + 5)] {
        let refused = cluster.try_submit(job("loop").gpus(1).after(After, on));
        assert_eq!(refused, Err(EventRefusal::DependencyCycle { job: own, on }));
    }
    let refused = cluster.try_submit(job("lost").gpus(1).after(AfterOk, JobId(0)));
    assert_eq!(refused, Err(EventRefusal::UnknownDependency(JobId(0))));
}

#[test]
fn a_dependency_on_an_array_waits_for_all_of_it() {
    let mut cluster = TestCluster::new(&[node("n1", 2)]);
    let sweep = cluster.submit(job("sweep").gpus(1).array(0, 3, None));
    cluster.submit(job("begun").after(After, sweep));
    cluster.submit(job("all-good").gpus(1).after(AfterOk, sweep));
    cluster.expect("begun", JobState::Pending);
    cluster.exits("sweep", 0, 0);
    cluster.exits("sweep", 1, 5);
    cluster.expect("begun", JobState::Running);
    cluster.exits("sweep", 2, 0);
    cluster.expect("all-good", JobState::Pending);
    cluster.exits("sweep", 3, 0);
    cluster.expect_ended("all-good", &Outcome::DependencyFailed { on: sweep });
    assert_eq!(cluster.outcome("sweep", 1), Some(Outcome::Failed { rank: Rank(0), code: 5 }));
}

#[test]
fn a_begin_time_is_waited_for() {
    let mut cluster = TestCluster::new(&[node("n1", 2)]);
    let at = cluster.now + span("1h");
    cluster.submit(job("later").gpus(1).begin(at));
    cluster.expect("later", JobState::Pending);
    assert_eq!(cluster.engine.next_wake(), Some(at));
    cluster.advance("1h");
    cluster.expect("later", JobState::Running);
    assert_eq!(cluster.engine.next_wake(), None);
}
