//! Rules on documents: links and file names resolve, every field of user-written files is
//! described, and no file names a path of one machine.

use std::collections::BTreeSet;

use serde_json::Value;

use super::TidyViolation;
use super::source::{SourceTree, line_at};

/// Prefixes of paths that exist on one machine only. Split in two, so that this file does not
/// violate its own rule.
const MACHINE_PATHS: [(&str, &str); 5] =
    [("..", "/shared"), ("/", "work/"), ("/", "Users/"), ("/tmp/", "t-"), ("/tmp/", "brief")];

/// Schemas of user-written files, each with the page that must describe its fields.
const DESCRIBED: [(&str, &str); 5] = [
    ("docs/schema/job.schema.json", "docs/jobs.md"),
    ("docs/schema/queues.schema.json", "docs/queues.md"),
    ("docs/schema/facts.schema.json", "docs/site.md"),
    ("docs/schema/site.schema.json", "docs/site.md"),
    ("docs/schema/trace-recipe.schema.json", "docs/traces.md"),
];

/// Rejects paths of one machine, in any file.
pub fn machine_paths(tree: &SourceTree) -> Vec<TidyViolation> {
    let mut violations = Vec::new();
    for (path, text) in tree.files() {
        for (head, tail) in MACHINE_PATHS {
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
                    "`{place}` exists on one machine only: use a path in the project, or none"
                );
                violations.push(TidyViolation {
                    path: path.to_owned(),
                    line: line_at(text, offset),
                    message,
                });
            }
        }
    }
    violations
}

/// Rejects examples in doc comments that rustdoc would compile: the test command runs test binaries
/// only.
pub fn examples(tree: &SourceTree) -> Vec<TidyViolation> {
    let mut violations = Vec::new();
    for file in tree.rust() {
        let fences = file.text.lines().enumerate().filter_map(|(line, text)| {
            let text = text.trim_start();
            let comment = text.strip_prefix("///").or_else(|| text.strip_prefix("//!"))?;
            Some((line + 1, comment.trim_start().strip_prefix("```")?))
        });
        for (line, language) in fences.step_by(2).filter(|(_, language)| *language != "text") {
            let message = format!("an example in `{language}`, which no test runs: write ```text");
            violations.push(TidyViolation { path: file.path.clone(), line, message });
        }
    }
    violations
}

/// Requires that relative links in Markdown name a file of the tree, and their anchors a heading in
/// it.
pub fn links(tree: &SourceTree) -> Vec<TidyViolation> {
    let mut violations = Vec::new();
    for (path, text) in tree.files().filter(|(path, _)| path.ends_with(".md")) {
        for (line, target) in links_of(text) {
            if let Some(message) = dead_link(tree, path, &target) {
                violations.push(TidyViolation { path: path.to_owned(), line, message });
            }
        }
    }
    violations
}

/// Requires that project files and folders named in code font exist: `crates/model/src/view.rs`, or
/// the end of such a path.
pub fn named_files(tree: &SourceTree) -> Vec<TidyViolation> {
    let mut violations = Vec::new();
    for (path, text) in tree.files().filter(|(path, _)| path.ends_with(".md")) {
        for (line, prose) in prose(text) {
            for name in prose.split('`').skip(1).step_by(2).filter(|name| is_project_path(name)) {
                let tail = format!("/{}", name.trim_end_matches('/'));
                let found = tree.has(name) || tree.files().any(|(file, _)| file.ends_with(&tail));
                let below = format!("{tail}/");
                if !found && !tree.files().any(|(file, _)| file.contains(&below)) {
                    violations.push(TidyViolation {
                        path: path.into(),
                        line,
                        message: format!("names `{name}`, which does not exist"),
                    });
                }
            }
        }
    }
    violations
}

