//! What found which mutant, compared with what the tables promise, as lines and as a table of
//! docs/proof.md. It must not know what scenarios say of themselves.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};

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
    /// Not all were played, since too many go round in circles.
    pub is_cut: bool,
}

impl Outcome {
    /// What the hunt printed.
    pub fn read(printed: &str) -> Result<Self> {
        let mut outcome = Self::default();
        for line in printed.lines() {
            let mut words = line.splitn(3, '\t');
            match (words.next(), words.next(), words.next()) {
                (Some("story"), Some(seed), Some(what)) => {
                    outcome.story =
                        Some((seed.parse().context("a seed is a number")?, what.to_owned()));
                }
                (Some("scenario"), Some(name), _) => outcome.scenarios.push(name.to_owned()),
                (Some("left"), ..) => outcome.is_cut = true,
                _ => bail!("the hunt printed: {line}"),
            }
        }
        Ok(outcome)
    }

    /// The only scenario that notices it, if one alone does.
    pub fn alone(&self) -> Option<&str> {
        match &self.scenarios[..] {
            [only] if !self.is_cut => Some(only),
            _ => None,
        }
    }
}

/// One mutant on one line.
pub fn line(mutant: &Mutant, outcome: &Outcome) -> String {
    let story = outcome.story.as_ref().map_or("no story".to_owned(), |(seed, what)| {
        format!("seed {seed}: {}", what.chars().take(110).collect::<String>())
    });
    let scenarios = match &outcome.scenarios[..] {
        [] => "no scenario".to_owned(),
        [only] if !outcome.is_cut => format!("only {only}"),
        many => {
            format!("{} scenarios{}", many.len(), if outcome.is_cut { " and more" } else { "" })
        }
    };
    format!("{}: {scenarios}; {story}", mutant.name)
}

/// How many of all were found by what.
pub fn summary(outcomes: &[(&Mutant, Outcome)], seeds: u64) -> String {
    let count =
        |is: &dyn Fn(&Outcome) -> bool| outcomes.iter().filter(|(_, outcome)| is(outcome)).count();
    format!(
        "{} mutants: stories find {} within {seeds} seeds, scenarios {}, neither {}",
        outcomes.len(),
        count(&|outcome| outcome.story.is_some()),
        count(&|outcome| !outcome.scenarios.is_empty()),
        count(&|outcome| outcome.story.is_none() && outcome.scenarios.is_empty()),
    )
}

/// Every promise of a table that is not kept.
pub fn broken(outcomes: &[(&Mutant, Outcome)], seeds: u64) -> Vec<String> {
    let mut complaints = Vec::new();
    for (mutant, outcome) in outcomes {
        let (name, seed) = (&mutant.name, outcome.story.as_ref().map(|(seed, _)| *seed));
        match &mutant.found {
            // Fewer seeds than promised say nothing.
            Found::Within(most) if seed.map_or(seeds >= *most, |seed| seed >= *most) => {
                let found =
                    seed.map_or(format!("not in {seeds}"), |seed| format!("at seed {seed}"));
                complaints.push(format!("{name}: stories find it {found}, and not within {most}"));
            }
            Found::Scenarios if outcome.scenarios.is_empty() => {
                let found = seed.map_or("nothing finds it".to_owned(), |seed| {
                    format!("a story finds it at seed {seed} and no scenario does: promise it")
                });
                complaints.push(format!("{name}: {found}"));
            }
            Found::Missed(_) if seed.is_some() || !outcome.scenarios.is_empty() => {
                complaints.push(format!("{name}: it is found after all: say so"));
            }
            Found::Within(_) | Found::Scenarios | Found::Missed(_) => {}
        }
    }
    complaints
}

/// All that was found, a mutant a line: its name, the seed of the story, the scenarios.
pub fn found(outcomes: &[(&Mutant, Outcome)]) -> String {
    let line = |(mutant, outcome): &(&Mutant, Outcome)| {
        let seed = outcome.story.as_ref().map_or("-".to_owned(), |(seed, _)| seed.to_string());
        let cut = if outcome.is_cut { " …" } else { "" };
        format!("{}\t{seed}\t{}{cut}\n", mutant.name, outcome.scenarios.join(" "))
    };
    outcomes.iter().map(line).collect()
}

/// Writes the table into the page.
pub fn write(root: &Path, outcomes: &[(&Mutant, Outcome)], seeds: u64) -> Result<()> {
    let git = |args: &[&str]| -> Result<String> {
        let ran = Command::new("git")
            .args(args)
            .current_dir(root)
            .output()
            .context("git did not start")?;
        Ok(String::from_utf8_lossy(&ran.stdout).trim().to_owned())
    };
    let mut table = format!(
        "As of {}, {seeds} seeds: {}.\n\n| mutant | what it breaks | story | scenarios |\n|---|---|---|---|\n",
        git(&["log", "-1", "--format=%cs (%h)"])?,
        summary(outcomes, seeds),
    );
    for (mutant, outcome) in outcomes {
        let story = match (&mutant.found, &outcome.story) {
            (Found::Within(most), Some((seed, _))) => {
                format!("seed {seed}, promised within {most}")
            }
            (Found::Within(most), None) => format!("not in {seeds}, promised within {most}"),
            (_, Some((seed, _))) => format!("seed {seed}"),
            (_, None) => "–".to_owned(),
        };
        let scenarios = match (&mutant.found, &outcome.scenarios[..]) {
            (Found::Missed(why), []) => format!("missed: {why}"),
            (_, []) => "–".to_owned(),
            (_, [only]) if !outcome.is_cut => format!("only `{only}`"),
            (_, [one]) => format!("`{one}` and more"),
            (_, [one, two]) => format!("`{one}`, `{two}`"),
            (_, [one, rest @ ..]) => format!("`{one}` and {} more", rest.len()),
        };
        writeln!(table, "| `{}` | {} | {story} | {scenarios} |", mutant.name, mutant.breaks)?;
    }
    let page = root.join(PAGE);
    let text = fs::read_to_string(&page).with_context(|| format!("reading {PAGE}"))?;
    let (head, rest) =
        text.split_once(BEGIN).with_context(|| format!("{PAGE} has no place for the table"))?;
    let (_, tail) =
        rest.split_once(END).with_context(|| format!("{PAGE} has no end of the table"))?;
    fs::write(&page, format!("{head}{BEGIN}{table}{END}{tail}"))?;
    println!("wrote {PAGE}");
    Ok(())
}
