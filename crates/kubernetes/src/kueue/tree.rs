//! Cohorts and ClusterQueues as a queue tree. Each root of Kueue's forest owns what its quotas say, and
//! borrows nothing from other roots.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use muster_model::queue::{Backfill, Preemption};
use muster_model::{GpuModel, QueueName, QueueSpec, QueueTree};

use super::coverage::{self, Coverage};
use super::object::{ClusterQueueSpec, FairSharing};
use super::{ClusterQueue, Hold, ModelsOf, Objects};
use crate::quantity;

/// Leaf for running pods whose LocalQueue does not exist. No object has such a name.
pub(super) const NO_QUEUE: &str = "(none)";
/// Most Cohorts from a ClusterQueue to its root; the engine takes trees of 32 levels.
const MAX_DEPTH: usize = 30;

type ClusterQueues = BTreeMap<Arc<str>, ClusterQueue>;
type Notes = BTreeMap<Arc<str>, String>;

/// Reads the tree, the ClusterQueues by name, and what must be said of Cohorts.
pub(super) fn read(objects: &Objects, models: ModelsOf<'_>) -> (QueueTree, ClusterQueues, Notes) {
    let mut reader = Reader::new(objects, models);
    let preemption = reader.preemption();
    let backfill = reader.backfill();
    let mut queues = reader.roots();
    queues.push(QueueSpec::named(NO_QUEUE));
    let tree = QueueTree {
        preemption,
        backfill,
        default_queue: NO_QUEUE.into(),
        queues,
        ..QueueTree::single()
    };
    reader.notes.append(&mut reader.defects);
    (tree, reader.found, reader.notes)
}

struct Reader<'a> {
    objects: &'a Objects,
    models: ModelsOf<'a>,
    /// Cohorts and ClusterQueues below each Cohort; `None` for the roots.
    cohorts: BTreeMap<Option<Arc<str>>, BTreeSet<Arc<str>>>,
    cluster_queues: BTreeMap<Option<Arc<str>>, BTreeSet<Arc<str>>>,
    /// Factor by which weights become whole numbers.
    weight_unit: u128,
    /// Cohorts without a root, and why: no pod of their ClusterQueues starts.
    defects: Notes,
    /// Quotas of Cohorts that have no effect.
    notes: Notes,
    remarks: BTreeMap<Arc<str>, Vec<String>>,
    found: ClusterQueues,
}

impl<'a> Reader<'a> {
    fn new(objects: &'a Objects, models: ModelsOf<'a>) -> Self {
        let weights = (objects.cluster_queues.values().map(|queue| &queue.fair_sharing))
            .chain(objects.cohorts.values().map(|cohort| &cohort.fair_sharing));
        let is_whole = weights.map(milli).all(|milli| milli > 0 && milli % 1000 == 0);
        let mut reader = Self {
            objects,
            models,
            cohorts: BTreeMap::new(),
            cluster_queues: BTreeMap::new(),
            weight_unit: if is_whole { 1000 } else { 1 },
            defects: Notes::new(),
            notes: Notes::new(),
            remarks: BTreeMap::new(),
            found: ClusterQueues::new(),
        };
        reader.arrange();
        reader
    }

    /// Puts each Cohort and ClusterQueue below its parent; those without a root are roots.
    fn arrange(&mut self) {
        let of_queues = self.objects.cluster_queues.values();
        let named: BTreeSet<Arc<str>> = of_queues
            .filter_map(|queue| queue.cohort_name.clone())
            .chain(self.objects.cohorts.keys().cloned())
            .chain(self.objects.cohorts.values().filter_map(|cohort| cohort.parent_name.clone()))
            .collect();
        for name in &named {
            if let Err(defect) = self.check_root(name) {
                self.defects.insert(Arc::clone(name), defect);
            }
        }
        for name in named {
            let parent = self.parent(&name).filter(|_| !self.defects.contains_key(&name));
            self.cohorts.entry(parent).or_default().insert(name);
        }
        for (name, queue) in &self.objects.cluster_queues {
            let cohort = queue.cohort_name.clone();
            let cohort = cohort.filter(|cohort| !self.defects.contains_key(cohort));
            self.cluster_queues.entry(cohort).or_default().insert(Arc::clone(name));
        }
    }

