//! `cargo xtask dist`: builds the binary for release and makes its packages: a tarball, a `.deb`, a
//! `.rpm`, a wheel, an OCI image, a bill of materials and checksums (docs/adr/0055). Each format is a file here and
//! takes a [`Release`]; none of them builds anything.

mod architecture;
mod deb;
mod elf;
mod image;
mod linked_crates;
mod notices;
mod old_glibc;
mod options;
mod profile;
mod release;
mod rpm;
mod sbom;
mod tarball;
mod tree;
mod wheel;

use std::path::Path;
use std::process::Command;

use anyhow::{Result, bail};

pub use options::{PackageOptions, target};
use release::Release;

use crate::tools;

/// Runs `cargo xtask dist` with these arguments.
///
/// # Errors
/// When a build or a format fails, and for an unknown argument.
pub fn run(root: &Path, args: &[&str]) -> Result<()> {
    match args {
        [] => {
            let (binary, newest_glibc) = profile::build(root)?;
            let options = PackageOptions { newest_glibc, ..PackageOptions::of(root, binary) };
            make_packages(root, &options)
        }
        ["binary"] => profile::build(root).map(|(binary, _)| println!("{}", binary.display())),
        ["packages", rest @ ..] => make_packages(root, &PackageOptions::parse(root, rest)?),
        _ => bail!("unknown arguments: dist {}", args.join(" ")),
    }
}

/// Installs the programs that make packages, where they are missing.
///
/// # Errors
/// When that is not possible on this machine.
pub fn install_tools() -> Result<()> {
    tools::install_missing(&[
        ("dpkg-deb", "dpkg"),
        ("rpmbuild", "rpm"),
        ("readelf", "binutils"),
        ("python3", "python3"),
        ("update-ca-certificates", "ca-certificates"),
    ])
}

/// Makes all packages of a binary that exists.
///
/// # Errors
/// When a tool is missing or fails, and when the binary needs a newer C library than the options allow.
pub fn make_packages(root: &Path, options: &PackageOptions) -> Result<()> {
    install_tools()?;
    let release = Release::prepare(root, options)?;
    println!(
        "muster {} for {}, glibc {} or newer",
        release.version, release.architecture.rust, release.libraries.glibc
    );
    // Most of the time is compression.
    let release = &release;
    std::thread::scope(|scope| {
        let formats: [fn(&Release) -> Result<()>; 6] =
            [tarball::make, deb::make, rpm::make, wheel::make, image::make, sbom::make];
        let started = formats.map(|make| scope.spawn(move || make(release)));
        started.into_iter().try_for_each(|format| format.join().expect("no format panics"))
    })?;
    release.write_checksums()?;
    let mut list = Command::new("ls");
    tools::succeed(list.args(["-l", "--human-readable"]).arg(&release.output))
}
