//! The configured tree, checked and flattened into an arena: parents before children, the unnamed
//! root first. It must not hold anything that outlives a change of the tree; that is moved over in
//! `replace`.

use std::collections::{BTreeMap, BTreeSet};

use muster_model::queue::Limits;
use muster_model::{GpuModel, Protection, QueueName, QueueSpec, QueueTree};

use crate::budget::Account;
use crate::intern::{LeafId, ModelId, Models, UserId};
use crate::quota::Quota;
use crate::usage::Usage;

/// Index of the unnamed root.
pub(crate) const ROOT: usize = 0;
/// Queues may nest this deep: a bound on every walk from a leaf to the root.
pub const MAX_DEPTH: usize = 32;
/// Thousandths in a GPU.
const MILLI: u64 = 1000;

/// Why a tree is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TreeError {
    /// There is no queue to wait in.
    #[error("the tree has no queue")]
    Empty,
    /// A name is empty or has a `/`, which separates the names of a path.
    #[error("queue name `{name}` is empty or has a `/`")]
    BadName {
        /// The name.
        name: String,
    },
    /// Two children of one parent share a name.
    #[error("queue `{queue}` is there twice")]
    Duplicate {
        /// Its path.
        queue: QueueName,
    },
    /// Deeper than [`MAX_DEPTH`].
    #[error("queue `{queue}` is nested more than {MAX_DEPTH} deep")]
    TooDeep {
        /// Its path.
        queue: QueueName,
    },
    /// A weight of 0 would starve it.
    #[error("queue `{queue}` has weight 0; the least is 1")]
    ZeroWeight {
        /// Its path.
        queue: QueueName,
    },
    /// `borrow` says how far beyond the quota; there is none.
    #[error("queue `{queue}` has a borrow limit but no quota")]
    BorrowWithoutQuota {
        /// Its path.
        queue: QueueName,
    },
    /// `lend` says how much of the quota; there is none.
    #[error("queue `{queue}` has a lend limit but no quota")]
    LendWithoutQuota {
        /// Its path.
        queue: QueueName,
    },
    /// `borrowed-time` says how long what is beyond the quota is kept; there is none.
    #[error("queue `{queue}` has a limit on borrowed time but no quota")]
    BorrowedTimeWithoutQuota {
        /// Its path.
        queue: QueueName,
    },
    /// The children were promised more than there is for all of them.
    #[error(
        "the queues under `{queue}` have quotas of {children} {model} in all, but it has {nominal}"
    )]
    ChildrenExceedParent {
        /// The parent's path.
        queue: QueueName,
        /// For which model.
        model: GpuModel,
        /// Whole GPUs of the parent.
        nominal: u64,
        /// Whole GPUs of its children together.
        children: u64,
    },
    /// The lowest priority is above the highest.
    #[error("queue `{queue}` admits priorities from {low} to {high}, which is none")]
    PriorityRange {
        /// Its path.
        queue: QueueName,
        /// Lowest.
        low: i32,
        /// Highest.
        high: i32,
    },
    /// A budget whose windows have no length is refilled all the time.
    #[error("queue `{queue}` has a budget for windows of no length")]
    ZeroWindow {
        /// Its path.
        queue: QueueName,
    },
    /// Usage that halves in no time cannot be counted.
    #[error("the half-life is 0")]
    ZeroHalfLife,
    /// The default queue is not in the tree.
    #[error("default queue `{queue}` is not in the tree")]
    NoDefault {
        /// Its path.
        queue: QueueName,
    },
    /// Jobs wait only in leaves.
    #[error("default queue `{queue}` has queues under it; a job waits in one of those")]
    DefaultNotLeaf {
        /// Its path.
        queue: QueueName,
    },
}

