//! Everything that can wake the dispatcher, as one closed enum, and the answers it owes. Nothing
//! else changes state.

use std::collections::BTreeMap;
use std::sync::Arc;

use muster_api::Action;
use muster_api::types::{ActionResponse, PlannedStart};
use muster_backends::driver::Report;
use muster_model::unit::Time;
use muster_model::view::{ElementView, Explanation, JobView, NodeView, QueueView, WindowView};
use muster_model::{
    ElementId, Event, JobId, JobSpec, NodeId, NodeName, QueueName, QueueTree, TaskPlacement,
    UserName,
};
use muster_runtime::engine::Snapshot;
use muster_runtime::{Receipt, Submission};
use tokio::sync::oneshot;

use super::wanted::{Listed, Wanted};
use crate::auth::{Caller, Owner};
use crate::failure::Failure;
use crate::store::What;

/// Where an answer goes. A caller that has gone away is no error.
pub(crate) type Reply<T> = oneshot::Sender<Result<T, Failure>>;

/// One cause.
#[derive(Debug)]
pub(crate) enum Input {
    /// Jobs, checked against the site.
    Submit {
        /// The jobs.
        submission: Submission,
        /// Gets numbers.
        reply: Reply<Receipt>,
    },
    /// Cancel, hold, release, requeue, checkpoint.
    Act {
        /// Who asks.
        caller: Caller,
        /// What.
        job: JobId,
        /// One element, or all.
        index: Option<u32>,
        /// To do what.
        action: Action,
        /// Gets a word.
        reply: Reply<ActionResponse>,
    },
    /// Another queue tree.
    SetQueues {
        /// The tree.
        tree: Box<QueueTree>,
        /// Gets a word.
        reply: Reply<ActionResponse>,
    },
    /// A node or some of its devices go out of service, come back, or are set aside.
    ChangeNode {
        /// As the engine is told.
        event: Event,
        /// What the caller is told.
        word: String,
        /// Gets a word.
        reply: Reply<ActionResponse>,
    },
    /// A question; changes nothing.
    Ask(Ask),
    /// A backend saw something.
    Report(Report),
    /// A time has come, or a test's clock has moved.
    Wake,
    /// Finish what is queued and end.
    Stop,
}

/// A question about present state.
#[derive(Debug)]
pub(crate) enum Ask {
    /// Jobs of these numbers that are in memory.
    Jobs(Vec<JobId>, Reply<Vec<JobView>>),
    /// Jobs in memory that a filter asks for.
    Listed(Box<Wanted>, Reply<Listed>),
    /// Whose a job in memory is.
    Owner(JobId, Reply<Option<Owner>>),
    /// One job in memory.
    Job(JobId, Reply<Option<LiveJob>>),
    /// One element in memory.
    Element(ElementId, Reply<Option<ElementView>>),
    /// Why it waits; `None` asks for the first element that waits.
    Explain(JobId, Option<u32>, Reply<Explanation>),
    /// What would happen to these jobs.
    DryRun(Submission, Reply<(Receipt, Vec<Explanation>)>),
    /// The answer that this key of this user got.
    Receipt(UserName, String, Reply<Option<Receipt>>),
    /// Queues.
    Queues(Reply<Vec<QueueView>>),
    /// Nodes.
    Nodes(Reply<Vec<NodeView>>),
    /// Advance reservations.
    Windows(Reply<Vec<WindowView>>),
    /// Decayed GPU-seconds by user and queue.
    Usage(Reply<BTreeMap<(UserName, QueueName), u64>>),
    /// Planned starts and names of nodes.
    Planned(Reply<Planned>),
    /// The whole state as it is durable, and when it was.
    State(Reply<(Time, Box<Snapshot>)>),
    /// The clock, and what users should be warned of.
    Status(Reply<Status>),
}

/// A job in memory.
#[derive(Clone, Debug)]
pub(crate) struct LiveJob {
    /// The row.
    pub(crate) view: JobView,
    /// What it runs.
    pub(crate) what: Option<What>,
    /// What it asked for.
    pub(crate) spec: Option<Arc<JobSpec>>,
}

/// The timeline's future, and what its past needs to be drawn.
#[derive(Clone, Debug, Default)]
pub(crate) struct Planned {
    /// Reserved starts.
    pub(crate) starts: Vec<PlannedStart>,
    /// Where they will be.
    pub(crate) nodes: BTreeMap<NodeId, NodeName>,
    /// Every device.
    pub(crate) devices: Vec<(NodeName, u16)>,
}

/// How the dispatcher is.
#[derive(Clone, Debug, Default)]
pub(crate) struct Status {
    /// The clock.
    pub(crate) now: Time,
    /// Grows with every durable change.
    pub(crate) revision: u64,
    /// What users should see.
    pub(crate) warnings: Vec<String>,
}

/// Placement of a rank on a named node; kept here because the store knows node numbers only.
pub(crate) fn on_node(nodes: &BTreeMap<NodeId, NodeName>, place: &TaskPlacement) -> NodeName {
    nodes.get(&place.node).cloned().unwrap_or_else(|| format!("node {}", place.node).into())
}
