//! A root file system of another Debian release, so that a cluster runs the Slurm of that release.
//! It is made once with debootstrap and kept. A command enters it in a mount namespace of its own,
//! in which this repository, the tool chain and the machine's /tmp, /run, /proc, /sys and /dev lie
//! at the same paths: nothing is ever mounted where others see it, so the folder can be removed at
//! any time.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context, Result, bail};

use super::probe::PACKAGES;
use super::site::Site;
use crate::tools;

/// Marks a root that is whole.
const MARK: &str = "etc/muster-slurm-root";

/// Mounts, then becomes the command. Arguments: the root, folders and files to bind, `--`, the
/// command.
const ENTER: &str = r#"
root=$1; shift
mount --bind "$root" "$root"
while [ "$1" != -- ]; do
    if [ -d "$1" ]; then mkdir -p "$root$1"; elif [ -e "$1" ]; then touch "$root$1"; fi
    [ ! -e "$1" ] || mount --rbind "$1" "$root$1"
    shift
done
shift
here=$(pwd)
exec chroot "$root" sh -c 'cd "$1" && shift && exec "$@"' sh "$here" "$@"
"#;

/// Paths of the machine that a command in the root sees, beside the repository and the tool chain.
/// Users are the machine's.
const BOUND: [&str; 10] = [
    "/proc",
    "/sys",
    "/dev",
    "/run",
    "/tmp",
    "/etc/hosts",
    "/etc/resolv.conf",
    "/etc/passwd",
    "/etc/group",
    "/etc/shadow",
];

/// Paths of the machine that an installation sees. Packages make users of their own by renaming a
/// new file over `/etc/group`, which the kernel refuses for a file that is bound.
const BOUND_TO_INSTALL: [&str; 3] = ["/proc", "/etc/hosts", "/etc/resolv.conf"];

/// Packages that the tests need beside Slurm and that a minimal root lacks: a job runs python3.
const PACKAGES_OF_TESTS: [&str; 1] = ["python3"];

/// Runs this program with these arguments inside the root of a release; makes the root first where
/// there is none.
pub fn enter(repository: &Path, release: &str, args: &[&str]) -> Result<ExitCode> {
    let root = made(repository, release)?;
    let mut command = Command::new("unshare");
    command.args(["--mount", "--propagation", "private", "sh", "-e", "-c", ENTER, "sh"]).arg(&root);
    command.args(BOUND).arg(repository).args(tool_chain());
    command.arg("--").arg(super::test::own_path()?).args(args).current_dir(repository);
    status(&mut command)
}

/// Runs this program with these arguments where the daemons of a running cluster are, if that is
/// inside a root; `None` where it is not, or where this process is inside already.
pub fn rejoin(site: &Site, args: &[&str]) -> Result<Option<ExitCode>> {
    let Some(pid) = daemon_inside(site) else { return Ok(None) };
    let mut command = Command::new("nsenter");
    command.args([&format!("--target={pid}"), "--mount", "--root"]);
    let here = std::env::current_dir()?;
    command.args(["sh", "-c", "cd \"$1\" && shift && exec \"$@\"", "sh"]).arg(here);
    // This directory may not be there inside, at first.
    command.arg(super::test::own_path()?).args(args).current_dir("/");
    status(&mut command).map(Some)
}

fn status(command: &mut Command) -> Result<ExitCode> {
    let status = command.status().with_context(|| format!("{:?}", command.get_program()))?;
    Ok(ExitCode::from(status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(1)))
}

/// A daemon of the cluster that has another root than this process. The number of one that has
/// ended may be another process's by now, in the root of another cluster: only one that reads this
/// cluster's configuration counts.
fn daemon_inside(site: &Site) -> Option<u32> {
    let files = fs::read_dir(site.dir().join("run")).ok()?.flatten().map(|entry| entry.path());
    let pids = files
        .filter(|file| file.extension().is_some_and(|extension| extension == "pid"))
        .filter_map(|file| super::process::read_pid(&file));
    let mut others = pids.filter(|pid| {
        let root = fs::read_link(format!("/proc/{pid}/root"));
        root.is_ok_and(|root| root.join(MARK).exists() && root != Path::new("/"))
            && fs::read(format!("/proc/{pid}/environ"))
                .is_ok_and(|environ| reads_conf_of(site, &environ))
    });
    others.next()
}

/// True for the environment that a daemon of this cluster was started with.
fn reads_conf_of(site: &Site, environ: &[u8]) -> bool {
    let own = format!("SLURM_CONF={}/etc/slurm.conf", site.text());
    environ.split(|byte| *byte == 0).any(|variable| variable == own.as_bytes())
}

