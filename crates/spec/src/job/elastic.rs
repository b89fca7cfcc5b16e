//! Checks of gangs with a range of sizes: which other fields a range may be combined with. Growing
//! and shrinking is done by the engine.

use muster_model::job::{TaskGroup, Topology, TopologyRule};

use crate::diagnostic::{Problem, Problems};
use crate::job::document::JobDocument;
use crate::job::kind::KindValue;
use crate::source::Place;

/// Checks `min-nodes` before sizes are known.
pub(super) fn check(job: &JobDocument, problems: &mut Problems) {
    let Some(least) = &job.min_nodes else { return };
    match &job.nodes {
        Some(nodes) if least.value.0 > nodes.value.0 => problems.add(
            Problem::new("`min-nodes` is more than `nodes`")
                .at(least.place, "the smallest size")
                .also(nodes.place, "the largest size")
                .hint(format!("write `min-nodes: {}`, or more `nodes`", nodes.value.0)),
        ),
        Some(_) => {}
        None => problems.add(
            Problem::new("`min-nodes` needs `nodes`").at(least.key, "the job does not set `nodes`"),
        ),
    }
}

/// Checks that at most one group has a range, in a job that runs to its end, by whole steps.
pub(super) fn check_groups(
    job: &JobDocument,
    word: KindValue,
    groups: &[TaskGroup],
    topology: Option<&Topology>,
    problems: &mut Problems,
) {
    let mut ranges = groups.iter().filter(|group| group.min_tasks < group.max_tasks);
    let place = written(job);
    let Some(group) = ranges.next() else {
        if let Some(after) = &job.grow_after {
            problems.add(
                Problem::new("`grow-after` needs a range of sizes")
                    .at(after.key, "the job has a fixed size")
                    .hint("write `tasks: 2..8`, or `nodes: 8` with `min-nodes: 2`".to_owned()),
            );
        }
        return;
    };
    if let Some(second) = ranges.next() {
        let label = format!("`{}` and `{}` have a range", group.name, second.name);
        problems.add(
            Problem::new("only one group can grow")
                .at(place, label)
                .hint("give the other groups a fixed number of tasks".to_owned()),
        );
    }
    if let (KindValue::Ray, Some(after)) = (word, &job.grow_after) {
        problems.add(
            Problem::new("a Ray job has no `grow-after`")
                .at(after.key, "it grows when parts of its program wait, without a restart")
                .hint("remove it; `ray: {idle: 5m}` sets when nodes leave again".to_owned()),
        );
    }
    if !matches!(word, KindValue::Task | KindValue::Ray) {
        let hint = "a service grows by `replicas: 2..6`; a notebook is one task".to_owned();
        let label = "its tasks have a range";
        problems.add(
            Problem::new("only a job of `kind: task` or `ray` grows and shrinks")
                .at(place, label)
                .hint(hint),
        );
    }
    match topology {
        Some(Topology { rule: TopologyRule::Spread(_), .. }) => problems.add(
            Problem::new("a job that is spread evenly has a fixed size")
                .at(
                    job.topology.as_ref().map_or(place, |written| written.key),
                    "and its tasks have a range",
                )
                .hint("use `preferred`, or a number of tasks".to_owned()),
        ),
        Some(Topology { segment: Some(segment), .. }) if group.max_tasks % segment.tasks > 0 => {
            problems.add(
                Problem::new("the most tasks do not divide into segments")
                    .at(
                        place,
                        format!("{} tasks, in segments of {}", group.max_tasks, segment.tasks),
                    )
                    .hint(format!(
                        "write at most {}",
                        group.max_tasks / segment.tasks * segment.tasks
                    )),
            )
        }
        _ => {}
    }
}

/// Returns the place where a range is written, or could be.
fn written(job: &JobDocument) -> Place {
    let min_nodes = job.min_nodes.as_ref().map(|field| field.place);
    let tasks = job.tasks.as_ref().map(|field| field.place);
    let groups = job.groups.as_ref().map(|field| field.key);
    min_nodes.or(tasks).or(groups).unwrap_or_default()
}
