//! Places a whole gang on scratch, or nothing. Groups are placed one after the other, the hardest
//! first.
//!
//! A single group is placed whenever that is possible on the models of the choice (whole devices,
//! shares or none): every node is offered and takes as many tasks as it can. Across groups placing
//! is greedy, in two orders (the hardest first, and the reverse); if both fail for several groups,
//! `search.rs` searches.

mod cpu_only;
mod domain_unit;
mod gpu_share;
mod scored;
pub(crate) mod search;
mod topology;
mod whole_gpu;

use std::sync::Arc;

use muster_model::{DeviceSet, ElementId, GpuMilli, NodeId, TaskPlacement};
use muster_policy::ModelId;
use smallvec::SmallVec;

use super::request::{ModelCaps, ModelChoice, PlacementRequest};
use crate::pool::ends::HoldingEnd;
use crate::pool::scope::Scope;
use crate::pool::shape::{GroupNeed, Shape};
use crate::pool::{HoldKey, Pool, ScratchMark};
use search::SearchOutcome;

/// Gang being placed. Grants go to the pool at once, so that later tasks see them.
pub(crate) struct GangPlacer<'a> {
    pub(crate) pool: &'a mut Pool,
    pub(crate) request: PlacementRequest<'a>,
    pub(crate) key: HoldKey,
    tasks: SmallVec<[TaskPlacement; 4]>,
    /// Thousandths of GPUs held so far, of models that have a cap.
    spent: ModelCaps,
}

/// Point during placement to which [`GangPlacer::reset`] returns.
pub(crate) struct GangMark {
    pool_mark: ScratchMark,
    tasks: usize,
    spent: ModelCaps,
}

/// Result of placing a gang.
pub(crate) enum PlacementOutcome {
    /// The pool holds the gang under the key; the placement is by rank.
    Placed(HoldKey, Arc<[TaskPlacement]>),
    /// No placement exists on the models of the choice.
    Impossible,
    /// No placement was found within the step limit; one may exist.
    GaveUp,
}

/// Places a gang. On success the pool holds it under the key and the placement is by rank;
/// otherwise nothing changed.
pub(crate) fn place(
    pool: &mut Pool,
    request: PlacementRequest<'_>,
    element: ElementId,
    end: HoldingEnd,
    shape: &Arc<Shape>,
) -> Option<(HoldKey, Arc<[TaskPlacement]>)> {
    match try_place(pool, request, element, end, shape) {
        PlacementOutcome::Placed(key, placement) => Some((key, placement)),
        PlacementOutcome::Impossible | PlacementOutcome::GaveUp => None,
    }
}

/// As [`place`], but tells impossible from given up.
pub(crate) fn try_place(
    pool: &mut Pool,
    request: PlacementRequest<'_>,
    element: ElementId,
    end: HoldingEnd,
    shape: &Arc<Shape>,
) -> PlacementOutcome {
    // Jobs of an advance reservation see its resources, and all others the rest.
    let outer = pool.view_inside(shape.reservation.as_ref());
    let outcome = match &shape.topology {
        None => place_anywhere(pool, request, element, end, shape),
        Some(topology) => topology::place(pool, request, element, end, shape, topology),
    };
    pool.set_view(outer);
    outcome
}

/// Returns whether a gang fits in the scope of the request now; `None` if that needs a placement.
/// Answers for one group without GPUs and topology.
pub(crate) fn fits(pool: &mut Pool, request: &PlacementRequest<'_>) -> Option<bool> {
    let ([need], None) = (&request.shape.groups[..], &request.shape.topology) else { return None };
    if need.wants_gpu() {
        return None;
    }
    let outer = pool.view_inside(request.shape.reservation.as_ref());
    let fits = cpu_only::fits(pool, request, need);
    pool.set_view(outer);
    Some(fits)
}

