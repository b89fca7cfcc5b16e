//! What a document means: its fields together, against the site. Complaints are collected; a document that has
//! any yields no job.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use muster_model::job::{Checkpoint, Dependency, JobSpec, NodeConstraint, Restart};
use muster_model::payload::Command;
use muster_model::unit::Span;
use muster_model::{NodeName, PayloadId, QueueName, TaskGroup};

use crate::diagnostic::{Problem, Problems, show};
use crate::field::{Located, Named, Text};
use crate::job::document::{GroupDocument, JobDocument, MAX_TASKS};
use crate::job::fields::{MAX_ARGUMENT_BYTES, Program, WaitTarget, duplicates, used_twice};
use crate::job::fit::Ground;
use crate::job::shape::{Shape, contradiction};
use crate::job::{Checked, Document};
use crate::names::name_from;
use crate::quantity::Begin;
use crate::site::Site;
use crate::source::Place;
use crate::suggest::nearest;

/// Time between SIGTERM and SIGKILL when none is said; as Slurm's `KillWait` and Kubernetes' pods.
const DEFAULT_GRACE: Span = Span::from_secs(30);
/// Longest such time: resources stay held for as long.
const MAX_GRACE: Span = Span::from_secs(86_400);
/// Roles of one job.
const MAX_GROUPS: usize = 100;
/// Nodes that one job may exclude by name.
const MAX_EXCLUDED: usize = 1_000;
/// The group of a job without `groups`.
const ONLY_GROUP: &str = "main";
/// Variables that Muster sets for every task, after the document's.
const OWN_VARIABLES: [&str; 9] = [
    "CUDA_VISIBLE_DEVICES",
    "NVIDIA_VISIBLE_DEVICES",
    "ROCR_VISIBLE_DEVICES",
    "MASTER_ADDR",
    "MASTER_PORT",
    "RANK",
    "LOCAL_RANK",
    "WORLD_SIZE",
    "NODE_RANK",
];

/// Checks one document by itself.
pub(super) fn check(document: &Document, site: &Site<'_>, problems: &mut Problems) -> Option<Checked> {
    let (job, before) = (&document.fields, problems.len());
    let mut warnings = Vec::new();
    // 1. What this version cannot do is said, never skipped.
    refuse_unsupported(job, problems);
    // 2. Roles, their sizes and programs.
    let commands = commands(document, problems);
    let constraint = constraint(job, problems);
    let groups = groups(document, site, &constraint, problems);
    // 3. Everything that holds for the whole job.
    let queue = queue(job, site, problems);
    let time_limit = time_limit(job, problems);
    let checkpoint = checkpoint(job, time_limit, problems);
    let env = job.env.as_ref().map(|env| environment(env, &mut warnings, problems)).unwrap_or_default();
    let workdir = job.workdir.as_ref().and_then(|workdir| directory(workdir, problems));
    let restart = restart(job, problems);
    let grace = grace(job, problems);
    if problems.len() > before {
        return None;
    }
    // 4. The job.
    let begin = job.begin.as_ref().map(|begin| begin.value.0);
    let spec = JobSpec {
        name: default_name(document, &commands).into(),
        user: site.user.clone(),
        queue: queue?,
        priority: job.priority.as_ref().map_or(0, |priority| priority.value.0 as i32),
        groups,
        time_limit,
        grace,
        constraint,
        array: job.array.as_ref().map(|array| array.value.0.clone()),
        after: numbered(job),
        restart,
        checkpoint,
        held: job.hold.as_ref().is_some_and(|hold| hold.value.0),
        begin: match begin {
            Some(Begin::At(time)) => Some(time),
            Some(Begin::After(_)) | None => None,
        },
        payload: PayloadId(0),
    };
    Some(Checked { spec, commands, env, workdir, begin, after_documents: Vec::new(), warnings })
}

fn refuse_unsupported(job: &JobDocument, problems: &mut Problems) {
    if let Some(kind) = &job.kind
        && kind.value.0 != "task"
    {
        let coming = ["service", "notebook", "sweep", "ray"].contains(&kind.value.0.as_str());
        let message = match coming {
            true => format!("jobs of kind {} are not supported yet", show(&kind.value.0)),
            false => format!("there is no kind {}", show(&kind.value.0)),
        };
        let hint = "leave `kind` out for a job that runs to its end".to_owned();
        problems.add(Problem::new(message).at(kind.place, "only `task` is, so far").hint(hint));
    }
    if let Some(least) = &job.min_nodes {
        match &job.nodes {
            Some(nodes) if nodes.value == least.value => {}
            Some(nodes) => problems.add(
                Problem::new("elastic jobs are not supported yet")
                    .at(least.place, format!("must equal `nodes`, {}", nodes.value.0))
                    .also(nodes.place, "all of these start together")
                    .hint("remove `min-nodes`; growing and shrinking comes in a later version".to_owned()),
            ),
            None => problems.add(
                Problem::new("`min-nodes` needs `nodes`").at(least.key, "the job says nothing about nodes"),
            ),
        }
    }
}

