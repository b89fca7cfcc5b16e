//! What found which mutant, compared with what is promised by tables and scenarios, as lines and as a table of docs/proof.md.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

use super::table::{Found, Mutant};

/// The page with the table.
const PAGE: &str = "docs/proof.md";
const BEGIN: &str = "<!-- written by cargo xtask mutants --write -->\n";
const END: &str = "<!-- end -->";

/// What found a mutant.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// The first story that broke, and how.
    pub story: Option<(u64, String)>,
    /// Scenarios that print otherwise.
    pub scenarios: Vec<String>,
}

/// What a scenario says of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Note {
    /// Mutants that it notices.
    pub mutants: Vec<String>,
    /// Why it stands beside others that notice the same.
    pub beside: bool,
}

impl Outcome {
    /// What the hunt printed.
    pub fn read(printed: &str) -> Result<Self> {
        let mut outcome = Self::default();
        for line in printed.lines() {
            let mut words = line.splitn(3, '\t');
            match (words.next(), words.next(), words.next()) {
                (Some("story"), Some(seed), Some(what)) => {
                    outcome.story = Some((seed.parse().context("a seed is a number")?, what.to_owned()));
                }
                (Some("scenario"), Some(name), _) => outcome.scenarios.push(name.to_owned()),
                _ => println!("  {line}"),
            }
        }
        Ok(outcome)
    }
}

/// One mutant on one line.
pub fn line(mutant: &Mutant, outcome: &Outcome) -> String {
    let story = outcome.story.as_ref().map_or("no story".to_owned(), |(seed, what)| {
        format!("seed {seed}: {}", what.chars().take(110).collect::<String>())
    });
    let scenarios = match &outcome.scenarios[..] {
        [] => "no scenario".to_owned(),
        [only] => format!("only {only}"),
        many => format!("{} scenarios", many.len()),
    };
    format!("{}: {scenarios}; {story}", mutant.name)
}

/// How many of all were found by what.
pub fn summary(outcomes: &[(&Mutant, Outcome)], seeds: u64) -> String {
    let count = |is: &dyn Fn(&Outcome) -> bool| outcomes.iter().filter(|(_, outcome)| is(outcome)).count();
    format!(
        "{} mutants: stories find {} within {seeds} seeds, scenarios {}, neither {}",
        outcomes.len(),
        count(&|outcome| outcome.story.is_some()),
        count(&|outcome| !outcome.scenarios.is_empty()),
        count(&|outcome| outcome.story.is_none() && outcome.scenarios.is_empty()),
    )
}

/// What every scenario says of itself, by its path without the ending.
pub fn notes(root: &Path) -> Result<BTreeMap<String, Note>> {
    let folder = root.join("scenarios");
    let mut notes = BTreeMap::new();
    for topic in fs::read_dir(&folder)? {
        let topic = topic?.path();
        if !topic.is_dir() {
            continue;
        }
        for script in fs::read_dir(&topic)? {
            let path = script?.path();
            let text = fs::read_to_string(&path)?;
            let mut note = Note::default();
            for line in text.lines() {
                let named = line.strip_prefix("# mutant: ").into_iter().flat_map(|names| names.split(", "));
                note.mutants.extend(named.map(str::to_owned));
                note.beside |= line.starts_with("# beside: ");
            }
            notes.insert(path.strip_prefix(&folder)?.with_extension("").display().to_string(), note);
        }
    }
    Ok(notes)
}

/// Every promise that is not kept.
pub fn complaints(
    outcomes: &[(&Mutant, Outcome)],
    notes: &BTreeMap<String, Note>,
    seeds: u64,
    is_whole: bool,
) -> Vec<String> {
    let mut complaints = Vec::new();
    // 1. Of tables.
    for (mutant, outcome) in outcomes {
        let (name, seed) = (&mutant.name, outcome.story.as_ref().map(|(seed, _)| *seed));
        let is_found = seed.is_some() || !outcome.scenarios.is_empty();
        match &mutant.found {
            Found::Within(most) if seed.is_none_or(|seed| seed >= *most) => {
                let found = seed.map_or(format!("not in {seeds}"), |seed| format!("at seed {seed}"));
                complaints.push(format!("{name}: stories find it {found}, and not within {most}"));
            }
            Found::Scenarios if !is_found => complaints.push(format!("{name}: nothing finds it")),
            Found::Missed(_) if is_found => complaints.push(format!("{name}: it is found after all: say so")),
            Found::Within(_) | Found::Scenarios | Found::Missed(_) => {}
        }
    }
    // 2. Of scenarios.
    for (scenario, note) in notes {
        let noticed = |outcome: &Outcome| outcome.scenarios.contains(scenario);
        for (mutant, outcome) in outcomes.iter().filter(|(mutant, _)| note.mutants.contains(&mutant.name)) {
            if !noticed(outcome) {
                complaints.push(format!("{scenario}: does not notice mutant {}", mutant.name));
            }
        }
        let is_alone = outcomes.iter().any(|(_, outcome)| outcome.scenarios.len() == 1 && noticed(outcome));
        if is_whole && !is_alone && !note.beside {
            let few = outcomes.iter().filter(|(_, outcome)| noticed(outcome));
            let few = few.min_by_key(|(_, outcome)| outcome.scenarios.len());
            let few = few.map_or("it notices none".to_owned(), |(mutant, outcome)| {
                format!("{} is noticed by {} others", mutant.name, outcome.scenarios.len() - 1)
            });
            complaints.push(format!(
                "{scenario}: no mutant is noticed by it alone, and no `# beside:` says why ({few})"
            ));
        }
    }
    complaints
}

/// Writes the table into the page.
pub fn write(root: &Path, outcomes: &[(&Mutant, Outcome)], seeds: u64) -> Result<()> {
    let git = |args: &[&str]| -> Result<String> {
        let ran = Command::new("git").args(args).current_dir(root).output().context("git did not start")?;
        Ok(String::from_utf8_lossy(&ran.stdout).trim().to_owned())
    };
    let mut table = format!(
        "As of {}, {seeds} seeds: {}.\n\n| mutant | what it breaks | story | scenarios |\n|---|---|---|---|\n",
        git(&["log", "-1", "--format=%cs (%h)"])?,
        summary(outcomes, seeds),
    );
    for (mutant, outcome) in outcomes {
        let story = match (&mutant.found, &outcome.story) {
            (Found::Within(most), Some((seed, _))) => format!("seed {seed}, promised within {most}"),
            (_, Some((seed, _))) => format!("seed {seed}"),
            (_, None) => "–".to_owned(),
        };
        let scenarios = match (&mutant.found, &outcome.scenarios[..]) {
            (Found::Missed(why), []) => format!("missed: {why}"),
            (_, []) => "–".to_owned(),
            (_, [only]) => format!("only `{only}`"),
            (_, [one, two]) => format!("`{one}`, `{two}`"),
            (_, [one, rest @ ..]) => format!("`{one}` and {} more", rest.len()),
        };
        writeln!(table, "| `{}` | {} | {story} | {scenarios} |", mutant.name, mutant.breaks)?;
    }
    let page = root.join(PAGE);
    let text = fs::read_to_string(&page).with_context(|| format!("reading {PAGE}"))?;
    let (head, rest) =
        text.split_once(BEGIN).with_context(|| format!("{PAGE} has no place for the table"))?;
    let (_, tail) = rest.split_once(END).with_context(|| format!("{PAGE} has no end of the table"))?;
    fs::write(&page, format!("{head}{BEGIN}{table}{END}{tail}"))?;
    println!("wrote {PAGE}");
    Ok(())
}
