//! Start of the dispatcher: passes the durable state to the backend, and the backend's nodes to the
//! engine, before the first input.

use std::collections::BTreeMap;
use std::sync::Arc;

use muster_backends::driver::ExpectedTask;
use muster_model::{Effect, Event, NodeId, NodeName, NodeSpec, QueueTree, Time};
use muster_runtime::{StepFailure, StepInput as Cause, StoreError};
use muster_spec::QueueFile;

use super::{Dispatcher, SiteFacts};
use crate::store::StateStore;

impl<S: StateStore> Dispatcher<S> {
    /// Adopts tasks and repeats effects, then takes one step with the present nodes (and queues).
    pub(crate) fn boot(&mut self, queues: Option<QueueFile>) -> Result<(), StoreError> {
        // 1. Tasks that ended while no daemon ran are recorded as of their end.
        let now = self.now();
        let past = self.backend.past(&self.expected());
        let past =
            past.into_iter().map(|past| (past.at.min(now), Event::Task(past.report))).collect();
        let recalled = self.runtime.apply_past(past)?;

        // 2. A gang whose order was never sent gets it now, so that the backend knows its tasks
        // before it adopts; other effects follow the reports.
        let Some(engine) = self.runtime.engine() else { return Ok(()) };
        let (prepare, rest): (Vec<Effect>, Vec<Effect>) = engine
            .outstanding()
            .into_iter()
            .partition(|effect| matches!(effect, Effect::Prepare { .. }));
        let mut causes = self.node_changes();
        if let Some(QueueFile { tree, notices }) = queues {
            self.runtime.store_mut().write_queue_notices(&notices)?;
            causes.push(Event::QueuesSet(Box::new(tree)));
        }
        self.carry_out(prepare);
        self.backend.adopt(self.expected());
        self.carry_out(recalled);
        self.carry_out(rest);

        // 3. Present nodes and queues.
        let causes: Vec<Cause> = causes.into_iter().map(Cause::Event).collect();
        let step = self.runtime.step(now, causes).map_err(|StepFailure { error, .. }| error)?;
        for refused in step.answers.iter().filter_map(|answer| answer.as_ref().err()) {
            tracing::error!(refusal = %refused.refusal, "a node or the queues cannot be taken");
            self.warnings.push(refused.refusal.to_string());
        }
        self.carry_out(step.effects);
        self.publish_site();
        Ok(())
    }

    /// Returns the tasks that have not ended according to the durable state.
    fn expected(&self) -> Vec<ExpectedTask> {
        let tasks = self.runtime.engine().map(|engine| engine.expected_tasks()).unwrap_or_default();
        tasks.into_iter().map(|(id, rank, node)| ExpectedTask { id, rank, node }).collect()
    }

    /// Publishes the nodes and queues that specs are checked against.
    pub(super) fn publish_site(&self) {
        let (Some(engine), Some(queues)) = (self.runtime.engine(), self.runtime.queues()) else {
            return;
        };
        let nodes = specs(engine).cloned().collect();
        let default_time = queues.default_time.or(self.default_time);
        let queues = QueueTree { default_time, ..queues.clone() };
        self.published.site.send_replace(Arc::new(SiteFacts { nodes, queues }));
    }

    /// Returns events for nodes that the backend offers differently than the engine has them, and
    /// for nodes that it no longer offers.
    fn node_changes(&self) -> Vec<Event> {
        let Some(engine) = self.runtime.engine() else { return Vec::new() };
        let offered = self.backend.nodes();
        let up: BTreeMap<NodeName, bool> =
            engine.nodes().into_iter().map(|view| (view.name, view.up)).collect();
        let mut events = Vec::new();
        for known in specs(engine) {
            if up[&known.name] && !offered.iter().any(|node| node.name == known.name) {
                let reason = "this machine has been renamed".into();
                events.push(Event::NodeLost { node: known.name.clone(), reason });
            }
        }
        for node in offered {
            let known = specs(engine).find(|known| known.name == node.name);
            if known.is_none_or(|known| *known != node || !up[&known.name]) {
                events.push(Event::NodeJoined(Box::new(node)));
            }
        }
        events
    }

    /// Deletes data beyond its retention time, logs first.
    pub(super) fn prune_when_due(&mut self, now: Time) {
        if now.since(self.pruned) < super::PRUNE_EVERY || self.store_failure.is_some() {
            return;
        }
        match self.prune(now) {
            // More may be left: the next round continues, so that deletion keeps up with any rate
            // of ended jobs.
            Ok(1..) => {}
            Ok(0) => self.pruned = now,
            Err(error) => {
                self.pruned = now;
                tracing::warn!(%error, "old history could not be deleted");
            }
        }
    }

    /// Deletes a bounded number of old jobs; returns the number.
    fn prune(&mut self, now: Time) -> Result<usize, StoreError> {
        let jobs = self.runtime.store().expired(now, &self.retention)?;
        for job in &jobs {
            for attempt in self.reader.job_attempts(*job)? {
                self.backend.discard(attempt.id, attempt.placement.len() as u32);
            }
        }
        self.runtime.store_mut().prune(now, &self.retention, &jobs)?;
        Ok(jobs.len())
    }
}

fn specs(engine: &muster_runtime::engine::Engine) -> impl Iterator<Item = &NodeSpec> {
    (0..).map_while(|id| engine.node_spec(NodeId(id)))
}
