//! Services: replicas are ready, restart, and are scaled up and down. Which replicas are guaranteed
//! is in the spec; that the opportunistic ones are ordered last is decided by the queue order.

use std::sync::Arc;

use muster_model::view::ServiceView;
use muster_model::{JobId, Outcome, Rank, Replicas, Restart, Span, Time, UserName, WorkloadKind};

use super::State;
use super::job::{AttemptFate, Element, JobRecord, Phase, Run, RunStage};

impl State {
    /// Scales a service. Replicas beyond the new maximum end; replicas ended by an earlier
    /// scale-down are requeued before new ones are created.
    pub(super) fn scaled(&mut self, now: Time, id: JobId, replicas: Replicas, by: &UserName) {
        let Some(job) = self.jobs.get(&id) else { return };
        let active: Vec<u32> = job.record.active_ordinals().collect();
        for ordinal in &active {
            self.preemptable.remove(&self.jobs, id, *ordinal);
        }
        let Some(job) = self.jobs.get_mut(&id) else { return };
        let record = &mut job.record;
        let WorkloadKind::Service(service) = &mut Arc::make_mut(&mut record.spec).kind else {
            return;
        };
        let old = std::mem::replace(&mut service.replicas, replicas);
        // 1. Create new replicas.
        for ordinal in record.total..replicas.max {
            let phase = record.waiting_phase(Time(0));
            let element = Element { phase, ..Element::waiting(false, Time(0)) };
            record.elements.insert(ordinal, Box::new(element));
        }
        record.total = record.total.max(replicas.max);
        record.next = record.total;
        for ordinal in active {
            self.preemptable.update(&self.jobs, id, ordinal);
        }
        // 2. Requeue replicas that were scaled down before, including those that are still
        //    stopping.
        for ordinal in old.max..replicas.max {
            let Some(job) = self.jobs.get_mut(&id) else { return };
            job.record.requeue_ended(ordinal);
            let element = job.record.elements.get_mut(&ordinal);
            let run = element.and_then(|element| element.run.as_mut());
            if let Some(fate) = run.and_then(|run| run.fate.as_mut())
                && matches!(fate, AttemptFate::Cancelled(_))
            {
                *fate = AttemptFate::Requeued;
            }
        }
        // 3. End replicas that are too many.
        for ordinal in replicas.max..old.max {
            let outcome = Outcome::Cancelled { by: by.clone() };
            match self.jobs.element_mut(id, ordinal).map(|element| &element.phase) {
                Some(Phase::Waiting { .. }) => self.end_element(now, id, ordinal, outcome),
                Some(Phase::Active) => self.stop(now, id, ordinal, AttemptFate::Cancelled(outcome)),
                Some(Phase::Ended { .. }) | None => {}
            }
        }
        self.sync_job(now, id);
        self.remove_if_over(now, id);
    }
}

impl Run {
    /// Marks a task as ready: it answers on its port.
    pub(super) fn mark_ready(&mut self, rank: Rank) {
        if let Some(task) = self.tasks.get_mut(rank.0 as usize) {
            task.ready = true;
        }
    }
}

impl JobRecord {
    /// True when guaranteed work waits; opportunistic replicas only use idle capacity and do not
    /// count.
    pub(crate) fn has_waiting(&self) -> bool {
        match self.spec.service() {
            None => self.waiting() > 0,
            Some(service) => {
                let mut floor = self.elements.range(..service.replicas.guaranteed);
                floor.any(|(_, element)| matches!(element.phase, Phase::Waiting { .. }))
            }
        }
    }

    /// True when all guaranteed elements have begun at least once.
    pub(crate) fn has_begun(&self) -> bool {
        match self.spec.service() {
            None => self.begun == self.total,
            Some(service) => {
                let mut floor = self.elements.range(..service.replicas.guaranteed.max(1));
                floor.all(|(_, element)| element.begun)
            }
        }
    }

    /// Returns the counts of replicas for views.
    pub(crate) fn service_view(&self) -> Option<ServiceView> {
        let service = self.spec.service()?;
        let count = |is: &dyn Fn(&Element) -> bool| {
            self.elements.values().filter(|element| is(element)).count() as u32
        };
        Some(ServiceView {
            guaranteed: service.replicas.guaranteed,
            max: service.replicas.max,
            ready: count(&|element| element.is_ready(service.port.is_some())),
            active: self.active,
            waiting: count(&|element| matches!(element.phase, Phase::Waiting { .. })),
            port: service.port,
        })
    }
}

impl Element {
    /// True when its tasks run and, if the service has a port, the first answers on it.
    fn is_ready(&self, has_port: bool) -> bool {
        let running = |run: &&Run| run.stage == RunStage::Running && self.phase == Phase::Active;
        let run = self.run.as_ref().filter(running);
        run.is_some_and(|run| !has_port || run.tasks.first().is_some_and(|task| task.ready))
    }

    /// Returns the restarts that count towards the next back-off: a run that was long enough resets
    /// them if the job always restarts.
    pub(super) fn restarts_after(&self, now: Time, restart: Restart) -> u32 {
        let started = self.run.as_ref().and_then(|run| run.started);
        let ran = started.map_or(Span(0), |started| now.since(started));
        if restart.always && ran >= Restart::HEALTHY_AFTER { 0 } else { self.restarts }
    }
}
