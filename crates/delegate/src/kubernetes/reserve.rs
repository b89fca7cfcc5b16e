//! Advance reservations as objects of the cluster: lists, creates and deletes them. A request ends with the
//! reservation in force, as the scheduler says in its status, or else the object is deleted again: a request
//! that fails leaves nothing behind.

use std::time::{Duration, Instant};

use muster_api::reserve::confirmation;
use muster_api::types::{ActionResponse, AdvanceReservationList, ReserveRequest};
use muster_kubernetes::manifest::RESERVER;
use muster_kubernetes::names;
use muster_kubernetes::queue::GROUP;
use muster_kubernetes::reservation::{self, RESERVATIONS};
use muster_model::{AdvanceReservationName, ReservedResources};
use serde_json::{Value, json};

use super::created::NotCreated;
use super::server::{ApiServer, ReadLists};
use super::{KubernetesScheduler, RequestError, Result};
use crate::route::now;

/// Longest wait for the scheduler: twice the time after which another process takes over from one that has
/// died.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);

/// Object that this request has created.
struct CreatedReservation {
    name: AdvanceReservationName,
    path: String,
    uid: Value,
}

/// Answer of the scheduler.
#[derive(Debug, PartialEq, Eq)]
enum Verdict {
    InForce,
    /// Nothing is set aside, for this reason.
    Refused(String),
}

impl KubernetesScheduler {
    /// Lists the advance reservations that are in force, and warns of the others.
    pub(super) async fn reservations(&self) -> Result<AdvanceReservationList> {
        let listed = self.reader(None).await?.reservations().await?;
        for (name, defect) in listed.refused {
            (self.settings.warn)(&format!("{name} is not in force: {defect}"));
        }
        Ok(AdvanceReservationList { now: listed.now, reservations: listed.in_force })
    }

    /// Creates an advance reservation, and waits until it is in force.
    pub(super) async fn reserve(
        &self,
        name: &str,
        request: &ReserveRequest,
    ) -> Result<ActionResponse> {
        // 1. What is asked for.
        let name = checked_name(name)?;
        let now = now();
        let asked = request
            .reservation(&name, &self.settings.user, now)
            .map_err(|defect| RequestError::invalid(defect.to_string()))?;
        let server = self.server().await?;
        let list = list_path(server)?;
        check_nodes(server, &asked.resources).await?;
        // 2. The object, which the scheduler judges.
        let at_once = request.at.is_none() && request.after.is_none();
        let object = reservation::object(&asked, &request.node_selector, at_once);
        let object = self.create_reservation(server, &list, &name, object).await?;
        let path = format!("{list}/{name}");
        let created = CreatedReservation { name, path, uid: object["metadata"]["uid"].clone() };
        self.until_in_force(server, &list, &created, object).await?;
        Ok(ActionResponse { message: confirmation(&asked, now) })
    }

    /// Deletes an advance reservation.
    pub(super) async fn drop_reservation(&self, name: &str) -> Result<ActionResponse> {
        let server = self.server().await?;
        let list = list_path(server)?;
        let is_deleted = match checked_name(name) {
            Ok(name) => server
                .delete(&format!("{list}/{name}"))
                .await
                .map_err(|error| or_missing_rule(error, "delete"))?,
            Err(_) => false,
        };
        if is_deleted {
            return Ok(ActionResponse {
                message: format!("{name}: deleted; jobs that run in it continue"),
            });
        }
        // Without the right to list them, the error names no other reservation.
        let known = server.list(list).await.map(|listed| listed.items).unwrap_or_default();
        let known = known.iter().filter_map(|one| one["metadata"]["name"].as_str());
        Err(RequestError::not_found(format!(
            "there is no reservation {name}{}",
            muster_spec::did_you_mean(name, known)
        )))
    }

    /// Creates the object with a key of this request. Nothing remains of a creation that fails.
    async fn create_reservation(
        &self,
        server: &ApiServer,
        list: &str,
        name: &AdvanceReservationName,
        mut object: Value,
    ) -> Result<Value> {
        let mut random = [0; 8];
        getrandom::fill(&mut random)
            .map_err(|error| RequestError::refused(format!("no random number: {error}")))?;
        let key = format!("{:016x}", u64::from_le_bytes(random));
        object["metadata"]["annotations"][names::SUBMISSION] = key.into();
        match self.create_once(server, list, &object).await {
            Ok(created) => Ok(created),
            Err(NotCreated { refusal, .. }) if refusal.is_conflict() => {
                let exists = format!("the reservation {name} exists already");
                Err(RequestError::conflict(exists).hint(format!(
                    "delete it with `muster reserve {name} --drop`, or choose another name"
                )))
            }
            Err(NotCreated { refusal, may_exist: true }) => {
                let path = format!("{list}/{name}");
                Err(self.delete_created(server, &path, &object, refusal).await)
            }
            Err(NotCreated { refusal, .. }) => Err(or_missing_rule(refusal, "create")),
        }
    }

