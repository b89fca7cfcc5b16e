//! Checks of a job document: its fields together, against the site. Problems are collected; a
//! document with any yields no job.

use std::collections::BTreeMap;
use std::sync::Arc;

use muster_model::job::{Dependency, JobSpec, NodeConstraint};
use muster_model::notice::NoticeRule;
use muster_model::payload::TaskCommand;
use muster_model::{
    AdvanceReservationName, NodeName, Protection, QueueName, Span, TaskGroup, Time, WorkloadKind,
};

use crate::access;
use crate::diagnostic::{Problem, Problems, show};
use crate::field::{Flag, Located};
use crate::job::document::{GroupDocument, JobDocument, ONLY_GROUP};
use crate::job::fields::{MAX_TASKS, WaitTarget, duplicates, used_twice};
use crate::job::fit::EligibleNodes;
use crate::job::kind::KindValue;
use crate::job::shape::{GroupFields, contradiction};
use crate::job::{
    CheckedJob, ParsedJob, elastic, ending, environment, kind, kubernetes, notify, payload, ray,
    slurm, sweep, topology,
};
use crate::quantity::{EarliestStart, span_text};
use crate::site::SubmissionSite;
use crate::source::Place;
use crate::suggest::nearest;

/// Most roles of one job.
const MAX_GROUPS: usize = 100;
/// Most nodes that one job may exclude by name.
const MAX_EXCLUDED: usize = 1_000;

/// Checks one document by itself.
pub(super) fn check(
    document: &ParsedJob,
    site: &SubmissionSite<'_>,
    problems: &mut Problems,
) -> Option<CheckedJob> {
    let job = &document.fields;
    let before = problems.len();
    let mut warnings = Vec::new();
    // 1. The kind of workload, and its range of sizes.
    let word = kind_and_range(job, problems);
    // 2. Roles, their sizes and nodes.
    let (groups, constraint) = sizes_and_nodes(document, word, site, problems);
    // 3. Fields of the whole job.
    let queue = queue(job, site, problems);
    let kind = kind::kind(word, job, &groups, problems);
    let time_limit = time_limit(job, (word, &queue, &kind), site, (&mut warnings, problems));
    let ending = ending(job, word, time_limit, problems);
    let (commands, groups) = programs(document, word, groups, ending, (&mut warnings, problems));
    let env = variables(job, &mut warnings, problems);
    let workdir = job.workdir.as_ref().and_then(|field| payload::directory(field, problems));
    let restart = kind::restart(word, job, ending::restart(job, problems), problems);
    let files = payload::files(job, problems);
    let notices = notices(job, problems);
    let environment = environment::of_job(job, problems);
    let slurm = slurm::of_job(job, problems);
    let kubernetes = kubernetes::of_job(job, problems);
    let (sweep, points) = sweep::of_job(document, word, problems).unzip();
    if problems.len() > before {
        return None;
    }
    // 4. The job.
    let spec = JobSpec {
        name: payload::default_name(document, &commands).into(),
        queue: queue?,
        priority: job.priority.as_ref().map_or(0, |priority| priority.value.0 as i32),
        groups,
        time_limit,
        grace: ending.grace,
        constraint,
        array: points.or_else(|| job.array.as_ref().map(|array| array.value.0.clone())),
        after: numbered(job),
        restart,
        checkpoint: ending.checkpoint,
        held: is_set(&job.hold),
        begin: begin(job).and_then(instant),
        protect: job.protect.as_ref().map_or(Protection::None, |protect| protect.value.0),
        kind,
        tier: kind::tier(word, job),
        grow_after: grow_after(job),
        ..JobSpec::plain("", site.user.clone(), Vec::new())
    };
    Some(CheckedJob {
        spec,
        commands,
        env,
        workdir,
        files,
        environment,
        sweep,
        notices,
        slurm,
        kubernetes,
        verify: is_set(&job.verify),
        begin: begin(job),
        after_documents: Vec::new(),
        warnings,
    })
}

/// Returns the kind of workload, and checks its range of sizes.
fn kind_and_range(job: &JobDocument, problems: &mut Problems) -> KindValue {
    elastic::check(job, problems);
    kind::word(job, problems)
}

