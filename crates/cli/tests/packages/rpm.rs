//! The RPM package, installed by `rpm` of this machine into a root whose own packages it does not know.

use std::process::Command;

use crate::clean_root::CleanRoot;
use crate::files;
use crate::first_command;

fn rpm(root: &CleanRoot, words: &[&str]) -> String {
    let mut command = Command::new("rpm");
    command.arg("--root").arg(root.path()).args(["--dbpath", "/srv/rpm"]).args(words);
    files::run(&mut command)
}

#[test]
#[ignore = "needs packages and a root of Debian; `cargo xtask packages` has both"]
fn a_shared_daemon_runs_a_job_and_its_state_stays_when_the_package_is_erased() {
    let root = CleanRoot::debian();
    let before = root.files();
    let package = root.add(&files::ending_in(".rpm"));
    let package = format!("{}{package}", root.path().display());
    rpm(&root, &["--install", "--nodeps", &package]);
    // Root's are as they were packed; the database knows no other package.
    assert_eq!(rpm(&root, &["--verify", "--nodeps", "muster"]), "");
    let unit = root.path().join("usr/lib/systemd/system/muster.service");
    let unit = std::fs::read_to_string(unit).unwrap();
    assert!(unit.contains("\nExecStart=/usr/bin/muster serve --system\n"), "{unit}");
    first_command::check(&root.script(&first_command::shared("/srv")));
    rpm(&root, &["--erase", "--nodeps", "muster"]);
    root.check_left(&before, Some("var/lib/muster"));
}

#[test]
#[ignore = "needs packages and a root of Debian; `cargo xtask packages` has both"]
fn the_package_requires_the_symbols_of_the_c_library_that_its_binary_uses() {
    let mut query = Command::new("rpm");
    query.args(["--query", "--requires", "--package"]).arg(files::ending_in(".rpm"));
    let requires = files::run(&mut query);
    assert!(requires.contains("libc.so.6(GLIBC_2."), "{requires}");
}
