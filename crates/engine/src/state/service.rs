//! Services: replicas that answer, restart, and come and go by number. Which of them are the floor
//! is in the spec; that the others come last is the order's business, not this file's.

use std::sync::Arc;

use muster_model::view::ServiceView;
use muster_model::{JobId, Kind, Outcome, Rank, Replicas, Restart, Span, Time, UserName};

use super::State;
use super::job::{Element, Fate, JobRecord, Phase, Run, RunStage};

impl State {
    /// A service has so many replicas from now on. Those beyond the new ceiling end; those that an
    /// earlier call ended come back before new ones are made.
    pub(super) fn scaled(&mut self, now: Time, id: JobId, replicas: Replicas, by: &UserName) {
        let active = self.active_ordinals(id);
        for ordinal in &active {
            self.untrack(id, *ordinal);
        }
        let Some(job) = self.jobs.get_mut(&id) else { return };
        let record = &mut job.record;
        let Kind::Service(service) = &mut Arc::make_mut(&mut record.spec).kind else { return };
        let old = std::mem::replace(&mut service.replicas, replicas);
        // 1. New ones.
        for ordinal in record.total..replicas.ceiling {
            let phase = record.waiting_phase(Time(0));
            let element = Element { phase, ..Element::waiting(false, Time(0)) };
            record.elements.insert(ordinal, Box::new(element));
        }
        record.total = record.total.max(replicas.ceiling);
        record.next = record.total;
        for ordinal in active {
            self.track(id, ordinal);
        }
        // 2. Those that were taken away and come back, if only from their end.
        for ordinal in old.ceiling..replicas.ceiling {
            self.revive(id, ordinal);
            let run = self.element_mut(id, ordinal).and_then(|element| element.run.as_mut());
            if let Some(fate) = run.and_then(|run| run.fate.as_mut())
                && matches!(fate, Fate::Cancelled(_))
            {
                *fate = Fate::Requeued;
            }
        }
        // 3. Those that are too many.
        for ordinal in replicas.ceiling..old.ceiling {
            let outcome = Outcome::Cancelled { by: by.clone() };
            match self.element_mut(id, ordinal).map(|element| &element.phase) {
                Some(Phase::Waiting { .. }) => self.end_element(now, id, ordinal, outcome),
                Some(Phase::Active) => self.stop(now, id, ordinal, Fate::Cancelled(outcome)),
                Some(Phase::Ended { .. }) | None => {}
            }
        }
        self.sync_job(now, id);
        self.leave_if_over(now, id);
    }

    /// A task answers on its port.
    pub(super) fn answers(&mut self, id: JobId, ordinal: u32, rank: Rank) {
        let Some(element) = self.element_mut(id, ordinal) else { return };
        let tasks = element.run.as_mut().map(|run| &mut run.tasks);
        if let Some(task) = tasks.and_then(|tasks| tasks.get_mut(rank.0 as usize)) {
            task.ready = true;
        }
    }
}

impl JobRecord {
    /// Something waits that its user has asked for; a burst only takes what is left over.
    pub(crate) fn has_waiting(&self) -> bool {
        match self.spec.service() {
            None => self.waiting() > 0,
            Some(service) => {
                let mut floor = self.elements.range(..service.replicas.floor);
                floor.any(|(_, element)| matches!(element.phase, Phase::Waiting { .. }))
            }
        }
    }

    /// All that it promises to be has begun at least once.
    pub(crate) fn has_begun(&self) -> bool {
        match self.spec.service() {
            None => self.begun == self.total,
            Some(service) => {
                let mut floor = self.elements.range(..service.replicas.floor.max(1));
                floor.all(|(_, element)| element.begun)
            }
        }
    }

    /// Counts of replicas.
    pub(crate) fn service_view(&self) -> Option<ServiceView> {
        let service = self.spec.service()?;
        let count = |is: &dyn Fn(&Element) -> bool| {
            self.elements.values().filter(|element| is(element)).count() as u32
        };
        Some(ServiceView {
            floor: service.replicas.floor,
            ceiling: service.replicas.ceiling,
            ready: count(&|element| element.is_ready(service.port.is_some())),
            active: self.active,
            waiting: count(&|element| matches!(element.phase, Phase::Waiting { .. })),
            port: service.port,
        })
    }
}

impl Element {
    /// Its tasks run, and the first answers where it has a port.
    fn is_ready(&self, has_port: bool) -> bool {
        let running = |run: &&Run| run.stage == RunStage::Running && self.phase == Phase::Active;
        let run = self.run.as_ref().filter(running);
        run.is_some_and(|run| !has_port || run.tasks.first().is_some_and(|task| task.ready))
    }

    /// Restarts that count for the next wait: what ran long enough begins anew where it always
    /// restarts.
    pub(super) fn restarts_after(&self, now: Time, restart: Restart) -> u32 {
        let started = self.run.as_ref().and_then(|run| run.started);
        let ran = started.map_or(Span(0), |started| now.since(started));
        match restart.always && ran >= Restart::HEALTHY_AFTER {
            true => 0,
            false => self.restarts,
        }
    }
}
