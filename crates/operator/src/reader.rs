//! Answers a user's question about a cluster: lists it once into a scheduler of its own, which plans as
//! the active one would. Nothing is written; the actions of that plan are dropped.

use std::path::PathBuf;

use futures_util::future::join_all;
use kube::Client;
use muster_kubernetes::group::GroupKind;
use muster_kubernetes::job::kueue;
use muster_kubernetes::names;
use muster_model::view::{
    AdvanceReservationView, Explanation, GangView, JobState, NodeView, QueueView,
};
use muster_model::{AdvanceReservationName, QueueName, QueueTree, Reason, Time, UserName};
use muster_scheduler::{Level, ReservationState, Scheduler, Subject};
use serde_json::Value;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use crate::QueueSource;
use crate::access;
use crate::address::{core, get};
use crate::election;
use crate::error::{ReadError, code};
use crate::leader::{now, resume, with_queues};
use crate::object_conditions;
use crate::object_name::ObjectName;
use crate::queue_source::Queues;
use crate::sources::{Report, Served, Sources};
use crate::usage::{Published, PublishedQueues, UsageStore};

/// Cluster to ask, and the terms of its scheduler.
#[derive(Clone, Debug)]
pub struct ReaderSettings {
    /// File with clusters and credentials; `None` for those that kubectl would read.
    pub kubeconfig: Option<PathBuf>,
    /// Context of the kubeconfig; `None` means the current one.
    pub context: Option<String>,
    /// Namespace of objects; `None` for that of the context.
    pub namespace: Option<String>,
    /// Topology levels; empty for those that the active scheduler has published.
    pub levels: Vec<Level>,
    /// Queue tree; `None` for that of the active scheduler.
    pub queues: Option<QueueTree>,
    /// Namespace and name of the lease of the active scheduler.
    pub lease: (String, String),
}

/// Reader of one cluster.
pub struct ClusterReader {
    client: Client,
    namespace: String,
    settings: ReaderSettings,
}

/// Advance reservations that are not over.
#[derive(Debug)]
pub struct ListedReservations {
    /// Instant at which the cluster was listed.
    pub now: Time,
    /// Those that are active, or active later.
    pub in_force: Vec<AdvanceReservationView>,
    /// Those that set nothing aside, each with the reason for users.
    pub refused: Vec<(AdvanceReservationName, String)>,
}

/// Copy of the cluster, as it was when it was listed.
struct Listed {
    scheduler: Scheduler,
    /// Reason for which no scheduler is active.
    inactivity: Option<String>,
    /// Reason for which the plan has no past usage.
    usage_defect: Option<String>,
}

/// Lists that are on their way.
struct Listing {
    served: Served,
    /// The lists end with it.
    _sources: Sources,
    reports: UnboundedReceiver<Report>,
    unlisted: usize,
    /// Rules that the user lacks.
    missing: Vec<String>,
    /// Scheduler as the active one was when it started.
    scheduler: Scheduler,
    queues: Queues,
    inactivity: Option<String>,
    usage_defect: Option<String>,
}

impl Listing {
    /// Waits for all lists; returns a scheduler that has seen everything, and has not planned yet. All
    /// missing rights are reported in one error.
    async fn finish(mut self) -> Result<Listed, ReadError> {
        while self.unlisted > 0 {
            match self.reports.recv().await {
                Some(Report::Listed) => self.unlisted -= 1,
                Some(Report::Unlisted(path, error)) => {
                    self.unlisted -= 1;
                    let rule = || list_rule(&path);
                    unless_forbidden(Err::<(), _>(error), rule, &mut self.missing)?;
                }
                Some(Report::Seen(observation)) => self.scheduler.observe(observation),
                Some(report) => self.queues.take_in(report),
                None => break,
            }
        }
        if !self.missing.is_empty() {
            self.missing.sort();
            return Err(ReadError::Forbidden(self.missing));
        }
        self.queues.take_in_all(&mut self.scheduler, now());
        Ok(Listed {
            scheduler: self.scheduler,
            inactivity: self.inactivity,
            usage_defect: self.usage_defect,
        })
    }
}

