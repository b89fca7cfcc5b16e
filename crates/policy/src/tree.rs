//! The configured tree, checked and flattened into an arena: parents before children, the unnamed
//! root first. It must not hold anything that outlives a change of the tree; `replace` moves that.

use std::collections::{BTreeMap, BTreeSet};

use muster_model::queue::QueueLimits;
use muster_model::{GpuModel, Protection, QueueName, QueueSpec, QueueTree};

use crate::budget::BudgetAccount;
use crate::intern::{LeafId, ModelId, Models, ROOT, UserId};
use crate::quota::ModelQuota;
use crate::usage::DecayedUsage;

/// Deepest nesting of queues: bounds every walk from a leaf to the root.
pub const MAX_DEPTH: usize = 32;
/// Thousandths in a GPU.
const MILLI: u64 = 1000;

/// Reason for which a tree is rejected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TreeError {
    /// The tree has no queue.
    #[error("the tree has no queue")]
    Empty,
    /// A name is empty or has a `/`, which separates the names of a path.
    #[error("queue name `{name}` is empty or has a `/`")]
    BadName {
        /// Name that is invalid.
        name: String,
    },
    /// Two children of one parent share a name.
    #[error("queue `{queue}` is defined twice")]
    Duplicate {
        /// Path of the queue.
        queue: QueueName,
    },
    /// A queue is nested deeper than [`MAX_DEPTH`].
    #[error("queue `{queue}` is nested more than {MAX_DEPTH} deep")]
    TooDeep {
        /// Path of the queue.
        queue: QueueName,
    },
    /// A weight is 0, which would starve the queue.
    #[error("queue `{queue}` has weight 0; the minimum is 1")]
    ZeroWeight {
        /// Path of the queue.
        queue: QueueName,
    },
    /// A queue has `borrow` but no quota.
    #[error("queue `{queue}` has a borrow limit but no quota")]
    BorrowWithoutQuota {
        /// Path of the queue.
        queue: QueueName,
    },
    /// A queue has `lend` but no quota.
    #[error("queue `{queue}` has a lend limit but no quota")]
    LendWithoutQuota {
        /// Path of the queue.
        queue: QueueName,
    },
    /// A queue has `borrowed-time` but no quota.
    #[error("queue `{queue}` has a limit on borrowed time but no quota")]
    BorrowedTimeWithoutQuota {
        /// Path of the queue.
        queue: QueueName,
    },
    /// The quotas of the children exceed that of their parent.
    #[error(
        "the queues under `{queue}` have quotas of {children} {model} in all, but it has {nominal}"
    )]
    ChildrenExceedParent {
        /// Path of the parent.
        queue: QueueName,
        /// GPU model of the quotas.
        model: GpuModel,
        /// Quota of the parent, in GPUs.
        nominal: u64,
        /// Sum of the quotas of the children, in GPUs.
        children: u64,
    },
    /// The lowest priority is above the highest.
    #[error(
        "queue `{queue}` admits priorities from {low} to {high}: the lowest is above the highest"
    )]
    PriorityRange {
        /// Path of the queue.
        queue: QueueName,
        /// Lowest priority that it admits.
        low: i32,
        /// Highest priority that it admits.
        high: i32,
    },
    /// The period of a budget is 0.
    #[error("queue `{queue}` has a budget with a period of 0")]
    ZeroBudgetPeriod {
        /// Path of the queue.
        queue: QueueName,
    },
    /// The half-life is 0.
    #[error("the half-life is 0")]
    ZeroHalfLife,
    /// The default queue is not in the tree.
    #[error("default queue `{queue}` is not in the tree")]
    NoDefault {
        /// Path of the queue.
        queue: QueueName,
    },
    /// The default queue is not a leaf; jobs are queued only in leaves.
    #[error("default queue `{queue}` has child queues; name one of them as the default")]
    DefaultNotLeaf {
        /// Path of the queue.
        queue: QueueName,
    },
}

