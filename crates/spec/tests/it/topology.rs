//! `topology`: what it becomes, and what is refused with which words.

use std::sync::Arc;

use muster_model::{NodeSpec, Segment, Topology, TopologyRule};
use muster_spec::{Colour, SubmissionSite};
use serde_json::Map;

use crate::support::{nodes, queues};

/// Returns the topology of a job on a site with these levels, or the diagnostics.
fn read(levels: &[&str], nodes: &[NodeSpec], job: &str) -> Result<Option<Topology>, String> {
    let queues = queues();
    let site = SubmissionSite::new("ada".into(), nodes, &queues)
        .with_levels(levels.iter().map(|level| Arc::from(*level)));
    let documents = muster_spec::parse(job, Some("train.yaml"), &Map::new());
    let checked = documents.and_then(|documents| muster_spec::check_all(&documents, &site));
    let checked = checked.map_err(|wrong| wrong.render(Colour::Never))?;
    Ok(checked[0].spec.constraint.topology.clone())
}

#[track_caller]
fn becomes(text: &str, rule: TopologyRule, segment: Option<(u32, &str)>) {
    let job = format!("nodes: 2\ngpus: 8\ngpu: h100\nrun: a\ntopology: {text}");
    let segment = segment.map(|(tasks, level)| Segment { tasks, level: level.into() });
    assert_eq!(
        read(&["block", "leaf"], &nodes(), &job),
        Ok(Some(Topology { rule, segment })),
        "{text}"
    );
}

#[test]
fn rules_and_segments_are_read() {
    becomes("{required: leaf}", TopologyRule::Required("leaf".into()), None);
    becomes("{preferred: block}", TopologyRule::Preferred("block".into()), None);
    becomes("{spread: node}", TopologyRule::Spread("node".into()), None);
    becomes("{segment: {tasks: 2, level: leaf}}", TopologyRule::Anywhere, Some((2, "leaf")));
    let both = "{required: block, segment: {tasks: 1, level: leaf}}";
    becomes(both, TopologyRule::Required("block".into()), Some((1, "leaf")));
}

#[track_caller]
fn refused(levels: &[&str], job: &str, parts: &[&str]) {
    let complaint = read(levels, &nodes(), job).expect_err(job);
    for part in parts {
        assert!(complaint.contains(part), "{job}: no {part:?} in\n{complaint}");
    }
}

#[test]
fn what_makes_no_sense_is_refused_with_a_hint() {
    let two = ["block", "leaf"];
    let job = |topology: &str| format!("tasks: 6\ngpus-per-task: 1\nrun: a\ntopology: {topology}");
    for (text, parts) in [
        (
            "{required: laef}",
            &["train.yaml:4:22", "there is no topology level `laef`", "did you mean `leaf`?"][..],
        ),
        ("{}", &["`topology` says nothing"]),
        ("leaf", &["`topology` is not a mapping"]),
        ("{require: leaf}", &["did you mean `required`?"]),
        (
            "{required: leaf, spread: leaf}",
            &["`spread` and `required` contradict each other", "keep one"],
        ),
        (
            "{spread: block, segment: {tasks: 2, level: leaf}}",
            &["contradict each other", "remove `spread`"],
        ),
        (
            "{required: leaf, segment: {tasks: 2, level: leaf}}",
            &["not narrower than that of `required`"],
        ),
        (
            "{preferred: leaf, segment: {tasks: 2, level: block}}",
            &["not narrower than that of `preferred`"],
        ),
        (
            "{segment: {tasks: 4, level: leaf}}",
            &["do not divide into segments", "write `tasks: 3`"],
        ),
        ("{segment: {tasks: 2, level: node}}", &["write `tasks-per-node: 2` instead"]),
        ("{segment: {tasks: 2}}", &["`level` is missing"]),
    ] {
        refused(&two, &job(text), parts);
    }
    let blocks = "nodes: 2\ntasks-per-node: 2\ngpus: 8\nrun: a\ntopology: {segment: {tasks: 1, level: leaf}}";
    refused(&two, blocks, &["splits the tasks of a node", "write `tasks: 2`"]);
}

#[test]
fn a_site_without_levels_says_so_and_one_without_nodes_takes_any() {
    let job = "gpus: 1\nrun: a\ntopology: {required: leaf}";
    refused(&[], job, &["the only level of this site is `node`", "levels: [block, leaf]"]);
    assert!(read(&[], &[], job).is_ok());
    assert!(read(&[], &nodes(), "gpus: 1\nrun: a\ntopology: {required: node}").is_ok());
}
