//! Are claims right? Those who go may be made to go, by the right that is named; once they are gone
//! everything that was promised fits beside all that stays; and nobody goes who could as well stay.

use std::collections::BTreeMap;

use muster_model::{
    Decision, ElementId, Eviction, EvictionCause, GpuModel, NodeId, Plan, Protection, QueueName,
    QueueSpec, TaskPlacement, Tier, Time,
};
use rustc_hash::{FxHashMap, FxHashSet};

use super::counted::{self, Counted, model_of, promised};
use super::ledger::Sum;
use super::plan::needs_of;
use super::{Violation, borrowed, quota, resized};
use crate::state::State;
use crate::state::job::{Job, RunStage};

/// At most so many of those who go are asked whether a quota alone needs them gone: each question
/// costs a walk of the tree.
const ASKED: usize = 32;

pub(super) fn check(state: &State, now: Time, plan: &Plan, found: &mut Vec<Violation>) {
    check_kept(state, plan, found);
    let is_claim = |decision: &Decision| matches!(decision, Decision::Claim { .. });
    if state.claims.of.is_empty() && !plan.decisions.iter().any(is_claim) {
        return;
    }
    check_rights(state, now, plan, found);
    resized::check_moves(state, now, plan, found);
    let after = after_all_went(state, plan);
    for (node, (all, asked)) in &after {
        found.extend(all.excess(asked, *node, &state.pool, true));
    }
    check_needed(state, plan, &after, found);
}

/// What was promised starts there and nowhere else.
fn check_kept(state: &State, plan: &Plan, found: &mut Vec<Violation>) {
    for (id, placement, _) in plan.starts() {
        let is_kept =
            counted::kept(state, plan, id.element).is_none_or(|claim| claim.placement == placement);
        if !is_kept {
            found.push(Violation::NotAsClaimed(id.element));
        }
    }
    for decision in &plan.decisions {
        let element = match decision {
            Decision::Claim { element, .. } if counted::kept(state, plan, *element).is_some() => {
                element
            }
            Decision::Unclaim { element } if promised(state, *element).is_none() => element,
            _ => continue,
        };
        found.push(Violation::NotAsClaimed(*element));
    }
}

/// Use of each queue and model, as the decisions of a plan change it one by one.
struct Uses<'a> {
    state: &'a State,
    by_queue: BTreeMap<(QueueName, GpuModel), u64>,
    /// What may come on top: a gang that starts with more than its fewest tasks got that when all
    /// others had had their turn, and a plan does not say on which models it stood before.
    larger: BTreeMap<(QueueName, GpuModel), u64>,
}

impl<'a> Uses<'a> {
    /// What is counted of each queue: whether rightly so is asked of the state, not of a plan.
    fn before(state: &'a State) -> Self {
        let views = state.policy.queue_views(Time(0)).into_iter();
        let rows = views.flat_map(|view| {
            let name = view.name;
            view.gpus.into_iter().map(move |row| ((name.clone(), row.model), u64::from(row.used.0)))
        });
        Self { state, by_queue: rows.collect(), larger: BTreeMap::new() }
    }

    fn comes(&mut self, job: &Job, gpus: &BTreeMap<GpuModel, u64>) {
        for (model, milli) in gpus {
            self.add(leaf_of(self.state, job), model, *milli, true);
        }
    }

    /// It holds so much, of which so much it need not.
    fn comes_larger(&mut self, job: &Job, gpus: &BTreeMap<GpuModel, u64>, more: u64) {
        // Of several models it is not known which of them were more.
        let is_plain = gpus.len() == 1;
        for (model, milli) in gpus {
            let spare = if is_plain { more.min(*milli) } else { *milli };
            self.add(leaf_of(self.state, job), model, milli - spare, true);
            for queue in path(leaf_of(self.state, job)) {
                *self.larger.entry((queue, model.clone())).or_default() += spare;
            }
        }
    }

