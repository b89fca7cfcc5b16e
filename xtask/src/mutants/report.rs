//! Detections of mutants compared with the expectations of the tables, as lines and as the table of
//! docs/proof.md. Notes of scenarios are handled in `notes`.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};

use super::table::{ExpectedDetection, Mutant};

/// Document with the table.
const PAGE: &str = "docs/proof.md";
const BEGIN: &str = "<!-- written by cargo xtask mutants --write -->\n";
const END: &str = "<!-- end -->";

/// Simulation run and scenarios that detected a mutant.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MutantOutcome {
    /// Seed of the first simulation run that failed, and the failure.
    pub simulation: Option<(u64, String)>,
    /// Scenarios that failed, by name.
    pub scenarios: Vec<String>,
    /// True when not all scenarios were run because too many did not terminate.
    pub is_incomplete: bool,
}

impl MutantOutcome {
    /// Parses the output of the example `hunt`.
    pub fn read(printed: &str) -> Result<Self> {
        let mut outcome = Self::default();
        for line in printed.lines() {
            let mut words = line.splitn(3, '\t');
            match (words.next(), words.next(), words.next()) {
                (Some("simulation"), Some(seed), Some(what)) => {
                    outcome.simulation =
                        Some((seed.parse().context("a seed is a number")?, what.to_owned()));
                }
                (Some("scenario"), Some(name), _) => outcome.scenarios.push(name.to_owned()),
                (Some("left"), ..) => outcome.is_incomplete = true,
                _ => bail!("unexpected output of hunt: {line}"),
            }
        }
        Ok(outcome)
    }

    /// Returns the only scenario that detects the mutant, if there is exactly one.
    pub fn only_scenario(&self) -> Option<&str> {
        match &self.scenarios[..] {
            [only] if !self.is_incomplete => Some(only),
            _ => None,
        }
    }
}

/// Formats the result of one mutant as a line.
pub fn line(mutant: &Mutant, outcome: &MutantOutcome) -> String {
    let simulation =
        outcome.simulation.as_ref().map_or("no simulation run".to_owned(), |(seed, what)| {
            format!("seed {seed}: {}", what.chars().take(110).collect::<String>())
        });
    let scenarios = match &outcome.scenarios[..] {
        [] => "no scenario".to_owned(),
        [only] if !outcome.is_incomplete => format!("only {only}"),
        many => {
            format!(
                "{} scenarios{}",
                many.len(),
                if outcome.is_incomplete { " and more" } else { "" }
            )
        }
    };
    format!("{}: {scenarios}; {simulation}", mutant.name)
}

/// Returns the number of mutants detected by simulation and by scenarios.
pub fn summary(outcomes: &[(&Mutant, MutantOutcome)], seeds: u64) -> String {
    let count = |is: &dyn Fn(&MutantOutcome) -> bool| {
        outcomes.iter().filter(|(_, outcome)| is(outcome)).count()
    };
    format!(
        "{} mutants: simulation detects {} within {seeds} seeds, scenarios {}, neither {}",
        outcomes.len(),
        count(&|outcome| outcome.simulation.is_some()),
        count(&|outcome| !outcome.scenarios.is_empty()),
        count(&|outcome| outcome.simulation.is_none() && outcome.scenarios.is_empty()),
    )
}

