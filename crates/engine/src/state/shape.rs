//! What one element needs, reduced to integers, and the interner that gives equal needs one class:
//! jobs of a class share every verdict about capacity. Time limit, queue and user are not part of a
//! shape.

use std::collections::{BTreeMap, VecDeque};
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use muster_model::node::GpuModel;
use muster_model::{JobSpec, NodeName, Topology, WindowName};
use muster_policy::ModelId;
use rustc_hash::{FxHashMap, FxHasher};
use smallvec::SmallVec;

use super::node::Node;
use super::pool::Pool;
use super::scalars::{ExtraId, Scalars};
use crate::plan::ask::{self, Pick};

/// Which nodes a shape admits, by node id; `None` is all of them.
pub(crate) type Eligible = Option<Arc<[bool]>>;

/// What one element of a job needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    pub(crate) groups: SmallVec<[GroupNeed; 1]>,
    /// Groups in the order in which they are placed: what is hardest to place first.
    pub(crate) order: SmallVec<[u16; 2]>,
    /// How its nodes must lie to each other.
    pub(crate) topology: Option<Topology>,
    /// The window in which it runs, and only in it.
    pub(crate) window: Option<WindowName>,
    labels: BTreeMap<Arc<str>, Arc<str>>,
    exclude: Vec<NodeName>,
}

/// What one task group needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct GroupNeed {
    pub(crate) name: Arc<str>,
    /// Tasks of the gang.
    pub(crate) tasks: u32,
    /// Exactly this many on each node used.
    pub(crate) per_node: Option<u32>,
    /// Whole devices per task.
    pub(crate) devices: u32,
    /// Thousandths of one device per task.
    pub(crate) share: u16,
    /// Accepted models in order of preference; `None` is any.
    pub(crate) models: Option<SmallVec<[ModelId; 2]>>,
    pub(crate) scalars: Scalars,
}

impl GroupNeed {
    /// True when its tasks hold devices.
    pub(crate) fn wants_gpu(&self) -> bool {
        self.devices > 0 || self.share > 0
    }

    /// Thousandths of GPUs per task.
    pub(crate) fn milli(&self) -> u64 {
        u64::from(self.devices) * 1000 + u64::from(self.share)
    }

    /// True when it takes this model.
    pub(crate) fn accepts(&self, model: ModelId) -> bool {
        self.models.as_ref().is_none_or(|models| models.contains(&model))
    }
}

impl Shape {
    /// The shape of a spec. Names that `model` does not know are left out of the accepted models;
    /// an extra that `extra` does not know must map to an id that no node has.
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
            window: spec.constraint.window.clone(),
            labels: spec.constraint.labels.clone(),
            exclude: spec.constraint.exclude.clone(),
        }
    }

    /// The same with another number of tasks in a group.
    pub(crate) fn resized(&self, group: u16, tasks: u32) -> Self {
        let mut shape = self.clone();
        shape.groups[usize::from(group)].tasks = tasks;
        shape
    }

    /// Thousandths of GPUs that the whole gang holds.
    pub(crate) fn milli(&self) -> u64 {
        self.groups.iter().map(|group| u64::from(group.tasks) * group.milli()).sum()
    }

    /// True when it may use every node.
    pub(crate) fn is_unconstrained(&self) -> bool {
        self.labels.is_empty() && self.exclude.is_empty() && self.window.is_none()
    }

    /// Which nodes it admits; `None` is all of them.
    pub(crate) fn eligible(&self, pool: &Pool) -> Eligible {
        match self.is_unconstrained() {
            true => None,
            false => Some(pool.nodes().iter().map(|node| self.admits(node)).collect()),
        }
    }

    /// True when labels, exclusions and the window admit a node.
    pub(crate) fn admits(&self, node: &Node) -> bool {
        self.is_inside(node)
            && self.labels.iter().all(|(key, value)| node.spec.labels.get(key) == Some(value))
            && !self.exclude.contains(&node.spec.name)
    }

    /// True when its window has something of a node, or it names none.
    fn is_inside(&self, node: &Node) -> bool {
        self.window
            .as_ref()
            .is_none_or(|window| node.claims.iter().any(|claim| claim.window.name == *window))
    }
}

/// Key of a class. Its order means nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct ClassId(pub(crate) u32);

/// Jobs with equal shapes.
#[derive(Clone, Debug)]
pub(crate) struct Class {
    pub(crate) shape: Arc<Shape>,
    spec: Arc<JobSpec>,
    hash: u64,
    jobs: u32,
    /// Whether an idle cluster can host it, and the epoch of that verdict.
    fits_idle: Option<(u64, bool)>,
    /// Which nodes its constraint admits, and the epoch of that list.
    eligible: Option<(u64, Eligible)>,
    /// What is tried for it, whether places are weighed then, and the epoch of that list.
    picks: Option<(u64, bool, Arc<[Pick]>)>,
}

/// All classes in use.
#[derive(Clone, Debug, Default)]
pub(crate) struct Classes {
    classes: Vec<Option<Class>>,
    vacant: Vec<ClassId>,
    by_hash: FxHashMap<u64, SmallVec<[ClassId; 1]>>,
    /// Classes that lost their last job, the oldest first. They are kept for a while: the next job
    /// is often like the last one, and what is known of its class costs a look at every node.
    resting: VecDeque<ClassId>,
    /// How often one was dropped, whose number may come again.
    forgotten: u64,
}

