//! Two systems side by side: `muster compare`. Dimensions that matter for the facts are
//! shown in full, the others in one line each; without facts all are shown in full.

use muster_model::advice::{
    Compared, ComparedSystem, Comparison, ComparisonCell, ComparisonVerdict, ControlPlane,
    FactChanges, FactValue, Facts, PlaneResult, PlaneRole, SupportLevel,
};

use crate::RenderContext;
use crate::style::{Ink, shorten, wrap};
use crate::table::{Cell as Field, Labels, Table};

/// Columns if the output is not a terminal, and at most: wider lines are no easier to read.
const WIDTH: usize = 100;
/// On narrower terminals, the control planes are shown one below the other.
const SIDE_BY_SIDE: usize = 60;
/// Smallest width that is still readable.
const MIN_WIDTH: usize = 30;
/// Letters of the longest control plane's name, and more than any support level has.
const NAME: usize = "kubernetes".len();
/// Blanks before every line, and between columns.
const GAP: usize = 2;

/// Dimensions that are shown in full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CompareDetail {
    /// With facts, only the dimensions that matter for them.
    Matters,
    /// All dimensions, whether they matter or not.
    All,
}

/// Returns the comparison as text.
#[must_use]
pub fn compare(comparison: &Comparison, detail: CompareDetail, context: RenderContext) -> String {
    let columns = Columns::of(comparison, context);
    let [left, right] = comparison.planes;
    let mut text =
        heading(&format!("{left} and {right}{}", for_facts(comparison.facts.as_ref())), context);
    for note in comparison.planes.iter().filter_map(|system| caveat(*system)) {
        text.push_str(&paragraph(&[("", note.to_owned())], context));
        text.push('\n');
    }

    // 1. Shown in full: the dimensions that matter, or all.
    let weighed = comparison.facts.is_some();
    let (matter, rest): (Vec<&Compared>, Vec<&Compared>) =
        comparison.dimensions.iter().partition(|row| weighed && !row.matters_for.is_empty());
    let full_rest = !weighed || detail == CompareDetail::All;
    if weighed {
        text.push_str(&section(
            matters_title(matter.len()),
            &matter,
            comparison.planes,
            &columns,
            context,
        ));
    }

    // 2. The rest.
    if full_rest {
        let title = if weighed { "does not matter for these facts" } else { "" };
        text.push_str(&section(title, &rest, comparison.planes, &columns, context));
    } else if !rest.is_empty() {
        text.push_str(&heading("the rest (in full with --all)", context));
        text.push_str(&short(&rest, comparison.planes, context));
        text.push('\n');
    }

    // 3. The conclusion.
    match &comparison.verdict {
        Some(verdict) => text.push_str(&fares(verdict, matter.len(), context)),
        None => text.push_str(&tally(comparison, context)),
    }
    text
}

/// Returns what the rating of a system leaves out.
fn caveat(system: ComparedSystem) -> Option<&'static str> {
    match system {
        ComparedSystem::Muster => Some(
            "muster rates itself here. On several machines it runs on slurm, kubernetes or ray, and only adds to \
             what they do: compare those, too. A feature that one of them lacks under muster counts as weak",
        ),
        ComparedSystem::Plane(ControlPlane::Ray) => Some(
            "ray is compared alone; nodes, quota and topology come from its host: compare the host, too",
        ),
        ComparedSystem::Plane(_) => None,
    }
}

fn matters_title(count: usize) -> &'static str {
    match count {
        0 => "nothing here depends on these facts",
        _ => "what matters for these facts",
    }
}

fn for_facts(facts: Option<&Facts>) -> String {
    let Some(facts) = facts else { return String::new() };
    let given: Vec<String> = facts
        .given()
        .map(|(fact, value)| match value {
            FactValue::Flag(true) => fact.to_string(),
            _ => format!("{fact} {value}"),
        })
        .collect();
    if given.is_empty() {
        " for one node and nothing else".to_owned()
    } else {
        format!(" for {}", given.join(", "))
    }
}

