//! Checks third-party crates as cargo resolves them: their licences, sources and bans; two versions of
//! one crate are only printed. Advisories are not checked, because their database needs a network.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

use anyhow::{Result, bail};
use serde_json::Value;

use crate::cargo;

/// Licences that a binary under Apache-2.0 may contain without further conditions on its source.
const LICENCES: [&str; 10] = [
    "0BSD",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-3-Clause",
    // Of data: the list of root certificates.
    "CDLA-Permissive-2.0",
    "ISC",
    "MIT",
    "MIT-0",
    "Unicode-3.0",
    "Zlib",
];

/// Crates that no crate of this workspace may depend on, each with the reason; the SDK of the Model Context Protocol
/// brings chrono.
const BANNED_HERE: [(&str, &str); 1] = [("chrono", "jiff is the one library for dates")];

/// Crates that must not be linked, each with the reason.
const BANNED: [(&str, &str); 2] = [
    ("native-tls", "it links the system's OpenSSL"),
    ("openssl-sys", "the binary runs on machines without OpenSSL"),
];

/// Checks the crates in Cargo.lock.
pub fn check(root: &Path) -> Result<()> {
    let mut command = Command::new(cargo());
    let output = command
        .args(["metadata", "--format-version", "1", "--locked"])
        .current_dir(root)
        .output()?;
    if !output.status.success() {
        bail!("cargo metadata: {}", String::from_utf8_lossy(&output.stderr));
    }
    let metadata: Value = serde_json::from_slice(&output.stdout)?;
    let packages = metadata["packages"].as_array().map_or(&[][..], Vec::as_slice);
    println!("{} crates; versions of one crate: {}", packages.len(), duplicates(packages));
    println!("security advisories: not checked, the database needs a network");
    let defects: Vec<String> = packages.iter().filter_map(defect).collect();
    if defects.is_empty() { Ok(()) } else { bail!("{}", defects.join("\n")) }
}

/// Returns the defect of a crate; crates of this workspace have none.
fn defect(package: &Value) -> Option<String> {
    let field = |name: &str| package[name].as_str().unwrap_or_default();
    let name = field("name");
    let manifest = field("manifest_path");
    if package["source"].is_null() {
        let depends_on = |wanted: &str| {
            let dependencies = package["dependencies"].as_array().map_or(&[][..], Vec::as_slice);
            dependencies.iter().any(|one| one["name"] == *wanted)
        };
        if let Some((banned, reason)) = BANNED_HERE.iter().find(|(banned, _)| depends_on(banned)) {
            return Some(format!("{name}: depends on {banned}, which is banned: {reason}"));
        }
        return (package["publish"] != Value::Array(Vec::new())).then(|| {
            format!("{name}: a crate from a folder that is not of this workspace: {manifest}")
        });
    }
    if !field("source").starts_with("registry+") {
        return Some(format!("{name}: not from a registry: {}", field("source")));
    }
    if let Some((_, reason)) = BANNED.iter().find(|(banned, _)| *banned == name) {
        return Some(format!("{name}: banned: {reason}"));
    }
    let licence = field("license");
    (!is_allowed(licence)).then(|| format!("{name}: licence `{licence}` is not in the list"))
}

/// Returns true if the licence can be chosen so that all of it is in [`LICENCES`]. Crates write `AND`
/// only between groups, never inside of one.
fn is_allowed(licence: &str) -> bool {
    let is_listed = |name: &str| LICENCES.contains(&name.trim_matches(['(', ')', ' ']));
    licence.split(" AND ").all(|group| group.replace('/', " OR ").split(" OR ").any(is_listed))
}

/// Returns the crates that are there in several versions.
fn duplicates(packages: &[Value]) -> String {
    let mut versions: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for package in packages {
        if let (Some(name), Some(version)) = (package["name"].as_str(), package["version"].as_str())
        {
            versions.entry(name).or_default().insert(version);
        }
    }
    let several = versions.iter().filter(|(_, versions)| versions.len() > 1);
    several.map(|(name, all)| format!("{name} {all:?}")).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_licence_is_allowed_if_a_choice_of_it_is_in_the_list() {
        for allowed in [
            "MIT",
            "Unlicense/MIT",
            "MIT OR Apache-2.0 OR LGPL-2.1-or-later",
            "(MIT OR Apache-2.0) AND Unicode-3.0",
        ] {
            assert!(is_allowed(allowed), "{allowed}");
        }
        for refused in ["", "GPL-3.0", "MIT AND GPL-3.0", "GPL-3.0 OR AGPL-3.0", "MITX"] {
            assert!(!is_allowed(refused), "{refused}");
        }
    }

    #[test]
    fn a_crate_from_elsewhere_and_a_banned_one_are_defects() {
        let of = |name: &str, source: &str| {
            let text = format!(r#"{{"name":"{name}","source":{source},"license":"MIT"}}"#);
            defect(&serde_json::from_str(&text).unwrap())
        };
        assert_eq!(of("a", r#""registry+x""#), None);
        assert!(of("a", r#""git+https://x""#).unwrap().contains("not from a registry"));
        assert!(of("a", "null").unwrap().contains("not of this workspace"));
        assert!(of("openssl-sys", r#""registry+x""#).unwrap().contains("banned"));
    }

    #[test]
    fn the_crates_of_this_workspace_have_no_defect() {
        check(&crate::root()).unwrap();
    }
}
