//! The whole objects of a gang, for each scheduler and kind of object.

use super::*;

#[test]
fn a_gang_for_kueue() {
    insta::assert_snapshot!(yaml(&objects(&train(), GangScheduler::Kueue)));
}

#[test]
fn a_gang_for_volcano() {
    let restart =
        Restart { on_failure: true, max_restarts: 3, backoff: Span::from_secs(10), always: false };
    let spec = JobSpec { restart, ..train() };
    insta::assert_snapshot!(yaml(&objects(&spec, GangScheduler::Volcano)));
}

#[test]
fn a_gang_for_kai() {
    insta::assert_snapshot!(yaml(&objects(&train(), GangScheduler::Kai)));
}

#[test]
fn a_gang_with_a_pod_group_of_kubernetes() {
    insta::assert_snapshot!(yaml(&objects(&train(), GangScheduler::PodGroups)));
}

/// Two roles, which restart together.
#[test]
fn a_gang_as_a_job_set() {
    let mut spec = train();
    spec.groups.push(TaskGroup::of("eval", 1, Resources::default()));
    spec.restart =
        Restart { on_failure: true, max_restarts: 2, backoff: Span::from_secs(10), always: false };
    insta::assert_snapshot!(yaml(&objects(&spec, GangScheduler::Muster)));
}
