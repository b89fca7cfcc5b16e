//! References to parameters in a command, `{lr}`, and their replacement by the values of an element.
//!
//! A name in two braces stands for itself in one (`{{x}}` is `{x}`), and `${x}` is the shell's. All other braces stay:
//! `{a,b}`, `{ print $1 }`, `{}`, `}}`.

use std::collections::BTreeMap;

use muster_model::payload::{TaskCommand, shell_word};
use muster_model::sweep::Sweep;

/// Reference to a parameter in a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reference<'a> {
    /// Name between the braces.
    pub name: &'a str,
    /// Byte at which its opening brace is.
    pub at: usize,
}

/// Part of a text with references.
pub(crate) enum Part<'a> {
    Text(&'a str),
    Name(Reference<'a>),
}

/// Returns the references of a text, in order.
#[must_use]
pub fn references(text: &str) -> Vec<Reference<'_>> {
    let names = parts(text).into_iter().filter_map(|part| match part {
        Part::Name(reference) => Some(reference),
        Part::Text(_) => None,
    });
    names.collect()
}

/// Returns the command of the element at a point. In a script each value is one word of the shell, in quotes where
/// it needs them; in a list of arguments it stands as it is. References without a parameter stay.
#[must_use]
pub fn command(command: &TaskCommand, sweep: &Sweep, point: u32) -> TaskCommand {
    let values = by_name(sweep, point);
    let as_is = |value: &str| value.to_owned();
    match command {
        TaskCommand::Argv(words) => {
            TaskCommand::Argv(words.iter().map(|word| filled(word, &values, as_is)).collect())
        }
        TaskCommand::Script(text) => TaskCommand::Script(filled(text, &values, shell_word)),
        TaskCommand::Ray(_) => command.clone(),
    }
}

/// Returns the environment variables with the values of the element at a point.
pub fn variables(sweep: &Sweep, point: u32) -> impl Iterator<Item = (String, String)> {
    let params = sweep.params.iter().zip(sweep.values(point));
    params.map(|(param, value)| (param.variable(), value.to_string()))
}

fn by_name(sweep: &Sweep, point: u32) -> BTreeMap<&str, &str> {
    let params = sweep.params.iter().zip(sweep.values(point));
    params.map(|(param, value)| (param.name.as_ref(), value.as_ref())).collect()
}

fn filled(text: &str, values: &BTreeMap<&str, &str>, write: impl Fn(&str) -> String) -> String {
    let part = |part: Part<'_>| match part {
        Part::Text(text) => text.to_owned(),
        Part::Name(Reference { name, .. }) => {
            values.get(name).map_or_else(|| format!("{{{name}}}"), |value| write(value))
        }
    };
    parts(text).into_iter().map(part).collect()
}

/// Cuts a text at its references.
pub(crate) fn parts(text: &str) -> Vec<Part<'_>> {
    let mut found = Vec::new();
    let mut begin = 0;
    let mut at = 0;
    while let Some(brace) = text[at..].find(['{', '$']).map(|offset| at + offset) {
        let rest = &text[brace..];
        if let Some(name) = name_in_two_braces(rest) {
            found.push(Part::Text(&text[begin..brace]));
            begin = brace + 1;
            at = begin + name.len() + 2;
            found.push(Part::Text(&text[begin..at]));
            begin = at + 1;
            at = begin;
        } else if let Some(name) = name_in_braces(rest) {
            found.push(Part::Text(&text[begin..brace]));
            found.push(Part::Name(Reference { name, at: brace }));
            at = brace + name.len() + 2;
            begin = at;
        } else {
            // The brace of a variable of the shell begins no reference.
            at = brace + if rest.starts_with("${") { 2 } else { 1 };
        }
    }
    found.push(Part::Text(&text[begin..]));
    found
}

/// Returns the name with which a text begins, in two braces.
fn name_in_two_braces(text: &str) -> Option<&str> {
    let name = name_in_braces(text.strip_prefix('{')?)?;
    text[name.len() + 3..].starts_with('}').then_some(name)
}

/// Returns the name with which a text begins, in braces.
fn name_in_braces(text: &str) -> Option<&str> {
    let (name, _) = text.strip_prefix('{')?.split_once('}')?;
    let is_letter = |c: char| c.is_ascii_alphanumeric() || "_.-".contains(c);
    let is_name = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.chars().all(is_letter);
    is_name.then_some(name)
}

#[cfg(test)]
mod tests {
    use muster_model::sweep::{Param, Points};

    use super::*;

    fn sweep() -> Sweep {
        let param =
            |name: &str, value: &str| Param { name: name.into(), values: vec![value.into()] };
        Sweep {
            params: vec![param("lr", "1e-4"), param("opt.name", "a b")],
            points: Points::Grid,
            metric: None,
            early_stop: None,
        }
    }

    fn script(text: &str) -> String {
        match command(&TaskCommand::Script(text.to_owned()), &sweep(), 0) {
            TaskCommand::Script(text) => text,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn values_are_words_of_a_script() {
        assert_eq!(script("train --lr {lr} --opt={opt.name}"), "train --lr 1e-4 --opt='a b'");
    }

    #[test]
    fn values_are_as_they_are_in_arguments() {
        let words = ["train", "--opt={opt.name}", "{lr}"].map(str::to_owned).to_vec();
        let expected = ["train", "--opt=a b", "1e-4"].map(str::to_owned).to_vec();
        assert_eq!(command(&TaskCommand::Argv(words), &sweep(), 0), TaskCommand::Argv(expected));
    }

    #[test]
    fn other_braces_stay() {
        for text in [
            "${lr}",
            "echo {a,b} {} { x; }",
            "awk '{print $1}'",
            "a {",
            "} b",
            "${x:-{y}",
            "{\"a\": {\"b\": 1}}",
            "${x:-${y}}",
            "awk '{ if (x) { y }}'",
            "docker --format '{{.Name}}'",
            "{{ lr }}",
        ] {
            let kept = script(text);
            // The last `{y}` is a reference without a parameter, which stays, too.
            assert_eq!(kept, text);
        }
        assert_eq!(script("{{lr}} is {lr}, {{}}"), "{lr} is 1e-4, {{}}");
        assert_eq!(script("{\"a\": {lr}}, {{{lr}}}"), "{\"a\": 1e-4}, {{lr}}");
        assert_eq!(script("ä {lr} ö"), "ä 1e-4 ö");
    }

    #[test]
    fn references_have_their_places() {
        let found: Vec<_> = references("x {lr} ${no} {{no}} {nope}")
            .into_iter()
            .map(|one| (one.name, one.at))
            .collect();
        assert_eq!(found, [("lr", 2), ("nope", 20)]);
    }

    #[test]
    fn variables_hold_the_values() {
        let found: Vec<_> = variables(&sweep(), 0).collect();
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        assert_eq!(found, [pair("MUSTER_PARAM_LR", "1e-4"), pair("MUSTER_PARAM_OPT_NAME", "a b")]);
    }
}
