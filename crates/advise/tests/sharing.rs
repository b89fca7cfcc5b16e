//! Sharing of GPUs and notebooks on a site: never isolation where there is none, and always a
//! limit.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use muster_advise::advise_site;
use muster_advise::gpus::{GPUS, is_mig_capable};
use muster_model::GpuModel;
use muster_model::advice::{
    ControlPlane, Fact, FactKind, Facts, FiredRule, Ruleset, SiteAdvice, SiteProfile,
};
use proptest::prelude::*;

fn site(facts: &[(Fact, u32)], models: &[&str]) -> SiteProfile {
    let facts =
        facts.iter().fold(Facts::default(), |facts, (fact, value)| facts.with(*fact, *value));
    SiteProfile {
        facts,
        models: models.iter().map(|model| GpuModel::from(*model)).collect(),
        ..SiteProfile::default()
    }
}

fn ask(site: &SiteProfile) -> SiteAdvice {
    advise_site(site, Ruleset::Corrected)
}

fn ids(rules: &[FiredRule]) -> Vec<&str> {
    rules.iter().map(|rule| rule.id).collect()
}

/// A lab on Slurm: no services, several users, a scheduler.
const LAB: [(Fact, u32); 4] =
    [(Fact::FleetNodes, 8), (Fact::FleetGpus, 64), (Fact::Users, 20), (Fact::Batch, 1)];
/// A platform on Kubernetes with a team.
const PLATFORM: [(Fact, u32); 6] = [
    (Fact::FleetNodes, 8),
    (Fact::FleetGpus, 64),
    (Fact::Users, 40),
    (Fact::Teams, 12),
    (Fact::Services, 1),
    (Fact::PlatformFte, 100),
];
/// Four people and a box.
const SMALL: [(Fact, u32); 3] = [(Fact::FleetGpus, 8), (Fact::Users, 4), (Fact::Talk, 1)];

fn with(base: &[(Fact, u32)], more: &[(Fact, u32)]) -> Vec<(Fact, u32)> {
    base.iter().chain(more).copied().collect()
}

/// Kentino, "MIG and GPU sharing": MIG isolates, MPS and time-slicing do not, each for what it is
/// good for.
#[test]
fn the_three_modes_of_kentino() {
    let advice = ask(&site(&with(&LAB, &[(Fact::SharedGpus, 1)]), &["h100"]));
    let sentence = |id: &str| {
        let rule = advice
            .sharing
            .iter()
            .find(|rule| rule.id == id)
            .unwrap_or_else(|| panic!("{id} fired"));
        rule.sentence.to_string()
    };
    assert!(sentence("sharing-mig").contains("memory and faults of their own"));
    assert!(sentence("sharing-mps").contains("no isolation of faults"));
    assert!(
        sentence("sharing-time-slicing").contains("does not see")
            && sentence("sharing-time-slicing").contains("development only")
    );
    assert!(sentence("sharing-shards").contains("without isolation"));
    assert!(sentence("sharing-model").contains("up to 7"));
}

/// Kentino, decision tree, step 6.
#[test]
fn fleets_without_mig_get_a_statement_instead_of_slices() {
    for model in ["rtx5090", "rtx4090", "l40", "l4"] {
        let advice = ask(&site(&with(&LAB, &[(Fact::IsolatedSlices, 1)]), &[model]));
        assert!(ids(&advice.sharing).contains(&"sharing-no-mig"), "{model}");
        assert!(!ids(&advice.sharing).contains(&"sharing-mig"), "{model}");
    }
}

/// The page says that RTX PRO 6000 has no MIG; NVIDIA's guide lists up to four instances.
#[test]
fn what_aged_stands_beside_what_the_page_says() {
    let advice =
        ask(&site(&with(&LAB, &[(Fact::IsolatedSlices, 1)]), &["rtxpro6000", "rtxpro6000"]));
    let about: Vec<&FiredRule> =
        advice.sharing.iter().filter(|rule| rule.id == "sharing-model").collect();
    assert_eq!(about.len(), 1, "a model is named once");
    assert!(
        about[0].sentence.contains("up to 4 MIG slices today")
            && about[0].sentence.contains("Kentino")
    );
    assert!(ids(&advice.sharing).contains(&"sharing-mig"));
}

#[test]
fn an_unknown_model_and_none_are_said() {
    let asked = with(&LAB, &[(Fact::IsolatedSlices, 1)]);
    let unknown = ask(&site(&asked, &["h1000"]));
    assert!(
        unknown
            .sharing
            .iter()
            .any(|rule| rule.sentence.contains("h1000 is not in Muster's table of models"))
    );
    let none = ask(&site(&asked, &[]));
    assert!(none.sharing.iter().any(|rule| rule.sentence.contains("no GPU models are given")));
}

#[test]
fn sites_that_do_not_ask_get_no_statement() {
    let advice = ask(&site(&LAB, &["h100"]));
    assert!(advice.sharing.is_empty() && advice.notebooks.is_empty());
}

#[test]
fn amd_fleets_get_no_nvidia_modes() {
    let advice = ask(&site(&with(&LAB, &[(Fact::SharedGpus, 1)]), &["mi300x"]));
    assert!(ids(&advice.sharing).contains(&"sharing-amd"));
    assert!(!ids(&advice.sharing).contains(&"sharing-mps"), "{:?}", ids(&advice.sharing));
}