/// Homes of cargo and rustup: programs that were built outside are run, and tests ask cargo.
fn tool_chain() -> Vec<PathBuf> {
    let home = std::env::var_os("HOME").map(PathBuf::from).unwrap_or_default();
    let of = |name: &str, usual: &str| {
        std::env::var_os(name).map_or_else(|| home.join(usual), PathBuf::from)
    };
    let mut folders = vec![of("CARGO_HOME", ".cargo"), of("RUSTUP_HOME", ".rustup")];
    folders.extend(std::env::var_os("CARGO_TARGET_DIR").map(PathBuf::from));
    folders
}

/// The root of a release. Some 600 MB and a few minutes the first time.
fn made(repository: &Path, release: &str) -> Result<PathBuf> {
    if release.is_empty() || !release.chars().all(|letter| letter.is_ascii_lowercase()) {
        bail!("{release}: not a release of Debian\nhint: trixie or sid");
    }
    let root = super::target(repository).join("slurm-root").join(release);
    if root.join(MARK).exists() {
        return Ok(root);
    }
    if !tools::is_root() {
        bail!("a root of {release} needs root");
    }
    println!("making a root of {release} in {}", root.display());
    if root.exists() {
        fs::remove_dir_all(&root)?;
    }
    fs::create_dir_all(&root)?;
    let text = root.to_str().context("the folder's name is UTF-8")?;
    tools::install(&["debootstrap"])?;
    must(Command::new("debootstrap").args(["--variant=minbase", release, text, &mirror()?]))?;
    let policy = root.join("usr/sbin/policy-rc.d");
    fs::write(&policy, "#!/bin/sh\nexit 101\n")?;
    must(Command::new("chmod").arg("+x").arg(&policy))?;
    let mut install = Command::new("unshare");
    install.args(["--mount", "--propagation", "private", "sh", "-e", "-c", ENTER, "sh", text]);
    install.args(BOUND_TO_INSTALL).args(["--", "env", "DEBIAN_FRONTEND=noninteractive"]);
    install.args(["apt-get", "install", "-y", "--no-install-recommends"]);
    must(install.args(PACKAGES).args(PACKAGES_OF_TESTS).current_dir("/"))?;
    must(Command::new("chroot").args([text, "apt-get", "clean"]))?;
    fs::write(root.join(MARK), format!("{release}\n"))?;
    Ok(root)
}

fn must(command: &mut Command) -> Result<()> {
    let status = command.status().with_context(|| format!("{:?}", command.get_program()))?;
    match status.success() {
        true => Ok(()),
        false => bail!("{command:?}: {status}"),
    }
}

/// Where this machine's own apt has Debian from.
fn mirror() -> Result<String> {
    let format = "$(ORIGIN)|$(COMPONENT)|$(CODENAME)|$(REPO_URI)";
    let said = Command::new("apt-get").args(["indextargets", "--format", format]).output()?;
    let said = String::from_utf8_lossy(&said.stdout).into_owned();
    from(&said).context("apt knows of no mirror of Debian: apt-get update")
}

/// The first archive of Debian with a main component that is not one of its additions.
fn from(targets: &str) -> Option<String> {
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
    fn the_mirror_is_that_of_debian_itself() {
        let targets = "Other|main|nodistro|https://other.example\n\
            Debian|main|bookworm-security|http://mirror.example/debian-security/\n\
            Debian|contrib|bookworm|http://mirror.example/debian/\n\
            Debian|main|bookworm|http://mirror.example/debian/\n";
        assert_eq!(from(targets).as_deref(), Some("http://mirror.example/debian/"));
        assert_eq!(from("Other|main|x|http://y\n"), None);
    }

    #[test]
    fn a_release_is_a_word_and_no_path() {
        for wrong in ["", "../x", "Sid", "a b"] {
            assert!(made(Path::new("/no/such"), wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_cluster_without_daemons_is_in_no_root() {
        assert!(rejoin(&Site::at(Path::new("/no/such/cluster")).unwrap(), &[]).unwrap().is_none());
    }

    #[test]
    fn a_process_that_was_given_the_number_of_a_daemon_is_of_no_cluster() {
        let site = Site::at(Path::new("/no/such/cluster")).unwrap();
        assert!(reads_conf_of(&site, b"A=1\0SLURM_CONF=/no/such/cluster/etc/slurm.conf\0"));
        for other in [
            &b""[..],
            b"SLURM_CONF=/no/such/cluster2/etc/slurm.conf",
            b"X=SLURM_CONF=/no/such/cluster/etc/slurm.conf",
        ] {
            assert!(!reads_conf_of(&site, other));
        }
    }
}