/// What each group runs.
fn commands(document: &Document, problems: &mut Problems) -> BTreeMap<Arc<str>, Command> {
    let job = &document.fields;
    let mut commands = BTreeMap::new();
    let run = |program: &Located<Program>| program.value.0.clone();
    match &job.groups {
        None => match &job.run {
            Some(program) => {
                commands.insert(Arc::from(ONLY_GROUP), run(program));
            }
            None => problems.add(
                Problem::new("`run` is missing")
                    .at(document.place, "this job has no program")
                    .hint("add `run: python train.py`".to_owned()),
            ),
        },
        Some(groups) => {
            for group in &groups.value.0 {
                match (group.value.run.as_ref().or(job.run.as_ref()), &group.value.name) {
                    (Some(program), Some(name)) => {
                        commands.insert(Arc::from(name.value.0.as_str()), run(program));
                    }
                    (None, _) => problems.add(
                        Problem::new("`run` is missing")
                            .at(group.place, "this group has no program")
                            .hint("add `run` to the group, or to the job for all groups".to_owned()),
                    ),
                    (Some(_), None) => {}
                }
            }
        }
    }
    commands
}

fn groups(
    document: &Document,
    site: &Site<'_>,
    constraint: &NodeConstraint,
    problems: &mut Problems,
) -> Vec<TaskGroup> {
    let job = &document.fields;
    let ground = Ground::of(site, job, document.place, constraint, problems);
    let mut resolved = Vec::new();
    let mut resolve = |shape: &Shape<'_>, name: &str, problems: &mut Problems| {
        let Some(group) = shape.resolve(Arc::from(name), problems) else { return };
        if let Some(ground) = &ground {
            ground.check(shape, &group, problems);
        }
        resolved.push(group);
    };
    let Some(groups) = &job.groups else {
        resolve(&Shape::of_job(job, document.place), ONLY_GROUP, problems);
        return resolved;
    };
    let before = problems.len();
    refuse_sizes_beside_groups(job, groups.key, problems);
    if groups.value.0.len() > MAX_GROUPS {
        problems.add(Problem::new("too many groups").at(groups.key, format!("at most {MAX_GROUPS}")));
        return resolved;
    }
    let name_of =
        |group: &GroupDocument| group.name.as_ref().map_or(String::new(), |name| name.value.0.clone());
    for item in &groups.value.0 {
        resolve(&Shape::of_group(item, job), &name_of(&item.value), problems);
    }
    for pair in duplicates(&groups.value.0, |group| group.name.as_ref().map_or("", |name| &name.value.0)) {
        problems.add(used_twice("groups", &name_of(&pair.1.value), pair));
    }
    let tasks: u64 = resolved.iter().map(|group| u64::from(group.min_tasks)).sum();
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
            problems.add(Problem::new("`exclude` names too many nodes").at(exclude.place, label).hint(hint));
            return constraint;
        }
        let names = exclude.value.0.iter().flat_map(|item| item.value.0.names());
        constraint.exclude = names.map(NodeName::from).collect();
        constraint.exclude.sort();
        constraint.exclude.dedup();
    }
    constraint
}

