//! Conversion of Slurm's rows to Muster's views. Fields that Slurm does not report are left empty,
//! never guessed: the devices of ended jobs, and the nodes of tasks that are not spread evenly.

use std::collections::BTreeMap;

use muster_model::view::{
    ArrayView, ElementRow, ElementView, JobState, JobView, NativeView, RoleView, TaskStage,
    TaskView,
};
use muster_model::{Bytes, CpuMilli, ElementId, GpuMilli, JobId, Outcome, Rank, Reason, Time};
use muster_slurm::job::NativeJob;
use muster_slurm::{gres, reason};

use super::{RequestError, Result};

/// Returns the views of all jobs in the rows, in order of number.
pub(super) fn jobs(rows: &[NativeJob], cluster: Option<&str>) -> Vec<JobView> {
    let mut by_job: BTreeMap<u64, Vec<&NativeJob>> = BTreeMap::new();
    for row in rows {
        by_job.entry(row.job()).or_default().push(row);
    }
    by_job.into_iter().filter_map(|(number, rows)| job(number, &rows, cluster)).collect()
}

/// Builds the view of one job from its rows: one row, or those of an array.
fn job(number: u64, rows: &[&NativeJob], cluster: Option<&str>) -> Option<JobView> {
    let states: Vec<JobState> = rows.iter().map(|row| row.state.state(row.is_held())).collect();
    let furthest = (0..rows.len()).min_by_key(|&at| distance(states[at]))?;
    let row = rows[furthest];
    let state = states[furthest];
    let array = array(rows, &states);
    let waiting = rows
        .iter()
        .zip(&states)
        .find(|(_, state)| matches!(state, JobState::Pending | JobState::Held));
    let shown = rows.iter().zip(&states).filter(|(row, state)| {
        array.is_none()
            || elements_of(row) == 1
                && !matches!(state, JobState::Pending | JobState::Held)
                && !state.is_final()
    });
    // Components of a heterogeneous job are parts of one gang.
    let parts: Vec<&NativeJob> = match row.component {
        Some(_) => rows.to_vec(),
        None => vec![row],
    };
    let shown: Vec<(&&NativeJob, &JobState)> =
        shown.take(if row.component.is_some() { 1 } else { rows.len() }).collect();
    Some(JobView {
        job: JobId(number),
        name: row.name.clone(),
        user: row.user.as_str().into(),
        uid: None,
        queue: row.account.as_str().into(),
        priority: i32::try_from(row.priority).unwrap_or(i32::MAX),
        state,
        tasks: parts.iter().map(|row| tasks(row)).sum(),
        gpus: GpuMilli(parts.iter().map(|row| gpus(row) * 1000).sum()),
        roles: parts.iter().map(|row| role(row)).collect(),
        elastic: None,
        time_limit: row.time_limit,
        expected_runtime: None,
        submitted: rows.iter().filter_map(|row| row.submitted).min().unwrap_or_default(),
        started: started(rows, &states),
        ended: if state.is_final() { rows.iter().filter_map(|row| row.end).max() } else { None },
        array,
        service: None,
        is_notebook: false,
        idle: None,
        elements: shown.iter().map(|(row, state)| element(number, row, **state, &parts)).collect(),
        waiting_for: waiting
            .filter(|_| !state.is_final())
            .map(|(row, state)| pending_reason(row, *state)),
        eta: waiting
            .and_then(|(row, _)| expected_start(row))
            .filter(|_| state == JobState::Pending),
        eta_predicted: false,
        native: Some(NativeView {
            system: "slurm".to_owned(),
            cluster: cluster.map(str::to_owned),
            state: row.state.text(),
            reason: (!row.reason.is_empty() && row.reason != "None").then(|| row.reason.clone()),
            partition: row.partition.clone(),
            qos: (!row.qos.is_empty()).then(|| row.qos.clone()),
            restarts: row.restarts,
            id: row.muster_id().map(str::to_owned),
            name: None,
        }),
    })
}