fn heading(title: &str, context: RenderContext) -> String {
    let lines = wrap(title, width(context));
    let painted: Vec<String> = lines.iter().map(|line| context.paint(Ink::Strong, line)).collect();
    format!("{}\n\n", painted.join("\n"))
}

/// Returns the number of columns of the page.
fn width(context: RenderContext) -> usize {
    context.width.unwrap_or(WIDTH).clamp(MIN_WIDTH, WIDTH)
}

/// Widths of the three columns.
struct Columns {
    title: usize,
    cell: usize,
}

impl Columns {
    /// Returns the widths. The first column gets a quarter, or more if the name of a fact needs it:
    /// names are not broken.
    fn of(comparison: &Comparison, context: RenderContext) -> Self {
        let width = width(context);
        let names = comparison.dimensions.iter().flat_map(|row| &row.matters_for);
        let longest = names.map(|fact| fact.name().len() + 1).max().unwrap_or(0);
        let title = (width / 4 - GAP).max(longest);
        Self { title, cell: width.saturating_sub(GAP + title + 2 * GAP) / 2 }
    }
}

/// A line and its width on the screen, without escape sequences.
struct MeasuredLine {
    text: String,
    width: usize,
}

impl MeasuredLine {
    fn new(text: &str, ink: Ink, context: RenderContext) -> Self {
        Self { text: context.paint(ink, text), width: text.chars().count() }
    }
}

fn section(
    title: &str,
    rows: &[&Compared],
    planes: [ComparedSystem; 2],
    columns: &Columns,
    context: RenderContext,
) -> String {
    let names = planes.map(|plane| vec![named(plane, context)]);
    let mut text = String::new();
    if !title.is_empty() {
        text.push_str(&heading(title, context));
    }
    if rows.is_empty() {
        return text;
    }
    if width(context) < SIDE_BY_SIDE {
        text.extend(rows.iter().map(|row| below(row, planes, context) + "\n"));
        return text;
    }
    text.push_str(&beside(&[], &names, columns));
    for row in rows {
        let cells = row.cells.each_ref().map(|cell| cell_lines(cell, columns.cell, context));
        text.push_str(&beside(&title_lines(row, columns.title, context), &cells, columns));
        text.push('\n');
    }
    text
}

fn named(plane: ComparedSystem, context: RenderContext) -> MeasuredLine {
    MeasuredLine::new(plane.name(), Ink::Strong, context)
}

/// Returns one dimension for a narrow terminal, one control plane below the other.
fn below(row: &Compared, planes: [ComparedSystem; 2], context: RenderContext) -> String {
    let space = width(context);
    let mut text = indented(&title_lines(row, space - GAP, context), GAP);
    for (plane, cell) in planes.into_iter().zip(&row.cells) {
        text.push_str(&indented(&[named(plane, context)], 2 * GAP));
        text.push_str(&indented(&cell_lines(cell, space - 3 * GAP, context), 3 * GAP));
    }
    text
}

fn indented(lines: &[MeasuredLine], indent: usize) -> String {
    lines.iter().map(|line| format!("{:indent$}{}\n", "", line.text)).collect()
}

/// Returns the title of a dimension, the control plane that is ahead, and the facts for which it
/// matters.
fn title_lines(row: &Compared, width: usize, context: RenderContext) -> Vec<MeasuredLine> {
    let mut lines: Vec<MeasuredLine> = wrap(row.title, width)
        .iter()
        .map(|line| MeasuredLine::new(line, Ink::Plain, context))
        .collect();
    lines.push(match row.ahead {
        Some(plane) => MeasuredLine::new(&format!("{plane} ahead"), Ink::Good, context),
        None => MeasuredLine::new("level", Ink::Faint, context),
    });
    if !row.matters_for.is_empty() {
        let facts: Vec<&str> = row.matters_for.iter().map(|fact| fact.name()).collect();
        let because = wrap(&format!("for {}", facts.join(", ")), width);
        lines.extend(because.iter().map(|line| MeasuredLine::new(line, Ink::Faint, context)));
    }
    lines
}

