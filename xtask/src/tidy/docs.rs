//! Documents: links and named files lead somewhere, every field that people can write is described,
//! and nothing points at the machine or the folder where it was written.

use std::collections::BTreeSet;

use serde_json::Value;

use super::Violation;
use super::source::{Tree, line_at};

/// Paths that exist on one machine only. Split in two, so that this file does not break its own
/// rule.
const PLACES: [(&str, &str); 5] =
    [("..", "/shared"), ("/", "work/"), ("/", "Users/"), ("/tmp/", "t-"), ("/tmp/", "brief")];

/// Schemas of files that people write, and the page that must describe their fields.
const DESCRIBED: [(&str, &str); 5] = [
    ("docs/schema/job.schema.json", "docs/jobs.md"),
    ("docs/schema/queues.schema.json", "docs/queues.md"),
    ("docs/schema/facts.schema.json", "docs/site.md"),
    ("docs/schema/site.schema.json", "docs/site.md"),
    ("docs/schema/trace-recipe.schema.json", "docs/traces.md"),
];

/// No path of a machine, in any file.
pub fn places(tree: &Tree) -> Vec<Violation> {
    let mut violations = Vec::new();
    for (path, text) in tree.files() {
        for (head, tail) in PLACES {
            let place = format!("{head}{tail}");
            let starts = |offset: usize| {
                let before = text.as_bytes()[..offset].last();
                !before.is_some_and(|byte| {
                    byte.is_ascii_alphanumeric()
                        || matches!(byte, b'_' | b'.' | b'-' | b'}' | b'>' | b'*')
                })
            };
            for (offset, _) in text.match_indices(&place).filter(|(offset, _)| starts(*offset)) {
                let message = format!(
                    "`{place}` is a place on one machine: name a place in the project, or none"
                );
                violations.push(Violation {
                    path: path.to_owned(),
                    line: line_at(text, offset),
                    message,
                });
            }
        }
    }
    violations
}

/// Relative links in Markdown name a file of the tree, and their anchors a heading in it.
pub fn links(tree: &Tree) -> Vec<Violation> {
    let mut violations = Vec::new();
    for (path, text) in tree.files().filter(|(path, _)| path.ends_with(".md")) {
        for (line, target) in links_of(text) {
            if let Some(message) = dead(tree, path, &target) {
                violations.push(Violation { path: path.to_owned(), line, message });
            }
        }
    }
    violations
}

/// A file or folder of ours that a document names in code letters is there:
/// `crates/model/src/view.rs`, or the end of such a path.
pub fn names(tree: &Tree) -> Vec<Violation> {
    let mut violations = Vec::new();
    for (path, text) in tree.files().filter(|(path, _)| path.ends_with(".md")) {
        for (line, prose) in prose(text) {
            for name in prose.split('`').skip(1).step_by(2).filter(|name| is_ours(name)) {
                let tail = format!("/{}", name.trim_end_matches('/'));
                let found = tree.has(name) || tree.files().any(|(file, _)| file.ends_with(&tail));
                let below = format!("{tail}/");
                if !found && !tree.files().any(|(file, _)| file.contains(&below)) {
                    violations.push(Violation {
                        path: path.into(),
                        line,
                        message: format!("names `{name}`, which is not there"),
                    });
                }
            }
        }
    }
    violations
}

/// Source files by their ending, folders by where they begin.
fn is_ours(name: &str) -> bool {
    const ENDINGS: [&str; 5] = [".rs", ".md", ".toml", ".txt", ".service"];
    const FOLDERS: [&str; 5] = ["crates/", "xtask/", "docs/", "examples/", "packaging/"];
    let plain =
        name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '/' | '.' | '_' | '-'));
    let path = name.contains('/') && !name.starts_with(['/', '.']);
    plain
        && path
        && (ENDINGS.iter().any(|ending| name.ends_with(ending))
            || FOLDERS.iter().any(|folder| name.starts_with(folder)))
}

/// Every property of a schema stands in code letters on its page.
pub fn fields(tree: &Tree) -> Vec<Violation> {
    let mut violations = Vec::new();
    for (schema, page) in DESCRIBED {
        let Some(parsed) =
            tree.text(schema).and_then(|text| serde_json::from_str::<Value>(text).ok())
        else {
            violations.push(Violation {
                path: schema.into(),
                line: 0,
                message: "is not there, or is not JSON".into(),
            });
            continue;
        };
        let text = tree.text(page).unwrap_or_default();
        let mut names = BTreeSet::new();
        collect_properties(&parsed, &mut names);
        for name in names.iter().filter(|name| !text.contains(&format!("`{name}`"))) {
            let message = format!("does not describe `{name}`, which {schema} has");
            violations.push(Violation { path: page.into(), line: 0, message });
        }
    }
    violations
}

fn collect_properties(schema: &Value, names: &mut BTreeSet<String>) {
    if let Some(properties) = schema["properties"].as_object() {
        names.extend(properties.keys().cloned());
    }
    match schema {
        Value::Object(members) => {
            members.values().for_each(|member| collect_properties(member, names))
        }
        Value::Array(items) => items.iter().for_each(|item| collect_properties(item, names)),
        _ => {}
    }
}

