//! Minimal root file systems of Debian releases, by `debootstrap` from the mirror of this machine.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

use crate::tools;

/// Creates a minimal root file system of a release, in which packages start no services. Needs root.
///
/// # Errors
/// When `debootstrap` fails, as without a connection to the mirror.
pub fn bootstrap(release: &str, folder: &Path) -> Result<()> {
    fs::create_dir_all(folder)?;
    tools::install_missing(&[("debootstrap", "debootstrap")])?;
    let mut bootstrap = Command::new("debootstrap");
    bootstrap.args(["--variant=minbase", release]).arg(folder).arg(mirror()?);
    tools::succeed(&mut bootstrap)?;
    let policy = folder.join("usr/sbin/policy-rc.d");
    fs::write(&policy, "#!/bin/sh\nexit 101\n")?;
    Ok(fs::set_permissions(&policy, fs::Permissions::from_mode(0o755))?)
}

/// Returns the name of this machine's release, if it runs Debian.
pub fn own_release() -> Option<String> {
    parse_release(&fs::read_to_string("/etc/os-release").ok()?)
}

fn parse_release(text: &str) -> Option<String> {
    let field = |name: &str| text.lines().find_map(|line| line.strip_prefix(name));
    (field("ID=") == Some("debian")).then(|| field("VERSION_CODENAME=").map(str::to_owned))?
}

/// Returns the Debian mirror of this machine's apt.
fn mirror() -> Result<String> {
    let format = "$(ORIGIN)|$(COMPONENT)|$(CODENAME)|$(REPO_URI)";
    let targets =
        tools::stdout(Command::new("apt-get").args(["indextargets", "--format", format]))?;
    parse_mirror(&targets).context("apt has no Debian mirror\nhint: apt-get update")
}

/// Returns the first Debian archive with a main component, without suites such as `-security`.
fn parse_mirror(targets: &str) -> Option<String> {
    targets.lines().find_map(|line| {
        let [origin, component, codename, address] =
            line.split('|').collect::<Vec<_>>().try_into().ok()?;
        (origin == "Debian" && component == "main" && !codename.contains('-'))
            .then(|| address.to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mirror_is_debian_s_main_archive() {
        let targets = "Other|main|nodistro|https://other.example\n\
            Debian|main|bookworm-security|http://mirror.example/debian-security/\n\
            Debian|contrib|bookworm|http://mirror.example/debian/\n\
            Debian|main|bookworm|http://mirror.example/debian/\n";
        assert_eq!(parse_mirror(targets).as_deref(), Some("http://mirror.example/debian/"));
        assert_eq!(parse_mirror("Other|main|x|http://y\n"), None);
    }

    #[test]
    fn the_release_is_that_of_debian_only() {
        let text = "PRETTY_NAME=\"Debian\"\nVERSION_CODENAME=bookworm\nID=debian\n";
        assert_eq!(parse_release(text).as_deref(), Some("bookworm"));
        assert_eq!(parse_release("ID=ubuntu\nVERSION_CODENAME=noble\n"), None);
        assert_eq!(parse_release("ID=debian\n"), None);
    }
}
