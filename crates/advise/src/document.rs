//! docs/advise.md, made from the lists themselves, so that it cannot say anything else than the
//! program does. It is written nowhere here: `muster __docs advise` prints it.

use std::fmt::{Display, Write as _};

use muster_model::advice::{DisputeKind, Fact, Kind, Page, Source, Threshold};

use crate::rule::{Disagreement, Hazard, Rule};
use crate::{disputes, gpus, overrides, site, warnings, workload};

/// Where the documentation of a rule, a warning or a dispute stands, relative to the repository.
#[must_use]
pub fn doc_link(id: &str) -> String {
    format!("docs/advise.md#{id}")
}

/// Every id that has a place in the documentation, in its order.
#[must_use]
pub fn anchors() -> Vec<&'static str> {
    sections().into_iter().flat_map(|section| section.entries).map(|entry| entry.id).collect()
}

/// The whole document, as Markdown.
#[must_use]
pub fn document() -> String {
    let mut text = String::from(INTRODUCTION);
    facts(&mut text);
    thresholds(&mut text);
    for section in sections() {
        put(&mut text, format_args!("\n## {}\n\n{}\n", section.title, section.about));
        for entry in section.entries {
            put(&mut text, format_args!("\n### {}\n\n{}", entry.id, entry.body));
        }
    }
    sources(&mut text);
    text
}

const INTRODUCTION: &str = "\
# Advice: which control plane, why, and what would change it

Made by `muster __docs advise` from the lists that `muster advise` itself reads; a test compares the two. Every id that an
answer shows is a heading here.

How to read it:

- **Rules** are asked from the top. Of the rules that choose, the first whose condition holds chooses, and no later one does;
  of the others each that holds takes effect.
- **Warnings** are failure modes that the finished answer invites. They change no answer. The most dangerous come first.
- **Disputes** are places where the pages disagree with each other, with themselves, or with what has become true since
  they were written. They change no answer either: each says what Muster does, and the question that would decide.
- A condition names facts; a fact that nobody gave is false, a number its default. Numbers in conditions are thresholds,
  shown with their default and, in parentheses, the name under which a site can set another (`rules:`).
- **Flips** are found by asking again with facts changed, not by rules, and so have no entries here.
";

/// A part of the document.
struct Section {
    title: &'static str,
    about: &'static str,
    entries: Vec<Entry>,
}

/// What one id stands for.
struct Entry {
    id: &'static str,
    body: String,
}

fn sections() -> Vec<Section> {
    vec![
        Section {
            title: "Rules for one workload",
            about: "The labeller of the guide. Its labels are an interface: programs compare them.",
            entries: rules(workload::RULES),
        },
        Section {
            title: "Warnings for one workload",
            about: "Judged on facts and answer.",
            entries: hazards(warnings::WORKLOAD).chain([silent_fact()]).collect(),
        },
        Section {
            title: "Disputes about one workload",
            about: "Those that would change the choice come first, then those about what is added to it.",
            entries: disagreements(disputes::WORKLOAD),
        },
        Section {
            title: "Rules for a site",
            about: "From the first question to the last.",
            entries: rules(site::RULES),
        },
        Section {
            title: "Warnings for a site",
            about: "Judged on facts and answer.",
            entries: hazards(warnings::SITE).collect(),
        },
        Section {
            title: "Disputes about a site",
            about: "Places where the pages disagree on a site.",
            entries: disagreements(disputes::SITE),
        },
        Section {
            title: "Sharing GPUs on a site",
            about: "Said when somebody asks for less than a GPU. Isolation is promised only where hardware gives it.",
            entries: site::SHARING.into_iter().flat_map(rules).chain([sharing_model()]).collect(),
        },
        Section {
            title: "Notebooks on a site",
            about: "Said when people want them. Each pattern goes with a base plane; the limit goes with all.",
            entries: rules(site::NOTEBOOKS),
        },
        Section {
            title: "A site's own numbers",
            about: "Shown among the rules that fired.",
            entries: vec![site_threshold()],
        },
    ]
}

fn rules(rules: &'static [Rule]) -> Vec<Entry> {
    let entry = |rule: &Rule| {
        let mut body = String::new();
        put(&mut body, format_args!("{}.\n\n", capital(rule.sentence)));
        line(&mut body, "when", rule.when);
        line(&mut body, "effect", rule.effect);
        line(&mut body, "source", cited(rule.source));
        Entry { id: rule.id, body }
    };
    rules.iter().map(entry).collect()
}

fn hazards(hazards: &'static [Hazard]) -> impl Iterator<Item = Entry> {
    hazards.iter().map(|hazard| {
        let mut body = String::new();
        put(&mut body, format_args!("{}.\n\n", capital(hazard.sentence)));
        line(&mut body, "when", hazard.when);
        line(&mut body, "tell", hazard.tell);
        line(&mut body, "cure", hazard.cure);
        line(&mut body, "source", cited(hazard.source));
        Entry { id: hazard.id, body }
    })
}

