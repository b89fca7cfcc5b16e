//! Figures of the cluster in the text format of Prometheus: those of `muster metrics`, of the jobs of this scheduler,
//! and what the scheduler has done.

use std::collections::{BTreeMap, BTreeSet};

use muster_engine::JobKey;
use muster_kubernetes::instant;
use muster_model::view::JobState;
use muster_model::{JobId, Time};
use muster_report::metrics::{self, JobFigures, MetricsText, SiteState};
use muster_report::reason;

use crate::counts::Counts;
use crate::gang::GangKey;
use crate::scheduler::Scheduler;

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
            counters: None,
            warnings: 0,
        };
        let mut text = metrics::metrics(&site, self.job_figures(now));
        self.write_present(&mut text);
        self.counts.write(&mut text);
        text.into_text()
    }

    /// Returns the jobs as the figures count them. The engine explains only jobs that wait.
    fn job_figures(&self, now: Time) -> impl Iterator<Item = JobFigures<'_>> {
        let waits = |key: &JobKey<'_>| matches!(key.state, JobState::Pending | JobState::Held);
        let waiting: Vec<JobId> = self.engine.job_keys().filter(waits).map(|key| key.job).collect();
        let mut views: BTreeMap<JobId, _> = self
            .engine
            .jobs_by_id(now, &waiting)
            .into_iter()
            .map(|view| (view.job, (view.submitted, view.waiting_for)))
            .collect();
        self.engine.job_keys().filter_map(move |key| {
            let batch = self.batches.get(&key.job)?;
            let (seen, waiting_for) = views.remove(&key.job).unwrap_or((now, None));
            // The engine only knows when this process first saw a job.
            let created = || instant::parse(self.created(&batch.gang)?);
            let submitted = if waits(&key) { created().unwrap_or(seen) } else { seen };
            let places = batch.placed.iter().flat_map(|placed| &placed.places);
            Some(JobFigures {
                queue: key.queue,
                user: key.user,
                state: key.state,
                submitted,
                waiting: u32::from(waits(&key)),
                reason: waiting_for.as_ref().map(reason::word),
                held_milli: places
                    .map(|place| place.devices.len() as u64 * u64::from(place.share.0))
                    .sum(),
                idle: 0,
            })
        })
    }

    /// Writes the numbers of pods and gangs that wait now.
    fn write_present(&self, text: &mut MetricsText) {
        let waiting = || self.pods.values().filter(|pod| pod.facts.is_ours && pod.is_waiting());
        let gangs: BTreeSet<GangKey> =
            waiting().map(|pod| self.groups.gang_of(&pod.facts)).collect();
        let is_held_back =
            |key: &&GangKey| self.gangs.get(key).is_some_and(|gang| gang.hold.is_some());
        for (name, help, value) in [
            (
                "waiting_pods",
                "Pods that wait for a node.",
                waiting().filter(|pod| !pod.is_expected).count(),
            ),
            ("waiting_gangs", "Gangs of which a pod waits, and suspended workloads.", gangs.len()),
            (
                "held_back_gangs",
                "Waiting gangs that are not in a queue: pods of them are missing, or what they ask for is not \
                 understood.",
                gangs.iter().filter(is_held_back).count(),
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
