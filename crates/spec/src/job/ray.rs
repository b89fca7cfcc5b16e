//! Jobs of kind `ray`: each task is a node of a Ray cluster, and the first one also runs the job's
//! program on it.

mod growth;
pub(super) mod runtime_env;

use std::collections::BTreeMap;
use std::sync::Arc;

use muster_model::payload::{RayTask, TaskCommand};
use muster_model::{Checkpoint, Span, TaskGroup};

use crate::diagnostic::{Problem, Problems};
use crate::job::ParsedJob;
use crate::job::document::{JobDocument, RayDocument};

use self::growth::growth;

/// Time without work after which a node that a growing cluster got leaves it, by default.
const IDLE: Span = Span::from_secs(60);

/// Time limit, checkpoints and grace of a job.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ending {
    pub(super) time_limit: Option<Span>,
    pub(super) checkpoint: Option<Checkpoint>,
    pub(super) grace: Span,
}

/// Makes the tasks of a Ray job nodes of a cluster. The gang is as large as the cluster at its smallest:
/// further nodes are jobs of their own, which the cluster asks for.
pub(super) fn nodes(
    document: &ParsedJob,
    mut groups: Vec<TaskGroup>,
    ending: Ending,
    commands: &BTreeMap<Arc<str>, TaskCommand>,
    (warnings, problems): (&mut Vec<String>, &mut Problems),
) -> (BTreeMap<Arc<str>, TaskCommand>, Vec<TaskGroup>) {
    let job = &document.fields;
    refuse_shares(job, &groups, problems);
    refuse_programs_of_groups(job, problems);
    let least: u32 = groups.iter().map(|group| group.min_tasks).sum();
    let growing = groups.iter().find(|group| group.min_tasks < group.max_tasks).cloned();
    refuse_long_wait(job, least, problems);
    refuse_contradictions(job, growing.is_some(), problems);
    warnings.extend(endless(job, ending.time_limit));
    let terms = job.ray.as_ref().map(|section| &section.value);
    let driver = groups.first().and_then(|first| commands.get(&first.name)).cloned();
    let mut growth = growing.map(|group| growth(document, &group, terms, ending.time_limit));
    let mut nodes = BTreeMap::new();
    for group in &mut groups {
        group.max_tasks = group.min_tasks;
        let task = RayTask {
            checkpoint: ending.checkpoint,
            grace: ending.grace,
            driver: driver.clone(),
            // Rank 0, which is of the first group, asks for the cluster.
            growth: growth.take(),
            ..task(least, group, terms)
        };
        nodes.insert(Arc::clone(&group.name), TaskCommand::Ray(Box::new(task)));
    }
    (nodes, groups)
}

fn task(least: u32, group: &TaskGroup, terms: Option<&RayDocument>) -> RayTask {
    let wait = terms.and_then(|terms| terms.wait.as_ref()).map(|wait| wait.value.0 as u32);
    let percent = terms.and_then(|terms| terms.object_store_percent.as_ref());
    let python = terms.and_then(|terms| terms.python.as_ref());
    let version = terms.and_then(|terms| terms.version.as_ref());
    let dashboard = terms.and_then(|terms| terms.dashboard.as_ref());
    let join = terms.and_then(|terms| terms.join.as_ref()).map(|text| text.value.0.clone());
    let idle = terms.and_then(|terms| terms.idle.as_ref()).map(|idle| idle.value.0);
    let runtime_env = terms.and_then(|terms| terms.runtime_env.as_ref());
    let blank = RayTask::new(None);
    RayTask {
        nodes: wait.unwrap_or(least),
        gpus: group.task.gpu.devices,
        cpus: group.task.cpus,
        memory: group.task.memory,
        object_store_percent: percent
            .map_or(blank.object_store_percent, |field| field.value.0 as u32),
        has_dashboard: dashboard.is_none_or(|flag| flag.value.0),
        python: python.map_or_else(|| blank.python.clone(), |text| text.value.0.clone()),
        version: version.map(|text| text.value.0.clone()),
        idle: idle.unwrap_or(join.is_some().then_some(IDLE)),
        join,
        runtime_env: runtime_env.map(|field| field.value.json()),
        ..blank
    }
}

