//! `muster serve --system --install` and `--uninstall`: the unit of systemd on this machine. A unit that a
//! package owns or that was changed by hand is never replaced or removed.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use muster_api::Client;
use muster_api::query::JobFilter;
use muster_daemon::Paths;
use muster_report::amount::count;
use rustix::process::geteuid;

use super::program;
use super::unit::{self, UnitOrigin};
use crate::exit::Failure;

/// Name of the unit.
const NAME: &str = "muster.service";

/// Folder of units that an administrator writes, below the root.
const OWN_UNITS: &str = "etc/systemd/system";

/// Folders of units that packages and tarballs bring, below the root.
const PACKAGED_UNITS: [&str; 3] =
    ["usr/lib/systemd/system", "lib/systemd/system", "usr/local/lib/systemd/system"];

/// Exists while systemd is the init process.
const SYSTEMD: &str = "run/systemd/system";

/// Longest wait for the first answer: the daemon reads its state, and all devices.
const MAX_WAIT: Duration = Duration::from_secs(30);

/// Time between two attempts.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Options that set up or remove the service.
#[derive(Debug, clap::Args)]
pub struct ServiceArgs {
    /// Set up the service: write the unit of systemd, with the other options given, enable it and
    /// start it; again with other options changes it
    #[arg(long, requires = "system", group = "service", conflicts_with = "accept_older_state")]
    install: bool,
    /// Undo --install: stop the service and remove its unit. Running jobs keep running, and the state
    /// is kept
    #[arg(long, requires = "system", group = "service", conflicts_with = "accept_older_state")]
    uninstall: bool,
    /// Print the unit and the commands of --install or --uninstall, and change nothing
    #[arg(long, requires = "service")]
    dry_run: bool,
    /// Root of the file system with the units
    #[arg(long, hide = true, value_name = "DIR", default_value = "/")]
    service_root: PathBuf,
}

impl ServiceArgs {
    /// Returns true if the daemon is not to be run now.
    pub fn is_given(&self) -> bool {
        self.install || self.uninstall
    }

    /// Sets up or removes the service; `options` are those of the daemon.
    ///
    /// # Errors
    /// When it is refused, or a command fails.
    pub fn run(&self, options: &[String]) -> Result<()> {
        let machine = Machine { root: self.service_root.clone(), dry_run: self.dry_run };
        if !self.dry_run {
            machine.check()?;
        }
        if self.uninstall { machine.uninstall() } else { machine.install(options) }
    }
}

/// Machine whose units are changed.
struct Machine {
    root: PathBuf,
    /// True to print in place of changing.
    dry_run: bool,
}

impl Machine {
    fn own_unit(&self) -> PathBuf {
        self.root.join(OWN_UNITS).join(NAME)
    }

    /// Returns the unit of a package or tarball, if there is one.
    fn packaged_unit(&self) -> Option<PathBuf> {
        let mut all = PACKAGED_UNITS.iter().map(|folder| self.root.join(folder).join(NAME));
        all.find(|path| path.exists())
    }

    /// Refuses where a service cannot be set up.
    fn check(&self) -> Result<()> {
        if !geteuid().is_root() {
            return Err(Failure::new("only root may change the services of this machine")
                .hint("with sudo; or `muster run`, which starts a daemon of your own")
                .into());
        }
        if !self.root.join(SYSTEMD).is_dir() {
            return Err(Failure::new("systemd does not run this machine")
                .hint("have your init system start `muster serve --system` as root; --dry-run prints the unit")
                .into());
        }
        Ok(())
    }

    fn install(&self, options: &[String]) -> Result<()> {
        let program = program::own_path()?;
        let own = [program.clone(), "serve".to_owned(), "--system".to_owned()];
        let wanted = unit::render(&[&own[..], options].concat());
        if self.dry_run {
            // The unit only, so that it can be compared and saved.
            print!("{wanted}");
            eprintln!("would write it to {}", self.own_unit().display());
            self.systemctl(&["daemon-reload"])?;
            return self.systemctl(&["enable", "--now", NAME]);
        }
        program::check(Path::new(&program))?;
        if let Some(path) = self.packaged_unit() {
            return Err(Failure::new(format!("{} is there already, from a package", path.display()))
                .hint("`systemctl enable --now muster` starts it; `systemctl edit muster` sets its options")
                .into());
        }
        let path = self.own_unit();
        let present = read(&path)?;
        let origin = present.as_deref().map(|present| unit::origin(present, &wanted));
        if origin == Some(UnitOrigin::ByHand) {
            return Err(by_hand(&path)
                .hint(format!(
                    "`muster serve --system --install --dry-run | diff {} -` shows the difference; move the file away to replace it",
                    path.display()
                ))
                .hint("`systemctl edit muster` changes settings without it")
                .into());
        }
        let was_active = self.is_active();
        refuse_other_daemon(was_active)?;
        if origin != Some(UnitOrigin::Same) {
            write(&path, &wanted)?;
            eprintln!("wrote {}", path.display());
        }
        self.systemctl(&["daemon-reload"])?;
        self.systemctl(&["enable", "--now", NAME])?;
        if was_active && origin != Some(UnitOrigin::Same) {
            self.systemctl(&["restart", NAME])?;
        }
        let socket = wait_for_answer()?;
        eprintln!("the shared daemon listens on {}, and starts at boot", socket.display());
        Ok(())
    }