/// One queue with its live numbers. Vectors are by [`ModelId`].
#[derive(Clone, Debug)]
pub(crate) struct Node {
    /// Path; empty for the root.
    pub(crate) name: QueueName,
    pub(crate) parent: Option<usize>,
    /// In the order of the file.
    pub(crate) children: Vec<usize>,
    /// Place among its siblings by name: breaks ties.
    pub(crate) name_rank: u32,
    pub(crate) weight: u32,
    pub(crate) priority: Option<(i32, i32)>,
    pub(crate) limits: Limits,
    pub(crate) protect: Option<Protection>,
    /// Set where there is a budget.
    pub(crate) account: Option<Account>,
    /// Set for a leaf, once it has its id.
    pub(crate) leaf: Option<LeafId>,
    pub(crate) quota: Vec<Quota>,
    /// Thousandths of GPUs held by the subtree.
    pub(crate) held: Vec<u64>,
    /// Elements holding resources in the subtree.
    pub(crate) running: u32,
    /// Jobs of which something waits, by user; kept only where a limit asks for it.
    pub(crate) waiting_jobs: BTreeMap<UserId, u32>,
    /// Thousandths of GPUs by user; kept only where a limit asks for it.
    pub(crate) held_by_user: BTreeMap<UserId, u64>,
    pub(crate) usage: Vec<Usage>,
    /// Entries pending in the subtree.
    pub(crate) pending: u32,
    /// Children with pending entries.
    pub(crate) pending_children: BTreeSet<usize>,
}

impl Node {
    fn new(name: QueueName, parent: Option<usize>) -> Self {
        Self {
            name,
            parent,
            children: Vec::new(),
            name_rank: 0,
            weight: 1,
            priority: None,
            limits: Limits::default(),
            protect: None,
            account: None,
            leaf: None,
            quota: Vec::new(),
            held: Vec::new(),
            running: 0,
            waiting_jobs: BTreeMap::new(),
            held_by_user: BTreeMap::new(),
            usage: Vec::new(),
            pending: 0,
            pending_children: BTreeSet::new(),
        }
    }

    pub(crate) fn is_leaf(&self) -> bool {
        self.children.is_empty()
    }

    /// Room for every model up to `count`.
    pub(crate) fn widen(&mut self, count: usize) {
        self.quota.resize(count, Quota::UNBOUNDED);
        self.held.resize(count, 0);
        self.usage.resize(count, Usage::default());
    }
}

/// Checks a tree and flattens it; interns the models that its quotas name. Leaves have no id yet.
pub(crate) fn build(tree: &QueueTree, models: &mut Models) -> Result<Vec<Node>, TreeError> {
    // 1. The arena and what each queue alone must satisfy.
    if tree.half_life.0 == 0 {
        return Err(TreeError::ZeroHalfLife);
    }
    if tree.queues.is_empty() {
        return Err(TreeError::Empty);
    }
    let mut nodes = vec![Node::new("".into(), None)];
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
    // 3. Somewhere to go for jobs that name no queue.
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
    nodes: &mut Vec<Node>,
    specs: &mut Vec<Option<&'a QueueSpec>>,
) -> Result<(), TreeError> {
    let mut by_name: BTreeMap<&str, usize> = BTreeMap::new();
    for spec in queues {
        let node = node_of(spec, parent, depth, &nodes[parent].name)?;
        let (index, name) = (nodes.len(), node.name.clone());
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
) -> Result<Node, TreeError> {
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
        return Err(TreeError::ZeroWindow { queue });
    }
    if let Some((low, high)) = spec.priority
        && low > high
    {
        return Err(TreeError::PriorityRange { queue, low, high });
    }
    let mut node = Node::new(queue, Some(parent));
    node.weight = spec.weight;
    node.priority = spec.priority;
    node.limits = spec.limits.clone();
    node.protect = spec.protect;
    node.account = spec.budget.clone().map(Account::new);
    Ok(node)
}

/// Fills in the quotas of one model; nothing is held yet.
fn set_quotas(
    model: ModelId,
    name: &GpuModel,
    nodes: &mut [Node],
    specs: &[Option<&QueueSpec>],
) -> Result<(), TreeError> {
    let at = usize::from(model.0);
    // Children before parents: nominal adds up, and what is kept counts as taken.
    for index in (0..nodes.len()).rev() {
        let (mut nominal, mut taken) = (0u64, 0u64);
        for child in &nodes[index].children {
            nominal = nominal.saturating_add(nodes[*child].quota[at].nominal);
            taken = taken.saturating_add(nodes[*child].quota[at].claim());
        }
        let mut quota = Quota { nominal, taken, taken_idle: taken, ..Quota::UNBOUNDED };
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
