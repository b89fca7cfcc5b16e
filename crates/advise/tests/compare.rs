//! Comparisons: every row of the pages' tables has its cell, and facts weigh the dimensions by the
//! rules that advise.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use std::collections::BTreeSet;

use muster_advise::{advise, compare};
use muster_model::advice::{
    CitedPage, Compared, ComparedSystem, Comparison, ControlPlane, Fact, FactValue, Facts,
    PlaneRole, Ruleset, SupportLevel, Thresholds,
};
use proptest::prelude::*;

use ControlPlane::{K3s, Kubernetes, Ray, Slurm};
use SupportLevel::{AddOn, Native, Weak};

fn plain(planes: [impl Into<ComparedSystem>; 2]) -> Comparison {
    compare(planes.map(Into::into), None, &Thresholds::default(), Ruleset::Corrected)
}

fn with(planes: [impl Into<ComparedSystem>; 2], facts: &Facts) -> Comparison {
    compare(planes.map(Into::into), Some(facts), &Thresholds::default(), Ruleset::Corrected)
}

fn row<'a>(comparison: &'a Comparison, id: &str) -> &'a Compared {
    comparison
        .dimensions
        .iter()
        .find(|row| row.id == id)
        .unwrap_or_else(|| panic!("there is no dimension {id}"))
}

/// As the page has it, not as it is today.
#[track_caller]
fn check(source: &str, id: &str, plane: ControlPlane, standing: SupportLevel) {
    let comparison = plain([plane, ControlPlane::None]);
    assert_eq!(row(&comparison, id).cells[0].standing, standing, "{source}: {id} of {plane}");
}

/// The comparison page's table, row by row. A row that describes rather than grades stands in the
/// dimensions that it describes.
#[test]
fn the_table_of_the_comparison_page() {
    for (source, id, plane, standing) in [
        ("primary workload: finite batch", "batch", Slurm, Native),
        ("primary workload: services and batch", "serving", Kubernetes, Native),
        ("primary workload: services and batch", "batch", Kubernetes, AddOn),
        ("unit of work: tasks launched together", "gang", Slurm, Native),
        ("unit of work: Pods one at a time", "gang", Kubernetes, AddOn),
        ("operating model: imperative, bare-metal-first", "operating-model", Slurm, Native),
        ("operating model: declarative, container-first", "operating-model", Kubernetes, Weak),
        ("gang: native, granted whole", "gang", Slurm, Native),
        ("gang: KAI, Volcano, Coscheduling", "gang", Kubernetes, AddOn),
        ("GPU model: GRES, TRES", "gpus", Slurm, Native),
        ("GPU model: device plugin or DRA", "gpus", Kubernetes, AddOn),
        ("topology: topology.conf", "topology", Slurm, Native),
        ("topology: Topology Manager, KAI, Volcano", "topology", Kubernetes, AddOn),
        ("multi-tenancy: associations, QOS", "tenancy", Slurm, Native),
        ("multi-tenancy: namespaces, RBAC", "tenancy", Kubernetes, Native),
        ("quota: multifactor and fair share", "quota", Slurm, Native),
        ("quota: Kueue", "quota", Kubernetes, AddOn),
        ("online serving: weak", "serving", Slurm, Weak),
        ("online serving: strong", "serving", Kubernetes, Native),
        ("elasticity: fixed pool, bursting by plugins", "elasticity", Slurm, Weak),
        ("elasticity: Cluster Autoscaler, Karpenter", "elasticity", Kubernetes, AddOn),
        ("state: slurmctld with optional backup", "state", Slurm, AddOn),
        ("state: etcd quorum", "state", Kubernetes, Native),
        ("GitOps: not native", "gitops", Slurm, SupportLevel::None),
        ("GitOps: native", "gitops", Kubernetes, Native),
    ] {
        check(source, id, plane, standing);
    }
}

/// Kentino's workload table, six rows: native, needs something, awkward or painful, no.
#[test]
fn the_workload_table_of_kentino() {
    for (source, id, slurm, kubernetes) in [
        ("8-hour training run: native, needs Kueue or Volcano", "batch", Native, AddOn),
        ("200-job sweep: native, awkward", "sweeps", Native, Weak),
        ("24/7 endpoint: awkward, native", "serving", Weak, Native),
        ("mixed: painful, native with Kueue", "mixed", Weak, Native),
        ("multi-node training: native, needs a gang plugin", "gang", Native, AddOn),
        ("auto-restart of services: no, native", "restart", SupportLevel::None, Native),
    ] {
        check(source, id, Slurm, slurm);
        check(source, id, Kubernetes, kubernetes);
    }
}

