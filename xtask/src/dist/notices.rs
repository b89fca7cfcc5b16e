//! Licence texts of all crates in the binary, which their licences want to be passed on with it.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;

use anyhow::{Context, Result};

use super::linked_crates::{LinkedCrate, LinkedCrates};

/// Starts of the names of files that are passed on, in lower case.
const NAMES: [&str; 5] = ["license", "licence", "copying", "copyright", "notice"];

/// Returns a list of the crates, and each text once with the crates that have it.
///
/// # Errors
/// When the folder of a crate cannot be read.
pub fn text(crates: &LinkedCrates) -> Result<String> {
    let third: Vec<&LinkedCrate> = crates.0.values().filter(|one| one.checksum.is_some()).collect();
    let mut all = String::from(
        "The program muster contains the following crates. SQLite, in libsqlite3-sys, is in the public domain.\n\n",
    );
    let mut texts: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for one in third {
        let licence = one.licence.as_deref().unwrap_or("see below");
        writeln!(all, "{} {}: {licence}", one.name, one.version)?;
        for text in texts_of(one)? {
            texts.entry(text).or_default().push(format!("{} {}", one.name, one.version));
        }
    }
    for (text, owners) in &texts {
        let line = "-".repeat(80);
        write!(all, "\n{line}\n{}\n{line}\n\n{}\n", owners.join(", "), text.trim_end())?;
    }
    Ok(all)
}

/// Returns the licence texts in the folder of a crate.
fn texts_of(one: &LinkedCrate) -> Result<Vec<String>> {
    let entries = fs::read_dir(&one.folder).with_context(|| format!("{}", one.folder.display()))?;
    let mut paths = entries.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>>>()?;
    paths.retain(|path| {
        let name = path.file_name().map(|name| name.to_string_lossy().to_lowercase());
        path.is_file() && name.is_some_and(|name| NAMES.iter().any(|start| name.starts_with(start)))
    });
    paths.sort();
    let texts = paths.iter().map(|path| {
        let bytes = fs::read(path).with_context(|| format!("{}", path.display()))?;
        Ok(String::from_utf8_lossy(&bytes).replace("\r\n", "\n").trim().to_owned())
    });
    texts.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_third_party_crate_is_named_and_texts_are_there_once() {
        let crates = LinkedCrates::read(&crate::root()).unwrap();
        let text = text(&crates).unwrap();
        for one in crates.0.values() {
            let line = format!("\n{} {}: ", one.name, one.version);
            assert_eq!(text.contains(&line), one.checksum.is_some(), "{line}");
        }
        assert!(
            text.contains("Permission is hereby granted"),
            "there is no text of the MIT licence"
        );
        let separators = text.lines().filter(|line| line.starts_with("----------")).count();
        assert!(separators > 20, "{separators} separators");
    }
}