/// Places a gang anywhere in the scope of the request.
pub(crate) fn place_anywhere(
    pool: &mut Pool,
    request: PlacementRequest<'_>,
    element: ElementId,
    end: HoldingEnd,
    shape: &Arc<Shape>,
) -> PlacementOutcome {
    let order = &shape.order;
    if order.len() > 1 && search::cannot_fit(pool, &request) {
        return PlacementOutcome::Impossible;
    }
    let mut all = |gang: &mut GangPlacer<'_>, group: u16| gang.place_group(group);
    if let Some((key, placement)) =
        place_in_order(pool, request, element, end, shape, order.iter(), &mut all)
    {
        return PlacementOutcome::Placed(key, placement);
    }
    if order.len() < 2 {
        return PlacementOutcome::Impossible;
    }
    if let Some((key, placement)) =
        place_in_order(pool, request, element, end, shape, order.iter().rev(), &mut all)
    {
        return PlacementOutcome::Placed(key, placement);
    }
    if request.max_steps == 0 {
        return PlacementOutcome::GaveUp;
    }
    let mark = pool.mark();
    let key = pool.open(element, end, Arc::clone(shape));
    let mut gang =
        GangPlacer { pool, request, key, tasks: SmallVec::new(), spent: ModelCaps::new() };
    match search::place(&mut gang, request.max_steps) {
        SearchOutcome::Placed => {
            let placement = gang.take_by_rank();
            pool.close(key, Arc::clone(&placement));
            PlacementOutcome::Placed(key, placement)
        }
        found => {
            pool.rollback(mark);
            if found == SearchOutcome::Impossible {
                PlacementOutcome::Impossible
            } else {
                PlacementOutcome::GaveUp
            }
        }
    }
}

/// Returns true if the indexes alone show that a gang of one group fits nowhere now, whatever is
/// reserved.
pub(crate) fn is_full<'p>(
    pool: &mut Pool,
    shape: &Shape,
    mut choices: impl Iterator<Item = &'p ModelChoice>,
) -> bool {
    // Inside an advance reservation other nodes are visible.
    let ([need], None, false) =
        (&shape.groups[..], &shape.topology, pool.has_advance_reservations())
    else {
        return false;
    };
    choices.all(|choice| lacks_capacity(pool, Scope::Cluster, need, &choice.models[0]))
}

/// Returns true if the indexes alone show that a group does not fit.
fn lacks_capacity(pool: &mut Pool, scope: Scope, need: &GroupNeed, models: &[ModelId]) -> bool {
    match (need.devices, need.share) {
        _ if need.tasks == 0 => false,
        (0, 0) => cpu_only::lacks_capacity(pool, scope, need),
        (0, _) => false,
        _ => !whole_gpu::could_fit(pool, scope, need, models),
    }
}

/// Places the groups one after the other with `place`; all or nothing.
pub(crate) fn place_in_order<'s>(
    pool: &mut Pool,
    request: PlacementRequest<'_>,
    element: ElementId,
    end: HoldingEnd,
    shape: &'s Arc<Shape>,
    order: impl Iterator<Item = &'s u16>,
    place: &mut dyn FnMut(&mut GangPlacer<'_>, u16) -> bool,
) -> Option<(HoldKey, Arc<[TaskPlacement]>)> {
    let mark = pool.mark();
    let key = pool.open(element, end, Arc::clone(shape));
    let mut gang =
        GangPlacer { pool, request, key, tasks: SmallVec::new(), spent: ModelCaps::new() };
    for group in order {
        if !place(&mut gang, *group) {
            gang.pool.rollback(mark);
            return None;
        }
    }
    let placement = gang.take_by_rank();
    pool.close(key, Arc::clone(&placement));
    Some((key, placement))
}

