//! The kind of workload of a job: fields that only services or only notebooks take, and their
//! defaults. Sizes are read in `shape`.

use muster_model::Span;
use muster_model::job::{Notebook, Replicas, Restart, Service, TaskGroup, Tier, WorkloadKind};

use crate::diagnostic::{Problem, Problems, show};
use crate::field::Located;
use crate::job::document::JobDocument;
use crate::job::shape::contradiction;
use crate::source::Place;
use crate::suggest::nearest;

/// Default time limit of a notebook: a working day.
const NOTEBOOK_TIME: Span = Span::from_secs(12 * 3600);
/// Default time without activity after which a notebook is stopped: longer than a meal or a
/// meeting.
const NOTEBOOK_IDLE: Span = Span::from_secs(2 * 3600);
/// Shortest idle time: shorter pauses are part of work, and of waiting for a file.
const SHORTEST_IDLE: Span = Span::from_secs(1);

/// Words that a job file may have there.
const KINDS: [&str; 5] = ["task", "service", "notebook", "ray", "sweep"];

/// Value of `kind`, read before any other field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum KindValue {
    Task,
    Service,
    Notebook,
    Ray,
    Sweep,
}

/// Reads `kind`, and refuses fields of other kinds.
pub(super) fn word(job: &JobDocument, problems: &mut Problems) -> KindValue {
    let word = match job.kind.as_ref().map(|kind| kind.value.0.as_str()) {
        None | Some("task") => KindValue::Task,
        Some("service") => KindValue::Service,
        Some("notebook") => KindValue::Notebook,
        Some("ray") => KindValue::Ray,
        Some("sweep") => KindValue::Sweep,
        Some(other) => {
            problems
                .add(unknown(other, job.kind.as_ref().map_or(Place::default(), |kind| kind.place)));
            return KindValue::Task;
        }
    };
    let key = |place: Option<Place>, name: &'static str| place.map(|place| (name, place));
    let of_services = [
        key(job.replicas.as_ref().map(|field| field.key), "replicas"),
        key(job.port.as_ref().map(|field| field.key), "port"),
    ];
    let of_notebooks = [key(job.idle.as_ref().map(|field| field.key), "idle")];
    let of_ray = [key(job.ray.as_ref().map(|field| field.key), "ray")];
    let of_sweeps = [
        key(job.params.as_ref().map(|field| field.key), "params"),
        key(job.samples.as_ref().map(|field| field.key), "samples"),
        key(job.seed.as_ref().map(|field| field.key), "seed"),
        key(job.max_running.as_ref().map(|field| field.key), "max-running"),
        key(job.metric.as_ref().map(|field| field.key), "metric"),
        key(job.early_stop.as_ref().map(|field| field.key), "early-stop"),
    ];
    let mut belongs = |fields: &[Option<(&str, Place)>], to: &str, job: &str| {
        for (name, place) in fields.iter().flatten() {
            let hint = format!("add `kind: {to}`, or remove it");
            let problem = Problem::new(format!("`{name}` needs `kind: {to}`"));
            problems.add(problem.at(*place, format!("only a {job} takes it")).hint(hint));
        }
    };
    if word != KindValue::Service {
        belongs(&of_services, "service", "service");
    }
    if word != KindValue::Notebook {
        belongs(&of_notebooks, "notebook", "notebook");
    }
    if word != KindValue::Ray {
        belongs(&of_ray, "ray", "Ray job");
    }
    if word != KindValue::Sweep {
        belongs(&of_sweeps, "sweep", "sweep");
    }
    let takes_arrays = matches!(word, KindValue::Task | KindValue::Ray | KindValue::Sweep);
    if let (false, Some(array), Some(kind)) = (takes_arrays, &job.array, &job.kind) {
        let hint = match word {
            KindValue::Service => "`replicas: 4` runs it four times",
            KindValue::Task | KindValue::Ray | KindValue::Sweep | KindValue::Notebook => {
                "submit it once for each"
            }
        };
        problems.add(contradiction("kind", kind.place, "array", array.key).hint(hint.to_owned()));
    }
    word
}

fn unknown(text: &str, place: Place) -> Problem {
    let message = format!("there is no kind {}", show(text));
    let hint = match nearest(text, KINDS) {
        Some(near) => format!("did you mean `{near}`?"),
        None => "leave `kind` out for a job that runs to its end".to_owned(),
    };
    Problem::new(message)
        .at(place, "expected `task`, `service`, `notebook`, `ray` or `sweep`")
        .hint(hint)
}

