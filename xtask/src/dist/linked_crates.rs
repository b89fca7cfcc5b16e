//! Crates that are linked into the binary, with their licences, checksums and dependencies: not those of
//! tests, of build scripts or of procedural macros.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use serde_json::Value;

use crate::{cargo, tools};

/// Package of the binary.
const BINARY: &str = "muster";

/// Name and version of a crate.
pub type CrateId = (String, String);

/// Crate in a binary, as `cargo metadata` describes it.
#[derive(Clone, Debug)]
pub struct LinkedCrate {
    /// Name as on the registry.
    pub name: String,
    /// Version of the release that Cargo.lock has chosen.
    pub version: String,
    /// SPDX expression of its licence; `None` when it names a file instead.
    pub licence: Option<String>,
    /// SHA-256 of its archive in Cargo.lock; `None` for crates of this workspace.
    pub checksum: Option<String>,
    /// Address of its sources.
    pub repository: Option<String>,
    /// Folder of its sources on this machine.
    pub folder: PathBuf,
    /// Linked crates that it depends on.
    pub depends_on: BTreeSet<CrateId>,
}

/// All crates of the binary by name and version, that of the binary included.
#[derive(Clone, Debug)]
pub struct LinkedCrates(pub BTreeMap<CrateId, LinkedCrate>);

impl LinkedCrates {
    /// Asks cargo.
    ///
    /// # Errors
    /// When cargo fails, or knows a crate in one place and not in another.
    pub fn read(root: &Path) -> Result<Self> {
        let mut tree = Command::new(cargo());
        tree.args(["tree", "--locked", "--package", BINARY, "--edges", "normal,no-proc-macro"]);
        tree.args(["--prefix", "none", "--no-dedupe", "--format", "{p}"]).current_dir(root);
        let linked = parse_tree(&tools::stdout(&mut tree)?);
        let mut metadata = Command::new(cargo());
        metadata.args(["metadata", "--format-version", "1", "--locked"]).current_dir(root);
        let metadata: Value = serde_json::from_str(&tools::stdout(&mut metadata)?)?;
        let lock = fs::read_to_string(root.join("Cargo.lock")).context("Cargo.lock")?;
        Self::join(&linked, &metadata, &parse_checksums(&lock))
    }

    /// Returns the crate of the binary.
    pub fn binary(&self) -> &LinkedCrate {
        let mut named = self.0.values().filter(|one| one.name == BINARY);
        named.next().expect("the crate of the binary is the root of the tree")
    }

    fn join(
        linked: &BTreeSet<CrateId>,
        metadata: &Value,
        checksums: &BTreeMap<CrateId, String>,
    ) -> Result<Self> {
        let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let mut ids = BTreeMap::new();
        let mut crates = BTreeMap::new();
        for package in list(&metadata["packages"]) {
            let name = text(&package["name"]).context("a package has a name")?;
            let version = text(&package["version"]).context("a package has a version")?;
            let id = (name.clone(), version.clone());
            if !linked.contains(&id) {
                continue;
            }
            ids.insert(text(&package["id"]).context("a package has an id")?, id.clone());
            let manifest = PathBuf::from(text(&package["manifest_path"]).unwrap_or_default());
            let one = LinkedCrate {
                name,
                version,
                licence: text(&package["license"]),
                checksum: checksums.get(&id).cloned(),
                repository: text(&package["repository"]),
                folder: manifest.parent().context("a manifest has a folder")?.to_path_buf(),
                depends_on: BTreeSet::new(),
            };
            crates.insert(id, one);
        }
        if let Some((name, version)) = linked.iter().find(|id| !crates.contains_key(*id)) {
            anyhow::bail!("cargo metadata has no {name} {version}");
        }
        for node in list(&metadata["resolve"]["nodes"]) {
            let Some(id) = node["id"].as_str().and_then(|id| ids.get(id)) else { continue };
            let is_normal =
                |edge: &Value| list(&edge["dep_kinds"]).iter().any(|kind| kind["kind"].is_null());
            let edges = list(&node["deps"]);
            let edges = edges.iter().filter(|edge| is_normal(edge));
            let found = edges.filter_map(|edge| ids.get(edge["pkg"].as_str()?)).cloned().collect();
            crates.get_mut(id).expect("every id is a crate").depends_on = found;
        }
        Ok(Self(crates))
    }
}

/// Reads lines such as `serde v1.0.229`, with a path or a remark behind.
fn parse_tree(text: &str) -> BTreeSet<CrateId> {
    let crates = text.lines().filter_map(|line| {
        let (name, rest) = line.split_once(" v")?;
        let version = rest.split_whitespace().next()?;
        Some((name.to_owned(), version.to_owned()))
    });
    crates.collect()
}

/// Reads the checksums of a lock file.
fn parse_checksums(lock: &str) -> BTreeMap<CrateId, String> {
    let mut found = BTreeMap::new();
    for block in lock.split("[[package]]") {
        let field = |name: &str| {
            let line = block.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(" = "));
            line.map(|value| value.trim_matches('"').to_owned())
        };
        if let (Some(name), Some(version), Some(checksum)) =
            (field("name"), field("version"), field("checksum"))
        {
            found.insert((name, version), checksum);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(name: &str, version: &str) -> CrateId {
        (name.to_owned(), version.to_owned())
    }

    #[test]
    fn the_tree_of_cargo_is_read() {
        let text =
            "muster v0.1.0 (/a/crates/cli)\nserde v1.0.229\nserde v1.0.229 (*)\n\nahash v0.8.1+x\n";
        let expected = [id("muster", "0.1.0"), id("serde", "1.0.229"), id("ahash", "0.8.1+x")];
        assert_eq!(parse_tree(text), BTreeSet::from(expected));
    }

    #[test]
    fn a_lock_file_has_checksums_of_crates_from_a_registry() {
        let lock = "version = 4\n\n[[package]]\nname = \"a\"\nversion = \"1.0.0\"\nchecksum = \"77\"\n\n\
                    [[package]]\nname = \"own\"\nversion = \"0.1.0\"\ndependencies = [\n \"a\",\n]\n";
        assert_eq!(parse_checksums(lock), BTreeMap::from([(id("a", "1.0.0"), "77".to_owned())]));
    }

    #[test]
    fn crates_of_this_binary_leave_out_those_of_tests_and_of_macros() {
        let crates = LinkedCrates::read(&crate::root()).unwrap();
        let has = |name: &str| crates.0.keys().any(|(other, _)| other == name);
        assert!(has("libsqlite3-sys") && has("muster-engine") && has("serde"));
        for other in ["insta", "muster-testkit", "xtask", "serde_derive", "cc"] {
            assert!(!has(other), "{other}");
        }
        let engine = crates.binary();
        assert!(engine.depends_on.iter().any(|(name, _)| name == "muster-daemon"));
        assert!(!engine.depends_on.iter().any(|(name, _)| name == "muster-testkit"));
        let third = crates.0.values().filter(|one| !one.name.starts_with("muster"));
        for one in third {
            assert_eq!(one.checksum.as_ref().map(String::len), Some(64), "{}", one.name);
        }
    }
}
