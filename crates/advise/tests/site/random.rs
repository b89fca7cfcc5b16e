//! Whatever is asked, the answer is there, the same again, and does not contradict itself.

use std::collections::BTreeSet;
use std::sync::Arc;

use muster_advise::label_site;
use muster_model::GpuModel;
use muster_model::advice::{
    ControlPlane, Fact, FactKind, FactValue, Facts, MixEntry, Ruleset, SiteAdvice, SiteProfile,
    Thresholds,
};
use proptest::prelude::*;

use crate::rows::{ask, said};

/// Values on both sides of every threshold.
const NUMBERS: [u32; 14] = [1, 2, 4, 5, 6, 7, 8, 9, 10, 11, 16, 32, 33, 200];

fn stored(fact: Fact) -> BoxedStrategy<u32> {
    match fact.kind() {
        // Sparse: a site with every need at once is rare, and hides the rules below the first.
        FactKind::Flag => prop_oneof![2 => Just(0), 1 => Just(1)].boxed(),
        FactKind::Count { .. } => prop::sample::select(NUMBERS.to_vec()).boxed(),
        FactKind::Hundredths { .. } => prop::sample::select(vec![0, 24, 25, 49, 50, 100]).boxed(),
    }
}

fn facts_of(list: &'static [Fact]) -> impl Strategy<Value = Facts> {
    let values: Vec<BoxedStrategy<u32>> = list.iter().map(|fact| stored(*fact)).collect();
    values.prop_map(move |values| {
        list.iter()
            .zip(values)
            .fold(Facts::default(), |facts, (fact, value)| facts.with(*fact, value))
    })
}

/// Facts that contradict each other made to agree, so that few sites are thrown away.
fn agreed(mut facts: Facts) -> Facts {
    let teams = facts.get(Fact::Teams).min(facts.get(Fact::Users));
    facts.set(Fact::Teams, teams);
    if facts.get(Fact::FleetNodes) == 1 && !facts.is(Fact::FleetElastic) {
        facts.set(Fact::CoupledTraining, 0);
    }
    // Twice, so that a fact that is taken away takes those that rest on it.
    for _ in 0..2 {
        for implied in Fact::IMPLIES {
            if !facts.is(implied.other) {
                facts.set(implied.one, 0);
            }
        }
    }
    if !Fact::OPERATED.iter().any(|plane| facts.is(*plane)) {
        for fact in [Fact::Works, Fact::Modernise, Fact::ManagedPlane] {
            facts.set(fact, 0);
        }
    }
    if facts.get(Fact::Users) == 1 {
        facts.set(Fact::CoordinationFailing, 0);
    }
    facts
}

