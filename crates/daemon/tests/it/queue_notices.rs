//! Notices of queues: about all their jobs, to an address that the users of the queue do not learn.

use std::path::Path;

use muster_api::types::QueuesRequest;
use muster_daemon::DaemonMode;
use muster_model::NoticeOrder;
use muster_model::notice::NoticeState;
use muster_model::view::JobState;

use crate::notices::{all_sent, collects};
use crate::site::{ANN, ROOT, TestSite, refused, until};

const SECRET: &str = "https://hooks.example.org/team-secret";

/// Returns the orders that were given to the program, oldest first.
fn orders(file: &Path) -> Vec<NoticeOrder> {
    let text = std::fs::read_to_string(file).unwrap_or_default();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

async fn set_queues(site: &TestSite, source: String) {
    let request = QueuesRequest { source, file: None };
    site.client_of(ROOT).set_queues(&request).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_team_is_told_of_the_jobs_of_its_queue() {
    let mut site = TestSite::new(|world| world.eager());
    site.mode = DaemonMode::System;
    let file = site.dir.path().join("orders");
    site.notice_program = collects(&file);
    site.boot().await;
    let queues = |url: &str| {
        format!(
            "queues: [{{name: team, notify: [{url}], queues: [{{name: a}}, {{name: quiet, notify: none}}]}}, {{name: other}}]"
        )
    };
    set_queues(&site, queues(SECRET)).await;
    // Its own notice goes as its user.
    let told = site
        .submit("{name: told, queue: team/a, gpus: 1, run: exit 3, notify: {mail: ann@example.org, on: failure}}")
        .await[0];
    let quiet = site.submit("{name: quiet, queue: team/quiet, gpus: 1, run: exit 3}").await[0];
    let other = site.submit("{name: other, queue: other, gpus: 1, run: exit 3}").await[0];
    for job in [told, quiet, other] {
        site.reach(job, JobState::Failed).await;
    }
    let sent = until(async || Some(orders(&file)).filter(|sent| sent.len() == 2)).await;
    let mut sent: Vec<(String, String)> = sent
        .into_iter()
        .map(|order| (order.sender.unwrap().user.to_string(), order.notice.name))
        .collect();
    sent.sort();
    assert_eq!(sent, [("ann".to_owned(), "told".to_owned()), ("nobody".into(), "told".into())]);

    // The user sees that it was sent, but not the whole address; so after a change of the file and of the daemon.
    all_sent(&site.client_of(ANN), told, 2).await;
    let detail = site.client_of(ANN).job(told, None).await.unwrap();
    let text = serde_json::to_string(&detail).unwrap();
    assert!(text.contains("hooks.example.org of queue team/a"), "{text}");
    assert!(!text.contains("team-secret"), "{text}");
    set_queues(&site, queues("ops@example.org")).await;
    site.restart().await;
    let later = site.submit("{name: later, queue: team/a, gpus: 1, run: exit 0}").await[0];
    site.reach(later, JobState::Done).await;
    all_sent(&site.client_of(ANN), later, 1).await;
    assert_eq!(orders(&file).pop().unwrap().to.label(), "ops@example.org");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_error_of_a_queues_address_is_not_shown_to_users() {
    let mut site = TestSite::new(|world| world.eager());
    site.notice_program =
        ["/bin/sh", "-c", "cat > /dev/null; echo team-secret >&2; exit 1"].map(Into::into).to_vec();
    site.boot().await;
    let source = format!("queues: [{{name: team, notify: {SECRET}}}]");
    let request = QueuesRequest { source, file: None };
    site.client().set_queues(&request).await.unwrap();
    let job = site.submit("{name: a, gpus: 1, run: exit 0}").await[0];
    site.reach(job, JobState::Done).await;
    let error = until(async || {
        let notice = site.client().job(job, None).await.unwrap().notices.pop()?;
        let NoticeState::Waiting { tries: 1, error, .. } = notice.state else { return None };
        error
    })
    .await;
    assert_eq!(error, "the log of the daemon says why");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_queue_runs_no_commands() {
    let site = TestSite::start().await;
    let source = "queues: [{name: a, notify: {command: curl x}}]".to_owned();
    let refusal = refused(site.client().set_queues(&QueuesRequest { source, file: None }).await);
    let text = serde_json::to_string(&refusal).unwrap();
    assert!(text.contains("takes no command"), "{text}");
}
