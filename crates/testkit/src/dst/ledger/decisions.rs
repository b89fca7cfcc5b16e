//! Decisions of a plan, checked against the ledger and applied to it: starts, nominations, and
//! dropped nominations.

use std::sync::Arc;

use muster_model::{
    AttemptId, Decision, ElementId, Eviction, EvictionCause, JobSpec, Plan, QueueSpec,
    TaskPlacement, Time, Topology, TopologyRule,
};

use super::nominations::{self, NominatedPlacement};
use super::{ElementPhase, Ledger, LedgerElement, LedgerJob};
use super::{continuation, holdings, queue_path, reclaimable, reservations, topology};
use crate::dst::attempt::LedgerAttempt;
use crate::dst::coverage::Coverage;

impl Ledger {
    pub(super) fn plan(
        &mut self,
        at: Time,
        plan: &Plan,
        coverage: &mut Coverage,
    ) -> Result<(), String> {
        for decision in &plan.decisions {
            match decision {
                Decision::Start { id, placement, backfilled } => {
                    self.start(at, *id, (placement, *backfilled), coverage)?;
                }
                Decision::Nominate { element, placement, evict } => self
                    .nominate((at, plan), *element, (placement, evict), coverage)
                    .map_err(|what| format!("{element} is nominated: {what}"))?,
                Decision::Revoke { element } => {
                    nominations::check_end(self, *element).map_err(|what| {
                        format!("the nomination of {element} is dropped: {what}")
                    })?;
                    coverage.nominations_dropped += 1;
                    self.nominations.of.remove(element);
                }
            }
        }
        self.check_keeps(plan, coverage)?;
        if let Some((id, cause)) = self.nominations.continuation.pop_first() {
            return Err(format!("{id} is evicted, {cause:?}, without a place to continue"));
        }
        for id in std::mem::take(&mut self.larger) {
            let Some(attempt) = self.attempt(id.element) else { continue };
            let whose = (&self.jobs[&id.element.job], id.element.index);
            holdings::check_queues(self, whose, &attempt.placement, at)
                .map_err(|what| format!("{id} starts and exceeds {what}"))?;
            if let Some(attempt) = self.attempt_mut(id.element) {
                attempt.counts = true;
            }
        }
        for (id, places) in std::mem::take(&mut self.grown) {
            if let Some(waits) =
                self.jobs.get(&id).and_then(|job| reclaimable::bypassed_job(self, job, &places, at))
            {
                return Err(format!("{id} grows onto what {waits} waits for"));
            }
        }
        Ok(())
    }

    /// Checks that new heads are pending, and that resources reserved for a head are not nominated
    /// for another.
    fn check_keeps(&self, plan: &Plan, coverage: &mut Coverage) -> Result<(), String> {
        for id in plan.heads.iter().chain(plan.head_reservations.iter().map(|keep| &keep.element)) {
            let element = self.jobs.get(&id.job).and_then(|job| job.elements.get(&id.index));
            let phase = element.map(|element| &element.phase);
            if !matches!(phase, Some(ElementPhase::Pending { held: false, .. })) {
                return Err(format!("{id} is the head of its queue and not pending"));
            }
        }
        coverage.heads += plan.heads.len() as u64;
        coverage.kept_places += plan.head_reservations.len() as u64;
        for keep in &plan.head_reservations {
            let meets = |place: &TaskPlacement| {
                let is_same = |own: &TaskPlacement| {
                    own.node == place.node
                        && own.share.0 + place.share.0 > 1000
                        && !own.devices.and(place.devices).is_empty()
                };
                keep.placement.iter().any(is_same)
            };
            if let Some((id, _)) = self
                .nominations
                .of
                .iter()
                .find(|(_, nomination)| nomination.placement.iter().any(meets))
            {
                return Err(format!("{id} is nominated for what is reserved for {}", keep.element));
            }
        }
        Ok(())
    }

    /// Checks a nomination with its evictions, or the continuation of an attempt that the same plan
    /// evicts.
    fn nominate(
        &mut self,
        (at, plan): (Time, &Plan),
        id: ElementId,
        (placement, evict): (&Arc<[TaskPlacement]>, &[Eviction]),
        coverage: &mut Coverage,
    ) -> Result<(), String> {
        // 1. An attempt that continues.
        match self.nominations.continuation.remove(&id) {
            Some(_) if !evict.is_empty() => {
                return Err("it is evicted, and others for it".to_owned());
            }
            Some(EvictionCause::Moved) => {
                let attempt = self.attempt(id).ok_or("it does not run")?;
                continuation::check_new_place(attempt, placement)?;
                return self.record_nomination(at, id, placement);
            }
            Some(_) => return Ok(()),
            None => {}
        }
        // 2. An attempt evicted for itself, or a pending element.
        match evict {
            [own] if own.cause == EvictionCause::Grown && own.id.element == id => {
                let attempt = self.attempt(id).filter(|attempt| attempt.id == own.id);
                let attempt = attempt.ok_or("it does not run")?;
                continuation::check_growth(self, (&self.jobs[&id.job], attempt), placement, at)?;
                let had = |place: &TaskPlacement| {
                    let meets = |own: &TaskPlacement| {
                        own.node == place.node && !own.devices.and(place.devices).is_empty()
                    };
                    attempt.placement.iter().any(meets)
                };
                let more = placement.iter().filter(|place| !had(place)).cloned().collect();
                self.grown.push((id.job, more));
                self.evict(at, id, own, coverage);
            }
            [] => return Err("it needs no eviction, so it could start".to_owned()),
            _ => {
                self.check_nominee(at, id)?;
                for eviction in evict {
                    nominations::check_eviction(self, at, id, placement, eviction)
                        .map_err(|why| format!("{} is evicted: {why}", eviction.id))?;
                    self.evict(at, id, eviction, coverage);
                    self.check_continuation(at, plan, eviction)
                        .map_err(|why| format!("{} continues: {why}", eviction.id))?;
                }
            }
        }
        // 3. Evicted attempts no longer count; only then is the element counted itself.
        self.record_nomination(at, id, placement)
    }

