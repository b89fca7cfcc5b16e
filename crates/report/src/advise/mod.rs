//! Advice as text: one screen by default, everything with `--details`. Nothing here decides or
//! evaluates.

mod layout;
mod proof;
mod site;
mod stack;

use std::borrow::Cow;

use muster_model::advice::{
    Advice, Citation, ControlPlane, Dispute, DisputePosition, FactChanges, FactValue, FiredRule,
    Flip, Label, Layer, RuleEffect, Warning,
};

use self::layout::{AdvicePage, PageSection, SectionItem};
use crate::RenderContext;

pub use self::site::{site, site_proof};
pub use self::stack::mermaid;

/// Rows of a terminal of the default size, less one for the prompt that follows.
const SCREEN: usize = 23;

/// Suffix of a required part of a label; labels are a stable interface, so this is too.
const REQUIRED: &str = " (REQUIRED)";

/// Amount of detail, and the follow-up commands to show.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AdviceOptions {
    /// True to show everything instead of what fits on one screen.
    pub details: bool,
    /// True to show every item in one line or a few, without sources.
    pub more: bool,
    /// Rows of the terminal; `None` if it is not a terminal.
    pub rows: Option<usize>,
    /// Commands to run next.
    pub next: Vec<String>,
}

/// Returns advice on one workload as text.
#[must_use]
pub fn advice(advice: &Advice, depth: &AdviceOptions, context: RenderContext) -> String {
    compose(&advice.label, sections(advice, depth, context), depth, context)
}

/// Returns the label as a phrase: `ray with KubeRay on kubernetes, behind a Volcano/Kueue/KAI gang
/// scheduler`.
#[must_use]
pub fn headline(label: &Label) -> String {
    let parts = parts(label);
    // A product that also places gangs is named once, with its gang scheduling.
    let is_said = |product: &str| {
        let longer =
            |part: &&str| part.strip_prefix(product).is_some_and(|rest| rest.starts_with(' '));
        parts.iter().any(longer)
    };
    let plain = |part: &&str| !is_said_alone(part) && !is_gang_scheduler(part) && !is_said(part);
    let beside: Vec<&str> = parts.iter().copied().filter(plain).map(without_mark).collect();
    let mut phrase = plane(label.primary).to_owned();
    for part in parts.iter().filter(|part| is_said_alone(part)) {
        phrase.push_str(&format!(", {part}"));
    }
    if !beside.is_empty() {
        let is_alone = label.primary == ControlPlane::None;
        let comma = if is_alone || phrase.contains(',') { "," } else { "" };
        phrase.push_str(&format!("{comma} with {}", listed(&beside)));
    }
    for part in parts.iter().filter(|part| is_gang_scheduler(part)) {
        phrase.push_str(&format!(", {}", with(part)));
    }
    if let Some(split) = &label.hybrid {
        phrase.push_str(&format!(", {}", other_nodes(split)));
    }
    phrase
}

/// Returns what a split fleet has beside Slurm, the control plane of its main work.
fn other_nodes(split: &str) -> String {
    match kind_of(split).as_ref() {
        "federated" => "federated with kubernetes for services".to_owned(),
        "partitioned" => "and kubernetes for services on other nodes".to_owned(),
        kind => kind.to_owned(),
    }
}

/// Returns the kind of a split in a word or two.
fn kind_of(split: &str) -> Cow<'_, str> {
    match split.split_once(':') {
        Some(("partition nodes", _)) => "partitioned".into(),
        Some(("Slurm on Kubernetes", _)) => "inside kubernetes".into(),
        Some((kind, _)) => kind.into(),
        None => format!("with {split}").into(),
    }
}

/// Returns words as a list: `A, B and C`.
fn listed(words: &[&str]) -> String {
    match words {
        [others @ .., last] if !others.is_empty() => format!("{} and {last}", others.join(", ")),
        words => words.concat(),
    }
}

fn plane(plane: ControlPlane) -> &'static str {
    match plane {
        ControlPlane::None => "no scheduler",
        plane => plane.name(),
    }
}