/// Returns how the job ends.
fn ending(
    job: &JobDocument,
    word: KindValue,
    time_limit: Option<Span>,
    problems: &mut Problems,
) -> ray::Ending {
    let checkpoint = ending::checkpoint(job, word, time_limit, problems);
    ray::Ending { time_limit, checkpoint, grace: ending::grace(job, problems) }
}

/// Returns true for a flag that is written and true.
fn is_set(flag: &Option<Located<Flag>>) -> bool {
    flag.as_ref().is_some_and(|flag| flag.value.0)
}

/// Returns the time limit: the job's own, or the default of its kind or queue.
fn time_limit(
    job: &JobDocument,
    (word, queue, kind): (KindValue, &Option<QueueName>, &WorkloadKind),
    site: &SubmissionSite<'_>,
    (warnings, problems): (&mut Vec<String>, &mut Problems),
) -> Option<Span> {
    let written = ending::time_limit(job, problems);
    let limit = kind::time_limit(word, job, written, problems);
    default_time(job, (queue, kind), site, warnings).or(limit)
}

/// Returns the command of each task group, and the groups, which a Ray job changes.
fn programs(
    document: &ParsedJob,
    word: KindValue,
    groups: Vec<TaskGroup>,
    ending: ray::Ending,
    (warnings, problems): (&mut Vec<String>, &mut Problems),
) -> (BTreeMap<Arc<str>, TaskCommand>, Vec<TaskGroup>) {
    let commands = payload::commands(document, word, problems);
    match word {
        KindValue::Ray => ray::nodes(document, groups, ending, &commands, (warnings, problems)),
        _ => (commands, groups),
    }
}

/// Returns the task groups of a job, and the nodes that it may use.
fn sizes_and_nodes(
    document: &ParsedJob,
    word: KindValue,
    site: &SubmissionSite<'_>,
    problems: &mut Problems,
) -> (Vec<TaskGroup>, NodeConstraint) {
    let job = &document.fields;
    let mut constraint = constraint(job, problems);
    let groups = groups(document, site, &constraint, problems);
    constraint.topology = job
        .topology
        .as_ref()
        .and_then(|written| topology::topology(written, site, &groups, problems));
    constraint.advance_reservation = window(job, site, problems);
    elastic::check_groups(job, word, &groups, constraint.topology.as_ref(), problems);
    (groups, constraint)
}

/// Returns the environment variables of the document.
fn variables(
    job: &JobDocument,
    warnings: &mut Vec<String>,
    problems: &mut Problems,
) -> BTreeMap<String, String> {
    let env = job.env.as_ref();
    env.map(|env| payload::environment(env, warnings, problems)).unwrap_or_default()
}

/// Returns the earliest start as written.
fn begin(job: &JobDocument) -> Option<EarliestStart> {
    job.begin.as_ref().map(|begin| begin.value.0)
}

/// Returns the rules of the notices about the job.
fn notices(job: &JobDocument, problems: &mut Problems) -> Vec<NoticeRule> {
    let written = job.notify.as_ref();
    written.map(|written| notify::rules(&written.value, problems)).unwrap_or_default()
}

/// Returns the time at one size after which an elastic job may be restarted with more tasks.
fn grow_after(job: &JobDocument) -> Option<Span> {
    job.grow_after.as_ref().map_or(Some(JobSpec::GROW_AFTER), |after| after.value.0)
}

/// Returns the begin time if it is an instant; one relative to submission is resolved later.
fn instant(begin: EarliestStart) -> Option<Time> {
    match begin {
        EarliestStart::At(time) => Some(time),
        EarliestStart::After(_) => None,
    }
}

/// Returns the default time limit of the queue for a job without a time limit, and adds a warning.
fn default_time(
    job: &JobDocument,
    (queue, kind): (&Option<QueueName>, &WorkloadKind),
    site: &SubmissionSite<'_>,
    warnings: &mut Vec<String>,
) -> Option<Span> {
    let queue = queue.as_ref().filter(|_| *kind == WorkloadKind::Task && job.time.is_none())?;
    let (time, of) = access::default_time(site.queues?, queue)?;
    let from = of.map_or_else(|| "the queues".to_owned(), |of| format!("queue {of}"));
    warnings.push(format!(
        "no time limit is given: it gets {}, the default of {from}; `time:` or --time sets another, `none` sets none",
        span_text(time)
    ));
    Some(time)
}

