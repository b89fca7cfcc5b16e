//! No control plane at all: people with `ssh` and `nvidia-smi`. Who wants to run something logs in, looks which machines are
//! idle, and takes as many whole machines as the work needs. Who finds too few looks again some time later; nobody keeps a
//! list, so who looks first after a machine has become idle gets it. And people are not there when their work ends: until
//! they come back, their machines stay taken and do nothing.
//!
//! Sources for that it is so: reservations that people make and forget (roscisz/TensorHive issue 336), places on GPUs that
//! are kept and not used (Bartzi/LabShare issue 92). How long these things take nobody has measured in a form that can be
//! cited: the constants below are assumptions, and say so. Not modelled: working hours, two people who take the same
//! machine by mistake, and those who take a part of one.

use std::collections::{BTreeMap, BTreeSet};

use muster_model::{NodeId, Span, Time};

use crate::fleet::{Desk, JobNo, Plane, PlaneError, Pool};

/// Who found too few idle machines looks again after so long. Assumption.
const LOOKS_EVERY: Span = Span::from_secs(30 * 60);
/// Who has work running comes back to its machines so long after it has ended. Assumption: as long as dstack
/// (`inactivity_duration`) and Determined (`idle_timeout`) wait in the examples of their documentation until they take back
/// what nobody uses.
const COMES_BACK_AFTER: Span = Span::from_secs(2 * 60 * 60);

/// The people.
#[derive(Clone, Debug, Default)]
pub struct People {
    /// Who looks for machines, and when.
    looks: BTreeSet<(Time, JobNo)>,
    /// Who comes back to their machines, and when.
    returns: BTreeSet<(Time, JobNo)>,
    /// Machines that each has taken.
    taken: BTreeMap<JobNo, Vec<NodeId>>,
    /// Work that has just lost a process: the others end with it.
    crashed: Vec<JobNo>,
    /// Nothing is taken and nothing is broken, since then: who has looked and found too few always will.
    idle_since: Option<Time>,
}

impl People {
    /// Everybody gives up the machines of work that has ended, and looks for others where it has not.
    fn come_back(&mut self, desk: &mut Desk) {
        let now = desk.now();
        while let Some(job) = pop_due(&mut self.returns, now) {
            for node in self.taken.remove(&job).unwrap_or_default() {
                desk.let_go(node);
            }
            if !desk.has_ended(job) {
                self.looks.insert((now, job));
            }
        }
    }

    /// Everybody whose time it is looks, in the order in which they do.
    fn look(&mut self, desk: &mut Desk) -> Result<(), PlaneError> {
        let now = desk.now();
        let mut idle = idle(desk.pool());
        while let Some(job) = pop_due(&mut self.looks, now) {
            let Some(places) = enough(desk, job, &idle) else {
                self.looks.insert((now + LOOKS_EVERY, job));
                continue;
            };
            let mut ranks = 0..desk.job(job).tasks;
            for (node, tasks) in &places {
                for rank in ranks.by_ref().take(*tasks as usize) {
                    desk.place(job, rank, *node)?;
                }
            }
            let nodes: Vec<NodeId> = places.into_iter().map(|(node, _)| node).collect();
            idle.retain(|node| !nodes.contains(node));
            nodes.iter().for_each(|node| desk.keep(job, *node));
            self.taken.insert(job, nodes);
        }
        Ok(())
    }
}

/// The first whose time has come.
fn pop_due(times: &mut BTreeSet<(Time, JobNo)>, now: Time) -> Option<JobNo> {
    let (at, _) = times.first()?;
    if *at > now {
        return None;
    }
    times.pop_first().map(|(_, job)| job)
}

/// Machines on which nothing runs and that nobody has taken.
fn idle(pool: &Pool) -> Vec<NodeId> {
    let idle = pool.nodes().filter(|(_, node)| node.is_up && !node.is_kept && node.tasks == 0);
    idle.map(|(node, _)| node).collect()
}

/// As few of the idle machines as a job's tasks need, and how many go on each; `None` where there are too few.
fn enough(desk: &Desk, job: JobNo, idle: &[NodeId]) -> Option<Vec<(NodeId, u32)>> {
    let job = desk.job(job);
    let mut rooms: Vec<(NodeId, u32)> =
        idle.iter().map(|node| (*node, desk.pool().node(*node).room(&job.task, job.tasks))).collect();
    rooms.sort_by_key(|(node, room)| (std::cmp::Reverse(*room), *node));
    let mut left = job.tasks;
    let mut places = Vec::new();
    for (node, room) in rooms {
        let tasks = room.min(left);
        if tasks == 0 {
            break;
        }
        places.push((node, tasks));
        left -= tasks;
    }
    (left == 0).then_some(places)
}

impl Plane for People {
    fn arrived(&mut self, desk: &Desk, job: JobNo) -> Result<(), PlaneError> {
        self.looks.insert((desk.now(), job));
        Ok(())
    }

    fn ended(&mut self, desk: &Desk, job: JobNo) {
        self.returns.insert((desk.now() + COMES_BACK_AFTER, job));
    }

    /// What is left of the work ends at once. Its owner finds out at the next look, and starts it anew then.
    fn lost(&mut self, desk: &Desk, _node: NodeId, _device: Option<usize>, tasks: &[(JobNo, u32)]) {
        for (job, _) in tasks {
            self.crashed.push(*job);
            self.returns.insert((desk.now() + LOOKS_EVERY, *job));
        }
    }

    fn mended(&mut self, _desk: &Desk, _node: NodeId, _device: Option<usize>) {}

    fn next_wake(&mut self, _now: Time) -> Option<Time> {
        let is_of_use = |at: &Time| self.idle_since.is_none_or(|since| *at < since + LOOKS_EVERY);
        let look = self.looks.first().map(|(at, _)| *at).filter(is_of_use);
        [look, self.returns.first().map(|(at, _)| *at)].into_iter().flatten().min()
    }

    fn decide(&mut self, desk: &mut Desk) -> Result<(), PlaneError> {
        self.crashed.drain(..).for_each(|job| desk.evict(job));
        self.come_back(desk);
        self.look(desk)?;
        let works = |(_, node): (NodeId, &crate::fleet::PoolNode)| node.is_up && node.broken.is_empty();
        let is_all_idle = self.taken.is_empty() && desk.pool().nodes().all(works);
        self.idle_since = is_all_idle.then(|| self.idle_since.unwrap_or(desk.now()));
        Ok(())
    }

    fn why(&mut self, desk: &Desk, job: JobNo) -> String {
        if self.taken.contains_key(&job) {
            return "its owner has not come back since a machine of it broke".to_owned();
        }
        let idle = idle(desk.pool()).len();
        format!("{idle} machines were idle when its owner looked, and it needs more; nobody keeps its place")
    }
}
