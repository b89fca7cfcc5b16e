//! Explanations from the conditions of an object and of its pods, for objects that no plan covers.

use std::borrow::Cow;
use std::collections::BTreeMap;

use muster_kubernetes::group::{GangRef, GroupKind, SUCCESS, workload};
use muster_kubernetes::instant;
use muster_kubernetes::job::kueue;
use muster_kubernetes::names;
use muster_kubernetes::pod::PodText;
use muster_model::view::{
    Explanation, GangPods, GangSource, GangView, JobState, PlacedOn, PlacementView,
};
use muster_model::{ElementId, GpuMilli, JobId, Reason, Time};
use muster_scheduler::Subject;
use serde_json::Value;

/// Scheduler of pods that name none.
const DEFAULT_SCHEDULER: &str = "default-scheduler";
/// Places of the scheduler's name in a Job and a JobSet.
const SCHEDULER_NAMES: [&str; 2] = [
    "/spec/template/spec/schedulerName",
    "/spec/replicatedJobs/0/template/spec/template/spec/schedulerName",
];
/// Name of the program that starts suspended objects with Kueue's label.
const KUEUE: &str = "kueue";

/// Explains a pod by its conditions.
pub(crate) fn of_pod(subject: &Subject, pod: &Value) -> (Explanation, GangView) {
    let state = state_of_pod(pod);
    let reasons = match state {
        JobState::Pending => vec![reason_of_pod(pod)],
        JobState::Failed => vec![failure_of_pod(pod)],
        _ => Vec::new(),
    };
    of_pods(subject, state, reasons, &[pod])
}

/// Explains a gang object by its conditions, or by those of its pods. `queue_labels` are those by which
/// an object asks Muster to start it, `of_kueue` is Kueue's reason for not starting it.
pub(crate) fn of_object(
    subject: &Subject,
    kind: GroupKind,
    object: &Value,
    namespace: &[Value],
    queue_labels: &[&str],
    of_kueue: Option<Reason>,
) -> (Explanation, GangView) {
    let gang = GangRef::of_object(kind, subject.key().clone());
    let pods: Vec<&Value> = namespace.iter().filter(|pod| is_of(pod, &gang)).collect();
    let (state, mut reason) =
        state_of_object(object, queue_labels).unwrap_or_else(|| state_of_pods(&pods));
    if state == JobState::Pending && waits_for_kueue(object, queue_labels) {
        reason = of_kueue.or(reason);
    }
    let (explanation, mut view) = of_pods(subject, state, reason.into_iter().collect(), &pods);
    if pods.is_empty() {
        view.scheduler = scheduler_of_object(object, queue_labels);
    }
    (explanation, view)
}

/// Returns the state of a gang by its pods, with the reason of the first that waits.
fn state_of_pods(pods: &[&Value]) -> (JobState, Option<Reason>) {
    let waiting = pods.iter().find(|pod| state_of_pod(pod) == JobState::Pending);
    let has = |state| pods.iter().any(|pod| state_of_pod(pod) == state);
    match waiting {
        Some(pod) => (JobState::Pending, Some(reason_of_pod(pod))),
        None if has(JobState::Running) => (JobState::Running, None),
        None if has(JobState::Stopping) => (JobState::Stopping, None),
        None if pods.is_empty() => {
            (JobState::Pending, Some(native("NoPods", "it has no pods, or none that name it")))
        }
        None => (JobState::Pending, Some(native("NoPods", "its pods have ended"))),
    }
}

/// Returns true if a pod names this gang, or is of its object: schedulers make gangs of their own of the pods of others.
fn is_of(pod: &Value, gang: &GangRef) -> bool {
    let Ok(text) = serde_json::from_value::<PodText>(pod.clone()) else { return false };
    let of_controller = GangRef::of_controller(&text.metadata);
    let named = text.facts().gang;
    let mut own = named.iter().chain(&of_controller);
    own.any(|own| own.kind == gang.kind && own.object == gang.object)
}

