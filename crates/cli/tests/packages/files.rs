//! The packages that `cargo xtask packages` has made, and commands on them.

use std::path::PathBuf;
use std::process::{Command, Stdio};

/// Version of the workspace, of which the packages are.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Returns the folder of the packages.
pub fn folder() -> PathBuf {
    std::env::var_os("MUSTER_PACKAGES").map(PathBuf::from).expect("cargo xtask packages sets it")
}

/// Returns the only package whose name ends so.
pub fn ending_in(end: &str) -> PathBuf {
    let all = std::fs::read_dir(folder()).unwrap().map(|entry| entry.unwrap().path());
    let mut found = all.filter(|path| path.to_string_lossy().ends_with(end));
    let package = found.next().unwrap_or_else(|| panic!("there is no package *{end}"));
    assert_eq!(found.next(), None, "there are two packages *{end}");
    package
}

/// Returns a file of the repository.
pub fn of_repository(path: &str) -> String {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..");
    std::fs::read_to_string(root.join(path)).unwrap()
}

/// Runs a command and returns its standard output.
pub fn run(command: &mut Command) -> String {
    let output = command.stdin(Stdio::null()).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {}\n{text}\n{errors}", output.status);
    text
}
