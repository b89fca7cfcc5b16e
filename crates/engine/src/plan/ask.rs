//! One request for places: what is needed, when, and which nodes and models may be used.

use std::cmp::Reverse;

use muster_model::{DeviceSet, NodeId, Time};
use muster_policy::ModelId;
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use super::score::Scoring;
use crate::state::ends::End;
use crate::state::node::{Node, Window};
use crate::state::pool::{HoldKey, Pool};
use crate::state::shape::{Eligible, GroupNeed, Shape};
use crate::state::topology::Scope;

/// Models that each group may use in one try, in order of preference.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Pick {
    /// By group; empty where the group holds no GPU.
    pub(crate) models: SmallVec<[SmallVec<[ModelId; 2]>; 1]>,
    /// Thousandths by model that the gang will hold, when every group has just one model to use.
    pub(crate) exact: Option<SmallVec<[(ModelId, u64); 1]>>,
}

/// Most that a gang may hold of a model, in thousandths of GPUs; models not listed have no cap.
pub(crate) type Caps = SmallVec<[(ModelId, u64); 1]>;

/// What has come free before a future start, by node in the order in which it did. The latest is
/// used first, so that what is free already stays free for backfill.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Freed<'a> {
    /// It was given back on scratch.
    Back(&'a Back),
    /// Everything is as now, and nodes tell what of it will have ended; the indexes do not.
    Ahead(&'a [Return]),
}

/// What was given back on scratch.
#[derive(Clone, Debug, Default)]
pub(crate) struct Back {
    /// Nodes in order of their latest release; may repeat.
    pub(crate) order: Vec<NodeId>,
    /// By node: what each holding gave back.
    pub(crate) devices: FxHashMap<NodeId, Vec<(HoldKey, DeviceSet)>>,
}

/// Something comes back on a node.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Return {
    pub(crate) at: Time,
    /// Whose holding.
    pub(crate) key: HoldKey,
    pub(crate) node: NodeId,
    pub(crate) devices: DeviceSet,
    /// Of some device only a share comes back.
    pub(crate) is_partial: bool,
}

impl Freed<'_> {
    /// Nodes on which something comes free, the latest first; they may repeat.
    pub(crate) fn latest_first(&self) -> impl Iterator<Item = NodeId> {
        let (order, ahead): (&[NodeId], &[Return]) = match self {
            Freed::Back(back) => (&back.order, &[]),
            Freed::Ahead(returns) => (&[], returns),
        };
        order.iter().rev().copied().chain(ahead.iter().rev().map(|one| one.node))
    }

    /// What comes free on a node, the latest first.
    pub(crate) fn on(&self, pool: &Pool, id: NodeId, window: Window) -> SmallVec<[DeviceSet; 8]> {
        match self {
            Freed::Back(back) => back
                .devices
                .get(&id)
                .into_iter()
                .flatten()
                .rev()
                .map(|(_, devices)| *devices)
                .collect(),
            Freed::Ahead(_) => {
                let holds = pool.node(id).holds.iter();
                let ended = holds.filter(|hold| hold.end.at(window.now) <= window.from);
                let mut ended: SmallVec<[_; 8]> = ended
                    .map(|hold| {
                        // As `Ends` has them.
                        let (is_floating, own) = match hold.end {
                            End::At(time) => (false, time.0),
                            End::After(span) => (true, span.0),
                            End::Never => (true, u64::MAX),
                        };
                        let element = pool.holding(hold.key).element;
                        ((hold.end.at(window.now), is_floating, own, element), hold.devices)
                    })
                    .collect();
                ended.sort_unstable_by_key(|(order, _)| Reverse(*order));
                ended.into_iter().map(|(_, devices)| devices).collect()
            }
        }
    }
}

