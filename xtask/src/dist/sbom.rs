//! The bill of materials (SBOM) in the format CycloneDX 1.6: every crate in the binary, SQLite, and
//! the standard library, with licences and checksums.

use std::fs;
use std::process::Command;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::linked_crates::{CrateId, LinkedCrate, LinkedCrates};
use super::release::Release;
use crate::tools;

/// Crate that contains the C sources of SQLite.
const SQLITE_CRATE: &str = "libsqlite3-sys";

/// Makes `muster-VERSION-ARCHITECTURE-linux.cdx.json`.
///
/// # Errors
/// When a fact is missing.
pub fn make(release: &Release) -> Result<()> {
    let mut sum = Command::new("sha256sum");
    let sum = tools::stdout(sum.arg(release.binary()))?;
    let sum = sum.split_whitespace().next().context("sha256sum prints a sum")?;
    let mut date = Command::new("date");
    date.args(["--utc", "+%FT%TZ", "--date"]).arg(format!("@{}", release.epoch));
    let rust = tools::stdout(Command::new("rustc").arg("--version"))?;
    let rust = rust.split_whitespace().nth(1).context("rustc prints its version")?;
    let sbom =
        document(&release.crates, sum, tools::stdout(&mut date)?.trim(), rust, &sqlite(release)?);
    let name = format!("muster-{}-{}-linux.cdx.json", release.version, release.architecture.rust);
    fs::write(release.output.join(name), serde_json::to_string_pretty(&sbom)? + "\n")?;
    Ok(())
}

/// Returns the version of SQLite in the sources of its crate.
fn sqlite(release: &Release) -> Result<String> {
    let mut crates = release.crates.0.values();
    let found = crates.find(|one| one.name == SQLITE_CRATE).context("SQLite is linked")?;
    let header = fs::read_to_string(found.folder.join("sqlite3/sqlite3.h")).context("sqlite3.h")?;
    let version = header.lines().find_map(|line| {
        line.strip_prefix("#define SQLITE_VERSION ").map(|rest| rest.trim().trim_matches('"'))
    });
    Ok(version.context("sqlite3.h names no version")?.to_owned())
}

fn document(
    crates: &LinkedCrates,
    checksum: &str,
    timestamp: &str,
    rust: &str,
    sqlite: &str,
) -> Value {
    let binary = crates.binary();
    let mut main = component(binary);
    main["type"] = "application".into();
    main["hashes"] = hashes(checksum);
    let others = crates.0.values().filter(|one| one.name != binary.name);
    let mut components: Vec<Value> = others.map(component).collect();
    let std_reference = format!("pkg:generic/rust-std@{rust}");
    let sqlite_reference = format!("pkg:generic/sqlite@{sqlite}");
    components.push(json!({
        "type": "library", "bom-ref": sqlite_reference, "name": "sqlite", "version": sqlite,
        "purl": sqlite_reference, "licenses": [{"license": {"id": "blessing"}}],
    }));
    components.push(json!({
        "type": "library", "bom-ref": std_reference, "name": "rust-std", "version": rust,
        "purl": std_reference, "licenses": [{"expression": "MIT OR Apache-2.0"}],
    }));
    let mut dependencies: Vec<Value> = crates
        .0
        .values()
        .map(|one| {
            let mut on: Vec<String> = one.depends_on.iter().map(reference).collect();
            match one.name.as_str() {
                SQLITE_CRATE => on.push(sqlite_reference.clone()),
                name if name == binary.name => on.push(std_reference.clone()),
                _ => {}
            }
            json!({"ref": reference(&(one.name.clone(), one.version.clone())), "dependsOn": on})
        })
        .collect();
    dependencies.extend([&sqlite_reference, &std_reference].map(|one| json!({"ref": one})));
    json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"timestamp": timestamp, "component": main},
        "components": components,
        "dependencies": dependencies,
    })
}

/// Returns the package URL of a crate, which also is its reference in the document.
fn reference((name, version): &CrateId) -> String {
    format!("pkg:cargo/{name}@{}", version.replace('+', "%2B"))
}

fn component(one: &LinkedCrate) -> Value {
    let reference = reference(&(one.name.clone(), one.version.clone()));
    let mut found = json!({
        "type": "library",
        "bom-ref": reference,
        "name": one.name,
        "version": one.version,
        "purl": reference,
    });
    if let Some(licence) = &one.licence {
        // Old crates write a slash for a choice.
        found["licenses"] = json!([{"expression": licence.replace('/', " OR ")}]);
    }
    if let Some(checksum) = &one.checksum {
        found["hashes"] = hashes(checksum);
    }
    if let Some(repository) = &one.repository {
        found["externalReferences"] = json!([{"type": "vcs", "url": repository}]);
    }
    found
}

fn hashes(checksum: &str) -> Value {
    json!([{"alg": "SHA-256", "content": checksum}])
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn of_this_workspace() -> Value {
        let crates = LinkedCrates::read(&crate::root()).unwrap();
        document(&crates, &"0".repeat(64), "2026-11-28T00:00:00Z", "1.95.0", "3.54.1")
    }

    #[test]
    fn a_component_has_the_fields_that_the_format_requires() {
        let sbom = of_this_workspace();
        assert_eq!(
            (&sbom["bomFormat"], &sbom["specVersion"]),
            (&json!("CycloneDX"), &json!("1.6"))
        );
        let components = sbom["components"].as_array().unwrap();
        assert!(components.len() > 150, "{}", components.len());
        for one in components.iter().chain([&sbom["metadata"]["component"]]) {
            for field in ["type", "bom-ref", "name", "version", "purl"] {
                assert!(one[field].is_string(), "{field} of {one}");
            }
            assert!(one["licenses"][0].is_object(), "no licence: {one}");
            assert!(one["licenses"].as_array().unwrap().len() == 1, "{one}");
        }
    }

    #[test]
    fn references_are_unique_and_every_dependency_has_one() {
        let sbom = of_this_workspace();
        let mut references = BTreeSet::from([sbom["metadata"]["component"]["bom-ref"]
            .clone()
            .as_str()
            .unwrap()
            .to_owned()]);
        for one in sbom["components"].as_array().unwrap() {
            let reference = one["bom-ref"].as_str().unwrap().to_owned();
            assert!(references.insert(reference.clone()), "{reference} is there twice");
        }
        let dependencies = sbom["dependencies"].as_array().unwrap();
        assert_eq!(dependencies.len(), references.len());
        for one in dependencies {
            let on = one["dependsOn"].as_array().cloned().unwrap_or_default();
            for reference in on.iter().chain([&one["ref"]]) {
                assert!(references.contains(reference.as_str().unwrap()), "{reference}");
            }
        }
    }
}