fn of_pods(
    subject: &Subject,
    state: JobState,
    reasons: Vec<Reason>,
    pods: &[&Value],
) -> (Explanation, GangView) {
    let job = ElementId::single(JobId(0));
    let mut explanation = Explanation::blank(job, subject.key().name.to_string(), state, "".into());
    explanation.reasons = reasons;
    let running = || pods.iter().filter(|pod| state_of_pod(pod) == JobState::Running);
    let since = running()
        .filter_map(|pod| {
            instant::parse(condition(pod, "PodScheduled")?["lastTransitionTime"].as_str()?)
        })
        .min();
    explanation.placement = placement(running().copied(), since);
    let scheduler = pods.first().and_then(|pod| pod["spec"]["schedulerName"].as_str());
    let view = GangView {
        object: subject.text(),
        gang: subject.text(),
        namespace: subject.key().namespace.to_string(),
        scheduler: scheduler.unwrap_or(DEFAULT_SCHEDULER).to_owned(),
        source: GangSource::Condition,
        pods: count(pods),
        since,
        missing_rules: Vec::new(),
        notes: Vec::new(),
        jobs: BTreeMap::new(),
    };
    (explanation, view)
}

fn count(pods: &[&Value]) -> GangPods {
    let mut counts = GangPods::default();
    for pod in pods {
        match state_of_pod(pod) {
            JobState::Done | JobState::Failed => counts.ended += 1,
            // A pod that is being deleted runs until it has ended.
            _ if pod["spec"]["nodeName"].is_string() => counts.running += 1,
            _ => counts.waiting += 1,
        }
    }
    counts
}

/// Returns where pods run; which GPUs they have is not known.
fn placement<'a>(
    pods: impl Iterator<Item = &'a Value>,
    since: Option<Time>,
) -> Option<PlacementView> {
    let mut nodes: BTreeMap<&str, u32> = BTreeMap::new();
    for node in pods.filter_map(|pod| pod["spec"]["nodeName"].as_str()) {
        *nodes.entry(node).or_default() += 1;
    }
    let place = |(node, tasks): (&&str, &u32)| PlacedOn {
        node: (*node).into(),
        tasks: *tasks,
        devices: Vec::new(),
        share: GpuMilli(0),
    };
    Some(PlacementView {
        tasks: nodes.values().sum(),
        nodes: u32::try_from(nodes.len()).unwrap_or(u32::MAX),
        places: nodes.iter().map(place).collect(),
        levels: Vec::new(),
        since: since?,
        backfilled: false,
        predicted: false,
        next: None,
    })
}

fn state_of_pod(pod: &Value) -> JobState {
    match pod["status"]["phase"].as_str() {
        Some("Succeeded") => JobState::Done,
        Some("Failed") => JobState::Failed,
        _ if pod["metadata"]["deletionTimestamp"].is_string() => JobState::Stopping,
        _ if pod["spec"]["nodeName"].is_string() => JobState::Running,
        _ => JobState::Pending,
    }
}

fn reason_of_pod(pod: &Value) -> Reason {
    match condition(pod, "PodScheduled").filter(|one| one["message"].is_string()) {
        Some(said) => of_condition(said),
        None => native("NotScheduled", "its scheduler has not said why yet"),
    }
}

/// Returns why a pod failed: as its node says, or the exit of a container.
fn failure_of_pod(pod: &Value) -> Reason {
    let status = &pod["status"];
    let containers = status["containerStatuses"].as_array().into_iter().flatten();
    let exits = containers.filter_map(|one| {
        let code = one.pointer("/state/terminated/exitCode")?.as_i64()?;
        (code != 0).then(|| format!("container {} exited with {code}", word(&one["name"])))
    });
    let code = status["reason"].as_str().unwrap_or("Failed");
    let message =
        status["message"].as_str().map(str::to_owned).or_else(|| exits.into_iter().next());
    native(code, &message.unwrap_or_else(|| "its node does not say why".to_owned()))
}

/// Returns the state of an object that has ended, is suspended, or says why it waits.
fn state_of_object(object: &Value, queue_labels: &[&str]) -> Option<(JobState, Option<Reason>)> {
    let is_true = |kind| condition(object, kind).filter(|one| one["status"] == "True");
    if SUCCESS.iter().any(|kind| is_true(kind).is_some()) {
        return Some((JobState::Done, None));
    }
    if let Some(said) = is_true("Failed") {
        return Some((JobState::Failed, Some(of_condition(said))));
    }
    if !is_suspended(object) {
        return None;
    }
    if let Some(by) = object["metadata"]["annotations"][names::CANCELLED].as_str() {
        return Some((JobState::Cancelled, Some(native("Cancelled", &format!("by {by}")))));
    }
    let reason = match (workload::admission(object), kueue_queue(object)) {
        (Some(said), _) => of_condition(&said),
        (None, _) if has_queue(object, queue_labels) => {
            native("Suspended", "it is suspended, and its scheduler has not said why yet")
        }
        (None, Some(queue)) => kueue::not_admitted(queue),
        (None, None) => native(
            "Suspended",
            &format!(
                "it is suspended, and Muster does not start it: it has no label {}",
                queue_labels.join(" or ")
            ),
        ),
    };
    Some((JobState::Pending, Some(reason)))
}

