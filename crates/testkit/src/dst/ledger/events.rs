//! Effects of events on the ledger: tasks, nodes, queues, levels. User requests are in
//! `requests.rs`.

use std::sync::Arc;

use muster_model::{
    AttemptId, CheckpointBy, ElementId, Event, NodeId, NodeName, Observation, QueueTree, Rank,
    Span, TaskCheckpoint, TaskReport, Time,
};

use super::{ElementPhase, Ledger};
use super::{nodes, reservations};
use crate::dst::attempt::LedgerFate;
use crate::dst::coverage::Coverage;
use crate::dst::site;

impl Ledger {
    pub(super) fn event(
        &mut self,
        at: Time,
        event: &Event,
        coverage: &mut Coverage,
    ) -> Result<(), String> {
        if may_outdate_nominations(event) {
            self.nominations.mark_outdated();
        }
        match event {
            Event::Submitted { job, spec } => self.submitted(*job, spec)?,
            Event::Hold(target) => self.hold(*target, true),
            Event::Release(target) => self.hold(*target, false),
            Event::AdminHold { .. } | Event::AdminRelease { .. } => {
                Err("no run has administrators")?
            }
            Event::StopEarly { .. } => Err("no run has sweeps")?,
            Event::GpusIdle { .. } => Err("no run has loads of GPUs")?,
            Event::RunningSince { .. } => Err("no run finds attempts that it did not start")?,
            Event::Cancel { target, by } => self.cancel(*target, by),
            Event::Requeue(target) => self.requeue(*target),
            Event::QueuesSet(tree) => self.queues_set(tree),
            Event::LevelsSet(levels) => self.levels.clone_from(levels),
            Event::Checkpoint(target) => self.ask_checkpoint(*target, coverage),
            Event::Scaled { job, replicas, by } => self.scaled(*job, *replicas, by, coverage),
            Event::AdvanceReservationSet(_)
            | Event::AdvanceReservationPlaced { .. }
            | Event::AdvanceReservationRemoved { .. } => {
                reservations::enter(&mut self.reservations, event, coverage);
            }
            Event::Task(report) => self.report(at, report, coverage),
            Event::StartOverdue { id, after } => {
                coverage.overdue += 1;
                self.start_overdue(at, *id, *after)?;
            }
            Event::EvictionDue { id } => {
                self.eviction_due(at, *id)?;
                coverage.unsaved += 1;
            }
            Event::NodeLost { node, reason } => self.node_lost(at, node, reason),
            Event::NodeJoined(spec) => match self.host_mut(&spec.name) {
                Some(host) => (host.spec, host.up) = ((**spec).clone(), true),
                None => self.nodes.push(nodes::LedgerNode::new(spec)),
            },
            Event::NodeDrained { node, drained, .. } => {
                if let Some(host) = self.host_mut(node) {
                    host.drained_from = drained.then_some(at);
                }
            }
            Event::DrainSet { node, devices, drain } => {
                if let Some(host) = self.host_mut(node) {
                    host.set_drain(*devices, drain.as_ref().map(|drain| drain.from));
                }
            }
            Event::ForeignUse { node, foreign } => {
                if let Some(host) = self.host_mut(node) {
                    host.foreign = foreign.clone();
                }
            }
        }
        Ok(())
    }

    /// Applies the report of a task.
    fn report(&mut self, at: Time, report: &TaskReport, coverage: &mut Coverage) {
        let id = report.id;
        if let Observation::Checkpointed(reported) = &report.observation {
            self.acknowledged(at, id, report.rank, reported, coverage);
            return;
        }
        if let Some(attempt) = self.attempt_mut(id.element).filter(|attempt| attempt.id == id) {
            if attempt.observe(report.rank, &report.observation) {
                attempt.ran_from = Some(at);
                self.running.push(id);
            }
            self.end_attempt(at, id.element);
        }
    }

    /// Gives up the start of an attempt that was not ready in time.
    fn start_overdue(&mut self, at: Time, id: AttemptId, after: Span) -> Result<(), String> {
        let attempt = self.attempt_mut(id.element).filter(|attempt| attempt.id == id);
        let attempt = attempt.ok_or_else(|| format!("{id} is given up though it is over"))?;
        if at < attempt.held_from + after {
            return Err(format!("{id} is given up before its time"));
        }
        attempt.overdue(after)?;
        self.end_attempt(at, id.element);
        Ok(())
    }

    /// Stops an evicted attempt that has not saved a checkpoint in time.
    fn eviction_due(&mut self, at: Time, id: AttemptId) -> Result<(), String> {
        let attempt = self.attempt_mut(id.element).filter(|attempt| attempt.id == id);
        let attempt =
            attempt.ok_or_else(|| format!("the eviction of {id} is due though it is over"))?;
        match attempt.leaving {
            Some(due) if due <= at => attempt.stop(LedgerFate::Preempted),
            _ => return Err(format!("the eviction of {id} is due now, without an eviction")),
        }
        Ok(())
    }

    fn queues_set(&mut self, tree: &QueueTree) {
        let leaves = site::leaves(tree);
        for job in self.jobs.values_mut().filter(|job| !leaves.contains(&job.leaf)) {
            job.leaf = tree.default_queue.clone();
        }
        self.queues = tree.clone();
        self.spent.clear();
        self.moves.queues_set(tree);
    }

    fn acknowledged(
        &mut self,
        at: Time,
        id: AttemptId,
        rank: Rank,
        reported: &TaskCheckpoint,
        coverage: &mut Coverage,
    ) {
        let Some(job) = self.jobs.get_mut(&id.element.job) else { return };
        let by = job.spec.checkpoint.map_or(CheckpointBy::First, |terms| terms.by);
        let Some(element) = job.elements.get_mut(&id.element.index) else { return };
        let ElementPhase::Active(attempt) = &mut element.phase else { return };
        if attempt.id == id
            && let Some(label) = attempt.acknowledge(rank, reported, by, at)
        {
            coverage.saved += 1;
            element.saved = Some(label);
        }
    }

    fn node_lost(&mut self, at: Time, name: &NodeName, reason: &Arc<str>) {
        let Some(node) = self.nodes.iter().position(|host| host.spec.name == *name) else { return };
        self.nodes[node].up = false;
        let hit: Vec<ElementId> = self.active().map(|(_, attempt)| attempt.id.element).collect();
        for element in hit {
            if let Some(attempt) = self.attempt_mut(element) {
                attempt.lose_node(NodeId(node as u32), reason);
            }
            self.end_attempt(at, element);
        }
    }
}

/// Returns whether an event may invalidate a nomination: nodes, devices, levels or queues change.
fn may_outdate_nominations(event: &Event) -> bool {
    match event {
        Event::NodeJoined(_)
        | Event::NodeLost { .. }
        | Event::NodeDrained { .. }
        | Event::DrainSet { .. }
        | Event::ForeignUse { .. }
        | Event::QueuesSet(_)
        | Event::LevelsSet(_)
        | Event::AdvanceReservationSet(_)
        | Event::AdvanceReservationPlaced { .. }
        | Event::AdvanceReservationRemoved { .. } => true,
        Event::Submitted { .. }
        | Event::Hold(_)
        | Event::Release(_)
        | Event::AdminHold { .. }
        | Event::AdminRelease { .. }
        | Event::Cancel { .. }
        | Event::Requeue(_)
        | Event::Checkpoint(_)
        | Event::Scaled { .. }
        | Event::Task(_)
        | Event::StopEarly { .. }
        | Event::GpusIdle { .. }
        | Event::RunningSince { .. }
        | Event::StartOverdue { .. }
        | Event::EvictionDue { .. } => false,
    }
}
