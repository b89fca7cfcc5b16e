//! Plain language, as far as it can be counted: the first word and the length of doc comments, type
//! names that several types share, and one idiom of tuples. STYLE.md has the rest.

use std::collections::BTreeMap;

use super::TidyViolation;
use super::source::{RustFile, SourceTree, line_at, words};

/// First words after which a doc comment says too late what the item is or does.
const OPENINGS: [&str; 16] = [
    "What", "Who", "Whom", "Whose", "Which", "Where", "When", "Why", "How", "Whether", "It",
    "They", "Whoever", "Whatever", "Nobody", "Somebody",
];

/// Most words of a one-line doc comment that only repeats the name of its item.
const FEW_WORDS: usize = 3;

/// Number of `let (a, b) = (x, y)` that the workspace may have.
const TUPLE_LETS: usize = 5;

/// Largest share of type names that several types have, in per cent. Peers measured with the same
/// rule (hyperqueue, nextest, jj, omicron) have 4 to 5.
const SHARED_NAMES_PERCENT: usize = 5;

/// Reports doc comments that open with neither a verb nor the noun that the item is.
pub fn openings(tree: &SourceTree) -> Vec<TidyViolation> {
    docs_where(tree, |doc| {
        let word = doc.text.split_whitespace().next()?.trim_matches(|c: char| !c.is_alphanumeric());
        OPENINGS.contains(&word).then(|| {
            format!("a doc comment opens with `{word}`: open with a verb (`Returns …`) or a noun")
        })
    })
}

/// Reports doc comments that say no more than the name of their item.
pub fn short_docs(tree: &SourceTree) -> Vec<TidyViolation> {
    docs_where(tree, |doc| {
        let is_short = doc.lines == 1 && doc.text.split_whitespace().count() <= FEW_WORDS;
        is_short.then(|| {
            format!("`/// {}` repeats a name: say what helps, or nothing if private", doc.text)
        })
    })
}

/// Reports lets of tuples where two lets would do, if there are more than a few.
pub fn tuple_lets(tree: &SourceTree) -> Vec<TidyViolation> {
    let found: Vec<TidyViolation> = tree
        .rust()
        .iter()
        .flat_map(|file| {
            let lets = words(&file.code, "let").into_iter().filter(|at| is_tuple_let(file, *at));
            lets.map(|at| {
                let message = "a let of a tuple of values: write two lets".to_owned();
                TidyViolation { path: file.path.clone(), line: line_at(&file.code, at), message }
            })
        })
        .collect();
    if found.len() > TUPLE_LETS { found } else { Vec::new() }
}

/// Reports type names that several types share, if there are more than a few.
pub fn shared_names(tree: &SourceTree) -> Vec<TidyViolation> {
    let mut places: BTreeMap<String, Vec<(&str, usize)>> = BTreeMap::new();
    for file in tree.rust() {
        for (name, line) in types_of(file) {
            places.entry(name).or_default().push((&file.path, line));
        }
    }
    let shared: Vec<_> = places.iter().filter(|(_, places)| places.len() > 1).collect();
    let allowed = places.len() * SHARED_NAMES_PERCENT / 100;
    if shared.len() <= allowed {
        return Vec::new();
    }
    let violations = shared.iter().map(|(name, places)| TidyViolation {
        path: places[0].0.to_owned(),
        line: places[0].1,
        message: format!(
            "{} types are called `{name}`; {} names are shared, at most {allowed}: say which {name} it is",
            places.len(),
            shared.len(),
        ),
    });
    violations.collect()
}

/// Returns the counts of these rules as one line, for the log.
pub fn counts(tree: &SourceTree) -> String {
    let docs: usize = tree.rust().iter().map(|file| docs_of(file).len()).sum();
    let mut names: BTreeMap<String, usize> = BTreeMap::new();
    for (name, _) in tree.rust().iter().flat_map(types_of) {
        *names.entry(name).or_default() += 1;
    }
    format!(
        "language: {docs} doc comments, {} open badly, {} say only a name; {} of {} type names are shared",
        openings(tree).len(),
        short_docs(tree).len(),
        names.values().filter(|count| **count > 1).count(),
        names.len(),
    )
}

/// Block of `///` lines.
struct Doc {
    line: usize,
    lines: usize,
    text: String,
}

