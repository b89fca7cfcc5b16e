//! Figures of the cluster in the text format of Prometheus: those of `muster metrics`, of the jobs of this scheduler,
//! and what the scheduler has done.

use std::iter;

use muster_kubernetes::instant;
use muster_model::view::JobView;
use muster_model::{JobId, Time};
use muster_report::metrics::{self, MetricsText, SiteState};

use crate::counts::Counts;
use crate::gang::{Gang, Pod};
use crate::scheduler::Scheduler;

/// Number of jobs that are viewed at a time: views are much larger than jobs.
const VIEWED: usize = 256;

impl Scheduler {
    /// Returns the figures of the present time. The cost grows with the number of pods and jobs.
    #[must_use]
    pub fn metrics(&self, now: Time) -> String {
        let now = now.max(self.last);
        let site = SiteState {
            now,
            queues: &self.queues(now),
            nodes: &self.nodes(),
            loads: &[],
            idle: &[],
            counters: None,
            warnings: 0,
        };
        let mut text = metrics::metrics(&site, self.job_views(now));
        self.write_present(&mut text);
        self.counts.write(&mut text);
        text.into_text()
    }

    /// Returns views of the jobs. Each was submitted when its workload, or its first pod, was created; the engine only
    /// knows when this process first saw it.
    fn job_views(&self, now: Time) -> impl Iterator<Item = JobView> {
        let mut jobs = self.batches.keys().copied();
        let mut next = move || -> Vec<JobId> { jobs.by_ref().take(VIEWED).collect() };
        let chunks = iter::from_fn(move || Some(next()).filter(|chunk| !chunk.is_empty()));
        let views = chunks.flat_map(move |chunk| self.engine.jobs_by_id(now, &chunk));
        views.map(|view| {
            let batch = self.batches.get(&view.job);
            let created = batch.and_then(|batch| instant::parse(self.created(&batch.gang)?));
            JobView { submitted: created.unwrap_or(view.submitted), ..view }
        })
    }

    /// Writes the numbers of pods and gangs that wait now.
    fn write_present(&self, text: &mut MetricsText) {
        let is_waiting = |pod: &&Pod| pod.facts.is_ours && pod.is_waiting() && !pod.is_expected;
        let waits = |gang: &&Gang| {
            gang.pods.iter().any(|pod| self.pods.get(pod).is_some_and(Pod::is_waiting))
        };
        let held_back = |gang: &&Gang| gang.hold.is_some() && waits(gang);
        for (name, help, value) in [
            (
                "waiting_pods",
                "Pods that wait for a node.",
                self.pods.values().filter(is_waiting).count(),
            ),
            (
                "waiting_gangs",
                "Gangs of which a pod waits, and suspended workloads.",
                self.gangs.values().filter(waits).count(),
            ),
            (
                "held_back_gangs",
                "Waiting gangs that are not in a queue: pods of them are missing, or what they ask for is not \
                 understood.",
                self.gangs.values().filter(held_back).count(),
            ),
        ] {
            text.gauge(name, help, [], [([], value)]);
        }
    }
}

impl Counts {
    fn write(&self, text: &mut MetricsText) {
        for (name, help, value) in [
            ("bindings_total", "Bindings that the API server confirmed.", self.bound),
            ("refused_bindings_total", "Bindings that the API server refused.", self.refused),
            ("evictions_total", "Pods whose deletion was requested.", self.evicted),
            (
                "roll_backs_total",
                "Half-started gangs whose bound pods were deleted.",
                self.rolled_back,
            ),
            ("resumptions_total", "Suspended workloads that were resumed.", self.resumed),
            (
                "suspensions_total",
                "Workloads that were suspended again: preempted, or without pods.",
                self.suspended,
            ),
            (
                "refused_plans_total",
                "Plans that failed their check; each is a defect.",
                self.bad_plans,
            ),
        ] {
            text.counter(name, help, value);
        }
    }
}
