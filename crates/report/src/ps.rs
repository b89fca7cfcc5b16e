//! Jobs as rows: `muster ps`, and the table of `run --watch`.

use std::collections::BTreeSet;

use muster_model::view::{ElasticView, ElementView, JobView, ServiceView, State, TaskStage, TaskView};
use muster_model::{NodeName, Outcome, Time};

use crate::amount::{count, gpus, ranges};
use crate::clock;
use crate::reason;
use crate::style::{Ink, Style};
use crate::table::{Align, Cell, Table};
use crate::timeline::Planned;

/// One row per job. `planned` holds reserved starts where they are known: rows then say what a backfilled job ends
/// before.
#[must_use]
pub fn jobs(rows: &[JobView], planned: &[Planned], now: Time, style: &Style) -> String {
    table(rows, planned, now, style).render(style)
}

pub(crate) fn table(rows: &[JobView], planned: &[Planned], now: Time, style: &Style) -> Table {
    let users: BTreeSet<_> = rows.iter().map(|job| &job.user).collect();
    let queues: BTreeSet<_> = rows.iter().map(|job| &job.queue).collect();
    let show_queue = queues.len() > 1 || queues.first().is_some_and(|queue| queue.as_str() != "default");
    let nodes: BTreeSet<&NodeName> = rows
        .iter()
        .flat_map(|job| &job.elements)
        .flat_map(|element| &element.tasks)
        .map(|task| &task.node)
        .collect();

    let mut table = Table::new(&[
        ("JOB", Align::Left),
        ("NAME", Align::Left),
        ("USER", Align::Left),
        ("QUEUE", Align::Left),
        ("STATE", Align::Left),
        ("GPUS", Align::Left),
        ("WAITED", Align::Left),
        ("RAN", Align::Left),
        ("NOTE", Align::Left),
    ]);
    for job in rows {
        table.row(vec![
            Cell::from(job.job.to_string()),
            Cell::from(&job.name),
            Cell::from(if users.len() > 1 { job.user.as_str() } else { "" }),
            Cell::from(if show_queue { job.queue.as_str() } else { "" }),
            Cell::inked(job.state.word(), Ink::of(job.state)),
            Cell::from(gpus_held(job, nodes.len() > 1)),
            Cell::from(clock::elapsed(job.started.or(job.ended).unwrap_or(now).since(job.submitted))),
            Cell::from(
                job.started
                    .map_or(String::new(), |started| clock::elapsed(job.ended.unwrap_or(now).since(started))),
            ),
            Cell::from(note(job, rows, planned, now, style)),
        ]);
    }
    table
}

/// `5 GPUs`, `2..8 GPUs`.
pub(crate) fn asked(job: &JobView) -> String {
    match &job.elastic {
        Some(elastic) if elastic.most_gpus.0 > 0 => {
            format!("{}..{} GPUs", elastic.fewest_gpus, elastic.most_gpus)
        }
        _ => gpus(job.gpus),
    }
}