/// Returns the last message of a scheduler about an object that waits.
pub(crate) fn last_message(object: &Value) -> Option<String> {
    let of_pod = condition(object, "PodScheduled").map(Cow::Borrowed);
    let said = of_pod.or_else(|| workload::admission(object));
    said.filter(|one| one["status"] == "False")?["message"].as_str().map(str::to_owned)
}

/// Returns true for a suspended object that Kueue starts, and not Muster.
pub(crate) fn waits_for_kueue(object: &Value, queue_labels: &[&str]) -> bool {
    is_suspended(object)
        && kueue_queue(object).is_some()
        && !has_queue(object, queue_labels)
        && workload::admission(object).is_none()
}

fn is_suspended(object: &Value) -> bool {
    let at = |path| object.pointer(path).and_then(Value::as_bool).unwrap_or(false);
    at("/spec/suspend") || at("/spec/runPolicy/suspend")
}

fn kueue_queue(object: &Value) -> Option<&str> {
    object["metadata"]["labels"][names::KUEUE_QUEUE].as_str()
}

fn has_queue(object: &Value, queue_labels: &[&str]) -> bool {
    queue_labels.iter().any(|label| object["metadata"]["labels"][label].is_string())
}

fn scheduler_of_object(object: &Value, queue_labels: &[&str]) -> String {
    if waits_for_kueue(object, queue_labels) {
        return KUEUE.to_owned();
    }
    let named = |path: &&str| object.pointer(path)?.as_str();
    let template = SCHEDULER_NAMES.iter().find_map(named);
    let is_own = workload::admission(object).is_some() || has_queue(object, queue_labels);
    let own = is_own.then_some(names::SCHEDULER);
    template.or(own).unwrap_or(DEFAULT_SCHEDULER).to_owned()
}

fn condition<'a>(object: &'a Value, kind: &str) -> Option<&'a Value> {
    let conditions = object["status"]["conditions"].as_array()?;
    conditions.iter().find(|one| one["type"] == kind)
}

fn of_condition(condition: &Value) -> Reason {
    native(word(&condition["reason"]), word(&condition["message"]))
}

fn word(value: &Value) -> &str {
    value.as_str().unwrap_or("unknown")
}

fn native(code: &str, message: &str) -> Reason {
    Reason::Native { code: code.to_owned(), message: message.to_owned(), evidence: Vec::new() }
}

#[cfg(test)]
mod tests {
    use muster_kubernetes::object::ObjectKey;
    use serde_json::json;

    use super::*;

    fn subject(kind: GroupKind) -> Subject {
        Subject::Group(kind, ObjectKey::new("team", "train"))
    }

    fn told(explanation: &Explanation) -> (JobState, String) {
        let text = match &explanation.reasons[..] {
            [Reason::Native { code, message, .. }] => format!("{code}: {message}"),
            [] => String::new(),
            others => format!("{others:?}"),
        };
        (explanation.state, text)
    }

    fn check_pod(pod: &Value, state: JobState, text: &str) {
        let subject = Subject::Pod(ObjectKey::new("team", "p"));
        let (explanation, view) = of_pod(&subject, pod);
        assert_eq!(told(&explanation), (state, text.to_owned()), "{pod}");
        assert_eq!((view.scheduler.as_str(), view.gang.as_str()), ("other", "pod/p"));
    }

    #[test]
    fn a_pod_says_why_it_waits_or_failed() {
        let pod = |node: Option<&str>, status: Value| json!({"spec": {"schedulerName": "other", "nodeName": node}, "status": status});
        let scheduled = json!({"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/8 nodes"});
        let waiting = pod(None, json!({"conditions": [scheduled]}));
        check_pod(&waiting, JobState::Pending, "Unschedulable: 0/8 nodes");
        let new = pod(None, json!({}));
        check_pod(&new, JobState::Pending, "NotScheduled: its scheduler has not said why yet");
        let running = pod(Some("n1"), json!({"phase": "Running"}));
        check_pod(&running, JobState::Running, "");
        let exit = json!({"name": "main", "state": {"terminated": {"exitCode": 3}}});
        let failed = pod(None, json!({"phase": "Failed", "containerStatuses": [exit]}));
        check_pod(&failed, JobState::Failed, "Failed: container main exited with 3");
        let full = json!({"phase": "Failed", "reason": "OutOfcpu", "message": "no cpu"});
        check_pod(&pod(None, full), JobState::Failed, "OutOfcpu: no cpu");
    }