/// Returns how well a control plane does in a dimension, the reason, what has changed since, and
/// the sources.
fn cell_lines(cell: &ComparisonCell, width: usize, context: RenderContext) -> Vec<MeasuredLine> {
    let mut lines = after_word(cell.standing.name(), cell.standing, cell.text, width, context);
    let mut sources = vec![cell.source.page.name()];
    if let Some(today) = cell.today {
        let word = if today.standing == cell.standing {
            "today".to_owned()
        } else {
            format!("today {}", today.standing.name())
        };
        lines.extend(after_word(&word, today.standing, today.text, width, context));
        sources.push(today.source.page.name());
    }
    let cited = wrap(&format!("[{}]", sources.join(", ")), width);
    lines.extend(cited.iter().map(|line| MeasuredLine::new(line, Ink::Faint, context)));
    lines
}

/// Returns text after a word that is painted in the ink of a standing.
fn after_word(
    word: &str,
    standing: SupportLevel,
    text: &str,
    width: usize,
    context: RenderContext,
) -> Vec<MeasuredLine> {
    let lead = format!("{word}:");
    let wrapped = wrap(&format!("{lead} {text}"), width);
    let painted = |line: &String| match line.strip_prefix(lead.as_str()) {
        Some(rest) => MeasuredLine {
            text: context.paint(ink(standing), &lead) + rest,
            width: line.chars().count(),
        },
        None => MeasuredLine::new(line, Ink::Plain, context),
    };
    wrapped.iter().map(painted).collect()
}

fn ink(standing: SupportLevel) -> Ink {
    match standing {
        SupportLevel::Native => Ink::Good,
        SupportLevel::AddOn => Ink::Active,
        SupportLevel::Weak => Ink::Waiting,
        SupportLevel::None => Ink::Bad,
    }
}

fn beside(title: &[MeasuredLine], cells: &[Vec<MeasuredLine>; 2], columns: &Columns) -> String {
    let height = title.len().max(cells[0].len()).max(cells[1].len());
    let parts: [(&[MeasuredLine], usize); 3] =
        [(title, columns.title), (&cells[0], columns.cell), (&cells[1], columns.cell)];
    let mut text = String::new();
    for place in 0..height {
        let mut line = String::new();
        let mut blanks = GAP;
        for (lines, width) in parts {
            match lines.get(place) {
                Some(part) => {
                    line.push_str(&" ".repeat(blanks));
                    line.push_str(&part.text);
                    blanks = width.saturating_sub(part.width) + GAP;
                }
                None => blanks += width + GAP,
            }
        }
        text.push_str(&line);
        text.push('\n');
    }
    text
}

/// Returns one line per dimension; on a narrow terminal, one sentence each.
fn short(rows: &[&Compared], planes: [ComparedSystem; 2], context: RenderContext) -> String {
    let [left, right] = planes;
    if width(context) < SIDE_BY_SIDE {
        let standing = |cell: &ComparisonCell| cell.standing_today().name();
        let sentence = |row: &&Compared| {
            let [one, other] = &row.cells;
            format!("{}: {left} {}, {right} {}", row.title, standing(one), standing(other))
        };
        return rows.iter().map(|row| paragraph(&[("", sentence(row))], context)).collect();
    }
    let headings = [capitals(left), capitals(right), "AHEAD"];
    let taken: usize = headings.iter().map(|heading| heading.len().max(NAME) + GAP).sum();
    let space = width(context) - GAP - taken;
    let standing = |cell: &ComparisonCell| {
        Field::inked(cell.standing_today().name(), ink(cell.standing_today()))
    };
    Table::of(rows)
        .left("DIMENSION", |row| shorten(row.title, space))
        .left(headings[0], |row| standing(&row.cells[0]))
        .left(headings[1], |row| standing(&row.cells[1]))
        .left(headings[2], |row| row.ahead.map_or("", ComparedSystem::name))
        .indented(GAP)
        .render(context)
}