/// Devices held (or held last): `0-4`, `node1:0-3`, `16 on 2 nodes`, `3 (0.5)`; `0 of 5` while it waits.
fn gpus_held(job: &JobView, name_nodes: bool) -> String {
    let active: Vec<&ElementView> = job.elements.iter().filter(|element| holds(element.state)).collect();
    let shown: Vec<&ElementView> = match (&job.array, active.is_empty()) {
        (None, true) => job.elements.iter().collect(),
        _ => active,
    };
    let tasks: Vec<&TaskView> = shown.iter().flat_map(|element| &element.tasks).collect();
    // Who handed it on knows how many, but no longer which.
    let has_devices = tasks.iter().any(|task| !task.devices.is_empty());
    match () {
        () if job.native.is_some() && !has_devices && job.gpus.0 > 0 && job.array.is_none() => {
            match (holds(job.state) || job.started.is_some(), nodes_of(&tasks)) {
                (false, _) if job.state.is_final() => "-".to_owned(),
                (false, _) => format!("0 of {}", job.gpus),
                (true, 0 | 1) => job.gpus.to_string(),
                (true, nodes) => format!("{} on {nodes} nodes", job.gpus),
            }
        }
        () if job.gpus.0 == 0 && job.elastic.is_none_or(|elastic| elastic.most_gpus.0 == 0) => "-".to_owned(),
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

fn nodes_of(tasks: &[&TaskView]) -> usize {
    tasks.iter().map(|task| &task.node).collect::<BTreeSet<_>>().len()
}

/// The devices of some tasks, in as few characters as say it.
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

pub(crate) fn holds(state: State) -> bool {
    matches!(state, State::Starting | State::Running | State::Stopping)
}

fn note(job: &JobView, rows: &[JobView], planned: &[Planned], now: Time, style: &Style) -> String {
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
            parts.extend(job.elements.first().and_then(|element| ranks(element, job.elastic.as_ref())));
            parts.extend(job.elements.first().and_then(goes_on));
        }
    }
    let attempt = job.elements.iter().map(|element| element.attempt).max().unwrap_or(0);
    if attempt > 1 && job.array.is_none() && job.service.is_none() {
        parts.push(format!("attempt {attempt}"));
    }
    let mut groups = vec![parts.join(", ")];
    groups.extend(backfilled(job, planned));
    match job.state {
        State::Pending => groups.extend(waits(job, rows, now, style)),
        State::Held => groups.push(format!("muster release {}", job.job)),
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

/// `3`, `2..6`.
pub(crate) fn replicas(service: &ServiceView) -> String {
    match service.floor == service.ceiling {
        true => service.ceiling.to_string(),
        false => format!("{}..{}", service.floor, service.ceiling),
    }
}

/// `5 of 5 ranks` of a gang of several, `5 of 2..8 ranks` of an elastic one; nothing for a single task that runs.
fn ranks(element: &ElementView, elastic: Option<&ElasticView>) -> Option<String> {
    let at = |stage| element.tasks.iter().filter(|task| task.stage == stage).count();
    let total = element.tasks.len();
    if let Some(elastic) = elastic
        && element.state == State::Running
        && at(TaskStage::Running) == total
    {
        return Some(format!("{total} of {} ranks", tasks_between(elastic)));
    }
    match element.state {
        State::Starting => {
            Some(format!("{} of {} ready", at(TaskStage::Prepared), count(total as u64, "rank")))
        }
        State::Running if total > 1 => Some(format!("{} of {total} ranks", at(TaskStage::Running))),
        State::Stopping => {
            Some(format!("{} of {} still to end", total - at(TaskStage::Ended), count(total as u64, "rank")))
        }
        _ => None,
    }
}

/// How it goes on, while it stops for that.
fn goes_on(element: &ElementView) -> Option<String> {
    let tasks = element.goes_on_with?;
    Some(match tasks as usize == element.tasks.len() {
        true => "goes on elsewhere".to_owned(),
        false => format!("goes on with {tasks}"),
    })
}

/// `2..8`.
pub(crate) fn tasks_between(elastic: &ElasticView) -> String {
    format!("{}..{}", elastic.fewest_tasks, elastic.most_tasks)
}

fn backfilled(job: &JobView, planned: &[Planned]) -> Option<String> {
    let ends_by =
        job.elements.iter().filter(|element| element.backfilled).map(|element| element.ends_by).max()?;
    let before = ends_by.filter(|_| !job.state.is_final()).and_then(|end| {
        planned
            .iter()
            .filter(|plan| plan.element.job != job.job && end <= plan.start)
            .min_by_key(|plan| plan.start)
    });
    Some(match before {
        Some(plan) => format!("backfilled, ends before {} starts", reason::element(plan.element)),
        None => "backfilled".to_owned(),
    })
}

/// Why it waits and until when: `needs 5 GPUs together, 3 are free; starts in about 14s, when 1 ends`.
fn waits(job: &JobView, rows: &[JobView], now: Time, style: &Style) -> Vec<String> {
    let mut parts: Vec<String> = job.waiting_for.iter().map(|why| reason::short(why, now, style)).collect();
    if let Some(eta) = job.eta {
        let frees = rows.iter().filter(|other| other.job != job.job).find(|other| {
            other.elements.iter().any(|element| holds(element.state) && element.ends_by == Some(eta))
        });
        let when = frees.map_or(String::new(), |other| format!(", when {} ends", other.job));
        parts.push(format!("starts in about {}{when}", clock::ahead(eta.since(now))));
    }
    parts
}

/// One line on a state: for logs of a watch without a terminal.
#[must_use]
pub fn line(job: &JobView, rows: &[JobView], now: Time, style: &Style) -> String {
    let note = note(job, rows, &[], now, style);
    let held = match (job.gpus.0, holds(job.state)) {
        (0, _) => String::new(),
        (_, true) => format!(" on gpu {}", gpus_held(job, false)),
        (_, false) if job.state == State::Pending => format!(" ({})", asked(job)),
        _ => String::new(),
    };
    let at = clock::time(now, now, style);
    let note = if note.is_empty() { note } else { format!(": {note}") };
    format!("{at} {} {} {}{held}{note}\n", job.job, crate::style::clean(&job.name), job.state.word())
}

#[cfg(test)]
mod tests {
    use muster_model::{GpuMilli, Rank, Reason};

    use super::*;
    use crate::sample::{self, after};

    #[test]
    fn the_contention_example_six_seconds_in() {
        let text = jobs(&sample::contention(), &sample::planned(), after(6), &Style::plain());
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
        insta::assert_snapshot!(jobs(&rows, &[], after(6), &Style::plain()), @r"
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
            ..sample::job(3, "begins", State::Starting, 2)
        };
        starting.elements[0].state = State::Starting;
        starting.elements[0].tasks[1].stage = TaskStage::Prepared;
        let mut stopping = starting.clone();
        (stopping.state, stopping.elements[0].state) = (State::Stopping, State::Stopping);
        let rows = [
            failed(1, "bad", State::Failed, Outcome::Failed { rank: Rank(3), code: 9 }),
            failed(2, "gone", State::Cancelled, Outcome::Cancelled { by: "alice".into() }),
            starting,
            stopping,
            JobView { waiting_for: Some(Reason::Held), ..sample::job(5, "paused", State::Held, 0) },
        ];
        insta::assert_snapshot!(jobs(&rows, &[], after(6), &Style::plain()), @r"
        JOB  NAME    STATE      GPUS  WAITED  RAN  NOTE
        1    bad     failed     0     0s      2s   attempt 3; rank 3 exited with 9
        2    gone    cancelled  0     0s      2s   attempt 3; cancelled by alice
        3    begins  starting   0,1   6s           1 of 2 ranks ready
        3    begins  stopping   0,1   6s           2 of 2 ranks still to end
        5    paused  held       -     6s           muster release 5
        ");
    }

    #[test]
    fn an_elastic_gang_says_its_size_its_bounds_and_what_comes_next() {
        let rows = sample::elastic();
        insta::assert_snapshot!(jobs(&rows, &[], after(6), &Style::plain()), @r"
        JOB  NAME   STATE    GPUS       WAITED  RAN  NOTE
        1    waits  pending  0 of 2..8  6s
        2    train  running  0-4        0s      6s   5 of 2..8 ranks, goes on with 8
        3    train  running  0-4        0s      6s   5 of 2..8 ranks
        ");
    }

    #[test]
    fn what_waits_again_holds_nothing() {
        let mut job = sample::contention().swap_remove(0);
        (job.state, job.elements[0].state) = (State::Pending, State::Pending);
        assert!(
            jobs(&[job], &[], after(6), &Style::plain()).contains(" 0 of 5 "),
            "its last places are others' now"
        );
    }

    #[test]
    fn a_narrow_terminal_wraps_the_note() {
        let text = jobs(&sample::contention(), &sample::planned(), after(6), &Style::plain().with_width(80));
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
        assert!(text.contains("when 1 ends"), "{text}");
    }

    #[test]
    fn one_line_per_change_without_a_terminal() {
        let rows = sample::contention();
        let text: String = rows.iter().map(|job| line(job, &rows, after(6), &Style::plain())).collect();
        insta::assert_snapshot!(text, @r"
        12:00:06 1 left running on gpu 0-4: 5 of 5 ranks
        12:00:06 2 right pending (5 GPUs): needs 5 GPUs together, 3 are free; starts in about 14s, when 1 ends
        12:00:06 3 sweep running on gpu 5,6: 7 of 24 done, 2 at a time; backfilled
        12:00:06 4 quick done: backfilled
        ");
    }
}
