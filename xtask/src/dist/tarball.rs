//! The tarball: a folder as below a prefix such as `/usr/local`, and readable where it is unpacked.

use std::fs;

use anyhow::Result;

use super::release::Release;
use super::tree;

/// Makes `muster-VERSION-ARCHITECTURE-linux.tar.gz`.
///
/// # Errors
/// When `tar` or `gzip` fails.
pub fn make(release: &Release) -> Result<()> {
    let name = format!("muster-{}-{}-linux", release.version, release.architecture.rust);
    let folder = release.folder("tarball")?;
    tree::lay_out(release, &folder.join(&name), "/usr/local")?;
    let archive = folder.join(format!("{name}.tar"));
    tree::tar(release, &folder, &name, &archive)?;
    tree::gzip(release, &archive)?;
    let packed = format!("{name}.tar.gz");
    fs::rename(folder.join(&packed), release.output.join(&packed))?;
    Ok(())
}
