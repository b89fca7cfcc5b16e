//! The nodes that a growing Ray cluster may ask for: how many, of what size, and the job file by which it asks.

use std::sync::Arc;

use muster_model::payload::RayGrowth;
use muster_model::{Span, TaskGroup};
use serde_json::{Map, Value as Json, json};

use crate::job::ParsedJob;
use crate::job::document::RayDocument;
use crate::yaml::{Node, Value};

/// Fields of the job that its further nodes share. Variables and directory are those of the program that
/// submits them.
const SHARED: [&str; 17] = [
    "venv",
    "conda",
    "uv",
    "modules",
    "secrets",
    "image",
    "mounts",
    "queue",
    "gpu",
    "labels",
    "exclude",
    "extras",
    "cpus",
    "memory",
    "grace",
    "slurm",
    "reservation",
];
/// Options of Slurm that the job has for itself: nodes by name, and one job of a name at a time.
const OWN_OF_SLURM: [&str; 2] = ["nodelist", "singleton"];

/// Returns the growth of a cluster whose group has a range of sizes.
pub(super) fn growth(
    document: &ParsedJob,
    group: &TaskGroup,
    terms: Option<&RayDocument>,
    time_limit: Option<Span>,
) -> RayGrowth {
    RayGrowth {
        group: Arc::clone(&group.name),
        nodes: group.max_tasks - group.min_tasks,
        gpus: group.task.gpu.devices,
        cpus: group.task.cpus,
        memory: group.task.memory,
        job: Json::Object(job_file(document, group, terms)).to_string(),
        time_limit,
    }
}

fn job_file(
    document: &ParsedJob,
    group: &TaskGroup,
    terms: Option<&RayDocument>,
) -> Map<String, Json> {
    let mut file = Map::new();
    let mut add = |tree: &Node| {
        for (name, value) in fields(tree).filter(|(name, _)| SHARED.contains(name)) {
            match (file.get_mut(name), json_of(value)) {
                // Options of a group go over those of the job, one by one.
                (Some(Json::Object(known)), Json::Object(more)) => known.extend(more),
                (_, value) => drop(file.insert(name.to_owned(), value)),
            }
        }
    };
    add(&document.tree);
    group_tree(&document.tree, &group.name).into_iter().for_each(&mut add);
    if let Some(slurm) = file.get_mut("slurm").and_then(Json::as_object_mut) {
        slurm.retain(|name, _| !OWN_OF_SLURM.contains(&name.as_str()));
    }
    file.insert("kind".to_owned(), json!("ray"));
    file.insert("gpus-per-task".to_owned(), json!(group.task.gpu.devices));
    let mut ray = Map::new();
    let texts = terms.map(|terms| [("python", &terms.python), ("version", &terms.version)]);
    for (name, text) in texts.into_iter().flatten() {
        ray.extend(text.as_ref().map(|text| (name.to_owned(), json!(text.value.0))));
    }
    let percent = terms.and_then(|terms| terms.object_store_percent.as_ref());
    ray.extend(percent.map(|field| ("object-store-percent".to_owned(), json!(field.value.0))));
    let idle = terms.and_then(|terms| terms.idle.as_ref()).map(|idle| match idle.value.0 {
        Some(span) => json!(format!("{}ms", span.0)),
        None => json!("none"),
    });
    ray.extend(idle.map(|idle| ("idle".to_owned(), idle)));
    file.insert("ray".to_owned(), Json::Object(ray));
    file
}

/// Returns the group with a name, as it was written.
fn group_tree<'a>(tree: &'a Node, name: &str) -> Option<&'a Node> {
    let (_, groups) = fields(tree).find(|(name, _)| *name == "groups")?;
    let Value::List(groups) = &groups.value else { return None };
    groups.iter().find(|group| {
        fields(group).any(|(key, node)| {
            key == "name" && matches!(&node.value, Value::Scalar(text) if text == name)
        })
    })
}

fn fields(tree: &Node) -> impl Iterator<Item = (&str, &Node)> {
    let entries = match &tree.value {
        Value::Map(entries) => entries.as_slice(),
        _ => &[],
    };
    entries.iter().map(|entry| (entry.key.as_str(), &entry.node))
}

/// Converts a value as it was written to JSON. Scalars stay text, as which every field reads them.
fn json_of(node: &Node) -> Json {
    match &node.value {
        Value::Null => Json::Null,
        Value::Scalar(text) => json!(text),
        Value::List(items) => Json::Array(items.iter().map(json_of).collect()),
        Value::Map(entries) => {
            let entry = |entry: &crate::yaml::YamlEntry| (entry.key.clone(), json_of(&entry.node));
            Json::Object(entries.iter().map(entry).collect())
        }
    }
}
