//! Sharing of GPUs on a site, and the isolation that it gives: a list of rules, and a line per
//! model. Isolation is promised only where hardware gives it (MIG).

use std::borrow::Cow;

use muster_model::GpuModel;
use muster_model::advice::{
    Citation, CitedPage, ControlPlane, Fact, FiredRule, RuleEffect, SiteProfile,
};

use crate::case::FactsCase;
use crate::condition::Condition::{self, All, Any, Chosen, Is, Not};
use crate::gpus::{self, AMD_SOURCE, Gpu, MIG_SOURCE, MPS_SOURCE};
use crate::rule::Rule;
use crate::site::terms::RUNAI;

/// Id of the statement about a GPU model.
pub(crate) const MODEL: &str = "sharing-model";

/// Every list of rules, in the order of the documentation.
pub(crate) const SHARING: [&[Rule]; 3] = [RULES, NVIDIA_RULES, AMD_RULES];

/// The site wants less than a GPU per job, or isolation on one.
const ASKED: Condition =
    Any(&[Is(Fact::SharedGpus), Is(Fact::IsolatedSlices), Is(Fact::HostileTenants)]);

/// Tenants must be isolated from each other.
const APART: Condition = Any(&[Is(Fact::IsolatedSlices), Is(Fact::HostileTenants)]);

/// Small jobs of people who trust each other.
const TRUSTED: Condition = All(&[Is(Fact::SharedGpus), Not(Fact::HostileTenants)]);

/// The page's section on sharing.
const KENTINO: Citation = Citation::new(CitedPage::Kentino, "MIG and GPU sharing");

/// Rules for every vendor, strongest isolation first.
const RULES: &[Rule] = &[
    Rule::reason(
        "sharing-mig",
        KENTINO,
        All(&[ASKED, Is(Fact::FleetMig)]),
        "MIG cuts a GPU into slices with memory and faults of their own, in hardware: the only sharing here that isolates",
    ),
    Rule::reason(
        "sharing-no-mig",
        Citation::new(CitedPage::Kentino, "decision tree, step 6"),
        All(&[APART, Not(Fact::FleetMig)]),
        "no model of this fleet is known to have MIG: nothing isolates jobs on one GPU here. Give each tenant whole GPUs, \
         or buy a model that can be cut; do not design around MIG",
    ),
    Rule::reason(
        "sharing-whole-nodes",
        Citation::new(CitedPage::Hyperstack, "workload profiles: regulated environments"),
        Is(Fact::HostileTenants),
        "customers who must be kept apart get whole nodes where the budget allows it, so that they share fewer components",
    ),
    Rule::reason(
        "sharing-whole",
        KENTINO,
        All(&[ASKED, Any(&[Is(Fact::Training), Is(Fact::CoupledTraining)])]),
        "training and large inference get whole GPUs; sharing is for small inference, notebooks and development",
    ),
];

/// Rules for NVIDIA GPUs without hardware slices.
const NVIDIA_RULES: &[Rule] = &[
    Rule::reason(
        "sharing-mps",
        MPS_SOURCE,
        TRUSTED,
        "MPS runs the kernels of cooperating processes at once. Kentino: no isolation. Since Volta each client has an \
         address space of its own, and still no isolation of faults: one client's error can end the others",
    ),
    Rule::reason(
        "sharing-time-slicing",
        KENTINO,
        TRUSTED,
        "time-slicing gives no isolation, and the scheduler does not see that a GPU is over-subscribed: development only",
    ),
    Rule::reason(
        "sharing-shards",
        Citation::new(CitedPage::Upstream, "Slurm documentation: gres.html, sharding"),
        All(&[TRUSTED, Chosen(&[ControlPlane::Slurm])]),
        "on Slurm a shard counts as part of a GPU and is not enforced: sharing without isolation. MIG slices appear as \
         devices of their own with AutoDetect=nvml",
    ),
    Rule::reason(
        "sharing-operator",
        Citation::new(CitedPage::Upstream, "NVIDIA GPU Operator documentation 2026: GPU sharing"),
        All(&[ASKED, Chosen(&[ControlPlane::Kubernetes, ControlPlane::K3s])]),
        "the GPU Operator sets the mode per node by a label: keep nodes that share apart from those that train",
    ),
    Rule::reason(
        "sharing-run-ai",
        Citation::new(CitedPage::Kentino, "Run:ai and Determined"),
        All(&[TRUSTED, RUNAI]),
        "Run:ai gives out fractions of a GPU by memory and resizes them while they run: a limit, no isolation of faults",
    ),
    Rule::reason(
        "sharing-by-agreement",
        Citation::new(CitedPage::Kentino, "the honest small-team reality"),
        All(&[TRUSTED, Chosen(&[ControlPlane::None])]),
        "without a scheduler two people share a GPU by agreement: the page of conventions says who, and how much memory",
    ),
];

