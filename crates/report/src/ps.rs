//! Jobs as rows: `muster ps`, and the table of `run --watch`. References to other rows are looked
//! up in [`OtherJobs`], which is built once, so that the cost is linear in the number of rows.

use std::collections::{BTreeMap, BTreeSet};

use muster_model::view::{
    ElasticView, ElementView, JobState, JobView, NativeView, ServiceView, TaskStage, TaskView,
};
use muster_model::{GpuMilli, JobId, NodeName, Outcome, Reason, Time};

use crate::RenderContext;
use crate::amount::{count, gpus, ranges};
use crate::clock;
use crate::reason;
use crate::style::Ink;
use crate::table::{Cell, Table};
use crate::timeline::TimelineStart;

/// Returns a table with one row per job. With the reserved starts in `planned`, rows say before
/// which start a backfilled job ends.
#[must_use]
pub fn jobs(rows: &[JobView], planned: &[TimelineStart], context: RenderContext) -> String {
    table(rows, planned, context).render(context)
}

pub(crate) fn table<'r>(
    rows: &'r [JobView],
    planned: &[TimelineStart],
    context: RenderContext,
) -> Table<'r, JobView> {
    let users: BTreeSet<_> = rows.iter().map(|job| &job.user).collect();
    let queues: BTreeSet<_> = rows.iter().map(|job| &job.queue).collect();
    let show_queue =
        queues.len() > 1 || queues.first().is_some_and(|queue| queue.as_str() != "default");
    let nodes: BTreeSet<&NodeName> = rows
        .iter()
        .flat_map(|job| &job.elements)
        .flat_map(|element| &element.tasks)
        .map(|task| &task.node)
        .collect();

    let systems: BTreeSet<String> = rows.iter().map(system).collect();

    let others = OtherJobs::of(rows, planned);
    Table::of(rows)
        .left("ON", |job| if systems.len() > 1 { system(job) } else { String::new() })
        .left("JOB", JobView::label)
        .left("NAME", |job| &job.name)
        .left("USER", |job| if users.len() > 1 { job.user.as_str() } else { "" })
        .left("QUEUE", |job| if show_queue { job.queue.as_str() } else { "" })
        .dropped(4)
        .left("PARTITION", |job| native(job, partition))
        .dropped(1)
        .left("STATE", |job| Cell::inked(job.state.word(), Ink::of(job.state)))
        .left("GPUS", |job| gpus_held(job, nodes.len() > 1))
        .left("NODES", |job| native(job, |_| nodes_held(job)))
        .dropped(3)
        .left("WAITED", |job| {
            let until = job.started.or(job.ended).unwrap_or(context.now);
            clock::elapsed(until.since(job.submitted))
        })
        .left("RAN", |job| {
            let ran = |started| job.ended.unwrap_or(context.now).since(started);
            job.started.map_or(String::new(), |started| clock::elapsed(ran(started)))
        })
        .left("LEFT", |job| native(job, |_| time_left(job, context.now)))
        .dropped(2)
        .left("NOTE", |job| note(job, &others, context))
}

/// Returns the cluster of a job, as `--on` names it.
fn system(job: &JobView) -> String {
    match &job.native {
        None => "local".to_owned(),
        Some(NativeView { system, cluster: Some(context), .. }) if system == "kubernetes" => {
            format!("{system}@{context}")
        }
        Some(native) => native.system.clone(),
    }
}

/// Returns text on a job of an external scheduler, empty for any other job.
fn native(job: &JobView, text: impl Fn(&NativeView) -> String) -> String {
    job.native.as_ref().map_or(String::new(), text)
}

/// Returns the partition of a job on Slurm; names of jobs on Kubernetes have their namespace.
fn partition(native: &NativeView) -> String {
    if native.name.is_some() { String::new() } else { native.partition.clone() }
}