/// So many classes without a job are kept.
const RESTING: usize = 1024;

impl Classes {
    pub(crate) fn get(&self, id: ClassId) -> &Class {
        self.classes[id.0 as usize].as_ref().expect("a class lives as long as a job of it")
    }

    pub(crate) fn shape(&self, id: ClassId) -> &Arc<Shape> {
        &self.get(id).shape
    }

    /// The class of a spec, if some job has it.
    pub(crate) fn find(&self, spec: &JobSpec) -> Option<ClassId> {
        self.find_hashed(spec, hash_of(spec))
    }

    fn find_hashed(&self, spec: &JobSpec, hash: u64) -> Option<ClassId> {
        self.by_hash.get(&hash)?.iter().copied().find(|id| {
            let known = &self.get(*id).spec;
            known.groups == spec.groups && known.constraint == spec.constraint
        })
    }

    /// Counts one more job of its class; `shape` makes the shape of a new one.
    pub(crate) fn enter(&mut self, spec: &Arc<JobSpec>, shape: impl FnOnce() -> Shape) -> ClassId {
        let hash = hash_of(spec);
        if let Some(id) = self.find_hashed(spec, hash) {
            self.classes[id.0 as usize].as_mut().expect("found above").jobs += 1;
            return id;
        }
        let class = Class {
            shape: Arc::new(shape()),
            spec: Arc::clone(spec),
            hash,
            jobs: 1,
            fits_idle: None,
            eligible: None,
            picks: None,
        };
        let id = self.vacant.pop().unwrap_or_else(|| {
            self.classes.push(None);
            ClassId(self.classes.len() as u32 - 1)
        });
        self.classes[id.0 as usize] = Some(class);
        self.by_hash.entry(hash).or_default().push(id);
        id
    }

    /// One job less.
    pub(crate) fn leave(&mut self, id: ClassId) {
        let class =
            self.classes[id.0 as usize].as_mut().expect("a class lives as long as a job of it");
        class.jobs -= 1;
        if class.jobs > 0 {
            return;
        }
        self.resting.push_back(id);
        if self.resting.len() > RESTING
            && let Some(oldest) = self.resting.pop_front()
        {
            self.forget(oldest);
        }
    }

    /// Drops a class, unless it has jobs again.
    fn forget(&mut self, id: ClassId) {
        let Some(class) = self.classes[id.0 as usize].take_if(|class| class.jobs == 0) else {
            return;
        };
        self.vacant.push(id);
        self.forgotten += 1;
        self.resting.retain(|other| *other != id);
        if let Some(ids) = self.by_hash.get_mut(&class.hash) {
            ids.retain(|other| *other != id);
            if ids.is_empty() {
                self.by_hash.remove(&class.hash);
            }
        }
    }

    /// How often a class was dropped.
    pub(crate) fn forgotten(&self) -> u64 {
        self.forgotten
    }

    /// Which nodes the class may use; worked out once per epoch.
    pub(crate) fn eligible(&mut self, id: ClassId, pool: &Pool) -> Eligible {
        let class =
            self.classes[id.0 as usize].as_mut().expect("a class lives as long as a job of it");
        match &class.eligible {
            Some((epoch, eligible)) if *epoch == pool.epoch() => eligible.clone(),
            _ => {
                let eligible = class.shape.eligible(pool);
                class.eligible = Some((pool.epoch(), eligible.clone()));
                eligible
            }
        }
    }

    /// What is tried for the class, in order; worked out once per epoch.
    pub(crate) fn picks(&mut self, id: ClassId, pool: &Pool, weighs: bool) -> Arc<[Pick]> {
        let class =
            self.classes[id.0 as usize].as_mut().expect("a class lives as long as a job of it");
        match &class.picks {
            Some((epoch, weighed, picks)) if (*epoch, *weighed) == (pool.epoch(), weighs) => {
                Arc::clone(picks)
            }
            _ => {
                let picks: Arc<[Pick]> =
                    ask::picks(pool, &class.shape, weighs).into_iter().collect();
                class.picks = Some((pool.epoch(), weighs, Arc::clone(&picks)));
                picks
            }
        }
    }

    /// Whether an idle cluster can host the class, when that is known for this epoch.
    pub(crate) fn known_fit(&self, id: ClassId, epoch: u64) -> Option<bool> {
        self.get(id).fits_idle.filter(|(at, _)| *at == epoch).map(|(_, fits)| fits)
    }

    pub(crate) fn learn_fit(&mut self, id: ClassId, epoch: u64, fits: bool) {
        self.classes[id.0 as usize]
            .as_mut()
            .expect("a class lives as long as a job of it")
            .fits_idle = Some((epoch, fits));
    }
}

fn hash_of(spec: &JobSpec) -> u64 {
    let mut hasher = FxHasher::default();
    spec.groups.hash(&mut hasher);
    spec.constraint.labels.hash(&mut hasher);
    spec.constraint.exclude.hash(&mut hasher);
    spec.constraint.topology.hash(&mut hasher);
    spec.constraint.window.hash(&mut hasher);
    hasher.finish()
}
