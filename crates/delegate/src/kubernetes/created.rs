//! Objects that a request creates. An annotation of each has the key of the request, so that a repeated request finds
//! what it has created, and a request that fails deletes it.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use muster_kubernetes::names;
use muster_operator::error::is_transient;
use serde_json::Value;

use super::server::{ApiServer, refusal};
use super::{KubernetesScheduler, RETRY_INTERVAL, RequestError, Result};

/// Time for which a request waits for an API server that does not answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(120);

/// Failed creation of an object.
pub(super) struct NotCreated {
    pub(super) refusal: RequestError,
    /// True if the object may exist: a request for it had no answer.
    pub(super) may_exist: bool,
}

impl KubernetesScheduler {
    /// Creates an object at the path of its kind. If it exists after a request that had no answer, this
    /// request has created it.
    ///
    /// # Errors
    /// Those of the API server; a conflict if another object has the name.
    pub(super) async fn create_once(
        &self,
        server: &ApiServer,
        collection: &str,
        object: &Value,
    ) -> std::result::Result<Value, NotCreated> {
        let address = format!("{collection}?fieldValidation=Strict");
        let tries = AtomicU32::new(0);
        let create = || {
            tries.fetch_add(1, Ordering::Relaxed);
            server.create(&address, object)
        };
        let answer = self.until_answered(create).await;
        let tries = tries.into_inner();
        let error = match answer {
            Ok(Ok(created)) => return Ok(created),
            Ok(Err(error)) => {
                let may_exist = tries > 1 || is_transient(&error);
                NotCreated { refusal: refusal(error), may_exist }
            }
            Err(refusal) => NotCreated { refusal, may_exist: tries > 0 },
        };
        if !error.refusal.is_conflict() {
            return Err(error);
        }
        let name = object["metadata"]["name"].as_str().unwrap_or_default();
        match server.get(&format!("{collection}/{name}")).await {
            Ok(found) => found.filter(|found| is_of_one_request(found, object)).ok_or(error),
            Err(refusal) => Err(NotCreated { refusal, may_exist: true }),
        }
    }

    /// Deletes an object if the request has created it. Returns the error of the request, with a hint if the object
    /// may remain.
    pub(super) async fn delete_created(
        &self,
        server: &ApiServer,
        path: &str,
        object: &Value,
        refusal: RequestError,
    ) -> RequestError {
        let removed = match server.get(path).await {
            Ok(Some(found)) if is_of_one_request(&found, object) => {
                server.delete(path).await.map(drop)
            }
            Ok(_) => Ok(()),
            Err(error) => Err(error),
        };
        match removed {
            Ok(()) => refusal,
            Err(error) => refusal.hint(format!(
                "{path} may remain: {error}; `kubectl delete --raw {path}` removes it"
            )),
        }
    }

    /// Repeats a request until the API server answers, or the time for a request is over.
    ///
    /// # Errors
    /// If the user has withdrawn the request.
    pub(super) async fn until_answered<T, F>(
        &self,
        request: impl Fn() -> F,
    ) -> Result<std::result::Result<T, kube::Error>>
    where
        F: Future<Output = std::result::Result<T, kube::Error>>,
    {
        let deadline = Instant::now() + ANSWER_TIMEOUT;
        let mut has_warned = false;
        while !self.is_withdrawn() {
            match request().await {
                Err(error) if is_transient(&error) && Instant::now() < deadline => {}
                answer => return Ok(answer),
            }
            if !has_warned {
                (self.settings.warn)("the Kubernetes API server does not answer; retrying");
                has_warned = true;
            }
            let mut withdrawn = self.withdrawn.subscribe();
            // Both ends of the pause are the same to the caller.
            let _ = tokio::time::timeout(RETRY_INTERVAL, withdrawn.wait_for(|is| *is)).await;
        }
        Err(RequestError::interrupted("the request was withdrawn"))
    }

    pub(super) fn is_withdrawn(&self) -> bool {
        *self.withdrawn.borrow()
    }
}

/// Returns true if two objects have the key of one request.
fn is_of_one_request(one: &Value, other: &Value) -> bool {
    let key = |object: &Value| object["metadata"]["annotations"][names::SUBMISSION].clone();
    key(one).is_string() && key(one) == key(other)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn objects_without_a_key_are_of_no_request() {
        let object = |key: Value| json!({"metadata": {"annotations": {names::SUBMISSION: key}}});
        assert!(is_of_one_request(&object(json!("a")), &object(json!("a"))));
        assert!(!is_of_one_request(&object(json!("a")), &object(json!("b"))));
        assert!(!is_of_one_request(&json!({}), &json!({})));
    }
}
