//! What every scenario says of the mutants that it notices: `# mutant:` names those that no other
//! scenario notices, `# beside:` another scenario that notices the same, and why this one stands
//! beside it. Reads, and holds both against what a run found; it must not know how a mutant is
//! found.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use anyhow::Result;

use super::report::Outcome;
use super::table::Mutant;

/// What a scenario says of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Note {
    /// Mutants that it notices and no other does.
    pub mutants: Vec<String>,
    /// The scenario that it stands beside, and why.
    pub beside: Option<(String, String)>,
}

impl Note {
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

/// Every scenario's note, by its path without the ending.
pub fn all(root: &Path) -> Result<BTreeMap<String, Note>> {
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
            notes.insert(name, Note::read(&fs::read_to_string(&path)?));
        }
    }
    Ok(notes)
}

/// What can be said of notes without a run: each scenario has one, and what it names is there.
pub fn unfounded(notes: &BTreeMap<String, Note>, mutants: &[Mutant]) -> Vec<String> {
    let names: BTreeSet<&str> = mutants.iter().map(|mutant| mutant.name.as_str()).collect();
    let mut complaints = Vec::new();
    for (scenario, note) in notes {
        if note.mutants.is_empty() && note.beside.is_none() {
            complaints.push(format!(
                "{scenario}: neither `# mutant:` names what it alone notices, nor `# beside:` another scenario and why it stands beside it"
            ));
        }
        let unknown = note.mutants.iter().filter(|mutant| !names.contains(mutant.as_str()));
        complaints
            .extend(unknown.map(|mutant| format!("{scenario}: no table has mutant {mutant}")));
        if let Some((other, _)) = note
            .beside
            .as_ref()
            .filter(|(other, _)| !notes.contains_key(other) || other == scenario)
        {
            complaints
                .push(format!("{scenario}: stands beside {other}, which is no other scenario"));
        }
    }
    complaints
}

/// What a run refutes.
pub fn refuted(
    notes: &BTreeMap<String, Note>,
    outcomes: &[(&Mutant, Outcome)],
    is_whole: bool,
) -> Vec<String> {
    let mut complaints = Vec::new();
    for (scenario, note) in notes {
        // 1. What it names, it notices, and nobody else does.
        for (mutant, outcome) in
            outcomes.iter().filter(|(mutant, _)| note.mutants.contains(&mutant.name))
        {
            match outcome.alone() {
                Some(only) if only == scenario => {}
                _ if !outcome.scenarios.contains(scenario) => {
                    complaints.push(format!("{scenario}: does not notice mutant {}", mutant.name));
                }
                _ => complaints.push(format!(
                    "{scenario}: mutant {} is noticed by {} others as well",
                    mutant.name,
                    outcome.scenarios.len() - 1
                )),
            }
        }
        // 2. Whom it stands beside notices something that it notices, too.
        let both = |other: &String| {
            let noticed = |outcome: &Outcome| {
                outcome.scenarios.contains(scenario) && outcome.scenarios.contains(other)
            };
            outcomes.iter().any(|(_, outcome)| noticed(outcome))
        };
        if let Some((other, _)) = note.beside.as_ref().filter(|(other, _)| is_whole && !both(other))
        {
            complaints.push(format!(
                "{scenario}: stands beside {other}, and no mutant is noticed by both"
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

    fn found(scenarios: &[&str]) -> Outcome {
        Outcome {
            scenarios: scenarios.iter().map(|name| (*name).to_owned()).collect(),
            ..Outcome::default()
        }
    }

    /// The notes of scripts by name.
    fn notes(scripts: &[(&str, &str)]) -> BTreeMap<String, Note> {
        scripts.iter().map(|(name, script)| ((*name).to_owned(), Note::read(script))).collect()
    }

    #[test]
    fn every_scenario_has_a_note_and_what_it_names_is_there() {
        let check = |script: &str, expected: &[&str]| {
            let notes = notes(&[("a/one", script), ("a/two", "# beside: a/one: it is shorter\n")]);
            let told = unfounded(&notes, &[mutant("off-by-one")]);
            assert_eq!(told.len(), expected.len(), "{told:?}");
            assert!(told.iter().zip(expected).all(|(told, part)| told.contains(part)), "{told:?}");
        };
        check("# mutant: off-by-one\n", &[]);
        check("# beside: a/two: it is longer\n", &[]);
        check("# It shows something.\n", &["neither `# mutant:`"]);
        check("# beside: because\n", &["neither `# mutant:`"]);
        check("# mutant: off-by-one, off-by-two\n", &["no table has mutant off-by-two"]);
        check("# beside: a/three: it is longer\n", &["a/three, which is no other"]);
        check("# beside: a/one: it is longer\n", &["a/one, which is no other"]);
    }

    #[test]
    fn a_run_refutes_what_is_not_so() {
        let check = |outcome: Outcome, expected: &[&str]| {
            let notes = notes(&[("a/one", "# mutant: m\n"), ("a/two", "# beside: a/one: why\n")]);
            let (mutant, other) = (mutant("m"), mutant("n"));
            let told =
                refuted(&notes, &[(&mutant, outcome), (&other, found(&["a/one", "a/two"]))], true);
            assert_eq!(told, expected);
        };
        check(found(&["a/one"]), &[]);
        check(found(&["a/one", "a/two"]), &["a/one: mutant m is noticed by 1 others as well"]);
        check(found(&[]), &["a/one: does not notice mutant m"]);
        let cut = Outcome { is_cut: true, ..found(&["a/one"]) };
        check(cut, &["a/one: mutant m is noticed by 0 others as well"]);
        let (notes, m) = (notes(&[("a/one", "# beside: a/two: why\n")]), mutant("m"));
        let told = refuted(&notes, &[(&m, found(&["a/one"]))], true);
        assert_eq!(told, ["a/one: stands beside a/two, and no mutant is noticed by both"]);
    }
}
