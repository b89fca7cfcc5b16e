//! Plan of a backfill pass: reservations of nodes for pending jobs, and the earliest start of
//! another job beside them (src/plugins/sched/backfill/backfill.c). As in Slurm a reservation takes
//! whole nodes, also where the job does not, its begin is rounded down to the resolution and its
//! end up; running jobs are no reservations: what they hold is free when their limits end. The
//! order of jobs is decided elsewhere.

use muster_model::{NodeId, Span, Time};

use super::capacity::CapacityStep;
use super::node_set::NodeSet;
use super::settings::SlurmSettings;
use super::switches::{NodeTasks, SwitchTree};

/// Ends of running jobs within one window are examined together; width of the first window, and the
/// widest of one year (src/plugins/select/cons_tres/job_test.c, _future_run_test).
const FIRST_WINDOW: Span = Span::from_secs(30);
const WIDEST_WINDOW: Span = Span::from_secs(365 * 86_400);

/// Nodes that are not reserved from this time until the next slot.
#[derive(Clone, Debug)]
struct PlanSlot {
    from: Time,
    open: NodeSet,
    /// True if a node is unreserved that was reserved in the previous slot.
    gains: bool,
}

/// The plan. Reservations are only added.
#[derive(Clone, Debug)]
pub(super) struct BackfillPlan {
    now: Time,
    /// `bf_resolution`: unit of begin and end.
    resolution: Span,
    /// `bf_window`: time that the plan reaches ahead.
    window: Span,
    /// `bf_window_linear`: linear growth of windows; `None`: they double.
    window_linear: Option<Span>,
    slots: Vec<PlanSlot>,
}

/// Request of a job: tasks, time limit, and room over time.
#[derive(Clone, Copy, Debug)]
pub(super) struct PlanRequest<'a> {
    pub(super) tasks: u32,
    pub(super) limit: Span,
    pub(super) steps: &'a [CapacityStep],
}

impl BackfillPlan {
    pub(super) fn new(now: Time, nodes: usize, settings: &SlurmSettings) -> Self {
        let &SlurmSettings {
            bf_resolution: resolution, bf_window: window, bf_window_linear, ..
        } = settings;
        let slots = vec![PlanSlot { from: now, open: NodeSet::first(nodes), gains: false }];
        Self { now, resolution, window, window_linear: bf_window_linear, slots }
    }

    /// Returns the number of slots.
    pub(super) fn slots(&self) -> usize {
        self.slots.len()
    }

    /// Returns the end of the planning window.
    fn window_end(&self) -> Time {
        self.now + self.window
    }

    /// Returns the nodes without a reservation from now on for the time limit.
    pub(super) fn open_now(&self, limit: Span) -> NodeSet {
        self.open(0, self.now + limit)
    }

    /// Returns the nodes that are open from the beginning of a slot until then.
    fn open(&self, first: usize, end: Time) -> NodeSet {
        let mut open = self.slots[first].open.clone();
        for slot in self.slots[first + 1..].iter().take_while(|slot| slot.from <= end) {
            open.keep(&slot.open);
        }
        open
    }

    /// Returns the earliest start of a job, not before `from`, and its nodes; `None` if it is
    /// beyond the window. A past time means now.
    pub(super) fn earliest(
        &self,
        asked: &PlanRequest<'_>,
        from: Time,
        switches: &SwitchTree,
    ) -> Option<(Time, NodeTasks)> {
        let mut start = from.max(self.now);
        while start <= self.window_end() {
            let at = self.slots.partition_point(|slot| slot.from <= start) - 1;
            let open = self.open(at, start + asked.limit);
            let later = self.slots[at + 1..].iter().find(|slot| slot.gains).map(|slot| slot.from);
            match first_fit(asked, &open, self.now, self.window_linear) {
                Some(by) if later.is_none_or(|later| by <= later) => {
                    let places =
                        switches.choose(&capacity_at(asked.steps, &open, by), asked.tasks)?;
                    let found = last_end(asked.steps, &places, by).max(start);
                    if found <= self.now || !self.is_reserved(&places, found, asked.limit) {
                        return Some((found, places)).filter(|_| found <= self.window_end());
                    }
                    start = if found > start { found } else { start + self.resolution };
                }
                _ => start = later?,
            }
        }
        None
    }