    fn uninstall(&self) -> Result<()> {
        let path = self.own_unit();
        if self.dry_run {
            self.systemctl(&["disable", "--now", NAME])?;
            eprintln!("would remove {}", path.display());
            return self.systemctl(&["daemon-reload"]);
        }
        let Some(present) = read(&path)? else {
            return match self.packaged_unit() {
                Some(packaged) => {
                    Err(Failure::new(format!("{} belongs to a package", packaged.display()))
                        .hint("`systemctl disable --now muster` stops it; removing the package removes it")
                        .into())
                }
                None => {
                    eprintln!("nothing to remove: there is no {}", path.display());
                    Ok(())
                }
            };
        };
        if unit::origin(&present, "") == UnitOrigin::ByHand {
            return Err(by_hand(&path)
                .hint(format!("`systemctl disable --now muster && rm {}`", path.display()))
                .into());
        }
        let running = running_jobs();
        self.systemctl(&["disable", "--now", NAME])?;
        fs::remove_file(&path).with_context(|| path.display().to_string())?;
        self.systemctl(&["daemon-reload"])?;
        eprintln!("stopped, and removed {}", path.display());
        if let Some(running) = running.filter(|running| *running > 0) {
            let verb = if running == 1 { "keeps" } else { "keep" };
            eprintln!("{} {verb} running until their end or time limit; the next daemon finds them", count(running, "job"));
        }
        let state = Paths::system_to_serve()?.state_dir;
        eprintln!("kept: the state in {} (`rm -r` removes jobs, accounting and logs)", state.display());
        let changes = path.with_extension("service.d");
        if changes.exists() {
            eprintln!("kept: {}, from `systemctl edit`", changes.display());
        }
        Ok(())
    }

    fn is_active(&self) -> bool {
        let mut command = Command::new("systemctl");
        command.args(["is-active", "--quiet", NAME]).stdin(Stdio::null());
        command.status().is_ok_and(|status| status.success())
    }

    /// Runs `systemctl`; prints the command instead in a dry run.
    fn systemctl(&self, words: &[&str]) -> Result<()> {
        let line = format!("systemctl {}", words.join(" "));
        if self.dry_run {
            eprintln!("would run: {line}");
            return Ok(());
        }
        let output = Command::new("systemctl")
            .args(words)
            .stdin(Stdio::null())
            .output()
            .context("systemctl did not start")?;
        if output.status.success() {
            return Ok(());
        }
        let said = String::from_utf8_lossy(&output.stderr).trim().replace('\n', "; ");
        Err(Failure::new(format!("`{line}` failed: {said}")).hint(JOURNAL).into())
    }
}

/// Next step after a failure of the service.
const JOURNAL: &str = "`journalctl --unit muster --lines 20` shows its log";

/// Refuses while a shared daemon runs that systemd did not start.
fn refuse_other_daemon(is_active: bool) -> Result<()> {
    match Paths::system_to_serve()?.daemon().filter(|_| !is_active) {
        Some(pid) => Err(Failure::new(format!(
            "a shared daemon runs already, as process {pid} and not as the service"
        ))
        .hint("`muster stop-daemon` ends it; jobs keep running")
        .into()),
        None => Ok(()),
    }
}

fn by_hand(path: &Path) -> Failure {
    Failure::new(format!("{} was written or changed by hand", path.display()))
}

fn read(path: &Path) -> Result<Option<String>> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error).with_context(|| path.display().to_string()),
    }
}

/// Writes a unit so that systemd never reads half of it.
fn write(path: &Path, text: &str) -> Result<()> {
    let new = path.with_extension("service.new");
    let written = fs::write(&new, text).and_then(|()| fs::rename(&new, path));
    written.with_context(|| path.display().to_string())
}

/// Waits until the daemon answers, and returns its socket.
fn wait_for_answer() -> Result<PathBuf> {
    let socket = Paths::system_to_serve()?.socket;
    let client = Client::new(socket.clone());
    let deadline = Instant::now() + MAX_WAIT;
    loop {
        let answer = runtime()?.block_on(client.info());
        match answer {
            Ok(_) => return Ok(socket),
            Err(_) if Instant::now() < deadline => std::thread::sleep(POLL_INTERVAL),
            Err(error) => {
                return Err(Failure::new(format!(
                    "the service is enabled, but its daemon does not answer after {} s: {error}",
                    MAX_WAIT.as_secs()
                ))
                .hint(JOURNAL)
                .hint("`muster serve --system --uninstall` undoes the installation")
                .into());
            }
        }
    }
}

/// Returns the number of running jobs; `None` if no daemon answers.
fn running_jobs() -> Option<u64> {
    let client = Client::new(Paths::system_to_serve().ok()?.socket);
    let filter = JobFilter { state: Some("running".to_owned()), ..JobFilter::default() };
    let list = runtime().ok()?.block_on(client.jobs(filter)).ok()?;
    Some(list.jobs.len() as u64)
}

fn runtime() -> Result<tokio::runtime::Runtime> {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    runtime.enable_all().build().context("cannot set up asynchronous input and output")
}
