//! Virtual environments of Python under `target/`, with packages from PyPI. One is kept between runs, and made again
//! when what it is made of changes.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

use crate::tools;

/// Virtual environment, and what it is made of.
#[derive(Clone, Copy, Debug)]
pub struct Venv<'a> {
    /// Folder of the environment.
    pub folder: &'a Path,
    /// Versions, patches and whatever else it is made of: a change makes it anew.
    pub content: &'a str,
    /// Modules that must be there, as `import` takes them.
    pub modules: &'a str,
}

impl Venv<'_> {
    /// Returns the interpreter of the environment. If there is none yet, that of `system` makes it with these options of
    /// `venv`, and `fill` installs the packages with the new interpreter.
    ///
    /// # Errors
    /// When a command fails, as without a connection to PyPI, or when a module is missing in the end.
    pub fn interpreter(
        &self,
        system: impl FnOnce() -> Result<&'static Path>,
        options: &[&str],
        fill: impl FnOnce(&Path) -> Result<()>,
    ) -> Result<PathBuf> {
        let own = self.folder.join("bin/python3");
        if self.is_current(&own) {
            return Ok(own);
        }
        let python = system()?;
        println!("creating a virtual environment in {}", self.folder.display());
        let _ = fs::remove_dir_all(self.folder);
        tools::succeed(Command::new(python).args(["-m", "venv"]).args(options).arg(self.folder))?;
        fill(&own)?;
        ensure!(imports(&own, self.modules), "the libraries do not work together");
        fs::write(self.stamp(), self.content)
            .context("the content file of the virtual environment")?;
        Ok(own)
    }

    fn stamp(&self) -> PathBuf {
        self.folder.join("content")
    }

    fn is_current(&self, own: &Path) -> bool {
        fs::read_to_string(self.stamp()).is_ok_and(|text| text == self.content)
            && imports(own, self.modules)
    }
}

/// Installs packages with `pip`.
///
/// # Errors
/// When `pip` fails.
pub fn install(python: &Path, packages: &[&str]) -> Result<()> {
    let pip = ["-m", "pip", "install", "--quiet", "--no-cache-dir", "--disable-pip-version-check"];
    tools::succeed(Command::new(python).args(pip).args(packages))
}

/// Returns true if an interpreter is there and can import modules.
pub fn imports(python: &Path, modules: &str) -> bool {
    let mut command = Command::new(python);
    command.args(["-c", &format!("import {modules}")]).stdin(Stdio::null());
    let quiet = command.stdout(Stdio::null()).stderr(Stdio::null());
    quiet.status().is_ok_and(|status| status.success())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interpreter_that_does_not_exist_has_nothing() {
        assert!(!imports(Path::new("/no/such/python"), "sys"));
    }
}
