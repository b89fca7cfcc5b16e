//! Bindings of which the API server refuses, loses or doubles an answer.

use serde_json::{Value, json};
use tokio::sync::mpsc::unbounded_channel;

use super::*;
use crate::fake_server::{Answer, ServerScript};

const BIND: &str = "POST /api/v1/namespaces/team/pods/p/binding";
const READ: &str = "GET /api/v1/namespaces/team/pods/p";

fn id() -> PodId {
    PodId { key: ObjectKey::new("team", "p"), uid: "u".into() }
}

fn pod(uid: &str, node: Option<&str>) -> Answer {
    let mut pod = json!({
        "metadata": {"name": "p", "namespace": "team", "uid": uid},
        "spec": {"schedulerName": "muster", "containers": []},
    });
    if let Some(node) = node {
        pod["spec"]["nodeName"] = json!(node);
    }
    Answer::object(READ, &pod)
}

fn executor(client: Client, reports: UnboundedSender<Report>) -> Executor {
    let writes = Arc::new(Writes::without_lease());
    Executor::new(client, reports, writes, Served::default(), None)
}

/// Binds the pod to node `a` on a server with these answers.
#[track_caller]
fn check(answers: Vec<Answer>, expected: Observation) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap();
    let count = answers.len();
    let (seen, requests) = runtime.block_on(async {
        let (client, script) = ServerScript::client(answers);
        let seen =
            executor(client, unbounded_channel().0).bind(&id(), &"a".into(), &json!({})).await;
        (seen, script.requests())
    });
    assert_eq!(format!("{seen:?}"), format!("{expected:?}"));
    assert_eq!(requests.len(), count, "{requests:?}");
}

fn done() -> Answer {
    Answer::object(BIND, &json!({"kind": "Status", "status": "Success"}))
}

#[test]
fn what_the_server_confirms_is_bound() {
    check(vec![done()], Observation::Bound(id()));
}

/// The answer was lost, or a second try finds the pod bound: the pod itself decides.
#[test]
fn a_lost_answer_is_read_from_the_pod() {
    check(vec![done().torn(), pod("u", Some("a"))], Observation::Bound(id()));
    check(vec![Answer::refusal(BIND, 409), pod("u", Some("a"))], Observation::Bound(id()));
    // The request never arrived.
    check(vec![done().torn(), pod("u", None), done()], Observation::Bound(id()));
}

#[test]
fn a_server_in_trouble_is_asked_again() {
    for status in [429, 500, 503] {
        let answers = vec![Answer::refusal(BIND, status), pod("u", None), done()];
        check(answers, Observation::Bound(id()));
        // It does not even say how the pod is.
        let answers = vec![
            Answer::refusal(BIND, status),
            Answer::refusal(READ, status),
            Answer::refusal(BIND, 409),
            pod("u", Some("a")),
        ];
        check(answers, Observation::Bound(id()));
    }
}

#[test]
fn what_is_certainly_not_bound_is_refused() {
    let refused = |text: &str| Observation::BindRefused(id(), text.into());
    check(vec![Answer::refusal(BIND, 409), pod("u", None)], refused("refused with 409"));
    check(vec![Answer::refusal(BIND, 403), pod("u", None)], refused("refused with 403"));
    check(vec![Answer::refusal(BIND, 409), pod("u", Some("b"))], refused("refused with 409"));
    // Another pod has its name by now, or none.
    check(vec![Answer::refusal(BIND, 409), pod("v", Some("a"))], refused("refused with 409"));
    check(
        vec![Answer::refusal(BIND, 404), Answer::refusal(READ, 404)],
        refused("refused with 404"),
    );
}

/// A pod that could not be told is told again, unless that can never succeed.
#[tokio::test(start_paused = true)]
async fn lost_explanations_are_reported() {
    const STATUS: &str = "PATCH /api/v1/namespaces/team/pods/p/status";
    const EVENT: &str = "POST /apis/events.k8s.io/v1/namespaces/team/events";
    for (status, expected) in [(503, true), (403, false), (404, false)] {
        let tries = if status == 503 { CONDITION_TRIES } else { 1 };
        let refusals = (0..tries).map(|_| Answer::refusal(STATUS, status));
        let told = [Answer::object(EVENT, &Value::Null)];
        let (client, _) = ServerScript::client(refusals.chain(told));
        let (reports, mut reported) = unbounded_channel();
        executor(client, reports).explain(&[id()], "waits").await;
        let report = reported.recv().await;
        assert_eq!(
            matches!(report, Some(Report::Seen(Observation::Untold(_)))),
            expected,
            "{status}"
        );
    }
}
