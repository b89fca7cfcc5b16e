//! Classes of jobs with equal shapes: what holds for one holds for all of a class. Caches what a
//! class needs from the nodes, per epoch of the pool.

use std::collections::VecDeque;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use muster_model::JobSpec;
use rustc_hash::{FxHashMap, FxHasher};
use smallvec::SmallVec;

use super::request::{self, ModelChoice};
use crate::pool::Pool;
use crate::pool::shape::{Eligible, Shape};

/// Key of a class. It has no order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct ClassId(pub(crate) u32);

/// Class of jobs with equal shapes.
#[derive(Clone, Debug)]
pub(crate) struct ShapeClass {
    pub(crate) shape: Arc<Shape>,
    spec: Arc<JobSpec>,
    hash: u64,
    jobs: u32,
    /// Epoch of the verdict, and whether an idle cluster can host the class.
    fits_idle: Option<(u64, bool)>,
    /// Epoch of the list, and the nodes that its constraint admits.
    eligible: Option<(u64, Eligible)>,
    /// Epoch of the list, whether it is for scored placement, and the model choices to try.
    model_choices: Option<(u64, bool, Arc<[ModelChoice]>)>,
}

/// All classes in use.
#[derive(Clone, Debug, Default)]
pub(crate) struct ShapeClasses {
    classes: Vec<Option<ShapeClass>>,
    vacant: Vec<ClassId>,
    by_hash: FxHashMap<u64, SmallVec<[ClassId; 1]>>,
    /// Classes without a job, oldest first. They are kept for a while: the next job is often like
    /// the last one, and computing the caches of a class needs a look at every node.
    unused: VecDeque<ClassId>,
    /// Number of classes dropped so far, whose ids may be reused.
    forgotten: u64,
}

/// Maximum number of classes without a job.
const MAX_UNUSED: usize = 1024;

impl ShapeClasses {
    pub(crate) fn get(&self, id: ClassId) -> &ShapeClass {
        self.classes[id.0 as usize].as_ref().expect("a class exists while a job has it")
    }

    pub(crate) fn shape(&self, id: ClassId) -> &Arc<Shape> {
        &self.get(id).shape
    }

    /// Returns the class of a spec, if one exists.
    pub(crate) fn find(&self, spec: &JobSpec) -> Option<ClassId> {
        self.find_hashed(spec, hash_of(spec))
    }

    fn find_hashed(&self, spec: &JobSpec, hash: u64) -> Option<ClassId> {
        self.by_hash.get(&hash)?.iter().copied().find(|id| {
            let known = &self.get(*id).spec;
            known.groups == spec.groups
                && known.constraint == spec.constraint
                && known.preempts == spec.preempts
        })
    }

    /// Adds a job to its class; `shape` creates the shape of a new class.
    pub(crate) fn enter(&mut self, spec: &Arc<JobSpec>, shape: impl FnOnce() -> Shape) -> ClassId {
        let hash = hash_of(spec);
        if let Some(id) = self.find_hashed(spec, hash) {
            self.classes[id.0 as usize].as_mut().expect("found above").jobs += 1;
            return id;
        }
        let class = ShapeClass {
            shape: Arc::new(shape()),
            spec: Arc::clone(spec),
            hash,
            jobs: 1,
            fits_idle: None,
            eligible: None,
            model_choices: None,
        };
        let id = self.vacant.pop().unwrap_or_else(|| {
            self.classes.push(None);
            ClassId(self.classes.len() as u32 - 1)
        });
        self.classes[id.0 as usize] = Some(class);
        self.by_hash.entry(hash).or_default().push(id);
        id
    }

    /// Removes a job from its class.
    pub(crate) fn leave(&mut self, id: ClassId) {
        let class =
            self.classes[id.0 as usize].as_mut().expect("a class exists while a job has it");
        class.jobs -= 1;
        if class.jobs > 0 {
            return;
        }
        self.unused.push_back(id);
        if self.unused.len() > MAX_UNUSED
            && let Some(oldest) = self.unused.pop_front()
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
        self.unused.retain(|other| *other != id);
        if let Some(ids) = self.by_hash.get_mut(&class.hash) {
            ids.retain(|other| *other != id);
            if ids.is_empty() {
                self.by_hash.remove(&class.hash);
            }
        }
    }

    /// Returns the number of classes dropped so far.
    pub(crate) fn forgotten(&self) -> u64 {
        self.forgotten
    }

    /// Returns the nodes that the class may use; computed once per epoch.
    pub(crate) fn eligible(&mut self, id: ClassId, pool: &Pool) -> Eligible {
        let class =
            self.classes[id.0 as usize].as_mut().expect("a class exists while a job has it");
        match &class.eligible {
            Some((epoch, eligible)) if *epoch == pool.epoch() => eligible.clone(),
            _ => {
                let eligible = class.shape.eligible(pool);
                class.eligible = Some((pool.epoch(), eligible.clone()));
                eligible
            }
        }
    }

    /// Returns the model choices to try for the class, in order; computed once per epoch.
    pub(crate) fn model_choices(
        &mut self,
        id: ClassId,
        pool: &Pool,
        weighs: bool,
    ) -> Arc<[ModelChoice]> {
        let class =
            self.classes[id.0 as usize].as_mut().expect("a class exists while a job has it");
        match &class.model_choices {
            Some((epoch, weighed, picks)) if (*epoch, *weighed) == (pool.epoch(), weighs) => {
                Arc::clone(picks)
            }
            _ => {
                let picks: Arc<[ModelChoice]> =
                    request::model_choices(pool, &class.shape, weighs).into_iter().collect();
                class.model_choices = Some((pool.epoch(), weighs, Arc::clone(&picks)));
                picks
            }
        }
    }

    /// Returns whether an idle cluster can host the class, if that is known for this epoch.
    pub(crate) fn known_fit(&self, id: ClassId, epoch: u64) -> Option<bool> {
        self.get(id).fits_idle.filter(|(at, _)| *at == epoch).map(|(_, fits)| fits)
    }

    pub(crate) fn learn_fit(&mut self, id: ClassId, epoch: u64, fits: bool) {
        self.classes[id.0 as usize]
            .as_mut()
            .expect("a class exists while a job has it")
            .fits_idle = Some((epoch, fits));
    }
}

fn hash_of(spec: &JobSpec) -> u64 {
    let mut hasher = FxHasher::default();
    spec.groups.hash(&mut hasher);
    spec.constraint.labels.hash(&mut hasher);
    spec.constraint.exclude.hash(&mut hasher);
    spec.constraint.topology.hash(&mut hasher);
    spec.constraint.advance_reservation.hash(&mut hasher);
    hasher.finish()
}