/// Queue with its counters. Vectors are by [`ModelId`].
#[derive(Clone, Debug)]
pub(crate) struct QueueNode {
    /// Path of the queue; empty for the root.
    pub(crate) name: QueueName,
    pub(crate) parent: Option<usize>,
    /// Children in the order of the file.
    pub(crate) children: Vec<usize>,
    /// Rank among its siblings by name: breaks ties.
    pub(crate) name_rank: u32,
    pub(crate) weight: u32,
    pub(crate) priority: Option<(i32, i32)>,
    pub(crate) limits: QueueLimits,
    pub(crate) protect: Option<Protection>,
    /// Account of its budget, if it has one.
    pub(crate) account: Option<BudgetAccount>,
    /// Id of a leaf, once assigned.
    pub(crate) leaf: Option<LeafId>,
    pub(crate) quota: Vec<ModelQuota>,
    /// Thousandths of GPUs held by the subtree.
    pub(crate) held: Vec<u64>,
    /// Number of elements of the subtree that hold resources.
    pub(crate) running: u32,
    /// Number of jobs with pending elements, by user; maintained only where a limit needs it.
    pub(crate) pending_jobs: BTreeMap<UserId, u32>,
    /// Thousandths of GPUs held by user; maintained only where a limit needs it.
    pub(crate) held_by_user: BTreeMap<UserId, u64>,
    pub(crate) usage: Vec<DecayedUsage>,
    /// Number of pending entries of the subtree.
    pub(crate) pending: u32,
    /// Children with pending entries.
    pub(crate) pending_children: BTreeSet<usize>,
}

impl QueueNode {
    fn new(name: QueueName, parent: Option<usize>) -> Self {
        Self {
            name,
            parent,
            children: Vec::new(),
            name_rank: 0,
            weight: 1,
            priority: None,
            limits: QueueLimits::default(),
            protect: None,
            account: None,
            leaf: None,
            quota: Vec::new(),
            held: Vec::new(),
            running: 0,
            pending_jobs: BTreeMap::new(),
            held_by_user: BTreeMap::new(),
            usage: Vec::new(),
            pending: 0,
            pending_children: BTreeSet::new(),
        }
    }

    pub(crate) fn is_leaf(&self) -> bool {
        self.children.is_empty()
    }

    /// Extends the vectors to `count` models.
    pub(crate) fn widen(&mut self, count: usize) {
        self.quota.resize(count, ModelQuota::UNBOUNDED);
        self.held.resize(count, 0);
        self.usage.resize(count, DecayedUsage::default());
    }
}

/// Checks a tree and flattens it; interns the models that its quotas name. Leaves have no id yet.
pub(crate) fn build(tree: &QueueTree, models: &mut Models) -> Result<Vec<QueueNode>, TreeError> {
    // 1. The arena, and the constraints on single queues.
    if tree.half_life.0 == 0 {
        return Err(TreeError::ZeroHalfLife);
    }
    if tree.queues.is_empty() {
        return Err(TreeError::Empty);
    }
    let mut nodes = vec![QueueNode::new("".into(), None)];
    let mut specs: Vec<Option<&QueueSpec>> = vec![None];
    flatten(&tree.queues, ROOT, 1, &mut nodes, &mut specs)?;
    // 2. Quotas, model by model.
    for spec in specs.iter().flatten() {
        for model in spec.quota.keys() {
            models.intern(model);
        }
    }
    for node in &mut nodes {
        node.widen(models.len());
    }
    for model in models.ids() {
        set_quotas(model, models.name(model), &mut nodes, &specs)?;
    }
    // 3. The default queue.
    let default =
        nodes.iter().find(|node| node.name == tree.default_queue && node.parent.is_some());
    match default {
        None => Err(TreeError::NoDefault { queue: tree.default_queue.clone() }),
        Some(node) if !node.is_leaf() => {
            Err(TreeError::DefaultNotLeaf { queue: node.name.clone() })
        }
        Some(_) => Ok(nodes),
    }
}

