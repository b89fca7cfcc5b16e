//! Places a whole gang on scratch, or nothing. Groups go one after the other, the hardest first.
//!
//! A single group is placed whenever it can be placed on the models of the try (whole devices,
//! shares or none): every node is offered and takes as many tasks as it can. Across groups it is
//! greedy, tried in two orders (the hardest first, and the other way round); a gang of several
//! groups that is missed so is searched for (`search.rs`).

use std::sync::Arc;

use muster_model::{DeviceSet, ElementId, GpuMilli, NodeId, TaskPlacement};
use muster_policy::ModelId;
use smallvec::SmallVec;

use super::ask::{Ask, Caps, Pick};
use super::search::{self, Found};
use super::{plain, score, share, topology, whole};
use crate::state::ends::End;
use crate::state::pool::{Checkpoint, HoldKey, Pool};
use crate::state::shape::{GroupNeed, Shape};
use crate::state::topology::Scope;

/// A gang being placed: grants go to the pool at once, so that later tasks see them.
pub(crate) struct Gang<'a> {
    pub(crate) pool: &'a mut Pool,
    pub(crate) ask: Ask<'a>,
    pub(crate) key: HoldKey,
    tasks: SmallVec<[TaskPlacement; 4]>,
    /// Held of models that have a cap.
    spent: Caps,
}

/// A place within a gang to come back to.
pub(crate) struct Mark {
    checkpoint: Checkpoint,
    tasks: usize,
    spent: Caps,
}

/// What became of placing a gang.
pub(crate) enum Placing {
    /// The pool holds it under the key; the placement is by rank.
    Placed(HoldKey, Arc<[TaskPlacement]>),
    /// There is no way on the models of the try.
    Impossible,
    /// No way was found; there may be one.
    GaveUp,
}

/// Places a gang. On success the pool holds it under the key and the placement is by rank;
/// otherwise nothing changed.
pub(crate) fn place(
    pool: &mut Pool,
    ask: Ask<'_>,
    element: ElementId,
    end: End,
    shape: &Arc<Shape>,
) -> Option<(HoldKey, Arc<[TaskPlacement]>)> {
    match try_place(pool, ask, element, end, shape) {
        Placing::Placed(key, placement) => Some((key, placement)),
        Placing::Impossible | Placing::GaveUp => None,
    }
}

/// As [`place`], and says what is known when it does not succeed.
pub(crate) fn try_place(
    pool: &mut Pool,
    ask: Ask<'_>,
    element: ElementId,
    end: End,
    shape: &Arc<Shape>,
) -> Placing {
    // The jobs of a window see what that sets aside, and all others the rest.
    let outer = pool.look_inside(shape.window.as_ref());
    let placing = match &shape.topology {
        None => place_anywhere(pool, ask, element, end, shape),
        Some(wish) => topology::place(pool, ask, element, end, shape, wish),
    };
    pool.look(outer);
    placing
}

/// Is there a place for a gang in the scope of the request, now? Told of one group without GPUs and
/// topology, which need not be placed for it.
pub(super) fn fits(pool: &mut Pool, ask: &Ask<'_>) -> Option<bool> {
    let ([need], None) = (&ask.shape.groups[..], &ask.shape.topology) else { return None };
    if need.wants_gpu() {
        return None;
    }
    let outer = pool.look_inside(ask.shape.window.as_ref());
    let fits = plain::fits(pool, ask, need);
    pool.look(outer);
    Some(fits)
}

/// Places a gang in the scope of the request, wherever it fits.
pub(super) fn place_anywhere(
    pool: &mut Pool,
    ask: Ask<'_>,
    element: ElementId,
    end: End,
    shape: &Arc<Shape>,
) -> Placing {
    let order = &shape.order;
    if order.len() > 1 && search::is_hopeless(pool, &ask) {
        return Placing::Impossible;
    }
    let mut all = |gang: &mut Gang<'_>, group: u16| gang.place_group(group);
    if let Some((key, placement)) =
        place_in_order(pool, ask, element, end, shape, order.iter(), &mut all)
    {
        return Placing::Placed(key, placement);
    }
    if order.len() < 2 {
        return Placing::Impossible;
    }
    if let Some((key, placement)) =
        place_in_order(pool, ask, element, end, shape, order.iter().rev(), &mut all)
    {
        return Placing::Placed(key, placement);
    }
    if ask.effort == 0 {
        return Placing::GaveUp;
    }
    let checkpoint = pool.checkpoint();
    let key = pool.open(element, end, Arc::clone(shape));
    let mut gang = Gang { pool, ask, key, tasks: SmallVec::new(), spent: Caps::new() };
    match search::place(&mut gang, ask.effort) {
        Found::Placed => {
            let placement = gang.by_rank();
            pool.close(key, Arc::clone(&placement));
            Placing::Placed(key, placement)
        }
        found => {
            pool.rollback(checkpoint);
            if found == Found::Impossible { Placing::Impossible } else { Placing::GaveUp }
        }
    }
}

/// True when the indexes alone tell that a gang of one group can be nowhere now, whatever is
/// reserved.
pub(super) fn is_full<'p>(
    pool: &mut Pool,
    shape: &Shape,
    mut picks: impl Iterator<Item = &'p Pick>,
) -> bool {
    // Who looks from inside of a window sees other nodes.
    let ([need], None, false) = (&shape.groups[..], &shape.topology, pool.has_windows()) else {
        return false;
    };
    picks.all(|pick| has_no_room(pool, Scope::Cluster, need, &pick.models[0]))
}