fn groups(
    document: &ParsedJob,
    site: &SubmissionSite<'_>,
    constraint: &NodeConstraint,
    problems: &mut Problems,
) -> Vec<TaskGroup> {
    let job = &document.fields;
    let ground = EligibleNodes::of(site, job, document.place, constraint, problems);
    let mut resolved = Vec::new();
    let mut resolve = |shape: &GroupFields<'_>, name: &str, problems: &mut Problems| {
        let Some(group) = shape.resolve(Arc::from(name), problems) else { return };
        if let Some(ground) = &ground {
            ground.check(shape, &group, problems);
        }
        resolved.push(group);
    };
    let Some(groups) = &job.groups else {
        resolve(&GroupFields::of_job(job, document.place), ONLY_GROUP, problems);
        return resolved;
    };
    let before = problems.len();
    refuse_sizes_beside_groups(job, groups.key, problems);
    if groups.value.0.len() > MAX_GROUPS {
        problems
            .add(Problem::new("too many groups").at(groups.key, format!("at most {MAX_GROUPS}")));
        return resolved;
    }
    let name_of = |group: &GroupDocument| {
        group.name.as_ref().map_or(String::new(), |name| name.value.0.clone())
    };
    for item in &groups.value.0 {
        resolve(&GroupFields::of_group(item, job), &name_of(&item.value), problems);
    }
    for pair in
        duplicates(&groups.value.0, |group| group.name.as_ref().map_or("", |name| &name.value.0))
    {
        problems.add(used_twice("groups", &name_of(&pair.1.value), pair));
    }
    let tasks: u64 = resolved.iter().map(|group| u64::from(group.max_tasks)).sum();
    if tasks > MAX_TASKS as u64 {
        let label = format!("{tasks} in all; at most {MAX_TASKS}");
        problems.add(Problem::new("the job has too many tasks").at(groups.key, label));
    }
    if let Some(ground) = ground.as_ref().filter(|_| problems.len() == before) {
        ground.check_sum(groups.key, &resolved, problems);
    }
    resolved
}

fn refuse_sizes_beside_groups(job: &JobDocument, groups: Place, problems: &mut Problems) {
    let sizes = [
        ("nodes", job.nodes.as_ref().map(|field| field.key)),
        ("gpus", job.gpus.as_ref().map(|field| field.key)),
        ("tasks", job.tasks.as_ref().map(|field| field.key)),
        ("gpus-per-task", job.gpus_per_task.as_ref().map(|field| field.key)),
        ("tasks-per-node", job.tasks_per_node.as_ref().map(|field| field.key)),
        ("cpus", job.cpus.as_ref().map(|field| field.key)),
        ("memory", job.memory.as_ref().map(|field| field.key)),
        ("extras", job.extras.as_ref().map(|field| field.key)),
    ];
    for (name, key) in sizes {
        if let Some(key) = key {
            let hint = format!("with `groups`, write `{name}` in the group that it is meant for");
            problems.add(contradiction(name, key, "groups", groups).hint(hint));
        }
    }
}

fn constraint(job: &JobDocument, problems: &mut Problems) -> NodeConstraint {
    let mut constraint = NodeConstraint::default();
    for item in job.labels.iter().flat_map(|labels| &labels.value.0) {
        constraint.labels.insert(item.name.as_str().into(), item.value.0.as_str().into());
    }
    if let Some(exclude) = &job.exclude {
        let count: usize = exclude.value.0.iter().map(|item| item.value.0.count()).sum();
        if count > MAX_EXCLUDED {
            let label = format!("{count} nodes; at most {MAX_EXCLUDED}");
            let hint = "to choose a part of a cluster, use `labels`".to_owned();
            problems.add(
                Problem::new("`exclude` names too many nodes").at(exclude.place, label).hint(hint),
            );
            return constraint;
        }
        let names = exclude.value.0.iter().flat_map(|item| item.value.0.names());
        constraint.exclude = names.map(NodeName::from).collect();
        constraint.exclude.sort();
        constraint.exclude.dedup();
    }
    constraint
}

