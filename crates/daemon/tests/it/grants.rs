//! Permissions of users of a shared daemon, as tables: each field of a job and each route, by role
//! and by the grants of the queue. A field or route that is in no table fails the test, so that a
//! new one cannot be forgotten.

use std::collections::BTreeSet;

use muster_api::routes::ROUTES;
use muster_api::types::{QueuesRequest, ScaleRequest};
use muster_daemon::DaemonMode;
use muster_model::JobId;

use crate::site::{ANN, BOB, ROOT, TestSite, refused, request};

/// Queues of the tests. `labs` is a group, of which bob is a member.
const QUEUES: &str = "
default-queue: plain
queues:
  - {name: plain}
  - {name: urgent, priority: [-5, 5]}
  - {name: safe, protect: 10m, max-protect: 30m}
  - {name: served, max-protect: always}
  - {name: anns, users: ann}
  - {name: labs, groups: [labs], queues: [{name: inner, priority: [0, 9]}, {name: open, users: [ann, bob]}]}
";

/// Field, job and queue of a request, and the users that may submit it besides administrators: a
/// letter each for ann and bob.
const FIELDS: &[(&str, &str, &str, &str)] = &[
    ("priority", "{run: run, priority: 1}", "plain", ""),
    ("priority", "{run: run, priority: 1000000}", "plain", ""),
    ("priority", "{run: run, priority: 0}", "plain", "ab"),
    ("priority", "{run: run, priority: -3}", "plain", "ab"),
    ("priority", "{run: run, priority: 5}", "urgent", "ab"),
    ("priority", "{run: run, priority: 9}", "labs/inner", "b"),
    ("priority", "{run: run, priority: 1, array: 0-3}", "plain", ""),
    ("priority", "{run: run, priority: 1, kind: notebook}", "plain", ""),
    ("protect", "{run: run, protect: always}", "plain", ""),
    ("protect", "{run: run, protect: 1s}", "plain", ""),
    ("protect", "{run: run, protect: none}", "plain", "ab"),
    ("protect", "{run: run, protect: 30m}", "safe", "ab"),
    ("protect", "{run: run, protect: 31m}", "safe", ""),
    ("protect", "{run: run, protect: always}", "served", "ab"),
    ("protect", "{run: run, protect: always, array: 0-3}", "plain", ""),
    ("replicas", "{run: run, kind: service}", "plain", ""),
    ("replicas", "{run: run, kind: service, replicas: 1..3}", "safe", ""),
    ("replicas", "{run: run, kind: service, replicas: 0..3}", "plain", "ab"),
    ("replicas", "{run: run, kind: service, replicas: 2}", "served", "ab"),
    ("queue", "{run: run}", "anns", "a"),
    ("queue", "{run: run}", "labs/inner", "b"),
    ("queue", "{run: run}", "labs/open", "ab"),
    ("queue", "{run: run}", "plain", "ab"),
    ("kind", "{run: run, kind: notebook}", "plain", "ab"),
];

/// Fields that need no grant: they are bounded by quota and limits, which hold for every user, or
/// affect no other user.
const FREE: &[&str] = &[
    "after",
    "array",
    "begin",
    "checkpoint",
    "conda",
    "cpus",
    "early-stop",
    "env",
    "env-file",
    "error",
    "exclude",
    "extras",
    "gpu",
    "gpus",
    "gpus-per-task",
    "grace",
    "groups",
    "grow-after",
    "hold",
    "idle",
    "image",
    "kubernetes",
    "labels",
    "max-running",
    "memory",
    "metric",
    "min-nodes",
    "modules",
    "mounts",
    "name",
    "nodes",
    "notify",
    "output",
    "params",
    "port",
    "ray",
    "reservation",
    "restart",
    "run",
    "samples",
    "secrets",
    "seed",
    "slurm",
    "tasks",
    "tasks-per-node",
    "time",
    "topology",
    "uv",
    "venv",
    "verify",
    "workdir",
];

async fn shared(queues: Option<&str>) -> TestSite {
    let mut site = TestSite::new(|world| world.eager());
    site.mode = DaemonMode::System;
    site.boot().await;
    if let Some(source) = queues {
        let request = QueuesRequest { source: source.to_owned(), file: None };
        site.client_of(ROOT).set_queues(&request).await.unwrap();
    }
    site
}

/// Submits a job as a user to a queue.
async fn submit(
    site: &TestSite,
    who: u32,
    text: &str,
    queue: Option<&str>,
) -> Result<JobId, muster_api::ClientError> {
    let mut request = request(text);
    if let Some(queue) = queue {
        request.overrides.insert("queue".to_owned(), queue.into());
    }
    request.key = format!("{who}-{queue:?}-{text}");
    site.client_of(who).submit(&request).await.map(|answer| answer.jobs[0].job)
}

