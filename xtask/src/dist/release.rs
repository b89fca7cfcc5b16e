//! Facts that all formats share: version, architecture, time, libraries, and folders. Making a
//! [`Release`] also strips the binary and generates its manual pages and completions.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::architecture::{self, Architecture};
use super::elf::NeededLibraries;
use super::linked_crates::LinkedCrates;
use super::notices;
use super::options::PackageOptions;
use crate::tools;

/// One line for the fields that want one.
pub const SUMMARY: &str = "Scheduler for GPU jobs on one machine, on Slurm and on Kubernetes";

/// Some lines for the fields that want more.
pub const DESCRIPTION: &str = "\
Muster starts all processes of a GPU job together or not at all, in a fair order,
and says why a job is pending and when it will start. It is one binary: on one
machine it needs no configuration, and on Slurm and Kubernetes it submits native
jobs. NVIDIA's driver library is used if it exists.";

/// Program and shell of each completion script, and its place below the prefix.
const COMPLETIONS: [(&str, &str); 3] = [
    ("bash", "share/bash-completion/completions/muster"),
    ("zsh", "share/zsh/site-functions/_muster"),
    ("fish", "share/fish/vendor_completions.d/muster.fish"),
];

/// Documents, and their names in the folder of documentation.
const DOCUMENTS: [(&str, &str); 5] = [
    ("README.md", "README.md"),
    ("CHANGELOG.md", "CHANGELOG.md"),
    ("LICENSE", "LICENSE"),
    ("packaging/prometheus/alerts.yaml", "prometheus/alerts.yaml"),
    ("packaging/prometheus/dashboard.json", "prometheus/dashboard.json"),
];

/// Everything that the formats need.
pub struct Release {
    /// Top folder of the checkout.
    pub root: PathBuf,
    /// Folder of the packages.
    pub output: PathBuf,
    /// Folder of intermediate files; each format has its own below.
    pub work: PathBuf,
    /// Version of the workspace, which the binary prints, too.
    pub version: String,
    /// Architecture of the binary.
    pub architecture: Architecture,
    /// Time of the commit in seconds since 1970: that of all files in packages.
    pub epoch: u64,
    /// Libraries that the binary loads.
    pub libraries: NeededLibraries,
    /// Crates that are linked into the binary.
    pub crates: LinkedCrates,
    /// True to compress little.
    pub is_fast: bool,
}

impl Release {
    /// Collects the facts, and prepares the files that all formats contain.
    ///
    /// # Errors
    /// When the binary is of another version, or needs a newer glibc than the options allow.
    pub fn prepare(root: &Path, options: &PackageOptions) -> Result<Self> {
        let libraries = NeededLibraries::of(&options.binary)?;
        if let Some(newest) = options.newest_glibc {
            ensure!(
                libraries.glibc <= newest,
                "the binary needs glibc {}, newer than {newest}",
                libraries.glibc
            );
        }
        // The tools run in folders of their own.
        let output = std::path::absolute(&options.output)?;
        if output.exists() {
            fs::remove_dir_all(&output)?;
        }
        let work = output.with_extension("work");
        if work.exists() {
            fs::remove_dir_all(&work)?;
        }
        fs::create_dir_all(&output)?;
        fs::create_dir_all(&work)?;
        let crates = LinkedCrates::read(root)?;
        let release = Self {
            root: root.to_path_buf(),
            output,
            work,
            version: crates.binary().version.clone(),
            architecture: architecture::of_this_machine()?,
            epoch: epoch(root)?,
            libraries,
            crates,
            is_fast: options.is_fast,
        };
        release.strip(&options.binary)?;
        release.check_version()?;
        release.lay_out_common()?;
        Ok(release)
    }

    /// Returns the path of the stripped binary.
    pub fn binary(&self) -> PathBuf {
        self.common().join("bin/muster")
    }

    /// Returns the folder with all files of an installation below its prefix, except the unit.
    pub fn common(&self) -> PathBuf {
        self.work.join("common")
    }

    /// Returns a new folder for one format.
    ///
    /// # Errors
    /// When it cannot be created.
    pub fn folder(&self, format: &str) -> Result<PathBuf> {
        let folder = self.work.join(format);
        fs::create_dir_all(&folder).with_context(|| format!("{}", folder.display()))?;
        Ok(folder)
    }

    /// Returns a command that sees the time of the commit and the C locale.
    pub fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.env("SOURCE_DATE_EPOCH", self.epoch.to_string()).env("LC_ALL", "C");
        command
    }

    /// Writes `SHA256SUMS` over all packages.
    ///
    /// # Errors
    /// When a file cannot be read.
    pub fn write_checksums(&self) -> Result<()> {
        let mut names: Vec<_> = fs::read_dir(&self.output)?
            .map(|entry| Ok(entry?.file_name()))
            .collect::<Result<_>>()?;
        names.sort();
        let mut sums = self.command("sha256sum");
        let sums = tools::stdout(sums.args(&names).current_dir(&self.output))?;
        fs::write(self.output.join("SHA256SUMS"), sums).context("SHA256SUMS")
    }

    fn strip(&self, binary: &Path) -> Result<()> {
        fs::create_dir_all(self.common().join("bin"))?;
        tools::succeed(self.command("strip").arg("-o").arg(self.binary()).arg(binary))
    }

    fn check_version(&self) -> Result<()> {
        let printed = tools::stdout(Command::new(self.binary()).arg("--version"))?;
        let found = printed.split_whitespace().nth(1);
        ensure!(
            found == Some(self.version.as_str()),
            "the binary prints `{}`, the workspace has version {}",
            printed.trim(),
            self.version
        );
        Ok(())
    }

    /// Writes manual pages, completions and documents beside the binary.
    fn lay_out_common(&self) -> Result<()> {
        let common = self.common();
        let pages = common.join("share/man/man1");
        tools::succeed(Command::new(self.binary()).args(["man", "--dir"]).arg(&pages))?;
        let names =
            fs::read_dir(&pages)?.map(|page| Ok(page?.path())).collect::<Result<Vec<_>>>()?;
        tools::succeed(self.command("gzip").args(["-9", "--no-name"]).args(names))?;
        for (shell, place) in COMPLETIONS {
            let script = tools::stdout(Command::new(self.binary()).args(["completions", shell]))?;
            write(&common.join(place), &script)?;
        }
        let documents = common.join("share/doc/muster");
        for (from, to) in DOCUMENTS {
            write(&documents.join(to), &fs::read_to_string(self.root.join(from)).context(from)?)?;
        }
        write(&documents.join("THIRD-PARTY.txt"), &notices::text(&self.crates)?)
    }
}

/// Writes a file that everybody may read, with the folders above it.
///
/// # Errors
/// When it cannot be written.
pub fn write(path: &Path, text: &str) -> Result<()> {
    let folder = path.parent().context("a file has a folder")?;
    fs::create_dir_all(folder)?;
    fs::write(path, text).with_context(|| format!("{}", path.display()))?;
    Ok(fs::set_permissions(path, fs::Permissions::from_mode(0o644))?)
}

/// Returns `SOURCE_DATE_EPOCH`, else the time of the commit.
fn epoch(root: &Path) -> Result<u64> {
    let text = match std::env::var("SOURCE_DATE_EPOCH") {
        Ok(text) => text,
        Err(_) => {
            let mut log = Command::new("git");
            log.args(["log", "-1", "--format=%ct"]).current_dir(root);
            tools::stdout(&mut log).context("hint: outside of git, set SOURCE_DATE_EPOCH")?
        }
    };
    text.trim().parse().with_context(|| format!("`{}` is not a time", text.trim()))
}