    #[test]
    fn an_object_says_so_itself_or_by_its_pods() {
        let check = |object: Value, pods: &[Value], state, text: &str, scheduler: &str| {
            let labels = [names::QUEUE];
            let (explanation, view) =
                of_object(&subject(GroupKind::Job), GroupKind::Job, &object, pods, &labels, None);
            assert_eq!(told(&explanation), (state, text.to_owned()), "{object}");
            assert_eq!(view.scheduler, scheduler, "{object}");
        };
        let done = json!({"status": {"conditions": [{"type": "Complete", "status": "True"}]}});
        check(done, &[], JobState::Done, "", "default-scheduler");
        let suspended = json!({"metadata": {}, "spec": {"suspend": true}});
        let text = "Suspended: it is suspended, and Muster does not start it: it has no label muster.run/queue";
        check(suspended.clone(), &[], JobState::Pending, text, "default-scheduler");
        let mut cancelled = suspended.clone();
        cancelled["metadata"]["annotations"] = json!({"muster.run/cancelled": "ann"});
        check(cancelled, &[], JobState::Cancelled, "Cancelled: by ann", "default-scheduler");
        let mut admitted = suspended;
        admitted["status"] = json!({"conditions": [{"type": "muster.run/Admitted", "status": "False", "reason": "Waiting", "message": "needs 8 GPUs"}]});
        check(admitted, &[], JobState::Pending, "Waiting: needs 8 GPUs", "muster");
        let pod = |node: Option<&str>| {
            json!({
                "metadata": {"name": "p", "namespace": "team", "ownerReferences": [
                    {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "controller": true}]},
                "spec": {"schedulerName": "muster", "nodeName": node},
                "status": {"conditions": [{"type": "PodScheduled", "status": "False",
                    "reason": "Unschedulable", "message": "the gang needs 2 pods, and 1 exist"}]},
            })
        };
        let stranger = json!({"metadata": {"name": "q", "namespace": "team"}, "spec": {}});
        let open = json!({"spec": {}});
        let text = "Unschedulable: the gang needs 2 pods, and 1 exist";
        let pods = [stranger.clone(), pod(Some("n1")), pod(None)];
        check(open.clone(), &pods, JobState::Pending, text, "muster");
        check(open.clone(), &[pod(Some("n1"))], JobState::Running, "", "muster");
        let text = "NoPods: it has no pods, or none that name it";
        check(open.clone(), &[stranger], JobState::Pending, text, "default-scheduler");
        let mut ending = pod(Some("n1"));
        ending["metadata"]["deletionTimestamp"] = json!("2026-11-20T12:00:00Z");
        check(open, &[ending], JobState::Stopping, "", "muster");
    }

    /// Native PodGroups, and KAI's, are made for the pods of Jobs and JobSets.
    #[test]
    fn pods_of_an_object_are_found_whatever_group_they_name() {
        let named = [
            json!({"annotations": {"pod-group-name": "pg-train-1"}}),
            json!({"labels": {"scheduling.x-k8s.io/pod-group": "train-group"}}),
            json!({}),
        ];
        for (kind, mut metadata) in [GroupKind::Job, GroupKind::JobSet]
            .into_iter()
            .flat_map(|kind| named.iter().map(move |metadata| (kind, metadata.clone())))
        {
            if kind == GroupKind::JobSet {
                metadata["labels"]["jobset.sigs.k8s.io/jobset-name"] = json!("train");
            }
            let owner = if kind == GroupKind::Job { "train" } else { "train-main-0" };
            metadata["name"] = json!("p");
            metadata["namespace"] = json!("team");
            metadata["ownerReferences"] = json!([
                {"apiVersion": "batch/v1", "kind": "Job", "name": owner, "controller": true}]);
            let full = json!({"type": "PodScheduled", "status": "False", "reason": "Full", "message": "0/8 nodes"});
            let pod = json!({
                "metadata": metadata,
                "spec": {"schedulerName": "other", "schedulingGroup": {"podGroupName": "train"}},
                "status": {"conditions": [full]},
            });
            let (explanation, view) = of_object(
                &subject(kind),
                kind,
                &json!({"spec": {}}),
                &[pod],
                &[names::QUEUE],
                None,
            );
            assert_eq!(told(&explanation), (JobState::Pending, "Full: 0/8 nodes".to_owned()));
            assert_eq!((view.scheduler.as_str(), view.pods.waiting), ("other", 1));
        }
        let roles =
            json!([{"template": {"spec": {"template": {"spec": {"schedulerName": "kai"}}}}}]);
        let held = json!({"spec": {"suspend": true, "replicatedJobs": roles}});
        let kind = GroupKind::JobSet;
        let (_, view) = of_object(&subject(kind), kind, &held, &[], &[names::QUEUE], None);
        assert_eq!(view.scheduler, "kai");
    }

