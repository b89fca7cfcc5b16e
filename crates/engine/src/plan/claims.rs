//! Claims in a pass: what was promised is kept clear of everybody else, starts as soon as it is
//! free, and is given up when the world has made it impossible. Comes before everything else, in
//! every round.

use std::sync::Arc;

use muster_model::{AttemptId, Decision, ElementId, Span, TaskPlacement, Time, TopologyRule};

use super::{Planned, Planner};
use crate::state::attempt::attempt_id;
use crate::state::claim::Claim;
use crate::state::ends::End;
use crate::state::entries::Owner;
use crate::state::job::Phase;
use crate::state::node::{WHOLE, Window};
use crate::state::shape::Shape;

/// Places kept clear in every round.
#[derive(Clone, Debug)]
pub(super) struct Kept {
    pub(super) element: ElementId,
    pub(super) until: Time,
    pub(super) shape: Arc<Shape>,
    pub(super) placement: Arc<[TaskPlacement]>,
    /// Promised in this pass: the attempt that a start makes, and how long it may take.
    pub(super) fresh: Option<(AttemptId, Option<Span>)>,
}

/// What a pass can do about a claim.
enum Chance {
    Start,
    Wait,
    GiveUp,
}

impl Planner<'_> {
    /// Deals with the claims that the pass finds.
    pub(super) fn keep_claims(&mut self) {
        for (_, id, ordinal) in self.state.claims_in_order() {
            let job = &self.state.jobs[&id];
            let element = ElementId { job: id, index: job.record.index_of(ordinal) };
            let known = &job.record.elements[&ordinal];
            let Some(claim) = known.claim.as_deref().cloned() else { continue };
            let (attempt, leaf, user) = (known.attempt + 1, job.record.leaf, job.user);
            let duration = job.record.duration();
            let shape = Arc::clone(self.state.classes.shape(job.class));
            let until = duration.map_or(Time::NEVER, |span| self.now + span);
            match self.chance(element, &claim, &shape, until) {
                Chance::Start => {
                    // The cap of its array counts it already, as promised.
                    if let Some(slot) =
                        self.state.entries.slot(Owner { job: id, ordinal: Some(ordinal) })
                    {
                        *self.state.slate.started.by_slot.entry(slot).or_default() += 1;
                    }
                    let id = attempt_id(id, element.index, attempt);
                    let placement = Arc::clone(&claim.placement);
                    self.decisions.push(Decision::Start { id, placement, backfilled: false });
                    self.keeps = true;
                }
                Chance::Wait => {
                    let placement = Arc::clone(&claim.placement);
                    let slack =
                        self.last_end(element, &claim).map_or(Span(0), |last| last.since(self.now));
                    let until = until + slack;
                    self.keep(Kept { element, until, shape, placement, fresh: None });
                }
                Chance::GiveUp => {
                    self.state.policy.undo_hold(leaf, user, &claim.gpus);
                    self.state.slate.planned.push(Planned::Left { leaf, user, gpus: claim.gpus });
                    let is_active =
                        self.state.element(element).is_some_and(|one| one.phase == Phase::Active);
                    *self.given_up.entry(id).or_default() += u32::from(!is_active);
                    self.decisions.push(Decision::Unclaim { element });
                }
            }
        }
    }

    /// Keeps places clear from now on, in this round and those that follow.
    pub(super) fn keep(&mut self, kept: Kept) {
        self.claimed.insert(kept.element);
        self.book_kept(&kept);
        self.kept.push(kept);
    }

    /// Keeps everything clear again, at the beginning of a round, the oldest first. What was
    /// promised in this pass starts when all of it is free: those who go for it do so since they
    /// count, not since they are in the way.
    pub(super) fn keep_again(&mut self) {
        for kept in std::mem::take(&mut self.kept) {
            match kept.fresh {
                Some((id, duration)) if self.starts_at_once(&kept, duration) => {
                    let placement = Arc::clone(&kept.placement);
                    self.decisions.push(Decision::Start { id, placement, backfilled: false });
                }
                _ => {
                    self.book_kept(&kept);
                    self.kept.push(kept);
                }
            }
        }
    }

    /// Starts it on scratch, if all is free.
    fn starts_at_once(&mut self, kept: &Kept, duration: Option<Span>) -> bool {
        let until = duration.map_or(Time::NEVER, |span| self.now + span);
        let outer = self.state.pool.look_inside(kept.shape.window.as_ref());
        let starts = self.take_promised(kept.element, &kept.placement, &kept.shape, until);
        self.state.pool.look(outer);
        starts
    }

    fn book_kept(&mut self, kept: &Kept) {
        let (shape, placement) = (Arc::clone(&kept.shape), Arc::clone(&kept.placement));
        self.state.pool.book(kept.element, (self.now, kept.until), shape, placement);
    }

    /// Can it start, and if not, will it? A start is made on scratch. Who changes his size has to
    /// go first.
    fn chance(
        &mut self,
        element: ElementId,
        claim: &Claim,
        shape: &Arc<Shape>,
        until: Time,
    ) -> Chance {
        let outer = self.state.pool.look_inside(shape.window.as_ref());
        let is_over = self.state.element(element).is_none_or(|known| known.phase != Phase::Active);
        // A window that it names may have been taken back, or given other times.
        let is_open = self.state.opens(&self.state.jobs[&element.job], self.now) <= self.now;
        let is_sound = is_open && self.is_sound(&claim.placement, shape, until);
        let starts =
            is_over && is_sound && self.take_promised(element, &claim.placement, shape, until);
        self.state.pool.look(outer);
        if starts {
            return Chance::Start;
        }
        if is_sound && self.last_end(element, claim).is_some() {
            Chance::Wait
        } else {
            Chance::GiveUp
        }
    }

    /// True when nodes and devices are there and stay so, whoever holds them, and lie in domains as
    /// a shape asks.
    pub(super) fn is_sound(&self, placement: &[TaskPlacement], shape: &Shape, until: Time) -> bool {
        let pool = &self.state.pool;
        let is_there = placement.iter().all(|task| {
            let walls = &pool.node(task.node).walls;
            let usable = pool.node(task.node).usable.minus(walls.during(self.now, until));
            let is_open = pool.node(task.node).hosts() && !walls.is_closed(self.now, until);
            is_open && task.devices.minus(usable).is_empty()
        });
        is_there && self.is_together(placement, shape)
    }

    /// True when places are as near to each other as a shape must have it: nodes may have changed
    /// their domains.
    fn is_together(&self, placement: &[TaskPlacement], shape: &Shape) -> bool {
        let Some(wish) = &shape.topology else { return true };
        let in_one = |tasks: &[&TaskPlacement], level: &str| {
            let Some(level) = self.state.pool.domains.level(level) else { return false };
            let mut domains = tasks.iter().map(|task| self.state.pool.scope_at(task.node, level));
            let first = domains.next().flatten();
            tasks.is_empty() || first.is_some() && domains.all(|domain| domain == first)
        };
        let all: Vec<&TaskPlacement> = placement.iter().collect();
        let is_one = match &wish.rule {
            TopologyRule::Required(level) => in_one(&all, level),
            TopologyRule::Anywhere | TopologyRule::Preferred(_) | TopologyRule::Spread(_) => true,
        };
        // Ranks of a group follow each other.
        let groups = all.chunk_by(|one, next| one.group == next.group);
        is_one
            && wish.segment.as_ref().is_none_or(|segment| {
                let mut slices =
                    groups.flat_map(|tasks| tasks.chunks(segment.tasks.max(1) as usize));
                slices.all(|slice| in_one(slice, &segment.level))
            })
    }

    /// Holds what was promised, if all of it is free.
    pub(super) fn take_promised(
        &mut self,
        element: ElementId,
        placement: &Arc<[TaskPlacement]>,
        shape: &Arc<Shape>,
        until: Time,
    ) -> bool {
        let window = Window { now: self.now, from: self.now, until };
        let end = match until {
            Time::NEVER => End::Never,
            _ => End::After(until.since(self.now)),
        };
        let pool = &mut self.state.pool;
        let checkpoint = pool.checkpoint();
        let key = pool.open(element, end, Arc::clone(shape));
        for task in placement.iter() {
            let node = pool.node(task.node);
            let has_devices = match task.share.0 as u16 {
                WHOLE => task.devices.minus(node.free_during(window)).is_empty(),
                share => {
                    task.devices.iter().all(|device| node.share_during(device, window) >= share)
                }
            };
            let scalars = &shape.groups[usize::from(task.group)].scalars;
            if !node.hosts() || !has_devices || node.scalar_fits(scalars, window) == 0 {
                pool.rollback(checkpoint);
                return false;
            }
            pool.grant(key, task);
        }
        pool.close(key, Arc::clone(placement));
        true
    }

    /// When the last has gone at the latest of those who go for it, or leave a node of its places
    /// for another: he may have taken what was free of them.
    fn last_end(&self, of: ElementId, claim: &Claim) -> Option<Time> {
        let own = self.state.leaving_for(claim).map(|(id, _)| id.element).chain([of]);
        let nodes = claim.placement.iter().map(|task| self.state.pool.node(task.node));
        let there = nodes
            .flat_map(|node| &node.holds)
            .map(|hold| self.state.pool.holding(hold.key).element);
        let runs = own.chain(there).filter_map(|id| self.state.element(id)?.run.as_ref());
        let leaving = runs.filter(|run| run.leaving.is_some());
        leaving.map(|run| End::from(run.end).at(self.now)).max()
    }
}
