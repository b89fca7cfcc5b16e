//! The view of a job, as `muster ps` and `muster show` print it.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;

use muster_model::view::{
    ArrayView, ElementRow, ElementView, JobState, JobView, NativeView, RoleView, ServiceView,
};
use muster_model::{Array, ElementId, GpuMilli, Outcome, Replicas, Span, Time};
use serde_json::Value;

use super::{
    JobObject, JobRole, JobStatus, JobTask, condition, label, number_at, present_roles, roles,
    status, tasks,
};
use crate::instant;
use crate::names;
use crate::queue;
use crate::span;

/// Queue of a job that names none.
const DEFAULT_QUEUE: &str = "default";

/// Largest difference at which the client's clock is trusted: a creation is in whole seconds, and a request takes time.
const CLOCKS_AGREE: Span = Span::from_secs(2);

/// Returns the view of a job with these pods. `namespace` is that of the user: jobs of others are named
/// with theirs.
#[must_use]
pub fn view(job: JobObject<'_>, pods: &[&Value], namespace: &str) -> JobView {
    let roles = present_roles(job, pods);
    let tasks = tasks(job, &roles, pods);
    let status = status(job, &roles, &tasks);
    let restarts = restarts(job, &status);
    let array = job.array();
    let elements = match &array {
        Some(array) => active_elements(job, array, &tasks),
        None if job.api.is_service() => replicas(job, &tasks),
        None => vec![element(job, 0, &status, &tasks)],
    };
    JobView {
        queue: queue_of(job).as_str().into(),
        tasks: super::expected(&roles),
        gpus: GpuMilli(
            roles
                .iter()
                .map(|role| role.tasks().saturating_mul(role.gpus.0))
                .fold(0, u32::saturating_add),
        ),
        roles: roles.iter().map(role_view).collect(),
        time_limit: time_limit(job),
        started: started(job, &tasks),
        ended: ended(job, &status, &tasks),
        array: array.map(|array| counts(job, &array)),
        service: job.replicas().map(|replicas| service(job, replicas, &tasks)),
        elements,
        waiting_for: status.reason,
        native: Some(NativeView {
            system: "kubernetes".to_owned(),
            cluster: None,
            state: status.word,
            reason: None,
            partition: job.namespace().to_owned(),
            qos: None,
            restarts,
            id: Some(job.uid().to_owned()),
            name: Some(label(job.namespace(), job.name(), namespace)),
        }),
        ..JobView::blank(
            job.number(),
            job.job_name().to_owned(),
            job.annotation(names::USER).unwrap_or_default().into(),
            status.state,
            submitted(job),
        )
    }
}

/// Returns how often the job has started again. KubeRay counts failed attempts, the last one too.
fn restarts(job: JobObject<'_>, status: &JobStatus) -> u32 {
    if !job.is_ray() {
        let field = if job.api.is_of_volcano() { "retryCount" } else { "restarts" };
        return number_at(&job.object["status"], &format!("/{field}")).unwrap_or(0);
    }
    let failed = number_at(job.object, "/status/failed").unwrap_or(0);
    failed.saturating_sub(u32::from(status.state == JobState::Failed))
}

/// Returns the view with the element of this index, which views of arrays leave out once it has ended;
/// unchanged if the array does not have it.
#[must_use]
pub fn with_element(mut view: JobView, job: JobObject<'_>, pods: &[&Value], index: u32) -> JobView {
    let is_shown = view.elements.iter().any(|element| element.element.index == index);
    let ordinal = job.array().and_then(|array| Some((array.ordinal_of(index)?, array)));
    if let Some((ordinal, array)) = ordinal.filter(|_| !is_shown) {
        let roles = roles(job);
        let tasks = tasks(job, &roles, pods);
        view.elements.push(element_of(job, &array, ordinal, &tasks));
        view.elements.sort_by_key(|element| element.element.index);
    }
    view
}

