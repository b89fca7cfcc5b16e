//! A planner that remembers what limits refused, one that judges every entry anew, and one that
//! passes nobody over unseen, start the same. One that knows what the pass before it found out
//! plans the same as one that knows nothing.

use std::sync::Arc;

use muster_model::job::GpuRequest;
use muster_model::queue::{Backfill, Budget, Limits, Preemption};
use muster_model::{
    Array, AttemptId, Event, GpuModel, JobId, JobSpec, Observation, Plan, QueueSpec, QueueTree,
    Rank, Span, TaskExit, TaskReport, Time,
};
use proptest::prelude::*;

use super::{Planner, passes, plan};
use crate::fixture::{node, spec};
use crate::state::State;

/// A stream of choices from one number.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % sides
    }

    fn maybe(&mut self, percent: u64, sides: u64) -> Option<u64> {
        (self.roll(100) < percent).then(|| self.roll(sides))
    }
}

/// Tight limits nearly everywhere, with borrowing and lending between siblings; or none, and nobody
/// is made to go.
fn random_tree(dice: &mut Dice, is_limited: bool) -> QueueTree {
    let often = |percent: u64| if is_limited { percent } else { 0 };
    let mut leaf = |name: &str| {
        let mut queue = QueueSpec::named(name);
        queue.weight = 1 + dice.roll(3) as u32;
        if let Some(gpus) = dice.maybe(often(60), 6) {
            queue.quota.insert("h100".into(), gpus);
            queue.borrow = dice.maybe(60, 4);
            queue.lend = dice.maybe(40, 3);
        }
        queue.limits = Limits {
            pending_jobs: None,
            running_jobs: dice.maybe(often(40), 6).map(|jobs| 1 + jobs as u32),
            gpus_per_user: dice.maybe(often(50), 6).map(|gpus| 1 + gpus),
            time: None,
            borrowed_time: None,
        };
        if !queue.quota.is_empty() {
            queue.limits.borrowed_time = dice.maybe(50, 60).map(Span::from_secs);
        }
        queue.budget = dice.maybe(often(40), 2).map(|more| Budget {
            gpu_hours: Some(1 + more),
            gpu_hours_per_user: dice.maybe(50, 1).map(|more| 1 + more),
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
    tree.backfill = match dice.roll(4) {
        0 => Backfill::None,
        1 => Backfill::Conservative { depth: 3 },
        _ => Backfill::Easy,
    };
    tree
}

fn random_spec(dice: &mut Dice) -> JobSpec {
    let mut spec = spec(1 + dice.roll(3) as u32);
    spec.user = ["ann", "bob", "cy"][dice.roll(3) as usize].into();
    spec.queue =
        ["default", "team/red", "team/red", "team/blue", "solo"][dice.roll(5) as usize].into();
    spec.priority = dice.maybe(20, 2).map_or(0, |priority| priority as i32);
    spec.time_limit = dice.maybe(80, 8).map(|more| Span::from_secs(20 + 30 * more));
    let gpu = &mut spec.groups[0].task.gpu;
    *gpu = GpuRequest::whole([0, 1, 1, 2, 4][dice.roll(5) as usize]);
    if gpu.devices > 0 {
        let models: &[&str] = [&[][..], &["h100"], &["a100", "h100"]][dice.roll(3) as usize];
        gpu.models = models.iter().map(|model| GpuModel::from(*model)).collect();
    }
    let last = dice.maybe(10, 90);
    spec.array = last.map(|last| Array::range(0, last as u32, 1, None));
    spec
}

/// What planners remember.
#[derive(Clone, Copy, Debug, Default)]
struct Remembered {
    /// Refusals of a pass.
    refusals: usize,
    /// Dates of the pass before that were given again.
    dates: usize,
    /// Those where the pass before had started somebody.
    after_starts: usize,
}

/// The plan, compared with those of planners that remember less; and what it remembers.
fn compare(known: &mut State, now: Time) -> (Plan, Remembered) {
    // A copy knows nothing of the passes before.
    let state = &mut known.clone();
    let afresh = plan(state, now);
    // Without the look at what the next pass would take back: when that is seen depends on who is
    // visited.
    let remembered = passes(state, now, |planner| planner.fresh.is_watched = false).1;
    let anew = passes(state, now, |planner| {
        planner.fresh.is_watched = false;
        planner.limited.forgets = true;
    });
    let anew = anew.1;
    let one_by_one = passes(state, now, |planner| {
        planner.fresh.is_watched = false;
        planner.looks_at_all = true;
    });
    assert_eq!(
        remembered.decisions, one_by_one.1.decisions,
        "somebody was passed over who has a place"
    );
    // Not the reservations: who visits more refused entries may go one round more, in which nothing
    // else starts, but whose reservation has met a limit since loses it.
    assert_eq!(remembered.decisions, anew.decisions);
    let mut planner = Planner::new(state, now);
    planner.run(|_| false);
    let refusals = planner.limited.known();
    planner.finish();
    let plan = plan(known, now);
    assert_eq!(plan, afresh, "what the last pass knew is not true any more");
    assert_eq!(known.looks, state.looks);
    (plan, Remembered { refusals, dates: known.lore.met(), after_starts: 0 })
}

/// Plays a story of submissions and ends; answers what was remembered in all its passes.
fn play(seed: u64, steps: usize, is_limited: bool) -> Remembered {
    let mut dice = Dice(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
    let Ok(mut state) = State::new(random_tree(&mut dice, is_limited)) else {
        return Remembered::default();
    };
    let (mut now, mut next, mut known) = (Time(1000), 1, Remembered::default());
    for (at, model) in ["h100", "h100", "a100"].into_iter().enumerate() {
        let joined = node(&format!("n{at}"), 1 + dice.roll(8) as usize, model);
        state.apply(now, &Event::NodeJoined(Box::new(joined)));
    }
    let (mut running, mut has_started) = (Vec::new(), false);
    for step in 0..steps {
        // 1. Many at first, so that whole users are skipped where there are limits; then a few.
        let first = if is_limited { 150 } else { 60 };
        for _ in 0..if step == 0 { first } else { dice.roll(4) } {
            let event =
                Event::Submitted { job: JobId(next), spec: Arc::new(random_spec(&mut dice)) };
            if state.judge(&event).is_ok() {
                state.apply(now, &event);
                next += 1;
            }
        }
        // 2. Some of what runs ends, now and then.
        for _ in 0..dice.roll(2) * dice.roll(4) {
            end_one(&mut state, now, &mut running, &mut dice);
        }
        // 3. Both planners; and before it is done what was planned, somebody may go.
        let (plan, remembered) = compare(&mut state, now);
        known.refusals += remembered.refusals;
        known.dates += remembered.dates;
        known.after_starts += if has_started { remembered.dates } else { 0 };
        has_started = !plan.decisions.is_empty();
        if !is_limited && dice.roll(8) == 0 {
            end_one(&mut state, now, &mut running, &mut dice);
        }
        state.commit(now, &plan);
        // 4. It is known of most from when on they run, so that their ends are instants; and of
        //    some only after another pass.
        for (id, placement, _) in plan.starts() {
            if seed.is_multiple_of(8) && dice.roll(4) == 0 {
                continue;
            }
            if dice.roll(8) == 0 {
                let (more, _) = compare(&mut state, now);
                has_started = !more.decisions.is_empty();
                state.commit(now, &more);
                running
                    .extend(more.starts().map(|(id, placement, _)| (id, placement.len() as u32)));
            }
            for rank in 0..placement.len() as u32 {
                let report = TaskReport { id, rank: Rank(rank), what: Observation::Started };
                state.apply(now, &Event::Task(report));
            }
        }
        running.extend(plan.starts().map(|(id, placement, _)| (id, placement.len() as u32)));
        now = now + Span(dice.roll(3) * dice.roll(4000));
    }
    known
}

/// One of those that run ends, if any does.
fn end_one(state: &mut State, now: Time, running: &mut Vec<(AttemptId, u32)>, dice: &mut Dice) {
    if running.is_empty() {
        return;
    }
    let (id, tasks) = running.swap_remove(dice.roll(running.len() as u64) as usize);
    for rank in 0..tasks {
        let what = Observation::Exited(TaskExit::Code { code: 0 });
        state.apply(now, &Event::Task(TaskReport { id, rank: Rank(rank), what }));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn remembering_changes_no_start(seed in any::<u64>(), is_limited in any::<bool>()) {
        play(seed, 12, is_limited);
    }
}

/// The comparison is of something: refusals are remembered in nearly every story.
#[test]
fn stories_are_full_of_refusals() {
    let known: Vec<usize> = (0..8).map(|seed| play(seed, 6, true).refusals).collect();
    assert!(known.iter().filter(|known| **known > 5).count() >= 6, "{known:?}");
}

/// And dates are given again.
#[test]
fn stories_are_full_of_dates_that_are_given_again() {
    let known: Vec<Remembered> = (0..16).map(|seed| play(seed, 24, false)).collect();
    assert!(known.iter().filter(|known| known.dates > 1).count() >= 8, "{known:?}");
    assert!(known.iter().filter(|known| known.after_starts > 0).count() >= 8, "{known:?}");
}
