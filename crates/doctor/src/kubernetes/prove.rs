//! Probe gangs for a scheduler: one of one pod more than fits, which must get no node, and one that
//! fits. Makes their objects and judges their pods; submits nothing.

mod objects;

use std::collections::BTreeMap;
use std::sync::Arc;

use muster_kubernetes::job::kueue;
use muster_kubernetes::node::is_gpu;
use muster_model::check::{CheckProbe, ProbeOutcome};
use muster_model::{Reason, Span};
use serde_json::Value;

use self::objects::GangForm;
use super::resource::DEPLOYMENTS;
use super::rules::GANG_SCHEDULERS;
use super::snapshot::Snapshot;
use super::view::{ClusterView, count};

/// Name that stands for Kueue in place of a scheduler: kube-scheduler places the pods of what it starts.
const KUEUE: &str = "kueue";

/// Reason of a Workload that waits for quota (Kueue 0.19); others are for queues that admit nothing.
const WAITS_FOR_QUOTA: &str = "Pending";

/// Cause of a gang that Kueue has started in part.
const BEYOND_FREE: &str =
    ": the quota of the queue is larger than what is free, and its flavors have no topology";

/// Name of the Deployment of Kueue in its chart.
const KUEUE_DEPLOYMENT: &str = "kueue-controller-manager";

/// Name that stands for kube-scheduler with its own PodGroups, as in job files.
const POD_GROUPS: &str = "pod-groups";

/// Ids of the probes, in the order in which they run.
pub const PROBES: [&str; 2] = ["gang-too-large", "gang-that-fits"];

/// Label of all objects of the probes, by which they are found and removed.
pub const LABEL: &str = "muster.run/probe";

/// Time for which a gang that cannot fit is watched: schedulers decide within seconds, and look again
/// when something changes.
pub const OBSERVED: Span = Span::from_secs(20);

/// Time after which a gang that has not started counts as failed.
pub const PATIENCE: Span = Span::from_secs(60);

/// Greatest number of pods of a probe: more would be a load for a control plane.
const MOST_PODS: u64 = 256;

/// Gangs that show how a scheduler treats gangs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProbePlan {
    /// Name of the scheduler, `kueue` or `pod-groups`.
    pub scheduler: String,
    /// Resource that each pod requests.
    resource: Arc<str>,
    /// Units of it for each pod.
    gpus: u64,
    /// Number of such pods that fit into what is free.
    fits: u64,
}

/// Place of the probe pods, and what they run.
#[derive(Clone, Debug)]
pub struct ProbeTerms {
    /// Namespace that they are created in.
    pub namespace: String,
    /// Queue in the label of the scheduler; `None` for its default.
    pub queue: Option<String>,
    /// Image with a program that waits.
    pub image: String,
}

/// Object to create, without its API version.
#[derive(Clone, Debug, PartialEq)]
pub struct ProbeObject {
    /// API group; empty for pods.
    pub group: &'static str,
    /// Resource name in addresses.
    pub plural: &'static str,
    /// The object as a manifest.
    pub object: Value,
}

/// Gang of a probe, as it is in the cluster.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ProbedGang {
    /// Its pods, as the API server prints them.
    pub pods: Vec<Value>,
    /// Reason of its queue for not starting it; `None` before one is given, and where pods have it.
    pub refusal: Option<QueueRefusal>,
}

/// Reason of a queue for not starting a gang.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueRefusal {
    /// Text of Kueue for people, which names the quota or the queue.
    pub message: String,
    /// True if it waits for quota; false if its queue is missing or stopped.
    pub is_about_quota: bool,
}

impl ProbedGang {
    /// Returns a gang that Kueue starts, with Kueue's reason from the Workloads of the namespace.
    #[must_use]
    pub fn in_kueue(pods: Vec<Value>, name: &str, workloads: &[Value]) -> Self {
        let is_own = |one: &&Value| one["metadata"]["ownerReferences"][0]["name"] == name;
        let reason = workloads.iter().find(is_own).and_then(kueue::waiting_reason);
        let refusal = reason.and_then(|(_, reason)| match reason {
            Reason::Native { code, message, .. } => {
                Some(QueueRefusal { message, is_about_quota: code == WAITS_FOR_QUOTA })
            }
            _ => None,
        });
        Self { pods, refusal }
    }
}

