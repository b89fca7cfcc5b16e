//! Advice on a site: the decision tree, the scenarios and the profiles of the pages as rules over fleet, people and needs.

mod rules;

use muster_model::advice::{
    Advice, Fact, Facts, FiredRule, Label, Operations, Page, Ruleset, SiteAdvice, SiteProfile, Source,
};

use crate::case::Case;
use crate::decide::decide;
use crate::flips::Search;
use crate::{disputes, overrides, warnings};

pub(crate) use rules::RULES;

/// What a site is told: label, reasons, warnings, flips by one fact, disputes, how its work runs there, and what it takes
/// to operate.
#[must_use]
pub fn advise_site(site: &SiteProfile, ruleset: Ruleset) -> SiteAdvice {
    let label = |facts: &Facts| -> Label {
        let mut case = Case::new(facts, &site.thresholds, ruleset);
        decide(RULES, &mut case, |_| {});
        case.label()
    };
    let mut case = Case::new(&site.facts, &site.thresholds, ruleset);
    let mut rules: Vec<FiredRule> = Vec::new();
    decide(RULES, &mut case, |rule| rules.push(FiredRule::from(rule)));
    rules.extend(overrides::fired(RULES, &site.thresholds));
    let read = overrides::read(RULES);
    let search = Search { askable: Fact::SITE, read: &read, together: 1 };
    let advice = Advice {
        label: case.label(),
        rules,
        warnings: warnings::due(warnings::SITE, &case),
        composition: Vec::new(),
        flips: search.flips(&site.facts, &site.thresholds, label),
        disputes: disputes::touched(disputes::SITE, &case),
    };
    let operations = Operations {
        components: Vec::new(),
        staff: "",
        breaks_first: "",
        source: Source::new(Page::Kentino, "summary table"),
    };
    SiteAdvice { advice, workloads: Vec::new(), sharing: Vec::new(), notebooks: Vec::new(), operations }
}
