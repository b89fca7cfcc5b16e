//! The shared daemon: what each user may see and do.

use muster_api::JobAction;
use muster_api::query::{JobFilter, LogQuery, UsageQuery};
use muster_api::types::{ActionRequest, DrainRequest, QueuesRequest, ReserveRequest, SavedRequest};
use muster_daemon::DaemonMode;
use muster_model::view::JobState;
use muster_model::{JobId, Reason, Span};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::site::{ANN, ANN_ANEW, BOB, ROOT, TestSite, refused, request, until};

const WHOLE: ActionRequest = ActionRequest { index: None };

async fn shared() -> (TestSite, JobId) {
    let mut site = TestSite::new(|world| world.eager());
    site.mode = DaemonMode::System;
    site.boot().await;
    let job = site.submit("{name: secret, gpus: 1, run: run}").await[0];
    site.reach(job, JobState::Running).await;
    (site, job)
}

#[tokio::test(flavor = "multi_thread")]
async fn others_see_that_a_job_runs_and_nothing_of_its_inside() {
    let (site, job) = shared().await;
    let bob = site.client_of(BOB);
    assert_eq!(bob.jobs(JobFilter::default()).await.unwrap().jobs.len(), 1);
    let detail = bob.job(job, None).await.unwrap();
    assert!(detail.commands.is_none() && detail.workdir.is_none() && detail.logs.is_empty());
    let text = serde_json::to_string(&detail).unwrap();
    assert!(!text.contains("hunter2") && !text.contains("/tmp"), "{text}");
    assert_eq!(refused(bob.logs(job, LogQuery::default()).await).code, "forbidden");
    let attach = bob.attach(job, muster_api::query::AttachQuery::default()).await;
    assert_eq!(refused(attach).code, "forbidden");

    let own = site.client_of(ANN).job(job, None).await.unwrap();
    assert_eq!(own.commands.unwrap()["main"], "run");
    let admin = site.client_of(ROOT).job(job, None).await.unwrap();
    assert!(admin.commands.is_some());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_an_administrator_holds_its_user_cannot_release() {
    let (mut site, _) = shared().await;
    let job = site.submit("{name: held, gpus: 1, hold: true, run: run}").await[0];
    let act = async |site: &TestSite, uid, action| {
        let answer = site.client_of(uid).act(job, action, WHOLE).await;
        answer.map(|answer| answer.message)
    };
    let why =
        async |site: &TestSite| site.client().explain(job, None).await.unwrap().explanation.reasons;
    let by_root = Reason::HeldByAdmin { by: "root".into() };

    // 1. In addition to the user's own hold, and after a restart.
    assert_eq!(
        act(&site, ROOT, JobAction::Hold).await.unwrap(),
        "held; its user cannot release it"
    );
    site.restart().await;
    let refusal = refused(act(&site, ANN, JobAction::Release).await);
    assert_eq!(refusal.code, "forbidden");
    assert!(refusal.message.contains("is held by root, an administrator"), "{}", refusal.message);
    assert_eq!(why(&site).await, std::slice::from_ref(&by_root));
    let view = site.client().job(job, None).await.unwrap().job;
    assert_eq!((view.state, view.waiting_for), (JobState::Held, Some(by_root)));

    // 2. The user's own hold stays.
    let word = act(&site, ROOT, JobAction::Release).await.unwrap();
    assert_eq!(word, "released; its user holds it too, so it stays held");
    assert_eq!(why(&site).await, [Reason::Held]);
    assert_eq!(act(&site, ANN, JobAction::Release).await.unwrap(), "released");
    site.reach(job, JobState::Running).await;

    // 3. An administrator's own job is held like any user's; a job without a user's hold is
    // released at once.
    let client = site.client_of(ROOT);
    let own =
        client.submit(&request("{name: own, gpus: 1, hold: true, run: run}")).await.unwrap().jobs
            [0]
        .job;
    assert_eq!(client.act(own, JobAction::Hold, WHOLE).await.unwrap().message, "held");
    let reasons = client.explain(own, None).await.unwrap().explanation.reasons;
    assert_eq!(reasons, [Reason::Held]);
    assert_eq!(client.act(own, JobAction::Release, WHOLE).await.unwrap().message, "released");
    site.reach(own, JobState::Running).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn others_cannot_act_and_admins_can() {
    let (site, job) = shared().await;
    let ann = site.client_of(ANN);
    let bob = site.client_of(BOB);
    let root = site.client_of(ROOT);
    for action in [
        JobAction::Cancel,
        JobAction::Hold,
        JobAction::Release,
        JobAction::Requeue,
        JobAction::Checkpoint,
    ] {
        assert_eq!(refused(bob.act(job, action, WHOLE).await).code, "forbidden", "{action:?}");
    }
    let word = SavedRequest { label: "step 1".to_owned(), ..SavedRequest::default() };
    assert_eq!(refused(bob.saved(job, &word).await).code, "forbidden");
    let own = refused(ann.saved(job, &word).await);
    assert_eq!(own.code, "conflict", "this backend has no supervisor to tell");
    assert!(own.hints[0].contains("$MUSTER_CHECKPOINT_FILE"), "{:?}", own.hints);
    assert_eq!(refused(bob.stop_daemon().await).code, "forbidden");
    assert_eq!(refused(bob.drain("n1", &DrainRequest::default()).await).code, "forbidden");
    let mine = ReserveRequest {
        gpus: Some(1),
        users: vec!["ann".to_owned()],
        length: Span::from_secs(60),
        ..ReserveRequest::default()
    };
    assert_eq!(refused(ann.reserve("mine", &mine).await).code, "forbidden");
    assert_eq!(refused(ann.drop_reservation("mine").await).code, "forbidden");
    let queues = QueuesRequest { source: "queues: [{name: mine}]".to_owned(), file: None };
    assert_eq!(refused(bob.set_queues(&queues).await).code, "forbidden");
    assert_eq!(
        refused(ann.drain("n1", &DrainRequest::default()).await).code,
        "forbidden",
        "owning a job does not make an admin"
    );
    root.act(job, JobAction::Cancel, WHOLE).await.unwrap();
    site.reach(job, JobState::Cancelled).await;
    for action in [JobAction::Cancel, JobAction::Requeue] {
        assert_eq!(
            refused(bob.act(job, action, WHOLE).await).code,
            "forbidden",
            "ended jobs have an owner, too"
        );
    }
    assert_eq!(refused(bob.logs(job, LogQuery::default()).await).code, "forbidden");
    root.drain("n1", &DrainRequest { reason: "cleaning".to_owned(), ..DrainRequest::default() })
        .await
        .unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_belongs_to_its_user() {
    let (site, _) = shared().await;
    let same = request("{name: mine, gpus: 1, run: run}");
    let of_ann = site.client_of(ANN).submit(&same).await.unwrap();
    let of_bob = site.client_of(BOB).submit(&same).await.unwrap();
    assert_ne!(of_ann.jobs[0].job, of_bob.jobs[0].job);
    let bobs = JobFilter { user: Some("bob".to_owned()), ..JobFilter::default() };
    let jobs = site.client_of(ANN).jobs(bobs).await.unwrap().jobs;
    assert_eq!(jobs[0].job, of_bob.jobs[0].job, "the submitter is who the kernel says");
}

#[tokio::test(flavor = "multi_thread")]
async fn one_user_cannot_take_all_connections() {
    let (site, _) = shared().await;
    let ann = site.client_of(ANN);
    let mut idle = Vec::new();
    let busy = until(async || {
        idle.push(tokio::net::UnixStream::connect(ann.socket().unwrap()).await.unwrap());
        match ann.info().await {
            Err(muster_api::ClientError::Api(body)) => Some(body),
            _ => None,
        }
    })
    .await;
    assert_eq!(busy.code, "busy");
    assert!(idle.len() >= 200, "refused after {} connections", idle.len());
    site.client_of(BOB).info().await.unwrap();
    drop(idle);
    until(async || ann.info().await.ok()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_beyond_the_limit_is_not_held() {
    let (site, _) = shared().await;
    let socket = site.client_of(ANN).socket().unwrap().to_owned();
    let mut idle = Vec::new();
    for _ in 0..600 {
        idle.push(tokio::net::UnixStream::connect(&socket).await.unwrap());
    }
    // 1. Most are closed without a request; those within the limit stay open.
    let is_open = |stream: &tokio::net::UnixStream| matches!(stream.try_read(&mut [0; 512]), Err(error) if error.kind() == std::io::ErrorKind::WouldBlock);
    until(async || (idle.iter().filter(|stream| is_open(stream)).count() <= 256).then_some(()))
        .await;
    assert!(idle.iter().any(is_open), "those who came first");
    // 2. Other users are served meanwhile.
    site.client_of(BOB).info().await.unwrap();
    // 3. A connection beyond the limit gets one response to its requests, and is closed.
    let mut beyond = tokio::net::UnixStream::connect(&socket).await.unwrap();
    let request = b"GET /v1/info HTTP/1.1\r\nHost: muster\r\n\r\n";
    beyond.write_all(&request.repeat(2)).await.unwrap();
    let mut answer = String::new();
    beyond.read_to_string(&mut answer).await.unwrap();
    assert!(
        answer.starts_with("HTTP/1.1 503 ") && answer.contains("connection: close"),
        "{answer}"
    );
    assert_eq!(answer.matches("HTTP/1.1").count(), 1, "{answer}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_personal_daemon_serves_its_owner_only() {
    let mut site = TestSite::new(|world| world.eager());
    site.boot().await;
    let socket = site.dir.path().join("stranger.sock");
    struct Stranger;
    impl muster_daemon::auth::Peers for Stranger {
        fn peer(&self, _: &tokio::net::UnixStream) -> std::io::Result<muster_daemon::auth::Peer> {
            Ok(muster_daemon::auth::Peer { uid: 4_000_000, gid: 4_000_000 })
        }
        fn groups(
            &self,
            _: &muster_model::UserName,
            _: u32,
        ) -> std::sync::Arc<[std::sync::Arc<str>]> {
            std::sync::Arc::default()
        }

        fn resolve(&self, _: muster_daemon::auth::Peer) -> (muster_model::UserName, bool) {
            ("stranger".into(), true)
        }
    }
    let listener = tokio::net::UnixListener::bind(&socket).unwrap();
    site.core.as_ref().unwrap().spawn_listener(listener, std::sync::Arc::new(Stranger));
    assert_eq!(refused(muster_api::Client::new(socket).info().await).code, "forbidden");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_account_of_an_old_name_is_another_user() {
    let (site, job) = shared().await;
    let held = site.submit("{name: kept, gpus: 1, hold: true, run: run}").await[0];
    let ann = site.client_of(ANN);
    let anew = site.client_of(ANN_ANEW);
    let uid = rustix::process::geteuid().as_raw();
    let former = format!("ann#{uid}");
    for job in [job, held] {
        for action in [JobAction::Cancel, JobAction::Hold, JobAction::Release, JobAction::Requeue] {
            assert_eq!(refused(anew.act(job, action, WHOLE).await).code, "forbidden", "{action:?}");
        }
    }
    ann.act(job, JobAction::Cancel, WHOLE).await.unwrap();
    site.reach(job, JobState::Cancelled).await;
    for job in [job, held] {
        let seen = anew.job(job, None).await.unwrap();
        assert!(seen.commands.is_none() && seen.workdir.is_none() && seen.logs.is_empty());
        assert_eq!(seen.job.user.as_str(), former, "not the caller's own");
        assert_eq!(refused(anew.logs(job, LogQuery::default()).await).code, "forbidden");
        assert_eq!(refused(anew.act(job, JobAction::Cancel, WHOLE).await).code, "forbidden");
        let own = ann.job(job, None).await.unwrap();
        assert_eq!((own.job.user.as_str(), own.job.uid), ("ann", Some(uid)));
        assert!(own.commands.is_some());
    }
    let all = JobFilter { all: true, ..JobFilter::default() };
    let listed = anew.jobs(all).await.unwrap().jobs;
    assert!(listed.iter().all(|job| job.user.as_str() == former), "{listed:?}");
    let own = anew.submit(&request("{name: own, gpus: 1, run: run}")).await.unwrap().jobs[0].job;
    anew.act(own, JobAction::Cancel, WHOLE).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn values_of_a_sweep_are_seen_by_its_owner_and_loads_and_use_by_all() {
    let (site, _) = shared().await;
    let text = "{name: sweep, kind: sweep, hold: true, params: {lr: [1, 2]}, run: 'echo {lr}'}";
    let job = site.client_of(ANN).submit(&request(text)).await.unwrap().jobs[0].job;
    let bob = site.client_of(BOB);
    let own = site.client_of(ANN).elements(job).await.unwrap();
    assert_eq!((own.params.len(), own.elements.len()), (1, 2));
    assert_eq!(own.elements[1].values, ["2"]);
    let seen = bob.elements(job).await.unwrap();
    assert_eq!((seen.params.len(), seen.elements.len()), (0, 2));
    assert!(seen.elements.iter().all(|row| row.values.is_empty() && row.report.is_none()));
    // As who holds what is, so is how busy it is, and the use of each user.
    assert!(!bob.gpu_loads().await.unwrap().gpus.is_empty());
    let query = UsageQuery { by: "user,job".to_owned(), ..UsageQuery::default() };
    let report = bob.usage_report(&query).await.unwrap();
    assert!(report.rows.iter().any(|row| row.name.as_deref() == Some("secret")), "{report:?}");
    let wrong = UsageQuery { by: "team".to_owned(), ..query };
    assert_eq!(refused(bob.usage_report(&wrong).await).code, "invalid_request");
}
