//! Assignment of pods to a queue of the tree: by its path, or, where Kueue's queues are read, by a
//! LocalQueue of their namespace, which also says on which nodes its quota counts.

use std::sync::Arc;

use muster_kubernetes::kueue::{LocalQueues, Target};
use muster_kubernetes::names;
use muster_kubernetes::pod::{PodFacts, Wishes};
use muster_kubernetes::rule::NodeRule;
use muster_model::{GpuModel, QueueName, QueueSpec, QueueTree, UserName};

/// Queue of a job, and what its quota covers.
#[derive(Clone, Debug)]
pub(crate) struct Assignment {
    pub(crate) queue: QueueName,
    /// ClusterQueue of Kueue whose flavors restrict the nodes; `None` for no restriction.
    target: Option<Arc<Target>>,
}

impl Assignment {
    /// Assigns pods that wait to the leaf that their label names.
    ///
    /// # Errors
    /// Why none of them may start, for users.
    pub(crate) fn of_waiting(
        tree: &QueueTree,
        local_queues: Option<&LocalQueues>,
        wishes: &Wishes,
        namespace: &Arc<str>,
    ) -> Result<Self, String> {
        let Some(local_queues) = local_queues else {
            return Ok(Self { queue: named(tree, wishes, namespace)?, target: None });
        };
        let found = local_queues.find(namespace, wishes.local_queue())?;
        match (&found.hold, &found.target) {
            (Some(hold), _) => Err(hold.message.clone()),
            (None, None) => Err("its LocalQueue has no ClusterQueue".to_owned()),
            (None, Some(target)) => {
                Ok(Self { queue: target.queue.clone(), target: Some(Arc::clone(target)) })
            }
        }
    }

    /// Assigns pods that run, wherever they are. A queue that does not exist, or that they may not use,
    /// is replaced by the default; a LocalQueue on hold keeps them.
    pub(crate) fn of_running(
        tree: &QueueTree,
        local_queues: Option<&LocalQueues>,
        wishes: &Wishes,
        namespace: &Arc<str>,
    ) -> Self {
        let found = match local_queues {
            None => named(tree, wishes, namespace).ok(),
            Some(local_queues) => {
                let found = local_queues.find(namespace, wishes.local_queue()).ok();
                found.and_then(|found| Some(found.target.as_ref()?.queue.clone()))
            }
        };
        Self { queue: found.unwrap_or_else(|| tree.default_queue.clone()), target: None }
    }

    /// Adds the nodes on which the quota counts to the rule of a pod.
    pub(crate) fn restrict(&self, pod: &PodFacts, rule: &mut NodeRule) {
        if let Some(target) = &self.target {
            target.restrict(&pod.requests, rule);
        }
    }

    /// Returns those of the models of a GPU resource that the quota covers, the preferred one first.
    ///
    /// # Errors
    /// Why there are none, for users.
    pub(crate) fn models(
        &self,
        resource: &str,
        all: Vec<GpuModel>,
    ) -> Result<Vec<GpuModel>, String> {
        let Some(target) = &self.target else { return Ok(all) };
        let covered = target.models(resource)?;
        let there: Vec<GpuModel> =
            covered.iter().filter(|one| all.contains(one)).cloned().collect();
        if there.is_empty() {
            let names: Vec<&str> = covered.iter().map(GpuModel::as_str).collect();
            return Err(format!(
                "no node that it may use has GPUs of the model {}",
                names.join(" or ")
            ));
        }
        Ok(there)
    }

    /// Returns the topology levels that the pods require and prefer: in Kueue's words, too, where its
    /// queues are read.
    ///
    /// # Errors
    /// A term that is not supported, for users.
    pub(crate) fn topology<'a>(
        &self,
        wishes: &'a Wishes,
    ) -> Result<(Option<&'a str>, Option<&'a str>), String> {
        let own = (wishes.required_topology.as_deref(), wishes.preferred_topology.as_deref());
        if self.target.is_none() || own != (None, None) {
            return Ok(own);
        }
        let kueue = &wishes.kueue;
        if kueue.slice_topology.is_some() {
            return Err(format!(
                "not supported by this scheduler: the annotation {}",
                names::KUEUE_SLICE_TOPOLOGY
            ));
        }
        Ok((kueue.required_topology.as_deref(), kueue.preferred_topology.as_deref()))
    }
}

/// Returns the leaf queue that a label names, if the namespace may use it; in labels `.` stands for
/// `/`. Kueue's label may name a LocalQueue that is no queue here: then Kueue has counted its quota, and
/// the default queue is meant.
fn named(tree: &QueueTree, wishes: &Wishes, namespace: &str) -> Result<QueueName, String> {
    let is_here = |label: &&str| find_queue(&tree.queues, &label.replace('.', "/"), &[]).is_some();
    let of_kueue = || wishes.kueue.queue.as_deref().filter(is_here);
    let label = wishes.queue.as_deref().or_else(of_kueue);
    let path =
        label.map_or_else(|| tree.default_queue.to_string(), |label| label.replace('.', "/"));
    let (found, users) = find_queue(&tree.queues, &path, &[])
        .ok_or_else(|| format!("there is no queue {path} to submit to"))?;
    let is_open = users.is_empty() || users.iter().any(|user| user.as_str() == namespace);
    if found.queues.is_empty() && is_open {
        Ok(path.into())
    } else if is_open {
        Err(format!("queue {path} has queues below it, and takes no pods itself"))
    } else {
        Err(format!("namespace {namespace} may not use queue {path}"))
    }
}

/// Finds a queue by its path; returns it with those who may use it, as it says itself or the
/// nearest queue above that does.
fn find_queue<'a>(
    queues: &'a [QueueSpec],
    path: &str,
    above: &'a [UserName],
) -> Option<(&'a QueueSpec, &'a [UserName])> {
    let (name, rest) = path.split_once('/').map_or((path, None), |(name, rest)| (name, Some(rest)));
    let found = queues.iter().find(|queue| *queue.name == *name)?;
    let users = if found.users.is_empty() { above } else { &found.users };
    match rest {
        None => Some((found, users)),
        Some(rest) => find_queue(&found.queues, rest, users),
    }
}