/// Returns the nodes that the job holds, folded: `node[1-4]`.
fn nodes_held(job: &JobView) -> String {
    let active = job.elements.iter().filter(|element| holds(element.state));
    let nodes: BTreeSet<&NodeName> =
        active.flat_map(|element| &element.tasks).map(|task| &task.node).collect();
    folded(nodes.into_iter().map(NodeName::as_str))
}

/// Folds names that differ only in the number at their end: `node[1-3,7]`.
fn folded<'a>(names: impl Iterator<Item = &'a str>) -> String {
    // Keyed by the text before the number, and its number of digits if it begins with 0.
    let mut groups: BTreeMap<(&str, usize), Vec<u32>> = BTreeMap::new();
    let mut others = Vec::new();
    for name in names {
        let prefix = name.trim_end_matches(|c: char| c.is_ascii_digit());
        let digits = &name[prefix.len()..];
        let padded = if digits.starts_with('0') { digits.len() } else { 0 };
        match digits.parse() {
            Ok(number) => groups.entry((prefix, padded)).or_default().push(number),
            Err(_) => others.push(name.to_owned()),
        }
    }
    for ((prefix, padded), mut numbers) in groups {
        numbers.sort_unstable();
        others.push(match numbers.as_slice() {
            [one] => format!("{prefix}{one:0padded$}"),
            _ if padded > 0 => {
                let numbers: Vec<String> =
                    numbers.iter().map(|one| format!("{one:0padded$}")).collect();
                format!("{prefix}[{}]", numbers.join(","))
            }
            _ => format!("{prefix}[{}]", ranges(&numbers)),
        });
    }
    others.join(",")
}

/// Returns the time until the job's time limit; the least of several elements.
fn time_left(job: &JobView, now: Time) -> String {
    let active = job.elements.iter().filter(|element| holds(element.state));
    let ends = active.filter_map(|element| element.ends_by).min();
    ends.map_or(String::new(), |end| clock::elapsed(end.since(now)))
}

/// `5 GPUs`, `2..8 GPUs`.
pub(crate) fn requested(job: &JobView) -> String {
    match &job.elastic {
        Some(elastic) if elastic.most_gpus.0 > 0 => {
            format!("{}..{} GPUs", elastic.fewest_gpus, elastic.most_gpus)
        }
        _ => gpus(job.gpus),
    }
}

/// Returns the devices held now, or last: `0-4`, `node1:0-3`, `16 on 2 nodes`, `3 (0.5)`; `0 of 5`
/// while the job is pending.
#[must_use]
pub fn gpus_held(job: &JobView, name_nodes: bool) -> String {
    let active: Vec<&ElementView> =
        job.elements.iter().filter(|element| holds(element.state)).collect();
    let shown: Vec<&ElementView> = match (&job.array, active.is_empty()) {
        (None, true) => job.elements.iter().collect(),
        _ => active,
    };
    let tasks: Vec<&TaskView> = shown.iter().flat_map(|element| &element.tasks).collect();
    // An external scheduler may report how many devices, but no longer which.
    let has_devices = tasks.iter().any(|task| !task.devices.is_empty());
    match () {
        () if job.native.is_some() && !has_devices && job.gpus.0 > 0 => {
            // `gpus` of an array are those of one element. The nodes stand in a column of their own.
            let held = match job.array {
                Some(_) => GpuMilli(job.gpus.0.saturating_mul(shown.len() as u32)),
                None if holds(job.state) || job.started.is_some() => job.gpus,
                None => GpuMilli(0),
            };
            match held {
                GpuMilli(0) if job.state.is_final() => "-".to_owned(),
                GpuMilli(0) => format!("0 of {}", job.gpus),
                held => held.to_string(),
            }
        }
        () if job.gpus.0 == 0 && job.elastic.is_none_or(|elastic| elastic.most_gpus.0 == 0) => {
            "-".to_owned()
        }
        () if !tasks.is_empty() && (holds(job.state) || job.state.is_final()) => {
            devices_of(&tasks, name_nodes)
        }
        () if job.state.is_final() => "-".to_owned(),
        () => match &job.elastic {
            Some(elastic) => format!("0 of {}..{}", elastic.fewest_gpus, elastic.most_gpus),
            None => format!("0 of {}", job.gpus),
        },
    }
}

