//! `--ask`: questions one by one on stderr, answers from stdin. Which question is worth asking is
//! decided in `questions`.

use std::io::{self, BufRead};

use anyhow::Result;
use muster_model::advice::{Fact, Kind, Plane, Ruleset, Value};

use super::questions::Questions;
use crate::app::App;
use crate::facts::{RuleArgs, Workload, stored};

/// What an interview came to.
pub enum End {
    /// Everything that matters is known.
    Answered,
    /// The person left.
    Left,
}

/// What was typed.
enum Typed {
    Value(u32),
    Help,
    Quit,
    Wrong(String),
}

/// Asks what can still change the label, and sets the answers.
pub fn interview(app: &App, workload: &mut Workload, rules: &RuleArgs) -> Result<End> {
    let thresholds = workload.thresholds;
    let questions = Questions { thresholds: &thresholds, ruleset: rules.ruleset() };
    let mut open: Vec<Fact> =
        Fact::WORKLOAD.iter().copied().filter(|fact| !workload.given.contains(fact)).collect();
    app.ui.status("Enter takes what is in brackets or in capitals; ? explains, q ends");
    let mut input = io::stdin().lock();
    while let Some(fact) = questions.next(&workload.facts, &open) {
        app.ui.prompt(&prompt(fact));
        match typed(&mut input, fact)? {
            Typed::Value(value) => {
                workload.give(fact, value);
                open.retain(|other| *other != fact);
            }
            Typed::Help => app.ui.status(&explained(fact, &questions, workload, &open)),
            Typed::Wrong(why) => app.ui.status(&format!("  {why}")),
            Typed::Quit => return Ok(End::Left),
        }
    }
    if !open.is_empty() {
        let names: Vec<&str> = open.iter().map(|fact| fact.name()).collect();
        app.ui
            .status(&format!("not asked, the label is the same either way: {}", names.join(", ")));
    }
    Ok(End::Answered)
}

/// The options that say the same again.
pub fn as_options(workload: &Workload, ruleset: Ruleset) -> String {
    let said = workload.given.iter().filter(|fact| workload.facts.get(**fact) != fact.default());
    let mut words: Vec<String> =
        said.map(|fact| option(*fact, workload.facts.value(*fact))).collect();
    if words.is_empty() {
        // Without any fact there would be questions again.
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

fn option(fact: Fact, value: Value) -> String {
    let name = fact.name().replace('_', "-");
    match value {
        Value::Flag(true) => format!("--{name}"),
        Value::Flag(false) => format!("--{name}=false"),
        Value::Count(_) | Value::Hundredths(_) => format!("--{name} {value}"),
    }
}

/// The question, and what Enter answers.
fn prompt(fact: Fact) -> String {
    match fact.kind() {
        Kind::Flag => format!("{} [y/N] ", fact.question()),
        Kind::Count { .. } | Kind::Hundredths { .. } => {
            format!("{} [{}] ", fact.question(), fact.value(fact.default()))
        }
    }
}

fn typed(input: &mut impl BufRead, fact: Fact) -> io::Result<Typed> {
    let mut line = String::new();
    match input.read_line(&mut line) {
        Ok(0) => return Ok(Typed::Quit),
        Ok(_) => {}
        Err(error) if error.kind() == io::ErrorKind::InvalidData => {
            return Ok(Typed::Wrong("this is not text".to_owned()));
        }
        Err(error) => return Err(error),
    }
    let word = line.trim();
    let lower = word.to_lowercase();
    Ok(match (lower.as_str(), fact.kind()) {
        ("", _) => Typed::Value(fact.default()),
        ("?" | "h" | "help", _) => Typed::Help,
        ("q" | "quit" | "exit", _) => Typed::Quit,
        ("y" | "yes" | "true", Kind::Flag) => Typed::Value(1),
        ("n" | "no" | "false", Kind::Flag) => Typed::Value(0),
        (_, Kind::Flag) => Typed::Wrong("y or n".to_owned()),
        _ => match stored(fact, word) {
            Ok(value) => Typed::Value(value),
            Err(failure) => Typed::Wrong(failure.message),
        },
    })
}

/// What a fact is called, and where each answer can lead.
fn explained(fact: Fact, questions: &Questions<'_>, workload: &Workload, open: &[Fact]) -> String {
    let others: Vec<Fact> = open.iter().copied().filter(|other| *other != fact).collect();
    let leads = |values: &[u32]| {
        let mut planes: Vec<Plane> = Vec::new();
        for value in values {
            planes.extend(questions.reachable(&workload.facts.with(fact, *value), &others));
        }
        planes.sort_unstable();
        planes.dedup();
        planes.iter().map(|plane| plane.name()).collect::<Vec<_>>().join(", ")
    };
    match fact.kind() {
        Kind::Flag => {
            let option = option(fact, Value::Flag(true));
            format!(
                "  {fact}, as an option {option}\n  yes can lead to {}; no to {}",
                leads(&[1]),
                leads(&[0])
            )
        }
        Kind::Count { .. } | Kind::Hundredths { .. } => {
            let values = questions.values(fact);
            let (least, more) = values.split_at(1);
            let (option, smallest) = (option(fact, fact.value(least[0])), fact.value(least[0]));
            format!(
                "  {fact}, as an option {option}\n  {smallest} can lead to {}; more to {}",
                leads(least),
                leads(more)
            )
        }
    }
}
