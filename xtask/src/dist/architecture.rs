//! Names of the processor architecture in the formats of packages.

use anyhow::{Result, bail};

/// One architecture, by its names.
#[derive(Clone, Copy, Debug)]
pub struct Architecture {
    /// In Rust, of RPM packages and of wheels.
    pub rust: &'static str,
    /// Of Debian packages and of images.
    pub debian: &'static str,
}

/// Returns the architecture of this machine, on which packages are also tested.
///
/// # Errors
/// When the names of this architecture are not in the table.
pub fn of_this_machine() -> Result<Architecture> {
    match std::env::consts::ARCH {
        "x86_64" => Ok(Architecture { rust: "x86_64", debian: "amd64" }),
        "aarch64" => Ok(Architecture { rust: "aarch64", debian: "arm64" }),
        other => bail!("no names of packages for the architecture {other}"),
    }
}