/// Returns the elements of an array by index, or those of another job. Elements whose pods are gone have their state
/// from the indices that the controller has counted.
#[must_use]
pub fn elements(job: JobObject<'_>, pods: &[&Value], namespace: &str) -> Vec<ElementRow> {
    let Some(array) = job.array() else {
        return view(job, pods, namespace).elements.iter().map(ElementRow::of).collect();
    };
    let roles = roles(job);
    let mut of_element: BTreeMap<u32, Vec<JobTask<'_>>> = BTreeMap::new();
    for task in tasks(job, &roles, pods) {
        of_element.entry(task.ordinal).or_default().push(task);
    }
    let ended =
        |path: &str| indices(job.object.pointer(path).and_then(Value::as_str).unwrap_or(""));
    let succeeded = ended("/status/completedIndexes");
    let failed = ended("/status/failedIndexes");
    let row = |ordinal: u32| {
        let own = of_element.get(&ordinal).map_or(&[][..], Vec::as_slice);
        let mut row = ElementRow::of(&element_of(job, &array, ordinal, own));
        let is_in =
            |ranges: &[RangeInclusive<u32>]| ranges.iter().any(|one| one.contains(&ordinal));
        if own.is_empty() && is_in(&succeeded) {
            row.state = JobState::Done;
            row.outcome = Some(Outcome::Succeeded);
        } else if own.is_empty() && is_in(&failed) {
            row.state = JobState::Failed;
        }
        row
    };
    (0..array.count()).map(row).collect()
}

fn role_view(role: &JobRole) -> RoleView {
    RoleView {
        name: role.name.clone(),
        tasks: role.tasks(),
        gpus: role.gpus,
        models: Vec::new(),
        cpus: role.cpus,
        memory: role.memory,
    }
}

/// Returns the queue in the words of the scheduler that has one.
pub(super) fn queue_of(job: JobObject<'_>) -> String {
    if let Some(name) = job.label(names::QUEUE).filter(|name| !name.is_empty()) {
        return queue::path(name);
    }
    let volcano = job.object["spec"]["queue"].as_str();
    let of_ray = [names::VOLCANO_QUEUE_LABEL, names::KAI_QUEUE];
    let of_ray = of_ray.into_iter().filter(|_| job.is_ray()).find_map(|key| job.label(key));
    job.label(names::KUEUE_QUEUE).or(volcano).or(of_ray).unwrap_or(DEFAULT_QUEUE).to_owned()
}

fn time_limit(job: JobObject<'_>) -> Option<Span> {
    let spec = &job.object["spec"];
    if job.is_ray() {
        return spec["activeDeadlineSeconds"].as_u64().map(Span::from_secs);
    }
    let paths = ["/template", "/tasks/0/template", "/replicatedJobs/0/template/spec/template"];
    let template = paths.iter().find_map(|path| spec.pointer(path))?;
    let named = template["metadata"]["annotations"][names::TIME_LIMIT].as_str();
    let deadline = template["spec"]["activeDeadlineSeconds"].as_u64();
    named.and_then(span::parse).or(deadline.map(Span::from_secs))
}

// ---- instants ----

fn at(value: &Value) -> Option<Time> {
    instant::parse(value.as_str()?)
}

/// Returns when the object was created; the client's clock refines it as far as both agree.
fn submitted(job: JobObject<'_>) -> Time {
    let created = at(&job.object["metadata"]["creationTimestamp"]).unwrap_or_default();
    let said = job.annotation(names::SUBMITTED).and_then(|text| text.parse().ok()).map(Time);
    let is_near = |said: &Time| said.0.abs_diff(created.0) < CLOCKS_AGREE.0;
    said.filter(is_near).unwrap_or(created)
}

/// Returns when the first task started; where the pods are gone, when the controller started the job.
fn started(job: JobObject<'_>, tasks: &[JobTask<'_>]) -> Option<Time> {
    let first = tasks.iter().filter_map(JobTask::started).min();
    let has_ended = super::state::end_of(job.object).is_some()
        || job.is_ray() && at(&job.object["status"]["endTime"]).is_some();
    let is_gone = tasks.is_empty() && has_ended;
    // KubeRay's own start is that of the wait for the pods.
    let status = &job.object["status"];
    let of_program = at(&status["rayJobInfo"]["startTime"]);
    first.or_else(|| of_program.or_else(|| at(&status["startTime"])).filter(|_| is_gone))
}

fn ended(job: JobObject<'_>, status: &JobStatus, tasks: &[JobTask<'_>]) -> Option<Time> {
    if !status.state.is_final() {
        return None;
    }
    let object = job.object;
    let of_condition = |kind: &str| {
        at(&condition(object, kind).filter(|said| said["status"] == "True")?["lastTransitionTime"])
    };
    at(&object["status"]["completionTime"])
        .or_else(|| at(&object["status"]["endTime"]))
        .or_else(|| {
            ["Complete", "Completed", "Succeeded", "Failed", "Suspended"]
                .into_iter()
                .find_map(of_condition)
        })
        .or_else(|| tasks.iter().filter_map(JobTask::ended).max())
}