/// Returns the result of a probe.
pub fn probe(probe: &'static str, outcome: ProbeOutcome, text: impl Into<String>) -> CheckProbe {
    CheckProbe { probe, outcome, text: text.into() }
}

impl ProbePlan {
    /// Plans the gangs for a scheduler, or for the gang scheduler that runs in the cluster.
    ///
    /// # Errors
    /// The input that is needed, or what has to be free.
    pub fn of(snapshot: &Snapshot, scheduler: Option<&str>) -> Result<Self, String> {
        let cluster = ClusterView::of(snapshot);
        let scheduler = match scheduler {
            Some(name) => name.to_owned(),
            None => running(&cluster)?,
        };
        let free = free(&cluster)?;
        let total = |resource: &Arc<str>| free[resource].iter().sum::<u64>();
        let Some(resource) = free.keys().max_by_key(|resource| total(resource)).cloned() else {
            return Err("free GPUs on nodes without taints".to_owned());
        };
        let of_nodes = &free[&resource];
        let largest = of_nodes.iter().copied().max().unwrap_or(0);
        let fits_with = |gpus: u64| of_nodes.iter().map(|free| free / gpus.max(1)).sum::<u64>();
        // A pod that fills a node, if several fit: few pods then show most.
        let gpus = if fits_with(largest) > 1 { largest } else { 1 };
        let fits = fits_with(gpus);
        if fits < 2 {
            return Err("two free GPUs on nodes without taints".to_owned());
        }
        if fits >= MOST_PODS {
            return Err(format!("fewer free GPUs: {fits} pods of {gpus} would fit"));
        }
        Ok(Self { scheduler, resource, gpus, fits })
    }

    /// Returns the number of pods of the gang that cannot fit.
    #[must_use]
    pub fn too_large(&self) -> u64 {
        self.fits + 1
    }

    /// Returns the number of pods of the gang that fits: two, so that little is held.
    #[must_use]
    pub fn small(&self) -> u64 {
        2
    }

    /// Returns what each pod requests, for people.
    #[must_use]
    pub fn request(&self) -> String {
        count(self.gpus, "GPU")
    }

    /// Returns true if Kueue starts the gangs, which has Workloads in place of pods until then.
    #[must_use]
    pub fn waits_in_kueue(&self) -> bool {
        self.scheduler == KUEUE
    }

    /// Returns the objects of a gang.
    ///
    /// # Errors
    /// If it is not known how this scheduler is told of a gang, or a queue is needed.
    pub fn objects(
        &self,
        gang: &str,
        pods: u64,
        terms: &ProbeTerms,
    ) -> Result<Vec<ProbeObject>, String> {
        let form = GangForm::of(&self.scheduler)
            .ok_or_else(|| format!("how a gang is made known to {}", self.scheduler))?;
        objects::of_gang(self, form, (gang, pods), terms)
    }

    /// Judges the gang of a probe; `None` while it is watched.
    #[must_use]
    pub fn judge(&self, id: &str, gang: &ProbedGang, watched: Span) -> Option<CheckProbe> {
        if id == PROBES[0] {
            self.judge_too_large(gang, watched)
        } else {
            self.judge_small(gang, watched)
        }
    }

    /// Judges the gang that cannot fit.
    fn judge_too_large(&self, gang: &ProbedGang, watched: Span) -> Option<CheckProbe> {
        let id = PROBES[0];
        let asked = self.too_large();
        let bound = bound(&gang.pods);
        let request = self.request();
        if bound == asked {
            let needed = format!(
                "GPUs that stay in use meanwhile: some became free, and all {asked} pods with {request} fitted; run it again"
            );
            return Some(probe(id, ProbeOutcome::NotTested, needed));
        }
        if bound > 0 {
            let cause = if self.waits_in_kueue() { BEYOND_FREE } else { "" };
            let text = format!(
                "{bound} of {asked} pods with {request} got a node from {}, although not all fit{cause}",
                self.scheduler
            );
            return Some(probe(id, ProbeOutcome::Failed, text));
        }
        let by_quota = gang.refusal.as_ref().map(|refusal| refusal.is_about_quota);
        let is_seen =
            by_quota == Some(true) || gang.pods.iter().any(|pod| scheduled(pod).is_some());
        if is_seen && watched >= OBSERVED {
            let text = format!("none of {asked} pods with {request} got a node, {} fit", self.fits);
            return Some(probe(id, ProbeOutcome::Passed, text));
        }
        let needed = match &gang.refusal {
            Some(refusal) => format!("a queue that admits gangs: {}", refusal.message),
            None if self.waits_in_kueue() => "Kueue that looks at the Job".to_owned(),
            None => format!("{} that looks at pods", self.scheduler),
        };
        (watched >= PATIENCE).then(|| probe(id, ProbeOutcome::NotTested, needed))
    }

