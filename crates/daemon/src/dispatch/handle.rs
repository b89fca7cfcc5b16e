//! Handle to the dispatcher: sends requests and awaits the responses. Stateless.

use std::collections::BTreeMap;

use muster_api::JobAction;
use muster_api::types::ActionResponse;
use muster_model::view::{
    AdvanceReservationView, ElementView, Explanation, JobView, MeasuredUse, NodeView, QueueView,
};
use muster_model::{AttemptId, ElementId, Event, JobId, QueueName, QueueTree, Time, UserName};
use muster_runtime::engine::Snapshot;
use muster_runtime::{JobSubmission, Receipt};
use muster_spec::QueueNotices;
use tokio::sync::{mpsc, oneshot};

use super::input::{DispatcherInput, DispatcherStatus, LiveJob, PlannedTimeline, Query, Reply};
use super::selection::{ListSelection, ListedJobs};
use crate::auth::{Caller, OwnerAccount};
use crate::failure::ApiFailure;
use crate::store::{NoticeTry, TimedEvent};

/// Sender of inputs to the dispatcher; clones share the queue. The queue is unbounded but its
/// length is limited in effect: a connection has at most one request in it, or the bounded targets
/// of one bulk request, and the number of connections is limited.
#[derive(Clone, Debug)]
pub(crate) struct Handle {
    inputs: mpsc::UnboundedSender<DispatcherInput>,
}

impl Handle {
    pub(crate) fn new(inputs: mpsc::UnboundedSender<DispatcherInput>) -> Self {
        Self { inputs }
    }

    pub(crate) async fn submit(&self, submission: JobSubmission) -> Result<Receipt, ApiFailure> {
        self.send(|reply| DispatcherInput::Submit { submission, reply }).await
    }

    pub(crate) async fn act(
        &self,
        caller: Caller,
        job: JobId,
        index: Option<u32>,
        action: JobAction,
    ) -> Result<ActionResponse, ApiFailure> {
        self.send(|reply| DispatcherInput::Act { caller, job, index, action, reply }).await
    }

    pub(crate) async fn set_queues(
        &self,
        tree: Box<QueueTree>,
    ) -> Result<ActionResponse, ApiFailure> {
        self.send(|reply| DispatcherInput::SetQueues { tree, reply }).await
    }

    /// Replaces the rules of the notices of all queues.
    pub(crate) async fn set_queue_notices(&self, notices: QueueNotices) -> Result<(), ApiFailure> {
        self.send(|reply| DispatcherInput::SetQueueNotices { notices, reply }).await
    }

    /// Sets or ends a drain or an advance reservation; `word` is the response when it is accepted.
    pub(crate) async fn change_node(
        &self,
        event: Event,
        word: String,
    ) -> Result<ActionResponse, ApiFailure> {
        self.send(|reply| DispatcherInput::Apply { event, word, reply }).await
    }

    pub(crate) async fn jobs(&self, ids: Vec<JobId>) -> Result<Vec<JobView>, ApiFailure> {
        self.ask(|reply| Query::Jobs(ids, reply)).await
    }

    /// Returns the jobs in memory that a filter matches.
    pub(crate) async fn listed(&self, wanted: ListSelection) -> Result<ListedJobs, ApiFailure> {
        self.ask(|reply| Query::Listed(Box::new(wanted), reply)).await
    }

    pub(crate) async fn owner(&self, job: JobId) -> Result<Option<OwnerAccount>, ApiFailure> {
        self.ask(|reply| Query::Owner(job, reply)).await
    }

    pub(crate) async fn job(&self, job: JobId) -> Result<Option<LiveJob>, ApiFailure> {
        self.ask(|reply| Query::Job(job, reply)).await
    }

    pub(crate) async fn element(
        &self,
        element: ElementId,
    ) -> Result<Option<ElementView>, ApiFailure> {
        self.ask(|reply| Query::Element(element, reply)).await
    }

    /// Returns the elements of a job that are in memory.
    pub(crate) async fn elements(&self, job: JobId) -> Result<Vec<ElementView>, ApiFailure> {
        self.ask(|reply| Query::Elements(job, reply)).await
    }

