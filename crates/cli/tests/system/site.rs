//! Test site: a daemon in system mode with its own directories, for two users. It is stopped at
//! the end, also if the test fails.

use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use rustix::process::{Gid, Pid, Signal, geteuid, kill_process};

use crate::actor::{SiteUser, UnixAccount};

/// Longest wait for a condition; far more than needed, for busy machines.
pub const PATIENCE: Duration = Duration::from_secs(60);
/// Time between two checks of a condition.
const LOOK_AGAIN: Duration = Duration::from_millis(10);
/// Groups that the daemon has and no job may inherit: those that read logs and password hashes on
/// Debian.
pub const GROUPS_OF_ROOT: [u32; 2] = [4, 42];
/// A variable of root's that no job may see.
pub const SECRET_OF_ROOT: &str = "ROOTS_SECRET=c0ffee-of-root";

/// Gives the daemon, in a mount namespace of its own, two AMD GPUs: the files that the kernel's
/// driver would list, and device files with the name of the GPU in them. `$0` is the site.
const AMD_GPUS: &str = r#"set -e
for card in 0 1; do
    device=$0/class/drm/card$card/device
    mkdir -p $device/drm/renderD12$card $device/drm/card$card $0/dev/dri
    echo 0x1002 >$device/vendor; echo 0x74a1 >$device/device
    echo aabb$card >$device/unique_id; echo 206141652992 >$device/mem_info_vram_total
    echo "gpu $card" >$0/dev/dri/renderD12$card
    echo "gpu $card" >$0/dev/dri/card$card
done
mount --bind $0/class /sys/class
mkdir -p $0/dev/shm $0/dev/pts
mount -t tmpfs shm $0/dev/shm
mount -t devpts -o newinstance,ptmxmode=0666 pts $0/dev/pts
ln -s pts/ptmx $0/dev/ptmx
for file in null zero full random urandom tty; do
    : >$0/dev/$file
    mount --bind /dev/$file $0/dev/$file
done
mount --rbind $0/dev /dev
exec "$@""#;

/// GPUs of a site.
#[derive(Clone, Copy)]
pub enum SiteGpus {
    /// This many simulated ones.
    Virtual(u32),
    /// Two that the daemon detects, with device files.
    Amd,
}

/// Daemon in system mode with its directories.
pub struct SharedSite {
    dir: tempfile::TempDir,
    daemon: Option<Child>,
    accounts: [UnixAccount; 2],
}

impl SharedSite {
    /// Starts a daemon with `count` simulated GPUs.
    pub fn with_gpus(count: u32) -> Self {
        Self::start(SiteGpus::Virtual(count))
    }

    /// Starts a daemon with these GPUs.
    pub fn start(gpus: SiteGpus) -> Self {
        assert!(geteuid().is_root(), "needs root: jobs must run as two different users");
        let dir = tempfile::tempdir().unwrap();
        // Users may enter the directory; the daemon closes what they must not see.
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let mut site = Self { dir, daemon: None, accounts: UnixAccount::two() };
        // Copied where every user can execute it: a checkout may be in root's home.
        let built = Path::new(env!("CARGO_BIN_EXE_muster"));
        fs::hard_link(built, site.binary())
            .or_else(|_| fs::copy(built, site.binary()).map(drop))
            .unwrap();
        for account in &site.accounts {
            let home = site.home(account);
            fs::create_dir(&home).unwrap();
            chown(&home, Some(account.uid), Some(account.gid)).unwrap();
            fs::set_permissions(&home, fs::Permissions::from_mode(0o700)).unwrap();
        }
        site.launch(gpus);
        site
    }

    /// Returns a path of the site.
    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Returns a user's own directory, which is closed to others.
    pub fn home(&self, account: &UnixAccount) -> PathBuf {
        self.path(&account.name)
    }

    pub fn binary(&self) -> PathBuf {
        self.path("muster")
    }

    pub fn socket(&self) -> PathBuf {
        self.path("m/run/muster.sock")
    }

