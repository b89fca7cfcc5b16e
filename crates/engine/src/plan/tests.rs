//! Caches do not change plans: a planner with the limit cache, one that judges every entry, and one
//! without quick rejection start the same elements; and a planner with the plan cache of the pass
//! before makes the same plan as one without.

use std::sync::Arc;

use muster_model::job::GpuRequest;
use muster_model::queue::{Backfill, PlannedRuntimes, Preemption, QueueBudget, QueueLimits};
use muster_model::{
    Array, AttemptId, Event, GpuModel, JobId, JobSpec, Observation, Plan, QueueSpec, QueueTree,
    Rank, Span, TaskExit, TaskReport, Time,
};
use proptest::prelude::*;

use super::{Planner, PlanningPass};
use crate::fixture::{node, spec};
use crate::state::State;
use crate::validate::validate_event;

/// Generator of choices from one seed.
struct PlanTestRng(u64);

impl PlanTestRng {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % bound
    }

    fn maybe(&mut self, percent: u64, bound: u64) -> Option<u64> {
        (self.below(100) < percent).then(|| self.below(bound))
    }
}

/// Returns a random tree: tight limits nearly everywhere, with borrowing and lending between
/// siblings; or no limits and no preemption.
fn random_tree(rng: &mut PlanTestRng, is_limited: bool) -> QueueTree {
    let often = |percent: u64| if is_limited { percent } else { 0 };
    let mut leaf = |name: &str| {
        let mut queue = QueueSpec::named(name);
        queue.weight = 1 + rng.below(3) as u32;
        if let Some(gpus) = rng.maybe(often(60), 6) {
            queue.quota.insert("h100".into(), gpus);
            queue.borrow = rng.maybe(60, 4);
            queue.lend = rng.maybe(40, 3);
        }
        queue.limits = QueueLimits {
            pending_jobs: None,
            running_jobs: rng.maybe(often(40), 6).map(|jobs| 1 + jobs as u32),
            gpus_per_user: rng.maybe(often(50), 6).map(|gpus| 1 + gpus),
            time: None,
            borrowed_time: None,
        };
        if !queue.quota.is_empty() {
            queue.limits.borrowed_time = rng.maybe(50, 60).map(Span::from_secs);
        }
        queue.budget = rng.maybe(often(40), 2).map(|more| QueueBudget {
            gpu_hours: Some(1 + more),
            gpu_hours_per_user: rng.maybe(50, 1).map(|more| 1 + more),
            every: Span::from_secs(3600),
            start: Time(0),
        });
        queue
    };
    let mut team = QueueSpec::named("team");
    team.queues = vec![leaf("red"), leaf("blue")];
    let mut tree = QueueTree::single();
    tree.queues = vec![leaf("default"), team, leaf("solo")];
    if !is_limited {
        tree.preemption = Preemption::OFF;
    }
    tree.reclaim_after = Span::from_secs(rng.below(20));
    tree.fair_share_after = rng.maybe(50, 30).map(Span::from_secs);
    tree.backfill = match rng.below(4) {
        0 => Backfill::None,
        1 => Backfill::Conservative { depth: 3 },
        _ => Backfill::Easy,
    };
    if tree.queues.len().is_multiple_of(2) {
        tree.estimates = PlannedRuntimes::Predicted;
    }
    tree
}

fn random_spec(rng: &mut PlanTestRng) -> JobSpec {
    let mut spec = spec(1 + rng.below(3) as u32);
    spec.user = ["ann", "bob", "cy"][rng.below(3) as usize].into();
    spec.queue =
        ["default", "team/red", "team/red", "team/blue", "solo"][rng.below(5) as usize].into();
    spec.priority = rng.maybe(20, 2).map_or(0, |priority| priority as i32);
    spec.time_limit = rng.maybe(80, 8).map(|more| Span::from_secs(20 + 30 * more));
    // Of some a run time is expected, with and without a limit.
    spec.expected_runtime = match spec.time_limit {
        Some(limit) => (limit.as_secs() % 4 == 0).then_some(Span(limit.0 / 3)),
        None => (spec.user.as_str() == "cy").then_some(Span::from_secs(40)),
    };
    let gpu = &mut spec.groups[0].task.gpu;
    *gpu = GpuRequest::whole([0, 1, 1, 2, 4][rng.below(5) as usize]);
    if gpu.devices > 0 {
        let models: &[&str] = [&[][..], &["h100"], &["a100", "h100"]][rng.below(3) as usize];
        gpu.models = models.iter().map(|model| GpuModel::from(*model)).collect();
    }
    let last = rng.maybe(10, 90);
    spec.array = last.map(|last| Array::range(0, last as u32, 1, None));
    spec
}

/// Numbers of cached results that planners used.
#[derive(Clone, Copy, Debug, Default)]
struct CacheUse {
    /// Refusals cached in a pass.
    refusals: usize,
    /// Reservations of the pass before that were reused.
    reservations: usize,
    /// Reservations reused although the pass before started something.
    after_starts: usize,
}

/// State with the planner that has planned for it so far.
struct Planned {
    state: State,
    planner: Planner,
}

impl Planned {
    fn commit(&mut self, now: Time, plan: &Plan) {
        self.planner.commit(&mut self.state, now, plan);
    }

