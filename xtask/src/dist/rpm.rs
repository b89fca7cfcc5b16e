//! The package for Fedora, RHEL, SUSE and their like, by `rpmbuild`, which reads the needed libraries
//! and symbols from the binary by itself.

use std::fs;

use anyhow::{Context, Result};

use super::release::{DESCRIPTION, Release, SUMMARY, write};
use super::tree;
use crate::tools;

/// Spec file for rpmbuild; `@NAME@` and the like stand for values of the release.
const SPEC: &str = include_str!("rpm/muster.spec");

/// Makes `muster-VERSION-1.ARCHITECTURE.rpm`.
///
/// # Errors
/// When `rpmbuild` fails.
pub fn make(release: &Release) -> Result<()> {
    let folder = release.folder("rpm")?;
    let files = folder.join("files");
    tree::lay_out(release, &files.join("usr"), "/usr")?;
    let list = tree::files(&files)?;
    let list: Vec<String> = list.iter().map(|file| format!("/{}", file.display())).collect();
    let spec = SPEC
        .replace("@VERSION@", &release.version)
        .replace("@SUMMARY@", SUMMARY)
        .replace("@DESCRIPTION@", DESCRIPTION)
        .replace("@FILES@", files.to_str().context("a path in UTF-8")?)
        .replace("@LIST@", &list.join("\n"));
    let recipe = folder.join("muster.spec");
    write(&recipe, &spec)?;
    let mut build = release.command("rpmbuild");
    build.args(["-bb", "--quiet", "--target", release.architecture.rust]);
    let payload = if release.is_fast { "w1.gzdio" } else { "w6.xzdio" };
    let top = folder.join("build");
    for (name, value) in [
        ("_topdir", top.display().to_string()),
        ("_dbpath", folder.join("database").display().to_string()),
        ("_binary_payload", payload.to_owned()),
        ("_buildhost", "localhost".to_owned()),
        ("use_source_date_epoch_as_buildtime", "1".to_owned()),
        ("clamp_mtime_to_source_date_epoch", "1".to_owned()),
        ("source_date_epoch_from_changelog", "0".to_owned()),
    ] {
        build.args(["--define", &format!("{name} {value}")]);
    }
    tools::succeed(build.arg(&recipe))?;
    let name = format!("muster-{}-1.{}.rpm", release.version, release.architecture.rust);
    let built = top.join("RPMS").join(release.architecture.rust).join(&name);
    fs::rename(&built, release.output.join(&name)).with_context(|| format!("{}", built.display()))
}