/// Adds the element of an ended job, which views of arrays otherwise leave out.
pub(super) fn with_element(mut view: JobView, rows: &[NativeJob], index: u32) -> JobView {
    let is_own = |row: &&NativeJob| {
        row.array.is_some() && elements_of(row) == 1 && includes_element(row, index)
    };
    let is_shown = view.elements.iter().any(|element| element.element.index == index);
    if let Some(row) = rows.iter().find(is_own).filter(|_| !is_shown) {
        view.elements.push(element(row.job(), row, row.state.state(row.is_held()), &[row]));
        view.elements.sort_by_key(|element| element.element.index);
    }
    view
}

/// Replaces the roles by those of Muster's record; unchanged where the record has another number of
/// tasks.
pub(super) fn with_roles(mut view: JobView, roles: &[(String, u32)]) -> JobView {
    let counted: u32 = roles.iter().map(|(_, tasks)| tasks).sum();
    if roles.len() < 2 || counted != view.tasks {
        return view;
    }
    // 1. Ranks continue from role to role.
    let of_rank: Vec<&str> = roles
        .iter()
        .flat_map(|(name, tasks)| std::iter::repeat_n(name.as_str(), *tasks as usize))
        .collect();
    for task in view.elements.iter_mut().flat_map(|element| &mut element.tasks) {
        if let Some(name) = of_rank.get(task.rank.0 as usize) {
            (*name).clone_into(&mut task.group);
        }
    }
    // 2. A task of a role has the resources of a task of its component.
    let components: Vec<RoleView> = view
        .roles
        .iter()
        .flat_map(|role| std::iter::repeat_n(role.clone(), role.tasks as usize))
        .collect();
    let mut rank = 0;
    let role = |(name, tasks): &(String, u32)| {
        let component = components.get(rank)?.clone();
        rank += *tasks as usize;
        Some(RoleView { name: name.clone(), tasks: *tasks, ..component })
    };
    if let Some(named) = roles.iter().map(role).collect() {
        view.roles = named;
    }
    view
}

/// Returns the order of states: running, pending, ended; of ended ones failures first.
fn distance(state: JobState) -> u8 {
    match state {
        JobState::Running => 0,
        JobState::Stopping => 1,
        JobState::Starting => 2,
        JobState::Suspended => 3,
        JobState::Pending => 4,
        JobState::Held => 5,
        JobState::Unknown => 6,
        JobState::Failed => 7,
        JobState::Preempted => 8,
        JobState::Cancelled => 9,
        JobState::Done => 10,
    }
}

fn started(rows: &[&NativeJob], states: &[JobState]) -> Option<Time> {
    // The start of a pending job is a forecast, and that of a job cancelled while pending is the
    // time of the cancellation.
    let has_run = |(row, state): &(&&NativeJob, &JobState)| {
        !matches!(state, JobState::Pending | JobState::Held)
            && (!row.nodes.is_empty() || *state == &JobState::Done)
    };
    rows.iter().zip(states).filter(has_run).filter_map(|(row, _)| row.start).min()
}

/// Returns when Slurm expects to start the job. Jobs that a limit or an error holds back have no
/// expected start: the estimate of the backfill ignores these.
pub(super) fn expected_start(row: &NativeJob) -> Option<Time> {
    const SCHEDULED: [&str; 8] = [
        "",
        "None",
        "Priority",
        "Resources",
        "BeginTime",
        "ReqNodeNotAvail",
        "Reservation",
        "JobArrayTaskLimit",
    ];
    let word = row.reason.split([',', '(']).next().unwrap_or_default().trim();
    row.start.filter(|_| SCHEDULED.contains(&word))
}

/// Returns the reason why the job is pending.
pub(super) fn pending_reason(row: &NativeJob, state: JobState) -> Reason {
    match state {
        JobState::Held if row.reason == "JobHeldUser" => Reason::Held,
        _ => Reason::Native {
            code: if row.reason.is_empty() { "None".to_owned() } else { row.reason.clone() },
            message: reason::sentence(if row.reason.is_empty() { "None" } else { &row.reason }),
            evidence: Vec::new(),
        },
    }
}

