//! Flips of a site hold when asked again, and none by a single fact is missing.

use std::collections::BTreeMap;
use std::sync::Arc;

use muster_advise::label_site;
use muster_model::advice::{
    Fact, FactKind, FactValue, Facts, Label, MixEntry, Ruleset, SiteProfile, Threshold,
};

use crate::pages;
use crate::rows::ask;

/// Past every threshold of a number.
const FAR: u32 = 240;

/// By brute force: every other value of every fact, and of each label that it leads to the nearest.
fn by_force(site: &SiteProfile) -> BTreeMap<(Fact, FactValue), Label> {
    let present = label_site(site, Ruleset::Corrected);
    let mut found = BTreeMap::new();
    for fact in Fact::SITE.iter().copied().filter(|fact| *fact != Fact::FleetMig) {
        let (min, max) = match fact.kind() {
            FactKind::Flag => (0, 1),
            FactKind::Count { min, .. } => (min, FAR),
            FactKind::Hundredths { .. } => (0, FAR),
        };
        let now = site.facts.get(fact);
        let mut nearest: BTreeMap<Label, u32> = BTreeMap::new();
        for stored in (min..=max).filter(|stored| *stored != now) {
            let facts = site.facts.with(fact, stored);
            if facts.contradiction().is_some() {
                continue;
            }
            let label = label_site(&SiteProfile { facts, ..site.clone() }, Ruleset::Corrected);
            if label != present {
                let nearer =
                    |known: &u32| (known.abs_diff(now), *known) < (stored.abs_diff(now), stored);
                if !nearest.get(&label).is_some_and(nearer) {
                    nearest.insert(label, stored);
                }
            }
        }
        found
            .extend(nearest.into_iter().map(|(label, stored)| ((fact, fact.value(stored)), label)));
    }
    found
}

#[test]
fn flips_are_those_of_brute_force_on_every_row() {
    for row in pages::all() {
        let site = row.site();
        let advice = ask(&site);
        let flips = advice.advice.flips.iter().map(|flip| (flip.change.0[0], flip.label.clone()));
        let expected = by_force(&site);
        assert_eq!(flips.collect::<BTreeMap<_, _>>(), expected, "{}", row.source);
        assert_eq!(advice.advice.flips.len(), expected.len(), "{}", row.source);
        assert!(!expected.is_empty(), "{}: nothing would change it", row.source);
    }
}

/// A mix changes what a fact can change; a number of the site's own moves the edge.
#[test]
fn also_with_a_mix_and_with_other_thresholds() {
    let kind = |name: &str, flag: Fact, nodes: u32| MixEntry {
        name: Arc::from(name),
        share_percent: Some(60),
        facts: Facts::default().with(Fact::Nodes, nodes).with(flag, 1),
    };
    for row in pages::all() {
        for entry in
            [kind("api", Fact::LongLivedServices, 1), kind("pretraining", Fact::TightlyCoupled, 2)]
        {
            let mut site = SiteProfile { mix: vec![entry], ..row.site() };
            site.thresholds.set(Threshold::SchedulerGpus, 24);
            site.thresholds.set(Threshold::PlatformFte, 60);
            let advice = ask(&site);
            let flips =
                advice.advice.flips.iter().map(|flip| (flip.change.0[0], flip.label.clone()));
            assert_eq!(flips.collect::<BTreeMap<_, _>>(), by_force(&site), "{}", row.source);
            let own = advice.advice.rules.iter().filter(|rule| rule.id == "site-threshold").count();
            assert_eq!(own, 2, "the site's own numbers are shown");
        }
    }
}

#[test]
fn the_flips_that_the_pages_name() {
    let check = |source: &str, fact: Fact, value: FactValue, primary: &str| {
        let row = pages::all().find(|row| row.source == source).unwrap();
        let advice = ask(&row.site());
        let flips = advice.advice.flips.iter();
        let leads = flips
            .filter(|flip| flip.change.0 == [(fact, value)])
            .map(|flip| flip.label.primary.name());
        assert_eq!(leads.collect::<Vec<_>>(), [primary], "{source}: {fact}");
    };
    // Kentino, step 1: coordination breaks, or the numbers are reached.
    check("row 1, least", Fact::CoordinationFailing, FactValue::Flag(true), "slurm");
    check("row 1, least", Fact::Users, FactValue::Count(8), "slurm");
    check("row 1, least", Fact::FleetGpus, FactValue::Count(33), "slurm");
    // Kentino, steps 2 and 3.
    check("step 2 no", Fact::Services, FactValue::Flag(true), "kubernetes");
    check("step 2 yes", Fact::Services, FactValue::Flag(false), "slurm");
    check("step 3 no, at 0.24", Fact::PlatformFte, FactValue::Hundredths(25), "kubernetes");
    check("step 3 yes, at 0.25", Fact::PlatformFte, FactValue::Hundredths(24), "slurm");
    // Hyperstack: a provider runs it.
    check("step 3 no, at 0.24", Fact::Managed, FactValue::Flag(true), "kubernetes");
    // Guide: switch only when there is a need.
    check(
        "when not to switch, 1: working Slurm",
        Fact::HostileTenants,
        FactValue::Flag(true),
        "kubernetes",
    );
    check(
        "when not to switch, 1: working Slurm",
        Fact::Gitops,
        FactValue::Flag(true),
        "kubernetes",
    );
}