/// Returns the add-ons of the control plane.
fn parts(label: &Label) -> Vec<&str> {
    label.addon.split(" + ").filter(|part| !part.is_empty()).collect()
}

/// Returns true for the scheduler that places gangs, on which the others stand.
fn is_gang_scheduler(part: &str) -> bool {
    part.ends_with(REQUIRED) && !without_mark(part).ends_with("gang scheduling")
}

fn without_mark(part: &str) -> &str {
    part.strip_suffix(REQUIRED).unwrap_or(part)
}

fn with(part: &str) -> String {
    let plain = without_mark(part);
    if is_gang_scheduler(part) {
        format!("behind a {plain}")
    } else if is_said_alone(part) {
        plain.to_owned()
    } else {
        format!("with {plain}")
    }
}

/// Returns true for a part that says how the control plane runs, and is nothing beside it.
fn is_said_alone(part: &str) -> bool {
    part.starts_with("run by ") || part.starts_with("standalone")
}

/// Describes another label relative to the present one: all of it if the control plane differs,
/// else only the differences.
fn instead(label: &Label, present: &Label) -> String {
    if label.primary != present.primary {
        return headline(label);
    }
    let now = parts(present);
    let then = parts(label);
    let gone = now.iter().filter(|part| !then.contains(part));
    let without = |part: &str| match part {
        part if is_said_alone(part) => format!("not {part}"),
        part => format!("without {}", without_mark(part)),
    };
    let gone = gone.map(|part| without(part));
    let come = then.iter().filter(|part| !now.contains(part)).map(|part| with(part));
    let split = match (&present.hybrid, &label.hybrid) {
        (Some(_), None) => Some("without the split".to_owned()),
        (None, Some(then)) => Some(other_nodes(then)),
        (Some(now), Some(then)) if now != then => {
            Some(format!("{} instead of {}", kind_of(then), kind_of(now)))
        }
        _ => None,
    };
    let changed: Vec<String> = gone.chain(come).chain(split).collect();
    if changed.is_empty() {
        headline(label)
    } else {
        let comma = if changed[0].starts_with("with") { "" } else { "," };
        format!("{}{comma} {}", plane(label.primary), changed.join(", "))
    }
}

/// Returns heading and sections as text, shortened to a screen or complete.
fn compose(
    label: &Label,
    mut sections: Vec<PageSection>,
    depth: &AdviceOptions,
    context: RenderContext,
) -> String {
    sections.extend(next(depth));
    text(&cut(label, &sections, depth, context))
}

/// Returns the section with the commands to run next.
fn next(depth: &AdviceOptions) -> Option<PageSection> {
    // Broken between commands only.
    let commands: Vec<String> =
        depth.next.iter().map(|command| command.replace(' ', "\u{a0}")).collect();
    let items = vec![SectionItem::new(commands.join("\u{a0}\u{a0}\u{a0} "))];
    (!depth.next.is_empty()).then_some(PageSection {
        label: "next",
        items,
        rank: 0,
        apart: false,
        is_whole: false,
    })
}

/// Returns heading and sections as lines.
fn cut(
    label: &Label,
    sections: &[PageSection],
    depth: &AdviceOptions,
    context: RenderContext,
) -> Vec<String> {
    let page = AdvicePage::new(context);
    let mut lines = page.heading(&headline(label));
    lines.push(String::new());
    let legend = legend(sections, &page);
    let screen = depth.rows.map_or(SCREEN, |rows| rows.saturating_sub(1).max(SCREEN));
    let left = screen.saturating_sub(lines.len() + legend.len());
    let whole = depth.details || depth.more;
    lines.extend(if whole { page.whole(sections) } else { page.fitting(sections, left) });
    lines.extend(legend);
    lines
}