/// The leaf a job waits in: by path, or by its last component where only one leaf has it.
fn queue(job: &JobDocument, site: &Site<'_>, problems: &mut Problems) -> Option<QueueName> {
    let Some(written) = &job.queue else { return Some(site.queues.default_queue.clone()) };
    let name = written.value.0.as_str();
    let leaves = site.leaves();
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
    let inner: Vec<_> = leaves.iter().filter(|leaf| leaf.as_str().starts_with(&format!("{name}/"))).collect();
    let problem = if !short.is_empty() {
        Problem::new(format!("several queues are named {}", show(name)))
            .at(written.place, format!("one of {}", names(&mut short.into_iter())))
    } else if !inner.is_empty() {
        Problem::new(format!("jobs cannot wait in {}: it has queues below it", show(name)))
            .at(written.place, format!("below it are {}", names(&mut inner.into_iter())))
    } else {
        let lasts: Vec<String> = leaves.iter().map(last).collect();
        let candidates = leaves.iter().map(QueueName::as_str).chain(lasts.iter().map(String::as_str));
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

fn time_limit(job: &JobDocument, problems: &mut Problems) -> Option<Span> {
    let time = job.time.as_ref()?;
    if time.value.0 == Some(Span(0)) {
        let hint = "for no limit write `time: none`".to_owned();
        problems.add(Problem::new("`time` is 0").at(time.place, "the smallest is 1ms").hint(hint));
    }
    time.value.0
}

fn checkpoint(job: &JobDocument, limit: Option<Span>, problems: &mut Problems) -> Option<Checkpoint> {
    const KILL: i32 = 9;
    const STOP: i32 = 19;
    const USR1: i32 = 10;
    let written = job.checkpoint.as_ref()?;
    let signal = written.value.signal.as_ref();
    if let Some(signal) = signal.filter(|signal| [KILL, STOP].contains(&signal.value.0)) {
        let label = "a program cannot catch this signal";
        let hint = "write `signal: USR1` or `signal: TERM`".to_owned();
        problems.add(
            Problem::new("`checkpoint` cannot work with this signal").at(signal.place, label).hint(hint),
        );
    }
    let lead = written.value.grace.as_ref()?;
    match (limit, &job.time) {
        (Some(limit), Some(time)) if lead.value.0 >= limit => problems.add(
            Problem::new("`checkpoint` would come before the start")
                .at(lead.place, "this long before the limit")
                .also(time.place, format!("the limit is {limit}")),
        ),
        (None, _) => problems.add(
            Problem::new("`checkpoint` needs a time limit")
                .at(written.key, "before which limit?")
                .hint("add `time: 12h`".to_owned()),
        ),
        _ => {}
    }
    if lead.value.0 == Span(0) {
        problems.add(Problem::new("`checkpoint` gives no time").at(lead.place, "the smallest is 1ms"));
    }
    Some(Checkpoint { signal: signal.map_or(USR1, |signal| signal.value.0), lead: lead.value.0 })
}

fn environment(
    env: &Located<Named<Text>>,
    warnings: &mut Vec<String>,
    problems: &mut Problems,
) -> BTreeMap<String, String> {
    let mut variables = BTreeMap::new();
    for item in &env.value.0 {
        if item.name.is_empty() || item.name.contains('=') {
            let message = format!("{} cannot name an environment variable", show(&item.name));
            problems.add(Problem::new(message).at(item.name_place, "expected a name without `=`"));
        }
        if item.name.len() + item.value.0.len() + 1 > MAX_ARGUMENT_BYTES {
            let label = "the system takes less than 128KiB in one variable";
            problems.add(Problem::new("an environment variable is too long").at(item.place, label));
        }
        let own = OWN_VARIABLES.contains(&item.name.as_str())
            || ["PET_", "MUSTER_"].iter().any(|prefix| item.name.starts_with(prefix))
            || item.name == "LOCAL_WORLD_SIZE";
        if own {
            warnings.push(format!(
                "`env` sets {}, but Muster sets it for every task; yours is not used",
                item.name
            ));
        }
        variables.insert(item.name.clone(), item.value.0.clone());
    }
    variables
}

fn directory(workdir: &Located<Text>, problems: &mut Problems) -> Option<PathBuf> {
    let text = workdir.value.0.as_str();
    let label = match text {
        "" => "this is empty",
        _ if text.len() > 4095 => "longer than any path can be (4095 bytes)",
        _ if text.starts_with('~') => "`~` is not expanded here; write the whole path",
        _ => return Some(PathBuf::from(text)),
    };
    problems.add(Problem::new("`workdir` is not a directory's path").at(workdir.place, label));
    None
}

fn restart(job: &JobDocument, problems: &mut Problems) -> Restart {
    let Some(written) = &job.restart else { return Restart::NEVER };
    let restart = written.value.resolve();
    if restart.backoff > Restart::BACKOFF_CAP {
        let label = format!("the wait before a restart is at most {}", Restart::BACKOFF_CAP);
        problems.add(Problem::new("`restart` waits too long").at(written.place, label));
    }
    restart
}

fn grace(job: &JobDocument, problems: &mut Problems) -> Span {
    let Some(written) = &job.grace else { return DEFAULT_GRACE };
    if written.value.0 > MAX_GRACE {
        let label = "GPUs stay held for as long; at most 1d";
        problems.add(Problem::new("`grace` is too long").at(written.place, label));
    }
    written.value.0
}

fn numbered(job: &JobDocument) -> Vec<Dependency> {
    let waits = job.after.iter().flat_map(|after| &after.value.0).flat_map(|item| &item.value.0);
    let numbered = waits.filter_map(|wait| match wait.on {
        WaitTarget::Job(job) => Some(Dependency { kind: wait.kind, job }),
        WaitTarget::Name(_) => None,
    });
    numbered.collect()
}

/// The name as written, or of the file (with the document's position when there are several), or of the program.
fn default_name(document: &Document, commands: &BTreeMap<Arc<str>, Command>) -> String {
    if let Some(name) = &document.fields.name {
        return name.value.0.clone();
    }
    let base = |path: &str| path.rsplit('/').next().unwrap_or_default().to_owned();
    let file = base(document.sources.name());
    let stem = match file.rsplit_once('.') {
        Some((stem, "yaml" | "yml" | "json")) => name_from(stem),
        _ => None,
    };
    match (stem, document.position) {
        (Some(stem), (_, 1)) => return stem,
        (Some(stem), (position, _)) => {
            return name_from(&format!("{}-{position}", &stem[..stem.len().min(58)])).unwrap_or(stem);
        }
        (None, _) => {}
    }
    let program = match commands.values().next() {
        Some(Command::Argv(words)) => words.first().map(|word| base(word)),
        Some(Command::Script(text)) => {
            let words = text.lines().filter(|line| !line.starts_with('#')).flat_map(str::split_whitespace);
            words.into_iter().next().map(base)
        }
        None => None,
    };
    program.as_deref().and_then(name_from).unwrap_or_else(|| "job".to_owned())
}
