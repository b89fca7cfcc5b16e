//! Notes of scenarios on the mutants that they detect: `# mutant:` names those that no other
//! scenario detects, `# beside:` another scenario that detects the same, and the reason for having
//! both. Reads the notes and compares them with the results of a run.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use anyhow::Result;

use super::report::MutantOutcome;
use super::table::Mutant;

/// Notes of one scenario.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ScenarioNote {
    /// Mutants that only this scenario detects.
    pub mutants: Vec<String>,
    /// Scenario that detects the same mutants, and the reason for having both.
    pub beside: Option<(String, String)>,
}

impl ScenarioNote {
    /// Reads the comments of a script.
    pub fn read(script: &str) -> Self {
        let mut note = Self::default();
        for line in script.lines() {
            if let Some(names) = line.strip_prefix("# mutant: ") {
                note.mutants.extend(names.split(", ").map(str::to_owned));
            }
            let other = line.strip_prefix("# beside: ").and_then(|beside| beside.split_once(": "));
            note.beside =
                other.map(|(other, why)| (other.to_owned(), why.to_owned())).or(note.beside.take());
        }
        note
    }
}

/// Reads the notes of all scenarios, by path without extension.
pub fn all(root: &Path) -> Result<BTreeMap<String, ScenarioNote>> {
    let folder = root.join("scenarios");
    let mut notes = BTreeMap::new();
    for topic in fs::read_dir(&folder)? {
        let topic = topic?.path();
        if !topic.is_dir() {
            continue;
        }
        for script in fs::read_dir(&topic)? {
            let path = script?.path();
            let name = path.strip_prefix(&folder)?.with_extension("").display().to_string();
            notes.insert(name, ScenarioNote::read(&fs::read_to_string(&path)?));
        }
    }
    Ok(notes)
}

/// Returns complaints that need no run: scenarios without a note, and notes that name an unknown
/// mutant or scenario.
pub fn invalid_notes(notes: &BTreeMap<String, ScenarioNote>, mutants: &[Mutant]) -> Vec<String> {
    let names: BTreeSet<&str> = mutants.iter().map(|mutant| mutant.name.as_str()).collect();
    let mut complaints = Vec::new();
    for (scenario, note) in notes {
        if note.mutants.is_empty() && note.beside.is_none() {
            complaints.push(format!(
                "{scenario}: has neither `# mutant:` with a mutant that only it detects, nor `# beside:` with another scenario and a reason"
            ));
        }
        let unknown = note.mutants.iter().filter(|mutant| !names.contains(mutant.as_str()));
        complaints.extend(unknown.map(|mutant| format!("{scenario}: unknown mutant {mutant}")));
        if let Some((other, _)) = note
            .beside
            .as_ref()
            .filter(|(other, _)| !notes.contains_key(other) || other == scenario)
        {
            complaints.push(format!(
                "{scenario}: `# beside:` names {other}, which is not another scenario"
            ));
        }
    }
    complaints
}

/// Returns complaints on notes that the results of a run contradict.
pub fn contradicted_notes(
    notes: &BTreeMap<String, ScenarioNote>,
    outcomes: &[(&Mutant, MutantOutcome)],
    is_whole: bool,
) -> Vec<String> {
    let mut complaints = Vec::new();
    for (scenario, note) in notes {
        // 1. Only this scenario must detect the mutants that it names.
        for (mutant, outcome) in
            outcomes.iter().filter(|(mutant, _)| note.mutants.contains(&mutant.name))
        {
            match outcome.only_scenario() {
                Some(only) if only == scenario => {}
                _ if !outcome.scenarios.contains(scenario) => {
                    complaints.push(format!("{scenario}: does not detect mutant {}", mutant.name));
                }
                _ => complaints.push(format!(
                    "{scenario}: mutant {} is also detected by {} others",
                    mutant.name,
                    outcome.scenarios.len() - 1
                )),
            }
        }
        // 2. A related scenario must detect at least one of the same mutants.
        let both = |other: &String| {
            let is_detected = |outcome: &MutantOutcome| {
                outcome.scenarios.contains(scenario) && outcome.scenarios.contains(other)
            };
            outcomes.iter().any(|(_, outcome)| is_detected(outcome))
        };
        if let Some((other, _)) = note.beside.as_ref().filter(|(other, _)| is_whole && !both(other))
        {
            complaints.push(format!(
                "{scenario}: `# beside:` names {other}, but no mutant is detected by both"
            ));
        }
    }
    complaints
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mutant(name: &str) -> Mutant {
        Mutant { name: name.to_owned(), ..Mutant::default() }
    }

    fn found(scenarios: &[&str]) -> MutantOutcome {
        MutantOutcome {
            scenarios: scenarios.iter().map(|name| (*name).to_owned()).collect(),
            ..MutantOutcome::default()
        }
    }

    /// Returns the notes of scripts by name.
    fn notes(scripts: &[(&str, &str)]) -> BTreeMap<String, ScenarioNote> {
        scripts
            .iter()
            .map(|(name, script)| ((*name).to_owned(), ScenarioNote::read(script)))
            .collect()
    }

    #[test]
    fn every_scenario_has_a_note_and_what_it_names_is_there() {
        let check = |script: &str, expected: &[&str]| {
            let notes = notes(&[("a/one", script), ("a/two", "# beside: a/one: it is shorter\n")]);
            let found = invalid_notes(&notes, &[mutant("off-by-one")]);
            assert_eq!(found.len(), expected.len(), "{found:?}");
            let matches = found.iter().zip(expected).all(|(text, part)| text.contains(part));
            assert!(matches, "{found:?}");
        };
        check("# mutant: off-by-one\n", &[]);
        check("# beside: a/two: it is longer\n", &[]);
        check("# It shows something.\n", &["neither `# mutant:`"]);
        check("# beside: because\n", &["neither `# mutant:`"]);
        check("# mutant: off-by-one, off-by-two\n", &["unknown mutant off-by-two"]);
        check("# beside: a/three: it is longer\n", &["a/three, which is not another"]);
        check("# beside: a/one: it is longer\n", &["a/one, which is not another"]);
    }

    #[test]
    fn a_run_contradicts_wrong_notes() {
        let check = |outcome: MutantOutcome, expected: &[&str]| {
            let notes = notes(&[("a/one", "# mutant: m\n"), ("a/two", "# beside: a/one: why\n")]);
            let first = mutant("m");
            let second = mutant("n");
            let complaints = contradicted_notes(
                &notes,
                &[(&first, outcome), (&second, found(&["a/one", "a/two"]))],
                true,
            );
            assert_eq!(complaints, expected);
        };
        check(found(&["a/one"]), &[]);
        check(found(&["a/one", "a/two"]), &["a/one: mutant m is also detected by 1 others"]);
        check(found(&[]), &["a/one: does not detect mutant m"]);
        let cut = MutantOutcome { is_incomplete: true, ..found(&["a/one"]) };
        check(cut, &["a/one: mutant m is also detected by 0 others"]);
        let notes = notes(&[("a/one", "# beside: a/two: why\n")]);
        let m = mutant("m");
        let complaints = contradicted_notes(&notes, &[(&m, found(&["a/one"]))], true);
        let expected = "a/one: `# beside:` names a/two, but no mutant is detected by both";
        assert_eq!(complaints, [expected]);
    }
}