/// Rules for AMD GPUs with partitions.
const AMD_RULES: &[Rule] = &[Rule::reason(
    "sharing-amd",
    AMD_SOURCE,
    ASKED,
    "AMD's partitions (CPX, with memory by NPS) make several devices of one. A reset can reach the neighbours, so no \
     isolation of faults is promised",
)];

/// Returns the statements about sharing of GPUs; empty if the site does not ask for it.
pub(crate) fn of(case: &FactsCase<'_>, site: &SiteProfile) -> Vec<FiredRule> {
    let models = site.models.as_slice();
    // 1. The models decide about MIG, not the facts that were given.
    let known: Vec<(&GpuModel, Option<&'static Gpu>)> =
        models.iter().map(|model| (model, gpus::find(model))).collect();
    let has = |what: fn(&Gpu) -> bool| known.iter().any(|(_, gpu)| gpu.is_some_and(what));
    let facts = case.facts.with(Fact::FleetMig, u32::from(has(|gpu| gpu.mig_instances > 0)));
    let case = FactsCase { facts: &facts, ..case.clone() };
    if !ASKED.holds(&case) {
        return Vec::new();
    }

    // 2. The rules. An unknown model may be NVIDIA's.
    let nvidia: &[Rule] = if gpus::are_amd(models) { &[] } else { NVIDIA_RULES };
    let amd: &[Rule] = if has(|gpu| gpu.amd_partitions > 0) { AMD_RULES } else { &[] };
    let rules = RULES.iter().chain(nvidia).chain(amd).filter(|rule| rule.when.holds(&case));
    let mut fired: Vec<FiredRule> = rules.map(FiredRule::from).collect();

    // 3. Each model, once.
    let mut named: Vec<&GpuModel> = Vec::new();
    for (model, gpu) in known {
        if !named.contains(&model) {
            named.push(model);
            fired.push(about(model, site.nodes_by_model.get(model).copied(), gpu));
        }
    }
    if named.is_empty() {
        let sentence =
            "no GPU models are given, so no isolation is promised: name them under fleet.models";
        fired.push(about_model(Cow::Borrowed(sentence), MIG_SOURCE));
    }
    fired
}

/// Returns the statement about a model today, beside the page's.
fn about(model: &GpuModel, nodes: Option<u32>, gpu: Option<&Gpu>) -> FiredRule {
    let on = nodes.map(|nodes| format!(" on {nodes} node{}", if nodes == 1 { "" } else { "s" }));
    let model = format!("{model}{}", on.unwrap_or_default());
    let (sentence, source) = match gpu {
        None => (
            format!(
                "{model} is not in Muster's table of models: no isolation is promised; ask its vendor for MIG"
            ),
            MIG_SOURCE,
        ),
        Some(gpu) if gpu.page_is_wrong() => (
            format!(
                "{model}: up to {} MIG slices today; Kentino's page says that it has none",
                gpu.mig_instances
            ),
            MIG_SOURCE,
        ),
        Some(gpu) if gpu.mig_instances > 0 => {
            (format!("{model}: up to {} MIG slices", gpu.mig_instances), MIG_SOURCE)
        }
        Some(gpu) if gpu.amd_partitions > 0 => {
            (format!("{model}: up to {} partitions, no MIG", gpu.amd_partitions), AMD_SOURCE)
        }
        Some(gpu) if gpu.is_amd() => {
            (format!("{model}: no partitions, whole GPUs only"), AMD_SOURCE)
        }
        Some(_) => {
            (format!("{model}: no MIG; whole GPUs, or sharing without isolation"), MIG_SOURCE)
        }
    };
    about_model(Cow::Owned(sentence), source)
}

fn about_model(sentence: Cow<'static, str>, source: Citation) -> FiredRule {
    FiredRule { id: MODEL, effect: RuleEffect::Reason, sentence, source }
}
