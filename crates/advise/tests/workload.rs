//! The pages' named cases, tables and charts as rows, each with its source; and every warning and
//! dispute on a case that it concerns and on one that it does not.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod asked;

use std::collections::{BTreeMap, BTreeSet};

use asked::{asked, combinations, facts};
use muster_advise::{advise, document, label};
use muster_model::advice::{
    Advice, ControlPlane, Fact, Facts, Layer, Ruleset, Threshold, Thresholds,
};

const GANG: &str = "Volcano/Kueue/KAI gang scheduler (REQUIRED) + ";

/// Source, facts, and the label as `primary`, `primary addon` or `primary addon / hybrid`; `GANG`
/// stands for the requirement.
fn check(rows: &[(&str, &str, &str)]) {
    for (source, words, expected) in rows {
        let label = asked(words).label;
        let expected = expected.replace("GANG ", GANG);
        let (expected, hybrid) = match expected.split_once(" / ") {
            Some((expected, _)) => (expected.to_owned(), true),
            None => (expected, false),
        };
        let found = if expected.contains(' ') {
            format!("{} {}", label.primary, label.addon)
        } else {
            label.primary.to_string()
        };
        assert_eq!((found, label.hybrid.is_some()), (expected, hybrid), "{source}: {words}");
    }
}

#[test]
fn the_guides_cases_and_edges() {
    check(&[
        ("guide, CASES 1", "8 coupled bare", "slurm topology.conf for rail-aware placement"),
        ("guide, CASES 2", "services tenants", "kubernetes GPU Operator"),
        (
            "guide, CASES 3 and the note on it",
            "4 coupled tenants python",
            "ray GANG KubeRay on kubernetes",
        ),
        ("guide, CASES 4", "edge", "k3s GPU Operator"),
        (
            "guide, edge 1: containerised training",
            "16 coupled tenants",
            "kubernetes GANG GPU Operator",
        ),
        (
            "guide, edge 1: Ray inherits the rule",
            "4 coupled python",
            "ray GANG KubeRay on kubernetes",
        ),
        ("guide, edge 2: one node", "1 coupled tenants", "kubernetes GPU Operator"),
        ("guide, edge 2: two nodes", "2 coupled tenants", "kubernetes GANG GPU Operator"),
        ("guide, edge 3: at the edge", "python edge", "ray KubeRay on k3s"),
        ("guide, edge 3: elsewhere", "python", "ray KubeRay on kubernetes"),
        (
            "guide, edge 4: split",
            "8 coupled bare services",
            "slurm topology.conf for rail-aware placement / split",
        ),
        ("guide, edge 4: services only", "services tenants", "kubernetes GPU Operator"),
        (
            "guide, edge 4: no services",
            "8 coupled bare",
            "slurm topology.conf for rail-aware placement",
        ),
        ("guide, edge 6: a contradiction", "1 coupled bare edge", "k3s GPU Operator"),
    ]);
    // Edge 5: the same facts, the same bytes. Edge 7, the whole space, is in label.rs.
    let text = |words| serde_json::to_string(&asked(words)).unwrap();
    assert_eq!(text("4 coupled tenants python"), text("4 coupled tenants python"));
}

