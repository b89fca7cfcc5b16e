//! The part of a [`Policy`] that a snapshot keeps: tree, names, usage, and use of budgets. Running
//! and pending elements are left out; the engine reports them again through
//! [`Policy::restore_hold`], [`Queues::restore_charge`] and [`Queues::enqueue`].

use std::collections::BTreeMap;

use muster_model::{GpuModel, QueueName, QueueTree, Time, UserName};
use serde::{Deserialize, Serialize, Serializer};

use crate::Policy;
use crate::budget::StoredBudgetAccount;
use crate::intern::{Models, UserId, Users};
use crate::leaf::{LeafState, UserRow};
use crate::tree::TreeError;
use crate::usage::DecayedUsage;

/// Decayed usage of queues and users as of an instant, and of budgets: all that a new policy needs
/// to go on where another one was.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub struct UsageRecord(Durable);

impl UsageRecord {
    /// Returns the decayed GPU-seconds per user and leaf queue at `now`, if nothing was used since.
    ///
    /// # Errors
    /// The first defect of the recorded tree.
    pub fn rows(self, now: Time) -> Result<Vec<(UserName, QueueName, u64)>, TreeError> {
        Ok(Policy::with_usage(self)?.usage_rows(now))
    }
}

impl Policy {
    /// Returns the usage until `now`.
    #[must_use]
    pub fn usage_record(&self, now: Time) -> UsageRecord {
        let mut settled = self.clone();
        let half_life_ms = settled.half_life_ms();
        let of_queues = settled.queues.nodes.iter_mut().flat_map(|node| &mut node.usage);
        let rows = settled.queues.leaves.iter_mut().flat_map(|leaf| leaf.users.values_mut());
        for usage in of_queues.chain(rows.flat_map(|row| &mut row.usage)) {
            usage.accrue_until(now, half_life_ms);
        }
        UsageRecord(settled.durable())
    }

    /// Returns an idle policy with recorded usage, and the tree of that time.
    ///
    /// # Errors
    /// The first defect of the tree.
    pub fn with_usage(record: UsageRecord) -> Result<Self, TreeError> {
        Self::try_from(record.0)
    }
}

/// Stored form of a policy. Lists are by id.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Durable {
    tree: QueueTree,
    models: Vec<GpuModel>,
    /// Thousandths of GPUs by model.
    capacity: Vec<u64>,
    users: Vec<UserName>,
    /// Leaf queues that exist or have existed.
    leaves: Vec<DurableLeaf>,
    /// Usage by model of every queue; the root has the empty name.
    queues: BTreeMap<QueueName, Vec<DecayedUsage>>,
    /// Use of budgets, by queue; empty in a snapshot of a version without budgets.
    #[serde(default)]
    budgets: BTreeMap<QueueName, StoredBudgetAccount>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct DurableLeaf {
    name: QueueName,
    users: BTreeMap<UserId, Vec<DecayedUsage>>,
}

impl Serialize for Policy {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.durable().serialize(serializer)
    }
}

impl Policy {
    fn durable(&self) -> Durable {
        let leaf = |state: &LeafState| DurableLeaf {
            name: state.name.clone(),
            users: state
                .users
                .iter()
                .map(|(user, row)| (*user, without_blanks(&row.usage)))
                .filter(|(_, usage)| !usage.is_empty())
                .collect(),
        };
        Durable {
            tree: self.tree.clone(),
            models: self.models.names().to_vec(),
            capacity: self.capacity.clone(),
            users: self.users.names().to_vec(),
            leaves: self.queues.leaves.iter().map(leaf).collect(),
            queues: self
                .queues
                .nodes
                .iter()
                .map(|node| (node.name.clone(), without_blanks(&node.usage)))
                .filter(|(_, usage)| !usage.is_empty())
                .collect(),
            budgets: self
                .queues
                .nodes
                .iter()
                .filter_map(|node| Some((node.name.clone(), node.account.as_ref()?.stored())))
                .collect(),
        }
    }
}

/// Returns usage by model up to the last model that was used; reading adds the rest. Most queues use few
/// models, and the record of a cluster has a limited size.
fn without_blanks(usage: &[DecayedUsage]) -> Vec<DecayedUsage> {
    let used = usage.iter().rposition(|one| !one.is_blank()).map_or(0, |last| last + 1);
    usage[..used].to_vec()
}

impl TryFrom<Durable> for Policy {
    type Error = TreeError;

    fn try_from(durable: Durable) -> Result<Self, TreeError> {
        // 1. Names first, in their old order, so that ids stay what they were.
        let mut models = Models::default();
        for name in &durable.models {
            models.intern(name);
        }
        let mut users = Users::default();
        for name in &durable.users {
            users.intern(name);
        }
        let leaves = durable.leaves.iter().map(|leaf| LeafState::new(leaf.name.clone())).collect();
        // 2. The tree, which adds only what is new.
        let mut policy = Policy::assemble(durable.tree, models, users, leaves)?;
        let count = policy.models.len();
        for (capacity, stored) in policy.capacity.iter_mut().zip(durable.capacity) {
            *capacity = stored;
        }
        // 3. Usage.
        for node in &mut policy.queues.nodes {
            if let (Some(account), Some(stored)) =
                (&mut node.account, durable.budgets.get(&node.name))
            {
                account.read(stored);
            }
        }
        for node in &mut policy.queues.nodes {
            if let Some(usage) = durable.queues.get(&node.name) {
                node.usage.clone_from(usage);
                node.usage.resize(count, DecayedUsage::default());
            }
        }
        for (state, leaf) in policy.queues.leaves.iter_mut().zip(durable.leaves) {
            for (user, mut usage) in leaf.users {
                usage.resize(count, DecayedUsage::default());
                state.users.insert(user, UserRow { usage, ..UserRow::new(count) });
            }
        }
        Ok(policy)
    }
}