    /// Judges the gang that fits.
    fn judge_small(&self, gang: &ProbedGang, watched: Span) -> Option<CheckProbe> {
        let id = PROBES[1];
        let asked = self.small();
        let bound = bound(&gang.pods);
        let request = self.request();
        if bound == asked {
            let text = format!("{asked} pods with {request} got their nodes together");
            return Some(probe(id, ProbeOutcome::Passed, text));
        }
        if let Some(refusal) = &gang.refusal {
            let message = &refusal.message;
            let needed = format!("room for {asked} pods with {request} in the queue: {message}");
            return (watched >= PATIENCE).then(|| probe(id, ProbeOutcome::NotTested, needed));
        }
        let reason = gang.pods.iter().find_map(scheduled).unwrap_or_default();
        let reason = if reason.is_empty() { String::new() } else { format!(": {reason}") };
        let text = format!("{bound} of {asked} pods with {request} got a node{reason}");
        (watched >= PATIENCE).then(|| probe(id, ProbeOutcome::Failed, text))
    }
}

/// Returns the gang scheduler that has a ready replica, else Kueue.
fn running(cluster: &ClusterView<'_>) -> Result<String, String> {
    let deployments = cluster.list(DEPLOYMENTS).map_err(|missing| missing.0)?;
    let is_running = |names: &[&str]| {
        deployments.iter().any(|one| {
            let name = one["metadata"]["name"].as_str().unwrap_or_default();
            names.contains(&name) && one["status"]["readyReplicas"].as_u64() > Some(0)
        })
    };
    let running = GANG_SCHEDULERS.iter().find(|(_, deployed_as)| is_running(deployed_as));
    match running {
        Some((scheduler, _)) => Ok((*scheduler).to_owned()),
        None if is_running(&[KUEUE_DEPLOYMENT]) => Ok(KUEUE.to_owned()),
        None => Err(format!(
            "a gang scheduler: --scheduler names one, {POD_GROUPS} or default-scheduler"
        )),
    }
}

/// Returns what is free of each GPU resource, on each node that takes pods without a toleration.
fn free(cluster: &ClusterView<'_>) -> Result<BTreeMap<Arc<str>, Vec<u64>>, String> {
    let pods = cluster.gpu_pods().map_err(|missing| missing.0)?;
    let mut free: BTreeMap<Arc<str>, Vec<u64>> = BTreeMap::new();
    for node in cluster.gpu_nodes().map_err(|missing| missing.0)? {
        if node.facts.out_of_service.is_some() || !node.facts.taints.is_empty() {
            continue;
        }
        let of_node =
            || pods.iter().filter(|pod| pod.facts.node.as_ref() == Some(&node.facts.name));
        for (resource, units) in node.facts.allocatable.0.iter().filter(|(name, _)| is_gpu(name)) {
            let used: u64 = of_node().map(|pod| pod.facts.requests.get(resource)).sum();
            free.entry(Arc::clone(resource)).or_default().push(units.saturating_sub(used));
        }
    }
    Ok(free)
}

fn bound(pods: &[Value]) -> u64 {
    pods.iter().filter(|pod| pod["spec"]["nodeName"].is_string()).count() as u64
}

/// Returns what a scheduler says of a pod that it could not place; `None` before it has looked at it.
fn scheduled(pod: &Value) -> Option<&str> {
    let conditions = pod["status"]["conditions"].as_array()?;
    let scheduled = conditions.iter().find(|one| one["type"] == "PodScheduled")?;
    Some(scheduled["message"].as_str().unwrap_or_default())
}