#[test]
fn the_tables_and_charts_of_the_pages() {
    check(&[
        ("guide, matrix, row 1; overview, matrix: coupled, bare metal", "16 coupled bare", "slurm"),
        (
            "guide, matrix, row 2; overview, matrix: platform and services",
            "tenants services",
            "kubernetes",
        ),
        (
            "guide, matrix, row 2: gang for batch",
            "8 tenants coupled",
            "kubernetes GANG GPU Operator",
        ),
        ("guide, matrix, row 3; overview, matrix: edge, small, CI", "edge", "k3s"),
        (
            "guide, matrix, row 4; overview, matrix: RL and pipelines",
            "python",
            "ray KubeRay on kubernetes",
        ),
        ("guide, matrix, row 5; overview, matrix: inference at scale", "services", "kubernetes"),
        (
            "guide, matrix, row 6: both on one fleet",
            "8 coupled bare services",
            "slurm topology.conf for rail-aware placement / split",
        ),
        ("guide, chart: coupled, bare metal", "2 coupled bare", "slurm"),
        (
            "guide, chart: coupled, bare metal, services",
            "2 coupled bare services",
            "slurm topology.conf for rail-aware placement / split",
        ),
        ("guide, chart: services or tenants", "tenants", "kubernetes"),
        ("guide, chart: services at the edge", "services edge", "k3s"),
        ("guide, chart: Python", "python", "ray"),
        ("guide, chart: simple batch", "", "kubernetes"),
        ("guide, chart: distributed training on it", "2 coupled", "kubernetes GANG GPU Operator"),
        ("overview, chart: coupled, bare metal", "4 coupled bare", "slurm"),
        ("overview, chart: containers, tenants, services", "services tenants", "kubernetes"),
        ("overview, chart: Python", "python tenants", "ray"),
        ("comparison, chart and rule of thumb: finite, coupled", "32 coupled bare", "slurm"),
        (
            "comparison, chart and rule of thumb: indefinite, tenants",
            "services tenants",
            "kubernetes",
        ),
        (
            "comparison, chart: both",
            "32 coupled bare services",
            "slurm topology.conf for rail-aware placement / split",
        ),
        ("Hyperstack, profile 1: large-scale training", "64 coupled bare", "slurm"),
        ("Hyperstack, profile 3: MLOps on a shared cluster", "services tenants", "kubernetes"),
        ("Hyperstack, profile 4: endpoints and fine-tuning", "1 coupled services", "kubernetes"),
        ("Kentino, summary, row 3: inference platform", "services", "kubernetes GPU Operator"),
        (
            "Kentino, summary, row 4: mixed cluster",
            "4 coupled services tenants",
            "kubernetes GANG GPU Operator",
        ),
        ("Kentino, why naive Kubernetes: 8 ranks", "8 coupled", "kubernetes GANG GPU Operator"),
    ]);
}

/// The answer shows a dispute where a page contradicts the label: the other pages' rows that the
/// guide does not follow.
#[test]
fn what_the_label_does_not_follow_is_disputed() {
    for (source, words, page_says, dispute) in [
        ("Hyperstack, profile 2: HPC-style batch", "bare", "slurm", "batch-in-containers"),
        ("Kentino, decision tree, step 2: no services", "", "slurm", "batch-in-containers"),
        (
            "Kentino, summary, row 8: a plane each",
            "4 coupled services",
            "slurm",
            "hybrid-without-slurm",
        ),
        ("guide, chart: tenancy first", "python tenants", "kubernetes", "tenancy-before-python"),
        ("guide, chart: services first", "python services", "kubernetes", "services-before-python"),
        (
            "guide, matrix, row 4: Python",
            "8 coupled bare python",
            "ray",
            "coupled-rl-on-bare-metal",
        ),
        ("guide, matrix, row 3: small", "2 coupled bare edge", "k3s", "slurm-at-the-edge"),
        (
            "guide, matrix, row 2: a platform",
            "services tenants edge",
            "kubernetes",
            "k3s-for-tenants",
        ),
        ("guide, matrix, row 4: Python on Slurm", "bare python", "slurm", "python-on-bare-metal"),
        ("Kentino, Ray: never at the top", "python", "kubernetes", "ray-as-label"),
    ] {
        let advice = asked(words);
        assert_ne!(advice.label.primary.name(), page_says, "{source}: nothing to dispute");
        assert!(disputes(&advice).contains(dispute), "{source}: {words}");
    }
}

fn warnings(advice: &Advice) -> BTreeSet<&'static str> {
    advice.warnings.iter().map(|warning| warning.id).collect()
}

fn disputes(advice: &Advice) -> BTreeSet<&'static str> {
    advice.disputes.iter().map(|dispute| dispute.id).collect()
}

