//! Dependencies between the crates of the workspace ("arrows"): cargo's normal dependencies,
//! compared with the golden file `docs/arrows.txt`. For the pure crates the third-party
//! dependencies are compared too: code that is not linked cannot read a clock or open a socket.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::cargo;

/// Path of the golden file, relative to the root.
pub const GOLDEN: &str = "docs/arrows.txt";

/// Crates without I/O, clock, environment, threads and random numbers.
pub const PURE: [&str; 17] = [
    "advise",
    "determined",
    "document",
    "doctor",
    "engine",
    "kubernetes",
    "model",
    "policy",
    "ray",
    "report",
    "runtime",
    "scheduler",
    "sim",
    "slurm",
    "spec",
    "sweep",
    "testkit",
];

/// Crate that is linked into tests only.
const TEST_ONLY: &str = "testkit";

const HEADING: &str = "\
# Normal dependencies between the crates (folders of crates/), and the third-party dependencies of the pure crates.
# Compared with `cargo metadata` by `cargo xtask tidy`; rewritten by `cargo xtask arrows --write`.
# A new line is a change of design: justify it in a decision record (docs/adr/, see 0001).
";

/// Fails with the differing lines when the tree and the golden file differ.
pub fn compare(root: &Path) -> Result<()> {
    let lines = drift(root)?;
    if lines.is_empty() {
        println!("dependencies between crates: as in {GOLDEN}");
        return Ok(());
    }
    bail!("dependencies between crates differ from {GOLDEN}:\n  {}", lines.join("\n  "))
}

/// Returns the lines in which tree and golden file differ.
pub fn drift(root: &Path) -> Result<Vec<String>> {
    let golden =
        std::fs::read_to_string(root.join(GOLDEN)).with_context(|| format!("reading {GOLDEN}"))?;
    Ok(differences(&golden, &render(&metadata(root)?)?))
}

/// Updates the golden file.
pub fn write(root: &Path) -> Result<()> {
    std::fs::write(root.join(GOLDEN), render(&metadata(root)?)?)?;
    println!("wrote {GOLDEN}");
    Ok(())
}

/// Returns cargo's metadata of the workspace's own packages.
fn metadata(root: &Path) -> Result<Value> {
    let output = Command::new(cargo())
        .args(["metadata", "--no-deps", "--format-version", "1", "--offline"])
        .current_dir(root)
        .output()
        .context("cargo metadata did not start")?;
    if !output.status.success() {
        bail!("cargo metadata: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(serde_json::from_slice(&output.stdout)?)
}

/// Returns the text of the golden file for this metadata.
fn render(metadata: &Value) -> Result<String> {
    let packages = metadata["packages"].as_array().context("metadata lists packages")?;
    let mut crates: BTreeMap<String, (BTreeSet<String>, BTreeSet<String>)> = BTreeMap::new();
    for package in packages {
        let name =
            crate_name(package["manifest_path"].as_str().context("a package has a manifest")?)?;
        let (ours, others) = crates.entry(name.clone()).or_default();
        for dependency in package["dependencies"].as_array().into_iter().flatten() {
            if dependency["kind"] == "dev" {
                continue;
            }
            match dependency["path"].as_str() {
                Some(path) => {
                    let linked = crate_name(&format!("{path}/Cargo.toml"))?;
                    if linked == TEST_ONLY {
                        bail!("{name} links {TEST_ONLY}, which may only be a dev-dependency");
                    }
                    ours.insert(linked)
                }
                None => others.insert(
                    dependency["name"].as_str().context("a dependency has a name")?.to_owned(),
                ),
            };
        }
    }
    let join = |names: &BTreeSet<String>| names.iter().cloned().collect::<Vec<_>>().join(", ");
    let mut text = HEADING.to_owned();
    for (name, (ours, _)) in &crates {
        text += &format!(
            "{name:<8} -> {}\n",
            if ours.is_empty() { "nothing".to_owned() } else { join(ours) }
        );
    }
    for (name, (_, others)) in crates.iter().filter(|(name, _)| PURE.contains(&name.as_str())) {
        text += &format!("{name:<8} links {}\n", join(others));
    }
    Ok(text)
}

/// Returns the lines that only one side has: `-` is only in the golden file, `+` only in the tree.
fn differences(golden: &str, actual: &str) -> Vec<String> {
    let lines = |text: &str| -> BTreeSet<String> {
        text.lines()
            .map(str::trim_end)
            .filter(|line| !line.starts_with('#') && !line.is_empty())
            .map(str::to_owned)
            .collect()
    };
    let golden = lines(golden);
    let actual = lines(actual);
    let gone = golden.difference(&actual).map(|line| format!("- {line}"));
    gone.chain(actual.difference(&golden).map(|line| format!("+ {line}"))).collect()
}

/// Returns the name of a crate's folder: that of its manifest.
fn crate_name(manifest: &str) -> Result<String> {
    let folder = Path::new(manifest)
        .parent()
        .and_then(Path::file_name)
        .context("a manifest has a folder")?;
    Ok(folder.to_string_lossy().into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn workspace(engine_dependencies: Value) -> Value {
        json!({"packages": [
            {"manifest_path": "/w/crates/model/Cargo.toml", "dependencies": [{"name": "serde", "kind": null}]},
            {"manifest_path": "/w/crates/engine/Cargo.toml", "dependencies": engine_dependencies},
            {"manifest_path": "/w/crates/api/Cargo.toml", "dependencies": [{"name": "hyper", "kind": null}]},
        ]})
    }

    #[test]
    fn new_dependencies_and_third_party_crates_of_pure_crates_are_found() {
        let model = json!({"name": "muster-model", "kind": null, "path": "/w/crates/model"});
        let golden = render(&workspace(json!([model]))).expect("well-formed");
        assert!(golden.contains("engine   -> model\n"), "{golden}");
        assert!(golden.contains("model    links serde\n"), "{golden}");
        assert!(!golden.contains("hyper"), "only pure crates list third-party crates: {golden}");

        let api = json!({"name": "muster-api", "kind": null, "path": "/w/crates/api"});
        let tokio = json!({"name": "tokio", "kind": null});
        let changed = render(&workspace(json!([model, api, tokio]))).expect("well-formed");
        assert_eq!(
            differences(&golden, &changed),
            [
                "- engine   -> model",
                "- engine   links ",
                "+ engine   -> api, model",
                "+ engine   links tokio"
            ]
            .map(str::trim_end)
        );
    }

    #[test]
    fn test_equipment_is_linked_into_tests_only() {
        let testkit =
            |kind| json!([{"name": "muster-testkit", "kind": kind, "path": "/w/crates/testkit"}]);
        assert!(render(&workspace(testkit(json!("dev")))).is_ok());
        let refused = render(&workspace(testkit(json!(null)))).expect_err("a normal dependency");
        assert_eq!(refused.to_string(), "engine links testkit, which may only be a dev-dependency");
    }

    #[test]
    fn dependencies_of_build_scripts_count_and_those_of_tests_do_not() {
        let dev = json!([{"name": "muster-api", "kind": "dev", "path": "/w/crates/api"}]);
        assert!(render(&workspace(dev)).expect("well-formed").contains("engine   -> nothing"));
        let build = json!([{"name": "muster-api", "kind": "build", "path": "/w/crates/api"}]);
        assert!(render(&workspace(build)).expect("well-formed").contains("engine   -> api"));
    }
}