    fn parent(&self, cohort: &str) -> Option<Arc<str>> {
        self.objects.cohorts.get(cohort)?.parent_name.clone()
    }

    /// Checks that the parents of a Cohort end.
    fn check_root(&self, cohort: &Arc<str>) -> Result<(), String> {
        let mut path = vec![Arc::clone(cohort)];
        while let Some(parent) = self.parent(&path[path.len() - 1]) {
            let seen = path.iter().position(|one| *one == parent);
            path.push(parent);
            if let Some(first) = seen {
                return Err(format!(
                    "the parents of Cohorts form a cycle: {}",
                    path[first..].join(", ")
                ));
            }
            if path.len() > MAX_DEPTH {
                return Err(format!("Cohort {cohort} is more than {MAX_DEPTH} levels deep"));
            }
        }
        Ok(())
    }

    // ---- rules for the whole tree ----

    /// Returns the preemption settings that all ClusterQueues share; a ClusterQueue whose setting is not
    /// in force gets a remark.
    fn preemption(&mut self) -> Preemption {
        let all = || self.objects.cluster_queues.values().map(|queue| &queue.preemption);
        let reclaims = |word: &str| word == "Any";
        let with_cohort =
            || self.objects.cluster_queues.values().filter(|queue| queue.cohort_name.is_some());
        let rule = Preemption {
            reclaim: with_cohort().all(|queue| reclaims(&queue.preemption.reclaim_within_cohort))
                && with_cohort().next().is_some(),
            priority: all().all(|one| !is_never(&one.within_cluster_queue))
                && all().next().is_some(),
        };
        let objects = self.objects;
        for (name, queue) in &objects.cluster_queues {
            let own = &queue.preemption;
            let mut remark = |text: &str| {
                self.remarks.entry(Arc::clone(name)).or_default().push(text.to_owned());
            };
            let word = own.reclaim_within_cohort.as_str();
            if queue.cohort_name.is_some() && !is_never(word) && !rule.reclaim {
                remark(
                    "quota is not reclaimed: every ClusterQueue of a Cohort must have `reclaimWithinCohort: Any`",
                );
            }
            if !is_never(&own.within_cluster_queue) && !rule.priority {
                remark(
                    "priorities do not preempt: every ClusterQueue must set `withinClusterQueue`",
                );
            }
            if own.within_cluster_queue == "LowerOrNewerEqualPriority" {
                remark("jobs of the same priority are not preempted");
            }
            if !is_never(&own.borrow_within_cohort.policy) {
                remark(
                    "`borrowWithinCohort` has no effect: a job that borrows does not preempt jobs of other queues",
                );
            }
        }
        rule
    }

    /// Returns strict order if all ClusterQueues ask for it, else backfill.
    fn backfill(&mut self) -> Backfill {
        let is_strict = |queue: &ClusterQueueSpec| queue.queueing_strategy == "StrictFIFO";
        let objects = self.objects;
        let queues = &objects.cluster_queues;
        if !queues.is_empty() && queues.values().all(is_strict) {
            return Backfill::None;
        }
        for (name, _) in queues.iter().filter(|(_, queue)| is_strict(queue)) {
            self.remarks.entry(Arc::clone(name)).or_default().push(
                "jobs are backfilled: for strict order every ClusterQueue must have `StrictFIFO`"
                    .to_owned(),
            );
        }
        Backfill::Easy
    }

    // ---- queues ----

    fn roots(&mut self) -> Vec<QueueSpec> {
        let mut queues = self.below(None, "");
        for queue in queues.iter_mut().filter(|queue| !queue.quota.is_empty()) {
            queue.borrow = Some(0);
        }
        queues
    }

    /// Returns the queues below a Cohort, or the roots.
    fn below(&mut self, cohort: Option<&Arc<str>>, path: &str) -> Vec<QueueSpec> {
        let leaves = self.cluster_queues.get(&cohort.cloned()).cloned().unwrap_or_default();
        let cohorts = self.cohorts.get(&cohort.cloned()).cloned().unwrap_or_default();
        let mut queues: Vec<QueueSpec> =
            leaves.iter().map(|name| self.leaf(name, &join(path, name))).collect();
        for name in cohorts {
            // No object has a colon in its name.
            let own =
                if leaves.contains(&name) { format!("cohort:{name}").into() } else { name.clone() };
            queues.push(self.cohort(&name, &own, &join(path, &own)));
        }
        queues
    }

