//! Limits and submissions: example rows.

use muster_model::job::{GpuRequest, Resources};
use muster_model::{JobSpec, Reason, Span, TaskGroup, Time};

use super::trees::{h100, leaf, policy, tree};

const LIMITED: &str =
    "p running 3 per-user 6 time 3600 priority -5..5\n a running 2\n b per-user 4 time 600\n";

fn word(verdict: Result<(), Reason>) -> String {
    match verdict {
        Ok(()) => "ok".to_owned(),
        Err(Reason::RunningJobs { queue, running, limit }) => {
            format!("{queue}: {running} of {limit} running")
        }
        Err(Reason::GpusPerUser { queue, user, used, limit, .. }) => {
            format!("{queue}: {user} has {used} of {limit}")
        }
        Err(Reason::TimeLimit { queue, limit, .. }) => format!("{queue}: at most {limit}"),
        Err(Reason::Priority { queue, range, .. }) => {
            format!("{queue}: {} to {}", range.0, range.1)
        }
        Err(Reason::Quota { queue, asked, nominal, borrowable, .. }) => {
            format!("{queue}: {asked} of {nominal} + {borrowable}")
        }
        Err(other) => format!("{other:?}"),
    }
}

fn check_start(held: &[(&str, &str, u64)], queue: &str, user: &str, gpus: u64, expected: &str) {
    let mut policy = policy(tree(LIMITED), 64, 64);
    let model = h100(&policy);
    for (queue, user, gpus) in held {
        let leaf = leaf(&policy, queue);
        let user = policy.intern_user(&(*user).into());
        policy.hold(Time(0), leaf, user, &[(model, gpus * 1000)]);
    }
    let user = policy.intern_user(&user.into());
    let verdict = policy.check_start(leaf(&policy, queue), user, &[(model, gpus * 1000)], None);
    assert_eq!(word(verdict), expected);
}

#[test]
fn every_queue_of_the_path_limits_what_runs_and_what_a_user_holds() {
    check_start(&[], "p/a", "ada", 6, "ok");
    check_start(&[], "p/a", "ada", 7, "p: ada has 0 of 6");
    check_start(&[], "p/b", "ada", 5, "p/b: ada has 0 of 4");
    check_start(&[("p/a", "ada", 3)], "p/b", "ada", 4, "p: ada has 3 of 6");
    check_start(&[("p/a", "ada", 3)], "p/b", "bob", 4, "ok");
    check_start(&[("p/a", "ada", 0), ("p/a", "bob", 1)], "p/a", "cyd", 0, "p/a: 2 of 2 running");
    check_start(
        &[("p/a", "ada", 1), ("p/b", "ada", 1), ("p/b", "bob", 1)],
        "p/a",
        "cyd",
        1,
        "p: 3 of 3 running",
    );
    check_start(&[("p/b", "ada", 4)], "p/b", "ada", 0, "ok");
}

fn group(tasks: u32, devices: u32, models: &[&str]) -> TaskGroup {
    let models = models.iter().map(|model| (*model).into()).collect();
    TaskGroup::of(
        "worker",
        tasks,
        Resources {
            gpu: GpuRequest { models, ..GpuRequest::whole(devices) },
            ..Resources::default()
        },
    )
}

fn job(time_secs: Option<u64>, priority: i32, groups: Vec<TaskGroup>) -> JobSpec {
    JobSpec {
        queue: "p".into(),
        priority,
        time_limit: time_secs.map(Span::from_secs),
        ..JobSpec::plain("job", "ada", groups)
    }
}

fn check_submission(text: &str, queue: &str, spec: &JobSpec, expected: &str) {
    let mut policy = policy(tree(text), 64, 64);
    // Running elements must not matter: only what could ever start.
    let leaf = leaf(&policy, queue);
    let user = policy.intern_user(&"bob".into());
    let model = h100(&policy);
    policy.hold(Time(0), leaf, user, &[(model, 1000)]);
    assert_eq!(word(policy.check_submission(leaf, spec)), expected, "{text}");
}

#[test]
fn time_limit_priority_and_user_limits_are_judged_at_submission() {
    let of = |time, priority, gpus| job(time, priority, vec![group(1, gpus, &[])]);
    check_submission(LIMITED, "p/a", &of(Some(3600), 5, 6), "ok");
    check_submission(LIMITED, "p/a", &of(Some(3601), 0, 1), "p: at most 1h");
    check_submission(LIMITED, "p/a", &of(None, 0, 1), "p: at most 1h");
    check_submission(LIMITED, "p/b", &of(Some(601), 0, 1), "p/b: at most 10m");
    check_submission(LIMITED, "p/a", &of(Some(1), 6, 1), "p: -5 to 5");
    check_submission(LIMITED, "p/a", &of(Some(1), -6, 1), "p: -5 to 5");
    check_submission(LIMITED, "p/b", &of(Some(1), 0, 5), "p/b: ada has 0 of 4");
    check_submission("p running 0\n", "p", &of(None, 0, 0), "p: 0 of 0 running");
}

