//! Conversion of durable decisions into commands of the backend. An order that cannot be made is
//! reported as refused, as a backend would do.

use std::collections::BTreeMap;
use std::sync::Arc;

use muster_backends::driver::BackendCommand;
use muster_model::{
    AttemptId, Effect, Event, Observation, Payload, PayloadId, Rank, TaskPlacement, TaskReport,
};
use muster_runtime::StoreError;

use super::Dispatcher;
use crate::orders;
use crate::store::StateStore;

/// Most cached payloads: an array starts many elements with one payload. Environments are a few KiB
/// each; the table of a sweep may have megabytes.
const KEPT_PAYLOADS: usize = 64;

/// Cache of payloads; evicts the oldest one.
#[derive(Debug, Default)]
pub(crate) struct PayloadCache {
    kept: BTreeMap<PayloadId, Arc<Payload>>,
}

impl PayloadCache {
    pub(super) fn get<S: StateStore>(
        &mut self,
        store: &S,
        id: PayloadId,
    ) -> Result<Option<Arc<Payload>>, StoreError> {
        if let Some(payload) = self.kept.get(&id) {
            return Ok(Some(payload.clone()));
        }
        let Some(payload) = store.payload(id)?.map(Arc::new) else { return Ok(None) };
        if self.kept.len() >= KEPT_PAYLOADS {
            self.kept.pop_first();
        }
        self.kept.insert(id, payload.clone());
        Ok(Some(payload))
    }
}

impl<S: StateStore> Dispatcher<S> {
    /// Passes effects to the backend, in order.
    pub(super) fn carry_out(&mut self, effects: Vec<Effect>) {
        for effect in effects {
            match effect {
                Effect::Prepare { id, placement, payload } => self.prepare(id, &placement, payload),
                Effect::Go { id } => self.backend.execute(BackendCommand::Go(id)),
                Effect::Checkpoint { id, request } => {
                    self.backend.execute(BackendCommand::Checkpoint(id, request));
                }
                Effect::Stop { id, cause } => self.backend.execute(BackendCommand::Stop(id, cause)),
                Effect::Forget { id } => self.backend.execute(BackendCommand::Forget(id)),
            }
        }
    }

    fn prepare(&mut self, id: AttemptId, placement: &Arc<[TaskPlacement]>, payload: PayloadId) {
        let order = match self.payloads.get(self.runtime.store(), payload) {
            Ok(payload) => match self.runtime.engine() {
                Some(engine) => orders::gang_order(engine, id, placement, payload.as_deref())
                    .map_err(|error| error.to_string()),
                // Without an engine nothing was decided; the effect is repeated when there is one.
                None => return,
            },
            Err(error) => Err(error.to_string()),
        };
        match order {
            Ok(order) => self.backend.execute(BackendCommand::Prepare(Arc::new(order))),
            Err(reason) => self.refuse(id, placement.len(), &reason),
        }
    }

    fn refuse(&mut self, id: AttemptId, tasks: usize, reason: &str) {
        tracing::error!(%id, reason, "no order can be made for an attempt");
        let reason: Arc<str> = reason.into();
        let reports = (0..tasks).map(|rank| {
            let what = Observation::Refused { reason: reason.clone() };
            Event::Task(TaskReport { id, rank: Rank(rank as u32), observation: what })
        });
        self.pending.extend(reports);
    }
}