/// Returns the devices of some tasks in short form.
pub(crate) fn devices_of(tasks: &[&TaskView], name_nodes: bool) -> String {
    let nodes: BTreeSet<&NodeName> = tasks.iter().map(|task| &task.node).collect();
    if nodes.len() > 1 {
        let held: usize = tasks.iter().map(|task| task.devices.len()).sum();
        return format!("{held} on {} nodes", nodes.len());
    }
    let devices: BTreeSet<u32> =
        tasks.iter().flat_map(|task| &task.devices).map(|&device| u32::from(device)).collect();
    let devices = ranges(&devices.into_iter().collect::<Vec<_>>());
    let share = tasks.iter().map(|task| task.share).find(|share| (1..1000).contains(&share.0));
    let share = share.map_or(String::new(), |share| format!(" ({share})"));
    match nodes.first() {
        Some(node) if name_nodes => format!("{node}:{devices}{share}"),
        _ => format!("{devices}{share}"),
    }
}

/// Returns true if an element in this state holds its resources.
#[must_use]
pub fn holds(state: JobState) -> bool {
    matches!(state, JobState::Starting | JobState::Running | JobState::Stopping)
}

/// Index over the rows of a table: which job ends at an instant, and which planned start is next.
#[derive(Clone, Debug, Default)]
pub struct OtherJobs<'a> {
    /// Jobs by the instant at which planning takes one of their active elements to end; two, since
    /// one of them may be the job looked up for.
    ends: BTreeMap<Time, (JobId, Option<JobId>)>,
    /// Planned starts, ordered by time.
    planned: Vec<&'a TimelineStart>,
}

impl<'a> OtherJobs<'a> {
    /// Builds the index in one pass over the rows.
    #[must_use]
    pub fn of(rows: &[JobView], planned: &'a [TimelineStart]) -> Self {
        let mut ends: BTreeMap<Time, (JobId, Option<JobId>)> = BTreeMap::new();
        for job in rows {
            let active = job.elements.iter().filter(|element| holds(element.state));
            for end in active.filter_map(planned_end) {
                let (first, second) = ends.entry(end).or_insert((job.job, None));
                if *first != job.job && second.is_none() {
                    *second = Some(job.job);
                }
            }
        }
        let mut planned: Vec<&TimelineStart> = planned.iter().collect();
        planned.sort_by_key(|plan| plan.start);
        Self { ends, planned }
    }

    /// Returns the first other job that ends at this instant.
    pub(crate) fn job_ending_at(&self, at: Time, job: JobId) -> Option<JobId> {
        let (first, second) = self.ends.get(&at)?;
        if *first == job { *second } else { Some(*first) }
    }

    /// Returns the first planned start of another job at this instant or later. A job has few
    /// planned starts, which are skipped.
    pub(crate) fn next_planned_start(&self, from: Time, job: JobId) -> Option<&TimelineStart> {
        let next = self.planned.partition_point(|plan| plan.start < from);
        self.planned[next..].iter().find(|plan| plan.element.job != job).copied()
    }
}

