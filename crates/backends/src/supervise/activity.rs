//! Idle detection of a task. CPU time of its processes, keys typed into its terminals and, where
//! NVIDIA's library is available, GPU utilisation count as activity. Open connections, open
//! terminals and memory do not: an abandoned notebook has all of them. The module only measures; it
//! never ends a task.

use std::time::Duration;

use muster_model::Span;

use crate::gpu::nvml::Library;
use crate::process;
use crate::record::IdleOrder;

/// CPU use above which a task counts as busy, in thousandths of one CPU: an idle notebook server
/// with an open browser and a few kernels uses less, running a cell uses more.
const BUSY_PERMILLE: u64 = 20;
/// Checks per idle limit: a task is ended at most one check late.
const CHECKS: u32 = 20;
/// Longest pause between two checks: GPU utilisation covers about the last second only.
const PAUSE_MAX: Duration = Duration::from_secs(10);
/// Shortest pause between two checks: `/proc` counts CPU time in hundredths of a second.
const PAUSE_MIN: Duration = Duration::from_millis(50);

/// Source of GPU utilisation.
pub(super) trait GpuLoad: Send {
    /// Returns the utilisation of a GPU over about the last second, in percent; `None` when it is
    /// unknown (a slice of a GPU).
    fn percent(&self, uuid: &str) -> Option<u32>;
}

impl GpuLoad for Library {
    fn percent(&self, uuid: &str) -> Option<u32> {
        self.utilisation(uuid)
    }
}

/// Measures how long a task has been idle.
pub(super) struct Activity {
    order: IdleOrder,
    /// Time since boot of the last check that found it busy.
    busy_at: Duration,
    checked_at: Duration,
    cpu_ms: u64,
    /// Loaded on first use; the inner `None` means that there is no driver.
    gpus: Option<Option<Box<dyn GpuLoad>>>,
}

impl std::fmt::Debug for Activity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Activity").field("busy_at", &self.busy_at).finish_non_exhaustive()
    }
}

impl Activity {
    /// Starts measuring a task that has just started.
    pub(super) fn new(order: &IdleOrder, now: Duration) -> Self {
        Self { order: order.clone(), busy_at: now, checked_at: now, cpu_ms: 0, gpus: None }
    }

    /// Returns the time of the next check.
    pub(super) fn next_check(&self) -> Duration {
        let after = Duration::from_millis(self.order.after.0);
        self.checked_at + (after / CHECKS).clamp(PAUSE_MIN, PAUSE_MAX)
    }

    /// Counts a key press in a terminal as activity.
    pub(super) fn typed(&mut self, now: Duration) {
        self.busy_at = now;
    }

    /// Checks for activity. Returns the idle limit when the task has been idle for that long.
    pub(super) fn check(&mut self, now: Duration, cpu_ms: u64) -> Option<Span> {
        let passed = now.saturating_sub(self.checked_at).as_millis() as u64;
        // Less than before: a process has ended whose CPU time was not accounted.
        let is_busy = match cpu_ms.checked_sub(self.cpu_ms) {
            Some(used) => used.saturating_mul(1000) > passed.saturating_mul(BUSY_PERMILLE),
            None => true,
        };
        self.checked_at = now;
        self.cpu_ms = cpu_ms;
        if is_busy || self.works_on_gpus() {
            self.busy_at = now;
        }
        let idle = now.saturating_sub(self.busy_at);
        (idle >= Duration::from_millis(self.order.after.0)).then_some(self.order.after)
    }

    fn works_on_gpus(&mut self) -> bool {
        if self.order.gpus.is_empty() {
            return false;
        }
        let load = || Library::load().map(|library| Box::new(library) as Box<dyn GpuLoad>);
        let Some(gpus) = self.gpus.get_or_insert_with(load) else { return false };
        self.order.gpus.iter().any(|uuid| gpus.percent(uuid).is_some_and(|percent| percent > 0))
    }
}

/// Returns the CPU time in milliseconds of all descendants of this process, including ended ones
/// that were waited for.
pub(super) fn cpu_ms(reaped_ms: u64) -> u64 {
    let below = process::descendants(std::process::id() as i32);
    let ticks: u64 =
        below.into_iter().filter_map(process::Stat::read).map(|stat| stat.cpu_ticks).sum();
    reaped_ms + ticks * (1000 / process::TICKS_PER_SEC)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1000;

    fn activity(gpus: &[&str], load: Option<Box<dyn GpuLoad>>) -> Activity {
        let gpus = gpus.iter().map(|uuid| (*uuid).to_owned()).collect();
        let order = IdleOrder { after: Span(20 * SECOND), gpus };
        Activity { gpus: Some(load), ..Activity::new(&order, Duration::from_secs(100)) }
    }

    /// Checks every second with the CPU time at that second. Returns the second at which the task
    /// is found idle.
    fn idle_at(activity: &mut Activity, cpu_ms: impl Fn(u64) -> u64) -> Option<u64> {
        (1..=200).find(|second| {
            let now = Duration::from_secs(100 + second);
            activity.check(now, cpu_ms(*second)).is_some()
        })
    }

    #[test]
    fn only_work_above_the_noise_counts() {
        // Nothing at all, and what an idle server takes: 2% of a CPU.
        assert_eq!(idle_at(&mut activity(&[], None), |_| 0), Some(20));
        assert_eq!(idle_at(&mut activity(&[], None), |second| second * 20), Some(20));
        // A little more, for ever and until it stops.
        assert_eq!(idle_at(&mut activity(&[], None), |second| second * 21), None);
        assert_eq!(idle_at(&mut activity(&[], None), |second| second.min(30) * 500), Some(50));
        // Its processes end: what they had used is no longer counted.
        assert_eq!(
            idle_at(&mut activity(&[], None), |second| if second < 15 { 300 } else { 0 }),
            Some(35)
        );
    }

    #[test]
    fn keys_count_and_an_open_terminal_does_not() {
        let mut activity = activity(&[], None);
        assert_eq!(activity.check(Duration::from_secs(119), 0), None);
        activity.typed(Duration::from_secs(119));
        assert_eq!(activity.check(Duration::from_secs(138), 0), None);
        assert_eq!(activity.check(Duration::from_secs(139), 0), Some(Span(20 * SECOND)));
    }

    struct Recorded(u32);
    impl GpuLoad for Recorded {
        fn percent(&self, uuid: &str) -> Option<u32> {
            (uuid == "GPU-b").then_some(self.0)
        }
    }

    #[test]
    fn work_on_one_of_its_gpus_counts_where_it_can_be_known() {
        let found = |gpus: &[&str], percent| {
            let load: Option<Box<dyn GpuLoad>> = Some(Box::new(Recorded(percent)));
            idle_at(&mut activity(gpus, load), |_| 0)
        };
        assert_eq!(found(&["GPU-a", "GPU-b"], 1), None);
        assert_eq!(found(&["GPU-a", "GPU-b"], 0), Some(20));
        // Another task's GPU; no driver.
        assert_eq!(found(&["GPU-a"], 99), Some(20));
        assert_eq!(idle_at(&mut activity(&["GPU-b"], None), |_| 0), Some(20));
    }

    #[test]
    fn checks_are_frequent_for_short_limits_and_rare_for_long_ones() {
        let pause = |after: u64| {
            let order = IdleOrder { after: Span(after), gpus: Vec::new() };
            Activity::new(&order, Duration::ZERO).next_check().as_millis()
        };
        assert_eq!([100, 2 * SECOND, 7200 * SECOND].map(pause), [50, 100, 10_000]);
    }
}
