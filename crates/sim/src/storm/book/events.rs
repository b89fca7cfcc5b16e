//! What an event changes in the book: tasks, nodes, queues, levels. What people ask for is in
//! `asked.rs`. It decides nothing.

use std::sync::Arc;

use muster_model::{
    AttemptId, CheckpointBy, ElementId, Event, NodeId, NodeName, Observation, QueueTree, Rank,
    TaskCheckpoint, Time,
};

use super::{Book, Phase};
use crate::storm::attempt::Fate;
use crate::storm::cover::Cover;
use crate::storm::{holdings, site, windows};

impl Book {
    pub(super) fn event(
        &mut self,
        at: Time,
        event: &Event,
        cover: &mut Cover,
    ) -> Result<(), String> {
        if changes_the_world(event) {
            self.claims.intervene();
        }
        match event {
            Event::Submitted { job, spec } => self.submitted(*job, spec)?,
            Event::Hold(target) => self.hold(*target, true),
            Event::Release(target) => self.hold(*target, false),
            Event::AdminHold { .. } | Event::AdminRelease { .. } => {
                Err("no run has administrators")?
            }
            Event::Cancel { target, by } => self.cancel(*target, by),
            Event::Requeue(target) => self.requeue(*target),
            Event::QueuesSet(tree) => self.queues_set(tree),
            Event::LevelsSet(levels) => self.levels.clone_from(levels),
            Event::Checkpoint(target) => self.ask_checkpoint(*target, cover),
            Event::Scaled { job, replicas, by } => self.scaled(*job, *replicas, by, cover),
            Event::WindowSet(_) | Event::WindowPlaced { .. } | Event::WindowDropped { .. } => {
                windows::enter(&mut self.windows, event, cover);
            }
            Event::Task(report) => {
                let id = report.id;
                if let Observation::Checkpointed(told) = &report.what {
                    self.acknowledged(at, id, report.rank, told, cover);
                    return Ok(());
                }
                if let Some(attempt) =
                    self.attempt_mut(id.element).filter(|attempt| attempt.id == id)
                {
                    if attempt.hear(report.rank, &report.what) {
                        attempt.ran_from = Some(at);
                        self.running.push(id);
                    }
                    self.settle(at, id.element);
                }
            }
            Event::StartOverdue { id, after } => {
                cover.overdue += 1;
                let Some(attempt) =
                    self.attempt_mut(id.element).filter(|attempt| attempt.id == *id)
                else {
                    return Err(format!("{id} is given up though it is over"));
                };
                if at < attempt.held_from + *after {
                    return Err(format!("{id} is given up before its time"));
                }
                attempt.overdue(*after)?;
                self.settle(at, id.element);
            }
            Event::EvictionDue { id } => {
                self.eviction_due(at, *id)?;
                cover.unsaved += 1;
            }
            Event::NodeLost { node, reason } => self.node_lost(at, node, reason),
            Event::NodeJoined(spec) => match self.host_mut(&spec.name) {
                Some(host) => (host.spec, host.up) = ((**spec).clone(), true),
                None => self.nodes.push(holdings::Host::new(spec)),
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

    /// Who was told to go has not saved its progress in time.
    fn eviction_due(&mut self, at: Time, id: AttemptId) -> Result<(), String> {
        let attempt = self.attempt_mut(id.element).filter(|attempt| attempt.id == id);
        let attempt = attempt.ok_or_else(|| format!("{id} is to go though it is over"))?;
        match attempt.leaving {
            Some(due) if due <= at => attempt.stop(Fate::Preempted),
            _ => return Err(format!("{id} is to go now, though nobody told it so")),
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
        told: &TaskCheckpoint,
        cover: &mut Cover,
    ) {
        let Some(job) = self.jobs.get_mut(&id.element.job) else { return };
        let by = job.spec.checkpoint.map_or(CheckpointBy::First, |terms| terms.by);
        let Some(element) = job.elements.get_mut(&id.element.index) else { return };
        let Phase::Active(attempt) = &mut element.phase else { return };
        if attempt.id == id
            && let Some(label) = attempt.acknowledge(rank, told, by, at)
        {
            cover.saved += 1;
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
            self.settle(at, element);
        }
    }
}

/// True for what may make a promise impossible: nodes, devices, levels and queues are not what they
/// were.
fn changes_the_world(event: &Event) -> bool {
    match event {
        Event::NodeJoined(_)
        | Event::NodeLost { .. }
        | Event::NodeDrained { .. }
        | Event::DrainSet { .. }
        | Event::ForeignUse { .. }
        | Event::QueuesSet(_)
        | Event::LevelsSet(_)
        | Event::WindowSet(_)
        | Event::WindowPlaced { .. }
        | Event::WindowDropped { .. } => true,
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
        | Event::StartOverdue { .. }
        | Event::EvictionDue { .. } => false,
    }
}