    pub(super) fn reserve(&mut self, places: &NodeTasks, start: Time, limit: Span) {
        let (from, until) = self.rounded(start, limit);
        let first = self.split(from.max(self.now));
        let last = if until > self.window_end() { self.slots.len() } else { self.split(until) };
        for slot in &mut self.slots[first..last] {
            places.iter().for_each(|(node, _)| slot.open.remove(*node));
        }
        for at in first.max(1)..(last + 1).min(self.slots.len()) {
            self.slots[at].gains = !self.slots[at].open.is_within(&self.slots[at - 1].open);
        }
    }

    /// Returns whether one of these nodes is reserved for a part of that time.
    fn is_reserved(&self, places: &NodeTasks, start: Time, limit: Span) -> bool {
        let (from, until) = self.rounded(start, limit);
        let first = self.slots.partition_point(|slot| slot.from <= from).saturating_sub(1);
        let slots = self.slots[first..].iter().take_while(|slot| slot.from < until);
        slots.into_iter().any(|slot| places.iter().any(|(node, _)| !slot.open.contains(*node)))
    }

    fn rounded(&self, start: Time, limit: Span) -> (Time, Time) {
        let down = |time: Time| Time(time.0 / self.resolution.0 * self.resolution.0);
        (down(start), down(start + limit + Span(self.resolution.0 - 1)))
    }

    /// Returns the slot that begins then, adding it if necessary.
    fn split(&mut self, at: Time) -> usize {
        let next = self.slots.partition_point(|slot| slot.from < at);
        if self.slots.get(next).is_none_or(|slot| slot.from != at) {
            let open = self.slots[next - 1].open.clone();
            self.slots.insert(next, PlanSlot { from: at, open, gains: false });
        }
        next
    }
}

/// Returns the time by which all tasks have room on open nodes: now, or after all ends within a
/// window. Each window is twice as wide as the one before; the first begins on a multiple of its
/// width after the first end.
fn first_fit(
    asked: &PlanRequest<'_>,
    open: &NodeSet,
    now: Time,
    linear: Option<Span>,
) -> Option<Time> {
    let mut ends = asked.steps.iter().filter(|step| open.contains(step.node)).peekable();
    let mut capacity = 0u64;
    let tasks = u64::from(asked.tasks);
    // 1. Now.
    while let Some(step) = ends.next_if(|step| step.at <= now) {
        capacity += u64::from(step.tasks);
    }
    if capacity >= tasks {
        return Some(now);
    }
    // 2. After each window.
    let first = Time((ends.peek()?.at.0 / FIRST_WINDOW.0 + 1) * FIRST_WINDOW.0);
    let mut width = FIRST_WINDOW;
    while let Some(step) = ends.next() {
        capacity += u64::from(step.tasks);
        let next = ends.peek().map(|step| step.at);
        if next.is_some_and(|next| next <= first + width) {
            continue;
        }
        if capacity >= tasks {
            return Some(step.at);
        }
        width = widened(width, next?.since(first), linear);
    }
    None
}

/// Returns the width of the next window, which reaches over a gap: as much wider as necessary, up
/// to the widest.
fn widened(width: Span, gap: Span, linear: Option<Span>) -> Span {
    let doubled = || std::iter::successors(Some(width), |width| Some(*width + *width));
    let wide = match linear {
        Some(more) => {
            Span(width.0 + gap.0.saturating_sub(width.0).div_ceil(more.0.max(1)) * more.0)
        }
        None => doubled().find(|width| *width >= gap.min(WIDEST_WINDOW)).unwrap_or(WIDEST_WINDOW),
    };
    wide.min(WIDEST_WINDOW)
}

/// Returns the last time up to `until` at which a running job ends on a chosen node; ends on other
/// nodes do not matter. Returns `until` if there is none.
fn last_end(steps: &[CapacityStep], places: &NodeTasks, until: Time) -> Time {
    let there = &steps[..steps.partition_point(|step| step.at <= until)];
    let is_on = |step: &&CapacityStep| places.iter().any(|(node, _)| *node == step.node);
    there.iter().rfind(is_on).map_or(until, |step| step.at)
}

/// Returns the room on open nodes at that time, in order of nodes.
fn capacity_at(steps: &[CapacityStep], open: &NodeSet, at: Time) -> Vec<(NodeId, u32)> {
    let there =
        steps.iter().take_while(|step| step.at <= at).filter(|step| open.contains(step.node));
    let mut capacities: Vec<(NodeId, u32)> = there.map(|step| (step.node, step.tasks)).collect();
    capacities.sort_by_key(|(node, _)| *node);
    capacities.dedup_by(|more, sum| {
        let is_same = more.0 == sum.0;
        if is_same {
            sum.1 = sum.1.saturating_add(more.1);
        }
        is_same
    });
    capacities
}