/// Returns the note of a job: why it is pending and when it starts, how far it is, how it ended. Text
/// of users in it is not made safe for a terminal.
#[must_use]
pub fn note(job: &JobView, others: &OtherJobs<'_>, context: RenderContext) -> String {
    let mut parts = Vec::new();
    match &job.array {
        _ if job.service.is_some() => parts.extend(job.service.as_ref().map(ready)),
        Some(array) => {
            parts.push(format!("{} of {} done", array.succeeded, array.total));
            if array.failed > 0 {
                parts.push(format!("{} failed", array.failed));
            }
            if let Some(cap) = array.max_running.filter(|_| !job.state.is_final()) {
                parts.push(format!("{cap} at a time"));
            }
        }
        None => {
            parts.extend(
                job.elements.first().and_then(|element| ranks(element, job.elastic.as_ref())),
            );
            parts.extend(job.elements.first().and_then(resumption));
        }
    }
    let attempt = job.elements.iter().map(|element| element.attempt).max().unwrap_or(0);
    if attempt > 1 && job.array.is_none() && job.service.is_none() {
        parts.push(format!("attempt {attempt}"));
    }
    let mut groups = vec![parts.join(", ")];
    groups.extend(backfilled(job, others));
    match job.state {
        JobState::Pending => groups.extend(waits(job, others, context)),
        JobState::Starting => {
            groups.extend(job.waiting_for.iter().map(|why| reason::short(why, context)));
        }
        JobState::Held => groups.push(match &job.waiting_for {
            Some(reason @ Reason::HeldByAdmin { .. }) => reason::short(reason, context),
            _ => format!("muster release {}", job.label()),
        }),
        _ => {}
    }
    if let Some(outcome) = job.elements.iter().filter_map(|element| element.outcome.as_ref()).next()
        && job.array.is_none()
        && (job.service.is_none() || job.state.is_final())
        && *outcome != Outcome::Succeeded
    {
        groups.push(outcome.to_string());
    }
    groups.retain(|group| !group.is_empty());
    groups.join("; ")
}

/// `3 of 2..6 ready`.
pub(crate) fn ready(service: &ServiceView) -> String {
    format!("{} of {} ready", service.ready, replicas(service))
}

/// Returns the number of replicas of a service: `3`, `2..6`.
pub(crate) fn replicas(service: &ServiceView) -> String {
    if service.guaranteed == service.max {
        service.max.to_string()
    } else {
        format!("{}..{}", service.guaranteed, service.max)
    }
}

/// `5 of 5 ranks` of a gang of several, `5 of 2..8 ranks` of an elastic one; nothing for a single
/// task that runs.
fn ranks(element: &ElementView, elastic: Option<&ElasticView>) -> Option<String> {
    let at = |stage| element.tasks.iter().filter(|task| task.stage == stage).count();
    let total = element.tasks.len();
    if let Some(elastic) = elastic
        && element.state == JobState::Running
        && at(TaskStage::Running) == total
    {
        return Some(format!("{total} of {} ranks", tasks_between(elastic)));
    }
    match element.state {
        JobState::Starting => {
            // Of a job that an external scheduler starts, some may run already.
            let ready = at(TaskStage::Prepared) + at(TaskStage::Running);
            Some(format!("{ready} of {} ready", count(total as u64, "rank")))
        }
        JobState::Running if total > 1 => {
            Some(format!("{} of {total} ranks", at(TaskStage::Running)))
        }
        JobState::Stopping => match total - at(TaskStage::Ended) {
            // An external scheduler has not counted their ends yet.
            0 => None,
            left => Some(format!("{left} of {} not ended", count(total as u64, "rank"))),
        },
        _ => None,
    }
}

/// Describes how the element resumes, while it is being stopped to be moved or resized.
fn resumption(element: &ElementView) -> Option<String> {
    let tasks = element.restarts_with_tasks?;
    Some(if tasks as usize == element.tasks.len() {
        "resumes on other GPUs".to_owned()
    } else {
        format!("resumes with {tasks}")
    })
}

/// Returns the bounds of an elastic job: `2..8`.
pub(crate) fn tasks_between(elastic: &ElasticView) -> String {
    format!("{}..{}", elastic.fewest_tasks, elastic.most_tasks)
}

/// Returns the end by which planning goes: the predicted one, or that of the time limit.
fn planned_end(element: &ElementView) -> Option<Time> {
    element.expected_end.or(element.ends_by)
}

