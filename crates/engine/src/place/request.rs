//! Requests for placement: [`PlacementRequest`] says what is needed, when, and which nodes and GPU
//! models may be used.

use std::cmp::Reverse;

use muster_model::{DeviceSet, NodeId, Time};
use muster_policy::ModelId;
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use super::score::Scoring;
use crate::pool::ends::HoldingEnd;
use crate::pool::node::{Interval, Node};
use crate::pool::scope::Scope;
use crate::pool::shape::{Eligible, GroupNeed, Shape};
use crate::pool::{HoldKey, Pool};

/// GPU models that each group may use in one placement attempt, in order of preference.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ModelChoice {
    /// Models by group; empty for a group without GPUs.
    pub(crate) models: SmallVec<[SmallVec<[ModelId; 2]>; 1]>,
    /// Thousandths of GPUs by model that the gang will hold, if every group has exactly one model.
    pub(crate) exact: Option<SmallVec<[(ModelId, u64); 1]>>,
}

/// Model choice that limits and quota admit, and how much of each model they do.
#[derive(Clone, Debug)]
pub(crate) struct AdmittedChoice<'p> {
    pub(crate) choice: &'p ModelChoice,
    pub(crate) caps: ModelCaps,
}

/// Most that a gang may hold of a model, in thousandths of GPUs; models not listed have no cap.
pub(crate) type ModelCaps = SmallVec<[(ModelId, u64); 1]>;

/// Capacity released before a future start, by node in order of release. The latest release is used
/// first, so that capacity that is already free stays available for backfill.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ReleasedResources<'a> {
    /// Holdings released on scratch.
    OnScratch(&'a ScratchReleases),
    /// Holdings that will have ended by then; indexes and nodes still show them as held.
    Predicted(&'a [FutureRelease]),
}

/// Holdings released on scratch by a sweep ahead in time.
#[derive(Clone, Debug, Default)]
pub(crate) struct ScratchReleases {
    /// Nodes in order of their latest release; may repeat.
    pub(crate) order: Vec<NodeId>,
    /// Devices released per node, by holding.
    pub(crate) devices: FxHashMap<NodeId, Vec<(HoldKey, DeviceSet)>>,
}

/// Devices that one holding releases on a node.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FutureRelease {
    pub(crate) at: Time,
    /// Holding that releases the devices.
    pub(crate) key: HoldKey,
    pub(crate) node: NodeId,
    pub(crate) devices: DeviceSet,
    /// True if only a share of some device is released.
    pub(crate) is_partial: bool,
}

impl ReleasedResources<'_> {
    /// Returns nodes on which capacity is released, the latest first; they may repeat.
    pub(crate) fn latest_first(&self) -> impl Iterator<Item = NodeId> {
        let (order, ahead): (&[NodeId], &[FutureRelease]) = match self {
            ReleasedResources::OnScratch(releases) => (&releases.order, &[]),
            ReleasedResources::Predicted(releases) => (&[], releases),
        };
        order.iter().rev().copied().chain(ahead.iter().rev().map(|release| release.node))
    }

    /// Returns the device sets released on a node, the latest first.
    pub(crate) fn released_on(
        &self,
        pool: &Pool,
        id: NodeId,
        interval: Interval,
    ) -> SmallVec<[DeviceSet; 8]> {
        match self {
            ReleasedResources::OnScratch(releases) => releases
                .devices
                .get(&id)
                .into_iter()
                .flatten()
                .rev()
                .map(|(_, devices)| *devices)
                .collect(),
            ReleasedResources::Predicted(_) => {
                let holds = pool.node(id).holds.iter();
                let ended = holds.filter(|hold| hold.end.at(interval.now) <= interval.from);
                let mut ended: SmallVec<[_; 8]> = ended
                    .map(|hold| {
                        // Same order as in `Ends`.
                        let (is_floating, own) = match hold.end {
                            HoldingEnd::At(time) => (false, time.0),
                            HoldingEnd::After(span) => (true, span.0),
                            HoldingEnd::Never => (true, u64::MAX),
                        };
                        let element = pool.holding(hold.key).element;
                        ((hold.end.at(interval.now), is_floating, own, element), hold.devices)
                    })
                    .collect();
                ended.sort_unstable_by_key(|(order, _)| Reverse(*order));
                ended.into_iter().map(|(_, devices)| devices).collect()
            }
        }
    }
}

/// Request to place one gang.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PlacementRequest<'a> {
    pub(crate) shape: &'a Shape,
    /// Part of the cluster to search.
    pub(crate) scope: Scope,
    pub(crate) choice: &'a ModelChoice,
    pub(crate) caps: &'a [(ModelId, u64)],
    pub(crate) eligible: &'a Eligible,
    pub(crate) avoid: &'a [NodeId],
    /// Nodes on which it ran last, by name: preferred among equally good ones.
    pub(crate) last_nodes: &'a [NodeId],
    pub(crate) interval: Interval,
    /// Capacity released by then; `None` for a start now.
    pub(crate) released: Option<ReleasedResources<'a>>,
    /// Most search steps for a gang of several groups, once placing groups in order has failed.
    pub(crate) max_steps: u32,
    /// Scoring of nodes; `None` to pack.
    pub(crate) scoring: Option<Scoring<'a>>,
}

impl PlacementRequest<'_> {
    /// Returns true if the request may use the node.
    pub(crate) fn admits(&self, id: NodeId, node: &Node) -> bool {
        node.accepts_work()
            && match self.scope {
                Scope::Cluster => true,
                Scope::Domain(domain) => node.domains.iter().any(|(known, _)| *known == domain),
                Scope::Node(only) => only == id,
            }
            && self.eligible.as_ref().is_none_or(|eligible| eligible[id.0 as usize])
            && !self.avoid.contains(&id)
    }
}

/// Returns the model choices for a shape, in order: the whole gang on one model, for each model in
/// order of preference; then each task on any model it accepts. Models that no node has are left
/// out.
///
/// Where nodes are scored, a single task that names no model has no preference: its first choice is
/// all models together.
pub(crate) fn model_choices(
    pool: &Pool,
    shape: &Shape,
    uses_scoring: bool,
) -> SmallVec<[ModelChoice; 1]> {
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
    let mut choices = SmallVec::new();
    if let [GroupNeed { models: None, tasks: 1, .. }] = &shape.groups[..]
        && uses_scoring
    {
        push_choice(&mut choices, shape, accepted.clone());
    }
    // For a single model both forms are the same.
    for model in candidates.iter().filter(|_| candidates.len() > 1) {
        let narrowed = accepted.iter().map(|models| {
            if models.contains(model) { SmallVec::from_slice(&[*model]) } else { models.clone() }
        });
        push_choice(&mut choices, shape, narrowed.collect());
    }
    push_choice(&mut choices, shape, accepted);
    choices
}

fn push_choice(
    choices: &mut SmallVec<[ModelChoice; 1]>,
    shape: &Shape,
    models: SmallVec<[SmallVec<[ModelId; 2]>; 1]>,
) {
    if choices.iter().any(|choice| choice.models == models) {
        return;
    }
    let exact = exact_gpus(&shape.groups, &models);
    choices.push(ModelChoice { models, exact });
}

/// Returns what the gang holds by model, if that is known before it is placed.
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
