//! Links for an older glibc than this machine's: Zig has the symbols of all versions, and
//! `cargo-zigbuild` makes it cargo's linker. Both are wheels from PyPI, in a virtual environment.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::elf::GlibcVersion;
use crate::venv::{self, Venv};
use crate::{cargo, python};

/// Versions that were tested.
const PINS: [&str; 2] = ["cargo-zigbuild==0.24.1", "ziglang==0.17.1"];

/// Zig as the linker, for binaries that need no glibc newer than [`OldGlibc::VERSION`].
pub struct OldGlibc {
    /// Folder of `cargo-zigbuild` and of the interpreter that has Zig.
    programs: PathBuf,
}

impl OldGlibc {
    /// glibc of RHEL 8, the oldest distribution that is still common on GPU clusters; Debian 10 and
    /// Ubuntu 18.10 have the same or newer.
    pub const VERSION: GlibcVersion = GlibcVersion { major: 2, minor: 28 };

    /// Returns the linker, installed if needed; where that fails the reason is printed, and the binary
    /// will need the glibc of this machine.
    pub fn find(root: &Path) -> Option<Self> {
        let folder = root.join("target/zig");
        let content = PINS.join("\n");
        let environment = Venv { folder: &folder, content: &content, modules: "ziglang" };
        let install = |python: &Path| venv::install(python, &PINS);
        match environment.interpreter(python::system_python, &[], install) {
            Ok(_) => Some(Self { programs: folder.join("bin") }),
            Err(error) => {
                println!("linked to the glibc of this machine, without Zig: {error:#}");
                None
            }
        }
    }

    /// Returns a command that builds for this target triple; its further arguments are cargo's.
    pub fn build(&self, triple: &str) -> Command {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let paths = std::iter::once(self.programs.clone()).chain(std::env::split_paths(&path));
        let mut build = Command::new(cargo());
        build.arg("zigbuild").args(["--target", &format!("{triple}.{}", Self::VERSION)]);
        build.env("PATH", std::env::join_paths(paths).expect("each was a part of PATH before"));
        build
    }
}
