//! Notices about jobs: written with their events, sent once, retried, and told to their owner only.

use std::ffi::OsString;
use std::path::Path;

use muster_api::Client;
use muster_daemon::DaemonMode;
use muster_model::JobId;
use muster_model::notice::{NoticeEvent, NoticeState, NoticeView};
use muster_model::view::JobState;

use crate::site::{ANN, BOB, TestSite, until};

const SECRET: &str = "https://hooks.example.org/secret-path";

/// Returns a program that appends its order to a file.
pub fn collects(file: &Path) -> Vec<OsString> {
    // In one write, since several run at once.
    program(&format!("order=$(cat); printf '%s\\n' \"$order\" >> {}", file.display()))
}

fn program(text: &str) -> Vec<OsString> {
    ["/bin/sh", "-c", text].map(OsString::from).to_vec()
}

async fn notices(client: &Client, job: JobId) -> Vec<NoticeView> {
    client.job(job, None).await.unwrap().notices
}

/// Waits until every notice of a job is sent; returns them.
pub async fn all_sent(client: &Client, job: JobId, count: usize) -> Vec<NoticeView> {
    until(async || {
        let notices = notices(client, job).await;
        let sent = notices.iter().filter(|one| matches!(one.state, NoticeState::Sent { .. }));
        (sent.count() == count).then_some(notices)
    })
    .await
}

/// Returns the events and texts of the orders in a file.
fn orders(file: &Path) -> Vec<(String, String)> {
    let text = std::fs::read_to_string(file).unwrap();
    let order = |line: &str| {
        let order: serde_json::Value = serde_json::from_str(line).unwrap();
        let notice = &order["notice"];
        let word = |name: &str| notice[name].as_str().unwrap().to_owned();
        (word("event"), word("text"))
    };
    text.lines().map(order).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn each_event_that_a_rule_names_is_sent_once() {
    let mut site = TestSite::new(|world| world.eager());
    let file = site.dir.path().join("orders");
    site.notice_program = collects(&file);
    site.boot().await;
    let client = site.client();
    let all = site
        .submit(&format!(
            "{{name: a, gpus: 1, run: exit 3, notify: [{SECRET}, {{mail: ops@example.org, on: [start, failure]}}, {{mail: x@example.org, on: start}}]}}"
        ))
        .await[0];
    let quiet = site.submit("{name: b, gpus: 1, run: exit 0}").await[0];
    let ok = site
        .submit("{name: c, gpus: 1, run: exit 0, notify: [{mail: c@example.org, on: failure}, d@example.org]}")
        .await[0];
    site.reach(all, JobState::Failed).await;
    site.reach(ok, JobState::Done).await;
    let sent = all_sent(&client, all, 4).await;
    let told: Vec<_> = sent.iter().map(|one| (one.event, one.to.as_str())).collect();
    assert_eq!(
        told,
        [
            (NoticeEvent::Start, "ops@example.org"),
            (NoticeEvent::Start, "x@example.org"),
            (NoticeEvent::Failure, "hooks.example.org"),
            (NoticeEvent::Failure, "ops@example.org"),
        ]
    );
    let sent = all_sent(&client, ok, 1).await;
    assert_eq!((sent[0].event, sent[0].to.as_str()), (NoticeEvent::End, "d@example.org"));
    assert_eq!(notices(&client, quiet).await, []);
    let mut texts = orders(&file);
    texts.sort();
    let words: Vec<&str> = texts.iter().map(|(event, _)| event.as_str()).collect();
    assert_eq!(words, ["end", "failure", "failure", "start", "start"]);
    assert!(
        texts[1].1.starts_with("failed after ") && texts[1].1.ends_with(": rank 0 exited with 3")
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_sent_is_tried_again_also_by_the_next_daemon() {
    let mut site = TestSite::start().await;
    site.notice_program = program("cat > /dev/null; echo no route >&2; exit 1");
    site.restart().await;
    let job = site.submit("{name: a, gpus: 1, run: exit 0, notify: ann@example.org}").await[0];
    site.reach(job, JobState::Done).await;
    let client = site.client();
    let failed = until(async || {
        notices(&client, job).await.pop().filter(
            |one| matches!(&one.state, NoticeState::Waiting { tries: 1, error: Some(error), .. } if error == "no route"),
        )
    })
    .await;
    let NoticeState::Waiting { next, .. } = failed.state else { unreachable!("matched above") };
    assert!(next > failed.at);

    // The next daemon sends it when it is due, and once.
    let file = site.dir.path().join("orders");
    site.notice_program = collects(&file);
    site.clock.jump(3600);
    site.restart().await;
    let client = site.client();
    all_sent(&client, job, 1).await;
    site.restart().await;
    let other = site.submit("{name: b, gpus: 1, run: exit 0, notify: ann@example.org}").await[0];
    site.reach(other, JobState::Done).await;
    all_sent(&site.client(), other, 1).await;
    assert_eq!(orders(&file).len(), 2, "the first one was not sent again");
}

#[tokio::test(flavor = "multi_thread")]
async fn other_users_see_neither_notices_nor_addresses() {
    let mut site = TestSite::new(|world| world.eager());
    site.mode = DaemonMode::System;
    site.notice_program = program("cat > /dev/null");
    site.boot().await;
    let text = format!("{{name: a, gpus: 1, run: exit 0, notify: {SECRET}}}");
    let job = site.submit(&text).await[0];
    site.reach(job, JobState::Done).await;
    let mine = all_sent(&site.client_of(ANN), job, 1).await;
    assert_eq!(mine[0].to, "hooks.example.org");
    let seen = site.client_of(BOB).job(job, None).await.unwrap();
    assert_eq!(seen.notices, []);
    for client in [site.client_of(ANN), site.client_of(BOB)] {
        let detail = serde_json::to_string(&client.job(job, None).await.unwrap()).unwrap();
        assert!(!detail.contains("secret-path"), "{detail}");
    }
}
