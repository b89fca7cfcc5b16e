//! No control plane at all: people with `ssh` and `nvidia-smi`. Who wants to run something logs in,
//! looks which machines are idle, and takes as many whole machines as the work needs. Further work
//! of the same person goes on machines that the person has taken already, where there is room. Who
//! finds too few looks again some time later; nobody keeps a list, so who looks first after a
//! machine has become idle gets it. And people are not there when their work ends: until they come
//! back, their machines stay taken and do nothing.
//!
//! Sources for that it is so: reservations that people make and forget (roscisz/TensorHive issue
//! 336), places on GPUs that are kept and not used (Bartzi/LabShare issue 92). How long these
//! things take nobody has measured in a form that can be cited: the constants below are
//! assumptions, and say so. Not modelled: working hours, two people who take the same machine by
//! mistake, and those who take a part of one.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use muster_model::{NodeId, Span, Time, UserName};

use crate::fleet::{Desk, JobNo, Plane, PlaneError, PoolNode};

/// Who found too few idle machines looks again after so long. Assumption.
const LOOKS_EVERY: Span = Span::from_secs(30 * 60);
/// Who has work running comes back to its machines so long after it has ended. Assumption: as long
/// as dstack (`inactivity_duration`) and Determined (`idle_timeout`) wait in the examples of their
/// documentation until they take back what nobody uses.
const COMES_BACK_AFTER: Span = Span::from_secs(2 * 60 * 60);

/// When in each stretch of `LOOKS_EVERY` somebody looks, in milliseconds.
type Phase = u64;

/// The people.
#[derive(Clone, Debug, Default)]
pub struct People {
    /// Work that is there and whose owner looks now.
    fresh: Vec<JobNo>,
    /// Work whose owner looks every so often.
    looks: BTreeSet<(Phase, JobNo)>,
    /// After which work its owner comes back, and when.
    returns: BTreeSet<(Time, JobNo)>,
    /// Machines, and who has taken them.
    taken: BTreeMap<UserName, BTreeSet<NodeId>>,
    /// Work that has just lost a process: the others end with it.
    crashed: Vec<JobNo>,
    /// When a machine became idle last.
    gained: Time,
}

impl People {
    /// Who comes back starts again what has crashed, and gives up machines on which nothing runs.
    fn come_back(&mut self, desk: &mut Desk) -> Result<(), PlaneError> {
        let now = desk.now();
        while let Some((_, job)) = self.returns.first().copied().filter(|(at, _)| *at <= now) {
            self.returns.pop_first();
            if !desk.has_ended(job) {
                self.look(desk, job)?;
            }
            let Some(own) = self.taken.get_mut(&desk.job(job).user) else { continue };
            let is_used = |node: &NodeId| desk.pool().node(*node).tasks > 0;
            let (used, unused): (BTreeSet<NodeId>, BTreeSet<NodeId>) =
                own.iter().partition(|node| is_used(node));
            *own = used;
            if !unused.is_empty() {
                self.gained = now;
            }
            unused.iter().for_each(|node| desk.let_go(*node));
        }
        Ok(())
    }

    /// Who looks at this time of each stretch does, and then who has new work.
    fn look_all(&mut self, desk: &mut Desk) -> Result<(), PlaneError> {
        let phase = desk.now().0 % LOOKS_EVERY.0;
        let due = self.looks.range((phase, JobNo(0))..=(phase, JobNo(u32::MAX)));
        let due: Vec<JobNo> = due.map(|(_, job)| *job).collect();
        for job in due {
            self.looks.remove(&(phase, job));
            self.look(desk, job)?;
        }
        for job in std::mem::take(&mut self.fresh) {
            self.look(desk, job)?;
        }
        Ok(())
    }

    /// The owner of a job looks, and starts it or looks again later.
    fn look(&mut self, desk: &mut Desk, job: JobNo) -> Result<(), PlaneError> {
        let user = desk.job(job).user.clone();
        let none = BTreeSet::new();
        let Some(places) = places(desk, job, self.taken.get(&user).unwrap_or(&none)) else {
            self.looks.insert((desk.now().0 % LOOKS_EVERY.0, job));
            return Ok(());
        };
        let mut ranks = 0..desk.job(job).tasks;
        let own = self.taken.entry(user).or_default();
        for (node, tasks) in places {
            desk.let_go(node);
            for rank in ranks.by_ref().take(tasks as usize) {
                desk.place(job, rank, node)?;
            }
            desk.keep(job, node);
            own.insert(node);
        }
        Ok(())
    }
}

/// Room on machines that the owner has taken, then on idle ones, the largest first; `None` where it
/// is too little.
fn places(desk: &Desk, job: JobNo, own: &BTreeSet<NodeId>) -> Option<Vec<(NodeId, u32)>> {
    let (task, tasks) = (&desk.job(job).task, desk.job(job).tasks);
    let of_own =
        own.iter().map(|node| (true, *node, desk.pool().node(*node).keepers_room(task, tasks)));
    let idle = desk.pool().nodes().filter(|(_, node)| is_idle(node));
    let idle = idle.map(|(id, node)| (false, id, node.room(task, tasks)));
    let mut rooms: Vec<(bool, NodeId, u32)> =
        of_own.chain(idle).filter(|(.., room)| *room > 0).collect();
    rooms.sort_by_key(|(is_own, node, room)| (!is_own, Reverse(*room), *node));
    let mut left = tasks;
    let mut places = Vec::new();
    for (_, node, room) in rooms {
        if left == 0 {
            break;
        }
        places.push((node, room.min(left)));
        left -= room.min(left);
    }
    (left == 0).then_some(places)
}

/// Nothing runs on it and nobody has taken it.
fn is_idle(node: &PoolNode) -> bool {
    node.is_up && !node.is_kept && node.tasks == 0
}

impl Plane for People {
    fn arrived(&mut self, _desk: &Desk, job: JobNo) -> Result<(), PlaneError> {
        self.fresh.push(job);
        Ok(())
    }

    fn ended(&mut self, desk: &Desk, job: JobNo) {
        // Its owner may have other work that waits.
        self.gained = desk.now();
        self.returns.insert((desk.now() + COMES_BACK_AFTER, job));
    }

    /// What is left of the work ends at once. Its owner finds out at the next look, and starts it
    /// anew then.
    fn lost(&mut self, desk: &Desk, _node: NodeId, _device: Option<usize>, tasks: &[(JobNo, u32)]) {
        for (job, _) in tasks {
            self.crashed.push(*job);
            self.returns.insert((desk.now() + LOOKS_EVERY, *job));
        }
    }

    fn mended(&mut self, desk: &Desk, _node: NodeId, _device: Option<usize>) {
        self.gained = desk.now();
    }

    /// Looks at which nobody finds more than at the last are passed over.
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

    fn decide(&mut self, desk: &mut Desk) -> Result<(), PlaneError> {
        self.crashed.drain(..).for_each(|job| desk.evict(job));
        self.come_back(desk)?;
        self.look_all(desk)
    }

    fn why(&mut self, desk: &Desk, job: JobNo) -> String {
        if self.returns.iter().any(|(_, other)| *other == job) {
            return "its owner has not come back since it crashed".to_owned();
        }
        let idle = desk.pool().nodes().filter(|(_, node)| is_idle(node)).count();
        format!(
            "{idle} machines are idle, its owner needs more and looks every half hour; nobody keeps a place"
        )
    }
}