/// Headings of a part of the documentation.
fn documented(section: &str) -> BTreeSet<String> {
    let document = document();
    let (_, after) = document.split_once(&format!("\n## {section}\n")).unwrap();
    let part = after.split("\n## ").next().unwrap();
    part.lines().filter_map(|line| line.strip_prefix("### ")).map(str::to_owned).collect()
}

/// An id, facts on which it is due, and facts that miss it narrowly.
type WorkloadRow = (&'static str, &'static str, &'static str);

fn due(section: &str, rows: &[WorkloadRow], ids: fn(&Advice) -> BTreeSet<&'static str>) {
    for (id, concerned, missed) in rows {
        assert!(ids(&asked(concerned)).contains(id), "{id} is not due on {concerned}");
        assert!(!ids(&asked(missed)).contains(id), "{id} is due on {missed}");
    }
    let tested: BTreeSet<String> = rows.iter().map(|(id, ..)| (*id).to_owned()).collect();
    assert_eq!(tested.len(), rows.len(), "an id twice");
    assert_eq!(tested, documented(section), "an id without a row, or the other way round");
}

#[test]
fn every_warning_is_due_where_it_belongs() {
    due(
        "Warnings for one workload",
        &[
            ("default-scheduler", "2 coupled", "1 coupled"),
            ("contended-nodes", "2 coupled bare services", "2 coupled bare"),
            ("nccl-on-tcp", "2 coupled bare", "8 bare"),
            ("ray-second-plane", "2 coupled bare python", "2 coupled bare"),
            ("k3s-envelope", "9 python edge", "8 python edge"),
            ("serving-on-slurm", "2 coupled bare services", "2 coupled services"),
            ("slurm-tenancy", "2 coupled bare tenants", "2 coupled tenants"),
            ("ray-without-rdma", "2 coupled python", "1 coupled python"),
            ("container-network", "2 coupled", "2 coupled python"),
            ("fragmentation", "1 coupled", "2 coupled bare"),
            ("topology-ignored", "2 coupled", "2 coupled bare"),
            ("many-pods-one-node", "1 coupled", "2 coupled"),
            ("silent-rank", "2 coupled bare", "2 bare"),
            ("restart-without-checkpoint", "1 coupled", "8"),
            ("rendezvous", "2 coupled", "2 coupled python"),
            ("slurm-cannot-grow", "2 coupled bare python", "2 coupled bare"),
            ("slurm-mixed-work", "2 coupled bare python", "2 coupled bare tenants"),
            ("time-slicing", "tenants", "1 coupled tenants"),
            ("ray-one-owner", "python tenants", "python services"),
            ("queue-latency", "tenants", "tenants services"),
            ("fair-share-without-gpus", "2 coupled bare tenants", "2 coupled bare"),
            ("environment-drift", "2 coupled bare", "2 coupled"),
            ("gang-term", "2 coupled bare", "2 coupled"),
            ("migrate-for-fashion", "2 coupled bare", "2 coupled bare services"),
            ("kubernetes-tax", "2 coupled", "2 coupled services"),
            ("ray-without-actors", "python", "1 coupled python"),
            ("gang-for-nothing", "services", "1 coupled services"),
            ("unpinned-versions", "edge", "services"),
            ("silent-fact", "tenants", "2 coupled bare services"),
        ],
        warnings,
    );
}

#[test]
fn every_dispute_touches_what_it_concerns() {
    due(
        "Disputes about one workload",
        &[
            ("tenancy-before-python", "python tenants", "2 coupled bare python tenants"),
            ("services-before-python", "python services", "python tenants"),
            ("ray-as-label", "python", "2 coupled bare python"),
            ("coupled-rl-on-bare-metal", "2 coupled bare python", "1 coupled bare python"),
            ("slurm-at-the-edge", "2 coupled bare edge", "1 coupled bare edge"),
            ("coupled-without-bare-metal", "2 coupled python", "2 coupled bare python"),
            ("batch-in-containers", "1 coupled bare", "tenants"),
            ("hybrid-without-slurm", "1 coupled services", "2 coupled bare services"),
            ("python-on-bare-metal", "python bare", "2 coupled bare python"),
            ("k3s-for-tenants", "edge tenants", "edge python tenants"),
            ("k3s-size", "2 python edge", "1 python edge"),
            ("ray-on-k3s-gang", "2 coupled python edge", "1 coupled python edge"),
            ("pods-or-nodes", "1 coupled", "2 coupled"),
            ("kueue-as-gang", "2 coupled", "2 coupled bare"),
            ("operators-for-gangs", "2 coupled", "2 coupled python"),
            ("native-gang-api", "2 coupled edge", "1 coupled edge"),
            ("node-stack", "2 coupled bare", "1 coupled bare"),
            ("dra-or-device-plugin", "1 coupled", "services"),
            ("split-or-nest", "2 coupled bare services", "2 coupled services"),
            ("ray-in-a-hybrid", "2 coupled bare services python", "2 coupled bare python"),
            ("inference-at-scale", "services", "services edge"),
            ("slurm-multi-tenancy", "2 coupled bare tenants", "2 coupled bare"),
            ("slurm-gpu-isolation", "2 coupled bare tenants", "2 coupled tenants"),
            ("what-fair-share-counts", "2 coupled bare tenants", "2 coupled bare"),
            ("slurm-resize", "2 coupled bare", "2 coupled"),
            ("launchers-per-node", "2 coupled bare", "2 coupled bare python"),
            ("launchers-per-pod", "2 coupled", "1 coupled"),
            ("gang-word", "2 coupled bare", "1 coupled bare"),
        ],
        disputes,
    );
}

/// The most dangerous first: what the terminal shows of a long list.
#[test]
fn the_first_warnings_are_the_dangerous_ones() {
    let first =
        |words| asked(words).warnings.iter().take(3).map(|warning| warning.id).collect::<Vec<_>>();
    assert_eq!(
        first("4 coupled tenants python"),
        ["default-scheduler", "nccl-on-tcp", "ray-second-plane"]
    );
    assert_eq!(
        first("8 coupled bare services"),
        ["contended-nodes", "nccl-on-tcp", "serving-on-slurm"]
    );
    assert_eq!(first("16 edge"), ["k3s-envelope", "unpinned-versions", "silent-fact"]);
}

/// A site's own thresholds move what they are about, and are shown where an answer can depend on
/// them.
#[test]
fn a_sites_thresholds_are_used_and_shown() {
    let ask = |threshold, stored, words| {
        let mut thresholds = Thresholds::default();
        thresholds.set(threshold, stored);
        advise(&facts(words), &thresholds, Ruleset::Corrected)
    };
    let lax = ask(Threshold::MultiNode, 4, "3 coupled");
    assert_eq!(lax.label.addon, "GPU Operator");
    let shown = lax.rules.iter().find(|rule| rule.id == "site-threshold").unwrap();
    assert!(
        shown.sentence.contains("multi-node to 4") && shown.sentence.contains("2 by default"),
        "{shown:?}"
    );
    let small = ask(Threshold::K3sNodes, 3, "3 edge");
    assert!(
        warnings(&small).contains("k3s-envelope")
            && !warnings(&asked("3 edge")).contains("k3s-envelope")
    );
    // Also a number that decides no label, and none that is only about sites.
    assert!(small.rules.iter().any(|rule| rule.id == "site-threshold"), "{:?}", small.rules);
    let site = ask(Threshold::FederatedGpus, 100, "3 edge");
    assert!(!site.rules.iter().any(|rule| rule.id == "site-threshold"), "{:?}", site.rules);
}

fn names(layers: &[Layer]) -> Vec<&'static str> {
    layers.iter().map(|layer| layer.name).collect()
}