#[cfg(test)]
mod tests {
    use muster_model::QueueTree;

    use super::*;
    use crate::fleet::FleetSite;

    const WINDOW: Span = Span::from_secs(7 * 86_400);
    const NOW: Time = Time(1_000_000 * 60_000);

    fn after(secs: u64) -> Time {
        NOW + Span::from_secs(secs)
    }

    fn step(node: u32, secs: u64) -> CapacityStep {
        CapacityStep { at: after(secs), node: NodeId(node), tasks: 1 }
    }

    fn plan(nodes: usize) -> BackfillPlan {
        let resolution = Span::from_secs(60);
        BackfillPlan::new(
            NOW,
            nodes,
            &SlurmSettings {
                bf_resolution: resolution,
                bf_window: WINDOW,
                ..SlurmSettings::default()
            },
        )
    }

    /// Checks when a job of one task per node can start, in seconds from now.
    fn check(
        plan: &BackfillPlan,
        steps: &[CapacityStep],
        tasks: u32,
        limit_secs: u64,
        expected: Option<u64>,
    ) {
        let switches = SwitchTree::new(&FleetSite {
            nodes: Vec::new(),
            levels: Vec::new(),
            tree: QueueTree::single(),
        });
        let asked = PlanRequest { tasks, limit: Span::from_secs(limit_secs), steps };
        let found = plan.earliest(&asked, NOW, &switches);
        assert_eq!(
            found.map(|(start, _)| start.since(NOW).as_secs()),
            expected,
            "{tasks} for {limit_secs} s"
        );
    }

    #[test]
    fn a_later_job_starts_before_a_reservation_if_it_ends_in_time() {
        // Node 0 is free now, node 1 in 1,000 s; a job reserves both from then on, for 600 s.
        let steps = [step(0, 0), step(1, 1_000)];
        let mut plan = plan(2);
        check(&plan, &steps, 2, 600, Some(1_000));
        plan.reserve(&vec![(NodeId(0), 1), (NodeId(1), 1)], after(1_000), Span::from_secs(600));
        // The reservation is from 960 to 1,620: whole minutes, down and up.
        check(&plan, &steps, 1, 900, Some(0));
        check(&plan, &steps, 1, 960, Some(1_620));
        check(&plan, &steps, 2, 60, Some(1_620));
    }

    #[test]
    fn a_hole_between_reservations_is_found() {
        let steps = [step(0, 0)];
        let mut plan = plan(1);
        plan.reserve(&vec![(NodeId(0), 1)], after(600), Span::from_secs(600));
        plan.reserve(&vec![(NodeId(0), 1)], after(1_800), Span::from_secs(600));
        check(&plan, &steps, 1, 540, Some(0));
        // It must end before the next begins, by the second.
        check(&plan, &steps, 1, 590, Some(0));
        check(&plan, &steps, 1, 600, Some(2_400));
    }

    #[test]
    fn backfill_checks_ends_in_windows_and_ignores_ends_on_other_nodes() {
        // NOW is a multiple of the first window: it goes from the next multiple after the end on
        // node 0, 130 s, for 30 s, to 180 s.
        let steps = [step(0, 130), step(1, 170), step(2, 190)];
        check(&plan(3), &steps, 1, 60, Some(130));
        // Both end within it; from 190 on the next is looked at, which is twice as wide.
        check(&plan(3), &steps, 2, 60, Some(170));
        check(&plan(3), &steps, 3, 60, Some(190));
        // With bf_window_linear=10 the window after the first reaches to 190 as well; one beyond a
        // gap of months is found at once.
        let linear = |secs| BackfillPlan { window_linear: Some(Span::from_secs(secs)), ..plan(3) };
        check(&linear(10), &steps, 3, 60, Some(190));
        let far = [step(0, 130), step(1, 6 * 86_400)];
        check(&linear(1), &far, 2, 60, Some(6 * 86_400));
        check(&linear(1), &far, 3, 60, None);
        // An end without new room counts on a node that is used, because the job there ends only
        // then.
        let small = CapacityStep { tasks: 0, ..step(0, 150) };
        check(&plan(3), &[step(0, 130), small, step(2, 190)], 1, 60, Some(150));
    }

    #[test]
    fn nothing_is_planned_beyond_the_window() {
        let plan = plan(1);
        check(&plan, &[step(0, WINDOW.as_secs())], 1, 60, Some(WINDOW.as_secs()));
        check(&plan, &[step(0, WINDOW.as_secs() + 1)], 1, 60, None);
        check(&plan, &[], 1, 60, None);
    }
}