/// Kentino: what Slurm gives for free and what it does not, its ceilings, and what Kubernetes
/// costs.
#[test]
fn what_kentino_says_beside_its_table() {
    for (source, id, plane, standing) in [
        ("for free: gang scheduling", "gang", Slurm, Native),
        ("for free: fair-share decay", "quota", Slurm, Native),
        ("for free: backfill", "backfill", Slurm, Native),
        ("for free: accounting", "accounting", Slurm, Native),
        ("not: auto-restart", "restart", Slurm, SupportLevel::None),
        ("not: declarative state", "gitops", Slurm, SupportLevel::None),
        ("ceiling: web-style services", "serving", Slurm, Weak),
        ("ceiling: heterogeneous workloads", "mixed", Slurm, Weak),
        ("ceiling: strict isolation", "isolation", Slurm, Weak),
        ("one part-time SRE", "operations", Slurm, Native),
        ("20 components, 5 to 10 times the load", "operations", Kubernetes, Weak),
        ("salloc and Jupyter is cleanest", "notebooks", Slurm, Native),
        ("JupyterHub and Kueue", "notebooks", Kubernetes, AddOn),
        ("Ray Tune is best in class", "sweeps", Ray, Native),
        ("RL maps onto Ray", "python", Ray, Native),
        ("Ray is no shared batch scheduler", "batch", Ray, Weak),
        ("Ray on Slurm", "python", Slurm, AddOn),
        ("KubeRay", "python", Kubernetes, AddOn),
    ] {
        check(source, id, plane, standing);
    }
}

/// Hyperstack's five factors, then its four behaviours, then its failure modes.
#[test]
fn the_factors_and_behaviours_of_hyperstack() {
    for (source, id, slurm, kubernetes) in [
        ("factor: scheduling: node granularity, fine-grained", "packing", Weak, Native),
        ("factor: multi-node training: native MPI, operators", "launch", Native, AddOn),
        ("factor: interconnect: direct, device plugin", "interconnect", Native, AddOn),
        ("factor: workload fit: batch", "batch", Native, AddOn),
        ("factor: workload fit: MLOps and serving", "mlops", Weak, Native),
        ("factor: reproducibility: explicit, structural", "environments", AddOn, Native),
        ("behaviour: scheduling model: whole nodes, granular control", "packing", Weak, Native),
        ("behaviour: multi-node coordination: atomic, operators", "gang", Native, AddOn),
        ("behaviour: fault tolerance: the same in both", "recovery", Weak, Weak),
        ("behaviour: environments: modules, images", "environments", AddOn, Native),
        ("failure mode: Slurm cannot grow a job", "resize", SupportLevel::None, AddOn),
        ("failure mode: Slurm has no answer for serving", "serving", Weak, Native),
        ("failure mode: container networks under NCCL", "interconnect", Native, AddOn),
        ("conclusion: hidden layers are hard to debug", "debugging", Native, Weak),
    ] {
        check(source, id, Slurm, slurm);
        check(source, id, Kubernetes, kubernetes);
    }
}

/// The guide and the overview on k3s and Ray.
#[test]
fn what_the_guide_and_the_overview_say_of_k3s_and_ray() {
    for (source, id, plane, standing) in [
        ("k3s: single binary, small footprint", "operations", K3s, Native),
        ("k3s: the same API", "serving", K3s, Native),
        ("k3s is on the same pod-by-pod scheduler", "gang", K3s, AddOn),
        ("Ray: Train wraps torch and FSDP", "launch", Ray, Native),
        ("Ray workers without RDMA: NCCL on TCP", "interconnect", Ray, Weak),
        ("Ray beside Kubernetes: no quota", "quota", Ray, SupportLevel::None),
        ("Ray needs a resource manager underneath", "operations", Ray, Weak),
    ] {
        check(source, id, plane, standing);
    }
}

/// A change since a page was written is shown beside its statement, with a source of its own.
#[test]
fn what_has_aged_stands_beside_the_page() {
    let comparison = plain([Slurm, Kubernetes]);
    let mut aged = Vec::new();
    for row in &comparison.dimensions {
        for cell in &row.cells {
            if let Some(today) = cell.today {
                assert_ne!(today.source, cell.source, "{} of {}", row.id, cell.plane);
                assert!(
                    matches!(today.source.page, CitedPage::Upstream | CitedPage::Muster),
                    "{} of {}",
                    row.id,
                    cell.plane
                );
                aged.push((row.id, cell.plane));
            }
        }
    }
    for expected in [
        ("gang", Kubernetes),
        ("gpus", Kubernetes),
        ("sharing", Kubernetes),
        ("isolation", Slurm),
        ("resize", Slurm),
        ("packing", Slurm),
        ("packing", Kubernetes),
    ] {
        let expected = (expected.0, expected.1.into());
        assert!(aged.contains(&expected), "{expected:?} of {aged:?}");
    }
    assert!(row(&comparison, "gang").cells[1].today.unwrap().text.contains("beta in 1.37"));
    assert!(row(&comparison, "sharing").cells[1].today.unwrap().text.contains("up to 4 slices"));
    assert_eq!(
        row(&comparison, "packing").ahead,
        Some(Slurm.into()),
        "cons_tres packs, and Kubernetes spreads as shipped"
    );
}