const fn capitals(system: ComparedSystem) -> &'static str {
    match system {
        ComparedSystem::Muster => "MUSTER",
        ComparedSystem::Plane(ControlPlane::None) => "NONE",
        ComparedSystem::Plane(ControlPlane::Slurm) => "SLURM",
        ComparedSystem::Plane(ControlPlane::Kubernetes) => "KUBERNETES",
        ComparedSystem::Plane(ControlPlane::K3s) => "K3S",
        ComparedSystem::Plane(ControlPlane::Ray) => "RAY",
    }
}

/// Counts how often each control plane is ahead. Used without facts, where it is not a result,
/// since it is unknown which dimensions matter.
fn tally(comparison: &Comparison, context: RenderContext) -> String {
    let ahead = |plane| comparison.dimensions.iter().filter(|row| row.ahead == Some(plane)).count();
    let [left, right] = comparison.planes;
    let level = comparison.dimensions.len() - ahead(left) - ahead(right);
    let text = format!(
        "{left} ahead in {}, {right} in {}, level in {level} of {} dimensions; which of them matter depends on the \
         workload: give its facts (--nodes, --tightly-coupled, ...) or --facts FILE",
        ahead(left),
        ahead(right),
        comparison.dimensions.len()
    );
    paragraph(&[("", text)], context)
}

fn fares(verdict: &ComparisonVerdict, matter: usize, context: RenderContext) -> String {
    let mut answer = verdict.advice.primary.to_string();
    if !verdict.advice.addon.is_empty() {
        answer.push_str(&format!("; {}", verdict.advice.addon));
    }
    if let Some(hybrid) = &verdict.advice.hybrid {
        answer.push_str(&format!("; {hybrid}"));
    }
    let mut lines = vec![("advice", answer)];
    lines.extend(verdict.fares.iter().map(|fare| (fare.plane.name(), fares_how(fare, matter))));
    paragraph(&lines, context)
}

fn fares_how(fare: &PlaneResult, matter: usize) -> String {
    let role = match fare.role {
        PlaneRole::Chosen => "chosen",
        PlaneRole::Host => "the host under it",
        PlaneRole::OtherPool => "gets the other pool of nodes",
        PlaneRole::OnTop => "runs jobs through the answer, or by itself on one machine",
        PlaneRole::NotChosen => "not chosen",
    };
    let ahead = match matter {
        0 => String::new(),
        _ => format!("; ahead in {} of the {matter} that matter", fare.ahead_in),
    };
    let otherwise = match (fare.role, fare.plane) {
        (PlaneRole::Chosen, _) => String::new(),
        (_, ComparedSystem::Plane(ControlPlane::None)) => {
            "; never chosen for a single workload, only for a site: muster advise --site".to_owned()
        }
        _ if fare.chosen_if.0.is_empty() => String::new(),
        _ => format!("; chosen if {}", changes(&fare.chosen_if)),
    };
    format!("{role}{ahead}{otherwise}")
}

fn changes(changes: &FactChanges) -> String {
    let each: Vec<String> =
        changes.0.iter().map(|(fact, value)| format!("{fact} is {value}")).collect();
    each.join(" and ")
}

/// Returns labels with their wrapped text beside them.
fn paragraph(lines: &[(&str, String)], context: RenderContext) -> String {
    let width = width(context);
    let longest = lines.iter().map(|(label, _)| label.len()).max().unwrap_or(0);
    let column = if longest == 0 { 0 } else { longest + GAP };
    let labels = Labels { indent: GAP, width: column, ink: Ink::Strong };
    lines.iter().map(|(label, body)| labels.wrapped(label, body, width, 1, context)).collect()
}

#[cfg(test)]
mod tests {
    use muster_model::advice::{Citation, CitedPage, CurrentSupport, Fact, Label};

    use super::*;

    fn cell(
        plane: ControlPlane,
        standing: SupportLevel,
        today: Option<SupportLevel>,
    ) -> ComparisonCell {
        let source = Citation::new(CitedPage::Comparison, "table: gang");
        let today = today.map(|standing| CurrentSupport {
            standing,
            text: "it has one of its own now, as a beta that has to be there",
            source: Citation::new(CitedPage::Upstream, "release notes"),
        });
        ComparisonCell {
            plane: plane.into(),
            standing,
            text: "a reason that is long enough to be wrapped twice or so",
            source,
            today,
        }
    }