/// Down from a layer, through what each rides on.
fn down(layers: &[Layer], from: &str) -> Vec<&'static str> {
    let by_name: BTreeMap<&str, &Layer> = layers.iter().map(|layer| (layer.name, layer)).collect();
    let mut path = Vec::new();
    let mut next = by_name.get(from).copied();
    while let Some(layer) = next {
        path.push(layer.name);
        assert!(path.len() <= layers.len(), "a layer rides on itself: {path:?}");
        next = layer.on.first().and_then(|below| by_name.get(below).copied());
    }
    path
}

const NODE_STACK: &str = "NVIDIA node stack (driver, NCCL, RDMA)";
const GANG_LAYER: &str = "gang scheduler (Volcano, KAI or the native gang API)";

#[test]
fn the_stack_is_that_of_the_guide() {
    let rows: [(&str, &str, &str, &[&str]); 12] = [
        (
            "guide, stack: torchrun on Slurm",
            "8 coupled bare",
            "torchrun or MPI, started by srun",
            &["Slurm"],
        ),
        (
            "guide, stack: torchrun behind a gang",
            "8 coupled",
            "torchrun or MPI",
            &[GANG_LAYER, "Kubernetes", "GPU Operator"],
        ),
        (
            "guide, stack: services",
            "services",
            "services and inference",
            &["Kubernetes", "GPU Operator"],
        ),
        (
            "guide, stack: Ray through KubeRay",
            "4 coupled python",
            "Ray Train",
            &["Ray", "KubeRay", GANG_LAYER, "Kubernetes", "GPU Operator"],
        ),
        (
            "guide, edge 3: KubeRay on k3s",
            "python edge",
            "Ray tasks and actors (Data, Tune, RLlib)",
            &["Ray", "KubeRay", "k3s", "GPU Operator"],
        ),
        (
            "overview, Ray on Slurm",
            "8 coupled bare python",
            "Ray Train",
            &["Ray", "one Slurm allocation that starts Ray's head and workers", "Slurm"],
        ),
        (
            "guide, matrix, row 6: services' pool",
            "8 coupled bare services",
            "services and inference",
            &["Kubernetes", "GPU Operator", "Kubernetes pool of nodes"],
        ),
        (
            "guide, matrix, row 6: training's pool",
            "8 coupled bare services",
            "torchrun or MPI, started by srun",
            &["Slurm", "Slurm pool of nodes"],
        ),
        (
            "guide, how to scale it: Ray in the other pool",
            "8 coupled bare services python",
            "Ray Serve",
            &["KubeRay", "Kubernetes", "GPU Operator", "Kubernetes pool of nodes"],
        ),
        (
            "Kentino: Kueue on top, Volcano underneath",
            "8 coupled tenants",
            "torchrun or MPI",
            &["Kueue (quota per team)", GANG_LAYER, "Kubernetes", "GPU Operator"],
        ),
        (
            "guide, how to scale it: Slurm's tenants",
            "8 coupled bare tenants",
            "torchrun or MPI, started by srun",
            &["slurmdbd (accounts, fair share, QOS)", "Slurm"],
        ),
        ("guide, matrix, row 3", "edge", "batch jobs in containers", &["k3s", "GPU Operator"]),
    ];
    for (source, words, top, below) in rows {
        let layers = asked(words).composition;
        let expected: Vec<&str> = [top].iter().chain(below).chain(&[NODE_STACK]).copied().collect();
        assert_eq!(down(&layers, top), expected, "{source}: {words}");
    }
    // Kentino, summary, row 3: an inference platform has no batch scheduler, shared or not.
    assert_eq!(
        names(&asked("services tenants").composition),
        ["services and inference", "Kubernetes", "GPU Operator", NODE_STACK]
    );
}

