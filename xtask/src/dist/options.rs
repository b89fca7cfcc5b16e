//! Options of `cargo xtask dist packages`.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use super::elf::GlibcVersion;

/// Binary to package, and the folder to write to.
#[derive(Clone, Debug)]
pub struct PackageOptions {
    /// The binary that is packaged; debug information and symbols are removed from a copy.
    pub binary: PathBuf,
    /// Folder of the packages; it is made anew.
    pub output: PathBuf,
    /// Fail when the binary needs a newer C library than this; `None` accepts any.
    pub newest_glibc: Option<GlibcVersion>,
    /// Compress little: for tests.
    pub is_fast: bool,
}

impl PackageOptions {
    /// Returns the options for a binary that others will install.
    pub fn of(root: &Path, binary: PathBuf) -> Self {
        // Not `target/dist`, which is cargo's folder for the profile of that name.
        let output = target(root).join("packages");
        Self { binary, output, newest_glibc: None, is_fast: false }
    }

    /// Reads the words after `dist packages`.
    ///
    /// # Errors
    /// For an unknown word, or one without its value.
    pub fn parse(root: &Path, words: &[&str]) -> Result<Self> {
        let mut options = Self::of(root, target(root).join("release/muster"));
        let mut words = words.iter();
        while let Some(word) = words.next() {
            let mut value = || words.next().with_context(|| format!("{word} needs a value"));
            match *word {
                "--binary" => options.binary = value()?.into(),
                "--output" => options.output = value()?.into(),
                "--newest-glibc" => options.newest_glibc = Some(value()?.parse()?),
                "--fast" => options.is_fast = true,
                _ => bail!("unknown argument: dist packages {word}"),
            }
        }
        Ok(options)
    }
}

/// Returns cargo's target folder.
pub fn target(root: &Path) -> PathBuf {
    root.join(std::env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_options_and_others_are_refused() {
        let root = Path::new("/repository");
        let words = ["--binary", "/b", "--output", "/o", "--newest-glibc", "2.28", "--fast"];
        let options = PackageOptions::parse(root, &words).unwrap();
        assert_eq!((options.binary, options.output), ("/b".into(), "/o".into()));
        assert_eq!(options.newest_glibc, Some("2.28".parse().unwrap()));
        assert!(options.is_fast);
        for wrong in [&["--binary"][..], &["--newest-glibc", "new"], &["muster"]] {
            assert!(PackageOptions::parse(root, wrong).is_err(), "{wrong:?}");
        }
    }
}