    /// Checks that the element is pending and could start if it fitted.
    fn check_nominee(&self, at: Time, id: ElementId) -> Result<(), &'static str> {
        let job = self.jobs.get(&id.job).ok_or("its job does not exist")?;
        let element = job.elements.get(&id.index).ok_or("it does not exist")?;
        let ElementPhase::Pending { held: false, not_before } = element.phase else {
            return Err("it is not pending, or held");
        };
        if at < not_before.max(job.spec.begin.unwrap_or_default()) || !self.is_free(job) {
            return Err("it may not start yet");
        }
        Ok(())
    }

    fn evict(&mut self, at: Time, by: ElementId, eviction: &Eviction, coverage: &mut Coverage) {
        let victim = eviction.id.element;
        let Some(job) = self.jobs.get(&victim.job) else { return };
        let lead = job.spec.checkpoint.map(|terms| terms.lead);
        if eviction.cause == EvictionCause::Moved
            && let Some(attempt) = self.attempt(victim)
        {
            self.moves.pay(at, continuation::cost(job, attempt, at));
        }
        if let Some(attempt) = self.attempt_mut(victim) {
            attempt.evict(at, lead);
        }
        *self.nominations.evictions.entry((victim, by)).or_default() += 1;
        match eviction.cause {
            EvictionCause::Reclaimed => coverage.reclaimed += 1,
            EvictionCause::Outranked => coverage.outranked += 1,
            EvictionCause::Opportunistic => coverage.yielded += 1,
            EvictionCause::Shrunk => coverage.shrunk += 1,
            EvictionCause::Grown => coverage.grown += 1,
            EvictionCause::Moved => coverage.moved += 1,
        }
    }

    /// Checks that the plan nominates the place where a shrunk or moved attempt continues. What a
    /// shrunk gang keeps counts from its eviction on; a moved one is placed beside the claimant.
    fn check_continuation(
        &mut self,
        at: Time,
        plan: &Plan,
        eviction: &Eviction,
    ) -> Result<(), String> {
        let Eviction { id: AttemptId { element, .. }, cause } = *eviction;
        if !matches!(cause, EvictionCause::Shrunk | EvictionCause::Moved) {
            return Ok(());
        }
        self.nominations.continuation.insert(element, cause);
        let keeps = plan.decisions.iter().find_map(|decision| match decision {
            Decision::Nominate { element: of, placement, .. } if *of == element => Some(placement),
            _ => None,
        });
        let keeps = keeps.ok_or("it gets no nomination")?;
        if cause == EvictionCause::Moved {
            return Ok(());
        }
        let attempt = self.attempt(element).ok_or("it does not run")?;
        continuation::check_shrink(self, (&self.jobs[&element.job], attempt), keeps)?;
        self.record_nomination(at, element, keeps)
    }

    /// Records a nomination, beside everything that stays or is nominated.
    fn record_nomination(
        &mut self,
        at: Time,
        id: ElementId,
        placement: &Arc<[TaskPlacement]>,
    ) -> Result<(), String> {
        if self.nominations.of.contains_key(&id) {
            return Err("it has a nomination already".to_owned());
        }
        let job = self.jobs.get(&id.job).ok_or("its job does not exist")?;
        if !continuation::is_size(&job.spec, placement) {
            return Err(format!("{} tasks are not a valid size", placement.len()));
        }
        topology::check(self, job, placement)?;
        holdings::check_queues(self, (job, id.index), placement, at)
            .map_err(|what| format!("beyond {what}"))?;
        nominations::check_start(self, id, placement)?;
        let nomination =
            NominatedPlacement { placement: Arc::clone(placement), since: at, is_outdated: false };
        self.nominations.of.insert(id, nomination);
        Ok(())
    }

    fn start(
        &mut self,
        at: Time,
        id: AttemptId,
        (placement, backfilled): (&Arc<[TaskPlacement]>, bool),
        coverage: &mut Coverage,
    ) -> Result<(), String> {
        self.check_ready(at, id)?;
        self.check_placement(at, id, placement, coverage)?;
        let ElementId { job: number, index } = id.element;
        let job = &self.jobs[&number];
        let pays = |(_, queue): &(String, &QueueSpec)| queue.budget.is_some();
        coverage.budgeted += u64::from(queue_path::path_of(self, job).iter().any(pays));
        count_start(job, &job.elements[&index], placement, backfilled, coverage);
        let spec = Arc::clone(&job.spec);
        let nominated = self.nominations.of.remove(&id.element).is_some();
        let mut attempt = LedgerAttempt::new(id, Arc::clone(placement), at, nominated);
        if !nominated && is_above_minimum(&spec, placement) {
            attempt.counts = false;
            self.larger.push(id);
            // The plan does not tell which tasks are the minimum, so all places count as growth: a
            // pending job that fits on any of them could have had it.
            self.grown.push((number, continuation::elastic_places(&spec, placement)));
        }
        let Some(element) = self.jobs.get_mut(&number).and_then(|job| job.elements.get_mut(&index))
        else {
            return Ok(());
        };
        element.attempts += 1;
        element.phase = ElementPhase::Active(Box::new(attempt));
        Ok(())
    }

    /// Checks that an element may start at this instant, as this attempt.
    fn check_ready(&self, at: Time, id: AttemptId) -> Result<(), String> {
        let ElementId { job, index } = id.element;
        let job = self.jobs.get(&job).ok_or_else(|| format!("{id} starts without a job"))?;
        let element =
            job.elements.get(&index).ok_or_else(|| format!("{id} starts without an element"))?;
        let ElementPhase::Pending { held, not_before } = element.phase else {
            return Err(format!("{id} starts though it is not pending"));
        };
        if held {
            return Err(format!("{id} starts though it is held"));
        }
        if at < not_before.max(job.spec.begin.unwrap_or_default()) {
            return Err(format!("{id} starts before its earliest time"));
        }
        if !self.is_free(job) {
            return Err(format!("{id} starts before its dependencies"));
        }
        if id.attempt.0 != element.attempts + 1 {
            return Err(format!("{id} follows attempt {}", element.attempts));
        }
        let is_active = |element: &&LedgerElement| matches!(element.phase, ElementPhase::Active(_));
        let active = job.elements.values().filter(is_active).count() as u32;
        let cap = job.spec.array.as_ref().and_then(|array| array.max_running);
        if cap.is_some_and(|most| active >= most) {
            return Err(format!("{id} starts beyond the cap of its array"));
        }
        Ok(())
    }

    /// Checks that an attempt may start on these places.
    fn check_placement(
        &self,
        at: Time,
        id: AttemptId,
        placement: &Arc<[TaskPlacement]>,
        coverage: &mut Coverage,
    ) -> Result<(), String> {
        let job = &self.jobs[&id.element.job];
        let nomination = self.nominations.of.get(&id.element);
        match nomination {
            Some(nomination) if nomination.placement != *placement => {
                return Err(format!("{id} starts on other places than nominated"));
            }
            Some(_) => coverage.nominations_kept += 1,
            None => {}
        }
        holdings::check_start(self, job, id, placement, at)?;
        // Within the limits of its queues; a nominated placement counts there already, and one
        // above the minimum size is checked at the end of the plan.
        if nomination.is_none() && !is_above_minimum(&job.spec, placement) {
            holdings::check_queues(self, (job, id.element.index), placement, at)
                .map_err(|what| format!("{id} starts and exceeds {what}"))?;
        }
        nominations::check_start(self, id.element, placement)
            .map_err(|what| format!("{id} starts: {what}"))?;
        reservations::check_start(self, job, placement, at, coverage)
            .map_err(|what| format!("{id} starts {what}"))
    }
}

fn is_above_minimum(spec: &JobSpec, placement: &[TaskPlacement]) -> bool {
    placement.len() as u32 > spec.min_tasks()
}

fn count_start(
    job: &LedgerJob,
    element: &LedgerElement,
    placement: &[TaskPlacement],
    backfilled: bool,
    coverage: &mut Coverage,
) {
    coverage.starts += 1;
    coverage.gangs += u64::from(placement.len() > 1);
    coverage.groups += u64::from(job.spec.groups.len() > 1);
    coverage.backfills += u64::from(backfilled);
    coverage.replicas += u64::from(job.spec.service().is_some());
    coverage.array_starts += u64::from(job.spec.array.is_some());
    coverage.restarts += u64::from(element.attempts > 0);
    coverage.larger += u64::from(is_above_minimum(&job.spec, placement));
    let wish = job.spec.constraint.topology.as_ref();
    let must_lie =
        |wish: &Topology| matches!(wish.rule, TopologyRule::Required(_)) || wish.segment.is_some();
    coverage.topology_starts += u64::from(wish.is_some_and(must_lie));
    coverage.shares += u64::from(placement.iter().any(|place| (1..1000).contains(&place.share.0)));
}
