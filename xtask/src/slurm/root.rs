//! Root file systems of other Debian releases, so that a cluster runs the Slurm of that release. A
//! root is created once with debootstrap and kept. Commands enter it in a mount namespace of their
//! own, in which this repository, the tool chain and the machine's /tmp, /run, /proc, /sys and /dev
//! are at the same paths. Invariant: no mount is visible outside, so the folder can be removed at
//! any time.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context, Result, bail};

use super::cluster::SlurmTestCluster;
use super::probe::PACKAGES;
use crate::test_cluster::process;
use crate::test_cluster::temporary::own_path;
use crate::{debian, tools};

/// File that marks a complete root.
const MARK: &str = "etc/muster-slurm-root";

/// Script that mounts everything, then executes the command. Arguments: the root, folders and files
/// to bind, `--`, the command.
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

/// Paths of the machine that are visible in the root, besides the repository and the tool chain.
/// The users are those of the machine.
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

/// Paths of the machine that are visible during an installation. Packages create users by renaming
/// a new file over `/etc/group`, which fails for a bind-mounted file.
const BOUND_TO_INSTALL: [&str; 3] = ["/proc", "/etc/hosts", "/etc/resolv.conf"];

/// Packages that the tests need besides Slurm and that a minimal root lacks: a job runs python3.
const PACKAGES_OF_TESTS: [&str; 1] = ["python3"];

/// Runs this program with these arguments inside the root of a release; creates the root if needed.
pub fn enter(repository: &Path, release: &str, args: &[&str]) -> Result<ExitCode> {
    let root = ensure_root(repository, release)?;
    let mut command = Command::new("unshare");
    command.args(["--mount", "--propagation", "private", "sh", "-e", "-c", ENTER, "sh"]).arg(&root);
    command.args(BOUND).arg(repository).args(tool_chain());
    command.arg("--").arg(own_path()?).args(args).current_dir(repository);
    status(&mut command)
}

/// Runs this program with these arguments in the root in which a cluster's daemons run; `None` if
/// they run outside any, or if this process is already inside.
pub fn rejoin(cluster: &SlurmTestCluster, args: &[&str]) -> Result<Option<ExitCode>> {
    let Some(pid) = daemon_inside(cluster) else { return Ok(None) };
    let mut command = Command::new("nsenter");
    command.args([&format!("--target={pid}"), "--mount", "--root"]);
    let here = std::env::current_dir()?;
    command.args(["sh", "-c", "cd \"$1\" && shift && exec \"$@\"", "sh"]).arg(here);
    // The present directory may not exist inside until the shell has changed to it.
    command.arg(own_path()?).args(args).current_dir("/");
    status(&mut command).map(Some)
}

fn status(command: &mut Command) -> Result<ExitCode> {
    let status = command.status().with_context(|| format!("{:?}", command.get_program()))?;
    Ok(ExitCode::from(status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(1)))
}

/// Returns the pid of a daemon of the cluster that has another root than this process. A stale pid
/// may belong to a process of another cluster by now, so the daemon must use this cluster's
/// configuration.
fn daemon_inside(cluster: &SlurmTestCluster) -> Option<u32> {
    let files = fs::read_dir(cluster.dir().join("run")).ok()?.flatten().map(|entry| entry.path());
    let pids = files
        .filter(|file| file.extension().is_some_and(|extension| extension == "pid"))
        .filter_map(|file| process::read_pid(&file));
    let mut others = pids.filter(|pid| {
        let root = fs::read_link(format!("/proc/{pid}/root"));
        root.is_ok_and(|root| root.join(MARK).exists() && root != Path::new("/"))
            && fs::read(format!("/proc/{pid}/environ"))
                .is_ok_and(|environ| reads_conf_of(cluster, &environ))
    });
    others.next()
}

/// Returns true for the environment of a daemon of this cluster.
fn reads_conf_of(cluster: &SlurmTestCluster, environ: &[u8]) -> bool {
    let own = format!("SLURM_CONF={}/etc/slurm.conf", cluster.text());
    environ.split(|byte| *byte == 0).any(|variable| variable == own.as_bytes())
}

/// Returns the homes of cargo and rustup: tests run programs that were built outside, and call
/// cargo.
fn tool_chain() -> Vec<PathBuf> {
    let home = std::env::var_os("HOME").map(PathBuf::from).unwrap_or_default();
    let of = |name: &str, usual: &str| {
        std::env::var_os(name).map_or_else(|| home.join(usual), PathBuf::from)
    };
    let mut folders = vec![of("CARGO_HOME", ".cargo"), of("RUSTUP_HOME", ".rustup")];
    folders.extend(std::env::var_os("CARGO_TARGET_DIR").map(PathBuf::from));
    folders
}

/// Returns the root of a release; creates it if needed (some 600 MB, a few minutes).
fn ensure_root(repository: &Path, release: &str) -> Result<PathBuf> {
    if release.is_empty() || !release.chars().all(|letter| letter.is_ascii_lowercase()) {
        bail!("{release}: not a Debian release\nhint: trixie or sid");
    }
    let root = super::target(repository).join("slurm-root").join(release);
    if root.join(MARK).exists() {
        return Ok(root);
    }
    if !tools::is_root() {
        bail!("creating a root file system of {release} requires root");
    }
    println!("creating a root file system of {release} in {}", root.display());
    if root.exists() {
        fs::remove_dir_all(&root)?;
    }
    let text = root.to_str().context("the folder's name is UTF-8")?;
    debian::bootstrap(release, &root)?;
    let mut install = Command::new("unshare");
    install.args(["--mount", "--propagation", "private", "sh", "-e", "-c", ENTER, "sh", text]);
    install.args(BOUND_TO_INSTALL).args(["--", "env", "DEBIAN_FRONTEND=noninteractive"]);
    install.args(["apt-get", "install", "-y", "--no-install-recommends"]);
    tools::succeed(install.args(PACKAGES).args(PACKAGES_OF_TESTS).current_dir("/"))?;
    tools::succeed(Command::new("chroot").args([text, "apt-get", "clean"]))?;
    fs::write(root.join(MARK), format!("{release}\n"))?;
    Ok(root)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_release_name_is_not_a_path() {
        for wrong in ["", "../x", "Sid", "a b"] {
            assert!(ensure_root(Path::new("/no/such"), wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_cluster_without_daemons_has_no_root() {
        assert!(
            rejoin(&SlurmTestCluster::at(Path::new("/no/such/cluster")).unwrap(), &[])
                .unwrap()
                .is_none()
        );
    }

    #[test]
    fn a_process_with_the_reused_pid_of_a_daemon_does_not_belong_to_the_cluster() {
        let cluster = SlurmTestCluster::at(Path::new("/no/such/cluster")).unwrap();
        assert!(reads_conf_of(&cluster, b"A=1\0SLURM_CONF=/no/such/cluster/etc/slurm.conf\0"));
        for other in [
            &b""[..],
            b"SLURM_CONF=/no/such/cluster2/etc/slurm.conf",
            b"X=SLURM_CONF=/no/such/cluster/etc/slurm.conf",
        ] {
            assert!(!reads_conf_of(&cluster, other));
        }
    }
}