/// A request for places.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ask<'a> {
    pub(crate) shape: &'a Shape,
    /// Where it is looked for.
    pub(crate) scope: Scope,
    pub(crate) pick: &'a Pick,
    pub(crate) caps: &'a [(ModelId, u64)],
    pub(crate) eligible: &'a Eligible,
    pub(crate) avoid: &'a [NodeId],
    /// Where it ran last, by name: of places that are equally good, these.
    pub(crate) home: &'a [NodeId],
    pub(crate) window: Window,
    /// Set for a future start.
    pub(crate) freed: Option<Freed<'a>>,
    /// Steps of search for a gang of several groups, where going through them in order finds no
    /// way.
    pub(crate) effort: u32,
    /// How places are weighed; `None` to pack.
    pub(crate) scoring: Option<Scoring<'a>>,
}

impl Ask<'_> {
    /// True when the node may be used at all.
    pub(crate) fn admits(&self, id: NodeId, node: &Node) -> bool {
        node.hosts()
            && match self.scope {
                Scope::Cluster => true,
                Scope::Domain(domain) => node.domains.iter().any(|(known, _)| *known == domain),
                Scope::Node(only) => only == id,
            }
            && self.eligible.as_ref().is_none_or(|eligible| eligible[id.0 as usize])
            && !self.avoid.contains(&id)
    }
}

/// The tries for a shape, in order: the whole gang on one model, for each model in order of
/// preference; then each task on whichever model it accepts. Models that no node has are left out.
///
/// Where places are weighed, a single task that named no model has no preference: its first try is
/// all models together.
pub(crate) fn picks(pool: &Pool, shape: &Shape, weighs: bool) -> SmallVec<[Pick; 1]> {
    let present: SmallVec<[ModelId; 2]> = pool.models().collect();
    let accepted: SmallVec<[SmallVec<[ModelId; 2]>; 1]> = shape
        .groups
        .iter()
        .map(|group| match &group.models {
            _ if !group.wants_gpu() => SmallVec::new(),
            None => present.clone(),
            Some(models) => {
                models.iter().copied().filter(|model| present.contains(model)).collect()
            }
        })
        .collect();
    let mut candidates: SmallVec<[ModelId; 2]> = SmallVec::new();
    for model in accepted.iter().flatten() {
        if !candidates.contains(model) {
            candidates.push(*model);
        }
    }
    let mut picks = SmallVec::new();
    if let [GroupNeed { models: None, tasks: 1, .. }] = &shape.groups[..]
        && weighs
    {
        push_pick(&mut picks, shape, accepted.clone());
    }
    // Of a single model both are the same.
    for model in candidates.iter().filter(|_| candidates.len() > 1) {
        let narrowed = accepted.iter().map(|models| match models.contains(model) {
            true => SmallVec::from_slice(&[*model]),
            false => models.clone(),
        });
        push_pick(&mut picks, shape, narrowed.collect());
    }
    push_pick(&mut picks, shape, accepted);
    picks
}

fn push_pick(
    picks: &mut SmallVec<[Pick; 1]>,
    shape: &Shape,
    models: SmallVec<[SmallVec<[ModelId; 2]>; 1]>,
) {
    if picks.iter().any(|pick| pick.models == models) {
        return;
    }
    let exact = exact_gpus(&shape.groups, &models);
    picks.push(Pick { models, exact });
}

/// What the gang holds by model, when that is certain before it is placed.
fn exact_gpus(
    groups: &[GroupNeed],
    models: &[SmallVec<[ModelId; 2]>],
) -> Option<SmallVec<[(ModelId, u64); 1]>> {
    let mut sums: SmallVec<[(ModelId, u64); 1]> = SmallVec::new();
    for (group, models) in groups.iter().zip(models).filter(|(group, _)| group.wants_gpu()) {
        let [model] = models[..] else { return None };
        let milli = u64::from(group.tasks) * group.milli();
        match sums.iter_mut().find(|(known, _)| *known == model) {
            Some((_, sum)) => *sum += milli,
            None => sums.push((model, milli)),
        }
    }
    sums.sort_unstable();
    Some(sums)
}