/// Every system that can be compared.
fn systems() -> impl Iterator<Item = ComparedSystem> {
    [ComparedSystem::Muster].into_iter().chain(ControlPlane::ALL.map(Into::into))
}

/// A cell that says what is missing so far is forgotten when it comes.
#[test]
fn muster_does_not_say_yet() {
    for row in &plain([ComparedSystem::Muster, Slurm.into()]).dimensions {
        let is_yet = |word: &str| word == "yet";
        let mut words = row.cells[0].text.split(|letter: char| !letter.is_alphanumeric());
        assert!(!words.any(is_yet), "{}: {}", row.id, row.cells[0].text);
    }
}

/// Muster's entries cite its own pages, and each page exists. What it leaves to the cluster is not
/// counted as its own: it has neither ingress nor pipelines, and no network policies.
#[test]
#[allow(clippy::disallowed_methods, reason = "the pages are files of the project")]
fn muster_is_rated_by_its_own_pages() {
    let comparison = plain([ComparedSystem::Muster, Slurm.into()]);
    let docs = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    for row in &comparison.dimensions {
        let source = row.cells[0].source;
        assert_eq!(source.page, CitedPage::Muster, "{}", row.id);
        for page in source.section.split(", ") {
            assert!(docs.join(page).is_file(), "{} cites {page}", row.id);
        }
    }
    for id in
        ["serving", "restart", "isolation", "mlops", "gitops", "elasticity", "state", "resize"]
    {
        assert!(row(&comparison, id).cells[0].standing < AddOn, "{id}");
    }
    assert_eq!(row(&comparison, "multi-cluster").cells[0].standing, SupportLevel::None);
    let facts = Facts::default().with(Fact::Nodes, 8).with(Fact::TightlyCoupled, 1);
    let verdict = with([ComparedSystem::Muster, Slurm.into()], &facts).verdict.unwrap();
    assert_eq!(verdict.fares[0].role, PlaneRole::OnTop);
    assert!(verdict.fares[0].chosen_if.0.is_empty());
}

#[test]
fn every_pair_has_every_dimension() {
    let systems: Vec<ComparedSystem> = systems().collect();
    let ids: BTreeSet<&str> =
        plain([Slurm, Kubernetes]).dimensions.iter().map(|row| row.id).collect();
    for left in systems.iter().copied() {
        for right in systems.iter().copied() {
            let comparison = plain([left, right]);
            let unique: BTreeSet<&str> = comparison.dimensions.iter().map(|row| row.id).collect();
            assert_eq!(unique, ids);
            assert_eq!(unique.len(), comparison.dimensions.len(), "an id stands twice");
            for row in &comparison.dimensions {
                assert_eq!(row.cells.map(|cell| cell.plane), [left, right]);
                for cell in &row.cells {
                    assert!(
                        !cell.text.is_empty() && !cell.source.section.is_empty(),
                        "{} of {}",
                        row.id,
                        cell.plane
                    );
                    assert!(
                        cell.text.chars().count() <= 130,
                        "{} of {} is too long",
                        row.id,
                        cell.plane
                    );
                }
            }
            assert!(comparison.verdict.is_none() && comparison.facts.is_none());
        }
    }
}

#[test]
fn facts_bring_what_matters_to_the_front_and_say_why() {
    let facts = Facts::default()
        .with(Fact::Nodes, 8)
        .with(Fact::TightlyCoupled, 1)
        .with(Fact::BareMetal, 1);
    let comparison = with([Slurm, Kubernetes], &facts);
    let gang = row(&comparison, "gang");
    assert_eq!(gang.ahead, Some(Slurm.into()));
    assert_eq!(gang.matters_for, [Fact::Nodes, Fact::TightlyCoupled]);
    assert!(row(&comparison, "serving").matters_for.is_empty());
    let first_that_does_not =
        comparison.dimensions.iter().position(|row| row.matters_for.is_empty()).unwrap();
    assert!(
        comparison.dimensions[first_that_does_not..].iter().all(|row| row.matters_for.is_empty())
    );
    let verdict = comparison.verdict.unwrap();
    assert_eq!(verdict.fares[0].role, PlaneRole::Chosen);
    assert_eq!(verdict.fares[1].role, PlaneRole::NotChosen);
    assert!(verdict.fares[0].ahead_in > verdict.fares[1].ahead_in);
    assert!(!verdict.fares[1].chosen_if.0.is_empty());
}

