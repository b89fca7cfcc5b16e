//! Rules on manifests: every crate inherits lints and versions from the workspace, and the pure
//! crates have the same bans. Clippy reads only the nearest `clippy.toml`, so each pure crate has a
//! copy.

use super::TidyViolation;
use super::source::SourceTree;
use crate::arrows::PURE;

/// Items that the pure crates must ban at least; `clippy.toml` has a reason for each.
pub const BANNED: [&str; 18] = [
    "std::collections::HashMap",
    "std::collections::HashSet",
    "std::env::args",
    "std::env::var",
    "std::env::var_os",
    "std::env::vars",
    "std::fs::File",
    "std::fs::read",
    "std::fs::read_to_string",
    "std::fs::write",
    "std::net::TcpStream",
    "std::os::unix::net::UnixStream",
    "std::process::Command",
    "std::process::exit",
    "std::thread::sleep",
    "std::thread::spawn",
    "std::time::Instant::now",
    "std::time::SystemTime::now",
];

/// Requires `[lints] workspace = true` in every crate.
pub fn lints(tree: &SourceTree) -> Vec<TidyViolation> {
    let inherits = |text: &str| {
        sections(text).any(|(name, _, line)| name == "lints" && line == "workspace = true")
    };
    let broken = crates(tree).filter(|(_, text)| !inherits(text));
    broken
        .map(|(path, _)| {
            at(path, 0, "lints are not inherited: add `[lints]` with `workspace = true`".into())
        })
        .collect()
}

/// Requires that every dependency takes its version from the workspace.
pub fn versions(tree: &SourceTree) -> Vec<TidyViolation> {
    let mut violations = Vec::new();
    for (path, text) in crates(tree) {
        for (section, number, line) in sections(text) {
            let in_list = section.ends_with("dependencies");
            let in_table = section.contains("dependencies.");
            let fine =
                line.contains("workspace = true") || (in_table && !line.starts_with("version"));
            if (in_list || in_table) && !fine {
                let message = format!(
                    "`{line}` does not take its version from the workspace: `name.workspace = true`"
                );
                violations.push(at(path, number, message));
            }
        }
    }
    violations
}

/// Requires that the pure crates have the same bans, which include all of [`BANNED`].
pub fn bans(tree: &SourceTree) -> Vec<TidyViolation> {
    let first = format!("crates/{}/clippy.toml", PURE[0]);
    let Some(shared) = tree.text(&first) else {
        return vec![at(
            &first,
            0,
            "is missing: a pure crate bans clock, files, environment and threads".into(),
        )];
    };
    let mut violations = Vec::new();
    for banned in BANNED {
        let entry = shared.lines().find(|line| line.contains(&format!("path = \"{banned}\"")));
        match entry {
            None => violations.push(at(&first, 0, format!("does not ban {banned}"))),
            Some(line) if !line.contains("reason = \"") => {
                violations.push(at(&first, 0, format!("bans {banned} without a reason")));
            }
            Some(_) => {}
        }
    }
    for name in &PURE[1..] {
        let path = format!("crates/{name}/clippy.toml");
        if tree.text(&path) != Some(shared) {
            violations.push(at(
                &path,
                0,
                format!("differs from {first}: all pure crates have the same bans"),
            ));
        }
    }
    violations
}

/// Returns the manifests of the workspace's members (`fuzz/` is a workspace of its own).
fn crates(tree: &SourceTree) -> impl Iterator<Item = (&str, &str)> {
    let member = |path: &str| path.starts_with("crates/") || path.starts_with("xtask/");
    tree.files().filter(move |(path, _)| path.ends_with("/Cargo.toml") && member(path))
}

/// Returns section, line number from 1, and trimmed text of every line that is neither empty,
/// comment nor heading.
fn sections(text: &str) -> impl Iterator<Item = (&str, usize, &str)> {
    let mut section = "";
    text.lines().enumerate().filter_map(move |(index, line)| {
        let line = line.trim();
        match line.strip_prefix('[') {
            Some(heading) => {
                section = heading.trim_matches(['[', ']']);
                None
            }
            None if line.is_empty() || line.starts_with('#') => None,
            None => Some((section, index + 1, line)),
        }
    })
}

fn at(path: &str, line: usize, message: String) -> TidyViolation {
    TidyViolation { path: path.to_owned(), line, message }
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
        assert_eq!(found, expected);
    }

    #[test]
    fn a_crate_without_inherited_lints_is_found() {
        let message =
            "crates/x/Cargo.toml: lints are not inherited: add `[lints]` with `workspace = true`";
        check(lints, &[("crates/x/Cargo.toml", "[package]\nname = \"x\"\n")], &[message]);
        check(lints, &[("crates/x/Cargo.toml", "[lints.rust]\nworkspace = true\n")], &[message]);
        check(
            lints,
            &[("crates/x/Cargo.toml", "[lints]\nworkspace = true\n"), ("Cargo.toml", "")],
            &[],
        );
    }

    #[test]
    fn a_version_outside_the_workspace_is_found() {
        let bad = "[dependencies]\nserde.workspace = true\nlog = \"1\"\n[target.'cfg(unix)'.dev-dependencies]\na = { git = \"b\" }\n";
        check(
            versions,
            &[("crates/x/Cargo.toml", bad)],
            &[
                "crates/x/Cargo.toml:3: `log = \"1\"` does not take its version from the workspace: `name.workspace = true`",
                "crates/x/Cargo.toml:5: `a = { git = \"b\" }` does not take its version from the workspace: `name.workspace = true`",
            ],
        );
        let good = "[dependencies]\na = { workspace = true, features = [\"b\"] }\n[dependencies.c]\nworkspace = true\nfeatures = []\n";
        check(versions, &[("crates/x/Cargo.toml", good)], &[]);
    }

    #[test]
    fn bans_that_differ_or_lack_an_entry_are_found() {
        let all: String = BANNED
            .iter()
            .map(|path| format!("{{ path = \"{path}\", reason = \"r\" }},\n"))
            .collect();
        let manifests =
            |text: &str| PURE.map(|name| (format!("crates/{name}/clippy.toml"), text.to_owned()));
        let tree = |files: Vec<(String, String)>| SourceTree::new(files.into_iter().collect());
        assert_eq!(bans(&tree(manifests(&all).to_vec())), []);

        let mut differing = manifests(&all).to_vec();
        differing[3].1.push('#');
        assert_eq!(bans(&tree(differing)).len(), 1);

        let lacking = all.replace("path = \"std::env::var\"", "path = \"std::env::home_dir\"");
        assert_eq!(
            bans(&tree(manifests(&lacking).to_vec()))[0].message,
            "does not ban std::env::var"
        );
        let silent = all.replacen("reason", "because", 1);
        assert_eq!(bans(&tree(manifests(&silent).to_vec())).len(), 1);
        assert_eq!(bans(&tree(Vec::new())).len(), 1);
    }
}
