//! Advice on a site: the sections of one workload, and the sections only a site has.

use muster_model::advice::{AskedNeed, FiredRule, Operations, SiteAdvice, WorkloadOnSite};

use super::layout::{AdvicePage, PageSection, SectionItem};
use super::{
    AdviceOptions, anchor, cited, compose, headline, next, proof, rule_item, sections, text,
};
use crate::RenderContext;
use crate::style::clean;

/// Returns advice on a site as text.
#[must_use]
pub fn site(advice: &SiteAdvice, depth: &AdviceOptions, context: RenderContext) -> String {
    let own =
        |label, rank, items| PageSection { label, items, rank, apart: false, is_whole: false };
    let rules =
        |rules: &[FiredRule]| rules.iter().map(|rule| rule_item(rule, depth.details)).collect();
    // 1. What was asked, whole, then the reasons.
    let mut all = vec![PageSection {
        is_whole: true,
        ..own("asked", 0, advice.asked.iter().map(|need| asked_item(need, depth.details)).collect())
    }];
    all.extend(sections(&advice.advice, depth, context));
    // 2. What only a site has. The short answer to notebooks and sharing is under `asked`.
    // Advice to stay with a batch scheduler that works is no smaller than the answer above it, so it is not cut.
    all.push(PageSection {
        is_whole: advice.staying.iter().any(|rule| rule.id.ends_with("-works")),
        ..own("staying", 2, rules(&advice.staying))
    });
    all.push(own(
        "work",
        4,
        advice.workloads.iter().map(|work| work_item(work, depth.details)).collect(),
    ));
    if depth.details || depth.more {
        all.push(own("sharing", 6, rules(&advice.sharing)));
        all.push(own("notebooks", 6, rules(&advice.notebooks)));
    }
    all.push(own("operate", 3, operation_items(&advice.operations, depth.details)));
    let days = advice.first_week.iter().map(|step| SectionItem::new(step.as_ref()));
    all.push(own("first week", 7, days.collect()));
    compose(&advice.advice.label, all, depth, context)
}

/// Returns the simulation of a site as text, to be shown below the advice; empty without one.
#[must_use]
pub fn site_proof(advice: &SiteAdvice, depth: &AdviceOptions, context: RenderContext) -> String {
    let Some(proof) = &advice.proof else { return String::new() };
    let mut lines = vec![String::new()];
    lines.extend(proof::lines(proof, context));
    lines.extend(AdvicePage::new(context).whole(next(depth).as_slice()));
    text(&lines)
}

fn asked_item(need: &AskedNeed, details: bool) -> SectionItem {
    let below = if details { vec![anchor(need.id)] } else { Vec::new() };
    SectionItem { below, ..SectionItem::new(need.sentence) }
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
