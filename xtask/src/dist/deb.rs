//! The package for Debian and Ubuntu, by `dpkg-deb`. Its scripts start nothing that was not started,
//! leave jobs running, and keep the state until the package is purged.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use anyhow::Result;

use super::release::{DESCRIPTION, Release, SUMMARY, write};
use super::tree;
use crate::tools;

/// Scripts that `dpkg` runs, by name.
const SCRIPTS: [(&str, &str); 3] = [
    ("postinst", include_str!("deb/postinst")),
    ("prerm", include_str!("deb/prerm")),
    ("postrm", include_str!("deb/postrm")),
];

/// Makes `muster_VERSION_ARCHITECTURE.deb`.
///
/// # Errors
/// When `dpkg-deb` fails.
pub fn make(release: &Release) -> Result<()> {
    let folder = release.folder("deb")?;
    tree::lay_out(release, &folder.join("usr"), "/usr")?;
    let documents = folder.join("usr/share/doc/muster");
    fs::rename(documents.join("LICENSE"), documents.join("copyright"))?;
    write(&folder.join("DEBIAN/control"), &control(release, size_in_kib(&folder)?))?;
    for (name, text) in SCRIPTS {
        let path = folder.join("DEBIAN").join(name);
        write(&path, text)?;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755))?;
    }
    write_md5sums(release, &folder)?;
    let name = format!("muster_{}_{}.deb", release.version, release.architecture.debian);
    let mut build = release.command("dpkg-deb");
    // xz: Debian reads zstd since 12 only.
    let compression = if release.is_fast { ["-Zgzip", "-z1"] } else { ["-Zxz", "-z6"] };
    build.args(["--root-owner-group", "--build"]).args(compression).arg(&folder);
    tools::stdout(build.arg(release.output.join(name)))?;
    Ok(())
}

fn control(release: &Release, kib: u64) -> String {
    let mut depends = format!("libc6 (>= {})", release.libraries.glibc);
    if release.libraries.has("libgcc_s.so.1") {
        depends.push_str(", libgcc-s1");
    }
    let description = DESCRIPTION.replace('\n', "\n ");
    format!(
        "Package: muster\nVersion: {}\nArchitecture: {}\nMaintainer: The Muster maintainers <muster@localhost>\n\
         Installed-Size: {kib}\nDepends: {depends}\nSection: admin\nPriority: optional\n\
         Description: {SUMMARY}\n {description}\n",
        release.version, release.architecture.debian,
    )
}

fn size_in_kib(folder: &Path) -> Result<u64> {
    let sizes = tree::files(folder)?.into_iter().map(|file| fs::metadata(folder.join(file)));
    sizes.map(|size| Ok(size?.len().div_ceil(1024))).sum()
}

/// Writes the sums with which `dpkg --verify` finds changed files.
fn write_md5sums(release: &Release, folder: &Path) -> Result<()> {
    let files = tree::files(folder)?;
    let files = files.iter().filter(|file| !file.starts_with("DEBIAN"));
    let mut sums = release.command("md5sum");
    let sums = tools::stdout(sums.args(files).current_dir(folder))?;
    write(&folder.join("DEBIAN/md5sums"), &sums)
}