/// Refuses fields of `ray` that have no meaning together.
fn refuse_contradictions(job: &JobDocument, grows: bool, problems: &mut Problems) {
    let Some(terms) = job.ray.as_ref().map(|section| &section.value) else { return };
    if let (Some(join), Some(run)) = (&terms.join, &job.run) {
        problems.add(
            Problem::new("nodes that join another cluster run no program")
                .at(run.key, "this program would never start")
                .also(join.key, "the tasks become nodes of this cluster")
                .hint("`muster ray submit JOB -- COMMAND` runs a program on it".to_owned()),
        );
    }
    if let Some(join) = &terms.join
        && !is_address(&join.value.0)
    {
        problems.add(
            Problem::new("`join` is not the address of a head")
                .at(join.place, "expected a host and a port")
                .hint("such as `join: node1:6379`".to_owned()),
        );
    }
    if let Some(join) = terms.join.as_ref().filter(|_| grows) {
        problems.add(
            Problem::new("nodes that join another cluster have a fixed number")
                .at(join.key, "only the cluster itself grows")
                .hint("write a number of tasks, or leave `join` out".to_owned()),
        );
    }
    if let Some(idle) =
        terms.idle.as_ref().filter(|_| terms.join.is_none() && job.run.is_some() && !grows)
    {
        problems.add(
            Problem::new("`idle` has no effect on this cluster")
                .at(idle.key, "it ends with its program, and its size is fixed")
                .hint("remove it; or give `tasks` a range, or leave `run` out".to_owned()),
        );
    }
}

/// Returns true for a host and a port.
fn is_address(text: &str) -> bool {
    text.rsplit_once(':').is_some_and(|(host, port)| {
        !host.is_empty() && !host.contains(char::is_whitespace) && port.parse::<u16>().is_ok()
    })
}

/// Warns of a cluster that nothing ends.
fn endless(job: &JobDocument, time_limit: Option<Span>) -> Option<String> {
    let terms = job.ray.as_ref().map(|section| &section.value);
    let ends = terms.is_some_and(|terms| {
        terms.join.is_some() || terms.idle.as_ref().is_some_and(|idle| idle.value.0.is_some())
    });
    (job.run.is_none() && !ends && time_limit.is_none()).then(|| {
        "nothing ends this cluster but `muster cancel`: it has no `run`; `time: 12h` or `ray: {idle: 30m}` ends it"
            .to_owned()
    })
}

fn refuse_shares(job: &JobDocument, groups: &[TaskGroup], problems: &mut Problems) {
    if groups.iter().all(|group| group.task.gpu.share.0 == 0) {
        return;
    }
    let place = job.gpus_per_task.as_ref().or(job.gpus.as_ref()).map(|field| field.place);
    let place = place.or(job.groups.as_ref().map(|field| field.key)).unwrap_or_default();
    problems.add(
        Problem::new("a node of a Ray cluster has whole GPUs")
            .at(place, "this is a share of one")
            .hint(
                "a task or actor of Ray can take a share: `@ray.remote(num_gpus=0.5)`".to_owned(),
            ),
    );
}

fn refuse_long_wait(job: &JobDocument, least: u32, problems: &mut Problems) {
    let wait = job.ray.as_ref().and_then(|section| section.value.wait.as_ref());
    if let Some(wait) = wait.filter(|wait| wait.value.0 > i64::from(least)) {
        problems.add(
            Problem::new("`wait` is more than the nodes of the Ray cluster")
                .at(wait.place, format!("the job starts with {least}, one per task"))
                .hint("leave `wait` out to wait for all".to_owned()),
        );
    }
}

fn refuse_programs_of_groups(job: &JobDocument, problems: &mut Problems) {
    for group in job.groups.iter().flat_map(|groups| &groups.value.0) {
        if let Some(run) = &group.value.run {
            problems.add(
                Problem::new("a group of a Ray job has no program of its own")
                    .at(run.key, "Ray starts what runs on its nodes")
                    .hint("write `run` for the job: it starts once, beside the head".to_owned()),
            );
        }
    }
}