/// Returns the kind with its fields.
pub(super) fn kind(
    word: KindValue,
    job: &JobDocument,
    groups: &[TaskGroup],
    problems: &mut Problems,
) -> WorkloadKind {
    match word {
        KindValue::Task | KindValue::Ray | KindValue::Sweep => WorkloadKind::Task,
        KindValue::Service => WorkloadKind::Service(service(job, problems)),
        KindValue::Notebook => WorkloadKind::Notebook(notebook(job, groups, problems)),
    }
}

fn service(job: &JobDocument, problems: &mut Problems) -> Service {
    let (floor, ceiling) = job.replicas.as_ref().map_or((1, 1), |replicas| replicas.value.0);
    let port = job.port.as_ref().map(|port| port.value.0 as u16);
    let service = Service { replicas: Replicas { guaranteed: floor, max: ceiling }, port };
    if let Some(written) = job.port.as_ref().filter(|_| service.port_of(ceiling - 1).is_none()) {
        let last = u32::from(u16::MAX) + 1 - ceiling;
        problems.add(
            Problem::new("there are not enough ports")
                .at(
                    written.place,
                    format!("each replica has the next one; {ceiling} begin at {last} at most"),
                )
                .hint(format!("write `port: {}`", last.min(8000))),
        );
    }
    service
}

fn notebook(job: &JobDocument, groups: &[TaskGroup], problems: &mut Problems) -> Notebook {
    let tasks: u32 = groups.iter().map(|group| group.min_tasks).sum();
    let place = job.tasks.as_ref().map(|field| field.place);
    let place = place.or(job.nodes.as_ref().map(|field| field.place));
    let place = place.or(job.groups.as_ref().map(|field| field.key));
    let place = place.or(job.tasks_per_node.as_ref().map(|field| field.place));
    if let Some(place) = place.filter(|_| tasks > 1) {
        problems.add(
            Problem::new("a notebook is one task")
                .at(place, format!("this makes {tasks}"))
                .hint("write `gpus: 2` for a notebook with two GPUs".to_owned()),
        );
    }
    let Some(written) = &job.idle else { return Notebook { idle: Some(NOTEBOOK_IDLE) } };
    if written.value.0.is_some_and(|idle| idle < SHORTEST_IDLE) {
        let label = format!("the smallest is {SHORTEST_IDLE}");
        let hint = "to let it idle, write `idle: none`".to_owned();
        problems.add(Problem::new("`idle` is too short").at(written.place, label).hint(hint));
    }
    Notebook { idle: written.value.0 }
}

/// Returns the time limit; a notebook always has one.
pub(super) fn time_limit(
    word: KindValue,
    job: &JobDocument,
    limit: Option<Span>,
    problems: &mut Problems,
) -> Option<Span> {
    match (word, &job.time) {
        (KindValue::Notebook, None) => Some(NOTEBOOK_TIME),
        (KindValue::Notebook, Some(Located { place, .. })) if limit.is_none() => {
            problems.add(
                Problem::new("a notebook needs a time limit")
                    .at(*place, "a forgotten notebook would hold its GPUs forever")
                    .hint(format!("write `time: 3d`, or remove it for {NOTEBOOK_TIME}")),
            );
            None
        }
        _ => limit,
    }
}

/// Returns the restart rule; a service is always restarted by default.
pub(super) fn restart(
    word: KindValue,
    job: &JobDocument,
    rule: Restart,
    problems: &mut Problems,
) -> Restart {
    let Some(written) = &job.restart else {
        return if word == KindValue::Service { Restart::ALWAYS } else { rule };
    };
    if word == KindValue::Service && written.value.says_only_how_fast() {
        return Restart { backoff: rule.backoff, ..Restart::ALWAYS };
    }
    if word != KindValue::Service && rule.always {
        problems.add(
            Problem::new("`restart: always` needs `kind: service`")
                .at(written.place, "a job that always restarts never ends")
                .hint("write `restart: on-failure`".to_owned()),
        );
    }
    rule
}

/// Returns the tier: a notebook, and nodes that join a Ray cluster, are opportunistic unless they name a
/// priority.
pub(super) fn tier(word: KindValue, job: &JobDocument) -> Tier {
    let joins = job.ray.as_ref().is_some_and(|ray| ray.value.join.is_some());
    if (word == KindValue::Notebook || joins) && job.priority.is_none() {
        Tier::Opportunistic
    } else {
        Tier::Normal
    }
}
