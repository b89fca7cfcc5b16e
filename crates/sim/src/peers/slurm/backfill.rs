//! A backfill pass: jobs in order of priority, each gets the earliest time in the plan; who can
//! start now does, the others reserve nodes, so that nobody who comes later in line delays them.
//! Only what starts now is carried out; the next pass plans anew.
//!
//! Slurm may take minutes for this, and gives up after `bf_max_time`; a simulated decision takes no
//! time, so that a pass is always whole (as with `bf_continue`). A pass ends as soon as nobody who
//! is left could start now: what would be planned beyond that changes nothing.

use std::collections::BTreeMap;

use muster_model::{NodeId, Span, Time};

use super::plan::{Asked, Plan};
use super::room::Step;
use super::settings::Settings;
use super::state::State;
use crate::fleet::{Desk, PlaneError};

/// A kind of which some job may yet start in this pass.
#[derive(Clone, Debug)]
struct Hope {
    /// Jobs of it that have not been looked at.
    left: usize,
    /// The shortest time limit of them at the beginning.
    limit: Span,
    /// Room for it now.
    rooms: Vec<(NodeId, u32)>,
}

/// What a pass keeps by kind.
#[derive(Debug)]
struct Kinds {
    hopes: BTreeMap<usize, Hope>,
    /// Where room is from when on.
    steps: BTreeMap<usize, Vec<Step>>,
    /// By time limit: a job of the kind with that limit or a longer one cannot start earlier.
    bounds: BTreeMap<usize, BTreeMap<Span, Time>>,
}

/// Makes one pass; true where it has started somebody.
///
/// # Errors
/// A defect of this model.
pub(super) fn pass(state: &mut State, desk: &mut Desk) -> Result<bool, PlaneError> {
    let now = desk.now();
    let mut kinds = Kinds::new(state, desk);
    let Settings { bf_max_job_test, bf_node_space_size, .. } = state.settings;
    let mut plan = Plan::new(now, desk.pool().nodes().len(), &state.settings);
    let mut tried = 0;
    let mut has_started = false;
    for at in 0..state.queue.jobs().len() {
        let number = state.queue.jobs()[at];
        // 1. Whether it is tried.
        if kinds.hopes.is_empty() || tried == bf_max_job_test || plan.slots() >= bf_node_space_size
        {
            break;
        }
        let job = state.jobs[number.at()];
        kinds.look_at(job.kind);
        if state.exceeded(number).is_some() {
            continue;
        }
        tried += 1;
        // 2. When it could start.
        let bound = kinds.bound(job.kind, job.limit).unwrap_or(now);
        let tasks = state.kinds[job.kind].tasks;
        let steps = kinds.steps(state, desk, job.kind);
        let found =
            plan.earliest(&Asked { tasks, limit: job.limit, steps }, bound, &state.switches);
        // 3. Now, or later.
        match found {
            Some((start, places)) if start <= now => {
                state.start(desk, number, &places)?;
                has_started = true;
                kinds.room_has_changed(state, desk);
            }
            Some((start, places)) => {
                plan.reserve(&places, start, job.limit);
                kinds.learn(job.kind, job.limit, start);
            }
            None => kinds.learn(job.kind, job.limit, Time::NEVER),
        }
        kinds.lose_hope(state, &plan);
    }
    state.take_out_started();
    Ok(has_started)
}

impl Kinds {
    fn new(state: &State, desk: &Desk) -> Self {
        let mut hopes: BTreeMap<usize, Hope> = BTreeMap::new();
        for job in state.queue.jobs().iter().map(|job| &state.jobs[job.at()]) {
            let hope = hopes.entry(job.kind).or_insert(Hope {
                left: 0,
                limit: job.limit,
                rooms: Vec::new(),
            });
            (hope.left, hope.limit) = (hope.left + 1, hope.limit.min(job.limit));
        }
        let mut kinds = Self { hopes, steps: BTreeMap::new(), bounds: BTreeMap::new() };
        kinds.room_has_changed(state, desk);
        kinds.hopes.retain(|kind, hope| has_room(&hope.rooms, state.kinds[*kind].tasks));
        kinds
    }

    /// One job of the kind fewer is left.
    fn look_at(&mut self, kind: usize) {
        if let Some(hope) = self.hopes.get_mut(&kind) {
            hope.left -= 1;
        }
    }

    /// A job has started.
    fn room_has_changed(&mut self, state: &State, desk: &Desk) {
        self.steps.clear();
        for (kind, hope) in &mut self.hopes {
            hope.rooms = state.rooms.now(desk.pool(), &state.kinds[*kind].task);
        }
    }

    /// Kinds of which nobody is left, or that find no room any more on nodes that are not reserved,
    /// are given up: room and open nodes only ever get fewer in a pass.
    fn lose_hope(&mut self, state: &State, plan: &Plan) {
        self.hopes.retain(|kind, hope| {
            if hope.left == 0 {
                return false;
            }
            let open = plan.open_now(hope.limit);
            hope.rooms.retain(|(node, _)| open.contains(*node));
            has_room(&hope.rooms, state.kinds[*kind].tasks)
        });
    }

    fn steps(&mut self, state: &State, desk: &Desk, kind: usize) -> &[Step] {
        let task = &state.kinds[kind].task;
        self.steps.entry(kind).or_insert_with(|| state.rooms.steps(desk.pool(), desk.now(), task))
    }

    fn bound(&self, kind: usize, limit: Span) -> Option<Time> {
        self.bounds.get(&kind)?.range(..=limit).next_back().map(|(_, start)| *start)
    }

    /// A job of the kind with this limit finds no earlier start, now that the plan is as it is.
    fn learn(&mut self, kind: usize, limit: Span, start: Time) {
        let bounds = self.bounds.entry(kind).or_default();
        // What is known of longer ones and says less is of no more use.
        bounds.retain(|other, at| *other < limit || *at > start);
        bounds.insert(limit, start);
    }
}

fn has_room(rooms: &[(NodeId, u32)], tasks: u32) -> bool {
    rooms.iter().map(|(_, room)| u64::from(*room)).sum::<u64>() >= u64::from(tasks)
}
