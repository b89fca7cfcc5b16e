//! What a plan decides, judged against the book and entered in it: starts, promises, and promises
//! that are given up. It never plans.

use std::sync::Arc;

use muster_model::{
    AttemptId, Decision, ElementId, Eviction, EvictionCause, Plan, QueueSpec, TaskPlacement, Time,
    Topology, TopologyRule,
};

use super::{Book, Element, Job, Phase};
use crate::storm::attempt::Attempt;
use crate::storm::claims::{self, Claim};
use crate::storm::cover::Cover;
use crate::storm::{holdings, onward, owed, topology, windows};

impl Book {
    pub(super) fn plan(&mut self, at: Time, plan: &Plan, cover: &mut Cover) -> Result<(), String> {
        for decision in &plan.decisions {
            match decision {
                Decision::Start { id, placement, backfilled } => {
                    self.start(at, *id, (placement, *backfilled), cover)?;
                }
                Decision::Claim { element, placement, evict } => self
                    .claim((at, plan), *element, (placement, evict), cover)
                    .map_err(|what| format!("{element} is promised places: {what}"))?,
                Decision::Unclaim { element } => {
                    claims::judge_end(self, *element).map_err(|what| {
                        format!("{element} is promised nothing any more: {what}")
                    })?;
                    cover.given_up += 1;
                    self.claims.of.remove(element);
                }
            }
        }
        self.judge_keeps(plan, cover)?;
        if let Some((id, cause)) = self.claims.onward.pop_first() {
            return Err(format!("{id} goes, {cause:?}, and is not told where it goes on"));
        }
        for id in std::mem::take(&mut self.larger) {
            let Some(attempt) = self.attempt(id.element) else { continue };
            let whose = (&self.jobs[&id.element.job], id.element.index);
            holdings::judge_queues(self, whose, &attempt.placement, at)
                .map_err(|what| format!("{id} starts beyond {what}"))?;
            if let Some(attempt) = self.attempt_mut(id.element) {
                attempt.counts = true;
            }
        }
        for (id, places) in std::mem::take(&mut self.grown) {
            if let Some(waits) =
                self.jobs.get(&id).and_then(|job| owed::is_passed_by(self, job, &places, at))
            {
                return Err(format!("{id} gets larger, on what {waits} waits for"));
            }
        }
        Ok(())
    }

    /// Who becomes a head waits, and what is kept for one is not promised to another.
    fn judge_keeps(&self, plan: &Plan, cover: &mut Cover) -> Result<(), String> {
        for id in plan.heads.iter().chain(plan.keeps.iter().map(|keep| &keep.element)) {
            let element = self.jobs.get(&id.job).and_then(|job| job.elements.get(&id.index));
            let phase = element.map(|element| &element.phase);
            if !matches!(phase, Some(Phase::Waits { held: false, .. })) {
                return Err(format!("{id} is first in its queue and does not wait"));
            }
        }
        cover.heads += plan.heads.len() as u64;
        cover.kept_places += plan.keeps.len() as u64;
        for keep in &plan.keeps {
            let meets = |place: &TaskPlacement| {
                let is_same = |own: &TaskPlacement| {
                    own.node == place.node
                        && own.share.0 + place.share.0 > 1000
                        && !own.devices.and(place.devices).is_empty()
                };
                keep.placement.iter().any(is_same)
            };
            if let Some((id, _)) =
                self.claims.of.iter().find(|(_, claim)| claim.placement.iter().any(meets))
            {
                return Err(format!("{id} is promised what is kept for {}", keep.element));
            }
        }
        Ok(())
    }

    /// An element is promised places, and others are told to leave them; or it goes on by the same
    /// plan that made it go.
    fn claim(
        &mut self,
        (at, plan): (Time, &Plan),
        id: ElementId,
        (placement, evict): (&Arc<[TaskPlacement]>, &[Eviction]),
        cover: &mut Cover,
    ) -> Result<(), String> {
        // 1. Who goes on.
        match self.claims.onward.remove(&id) {
            Some(_) if !evict.is_empty() => return Err("it goes, and others for it".to_owned()),
            Some(EvictionCause::Moved) => {
                let attempt = self.attempt(id).ok_or("it does not run")?;
                onward::judge_new_place(attempt, placement)?;
                return self.promise(at, id, placement);
            }
            Some(_) => return Ok(()),
            None => {}
        }
        // 2. Who goes for itself, and who waits.
        match evict {
            [own] if own.cause == EvictionCause::Grown && own.id.element == id => {
                let attempt = self.attempt(id).filter(|attempt| attempt.id == own.id);
                let attempt = attempt.ok_or("it does not run")?;
                onward::judge_growth(self, (&self.jobs[&id.job], attempt), placement, at)?;
                let had = |place: &TaskPlacement| {
                    let meets = |own: &TaskPlacement| {
                        own.node == place.node && !own.devices.and(place.devices).is_empty()
                    };
                    attempt.placement.iter().any(meets)
                };
                let more = placement.iter().filter(|place| !had(place)).cloned().collect();
                self.grown.push((id.job, more));
                self.evict(at, id, own, cover);
            }
            [] => return Err("nobody goes for it, so it could start".to_owned()),
            _ => {
                self.may_claim(at, id)?;
                for eviction in evict {
                    claims::judge_eviction(self, at, id, placement, eviction)
                        .map_err(|why| format!("{} is to go: {why}", eviction.id))?;
                    self.evict(at, id, eviction, cover);
                    self.goes_on(at, plan, eviction)
                        .map_err(|why| format!("{} is to go on: {why}", eviction.id))?;
                }
            }
        }
        // 3. Those who go count no more; so judged, and only then does it count itself.
        self.promise(at, id, placement)
    }

