//! Leader election by a Lease: of several processes one is active. Times of other machines are not
//! trusted: a lease has expired when it has not changed for its whole length by the own clock.

use std::time::{Duration, Instant};

use http::Method;
use jiff::Timestamp;
use kube::Client;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::actions::micros;
use crate::address::{get, with_body};
use crate::error::{OperatorError, code, message};
use crate::writes::Writes;

/// Lengths as of kube-scheduler (client-go defaults): another process takes over 15 seconds after
/// the last renewal; the active one gives up 10 seconds after it, so that two are never active.
const LEASE: Duration = Duration::from_secs(15);
pub(crate) const GIVE_UP: Duration = Duration::from_secs(10);
const RETRY: Duration = Duration::from_secs(2);
/// Age of the last renewal from which `explain` reports that no scheduler is active: four leases.
const SILENT_AFTER_SECS: i64 = 60;

/// Lease object of the API.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Lease {
    api_version: String,
    kind: String,
    metadata: Map<String, Value>,
    spec: LeaseSpec,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct LeaseSpec {
    holder_identity: Option<String>,
    lease_duration_seconds: Option<u64>,
    acquire_time: Option<String>,
    renew_time: Option<String>,
    lease_transitions: Option<u64>,
}

/// Returns a note that no scheduler is active, by the lease of the active process; `None` if one seems
/// to be.
///
/// # Errors
/// If the API server does not say.
pub(crate) async fn inactivity(
    client: &Client,
    (namespace, name): &(String, String),
) -> Result<Option<String>, kube::Error> {
    let path = format!("/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/{name}");
    let spec = match client.request::<Lease>(get(&path)).await {
        Ok(lease) => lease.spec,
        Err(error) if code(&error) == Some(404) => {
            return Ok(Some(format!(
                "no scheduler is active: there is no lease {namespace}/{name}; name another with --lease"
            )));
        }
        Err(error) => return Err(error),
    };
    let pods = format!("check `kubectl get pods -n {namespace}`");
    if spec.holder_identity.as_deref().is_none_or(str::is_empty) {
        return Ok(Some(format!(
            "no scheduler is active: no process holds the lease {namespace}/{name}; {pods}"
        )));
    }
    // The clocks of two machines differ by seconds, not by minutes.
    let renewed = spec.renew_time.as_deref().and_then(|at| at.parse::<Timestamp>().ok());
    let silence = renewed.map(|at| Timestamp::now().duration_since(at).as_secs());
    Ok(silence.filter(|secs| *secs > SILENT_AFTER_SECS).map(|secs| {
        format!(
            "no scheduler is active: the lease {namespace}/{name} was last renewed {secs} s ago; {pods}"
        )
    }))
}

/// Candidate for a lease.
#[derive(Clone)]
pub(crate) struct Election {
    client: Client,
    folder: String,
    name: String,
    identity: String,
    /// Terms that were seen last, and since when.
    seen: Option<(LeaseSpec, Instant)>,
}

impl Election {
    /// Makes a candidate with an identity of its own.
    ///
    /// # Errors
    /// If the system gives no random numbers.
    pub(crate) fn new(client: Client, namespace: &str, name: &str) -> Result<Self, OperatorError> {
        let mut random = [0; 4];
        getrandom::fill(&mut random)
            .map_err(|error| OperatorError::Config(format!("no random numbers: {error}")))?;
        let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        Ok(Self {
            client,
            folder: format!("/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"),
            name: name.to_owned(),
            identity: format!("{}-{:08x}", host.trim(), u32::from_le_bytes(random)),
            seen: None,
        })
    }

    pub(crate) fn identity(&self) -> &str {
        &self.identity
    }

    /// Waits until the lease is ours.
    pub(crate) async fn acquire(&mut self) {
        loop {
            match self.try_hold().await {
                Ok(true) => return,
                Ok(false) => {}
                Err(error) => tracing::warn!("cannot take the lease: {}", message(&error)),
            }
            tokio::time::sleep(RETRY).await;
        }
    }

