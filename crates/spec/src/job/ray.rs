//! Jobs of kind `ray`: each task is a node of a Ray cluster, and the first one also runs the job's
//! program on it.

use std::collections::BTreeMap;
use std::sync::Arc;

use muster_model::payload::{RayTask, TaskCommand};
use muster_model::{Checkpoint, TaskGroup};

use crate::diagnostic::{Problem, Problems};
use crate::job::document::{JobDocument, RayDocument};
use crate::job::kind::KindValue;

/// Share of a node's memory for its object store: what Ray takes of a machine's by default.
const OBJECT_STORE_PERCENT: u32 = 30;

/// Makes the tasks of a Ray job nodes of its cluster; the commands of other jobs stay as they are.
pub(super) fn nodes(
    word: KindValue,
    job: &JobDocument,
    (groups, checkpoint): (&[TaskGroup], Option<Checkpoint>),
    commands: BTreeMap<Arc<str>, TaskCommand>,
    problems: &mut Problems,
) -> BTreeMap<Arc<str>, TaskCommand> {
    if word != KindValue::Ray {
        return commands;
    }
    refuse_shares(job, groups, problems);
    refuse_programs_of_groups(job, problems);
    let least: u32 = groups.iter().map(|group| group.min_tasks).sum();
    refuse_long_wait(job, least, problems);
    let terms = job.ray.as_ref().map(|section| &section.value);
    let driver = groups.first().and_then(|first| commands.get(&first.name)).cloned();
    let node = |group: &TaskGroup| {
        let task = RayTask { checkpoint, ..task(driver.clone()?, least, group, terms) };
        Some((Arc::clone(&group.name), TaskCommand::Ray(Box::new(task))))
    };
    groups.iter().filter_map(node).collect()
}

fn task(
    driver: TaskCommand,
    least: u32,
    group: &TaskGroup,
    terms: Option<&RayDocument>,
) -> RayTask {
    let wait = terms.and_then(|terms| terms.wait.as_ref()).map(|wait| wait.value.0 as u32);
    let percent = terms.and_then(|terms| terms.object_store_percent.as_ref());
    let python = terms.and_then(|terms| terms.python.as_ref());
    let version = terms.and_then(|terms| terms.version.as_ref());
    let dashboard = terms.and_then(|terms| terms.dashboard.as_ref());
    RayTask {
        driver,
        nodes: wait.unwrap_or(least),
        gpus: group.task.gpu.devices,
        cpus: group.task.cpus,
        memory: group.task.memory,
        object_store_percent: percent.map_or(OBJECT_STORE_PERCENT, |field| field.value.0 as u32),
        has_dashboard: dashboard.is_none_or(|flag| flag.value.0),
        python: python.map_or_else(|| "python3".to_owned(), |text| text.value.0.clone()),
        checkpoint: None,
        version: version.map(|text| text.value.0.clone()),
    }
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
