//! Advice as people read it: one screen first, everything with `--details`. Nothing here decides or
//! judges.

mod layout;
mod proof;
mod site;
mod stack;

use muster_model::advice::{
    Advice, Changes, Dispute, DisputeKind, FiredRule, Flip, Label, Layer, Plane, RuleEffect,
    Source, Value, Warning,
};

use self::layout::{Item, Page, Section};
use crate::style::Style;

pub use self::site::site;
pub use self::stack::mermaid;

/// Rows of a terminal that nobody made larger, less one for the prompt that follows.
const SCREEN: usize = 23;

/// What a required part of a label ends with; a label is an interface, so this is too.
const REQUIRED: &str = " (REQUIRED)";

/// How much is shown.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Depth {
    /// Everything, instead of what fits on one screen.
    pub details: bool,
    /// Commands that go on from here.
    pub next: Vec<String>,
}

/// Advice on one workload.
#[must_use]
pub fn advice(advice: &Advice, depth: &Depth, style: &Style) -> String {
    compose(&advice.label, sections(advice, depth, style), depth, style)
}

/// The label as a phrase: `ray, with KubeRay on kubernetes, behind a Volcano/Kueue/KAI gang
/// scheduler`.
#[must_use]
pub fn headline(label: &Label) -> String {
    let split = label.hybrid.iter().map(|_| "in a split fleet".to_owned());
    let parts = parts(label);
    let added = parts
        .iter()
        .filter(|part| !is_required(part))
        .chain(parts.iter().filter(|part| is_required(part)));
    std::iter::once(plane(label.primary).to_owned())
        .chain(added.map(|part| with(part)))
        .chain(split)
        .collect::<Vec<_>>()
        .join(", ")
}

fn plane(plane: Plane) -> &'static str {
    match plane {
        Plane::None => "no scheduler",
        plane => plane.name(),
    }
}

/// What is added to the plane.
fn parts(label: &Label) -> Vec<&str> {
    label.addon.split(" + ").filter(|part| !part.is_empty()).collect()
}

fn is_required(part: &str) -> bool {
    part.ends_with(REQUIRED)
}

fn with(part: &str) -> String {
    match part.strip_suffix(REQUIRED) {
        Some(part) => format!("behind a {part}"),
        None => format!("with {part}"),
    }
}

/// Another label beside the present one: the whole of it when the plane is another, else only what
/// is different.
fn instead(label: &Label, present: &Label) -> String {
    if label.primary != present.primary {
        return headline(label);
    }
    let (now, then) = (parts(present), parts(label));
    let gone = now.iter().filter(|part| !then.contains(part));
    let gone = gone.map(|part| format!("without {}", part.strip_suffix(REQUIRED).unwrap_or(part)));
    let come = then.iter().filter(|part| !now.contains(part)).map(|part| with(part));
    let split = match (&present.hybrid, &label.hybrid) {
        (Some(_), None) => Some("in one piece".to_owned()),
        (now, Some(then)) if now.as_ref() != Some(then) => Some(format!("split: {then}")),
        _ => None,
    };
    let changed: Vec<String> = gone.chain(come).chain(split).collect();
    match changed.is_empty() {
        true => headline(label),
        false => format!("{} {}", plane(label.primary), changed.join(", ")),
    }
}

/// Heading and sections as text: cut to a screen, or whole.
fn compose(label: &Label, mut sections: Vec<Section>, depth: &Depth, style: &Style) -> String {
    sections.extend(next(depth));
    text(&cut(label, &sections, depth, style))
}

/// Commands that go on from here.
fn next(depth: &Depth) -> Option<Section> {
    // Broken between commands only.
    let commands: Vec<String> =
        depth.next.iter().map(|command| command.replace(' ', "\u{a0}")).collect();
    let items = vec![Item::new(commands.join("\u{a0}\u{a0}\u{a0} "))];
    (!depth.next.is_empty()).then_some(Section { label: "next", items, rank: 0, apart: false })
}

/// Heading and sections as lines.
fn cut(label: &Label, sections: &[Section], depth: &Depth, style: &Style) -> Vec<String> {
    let page = Page::new(style);
    let mut lines = page.heading(&headline(label));
    lines.push(String::new());
    let left = SCREEN.saturating_sub(lines.len());
    lines.extend(match depth.details {
        true => page.whole(sections),
        false => page.fitting(sections, left),
    });
    lines
}

fn text(lines: &[String]) -> String {
    lines.iter().map(|line| line.replace('\u{a0}', " ") + "\n").collect()
}

/// The sections that advice on a workload and on a site share.
fn sections(advice: &Advice, depth: &Depth, style: &Style) -> Vec<Section> {
    let details = depth.details;
    let (required, because): (Vec<_>, Vec<_>) =
        advice.rules.iter().partition(|rule| rule.effect == RuleEffect::Required);
    let split = advice.label.hybrid.iter().map(Item::new).collect();
    let section = |label, rank, items: Vec<Item>| Section { label, items, rank, apart: false };
    // Of a split fleet every pool is shown.
    let stack_rank = if advice.label.hybrid.is_some() { 0 } else { 6 };
    vec![
        section("split", 0, split),
        section("required", 1, required.into_iter().map(|rule| rule_item(rule, details)).collect()),
        section("because", 2, because.into_iter().map(|rule| rule_item(rule, details)).collect()),
        section("flips", 5, flip_items(advice)),
        section(
            "disputed",
            4,
            advice.disputes.iter().map(|dispute| dispute_item(dispute, details)).collect(),
        ),
        section(
            "watch for",
            3,
            advice.warnings.iter().map(|warning| warning_item(warning, details)).collect(),
        ),
        Section {
            apart: true,
            ..section("stack", stack_rank, stack_items(&advice.composition, style))
        },
    ]
}

