//! Connects to the daemon, and starts one for this user if a subcommand needs it, as tmux does.

use std::io::Read;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use muster_api::Client;
use muster_api::types::DaemonInfo;
use muster_daemon::{DaemonMode, Paths, VirtualGpus};
use muster_model::GpuModel;
use muster_model::view::NodeView;

use crate::args::Global;
use crate::exit::Failure;
use crate::on::On;
use crate::ui::Ui;

/// Byte that the daemon writes to its stdout once it listens; any other output is an error message.
pub const READY: u8 = b'1';

/// Error message of a daemon whose state directory is locked by another daemon.
const IN_USE: &str = "another daemon uses this state";
/// Longest wait for a daemon that is starting or restarting.
const MAX_WAIT: Duration = Duration::from_secs(10);
/// Time between two attempts to connect.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Returns a client of the running daemon: the one that `--socket` names, else this user's own,
/// else the system's.
///
/// # Errors
/// [`Failure::no_daemon`] when none listens.
pub fn find(global: &Global) -> Result<Client> {
    if let Some(client) = client_without_daemon(global)? {
        return Ok(client);
    }
    if let Some(socket) = &global.socket {
        return if listens(socket) {
            Ok(Client::new(socket.clone()))
        } else {
            Err(Failure {
                message: format!("no daemon listens on {}", socket.display()),
                ..Failure::no_daemon()
            }
            .into())
        };
    }
    let personal = personal()?;
    let shared = Paths::system();
    let shared_is_usual = Paths::shared_is_installed() && !Paths::home_is_named();
    if listens(&personal.socket) {
        if shared_is_usual {
            eprintln!(
                "note: using your own daemon, not the shared one (stop it: muster stop-daemon)"
            );
        }
        return Ok(Client::new(personal.socket));
    }
    if let Some(pid) = wait_for_own_daemon(&personal) {
        return Err(Failure::unreachable(pid, &personal.socket).into());
    }
    if listens(&personal.socket) {
        return Ok(Client::new(personal.socket));
    }
    if listens(&shared.socket) {
        return Ok(Client::with_retries(shared.socket, MAX_WAIT));
    }
    match shared_is_usual {
        true if wait_for_shared_daemon(&shared.socket) => {
            Ok(Client::with_retries(shared.socket, MAX_WAIT))
        }
        true => Err(Failure::shared_daemon_down().into()),
        false => Err(Failure::no_daemon().into()),
    }
}

/// Waits for the shared daemon, which may be restarting. Returns whether it listens.
fn wait_for_shared_daemon(socket: &Path) -> bool {
    eprintln!("the shared daemon does not answer; waiting up to {} s for it", MAX_WAIT.as_secs());
    let deadline = Instant::now() + MAX_WAIT;
    while Instant::now() < deadline {
        std::thread::sleep(POLL_INTERVAL);
        if listens(socket) {
            return true;
        }
    }
    false
}

/// Waits for this user's own daemon if it runs but does not listen: it is starting, stopping, or
/// recreating a removed socket. Returns its process id if it still does not listen after the wait.
fn wait_for_own_daemon(paths: &Paths) -> Option<u32> {
    let deadline = Instant::now() + MAX_WAIT;
    loop {
        let pid = paths.daemon()?;
        if listens(&paths.socket) {
            return None;
        }
        if Instant::now() > deadline {
            return Some(pid);
        }
        std::thread::sleep(POLL_INTERVAL);
    }
}

/// Returns the client of `--on slurm`, which needs no daemon; `None` otherwise.
fn client_without_daemon(global: &Global) -> Result<Option<Client>> {
    global.on.as_ref().map_or(Ok(None), On::client)
}

/// As [`find`], but starts a daemon for this user if none is running. `virtual_gpus` are the
/// simulated GPUs of a new daemon; a running one must have the same.
pub async fn find_or_start(
    global: &Global,
    virtual_gpus: Option<&VirtualGpus>,
    ui: &Ui,
) -> Result<Client> {
    if let Some(client) = client_without_daemon(global)? {
        return match virtual_gpus {
            None => Ok(client),
            Some(_) => Err(Failure::usage(
                "--virtual-gpus applies to the daemon of this machine, not to --on slurm",
            )
            .into()),
        };
    }
    match find(global) {
        Ok(client) => {
            if let Some(asked) = virtual_gpus {
                check_virtual_gpus(&client, asked).await?;
            }
            Ok(client)
        }
        // A second daemon would manage the same devices as the shared one.
        Err(error) if is_shared_daemon_down(&error) && virtual_gpus.is_none() => Err(error),
        // Other errors occur again when a daemon is started.
        Err(_) if global.socket.is_none() => start_or_join(virtual_gpus, ui).await,
        Err(error) => Err(error),
    }
}