    /// Returns the first user of the site.
    pub fn alice(&self) -> SiteUser<'_> {
        SiteUser { site: self, account: &self.accounts[0] }
    }

    /// Returns the second user, who is hostile in some tests.
    pub fn mallory(&self) -> SiteUser<'_> {
        SiteUser { site: self, account: &self.accounts[1] }
    }

    /// Returns the administrator, root.
    pub fn root(&self) -> SiteUser<'_> {
        static ROOT: OnceLock<UnixAccount> = OnceLock::new();
        SiteUser {
            site: self,
            account: ROOT.get_or_init(|| UnixAccount { name: "root".into(), uid: 0, gid: 0 }),
        }
    }

    /// Starts the daemon as an administrator's shell might: with groups, variables and open files
    /// of its own.
    pub fn start_daemon(&mut self, gpus: u32) {
        self.launch(SiteGpus::Virtual(gpus));
    }

    fn launch(&mut self, gpus: SiteGpus) {
        let log = File::options().create(true).append(true).open(self.path("daemon.log")).unwrap();
        let secret = self.path("secret-of-root");
        fs::write(&secret, "for root only").unwrap();
        fs::set_permissions(&secret, fs::Permissions::from_mode(0o600)).unwrap();
        let mut command = match gpus {
            SiteGpus::Virtual(_) => Command::new(self.binary()),
            SiteGpus::Amd => {
                let mut command = Command::new("unshare");
                command.args(["--mount", "sh", "-c", AMD_GPUS]);
                command.arg(self.dir.path()).arg(self.binary());
                command
            }
        };
        command.args(["serve", "--system"]);
        if let SiteGpus::Virtual(count) = gpus {
            command.arg(format!("--virtual-gpus={count}"));
        }
        command
            .env_clear()
            .envs(
                ["PATH=/usr/sbin:/usr/bin:/sbin:/bin", SECRET_OF_ROOT]
                    .iter()
                    .filter_map(|pair| pair.split_once('=')),
            )
            .env("MUSTER_HOME", self.path("m"))
            .current_dir("/root")
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log);
        // Groups belong to a thread: this one's go to what it starts, and end with it. `dup` leaves
        // a descriptor that is inherited, as a careless shell does.
        let child = std::thread::spawn(move || {
            rustix::thread::set_thread_groups(&GROUPS_OF_ROOT.map(Gid::from_raw)).unwrap();
            let _open = rustix::io::dup(File::open(secret).unwrap()).unwrap();
            command.spawn().unwrap()
        });
        self.daemon = Some(child.join().unwrap());
        self.until("the daemon listens", || UnixStream::connect(self.socket()).is_ok());
    }

    /// Kills the daemon with SIGKILL.
    pub fn kill_daemon(&mut self) {
        if let Some(mut daemon) = self.daemon.take() {
            daemon.kill().unwrap();
            daemon.wait().unwrap();
        }
    }

    pub fn daemon_pid(&self) -> u32 {
        self.daemon.as_ref().unwrap().id()
    }

    /// Waits until a condition holds.
    #[track_caller]
    pub fn until(&self, what: &str, condition: impl Fn() -> bool) {
        let deadline = Instant::now() + PATIENCE;
        while !condition() {
            assert!(
                Instant::now() < deadline,
                "{what}: not within {PATIENCE:?}\n{}",
                self.daemon_log()
            );
            std::thread::sleep(LOOK_AGAIN);
        }
    }

    pub fn daemon_log(&self) -> String {
        fs::read_to_string(self.path("daemon.log")).unwrap_or_default()
    }

    /// Every file under the daemon's state and runtime directories, as root sees them.
    pub fn files(&self) -> Vec<PathBuf> {
        let mut found = Vec::new();
        let mut open = vec![self.path("m")];
        while let Some(dir) = open.pop() {
            for entry in fs::read_dir(&dir).unwrap().filter_map(Result::ok) {
                // A socket or a record may be gone by now.
                let Ok(kind) = entry.file_type() else { continue };
                if kind.is_dir() {
                    open.push(entry.path());
                }
                found.push(entry.path());
            }
        }
        found
    }

    /// Pids of supervisors of this site.
    pub fn supervisors(&self) -> Vec<u32> {
        let place = self.path("m").display().to_string();
        pids().into_iter().filter(|pid| command_line(*pid).contains(&place)).collect()
    }
}

impl Drop for SharedSite {
    fn drop(&mut self) {
        if let Some(mut daemon) = self.daemon.take() {
            let stopped = self.root().muster(&["stop-daemon", "--cancel"]);
            if stopped.code != 0 {
                // It is stuck or gone, and the test has failed anyway.
                let _gone = daemon.kill();
            }
            let _gone = daemon.wait();
        }
        for pid in self.supervisors() {
            kill(pid);
        }
        if std::thread::panicking() {
            println!("daemon:\n{}", self.daemon_log());
        }
    }
}

pub fn pids() -> Vec<u32> {
    let entries = fs::read_dir("/proc").unwrap();
    entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect()
}

/// Returns the arguments of a process.
pub fn command_line(pid: u32) -> String {
    let mut line = Vec::new();
    if let Ok(mut file) = File::open(format!("/proc/{pid}/cmdline")) {
        // A process that ends meanwhile has none.
        let _gone = file.read_to_end(&mut line);
    }
    String::from_utf8_lossy(&line).replace('\0', " ")
}

/// Sends SIGKILL to a process that this test started.
pub fn kill(pid: u32) {
    if let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) {
        let _gone = kill_process(pid, Signal::KILL);
    }
}
