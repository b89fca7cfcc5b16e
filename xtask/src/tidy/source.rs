//! The source tree for the rules: every text file, and for Rust files the parts that are code and
//! test code. Rules never open files themselves, so that tests can use any tree.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::{Context, Result};

use super::lexer::{code_of, matching};

/// Entries without sources of the project; `.git` is a file in a worktree.
const SKIPPED: [&str; 3] = [".git", "target", "node_modules"];

/// Extensions of files that are not text.
const BINARY: [&str; 7] = ["png", "gz", "ico", "woff", "woff2", "db", "pyc"];

/// All text files by path relative to the root, with `/` between components.
pub struct SourceTree {
    texts: BTreeMap<String, String>,
    rust: Vec<RustFile>,
}

/// A Rust file and its parts.
pub struct RustFile {
    /// Path relative to the root.
    pub path: String,
    /// Complete text of the file.
    pub text: String,
    /// The text with comments and strings blanked.
    pub code: String,
    /// `code` with everything blanked that is compiled only for tests; all blank in a test file.
    pub production: String,
}

impl SourceTree {
    /// Reads the files below `root`.
    pub fn read(root: &Path) -> Result<Self> {
        let mut texts = BTreeMap::new();
        let mut folders = vec![root.to_path_buf()];
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(&folder)
                .with_context(|| format!("reading {}", folder.display()))?
            {
                let (path, name) = entry.map(|entry| (entry.path(), entry.file_name()))?;
                let kind = std::fs::symlink_metadata(&path)?.file_type();
                if SKIPPED.iter().any(|skipped| name == *skipped) {
                    continue;
                }
                if kind.is_dir() {
                    folders.push(path);
                } else if kind.is_file() && !is_binary(&path) {
                    let key = path.strip_prefix(root)?.to_string_lossy().replace('\\', "/");
                    let bytes = std::fs::read(&path)
                        .with_context(|| format!("reading {}", path.display()))?;
                    texts.insert(key, String::from_utf8_lossy(&bytes).into_owned());
                }
            }
        }
        Ok(Self::new(texts))
    }

    /// Creates a tree of these files.
    pub fn new(texts: BTreeMap<String, String>) -> Self {
        let codes: Vec<(&String, String)> = texts
            .iter()
            .filter(|(path, _)| path.ends_with(".rs"))
            .map(|(path, text)| (path, code_of(text)))
            .collect();
        let test_modules: BTreeSet<String> =
            codes.iter().flat_map(|(path, code)| test_only_modules(path, code)).collect();
        let rust = codes
            .into_iter()
            .map(|(path, code)| RustFile {
                path: path.clone(),
                text: texts[path].clone(),
                production: production_of(path, &code, &test_modules),
                code,
            })
            .collect();
        Self { texts, rust }
    }

    /// Returns the Rust files in order of path.
    pub fn rust(&self) -> &[RustFile] {
        &self.rust
    }

    /// Returns the text of a file.
    pub fn text(&self, path: &str) -> Option<&str> {
        self.texts.get(path).map(String::as_str)
    }

    /// Returns all files in order of path.
    pub fn files(&self) -> impl Iterator<Item = (&str, &str)> {
        self.texts.iter().map(|(path, text)| (path.as_str(), text.as_str()))
    }

    /// Returns the number of files.
    pub fn len(&self) -> usize {
        self.texts.len()
    }

    /// Returns true when the path is a file or a folder of the tree.
    pub fn has(&self, path: &str) -> bool {
        let folder = format!("{}/", path.trim_end_matches('/'));
        self.texts.contains_key(path)
            || self
                .texts
                .range(folder.clone()..)
                .next()
                .is_some_and(|(next, _)| next.starts_with(&folder))
    }

    /// Creates a tree of one or more files, for tests of rules.
    #[cfg(test)]
    pub fn of(files: &[(&str, &str)]) -> Self {
        Self::new(
            files.iter().map(|(path, text)| ((*path).to_owned(), (*text).to_owned())).collect(),
        )
    }
}

impl RustFile {
    /// Returns true when all of it is compiled only for tests, benches or examples.
    pub fn is_test(&self) -> bool {
        in_test_folder(&self.path)
    }

    /// Returns the crate's folder: `engine` for `crates/engine/src/lib.rs`.
    pub fn crate_folder(&self) -> &str {
        self.path
            .strip_prefix("crates/")
            .unwrap_or(&self.path)
            .split('/')
            .next()
            .unwrap_or_default()
    }

    /// Returns the code that is compiled only for tests; the rest is blanked.
    pub fn test_code(&self) -> String {
        let pairs = self.code.bytes().zip(self.production.bytes());
        let bytes = pairs.map(|(code, production)| match code {
            b'\n' => code,
            _ if production == code => b' ',
            _ => code,
        });
        String::from_utf8_lossy(&bytes.collect::<Vec<u8>>()).into_owned()
    }
}

/// Returns the line of a byte offset, from 1.
pub fn line_at(text: &str, offset: usize) -> usize {
    text.as_bytes()[..offset].iter().filter(|byte| **byte == b'\n').count() + 1
}