/// Object that a user named.
struct Found {
    subject: Subject,
    /// The object as the API server prints it; of a gang without an object its first pod, and `Null`
    /// if its pods have no label.
    object: Value,
}

impl ClusterReader {
    /// Finds the cluster; asks nothing of it yet.
    ///
    /// # Errors
    /// If the kubeconfig is missing or wrong.
    pub async fn new(settings: ReaderSettings) -> Result<Self, ReadError> {
        let kubeconfig = settings.kubeconfig.as_deref();
        let (client, namespace) =
            access::client_of_user(kubeconfig, settings.context.as_deref()).await?;
        let namespace = settings.namespace.clone().unwrap_or(namespace);
        Ok(Self { client, namespace, settings })
    }

    /// Explains a pod or gang object at the present time, which is returned, too. Users who may not
    /// read the whole cluster get the object's conditions.
    ///
    /// # Errors
    /// If the object does not exist, or the name stands for several; if the published settings are
    /// invalid; if the API server refuses or gives no answer.
    pub async fn explain(
        &self,
        name: &ObjectName,
    ) -> Result<(Time, Explanation, GangView), ReadError> {
        // 1. The object is looked up while the cluster is listed.
        let listing = self.start_listing().await?;
        let served = listing.served.clone();
        let queue_labels = listing.queues.labels();
        let (found, listed) = tokio::join!(self.find(name, &served), listing.finish());
        let (found, not_found) = self.or_annotated(name, found)?;
        let (mut listed, missing_rules) = match listed {
            Ok(listed) => (Some(listed), Vec::new()),
            Err(ReadError::Forbidden(rules)) => (None, rules),
            Err(error) => return Err(error),
        };

        // 2. The plan explains it, or else the object itself.
        let now = now();
        let planned = match &mut listed {
            Some(listed) => listed.explain(now, name, &found)?,
            None => None,
        };
        let (explanation, mut view) = match (planned, not_found) {
            (Some(planned), _) => planned,
            (None, Some(error)) => return Err(error),
            (None, None) => self.of_conditions(name, &found, queue_labels).await?,
        };

        // 3. What else keeps it from starting.
        if view.scheduler == names::SCHEDULER && explanation.state == JobState::Pending {
            view.missing_rules = missing_rules;
            let notes = listed.map(|listed| [listed.inactivity, listed.usage_defect]);
            view.notes.extend(notes.into_iter().flatten().flatten());
        }
        Ok((now, explanation, view))
    }

    /// Returns the nodes with what is used of them.
    ///
    /// # Errors
    /// If the published settings are invalid, or the API server refuses or gives no answer.
    pub async fn nodes(&self) -> Result<(Time, Vec<NodeView>), ReadError> {
        let mut listed = self.start_listing().await?.finish().await?;
        let now = listed.scheduler.take_in_all(now());
        Ok((now, listed.scheduler.nodes()))
    }

    /// Returns the queues with what they use and what waits.
    ///
    /// # Errors
    /// If the published settings are invalid, or the API server refuses or gives no answer.
    pub async fn queues(&self) -> Result<(Time, Vec<QueueView>), ReadError> {
        let mut listed = self.start_listing().await?.finish().await?;
        let now = listed.scheduler.take_in_all(now());
        Ok((now, listed.scheduler.queues(now)))
    }

    /// Returns the advance reservations.
    ///
    /// # Errors
    /// If the published settings are invalid, or the API server refuses or gives no answer.
    pub async fn reservations(&self) -> Result<ListedReservations, ReadError> {
        let mut listed = self.start_listing().await?.finish().await?;
        let now = listed.scheduler.take_in_all(now());
        let mut all = ListedReservations { now, in_force: Vec::new(), refused: Vec::new() };
        for one in listed.scheduler.reservations(now) {
            match one.state {
                ReservationState::InForce(view) => all.in_force.push(*view),
                ReservationState::Refused(defect) => all.refused.push((one.name, defect)),
                ReservationState::Over => {}
            }
        }
        Ok(all)
    }

    /// Returns a note that no scheduler is active; `None` if one seems to be.
    ///
    /// # Errors
    /// If the API server refuses or gives no answer.
    pub async fn inactivity(&self) -> Result<Option<String>, ReadError> {
        Ok(election::inactivity(&self.client, &self.settings.lease).await?)
    }

