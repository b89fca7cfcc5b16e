//! No scheduler: people with `ssh` and `nvidia-smi`. A user logs in, looks for idle machines, and
//! takes as many whole machines as the work needs. Further work of the same user goes on machines
//! that the user has already, where it fits. A user who finds too few looks again later; there is
//! no list, so the first to look gets an idle machine. Users are not there when their work ends:
//! until they come back, their machines stay taken and idle.
//!
//! Sources: reservations that people make and forget (roscisz/TensorHive issue 336), places on GPUs
//! that are kept and not used (Bartzi/LabShare issue 92). No citable measurement of these times
//! exists: the constants below are assumptions, and marked so. Not modelled: working hours, two
//! people who take the same machine by mistake, and people who take a part of one.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use muster_model::{NodeId, Span, Time, UserName};

use crate::fleet::{ClusterState, JobNo, PoolNode, Scheduler, SchedulerError};

/// Time between two looks of a user who found too few idle machines. Assumption.
const LOOKS_EVERY: Span = Span::from_secs(30 * 60);
/// Time from the end of work until its user comes back to the machines. Assumption: as long as
/// dstack (`inactivity_duration`) and Determined (`idle_timeout`) wait in the examples of their
/// documentation until they reclaim unused instances.
const COMES_BACK_AFTER: Span = Span::from_secs(2 * 60 * 60);

/// Offset in milliseconds of a user's looks within each period of `LOOKS_EVERY`.
type LookPhase = u64;

/// The users and their machines.
#[derive(Clone, Debug, Default)]
pub struct People {
    /// New work, whose user looks now.
    fresh: Vec<JobNo>,
    /// Pending work, whose user looks regularly.
    looks: BTreeSet<(LookPhase, JobNo)>,
    /// Times at which users come back, by work.
    returns: BTreeSet<(Time, JobNo)>,
    /// Machines that each user has taken.
    taken: BTreeMap<UserName, BTreeSet<NodeId>>,
    /// Work that has just lost a process: its other processes end, too.
    crashed: Vec<JobNo>,
    /// Last time at which a machine became idle.
    gained: Time,
}

impl People {
    /// Lets users come back: they restart crashed work, and release machines on which nothing runs.
    fn return_users(&mut self, cluster: &mut ClusterState) -> Result<(), SchedulerError> {
        let now = cluster.now();
        while let Some((_, job)) = self.returns.first().copied().filter(|(at, _)| *at <= now) {
            self.returns.pop_first();
            if !cluster.has_ended(job) {
                self.look(cluster, job)?;
            }
            let Some(own) = self.taken.get_mut(&cluster.job(job).user) else { continue };
            let is_used = |node: &NodeId| cluster.pool().node(*node).tasks > 0;
            let (used, unused): (BTreeSet<NodeId>, BTreeSet<NodeId>) =
                own.iter().partition(|node| is_used(node));
            *own = used;
            if !unused.is_empty() {
                self.gained = now;
            }
            unused.iter().for_each(|node| cluster.release(*node));
        }
        Ok(())
    }

    /// Runs the due looks of users who wait, then those of users with new work.
    fn check_machines(&mut self, cluster: &mut ClusterState) -> Result<(), SchedulerError> {
        let phase = cluster.now().0 % LOOKS_EVERY.0;
        let due = self.looks.range((phase, JobNo(0))..=(phase, JobNo(u32::MAX)));
        let due: Vec<JobNo> = due.map(|(_, job)| *job).collect();
        for job in due {
            self.looks.remove(&(phase, job));
            self.look(cluster, job)?;
        }
        for job in std::mem::take(&mut self.fresh) {
            self.look(cluster, job)?;
        }
        Ok(())
    }

    /// Lets the user of a job look, and start it or look again later.
    fn look(&mut self, cluster: &mut ClusterState, job: JobNo) -> Result<(), SchedulerError> {
        let user = cluster.job(job).user.clone();
        let none = BTreeSet::new();
        let Some(places) = places(cluster, job, self.taken.get(&user).unwrap_or(&none)) else {
            self.looks.insert((cluster.now().0 % LOOKS_EVERY.0, job));
            return Ok(());
        };
        let mut ranks = 0..cluster.job(job).tasks;
        let own = self.taken.entry(user).or_default();
        for (node, tasks) in places {
            cluster.release(node);
            for rank in ranks.by_ref().take(tasks as usize) {
                cluster.place(job, rank, node)?;
            }
            cluster.withhold(job, node);
            own.insert(node);
        }
        Ok(())
    }
}

