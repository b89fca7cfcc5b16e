//! What a plan decides, judged against the book and entered in it: starts, promises, and promises that are given up. It never plans.

use std::sync::Arc;

use muster_model::{
    AttemptId, Decision, ElementId, Eviction, EvictionCause, QueueSpec, TaskPlacement, Time, Topology,
    TopologyRule,
};

use super::{Book, Element, Job, Phase};
use crate::storm::attempt::Attempt;
use crate::storm::claims::{self, Claim};
use crate::storm::cover::Cover;
use crate::storm::{holdings, topology, windows};

impl Book {
    pub(super) fn decision(
        &mut self,
        at: Time,
        decision: &Decision,
        cover: &mut Cover,
    ) -> Result<(), String> {
        match decision {
            Decision::Start { id, placement, backfilled } => {
                self.start(at, *id, (placement, *backfilled), cover)
            }
            Decision::Claim { element, placement, evict } => self
                .claim(at, *element, (placement, evict), cover)
                .map_err(|what| format!("{element} is promised places: {what}")),
            Decision::Unclaim { element } => {
                claims::judge_end(self, *element)
                    .map_err(|what| format!("{element} is promised nothing any more: {what}"))?;
                cover.given_up += 1;
                self.claims.of.remove(element);
                Ok(())
            }
        }
    }

    /// Others are told to go for an element.
    fn claim(
        &mut self,
        at: Time,
        id: ElementId,
        (placement, evict): (&Arc<[TaskPlacement]>, &[Eviction]),
        cover: &mut Cover,
    ) -> Result<(), String> {
        let job = self.jobs.get(&id.job).ok_or("it is of no job")?;
        let element = job.elements.get(&id.index).ok_or("it is no element")?;
        let Phase::Waits { held: false, not_before } = element.phase else {
            return Err("it does not wait, or is held".to_owned());
        };
        if at < not_before.max(job.spec.begin.unwrap_or_default()) || !self.is_free(job) {
            return Err("it may not start yet".to_owned());
        }
        claims::judge(self, at, id, placement, evict)?;
        for eviction in evict {
            let victim = eviction.id.element;
            let lead = self.jobs[&victim.job].spec.checkpoint.map(|terms| terms.lead);
            if let Some(attempt) = self.attempt_mut(victim) {
                attempt.evict(at, lead);
            }
            *self.claims.went.entry((victim, id)).or_default() += 1;
            match eviction.cause {
                EvictionCause::Reclaimed => cover.reclaimed += 1,
                EvictionCause::Outranked => cover.outranked += 1,
                EvictionCause::Yielded => cover.yielded += 1,
                EvictionCause::Shrunk | EvictionCause::Grown | EvictionCause::Moved => {}
            }
        }
        // Those who go count no more; so judged, and only then does it count itself.
        let job = &self.jobs[&id.job];
        topology::judge(self, job, placement)?;
        holdings::judge_queues(self, (job, id.index), placement, at)
            .map_err(|what| format!("beyond {what}"))?;
        let claim = Claim { placement: Arc::clone(placement), since: at, intervened: false };
        self.claims.of.insert(id, claim);
        Ok(())
    }

    fn start(
        &mut self,
        at: Time,
        id: AttemptId,
        (placement, backfilled): (&Arc<[TaskPlacement]>, bool),
        cover: &mut Cover,
    ) -> Result<(), String> {
        let ElementId { job: number, index } = id.element;
        let job = self.jobs.get(&number).ok_or_else(|| format!("{id} starts and is of no job"))?;
        let element = job.elements.get(&index).ok_or_else(|| format!("{id} starts and is no element"))?;
        // 1. May it start?
        let Phase::Waits { held, not_before } = element.phase else {
            return Err(format!("{id} starts though it does not wait"));
        };
        if held {
            return Err(format!("{id} starts though it is held"));
        }
        if at < not_before.max(job.spec.begin.unwrap_or_default()) {
            return Err(format!("{id} starts before its time"));
        }
        if !self.is_free(job) {
            return Err(format!("{id} starts though it waits for another job"));
        }
        if id.attempt.0 != element.attempts + 1 {
            return Err(format!("{id} follows attempt {}", element.attempts));
        }
        let is_active = |element: &&Element| matches!(element.phase, Phase::Active(_));
        let active = job.elements.values().filter(is_active).count() as u32;
        if job.spec.array.as_ref().and_then(|array| array.max_running).is_some_and(|most| active >= most) {
            return Err(format!("{id} starts beyond the cap of its array"));
        }
        // 2. May it start there?
        match self.claims.of.get(&id.element) {
            Some(claim) if claim.placement != *placement => {
                return Err(format!("{id} starts elsewhere than it was promised"));
            }
            Some(_) => cover.kept += 1,
            None => {}
        }
        holdings::judge_start(self, job, id, placement, at)?;
        claims::judge_start(self, id.element, placement).map_err(|what| format!("{id} starts: {what}"))?;
        windows::judge_start(self, job, placement, at, cover)
            .map_err(|what| format!("{id} starts {what}"))?;
        let pays = |(_, queue): &(String, &QueueSpec)| queue.budget.is_some();
        cover.budgeted += u64::from(holdings::path_of(self, job).iter().any(pays));
        count_start(job, element, placement, backfilled, cover);
        // 3. It does.
        let promised = self.claims.of.remove(&id.element).is_some();
        let attempt = Attempt::new(id, Arc::clone(placement), at, promised);
        let Some(element) = self.jobs.get_mut(&number).and_then(|job| job.elements.get_mut(&index)) else {
            return Ok(());
        };
        element.attempts += 1;
        element.phase = Phase::Active(Box::new(attempt));
        Ok(())
    }
}

fn count_start(
    job: &Job,
    element: &Element,
    placement: &[TaskPlacement],
    backfilled: bool,
    cover: &mut Cover,
) {
    cover.starts += 1;
    cover.gangs += u64::from(placement.len() > 1);
    cover.groups += u64::from(job.spec.groups.len() > 1);
    cover.backfills += u64::from(backfilled);
    cover.replicas += u64::from(job.spec.service().is_some());
    cover.array_starts += u64::from(job.spec.array.is_some());
    cover.restarts += u64::from(element.attempts > 0);
    let wish = job.spec.constraint.topology.as_ref();
    let must_lie = |wish: &Topology| matches!(wish.rule, TopologyRule::Required(_)) || wish.segment.is_some();
    cover.together += u64::from(wish.is_some_and(must_lie));
    cover.shares += u64::from(placement.iter().any(|place| (1..1000).contains(&place.share.0)));
}