/// Returns the number of GPUs of one element.
fn gpus(row: &NativeJob) -> u32 {
    match muster_slurm::tres::gpus(&row.tres_allocated) {
        0 => muster_slurm::tres::gpus(&row.tres_requested),
        held => held,
    }
}

/// Returns the number of tasks of one element; one per node where Slurm does not report it.
fn tasks(row: &NativeJob) -> u32 {
    if row.tasks > 0 { row.tasks } else { row.node_count.max(1) }
}

fn role(row: &NativeJob) -> RoleView {
    let tasks = tasks(row);
    RoleView {
        name: part_name(row),
        tasks,
        gpus: GpuMilli(gpus(row) * 1000 / tasks),
        models: Vec::new(),
        cpus: CpuMilli(row.cpus.saturating_mul(1000) / tasks),
        memory: Bytes(0),
    }
}

/// Names a role by its component number, as Slurm has no names of roles.
fn part_name(row: &NativeJob) -> String {
    row.component.map_or("main".to_owned(), |(_, at)| format!("part-{at}"))
}

/// Returns the number of elements in a row.
pub(super) fn elements_of(row: &NativeJob) -> u32 {
    ranges(row).map(|range| range.map_or(1, |(first, last, step)| (last - first) / step + 1)).sum()
}

/// Returns first, last and step of the index ranges of a row; `None` for indices that Slurm left
/// out.
fn ranges(row: &NativeJob) -> impl Iterator<Item = Option<(u32, u32, u32)>> {
    let list = row.array_tasks.split('%').next().unwrap_or_default();
    list.split(',').map(|part| {
        let (range, step) = part.split_once(':').unwrap_or((part, "1"));
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let first: u32 = first.parse().ok()?;
        let last: u32 = last.parse().ok()?;
        let step: u32 = step.parse().ok()?;
        (last >= first && step > 0).then_some((first, last, step))
    })
}

/// Returns the indices of the elements in a row of an array, as far as Slurm names them.
pub(super) fn indices(row: &NativeJob) -> impl Iterator<Item = u32> {
    ranges(row).flatten().flat_map(|(first, last, step)| (first..=last).step_by(step as usize))
}

/// Returns an element of an array as a row of a list.
pub(super) fn element_row(job: JobId, row: &NativeJob, index: u32) -> ElementRow {
    let element = element(job.0, row, row.state.state(row.is_held()), &[row]);
    ElementRow { index, ..ElementRow::of(&element) }
}

/// Returns whether an element is in a row, or may be among those that Slurm left out.
pub(super) fn includes_element(row: &NativeJob, wanted: u32) -> bool {
    let is_in = |(first, last, step): (u32, u32, u32)| {
        (first..=last).contains(&wanted) && (wanted - first).is_multiple_of(step)
    };
    match row.array {
        Some(_) => ranges(row).any(|range| range.is_none_or(is_in)),
        None => wanted == 0,
    }
}

/// Returns the row of one element: its own, else that of the pending elements.
///
/// # Errors
/// When there is no such element.
pub(super) fn row_of(rows: &[NativeJob], job: JobId, wanted: u32) -> Result<&NativeJob> {
    let is_in = |row: &&NativeJob| includes_element(row, wanted);
    rows.iter().filter(is_in).min_by_key(|row| elements_of(row)).ok_or_else(|| {
        let unknown = RequestError::not_found(format!("job {job} has no element {wanted}"));
        if rows.iter().any(|row| row.array.is_some()) {
unknown.hint(
                "Slurm has no record of elements cancelled before they started and, without accounting, of those that ended some minutes ago",
            )
} else {
unknown
}
    })
}