fn flatten<'a>(
    queues: &'a [QueueSpec],
    parent: usize,
    depth: usize,
    nodes: &mut Vec<QueueNode>,
    specs: &mut Vec<Option<&'a QueueSpec>>,
) -> Result<(), TreeError> {
    let mut by_name: BTreeMap<&str, usize> = BTreeMap::new();
    for spec in queues {
        let node = node_of(spec, parent, depth, &nodes[parent].name)?;
        let index = nodes.len();
        let name = node.name.clone();
        nodes.push(node);
        specs.push(Some(spec));
        nodes[parent].children.push(index);
        if by_name.insert(&spec.name, index).is_some() {
            return Err(TreeError::Duplicate { queue: name });
        }
        flatten(&spec.queues, index, depth + 1, nodes, specs)?;
    }
    for (rank, index) in by_name.into_values().enumerate() {
        nodes[index].name_rank = rank as u32;
    }
    Ok(())
}

fn node_of(
    spec: &QueueSpec,
    parent: usize,
    depth: usize,
    above: &QueueName,
) -> Result<QueueNode, TreeError> {
    if spec.name.is_empty() || spec.name.contains('/') {
        return Err(TreeError::BadName { name: spec.name.to_string() });
    }
    let queue: QueueName =
        if parent == ROOT { (*spec.name).into() } else { format!("{above}/{}", spec.name).into() };
    if depth > MAX_DEPTH {
        return Err(TreeError::TooDeep { queue });
    }
    if spec.weight == 0 {
        return Err(TreeError::ZeroWeight { queue });
    }
    if spec.borrow.is_some() && spec.quota.is_empty() {
        return Err(TreeError::BorrowWithoutQuota { queue });
    }
    if spec.lend.is_some() && spec.quota.is_empty() {
        return Err(TreeError::LendWithoutQuota { queue });
    }
    if spec.limits.borrowed_time.is_some() && spec.quota.is_empty() {
        return Err(TreeError::BorrowedTimeWithoutQuota { queue });
    }
    if spec.budget.as_ref().is_some_and(|budget| budget.every.0 == 0) {
        return Err(TreeError::ZeroBudgetPeriod { queue });
    }
    if let Some((low, high)) = spec.priority
        && low > high
    {
        return Err(TreeError::PriorityRange { queue, low, high });
    }
    let mut node = QueueNode::new(queue, Some(parent));
    node.weight = spec.weight;
    node.priority = spec.priority;
    node.limits = spec.limits.clone();
    node.protect = spec.protect;
    node.account = spec.budget.clone().map(BudgetAccount::new);
    Ok(node)
}

/// Sets the quotas of one model; nothing is held yet.
fn set_quotas(
    model: ModelId,
    name: &GpuModel,
    nodes: &mut [QueueNode],
    specs: &[Option<&QueueSpec>],
) -> Result<(), TreeError> {
    let at = usize::from(model.0);
    // Children before parents: nominal adds up, and what is kept counts as taken.
    for index in (0..nodes.len()).rev() {
        let mut nominal = 0u64;
        let mut taken = 0u64;
        for child in &nodes[index].children {
            nominal = nominal.saturating_add(nodes[*child].quota[at].nominal);
            taken = taken.saturating_add(nodes[*child].quota[at].charge_to_parent());
        }
        let mut quota = ModelQuota { nominal, taken, taken_idle: taken, ..ModelQuota::UNBOUNDED };
        if index == ROOT {
            quota.ceiling = nominal;
        }
        if let Some(spec) = specs[index]
            && let Some(gpus) = spec.quota.get(name)
        {
            let own = gpus.saturating_mul(MILLI);
            if nominal > own {
                return Err(TreeError::ChildrenExceedParent {
                    queue: nodes[index].name.clone(),
                    model: name.clone(),
                    nominal: *gpus,
                    children: nominal / MILLI,
                });
            }
            quota.is_set = true;
            quota.nominal = own;
            quota.kept = spec.lend.map_or(0, |lend| own.saturating_sub(lend.saturating_mul(MILLI)));
            quota.ceiling = spec
                .borrow
                .map_or(u64::MAX, |borrow| own.saturating_add(borrow.saturating_mul(MILLI)));
        }
        nodes[index].quota[at] = quota;
    }
    // Parents before children: a queue below a bounded one is bounded.
    for index in 0..nodes.len() {
        let above = nodes[index].parent.is_some_and(|parent| nodes[parent].quota[at].is_bounded);
        let quota = &mut nodes[index].quota[at];
        quota.is_bounded = quota.is_set || above;
    }
    Ok(())
}