    /// Renews the lease until that fails for too long, or another process has it. Requests may be sent
    /// as long as it is renewed.
    pub(crate) async fn keep(&mut self, writes: &Writes) {
        let mut renewed = Instant::now();
        loop {
            writes.prolong(renewed + GIVE_UP);
            tokio::time::sleep(RETRY).await;
            let left = GIVE_UP.saturating_sub(renewed.elapsed());
            let started = Instant::now();
            match tokio::time::timeout(left, self.try_hold()).await {
                // The answer may be late: the renewal counts from its request.
                Ok(Ok(true)) => renewed = started,
                Ok(Ok(false)) => return,
                Ok(Err(error)) => tracing::warn!("cannot renew the lease: {}", message(&error)),
                Err(_) => return,
            }
            if renewed.elapsed() >= GIVE_UP {
                return;
            }
        }
    }

    /// Gives the lease back, so that another process need not wait for its end.
    pub(crate) async fn release(&mut self) {
        let path = format!("{}/{}", self.folder, self.name);
        let Ok(mut lease) = self.client.request::<Lease>(get(&path)).await else { return };
        if lease.spec.holder_identity.as_deref() != Some(&self.identity) {
            return;
        }
        lease.spec.holder_identity = None;
        let Ok(body) = serde_json::to_value(&lease) else { return };
        if let Err(error) = self.client.request::<Value>(with_body(Method::PUT, &path, &body)).await
        {
            tracing::warn!("cannot give the lease back: {}", message(&error));
        }
    }

    /// Takes or renews the lease; false if another process has it.
    async fn try_hold(&mut self) -> Result<bool, kube::Error> {
        let path = format!("{}/{}", self.folder, self.name);
        let known = match self.client.request::<Lease>(get(&path)).await {
            Ok(lease) => lease,
            Err(error) if code(&error) == Some(404) => return self.create().await,
            Err(error) => return Err(error),
        };
        let is_ours = known.spec.holder_identity.as_deref() == Some(&self.identity);
        if !is_ours && !self.has_expired(&known.spec) {
            return Ok(false);
        }
        let mut lease = known.clone();
        lease.spec = self.terms();
        if is_ours {
            lease.spec.acquire_time = known.spec.acquire_time;
            lease.spec.lease_transitions = known.spec.lease_transitions;
        } else {
            lease.spec.lease_transitions = Some(known.spec.lease_transitions.unwrap_or(0) + 1);
        }
        // The resource version in the metadata lets only one of two candidates succeed.
        let body = serde_json::to_value(&lease).map_err(kube::Error::SerdeError)?;
        match self.client.request::<Value>(with_body(Method::PUT, &path, &body)).await {
            Ok(_) => Ok(true),
            Err(error) if code(&error) == Some(409) => Ok(false),
            Err(error) => Err(error),
        }
    }

    async fn create(&self) -> Result<bool, kube::Error> {
        let lease = Lease {
            api_version: "coordination.k8s.io/v1".to_owned(),
            kind: "Lease".to_owned(),
            metadata: Map::from_iter([("name".to_owned(), Value::from(self.name.as_str()))]),
            spec: self.terms(),
        };
        let body = serde_json::to_value(&lease).map_err(kube::Error::SerdeError)?;
        match self.client.request::<Value>(with_body(Method::POST, &self.folder, &body)).await {
            Ok(_) => Ok(true),
            Err(error) if code(&error) == Some(409) => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn terms(&self) -> LeaseSpec {
        LeaseSpec {
            holder_identity: Some(self.identity.clone()),
            lease_duration_seconds: Some(LEASE.as_secs()),
            acquire_time: Some(micros()),
            renew_time: Some(micros()),
            lease_transitions: Some(0),
        }
    }

    fn has_expired(&mut self, spec: &LeaseSpec) -> bool {
        if spec.holder_identity.as_deref().is_none_or(str::is_empty) {
            return true;
        }
        match &self.seen {
            Some((seen, since)) if seen == spec => {
                let length = spec.lease_duration_seconds.map_or(LEASE, Duration::from_secs);
                since.elapsed() >= length
            }
            _ => {
                self.seen = Some((spec.clone(), Instant::now()));
                false
            }
        }
    }
}

#[cfg(test)]
mod tests;