fn array(rows: &[&NativeJob], states: &[JobState]) -> Option<ArrayView> {
    rows.iter().find(|row| row.array.is_some())?;
    let mut view = ArrayView::default();
    for (row, state) in rows.iter().zip(states) {
        let count = elements_of(row);
        view.total += count;
        match state {
            JobState::Pending | JobState::Held => view.waiting += count,
            JobState::Done => view.succeeded += count,
            state if state.is_final() => view.failed += count,
            _ => view.active += count,
        }
        let cap = row.array_tasks.split_once('%').and_then(|(_, cap)| cap.parse().ok());
        view.max_running = view.max_running.or(cap);
    }
    Some(view)
}

/// Returns the index of a row's element.
pub(super) fn index(row: &NativeJob) -> u32 {
    match row.array {
        Some(_) => row.array_tasks.parse().unwrap_or_default(),
        None => 0,
    }
}

fn element(number: u64, row: &NativeJob, state: JobState, parts: &[&NativeJob]) -> ElementView {
    let parts = if row.component.is_some() { parts } else { &[row] };
    let has_started = !matches!(state, JobState::Pending | JobState::Held);
    ElementView {
        element: ElementId { job: JobId(number), index: index(row) },
        state,
        attempt: row.restarts + u32::from(has_started),
        backfilled: false,
        started: row
            .start
            .filter(|_| has_started && (!row.nodes.is_empty() || state == JobState::Done)),
        ends_by: row.end.filter(|_| has_started && !state.is_final()),
        expected_end: None,
        ended: row.end.filter(|_| state.is_final()),
        outcome: outcome(row),
        last_end: None,
        checkpoint: None,
        checkpoint_asked: None,
        restarts_with_tasks: None,
        tasks: if has_started { places(parts, state) } else { Vec::new() },
    }
}

/// Returns how it ended; from the step where that has more detail than the job.
fn outcome(row: &NativeJob) -> Option<Outcome> {
    let own = row.state.outcome(row.exit, row.cancelled_by.as_deref(), &row.reason)?;
    match row.state.text().as_str() {
        "FAILED" if !row.step.text().is_empty() => row.step.outcome(row.exit, None, ""),
        _ => Some(own),
    }
}

/// Assigns ranks to nodes in order, by the number of tasks per node; empty where that is unknown.
fn places(parts: &[&NativeJob], state: JobState) -> Vec<TaskView> {
    let stage = match state {
        JobState::Starting => TaskStage::Prepared,
        state if state.is_final() => TaskStage::Ended,
        _ => TaskStage::Running,
    };
    let mut views = Vec::new();
    for row in parts {
        let nodes = muster_spec::expand_names(&row.nodes).unwrap_or_default();
        let even = tasks(row)
            .checked_div(nodes.len() as u32)
            .filter(|each| each * nodes.len() as u32 == tasks(row));
        for (at, node) in nodes.iter().enumerate() {
            let Some(here) = row.tasks_by_node.get(at).copied().or(even) else { continue };
            let devices =
                row.gres_by_node.get(at).map(|gres| gres::devices(gres)).unwrap_or_default();
            for local in 0..here as usize {
                views.push(TaskView {
                    rank: Rank(views.len() as u32),
                    group: part_name(row),
                    node: node.as_str().into(),
                    devices: share(&devices, local, here as usize),
                    share: GpuMilli(1000),
                    stage,
                    ready: false,
                    exit: None,
                });
            }
        }
    }
    views
}

