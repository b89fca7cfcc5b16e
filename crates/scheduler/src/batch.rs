//! Batches: the pods that are the tasks of one job of the engine.

use std::collections::BTreeMap;
use std::sync::Arc;

use muster_kubernetes::object::ObjectKey;
use muster_model::{AttemptId, JobId, JobSpec};

use crate::gang::GangKey;
use crate::held::Place;

/// Pods of a gang that are one job of the engine.
#[derive(Debug)]
pub(crate) struct Batch {
    pub(crate) gang: GangKey,
    /// Pods in the order of their ranks.
    pub(crate) pods: Vec<ObjectKey>,
    /// Job as submitted, without the pause after a refused binding.
    pub(crate) spec: Arc<JobSpec>,
    /// True while the job is held in the engine.
    pub(crate) is_held: bool,
    /// Placement of the job; `None` while it is pending.
    pub(crate) placed: Option<Placed>,
}

/// Placement of a batch.
#[derive(Debug)]
pub(crate) struct Placed {
    pub(crate) id: AttemptId,
    /// Node and devices of each pod, by rank.
    pub(crate) places: Vec<Place>,
    /// True once its pods are being deleted.
    pub(crate) is_stopping: bool,
}

/// All batches, by the number of their job.
pub(crate) type Batches = BTreeMap<JobId, Batch>;
