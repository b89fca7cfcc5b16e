//! Workload mix of a site: the needs that it implies, and the way that each kind of work runs on
//! the control plane that the rules have chosen. Nothing is chosen here.

use std::borrow::Cow;

use muster_model::advice::{
    ControlPlane, Fact, Facts, MixEntry, Ruleset, SiteProfile, Threshold, WorkloadOnSite,
};

use crate::case::FactsCase;
use crate::condition::Condition::{self, All, Always, Is};
use crate::gpus;
use crate::site::asked;
use crate::site::terms::{NOTHING, ON_KUBERNETES, POOL, QUEUED, RUNAI, SLURM};
use crate::workload;

/// Percentage of the GPU-hours above which work is the main work.
const MOST_PERCENT: u32 = 50;

/// Returns the facts of a site with those that follow from its models and its mix. Needs are only
/// added, so the function is idempotent.
pub(super) fn folded(facts: &Facts, site: &SiteProfile) -> Facts {
    let mut folded = *facts;
    // Isolation by hardware is not promised without a model that has it.
    let mig = site.models.iter().any(|model| gpus::is_mig_capable(model) == Some(true));
    folded.set(Fact::FleetMig, u32::from(mig));
    for entry in &site.mix {
        for need in needs_of(entry, facts, site) {
            folded.set(need, 1);
        }
        // Tenants mean several teams, except customers who are isolated: one team may serve them.
        let shared = entry.facts.is(Fact::MultiTenant)
            && !facts.is(Fact::HostileTenants)
            && folded.get(Fact::Users) > 1;
        if shared && folded.get(Fact::Teams) < 2 {
            folded.set(Fact::Teams, 2);
        }
    }
    let coupled = site.mix.iter().filter(|entry| spans_nodes(entry, facts, site));
    let percent: u32 = coupled.filter_map(|entry| entry.share_percent).sum();
    if percent > MOST_PERCENT && folded.is(Fact::CoupledTraining) {
        folded.set(Fact::MainlyCoupled, 1);
    }
    folded
}

/// Returns the needs that a kind of work implies: any one of several needs is enough, and the first
/// is added if the site names none of them.
fn needs_of(entry: &MixEntry, facts: &Facts, site: &SiteProfile) -> Vec<Fact> {
    let is = |fact: Fact| entry.facts.is(fact);
    let any_of = |needs: &[Fact]| needs.iter().any(|need| facts.is(*need));
    let mut needs = Vec::new();
    if spans_nodes(entry, facts, site) && !any_of(&[Fact::CoupledTraining, Fact::Mpi]) {
        needs.extend([Fact::Training, Fact::CoupledTraining]);
    }
    if is(Fact::TightlyCoupled) && !any_of(&[Fact::Training, Fact::Mpi]) {
        needs.push(Fact::Training);
    }
    if is(Fact::PythonNativePipeline) && !any_of(&[Fact::DistributedPython, Fact::Rl, Fact::Sweeps])
    {
        needs.push(Fact::DistributedPython);
    }
    if is(Fact::LongLivedServices) {
        needs.push(Fact::Services);
    }
    let plain = !is(Fact::TightlyCoupled)
        && !is(Fact::PythonNativePipeline)
        && !is(Fact::LongLivedServices);
    if plain
        && !any_of(&[
            Fact::Batch,
            Fact::Training,
            Fact::Sweeps,
            Fact::Rl,
            Fact::DistributedPython,
            Fact::Mpi,
        ])
    {
        needs.push(Fact::Batch);
    }
    needs
}

/// Returns true if the work is coupled over several nodes and the fleet has, or can get, several.
fn spans_nodes(entry: &MixEntry, facts: &Facts, site: &SiteProfile) -> bool {
    coupled(entry, site) && (facts.get(Fact::FleetNodes) > 1 || facts.is(Fact::FleetElastic))
}

fn coupled(entry: &MixEntry, site: &SiteProfile) -> bool {
    entry.facts.is(Fact::TightlyCoupled)
        && entry.facts.get(Fact::Nodes) >= site.thresholds.get(Threshold::MultiNode)
}

/// An aspect of a kind of work that decides how it runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Aspect {
    /// Tasks that wait for each other across nodes.
    Coupled,
    /// Tasks that wait for each other on one node.
    OneNode,
    /// Tasks and actors of Ray.
    Python,
    /// An endpoint that stays up.
    Service,
    /// Work that starts and ends and has none of the other aspects.
    Batch,
    /// For development or CI.
    Development,
}

