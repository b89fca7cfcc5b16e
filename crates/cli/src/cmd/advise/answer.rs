//! Serialisation of an answer: whole or selected fields as JSON.

use anyhow::Result;
use clap::ValueEnum;
use muster_model::advice::{Advice, Label, SiteAdvice};
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use serde_json::Value;

/// Advice on one workload or on a site.
#[derive(Clone, Debug, Serialize)]
#[serde(untagged)]
pub enum AdviceAnswer {
    /// Advice on one workload.
    Workload(Box<Advice>),
    /// Advice on a site.
    Site(Box<SiteAdvice>),
}

impl AdviceAnswer {
    /// Returns the part that both kinds have in common.
    pub fn advice(&self) -> &Advice {
        match self {
            AdviceAnswer::Workload(advice) => advice,
            AdviceAnswer::Site(site) => &site.advice,
        }
    }

    /// Returns the answer as a JSON value, to compare.
    pub fn value(&self) -> Result<Value> {
        Ok(serde_json::to_value(self)?)
    }
}

/// Key of the answer, in the order of the JSON output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
#[value(rename_all = "lowercase")]
pub enum AnswerField {
    /// Control plane that is recommended
    Primary,
    /// Add-ons that it needs
    Addon,
    /// Division of the fleet between two control planes
    Hybrid,
    /// Rules that led to the answer
    Rules,
    /// Failure modes of this choice
    Warnings,
    /// Layers of the stack and what each runs on
    Composition,
    /// Changes of facts that change the answer
    Flips,
    /// Points on which the pages disagree for this case
    Disputes,
    /// For a site: one answer to each of its needs
    Asked,
    /// For a site: cost of staying with the products that it operates
    Staying,
    /// For a site: how each kind of its workloads runs
    Workloads,
    /// For a site: how GPUs are shared
    Sharing,
    /// For a site: how notebooks run
    Notebooks,
    /// For a site: what its operation requires
    Operations,
    /// For a site: steps of the first week
    #[value(name = "first-week")]
    FirstWeek,
}

impl AnswerField {
    /// Returns the key in JSON.
    pub fn key(self) -> &'static str {
        match self {
            AnswerField::Primary => "primary",
            AnswerField::Addon => "addon",
            AnswerField::Hybrid => "hybrid",
            AnswerField::Rules => "rules",
            AnswerField::Warnings => "warnings",
            AnswerField::Composition => "composition",
            AnswerField::Flips => "flips",
            AnswerField::Disputes => "disputes",
            AnswerField::Asked => "asked",
            AnswerField::Staying => "staying",
            AnswerField::Workloads => "workloads",
            AnswerField::Sharing => "sharing",
            AnswerField::Notebooks => "notebooks",
            AnswerField::Operations => "operations",
            AnswerField::FirstWeek => "first_week",
        }
    }

    /// Returns whether the field is part of the label.
    pub fn is_of_label(self) -> bool {
        self <= AnswerField::Hybrid
    }
}

/// Selected fields of an answer. They serialise in the order of JSON, independent of the order in
/// which they were requested.
pub struct SelectedFields<'a> {
    label: &'a Label,
    answer: Option<&'a AdviceAnswer>,
    fields: &'a [AnswerField],
}

impl<'a> SelectedFields<'a> {
    /// Selects fields of an answer.
    pub fn of(answer: &'a AdviceAnswer, fields: &'a [AnswerField]) -> Self {
        Self { label: &answer.advice().label, answer: Some(answer), fields }
    }

    /// Selects fields of a label.
    pub fn of_label(label: &'a Label, fields: &'a [AnswerField]) -> Self {
        Self { label, answer: None, fields }
    }
}

impl Serialize for SelectedFields<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        let mut wanted: Vec<AnswerField> = self.fields.to_vec();
        wanted.sort_unstable();
        wanted.dedup();
        let advice = self.answer.map(AdviceAnswer::advice);
        let site = self.answer.and_then(|answer| match answer {
            AdviceAnswer::Workload(_) => None,
            AdviceAnswer::Site(site) => Some(site),
        });
        for field in wanted {
            match field {
                AnswerField::Primary => map.serialize_entry(field.key(), &self.label.primary)?,
                AnswerField::Addon => {
                    some(&mut map, field, Some(&self.label.addon), String::is_empty)?
                }
                AnswerField::Hybrid => {
                    some(&mut map, field, self.label.hybrid.as_ref(), String::is_empty)?
                }
                AnswerField::Rules => {
                    some(&mut map, field, advice.map(|a| &a.rules), Vec::is_empty)?
                }
                AnswerField::Warnings => {
                    some(&mut map, field, advice.map(|a| &a.warnings), Vec::is_empty)?
                }
                AnswerField::Composition => {
                    some(&mut map, field, advice.map(|a| &a.composition), Vec::is_empty)?
                }
                AnswerField::Flips => {
                    some(&mut map, field, advice.map(|a| &a.flips), Vec::is_empty)?
                }
                AnswerField::Disputes => {
                    some(&mut map, field, advice.map(|a| &a.disputes), Vec::is_empty)?
                }
                AnswerField::Asked => some(&mut map, field, site.map(|s| &s.asked), Vec::is_empty)?,
                AnswerField::Staying => {
                    some(&mut map, field, site.map(|s| &s.staying), Vec::is_empty)?
                }
                AnswerField::Workloads => {
                    some(&mut map, field, site.map(|s| &s.workloads), Vec::is_empty)?
                }
                AnswerField::Sharing => {
                    some(&mut map, field, site.map(|s| &s.sharing), Vec::is_empty)?
                }
                AnswerField::Notebooks => {
                    some(&mut map, field, site.map(|s| &s.notebooks), Vec::is_empty)?
                }
                AnswerField::Operations => {
                    some(&mut map, field, site.map(|s| &s.operations), |_| false)?
                }
                AnswerField::FirstWeek => {
                    some(&mut map, field, site.map(|s| &s.first_week), Vec::is_empty)?
                }
            }
        }
        map.end()
    }
}

/// Serialises a field unless it is absent or empty.
fn some<M: SerializeMap, T: Serialize>(
    map: &mut M,
    field: AnswerField,
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
        for answer in [AdviceAnswer::Workload(Box::new(advice)), AdviceAnswer::Site(Box::new(site))]
        {
            let whole = serde_json::to_string(&answer).unwrap();
            let mut all = AnswerField::value_variants().to_vec();
            all.reverse();
            assert_eq!(serde_json::to_string(&SelectedFields::of(&answer, &all)).unwrap(), whole);
        }
    }
}