/// Returns true for names of project files (by extension) and folders (by prefix).
fn is_project_path(name: &str) -> bool {
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

/// Requires that every property of a schema occurs in code font on its page.
pub fn fields(tree: &SourceTree) -> Vec<TidyViolation> {
    let mut violations = Vec::new();
    for (schema, page) in DESCRIBED {
        let Some(parsed) =
            tree.text(schema).and_then(|text| serde_json::from_str::<Value>(text).ok())
        else {
            violations.push(TidyViolation {
                path: schema.into(),
                line: 0,
                message: "does not exist, or is not JSON".into(),
            });
            continue;
        };
        let text = tree.text(page).unwrap_or_default();
        let mut names = BTreeSet::new();
        collect_properties(&parsed, &mut names);
        for name in names.iter().filter(|name| !text.contains(&format!("`{name}`"))) {
            let message = format!("does not describe `{name}` of {schema}");
            violations.push(TidyViolation { path: page.into(), line: 0, message });
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

/// Describes why a link is dead; `None` when it resolves, or leads out of the tree.
fn dead_link(tree: &SourceTree, from: &str, target: &str) -> Option<String> {
    if target.contains("://") || target.starts_with("mailto:") {
        return None;
    }
    let (file, anchor) = target.split_once('#').unwrap_or((target, ""));
    let path = if file.is_empty() { from.to_owned() } else { resolve(from, file) };
    if !path.is_empty() && !tree.has(&path) {
        return Some(format!("link to `{target}`: {path} does not exist"));
    }
    let text = tree.text(&path).filter(|_| path.ends_with(".md") && !anchor.is_empty())?;
    let is_found = headings(text).any(|heading| slug(heading) == anchor);
    (!is_found).then(|| format!("link to `{target}`: {path} has no such heading"))
}

/// Returns the path of a link relative to the root.
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

/// Returns line and target of every `[text](target)` outside fenced and inline code.
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

/// Returns the numbered lines outside fenced code.
fn prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut fenced = false;
    text.lines().enumerate().filter_map(move |(index, line)| {
        let fence = line.trim_start().starts_with("```");
        fenced ^= fence;
        (!fenced && !fence).then_some((index + 1, line))
    })
}

/// Returns the anchor that GitHub gives a heading.
fn slug(heading: &str) -> String {
    let kept = heading.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.flat_map(char::to_lowercase).map(|c| if c == ' ' { '-' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(
        rule: fn(&SourceTree) -> Vec<TidyViolation>,
        files: &[(&str, &str)],
        expected: &[&str],
    ) {
        let found: Vec<String> =
            rule(&SourceTree::of(files)).iter().map(TidyViolation::to_string).collect();
        assert_eq!(found.len(), expected.len(), "{found:?}");
        for (found, expected) in found.iter().zip(expected) {
            assert!(found.starts_with(expected), "{found} does not start with {expected}");
        }
    }

    #[test]
    fn dead_links_are_found() {
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
                "docs/a.md:2: link to `gone.md`: docs/gone.md does not exist",
                "docs/a.md:3: link to `b.md#gone`",
            ],
        );
    }

    #[test]
    fn an_example_that_rustdoc_would_compile_is_found() {
        let text = "/// ```text\n/// x\n/// ```\n/// ```\n/// let x = 1;\n/// ```\nfn f() {}\n";
        check(examples, &[("crates/a/src/lib.rs", text)], &["crates/a/src/lib.rs:4: an example"]);
    }

    #[test]
    fn a_named_file_that_does_not_exist_is_found() {
        let text = "`crates/a/src/x.rs` `src/x.rs` `crates/a/src` `plan/y.rs`\n`crates/gone` `src/gone.rs` `a/b` `~/x.rs` `/etc/x.toml`";
        check(
            named_files,
            &[("a.md", text), ("crates/a/src/x.rs", ""), ("crates/a/src/plan/y.rs", "")],
            &["a.md:2: names `crates/gone`", "a.md:2: names `src/gone.rs`"],
        );
    }

    #[test]
    fn a_field_that_no_page_describes_is_found() {
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
            &["docs/schema/trace-recipe.schema.json: does not exist"],
        );
    }

    #[test]
    fn paths_of_one_machine_are_found() {
        for (head, tail) in MACHINE_PATHS {
            let text = format!("fine\nsee {head}{tail}x");
            check(
                machine_paths,
                &[("a.md", &text)],
                &[&format!("a.md:2: `{head}{tail}` exists on one machine")],
            );
        }
        let inside = ["my/work/x", "x/Users/y", "/root/x"].join(" ");
        check(machine_paths, &[("a.md", &inside)], &[]);
    }
}
