//! Slurm's rows as Muster's views. What Slurm does not say is left out, never made up: of a job
//! that has ended it no longer knows the devices, and of tasks that it did not spread evenly not
//! the places.

use std::collections::BTreeMap;

use muster_backends::slurm::job::NativeJob;
use muster_backends::slurm::{host, reason};
use muster_model::view::{
    ArrayView, ElementView, JobView, NativeView, RoleView, State, TaskStage, TaskView,
};
use muster_model::{Bytes, CpuMilli, ElementId, GpuMilli, JobId, Outcome, Rank, Reason, Time};

use super::{Refusal, Result};

/// The views of all jobs that the rows are of, in order of number.
pub(super) fn jobs(rows: &[NativeJob], cluster: Option<&str>) -> Vec<JobView> {
    let mut by_job: BTreeMap<u64, Vec<&NativeJob>> = BTreeMap::new();
    for row in rows {
        by_job.entry(row.job()).or_default().push(row);
    }
    by_job.into_iter().filter_map(|(number, rows)| job(number, &rows, cluster)).collect()
}

/// One job of its rows: the only one, or those of an array.
fn job(number: u64, rows: &[&NativeJob], cluster: Option<&str>) -> Option<JobView> {
    let states: Vec<State> = rows.iter().map(|row| row.state.state(row.is_held())).collect();
    let furthest = (0..rows.len()).min_by_key(|&at| distance(states[at]))?;
    let (row, state) = (rows[furthest], states[furthest]);
    let array = array(rows, &states);
    let waiting =
        rows.iter().zip(&states).find(|(_, state)| matches!(state, State::Pending | State::Held));
    let shown = rows.iter().zip(&states).filter(|(row, state)| {
        array.is_none()
            || elements_of(row) == 1
                && !matches!(state, State::Pending | State::Held)
                && !state.is_final()
    });
    // Components of a heterogeneous job are parts of one gang.
    let parts: Vec<&NativeJob> = match row.component {
        Some(_) => rows.to_vec(),
        None => vec![row],
    };
    let shown: Vec<(&&NativeJob, &State)> =
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
        submitted: rows.iter().filter_map(|row| row.submitted).min().unwrap_or_default(),
        started: started(rows, &states),
        ended: match state.is_final() {
            true => rows.iter().filter_map(|row| row.end).max(),
            false => None,
        },
        array,
        service: None,
        is_notebook: false,
        idle: None,
        elements: shown.iter().map(|(row, state)| element(number, row, **state, &parts)).collect(),
        waiting_for: waiting.filter(|_| !state.is_final()).map(|(row, state)| why(row, *state)),
        eta: waiting.and_then(|(row, _)| expected_start(row)).filter(|_| state == State::Pending),
        native: Some(NativeView {
            system: "slurm".to_owned(),
            cluster: cluster.map(str::to_owned),
            state: row.state.text(),
            reason: (!row.reason.is_empty() && row.reason != "None").then(|| row.reason.clone()),
            partition: row.partition.clone(),
            qos: (!row.qos.is_empty()).then(|| row.qos.clone()),
            restarts: row.restarts,
            id: row.muster_id().map(str::to_owned),
        }),
    })
}

/// A view that has one element also where it has ended, as views of arrays else do not.
pub(super) fn with_element(mut view: JobView, rows: &[NativeJob], index: u32) -> JobView {
    let is_own =
        |row: &&NativeJob| row.array.is_some() && elements_of(row) == 1 && stands_for(row, index);
    let is_shown = view.elements.iter().any(|element| element.element.index == index);
    if let Some(row) = rows.iter().find(is_own).filter(|_| !is_shown) {
        view.elements.push(element(row.job(), row, row.state.state(row.is_held()), &[row]));
        view.elements.sort_by_key(|element| element.element.index);
    }
    view
}

