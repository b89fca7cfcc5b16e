//! The lease of the active process: taken, renewed, lost, given back; clocks of others do not count.

use serde_json::json;

use super::*;
use crate::fake_server::{Answer, ServerScript};

const READ: &str = "GET /apis/coordination.k8s.io/v1/namespaces/n/leases/l";
const WRITE: &str = "PUT /apis/coordination.k8s.io/v1/namespaces/n/leases/l";
const CREATE: &str = "POST /apis/coordination.k8s.io/v1/namespaces/n/leases";

fn lease(holder: Option<&str>, renewed: &str, length_secs: u64) -> Answer {
    let spec = json!({
        "holderIdentity": holder, "leaseDurationSeconds": length_secs, "renewTime": renewed,
        "leaseTransitions": 3,
    });
    let metadata = json!({"name": "l", "namespace": "n", "resourceVersion": "7"});
    Answer::object(READ, &json!({"metadata": metadata, "spec": spec}))
}

fn written() -> Answer {
    Answer::object(WRITE, &json!({}))
}

fn election(answers: Vec<Answer>) -> (Election, std::sync::Arc<ServerScript>) {
    let (client, script) = ServerScript::client(answers);
    (Election::new(client, "n", "l").unwrap(), script)
}

#[tokio::test]
async fn a_lease_without_a_holder_is_taken() {
    let (mut one, script) = election(vec![lease(None, "2026-01-01T00:00:00Z", 15), written()]);
    assert!(one.try_hold().await.unwrap());
    let body = script.last_body();
    assert_eq!(body["spec"]["holderIdentity"], one.identity());
    assert_eq!(body["metadata"]["resourceVersion"], "7", "only one of two candidates succeeds");
    assert_eq!(body["spec"]["leaseTransitions"], 4);
    let created = Answer::object(CREATE, &json!({}));
    let (mut first, _) = election(vec![Answer::refusal(READ, 404), created]);
    assert!(first.try_hold().await.unwrap());
}

/// Of two candidates one is faster.
#[tokio::test]
async fn a_race_has_one_winner() {
    let free = || lease(None, "2026-01-01T00:00:00Z", 15);
    let (mut one, _) = election(vec![free(), Answer::refusal(WRITE, 409)]);
    assert!(!one.try_hold().await.unwrap());
    let (mut one, _) = election(vec![Answer::refusal(READ, 404), Answer::refusal(CREATE, 409)]);
    assert!(!one.try_hold().await.unwrap());
}

/// The time that another machine writes says nothing: a lease has expired when it has not changed for
/// its length by the own clock.
#[tokio::test]
async fn clocks_of_others_do_not_count() {
    for renewed in ["2001-01-01T00:00:00Z", "2099-01-01T00:00:00Z"] {
        let held = |length| lease(Some("other"), renewed, length);
        let (mut one, _) = election(vec![held(600), held(600)]);
        assert!(!one.try_hold().await.unwrap(), "seen for the first time");
        assert!(!one.try_hold().await.unwrap(), "its length has not passed");
        let (mut one, _) = election(vec![held(0), held(0), written()]);
        assert!(!one.try_hold().await.unwrap());
        assert!(one.try_hold().await.unwrap(), "unchanged for its length");
    }
    // Each renewal begins its length anew.
    let answers = vec![
        lease(Some("other"), "2026-01-01T00:00:00Z", 0),
        lease(Some("other"), "2026-01-01T00:00:02Z", 0),
    ];
    let (mut one, _) = election(answers);
    assert!(!one.try_hold().await.unwrap() && !one.try_hold().await.unwrap());
}

/// Each renewal prolongs the permission to send; the keeper ends once another process has the lease.
#[tokio::test]
async fn a_kept_lease_is_a_permission_to_send() {
    let (mut one, _) = election(vec![lease(Some("other"), "2026-01-01T00:00:00Z", 15)]);
    tokio::time::pause();
    let writes = Writes::with_lease(Instant::now());
    assert!(writes.turn().await.is_none());
    one.keep(&writes).await;
    assert!(writes.turn().await.is_some(), "until the loss is known, the last renewal counts");
}

#[tokio::test]
async fn only_an_own_lease_is_given_back() {
    let (mut one, script) = election(vec![lease(Some("other"), "2026-01-01T00:00:00Z", 15)]);
    one.release().await;
    assert_eq!(script.requests().len(), 1);
    let (mut one, _) = election(vec![]);
    let own = lease(Some(one.identity()), "2026-01-01T00:00:00Z", 15);
    let (client, script) = ServerScript::client([own, written()]);
    one.client = client;
    one.release().await;
    assert!(script.last_body()["spec"]["holderIdentity"].is_null());
}