/// The way that an aspect is served on a control plane, and its limits.
struct Way {
    aspect: Aspect,
    when: Condition,
    plane: ControlPlane,
    how: &'static str,
}

const fn way(aspect: Aspect, when: Condition, plane: ControlPlane, how: &'static str) -> Way {
    Way { aspect, when, plane, how }
}

const K3S: Condition = Condition::Chosen(&[ControlPlane::K3s]);
const RAY: Condition = Condition::Chosen(&[ControlPlane::Ray]);

/// Ways of every aspect; the first whose condition holds is used. The last of each aspect is for
/// `ray`, the only other control plane.
const WAYS: &[Way] = &[
    way(
        Aspect::Coupled,
        SLURM,
        ControlPlane::Slurm,
        "one allocation, granted whole; srun starts every rank",
    ),
    way(
        Aspect::Coupled,
        RUNAI,
        ControlPlane::Kubernetes,
        "one distributed workload of Run:ai, placed whole",
    ),
    way(
        Aspect::Coupled,
        K3S,
        ControlPlane::K3s,
        "one group of pods behind the gang scheduler; without it, the group is placed partly and holds GPUs",
    ),
    way(
        Aspect::Coupled,
        ON_KUBERNETES,
        ControlPlane::Kubernetes,
        "one group of pods behind the gang scheduler; without it, the group is placed partly and holds GPUs",
    ),
    way(
        Aspect::Coupled,
        NOTHING,
        ControlPlane::None,
        "started by hand on every node, on GPUs that were agreed on; nothing holds them until the last node is free",
    ),
    way(
        Aspect::Coupled,
        RAY,
        ControlPlane::Ray,
        "Ray Train; a placement group waits until all of it fits",
    ),
    way(Aspect::OneNode, SLURM, ControlPlane::Slurm, "one job on one node"),
    way(Aspect::OneNode, K3S, ControlPlane::K3s, "one pod on one node: nothing to place together"),
    way(
        Aspect::OneNode,
        ON_KUBERNETES,
        ControlPlane::Kubernetes,
        "one pod on one node: nothing to place together",
    ),
    way(
        Aspect::OneNode,
        NOTHING,
        ControlPlane::None,
        "torchrun in tmux, on GPUs that nvidia-smi shows free",
    ),
    way(Aspect::OneNode, RAY, ControlPlane::Ray, "Ray Train on one node"),
    way(
        Aspect::Python,
        SLURM,
        ControlPlane::Slurm,
        "Ray inside one allocation: it cannot grow past it, and ends with its time limit",
    ),
    way(
        Aspect::Python,
        K3S,
        ControlPlane::K3s,
        "a RayJob through KubeRay, under the namespace's quota",
    ),
    way(
        Aspect::Python,
        ON_KUBERNETES,
        ControlPlane::Kubernetes,
        "a RayJob through KubeRay, under the team's quota",
    ),
    way(
        Aspect::Python,
        NOTHING,
        ControlPlane::None,
        "Ray started by hand on the agreed GPUs, for the run",
    ),
    way(
        Aspect::Python,
        RAY,
        ControlPlane::Ray,
        "directly: the cluster belongs to this application",
    ),
    way(
        Aspect::Service,
        POOL,
        ControlPlane::Kubernetes,
        "on the Kubernetes side: restarted, updated and reached by one address; not on Slurm's nodes",
    ),
    way(
        Aspect::Service,
        SLURM,
        ControlPlane::Slurm,
        "a long job on the partition for services: health check, address and rolling update are yours to build",
    ),
    way(
        Aspect::Service,
        K3S,
        ControlPlane::K3s,
        "a Deployment: restarted, updated and reached by one address",
    ),
    way(
        Aspect::Service,
        ON_KUBERNETES,
        ControlPlane::Kubernetes,
        "a Deployment: restarted, updated and reached by one address",
    ),
    way(
        Aspect::Service,
        NOTHING,
        ControlPlane::None,
        "under systemd on GPUs that the conventions reserve; nothing moves it when its node fails",
    ),
    way(
        Aspect::Service,
        RAY,
        ControlPlane::Ray,
        "Ray Serve in the owner's cluster; it takes GPUs from the trials beside it",
    ),
    way(Aspect::Batch, SLURM, ControlPlane::Slurm, "a job script, or an array for many alike"),
    way(
        Aspect::Batch,
        RUNAI,
        ControlPlane::Kubernetes,
        "a workload of Run:ai, under its project's quota",
    ),
    way(
        Aspect::Batch,
        All(&[K3S, QUEUED]),
        ControlPlane::K3s,
        "a Job that Kueue admits when its quota is free",
    ),
    way(Aspect::Batch, K3S, ControlPlane::K3s, "a Job; the default scheduler keeps no queue"),
    way(
        Aspect::Batch,
        ON_KUBERNETES,
        ControlPlane::Kubernetes,
        "a Job that Kueue admits when its quota is free",
    ),
    way(
        Aspect::Batch,
        NOTHING,
        ControlPlane::None,
        "in tmux, one after the other: there is no queue",
    ),
    way(Aspect::Batch, RAY, ControlPlane::Ray, "a Ray job of the owner"),
    way(
        Aspect::Development,
        SLURM,
        ControlPlane::Slurm,
        "on a small partition with a short time limit",
    ),
    way(Aspect::Development, K3S, ControlPlane::K3s, "the use that k3s was made for"),
    way(
        Aspect::Development,
        ON_KUBERNETES,
        ControlPlane::Kubernetes,
        "in a namespace with a small quota",
    ),
    way(Aspect::Development, Always, ControlPlane::None, "beside the rest, by agreement"),
];

