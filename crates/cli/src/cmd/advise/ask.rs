//! `--ask`: asks for the facts of a workload one by one. `questions` selects the next question.

use std::io;

use anyhow::Result;
use muster_model::advice::{ControlPlane, Fact, FactKind, FactValue, Ruleset};

use super::dialogue::{InterviewEnd, Typed, prompt, read_answer};
use super::questions::Questions;
use crate::app::App;
use crate::facts::{RuleArgs, Workload, parse_value};

/// Asks for the facts that can still change the label, and sets them.
pub fn interview(app: &App, workload: &mut Workload, rules: &RuleArgs) -> Result<InterviewEnd> {
    let thresholds = workload.thresholds;
    let questions = Questions { thresholds: &thresholds, ruleset: rules.ruleset() };
    let mut open: Vec<Fact> =
        Fact::WORKLOAD.iter().copied().filter(|fact| !workload.given.contains(fact)).collect();
    app.ui.status("Enter takes the default, in brackets or capitals; ? explains, q quits");
    let mut input = io::stdin().lock();
    while let Some(fact) = questions.next(&workload.facts, &open) {
        app.ui.prompt(&prompt(fact));
        match read_answer(&mut input, fact, parse_value, false)? {
            Typed::Value(value) => {
                workload.set_given(fact, value);
                open.retain(|other| *other != fact);
            }
            Typed::Help => app.ui.status(&explain(fact, &questions, workload, &open)),
            Typed::Wrong(why) => app.ui.status(&format!("  {why}")),
            Typed::Quit => return Ok(InterviewEnd::Left),
        }
    }
    if !open.is_empty() {
        let names: Vec<&str> = open.iter().map(|fact| fact.name()).collect();
        app.ui
            .status(&format!("not asked, as they do not change the answer: {}", names.join(", ")));
    }
    Ok(InterviewEnd::Answered)
}

/// Returns the options that give the same facts without questions.
pub fn as_options(workload: &Workload, ruleset: Ruleset) -> String {
    let said = workload.given.iter().filter(|fact| workload.facts.get(**fact) != fact.default());
    let mut words: Vec<String> =
        said.map(|fact| option(*fact, workload.facts.value(*fact))).collect();
    if words.is_empty() {
        // Without any fact the command would ask again.
        words.push(option(Fact::Nodes, workload.facts.value(Fact::Nodes)));
    }
    for threshold in workload.thresholds.overridden() {
        words.push(format!("--rule {}={}", threshold.name(), workload.thresholds.value(threshold)));
    }
    if ruleset == Ruleset::Guide {
        words.push("--ruleset guide".to_owned());
    }
    words.join(" ")
}

fn option(fact: Fact, value: FactValue) -> String {
    let name = fact.name().replace('_', "-");
    match value {
        FactValue::Flag(true) => format!("--{name}"),
        FactValue::Flag(false) => format!("--{name}=false"),
        FactValue::Count(_) | FactValue::Hundredths(_) => format!("--{name} {value}"),
    }
}

/// Explains a fact: its option, and the control planes that each answer can lead to.
fn explain(fact: Fact, questions: &Questions<'_>, workload: &Workload, open: &[Fact]) -> String {
    let others: Vec<Fact> = open.iter().copied().filter(|other| *other != fact).collect();
    let leads = |values: &[u32]| {
        let mut planes: Vec<ControlPlane> = Vec::new();
        for value in values {
            planes.extend(questions.reachable(&workload.facts.with(fact, *value), &others));
        }
        planes.sort_unstable();
        planes.dedup();
        let names: Vec<&str> = planes.iter().map(|plane| plane.name()).collect();
        match names.as_slice() {
            [others @ .., last] if !others.is_empty() => format!("{} or {last}", others.join(", ")),
            names => names.concat(),
        }
    };
    match fact.kind() {
        FactKind::Flag => {
            let option = option(fact, FactValue::Flag(true));
            format!(
                "  on the command line: {option}\n  with yes the answer can be {}; with no {}",
                leads(&[1]),
                leads(&[0])
            )
        }
        FactKind::Count { .. } | FactKind::Hundredths { .. } => {
            let values = questions.values(fact);
            let (least, more) = values.split_at(1);
            let option = option(fact, fact.value(least[0]));
            let smallest = fact.value(least[0]);
            format!(
                "  on the command line: {option}\n  with {smallest} the answer can be {}; with more {}",
                leads(least),
                leads(more)
            )
        }
    }
}