    fn goes(&mut self, one: &Counted<'_>) {
        for (model, milli) in one.gpus {
            let model = self.state.policy.models().name(*model);
            self.add(leaf_of(self.state, one.job), model, *milli, false);
        }
    }

    fn add(&mut self, leaf: &QueueName, model: &GpuModel, milli: u64, comes: bool) {
        for queue in path(leaf) {
            let used = self.by_queue.entry((queue, model.clone())).or_default();
            *used = if comes { *used + milli } else { used.saturating_sub(milli) };
        }
    }

    fn of(&self, queue: &QueueName, model: &GpuModel) -> u64 {
        self.by_queue.get(&(queue.clone(), model.clone())).copied().unwrap_or(0)
    }

    /// The most that it can be.
    fn most_of(&self, queue: &QueueName, model: &GpuModel) -> u64 {
        self.of(queue, model)
            + self.larger.get(&(queue.clone(), model.clone())).copied().unwrap_or(0)
    }
}

/// What a gang holds beyond its fewest tasks, in thousandths of GPUs.
fn more_than_fewest(job: &Job, placement: &[TaskPlacement]) -> u64 {
    let Some(elastic) = job.record.spec.elastic() else { return 0 };
    let own = placement.iter().filter(|task| task.group == elastic.group);
    own.skip(elastic.min as usize)
        .map(|task| u64::from(task.devices.len()) * u64::from(task.share.0))
        .sum()
}

/// May those who go be made to go?
fn check_rights(state: &State, now: Time, plan: &Plan, found: &mut Vec<Violation>) {
    let mut uses = Uses::before(state);
    let (mut gone, mut smaller) = (FxHashSet::default(), FxHashSet::default());
    for decision in &plan.decisions {
        match decision {
            Decision::Start { id, placement, .. }
                if counted::kept(state, plan, id.element).is_none() =>
            {
                let Some(job) = state.jobs.get(&id.element.job) else { continue };
                let gpus = by_model(state, placement);
                match more_than_fewest(job, placement) {
                    0 => uses.comes(job, &gpus),
                    more => uses.comes_larger(job, &gpus, more),
                }
            }
            Decision::Start { .. } => {}
            Decision::Unclaim { element } => {
                if let Some(claim) = promised(state, *element) {
                    uses.goes(&claim);
                }
            }
            Decision::Claim { element, placement, evict } => {
                let Some(claimant) = state.jobs.get(&element.job) else { continue };
                let asked = by_model(state, placement);
                for eviction in evict {
                    let is_new = gone.insert(eviction.id);
                    let victim = counted::running(state, eviction.id).filter(|_| is_new);
                    let Some(victim) = victim.filter(|victim| !is_stopping(state, victim.element))
                    else {
                        found.push(Violation::NotEvictable(eviction.id, "it does not run"));
                        continue;
                    };
                    let whose = (claimant, *element);
                    let wrong = wrong_eviction(
                        (state, now, plan),
                        *eviction,
                        &victim,
                        whose,
                        &asked,
                        &uses,
                    );
                    found.extend(wrong.map(|why| Violation::NotEvictable(eviction.id, why)));
                    uses.goes(&victim);
                    // Of who shrinks the rest goes on counting.
                    if eviction.cause == EvictionCause::Shrunk {
                        let keeps = resized::promised(plan, eviction.id).unwrap_or_default();
                        uses.comes(victim.job, &by_model(state, keeps));
                        smaller.insert(victim.element);
                    }
                }
                if !smaller.contains(element) {
                    uses.comes(claimant, &asked);
                }
            }
        }
    }
}

/// Where an element stands in the order of its queue, and how safe it is by its job's own terms.
pub(super) fn terms_of(job: &Job, element: ElementId) -> (i32, Protection) {
    let spec = &job.record.spec;
    let own = spec.service().map(|service| element.index < service.replicas.floor);
    let protect = match own {
        Some(true) => Protection::Always,
        Some(false) => Protection::None,
        None => spec.protect,
    };
    let tier = if own == Some(false) { Tier::Last } else { spec.tier };
    (tier.order(spec.priority), protect)
}

