//! `cargo xtask mutants`: mutation test. Puts each deliberate bug (mutant) of `xtask/mutants/` into
//! a copy of the engine, runs the deterministic simulation and the scenarios on it, and compares
//! which of them detect it with the expectation in the table. Fails on unmet expectations, and when
//! the text that a mutant changes no longer exists.

mod build;
mod notes;
mod report;
mod table;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::{Context, Result, bail};

use report::MutantOutcome;
use table::Mutant;

/// Simulation runs per mutant before it counts as not detected by them.
const SEEDS: u64 = 300;
/// Folder of the tables, relative to the root.
const TABLES: &str = "xtask/mutants";

/// Command-line arguments of `cargo xtask mutants`.
#[derive(Default)]
struct MutantArgs {
    /// Substrings of mutant names; empty selects all mutants.
    names: Vec<String>,
    seeds: u64,
    jobs: usize,
    write: bool,
}

/// Runs all mutants, or those whose name contains one of the arguments.
pub fn run(root: &Path, args: &[&str]) -> Result<ExitCode> {
    let options = parse_args(args)?;
    // 1. Build all mutants into one program, whichever are selected, so that it is reused.
    let mutants = tables(root)?;
    let scratch = scratch(root);
    println!("building {} mutants in one program", mutants.len());
    let program = build::build(root, &scratch, &mutants)?;
    // 2. Without a mutant nothing may be detected. The scenarios are those of the copy, so that the
    //    working tree can be edited meanwhile.
    let scenarios = scratch.join("tree/scenarios");
    let sound = run_mutant(&program, 0, options.seeds, &scenarios)?;
    if sound.simulation.is_some() || !sound.scenarios.is_empty() {
        bail!("a bug is detected without any mutant: {sound:?}");
    }
    // 3. Run the selected mutants on `--jobs` threads.
    let is_selected = |mutant: &Mutant| {
        options.names.is_empty()
            || options.names.iter().any(|name| mutant.name.contains(name.as_str()))
    };
    let chosen: Vec<(usize, &Mutant)> =
        (1..).zip(&mutants).filter(|(_, mutant)| is_selected(mutant)).collect();
    let outcomes = run_mutants(&program, &chosen, &options, &scenarios)?;
    // 4. Report the results.
    let is_whole = chosen.len() == mutants.len();
    let notes = notes::all(root)?;
    let mut complaints = report::unmet_expectations(&outcomes, options.seeds);
    complaints.extend(notes::invalid_notes(&notes, &mutants));
    complaints.extend(notes::contradicted_notes(&notes, &outcomes, is_whole));
    let found = scratch.join("found.tsv");
    fs::write(&found, report::detections(&outcomes))
        .with_context(|| format!("writing {}", found.display()))?;
    println!("wrote all detections to {}", found.display());
    println!("{}", report::summary(&outcomes, options.seeds));
    if options.write && is_whole {
        report::write(root, &outcomes, options.seeds)?;
    }
    for complaint in &complaints {
        println!("{complaint}");
    }
    Ok(if complaints.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Checks that every mutant still applies and compiles, without running any.
pub fn check(root: &Path) -> Result<()> {
    let mutants = tables(root)?;
    // A folder of its own: a run in progress reads its copy of the scenarios.
    build::check(root, &scratch(root).join("check"), &mutants)?;
    println!("{} mutants compile", mutants.len());
    Ok(())
}

/// Returns the folder of the copied sources and their builds.
fn scratch(root: &Path) -> PathBuf {
    let target =
        std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
    target.join("mutants")
}

fn parse_args(args: &[&str]) -> Result<MutantArgs> {
    let mut options = MutantArgs { seeds: SEEDS, jobs: 1, ..MutantArgs::default() };
    let mut words = args.iter();
    while let Some(word) = words.next() {
        let mut number = || -> Result<u64> {
            let text = words.next().with_context(|| format!("{word} requires a number"))?;
            text.parse().with_context(|| format!("{word} requires a number, not `{text}`"))
        };
        match *word {
            "--seeds" => options.seeds = number()?,
            "--jobs" => options.jobs = number()?.clamp(1, 64) as usize,
            "--write" => options.write = true,
            _ if word.starts_with('-') => {
                bail!(
                    "unknown argument {word}\nhint: cargo xtask mutants [NAME…] [--seeds N] [--jobs N] [--write]"
                )
            }
            name => options.names.push(name.to_owned()),
        }
    }
    Ok(options)
}

/// Reads all tables, in order of file and line.
fn tables(root: &Path) -> Result<Vec<Mutant>> {
    let mut mutants: Vec<Mutant> = Vec::new();
    let mut files: Vec<_> =
        fs::read_dir(root.join(TABLES))?.map(|entry| Ok(entry?.path())).collect::<Result<_>>()?;
    files.sort();
    for path in
        files.iter().filter(|path| path.extension().is_some_and(|extension| extension == "txt"))
    {
        let text = fs::read_to_string(path)?;
        mutants.extend(table::parse(&text).with_context(|| path.display().to_string())?);
    }
    let mut names: Vec<&str> = mutants.iter().map(|mutant| mutant.name.as_str()).collect();
    names.sort_unstable();
    match names.windows(2).find(|two| two[0] == two[1]) {
        Some(two) => bail!("two mutants are named {}", two[0]),
        None => Ok(mutants),
    }
}

/// Runs the selected mutants and prints each result.
fn run_mutants<'m>(
    program: &Path,
    chosen: &[(usize, &'m Mutant)],
    options: &MutantArgs,
    scenarios: &Path,
) -> Result<Vec<(&'m Mutant, MutantOutcome)>> {
    let next = AtomicUsize::new(0);
    let done = Mutex::new(BTreeMap::new());
    std::thread::scope(|scope| {
        let work = || {
            while let Some((number, mutant)) = chosen.get(next.fetch_add(1, Ordering::Relaxed)) {
                let outcome = run_mutant(program, *number, options.seeds, scenarios);
                if let Ok(outcome) = &outcome {
                    println!("{}", report::line(mutant, outcome));
                }
                done.lock().expect("no hunt panics").insert(*number, (*mutant, outcome));
            }
        };
        for _ in 0..options.jobs {
            scope.spawn(work);
        }
    });
    let done = done.into_inner().expect("no hunt panics");
    done.into_values().map(|(mutant, outcome)| Ok((mutant, outcome?))).collect()
}

/// Runs simulation and scenarios with one mutant enabled; number 0 is none.
fn run_mutant(
    program: &Path,
    number: usize,
    seeds: u64,
    scenarios: &Path,
) -> Result<MutantOutcome> {
    let ran = Command::new(program)
        .arg(seeds.to_string())
        .arg(scenarios)
        .env("MUSTER_MUTANT", number.to_string())
        .stdin(Stdio::null())
        .output()
        .context("the mutants did not start")?;
    if !ran.status.success() {
        bail!(
            "mutant number {number} ended with {}: {}",
            ran.status,
            String::from_utf8_lossy(&ran.stderr)
        );
    }
    MutantOutcome::read(&String::from_utf8_lossy(&ran.stdout))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A change of the engine's text must also change the mutants of that text.
    #[test]
    fn the_text_of_every_mutant_occurs_exactly_once() {
        let root = crate::root();
        let mutants = tables(&root).unwrap();
        let mut by_file: BTreeMap<&str, Vec<(usize, &Mutant)>> = BTreeMap::new();
        for (number, mutant) in (1..).zip(&mutants) {
            by_file.entry(&mutant.file).or_default().push((number, mutant));
        }
        for (file, mutants) in by_file {
            let text = fs::read_to_string(root.join(file)).unwrap();
            table::apply(&text, &mutants).unwrap();
        }
        assert!(mutants.len() >= 20, "{} mutants", mutants.len());
    }

    /// A scenario must detect a mutant that no other detects, or give the reason for its existence.
    #[test]
    fn every_scenario_names_a_mutant_that_only_it_detects_or_a_related_scenario() {
        let root = crate::root();
        let complaints = notes::invalid_notes(&notes::all(&root).unwrap(), &tables(&root).unwrap());
        assert!(complaints.is_empty(), "{}", complaints.join("\n"));
    }
}