/// Returns the leaf queue of a job, named by path, or by its last component if that is unique.
fn queue(
    job: &JobDocument,
    site: &SubmissionSite<'_>,
    problems: &mut Problems,
) -> Option<QueueName> {
    let Some(written) = &job.queue else { return Some(site.default_queue.clone()) };
    let name = written.value.0.as_str();
    let Some(leaves) = &site.leaves else { return Some(name.into()) };
    if let Some(leaf) = leaves.iter().find(|leaf| leaf.as_str() == name) {
        return Some(leaf.clone());
    }
    let last = |leaf: &QueueName| leaf.as_str().rsplit('/').next().unwrap_or_default().to_owned();
    let short: Vec<&QueueName> = leaves.iter().filter(|leaf| last(leaf) == name).collect();
    if let [leaf] = short.as_slice() {
        return Some((*leaf).clone());
    }
    let names = |leaves: &mut dyn Iterator<Item = &QueueName>| {
        let shown: Vec<_> = leaves.take(8).map(|leaf| format!("`{leaf}`")).collect();
        shown.join(", ")
    };
    let inner: Vec<_> =
        leaves.iter().filter(|leaf| leaf.as_str().starts_with(&format!("{name}/"))).collect();
    let problem = if !short.is_empty() {
        Problem::new(format!("several queues are named {}", show(name)))
            .at(written.place, format!("one of {}", names(&mut short.into_iter())))
    } else if !inner.is_empty() {
        Problem::new(format!("jobs cannot be submitted to {}: it has child queues", show(name)))
            .at(written.place, format!("its child queues are {}", names(&mut inner.into_iter())))
    } else {
        let lasts: Vec<String> = leaves.iter().map(last).collect();
        let candidates =
            leaves.iter().map(QueueName::as_str).chain(lasts.iter().map(String::as_str));
        let hint = match nearest(name, candidates) {
            Some(near) => format!("did you mean `{near}`? `muster queues` lists them"),
            None => "`muster queues` lists them; without `queue` it is the default one".to_owned(),
        };
        Problem::new(format!("there is no queue {}", show(name)))
            .at(written.place, format!("there is {}", names(&mut leaves.iter())))
            .hint(hint)
    };
    problems.add(problem);
    None
}

/// Returns the advance reservation that a job names.
fn window(
    job: &JobDocument,
    site: &SubmissionSite<'_>,
    problems: &mut Problems,
) -> Option<AdvanceReservationName> {
    let written = job.reservation.as_ref()?;
    let name = written.value.0.as_str();
    let known =
        site.windows.as_deref().map(|known| known.iter().map(AdvanceReservationName::as_str));
    if known.clone().is_none_or(|mut known| known.any(|known| known == name)) {
        return Some(name.into());
    }
    let names: Vec<&str> = known.into_iter().flatten().collect();
    let label = match &names[..] {
        [] => "there are none".to_owned(),
        names => {
            let shown: Vec<_> = names.iter().take(8).map(|name| format!("`{name}`")).collect();
            format!("there is {}", shown.join(", "))
        }
    };
    let hint = match nearest(name, names.iter().copied()) {
        Some(near) => format!("did you mean `{near}`? `muster reserve` lists them"),
        None => "`muster reserve` lists them; without `reservation` it runs beside them".to_owned(),
    };
    let message = format!("there is no reservation {}", show(name));
    problems.add(Problem::new(message).at(written.place, label).hint(hint));
    None
}

fn numbered(job: &JobDocument) -> Vec<Dependency> {
    let waits = job.after.iter().flat_map(|after| &after.value.0).flat_map(|item| &item.value.0);
    let numbered = waits.filter_map(|wait| match wait.on {
        WaitTarget::Job(job) => Some(Dependency { kind: wait.kind, job }),
        WaitTarget::Name(_) => None,
    });
    numbered.collect()
}