/// A view with the roles by the names that Muster's record has; as it is where the record is of
/// another number of tasks.
pub(super) fn with_roles(mut view: JobView, roles: &[(String, u32)]) -> JobView {
    let counted: u32 = roles.iter().map(|(_, tasks)| tasks).sum();
    if roles.len() < 2 || counted != view.tasks {
        return view;
    }
    // 1. Ranks go on from role to role.
    let of_rank: Vec<&str> = roles
        .iter()
        .flat_map(|(name, tasks)| std::iter::repeat_n(name.as_str(), *tasks as usize))
        .collect();
    for task in view.elements.iter_mut().flat_map(|element| &mut element.tasks) {
        if let Some(name) = of_rank.get(task.rank.0 as usize) {
            (*name).clone_into(&mut task.group);
        }
    }
    // 2. What a task of a component has, a task of each of its roles has.
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

/// Running before waiting before ended; of what has ended, what went wrong first.
fn distance(state: State) -> u8 {
    match state {
        State::Running => 0,
        State::Stopping => 1,
        State::Starting => 2,
        State::Suspended => 3,
        State::Pending => 4,
        State::Held => 5,
        State::Unknown => 6,
        State::Failed => 7,
        State::Preempted => 8,
        State::Cancelled => 9,
        State::Done => 10,
    }
}

fn started(rows: &[&NativeJob], states: &[State]) -> Option<Time> {
    // The start of what waits is a forecast, and of what was cancelled while it waited the instant
    // of that.
    let has_run = |(row, state): &(&&NativeJob, &State)| {
        !matches!(state, State::Pending | State::Held)
            && (!row.nodes.is_empty() || *state == &State::Done)
    };
    rows.iter().zip(states).filter(has_run).filter_map(|(row, _)| row.start).min()
}

/// When Slurm expects to start it. What a limit or an error keeps has none: the backfill's estimate
/// takes no account of these.
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

/// Why it waits.
pub(super) fn why(row: &NativeJob, state: State) -> Reason {
    match state {
        State::Held if row.reason == "JobHeldUser" => Reason::Held,
        _ => Reason::Native {
            code: if row.reason.is_empty() { "None".to_owned() } else { row.reason.clone() },
            says: reason::sentence(if row.reason.is_empty() { "None" } else { &row.reason }),
            evidence: Vec::new(),
        },
    }
}

/// GPUs of one element.
fn gpus(row: &NativeJob) -> u32 {
    match NativeJob::gpus_of(&row.tres_held) {
        0 => NativeJob::gpus_of(&row.tres_asked),
        held => held,
    }
}

/// Tasks of one element; where Slurm does not say, one per node.
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

/// Slurm knows no names of roles, but numbers of components.
fn part_name(row: &NativeJob) -> String {
    row.component.map_or("main".to_owned(), |(_, at)| format!("part-{at}"))
}

/// Elements that a row stands for.
pub(super) fn elements_of(row: &NativeJob) -> u32 {
    ranges(row).map(|range| range.map_or(1, |(first, last, step)| (last - first) / step + 1)).sum()
}

/// First, last and step of the indices that a row stands for; `None` where Slurm has left some out.
fn ranges(row: &NativeJob) -> impl Iterator<Item = Option<(u32, u32, u32)>> {
    let list = row.array_tasks.split('%').next().unwrap_or_default();
    list.split(',').map(|part| {
        let (range, step) = part.split_once(':').unwrap_or((part, "1"));
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last, step): (u32, u32, u32) =
            (first.parse().ok()?, last.parse().ok()?, step.parse().ok()?);
        (last >= first && step > 0).then_some((first, last, step))
    })
}

/// An element is among those that a row stands for; one that Slurm has left out may be.
pub(super) fn stands_for(row: &NativeJob, wanted: u32) -> bool {
    let is_in = |(first, last, step): (u32, u32, u32)| {
        (first..=last).contains(&wanted) && (wanted - first).is_multiple_of(step)
    };
    match row.array {
        Some(_) => ranges(row).any(|range| range.is_none_or(is_in)),
        None => wanted == 0,
    }
}