impl GangPlacer<'_> {
    fn place_group(&mut self, group: u16) -> bool {
        let need = &self.request.shape.groups[usize::from(group)];
        self.place_tasks(group, need)
    }

    /// Places `need.tasks` tasks of a group in the scope of the request.
    pub(crate) fn place_tasks(&mut self, group: u16, need: &GroupNeed) -> bool {
        if need.tasks == 0 {
            return true;
        }
        if let Some(placed) = scored::place(self, group, need) {
            return placed;
        }
        match (need.devices, need.share) {
            (0, 0) => cpu_only::place(self, group, need),
            (0, _) => gpu_share::place(self, group, need),
            _ => whole_gpu::place(self, group, need),
        }
    }

    /// Holds the resources of one task.
    pub(crate) fn grant(&mut self, group: u16, node: NodeId, devices: DeviceSet, share: u16) {
        let task = TaskPlacement { group, node, devices, share: GpuMilli(u32::from(share)) };
        self.pool.grant(self.key, &task);
        self.tasks.push(task);
    }

    /// Holds the devices of one task, of a model.
    pub(crate) fn grant_gpu(
        &mut self,
        group: u16,
        model: ModelId,
        node: NodeId,
        devices: DeviceSet,
        share: u16,
    ) {
        if !self.request.caps.is_empty() {
            let milli = u64::from(devices.len()) * u64::from(share);
            match self.spent.iter_mut().find(|(known, _)| *known == model) {
                Some((_, spent)) => *spent += milli,
                None => self.spent.push((model, milli)),
            }
        }
        self.grant(group, node, devices, share);
    }

    /// Returns how many more tasks of a group the cap on a model allows.
    pub(crate) fn tasks_within_cap(&self, model: ModelId, need: &GroupNeed) -> u32 {
        let of = |list: &[(ModelId, u64)]| {
            list.iter().find(|(known, _)| *known == model).map(|(_, milli)| *milli)
        };
        let Some(cap) = of(self.request.caps) else { return u32::MAX };
        let left = cap.saturating_sub(of(&self.spent).unwrap_or(0));
        u32::try_from(left / need.milli()).unwrap_or(u32::MAX)
    }

    /// Returns a mark for [`GangPlacer::reset`].
    pub(crate) fn mark(&self) -> GangMark {
        GangMark { pool_mark: self.pool.mark(), tasks: self.tasks.len(), spent: self.spent.clone() }
    }

    /// Undoes all grants since the mark.
    pub(crate) fn reset(&mut self, mark: &GangMark) {
        self.pool.rollback(mark.pool_mark);
        self.tasks.truncate(mark.tasks);
        self.spent.clone_from(&mark.spent);
    }

    /// Returns what is held of models that have a cap.
    pub(crate) fn spent(&self) -> &ModelCaps {
        &self.spent
    }

    /// Returns true if a task of the group is on the node, among the last tasks placed without
    /// another node in between.
    pub(crate) fn has_on(&self, group: u16, node: NodeId) -> bool {
        self.tasks.iter().rev().take_while(|task| task.node == node).any(|task| task.group == group)
    }

    /// Returns how many tasks of a group the CPUs, memory and extras of a node allow.
    pub(crate) fn tasks_within_scalars(&self, node: NodeId, need: &GroupNeed) -> u32 {
        let tasks = self.pool.node(node).scalar_fits(&need.scalars, self.request.interval);
        u32::try_from(tasks).unwrap_or(u32::MAX)
    }

    /// Returns true if the request may use the node.
    pub(crate) fn admits(&self, node: NodeId) -> bool {
        self.request.admits(node, self.pool.node(node))
    }

    /// Returns the nodes on which capacity is released before a future start, the latest first,
    /// each once.
    pub(crate) fn released_nodes(&self) -> Vec<NodeId> {
        let Some(released) = self.request.released else { return Vec::new() };
        let mut seen: SmallVec<[bool; 64]> = SmallVec::from_elem(false, self.pool.nodes().len());
        released
            .latest_first()
            .filter(|node| !std::mem::replace(&mut seen[node.0 as usize], true))
            .collect()
    }

    /// Returns the tasks by rank: by group, then node name, then devices. Where topology matters,
    /// nodes of one domain are consecutive.
    fn take_by_rank(&mut self) -> Arc<[TaskPlacement]> {
        let mut tasks = std::mem::take(&mut self.tasks);
        let pool = &*self.pool;
        let key = |task: &TaskPlacement| {
            (task.group, pool.node(task.node).rank, task.devices.0.trailing_zeros(), task.devices)
        };
        match self.request.shape.topology {
            None => tasks.sort_by_key(key),
            Some(_) => tasks.sort_by(|one, other| {
                let domains = |task: &TaskPlacement| &pool.node(task.node).spec.domains;
                let by_domain =
                    one.group.cmp(&other.group).then_with(|| domains(one).cmp(domains(other)));
                by_domain.then_with(|| key(one).cmp(&key(other)))
            }),
        }
        Arc::from(&tasks[..])
    }
}
