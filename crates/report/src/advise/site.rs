//! Advice on a site: the sections of one workload, and the sections only a site has.

use muster_model::advice::{FiredRule, Operations, SiteAdvice, WorkloadOnSite};

use super::layout::{AdvicePage, PageSection, SectionItem};
use super::{AdviceOptions, cited, compose, cut, headline, next, proof, rule_item, sections, text};
use crate::RenderContext;
use crate::style::clean;

/// Returns advice on a site as text.
#[must_use]
pub fn site(advice: &SiteAdvice, depth: &AdviceOptions, context: RenderContext) -> String {
    let mut all = sections(&advice.advice, depth, context);
    let own = |label, rank, items| PageSection { label, items, rank, apart: false };
    let rules =
        |rules: &[FiredRule]| rules.iter().map(|rule| rule_item(rule, depth.details)).collect();
    all.push(own(
        "work",
        2,
        advice.workloads.iter().map(|work| work_item(work, depth.details)).collect(),
    ));
    all.push(own("sharing", 6, rules(&advice.sharing)));
    all.push(own("notebooks", 6, rules(&advice.notebooks)));
    all.push(own("operate", 3, operation_items(&advice.operations, depth.details)));
    let Some(proof) = &advice.proof else {
        return compose(&advice.advice.label, all, depth, context);
    };
    // A requested proof is shown completely, below what fits on a screen.
    let mut lines = cut(&advice.advice.label, &all, depth, context);
    lines.push(String::new());
    lines.extend(proof::lines(proof, context));
    lines.extend(AdvicePage::new(context).whole(next(depth).as_slice()));
    text(&lines)
}

fn work_item(work: &WorkloadOnSite, details: bool) -> SectionItem {
    let share = work.share_percent.map(|percent| format!(", {percent} %")).unwrap_or_default();
    let mut item =
        SectionItem::new(format!("{}{share}: {}; {}", clean(&work.name), work.runs_on, work.how));
    if details {
        item.below.push(format!("alone it would get {}", headline(&work.alone)));
    }
    item
}

fn operation_items(operations: &Operations, details: bool) -> Vec<SectionItem> {
    let mut items = Vec::new();
    if !operations.staff.is_empty() {
        items.push(SectionItem::new(format!("people: {}", operations.staff)));
    }
    if !operations.breaks_first.is_empty() {
        items.push(SectionItem::new(format!("breaks first: {}", operations.breaks_first)));
    }
    if !operations.components.is_empty() {
        items.push(SectionItem::new(format!("to run: {}", operations.components.join(", "))));
    }
    if let Some(last) = items.last_mut().filter(|_| details) {
        last.below.push(cited(operations.source));
    }
    items
}
