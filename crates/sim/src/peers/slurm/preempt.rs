//! Preemption by QOS with `PreemptMode=REQUEUE`: a pending job that does not fit makes running jobs
//! of lower QOS end, which are requeued. Each priority of the trace is a QOS that may preempt all
//! lower ones. It must not start jobs: the preemptor starts in a later pass, once nodes are free.
//!
//! Source: src/plugins/preempt/qos, src/interfaces/preempt.c, and _run_now in
//! src/plugins/select/cons_tres/job_test.c.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use muster_model::{NodeId, Span};

use super::capacity::FreeResources;
use super::state::ControllerState;
use super::switches::NodeTasks;
use crate::fleet::{ClusterState, JobNo, Pool};

/// Number of times that candidates are sorted anew after the first
/// (`PreemptParameters=reorder_count`, default).
const REORDER_COUNT: usize = 1;

/// Least time from the preemption of a job until its nodes are free, also without a grace time. An
/// assumption, the same as for other schedulers; a job has up to `KillWait` of 30 s.
const STOPPING: Span = Span::from_secs(1);

/// Room for a job's tasks while other jobs are removed on trial.
struct TrialRoom<'s> {
    state: &'s ControllerState,
    cluster: &'s ClusterState,
    kind: usize,
    pool: Pool,
    /// Number of tasks that fit, by node; nodes that are reserved are left out.
    capacities: BTreeMap<NodeId, u32>,
}

impl TrialRoom<'_> {
    /// Removes a job. Returns where the tasks fit then, if all of them do.
    fn remove(&mut self, job: JobNo) -> Option<NodeTasks> {
        let shape = &self.state.kinds[self.kind];
        let task = &self.cluster.job(job).task;
        for rank in 0..self.cluster.job(job).tasks {
            let Some((node, devices)) = self.cluster.place_of(job, rank) else { continue };
            self.pool.give(node, task, devices);
            if let Some(capacity) = self.capacities.get_mut(&node) {
                let free = FreeResources::of(self.pool.node(node));
                *capacity = self.state.capacities.capacity(node, free, &shape.task);
            }
        }
        let there = self.capacities.iter().filter(|(_, capacity)| **capacity > 0);
        let there: Vec<(NodeId, u32)> = there.map(|(node, tasks)| (*node, *tasks)).collect();
        self.state.switches.choose(&there, shape.tasks)
    }
}

impl ControllerState {
    /// Returns whether a pending job may preempt some running job, now or after its exempt time.
    pub(super) fn may_preempt(&self, job: JobNo) -> bool {
        let qos = self.jobs[job.at()].qos;
        self.settings.preemption.is_some() && self.lowest_qos().is_some_and(|lowest| lowest < qos)
    }

    /// Returns whether the first pending job might preempt a job whose exempt time is not over.
    pub(super) fn awaits_exempt_time(&self, cluster: &ClusterState) -> bool {
        let (Some(rules), Some(first)) = (self.settings.preemption, self.queue.jobs().first())
        else {
            return false;
        };
        let qos = self.jobs[first.at()].qos;
        self.running().any(|job| {
            self.jobs[job.at()].qos < qos
                && cluster
                    .runs_since(job)
                    .is_some_and(|since| since + rules.exempt_time > cluster.now())
        })
    }

    /// Returns the jobs that a job may preempt: lower QOS first, then fewer nodes.
    fn candidates(&self, cluster: &ClusterState, job: JobNo) -> Vec<JobNo> {
        let Some(rules) = self.settings.preemption else { return Vec::new() };
        let qos = self.jobs[job.at()].qos;
        let is_over = |job: &JobNo| {
            cluster.runs_since(*job).is_some_and(|since| since + rules.exempt_time <= cluster.now())
        };
        let mut candidates: Vec<JobNo> = self
            .running()
            .filter(|other| self.jobs[other.at()].qos < qos)
            .filter(is_over)
            .collect();
        candidates.sort_by_key(|job| (self.jobs[job.at()].qos, cluster.status(*job).nodes, *job));
        candidates
    }

    /// Returns the jobs whose preemption lets a job start on open nodes; `None` if none do.
    /// Candidates are removed one by one until the job fits. Then the last one removed comes first,
    /// the others by the number of their nodes that were chosen, and the search starts anew; at the
    /// end only jobs on chosen nodes are preempted.
    pub(super) fn preemptees(
        &self,
        cluster: &ClusterState,
        job: JobNo,
        is_open: impl Fn(NodeId) -> bool,
    ) -> Option<Vec<JobNo>> {
        let kind = self.jobs[job.at()].kind;
        let mut candidates = self.candidates(cluster, job);
        let capacity = |(node, there)| {
            (node, self.capacities.capacity(node, FreeResources::of(there), &self.kinds[kind].task))
        };
        let open = cluster.pool().nodes().filter(|(node, _)| is_open(*node));
        let capacities: BTreeMap<NodeId, u32> = open.map(capacity).collect();
        for pass in 0.. {
            let mut room = TrialRoom {
                state: self,
                cluster,
                kind,
                pool: cluster.pool().clone(),
                capacities: capacities.clone(),
            };
            let fit = candidates
                .iter()
                .enumerate()
                .find_map(|(at, candidate)| Some((at, room.remove(*candidate)?)));
            let (last, places) = fit?;
            let overlap = |job: &JobNo| nodes_among(cluster, *job, &places);
            if pass > REORDER_COUNT || candidates.len() <= pass + 1 {
                candidates.truncate(last + 1);
                candidates.retain(|job| overlap(job) > 0);
                break;
            }
            let mut front = candidates.split_off(last);
            std::mem::swap(&mut front, &mut candidates);
            let after = candidates.split_off(1);
            front.sort_by_key(|job| Reverse(overlap(job)));
            candidates.extend(front);
            candidates.extend(after);
        }
        Some(candidates)
    }

    /// Preempts jobs: each runs on for its grace time and ends then. False if all of them were
    /// preempted before.
    pub(super) fn preempt(&mut self, cluster: &ClusterState, jobs: &[JobNo]) -> bool {
        let grace = self.settings.preemption.unwrap_or_default().grace_time.max(STOPPING);
        let end = cluster.now() + grace;
        jobs.iter().fold(false, |is_new, job| self.end_by(*job, end) | is_new)
    }
}

/// Returns how many of its nodes a job has among the chosen ones.
fn nodes_among(cluster: &ClusterState, job: JobNo, places: &NodeTasks) -> usize {
    let ranks = 0..cluster.job(job).tasks;
    let mut nodes: Vec<NodeId> =
        ranks.filter_map(|rank| Some(cluster.place_of(job, rank)?.0)).collect();
    nodes.sort_unstable();
    nodes.dedup();
    nodes.iter().filter(|node| places.iter().any(|(chosen, _)| chosen == *node)).count()
}
