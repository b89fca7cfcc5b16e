//! Inputs of the dispatcher, as one closed enum, and the responses to them. Nothing else changes
//! state.

use std::collections::BTreeMap;
use std::sync::Arc;

use muster_api::JobAction;
use muster_api::types::{ActionResponse, PlannedStart};
use muster_backends::driver::Report;
use muster_model::unit::Time;
use muster_model::view::{
    AdvanceReservationView, DaemonCounters, ElementView, Explanation, JobView, MeasuredUse,
    NodeView, QueueView,
};
use muster_model::{
    AttemptId, ElementId, Event, JobId, JobSpec, NodeId, NodeName, QueueName, QueueTree,
    TaskPlacement, UserName,
};
use muster_runtime::engine::Snapshot;
use muster_runtime::{JobSubmission, Receipt};
use muster_spec::QueueNotices;
use tokio::sync::oneshot;

use super::selection::{ListSelection, ListedJobs};
use crate::auth::{Caller, OwnerAccount};
use crate::failure::ApiFailure;
use crate::store::{NoticeTry, StoredCommands, TimedEvent};

/// Channel for the response. A caller that no longer waits is no error.
pub(crate) type Reply<T> = oneshot::Sender<Result<T, ApiFailure>>;

/// Input of the dispatcher.
#[derive(Debug)]
pub(crate) enum DispatcherInput {
    /// Submit jobs, which were checked against the site.
    Submit {
        /// Jobs to submit, as checked.
        submission: JobSubmission,
        /// Channel for the job numbers.
        reply: Reply<Receipt>,
    },
    /// Take an action on a job: cancel, hold, release, requeue, checkpoint or scale.
    Act {
        /// User that asks for it.
        caller: Caller,
        /// Job to act on.
        job: JobId,
        /// Index of one element; `None` means all.
        index: Option<u32>,
        /// Action to take on it.
        action: JobAction,
        /// Channel for the result.
        reply: Reply<ActionResponse>,
    },
    /// Replace the queue tree.
    SetQueues {
        /// Queue tree that replaces the present one.
        tree: Box<QueueTree>,
        /// Channel for the result.
        reply: Reply<ActionResponse>,
    },
    /// Apply an event: a drain, an advance reservation, or what follows for a job that leaves its GPUs idle.
    Apply {
        /// Event for the engine.
        event: Event,
        /// Message of the response.
        word: String,
        /// Channel for the result.
        reply: Reply<ActionResponse>,
    },
    /// Write the result of a try to send a notice.
    NoticeTried {
        /// Notice with the result.
        tried: Box<NoticeTry>,
        /// Channel for the result.
        reply: Reply<()>,
    },
    /// Write the notices of events that depend on the time.
    TimedEvents {
        /// Events, of which the store drops those that it knows.
        events: Vec<TimedEvent>,
        /// Channel for the result.
        reply: Reply<()>,
    },
    /// Replace the rules of the notices of all queues.
    SetQueueNotices {
        /// Rules that replace all earlier ones; a leaf without any is absent.
        notices: QueueNotices,
        /// Channel for the result.
        reply: Reply<()>,
    },
    /// Add the use of GPUs to the accounting of attempts.
    GpuUse {
        /// Use since the last input of its kind.
        sums: Vec<(AttemptId, MeasuredUse)>,
        /// Channel for the result.
        reply: Reply<()>,
    },
    /// Answer a query, without any change.
    Ask(Query),
    /// Process a report of the backend.
    Report(Report),
    /// Read the clock: a timer has expired, or a test's clock has moved.
    Wake,
    /// Process the queued inputs and stop.
    Stop,
}

/// Query of the present state.
#[derive(Debug)]
pub(crate) enum Query {
    /// Return jobs in memory by number.
    Jobs(Vec<JobId>, Reply<Vec<JobView>>),
    /// Return the jobs in memory that a filter matches.
    Listed(Box<ListSelection>, Reply<ListedJobs>),
    /// Return the owner of a job in memory.
    Owner(JobId, Reply<Option<OwnerAccount>>),
    /// Return one job in memory.
    Job(JobId, Reply<Option<LiveJob>>),
    /// Return the elements of one job in memory.
    Elements(JobId, Reply<Vec<ElementView>>),
    /// Return one element in memory.
    Element(ElementId, Reply<Option<ElementView>>),
    /// Explain an element; `None` means the first pending element.
    Explain(JobId, Option<u32>, Reply<Explanation>),
    /// Report what would happen to these jobs.
    DryRun(JobSubmission, Reply<(Receipt, Vec<Explanation>)>),
    /// Return the receipt of a user's idempotency key.
    Receipt(UserName, String, Reply<Option<Receipt>>),
    /// Return all queues with their usage.
    Queues(Reply<Vec<QueueView>>),
    /// Return all nodes with their devices.
    Nodes(Reply<Vec<NodeView>>),
    /// Return all advance reservations.
    AdvanceReservations(Reply<Vec<AdvanceReservationView>>),
    /// Return decayed GPU-seconds by user and queue.
    Usage(Reply<BTreeMap<(UserName, QueueName), u64>>),
    /// Return planned starts and names of nodes.
    Planned(Reply<PlannedTimeline>),
    /// Return the whole durable state, and its instant.
    State(Reply<(Time, Box<Snapshot>)>),
    /// Return the clock and the warnings for users.
    Status(Reply<DispatcherStatus>),
}

/// Job in the engine's memory.
#[derive(Clone, Debug)]
pub(crate) struct LiveJob {
    /// View of the job.
    pub(crate) view: JobView,
    /// Commands and directory of the job.
    pub(crate) stored: Option<StoredCommands>,
    /// Spec of the job.
    pub(crate) spec: Option<Arc<JobSpec>>,
}

/// Planned starts, and the names that the timeline needs.
#[derive(Clone, Debug, Default)]
pub(crate) struct PlannedTimeline {
    /// Planned starts with a reservation.
    pub(crate) starts: Vec<PlannedStart>,
    /// Names of nodes by number.
    pub(crate) nodes: BTreeMap<NodeId, NodeName>,
    /// Every device of every node.
    pub(crate) devices: Vec<(NodeName, u16)>,
}

/// Status of the dispatcher.
#[derive(Clone, Debug, Default)]
pub(crate) struct DispatcherStatus {
    /// Present instant by the daemon's clock.
    pub(crate) now: Time,
    /// Revision, which grows with every durable change.
    pub(crate) revision: u64,
    /// Warnings that users should see.
    pub(crate) warnings: Vec<String>,
    /// Work since the daemon started.
    pub(crate) counters: DaemonCounters,
}

/// Returns the name of the node that a rank is placed on; the store has only node numbers.
pub(crate) fn on_node(nodes: &BTreeMap<NodeId, NodeName>, place: &TaskPlacement) -> NodeName {
    nodes.get(&place.node).cloned().unwrap_or_else(|| format!("node {}", place.node).into())
}
