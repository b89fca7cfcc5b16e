//! Tests the packages of `dist`: makes them of the binary that the other tests use, then runs the
//! test target `packages`, which installs each in a clean root, runs a job there and removes it. What
//! is missing on this machine is printed, and those tests count as skipped.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, ensure};

use crate::dist::{self, PackageOptions};
use crate::totals::Totals;
use crate::{binaries, debian, tools};

/// Prefixes of the tests, and whether they are done in a root file system of Debian.
const GROUPS: [(&str, bool); 6] = [
    ("contents", false),
    ("wheel", false),
    ("image", false),
    ("deb", true),
    ("rpm", true),
    ("tarball", true),
];

/// File that marks a complete root.
const MARK: &str = "etc/muster-packages-root";

/// Runs `cargo xtask packages`.
pub fn run_standalone(root: &Path) -> Result<ExitCode> {
    let mut totals = Totals::default();
    let result = run(root, &mut totals);
    println!("{totals}");
    result.map(|()| ExitCode::SUCCESS)
}

/// Runs the step of the test command.
pub fn run(root: &Path, totals: &mut Totals) -> Result<()> {
    let binary = binaries::with_own_step(root, "packages")?;
    let target = dist::target(root);
    let packages = target.join("test-packages");
    let tools = dist::install_tools();
    if let Err(error) = &tools {
        println!("the tests of packages are skipped: {error:#}");
    } else {
        let mut options = PackageOptions::of(root, target.join("debug/muster"));
        options.output.clone_from(&packages);
        options.is_fast = true;
        dist::make_packages(root, &options)?;
    }
    let base = clean_root(&target);
    if let Err(error) = &base {
        println!("the tests in a root of Debian are skipped: {error:#}");
    }
    for (group, in_root) in GROUPS {
        let mut tests = binary.command();
        tests.args([&format!("{group}::"), "--test-threads=1"]).env("MUSTER_PACKAGES", &packages);
        tests.env("MUSTER_REPOSITORY", root);
        if let Ok(base) = &base {
            tests.env("MUSTER_PACKAGES_ROOT", base);
        }
        let is_possible = match group {
            "image" => tools::is_root(),
            _ => !in_root || base.is_ok(),
        };
        if tools.is_ok() && is_possible {
            tests.arg("--include-ignored");
        }
        binaries::watch(&mut tests, group, totals)?;
    }
    Ok(())
}

/// Returns a minimal root of this machine's release of Debian, whose C library is new enough for the
/// binary; it is made once (300 MB, about a minute).
fn clean_root(target: &Path) -> Result<PathBuf> {
    ensure!(tools::is_root(), "a root file system requires root");
    let release = debian::own_release().context("this machine does not run Debian")?;
    let folder = target.join("packages-root").join(&release);
    if !folder.join(MARK).exists() {
        println!("creating a root file system of {release} in {}", folder.display());
        if folder.exists() {
            fs::remove_dir_all(&folder)?;
        }
        debian::bootstrap(&release, &folder)?;
        fs::write(folder.join(MARK), release)?;
    }
    Ok(folder)
}