/// Layers hold together for every answer, and repeat its label.
#[test]
fn every_stack_holds_together() {
    let thresholds = Thresholds::default();
    for facts in [1, 2, 16].into_iter().flat_map(combinations) {
        for ruleset in [Ruleset::Corrected, Ruleset::Guide] {
            let advice = advise(&facts, &thresholds, ruleset);
            let layers = &advice.composition;
            let names = names(layers);
            let distinct: BTreeSet<&str> = names.iter().copied().collect();
            assert_eq!(distinct.len(), names.len(), "a layer twice: {facts:?}");
            let mut above = BTreeSet::new();
            for layer in layers {
                above.insert(layer.name);
                for below in &layer.on {
                    assert!(names.contains(below), "{} rides on nothing: {facts:?}", layer.name);
                    assert!(
                        !above.contains(below),
                        "{} is drawn above what it rides on: {facts:?}",
                        layer.name
                    );
                }
                assert_eq!(down(layers, layer.name).last(), Some(&NODE_STACK), "{facts:?}");
            }
            // The bottom carries all, and everything else but runtimes carries something.
            let carried: BTreeSet<&str> =
                layers.iter().flat_map(|layer| layer.on.clone()).collect();
            let has = |name: &str| names.contains(&name);
            for plane in [
                "Slurm",
                "Kubernetes",
                "k3s",
                "Ray",
                "KubeRay",
                GANG_LAYER,
                "GPU Operator",
                NODE_STACK,
            ] {
                assert!(
                    !has(plane) || carried.contains(plane),
                    "{plane} carries nothing: {facts:?}"
                );
            }
            let primary = match advice.label.primary {
                ControlPlane::Slurm => "Slurm",
                ControlPlane::Kubernetes => "Kubernetes",
                ControlPlane::K3s => "k3s",
                ControlPlane::Ray => "Ray",
                ControlPlane::None => panic!("the answer for a workload always has a scheduler"),
            };
            assert!(has(primary), "{facts:?}");
            assert_eq!(has(GANG_LAYER), advice.label.addon.contains("REQUIRED"), "{facts:?}");
            assert_eq!(has("Slurm pool of nodes"), advice.label.hybrid.is_some(), "{facts:?}");
            assert_eq!(
                has("KubeRay") && has("k3s"),
                advice.label.addon.contains("KubeRay on k3s"),
                "{facts:?}"
            );
            assert_eq!(has("Ray"), facts.is(Fact::PythonNativePipeline), "{facts:?}");
        }
    }
}

