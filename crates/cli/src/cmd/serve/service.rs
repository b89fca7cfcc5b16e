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

/// Unit that an administrator writes.
const OWN_UNIT: &str = "/etc/systemd/system/muster.service";

/// Changes by `systemctl edit`.
const CHANGES: &str = "/etc/systemd/system/muster.service.d";

/// Units that packages and tarballs bring.
const PACKAGED_UNITS: [&str; 3] = [
    "/usr/lib/systemd/system/muster.service",
    "/lib/systemd/system/muster.service",
    "/usr/local/lib/systemd/system/muster.service",
];

/// Exists while systemd is the init process.
const SYSTEMD: &str = "/run/systemd/system";

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
        match (self.dry_run, self.uninstall) {
            (true, true) => print_removal(),
            (true, false) => print_installation(options)?,
            (false, true) => uninstall()?,
            (false, false) => install(options)?,
        }
        Ok(())
    }
}

/// Returns the unit that starts this program with these options, and the path of the program.
fn wanted(options: &[String]) -> Result<(String, String)> {
    let program = program::own_path()?;
    let own = [program.clone(), "serve".to_owned(), "--system".to_owned()];
    Ok((unit::render(&[&own[..], options].concat()), program))
}

fn print_installation(options: &[String]) -> Result<()> {
    // The unit only, so that it can be compared and saved.
    print!("{}", wanted(options)?.0);
    eprintln!("would write it to {OWN_UNIT}");
    for words in [&["daemon-reload"][..], &["enable", "--now", NAME]] {
        eprintln!("would run: systemctl {}", words.join(" "));
    }
    Ok(())
}

fn print_removal() {
    eprintln!("would run: systemctl disable --now {NAME}");
    eprintln!("would remove {OWN_UNIT}");
    eprintln!("would run: systemctl daemon-reload");
}

fn install(options: &[String]) -> Result<()> {
    check_machine()?;
    let (wanted, program) = wanted(options)?;
    program::check(Path::new(&program))?;
    if let Some(path) = packaged_unit() {
        return Err(Failure::new(format!("{path} is there already, from a package"))
            .hint("`systemctl enable --now muster` starts it; `systemctl edit muster` sets its options")
            .into());
    }
    let origin = own_unit()?.map(|present| unit::origin(&present, &wanted));
    if origin == Some(UnitOrigin::ByHand) {
        return Err(by_hand()
            .hint(format!(
                "`muster serve --system --install --dry-run | diff {OWN_UNIT} -` shows the difference; move the file away to replace it"
            ))
            .hint("`systemctl edit muster` changes settings without it")
            .into());
    }
    let was_active = is_active();
    refuse_other_daemon(was_active)?;
    let is_new = origin != Some(UnitOrigin::Same);
    if is_new {
        write(&wanted)?;
        eprintln!("wrote {OWN_UNIT}");
    }
    systemctl(&["daemon-reload"])?;
    systemctl(&["enable", "--now", NAME])?;
    if was_active && is_new {
        systemctl(&["restart", NAME])?;
    }
    let socket = wait_for_answer()?;
    eprintln!("the shared daemon listens on {}, and starts at boot", socket.display());
    Ok(())
}

fn uninstall() -> Result<()> {
    check_machine()?;
    let Some(present) = own_unit()? else {
        if let Some(packaged) = packaged_unit() {
            return Err(Failure::new(format!("{packaged} belongs to a package"))
                .hint("`systemctl disable --now muster` stops it; removing the package removes it")
                .into());
        }
        eprintln!("nothing to remove: there is no {OWN_UNIT}");
        return Ok(());
    };
    if unit::origin(&present, "") == UnitOrigin::ByHand {
        return Err(by_hand()
            .hint(format!("`systemctl disable --now muster && rm {OWN_UNIT}` removes it"))
            .into());
    }
    let running = running_jobs();
    systemctl(&["disable", "--now", NAME])?;
    fs::remove_file(OWN_UNIT).context(OWN_UNIT)?;
    systemctl(&["daemon-reload"])?;
    eprintln!("stopped, and removed {OWN_UNIT}");
    if let Some(running) = running.filter(|running| *running > 0) {
        let verb = if running == 1 { "keeps" } else { "keep" };
        let jobs = count(running, "job");
        eprintln!(
            "{jobs} {verb} running, to the end or the time limit; the next daemon finds them"
        );
    }
    let state = Paths::system_to_serve()?.state_dir;
    eprintln!("kept: the state in {}; `rm -r` deletes jobs, accounting and logs", state.display());
    if Path::new(CHANGES).exists() {
        eprintln!("kept: {CHANGES}, from `systemctl edit`");
    }
    Ok(())
}

/// Refuses where a service cannot be set up.
fn check_machine() -> Result<()> {
    if !geteuid().is_root() {
        return Err(Failure::new("only root may change the services of this machine")
            .hint("with sudo; or `muster run`, which starts a daemon of your own")
            .into());
    }
    if !Path::new(SYSTEMD).is_dir() {
        return Err(Failure::new("systemd does not run this machine")
            .hint("have your init system start `muster serve --system` as root; --dry-run prints the unit")
            .into());
    }
    Ok(())
}

/// Returns the unit of a package or tarball, if there is one.
fn packaged_unit() -> Option<&'static str> {
    PACKAGED_UNITS.into_iter().find(|path| Path::new(path).exists())
}

fn is_active() -> bool {
    let mut command = Command::new("systemctl");
    command.args(["is-active", "--quiet", NAME]).stdin(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

fn systemctl(words: &[&str]) -> Result<()> {
    let mut command = Command::new("systemctl");
    let output = command.args(words).stdin(Stdio::null()).output();
    let output = output.context("systemctl did not start")?;
    if output.status.success() {
        return Ok(());
    }
    let line = format!("systemctl {}", words.join(" "));
    let reason = String::from_utf8_lossy(&output.stderr).trim().replace('\n', "; ");
    Err(Failure::new(format!("`{line}` failed: {reason}")).hint(JOURNAL).into())
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

fn by_hand() -> Failure {
    Failure::new(format!("{OWN_UNIT} was written or changed by hand"))
}

/// Returns the text of the administrator's unit, if there is one.
fn own_unit() -> Result<Option<String>> {
    match fs::read_to_string(OWN_UNIT) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error).context(OWN_UNIT),
    }
}

/// Writes the unit so that systemd never reads half of it.
fn write(text: &str) -> Result<()> {
    let new = format!("{OWN_UNIT}.new");
    let written = fs::write(&new, text).and_then(|()| fs::rename(&new, OWN_UNIT));
    written.context(OWN_UNIT)
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
