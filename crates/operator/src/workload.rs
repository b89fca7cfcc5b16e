//! Requests for workloads: lets their controllers make pods, or has them deleted, and says on the
//! object why it waits. A request is tried until the API server says what became of it.

use muster_kubernetes::group::workload::{self, Workload};
use muster_kubernetes::group::{GroupApi, GroupFacts, GroupKind, GroupText};
use muster_kubernetes::names;
use muster_scheduler::{Observation, WorkloadId};
use serde_json::{Value, json};

use crate::actions::{Executor, FIRST_PAUSE, Notice, Regarding, seconds};
use crate::address::{get, merge, patch};
use crate::error::{code, is_transient, message};

/// State of the condition.
struct Condition<'a> {
    status: &'a str,
    reason: &'a str,
    text: &'a str,
}

/// Answer to a request for a workload.
enum Answer {
    /// The object is as requested; here as it is now.
    Done(Box<GroupFacts>),
    /// The object stays as it was; `None` if it is gone.
    Refused(Option<Box<GroupFacts>>),
}

impl Executor {
    /// Lets the controller of a workload make its pods, if its specification is still that of the
    /// decision.
    pub(crate) async fn resume(&self, workload: &WorkloadId, generation: u64) {
        let body = json!({
            "metadata": {"annotations": {names::ADMITTED: seconds()}},
            "spec": {"suspend": false},
        });
        // Annotations are no part of the generation. A hold is checked again; a changed begin or after
        // takes effect only if it comes before the decision.
        let is_held = |known: &GroupFacts| known.workload.as_ref().is_some_and(Workload::is_held);
        let may_change = |known: &GroupFacts| known.generation == generation && !is_held(known);
        if self.request(workload, &body, false, may_change).await {
            let text = "nodes are kept for its pods";
            let notice =
                Notice { severity: "Normal", reason: "Admitted", action: "Resuming", text };
            self.notify_workload(workload, &notice).await;
            let condition = Condition { status: "True", reason: "Admitted", text };
            self.set_condition(workload, &condition).await;
        }
    }

    /// Lets the controller of a workload delete its pods.
    pub(crate) async fn suspend(&self, workload: &WorkloadId, reason: &str) {
        let body = json!({
            "metadata": {"annotations": {names::ADMITTED: null}},
            "spec": {"suspend": true},
        });
        if self.request(workload, &body, true, |_| true).await {
            let notice = Notice {
                severity: "Warning",
                reason: "Stopped",
                action: "Suspending",
                text: reason,
            };
            self.notify_workload(workload, &notice).await;
            let condition = Condition { status: "False", reason: "Stopped", text: reason };
            self.set_condition(workload, &condition).await;
        }
    }

    /// Writes down on a workload what became of the objects that it waits for. Tried until it is
    /// written, or the workload is gone.
    pub(crate) async fn note_stages(&self, workload: &WorkloadId, text: &str) {
        let Some(path) = self.path(workload) else { return };
        let body = json!({
            "metadata": {"uid": workload.uid, "annotations": {names::AFTER_STATUS: text}},
        });
        let mut pause = FIRST_PAUSE;
        while let Err(error) = self.client.request::<Value>(merge(&path, &body)).await {
            // 409: another object has its name.
            if !matches!(code(&error), Some(404 | 409)) {
                tracing::warn!("cannot change {workload}: {}", message(&error));
            }
            if !is_transient(&error) {
                return;
            }
            self.rest(&mut pause).await;
        }
    }

    /// Says on a suspended workload why it waits.
    pub(crate) async fn explain_workload(&self, workload: &WorkloadId, text: &str) {
        let condition = Condition { status: "False", reason: "Waiting", text };
        if !self.set_condition(workload, &condition).await {
            self.report(Observation::WorkloadUntold(workload.clone()));
        }
        let notice =
            Notice { severity: "Warning", reason: "FailedScheduling", action: "Scheduling", text };
        self.notify_workload(workload, &notice).await;
    }

    /// Says on a PodGroup that no pod names it.
    pub(crate) async fn note_empty_group(&self, group: &WorkloadId, text: &str) {
        let notice = Notice { severity: "Warning", reason: "NoPods", action: "Scheduling", text };
        self.notify_workload(group, &notice).await;
    }

    /// Changes a workload, and reports to the scheduler what became of it. Returns true if the
    /// workload was changed here.
    async fn request(
        &self,
        workload: &WorkloadId,
        body: &Value,
        is_suspended: bool,
        may_change: impl Fn(&GroupFacts) -> bool,
    ) -> bool {
        let mut is_changed = false;
        let mut pause = FIRST_PAUSE;
        let answer = loop {
            let error = match self.try_change(workload, body, is_suspended, &may_change).await {
                Ok((answer, changed)) => {
                    is_changed = changed;
                    break answer;
                }
                Err(error) => error,
            };
            // Its controller changed it at the same time.
            let is_race = code(&error) == Some(409);
            if !is_race {
                tracing::warn!("cannot change {workload}: {}", message(&error));
            }
            // A suspension is tried until it succeeds. A refused resumption is planned again.
            let is_final = !is_transient(&error) && !is_race;
            if is_final && !is_suspended {
                break Answer::Refused(None);
            }
            self.rest(&mut pause).await;
        };
        // The object comes first: the scheduler looks at it when it gets the answer.
        match answer {
            Answer::Done(facts) => {
                self.report(Observation::Group(facts));
                self.report(Observation::Done(workload.clone()));
            }
            Answer::Refused(facts) => {
                if let Some(facts) = facts {
                    self.report(Observation::Group(facts));
                }
                self.report(Observation::Refused(workload.clone()));
            }
        }
        is_changed
    }