fn is_stopping(state: &State, id: ElementId) -> bool {
    let run = state.element(id).and_then(|element| element.run.as_ref());
    run.is_some_and(|run| matches!(run.stage, RunStage::Stopping(_)))
}

/// Why an attempt may not be made to go.
fn wrong_eviction(
    (state, now, plan): (&State, Time, &Plan),
    eviction: Eviction,
    victim: &Counted<'_>,
    (claimant, element): (&Job, ElementId),
    asked: &BTreeMap<GpuModel, u64>,
    uses: &Uses<'_>,
) -> Option<&'static str> {
    let tree = state.policy.tree();
    let (to, from) = (leaf_of(state, claimant), leaf_of(state, victim.job));
    if eviction.cause == EvictionCause::Grown {
        return resized::wrong_growth(state, now, plan, eviction.id, element);
    }
    // 1. Protection: its own, or its queue's.
    let of_queue = path(from).rev().find_map(|queue| find(&tree.queues, &queue)?.protect);
    let terms = (terms_of(victim.job, victim.element), terms_of(claimant, element));
    let ((order, protect), (claims, _)) = terms;
    let safe = [protect, of_queue.unwrap_or_default()];
    if safe.into_iter().any(|one: Protection| one.until(victim.from) > now) {
        return Some("it is protected");
    }
    // 2. The right.
    match eviction.cause {
        EvictionCause::Grown => None,
        EvictionCause::Moved => resized::wrong_move(state, plan, eviction.id, claims),
        EvictionCause::Shrunk => resized::wrong_shrink(state, plan, eviction.id, claims),
        EvictionCause::Yielded => {
            let is_right =
                Tier::of_order(order) == Tier::Last && Tier::of_order(claims) == Tier::Usual;
            let is_on = tree.preemption.priority || tree.preemption.reclaim;
            (!is_right || !is_on).then_some("it runs in its turn, as the claimant does")
        }
        EvictionCause::Outranked => {
            let is_right = tree.preemption.priority && to == from && order < claims;
            (!is_right).then_some("it is not of lower priority in the same queue")
        }
        EvictionCause::Reclaimed if !tree.preemption.reclaim => Some("nothing is taken back"),
        EvictionCause::Reclaimed if Tier::of_order(claims) != Tier::Usual => {
            Some("the claimant runs in what is idle only")
        }
        EvictionCause::Reclaimed => {
            let held =
                |model| victim.gpus.iter().any(|(id, _)| state.policy.models().name(*id) == model);
            let is_owed = asked.iter().any(|(model, milli)| {
                held(model) && is_owed(&tree.queues, (to, from), model, *milli, uses)
            });
            (!is_owed).then_some("its queue owes nothing to the claimant's")
        }
    }
}

/// True when the claimant's side stays within its nominal quota and the other is beyond its own,
/// all the way down.
fn is_owed(
    queues: &[QueueSpec],
    (to, from): (&QueueName, &QueueName),
    model: &GpuModel,
    milli: u64,
    uses: &Uses<'_>,
) -> bool {
    let nominal = |queue: &QueueName| find(queues, queue).map_or(0, |spec| nominal(spec, model));
    let (to, from): (Vec<_>, Vec<_>) = (path(to).collect(), path(from).collect());
    let shared = to.iter().zip(&from).take_while(|(one, other)| one == other).count();
    let Some(side) = to.get(shared) else { return false };
    uses.of(side, model) + milli <= nominal(side)
        && from.len() > shared
        && from[shared..].iter().all(|queue| uses.most_of(queue, model) > nominal(queue))
}

