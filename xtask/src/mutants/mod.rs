//! `cargo xtask mutants`: are bugs found? Puts each deliberate bug of `xtask/mutants/` into a copy
//! of the engine, plays stories and scenarios on it, and compares what finds it with what is
//! promised. Fails where a promise is not kept, and where a text to be changed is no longer there.

mod build;
mod notes;
mod report;
mod table;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::{Context, Result, bail};

use report::Outcome;
use table::Mutant;

/// Stories that are played for a mutant before it counts as missed by them.
const SEEDS: u64 = 300;
/// Where the tables are.
const TABLES: &str = "xtask/mutants";

/// What was asked for.
#[derive(Default)]
struct Asked {
    /// Parts of names; all when empty.
    names: Vec<String>,
    seeds: u64,
    jobs: usize,
    write: bool,
}

/// Runs all mutants, or those whose name holds a word.
pub fn run(root: &Path, args: &[&str]) -> Result<ExitCode> {
    let asked = asked(args)?;
    // 1. All mutants are built in, so that which are asked for changes nothing.
    let mutants = tables(root)?;
    let target =
        std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), Into::into);
    println!("building {} mutants in one program", mutants.len());
    let scratch = target.join("mutants");
    let program = build::build(root, &scratch, &mutants)?;
    // 2. Without any, nothing may be found. The scenarios are those of the copy: who works on goes
    //    on working.
    let scenarios = scratch.join("tree/scenarios");
    let sound = hunt(&program, 0, asked.seeds, &scenarios)?;
    if sound.story.is_some() || !sound.scenarios.is_empty() {
        bail!("without a mutant something is found already: {sound:?}");
    }
    // 3. One after the other, on as many threads as asked for.
    let is_asked = |mutant: &Mutant| {
        asked.names.is_empty() || asked.names.iter().any(|name| mutant.name.contains(name.as_str()))
    };
    let chosen: Vec<(usize, &Mutant)> =
        (1..).zip(&mutants).filter(|(_, mutant)| is_asked(mutant)).collect();
    let outcomes = hunt_all(&program, &chosen, &asked, &scenarios)?;
    // 4. What came of it.
    let is_whole = chosen.len() == mutants.len();
    let notes = notes::all(root)?;
    let mut complaints = report::broken(&outcomes, asked.seeds);
    complaints.extend(notes::unfounded(&notes, &mutants));
    complaints.extend(notes::refuted(&notes, &outcomes, is_whole));
    let found = scratch.join("found.tsv");
    fs::write(&found, report::found(&outcomes))
        .with_context(|| format!("writing {}", found.display()))?;
    println!("what found what stands in {}", found.display());
    println!("{}", report::summary(&outcomes, asked.seeds));
    if asked.write && is_whole {
        report::write(root, &outcomes, asked.seeds)?;
    }
    for complaint in &complaints {
        println!("{complaint}");
    }
    Ok(if complaints.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn asked(args: &[&str]) -> Result<Asked> {
    let mut asked = Asked { seeds: SEEDS, jobs: 1, ..Asked::default() };
    let mut words = args.iter();
    while let Some(word) = words.next() {
        let mut number = || -> Result<u64> {
            let text = words.next().with_context(|| format!("{word} wants a number"))?;
            text.parse().with_context(|| format!("{word} wants a number, not `{text}`"))
        };
        match *word {
            "--seeds" => asked.seeds = number()?,
            "--jobs" => asked.jobs = number()?.clamp(1, 64) as usize,
            "--write" => asked.write = true,
            _ if word.starts_with('-') => {
                bail!(
                    "unknown argument {word}\nhint: cargo xtask mutants [NAME…] [--seeds N] [--jobs N] [--write]"
                )
            }
            name => asked.names.push(name.to_owned()),
        }
    }
    Ok(asked)
}

/// All tables, in order of file and line.
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

/// Runs the chosen ones and tells of each as it ends.
fn hunt_all<'m>(
    program: &Path,
    chosen: &[(usize, &'m Mutant)],
    asked: &Asked,
    scenarios: &Path,
) -> Result<Vec<(&'m Mutant, Outcome)>> {
    let (next, done) = (AtomicUsize::new(0), Mutex::new(BTreeMap::new()));
    std::thread::scope(|scope| {
        let work = || {
            while let Some((number, mutant)) = chosen.get(next.fetch_add(1, Ordering::Relaxed)) {
                let outcome = hunt(program, *number, asked.seeds, scenarios);
                if let Ok(outcome) = &outcome {
                    println!("{}", report::line(mutant, outcome));
                }
                done.lock().expect("no hunt panics").insert(*number, (*mutant, outcome));
            }
        };
        for _ in 0..asked.jobs {
            scope.spawn(work);
        }
    });
    let done = done.into_inner().expect("no hunt panics");
    done.into_values().map(|(mutant, outcome)| Ok((mutant, outcome?))).collect()
}

/// Plays everything with one mutant on.
fn hunt(program: &Path, number: usize, seeds: u64, scenarios: &Path) -> Result<Outcome> {
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
    Outcome::read(&String::from_utf8_lossy(&ran.stdout))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What changes the engine's text must change the mutant's, or nobody knows any more whether
    /// bugs are found.
    #[test]
    fn every_mutant_still_finds_its_text_exactly_once() {
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

    /// A scenario that nothing can fail is a picture; one that notices what others do costs a
    /// reader's time, and says why.
    #[test]
    fn every_scenario_says_what_it_alone_notices_or_beside_whom_it_stands() {
        let root = crate::root();
        let told = notes::unfounded(&notes::all(&root).unwrap(), &tables(&root).unwrap());
        assert!(told.is_empty(), "{}", told.join("\n"));
    }
}