    /// It waits, and could start if there were room.
    fn may_claim(&self, at: Time, id: ElementId) -> Result<(), &'static str> {
        let job = self.jobs.get(&id.job).ok_or("it is of no job")?;
        let element = job.elements.get(&id.index).ok_or("it is no element")?;
        let Phase::Waits { held: false, not_before } = element.phase else {
            return Err("it does not wait, or is held");
        };
        if at < not_before.max(job.spec.begin.unwrap_or_default()) || !self.is_free(job) {
            return Err("it may not start yet");
        }
        Ok(())
    }

    /// An attempt is told to go for an element.
    fn evict(&mut self, at: Time, by: ElementId, eviction: &Eviction, cover: &mut Cover) {
        let victim = eviction.id.element;
        let Some(job) = self.jobs.get(&victim.job) else { return };
        let lead = job.spec.checkpoint.map(|terms| terms.lead);
        if eviction.cause == EvictionCause::Moved
            && let Some(attempt) = self.attempt(victim)
        {
            self.moves.pay(at, onward::cost(job, attempt, at));
        }
        if let Some(attempt) = self.attempt_mut(victim) {
            attempt.evict(at, lead);
        }
        *self.claims.went.entry((victim, by)).or_default() += 1;
        match eviction.cause {
            EvictionCause::Reclaimed => cover.reclaimed += 1,
            EvictionCause::Outranked => cover.outranked += 1,
            EvictionCause::Yielded => cover.yielded += 1,
            EvictionCause::Shrunk => cover.shrunk += 1,
            EvictionCause::Grown => cover.grown += 1,
            EvictionCause::Moved => cover.moved += 1,
        }
    }

    /// The plan promises to who shrinks or is moved where it goes on. What a gang keeps counts from
    /// the moment at which it is told to leave the rest; who is moved is placed beside those for
    /// whom he goes.
    fn goes_on(&mut self, at: Time, plan: &Plan, eviction: &Eviction) -> Result<(), String> {
        let Eviction { id: AttemptId { element, .. }, cause } = *eviction;
        if !matches!(cause, EvictionCause::Shrunk | EvictionCause::Moved) {
            return Ok(());
        }
        self.claims.onward.insert(element, cause);
        let keeps = plan.decisions.iter().find_map(|decision| match decision {
            Decision::Claim { element: of, placement, .. } if *of == element => Some(placement),
            _ => None,
        });
        let keeps = keeps.ok_or("it is promised nothing")?;
        if cause == EvictionCause::Moved {
            return Ok(());
        }
        let attempt = self.attempt(element).ok_or("it does not run")?;
        onward::judge_shrink(self, (&self.jobs[&element.job], attempt), keeps)?;
        self.promise(at, element, keeps)
    }

    /// Promises places to an element, beside all that stays and was promised.
    fn promise(
        &mut self,
        at: Time,
        id: ElementId,
        placement: &Arc<[TaskPlacement]>,
    ) -> Result<(), String> {
        if self.claims.of.contains_key(&id) {
            return Err("it was promised places already".to_owned());
        }
        let job = self.jobs.get(&id.job).ok_or("it is of no job")?;
        if !onward::is_size(&job.spec, placement) {
            return Err(format!("{} of them", placement.len()));
        }
        topology::judge(self, job, placement)?;
        holdings::judge_queues(self, (job, id.index), placement, at)
            .map_err(|what| format!("beyond {what}"))?;
        claims::judge_start(self, id, placement)?;
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
        let element =
            job.elements.get(&index).ok_or_else(|| format!("{id} starts and is no element"))?;
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
        if job
            .spec
            .array
            .as_ref()
            .and_then(|array| array.max_running)
            .is_some_and(|most| active >= most)
        {
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
        // Within the limits of its queues, where what was promised counts already.
        let promised = self.claims.of.contains_key(&id.element);
        let is_larger = !promised && placement.len() as u32 > job.spec.min_tasks();
        if !promised && !is_larger {
            holdings::judge_queues(self, (job, index), placement, at)
                .map_err(|what| format!("{id} starts beyond {what}"))?;
        }
        claims::judge_start(self, id.element, placement)
            .map_err(|what| format!("{id} starts: {what}"))?;
        windows::judge_start(self, job, placement, at, cover)
            .map_err(|what| format!("{id} starts {what}"))?;
        let pays = |(_, queue): &(String, &QueueSpec)| queue.budget.is_some();
        cover.budgeted += u64::from(holdings::path_of(self, job).iter().any(pays));
        count_start(job, element, placement, backfilled, cover);
        // 3. It does.
        let spec = Arc::clone(&job.spec);
        self.claims.of.remove(&id.element);
        let mut attempt = Attempt::new(id, Arc::clone(placement), at, promised);
        if is_larger {
            attempt.counts = false;
            self.larger.push(id);
            // Which of them it has for its fewest is not known: whoever waits for any of them could
            // have had one.
            self.grown.push((number, onward::stretched(&spec, placement)));
        }
        let Some(element) = self.jobs.get_mut(&number).and_then(|job| job.elements.get_mut(&index))
        else {
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
    cover.larger += u64::from(placement.len() as u32 > job.spec.min_tasks());
    let wish = job.spec.constraint.topology.as_ref();
    let must_lie =
        |wish: &Topology| matches!(wish.rule, TopologyRule::Required(_)) || wish.segment.is_some();
    cover.together += u64::from(wish.is_some_and(must_lie));
    cover.shares += u64::from(placement.iter().any(|place| (1..1000).contains(&place.share.0)));
}