/// The row that one element of a job is in: its own, else the one of those that wait together.
///
/// # Errors
/// Where there is no such element.
pub(super) fn row_of(rows: &[NativeJob], job: JobId, wanted: u32) -> Result<&NativeJob> {
    let is_in = |row: &&NativeJob| stands_for(row, wanted);
    rows.iter().filter(is_in).min_by_key(|row| elements_of(row)).ok_or_else(|| {
        let unknown = Refusal::not_found(format!("job {job} has no element {wanted}"));
        match rows.iter().any(|row| row.array.is_some()) {
            true => unknown.hint(
                "Slurm keeps nothing of one that was cancelled before it started, nor, without accounting, of one that ended a while ago",
            ),
            false => unknown,
        }
    })
}

fn array(rows: &[&NativeJob], states: &[State]) -> Option<ArrayView> {
    rows.iter().find(|row| row.array.is_some())?;
    let mut view = ArrayView::default();
    for (row, state) in rows.iter().zip(states) {
        let count = elements_of(row);
        view.total += count;
        match state {
            State::Pending | State::Held => view.waiting += count,
            State::Done => view.succeeded += count,
            state if state.is_final() => view.failed += count,
            _ => view.active += count,
        }
        let cap = row.array_tasks.split_once('%').and_then(|(_, cap)| cap.parse().ok());
        view.max_running = view.max_running.or(cap);
    }
    Some(view)
}

/// Index of the element that a row is of.
pub(super) fn index(row: &NativeJob) -> u32 {
    match row.array {
        Some(_) => row.array_tasks.parse().unwrap_or_default(),
        None => 0,
    }
}

fn element(number: u64, row: &NativeJob, state: State, parts: &[&NativeJob]) -> ElementView {
    let parts = if row.component.is_some() { parts } else { &[row] };
    let has_started = !matches!(state, State::Pending | State::Held);
    ElementView {
        element: ElementId { job: JobId(number), index: index(row) },
        state,
        attempt: row.restarts + u32::from(has_started),
        backfilled: false,
        started: row
            .start
            .filter(|_| has_started && (!row.nodes.is_empty() || state == State::Done)),
        ends_by: row.end.filter(|_| has_started && !state.is_final()),
        ended: row.end.filter(|_| state.is_final()),
        outcome: outcome(row),
        last_end: None,
        checkpoint: None,
        checkpoint_asked: None,
        goes_on_with: None,
        tasks: if has_started { places(parts, state) } else { Vec::new() },
    }
}

/// How it ended; where a step says more than the job, as the step says.
fn outcome(row: &NativeJob) -> Option<Outcome> {
    let own = row.state.outcome(row.exit, row.cancelled_by.as_deref(), &row.reason)?;
    match row.state.text().as_str() {
        "FAILED" if !row.step.text().is_empty() => row.step.outcome(row.exit, None, ""),
        _ => Some(own),
    }
}

/// Ranks in order of the nodes, by how many each has; none where that is not known.
fn places(parts: &[&NativeJob], state: State) -> Vec<TaskView> {
    let stage = match state {
        State::Starting => TaskStage::Prepared,
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
                row.gres_by_node.get(at).map(|gres| host::devices(gres)).unwrap_or_default();
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

/// Tasks divide the devices of their node in order where that comes out even; else all stand at the
/// first.
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
        let blank = JobView::blank(JobId(1), "j".into(), "u".into(), State::Running, Time(0));
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
        // Worker and chief need the same, and are one component.
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
        use muster_backends::slurm::state::NativeState;
        let ended = NativeJob { state: NativeState::new(["FAILED"]), ..row("1") };
        let rows = [row("2-5"), ended];
        let view = JobView::blank(JobId(40), "j".into(), "u".into(), State::Running, Time(0));
        let shown = with_element(view.clone(), &rows, 1);
        assert_eq!(shown.elements.iter().map(|one| one.state).collect::<Vec<_>>(), [State::Failed]);
        // It is not there twice, and one of those that wait together is not made up.
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
        // What Slurm has left out may be any.
        assert!(row_of(&[row("1,3,...")], JobId(40), 7).is_ok());
        let single = [NativeJob { id: 41, ..NativeJob::default() }];
        assert!(row_of(&single, JobId(41), 0).is_ok() && row_of(&single, JobId(41), 3).is_err());
    }
}