    /// Reads a workload and changes it, unless it is as requested, or may not be changed. Returns the
    /// answer, and true if it was changed.
    async fn try_change(
        &self,
        workload: &WorkloadId,
        body: &Value,
        is_suspended: bool,
        may_change: impl Fn(&GroupFacts) -> bool,
    ) -> Result<(Answer, bool), kube::Error> {
        let Some(path) = self.path(workload) else { return Ok((Answer::Refused(None), false)) };
        let text = match self.client.request::<GroupText>(get(&path)).await {
            Ok(text) => text,
            Err(error) if code(&error) == Some(404) => {
                return Ok((Answer::Refused(None), false));
            }
            Err(error) => return Err(error),
        };
        let version = text.metadata.resource_version.clone();
        let facts = Box::new(text.facts(workload.kind));
        if facts.uid != workload.uid {
            return Ok((Answer::Refused(None), false));
        }
        match &facts.workload {
            None => return Ok((Answer::Refused(Some(facts)), false)),
            // An earlier try may have succeeded, and its answer may have been lost.
            Some(known) if known.is_suspended == is_suspended => {
                return Ok((Answer::Done(facts), false));
            }
            Some(_) if !may_change(&facts) => return Ok((Answer::Refused(Some(facts)), false)),
            Some(_) => {}
        }
        let mut body = body.clone();
        body["metadata"]["resourceVersion"] = json!(version);
        let changed = self.client.request::<GroupText>(merge(&path, &body)).await?;
        Ok((Answer::Done(Box::new(changed.facts(workload.kind))), true))
    }

    fn path(&self, workload: &WorkloadId) -> Option<String> {
        let api: &GroupApi = workload.kind.api()?;
        let version = self.served.version(workload.kind)?;
        let key = &workload.key;
        Some(format!("/apis/{version}/namespaces/{}/{}/{}", key.namespace, api.plural, key.name))
    }

    async fn notify_workload(&self, workload: &WorkloadId, notice: &Notice<'_>) {
        let Some(api) = workload.kind.api() else { return };
        let Some(version) = self.served.version(workload.kind) else { return };
        let regarding = Regarding {
            api_version: &version,
            kind: api.name,
            key: &workload.key,
            uid: &workload.uid,
        };
        self.notify(&regarding, notice).await;
    }

    /// Sets the condition of a workload. Returns false if another try may succeed.
    async fn set_condition(&self, workload: &WorkloadId, condition: &Condition<'_>) -> bool {
        let Some(path) = self.path(workload) else { return true };
        let Err(error) = self.try_condition(workload, &path, condition).await else { return true };
        match code(&error) {
            Some(404) => true,
            // Its controller changed it at the same time.
            Some(409) => false,
            _ => {
                tracing::warn!("cannot set the condition of {workload}: {}", message(&error));
                !is_transient(&error)
            }
        }
    }

    async fn try_condition(
        &self,
        workload: &WorkloadId,
        path: &str,
        condition: &Condition<'_>,
    ) -> Result<(), kube::Error> {
        let one = json!({
            "type": names::ADMITTED_CONDITION,
            "status": condition.status,
            "reason": condition.reason,
            "message": condition.text,
            "lastTransitionTime": seconds(),
        });
        let status = format!("{path}/status");
        // The API server merges lists by their keys for its own kinds only.
        if workload.kind == GroupKind::Job {
            let body = json!({
                "metadata": {"uid": workload.uid},
                "status": {"conditions": [one]},
            });
            self.client.request::<Value>(patch(&status, &body)).await?;
            return Ok(());
        }
        if workload::lacks_conditions(workload.kind) {
            let annotations = json!({names::ADMITTED_CONDITION: one.to_string()});
            let body = json!({"metadata": {"uid": workload.uid, "annotations": annotations}});
            self.client.request::<Value>(merge(path, &body)).await?;
            return Ok(());
        }
        let object: Value = self.client.request(get(path)).await?;
        let mut conditions = object["status"]["conditions"].as_array().cloned().unwrap_or_default();
        conditions.retain(|known| known["type"] != names::ADMITTED_CONDITION);
        conditions.push(one);
        let body = json!({
            "metadata": {
                "uid": workload.uid,
                "resourceVersion": object["metadata"]["resourceVersion"],
            },
            "status": {"conditions": conditions},
        });
        self.client.request::<Value>(merge(&status, &body)).await?;
        Ok(())
    }
}