    /// Returns the decayed GPU-seconds of each namespace and queue, as the active scheduler has recorded
    /// them; none without one.
    ///
    /// # Errors
    /// If the record is of another version, or the API server refuses or gives no answer.
    pub async fn usage(&self) -> Result<Vec<(UserName, QueueName, u64)>, ReadError> {
        let (namespace, _) = &self.settings.lease;
        let mut missing = Vec::new();
        let rule = || format!("get configmaps/{} in {namespace}", names::USAGE);
        let published = UsageStore::new(self.client.clone(), namespace).load().await;
        let published = unless_forbidden(published, rule, &mut missing)?;
        if !missing.is_empty() {
            return Err(ReadError::Forbidden(missing));
        }
        let record = published.map_or(Ok(None), |published| published.record);
        let rows = record.and_then(|record| {
            let rows = record.map(|record| record.rows(now())).transpose();
            rows.map_err(|error| error.to_string())
        });
        let rows = rows.map_err(|error| unreadable("the usage", "--queues", error))?;
        Ok(rows.unwrap_or_default())
    }

    // ---- the cluster ----

    /// Reads the settings of the active scheduler, and starts the lists that it depends on.
    async fn start_listing(&self) -> Result<Listing, ReadError> {
        let (namespace, name) = &self.settings.lease;
        let mut missing = Vec::new();
        let rule = |resource, name: &str| format!("get {resource}/{name} in {namespace}");
        let usage = UsageStore::new(self.client.clone(), namespace);
        let (usage, inactivity) =
            tokio::join!(usage.load(), election::inactivity(&self.client, &self.settings.lease));
        let usage = unless_forbidden(usage, || rule("configmaps", names::USAGE), &mut missing)?;
        let inactivity = unless_forbidden(inactivity, || rule("leases", name), &mut missing)?;
        let usage = usage.unwrap_or_else(Published::none);
        let own = &self.settings.levels;
        let published = match usage.settings {
            Ok(settings) => settings,
            // Both are replaced.
            Err(_) if !own.is_empty() && self.settings.queues.is_some() => Default::default(),
            Err(error) => {
                return Err(unreadable("the settings", "both --level and --queues", error));
            }
        };
        let levels = if own.is_empty() { published.levels() } else { own.clone() };
        let (mut scheduler, usage_defect) = resume(levels, usage.record)?;
        if let Some(namespace) = &published.holders {
            scheduler = scheduler.with_holders(namespace);
        }
        let queues = match (&self.settings.queues, published.queues) {
            (Some(tree), _) => QueueSource::Tree(Box::new(tree.clone())),
            (None, PublishedQueues::File) => match usage_defect {
                None => QueueSource::Tree(Box::new(scheduler.queue_tree().clone())),
                Some(error) => return Err(unreadable("the queue tree", "--queues", error)),
            },
            (None, PublishedQueues::Kueue) => QueueSource::Kueue,
            (None, PublishedQueues::Objects) => QueueSource::Objects,
        };
        let (sender, reports) = unbounded_channel();
        let served = Served::default();
        let mut sources = Sources::once(self.client.clone(), sender, served.clone(), &queues);
        let unlisted = sources.start_core() + sources.start_served().await?;
        Ok(Listing {
            served,
            _sources: sources,
            reports,
            unlisted,
            missing,
            scheduler: with_queues(scheduler, &queues)?,
            queues: Queues::of(&queues),
            inactivity: inactivity.flatten(),
            usage_defect,
        })
    }

    // ---- one object ----

