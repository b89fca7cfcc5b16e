//! Finding the daemon, and starting one for this user where a verb needs one, as tmux does.

use std::io::Read;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use muster_api::Client;
use muster_api::types::DaemonInfo;
use muster_daemon::{Mode, Paths, VirtualGpus};
use muster_model::GpuModel;
use muster_model::view::NodeView;

use crate::args::Global;
use crate::exit::Failure;
use crate::on::On;
use crate::ui::Ui;

/// What the daemon writes to its stdout once it listens; anything else is why it does not.
pub const READY: u8 = b'1';

/// What a daemon says that finds the state in use.
const IN_USE: &str = "another daemon uses this state";
/// Longest wait for a daemon that somebody else is starting, or that restarts.
const PATIENCE: Duration = Duration::from_secs(10);
/// Between two looks at it.
const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// A client of the daemon that runs: the one that was named, this user's own, or the system's.
///
/// # Errors
/// [`Failure::no_daemon`] when none listens.
pub fn find(global: &Global) -> Result<Client> {
    if let Some(client) = elsewhere(global)? {
        return Ok(client);
    }
    if let Some(socket) = &global.socket {
        return match listens(socket) {
            true => Ok(Client::new(socket.clone())),
            false => Err(Failure {
                message: format!("no daemon listens on {}", socket.display()),
                ..Failure::no_daemon()
            }
            .into()),
        };
    }
    let (personal, shared) = (personal()?, Paths::system());
    let shared_is_usual = Paths::shared_is_installed() && !Paths::home_is_named();
    if listens(&personal.socket) {
        if shared_is_usual {
            eprintln!(
                "note: your own daemon answers, not the shared one (end it: muster stop-daemon)"
            );
        }
        return Ok(Client::new(personal.socket));
    }
    if let Some(pid) = rebinds(&personal) {
        return Err(Failure::unreachable(pid, &personal.socket).into());
    }
    if listens(&personal.socket) {
        return Ok(Client::new(personal.socket));
    }
    if listens(&shared.socket) {
        return Ok(Client::patient(shared.socket, PATIENCE));
    }
    match shared_is_usual {
        true if comes_back(&shared.socket) => Ok(Client::patient(shared.socket, PATIENCE)),
        true => Err(Failure::shared_away().into()),
        false => Err(Failure::no_daemon().into()),
    }
}

/// Waits for the shared daemon, which may be restarting. True when it listens.
fn comes_back(socket: &Path) -> bool {
    eprintln!("the shared daemon does not answer; waiting up to {} s for it", PATIENCE.as_secs());
    let deadline = Instant::now() + PATIENCE;
    while Instant::now() < deadline {
        std::thread::sleep(LOOK_AGAIN);
        if listens(socket) {
            return true;
        }
    }
    false
}

/// Waits for this user's own daemon where it runs and does not listen: it is starting, stopping, or
/// its socket was removed, which it notices. Returns its process when it goes on not to listen.
fn rebinds(paths: &Paths) -> Option<u32> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let pid = paths.daemon()?;
        if listens(&paths.socket) {
            return None;
        }
        if Instant::now() > deadline {
            return Some(pid);
        }
        std::thread::sleep(LOOK_AGAIN);
    }
}

/// Who answers where no daemon is asked.
fn elsewhere(global: &Global) -> Result<Option<Client>> {
    global.on.as_ref().map_or(Ok(None), On::client)
}

/// The same; with none running, starts one for this user. `virtual_gpus` is what it shall have, and
/// what one that runs already must have.
pub async fn find_or_start(
    global: &Global,
    virtual_gpus: Option<&VirtualGpus>,
    ui: &Ui,
) -> Result<Client> {
    if let Some(client) = elsewhere(global)? {
        return match virtual_gpus {
            None => Ok(client),
            Some(_) => Err(Failure::usage(
                "--virtual-gpus is for the daemon of this machine, not for --on",
            )
            .into()),
        };
    }
    match find(global) {
        Ok(client) => {
            if let Some(asked) = virtual_gpus {
                agree(&client, asked).await?;
            }
            Ok(client)
        }
        // Another daemon would own the devices of the shared one.
        Err(error) if is_shared_away(&error) && virtual_gpus.is_none() => Err(error),
        // Whatever else is wrong is found again there.
        Err(_) if global.socket.is_none() => start_or_join(virtual_gpus, ui).await,
        Err(error) => Err(error),
    }
}

/// Starts a daemon for this user. Where another one is just starting, or one that was killed still
/// lets go of its state, looks again until either is through.
async fn start_or_join(virtual_gpus: Option<&VirtualGpus>, ui: &Ui) -> Result<Client> {
    let socket = personal()?.socket;
    let deadline = Instant::now() + PATIENCE;
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
                agree(&client, asked).await?;
            }
            return Ok(client);
        }
        tokio::time::sleep(LOOK_AGAIN).await;
    }
}

fn is_shared_away(error: &anyhow::Error) -> bool {
    error
        .downcast_ref::<Failure>()
        .is_some_and(|failure| failure.message == Failure::shared_away().message)
}

fn personal() -> Result<Paths> {
    Paths::personal().map_err(|error| Failure::new(error.to_string()).hint(error.hint()).into())
}

/// Whether somebody accepts connections; a socket that a dead daemon left behind does not count.
fn listens(socket: &Path) -> bool {
    match UnixStream::connect(socket) {
        Ok(_) => true,
        Err(error) => error.kind() == std::io::ErrorKind::PermissionDenied,
    }
}

/// Starts this very binary as the daemon of this user and waits until it listens.
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
        let ready = stdout.read(&mut first).context("cannot hear the daemon")?;
        if ready == 1 && first[0] == READY {
            return Ok(());
        }
        answer.extend_from_slice(&first[..ready]);
        stdout.read_to_end(&mut answer).context("cannot hear the daemon")?;
    }
    let status = child.wait().context("cannot wait for the daemon")?;
    let said = String::from_utf8_lossy(&answer);
    let mut lines = said.lines();
    let message = match lines.next() {
        Some(first) => first.to_owned(),
        None => format!("it ended with {status} before it listened"),
    };
    let failure = Failure::new(format!("cannot start the daemon: {message}"));
    Err(lines.fold(failure, |failure, hint| failure.hint(hint)).into())
}

/// Says that a daemon was started, with what, and what it warns of.
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

/// `8 virtual GPUs`, `2 h100`, `no GPU`.
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

/// A daemon that runs must have the virtual GPUs that are asked for: they cannot change under its
/// jobs.
async fn agree(client: &Client, asked: &VirtualGpus) -> Result<()> {
    let info: DaemonInfo = client.info().await.map_err(Failure::from)?;
    let nodes = client.nodes().await.map_err(Failure::from)?.nodes;
    let models = nodes.iter().flat_map(|node| &node.devices).map(|device| device.model.clone());
    if info.virtual_gpus == asked.count() && (asked.count() == 0 || models.eq(asked.models())) {
        return Ok(());
    }
    let other = match info.mode == Mode::System.word() {
        true => {
            format!("to have others: `muster serve --virtual-gpus {asked}` is a daemon of your own")
        }
        false => "to have others: `muster stop-daemon --cancel`, then run this again".to_owned(),
    };
    Err(Failure::usage(format!(
        "a daemon is running with {}, not with {asked} virtual",
        hardware(&nodes)
    ))
    .hint("leave out --virtual-gpus to use what it has")
    .hint(other)
    .into())
}