/// Explains the labels whose meaning is not plain.
fn legend(sections: &[PageSection], page: &AdvicePage<'_>) -> Vec<String> {
    let words = [
        ("flips", "flips: facts that change the answer"),
        ("disputed", "disputed: sources disagree"),
        ("watch for", "watch for: known failures"),
    ];
    let has = |label: &str| sections.iter().any(|one| one.label == label && !one.items.is_empty());
    let shown: Vec<&str> =
        words.into_iter().filter(|(label, _)| has(label)).map(|(_, words)| words).collect();
    if shown.is_empty() { Vec::new() } else { page.note(&shown.join("; ")) }
}

fn text(lines: &[String]) -> String {
    lines.iter().map(|line| line.replace('\u{a0}', " ") + "\n").collect()
}

/// Returns the sections that advice on a workload and on a site share.
fn sections(advice: &Advice, depth: &AdviceOptions, context: RenderContext) -> Vec<PageSection> {
    let details = depth.details;
    let (required, because): (Vec<_>, Vec<_>) =
        advice.rules.iter().partition(|rule| rule.effect == RuleEffect::Required);
    let split = advice.label.hybrid.iter().map(SectionItem::new).collect();
    let section = |label, rank, items: Vec<SectionItem>| PageSection {
        label,
        items,
        rank,
        apart: false,
        is_whole: false,
    };
    // A split fleet shows every pool.
    let stack_rank = if advice.label.hybrid.is_some() { 0 } else { 6 };
    vec![
        section("split", 0, split),
        section("required", 1, required.into_iter().map(|rule| rule_item(rule, details)).collect()),
        section("because", 2, because.into_iter().map(|rule| rule_item(rule, details)).collect()),
        section("flips", 5, flip_items(advice)),
        section(
            "disputed",
            4,
            advice.disputes.iter().map(|dispute| dispute_item(dispute, depth)).collect(),
        ),
        section(
            "watch for",
            3,
            advice.warnings.iter().map(|warning| warning_item(warning, details)).collect(),
        ),
        PageSection {
            apart: true,
            ..section("stack", stack_rank, stack_items(&advice.composition, context))
        },
    ]
}

fn rule_item(rule: &FiredRule, details: bool) -> SectionItem {
    let below = if details { vec![reference(rule.id, rule.source)] } else { Vec::new() };
    SectionItem { below, ..SectionItem::new(rule.sentence.as_ref()).with_id(rule.id) }
}

/// Returns the flips, small changes first, and among equals those to another control plane.
fn flip_items(advice: &Advice) -> Vec<SectionItem> {
    let mut flips: Vec<&Flip> = advice.flips.iter().collect();
    flips.sort_by_key(|flip| (flip.change.0.len(), flip.label.primary == advice.label.primary));
    let item = |flip: &Flip| {
        format!("{} → {}", changes(&flip.change), instead(&flip.label, &advice.label))
    };
    flips.into_iter().map(|flip| SectionItem::new(item(flip))).collect()
}

fn warning_item(warning: &Warning, details: bool) -> SectionItem {
    let mut below = Vec::new();
    if details {
        below.push(format!("symptom: {}", warning.tell));
        below.push(format!("fix: {}", warning.cure));
        below.push(reference(warning.id, warning.source));
    }
    SectionItem { below, ..SectionItem::new(warning.sentence.to_string()).with_id(warning.id) }
}

/// States who says what and what holds here; beyond the first screen also the other sides, or with details every side,
/// each with its section on a line of its own, and the question that decides.
fn dispute_item(dispute: &Dispute, depth: &AdviceOptions) -> SectionItem {
    let mut below = vec![format!("here {}", dispute.muster)];
    if depth.details || depth.more {
        let side = |side: &DisputePosition| format!("{}: {}", cited(side.source), side.text);
        let others = if depth.details { 0 } else { STATED };
        below.extend(dispute.positions.iter().skip(others).map(side));
        below.push(format!("what decides: {}", dispute.question));
    }
    below.extend(depth.details.then(|| anchor(dispute.id)));
    SectionItem { below, ..SectionItem::new(statement(dispute.positions)).with_id(dispute.id) }
}

/// Number of positions in the statement of a dispute.
const STATED: usize = 2;