/// Returns the offsets at which `word` occurs as a whole word (or call, or macro): no letter, digit
/// or underscore before it, nor after it when it ends in one.
pub fn words(code: &str, word: &str) -> Vec<usize> {
    let bytes = code.as_bytes();
    let is_part = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
    code.match_indices(word)
        .map(|(offset, _)| offset)
        .filter(|offset| {
            let starts = !word.as_bytes().first().is_some_and(is_part)
                || *offset == 0
                || !is_part(&bytes[offset - 1]);
            let ends = !word.as_bytes().last().is_some_and(is_part)
                || !bytes.get(offset + word.len()).is_some_and(is_part);
            starts && ends
        })
        .collect()
}

fn is_binary(path: &Path) -> bool {
    path.extension().is_some_and(|extension| BINARY.iter().any(|binary| extension == *binary))
}

fn in_test_folder(path: &str) -> bool {
    path.split('/')
        .rev()
        .skip(1)
        .any(|part| matches!(part, "tests" | "benches" | "examples" | "fuzz"))
}

/// Returns the files of modules that are declared `#[cfg(test)] mod name;`.
fn test_only_modules(path: &str, code: &str) -> Vec<String> {
    test_items(code)
        .into_iter()
        .filter_map(|(start, end)| {
            let item = code[start..end].strip_suffix(';')?;
            let name = item.rsplit(char::is_whitespace).next()?;
            words(item, "mod").last()?;
            Some(format!("{}/{name}.rs", module_folder(path)))
        })
        .collect()
}

/// Returns the folder of a file's child modules.
pub fn module_folder(path: &str) -> String {
    let (folder, file) = path.rsplit_once('/').unwrap_or(("", path));
    match file {
        "lib.rs" | "main.rs" | "mod.rs" => folder.to_owned(),
        _ => format!("{folder}/{}", file.trim_end_matches(".rs")),
    }
}

fn production_of(path: &str, code: &str, test_modules: &BTreeSet<String>) -> String {
    let below = |module: &String| {
        path == module || path.starts_with(&format!("{}/", module.trim_end_matches(".rs")))
    };
    let whole = in_test_folder(path)
        || test_modules.iter().any(below)
        || code.trim_start().starts_with("#![cfg(test)]");
    let mut bytes = code.as_bytes().to_vec();
    let ranges = if whole { vec![(0, code.len())] } else { test_items(code) };
    for (start, end) in ranges {
        for byte in bytes[start..end].iter_mut().filter(|byte| **byte != b'\n') {
            *byte = b' ';
        }
    }
    String::from_utf8(bytes).expect("whole items are blanked")
}

/// Returns the ranges of items under `#[cfg(test)]` or `#[cfg(all(test, …))]`, from the attribute
/// to the closing bracket or semicolon.
fn test_items(code: &str) -> Vec<(usize, usize)> {
    let mut ranges: Vec<(usize, usize)> = Vec::new();
    for attribute in ["#[cfg(test)]", "#[cfg(all(test"] {
        for (start, _) in code.match_indices(attribute) {
            let mut end = matching(code, start + 1);
            for (offset, byte) in code.bytes().enumerate().skip(end) {
                if offset < end {
                    continue;
                }
                match byte {
                    b'(' | b'[' => end = matching(code, offset),
                    b'{' | b';' => {
                        end = if byte == b';' { offset + 1 } else { matching(code, offset) };
                        break;
                    }
                    _ => end = offset + 1,
                }
            }
            ranges.push((start, end));
        }
    }
    ranges
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn test_items_are_distinguished_from_production() {
        let text =
            "fn a() {}\n#[cfg(test)]\n#[rustfmt::skip]\nmod tests {\n fn b() {}\n}\nfn c() {}\n";
        let tree = SourceTree::of(&[("crates/x/src/lib.rs", text)]);
        let file = &tree.rust()[0];
        assert_eq!(file.production.split_whitespace().collect::<String>(), "fna(){}fnc(){}");
        assert!(file.test_code().contains("fn b()") && !file.test_code().contains("fn a()"));
        assert_eq!(file.crate_folder(), "x");
    }

    #[test]
    fn a_test_only_module_in_its_own_file_is_test() {
        let tree = SourceTree::of(&[
            ("crates/x/src/a.rs", "#[cfg(test)]\nmod cases;\npub(crate) mod real;"),
            ("crates/x/src/a/cases.rs", "fn b() {}"),
            ("crates/x/src/a/cases/more.rs", "fn d() {}"),
            ("crates/x/src/a/real.rs", "fn c() {}"),
        ]);
        let productions: Vec<&str> =
            tree.rust().iter().map(|file| file.production.trim()).collect();
        assert_eq!(productions, ["pub(crate) mod real;", "", "", "fn c() {}"]);
    }

    #[test]
    fn words_are_whole() {
        assert_eq!(words("f32 f32x xf32 (f32)", "f32"), [0, 15]);
        assert_eq!(words("a.unwrap() b.unwrap_or()", ".unwrap()"), [1]);
    }

    #[test]
    fn folders_and_files_are_found() {
        let tree = SourceTree::of(&[("docs/a.md", "")]);
        assert!(tree.has("docs") && tree.has("docs/") && tree.has("docs/a.md"));
        assert!(!tree.has("doc") && !tree.has("docs/b.md"));
    }
}