fn backfilled(job: &JobView, others: &OtherJobs<'_>) -> Option<String> {
    let backfilled = || job.elements.iter().filter(|element| element.backfilled);
    let end = backfilled().map(planned_end).max()?;
    let is_predicted = backfilled().any(|element| element.expected_end.is_some());
    let ends = if is_predicted { "predicted to end" } else { "ends" };
    let before = end
        .filter(|_| !job.state.is_final())
        .and_then(|end| others.next_planned_start(end, job.job));
    Some(match before {
        Some(plan) => {
            format!("backfilled, {ends} before {} starts", crate::amount::element(plan.element))
        }
        None => "backfilled".to_owned(),
    })
}

/// Describes why the job is pending and until when: `needs 5 GPUs together, 3 are free; starts in
/// about 14s, when 1 ends`.
fn waits(job: &JobView, others: &OtherJobs<'_>, context: RenderContext) -> Vec<String> {
    let mut parts: Vec<String> =
        job.waiting_for.iter().map(|why| reason::short(why, context)).collect();
    if let Some(eta) = job.eta {
        let frees = others.job_ending_at(eta, job.job);
        let when = frees.map_or(String::new(), |other| format!(", when {other} ends"));
        let is_earliest =
            matches!(&job.waiting_for, Some(Reason::Native { code, .. }) if code == "BeginTime");
        let remaining = clock::remaining(eta.since(context.now));
        parts.push(if is_earliest {
            format!("starts in {remaining} at the earliest")
        } else if job.eta_predicted {
            format!("predicted to start in {remaining}{when}")
        } else {
            format!("starts in about {remaining}{when}")
        });
    }
    parts
}

/// Returns one line on a job's state, for a watch whose output is not a terminal.
#[must_use]
pub fn line(job: &JobView, others: &OtherJobs<'_>, context: RenderContext) -> String {
    let note = crate::style::clean(&note(job, others, context)).into_owned();
    let held = match (job.gpus.0, holds(job.state)) {
        (0, _) => String::new(),
        (_, true) => format!(" on gpu {}", gpus_held(job, false)),
        (_, false) if job.state == JobState::Pending => format!(" ({})", requested(job)),
        _ => String::new(),
    };
    let at = clock::time(context.now, context);
    let note = if note.is_empty() { note } else { format!(": {note}") };
    format!(
        "{at} {} {} {}{held}{note}\n",
        job.label(),
        crate::style::clean(&job.name),
        job.state.word()
    )
}

#[cfg(test)]
mod tests {
    use muster_model::{GpuMilli, Rank};

    use super::*;
    use crate::sample::{self, after};

