//! Programs that the tests need besides cargo. A missing package is installed where that needs no
//! confirmation (root, apt); elsewhere the error names the packages to install.

use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::cargo;

/// A program that the tests call, and the packages that contain it.
struct Tool {
    probe: &'static [&'static str],
    packages: &'static [&'static str],
    why: &'static str,
}

const TOOLS: &[Tool] = &[
    Tool {
        probe: &["cc", "--version"],
        packages: &["gcc", "libc6-dev"],
        why: "compiles the SQLite that is built into muster",
    },
    Tool {
        probe: &["python3", "--version"],
        packages: &["python3"],
        why: "runs the all-reduce example, whose ranks communicate over TCP",
    },
];

/// Components of the Rust toolchain that cargo does not install automatically.
const COMPONENTS: &[(&str, &str)] = &[("fmt", "rustfmt"), ("clippy", "clippy")];

/// Checks for all programs, and installs missing ones where possible.
pub fn ensure() -> Result<()> {
    for (subcommand, component) in COMPONENTS {
        if !runs(Command::new(cargo()).args([subcommand, "--version"])) {
            bail!("cargo {subcommand} is missing\nhint: rustup component add {component}");
        }
    }
    let missing: Vec<&Tool> = TOOLS.iter().filter(|tool| !present(tool)).collect();
    for tool in TOOLS {
        let state = if present(tool) { "found" } else { "missing" };
        println!("{}: {state}; {}", tool.probe[0], tool.why);
    }
    if missing.is_empty() {
        println!("nothing to install");
        return Ok(());
    }
    install(&missing.iter().flat_map(|tool| tool.packages.iter().copied()).collect::<Vec<_>>())?;
    match missing.iter().find(|tool| !present(tool)) {
        Some(tool) => bail!("{} is still missing after the installation", tool.probe[0]),
        None => Ok(()),
    }
}

/// Runs a command to its end.
///
/// # Errors
/// When it does not start, or does not succeed.
pub fn succeed(command: &mut Command) -> Result<()> {
    let status = command
        .stdin(Stdio::null())
        .status()
        .with_context(|| format!("{command:?} did not start"))?;
    if !status.success() {
        bail!("{command:?} ended with {status}");
    }
    Ok(())
}

/// Runs a command to its end and returns its standard output.
///
/// # Errors
/// When it does not start, does not succeed (with what it wrote to standard error), or prints no UTF-8.
pub fn stdout(command: &mut Command) -> Result<String> {
    let name = command.get_program().display().to_string();
    let output =
        command.stdin(Stdio::null()).output().with_context(|| format!("{name} did not start"))?;
    if !output.status.success() {
        bail!("{name} failed: {}\n{}", output.status, String::from_utf8_lossy(&output.stderr));
    }
    String::from_utf8(output.stdout).with_context(|| format!("{name} printed invalid UTF-8"))
}

/// Installs the packages of programs that are not in `PATH`; each pair is a program and its package.
///
/// # Errors
/// As [`install`].
pub fn install_missing(programs: &[(&str, &str)]) -> Result<()> {
    let missing = programs.iter().filter(|(program, _)| !in_path(program));
    let packages: Vec<&str> = missing.map(|(_, package)| *package).collect();
    if packages.is_empty() { Ok(()) } else { install(&packages) }
}

/// Returns true if `PATH` has a program of this name.
pub fn in_path(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
}

/// Returns true when this process runs as root.
pub fn is_root() -> bool {
    Command::new("id").arg("-u").output().is_ok_and(|out| out.stdout.trim_ascii() == b"0")
}

/// Installs packages with apt; fails with the list of packages where that is not possible.
pub fn install(packages: &[&str]) -> Result<()> {
    let list = packages.join(" ");
    if !is_root() || !runs(Command::new("apt-get").arg("--version")) {
        bail!(
            "packages are missing: {list}\nhint: on Debian or Ubuntu: sudo apt-get install {list}"
        );
    }
    println!("installing: {list}");
    for args in [
        vec!["update"],
        [vec!["install", "--yes", "--no-install-recommends"], packages.to_vec()].concat(),
    ] {
        let status = Command::new("apt-get")
            .args(&args)
            .env("DEBIAN_FRONTEND", "noninteractive")
            .stdin(Stdio::null())
            .status()?;
        if !status.success() {
            bail!("apt-get {} failed: {status}", args.join(" "));
        }
    }
    Ok(())
}

fn present(tool: &Tool) -> bool {
    runs(Command::new(tool.probe[0]).args(&tool.probe[1..]))
}

fn runs(command: &mut Command) -> bool {
    let quiet = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    quiet.status().is_ok_and(|status| status.success())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_program_is_detected() {
        let absent = Tool { probe: &["muster-no-such-program"], packages: &[], why: "" };
        assert!(!present(&absent));
        let failing = Tool { probe: &["false"], packages: &[], why: "" };
        assert!(!present(&failing));
        let there = Tool { probe: &["true"], packages: &[], why: "" };
        assert!(present(&there));
    }
}
