//! State that is kept per user: usage, fair share, idempotency keys.

use muster_api::types::UsageList;
use muster_model::view::{JobState, JobView};

use crate::actor::SiteUser;
use crate::raw::{as_user, number, send, submission};
use crate::site::SharedSite;

fn gpu_secs(actor: SiteUser<'_>, user: &str) -> u64 {
    let list: UsageList = actor.words("usage --json").json();
    list.rows.iter().filter(|row| row.user.as_str() == user).map(|row| row.gpu_secs).sum()
}

#[test]
#[ignore = "needs root: system mode runs jobs as two different users"]
fn the_user_with_less_usage_starts_first() {
    let site = SharedSite::with_gpus(1);
    let alice = site.alice();
    let mallory = site.mallory();
    let queues = mallory.write("queues.yaml", "fair-share-after: 0s\nqueues: [{name: default}]\n");
    site.root().words(&format!("queues --set {}", queues.display())).ok();
    let hers = alice.account.name.as_str();
    let his = mallory.account.name.as_str();
    let first = alice.submit("--gpus 1", &alice.gate("go"));
    alice.until_state(first, JobState::Running);
    // Two jobs of the first user are pending before one of the second.
    let waiting: Vec<u64> = (0..2).map(|_| alice.submit("--gpus 1", "true")).collect();
    let other = mallory.submit("--gpus 1", "true");
    site.until("she has used a GPU-second", || gpu_secs(mallory, hers) >= 1);
    assert_eq!(gpu_secs(alice, his), 0);
    alice.write("go", "");
    for job in [&waiting[..], &[first]].concat() {
        alice.words(&format!("wait {job}")).ok();
    }
    mallory.words(&format!("wait {other}")).ok();

    let started = |job: u64| {
        let view: JobView = alice.show(job).job;
        view.started.unwrap()
    };
    assert!(started(other) < started(waiting[0]), "he was served last though he had used nothing");
    assert!(
        started(waiting[0]) <= started(waiting[1]),
        "and within one user the older job goes first"
    );

    // Each row is its user's: jobs, and seconds of a GPU.
    let list: UsageList = site.root().words("usage --json").json();
    let jobs = |user: &str| {
        list.rows.iter().filter(|row| row.user.as_str() == user).map(|row| row.jobs).sum::<u64>()
    };
    assert_eq!((jobs(hers), jobs(his), jobs("root")), (3, 1, 0), "{list:?}");
    assert!(gpu_secs(alice, hers) > gpu_secs(alice, his));
}

#[test]
#[ignore = "needs root: system mode runs jobs as two different users"]
fn a_key_is_one_submission_of_one_user() {
    let site = SharedSite::with_gpus(0);
    let alice = site.alice();
    let mallory = site.mallory();
    let socket = site.socket();
    let submit = |actor: SiteUser<'_>, script: &str| {
        let request = submission("the-same-key", script);
        number(&as_user(actor.account.uid, actor.account.gid, || {
            send(&socket, "POST /v1/jobs", "", &request)
        }))
    };
    let hers = submit(alice, "echo hers");
    let his = submit(mallory, "echo his");
    assert_ne!(hers, his, "one user's key answered with another's job");
    assert_eq!(submit(alice, "echo hers"), hers, "a repeated submission is one job");
    assert_eq!(submit(mallory, "echo other"), his);
    assert_eq!(alice.result(hers), "hers\n");
    assert_eq!(mallory.result(his), "his\n");
    assert_eq!(alice.show(hers).job.user.as_str(), alice.account.name);
    assert_eq!(alice.show(his).job.user.as_str(), mallory.account.name);
}

#[test]
#[ignore = "needs root: system mode runs jobs as two different users"]
fn a_name_means_ones_own_job() {
    let site = SharedSite::with_gpus(1);
    let alice = site.alice();
    let mallory = site.mallory();
    let hers = alice.submit("--gpus 1 --name train", &alice.gate("go"));
    alice.until_state(hers, JobState::Running);
    // The second user's job is newer and has the same name; each user gets their own job.
    let his = mallory.submit("--gpus 1 --name train", "true");
    alice.words("cancel train").ok();
    alice.words(&format!("wait {hers}")).code(130);
    mallory.words("wait train").ok();
    assert_eq!(mallory.show(his).job.state, JobState::Done);
}
