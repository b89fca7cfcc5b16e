//! Helpers of all tables: a site from a few facts, and the advice for it. No expectations.

use muster_advise::advise_site;
use muster_model::GpuModel;
use muster_model::advice::{ControlPlane, Fact, Facts, Ruleset, SiteAdvice, SiteProfile};

/// A recommendation of the pages that differs from Muster's: a dispute shows it.
#[derive(Clone, Copy)]
pub struct Deviation {
    pub dispute: &'static str,
    /// Part of the position that holds the page's recommendation.
    pub position: &'static str,
}

/// A row of a table of the pages.
pub struct SiteRow {
    pub source: &'static str,
    pub flags: &'static [Fact],
    pub numbers: &'static [(Fact, u32)],
    pub label: (ControlPlane, &'static str, &'static str),
    /// Nothing where Muster answers as the page does.
    pub deviation: Option<Deviation>,
}

impl SiteRow {
    pub fn site(&self) -> SiteProfile {
        site(self.flags, self.numbers)
    }
}

/// Returns a site with these facts. MIG is given by a GPU model that has it.
pub fn site(flags: &[Fact], numbers: &[(Fact, u32)]) -> SiteProfile {
    let mut facts = Facts::default();
    for fact in flags {
        facts.set(*fact, 1);
        // As in a site file: an implied fact is not given again.
        for implied in Fact::IMPLIES {
            if facts.is(implied.one) {
                facts.set(implied.other, 1);
            }
        }
    }
    for (fact, number) in numbers {
        facts.set(*fact, *number);
    }
    of(facts)
}

/// A site with these facts.
pub fn of(facts: Facts) -> SiteProfile {
    assert_eq!(facts.contradiction(), None, "{facts:?}");
    let models = if facts.is(Fact::FleetMig) { vec![GpuModel::from("h100")] } else { Vec::new() };
    SiteProfile { facts, models, ..SiteProfile::default() }
}

pub fn ask(site: &SiteProfile) -> SiteAdvice {
    advise_site(site, Ruleset::Corrected)
}

/// The label as a row writes it.
pub fn label(advice: &SiteAdvice) -> (ControlPlane, &str, &str) {
    let label = &advice.advice.label;
    (label.primary, &label.addon, label.hybrid.as_deref().unwrap_or_default())
}

/// Returns the ids of all statements of the advice.
pub fn said(advice: &SiteAdvice) -> Vec<&'static str> {
    let rules = advice.advice.rules.iter().map(|rule| rule.id);
    let warnings = advice.advice.warnings.iter().map(|warning| warning.id);
    let disputes = advice.advice.disputes.iter().map(|dispute| dispute.id);
    rules.chain(warnings).chain(disputes).collect()
}
