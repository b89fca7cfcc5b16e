//! Questions on stderr, and their answers from stdin.

use std::io::{self, BufRead};

use muster_model::advice::{Fact, FactKind};

use crate::exit::Failure;

/// Outcome of an interview.
pub enum InterviewEnd {
    /// All facts that matter are known.
    Answered,
    /// The user quit before that.
    Left,
}

/// Parsed line of the user's input.
pub enum Typed<T> {
    Value(T),
    Help,
    Quit,
    Wrong(String),
}

/// Returns the question of a fact with its default.
pub fn prompt(fact: Fact) -> String {
    match fact.kind() {
        FactKind::Flag => format!("{} [y/N] ", fact.question()),
        FactKind::Count { .. } | FactKind::Hundredths { .. } => {
            format!("{} [{}] ", fact.question(), fact.value(fact.default()))
        }
    }
}

/// Reads the value of a fact; an empty line is its default, unless it is required.
pub fn read_answer(
    input: &mut impl BufRead,
    fact: Fact,
    parse_number: impl Fn(Fact, &str) -> Result<u32, Failure>,
    is_required: bool,
) -> io::Result<Typed<u32>> {
    let word = match read_line(input)? {
        Typed::Value(word) => word,
        Typed::Help => return Ok(Typed::Help),
        Typed::Quit => return Ok(Typed::Quit),
        Typed::Wrong(why) => return Ok(Typed::Wrong(why)),
    };
    Ok(match (word.to_lowercase().as_str(), fact.kind()) {
        ("", _) if is_required => Typed::Wrong("this number is needed".to_owned()),
        ("", _) => Typed::Value(fact.default()),
        ("y" | "yes" | "true", FactKind::Flag) => Typed::Value(1),
        ("n" | "no" | "false", FactKind::Flag) => Typed::Value(0),
        (_, FactKind::Flag) => Typed::Wrong("answer y or n".to_owned()),
        _ => match parse_number(fact, &word) {
            Ok(value) => Typed::Value(value),
            Err(failure) => Typed::Wrong(failure.message),
        },
    })
}

/// Reads a line without the blanks around it; its end of file is to quit.
pub fn read_line(input: &mut impl BufRead) -> io::Result<Typed<String>> {
    let mut line = String::new();
    match input.read_line(&mut line) {
        Ok(0) => return Ok(Typed::Quit),
        Ok(_) => {}
        Err(error) if error.kind() == io::ErrorKind::InvalidData => {
            return Ok(Typed::Wrong("not UTF-8 text".to_owned()));
        }
        Err(error) => return Err(error),
    }
    let word = line.trim();
    Ok(match word.to_lowercase().as_str() {
        "?" | "h" | "help" => Typed::Help,
        "q" | "quit" | "exit" => Typed::Quit,
        _ => Typed::Value(word.to_owned()),
    })
}