fn rule_item(rule: &FiredRule, details: bool) -> Item {
    let below = if details { vec![reference(rule.id, rule.source)] } else { Vec::new() };
    Item { below, ..Item::new(rule.sentence.as_ref()).with_id(rule.id) }
}

/// Small changes first, and of those the ones that lead to another plane.
fn flip_items(advice: &Advice) -> Vec<Item> {
    let mut flips: Vec<&Flip> = advice.flips.iter().collect();
    flips.sort_by_key(|flip| (flip.change.0.len(), flip.label.primary == advice.label.primary));
    let item = |flip: &Flip| {
        format!("{} → {}", changes(&flip.change), instead(&flip.label, &advice.label))
    };
    flips.into_iter().map(|flip| Item::new(item(flip))).collect()
}

fn warning_item(warning: &Warning, details: bool) -> Item {
    let mut below = Vec::new();
    if details {
        below.push(format!("tell: {}", warning.tell));
        below.push(format!("cure: {}", warning.cure));
        below.push(reference(warning.id, warning.source));
    }
    Item { below, ..Item::new(warning.sentence.to_string()).with_id(warning.id) }
}

fn dispute_item(dispute: &Dispute, details: bool) -> Item {
    let mut below = Vec::new();
    if details {
        below.push(format!("{}:", parties(dispute)));
        below.extend(
            dispute
                .positions
                .iter()
                .map(|position| format!("{}: {}", cited(position.source), position.says)),
        );
        below.push(format!("muster: {}", dispute.muster));
        below.push(anchor(dispute.id));
    }
    Item { below, ..Item::new(dispute.question).with_id(dispute.id) }
}

/// Who disagrees: `guide against itself`, `guide, overview and kentino`, `kentino, and what is true
/// by now`.
fn parties(dispute: &Dispute) -> String {
    let mut pages: Vec<&str> = Vec::new();
    for position in dispute.positions {
        if !pages.contains(&position.source.page.name()) {
            pages.push(position.source.page.name());
        }
    }
    match (dispute.kind, pages.as_slice()) {
        (DisputeKind::Itself, [page, ..]) => format!("{page} against itself"),
        (DisputeKind::Aged, [page, ..]) => format!("{page}, and what is true by now"),
        (_, [others @ .., last]) if !others.is_empty() => {
            format!("{} and {last}", others.join(", "))
        }
        (_, pages) => pages.concat(),
    }
}

fn stack_items(layers: &[Layer], style: &Style) -> Vec<Item> {
    let room = Page::new(style).room();
    let item = |chain: Vec<&str>| {
        // Drawn to fit already: its blanks must not be where it breaks.
        Item::new(stack::drawn(&chain, room).join("\n").replace(' ', "\u{a0}"))
    };
    stack::chains(layers).into_iter().map(item).collect()
}

/// Changes as people say them: `bare metal`, `not multi tenant`, `nodes 1`.
fn changes(changes: &Changes) -> String {
    let words = changes.0.iter().map(|(fact, value)| {
        let name = fact.name().rsplit('.').next().unwrap_or_default().replace(['_', '-'], " ");
        match value {
            Value::Flag(true) => name,
            Value::Flag(false) => format!("not {name}"),
            Value::Count(_) | Value::Hundredths(_) => format!("{name} {value}"),
        }
    });
    words.collect::<Vec<_>>().join(", ")
}

/// Page and section, and the anchor of what is said.
fn reference(id: &str, source: Source) -> String {
    format!("{} · {}", cited(source), anchor(id))
}

fn cited(source: Source) -> String {
    format!("{}, {}", source.page.name(), source.section)
}

fn anchor(id: &str) -> String {
    format!("docs/advise.md#{id}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn label(primary: Plane, addon: &str, hybrid: Option<&str>) -> Label {
        Label { primary, addon: addon.to_owned(), hybrid: hybrid.map(str::to_owned) }
    }

    #[test]
    fn a_label_is_a_phrase_with_what_is_required_last() {
        let check = |primary, addon, hybrid, expected: &str| {
            assert_eq!(headline(&label(primary, addon, hybrid)), expected);
        };
        check(Plane::None, "", None, "no scheduler");
        check(Plane::K3s, "GPU Operator", None, "k3s, with GPU Operator");
        check(Plane::Ray, "G (REQUIRED) + KubeRay", None, "ray, with KubeRay, behind a G");
        check(Plane::Slurm, "T", Some("two pools"), "slurm, with T, in a split fleet");
    }

    #[test]
    fn a_flip_shows_what_it_changes() {
        let present = label(Plane::Ray, "G (REQUIRED) + KubeRay on kubernetes", None);
        let check = |other: Label, expected: &str| assert_eq!(instead(&other, &present), expected);
        check(label(Plane::Ray, "KubeRay on kubernetes", None), "ray without G");
        check(
            label(Plane::Ray, "G (REQUIRED) + KubeRay on k3s", None),
            "ray without KubeRay on kubernetes, with KubeRay on k3s",
        );
        check(label(Plane::Slurm, "T", None), "slurm, with T");
        check(label(Plane::Ray, &present.addon, Some("two pools")), "ray split: two pools");
        let split = label(Plane::Slurm, "T", Some("two pools"));
        assert_eq!(instead(&label(Plane::Slurm, "T", None), &split), "slurm in one piece");
        assert_eq!(instead(&label(Plane::Slurm, "T", Some("three")), &split), "slurm split: three");
    }
}