// ---- elements ----

fn element(
    job: JobObject<'_>,
    index: u32,
    status: &JobStatus,
    tasks: &[JobTask<'_>],
) -> ElementView {
    let started = started(job, tasks);
    let limit = time_limit(job);
    let ends_by = started.zip(limit).map(|(started, limit)| started + limit);
    ElementView {
        attempt: tasks.iter().map(|task| task.attempt).max().unwrap_or(0),
        started,
        ends_by: ends_by.filter(|_| !status.state.is_final()),
        ended: ended(job, status, tasks),
        outcome: status.outcome.clone(),
        tasks: tasks.iter().map(JobTask::view).collect(),
        ..ElementView::blank(ElementId { job: job.number(), index }, status.state)
    }
}

/// Returns the elements of an array that have a pod and have not ended.
fn active_elements(job: JobObject<'_>, array: &Array, tasks: &[JobTask<'_>]) -> Vec<ElementView> {
    let ordinals: BTreeSet<u32> = tasks.iter().map(|task| task.ordinal).collect();
    let elements = ordinals.into_iter().filter(|ordinal| *ordinal < array.count());
    elements
        .map(|ordinal| element_of(job, array, ordinal, tasks))
        .filter(|element| !element.state.is_final() && element.state != JobState::Pending)
        .collect()
}

/// Returns the replicas that have a pod, counted in the order of the names of the pods.
fn replicas(job: JobObject<'_>, tasks: &[JobTask<'_>]) -> Vec<ElementView> {
    let of_task = |task: &JobTask<'_>| {
        let own = [*task];
        element(job, task.ordinal, &super::state::of_element(&own), &own)
    };
    tasks.iter().map(of_task).collect()
}

fn service(job: JobObject<'_>, replicas: Replicas, tasks: &[JobTask<'_>]) -> ServiceView {
    let count = |path: &str| number_at(job.object, path).unwrap_or(0);
    let bound = tasks.iter().filter(|task| task.pod["spec"]["nodeName"].is_string()).count();
    let active = u32::try_from(bound).unwrap_or(u32::MAX);
    // An InferenceService does not count its replicas.
    let (pod, ready, wanted) = if job.api.is_of_kserve() {
        let ready = tasks.iter().filter(|task| super::is_true(task.pod, "Ready")).count();
        ("/spec/predictor", u32::try_from(ready).unwrap_or(u32::MAX), replicas.guaranteed)
    } else {
        ("/spec/template/spec", count("/status/readyReplicas"), count("/spec/replicas"))
    };
    let port = job.object.pointer(&format!("{pod}/containers/0/ports/0/containerPort"));
    ServiceView {
        guaranteed: replicas.guaranteed,
        max: replicas.max,
        ready,
        active,
        waiting: wanted.saturating_sub(active),
        port: port.and_then(Value::as_u64).and_then(|port| u16::try_from(port).ok()),
    }
}

/// Returns an element of an array by its position.
fn element_of(
    job: JobObject<'_>,
    array: &Array,
    ordinal: u32,
    tasks: &[JobTask<'_>],
) -> ElementView {
    let own: Vec<JobTask<'_>> =
        tasks.iter().filter(|task| task.ordinal == ordinal).copied().collect();
    let status = super::state::of_element(&own);
    element(job, array.index_of(ordinal), &status, &own)
}

fn counts(job: JobObject<'_>, array: &Array) -> ArrayView {
    let count = |path: &str| number_at(job.object, path).unwrap_or(0);
    let succeeded = count("/status/succeeded");
    // With a limit for each index, pods of later attempts count as failed, too.
    let failed = match job.object.pointer("/status/failedIndexes").and_then(Value::as_str) {
        Some(text) => count_of(&indices(text)),
        None => count("/status/failed"),
    };
    let active = count("/status/active");
    ArrayView {
        total: array.count(),
        waiting: array.count().saturating_sub(succeeded + failed + active),
        active,
        succeeded,
        failed,
        max_running: array.max_running,
    }
}

/// Returns the ranges of indices in a text such as `1,3-5`.
fn indices(text: &str) -> Vec<RangeInclusive<u32>> {
    let range = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        Some(first.parse().ok()?..=last.parse().ok()?)
    };
    text.split(',').filter_map(range).collect()
}

fn count_of(ranges: &[RangeInclusive<u32>]) -> u32 {
    ranges.iter().map(|range| (range.end() + 1).saturating_sub(*range.start())).sum()
}
