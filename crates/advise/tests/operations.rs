//! What it takes to run each answer: parts, people, what breaks first.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use muster_advise::advise_site;
use muster_model::GpuModel;
use muster_model::advice::{
    CitedPage, ControlPlane, Fact, Facts, Ruleset, SiteAdvice, SiteProfile,
};

fn ask(facts: &[(Fact, u32)]) -> SiteAdvice {
    let facts =
        facts.iter().fold(Facts::default(), |facts, (fact, value)| facts.with(*fact, *value));
    advise_site(&SiteProfile { facts, ..SiteProfile::default() }, Ruleset::Corrected)
}

const LAB: [(Fact, u32); 4] =
    [(Fact::FleetNodes, 8), (Fact::FleetGpus, 64), (Fact::Users, 20), (Fact::Batch, 1)];
const PLATFORM: [(Fact, u32); 5] = [
    (Fact::FleetNodes, 8),
    (Fact::FleetGpus, 64),
    (Fact::Users, 40),
    (Fact::Services, 1),
    (Fact::PlatformFte, 100),
];

/// Kentino: "one part-time SRE can operate it"; comparison table, state / SPOF: slurmctld,
/// slurmdbd.
#[test]
fn slurm_takes_a_part_time_sre() {
    let advice = ask(&LAB);
    assert_eq!(advice.advice.label.primary, ControlPlane::Slurm);
    assert_eq!(advice.operations.staff, "one part-time SRE");
    for part in ["slurmctld", "slurmdbd"] {
        assert!(
            advice.operations.components.contains(&part)
                && advice.operations.breaks_first.contains(part)
        );
    }
}

/// Kentino: at minimum 20 components; 0.5 to 1.0 FTE for six months, 0.25 then; 5 to 10 times
/// Slurm.
#[test]
fn kubernetes_takes_twenty_parts_and_a_team() {
    let more = [(Fact::Training, 1), (Fact::CoupledTraining, 1)];
    let facts: Vec<(Fact, u32)> = PLATFORM.iter().chain(&more).copied().collect();
    let advice = ask(&facts);
    assert_eq!(advice.advice.label.primary, ControlPlane::Kubernetes, "{:?}", advice.advice.label);
    let parts = &advice.operations.components;
    assert!(parts.len() >= 20, "{} parts", parts.len());
    for part in ["etcd", "GPU Operator", "Kueue", "Volcano scheduler", "Kubeflow Trainer"] {
        assert!(parts.contains(&part), "{part} in {parts:?}, for {:?}", advice.advice.label);
    }
    for number in ["0.5 to 1.0", "six months", "0.25", "5 to 10 times"] {
        assert!(advice.operations.staff.contains(number), "{number}");
    }
    assert!(
        advice.operations.breaks_first.contains("etcd")
            && advice.operations.breaks_first.contains("api-server")
    );
    assert_eq!(advice.operations.source.page, CitedPage::Kentino);
}

/// Kentino's table: an inference platform needs the GPU Operator and no batch scheduler.
#[test]
fn a_pure_inference_platform_has_no_batch_scheduler() {
    let advice = ask(&PLATFORM);
    assert_eq!(advice.advice.label.primary, ControlPlane::Kubernetes);
    let parts = &advice.operations.components;
    assert!(parts.contains(&"GPU Operator"));
    assert!(!parts.iter().any(|part| part.contains("Volcano")), "{parts:?}");
}

#[test]
fn without_a_scheduler_there_is_nothing_to_operate() {
    let advice = ask(&[(Fact::FleetGpus, 8), (Fact::Users, 4), (Fact::Talk, 1)]);
    assert_eq!(advice.advice.label.primary, ControlPlane::None);
    assert!(advice.operations.staff.starts_with("nobody; the users"));
    assert!(advice.operations.components.contains(&"tmux"));
    assert!(advice.operations.breaks_first.contains("agreement"));
}

/// Kentino, step 3: without a platform team Slurm keeps the services, so no staff for Kubernetes is
/// listed; with one, or with Kubernetes below, both stacks are listed.
#[test]
fn a_split_lists_kubernetes_only_where_it_runs() {
    let mixed = [
        (Fact::Training, 1),
        (Fact::CoupledTraining, 1),
        (Fact::FleetBareMetal, 1),
        (Fact::HpcFluent, 1),
    ];
    let ask = |fte, more: &[(Fact, u32)]| {
        let facts: Vec<_> = PLATFORM
            .iter()
            .chain(&mixed)
            .chain(&[(Fact::PlatformFte, fte)])
            .chain(more)
            .copied()
            .collect();
        ask(&facts)
    };
    let working = [(Fact::OperatesKubernetes, 1), (Fact::Works, 1)];
    for (fte, more, split, kubernetes) in [
        (0, &[][..], "a Slurm partition of its own for services", false),
        (100, &[], "partition nodes: Slurm pool + K8s pool, clear boundary", true),
        (100, &working, "Slurm on Kubernetes: Slinky or Soperator, one substrate for both", true),
    ] {
        let advice = ask(fte, more);
        assert_eq!(advice.advice.label.hybrid.as_deref(), Some(split));
        let operations = &advice.operations;
        assert_eq!(
            operations.components.contains(&"etcd"),
            kubernetes,
            "{split}: {:?}",
            operations.components
        );
        assert_eq!(
            operations.staff.contains("Kubernetes"),
            kubernetes,
            "{split}: {}",
            operations.staff
        );
        assert!(operations.components.contains(&"slurmctld"), "{split}");
    }
}