    /// Returns the plan, compared with those of planners with fewer caches; and what was cached.
    fn compare(&mut self, now: Time) -> (Plan, CacheUse) {
        let state = &mut self.state.clone();
        let planner = &mut Planner::default();
        let uncached = planner.plan(state, now);
        let wake_times = planner.outlook().wake_times;
        // Without deferred starts: when they are detected depends on which entries are visited.
        let cached = planner.passes(state, now, |pass| pass.pass_starts.is_watched = false).1;
        let judging_all = planner.passes(state, now, |pass| {
            pass.pass_starts.is_watched = false;
            pass.cache.limits.is_disabled = true;
        });
        let judging_all = judging_all.1;
        let visiting_all = planner.passes(state, now, |pass| {
            pass.pass_starts.is_watched = false;
            pass.visits_all = true;
        });
        assert_eq!(
            cached.decisions, visiting_all.1.decisions,
            "an entry that can start was rejected"
        );
        // Reservations may differ: a planner that visits more refused entries may run one round
        // more, which starts nothing else, but in which an entry that has met a limit since loses
        // its reservation.
        assert_eq!(cached.decisions, judging_all.decisions);
        let mut pass = PlanningPass::new(state, planner, now);
        pass.run(|_| false);
        let refusals = pass.cache.limits.len();
        pass.finish();
        let plan = self.planner.plan(&mut self.state, now);
        assert_eq!(plan, uncached, "the plan cache changed the plan");
        assert_eq!(self.planner.outlook().wake_times, wake_times);
        let reservations = self.planner.cache.reused();
        (plan, CacheUse { refusals, reservations, after_starts: 0 })
    }
}

/// Runs a random sequence of submissions and ends; returns what was cached in all its passes.
fn run_random(seed: u64, steps: usize, is_limited: bool) -> CacheUse {
    let mut rng = PlanTestRng(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
    let Ok(state) = State::new(random_tree(&mut rng, is_limited)) else {
        return CacheUse::default();
    };
    let mut planned = Planned { state, planner: Planner::default() };
    let mut now = Time(1000);
    let mut next = 1;
    let mut total = CacheUse::default();
    for (at, model) in ["h100", "h100", "a100"].into_iter().enumerate() {
        let joined = node(&format!("n{at}"), 1 + rng.below(8) as usize, model);
        planned.state.apply(now, &Event::NodeJoined(Box::new(joined)));
    }
    let mut running = Vec::new();
    let mut has_started = false;
    for step in 0..steps {
        // 1. Many submissions at first, so that whole users are skipped where there are limits;
        //    then a few.
        let first = if is_limited { 150 } else { 60 };
        for _ in 0..if step == 0 { first } else { rng.below(4) } {
            let event =
                Event::Submitted { job: JobId(next), spec: Arc::new(random_spec(&mut rng)) };
            if validate_event(&planned.state, &event).is_ok() {
                planned.state.apply(now, &event);
                next += 1;
            }
        }
        // 2. Some running jobs end.
        for _ in 0..rng.below(2) * rng.below(4) {
            end_one(&mut planned.state, now, &mut running, &mut rng);
        }
        // 3. Compare the planners; a job may end before the plan is committed.
        let (plan, cached) = planned.compare(now);
        total.refusals += cached.refusals;
        total.reservations += cached.reservations;
        total.after_starts += if has_started { cached.reservations } else { 0 };
        has_started = !plan.decisions.is_empty();
        if !is_limited && rng.below(8) == 0 {
            end_one(&mut planned.state, now, &mut running, &mut rng);
        }
        planned.commit(now, &plan);
        // 4. Most report that they run, so that their ends become fixed; some only after another
        //    pass.
        for (id, placement, _) in plan.starts() {
            if seed.is_multiple_of(8) && rng.below(4) == 0 {
                continue;
            }
            if rng.below(8) == 0 {
                let (more, _) = planned.compare(now);
                has_started = !more.decisions.is_empty();
                planned.commit(now, &more);
                running
                    .extend(more.starts().map(|(id, placement, _)| (id, placement.len() as u32)));
            }
            for rank in 0..placement.len() as u32 {
                let report = TaskReport { id, rank: Rank(rank), observation: Observation::Started };
                planned.state.apply(now, &Event::Task(report));
            }
        }
        running.extend(plan.starts().map(|(id, placement, _)| (id, placement.len() as u32)));
        now = now + Span(rng.below(3) * rng.below(4000));
    }
    total
}

/// Ends one running job, if there is any.
fn end_one(
    state: &mut State,
    now: Time,
    running: &mut Vec<(AttemptId, u32)>,
    rng: &mut PlanTestRng,
) {
    if running.is_empty() {
        return;
    }
    let (id, tasks) = running.swap_remove(rng.below(running.len() as u64) as usize);
    for rank in 0..tasks {
        let what = Observation::Exited(TaskExit::Code { code: 0 });
        state.apply(now, &Event::Task(TaskReport { id, rank: Rank(rank), observation: what }));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn caches_change_no_start(seed in any::<u64>(), is_limited in any::<bool>()) {
        run_random(seed, 12, is_limited);
    }
}

/// The comparison is not vacuous: refusals are cached in nearly every run.
#[test]
fn runs_have_many_refusals() {
    let uses: Vec<usize> = (0..8).map(|seed| run_random(seed, 6, true).refusals).collect();
    assert!(uses.iter().filter(|refusals| **refusals > 5).count() >= 6, "{uses:?}");
}

/// Reservations are reused, too.
#[test]
fn runs_reuse_many_reservations() {
    let uses: Vec<CacheUse> = (0..16).map(|seed| run_random(seed, 24, false)).collect();
    assert!(uses.iter().filter(|one| one.reservations > 1).count() >= 8, "{uses:?}");
    assert!(uses.iter().filter(|one| one.after_starts > 0).count() >= 8, "{uses:?}");
}
