//! Output of tasks over the API.

use futures_util::StreamExt;
use muster_api::Client;
use muster_api::query::LogQuery;
use muster_model::JobId;
use muster_model::view::JobState;

use crate::site::{TestSite, refused, until};

async fn read(client: &Client, job: JobId, query: LogQuery) -> String {
    let mut stream = client.logs(job, query).await.unwrap();
    let mut text = Vec::new();
    while let Some(chunk) = stream.next().await {
        text.extend_from_slice(&chunk.unwrap());
    }
    String::from_utf8(text).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_output_of_each_rank_can_be_read() {
    let site = TestSite::start().await;
    let client = site.client();
    let job = site.submit("{name: gang, tasks: 3, gpus-per-task: 1, run: exit 0}").await[0];
    site.reach(job, JobState::Done).await;
    for rank in 0..3 {
        let text = read(&client, job, LogQuery { rank: Some(rank), ..LogQuery::default() }).await;
        assert_eq!(text, format!("rank {rank} of {job}[0]#1\n"));
    }
    let tail = LogQuery { tail: Some(0), ..LogQuery::default() };
    assert_eq!(read(&client, job, tail).await, "");
    let bad = LogQuery { rank: Some(3), ..LogQuery::default() };
    assert!(refused(client.logs(job, bad).await).message.contains("ranks 0 to 2"));
    let bad = LogQuery { attempt: Some(2), ..LogQuery::default() };
    assert_eq!(refused(client.logs(job, bad).await).code, "not_found");
}

#[tokio::test(flavor = "multi_thread")]
async fn following_waits_for_the_start_and_ends_with_the_task() {
    let mut site = TestSite::new(|world| world);
    site.boot().await;
    let job = site.submit("{name: slow, gpus: 1, hold: true, run: sleep 5}").await[0];
    let client = site.client();
    let early = refused(client.logs(job, LogQuery::default()).await);
    assert_eq!(early.code, "conflict", "{early:?}");
    let follower = {
        let client = site.client();
        tokio::spawn(async move {
            read(&client, job, LogQuery { follow: true, ..LogQuery::default() }).await
        })
    };
    let release = muster_api::types::ActionRequest::default();
    client.act(job, muster_api::JobAction::Release, release).await.unwrap();
    until(async || {
        site.world.run_until_idle();
        follower.is_finished().then_some(())
    })
    .await;
    assert_eq!(follower.await.unwrap(), format!("rank 0 of {job}[0]#1\n"));
}

#[tokio::test(flavor = "multi_thread")]
async fn following_goes_on_with_the_next_attempt() {
    let site = TestSite::start().await;
    let client = site.client();
    let job =
        site.submit("{name: flaky, gpus: 1, restart: {max: 2, backoff: 1s}, run: exit 1}").await[0];
    let follower = tokio::spawn(async move {
        read(&client, job, LogQuery { follow: true, ..LogQuery::default() }).await
    });
    // Each restart waits for its back-off; the output of an attempt is only followed while it is
    // the last one.
    for attempt in 1..=3 {
        let client = site.client();
        until(async || {
            let view = client.job(job, None).await.unwrap().job;
            (view.elements.first()?.attempt >= attempt).then_some(())
        })
        .await;
        site.clock.jump(60);
        site.core.as_ref().unwrap().wake();
    }
    let text = follower.await.unwrap();
    assert!(text.ends_with("[0]#3\n"), "{text}");
}
