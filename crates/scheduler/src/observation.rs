//! Interface of the scheduler to the cluster: what was observed there, and what to do there.

use std::fmt;
use std::sync::Arc;

use muster_kubernetes::device::claim::{ClaimFacts, DeviceRequests};
use muster_kubernetes::device::class::ClassFacts;
use muster_kubernetes::device::slice::SliceFacts;
use muster_kubernetes::group::{GangRef, GroupFacts, GroupKind};
use muster_kubernetes::kueue::LocalQueues;
use muster_kubernetes::node::NodeFacts;
use muster_kubernetes::object::ObjectKey;
use muster_kubernetes::pod::PodFacts;
use muster_kubernetes::priority::PriorityClass;
use muster_kubernetes::reservation::ReservationFacts;
use muster_kubernetes::rule::SelectorTerm;
use muster_model::{AdvanceReservationName, NodeName, QueueTree};
use serde_json::Value;

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
    /// Devices, or what claims them, have changed.
    Devices(Box<DeviceChange>),
    /// The queue tree was read.
    Queues(Box<QueueTree>),
    /// The LocalQueues of Kueue were read.
    LocalQueues(Box<LocalQueues>),
    /// An advance reservation exists, as described.
    Reservation(Box<ReservationFacts>),
    /// An advance reservation is gone.
    ReservationGone(AdvanceReservationName),
    /// The API server confirmed a binding.
    Bound(PodId),
    /// The API server refused a binding, and the pod is not bound.
    BindRefused(PodId, Arc<str>),
    /// A pod could not be told why it waits.
    Untold(PodId),
    /// A workload could not be told why it waits.
    WorkloadUntold(WorkloadId),
    /// A priority class exists.
    PriorityClass(PriorityClass),
    /// A priority class is gone.
    PriorityClassGone(Arc<str>),
    /// A workload was resumed or suspended as requested. The object as it is now is observed before.
    Done(WorkloadId),
    /// A workload was not resumed or suspended, since it is gone, has ended, or was changed.
    Refused(WorkloadId),
}

/// Change of the devices that pods claim.
#[derive(Clone, Debug)]
pub enum DeviceChange {
    /// A slice of a pool exists, as described.
    Slice(SliceFacts),
    /// A slice of a pool is gone.
    SliceGone(Arc<str>),
    /// A class exists, as described.
    Class(ClassFacts),
    /// A class is gone.
    ClassGone(Arc<str>),
    /// A claim exists, as described.
    Claim(ClaimFacts),
    /// A claim is gone.
    ClaimGone(ObjectKey),
    /// A template of claims exists, and what each of them asks for.
    Template(ObjectKey, DeviceRequests),
    /// A template of claims is gone.
    TemplateGone(ObjectKey),
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

/// Claim of devices by name and id.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ClaimId {
    /// Namespace and name of the claim.
    pub key: ObjectKey,
    /// Id that is never reused.
    pub uid: Arc<str>,
}

/// Claim that a pod is bound with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaimBinding {
    /// Claim that the pod may use from then on.
    pub claim: ClaimId,
    /// Devices for the claim, as the API server takes them; `None` where it has some already, which
    /// other pods use too.
    pub allocation: Option<Value>,
}

/// Workload by kind, name and id.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct WorkloadId {
    /// Kind of the object.
    pub kind: GroupKind,
    /// Namespace and name of the object.
    pub key: ObjectKey,
    /// Id that is never reused.
    pub uid: Arc<str>,
}

impl WorkloadId {
    /// Returns the gang of its pods.
    pub(crate) fn gang(&self) -> GangRef {
        GangRef::of_object(self.kind, self.key.clone())
    }
}

impl fmt::Display for WorkloadId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind, self.key)
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
        /// Claims that it needs there: they get their devices first.
        claims: Vec<ClaimBinding>,
        /// Number, among the GPUs of the node, of the one that it gets a share of: a holder has it first.
        gpu: Option<usize>,
    },
    /// Delete a pod that holds a GPU for others, which need it no more.
    FreeGpu {
        /// Pod that has the GPU, in the namespace of the scheduler.
        holder: PodId,
    },
    /// Take its devices from a claim that no other pod uses.
    FreeClaim {
        /// Claim that keeps its request only.
        claim: ClaimId,
        /// Pod of the claim, which has no node.
        pod: PodId,
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
    /// Let the controller of a workload make its pods. The answer is [`Observation::Done`] or
    /// [`Observation::Refused`].
    Resume {
        /// Workload that gets its pods.
        workload: WorkloadId,
        /// Specification that the decision was made for; it must be unchanged.
        generation: u64,
    },
    /// Let the controller of a workload delete its pods. The answer is as for [`Action::Resume`].
    Suspend {
        /// Workload that must have no pods.
        workload: WorkloadId,
        /// Reason that users see in the event.
        reason: Arc<str>,
    },
    /// Write down on a workload what became of the objects that it waits for, which may be deleted.
    NoteStages {
        /// Object that gets the annotation.
        workload: WorkloadId,
        /// Stages, as an annotation.
        text: Arc<str>,
    },
    /// Say on a PodGroup that no pod names it.
    NoteEmptyGroup {
        /// Object that gets an event.
        group: WorkloadId,
        /// Text, as one sentence.
        text: Arc<str>,
    },
    /// Say on a suspended workload why it is not resumed.
    ExplainWorkload {
        /// Suspended object that users look at.
        workload: WorkloadId,
        /// Explanation, as one sentence.
        text: Arc<str>,
    },
}