/// Returns the first two positions, which are those that oppose each other, as a statement.
fn statement(positions: &[DisputePosition]) -> String {
    let [first, second, ..] = positions else {
        unreachable!("a dispute has two positions at least");
    };
    let page = first.source.page;
    let other = match second.source.page {
        other if other == page => "elsewhere it",
        other => other.name(),
    };
    format!("{} says {}; {other} says {}", page.name(), first.text, second.text)
}

fn stack_items(layers: &[Layer], context: RenderContext) -> Vec<SectionItem> {
    let space = AdvicePage::new(context).space();
    let item = |chain: Vec<&str>| {
        // The chain is already wrapped, so its blanks must not be break points.
        SectionItem::new(stack::drawn(&chain, space).join("\n").replace(' ', "\u{a0}"))
    };
    stack::chains(layers).into_iter().map(item).collect()
}

/// Returns changes of facts as a phrase: `bare metal`, `not multi tenant`, `nodes 1`.
fn changes(changes: &FactChanges) -> String {
    let words = changes.0.iter().map(|(fact, value)| {
        let name = fact.name().rsplit('.').next().unwrap_or_default().replace(['_', '-'], " ");
        let name = words_of(name);
        match value {
            FactValue::Flag(true) => name,
            FactValue::Flag(false) => format!("not {name}"),
            FactValue::Count(_) | FactValue::Hundredths(_) => format!("{name} {value}"),
        }
    });
    words.collect::<Vec<_>>().join(", ")
}

/// Returns a fact as people say it, where its name is shorter.
fn words_of(name: String) -> String {
    match name.as_str() {
        "rl" => "reinforcement learning".to_owned(),
        "mpi" => "MPI".to_owned(),
        "gitops" => "GitOps".to_owned(),
        "grow" => "elastic jobs".to_owned(),
        "works" => "what is there works".to_owned(),
        "talk" => "people talk".to_owned(),
        _ => name,
    }
}

/// Returns page and section of the source, and the anchor in the documentation.
fn reference(id: &str, source: Citation) -> String {
    format!("{} · {}", cited(source), anchor(id))
}

fn cited(source: Citation) -> String {
    format!("{}, {}", source.page.name(), source.section)
}

fn anchor(id: &str) -> String {
    format!("docs/advise.md#{id}")
}

#[cfg(test)]
mod tests {
    use muster_model::advice::{CitedPage, DisputeKind};

    use super::*;

    fn label(primary: ControlPlane, addon: &str, hybrid: Option<&str>) -> Label {
        Label { primary, addon: addon.to_owned(), hybrid: hybrid.map(str::to_owned) }
    }

    #[test]
    fn a_label_is_a_phrase_with_what_is_required_last() {
        let check = |primary, addon, hybrid, expected: &str| {
            assert_eq!(headline(&label(primary, addon, hybrid)), expected);
        };
        check(ControlPlane::None, "", None, "no scheduler");
        check(ControlPlane::K3s, "GPU Operator", None, "k3s with GPU Operator");
        check(ControlPlane::Ray, "G (REQUIRED) + KubeRay", None, "ray with KubeRay, behind a G");
        let expected = "slurm with T and U, and kubernetes for services on other nodes";
        check(ControlPlane::Slurm, "T + U", Some(PARTITIONED), expected);
        let expected = "slurm with T, federated with kubernetes for services";
        check(ControlPlane::Slurm, "T", Some(FEDERATED), expected);
        check(ControlPlane::Slurm, "T", Some(INSIDE), "slurm with T, inside kubernetes");
        let partition = Some("a partition for services");
        check(ControlPlane::Slurm, "T", partition, "slurm with T, with a partition for services");
        let provided = "Run:ai gang scheduling (REQUIRED) + run by a provider";
        let expected = "kubernetes, run by a provider, with Run:ai gang scheduling";
        check(ControlPlane::Kubernetes, provided, None, expected);
        let product = "Run:ai gang scheduling (REQUIRED) + GPU Operator + Run:ai";
        let expected = "kubernetes with Run:ai gang scheduling and GPU Operator";
        check(ControlPlane::Kubernetes, product, None, expected);
        let alone = "standalone, started by its owner";
        check(ControlPlane::Ray, alone, None, "ray, standalone, started by its owner");
    }