/// Warnings, disputes and layers read facts and label, and change neither.
#[test]
fn the_whole_answer_has_the_label_of_the_label_alone() {
    let thresholds = Thresholds::default();
    for facts in [1, 2, 8].into_iter().flat_map(combinations) {
        for ruleset in [Ruleset::Corrected, Ruleset::Guide] {
            let advice = advise(&facts, &thresholds, ruleset);
            assert_eq!(advice.label, label(&facts, &thresholds, ruleset));
            assert_eq!(advice, advise(&facts, &thresholds, ruleset), "answers differ between runs");
            // One rule chooses; what is required and split has its reason.
            let fired: Vec<&str> = advice.rules.iter().map(|rule| rule.id).collect();
            let choosing =
                ["slurm-coupled", "ray-on-k3s", "ray-pipeline", "k3s-small", "kubernetes-rest"];
            assert_eq!(fired.iter().filter(|id| choosing.contains(id)).count(), 1, "{facts:?}");
            let required = fired.iter().any(|id| id.starts_with("gang-required"));
            assert_eq!(required, advice.label.addon.contains("REQUIRED"), "{facts:?}");
            assert_eq!(
                fired.contains(&"hybrid-services"),
                advice.label.hybrid.is_some(),
                "{facts:?}"
            );
        }
    }
}

/// The guide's ruleset omits a requirement; the dispute and the warning state the consequence.
#[test]
fn the_guides_omission_is_shown_under_its_ruleset() {
    let facts: Facts = facts("2 coupled python edge");
    let advice = advise(&facts, &Thresholds::default(), Ruleset::Guide);
    assert_eq!(advice.label.addon, "KubeRay on k3s");
    assert!(disputes(&advice).contains("ray-on-k3s-gang"));
    assert_eq!(advice.warnings[0].id, "default-scheduler");
}