    fn sample(facts: bool) -> Comparison {
        let planes = [ControlPlane::Slurm, ControlPlane::Kubernetes].map(ComparedSystem::from);
        let row = |id, title, matters_for: Vec<Fact>, ahead| Compared {
            id,
            title,
            matters_for,
            ahead,
            cells: [
                cell(ControlPlane::Slurm, SupportLevel::Native, None),
                cell(ControlPlane::Kubernetes, SupportLevel::Weak, Some(SupportLevel::AddOn)),
            ],
        };
        let given = if facts { vec![Fact::Nodes] } else { Vec::new() };
        let verdict = facts.then(|| ComparisonVerdict {
            advice: Label {
                primary: ControlPlane::Slurm,
                addon: "topology.conf".to_owned(),
                hybrid: None,
            },
            fares: [
                PlaneResult {
                    plane: ControlPlane::Slurm.into(),
                    ahead_in: 1,
                    role: PlaneRole::Chosen,
                    chosen_if: FactChanges::default(),
                },
                PlaneResult {
                    plane: ControlPlane::Kubernetes.into(),
                    ahead_in: 0,
                    role: PlaneRole::NotChosen,
                    chosen_if: FactChanges(vec![(Fact::BareMetal, Fact::BareMetal.value(0))]),
                },
            ],
        });
        Comparison {
            planes,
            facts: facts.then(|| Facts::default().with(Fact::Nodes, 4)),
            dimensions: vec![
                row(
                    "gang",
                    "all ranks at once, or none of them",
                    given,
                    Some(ControlPlane::Slurm.into()),
                ),
                row("serving", "endpoints that stay up", Vec::new(), None),
            ],
            verdict,
        }
    }

    #[test]
    fn what_matters_is_written_out_and_the_rest_is_a_line_each() {
        insta::assert_snapshot!(compare(&sample(true), CompareDetail::Matters, RenderContext::plain()), @r"
        slurm and kubernetes for nodes 4

        what matters for these facts

                                   slurm                                kubernetes
          all ranks at once, or    native: a reason that is long        weak: a reason that is long enough
          none of them             enough to be wrapped twice or so     to be wrapped twice or so
          slurm ahead              [comparison]                         today add-on: it has one of its own
          for nodes                                                     now, as a beta that has to be there
                                                                        [comparison, upstream]

        the rest (in full with --all)

          DIMENSION               SLURM   KUBERNETES
          endpoints that stay up  native  add-on

          advice      slurm; topology.conf
          slurm       chosen; ahead in 1 of the 1 that matter
          kubernetes  not chosen; ahead in 0 of the 1 that matter; chosen if bare_metal is false
        ");
    }

    #[test]
    fn it_fits_its_width() {
        for width in [40, 60, 80, 100, 200] {
            for (facts, detail) in [
                (true, CompareDetail::Matters),
                (true, CompareDetail::All),
                (false, CompareDetail::Matters),
            ] {
                let text =
                    compare(&sample(facts), detail, RenderContext::plain().with_width(width));
                let widest = text.lines().map(|line| line.chars().count()).max().unwrap();
                assert!(widest <= width.min(WIDTH), "{widest} columns of {width}:\n{text}");
                assert!(text.lines().all(|line| line.trim_end() == line), "{text}");
            }
        }
    }

    #[test]
    fn colour_changes_no_column() {
        let plain = compare(&sample(true), CompareDetail::All, RenderContext::plain());
        let context = RenderContext { colour: true, ..RenderContext::plain() };
        let mut painted = compare(&sample(true), CompareDetail::All, context);
        assert!(painted.contains("\x1b[32mnative:"), "{painted}");
        while let Some(start) = painted.find('\x1b') {
            let end = painted[start..].find('m').unwrap() + start;
            painted.replace_range(start..=end, "");
        }
        assert_eq!(painted, plain);
    }
}