#[test]
fn one_node_does_not_need_a_gang() {
    let facts = Facts::default().with(Fact::TightlyCoupled, 1);
    assert!(row(&with([Slurm, Kubernetes], &facts), "gang").matters_for.is_empty());
}

#[test]
fn roles_follow_the_label() {
    let pipeline = Facts::default().with(Fact::PythonNativePipeline, 1);
    let role = |comparison: &Comparison| {
        comparison.verdict.as_ref().unwrap().fares.each_ref().map(|fare| fare.role)
    };
    assert_eq!(role(&with([Ray, Kubernetes], &pipeline)), [PlaneRole::Chosen, PlaneRole::Host]);
    assert_eq!(role(&with([K3s, Kubernetes], &pipeline)), [PlaneRole::NotChosen, PlaneRole::Host]);
    let edge = pipeline.with(Fact::EdgeOrDev, 1);
    assert_eq!(role(&with([K3s, Kubernetes], &edge)), [PlaneRole::Host, PlaneRole::NotChosen]);
    let split = Facts::default()
        .with(Fact::Nodes, 8)
        .with(Fact::TightlyCoupled, 1)
        .with(Fact::BareMetal, 1)
        .with(Fact::LongLivedServices, 1);
    assert_eq!(role(&with([Slurm, Kubernetes], &split)), [PlaneRole::Chosen, PlaneRole::OtherPool]);
    let none = with([ControlPlane::None, Kubernetes], &Facts::default()).verdict.unwrap();
    assert_eq!(none.fares[0].role, PlaneRole::NotChosen);
    assert!(none.fares[0].chosen_if.0.is_empty(), "one workload never leads to no scheduler");
}

fn any_facts() -> impl Strategy<Value = Facts> {
    (1u32..40, any::<u8>()).prop_map(|(nodes, bits)| {
        let flags = Fact::WORKLOAD[1..].iter().enumerate();
        flags.fold(Facts::default().with(Fact::Nodes, nodes), |facts, (bit, fact)| {
            facts.with(*fact, u32::from((bits >> bit) & 1))
        })
    })
}

fn any_system() -> impl Strategy<Value = ComparedSystem> {
    prop::sample::select(systems().collect::<Vec<_>>())
}

proptest! {
    /// The verdict is the advice, and what it promises of a change of facts holds when the advice
    /// is asked again.
    #[test]
    fn the_verdict_is_what_advise_says(facts in any_facts(), left in any_system(), right in any_system()) {
        let thresholds = Thresholds::default();
        let verdict = with([left, right], &facts).verdict.unwrap();
        let label = advise(&facts, &thresholds, Ruleset::Corrected).label;
        prop_assert_eq!(&verdict.advice, &label);
        for fare in &verdict.fares {
            prop_assert_eq!(fare.role == PlaneRole::Chosen, fare.plane == label.primary.into());
            if fare.chosen_if.0.is_empty() {
                continue;
            }
            let changed = fare.chosen_if.0.iter().fold(facts, |facts, (fact, value)| {
                let stored = match value {
                    FactValue::Flag(flag) => u32::from(*flag),
                    FactValue::Count(number) | FactValue::Hundredths(number) => *number,
                };
                facts.with(*fact, stored)
            });
            let changed = advise(&changed, &thresholds, Ruleset::Corrected).label.primary;
            prop_assert_eq!(ComparedSystem::from(changed), fare.plane);
        }
    }

    /// Swapping the systems swaps the cells, and who is ahead stays.
    #[test]
    fn the_order_decides_nothing(facts in any_facts(), left in any_system(), right in any_system()) {
        let one = with([left, right], &facts);
        let other = with([right, left], &facts);
        for (one, other) in one.dimensions.iter().zip(&other.dimensions) {
            prop_assert_eq!(one.id, other.id);
            prop_assert_eq!(one.ahead, other.ahead);
            prop_assert_eq!(one.cells[0], other.cells[1]);
            prop_assert_eq!(&one.matters_for, &other.matters_for);
        }
        prop_assert_eq!(one, with([left, right], &facts));
    }
}