/// Hyperstack: hardware to orchestrator is the provider's, the workloads are yours.
#[test]
fn managed_leaves_the_workloads() {
    let staff = |fte| {
        let more = [(Fact::Managed, 1), (Fact::PlatformFte, fte)];
        let facts: Vec<(Fact, u32)> = PLATFORM.iter().chain(&more).copied().collect();
        let advice = ask(&facts);
        let provided = advice.advice.label.addon.contains("run by a provider");
        (provided, advice.operations.staff.contains("you operate your workloads"))
    };
    assert_eq!(staff(24), (true, true));
    assert_eq!(staff(25), (false, false), "who has a team runs it, also where a provider might");
}

/// A fleet of AMD GPUs needs none of NVIDIA's parts; with one model that is not AMD's, or unknown,
/// NVIDIA's are named.
#[test]
fn amd_has_parts_of_its_own() {
    let parts = |base: &[(Fact, u32)], models: &[&str]| {
        let facts =
            base.iter().fold(Facts::default(), |facts, (fact, value)| facts.with(*fact, *value));
        let models = models.iter().map(|model| GpuModel::from(*model)).collect();
        let site = SiteProfile { facts, models, ..SiteProfile::default() };
        advise_site(&site, Ruleset::Corrected).operations.components
    };
    let nvidia = |parts: &[&str]| {
        parts
            .iter()
            .any(|part| ["NVIDIA", "DCGM", "MIG", "nvidia"].iter().any(|word| part.contains(word)))
    };
    let small = [(Fact::FleetGpus, 8), (Fact::Users, 4), (Fact::Talk, 1)];
    for base in [&LAB[..], &PLATFORM, &small, &[(Fact::FleetEdge, 1)]] {
        let amd = parts(base, &["mi300x", "mi210"]);
        assert!(!nvidia(&amd), "{amd:?}");
        for models in [&["mi300x", "h100"][..], &["mi300x", "unheard-of"], &[]] {
            assert!(nvidia(&parts(base, models)), "{models:?}");
        }
    }
    assert!(parts(&PLATFORM, &["mi300x"]).contains(&"AMD GPU Operator"));
}

/// Components that no label names but that have to be installed.
#[test]
fn needs_bring_parts_along() {
    let parts = |need: &[(Fact, u32)]| {
        let facts: Vec<(Fact, u32)> = PLATFORM.iter().chain(need).copied().collect();
        ask(&facts).operations.components
    };
    for (need, part) in [
        (&[(Fact::Rl, 1), (Fact::FleetRdma, 1)][..], "Network Operator or RDMA device plugin"),
        (&[(Fact::Notebooks, 1)], "JupyterHub"),
        (&[(Fact::Tracking, 1)], "tracking server such as MLflow"),
        (&[(Fact::FleetElastic, 1)], "Karpenter or Cluster Autoscaler"),
    ] {
        assert!(parts(need).contains(&part), "{part}: {:?}", parts(need));
        assert!(!parts(&need[1..]).contains(&part), "{part} also without its need");
    }
}

#[test]
fn every_answer_has_parts_people_and_a_weak_point() {
    for users in [1, 4, 20] {
        for flags in 0..64u32 {
            let some = [
                Fact::Services,
                Fact::Rl,
                Fact::CoupledTraining,
                Fact::FleetEdge,
                Fact::Managed,
                Fact::HpcFluent,
            ];
            let mut facts = vec![
                (Fact::FleetNodes, 4),
                (Fact::FleetGpus, 32),
                (Fact::Users, users),
                (Fact::PlatformFte, 50),
            ];
            facts.extend(some.iter().enumerate().map(|(bit, fact)| (*fact, (flags >> bit) & 1)));
            let advice = ask(&facts);
            let operations = advice.operations;
            let mut parts = operations.components.clone();
            parts.sort_unstable();
            parts.dedup();
            assert_eq!(
                parts.len(),
                operations.components.len(),
                "a part stands twice: {:?}",
                operations.components
            );
            assert!(
                parts.len() >= 4
                    && !operations.staff.is_empty()
                    && !operations.breaks_first.is_empty()
            );
        }
    }
}