/// Returns the way that each kind of work runs on the decided site.
pub(super) fn workloads(site: &SiteProfile, case: &FactsCase<'_>) -> Vec<WorkloadOnSite> {
    site.mix.iter().map(|entry| workload_on(entry, site, case)).collect()
}

fn workload_on(entry: &MixEntry, site: &SiteProfile, case: &FactsCase<'_>) -> WorkloadOnSite {
    let aspects = aspects(entry, site);
    let is_plain = aspects == [Aspect::Batch];
    let ways: Vec<&Way> = aspects.into_iter().filter_map(|aspect| chosen(aspect, case)).collect();
    let asked =
        named_need(&entry.name).filter(|_| is_plain).and_then(|need| asked::way(case, need));
    let how = || match asked {
        // What the site asked has one answer, here as above.
        Some(way) => way.to_owned(),
        None => ways.iter().map(|way| way.how).collect::<Vec<_>>().join("; "),
    };
    WorkloadOnSite {
        name: entry.name.clone(),
        share_percent: entry.share_percent,
        facts: entry.facts,
        alone: workload::label(&entry.facts, &site.thresholds, Ruleset::Corrected),
        runs_on: ways
            .first()
            .map(|way| way.plane)
            .or(case.primary)
            .expect("a decided case has a control plane"),
        how: Cow::Owned(too_large(entry, case).unwrap_or_else(how)),
    }
}

/// Returns the need that the name of a kind of work says, where no fact of it does.
fn named_need(name: &str) -> Option<Fact> {
    const NAMES: [(&str, Fact); 3] =
        [("notebook", Fact::Notebooks), ("jupyter", Fact::Notebooks), ("sweep", Fact::Sweeps)];
    let name = name.to_lowercase();
    NAMES.iter().find(|(word, _)| name.contains(word)).map(|(_, need)| *need)
}

/// Returns the aspects of a kind of work, the most demanding first.
fn aspects(entry: &MixEntry, site: &SiteProfile) -> Vec<Aspect> {
    let is = |fact: Fact| entry.facts.is(fact);
    let mut aspects = Vec::new();
    if is(Fact::TightlyCoupled) {
        aspects.push(if coupled(entry, site) { Aspect::Coupled } else { Aspect::OneNode });
    }
    if is(Fact::PythonNativePipeline) {
        aspects.push(Aspect::Python);
    }
    if is(Fact::LongLivedServices) {
        aspects.push(Aspect::Service);
    }
    if aspects.is_empty() {
        aspects.push(Aspect::Batch);
    }
    if is(Fact::EdgeOrDev) {
        aspects.push(Aspect::Development);
    }
    aspects
}

fn chosen(aspect: Aspect, case: &FactsCase<'_>) -> Option<&'static Way> {
    WAYS.iter().find(|way| way.aspect == aspect && way.when.holds(case))
}

fn too_large(entry: &MixEntry, case: &FactsCase<'_>) -> Option<String> {
    let asked = entry.facts.get(Fact::Nodes);
    let there = case.facts.get(Fact::FleetNodes);
    let fixed = !Is(Fact::FleetElastic).holds(case);
    (fixed && asked > there)
        .then(|| format!("it can never start here: it spans {asked} nodes, the fleet has {there}"))
}
