//! Libraries and the version of glibc that a binary needs, as `readelf` prints them. Packages declare
//! these, so that a package of any binary is installed only where it runs.

use std::fmt;
use std::path::Path;
use std::process::Command;
use std::str::FromStr;

use anyhow::{Context, Result, bail, ensure};

use crate::tools;

/// Version of glibc: `2.28`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct GlibcVersion {
    /// Number before the dot.
    pub major: u32,
    /// Number after the dot.
    pub minor: u32,
}

/// First version that loads packed relocations, which a binary asks for by a name without a number.
const PACKED_RELOCATIONS: (&str, GlibcVersion) =
    ("ABI_DT_RELR", GlibcVersion { major: 2, minor: 36 });

/// Libraries that the dynamic linker must find.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NeededLibraries {
    /// Oldest version of glibc that has all symbols.
    pub glibc: GlibcVersion,
    /// File names, such as `libc.so.6`.
    pub names: Vec<String>,
}

impl NeededLibraries {
    /// Reads a binary.
    ///
    /// # Errors
    /// When `readelf` fails, or the binary is linked statically.
    pub fn of(binary: &Path) -> Result<Self> {
        let mut readelf = Command::new("readelf");
        readelf.args(["--wide", "--dynamic", "--version-info"]).arg(binary).env("LC_ALL", "C");
        Self::parse(&tools::stdout(&mut readelf)?)
            .with_context(|| format!("the libraries of {}", binary.display()))
    }

    fn parse(text: &str) -> Result<Self> {
        let needed = |line: &str| {
            let (_, name) = line.split_once("(NEEDED)")?.1.split_once('[')?;
            Some(name.strip_suffix(']')?.to_owned())
        };
        let names: Vec<String> = text.lines().map(str::trim_end).filter_map(needed).collect();
        ensure!(
            !names.is_empty(),
            "the binary is linked statically: it cannot load NVIDIA's library, and sees no GPU"
        );
        let versions = text.split_whitespace().filter_map(|word| word.strip_prefix("GLIBC_"));
        let versions = versions.map(|word| match word {
            word if word == PACKED_RELOCATIONS.0 => Ok(PACKED_RELOCATIONS.1),
            word => word.parse(),
        });
        let glibc = versions.collect::<Result<Vec<_>>>()?.into_iter().max();
        Ok(Self { glibc: glibc.context("no symbol of glibc is used")?, names })
    }

    /// Returns true if this library is needed.
    pub fn has(&self, name: &str) -> bool {
        self.names.iter().any(|other| other == name)
    }
}

impl FromStr for GlibcVersion {
    type Err = anyhow::Error;

    /// Reads `2.28`; a third number, as in `2.2.5`, does not matter.
    fn from_str(text: &str) -> Result<Self> {
        let numbers: Result<Vec<u32>, _> = text.split('.').map(str::parse).collect();
        match numbers.as_deref() {
            Ok([major, minor, ..]) => Ok(Self { major: *major, minor: *minor }),
            _ => bail!("`{text}` is not a version of glibc"),
        }
    }
}

impl fmt::Display for GlibcVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: Option<(&str, &[&str])>) {
        let found = NeededLibraries::parse(text).ok();
        let expected = expected.map(|(glibc, names)| NeededLibraries {
            glibc: glibc.parse().unwrap(),
            names: names.iter().map(|name| (*name).to_owned()).collect(),
        });
        assert_eq!(found, expected, "{text}");
    }

    #[test]
    fn the_newest_symbol_is_the_oldest_glibc_that_works() {
        let dynamic = " 0x0000000000000001 (NEEDED)  Shared library: [libc.so.6]\n";
        let needs = |versions: &str| format!("{dynamic}{versions}");
        let version = |name: &str| format!("  0x0010:   Name: {name}  Flags: none  Version: 12\n");
        // Compared as numbers: 2.9 is older than 2.28.
        let several = ["GLIBC_2.9", "GLIBC_2.28", "GLIBC_2.2.5", "GCC_3.0"].map(version).concat();
        check(&needs(&several), Some(("2.28", &["libc.so.6"])));
        check(&needs(&version("GLIBC_ABI_DT_RELR")), Some(("2.36", &["libc.so.6"])));
        // A private symbol is of one version only.
        check(&needs(&version("GLIBC_PRIVATE")), None);
        check(&needs(""), None);
        check("There is no dynamic section in this file.", None);
    }

    #[test]
    fn libraries_of_this_program_are_read() {
        let own = NeededLibraries::of(&std::env::current_exe().unwrap()).unwrap();
        assert!(own.has("libc.so.6") && !own.has("libc.so"), "{own:?}");
        assert!(own.glibc >= "2.2".parse().unwrap(), "{own:?}");
    }
}
