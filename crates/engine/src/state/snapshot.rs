//! The durable part of the state as one value, and its restoration: everything derived is rebuilt.

use std::collections::BTreeMap;
use std::sync::Arc;

use muster_model::{Drain, ElementId, Foreign, JobId, NodeSpec, Time};
use muster_policy::{BudgetCharge, Policy};
use serde::{Deserialize, Serialize};

use super::State;
use super::advance_reservation::PlacedReservation;
use super::dependencies::RecentJobs;
use super::job::{Job, JobRecord, Phase};
use super::move_budget::MoveBudget;
use super::queue_heads::QueueHeads;
use crate::place::score::workload_mix::WorkloadMix;
use crate::pool::availability::drain::Drains;
use crate::pool::shape::Shape;
use crate::refusal::RestoreError;

/// Durable state, serialisable; equal states give equal values. `J` is the form of its jobs.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Snapshot<J = SnapshotJobs> {
    pub(super) policy: Policy,
    #[serde(default)]
    pub(super) levels: Vec<Arc<str>>,
    /// Nodes by node id.
    pub(super) nodes: Vec<StoredNode>,
    pub(super) epoch: u64,
    #[serde(default, rename = "windows", skip_serializing_if = "Vec::is_empty")]
    pub(super) advance_reservations: Vec<PlacedReservation>,
    pub(super) jobs: J,
    pub(super) recent: RecentJobs,
    #[serde(default, skip_serializing_if = "WorkloadMix::is_empty")]
    pub(super) mix: WorkloadMix,
    #[serde(default, rename = "moves", skip_serializing_if = "MoveBudget::is_blank")]
    pub(super) move_budget: MoveBudget,
    #[serde(default, skip_serializing_if = "QueueHeads::is_empty")]
    pub(super) heads: QueueHeads,
}

/// Jobs of a snapshot, unredacted.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub struct SnapshotJobs(pub(super) BTreeMap<JobId, JobRecord>);

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct StoredNode {
    pub(super) spec: NodeSpec,
    pub(super) up: bool,
    /// Reason for a drain in snapshots of old versions, which stored only drains of whole nodes.
    #[serde(default, skip_serializing)]
    pub(super) drained: Option<Arc<str>>,
    pub(super) foreign: Foreign,
    #[serde(default, skip_serializing_if = "Drains::is_empty")]
    pub(super) drains: Drains,
}

impl State {
    pub(crate) fn snapshot(&self) -> Snapshot {
        let node = |node: &crate::pool::node::Node| StoredNode {
            spec: node.spec.clone(),
            up: node.up,
            drained: None,
            foreign: node.foreign.clone(),
            drains: node.drains.clone(),
        };
        Snapshot {
            policy: self.policy.clone(),
            levels: self.pool.domains.levels().to_vec(),
            nodes: self.pool.nodes().iter().map(node).collect(),
            epoch: self.pool.epoch(),
            advance_reservations: self.advance_reservations.iter().cloned().collect(),
            jobs: SnapshotJobs(
                self.jobs.iter().map(|(id, job)| (*id, job.record.clone())).collect(),
            ),
            recent: self.dependencies.recent.clone(),
            mix: self.mix.clone(),
            move_budget: self.move_budget,
            heads: self.heads.clone(),
        }
    }

    pub(crate) fn restore(snapshot: Snapshot) -> Result<Self, RestoreError> {
        let mut state = State::with_policy(snapshot.policy);
        // 1. Nodes, in order of their ids, and the places of reservations.
        state.pool.set_levels(&snapshot.levels);
        for stored in snapshot.nodes {
            let name = stored.spec.name.clone();
            state.node_joined(Time(0), &stored.spec);
            let node = state.pool.find(&name).expect("it just joined");
            state.pool.set_foreign(node, stored.foreign);
            let mut drains = stored.drains;
            if let Some(reason) = stored.drained {
                drains.node = Some(Drain { from: Time(0), by: None, reason, stop: false });
            }
            state.pool.set_drains(Time(0), node, drains);
            state.pool.set_up(node, stored.up);
        }
        for placed in snapshot.advance_reservations {
            state.put_reservation(Time(0), placed);
        }
        state.pool.set_epoch(snapshot.epoch);
        state.publish_capacity(Time(0));
        state.dependencies.recent = snapshot.recent;
        state.mix = snapshot.mix;
        state.move_budget = snapshot.move_budget;
        // 2. Jobs with their holdings. Queue entries sleep until the first pass wakes those that
        //    are due.
        for (id, record) in snapshot.jobs.0 {
            state.restore_job(id, record)?;
        }
        state.heads = snapshot.heads;
        Ok(state)
    }

    fn restore_job(&mut self, id: JobId, mut record: JobRecord) -> Result<(), RestoreError> {
        let spec = Arc::clone(&record.spec);
        let user = self.policy.intern_user(&spec.user);
        let policy = &mut self.policy;
        let pool = &mut self.pool;
        let class = self.classes.enter(&spec, || {
            Shape::new(
                &spec,
                |model| Some(policy.intern_model(model)),
                |extra| pool.intern_extra(extra),
            )
        });
        let indices: Vec<(u32, u32)> =
            record.elements.keys().map(|ordinal| (*ordinal, record.index_of(*ordinal))).collect();
        let length = record.duration();
        for (ordinal, index) in indices {
            let element = record.elements.get_mut(&ordinal).expect("its own key");
            let Some(run) = element.run.as_mut().filter(|_| element.phase == Phase::Active) else {
                continue;
            };
            if run.placement.iter().any(|task| self.pool.get(task.node).is_none()) {
                return Err(RestoreError::UnknownNode(id));
            }
            let shape = Arc::clone(self.classes.shape(class));
            let element_id = ElementId { job: id, index };
            run.key = self.pool.hold(element_id, run.end.into(), shape, Arc::clone(&run.placement));
            if run.eviction.is_none() {
                self.policy.restore_hold(record.leaf, user, &run.gpus);
                let charge = BudgetCharge { from: run.held_from, length };
                self.policy.queues_mut().restore_charge(record.leaf, user, run.milli(), charge);
            }
        }
        let elements = record.elements.values();
        let pending =
            elements.filter(|one| one.pending_allocation.is_some() && one.phase != Phase::Active);
        record.pending_allocations = pending.count() as u32;
        let known: Vec<u32> = record.elements.keys().copied().collect();
        self.dependencies.register(id, &record.waits_for);
        self.jobs.insert(id, Box::new(Job { record, user, class, waits_in: None }));
        for ordinal in known {
            self.update_planned_end(Time(0), id, ordinal);
            self.start_waits.update(&mut self.jobs, id, ordinal);
            self.preemptable.update(&self.jobs, id, ordinal);
            self.pending_allocations.restore_deadline(&self.jobs, id, ordinal);
            self.restore_pending_allocation(id, ordinal);
        }
        self.sync_job(Time(0), id);
        Ok(())
    }
}