/// Why the link does not lead anywhere; `None` when it does, or leads out of the tree.
fn dead(tree: &Tree, from: &str, target: &str) -> Option<String> {
    if target.contains("://") || target.starts_with("mailto:") {
        return None;
    }
    let (file, anchor) = target.split_once('#').unwrap_or((target, ""));
    let path = if file.is_empty() { from.to_owned() } else { resolve(from, file) };
    if !path.is_empty() && !tree.has(&path) {
        return Some(format!("link to `{target}`: there is no {path}"));
    }
    let text = tree.text(&path).filter(|_| path.ends_with(".md") && !anchor.is_empty())?;
    match headings(text).any(|heading| slug(heading) == anchor) {
        true => None,
        false => Some(format!("link to `{target}`: {path} has no such heading")),
    }
}

/// Path of a link relative to the root.
fn resolve(from: &str, file: &str) -> String {
    let mut parts: Vec<&str> = from.split('/').collect();
    parts.pop();
    for part in file.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            _ => parts.push(part),
        }
    }
    parts.join("/")
}

/// Line and target of every `[text](target)` outside fenced and inline code.
fn links_of(text: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for (number, line) in prose(text) {
        let visible: String = line.split('`').step_by(2).collect::<Vec<_>>().join("`code`");
        for (offset, _) in visible.match_indices("](") {
            let rest = &visible[offset + 2..];
            if let Some(end) = rest.find(')') {
                found.push((
                    number,
                    rest[..end].split_whitespace().next().unwrap_or_default().to_owned(),
                ));
            }
        }
    }
    found
}

fn headings(text: &str) -> impl Iterator<Item = &str> {
    prose(text)
        .map(|(_, line)| line)
        .filter(|line| line.starts_with('#'))
        .map(|line| line.trim_start_matches('#').trim())
}

/// Numbered lines outside fenced code.
fn prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut fenced = false;
    text.lines().enumerate().filter_map(move |(index, line)| {
        let fence = line.trim_start().starts_with("```");
        fenced ^= fence;
        (!fenced && !fence).then_some((index + 1, line))
    })
}

/// The anchor that GitHub gives a heading.
fn slug(heading: &str) -> String {
    let kept = heading.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.flat_map(char::to_lowercase).map(|c| if c == ' ' { '-' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(rule: fn(&Tree) -> Vec<Violation>, files: &[(&str, &str)], expected: &[&str]) {
        let found: Vec<String> = rule(&Tree::of(files)).iter().map(Violation::to_string).collect();
        assert_eq!(found.len(), expected.len(), "{found:?}");
        for (found, expected) in found.iter().zip(expected) {
            assert!(found.starts_with(expected), "{found} does not start with {expected}");
        }
    }

    #[test]
    fn dead_links_are_seen() {
        let text = "[a](b.md) [c](../README.md#two-words)\n[d](gone.md)\n[e](b.md#gone)\n[f](#here)\n\
                    [g](https://example.org/x) `[h](gone)`\n```\n[i](gone)\n```\n[j](sub/)\n# here\n";
        let files = [
            ("docs/a.md", text),
            ("docs/b.md", ""),
            ("docs/sub/x.md", ""),
            ("README.md", "## Two `words`\n"),
        ];
        check(
            links,
            &files,
            &[
                "docs/a.md:2: link to `gone.md`: there is no docs/gone.md",
                "docs/a.md:3: link to `b.md#gone`",
            ],
        );
    }

    #[test]
    fn a_named_file_that_is_gone_is_seen() {
        let text = "`crates/a/src/x.rs` `src/x.rs` `crates/a/src` `plan/y.rs`\n`crates/gone` `src/gone.rs` `a/b` `~/x.rs` `/etc/x.toml`";
        check(
            names,
            &[("a.md", text), ("crates/a/src/x.rs", ""), ("crates/a/src/plan/y.rs", "")],
            &["a.md:2: names `crates/gone`", "a.md:2: names `src/gone.rs`"],
        );
    }

    #[test]
    fn a_field_that_no_page_describes_is_seen() {
        let schema = r##"{"properties": {"gpus": {}, "groups": {"items": {"$ref": "#/$defs/g"}}},
                          "$defs": {"g": {"properties": {"tasks": {}}}}}"##;
        let files = |page| {
            let empty = DESCRIBED[1..].iter().map(|(schema, _)| (*schema, "{}"));
            [(DESCRIBED[0].0, schema), (DESCRIBED[0].1, page)]
                .into_iter()
                .chain(empty)
                .collect::<Vec<_>>()
        };
        check(fields, &files("`gpus`, `groups`, `tasks`"), &[]);
        check(
            fields,
            &files("`gpus`, groups, `tasks`"),
            &["docs/jobs.md: does not describe `groups`"],
        );
        check(fields, &files("`gpus`, `groups`"), &["docs/jobs.md: does not describe `tasks`"]);
        check(
            fields,
            &files("`gpus`, `groups`, `tasks`")[..DESCRIBED.len()],
            &["docs/schema/trace-recipe.schema.json: is not there"],
        );
    }

    #[test]
    fn places_of_a_machine_are_seen() {
        for (head, tail) in PLACES {
            let text = format!("fine\nsee {head}{tail}x");
            check(places, &[("a.md", &text)], &[&format!("a.md:2: `{head}{tail}` is a place")]);
        }
        let inside = ["my/work/x", "x/Users/y", "/root/x"].join(" ");
        check(places, &[("a.md", &inside)], &[]);
    }
}