    #[test]
    fn the_contention_example_six_seconds_in() {
        let text =
            jobs(&sample::contention(), &sample::planned(), RenderContext::plain().at(after(6)));
        insta::assert_snapshot!(text, @r"
        JOB  NAME   STATE    GPUS    WAITED  RAN  NOTE
        1    left   running  0-4     0s      6s   5 of 5 ranks
        2    right  pending  0 of 5  6s           needs 5 GPUs together, 3 are free; starts in about 14s, when 1 ends
        3    sweep  running  5,6     1s      5s   7 of 24 done, 2 at a time; backfilled, ends before 2 starts
        4    quick  done     7       0s      3s   backfilled
        ");
    }

    #[test]
    fn users_queues_and_nodes_appear_where_they_differ() {
        let mut rows = sample::contention();
        rows[1].user = "bob".into();
        rows[2].queue = "research/vision".into();
        rows[0].elements[0].tasks[4].node = "other".into();
        rows[3].elements[0].tasks[0].share = GpuMilli(500);
        insta::assert_snapshot!(jobs(&rows, &[], RenderContext::plain().at(after(6))), @r"
        JOB  NAME   USER   QUEUE            STATE    GPUS          WAITED  RAN  NOTE
        1    left   alice  default          running  5 on 2 nodes  0s      6s   5 of 5 ranks
        2    right  bob    default          pending  0 of 5        6s           needs 5 GPUs together, 3 are free; starts in about 14s, when 1 ends
        3    sweep  alice  research/vision  running  host:5,6      1s      5s   7 of 24 done, 2 at a time; backfilled
        4    quick  alice  default          done     host:7 (0.5)  0s      3s   backfilled
        ");
    }

    #[test]
    fn ends_and_in_between_states() {
        let failed = |number, name: &str, state, outcome| {
            let mut job = JobView {
                started: Some(sample::NOON),
                ended: Some(after(2)),
                ..sample::job(number, name, state, 1)
            };
            job.elements = vec![ElementView {
                state,
                outcome: Some(outcome),
                attempt: 3,
                tasks: vec![sample::task(0, 0, TaskStage::Ended)],
                ..sample::running(number, 0, 0..0, 9)
            }];
            job
        };
        let mut starting = JobView {
            elements: vec![sample::running(3, 0, 0..2, 9)],
            ..sample::job(3, "begins", JobState::Starting, 2)
        };
        starting.elements[0].state = JobState::Starting;
        starting.elements[0].tasks[1].stage = TaskStage::Prepared;
        let mut stopping = starting.clone();
        (stopping.state, stopping.elements[0].state) = (JobState::Stopping, JobState::Stopping);
        let rows = [
            failed(1, "bad", JobState::Failed, Outcome::Failed { rank: Rank(3), code: 9 }),
            failed(2, "gone", JobState::Cancelled, Outcome::Cancelled { by: "alice".into() }),
            starting,
            stopping,
            JobView {
                waiting_for: Some(Reason::Held),
                ..sample::job(5, "paused", JobState::Held, 0)
            },
        ];
        insta::assert_snapshot!(jobs(&rows, &[], RenderContext::plain().at(after(6))), @r"
        JOB  NAME    STATE      GPUS  WAITED  RAN  NOTE
        1    bad     failed     0     0s      2s   attempt 3; rank 3 exited with 9
        2    gone    cancelled  0     0s      2s   attempt 3; cancelled by alice
        3    begins  starting   0,1   6s           2 of 2 ranks ready
        3    begins  stopping   0,1   6s           2 of 2 ranks not ended
        5    paused  held       -     6s           muster release 5
        ");
    }

    #[test]
    fn an_elastic_gang_says_its_size_its_bounds_and_what_comes_next() {
        let rows = sample::elastic();
        insta::assert_snapshot!(jobs(&rows, &[], RenderContext::plain().at(after(6))), @r"
        JOB  NAME   STATE    GPUS       WAITED  RAN  NOTE
        1    waits  pending  0 of 2..8  6s
        2    train  running  0-4        0s      6s   5 of 2..8 ranks, resumes with 8
        3    train  running  0-4        0s      6s   5 of 2..8 ranks
        ");
    }

    #[test]
    fn what_is_predicted_is_not_promised() {
        let rows = sample::predicted();
        let planned =
            [TimelineStart { start: after(8), predicted: true, ..sample::planned()[0].clone() }];
        insta::assert_snapshot!(jobs(&rows[..3], &planned, RenderContext::plain().at(after(6))), @r"
        JOB  NAME   STATE    GPUS    WAITED  RAN  NOTE
        1    left   running  0-4     0s      6s   5 of 5 ranks
        2    right  pending  0 of 5  6s           needs 5 GPUs together, 3 are free; predicted to start in 2s, when 1 ends
        3    sweep  running  5,6     1s      5s   7 of 24 done, 2 at a time; backfilled, predicted to end before 2 starts
        ");
    }

    #[test]
    fn jobs_of_slurm_have_their_nodes_and_what_is_left_of_their_time() {
        let mut rows = sample::contention();
        for job in &mut rows {
            job.native = Some(sample::native("slurm"));
            for task in job.elements.iter_mut().flat_map(|element| &mut element.tasks) {
                task.devices.clear();
                task.node = format!("node{}", task.rank.0 + 1).as_str().into();
            }
        }
        let text = jobs(&rows[..2], &[], RenderContext::plain().at(after(6)));
        let heading = text.lines().next().unwrap();
        for word in ["PARTITION", "NODES", "LEFT"] {
            assert!(heading.contains(word), "{text}");
        }
        assert!(text.contains(" node[1-5] "), "{text}");
        // Jobs of two contexts of Kubernetes are told apart, too.
        for (row, context) in [(0, "prod"), (1, "test")] {
            let native = rows[row].native.as_mut().unwrap();
            (native.system, native.cluster) = ("kubernetes".to_owned(), Some(context.to_owned()));
        }
        let text = jobs(&rows[..2], &[], RenderContext::plain().at(after(6)));
        let on: Vec<&str> = text.lines().filter_map(|line| line.split(' ').next()).collect();
        assert_eq!(on, ["ON", "kubernetes@prod", "kubernetes@test"], "{text}");
        let narrow = jobs(&rows[..2], &[], RenderContext::plain().at(after(6)).with_width(80));
        assert!(narrow.lines().all(|line| line.chars().count() <= 80), "{narrow}");
    }

    /// An external scheduler says how many GPUs an element has, and not which.
    #[test]
    fn arrays_of_other_schedulers_count_the_gpus_of_what_runs() {
        let mut array = sample::contention().swap_remove(2);
        array.native = Some(sample::native("kubernetes"));
        for task in array.elements.iter_mut().flat_map(|element| &mut element.tasks) {
            task.devices.clear();
        }
        let shown = |job: &JobView| gpus_held(job, true);
        assert_eq!(shown(&array), "2");
        array.elements.iter_mut().for_each(|element| element.state = JobState::Pending);
        assert_eq!(shown(&array), "0 of 1");
        array.state = JobState::Done;
        assert_eq!(shown(&array), "-");
    }

    #[test]
    fn names_of_nodes_are_folded() {
        let fold = |names: &[&str]| folded(names.iter().copied());
        assert_eq!(fold(&["node1", "node2", "node3", "node7"]), "node[1-3,7]");
        assert_eq!(fold(&["node1"]), "node1");
        assert_eq!(fold(&["gpu-01", "gpu-02", "login"]), "login,gpu-[01,02]");
    }

    #[test]
    fn what_waits_again_holds_nothing() {
        let mut job = sample::contention().swap_remove(0);
        (job.state, job.elements[0].state) = (JobState::Pending, JobState::Pending);
        assert!(
            jobs(&[job], &[], RenderContext::plain().at(after(6))).contains(" 0 of 5 "),
            "its last devices may be held by other jobs now"
        );
    }

    #[test]
    fn a_narrow_terminal_wraps_the_note() {
        let text = jobs(
            &sample::contention(),
            &sample::planned(),
            RenderContext::plain().at(after(6)).with_width(80),
        );
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
        assert!(text.contains("when 1 ends"), "{text}");
    }

    #[test]
    fn one_line_per_change_without_a_terminal() {
        let rows = sample::contention();
        let others = OtherJobs::of(&rows, &[]);
        let text: String = rows
            .iter()
            .map(|job| line(job, &others, RenderContext::plain().at(after(6))))
            .collect();
        insta::assert_snapshot!(text, @r"
        12:00:06 1 left running on gpu 0-4: 5 of 5 ranks
        12:00:06 2 right pending (5 GPUs): needs 5 GPUs together, 3 are free; starts in about 14s, when 1 ends
        12:00:06 3 sweep running on gpu 5,6: 7 of 24 done, 2 at a time; backfilled
        12:00:06 4 quick done: backfilled
        ");
    }
}
