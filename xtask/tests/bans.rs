//! Test of the bans of the pure crates: clippy runs on a temporary crate that uses every banned
//! item once, and must report each. Without this test, an entry with a misspelt path would silently
//! ban nothing.

#![allow(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

const BANS: &str = include_str!("../../crates/engine/clippy.toml");

const MANIFEST: &str = "[package]\nname = \"scratch\"\nedition = \"2024\"\n[workspace]\n";

/// Returns clippy's output for a crate with these bans and this source.
fn complaints(source: &str) -> String {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    write("Cargo.toml", MANIFEST);
    write("clippy.toml", BANS);
    std::fs::create_dir(folder.path().join("src")).unwrap();
    write("src/lib.rs", source);
    clippy(folder.path())
}

fn clippy(folder: &Path) -> String {
    let output = Command::new(env!("CARGO"))
        .args(["clippy", "--quiet", "--offline", "--message-format", "short"])
        .current_dir(folder)
        .env("CARGO_TARGET_DIR", folder.join("target"))
        .output()
        .unwrap();
    String::from_utf8(output.stderr).unwrap()
}

/// Returns the paths between `heading` and the closing bracket.
fn banned(heading: &str) -> BTreeSet<&'static str> {
    let (_, rest) = BANS.split_once(heading).unwrap();
    let (list, _) = rest.split_once("\n]").unwrap();
    list.split("path = \"").skip(1).map(|entry| entry.split('"').next().unwrap()).collect()
}

#[test]
fn every_banned_item_is_reported() {
    let methods = banned("disallowed-methods");
    let types = banned("disallowed-types");
    assert!(methods.len() > 40 && types.len() > 8, "{methods:?} {types:?}");
    let mut source = String::new();
    for (index, method) in methods.iter().enumerate() {
        // Generic functions need explicit type parameters here, which cannot be inferred.
        let generics = match *method {
            "std::thread::spawn" => "::<fn(), ()>",
            "std::thread::scope" => "::<fn(&std::thread::Scope<'_, '_>), ()>",
            path if path.starts_with("std::fs::File::") => "::<&str>",
            "std::env::var" | "std::env::var_os" => "::<&str>",
            "std::fs::copy" | "std::fs::rename" | "std::fs::hard_link" | "std::fs::write" => {
                "::<&str, &str>"
            }
            path if path.starts_with("std::fs::") && path != "std::fs::OpenOptions::new" => {
                "::<&str>"
            }
            "std::process::Command::new" => "::<&str>",
            _ => "",
        };
        source += &format!("pub fn m{index}() {{ let _ = {method}{generics}; }}\n");
    }
    for (index, name) in types.iter().enumerate() {
        let generics = match *name {
            "std::collections::HashMap" => "<u8, u8>",
            "std::collections::HashSet" => "<u8>",
            _ => "",
        };
        source += &format!("pub fn t{index}(_: Option<{name}{generics}>) {{}}\n");
    }
    let complaints = complaints(&source);
    for name in methods.union(&types) {
        let refused = ["method", "type"].map(|kind| format!("use of a disallowed {kind} `{name}`"));
        assert!(
            refused.iter().any(|text| complaints.contains(text)),
            "{name} is not reported:\n{complaints}"
        );
    }
}

#[test]
fn items_that_the_pure_crates_use_are_not_reported() {
    // The alias has the shape of rustc_hash's: std's map with a fixed hasher.
    let complaints = complaints(
        "use std::collections::BTreeMap;\n\
         pub mod hash {\n\
         #[allow(clippy::disallowed_types, reason = \"stands for another crate\")]\n\
         pub type FxHashMap<K, V> = std::collections::HashMap<K, V, std::hash::BuildHasherDefault<std::hash::DefaultHasher>>;\n\
         }\n\
         pub fn f(map: &mut hash::FxHashMap<u8, u8>) -> BTreeMap<u8, u8> {\n\
         let fresh: hash::FxHashMap<u8, u8> = hash::FxHashMap::default();\n\
         map.extend(fresh);\n\
         map.iter().map(|(k, v)| (*k, *v)).collect()\n\
         }\n",
    );
    assert_eq!(complaints, "");
}