    const fn side(page: CitedPage, text: &'static str) -> DisputePosition {
        DisputePosition { source: Citation::new(page, "rule 1"), text }
    }

    const SIDES: [DisputePosition; 3] = [
        side(CitedPage::Guide, "Slurm"),
        side(CitedPage::Kentino, "k3s"),
        side(CitedPage::Guide, "Ray"),
    ];

    #[test]
    fn a_dispute_states_who_says_what_and_what_holds_here() {
        let dispute = Dispute {
            id: "a-dispute",
            kind: DisputeKind::Pages,
            question: "which one?",
            positions: &SIDES,
            muster: "Slurm, because rule 1 comes first",
        };
        let short = dispute_item(&dispute, &AdviceOptions::default());
        let said = "guide says Slurm; kentino says k3s";
        assert_eq!((short.text.as_str(), short.id), (said, Some("a-dispute")));
        let more = AdviceOptions { more: true, ..AdviceOptions::default() };
        let expected = [
            "here Slurm, because rule 1 comes first",
            "guide, rule 1: Ray",
            "what decides: which one?",
        ];
        assert_eq!(dispute_item(&dispute, &more).below, expected);
        let details = AdviceOptions { details: true, ..AdviceOptions::default() };
        let sides = &dispute_item(&dispute, &details).below[1..4];
        assert_eq!(sides, ["guide, rule 1: Slurm", "kentino, rule 1: k3s", "guide, rule 1: Ray"]);
        assert_eq!(short.below, expected[..1]);
    }

    #[test]
    fn a_page_that_contradicts_itself_is_named_once() {
        let said = statement(&[SIDES[0], SIDES[2]]);
        assert_eq!(said, "guide says Slurm; elsewhere it says Ray");
    }

    const FEDERATED: &str = "federated: Slurm for batch, Kubernetes for services";
    const PARTITIONED: &str = "partition nodes: Slurm pool + K8s pool, clear boundary";
    const INSIDE: &str = "Slurm on Kubernetes: Slinky or Soperator, one substrate for both";

    /// The phrase of the new split alone would read like the present headline.
    #[test]
    fn a_flip_from_split_to_split_names_both() {
        let check = |then: Option<&str>, expected: &str| {
            let slurm = |split| label(ControlPlane::Slurm, "T", split);
            assert_eq!(instead(&slurm(then), &slurm(Some(FEDERATED))), expected);
        };
        check(None, "slurm without the split");
        check(Some(PARTITIONED), "slurm, partitioned instead of federated");
        check(Some(INSIDE), "slurm, inside kubernetes instead of federated");
        let own = Some("a Slurm partition of its own for services");
        check(own, "slurm with a Slurm partition of its own for services instead of federated");
    }

    #[test]
    fn a_flip_shows_what_it_changes() {
        let present = label(ControlPlane::Ray, "G (REQUIRED) + KubeRay on kubernetes", None);
        let check = |other: Label, expected: &str| assert_eq!(instead(&other, &present), expected);
        check(label(ControlPlane::Ray, "KubeRay on kubernetes", None), "ray without G");
        check(
            label(ControlPlane::Ray, "G (REQUIRED) + KubeRay on k3s", None),
            "ray without KubeRay on kubernetes, with KubeRay on k3s",
        );
        check(label(ControlPlane::Slurm, "T", None), "slurm with T");
        let expected = "ray, and kubernetes for services on other nodes";
        check(label(ControlPlane::Ray, &present.addon, Some(PARTITIONED)), expected);
        let provided = label(ControlPlane::Kubernetes, "GPU Operator + run by a provider", None);
        assert_eq!(
            instead(&label(ControlPlane::Kubernetes, "GPU Operator", None), &provided),
            "kubernetes, not run by a provider"
        );
    }
}