    /// Finds the objects of a name: a pod, or else gang objects of all kinds that the cluster serves.
    async fn find(&self, name: &ObjectName, served: &Served) -> Result<Vec<Found>, ReadError> {
        let mut missing = Vec::new();
        if name.may_be_pod() {
            let subject = name.subject(None, &self.namespace);
            let found = self.get(&core("pods", subject.key())).await;
            let rule = || format!("get pods in namespace {}", self.namespace);
            if let Some(object) = unless_forbidden(found, rule, &mut missing)?.flatten() {
                return Ok(vec![Found { subject, object }]);
            }
        }
        let kinds = name.groups().filter_map(|kind| Some((kind, self.path(kind, name, served)?)));
        let asked = kinds.map(|(kind, path)| async move { (kind, self.get(&path).await) });
        let mut found = Vec::new();
        for (kind, answer) in join_all(asked).await {
            let rule = || match kind.api() {
                Some(api) => format!("get {} in namespace {}", api.plural, self.namespace),
                None => format!("list pods in namespace {}", self.namespace),
            };
            let object = unless_forbidden(answer, rule, &mut missing)?.flatten();
            let is_empty = |object: &Value| object["items"].as_array().is_some_and(Vec::is_empty);
            let subject = name.subject(Some(kind), &self.namespace);
            let first = |one: Value| one.pointer("/items/0").cloned().unwrap_or(one);
            found.extend(
                object
                    .filter(|object| !is_empty(object))
                    .map(|object| Found { subject, object: first(object) }),
            );
        }
        // The JobSet of a TrainJob is the same gang.
        let is_kind =
            |found: &Found, kind| matches!(found.subject, Subject::Group(own, _) if own == kind);
        if found.iter().any(|one| is_kind(one, GroupKind::TrainJob)) {
            found.retain(|one| !is_kind(one, GroupKind::JobSet));
        }
        match (found.is_empty(), missing.is_empty()) {
            (false, _) => Ok(found),
            (true, false) => Err(ReadError::Forbidden(missing)),
            (true, true) => Err(ReadError::NotFound {
                what: name.to_string(),
                namespace: self.namespace.clone(),
            }),
        }
    }

    /// Adds the gang of an annotation, which no list selects, to what was not found; then with the error
    /// for a gang that has no pods either.
    fn or_annotated(
        &self,
        name: &ObjectName,
        found: Result<Vec<Found>, ReadError>,
    ) -> Result<(Vec<Found>, Option<ReadError>), ReadError> {
        match found {
            Ok(found) => Ok((found, None)),
            Err(error @ ReadError::NotFound { .. })
                if name.groups().any(|kind| kind == GroupKind::Annotated) =>
            {
                let subject = name.subject(Some(GroupKind::Annotated), &self.namespace);
                Ok((vec![Found { subject, object: Value::Null }], Some(error)))
            }
            Err(error) => Err(error),
        }
    }

    /// Returns the address of a gang object; of pods with a label where the gang has no object; `None`
    /// if the cluster does not serve the kind.
    fn path(&self, kind: GroupKind, name: &ObjectName, served: &Served) -> Option<String> {
        let namespace = &self.namespace;
        let name = &name.name;
        let Some(api) = kind.api() else {
            let selector = format!("{}%3D{name}", names::GANG.replace('/', "%2F"));
            return Some(format!(
                "/api/v1/namespaces/{namespace}/pods?limit=1&labelSelector={selector}"
            ));
        };
        let version = served.version(kind)?;
        Some(format!("/apis/{version}/namespaces/{namespace}/{}/{name}", api.plural))
    }