/// True when the indexes alone tell that there is nothing for a group.
fn has_no_room(pool: &mut Pool, scope: Scope, need: &GroupNeed, models: &[ModelId]) -> bool {
    match (need.devices, need.share) {
        _ if need.tasks == 0 => false,
        (0, 0) => plain::has_no_room(pool, scope, need),
        (0, _) => false,
        _ => !whole::could_fit(pool, scope, need, models),
    }
}

/// Places the groups one after the other, each as `place` does it; all or nothing.
pub(super) fn place_in_order<'s>(
    pool: &mut Pool,
    ask: Ask<'_>,
    element: ElementId,
    end: End,
    shape: &'s Arc<Shape>,
    order: impl Iterator<Item = &'s u16>,
    place: &mut dyn FnMut(&mut Gang<'_>, u16) -> bool,
) -> Option<(HoldKey, Arc<[TaskPlacement]>)> {
    let checkpoint = pool.checkpoint();
    let key = pool.open(element, end, Arc::clone(shape));
    let mut gang = Gang { pool, ask, key, tasks: SmallVec::new(), spent: Caps::new() };
    for group in order {
        if !place(&mut gang, *group) {
            gang.pool.rollback(checkpoint);
            return None;
        }
    }
    let placement = gang.by_rank();
    pool.close(key, Arc::clone(&placement));
    Some((key, placement))
}

impl Gang<'_> {
    fn place_group(&mut self, group: u16) -> bool {
        let need = &self.ask.shape.groups[usize::from(group)];
        self.place_tasks(group, need)
    }

    /// Places tasks of a group in the scope of the request: as many as `need` says.
    pub(super) fn place_tasks(&mut self, group: u16, need: &GroupNeed) -> bool {
        if need.tasks == 0 {
            return true;
        }
        if let Some(placed) = score::place(self, group, need) {
            return placed;
        }
        match (need.devices, need.share) {
            (0, 0) => plain::place(self, group, need),
            (0, _) => share::place(self, group, need),
            _ => whole::place(self, group, need),
        }
    }

    /// Holds one task's part.
    pub(crate) fn grant(&mut self, group: u16, node: NodeId, devices: DeviceSet, share: u16) {
        let task = TaskPlacement { group, node, devices, share: GpuMilli(u32::from(share)) };
        self.pool.grant(self.key, &task);
        self.tasks.push(task);
    }

    /// Holds one task's devices of a model.
    pub(crate) fn grant_gpu(
        &mut self,
        group: u16,
        model: ModelId,
        node: NodeId,
        devices: DeviceSet,
        share: u16,
    ) {
        if !self.ask.caps.is_empty() {
            let milli = u64::from(devices.len()) * u64::from(share);
            match self.spent.iter_mut().find(|(known, _)| *known == model) {
                Some((_, spent)) => *spent += milli,
                None => self.spent.push((model, milli)),
            }
        }
        self.grant(group, node, devices, share);
    }

    /// How many more tasks of a group the cap on a model allows.
    pub(crate) fn cap_room(&self, model: ModelId, need: &GroupNeed) -> u32 {
        let of = |list: &[(ModelId, u64)]| {
            list.iter().find(|(known, _)| *known == model).map(|(_, milli)| *milli)
        };
        let Some(cap) = of(self.ask.caps) else { return u32::MAX };
        let left = cap.saturating_sub(of(&self.spent).unwrap_or(0));
        u32::try_from(left / need.milli()).unwrap_or(u32::MAX)
    }

    /// A place to come back to.
    pub(crate) fn mark(&self) -> Mark {
        Mark {
            checkpoint: self.pool.checkpoint(),
            tasks: self.tasks.len(),
            spent: self.spent.clone(),
        }
    }

    /// Undoes all grants since the mark.
    pub(crate) fn reset(&mut self, mark: &Mark) {
        self.pool.rollback(mark.checkpoint);
        self.tasks.truncate(mark.tasks);
        self.spent.clone_from(&mark.spent);
    }

    /// Held of models that have a cap.
    pub(crate) fn spent(&self) -> &Caps {
        &self.spent
    }

    /// True when the tasks placed last are on a node and one of them is of a group.
    pub(crate) fn has_on(&self, group: u16, node: NodeId) -> bool {
        self.tasks.iter().rev().take_while(|task| task.node == node).any(|task| task.group == group)
    }

    /// How many tasks of a group the quantities of a node allow.
    pub(crate) fn scalar_room(&self, node: NodeId, need: &GroupNeed) -> u32 {
        let room = self.pool.node(node).scalar_fits(&need.scalars, self.ask.window);
        u32::try_from(room).unwrap_or(u32::MAX)
    }

    /// True when the request may use the node at all.
    pub(crate) fn admits(&self, node: NodeId) -> bool {
        self.ask.admits(node, self.pool.node(node))
    }

    /// Nodes on which something comes free before a future start, the latest first, each once.
    pub(crate) fn freed_nodes(&self) -> Vec<NodeId> {
        let Some(freed) = self.ask.freed else { return Vec::new() };
        let mut seen: SmallVec<[bool; 64]> = SmallVec::from_elem(false, self.pool.nodes().len());
        freed
            .latest_first()
            .filter(|node| !std::mem::replace(&mut seen[node.0 as usize], true))
            .collect()
    }

    /// Ranks run over the groups in order, within a group over nodes by name, on a node over
    /// devices. Where the topology matters, nodes of one domain follow each other.
    fn by_rank(&mut self) -> Arc<[TaskPlacement]> {
        let mut tasks = std::mem::take(&mut self.tasks);
        let pool = &*self.pool;
        let key = |task: &TaskPlacement| {
            (task.group, pool.node(task.node).rank, task.devices.0.trailing_zeros(), task.devices)
        };
        match self.ask.shape.topology {
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
