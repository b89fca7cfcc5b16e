//! Advice on a site: the decision tree, the scenarios and the profiles of the pages as rules about
//! fleet, people and needs.

mod asked;
mod compose;
mod mix;
mod notebooks;
mod operations;
mod route;
mod rules;
mod sharing;
mod staying;
pub(crate) mod terms;
mod week;

use muster_model::advice::{
    Advice, Fact, Facts, FiredRule, Label, Ruleset, SiteAdvice, SiteProfile,
};

use crate::case::FactsCase;
use crate::decide::decide;
use crate::flips::Search;
use crate::workload::stack;
use crate::{disputes, overrides, warnings};

pub(crate) use asked::{ANSWERS, NeedAnswer, SHARED_ON_AMD};
pub(crate) use notebooks::RULES as NOTEBOOKS;
pub(crate) use operations::staff_formula;
pub use route::{Route, Undecided, route, route_targets};
pub(crate) use rules::RULES;
pub(crate) use sharing::{MODEL as SHARING_MODEL, SHARING};
pub(crate) use staying::STAYING;

/// Returns the advice for a site: label, reasons, warnings, flips by one fact, disputes, the way
/// its work runs there, and the effort of operating it.
#[must_use]
pub fn advise_site(site: &SiteProfile, ruleset: Ruleset) -> SiteAdvice {
    // 1. The decision, from the facts of the file, its models and its mix.
    let facts = mix::folded(&site.facts, site);
    let mut case = FactsCase::new(&facts, &site.thresholds, ruleset);
    let mut rules: Vec<FiredRule> = Vec::new();
    decide(RULES, &mut case, |rule| rules.push(FiredRule::from(rule)));
    let shown = overrides::shown(RULES, warnings::SITE, disputes::SITE);
    rules.extend(overrides::of(&shown, &site.thresholds));

    // 2. Flips: each fact of the file alone, with the mix as it is. A need that the mix implies
    //    cannot be unset by a fact, and MIG follows from the GPU models alone.
    let askable: Vec<Fact> =
        Fact::SITE.iter().copied().filter(|fact| *fact != Fact::FleetMig).collect();
    let read = overrides::read(RULES);
    let search = Search { askable: &askable, read: &read, together: 1 };

    // 3. The evidence for the decision, and its consequences.
    let advice = Advice {
        label: case.label(),
        rules,
        warnings: warnings::due(warnings::SITE, &case),
        composition: stack(compose::LAYERS, &case),
        flips: search.flips(&site.facts, &site.thresholds, |facts| label(facts, site, ruleset)),
        disputes: disputes::touched(disputes::SITE, &case),
    };
    let operations = operations::of(&case, &site.models);
    let sharing = sharing::of(&case, site);
    let notebooks = notebooks::of(&case);
    let workloads = mix::workloads(site, &case);
    SiteAdvice {
        advice,
        asked: asked::of(&case, &site.stated, &site.models),
        staying: staying::of(&case),
        workloads,
        sharing,
        notebooks,
        operations,
        first_week: week::of(&case),
        proof: None,
    }
}

/// Returns the label without the evidence for it.
#[must_use]
pub fn label_site(site: &SiteProfile, ruleset: Ruleset) -> Label {
    label(&site.facts, site, ruleset)
}

/// Returns the label of a site with facts that replace its own.
fn label(facts: &Facts, site: &SiteProfile, ruleset: Ruleset) -> Label {
    let facts = mix::folded(facts, site);
    let mut case = FactsCase::new(&facts, &site.thresholds, ruleset);
    decide(RULES, &mut case, |_| {});
    case.label()
}
