//! Actions of queues on jobs that leave all their GPUs idle, from the loads to the end of the job.

use std::time::Duration;

use muster_api::types::QueuesRequest;
use muster_model::JobId;
use muster_model::Outcome;
use muster_model::notice::NoticeEvent;
use muster_model::view::{ElementView, JobState};

use crate::site::{TestSite, until};
use crate::store::journal_kinds;

const QUEUES: &str = "queues:
- {name: kept}
- {name: short, idle: {after: 10m, action: cancel}}
- {name: turns, idle: {after: 10m, action: requeue}}
";

/// Returns a site whose GPUs all have a load of zero, with these queues.
async fn site() -> TestSite {
    let mut site = TestSite::new(|world| world.eager());
    site.poll_every = Duration::from_millis(2);
    site.notice_program = vec!["/bin/cat".into()];
    for index in 0..8 {
        site.world.set_busy("n1".into(), index, Some(0));
    }
    site.boot().await;
    let request = QueuesRequest { source: QUEUES.to_owned(), file: None };
    site.client().set_queues(&request).await.unwrap();
    site
}

/// Lets time pass until a job's first element fulfils a condition.
async fn pass(site: &TestSite, job: JobId, is_so: impl Fn(&ElementView) -> bool) -> ElementView {
    let client = site.client();
    until(async || {
        site.clock.jump(2);
        let view = client.job(job, None).await.unwrap().job;
        view.elements.into_iter().next().filter(&is_so)
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn the_queue_of_an_idle_job_ends_it_and_says_why() {
    let site = site().await;
    site.world.set_busy("n1".into(), 0, Some(90));
    let busy = site.submit("{name: busy, gpus: 1, queue: short, run: run}").await[0];
    site.reach(busy, JobState::Running).await;
    let kept = site.submit("{name: kept, gpus: 1, queue: kept, run: run}").await[0];
    let service =
        site.submit("{name: web, kind: service, gpus: 1, queue: short, run: run}").await[0];
    site.reach(service, JobState::Running).await;
    let idle = site
        .submit("{name: idle, gpus: 2, queue: short, run: run, notify: {mail: a@example.org, on: [idle, failure]}}")
        .await[0];
    let ended = pass(&site, idle, |element| element.outcome.is_some()).await;
    assert_eq!(ended.state, JobState::Cancelled);
    let outcome = ended.outcome.unwrap();
    let Outcome::IdleGpus { queue, gpus: 2, below_percent: 5, after } = &outcome else {
        panic!("{outcome:?}")
    };
    assert!(queue.as_str() == "short" && after.as_secs() >= 600, "{outcome}");
    let notices = site.client().job(idle, None).await.unwrap().notices;
    let events: Vec<NoticeEvent> = notices.iter().map(|notice| notice.event).collect();
    assert_eq!(events, [NoticeEvent::Idle, NoticeEvent::Failure]);
    // The service is marked only, the others not even that.
    for (job, is_marked) in [(busy, false), (kept, false), (service, true)] {
        let detail = site.client().job(job, None).await.unwrap();
        let seen = (detail.job.state, detail.idle_since.is_some());
        assert_eq!(seen, (JobState::Running, is_marked), "{}", detail.job.name);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_requeued_job_saves_first_and_starts_again_later() {
    let mut site = site().await;
    let job = site
        .submit("{name: idle, gpus: 1, queue: turns, run: save step, checkpoint: {signal: USR1, grace: 5m}}")
        .await[0];
    site.reach(job, JobState::Running).await;
    let waits = pass(&site, job, |element| element.state == JobState::Pending).await;
    assert!(matches!(waits.last_end, Some(Outcome::IdleGpus { .. })), "{waits:?}");
    assert_eq!(waits.checkpoint.map(|checkpoint| checkpoint.attempt), Some(1));
    pass(&site, job, |element| element.attempt == 2).await;
    // Both steps are in the journal, so a replay comes to the same state.
    site.stop();
    let kinds = journal_kinds(&site);
    let place = |kind: &str| kinds.iter().position(|other| other == kind).unwrap();
    assert!(place("checkpoint") < place("gpus_idle"), "{kinds:?}");
    site.boot().await;
    let view = site.client().job(job, None).await.unwrap().job;
    assert_eq!(view.elements[0].attempt, 2);
}