    /// Waits until the scheduler has put a reservation into force.
    ///
    /// # Errors
    /// If it refuses, or does not answer in time; then the object is deleted.
    async fn until_in_force(
        &self,
        server: &ApiServer,
        list: &str,
        created: &CreatedReservation,
        mut object: Value,
    ) -> Result<()> {
        let deadline = Instant::now() + ANSWER_TIMEOUT;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let refusal = match verdict(&object) {
                Some(Verdict::InForce) => return Ok(()),
                Some(Verdict::Refused(defect)) => RequestError::refused(defect).hint(
                    "`muster reserve` lists the reservations, `muster nodes` the nodes; `--stop` stops and requeues \
                     jobs that are in its way",
                ),
                None if self.is_withdrawn() => {
                    RequestError::interrupted("the reservation was withdrawn")
                }
                None if left.is_zero() => self.unanswered().await,
                None => {
                    self.wait_for_status(server, list, created, &object, left).await;
                    match created.read(server).await {
                        Ok(found) => object = found,
                        // The next round reads it again, until the deadline.
                        Err(error) if error.is_unavailable() => {}
                        Err(error) => return Err(created.withdraw(server, None, error).await),
                    }
                    continue;
                }
            };
            let version = &object["metadata"]["resourceVersion"];
            let refusal = created.withdraw(server, Some(version), refusal).await;
            if !refusal.is_conflict() {
                return Err(refusal);
            }
            // The scheduler has changed the status meanwhile.
            object = match created.read(server).await {
                Ok(found) => found,
                Err(error) => return Err(created.withdraw(server, None, error).await),
            };
        }
    }

    async fn wait_for_status(
        &self,
        server: &ApiServer,
        list: &str,
        created: &CreatedReservation,
        object: &Value,
        left: Duration,
    ) {
        let version = object["metadata"]["resourceVersion"].as_str().unwrap_or_default();
        let path = format!("{list}?fieldSelector=metadata.name%3D{}", created.name);
        let lists = ReadLists(vec![(path, version.to_owned())]);
        let mut withdrawn = self.withdrawn.subscribe();
        tokio::select! {
            () = server.wait_for_change(&lists, left) => {}
            _ = withdrawn.wait_for(|is| *is) => {}
        }
    }

    /// Returns the error for a scheduler that does not answer.
    async fn unanswered(&self) -> RequestError {
        let refusal = RequestError::unavailable(format!(
            "Muster's scheduler has not answered within {} s: nothing is reserved",
            ANSWER_TIMEOUT.as_secs()
        ));
        let note = match self.reader(None).await {
            // Without the right to read the lease, the hint names the pods instead.
            Ok(reader) => reader.inactivity().await.ok().flatten(),
            Err(_) => None,
        };
        let pods = || format!("`kubectl get pods -n {}` shows whether it runs", names::NAMESPACE);
        refusal.hint(note.unwrap_or_else(pods))
    }
}

impl CreatedReservation {
    /// Returns the object as it is now.
    async fn read(&self, server: &ApiServer) -> Result<Value> {
        let found = server.get(&self.path).await.map_err(|error| or_missing_rule(error, "get"))?;
        found.filter(|found| found["metadata"]["uid"] == self.uid).ok_or_else(|| {
            RequestError::refused(format!(
                "the reservation {} was deleted meanwhile; run the command again",
                self.name
            ))
        })
    }

    /// Deletes the object and returns the error to report: a conflict if the object no longer has this version.
    /// A hint says if it may remain.
    async fn withdraw(
        &self,
        server: &ApiServer,
        version: Option<&Value>,
        refusal: RequestError,
    ) -> RequestError {
        let mut preconditions = json!({"uid": self.uid});
        if let Some(version) = version {
            preconditions["resourceVersion"] = version.clone();
        }
        match server.delete_if(&self.path, Some(preconditions)).await {
            Ok(_) => refusal,
            // Without a version, only another object of the name is a conflict.
            Err(error) if error.is_conflict() && version.is_some() => error,
            Err(error) if error.is_conflict() => refusal,
            Err(error) => {
                let name = &self.name;
                let error = or_missing_rule(error, "delete");
                refusal.hint(format!(
                    "the object {name} remains, and the scheduler keeps trying it: {error}; `muster reserve {name} --drop` deletes it"
                ))
            }
        }
    }
}