    /// Kueue's label asks Muster to start an object only if Muster reads Kueue's queues.
    #[test]
    fn a_suspended_object_is_of_the_scheduler_that_its_label_names() {
        const MISSING: &str = "it is suspended, and Muster does not start it: it has no label ";
        let unsaid = "it is suspended, and its scheduler has not said why yet";
        let check = |label: &str, labels: &[&str], text: &str, scheduler: &str| {
            let object = json!({"metadata": {"labels": {label: "q"}}, "spec": {"suspend": true}});
            let (explanation, view) =
                of_object(&subject(GroupKind::Job), GroupKind::Job, &object, &[], labels, None);
            assert_eq!(told(&explanation).1, format!("Suspended: {text}"), "{label} {labels:?}");
            assert_eq!(view.scheduler, scheduler, "{label} {labels:?}");
        };
        let own = [names::QUEUE];
        let both = [names::QUEUE, names::KUEUE_QUEUE];
        check(names::QUEUE, &own, unsaid, "muster");
        check(names::QUEUE, &both, unsaid, "muster");
        check(names::KUEUE_QUEUE, &both, unsaid, "muster");
        let of_kueue =
            "Kueue has not admitted it to its queue q; `kubectl get workloads` shows why";
        check(names::KUEUE_QUEUE, &own, of_kueue, "kueue");
        let text = format!("{MISSING}muster.run/queue");
        check("team", &own, &text, "default-scheduler");
        let text = format!("{MISSING}muster.run/queue or kueue.x-k8s.io/queue-name");
        check("team", &both, &text, "default-scheduler");
    }

    #[test]
    fn kueue_says_why_it_does_not_start_an_object() {
        let check = |mut object: Value, labels: &[&str], text: &str| {
            object["metadata"]["labels"][names::KUEUE_QUEUE] = json!("q");
            let kind = GroupKind::PyTorchJob;
            let of_kueue = Some(native("Pending", "insufficient quota"));
            let (explanation, _) = of_object(&subject(kind), kind, &object, &[], labels, of_kueue);
            assert_eq!(told(&explanation).1, text, "{object}");
        };
        let suspended = json!({"spec": {"runPolicy": {"suspend": true}}});
        check(suspended.clone(), &[names::QUEUE], "Pending: insufficient quota");
        // Muster has replaced Kueue.
        let unsaid = "Suspended: it is suspended, and its scheduler has not said why yet";
        check(suspended.clone(), &[names::QUEUE, names::KUEUE_QUEUE], unsaid);
        let mut cancelled = suspended;
        cancelled["metadata"]["annotations"] = json!({"muster.run/cancelled": "ann"});
        check(cancelled, &[names::QUEUE], "Cancelled: by ann");
        let started = json!({"spec": {}});
        check(started, &[names::QUEUE], "NoPods: it has no pods, or none that name it");
    }

    #[test]
    fn pods_that_are_being_deleted_have_not_ended() {
        let pod = |node: Option<&str>, phase: &str, is_deleted: bool| {
            let deletion = is_deleted.then_some("2026-11-20T12:00:00Z");
            json!({"metadata": {"deletionTimestamp": deletion}, "spec": {"nodeName": node},
                "status": {"phase": phase}})
        };
        let pods = [
            pod(Some("n1"), "Running", true),
            pod(Some("n1"), "Running", false),
            pod(None, "Pending", true),
            pod(None, "Pending", false),
            pod(Some("n1"), "Succeeded", true),
            pod(Some("n1"), "Failed", false),
        ];
        let counts = count(&pods.iter().collect::<Vec<_>>());
        assert_eq!((counts.running, counts.waiting, counts.ended), (2, 2, 2));
    }
}