/// Returns places on machines that the user has taken, then on idle ones, the largest first; `None`
/// if they are too few.
fn places(
    cluster: &ClusterState,
    job: JobNo,
    own: &BTreeSet<NodeId>,
) -> Option<Vec<(NodeId, u32)>> {
    let task = &cluster.job(job).task;
    let tasks = cluster.job(job).tasks;
    let of_own = own
        .iter()
        .map(|node| (true, *node, cluster.pool().node(*node).holder_capacity(task, tasks)));
    let idle = cluster.pool().nodes().filter(|(_, node)| is_idle(node));
    let idle = idle.map(|(id, node)| (false, id, node.capacity(task, tasks)));
    let mut capacities: Vec<(bool, NodeId, u32)> =
        of_own.chain(idle).filter(|(.., capacity)| *capacity > 0).collect();
    capacities.sort_by_key(|(is_own, node, capacity)| (!is_own, Reverse(*capacity), *node));
    let mut left = tasks;
    let mut places = Vec::new();
    for (_, node, capacity) in capacities {
        if left == 0 {
            break;
        }
        places.push((node, capacity.min(left)));
        left -= capacity.min(left);
    }
    (left == 0).then_some(places)
}

/// Returns whether nothing runs on the node and no user has taken it.
fn is_idle(node: &PoolNode) -> bool {
    node.is_up && !node.is_withheld && node.tasks == 0
}

impl Scheduler for People {
    fn arrived(&mut self, _cluster: &ClusterState, job: JobNo) -> Result<(), SchedulerError> {
        self.fresh.push(job);
        Ok(())
    }

    fn ended(&mut self, cluster: &ClusterState, job: JobNo) {
        // The user may have other pending work.
        self.gained = cluster.now();
        self.returns.insert((cluster.now() + COMES_BACK_AFTER, job));
    }

    /// Ends the rest of the work at once. Its user notices at the next look, and restarts it then.
    fn lost(
        &mut self,
        cluster: &ClusterState,
        _node: NodeId,
        _device: Option<usize>,
        tasks: &[(JobNo, u32)],
    ) {
        for (job, _) in tasks {
            self.crashed.push(*job);
            self.returns.insert((cluster.now() + LOOKS_EVERY, *job));
        }
    }

    fn repaired(&mut self, cluster: &ClusterState, _node: NodeId, _device: Option<usize>) {
        self.gained = cluster.now();
    }

    /// Skips looks while no machine has become idle since the last one.
    fn next_wake(&mut self, now: Time) -> Option<Time> {
        let phase = now.0 % LOOKS_EVERY.0;
        let start = Time(now.0 - phase);
        let after = (Bound::Excluded((phase, JobNo(u32::MAX))), Bound::Unbounded);
        let later = self.looks.range(after).next().map(|(phase, _)| start + Span(*phase));
        let look = later
            .or_else(|| self.looks.first().map(|(phase, _)| start + LOOKS_EVERY + Span(*phase)));
        let is_of_use = |at: &Time| *at <= self.gained + LOOKS_EVERY;
        [look.filter(is_of_use), self.returns.first().map(|(at, _)| *at)]
            .into_iter()
            .flatten()
            .min()
    }

    fn decide(&mut self, cluster: &mut ClusterState) -> Result<(), SchedulerError> {
        self.crashed.drain(..).for_each(|job| cluster.evict(job));
        self.return_users(cluster)?;
        self.check_machines(cluster)
    }

    fn why(&mut self, cluster: &ClusterState, job: JobNo) -> String {
        if self.returns.iter().any(|(_, other)| *other == job) {
            return "it crashed, and its user has not restarted it yet".to_owned();
        }
        let idle = cluster.pool().nodes().filter(|(_, node)| is_idle(node)).count();
        format!(
            "{idle} machines are idle, its user needs more and looks every half hour; there is no queue"
        )
    }
}
