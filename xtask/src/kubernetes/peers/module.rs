//! Builds programs of other projects straight from their Go modules, with the dependencies that each pins for itself, and
//! keeps them in a folder that is named after the hash of what they are made of. A module is verified by its checksum here,
//! and all that it requires by its own `go.sum`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::super::{binary, target};
use crate::test_cluster::folder::fnv;

/// Module of the Go module proxy.
#[derive(Debug)]
pub struct GoModule {
    pub path: &'static str,
    pub version: &'static str,
    /// Checksum of its files, as in a `go.sum`.
    pub sum: &'static str,
}

/// Module that replaces one which the proxy does not serve.
#[derive(Debug)]
pub struct Replacement {
    pub module: GoModule,
    /// Files that it lacks: path and text.
    pub added: &'static [(&'static str, &'static str)],
}

/// Programs of one module.
#[derive(Debug)]
pub struct GoPrograms {
    pub module: GoModule,
    /// Folder of each program's source in the module, and the program's name.
    pub programs: &'static [(&'static str, &'static str)],
    pub replacement: Option<Replacement>,
}

impl GoModule {
    /// Downloads the module unless it is there; returns its folder, which is read-only.
    pub fn download(&self, root: &Path) -> Result<PathBuf> {
        let Self { path, version, sum } = self;
        let name = format!("{path}@{version}");
        let mut command = Command::new("go");
        command.args(["mod", "download", "-json", &name]).current_dir(root);
        let said: Value = serde_json::from_slice(&binary::output(&mut command)?.stdout)
            .with_context(|| format!("go mod download {name} said nothing"))?;
        if let Some(error) = said["Error"].as_str() {
            bail!("{}", error.lines().next().unwrap_or_default());
        }
        if said["Sum"] != *sum {
            bail!("{name}: its checksum is {}, not {sum}", said["Sum"]);
        }
        let folder = said["Dir"].as_str().map(PathBuf::from);
        folder.with_context(|| format!("go mod download {name}: no folder"))
    }
}

impl GoPrograms {
    /// Returns the folder of the programs; builds them if they have not been built yet.
    pub fn ensure(&self, root: &Path) -> Result<PathBuf> {
        let source = self.module.download(root)?;
        let mut hashed = format!("{self:?}{:?}", binary::FLAGS).into_bytes();
        hashed.extend(binary::go_version(root)?);
        let folder = target(root).join("kubernetes-peers").join(format!("{:016x}", fnv(&hashed)));
        if !folder.exists() {
            println!("building {}: minutes, the first time", self.module.path);
            binary::fill(&folder, |unfinished| self.build(root, &source, unfinished))?;
        }
        Ok(folder)
    }

    fn build(&self, root: &Path, source: &Path, folder: &Path) -> Result<()> {
        // Needed only until the end of the build.
        let temporary = tempfile::tempdir()?;
        let mod_file = temporary.path().join("go.mod");
        for name in ["go.mod", "go.sum"] {
            fs::write(temporary.path().join(name), fs::read(source.join(name))?)?;
        }
        if let Some(replacement) = &self.replacement {
            replacement.apply(root, &mod_file, &temporary.path().join("replacement"))?;
        }
        for (package, program) in self.programs {
            let mut command = binary::go_build();
            command.args(["-ldflags", "-s -w"]).arg("-modfile").arg(&mod_file);
            command.arg("-o").arg(folder.join(program)).arg(format!("./{package}"));
            succeed(command.current_dir(source), &format!("go build {package}"))?;
        }
        Ok(())
    }
}

impl Replacement {
    /// Copies the module with what it lacks, and makes a `go.mod` use the copy.
    fn apply(&self, root: &Path, mod_file: &Path, copy: &Path) -> Result<()> {
        let source = self.module.download(root)?;
        let mut command = Command::new("cp");
        succeed(command.args(["-r", "--no-preserve=mode"]).arg(source).arg(copy), "cp")?;
        for (path, text) in self.added {
            fs::write(copy.join(path), text)?;
        }
        let replace = format!("-replace={}={}", self.module.path, copy.display());
        let mut command = Command::new("go");
        succeed(command.args(["mod", "edit", &replace]).arg(mod_file), "go mod edit")
    }
}

/// Runs a program; fails with the first line of what it reports.
fn succeed(command: &mut Command, what: &str) -> Result<()> {
    let output = binary::output(command)?;
    if output.status.success() {
        return Ok(());
    }
    let text = String::from_utf8_lossy(&output.stderr);
    let is_report = |line: &&str| !line.starts_with("go: downloading") && !line.starts_with('#');
    bail!("{what}: {}", text.lines().find(is_report).unwrap_or("failed"));
}
