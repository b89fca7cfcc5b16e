//! The way to the dispatcher for everybody else: a question goes in, its answer comes back. Holds
//! no state.

use std::collections::BTreeMap;

use muster_api::Action;
use muster_api::types::ActionResponse;
use muster_model::view::{ElementView, Explanation, JobView, NodeView, QueueView, WindowView};
use muster_model::{ElementId, Event, JobId, QueueName, QueueTree, Time, UserName};
use muster_runtime::engine::Snapshot;
use muster_runtime::{Receipt, Submission};
use tokio::sync::{mpsc, oneshot};

use super::input::{Ask, Input, LiveJob, Planned, Reply, Status};
use super::wanted::{Listed, Wanted};
use crate::auth::{Caller, Owner};
use crate::failure::Failure;

/// Sends inputs to the dispatcher. Clones share it. The queue is unbounded, and bounded in effect:
/// a connection has one request in it at most, or the targets of one bulk request, which are
/// bounded, and connections are counted.
#[derive(Clone, Debug)]
pub(crate) struct Handle {
    inputs: mpsc::UnboundedSender<Input>,
}

impl Handle {
    pub(crate) fn new(inputs: mpsc::UnboundedSender<Input>) -> Self {
        Self { inputs }
    }

    pub(crate) async fn submit(&self, submission: Submission) -> Result<Receipt, Failure> {
        self.send(|reply| Input::Submit { submission, reply }).await
    }

    pub(crate) async fn act(
        &self,
        caller: Caller,
        job: JobId,
        index: Option<u32>,
        action: Action,
    ) -> Result<ActionResponse, Failure> {
        self.send(|reply| Input::Act { caller, job, index, action, reply }).await
    }

    pub(crate) async fn set_queues(&self, tree: Box<QueueTree>) -> Result<ActionResponse, Failure> {
        self.send(|reply| Input::SetQueues { tree, reply }).await
    }

    /// A drain or a reservation, or its end; `word` is the answer when it is accepted.
    pub(crate) async fn change_node(
        &self,
        event: Event,
        word: String,
    ) -> Result<ActionResponse, Failure> {
        self.send(|reply| Input::ChangeNode { event, word, reply }).await
    }

    pub(crate) async fn jobs(&self, ids: Vec<JobId>) -> Result<Vec<JobView>, Failure> {
        self.ask(|reply| Ask::Jobs(ids, reply)).await
    }

    /// Jobs in memory that a filter asks for.
    pub(crate) async fn listed(&self, wanted: Wanted) -> Result<Listed, Failure> {
        self.ask(|reply| Ask::Listed(Box::new(wanted), reply)).await
    }

    pub(crate) async fn owner(&self, job: JobId) -> Result<Option<Owner>, Failure> {
        self.ask(|reply| Ask::Owner(job, reply)).await
    }

    pub(crate) async fn job(&self, job: JobId) -> Result<Option<LiveJob>, Failure> {
        self.ask(|reply| Ask::Job(job, reply)).await
    }

    pub(crate) async fn element(&self, element: ElementId) -> Result<Option<ElementView>, Failure> {
        self.ask(|reply| Ask::Element(element, reply)).await
    }

    pub(crate) async fn explain(
        &self,
        job: JobId,
        index: Option<u32>,
    ) -> Result<Explanation, Failure> {
        self.ask(|reply| Ask::Explain(job, index, reply)).await
    }

    pub(crate) async fn dry_run(
        &self,
        submission: Submission,
    ) -> Result<(Receipt, Vec<Explanation>), Failure> {
        self.ask(|reply| Ask::DryRun(submission, reply)).await
    }

    pub(crate) async fn receipt(
        &self,
        user: UserName,
        key: String,
    ) -> Result<Option<Receipt>, Failure> {
        self.ask(|reply| Ask::Receipt(user, key, reply)).await
    }

    pub(crate) async fn queues(&self) -> Result<Vec<QueueView>, Failure> {
        self.ask(Ask::Queues).await
    }

    pub(crate) async fn nodes(&self) -> Result<Vec<NodeView>, Failure> {
        self.ask(Ask::Nodes).await
    }

    pub(crate) async fn windows(&self) -> Result<Vec<WindowView>, Failure> {
        self.ask(Ask::Windows).await
    }

    pub(crate) async fn usage(&self) -> Result<BTreeMap<(UserName, QueueName), u64>, Failure> {
        self.ask(Ask::Usage).await
    }

    pub(crate) async fn planned(&self) -> Result<Planned, Failure> {
        self.ask(Ask::Planned).await
    }

    pub(crate) async fn state(&self) -> Result<(Time, Box<Snapshot>), Failure> {
        self.ask(Ask::State).await
    }

    pub(crate) async fn status(&self) -> Result<Status, Failure> {
        self.ask(Ask::Status).await
    }

    /// Makes the dispatcher look at its clock.
    pub(crate) fn wake(&self) {
        // Gone means stopping; there is nothing left to wake.
        let _gone = self.inputs.send(Input::Wake);
    }

    /// Asks the dispatcher to finish what is queued and end.
    pub(crate) fn stop(&self) {
        let _gone = self.inputs.send(Input::Stop);
    }

    async fn ask<T>(&self, question: impl FnOnce(Reply<T>) -> Ask) -> Result<T, Failure> {
        self.send(|reply| Input::Ask(question(reply))).await
    }

    async fn send<T>(&self, input: impl FnOnce(Reply<T>) -> Input) -> Result<T, Failure> {
        let (reply, answer) = oneshot::channel();
        self.inputs.send(input(reply)).map_err(|_| Failure::stopping())?;
        answer.await.map_err(|_| Failure::stopping())?
    }
}
