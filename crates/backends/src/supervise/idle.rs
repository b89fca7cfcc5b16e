//! Does the task do anything? What counts is CPU time of its processes, keys typed into its
//! terminals, and, where NVIDIA's library is there, work on its GPUs. Open connections, open
//! terminals and memory do not count: a notebook that somebody left has all of them. This looks and
//! answers; it must not end anything.

use std::time::Duration;

use muster_model::Span;

use crate::gpu::nvml::Library;
use crate::process;
use crate::record::IdleOrder;

/// CPU time between two looks from which on a task counts as busy, in thousandths of one CPU: an
/// idle server of notebooks with an open browser and a few kernels wakes up for less, and who runs
/// a cell takes more.
const BUSY_PERMILLE: u64 = 20;
/// Looks per idle time: the end is late by one of them at most.
const LOOKS: u32 = 20;
/// Between two looks at most: a look at GPUs tells of the last second or so only.
const PAUSE_MAX: Duration = Duration::from_secs(10);
/// And at least: `/proc` counts CPU time in hundredths of a second.
const PAUSE_MIN: Duration = Duration::from_millis(50);

/// Where utilisation of GPUs comes from.
pub(super) trait GpuLoad: Send {
    /// The share of the last moments in which a GPU worked, in percent; `None` when that cannot be
    /// known (a slice of a GPU).
    fn percent(&self, uuid: &str) -> Option<u32>;
}

impl GpuLoad for Library {
    fn percent(&self, uuid: &str) -> Option<u32> {
        self.utilisation(uuid)
    }
}

/// How long a task has done nothing.
pub(super) struct Activity {
    order: IdleOrder,
    /// Time since boot when it was last seen busy.
    busy_at: Duration,
    looked_at: Duration,
    cpu_ms: u64,
    /// Loaded when it is first needed; `None` inside where there is no driver.
    gpus: Option<Option<Box<dyn GpuLoad>>>,
}

impl std::fmt::Debug for Activity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Activity").field("busy_at", &self.busy_at).finish_non_exhaustive()
    }
}

impl Activity {
    /// Of a task that has just begun.
    pub(super) fn new(order: &IdleOrder, now: Duration) -> Self {
        Self { order: order.clone(), busy_at: now, looked_at: now, cpu_ms: 0, gpus: None }
    }

    /// When to look next.
    pub(super) fn next_look(&self) -> Duration {
        let after = Duration::from_millis(self.order.after.0);
        self.looked_at + (after / LOOKS).clamp(PAUSE_MIN, PAUSE_MAX)
    }

    /// Somebody typed.
    pub(super) fn typed(&mut self, now: Duration) {
        self.busy_at = now;
    }

    /// Looks; answers how long the task may idle when it has for that long.
    pub(super) fn look(&mut self, now: Duration, cpu_ms: u64) -> Option<Span> {
        let passed = now.saturating_sub(self.looked_at).as_millis() as u64;
        // Less than before: a process has ended of which nobody kept count.
        let is_busy = match cpu_ms.checked_sub(self.cpu_ms) {
            Some(used) => used.saturating_mul(1000) > passed.saturating_mul(BUSY_PERMILLE),
            None => true,
        };
        (self.looked_at, self.cpu_ms) = (now, cpu_ms);
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

/// CPU time in milliseconds of everything below this process, of what ended as far as it was waited
/// for.
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

    /// Looks every second; CPU time as it stands then. Answers at which second it is found idle.
    fn idle_at(activity: &mut Activity, cpu_ms: impl Fn(u64) -> u64) -> Option<u64> {
        (1..=200).find(|second| {
            let now = Duration::from_secs(100 + second);
            activity.look(now, cpu_ms(*second)).is_some()
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
        assert_eq!(activity.look(Duration::from_secs(119), 0), None);
        activity.typed(Duration::from_secs(119));
        assert_eq!(activity.look(Duration::from_secs(138), 0), None);
        assert_eq!(activity.look(Duration::from_secs(139), 0), Some(Span(20 * SECOND)));
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
        // Another's GPU, one that says nothing, no driver.
        assert_eq!(found(&["GPU-a"], 99), Some(20));
        assert_eq!(idle_at(&mut activity(&["GPU-b"], None), |_| 0), Some(20));
    }

    #[test]
    fn looks_are_often_enough_for_short_times_and_rare_for_long_ones() {
        let pause = |after: u64| {
            let order = IdleOrder { after: Span(after), gpus: Vec::new() };
            Activity::new(&order, Duration::ZERO).next_look().as_millis()
        };
        assert_eq!([100, 2 * SECOND, 7200 * SECOND].map(pause), [50, 100, 10_000]);
    }
}
