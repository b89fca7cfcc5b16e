//! The wheel: `pip install` puts the binary beside the interpreter of the environment. It contains no
//! module; the Python client is `muster-client` and depends on it as an extra.

use std::fs;

use anyhow::Result;

use super::elf::GlibcVersion;
use super::release::{DESCRIPTION, Release, SUMMARY, write};
use crate::tools;

/// Program that writes the archive: Python has zip files in its standard library, and so has every
/// machine that uses a wheel.
const WRITER: &str = include_str!("wheel/write.py");

/// Oldest glibc of the tags that `pip` accepts.
const OLDEST_TAG: GlibcVersion = GlibcVersion { major: 2, minor: 17 };

/// Makes `muster_scheduler-VERSION-py3-none-manylinux_….whl`.
///
/// # Errors
/// When `python3` fails.
pub fn make(release: &Release) -> Result<()> {
    let folder = release.folder("wheel")?;
    let GlibcVersion { major, minor } = release.libraries.glibc.max(OLDEST_TAG);
    let tag = format!("py3-none-manylinux_{major}_{minor}_{}", release.architecture.rust);
    let version = &release.version;
    let name = format!("muster_scheduler-{version}");
    let data = folder.join(format!("{name}.data/scripts"));
    fs::create_dir_all(&data)?;
    fs::copy(release.binary(), data.join("muster"))?;
    let about = folder.join(format!("{name}.dist-info"));
    write(
        &about.join("METADATA"),
        &format!(
            "Metadata-Version: 2.1\nName: muster-scheduler\nVersion: {version}\nSummary: {SUMMARY}\n\
             License: Apache-2.0\nClassifier: Operating System :: POSIX :: Linux\nRequires-Python: >=3.8\n\
             Description-Content-Type: text/plain\n\n{DESCRIPTION}\n\n\
             This package is the program `muster`; the Python client is `muster-client`.\n"
        ),
    )?;
    let wheel = format!(
        "Wheel-Version: 1.0\nGenerator: muster xtask\nRoot-Is-Purelib: false\nTag: {tag}\n"
    );
    write(&about.join("WHEEL"), &wheel)?;
    let documents = release.common().join("share/doc/muster");
    for name in ["LICENSE", "THIRD-PARTY.txt"] {
        write(&about.join("licenses").join(name), &fs::read_to_string(documents.join(name))?)?;
    }
    let mut python = release.command("python3");
    python.args(["-c", WRITER]).arg(&folder).arg(release.output.join(format!("{name}-{tag}.whl")));
    tools::succeed(python.arg(if release.is_fast { "1" } else { "9" }))
}