#[tokio::test(flavor = "multi_thread")]
async fn every_field_is_given_to_those_whose_queue_grants_it() {
    let site = shared(Some(QUEUES)).await;
    for (field, text, queue, granted) in FIELDS {
        submit(&site, ROOT, text, Some(queue))
            .await
            .unwrap_or_else(|error| panic!("{field} {text}: {error}"));
        for (who, letter) in [(ANN, 'a'), (BOB, 'b')] {
            let answer = submit(&site, who, text, Some(queue)).await;
            if granted.contains(letter) {
                answer.unwrap_or_else(|error| panic!("{letter} {text} in {queue}: {error}"));
            } else {
                let body = refused(answer);
                assert_eq!(body.code, "forbidden", "{letter} {text} in {queue}: {body:?}");
                assert_eq!(body.hints.len(), 1, "{body:?}");
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_queue_file_nothing_is_granted() {
    let site = shared(None).await;
    for (field, text, queue, granted) in FIELDS.iter().filter(|(_, _, queue, _)| *queue == "plain")
    {
        let answer = submit(&site, ANN, text, None).await;
        assert_eq!(answer.is_ok(), granted.contains('a'), "{field} {text} {queue}: {answer:?}");
        submit(&site, ROOT, text, None).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_owner_of_a_personal_daemon_is_asked_nothing() {
    let mut site = TestSite::new(|world| world.eager());
    site.boot().await;
    for (_, text, _, _) in FIELDS.iter().filter(|(_, _, queue, _)| *queue == "plain") {
        submit(&site, ANN, text, None).await.unwrap();
    }
}

#[test]
fn no_field_of_a_job_is_forgotten() {
    let schema = muster_spec::schema();
    let fields: BTreeSet<&str> =
        schema["properties"].as_object().unwrap().keys().map(String::as_str).collect();
    let reported: BTreeSet<&str> =
        FIELDS.iter().map(|(field, ..)| *field).chain(FREE.iter().copied()).collect();
    assert_eq!(fields, reported, "say in FIELDS or FREE who may ask for it");
}

#[tokio::test(flavor = "multi_thread")]
async fn replicas_are_not_given_later_either() {
    let site = shared(None).await;
    let job = submit(&site, ANN, "{run: run, kind: service, replicas: 0..3}", None).await.unwrap();
    let scale = |guaranteed, max| ScaleRequest { guaranteed, max };
    let body = refused(site.client_of(ANN).scale(job, &scale(1, 3)).await);
    assert_eq!(body.code, "forbidden");
    site.client_of(ANN).scale(job, &scale(0, 2)).await.unwrap();
    site.client_of(ROOT).scale(job, &scale(2, 2)).await.unwrap();
    // Setting fewer than an administrator set is no grant.
    site.client_of(ANN).scale(job, &scale(1, 2)).await.unwrap();
    assert_eq!(refused(site.client_of(ANN).scale(job, &scale(2, 2)).await).code, "forbidden");
}

#[tokio::test(flavor = "multi_thread")]
async fn queues_say_what_one_may_do_there() {
    let site = shared(Some(QUEUES)).await;
    let queues = site.client_of(BOB).queues().await.unwrap().queues;
    let access = |name: &str| {
        queues.iter().find(|one| one.name.as_str() == name).unwrap().access.clone().unwrap()
    };
    assert!(
        !access("anns").may_submit && access("labs/inner").may_submit && access("plain").may_submit
    );
    assert_eq!(access("urgent").max_priority, 5);
    assert_eq!(access("plain").max_priority, 0);
    let of_admin = site.client_of(ROOT).queues().await.unwrap().queues;
    assert!(of_admin.iter().all(|queue| queue.access.is_none()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refusal_says_who_may() {
    let site = shared(Some(QUEUES)).await;
    let body = refused(submit(&site, BOB, "{run: run}", Some("anns")).await);
    assert_eq!(body.message, "only ann may submit to queue anns");
    let body = refused(submit(&site, ANN, "{run: run}", Some("labs/inner")).await);
    assert_eq!(body.message, "only members of labs may submit to queue labs/inner");
}

/// Users that may use each route: everybody, the owner of the job and administrators, or
/// administrators alone. `users.rs` tests the rejections.
const WHO: &[(&str, &str)] = &[
    ("Attach", "owner"),
    ("Bulk", "owner"),
    ("Cancel", "owner"),
    ("Changes", "everybody"),
    ("Checkpoint", "owner"),
    ("Daemon", "everybody"),
    ("Drain", "admin"),
    ("DropReservation", "admin"),
    ("Elements", "everybody"),
    ("Explain", "everybody"),
    ("GpuLoads", "everybody"),
    ("Hold", "owner"),
    ("Job", "everybody"),
    ("Jobs", "everybody"),
    ("Logs", "owner"),
    ("Nodes", "everybody"),
    ("OpenApi", "everybody"),
    ("Queues", "everybody"),
    ("Release", "owner"),
    ("Requeue", "owner"),
    ("Reservations", "everybody"),
    ("Reserve", "admin"),
    ("Resume", "admin"),
    ("Saved", "owner"),
    ("Scale", "owner"),
    ("SetQueues", "admin"),
    ("Snapshot", "everybody"),
    ("StopDaemon", "admin"),
    ("Submit", "everybody"),
    ("Timeline", "everybody"),
    ("Usage", "everybody"),
    ("UsageReport", "everybody"),
];

#[test]
fn no_route_is_forgotten() {
    let routes: BTreeSet<String> = ROUTES.iter().map(|route| format!("{:?}", route.id)).collect();
    let reported: BTreeSet<String> = WHO.iter().map(|(route, _)| (*route).to_owned()).collect();
    assert_eq!(routes, reported, "say who may use it, and play it in users.rs");
}