    pub(crate) async fn explain(
        &self,
        job: JobId,
        index: Option<u32>,
    ) -> Result<Explanation, ApiFailure> {
        self.ask(|reply| Query::Explain(job, index, reply)).await
    }

    pub(crate) async fn dry_run(
        &self,
        submission: JobSubmission,
    ) -> Result<(Receipt, Vec<Explanation>), ApiFailure> {
        self.ask(|reply| Query::DryRun(submission, reply)).await
    }

    pub(crate) async fn receipt(
        &self,
        user: UserName,
        key: String,
    ) -> Result<Option<Receipt>, ApiFailure> {
        self.ask(|reply| Query::Receipt(user, key, reply)).await
    }

    pub(crate) async fn queues(&self) -> Result<Vec<QueueView>, ApiFailure> {
        self.ask(Query::Queues).await
    }

    pub(crate) async fn nodes(&self) -> Result<Vec<NodeView>, ApiFailure> {
        self.ask(Query::Nodes).await
    }

    pub(crate) async fn advance_reservations(
        &self,
    ) -> Result<Vec<AdvanceReservationView>, ApiFailure> {
        self.ask(Query::AdvanceReservations).await
    }

    pub(crate) async fn usage(&self) -> Result<BTreeMap<(UserName, QueueName), u64>, ApiFailure> {
        self.ask(Query::Usage).await
    }

    pub(crate) async fn planned(&self) -> Result<PlannedTimeline, ApiFailure> {
        self.ask(Query::Planned).await
    }

    pub(crate) async fn state(&self) -> Result<(Time, Box<Snapshot>), ApiFailure> {
        self.ask(Query::State).await
    }

    pub(crate) async fn status(&self) -> Result<DispatcherStatus, ApiFailure> {
        self.ask(Query::Status).await
    }

    /// Writes the result of a try to send a notice.
    pub(crate) async fn notice_tried(&self, tried: NoticeTry) -> Result<(), ApiFailure> {
        let tried = Box::new(tried);
        self.send(|reply| DispatcherInput::NoticeTried { tried, reply }).await
    }

    /// Writes the notices of events that depend on the time.
    pub(crate) async fn timed_events(&self, events: Vec<TimedEvent>) -> Result<(), ApiFailure> {
        self.send(|reply| DispatcherInput::TimedEvents { events, reply }).await
    }

    /// Applies an event of the daemon itself about a job that leaves its GPUs idle; an error if the engine refuses it.
    pub(crate) async fn act_on_idle(&self, event: Event) -> Result<(), ApiFailure> {
        let word = String::new();
        self.send(|reply| DispatcherInput::Apply { event, word, reply }).await.map(|_| ())
    }

    /// Adds the use of GPUs to the accounting of attempts.
    pub(crate) async fn gpu_use(
        &self,
        sums: Vec<(AttemptId, MeasuredUse)>,
    ) -> Result<(), ApiFailure> {
        self.send(|reply| DispatcherInput::GpuUse { sums, reply }).await
    }

    /// Makes the dispatcher read its clock.
    pub(crate) fn wake(&self) {
        // The dispatcher may have stopped already.
        let _gone = self.inputs.send(DispatcherInput::Wake);
    }

    /// Makes the dispatcher process the queued inputs and stop.
    pub(crate) fn stop(&self) {
        let _gone = self.inputs.send(DispatcherInput::Stop);
    }

    async fn ask<T>(&self, question: impl FnOnce(Reply<T>) -> Query) -> Result<T, ApiFailure> {
        self.send(|reply| DispatcherInput::Ask(question(reply))).await
    }

    async fn send<T>(
        &self,
        input: impl FnOnce(Reply<T>) -> DispatcherInput,
    ) -> Result<T, ApiFailure> {
        let (reply, answer) = oneshot::channel();
        self.inputs.send(input(reply)).map_err(|_| ApiFailure::stopping())?;
        answer.await.map_err(|_| ApiFailure::stopping())?
    }
}