    /// Returns an object; `None` if it does not exist.
    async fn get(&self, path: &str) -> Result<Option<Value>, kube::Error> {
        match self.client.request(get(path)).await {
            Ok(object) => Ok(Some(object)),
            Err(error) if code(&error) == Some(404) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Explains an object by its conditions, or by those of its pods.
    async fn of_conditions(
        &self,
        name: &ObjectName,
        found: &[Found],
        queue_labels: &[&str],
    ) -> Result<(Explanation, GangView), ReadError> {
        let [one] = found else {
            return Err(ambiguous(name, found.iter().map(|one| &one.subject)));
        };
        let Subject::Group(kind, _) = one.subject else {
            return Ok(object_conditions::of_pod(&one.subject, &one.object));
        };
        let path = format!("/api/v1/namespaces/{}/pods", self.namespace);
        let pods = self.get(&path).await;
        // Without the right to list pods, only the object's conditions are used.
        let pods = unless_forbidden(pods, String::new, &mut Vec::new())?.flatten();
        let pods = pods.and_then(|list| list["items"].as_array().cloned()).unwrap_or_default();
        let object = &one.object;
        let of_kueue = if object_conditions::waits_for_kueue(object, queue_labels) {
            self.reason_of_kueue(object).await?
        } else {
            None
        };
        let subject = &one.subject;
        Ok(object_conditions::of_object(subject, kind, object, &pods, queue_labels, of_kueue))
    }

    /// Returns Kueue's reason for not starting an object; `None` if it has said nothing, or if its
    /// Workloads may not be listed.
    async fn reason_of_kueue(&self, object: &Value) -> Result<Option<Reason>, ReadError> {
        let group = self.get(&format!("/apis/{}", kueue::GROUP)).await?;
        let version = group.as_ref().and_then(|group| {
            group.pointer("/preferredVersion/groupVersion").and_then(Value::as_str)
        });
        let Some(version) = version else { return Ok(None) };
        let path = format!("/apis/{version}/namespaces/{}/{}", self.namespace, kueue::WORKLOADS);
        let list = unless_forbidden(self.get(&path).await, String::new, &mut Vec::new())?.flatten();
        let workloads = list.as_ref().and_then(|list| list["items"].as_array());
        let mut reasons = workloads.into_iter().flatten().filter_map(kueue::waiting_reason);
        let own = reasons.find(|(uid, _)| object["metadata"]["uid"] == **uid);
        Ok(own.map(|(_, reason)| reason))
    }
}

impl Listed {
    /// Plans, and explains the objects of a name by the plan; `None` if Muster schedules none of them.
    fn explain(
        &mut self,
        now: Time,
        name: &ObjectName,
        found: &[Found],
    ) -> Result<Option<(Explanation, GangView)>, ReadError> {
        drop(self.scheduler.step(now));
        let mut planned: Vec<(&Found, (Explanation, GangView))> = found
            .iter()
            .filter_map(|one| Some((one, self.scheduler.inspect(now, &one.subject)?)))
            .collect();
        planned.dedup_by(|(_, (_, a)), (_, (_, b))| a.gang == b.gang);
        if planned.len() > 1 {
            return Err(ambiguous(name, planned.iter().map(|(one, _)| &one.subject)));
        }
        let Some((one, (explanation, mut view))) = planned.pop() else { return Ok(None) };
        // The plan would start it: the active scheduler may have a reason that is not in the objects.
        if explanation.state == JobState::Pending && explanation.reasons.is_empty() {
            let said = object_conditions::last_message(&one.object);
            view.notes.extend(said.map(|said| format!("last message of its scheduler: {said}")));
        }
        Ok(Some((explanation, view)))
    }
}

fn unreadable(what: &'static str, options: &'static str, error: String) -> ReadError {
    ReadError::Published { what, error, options }
}

fn ambiguous<'a>(name: &ObjectName, subjects: impl Iterator<Item = &'a Subject>) -> ReadError {
    ReadError::Ambiguous { name: name.to_string(), choices: subjects.map(Subject::text).collect() }
}

/// Returns an answer; `None` if it was forbidden, and then the missing rule is added to the list.
fn unless_forbidden<T>(
    answer: Result<T, kube::Error>,
    rule: impl FnOnce() -> String,
    missing: &mut Vec<String>,
) -> Result<Option<T>, ReadError> {
    match answer {
        Ok(answer) => Ok(Some(answer)),
        Err(error) if code(&error) == Some(403) => {
            missing.push(rule());
            Ok(None)
        }
        // A kind that is no longer served has no objects.
        Err(error) if code(&error) == Some(404) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Returns the rule that a list needs, as `list nodes` or `list jobsets.jobset.x-k8s.io`.
fn list_rule(path: &str) -> String {
    let parts: Vec<&str> = path.trim_start_matches('/').split('/').collect();
    match parts[..] {
        ["apis", group, _, plural] => format!("list {plural}.{group}"),
        _ => format!("list {}", parts.last().copied().unwrap_or_default()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_are_named_as_kubectl_names_resources() {
        assert_eq!(list_rule("/api/v1/nodes"), "list nodes");
        assert_eq!(
            list_rule("/apis/jobset.x-k8s.io/v1alpha2/jobsets"),
            "list jobsets.jobset.x-k8s.io"
        );
    }
}