fn sites() -> impl Strategy<Value = SiteProfile> {
    let models = prop_oneof![
        Just(vec![]),
        Just(vec!["rtx4090"]),
        Just(vec!["h100"]),
        Just(vec!["l40", "a100"])
    ];
    let entry = (facts_of(Fact::WORKLOAD), prop::option::of(1u32..=100));
    let mix = prop_oneof![2 => Just(vec![]), 1 => prop::collection::vec(entry, 1..4)];
    (facts_of(Fact::SITE).prop_map(agreed), models, mix).prop_map(|(facts, models, mix)| {
        SiteProfile {
            facts,
            models: models.into_iter().map(GpuModel::from).collect(),
            mix: mix
                .into_iter()
                .enumerate()
                .map(|(index, (facts, share_percent))| MixEntry {
                    name: Arc::from(format!("kind-{index}")),
                    share_percent,
                    facts,
                })
                .collect(),
            thresholds: Thresholds::default(),
            ..SiteProfile::default()
        }
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn an_answer_that_does_not_contradict_itself(site in sites()) {
        prop_assert_eq!(site.facts.contradiction(), None);
        let advice = ask(&site);
        prop_assert_eq!(&advice, &ask(&site), "the same again");
        prop_assert_eq!(&advice.advice.label, &label_site(&site, Ruleset::Corrected));
        labels_agree(&site, &advice)?;
        stack_stands(&advice)?;
        flips_hold(&site, &advice)?;
        work_has_a_place(&site, &advice)?;
        needs_name_what_is_there(&site)?;
    }
}

/// The parts of the label go together, and follow from the facts.
fn labels_agree(site: &SiteProfile, advice: &SiteAdvice) -> Result<(), TestCaseError> {
    let label = &advice.advice.label;
    let parts: Vec<&str> = label.addon.split(" + ").collect();
    let has = |part: &str| parts.iter().any(|other| other.contains(part));
    let on_kubernetes = matches!(label.primary, ControlPlane::Kubernetes | ControlPlane::K3s);
    prop_assert_eq!(
        parts.iter().collect::<BTreeSet<_>>().len(),
        parts.len(),
        "a part stands twice"
    );
    prop_assert!(
        label.hybrid.is_none() || label.primary == ControlPlane::Slurm,
        "only Slurm is split"
    );
    prop_assert!(!has("REQUIRED") || on_kubernetes, "a gang scheduler needs a scheduler");
    for kubernetes_only in ["Run:ai", "Kubeflow", "MultiKueue", "Karpenter"] {
        prop_assert!(
            !has(kubernetes_only) || label.primary == ControlPlane::Kubernetes,
            "{}",
            kubernetes_only
        );
    }
    prop_assert!(!has("KubeRay") || on_kubernetes);
    prop_assert!(!has("GPU Operator") || on_kubernetes);
    prop_assert!(!(has("Run:ai") && has("Kueue")), "two queues");
    prop_assert_eq!(label.primary == ControlPlane::None, has("tmux"));

    // From here against the facts, expressed independently of the rules.
    let is = |fact: Fact| site.facts.is(fact);
    let several_nodes = site.facts.get(Fact::FleetNodes) > 1 || is(Fact::FleetElastic);
    let coupled = is(Fact::CoupledTraining) || ((is(Fact::Mpi) || is(Fact::Rl)) && several_nodes);
    prop_assert!(
        !(on_kubernetes && coupled) || has("REQUIRED"),
        "coupled runs past the gang scheduler"
    );
    let enforced = [
        Fact::HostileTenants,
        Fact::StrictQuotas,
        Fact::Regulated,
        Fact::IsolatedSlices,
        Fact::Gitops,
        Fact::Autoscaling,
        Fact::MultiCluster,
    ];
    prop_assert!(
        label.primary != ControlPlane::None || !enforced.iter().any(|fact| is(*fact)),
        "agreement enforces nothing"
    );
    prop_assert!(label.primary != ControlPlane::None || site.facts.get(Fact::FleetGpus) <= 32);
    prop_assert!(
        label.primary != ControlPlane::Ray || site.facts.get(Fact::Users) == 1,
        "Ray alone for more than one"
    );
    prop_assert!(!(is(Fact::Services) && label.primary == ControlPlane::Ray));

    // Isolation is promised where hardware gives it, and nowhere else.
    let cut = site.models.iter().any(|model| ["h100", "a100"].contains(&model.as_str()));
    prop_assert_eq!(said(advice).contains(&"whole-gpus"), is(Fact::IsolatedSlices) && !cut);
    Ok(())
}

/// Every layer rides on one below it, and what the label adds is in the stack.
fn stack_stands(advice: &SiteAdvice) -> Result<(), TestCaseError> {
    let layers = &advice.advice.composition;
    for (index, layer) in layers.iter().enumerate() {
        prop_assert!(
            !layers[..index].iter().any(|above| above.name == layer.name),
            "{} stands twice",
            layer.name
        );
        for below in &layer.on {
            // Only downwards: so there is no circle.
            prop_assert!(
                layers[index + 1..].iter().any(|other| other.name == *below),
                "{} rides on {}",
                layer.name,
                below
            );
        }
        prop_assert!(!layer.on.is_empty() || index + 1 == layers.len(), "{} floats", layer.name);
    }
    let label = &advice.advice.label;
    for part in [
        "Run:ai",
        "Kueue",
        "Kubeflow",
        "KubeRay",
        "Volcano",
        "GPU Operator",
        "KServe",
        "slurmdbd",
        "inside a Slurm allocation",
    ] {
        let added = label.addon.split(" + ").any(|added| added.starts_with(part));
        if added {
            prop_assert!(
                layers.iter().any(|layer| layer.name.contains(part)),
                "{} is not in the stack",
                part
            );
        }
    }
    let plane = match label.primary {
        ControlPlane::None => "conventions",
        ControlPlane::Slurm => "Slurm",
        ControlPlane::Kubernetes => "Kubernetes",
        ControlPlane::K3s => "k3s",
        ControlPlane::Ray => "Ray",
    };
    prop_assert!(layers.iter().any(|layer| layer.name.starts_with(plane)));
    if label
        .hybrid
        .as_deref()
        .is_some_and(|split| split.contains("K8s") || split.contains("Kubernetes"))
    {
        prop_assert!(
            layers.iter().any(|layer| layer.name == "Kubernetes"),
            "the other half is missing"
        );
    }
    Ok(())
}

/// Asked again with the change, the answer is the promised one; also when the mix implies other
/// facts.
fn flips_hold(site: &SiteProfile, advice: &SiteAdvice) -> Result<(), TestCaseError> {
    for flip in &advice.advice.flips {
        prop_assert_eq!(flip.change.0.len(), 1);
        let (fact, value) = flip.change.0[0];
        prop_assert_ne!(fact, Fact::FleetMig, "MIG follows from the GPU models");
        let stored = match value {
            FactValue::Flag(flag) => u32::from(flag),
            FactValue::Count(number) | FactValue::Hundredths(number) => number,
        };
        let facts = site.facts.with(fact, stored);
        prop_assert_eq!(facts.contradiction(), None, "{}", fact);
        let asked = label_site(&SiteProfile { facts, ..site.clone() }, Ruleset::Corrected);
        prop_assert_eq!(&asked, &flip.label, "{}: {}", fact, value);
        prop_assert_ne!(&asked, &advice.advice.label);
    }
    Ok(())
}

/// Every need that the site has is answered by parts that the answer has.
fn needs_name_what_is_there(site: &SiteProfile) -> Result<(), TestCaseError> {
    // A stated need is answered by itself, also where another need covers it.
    let stated = Fact::SITE.iter().filter(|fact| fact.name().starts_with("needs.")).copied();
    let advice = ask(&SiteProfile { stated: stated.collect(), ..site.clone() });
    let label = &advice.advice.label;
    let parts: Vec<&str> = label.addon.split(" + ").collect();
    let layers: Vec<&str> = advice.advice.composition.iter().map(|layer| layer.name).collect();
    for need in &advice.asked {
        for part in ["Kueue", "MultiKueue", "KubeRay", "Kubeflow", "Run:ai"] {
            let is_said = need.sentence.split([' ', ',', ';', ':']).any(|word| word == part)
                || (part == "Run:ai" && need.sentence.contains(part));
            prop_assert!(!is_said || parts.contains(&part), "{}: {:?}", need.sentence, parts);
        }
        let pool = need.sentence.contains("Kubernetes pool");
        prop_assert!(!pool || layers.contains(&"Kubernetes pool of nodes"), "{}", need.sentence);
        let namespace = need.sentence.contains("namespace");
        prop_assert!(!namespace || label.primary != ControlPlane::Slurm, "{}", need.sentence);
        let gang = need.sentence.contains("gang scheduler") || need.sentence.contains("all pods");
        prop_assert!(!gang || label.addon.contains("(REQUIRED)"), "{}", need.sentence);
    }
    Ok(())
}

/// Every kind of work runs on the plane that was chosen, or on the other half of a split fleet.
fn work_has_a_place(site: &SiteProfile, advice: &SiteAdvice) -> Result<(), TestCaseError> {
    prop_assert_eq!(advice.workloads.len(), site.mix.len());
    let label = &advice.advice.label;
    for (entry, work) in site.mix.iter().zip(&advice.workloads) {
        prop_assert_eq!(&entry.name, &work.name);
        prop_assert!(!work.how.is_empty());
        let other_half = label.hybrid.is_some() && work.runs_on == ControlPlane::Kubernetes;
        prop_assert!(
            work.runs_on == label.primary || other_half,
            "{} on {}",
            work.name,
            work.runs_on
        );
    }
    Ok(())
}