#[test]
fn quota_that_can_never_be_met_is_refused_at_submission() {
    let quota = "p quota 8 borrow 2 quota-a100 3\nq quota 8 lend 5\n";
    let of = |groups| job(None, 0, groups);
    check_submission(quota, "p", &of(vec![group(10, 1, &["h100"])]), "ok");
    check_submission(quota, "p", &of(vec![group(11, 1, &["h100"])]), "p: 11 of 8 + 2");
    check_submission(quota, "q", &of(vec![group(16, 1, &["h100"])]), "ok");
    check_submission(quota, "q", &of(vec![group(17, 1, &["h100"])]), "q: 17 of 8 + 8");
    // Two tasks of eight devices each do not fit partly on two models: the quotas of 10 and 3 admit
    // one of them.
    check_submission(quota, "p", &of(vec![group(2, 8, &[])]), "p: 16 of 8 + 2");
    check_submission(quota, "p", &of(vec![group(13, 1, &[])]), "ok");
    check_submission(
        quota,
        "p",
        &of(vec![group(14, 1, &["h100", "a100", "h100"])]),
        "p: 14 of 8 + 2",
    );
    check_submission(
        quota,
        "p",
        &of(vec![group(6, 1, &["h100"]), group(5, 1, &["h100"])]),
        "p: 11 of 8 + 2",
    );
    check_submission(quota, "p", &of(vec![group(6, 1, &["h100"]), group(5, 1, &[])]), "ok");
    // A model without a quota is not limited, nor is an unknown one.
    check_submission(quota, "p", &of(vec![group(99, 1, &["h200"])]), "ok");
    check_submission("p\n", "p", &of(vec![group(9999, 8, &[])]), "ok");
}

#[test]
fn pending_jobs_are_counted_per_user_in_every_queue_of_the_path() {
    let mut limited = tree("p\n a\n b\nq\n");
    limited.queues[0].limits.pending_jobs = Some(3);
    limited.queues[0].queues[0].limits.pending_jobs = Some(2);
    let mut policy = policy(limited.clone(), 64, 0);
    let [a, b, q] = ["p/a", "p/b", "q"].map(|name| leaf(&policy, name));
    let ada = policy.intern_user(&"ada".into());
    let bob = policy.intern_user(&"bob".into());
    let check = |policy: &crate::Policy, leaf, user: &str, expected: &str| {
        let verdict = match policy.check_pending_limit(leaf, &user.into(), &[]) {
            Ok(()) => "ok".to_owned(),
            Err(Reason::PendingJobs { queue, user, pending, limit }) => {
                format!("{queue}: {user} {pending} of {limit}")
            }
            Err(other) => format!("{other:?}"),
        };
        assert_eq!(verdict, expected);
        assert_eq!(policy.inconsistencies(), vec![]);
    };
    policy.queues_mut().add_pending_job(a, ada);
    check(&policy, a, "ada", "ok");
    policy.queues_mut().add_pending_job(a, ada);
    check(&policy, a, "ada", "p/a: ada 2 of 2");
    check(&policy, a, "bob", "ok");
    check(&policy, a, "nobody", "ok");
    check(&policy, b, "ada", "ok");
    policy.queues_mut().add_pending_job(b, ada);
    check(&policy, b, "ada", "p: ada 3 of 3");
    check(&policy, q, "ada", "ok");
    // Jobs submitted together count in their queues, also for a new user.
    let beside = |user: &str, leaves: &[crate::LeafId]| {
        policy.check_pending_limit(a, &user.into(), leaves).is_ok()
    };
    assert!(beside("new", &[a, q]) && beside("new", &[b, q, q]) && !beside("new", &[a, q, a]));
    assert!(!beside("new", &[b, b, a]) && beside("bob", &[b, b]) && !beside("ada", &[]));
    policy.queues_mut().remove_pending_job(a, ada);
    check(&policy, b, "ada", "ok");
    // A new tree counts pending jobs by its own limits.
    policy.queues_mut().add_pending_job(b, bob);
    limited.queues[0].limits.pending_jobs = Some(1);
    limited.queues[0].queues[0].limits.pending_jobs = None;
    policy.replace_tree(Time(1), limited).unwrap();
    check(&policy, a, "ada", "p: ada 2 of 1");
    check(&policy, b, "bob", "p: bob 1 of 1");
}