fn docs_where(tree: &SourceTree, rule: impl Fn(&Doc) -> Option<String>) -> Vec<TidyViolation> {
    let of_file = |file: &RustFile| -> Vec<TidyViolation> {
        let broken = docs_of(file).into_iter().filter_map(|doc| Some((doc.line, rule(&doc)?)));
        broken
            .map(|(line, message)| TidyViolation { path: file.path.clone(), line, message })
            .collect()
    };
    tree.rust().iter().flat_map(of_file).collect()
}

fn docs_of(file: &RustFile) -> Vec<Doc> {
    let mut docs: Vec<Doc> = Vec::new();
    let mut is_inside = false;
    for (at, line) in file.text.lines().enumerate() {
        let text = line.trim_start().strip_prefix("///").filter(|rest| !rest.starts_with('/'));
        match (text, docs.last_mut().filter(|_| is_inside)) {
            (Some(text), Some(doc)) => {
                doc.lines += 1;
                doc.text.push_str(text);
            }
            (Some(text), None) => {
                docs.push(Doc { line: at + 1, lines: 1, text: text.trim().to_owned() });
            }
            (None, _) => {}
        }
        is_inside = text.is_some();
    }
    docs
}

/// Returns the names of the types that a file defines, with their lines.
fn types_of(file: &RustFile) -> Vec<(String, usize)> {
    let mut types = Vec::new();
    for (at, line) in file.code.lines().enumerate() {
        let item = line.trim_start();
        let item = item.strip_prefix("pub").map_or(item, |rest| {
            let rest = rest.trim_start();
            rest.strip_prefix('(')
                .and_then(|rest| rest.split_once(')'))
                .map_or(rest, |(_, rest)| rest)
        });
        let mut parts = item.split_whitespace();
        let is_type = parts.next().is_some_and(|word| matches!(word, "struct" | "enum" | "trait"));
        if let Some(name) = parts.next().filter(|_| is_type) {
            let is_part = |c: char| c.is_alphanumeric() || c == '_';
            types.push((name.chars().take_while(|c| is_part(*c)).collect(), at + 1));
        }
    }
    types
}

/// Returns true for a let that binds a tuple of names to a tuple of values.
fn is_tuple_let(file: &RustFile, at: usize) -> bool {
    let rest = file.code[at + "let".len()..].trim_start();
    let Some((names, value)) = rest.strip_prefix('(').and_then(|rest| rest.split_once(')')) else {
        return false;
    };
    let is_name = |c: char| c.is_alphanumeric() || c == '_' || c == ',' || c.is_whitespace();
    let binds_names = names.contains(',') && names.chars().all(is_name);
    let value = value.trim_start().strip_prefix('=').map(str::trim_start);
    // A call or an operator behind the brackets makes it another expression.
    binds_names
        && value.filter(|value| value.starts_with('(')).is_some_and(|value| {
            let end = super::lexer::matching(value, 0);
            value[end..].trim_start().starts_with(';')
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(rule: fn(&SourceTree) -> Vec<TidyViolation>, text: &str, lines: &[usize]) {
        let found: Vec<usize> = rule(&SourceTree::of(&[("crates/x/src/a.rs", text)]))
            .iter()
            .map(|one| one.line)
            .collect();
        assert_eq!(found, lines, "{text}");
    }

    #[test]
    fn a_doc_comment_that_opens_with_a_riddle_is_seen() {
        check(openings, "/// What it is.\nstruct A;\n/// Returns\n/// What\nfn a() {}", &[1]);
        check(openings, "    /// `It` goes.\n// What\n//// Who\n//! Where\n/// Items.", &[1]);
    }

    #[test]
    fn a_doc_comment_of_few_words_is_seen() {
        check(
            short_docs,
            "/// The name.\na\n/// The name\n/// of it.\nb\n/// Seconds to wait here.",
            &[1],
        );
    }

    #[test]
    fn a_let_of_a_tuple_of_values_is_seen_when_there_are_many() {
        let many = "let (a, mut b) = (x, f(y));\n".repeat(6);
        check(tuple_lets, &many, &[1, 2, 3, 4, 5, 6]);
        check(tuple_lets, &"let (a, b) = (x, y);\n".repeat(5), &[]);
        check(tuple_lets, &"let (a, b) = f(x, y);\nlet (a, b) = (x, y).into();\n".repeat(6), &[]);
        check(tuple_lets, &"let Some((a, b)) = (x) else {};\n".repeat(6), &[]);
    }

    #[test]
    fn a_shared_type_name_is_seen() {
        check(shared_names, "struct A;\nmod b {\n    pub(crate) enum A {}\n}\n", &[1]);
        check(shared_names, "struct A<T>(T);\nimpl A {}\n// struct A\nstruct Ab;", &[]);
    }
}