/// Returns what the scheduler says of an object; `None` before it has judged these settings.
fn verdict(object: &Value) -> Option<Verdict> {
    let status = &object["status"];
    let phase = status["phase"].as_str()?;
    // Schedulers of earlier versions do not say which settings they have judged.
    let observed = &status["observedGeneration"];
    if !observed.is_null() && *observed != object["metadata"]["generation"] {
        return None;
    }
    if phase == "Upcoming" || phase == "Active" {
        return Some(Verdict::InForce);
    }
    let message = status["conditions"][0]["message"].as_str();
    Some(Verdict::Refused(message.unwrap_or("the scheduler gives no reason").to_owned()))
}

/// Returns the path of all advance reservations.
fn list_path(server: &ApiServer) -> Result<String> {
    let root = server.root(GROUP, RESERVATIONS).ok_or_else(|| {
        RequestError::refused(format!(
            "this cluster has no advance reservations: it does not serve {RESERVATIONS}.{GROUP}"
        ))
        .hint("an administrator can install Muster's scheduler, which has them: `muster init kubernetes`, docs/kubernetes.md")
    })?;
    Ok(format!("{root}/{RESERVATIONS}"))
}

/// Checks a name: pods name the reservation by a label, and objects have such names.
fn checked_name(name: &str) -> Result<AdvanceReservationName> {
    let invalid = |text: &str| RequestError::invalid(format!("invalid reservation name: {text}"));
    muster_spec::check_name(name).map_err(|error| invalid(&error.label))?;
    if !names::is_label(name) {
        return Err(invalid(
            "on Kubernetes it has at most 63 lower-case letters and digits, and `-` between them",
        ));
    }
    Ok(name.into())
}

/// Refuses nodes that do not exist, as far as the user may list nodes; the scheduler refuses them, too.
async fn check_nodes(server: &ApiServer, resources: &ReservedResources) -> Result<()> {
    let ReservedResources::Nodes(named) = resources else { return Ok(()) };
    if named.is_empty() {
        return Ok(());
    }
    let listed = match server.list("/api/v1/nodes".to_owned()).await {
        Ok(listed) => listed.items,
        Err(error) if error.is_forbidden() => return Ok(()),
        Err(error) => return Err(error),
    };
    let known = || listed.iter().filter_map(|node| node["metadata"]["name"].as_str());
    match named.iter().find(|name| !known().any(|node| node == name.as_str())) {
        None => Ok(()),
        Some(name) => Err(RequestError::not_found(format!(
            "there is no node {name}{}",
            muster_spec::did_you_mean(name.as_str(), known())
        ))),
    }
}

/// Names the rule that the user lacks, if that is the error.
fn or_missing_rule(error: RequestError, verb: &str) -> RequestError {
    if !error.is_forbidden() {
        return error;
    }
    RequestError::forbidden(format!("you may not {verb} {RESERVATIONS}.{GROUP}"))
        .hint(format!("an administrator can bind the ClusterRole {RESERVER} to you"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_of_earlier_settings_is_no_verdict() {
        let object = |status: Value| json!({"metadata": {"generation": 2}, "status": status});
        let refused = json!([{"type": "Ready", "message": "n1 is taken"}]);
        assert_eq!(verdict(&json!({"metadata": {"generation": 2}})), None);
        assert_eq!(verdict(&object(json!({"phase": "Active", "observedGeneration": 1}))), None);
        for phase in ["Active", "Upcoming"] {
            let status = json!({"phase": phase, "observedGeneration": 2});
            assert_eq!(verdict(&object(status)), Some(Verdict::InForce));
        }
        let status = json!({"phase": "Refused", "conditions": refused});
        assert_eq!(verdict(&object(status)), Some(Verdict::Refused("n1 is taken".to_owned())));
    }

    #[test]
    fn names_are_those_of_objects() {
        for (name, text) in [
            ("exam-1", None),
            ("Exam", Some("lower-case letters")),
            ("a/b", Some("no path separators")),
            ("exam.", Some("lower-case letters")),
        ] {
            let refused = checked_name(name).err().map(|error| error.to_string());
            assert_eq!(refused.is_some(), text.is_some(), "{name}");
            assert!(text.is_none_or(|text| refused.unwrap().contains(text)), "{name}");
        }
    }
}
