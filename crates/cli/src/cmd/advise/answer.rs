//! What an answer is printed as: text, JSON, chosen fields, a flow chart. Nothing here decides.

use anyhow::Result;
use clap::ValueEnum;
use muster_model::advice::{Advice, Label, SiteAdvice};
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use serde_json::Value;

/// Advice on one workload or on a site.
#[derive(Clone, Debug, Serialize)]
#[serde(untagged)]
pub enum Answer {
    /// On one workload.
    Workload(Box<Advice>),
    /// On a site.
    Site(Box<SiteAdvice>),
}

impl Answer {
    /// What both have.
    pub fn advice(&self) -> &Advice {
        match self {
            Answer::Workload(advice) => advice,
            Answer::Site(site) => &site.advice,
        }
    }

    /// As JSON, to compare.
    pub fn value(&self) -> Result<Value> {
        Ok(serde_json::to_value(self)?)
    }
}

/// A key of the answer, in the order of JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
#[value(rename_all = "lowercase")]
pub enum Field {
    /// The control plane
    Primary,
    /// What must stand on or beside it
    Addon,
    /// How the fleet is split
    Hybrid,
    /// Rules that fired
    Rules,
    /// Failure modes that this choice invites
    Warnings,
    /// What rides on what
    Composition,
    /// Changes of facts that change the answer
    Flips,
    /// Where the pages disagree on this case
    Disputes,
    /// Of a site: how each kind of its work runs
    Workloads,
    /// Of a site: how GPUs are shared
    Sharing,
    /// Of a site: how notebooks run
    Notebooks,
    /// Of a site: what it takes to run
    Operations,
}

impl Field {
    /// The key in JSON.
    pub fn key(self) -> &'static str {
        match self {
            Field::Primary => "primary",
            Field::Addon => "addon",
            Field::Hybrid => "hybrid",
            Field::Rules => "rules",
            Field::Warnings => "warnings",
            Field::Composition => "composition",
            Field::Flips => "flips",
            Field::Disputes => "disputes",
            Field::Workloads => "workloads",
            Field::Sharing => "sharing",
            Field::Notebooks => "notebooks",
            Field::Operations => "operations",
        }
    }

    /// Whether the label alone has it.
    pub fn is_of_label(self) -> bool {
        self <= Field::Hybrid
    }
}

/// Some fields of an answer, in the order of JSON, whatever the order they were asked for in.
pub struct Picked<'a> {
    label: &'a Label,
    answer: Option<&'a Answer>,
    fields: &'a [Field],
}

impl<'a> Picked<'a> {
    /// Fields of an answer.
    pub fn of(answer: &'a Answer, fields: &'a [Field]) -> Self {
        Self { label: &answer.advice().label, answer: Some(answer), fields }
    }

    /// Fields of a label.
    pub fn of_label(label: &'a Label, fields: &'a [Field]) -> Self {
        Self { label, answer: None, fields }
    }
}

impl Serialize for Picked<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        let mut wanted: Vec<Field> = self.fields.to_vec();
        wanted.sort_unstable();
        wanted.dedup();
        let advice = self.answer.map(Answer::advice);
        let site = self.answer.and_then(|answer| match answer {
            Answer::Workload(_) => None,
            Answer::Site(site) => Some(site),
        });
        for field in wanted {
            match field {
                Field::Primary => map.serialize_entry(field.key(), &self.label.primary)?,
                Field::Addon => some(&mut map, field, Some(&self.label.addon), String::is_empty)?,
                Field::Hybrid => {
                    some(&mut map, field, self.label.hybrid.as_ref(), String::is_empty)?
                }
                Field::Rules => some(&mut map, field, advice.map(|a| &a.rules), Vec::is_empty)?,
                Field::Warnings => {
                    some(&mut map, field, advice.map(|a| &a.warnings), Vec::is_empty)?
                }
                Field::Composition => {
                    some(&mut map, field, advice.map(|a| &a.composition), Vec::is_empty)?
                }
                Field::Flips => some(&mut map, field, advice.map(|a| &a.flips), Vec::is_empty)?,
                Field::Disputes => {
                    some(&mut map, field, advice.map(|a| &a.disputes), Vec::is_empty)?
                }
                Field::Workloads => {
                    some(&mut map, field, site.map(|s| &s.workloads), Vec::is_empty)?
                }
                Field::Sharing => some(&mut map, field, site.map(|s| &s.sharing), Vec::is_empty)?,
                Field::Notebooks => {
                    some(&mut map, field, site.map(|s| &s.notebooks), Vec::is_empty)?
                }
                Field::Operations => some(&mut map, field, site.map(|s| &s.operations), |_| false)?,
            }
        }
        map.end()
    }
}

/// Writes what is there and not empty.
fn some<M: SerializeMap, T: Serialize>(
    map: &mut M,
    field: Field,
    value: Option<&T>,
    is_empty: impl Fn(&T) -> bool,
) -> Result<(), M::Error> {
    match value.filter(|value| !is_empty(value)) {
        Some(value) => map.serialize_entry(field.key(), value),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use muster_model::advice::{Fact, Facts, Ruleset, SiteProfile, Thresholds};

    use super::*;

    #[test]
    fn all_fields_together_are_the_whole_answer() {
        let facts = Facts::default().with(Fact::Nodes, 4).with(Fact::TightlyCoupled, 1);
        let advice = muster_advise::advise(&facts, &Thresholds::default(), Ruleset::Corrected);
        let site = muster_advise::advise_site(&SiteProfile::default(), Ruleset::Corrected);
        for answer in [Answer::Workload(Box::new(advice)), Answer::Site(Box::new(site))] {
            let whole = serde_json::to_string(&answer).unwrap();
            let mut all = Field::value_variants().to_vec();
            all.reverse();
            assert_eq!(serde_json::to_string(&Picked::of(&answer, &all)).unwrap(), whole);
        }
    }
}
