//! The package for Debian.

use crate::clean_root::CleanRoot;
use crate::files;
use crate::first_command::{self, WORK, write_program};

/// State of the shared daemon, below the root.
const STATE: &str = "var/lib/muster";

/// Stand-in that writes down its words.
const SYSTEMCTL: &str = "#!/bin/sh\necho \"$@\" >> /srv/systemctl.log\n";

#[test]
#[ignore = "needs packages and a root of Debian; `cargo xtask packages` has both"]
fn a_shared_daemon_runs_a_job_and_its_state_stays_until_the_package_is_purged() {
    let root = CleanRoot::debian();
    let before = root.files();
    let package = root.add(&files::ending_in(".deb"));
    root.script(&format!("dpkg --install {package}"));
    // Nothing is missing, and nothing differs from its checksum.
    assert_eq!(root.script("dpkg --verify muster"), "");
    let unit = root.path().join("usr/lib/systemd/system/muster.service");
    let unit = std::fs::read_to_string(unit).unwrap();
    assert!(unit.contains("\nExecStart=/usr/bin/muster serve --system\n"), "{unit}");
    for file in
        ["man/man1/muster-run.1.gz", "bash-completion/completions/muster", "doc/muster/copyright"]
    {
        assert!(root.path().join("usr/share").join(file).exists(), "{file}");
    }
    first_command::check(&root.script(&first_command::shared("/srv")));
    root.script("dpkg --remove muster");
    root.check_left(&before, Some(STATE));
    root.script("dpkg --purge muster");
    root.check_left(&before, None);
    assert!(!root.path().join(STATE).exists());
}

#[test]
#[ignore = "needs packages and a root of Debian; `cargo xtask packages` has both"]
fn an_installation_starts_nothing_an_upgrade_restarts_and_a_removal_stops() {
    let root = CleanRoot::debian();
    let package = root.add(&files::ending_in(".deb"));
    write_program(&root.path().join(WORK).join("bin/systemctl"), SYSTEMCTL);
    root.script(&format!(
        "mkdir -p /run/systemd/system; export PATH=/srv/bin:$PATH\n\
         log() {{ echo \"-- $1\" >> /srv/systemctl.log; }}\n\
         log installation; dpkg --install {package}; log upgrade; dpkg --install {package}\n\
         log removal; dpkg --remove muster"
    ));
    let log = std::fs::read_to_string(root.path().join(WORK).join("systemctl.log")).unwrap();
    // The upgrade runs the scripts of both versions, so `daemon-reload` may be there twice.
    let mut lines: Vec<&str> = log.lines().collect();
    lines.dedup();
    let expected = [
        "-- installation",
        "daemon-reload",
        "-- upgrade",
        "daemon-reload",
        "try-restart muster.service",
        "-- removal",
        "disable --now muster.service",
        "daemon-reload",
    ];
    assert_eq!(lines, expected);
}

#[test]
#[ignore = "needs packages and a root of Debian; `cargo xtask packages` has both"]
fn the_package_depends_on_the_c_library_that_its_binary_needs() {
    let package = files::ending_in(".deb");
    let mut field = std::process::Command::new("dpkg-deb");
    let depends = files::run(field.arg("--field").arg(package).arg("Depends"));
    assert!(depends.starts_with("libc6 (>= 2."), "{depends}");
}