/// By node on which something is to start: everything that is there once all have gone who were
/// told to, and of that what is to start.
fn after_all_went(state: &State, plan: &Plan) -> FxHashMap<NodeId, (Sum, Sum)> {
    let mut after: FxHashMap<NodeId, (Sum, Sum)> = FxHashMap::default();
    // 1. What is to start.
    let mut starting = FxHashSet::default();
    for decision in &plan.decisions {
        let (element, placement) = match decision {
            Decision::Start { id, placement, .. } => (&id.element, placement),
            Decision::Claim { element, placement, .. } => (element, placement),
            Decision::Unclaim { .. } => continue,
        };
        starting.insert(*element);
        let Some(job) = state.jobs.get(&element.job) else { continue };
        for task in placement.iter() {
            let Some(needs) = needs_of(job, task) else { continue };
            let (all, asked) = after.entry(task.node).or_default();
            all.add(task, needs);
            asked.add(task, needs);
        }
    }
    // 2. What stays beside it. What was promised before is not asked for again: the world may have
    //    changed under it.
    let gone: FxHashSet<ElementId> =
        counted::going(state, plan).iter().map(|one| one.element).collect();
    let nodes: FxHashSet<NodeId> = after.keys().copied().collect();
    let stays =
        |one: &Counted<'_>| !gone.contains(&one.element) && !starting.contains(&one.element);
    for one in counted::on(state, &nodes).filter(stays) {
        for task in one.placement.iter() {
            let Some((all, _)) = after.get_mut(&task.node) else { continue };
            let Some(needs) = needs_of(one.job, task) else { continue };
            all.add(task, needs);
        }
    }
    after
}

/// Nobody goes who could as well stay: with him there, what was promised does not fit, be it beside
/// what is reserved, or breaks a quota.
fn check_needed(
    state: &State,
    plan: &Plan,
    after: &FxHashMap<NodeId, (Sum, Sum)>,
    found: &mut Vec<Violation>,
) {
    let mut asked = 0;
    for (at, decision) in plan.decisions.iter().enumerate() {
        let Decision::Claim { evict, .. } = decision else { continue };
        for eviction in evict {
            let Some(victim) = counted::running(state, eviction.id) else { continue };
            // Who would stay needs no place elsewhere.
            let stays = (eviction.cause == EvictionCause::Moved).then(|| {
                let mut plan = plan.clone();
                let is_his = |one: &Decision| matches!(one, Decision::Claim { element, .. } if *element == eviction.id.element);
                plan.decisions.retain(|decision| !is_his(decision));
                after_all_went(state, &plan)
            });
            let after = stays.as_ref().unwrap_or(after);
            if eviction.cause == EvictionCause::Grown
                || is_in_the_way(state, plan, &victim, *eviction, after)
            {
                continue;
            }
            asked += 1;
            let is_needed = || {
                breaks_quota(state, plan, at, *eviction)
                    || is_in_the_way(
                        state,
                        plan,
                        &victim,
                        *eviction,
                        &with_leavers(state, plan, at, after),
                    )
            };
            if asked <= ASKED && !is_needed() {
                found.push(Violation::NotEvictable(eviction.id, "it could as well stay"));
            }
        }
    }
}

/// Beside what is there in the end, all that is only about to leave for others than one claim:
/// nobody can count on it before it has gone.
fn with_leavers(
    state: &State,
    plan: &Plan,
    claim: usize,
    after: &FxHashMap<NodeId, (Sum, Sum)>,
) -> FxHashMap<NodeId, (Sum, Sum)> {
    let mut with = after.clone();
    let others = plan.decisions.iter().enumerate().filter(|(at, _)| *at != claim);
    let evicted = others.filter_map(|(_, decision)| match decision {
        Decision::Claim { evict, .. } => Some(evict),
        Decision::Start { .. } | Decision::Unclaim { .. } => None,
    });
    let going = evicted.flatten().filter_map(|eviction| counted::running(state, eviction.id));
    for one in going.chain(counted::leaving(state)) {
        for task in one.placement.iter() {
            let (Some((all, _)), Some(needs)) = (with.get_mut(&task.node), needs_of(one.job, task))
            else {
                continue;
            };
            all.add(task, needs);
        }
    }
    with
}

