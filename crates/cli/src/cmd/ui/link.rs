//! The link to the page: its text, what is printed with it, and the browser that opens it.

use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use muster_daemon::host_name;
use rustix::process::getpgrp;
use rustix::termios::tcgetpgrp;
use tokio::process::Command;
use tokio::sync::mpsc;

use crate::app::App;

/// Returns the address that opens the page once. The secret is in the fragment, which browsers send to
/// no server and put into no `Referer`.
pub(super) fn address(port: u16, link: &str) -> String {
    format!("http://127.0.0.1:{port}/#open={link}")
}

/// Returns the command that makes the port of this machine reachable from the user's own, when this
/// is a session over ssh.
pub(super) fn tunnel(port: u16) -> Option<String> {
    is_remote().then(|| format!("ssh -N -L {port}:127.0.0.1:{port} {}", host_name()))
}

fn is_remote() -> bool {
    is_set("SSH_CONNECTION")
}

fn is_set(name: &str) -> bool {
    std::env::var_os(name).is_some_and(|value| !value.is_empty())
}

/// File that leads a browser to the page. Arguments of a process can be read by every user of the
/// machine, so the browser is given this file, which only its user can read.
#[derive(Debug)]
pub(super) struct LinkFile {
    path: PathBuf,
}

impl LinkFile {
    /// Opens the address in the browser of a graphical session. Returns the file, which is to stay
    /// until the browser has read it; `None` when no browser was started.
    pub(super) fn open(app: &App, address: &str) -> Option<Self> {
        let has_screen = is_set("DISPLAY") || is_set("WAYLAND_DISPLAY");
        if !app.ui.is_terminal() || !has_screen || is_remote() {
            return None;
        }
        let folder = std::env::var_os("XDG_RUNTIME_DIR").filter(|folder| !folder.is_empty())?;
        let file = Self::write(Path::new(&folder), address).ok()?;
        let mut opener = Command::new("xdg-open");
        // Of its own group, so that Ctrl-C ends this command and not the browser.
        opener.process_group(0);
        opener.arg(&file.path).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        opener.spawn().ok()?;
        Some(file)
    }

    fn write(folder: &Path, address: &str) -> std::io::Result<Self> {
        let path = folder.join(format!("muster-ui-{}.html", std::process::id()));
        let text = format!(
            "<!doctype html><meta charset=\"utf-8\"><title>Muster</title>\
             <meta http-equiv=\"refresh\" content=\"0;url={address}\"><a href=\"{address}\">Open Muster</a>\n"
        );
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)?;
        let file_of = Self { path };
        file.write_all(text.as_bytes())?;
        Ok(file_of)
    }
}

impl Drop for LinkFile {
    fn drop(&mut self) {
        // Its secret is of no use without this process.
        let _ = fs::remove_file(&self.path);
    }
}

/// Returns a channel with one message for each press of Enter; it stays silent without a terminal, and
/// in the background, where reading from the terminal would stop this process.
pub(super) fn enter_pressed(app: &App) -> mpsc::Receiver<()> {
    let (pressed, receiver) = mpsc::channel(1);
    let is_background = tcgetpgrp(std::io::stdin()).is_ok_and(|group| group != getpgrp());
    if app.ui.can_ask() && !is_background {
        std::thread::spawn(move || {
            for line in std::io::stdin().lines() {
                if line.is_err() || pressed.blocking_send(()).is_err() {
                    break;
                }
            }
        });
    }
    receiver
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn the_file_of_a_link_is_private_and_goes_away() {
        let folder = tempfile::tempdir().unwrap();
        let file = LinkFile::write(folder.path(), &address(4000, "secret")).unwrap();
        let path = file.path.clone();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert!(fs::read_to_string(&path).unwrap().contains("http://127.0.0.1:4000/#open=secret"));
        // A file that someone else has put there is not written to.
        assert!(LinkFile::write(folder.path(), "other").is_err());
        drop(file);
        assert!(!path.exists());
    }
}