    /// Returns the queue of a Cohort: its quota is its own, and that of all queues below.
    fn cohort(&mut self, name: &Arc<str>, own_name: &str, path: &str) -> QueueSpec {
        let object = self.objects.cohorts.get(name);
        let groups = object.map_or(&[][..], |object| &object.resource_groups);
        let own = coverage::read(groups, &self.objects.flavors, self.models);
        let notes: Vec<String> =
            own.hold.into_iter().map(|hold| hold.message).chain(own.remarks).collect();
        if !notes.is_empty() {
            self.notes.insert(Arc::clone(name), notes.join("; "));
        }
        let weight = object.map_or(1, |object| self.weight(&object.fair_sharing));
        let queues = self.below(Some(name), path);
        let mut quota = own.quota;
        for (model, gpus) in queues.iter().flat_map(|queue| &queue.quota) {
            *quota.entry(model.clone()).or_default() += gpus;
        }
        QueueSpec { queues, weight, ..spec(own_name, quota, own.borrow, own.lend) }
    }

    /// Returns the queue of a ClusterQueue, and notes what is in force of it.
    fn leaf(&mut self, name: &Arc<str>, path: &str) -> QueueSpec {
        let object = &self.objects.cluster_queues[name];
        let mut own = coverage::read(&object.resource_groups, &self.objects.flavors, self.models);
        let mut remarks = self.remarks.remove(name).unwrap_or_default();
        remarks.append(&mut own.remarks);
        let hold = self.hold(name, object, &own);
        let found = ClusterQueue {
            queue: QueueName::from(path),
            hold,
            drains: object.stop_policy.word() == Some("HoldAndDrain"),
            remarks,
            groups: own.groups,
        };
        self.found.insert(Arc::clone(name), found);
        let weight = self.weight(&object.fair_sharing);
        QueueSpec { weight, ..spec(name, own.quota, own.borrow, own.lend) }
    }

    /// Returns why no pod of a ClusterQueue starts.
    fn hold(&self, name: &str, object: &ClusterQueueSpec, own: &Coverage) -> Option<Hold> {
        if object.is_deleted {
            return Some(Hold::new("Terminating", format!("ClusterQueue {name} is being deleted")));
        }
        if let Some(word) = object.stop_policy.word() {
            let text = format!("ClusterQueue {name} starts nothing (`stopPolicy: {word}`)");
            return Some(Hold::new("Stopped", text));
        }
        let because = |text: &str| format!("ClusterQueue {name} starts nothing: {text}");
        let defect = object.cohort_name.as_ref().and_then(|cohort| self.defects.get(cohort));
        if let Some(defect) = defect {
            return Some(Hold::new("CohortInvalid", because(defect)));
        }
        let checks: Vec<&str> = object.checks().collect();
        if !checks.is_empty() {
            let text = format!(
                "admission checks are not supported ({}); remove them from the ClusterQueue",
                checks.join(", ")
            );
            return Some(Hold::new("AdmissionCheckNotSupported", because(&text)));
        }
        let hold = own.hold.as_ref()?;
        Some(Hold::new(hold.reason, because(&hold.message)))
    }

    fn weight(&self, fair_sharing: &FairSharing) -> u32 {
        u32::try_from(milli(fair_sharing) / self.weight_unit).unwrap_or(u32::MAX).max(1)
    }
}

/// Returns a weight in thousandths; Kueue's default is 1.
fn milli(fair_sharing: &FairSharing) -> u128 {
    fair_sharing.weight.as_ref().and_then(|text| quantity::milli(&text.0)).unwrap_or(1000)
}

fn is_never(word: &str) -> bool {
    ["", "Never"].contains(&word)
}

fn join(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}/{name}") }
}

/// Returns a queue; limits on borrowing and lending go with a quota.
fn spec(
    name: &str,
    quota: BTreeMap<GpuModel, u64>,
    borrow: Option<u64>,
    lend: Option<u64>,
) -> QueueSpec {
    let has_quota = !quota.is_empty();
    QueueSpec {
        quota,
        borrow: borrow.filter(|_| has_quota),
        lend: lend.filter(|_| has_quota),
        ..QueueSpec::named(name)
    }
}