fn disagreements(disagreements: &'static [Disagreement]) -> Vec<Entry> {
    let entry = |dispute: &Disagreement| {
        let mut body = String::new();
        let with = match dispute.kind {
            DisputeKind::Pages => "Pages disagree",
            DisputeKind::Itself => "A page disagrees with itself",
            DisputeKind::Aged => "A page has aged",
        };
        put(&mut body, format_args!("{with}. {}\n\n", capital(dispute.question)));
        line(&mut body, "when", dispute.when);
        for position in dispute.positions {
            line(&mut body, &cited(position.source), position.says);
        }
        line(&mut body, "Muster", dispute.muster);
        Entry { id: dispute.id, body }
    };
    disagreements.iter().map(entry).collect()
}

/// The warning that no list holds, because it is derived from the rules.
fn silent_fact() -> Entry {
    let body = "A fact that was given leaves this answer as it is. Found by asking again without it; what else would have to be \
                true for it to matter is found by asking again with other facts changed.\n\n"
        .to_owned();
    Entry { id: workload::SILENT_FACT, body }
}

/// What is said of each model, from the table of models.
fn sharing_model() -> Entry {
    let mut body = "What a GPU model of the site can be cut into today, beside what a page says of it. A model that is not in \
                    this table is not known, and no isolation is promised for it.\n\n"
        .to_owned();
    put(
        &mut body,
        format_args!(
            "| model | MIG slices | AMD partitions | Kentino on MIG |\n|---|---|---|---|\n"
        ),
    );
    for gpu in gpus::GPUS {
        let number = |count: u32| if count == 0 { "–".to_owned() } else { count.to_string() };
        let page = gpu.kentino_mig.map_or("", |has| if has { "yes" } else { "no" });
        let (mig, amd) = (number(gpu.mig_instances), number(gpu.amd_partitions));
        put(&mut body, format_args!("| `{}` | {mig} | {amd} | {page} |\n", gpu.names.join("`, `")));
    }
    put(&mut body, format_args!("\n"));
    line(&mut body, "source", cited(gpus::MIG_SOURCE));
    line(&mut body, "source", cited(gpus::AMD_SOURCE));
    Entry { id: site::SHARING_MODEL, body }
}

fn site_threshold() -> Entry {
    let body = "A threshold that the site has set differently, and that the rules read. Shown with every answer, so that nobody \
                mistakes a tuned answer for the pages' own.\n\n"
        .to_owned();
    Entry { id: overrides::SITE_THRESHOLD, body }
}

fn facts(text: &mut String) {
    let parts = [("Facts of a workload", Fact::WORKLOAD), ("Facts of a site", Fact::SITE)];
    for (title, list) in parts {
        put(text, format_args!("\n## {title}\n\n| fact | values | question |\n|---|---|---|\n"));
        for fact in list {
            let values = match fact.kind() {
                Kind::Flag => "true or false".to_owned(),
                Kind::Count { min, max, default } => format!("{min} to {max}; {default}"),
                Kind::Hundredths { max } => format!("0 to {}, by hundredths", max / 100),
            };
            put(text, format_args!("| `{fact}` | {values} | {} |\n", fact.question()));
        }
    }
}

fn thresholds(text: &mut String) {
    put(
        text,
        format_args!(
            "\n## Thresholds\n\n| name | default | compared with | meaning | source |\n|---|---|---|---|---|\n"
        ),
    );
    for threshold in Threshold::ALL {
        let fact = threshold.fact();
        put(
            text,
            format_args!(
                "| `{}` | {} | `{fact}` | {} | {} |\n",
                threshold.name(),
                fact.value(threshold.default()),
                threshold.meaning(),
                cited(threshold.source())
            ),
        );
    }
}

fn sources(text: &mut String) {
    text.push_str("\n## Sources\n\n| source | page |\n|---|---|\n");
    for page in Page::ALL {
        put(text, format_args!("| {} | {} |\n", page.name(), page.title()));
    }
}

fn cited(source: Source) -> String {
    format!("{}: {}", source.page.name(), source.section)
}

fn line(body: &mut String, name: &str, value: impl Display) {
    put(body, format_args!("- *{name}*: {value}\n"));
}

/// As a sentence begins; k3s is written small everywhere.
fn capital(sentence: &str) -> String {
    let mut chars = sentence.chars();
    match chars.next() {
        Some(first) if !sentence.starts_with("k3s") => first.to_uppercase().chain(chars).collect(),
        _ => sentence.to_owned(),
    }
}

fn put(text: &mut String, piece: std::fmt::Arguments<'_>) {
    text.write_fmt(piece).expect("writing to a String cannot fail");
}
