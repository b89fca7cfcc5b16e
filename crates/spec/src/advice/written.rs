//! Facts and thresholds that a document sets, with their source positions. Which of them a document
//! of each kind may set is checked elsewhere.

use std::collections::BTreeMap;

use muster_model::advice::{Fact, Facts, Threshold, Thresholds};
use schemars::{Schema, SchemaGenerator};

use crate::advice::{names, value};
use crate::diagnostic::{Problem, Problems};
use crate::field::{Field, entries, object_schema};
use crate::source::Place;
use crate::yaml::{Node, YamlEntry};

/// Facts with their places.
#[derive(Clone, Debug, Default)]
pub(crate) struct Written {
    /// Values, including those of facts that are not given.
    pub(super) facts: Facts,
    spots: BTreeMap<Fact, Spot>,
}

/// Places of a fact's key and value.
#[derive(Clone, Copy, Debug)]
pub(super) struct Spot {
    pub(super) key: Place,
    pub(super) value: Place,
}

impl Written {
    /// Returns the facts given in the text, in the order of facts.
    pub(super) fn given(&self) -> impl Iterator<Item = Fact> + '_ {
        self.spots.keys().copied()
    }

    /// Returns the place of a fact; `None` if it is not given.
    pub(super) fn spot(&self, fact: Fact) -> Option<Spot> {
        self.spots.get(&fact).copied()
    }

    /// Returns true if the text itself sets a flag to false.
    pub(super) fn denies(&self, fact: Fact) -> bool {
        self.spots.contains_key(&fact) && !self.facts.is(fact)
    }

    /// Sets a fact and the position that it was read from.
    pub(super) fn set(&mut self, fact: Fact, stored: u32, spot: Spot) {
        self.facts.set(fact, stored);
        self.spots.insert(fact, spot);
    }

    /// Reads and sets the value of a fact. `name` is the fact's, for messages.
    pub(super) fn read(
        &mut self,
        fact: Fact,
        name: &str,
        entry: &YamlEntry,
        problems: &mut Problems,
    ) {
        if let Some(first) = self.spots.get(&fact) {
            problems.add(twice(name, entry.key_place, first.key));
            return;
        }
        // A refused value counts as given: problems about its absence would only be consequences.
        let stored =
            value::read(&entry.node, name, fact.kind(), problems).unwrap_or(fact.default());
        self.set(fact, stored, Spot { key: entry.key_place, value: entry.node.place });
    }
}

/// The thresholds of rules that a text sets.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Rules(pub(super) Thresholds);

impl Rules {
    /// Reads `rules:`. Only thresholds for which `matters` returns true may be set; `elsewhere`
    /// says where the others belong.
    pub(super) fn read(
        node: &Node,
        matters: fn(Threshold) -> bool,
        elsewhere: &str,
        problems: &mut Problems,
    ) -> Option<Self> {
        let mut thresholds = Thresholds::default();
        let mut seen: BTreeMap<Threshold, Place> = BTreeMap::new();
        for entry in entries(node, "rules", problems)? {
            let found =
                Threshold::ALL.iter().find(|threshold| names::same(threshold.name(), &entry.key));
            let Some(threshold) = found.copied() else {
                let known = Threshold::ALL.iter().filter(|threshold| matters(**threshold));
                let known: Vec<&str> = known.map(|threshold| threshold.name()).collect();
                problems.add(names::unknown_rule(entry, &known));
                continue;
            };
            let name = format!("rules.{}", threshold.name());
            if !matters(threshold) {
                let problem = Problem::new(format!("`{name}` changes nothing here"));
                problems.add(
                    problem
                        .at(entry.key_place, format!("it is compared with `{}`", threshold.fact()))
                        .hint(elsewhere.to_owned()),
                );
            } else if let Some(first) = seen.insert(threshold, entry.key_place) {
                problems.add(twice(&name, entry.key_place, first));
            } else if let Some(stored) =
                value::read(&entry.node, &name, threshold.fact().kind(), problems)
            {
                thresholds.set(threshold, stored);
            }
        }
        Some(Self(thresholds))
    }

    /// Returns the JSON Schema of `rules:`.
    pub(super) fn schema(matters: fn(Threshold) -> bool) -> Schema {
        let fields =
            Threshold::ALL.iter().filter(|threshold| matters(**threshold)).map(|threshold| {
                let mut schema = value::schema(threshold.fact().kind());
                let default = threshold.fact().value(threshold.default());
                schema.insert("default".to_owned(), serde_json::json!(default));
                let description =
                    format!("{}. {default} by default.", sentence(threshold.meaning()));
                (threshold.name(), description, schema)
            });
        object_schema("Numbers in rules that this site sets differently.", fields, &[])
    }
}

/// Facts of one workload, as a mapping of their own.
#[derive(Clone, Debug, Default)]
pub(crate) struct WorkloadFacts(pub(super) Written);

impl WorkloadFacts {
    /// Reads one entry; returns false if it is none of these facts.
    pub(super) fn take(&mut self, entry: &YamlEntry, problems: &mut Problems) -> bool {
        let fact = Fact::WORKLOAD.iter().find(|fact| names::same(fact.name(), &entry.key));
        if let Some(fact) = fact {
            self.0.read(*fact, fact.name(), entry, problems);
        }
        fact.is_some()
    }

    /// Returns the names of these facts.
    pub(super) fn names() -> Vec<&'static str> {
        Fact::WORKLOAD.iter().map(|fact| fact.name()).collect()
    }

    /// Returns their fields in a schema.
    pub(super) fn fields() -> impl Iterator<Item = (&'static str, String, Schema)> {
        Fact::WORKLOAD.iter().map(|fact| (fact.name(), describe(*fact), value::schema(fact.kind())))
    }
}

impl Field for WorkloadFacts {
    fn read(node: &Node, name: &str, problems: &mut Problems) -> Option<Self> {
        let before = problems.len();
        let mut facts = Self::default();
        for entry in entries(node, name, problems)? {
            if !facts.take(entry, problems) {
                problems.add(names::unknown_fact(entry, &Self::names(), &[]));
            }
        }
        (problems.len() == before).then_some(facts)
    }
}

impl schemars::JsonSchema for WorkloadFacts {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "workload".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        object_schema(
            "Facts of one workload. A fact that is not given is false; `nodes` is 1.",
            Self::fields(),
            &[],
        )
    }
}

/// Returns the description of a fact: its question, the allowed values, and its default.
pub(super) fn describe(fact: Fact) -> String {
    let question = question(fact);
    let default = fact.value(fact.default());
    format!("{}; {default} by default.", question.trim_end_matches('.'))
}

/// Returns the question of a fact, and the allowed values.
pub(super) fn question(fact: Fact) -> String {
    format!("{} {}.", sentence(fact.question()), sentence(&value::expected(fact.kind())))
}

fn sentence(fragment: &str) -> String {
    let mut letters = fragment.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

fn twice(name: &str, again: Place, first: Place) -> Problem {
    Problem::new(format!("`{name}` is written twice"))
        .at(again, "again here")
        .also(first, "first here")
}