/// Divides the devices of a node among its tasks in order where they divide evenly; else all are
/// listed at the first task.
fn share(devices: &[u16], local: usize, tasks: usize) -> Vec<u16> {
    match (devices.len() % tasks, devices.len() / tasks) {
        (0, each) => devices[local * each..(local + 1) * each].to_vec(),
        _ if local == 0 => devices.to_vec(),
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(tasks: &str) -> NativeJob {
        NativeJob { id: 40, array: Some(40), array_tasks: tasks.to_owned(), ..NativeJob::default() }
    }

    #[test]
    fn roles_have_their_names_again_where_the_record_is_of_this_job() {
        let part = |name: &str, tasks| RoleView {
            name: name.to_owned(),
            tasks,
            gpus: GpuMilli(1000 * tasks),
            models: Vec::new(),
            cpus: CpuMilli(1000),
            memory: Bytes(0),
        };
        let blank = JobView::blank(JobId(1), "j".into(), "u".into(), JobState::Running, Time(0));
        let view = JobView { tasks: 5, roles: vec![part("part-0", 1), part("part-1", 4)], ..blank };
        let roles = |roles: &[(&str, u32)]| {
            let recorded: Vec<(String, u32)> =
                roles.iter().map(|(name, tasks)| ((*name).to_owned(), *tasks)).collect();
            let view = with_roles(view.clone(), &recorded);
            view.roles
                .into_iter()
                .map(|role| (role.name, role.tasks, role.gpus.0))
                .collect::<Vec<_>>()
        };
        let named = |name: &str, tasks, gpus| (name.to_owned(), tasks, gpus);
        // Worker and chief have the same request, and share one component.
        assert_eq!(
            roles(&[("ps", 1), ("chief", 1), ("worker", 3)]),
            [named("ps", 1, 1000), named("chief", 1, 4000), named("worker", 3, 4000)]
        );
        assert_eq!(
            roles(&[("ps", 1), ("worker", 9)]),
            [named("part-0", 1, 1000), named("part-1", 4, 4000)]
        );
    }

    #[test]
    fn a_start_is_expected_of_what_only_waits_for_its_turn() {
        let start = |reason: &str| {
            expected_start(&NativeJob {
                reason: reason.to_owned(),
                start: Some(Time(7)),
                ..NativeJob::default()
            })
        };
        for reason in
            ["Resources", "Priority", "BeginTime", "ReqNodeNotAvail, UnavailableNodes:node1"]
        {
            assert_eq!(start(reason), Some(Time(7)), "{reason}");
        }
        for reason in [
            "QOSMaxGRESPerUser",
            "PartitionTimeLimit",
            "DependencyNeverSatisfied",
            "AssocGrpGRES",
            "Licenses",
        ] {
            assert_eq!(start(reason), None, "{reason}");
        }
    }

    #[test]
    fn an_element_that_has_ended_is_in_the_view_that_asks_for_it() {
        use muster_slurm::state::NativeState;
        let ended = NativeJob { state: NativeState::new(["FAILED"]), ..row("1") };
        let rows = [row("2-5"), ended];
        let view = JobView::blank(JobId(40), "j".into(), "u".into(), JobState::Running, Time(0));
        let shown = with_element(view.clone(), &rows, 1);
        assert_eq!(
            shown.elements.iter().map(|one| one.state).collect::<Vec<_>>(),
            [JobState::Failed]
        );
        // It is not added twice, and no pending element is invented.
        assert_eq!(with_element(shown.clone(), &rows, 1), shown);
        assert_eq!(with_element(view.clone(), &rows, 3), view);
    }

    #[test]
    fn an_element_is_found_in_its_own_row_before_those_that_wait_together() {
        let rows = [row("0-9%2"), row("4"), row("12-20:4,30")];
        let found =
            |index| row_of(&rows, JobId(40), index).ok().map(|row| row.array_tasks.as_str());
        assert_eq!((found(0), found(4), found(9)), (Some("0-9%2"), Some("4"), Some("0-9%2")));
        assert_eq!((found(16), found(30)), (Some("12-20:4,30"), Some("12-20:4,30")));
        assert_eq!((found(10), found(14), found(31)), (None, None, None));
        assert_eq!(elements_of(&rows[2]), 4);
        // Any index may be among those that Slurm left out.
        assert!(row_of(&[row("1,3,...")], JobId(40), 7).is_ok());
        let single = [NativeJob { id: 41, ..NativeJob::default() }];
        assert!(row_of(&single, JobId(41), 0).is_ok() && row_of(&single, JobId(41), 3).is_err());
    }
}
