//! Jobs of users, from submission to history.

use muster_api::JobAction;
use muster_api::query::{JobFilter, SnapshotQuery, TimelineQuery};
use muster_api::types::{ActionRequest, DrainRequest, QueuesRequest, ResumeRequest};
use muster_backends::driver::BackendCommand;
use muster_backends::fake::FakeWorld;
use muster_model::outcome::Outcome;
use muster_model::view::JobState;
use muster_model::{GpuMilli, JobId, Reason, Span};

use crate::site::{TestSite, ids, node, refused, request, until};

const WHOLE: ActionRequest = ActionRequest { index: None };

fn drain_for(reason: &str) -> DrainRequest {
    DrainRequest { reason: reason.to_owned(), ..DrainRequest::default() }
}

fn with_ids(text: &str) -> JobFilter {
    JobFilter { ids: Some(text.to_owned()), ..JobFilter::default() }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_runs_and_is_found_in_history() {
    let site = TestSite::start().await;
    let jobs = site
        .submit(
            "{name: one, gpus: 2, time: 1m, run: exit 0}\n---\n{name: two, gpus: 1, run: exit 3}",
        )
        .await;
    assert_eq!(jobs, [JobId(1), JobId(2)]);
    let done = site.reach(jobs[0], JobState::Done).await;
    assert_eq!(done.elements[0].outcome, Some(Outcome::Succeeded));
    assert!(done.started >= Some(done.submitted) && done.ended >= done.started);
    let failed = site.reach(jobs[1], JobState::Failed).await;
    assert!(matches!(failed.elements[0].outcome, Some(Outcome::Failed { code: 3, .. })));

    let client = site.client();
    assert_eq!(
        client.jobs(JobFilter::default()).await.unwrap().jobs,
        [],
        "the default is what has not ended"
    );
    let all = JobFilter { all: true, ..JobFilter::default() };
    assert_eq!(client.jobs(all).await.unwrap().jobs.len(), 2);
    assert_eq!(client.jobs(with_ids("2")).await.unwrap().jobs[0].job, jobs[1]);
    let state = JobFilter { state: Some("failed".to_owned()), ..JobFilter::default() };
    assert_eq!(client.jobs(state).await.unwrap().jobs.len(), 1);
    let other = JobFilter { all: true, user: Some("nobody".to_owned()), ..JobFilter::default() };
    assert_eq!(client.jobs(other).await.unwrap().jobs.len(), 0);

    let snapshot = client.snapshot(SnapshotQuery::default()).await.unwrap();
    let [one, two] = &snapshot.past[..] else { panic!("{snapshot:?}") };
    assert_eq!((one.element.job, one.tasks, one.limit), (jobs[0], 1, Some(Span::from_secs(60))));
    assert_eq!(
        (one.submitted, one.is_over, one.roles[0].gpus),
        (done.submitted, true, GpuMilli(2000))
    );
    assert!(one.began >= one.submitted && one.began + one.ran <= done.ended.unwrap());
    assert_eq!((two.element.job, two.user.as_str(), two.limit), (jobs[1], "user-1", None));

    let detail = client.job(jobs[0], None).await.unwrap();
    assert_eq!(detail.commands.unwrap()["main"], "exit 0");
    assert_eq!(detail.workdir.unwrap(), "/tmp");
    assert_eq!(refused(client.job(JobId(99), None).await).code, "not_found");
}

/// The list has more rows than the dispatcher makes at once.
#[tokio::test(flavor = "multi_thread")]
async fn a_long_list_has_every_job_once_in_order() {
    const JOBS: u64 = 2_300;
    let site = TestSite::start().await;
    let ended = site.submit("{name: ended, gpus: 1, run: exit 0}").await[0];
    site.reach(ended, JobState::Done).await;
    let held: Vec<String> =
        (0..JOBS).map(|nth| format!("{{name: h{nth}, gpus: 1, hold: true, run: run}}")).collect();
    let held = {
        let mut jobs = Vec::new();
        for some in held.chunks(1000) {
            jobs.extend(site.submit(&some.join("\n---\n")).await);
        }
        jobs
    };
    let client = site.client();
    let listed = async |filter: JobFilter| {
        let list = client.jobs(filter).await.unwrap();
        (list.jobs.iter().map(|job| job.job).collect::<Vec<_>>(), list.matched)
    };
    assert_eq!(listed(JobFilter::default()).await, (held.clone(), None));
    let all: Vec<JobId> = std::iter::once(ended).chain(held.clone()).collect();
    assert_eq!(listed(JobFilter { all: true, ..JobFilter::default() }).await, (all, None));
    let first = JobFilter { first: Some(2_000), ..JobFilter::default() };
    assert_eq!(listed(first).await, (held[..2_000].to_vec(), Some(JOBS)));
    let named = JobFilter { name: Some("h22*".to_owned()), ..JobFilter::default() };
    assert_eq!(listed(named).await.0.len(), 111, "h22, h220 to h229, h2200 to h2299");
    // Each row equals that of a short list.
    let list = client.jobs(JobFilter::default()).await.unwrap();
    let last = client.jobs(with_ids(&held[2_299].to_string())).await.unwrap();
    assert_eq!(list.jobs[2_299], last.jobs[0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_does_not_fit_waits_and_is_explained() {
    let site = TestSite::stepped().await;
    let client = site.client();
    let jobs = site
        .submit("{name: big, gpus: 8, time: 10m, run: run}\n---\n{name: next, gpus: 4, time: 5m, run: run}")
        .await;
    site.reach(jobs[0], JobState::Running).await;
    let waiting = site.reach(jobs[1], JobState::Pending).await;
    assert!(matches!(waiting.waiting_for, Some(Reason::Capacity(_))), "{waiting:?}");

    let explained = client.explain(jobs[1], None).await.unwrap();
    assert!(matches!(explained.explanation.reasons[0], Reason::Capacity(_)));
    assert_eq!(explained.explanation.position, Some((1, 1)));
    assert!(explained.explanation.eta.unwrap().start > explained.now);
    assert_eq!(explained.explanation.holders[0].element.job, jobs[0]);

    let timeline = client.timeline(TimelineQuery::default()).await.unwrap();
    assert_eq!(timeline.bars.len(), 8, "one bar per device that is held");
    assert_eq!(timeline.devices.len(), 8);
    assert_eq!(timeline.reservations[0].element.job, jobs[1]);

    client.act(jobs[0], JobAction::Cancel, WHOLE).await.unwrap();
    site.reach(jobs[0], JobState::Cancelled).await;
    site.reach(jobs[1], JobState::Running).await;
    let usage = client.usage().await.unwrap();
    assert_eq!((usage.rows[0].user.as_str(), usage.rows[0].jobs), ("ann", 2));
}

#[tokio::test(flavor = "multi_thread")]
async fn hold_release_requeue_and_cancel() {
    let site = TestSite::start().await;
    let client = site.client();
    let act = async |job, action| client.act(job, action, WHOLE).await;

    let job = site.submit("{name: held, gpus: 1, hold: true, run: run}").await[0];
    site.reach(job, JobState::Held).await;
    act(job, JobAction::Release).await.unwrap();
    site.reach(job, JobState::Running).await;
    let attempt = client.job(job, None).await.unwrap().job.elements[0].attempt;
    act(job, JobAction::Requeue).await.unwrap();
    until(async || {
        let view = client.job(job, None).await.unwrap().job;
        (view.state == JobState::Running && view.elements[0].attempt == attempt + 1).then_some(())
    })
    .await;
    act(job, JobAction::Cancel).await.unwrap();
    let view = site.reach(job, JobState::Cancelled).await;
    assert_eq!(view.elements[0].outcome, Some(Outcome::Cancelled { by: "ann".into() }));

    let again = act(job, JobAction::Cancel).await.unwrap();
    assert!(again.message.contains("had already ended"), "{}", again.message);
    assert_eq!(refused(act(job, JobAction::Hold).await).code, "conflict");
    assert_eq!(refused(act(JobId(77), JobAction::Cancel).await).code, "not_found");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_checkpoint_is_asked_for_answered_and_remembered() {
    let mut site = TestSite::start().await;
    let jobs = site
        .submit("{name: mute, gpus: 1, run: run}\n---\n{name: saves, gpus: 1, checkpoint: {grace: 1m}, run: save step-1}\n---\n{name: deaf, gpus: 1, checkpoint: {grace: 1m}, run: run}")
        .await;
    for job in &jobs {
        site.reach(*job, JobState::Running).await;
    }
    let element = async |site: &TestSite, job| {
        site.client().job(job, None).await.unwrap().job.elements.remove(0)
    };
    let first = until(async || element(&site, jobs[1]).await.checkpoint).await;
    assert_eq!(first.label, "step-1", "unasked");
    let ask =
        async |site: &TestSite, job| site.client().act(job, JobAction::Checkpoint, WHOLE).await;
    let refusal = refused(ask(&site, jobs[0]).await);
    assert_eq!(refusal.code, "conflict");
    assert!(refusal.hints[0].contains("checkpoint: {"), "{:?}", refusal.hints);
    for job in &jobs[1..] {
        assert_eq!(ask(&site, *job).await.unwrap().message, "asked for a checkpoint");
    }
    until(async || element(&site, jobs[1]).await.checkpoint_asked.is_none().then_some(())).await;
    let asked = element(&site, jobs[2]).await.checkpoint_asked.unwrap();
    assert_eq!(asked.until.since(asked.at), muster_model::Span::from_secs(60));
    // All of it is durable, and an open request is repeated.
    let last = element(&site, jobs[1]).await;
    site.restart().await;
    assert_eq!(element(&site, jobs[1]).await, last);
    assert_eq!(element(&site, jobs[2]).await.checkpoint_asked, Some(asked));
    let again = site.world.commands().into_iter().filter(
        |command| matches!(command, BackendCommand::Checkpoint(id, 1) if id.element.job == jobs[2]),
    );
    assert_eq!(again.count(), 2);
    site.client().act(jobs[1], JobAction::Cancel, WHOLE).await.unwrap();
    site.reach(jobs[1], JobState::Cancelled).await;
    assert_eq!(element(&site, jobs[1]).await.checkpoint, last.checkpoint, "also in history");
    assert_eq!(refused(ask(&site, jobs[1]).await).code, "conflict");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_array_runs_to_its_end_and_one_element_can_be_cancelled() {
    let site = TestSite::start().await;
    let client = site.client();
    let job = site.submit("{name: sweep, gpus: 1, array: 0-19%4, run: run}").await[0];
    site.reach(job, JobState::Running).await;
    client.act(job, JobAction::Cancel, ActionRequest { index: Some(1) }).await.unwrap();
    until(async || {
        let array = client.job(job, None).await.unwrap().job.array.unwrap();
        (array.failed == 1 && array.active == 4).then_some(())
    })
    .await;
    let bad = client.act(job, JobAction::Cancel, ActionRequest { index: Some(99) }).await;
    assert_eq!(refused(bad).code, "not_found");
    client.act(job, JobAction::Cancel, WHOLE).await.unwrap();
    site.reach(job, JobState::Cancelled).await;

    let quick = site.submit("{name: quick, gpus: 1, array: 0-49%8, run: exit 0}").await[0];
    let view = site.reach(quick, JobState::Done).await;
    assert_eq!(view.array.unwrap().succeeded, 50);
}

/// Returns state and number of attempts of one element of a job, and the number of its log files.
async fn element(site: &TestSite, job: JobId, index: u32) -> (JobState, u32, usize) {
    let detail = site.client().job(job, Some(index)).await.unwrap();
    let found = detail.job.elements.iter().find(|element| element.element.index == index).unwrap();
    assert_eq!(found.ended.is_some(), found.state.is_final());
    assert_eq!(found.outcome.is_some(), found.state.is_final());
    (found.state, found.attempt, detail.logs.len())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_element_is_shown_by_its_index_also_when_it_has_ended() {
    let site = TestSite::start().await;
    let client = site.client();
    let job = site
        .submit("{name: sweep, tasks: 2, gpus-per-task: 1, array: 0-18:2%4, run: run}")
        .await[0];
    site.reach(job, JobState::Running).await;
    client.act(job, JobAction::Cancel, ActionRequest { index: Some(2) }).await.unwrap();
    client.act(job, JobAction::Cancel, ActionRequest { index: Some(16) }).await.unwrap();
    until(async || (element(&site, job, 2).await.0 == JobState::Cancelled).then_some(())).await;
    assert_eq!(element(&site, job, 2).await, (JobState::Cancelled, 1, 2));
    assert_eq!(element(&site, job, 16).await, (JobState::Cancelled, 0, 0));
    assert_eq!(element(&site, job, 18).await, (JobState::Pending, 0, 0));
    for unknown in [3, 20] {
        assert_eq!(refused(client.job(job, Some(unknown)).await).code, "not_found");
    }

    client.act(job, JobAction::Cancel, WHOLE).await.unwrap();
    site.reach(job, JobState::Cancelled).await;
    assert_eq!(element(&site, job, 0).await, (JobState::Cancelled, 1, 2));
    assert_eq!(element(&site, job, 2).await, (JobState::Cancelled, 1, 2));
    assert_eq!(element(&site, job, 16).await, (JobState::Cancelled, 0, 0));
    assert_eq!(element(&site, job, 18).await, (JobState::Cancelled, 0, 0));
    for unknown in [3, 20] {
        assert_eq!(refused(client.job(job, Some(unknown)).await).code, "not_found");
        assert_eq!(refused(client.explain(job, Some(unknown)).await).code, "not_found");
    }

    let single = site.submit("{name: single, gpus: 1, run: exit 3}").await[0];
    site.reach(single, JobState::Failed).await;
    assert_eq!(element(&site, single, 0).await, (JobState::Failed, 1, 1));
    assert_eq!(refused(client.job(single, Some(1)).await).code, "not_found");
}

#[tokio::test(flavor = "multi_thread")]
async fn documents_of_one_text_wait_for_each_other_by_name() {
    let site = TestSite::start().await;
    let text = "{name: first, gpus: 1, run: exit 1}\n---\n{name: never, gpus: 1, after: afterok:first, run: exit 0}\n---\n{name: anyway, gpus: 1, after: afterany:first, run: exit 0}";
    let answer = site.client().submit(&request(text)).await;
    let answer = match answer {
        Ok(answer) => answer,
        Err(error) => panic!("{error:?}"),
    };
    let jobs = ids(&answer);
    site.reach(jobs[0], JobState::Failed).await;
    let never = site.reach(jobs[1], JobState::Failed).await;
    assert_eq!(never.elements[0].outcome, Some(Outcome::DependencyFailed { on: jobs[0] }));
    site.reach(jobs[2], JobState::Done).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_retried_submission_is_one_job() {
    let mut site = TestSite::start().await;
    let once = request("{name: one, gpus: 1, run: run}");
    let first = site.client().submit(&once).await.unwrap();
    let copies = (0..8).map(|_| {
        let client = site.client();
        let once = once.clone();
        tokio::spawn(async move { client.submit(&once).await.unwrap() })
    });
    for copy in copies.collect::<Vec<_>>() {
        assert_eq!(ids(&copy.await.unwrap()), ids(&first));
    }
    site.restart().await;
    assert_eq!(ids(&site.client().submit(&once).await.unwrap()), ids(&first));
    assert_eq!(site.client().jobs(JobFilter::default()).await.unwrap().jobs.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dry_run_changes_nothing() {
    let site = TestSite::stepped().await;
    let client = site.client();
    let running = site.submit("{name: big, gpus: 8, time: 10m, run: run}").await[0];
    site.reach(running, JobState::Running).await;
    let before = client.jobs(JobFilter::default()).await.unwrap();
    let mut dry = request(
        "{name: next, gpus: 4, run: run}\n---\n{name: then, gpus: 1, after: next, run: run}",
    );
    dry.dry_run = true;
    let answer = client.submit(&dry).await.unwrap();
    assert_eq!(ids(&answer), [JobId(2), JobId(3)]);
    let first = answer.jobs[0].explanation.as_ref().unwrap();
    assert!(matches!(first.reasons[0], Reason::Capacity(_)), "{first:?}");
    let second = answer.jobs[1].explanation.as_ref().unwrap();
    assert!(matches!(second.reasons[0], Reason::Dependency { on: JobId(2), .. }), "{second:?}");
    assert!(answer.jobs[0].resolved.is_some());
    let after = client.jobs(JobFilter::default()).await.unwrap();
    assert_eq!((before.revision, before.jobs.len()), (after.revision, after.jobs.len()));
    assert_eq!(
        site.submit("{name: real, gpus: 1, run: exit 0}").await,
        [JobId(2)],
        "no number was used up"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_text_is_taken_whole_or_not_at_all() {
    let site = TestSite::start().await;
    let client = site.client();
    let body = refused(
        client
            .submit(&request("{name: fine, gpus: 1, run: x}\n---\n{name: bad, gpuz: 1, run: x}"))
            .await,
    );
    assert_eq!(body.code, "invalid_spec");
    assert!(body.diagnostics[0].rendered.contains("gpuz"), "{}", body.diagnostics[0].rendered);
    let body = refused(
        client
            .submit(&request(
                "{name: fine, gpus: 1, run: x}\n---\n{name: huge, nodes: 2, gpus: 8, run: x}",
            ))
            .await,
    );
    assert!(body.code == "invalid_spec" || body.code == "refused", "{body:?}");
    assert_eq!(
        client.jobs(JobFilter { all: true, ..JobFilter::default() }).await.unwrap().jobs.len(),
        0
    );

    let mut large = request("run: x");
    large.source = format!("run: x\n#{}", "x".repeat(10 << 20));
    assert_eq!(refused(client.submit(&large).await).code, "invalid_request");
    let mut odd = request("run: x");
    odd.env.insert("A\0B".to_owned(), "x".to_owned());
    assert_eq!(refused(client.submit(&odd).await).code, "invalid_request");
    odd = request("run: x");
    odd.workdir = "relative".to_owned();
    assert_eq!(refused(client.submit(&odd).await).code, "invalid_request");
}

#[tokio::test(flavor = "multi_thread")]
async fn queues_can_be_replaced_and_nodes_drained() {
    let site = TestSite::start().await;
    let client = site.client();
    let source = "queues:\n  - {name: research, quota: {h100: 4}}\n  - {name: batch}\ndefault-queue: batch\n"
        .to_owned();
    let set = client.set_queues(&QueuesRequest { source, file: None }).await;
    if let Err(error) = set {
        panic!("{error:?}");
    }
    let queues = client.queues().await.unwrap().queues;
    assert_eq!(
        queues.iter().map(|queue| queue.name.as_str()).collect::<Vec<_>>(),
        ["research", "batch"]
    );
    let bad = QueuesRequest { source: "queues: 3".to_owned(), file: None };
    assert_eq!(refused(client.set_queues(&bad).await).code, "invalid_spec");
    let body = refused(client.submit(&request("{name: x, queue: nowhere, gpus: 1, run: x}")).await);
    assert_eq!(body.code, "invalid_spec");

    client.drain("n1", &drain_for("for cleaning")).await.unwrap();
    assert_eq!(client.nodes().await.unwrap().nodes[0].drained.as_deref(), Some("for cleaning"));
    assert_eq!(refused(client.drain("n9", &drain_for("")).await).code, "not_found");
    client.resume("n1", &ResumeRequest::default()).await.unwrap();
    let job = site.submit("{name: x, queue: research, gpus: 1, run: exit 0}").await[0];
    site.reach(job, JobState::Done).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_long_poll_wakes_on_change_and_ends_on_time() {
    let site = TestSite::start().await;
    let client = site.client();
    let now = client.changes(None, 0).await.unwrap().revision;
    assert_eq!(client.changes(Some(now), 0).await.unwrap().revision, now);
    let waiter = {
        let client = site.client();
        tokio::spawn(async move { client.changes(Some(now), 60).await.unwrap().revision })
    };
    site.submit("{name: x, gpus: 1, run: exit 0}").await;
    assert!(waiter.await.unwrap() > now);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_limit_on_waiting_jobs_counts_the_whole_text() {
    let site = TestSite::start().await;
    let client = site.client();
    let source = "queues: [{name: default, limits: {pending-jobs: 2}}]".to_owned();
    client.set_queues(&QueuesRequest { source, file: None }).await.unwrap();
    let text = |names: &[&str]| {
        let documents: Vec<_> = names
            .iter()
            .map(|name| format!("{{name: {name}, gpus: 8, hold: true, run: run}}"))
            .collect();
        request(&documents.join("\n---\n"))
    };
    assert_eq!(refused(client.submit(&text(&["a", "b", "c"])).await).code, "refused");
    assert_eq!(client.jobs(JobFilter::default()).await.unwrap().jobs.len(), 0, "all or none");
    client.submit(&text(&["a", "b"])).await.unwrap();
    assert_eq!(refused(client.submit(&text(&["c"])).await).code, "refused");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_machine_that_gets_an_old_name_again_is_in_service() {
    let mut site = TestSite::start().await;
    for name in ["a-later-name", "n1"] {
        site.stop();
        site.world = FakeWorld::new(vec![node(name, 8)], site.dir.path().join("logs")).eager();
        site.boot().await;
        let nodes = site.client().nodes().await.unwrap().nodes;
        let up: Vec<_> =
            nodes.iter().filter(|node| node.up).map(|node| node.name.to_string()).collect();
        assert_eq!(up, [name]);
    }
}