/// Kentino, "Run:ai and Determined": from ten teams on, with a budget; below, Kueue and the GPU
/// Operator do.
#[test]
fn fractions_need_a_budget_and_teams() {
    let shared = [(Fact::SharedGpus, 1), (Fact::StrictQuotas, 1), (Fact::ToolingBudget, 1)];
    let advice = ask(&site(&with(&PLATFORM, &shared), &["a100"]));
    assert_eq!(advice.advice.label.primary, ControlPlane::Kubernetes);
    assert!(ids(&advice.sharing).contains(&"sharing-run-ai"));
    let mut few = site(&with(&PLATFORM, &shared), &["a100"]);
    few.facts.set(Fact::Teams, 3);
    assert!(!ids(&ask(&few).sharing).contains(&"sharing-run-ai"));
    let poor = ask(&site(&with(&PLATFORM, &shared[..2]), &["a100"]));
    assert!(!ids(&poor.sharing).contains(&"sharing-run-ai"));
}

/// Kentino, "the interactive notebook problem": a pattern per base plane, and a limit in every
/// case.
#[test]
fn notebooks_follow_the_base_plane() {
    let notebooks = [(Fact::Notebooks, 1)];
    for (base, more, plane, expected) in [
        (&LAB[..], &notebooks[..], ControlPlane::Slurm, "notebook-salloc"),
        (
            &PLATFORM[..],
            &[(Fact::Notebooks, 1), (Fact::Batch, 1)][..],
            ControlPlane::Kubernetes,
            "notebook-hub",
        ),
        // Endpoints only: nothing queues, and nothing is said of a queue.
        (&PLATFORM[..], &notebooks[..], ControlPlane::Kubernetes, "notebook-hub-without-queue"),
        (
            &PLATFORM[..],
            &[(Fact::Notebooks, 1), (Fact::ToolingBudget, 1), (Fact::StrictQuotas, 1)][..],
            ControlPlane::Kubernetes,
            "notebook-fractions",
        ),
        (&SMALL[..], &notebooks[..], ControlPlane::None, "notebook-conventions"),
    ] {
        let advice = ask(&site(&with(base, more), &["h100"]));
        assert_eq!(advice.advice.label.primary, plane, "{:?}", advice.advice.label);
        assert_eq!(ids(&advice.notebooks)[0], expected);
        assert!(ids(&advice.notebooks).contains(&"notebook-limit"));
        assert!(ids(&advice.notebooks).contains(&"notebook-not"));
        // One pattern: what is bought stands instead of what it replaces.
        assert_eq!(advice.notebooks.len(), 3, "{:?}", ids(&advice.notebooks));
    }
}

fn any_site() -> impl Strategy<Value = SiteProfile> {
    let models: Vec<&'static str> = GPUS
        .iter()
        .map(|gpu| gpu.names[0])
        .chain(["virtual", "h1000", "a100-1g.5gb", "amd-1234"])
        .collect();
    let value = |fact: &Fact| match fact.kind() {
        FactKind::Flag => (0..=1u32).boxed(),
        FactKind::Count { min, .. } => (min..min + 300).boxed(),
        FactKind::Hundredths { .. } => (0..=200u32).boxed(),
    };
    let values: Vec<BoxedStrategy<u32>> = Fact::SITE.iter().map(value).collect();
    (values, prop::collection::vec(prop::sample::select(models), 0..4)).prop_map(
        |(values, models)| {
            let mut facts = Facts::default();
            for (fact, value) in Fact::SITE.iter().zip(values) {
                facts.set(*fact, value);
            }
            SiteProfile {
                facts,
                models: models.into_iter().map(GpuModel::from).collect(),
                ..SiteProfile::default()
            }
        },
    )
}

/// Phrases that deny isolation.
const DENIALS: [&str; 3] = ["no isolation", "nothing isolates", "without isolation"];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    /// Without a model that has MIG no sentence promises isolation, even if the site's facts claim
    /// MIG, and a site that asked for isolation gets a statement about it.
    #[test]
    fn no_isolation_is_promised_where_there_is_none(site in any_site()) {
        let advice = ask(&site);
        let capable = site.models.iter().any(|model| is_mig_capable(model) == Some(true));
        for rule in advice.sharing.iter().chain(&advice.notebooks) {
            let speaks = rule.sentence.contains("isolat") || rule.sentence.contains("faults of their own");
            let denies = DENIALS.iter().any(|denial| rule.sentence.contains(denial));
            prop_assert!(capable || !speaks || denies, "{}: {}", rule.id, rule.sentence);
        }
        prop_assert!(capable || !ids(&advice.sharing).contains(&"sharing-mig"));
        let apart = site.facts.is(Fact::IsolatedSlices) || site.facts.is(Fact::HostileTenants);
        prop_assert_eq!(ids(&advice.sharing).contains(&"sharing-no-mig"), apart && !capable);
        prop_assert_eq!(ids(&advice.notebooks).contains(&"notebook-limit"), site.facts.is(Fact::Notebooks));
    }
}
