//! Shapes: the needs of one element, reduced to integers, and the interner that gives equal shapes
//! one class. Jobs of a class share every capacity verdict. Time limit, queue and user are not part
//! of a shape.

use std::collections::BTreeMap;
use std::sync::Arc;

use muster_model::node::GpuModel;
use muster_model::{AdvanceReservationName, JobSpec, NodeName, Topology};
use muster_policy::ModelId;
use smallvec::SmallVec;

use super::Pool;
use super::node::Node;
use super::scalars::{ExtraId, Scalars};

/// Admitted nodes by node id; `None` for all nodes.
pub(crate) type Eligible = Option<Arc<[bool]>>;

/// Needs of one element of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    pub(crate) groups: SmallVec<[GroupNeed; 1]>,
    /// Indices of groups in the order of placement: hardest to place first.
    pub(crate) order: SmallVec<[u16; 2]>,
    /// Requirement on the topology domains of its nodes.
    pub(crate) topology: Option<Topology>,
    /// Advance reservation in which it runs, and nowhere else.
    pub(crate) reservation: Option<AdvanceReservationName>,
    /// False when nothing is evicted for it.
    pub(crate) preempts: bool,
    labels: BTreeMap<Arc<str>, Arc<str>>,
    exclude: Vec<NodeName>,
}

/// Needs of one task group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct GroupNeed {
    pub(crate) name: Arc<str>,
    /// Number of tasks of the gang.
    pub(crate) tasks: u32,
    /// Exact number of tasks on each node used.
    pub(crate) per_node: Option<u32>,
    /// Whole devices per task.
    pub(crate) devices: u32,
    /// Thousandths of one device per task.
    pub(crate) share: u16,
    /// Accepted models in order of preference; `None` for any.
    pub(crate) models: Option<SmallVec<[ModelId; 2]>>,
    pub(crate) scalars: Scalars,
}

impl GroupNeed {
    /// True when its tasks hold devices.
    pub(crate) fn wants_gpu(&self) -> bool {
        self.devices > 0 || self.share > 0
    }

    /// Returns the thousandths of GPUs per task.
    pub(crate) fn milli(&self) -> u64 {
        u64::from(self.devices) * 1000 + u64::from(self.share)
    }

    /// True when it accepts this model.
    pub(crate) fn accepts(&self, model: ModelId) -> bool {
        self.models.as_ref().is_none_or(|models| models.contains(&model))
    }
}

impl Shape {
    /// Returns the shape of a spec. Models unknown to `model` are omitted from the accepted models;
    /// `extra` must map an unknown extra to an id that no node has.
    pub(crate) fn new(
        spec: &JobSpec,
        mut model: impl FnMut(&GpuModel) -> Option<ModelId>,
        mut extra: impl FnMut(&str) -> ExtraId,
    ) -> Self {
        let groups: SmallVec<[GroupNeed; 1]> = spec
            .groups
            .iter()
            .map(|group| {
                let gpu = &group.task.gpu;
                GroupNeed {
                    name: Arc::clone(&group.name),
                    tasks: group.min_tasks,
                    per_node: group.tasks_per_node,
                    devices: gpu.devices,
                    share: gpu.share.0 as u16,
                    models: (!gpu.models.is_empty())
                        .then(|| gpu.models.iter().filter_map(&mut model).collect()),
                    scalars: Scalars::of_task(&group.task, &mut extra),
                }
            })
            .collect();
        let mut order: SmallVec<[u16; 2]> = (0..groups.len() as u16).collect();
        order.sort_by_key(|at| {
            let group = &groups[usize::from(*at)];
            let block = u64::from(group.per_node.unwrap_or(1));
            (
                std::cmp::Reverse((
                    group.models.is_some(),
                    block * group.milli(),
                    block * group.scalars.cpus,
                )),
                *at,
            )
        });
        Self {
            groups,
            order,
            topology: spec.constraint.topology.clone(),
            reservation: spec.constraint.advance_reservation.clone(),
            preempts: spec.preempts,
            labels: spec.constraint.labels.clone(),
            exclude: spec.constraint.exclude.clone(),
        }
    }

    /// Returns the shape with another number of tasks in a group.
    pub(crate) fn resized(&self, group: u16, tasks: u32) -> Self {
        let mut shape = self.clone();
        shape.groups[usize::from(group)].tasks = tasks;
        shape
    }

    /// Returns the thousandths of GPUs that the whole gang holds.
    pub(crate) fn milli(&self) -> u64 {
        self.groups.iter().map(|group| u64::from(group.tasks) * group.milli()).sum()
    }

    /// True when it may use every node.
    pub(crate) fn is_unconstrained(&self) -> bool {
        self.labels.is_empty() && self.exclude.is_empty() && self.reservation.is_none()
    }

    /// Returns the admitted nodes; `None` for all nodes.
    pub(crate) fn eligible(&self, pool: &Pool) -> Eligible {
        if self.is_unconstrained() {
            return None;
        }
        Some(pool.nodes().iter().map(|node| self.admits(node)).collect())
    }

    /// True when labels, exclusions and the reservation admit a node.
    pub(crate) fn admits(&self, node: &Node) -> bool {
        self.has_reservation_on(node)
            && self.labels.iter().all(|(key, value)| node.spec.labels.get(key) == Some(value))
            && !self.exclude.contains(&node.spec.name)
    }

    /// True when its reservation includes the node, or it names no reservation.
    fn has_reservation_on(&self, node: &Node) -> bool {
        self.reservation.as_ref().is_none_or(|reservation| {
            node.reservations.iter().any(|reserved| reserved.reservation.name == *reservation)
        })
    }
}
