//! The mix: what it says about a site's needs, and where each kind of work runs.

use std::sync::Arc;

use muster_model::advice::Fact::{self, *};
use muster_model::advice::{ControlPlane, Facts, MixEntry, SiteProfile};

use crate::rows::{ask, said, site};

fn entry(name: &str, share_percent: Option<u32>, flags: &[Fact], nodes: u32) -> MixEntry {
    let facts =
        flags.iter().fold(Facts::default().with(Nodes, nodes), |facts, fact| facts.with(*fact, 1));
    MixEntry { name: Arc::from(name), share_percent, facts }
}

fn lab(flags: &[Fact], mix: Vec<MixEntry>) -> SiteProfile {
    let numbers = [(FleetNodes, 8), (FleetGpus, 64), (Users, 20), (PlatformFte, 50)];
    SiteProfile { mix, ..site(flags, &numbers) }
}

/// A mix says the same as the needs that follow from it.
#[test]
fn a_mix_implies_needs() {
    let check = |entries: Vec<MixEntry>, needs: &[Fact]| {
        let implied = ask(&lab(&[], entries.clone()));
        let said = ask(&lab(needs, Vec::new()));
        assert_eq!(implied.advice.label, said.advice.label, "{entries:?}");
        assert_eq!(implied.advice.warnings, said.advice.warnings, "{entries:?}");
        assert_eq!(implied.advice.disputes, said.advice.disputes, "{entries:?}");
    };
    check(vec![entry("api", None, &[LongLivedServices], 1)], &[Services]);
    check(vec![entry("pretraining", None, &[TightlyCoupled], 4)], &[Training, CoupledTraining]);
    check(vec![entry("finetuning", None, &[TightlyCoupled], 1)], &[Training]);
    check(vec![entry("grpo", None, &[PythonNativePipeline], 2)], &[DistributedPython]);
    check(vec![entry("nightly", None, &[], 1)], &[Batch]);
    check(
        vec![
            entry("pretraining", Some(51), &[TightlyCoupled], 4),
            entry("api", Some(49), &[LongLivedServices], 1),
        ],
        &[Training, CoupledTraining, MainlyCoupled, Services],
    );
    check(
        vec![
            entry("pretraining", Some(50), &[TightlyCoupled], 4),
            entry("api", Some(50), &[LongLivedServices], 1),
        ],
        &[Training, CoupledTraining, Services],
    );
}

/// The mix adds no need if the site names an equivalent one.
#[test]
fn a_need_that_is_named_is_enough() {
    let check = |need: Fact, entry: MixEntry| {
        let with = ask(&lab(&[need], vec![entry]));
        let without = ask(&lab(&[need], Vec::new()));
        assert_eq!(with.advice.label, without.advice.label, "{need}");
        assert_eq!(with.advice.warnings, without.advice.warnings, "{need}");
        assert_eq!(with.advice.disputes, without.advice.disputes, "{need}");
    };
    check(Mpi, entry("cfd", None, &[TightlyCoupled], 4));
    check(Sweeps, entry("tuning", None, &[PythonNativePipeline], 1));
    check(Training, entry("small", None, &[], 1));
}

#[test]
fn teams_follow_from_a_shared_kind_of_work() {
    let shared = ask(&lab(&[], vec![entry("nightly", None, &[MultiTenant], 1)]));
    assert_eq!(shared.advice.label.addon, "slurmdbd for fair share and limits");
}

/// A need that the mix implies cannot be unset by a fact: the mix would have to change.
#[test]
fn what_the_mix_implies_is_no_flip() {
    let advice = ask(&lab(&[Training], vec![entry("api", None, &[LongLivedServices], 1)]));
    assert!(advice.advice.flips.iter().all(|flip| flip.change.0[0].0 != Services));
    let advice = ask(&lab(&[Training, Services], Vec::new()));
    assert!(advice.advice.flips.iter().any(|flip| flip.change.0[0].0 == Services));
}

#[test]
fn each_kind_of_work_has_a_plane_and_its_limits() {
    let mix = || {
        vec![
            entry("pretraining", Some(60), &[TightlyCoupled, BareMetal], 4),
            entry("api", Some(20), &[LongLivedServices], 1),
            entry("grpo", Some(10), &[PythonNativePipeline], 2),
            entry("nightly", None, &[], 1),
        ]
    };
    let check = |site: &SiteProfile, expected: [(ControlPlane, &str); 4]| {
        let advice = ask(site);
        let work: Vec<(ControlPlane, &str)> =
            advice.workloads.iter().map(|work| (work.runs_on, &*work.how)).collect();
        for ((plane, how), (expected_plane, expected_how)) in work.iter().zip(expected) {
            assert_eq!(*plane, expected_plane, "{how}");
            assert!(how.contains(expected_how), "{how}");
        }
        assert_eq!(
            advice.workloads[0].alone.primary,
            ControlPlane::Slurm,
            "alone, by the guide's labeller"
        );
        assert_eq!(advice.workloads[1].alone.primary, ControlPlane::Kubernetes);
    };
    // Split: batch stays, services go across.
    check(
        &lab(&[FleetBareMetal], mix()),
        [
            (ControlPlane::Slurm, "granted whole"),
            (ControlPlane::Kubernetes, "on the Kubernetes side"),
            (ControlPlane::Slurm, "inside one allocation"),
            (ControlPlane::Slurm, "a job script"),
        ],
    );
    // Without staff for Kubernetes the service runs on Slurm, with its limits stated.
    let mut unstaffed = lab(&[FleetBareMetal], mix());
    unstaffed.facts.set(PlatformFte, 0);
    check(
        &unstaffed,
        [
            (ControlPlane::Slurm, "granted whole"),
            (ControlPlane::Slurm, "health check, address and rolling update are yours"),
            (ControlPlane::Slurm, "inside one allocation"),
            (ControlPlane::Slurm, "a job script"),
        ],
    );
    assert!(said(&ask(&unstaffed)).contains(&"service-on-slurm"));
    // One substrate.
    check(
        &lab(&[OperatesKubernetes, Works], mix()),
        [
            (ControlPlane::Kubernetes, "behind the gang scheduler"),
            (ControlPlane::Kubernetes, "a Deployment"),
            (ControlPlane::Kubernetes, "KubeRay"),
            (ControlPlane::Kubernetes, "Kueue admits"),
        ],
    );
    // Conventions.
    let small = site(&[Talk], &[(FleetNodes, 4), (FleetGpus, 8), (Users, 3)]);
    check(
        &SiteProfile { mix: mix(), ..small },
        [
            (ControlPlane::None, "by hand on every node"),
            (ControlPlane::None, "under systemd"),
            (ControlPlane::None, "by hand on the agreed GPUs"),
            (ControlPlane::None, "in tmux"),
        ],
    );
}

#[test]
fn what_does_not_fit_is_said_to_never_start() {
    let how = |nodes: u32, elastic: u32| {
        let mut site = lab(&[], vec![entry("pretraining", None, &[TightlyCoupled], nodes)]);
        site.facts.set(FleetElastic, elastic);
        ask(&site).workloads[0].how.to_string()
    };
    assert!(how(9, 0).contains("it spans 9 nodes, the fleet has 8"));
    assert!(!how(8, 0).contains("can never start"));
    assert!(!how(9, 1).contains("can never start"), "more nodes come");
}