fn is_in_the_way(
    state: &State,
    plan: &Plan,
    victim: &Counted<'_>,
    eviction: Eviction,
    after: &FxHashMap<NodeId, (Sum, Sum)>,
) -> bool {
    let mut with: FxHashMap<NodeId, Sum> = FxHashMap::default();
    for task in resized::left(plan, victim, eviction.id, eviction.cause) {
        let Some((all, _)) = after.get(&task.node) else { continue };
        let Some(needs) = needs_of(victim.job, task) else { continue };
        with.entry(task.node).or_insert_with(|| all.clone()).add(task, needs);
    }
    for reservation in &plan.reservations {
        let Some(job) = state.jobs.get(&reservation.element.job) else { continue };
        for task in reservation.placement.iter() {
            let (Some(all), Some(needs)) = (with.get_mut(&task.node), needs_of(job, task)) else {
                continue;
            };
            all.add(task, needs);
        }
    }
    // Or beside what was reserved when he was told to: later rounds of the pass make other
    // reservations.
    if !plan.reservations.is_empty() && !with.is_empty() {
        return true;
    }
    with.iter().any(|(node, all)| {
        let asked = &after[node].1;
        !all.excess(asked, *node, &state.pool, true).is_empty()
    })
}

/// With him there a quota would not be kept, be it in the end, or when he was told to go: a later
/// claim may make somebody go who holds more than it needs.
fn breaks_quota(state: &State, plan: &Plan, at: usize, spared: Eviction) -> bool {
    let mut plan = plan.clone();
    if let Decision::Claim { evict, .. } = &mut plan.decisions[at] {
        evict.retain(|eviction| *eviction != spared);
    }
    let breaks = |plan: &Plan| {
        let mut found = Vec::new();
        quota::check(state, plan, &mut found);
        borrowed::check(state, plan, &mut found);
        !found.is_empty()
    };
    let in_the_end = breaks(&plan);
    plan.decisions.truncate(at + 1);
    in_the_end || breaks(&plan)
}

/// Thousandths of GPUs by model that a placement holds.
fn by_model(state: &State, placement: &[TaskPlacement]) -> BTreeMap<GpuModel, u64> {
    let mut sums: BTreeMap<GpuModel, u64> = BTreeMap::new();
    for task in placement {
        if let Some(model) = model_of(state, task) {
            let milli = u64::from(task.devices.len()) * u64::from(task.share.0);
            *sums.entry(model.clone()).or_default() += milli;
        }
    }
    sums
}

fn leaf_of<'s>(state: &'s State, job: &Job) -> &'s QueueName {
    state.policy.leaf_name(job.record.leaf)
}

/// The queues from the top level down to a leaf.
fn path(leaf: &QueueName) -> impl DoubleEndedIterator<Item = QueueName> {
    let text = leaf.as_str();
    let ends = text.match_indices('/').map(|(at, _)| at).chain([text.len()]);
    ends.map(|end| QueueName::from(&text[..end])).collect::<Vec<_>>().into_iter()
}

fn find<'q>(queues: &'q [QueueSpec], path: &QueueName) -> Option<&'q QueueSpec> {
    let mut level = queues;
    let mut found = None;
    for name in path.as_str().split('/') {
        let queue = level.iter().find(|queue| &*queue.name == name)?;
        (found, level) = (Some(queue), &queue.queues);
    }
    found
}

/// What a queue sets, or the sum of what its children do.
fn nominal(queue: &QueueSpec, model: &GpuModel) -> u64 {
    match queue.quota.get(model) {
        Some(gpus) => gpus.saturating_mul(1000),
        None => queue.queues.iter().map(|child| nominal(child, model)).sum(),
    }
}
