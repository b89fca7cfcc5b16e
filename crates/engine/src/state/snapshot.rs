//! The durable part of the state as one value, and the way back: everything derived is rebuilt.

use std::collections::BTreeMap;
use std::sync::Arc;

use muster_model::{Drain, ElementId, Foreign, JobId, NodeSpec, Time};
use muster_policy::{Policy, Promise};
use serde::{Deserialize, Serialize};

use super::State;
use super::depend::Recent;
use super::drain::Drains;
use super::heads::Heads;
use super::job::{Job, JobRecord, Phase};
use super::mix::Mix;
use super::moved::Moves;
use super::shape::Shape;
use super::window::Placed;
use crate::refusal::RestoreError;

/// Durable state. It serialises; equal states give equal values. `J` is how its jobs are written.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Snapshot<J = Jobs> {
    pub(super) policy: Policy,
    #[serde(default)]
    pub(super) levels: Vec<Arc<str>>,
    /// By node id.
    pub(super) nodes: Vec<StoredNode>,
    pub(super) epoch: u64,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) windows: Vec<Placed>,
    pub(super) jobs: J,
    pub(super) recent: Recent,
    #[serde(default, skip_serializing_if = "Mix::is_empty")]
    pub(super) mix: Mix,
    #[serde(default, skip_serializing_if = "Moves::is_blank")]
    pub(super) moves: Moves,
    #[serde(default, skip_serializing_if = "Heads::is_empty")]
    pub(super) heads: Heads,
}

/// Jobs of a snapshot, as they are.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Jobs(pub(super) BTreeMap<JobId, JobRecord>);

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct StoredNode {
    pub(super) spec: NodeSpec,
    pub(super) up: bool,
    /// Of a snapshot that knows of drained nodes only, and of no more than the reason.
    #[serde(default, skip_serializing)]
    pub(super) drained: Option<Arc<str>>,
    pub(super) foreign: Foreign,
    #[serde(default, skip_serializing_if = "Drains::is_empty")]
    pub(super) drains: Drains,
}

impl State {
    pub(crate) fn snapshot(&self) -> Snapshot {
        let node = |node: &super::node::Node| StoredNode {
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
            windows: self.windows.iter().cloned().collect(),
            jobs: Jobs(self.jobs.iter().map(|(id, job)| (*id, job.record.clone())).collect()),
            recent: self.recent.clone(),
            mix: self.mix.clone(),
            moves: self.moves,
            heads: self.heads.clone(),
        }
    }

    pub(crate) fn restore(snapshot: Snapshot) -> Result<Self, RestoreError> {
        let mut state = State::around(snapshot.policy);
        // 1. Nodes, in order of their ids, and what windows set aside of them.
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
        for placed in snapshot.windows {
            state.put_window(Time(0), placed);
        }
        state.pool.set_epoch(snapshot.epoch);
        state.publish_capacity(Time(0));
        (state.recent, state.mix, state.moves) = (snapshot.recent, snapshot.mix, snapshot.moves);
        // 2. Jobs, with what they hold. Entries sleep until the first pass wakes those that are
        //    due.
        for (id, record) in snapshot.jobs.0 {
            state.restore_job(id, record)?;
        }
        state.heads = snapshot.heads;
        Ok(state)
    }

    fn restore_job(&mut self, id: JobId, mut record: JobRecord) -> Result<(), RestoreError> {
        let spec = Arc::clone(&record.spec);
        let user = self.policy.intern_user(&spec.user);
        let (policy, pool) = (&mut self.policy, &mut self.pool);
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
            if run.leaving.is_none() {
                self.policy.restore_hold(record.leaf, user, &run.gpus);
                let promise = Promise { from: run.held_from, length };
                self.policy.restore_promise(record.leaf, user, run.milli(), promise);
            }
        }
        let elements = record.elements.values();
        let promised = elements.filter(|one| one.claim.is_some() && one.phase != Phase::Active);
        record.claims = promised.count() as u32;
        let known: Vec<u32> = record.elements.keys().copied().collect();
        self.jobs.insert(id, Box::new(Job { record, user, class, waits_in: None }));
        for ordinal in known {
            self.watch(id, ordinal);
            self.track(id, ordinal);
            self.restore_saving(id, ordinal);
            self.restore_claim(id, ordinal);
        }
        self.await_dependencies(id);
        self.sync_job(Time(0), id);
        Ok(())
    }
}
