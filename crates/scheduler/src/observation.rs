//! Interface of the scheduler to the cluster: what was observed there, and what to do there.

use std::fmt;
use std::sync::Arc;

use muster_kubernetes::group::{GroupFacts, GroupKind};
use muster_kubernetes::node::NodeFacts;
use muster_kubernetes::object::ObjectKey;
use muster_kubernetes::pod::PodFacts;
use muster_kubernetes::rule::SelectorTerm;
use muster_model::{NodeName, QueueTree};

/// Observed state of the cluster. Observing the same state twice changes nothing.
#[derive(Clone, Debug)]
pub enum Observation {
    /// A node exists, as described.
    Node(Box<NodeFacts>),
    /// A node is gone.
    NodeGone(NodeName),
    /// A pod exists, as described; of any scheduler.
    Pod(Box<PodFacts>),
    /// A pod is gone.
    PodGone(ObjectKey),
    /// A gang object exists, as described.
    Group(Box<GroupFacts>),
    /// A gang object is gone.
    GroupGone(GroupKind, ObjectKey),
    /// A persistent volume claim is bound to a volume, or waits for one (`None`).
    Claim(ObjectKey, Option<Arc<str>>),
    /// A persistent volume claim is gone.
    ClaimGone(ObjectKey),
    /// A persistent volume exists; it is reachable from nodes that match one of the terms, or from
    /// everywhere (`None`).
    Volume(Arc<str>, Option<Vec<SelectorTerm>>),
    /// The queue tree was read.
    Queues(Box<QueueTree>),
    /// The API server confirmed a binding.
    Bound(PodId),
    /// The API server refused a binding, and the pod is not bound.
    BindRefused(PodId, Arc<str>),
}

/// Pod by name and id: a name alone is used again by another pod.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PodId {
    /// Namespace and name of the pod.
    pub key: ObjectKey,
    /// Id that is never reused.
    pub uid: Arc<str>,
}

impl fmt::Display for PodId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.key.fmt(f)
    }
}

/// Request to the API server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Bind a pod to a node. The answer is [`Observation::Bound`] or [`Observation::BindRefused`].
    Bind {
        /// Pod that gets a node.
        pod: PodId,
        /// Node to bind it to.
        node: NodeName,
    },
    /// Delete a pod, so that its gang ends as a whole. A pod that has ended by itself stays: its end
    /// counts.
    Evict {
        /// Pod that must go.
        pod: PodId,
        /// Reason that users see in the event.
        reason: Arc<str>,
    },
    /// Say on pods why they are not scheduled.
    Explain {
        /// Pods of one gang.
        pods: Vec<PodId>,
        /// Explanation, as one sentence.
        text: Arc<str>,
    },
}