/// Returns a complaint per unmet expectation of the tables.
pub fn unmet_expectations(outcomes: &[(&Mutant, MutantOutcome)], seeds: u64) -> Vec<String> {
    let mut complaints = Vec::new();
    for (mutant, outcome) in outcomes {
        let name = &mutant.name;
        let seed = outcome.simulation.as_ref().map(|(seed, _)| *seed);
        match &mutant.expected {
            // A run with fewer seeds than expected decides nothing.
            ExpectedDetection::Within(most)
                if seed.map_or(seeds >= *most, |seed| seed >= *most) =>
            {
                let found =
                    seed.map_or(format!("not in {seeds}"), |seed| format!("at seed {seed}"));
                complaints.push(format!(
                    "{name}: simulation detects it {found}, but is expected to within {most} seeds"
                ));
            }
            ExpectedDetection::Scenarios if outcome.scenarios.is_empty() => {
                let found = seed.map_or("it is not detected".to_owned(), |seed| {
                    format!("simulation detects it at seed {seed}, no scenario does: add `within`")
                });
                complaints.push(format!("{name}: {found}"));
            }
            ExpectedDetection::Missed(_) if seed.is_some() || !outcome.scenarios.is_empty() => {
                complaints.push(format!("{name}: it is detected: remove `missed`"));
            }
            ExpectedDetection::Within(_)
            | ExpectedDetection::Scenarios
            | ExpectedDetection::Missed(_) => {}
        }
    }
    complaints
}

/// Formats all detections, one mutant per line: its name, the seed of the simulation run, the
/// scenarios.
pub fn detections(outcomes: &[(&Mutant, MutantOutcome)]) -> String {
    let line = |(mutant, outcome): &(&Mutant, MutantOutcome)| {
        let seed = outcome.simulation.as_ref().map_or("-".to_owned(), |(seed, _)| seed.to_string());
        let cut = if outcome.is_incomplete { " …" } else { "" };
        format!("{}\t{seed}\t{}{cut}\n", mutant.name, outcome.scenarios.join(" "))
    };
    outcomes.iter().map(line).collect()
}

/// Writes the table into the document.
pub fn write(root: &Path, outcomes: &[(&Mutant, MutantOutcome)], seeds: u64) -> Result<()> {
    let git = |args: &[&str]| -> Result<String> {
        let ran = Command::new("git")
            .args(args)
            .current_dir(root)
            .output()
            .context("git did not start")?;
        Ok(String::from_utf8_lossy(&ran.stdout).trim().to_owned())
    };
    let mut table = format!(
        "As of {}, {seeds} seeds: {}.\n\n| mutant | what it breaks | simulation | scenarios |\n|---|---|---|---|\n",
        git(&["log", "-1", "--format=%cs (%h)"])?,
        summary(outcomes, seeds),
    );
    for (mutant, outcome) in outcomes {
        let simulation = match (&mutant.expected, &outcome.simulation) {
            (ExpectedDetection::Within(most), Some((seed, _))) => {
                format!("found by seed {seed}, expected within {most} seeds")
            }
            (ExpectedDetection::Within(most), None) => {
                format!("not found in {seeds} seeds, expected within {most}")
            }
            (_, Some((seed, _))) => format!("seed {seed}"),
            (_, None) => "–".to_owned(),
        };
        let scenarios = match (&mutant.expected, &outcome.scenarios[..]) {
            (ExpectedDetection::Missed(why), []) => format!("missed: {why}"),
            (_, []) => "–".to_owned(),
            (_, [only]) if !outcome.is_incomplete => format!("only `{only}`"),
            (_, [one]) => format!("`{one}` and more"),
            (_, [one, two]) => format!("`{one}`, `{two}`"),
            (_, [one, rest @ ..]) => format!("`{one}` and {} more", rest.len()),
        };
        writeln!(table, "| `{}` | {} | {simulation} | {scenarios} |", mutant.name, mutant.breaks)?;
    }
    let page = root.join(PAGE);
    let text = fs::read_to_string(&page).with_context(|| format!("reading {PAGE}"))?;
    let (head, rest) =
        text.split_once(BEGIN).with_context(|| format!("{PAGE} has no start mark of the table"))?;
    let (_, tail) =
        rest.split_once(END).with_context(|| format!("{PAGE} has no end mark of the table"))?;
    fs::write(&page, format!("{head}{BEGIN}{table}{END}{tail}"))?;
    println!("wrote {PAGE}");
    Ok(())
}