/// Starts a daemon for this user. If the state directory is locked, because another daemon is
/// starting or a killed one has not yet exited, retries until one listens.
async fn start_or_join(virtual_gpus: Option<&VirtualGpus>, ui: &Ui) -> Result<Client> {
    let socket = personal()?.socket;
    let deadline = Instant::now() + MAX_WAIT;
    loop {
        let failure = match start(virtual_gpus) {
            Ok(()) => {
                let client = Client::new(socket);
                announce(&client, ui).await?;
                return Ok(client);
            }
            Err(error) => error,
        };
        if !failure.to_string().contains(IN_USE) || Instant::now() > deadline {
            return Err(failure);
        }
        if listens(&socket) {
            let client = Client::new(socket);
            if let Some(asked) = virtual_gpus {
                check_virtual_gpus(&client, asked).await?;
            }
            return Ok(client);
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}

fn is_shared_daemon_down(error: &anyhow::Error) -> bool {
    error
        .downcast_ref::<Failure>()
        .is_some_and(|failure| failure.message == Failure::shared_daemon_down().message)
}

fn personal() -> Result<Paths> {
    Paths::personal().map_err(|error| Failure::new(error.to_string()).hint(error.hint()).into())
}

/// Returns whether a daemon accepts connections; the socket file of a dead daemon does not count.
fn listens(socket: &Path) -> bool {
    match UnixStream::connect(socket) {
        Ok(_) => true,
        Err(error) => error.kind() == std::io::ErrorKind::PermissionDenied,
    }
}

/// Starts this binary as the daemon of this user and waits until it listens.
fn start(virtual_gpus: Option<&VirtualGpus>) -> Result<()> {
    let mut command = Command::new("/proc/self/exe");
    command.arg0("muster").args(["serve", "--background", "--as-last-time"]);
    if let Some(gpus) = virtual_gpus {
        command.arg("--virtual-gpus").arg(gpus.to_string());
    }
    command.current_dir("/").stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().context("cannot start the daemon")?;
    let mut answer = Vec::new();
    if let Some(stdout) = child.stdout.as_mut() {
        let mut first = [0; 1];
        let ready = stdout.read(&mut first).context("cannot read from the daemon")?;
        if ready == 1 && first[0] == READY {
            return Ok(());
        }
        answer.extend_from_slice(&first[..ready]);
        stdout.read_to_end(&mut answer).context("cannot read from the daemon")?;
    }
    let status = child.wait().context("cannot wait for the daemon")?;
    let said = String::from_utf8_lossy(&answer);
    let mut lines = said.lines();
    let message = match lines.next() {
        Some(first) => first.to_owned(),
        None => format!("it exited with {status} before it listened"),
    };
    let failure = Failure::new(format!("cannot start the daemon: {message}"));
    Err(lines.fold(failure, |failure, hint| failure.hint(hint)).into())
}

/// Prints that a daemon was started, with which GPUs, and its warnings.
async fn announce(client: &Client, ui: &Ui) -> Result<()> {
    let info = client.info().await.map_err(Failure::from)?;
    let nodes = client.nodes().await.map_err(Failure::from)?.nodes;
    ui.status(&format!(
        "no daemon was running; started one for this user, with {} (stop it: muster stop-daemon)",
        hardware(&nodes)
    ));
    for warning in &info.warnings {
        ui.warning(warning);
    }
    Ok(())
}

/// Returns a summary of the GPUs: `8 virtual GPUs`, `2 h100 GPUs`, `no GPU`.
pub fn hardware(nodes: &[NodeView]) -> String {
    let devices: Vec<_> = nodes.iter().flat_map(|node| &node.devices).collect();
    let Some(first) = devices.first() else {
        return "no GPU".to_owned();
    };
    let plural = if devices.len() == 1 { "" } else { "s" };
    let mut models: Vec<(&GpuModel, usize)> = Vec::new();
    for device in &devices {
        match models.iter_mut().find(|(model, _)| *model == &device.model) {
            Some((_, count)) => *count += 1,
            None => models.push((&device.model, 1)),
        }
    }
    let what = if first.is_virtual { "virtual " } else { "" };
    match &models[..] {
        [(model, count)] if first.is_virtual && model.as_str() == "virtual" => {
            format!("{count} virtual GPU{plural}")
        }
        [(model, count)] => format!("{count} {what}{model} GPU{plural}"),
        _ => {
            let each: Vec<String> =
                models.iter().map(|(model, count)| format!("{count} {model}")).collect();
            format!("{} {what}GPUs ({})", devices.len(), each.join(", "))
        }
    }
}

/// Rejects a running daemon that has other virtual GPUs than requested: they cannot change while
/// jobs hold them.
async fn check_virtual_gpus(client: &Client, asked: &VirtualGpus) -> Result<()> {
    let info: DaemonInfo = client.info().await.map_err(Failure::from)?;
    let nodes = client.nodes().await.map_err(Failure::from)?.nodes;
    let models = nodes.iter().flat_map(|node| &node.devices).map(|device| device.model.clone());
    if info.virtual_gpus == asked.count() && (asked.count() == 0 || models.eq(asked.models())) {
        return Ok(());
    }
    let other = if info.mode == DaemonMode::System.word() {
        format!("to use others: `muster serve --virtual-gpus {asked}` starts a daemon of your own")
    } else {
        "to use others: `muster stop-daemon --cancel`, then run this again".to_owned()
    };
    Err(Failure::usage(format!(
        "a daemon is running with {}, not with {asked} virtual",
        hardware(&nodes)
    ))
    .hint("without --virtual-gpus, its GPUs are used")
    .hint(other)
    .into())
}
