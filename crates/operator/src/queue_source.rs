//! Queue tree of a scheduler, from a queue file, from `Queue` objects, or from Kueue's objects.

use muster_kubernetes::names;
use muster_model::Time;
use muster_scheduler::{Observation, Scheduler};

use crate::QueueSource;
use crate::kueue::KueueQueues;
use crate::queues::QueueObjects;
use crate::sources::Report;

/// Queue tree, and what it is made of.
pub(crate) enum Queues {
    /// Tree of a queue file, which never changes.
    Fixed,
    Objects(QueueObjects),
    Kueue(Box<KueueQueues>),
}

impl Queues {
    pub(crate) fn of(source: &QueueSource) -> Self {
        match source {
            QueueSource::Tree(_) => Queues::Fixed,
            QueueSource::Objects => Queues::Objects(QueueObjects::new()),
            QueueSource::Kueue => Queues::Kueue(Box::new(KueueQueues::new())),
        }
    }

    /// Takes a report of an object that describes queues; ignores others.
    pub(crate) fn take_in(&mut self, report: Report) {
        match (self, report) {
            (Queues::Objects(objects), Report::Queue(change)) => objects.take_in(change),
            (Queues::Kueue(kueue), Report::Kueue(change)) => kueue.take_in(*change),
            (Queues::Kueue(kueue), Report::KueueVersion(version)) => kueue.set_version(version),
            _ => {}
        }
    }

    /// Returns the labels by which an object asks Muster to start it.
    pub(crate) fn labels(&self) -> &'static [&'static str] {
        match self {
            Queues::Fixed | Queues::Objects(_) => &[names::QUEUE],
            Queues::Kueue(_) => &[names::QUEUE, names::KUEUE_QUEUE],
        }
    }

    /// Has a scheduler take in all observations and the queue tree, without a plan. Quotas of Kueue
    /// depend on the nodes of their flavors, and a job within a quota that is not known yet would be
    /// preempted: so the tree is read again with the nodes before anything is planned.
    pub(crate) fn take_in_all(&mut self, scheduler: &mut Scheduler, now: Time) {
        self.renew(scheduler);
        scheduler.take_in_all(now);
        self.renew(scheduler);
    }

    /// Has a scheduler see the queue tree, if it has changed.
    fn renew(&mut self, scheduler: &mut Scheduler) {
        let (tree, local_queues) = match self {
            Queues::Fixed => (None, None),
            Queues::Objects(objects) => {
                (objects.take_tree(|tree| scheduler.check_queues(tree)), None)
            }
            Queues::Kueue(kueue) => kueue.take_queues(scheduler).unzip(),
        };
        let tree = tree.map(|tree| Observation::Queues(Box::new(tree)));
        let local_queues = local_queues.map(|queues| Observation::LocalQueues(Box::new(queues)));
        for observation in tree.into_iter().chain(local_queues) {
            scheduler.observe(observation);
        }
    }
}
