//! A disk that is full and a clock that jumps.

use muster_api::JobAction;
use muster_api::query::JobFilter;
use muster_api::types::ActionRequest;
use muster_backends::driver::BackendCommand;
use muster_backends::fake::Script;
use muster_model::Attempt;
use muster_model::view::JobState;

use crate::site::{StoreFault, TestSite, refused, request, until};

#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_refuses_requests_and_loses_no_observation() {
    let mut site = TestSite::new(|world| world);
    site.boot().await;
    let client = site.client();
    let job = site.submit("{name: one, gpus: 1, run: exit 0}").await[0];
    site.reach(job, JobState::Starting).await;

    site.switch.set(StoreFault::Full);
    let body = refused(client.submit(&request("{name: two, gpus: 1, run: exit 0}")).await);
    assert_eq!(body.code, "store_unavailable");
    assert!(body.hints[0].contains("free some space"), "{body:?}");
    let cancel = client.act(job, JobAction::Cancel, ActionRequest { index: None }).await;
    assert_eq!(refused(cancel).code, "store_unavailable");
    site.world.run_until_idle();
    until(async || {
        let warnings = client.info().await.unwrap().warnings;
        warnings.iter().any(|warning| warning.contains("no space is left")).then_some(())
    })
    .await;
    assert_eq!(client.jobs(JobFilter::default()).await.unwrap().jobs.len(), 1, "reading goes on");

    site.switch.set(StoreFault::None);
    until(async || {
        site.world.run_until_idle();
        (client.job(job, None).await.unwrap().job.state == JobState::Done).then_some(())
    })
    .await;
    assert!(client.info().await.unwrap().warnings.is_empty());
    site.submit("{name: two, gpus: 1, run: exit 0}").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_clock_that_jumps_neither_ends_nor_revives_anything() {
    let mut site = TestSite::stepped().await;
    let client = site.client();
    let running = site.submit("{name: long, gpus: 1, time: 1m, run: run}").await[0];
    let started = site.reach(running, JobState::Running).await.started;
    let later = site.submit("{name: later, gpus: 1, begin: +1h, run: exit 0}").await[0];
    let before = client.info().await.unwrap().now;

    site.clock.jump(-7200);
    site.core.as_ref().unwrap().wake();
    let job = site.submit("{name: now, gpus: 1, run: exit 0}").await[0];
    let view = site.reach(job, JobState::Done).await;
    assert!(view.submitted >= before, "the time line does not go back");
    assert_eq!(client.job(later, None).await.unwrap().job.state, JobState::Pending);
    site.restart().await;
    assert!(client.info().await.unwrap().now >= view.submitted);

    site.clock.jump(3 * 7200);
    site.core.as_ref().unwrap().wake();
    site.reach(later, JobState::Done).await;
    let view = client.job(running, None).await.unwrap().job;
    assert_eq!(
        (view.state, view.started),
        (JobState::Running, started),
        "the limit is its supervisor's to enforce"
    );
}

/// The backend never reports that the first attempt is ready. A restart in between neither loses
/// nor shortens the wait.
#[tokio::test(flavor = "multi_thread")]
async fn a_gang_that_is_never_ready_is_stopped_and_started_once_more() {
    let mut site = TestSite::new(|world| {
        world.scripted(|order, task| {
            let script = Script::by_command(order, task);
            let prepare_steps = if order.id.attempt == Attempt(1) { u64::MAX / 2 } else { 1 };
            Script { prepare_steps, ..script }
        })
    });
    site.is_stepped = true;
    site.boot().await;
    let job = site.submit("{name: mute, gpus: 4, run: run}").await[0];
    site.reach(job, JobState::Starting).await;
    site.clock.jump(100);
    site.restart().await;
    site.clock.jump(100);
    // The wait continues after the restart: so far, only the first attempt was ordered.
    site.submit("{name: other, gpus: 1, run: run}").await;
    let stops = |site: &TestSite| {
        let commands = site.world.commands();
        commands.iter().filter(|command| matches!(command, BackendCommand::Stop(..))).count()
    };
    assert_eq!(stops(&site), 0);
    site.clock.jump(21);
    let view = site.reach(job, JobState::Running).await;
    assert_eq!((view.elements[0].attempt, stops(&site)), (2, 1));
}
