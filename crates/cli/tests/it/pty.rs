//! A pseudo-terminal with the binary on it, in place of an interactive user.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use rustix::fs::{Mode, OFlags, open};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

use crate::home::{Home, PATIENCE};

pub struct Typist {
    child: Child,
    near: File,
    seen: Arc<Mutex<Vec<u8>>>,
    /// Kept open, so that the terminal outlives the child and its mode can be checked.
    pub far: OwnedFd,
    /// Number of bytes of output up to the end of what [`Typist::until_next`] waited for last.
    at: usize,
}

impl Typist {
    /// Starts the binary on a terminal of 100 columns and 30 rows.
    pub fn new(home: &Home, args: &[&str]) -> Self {
        Self::sized(home, args, 30, 100, &[])
    }

    /// Starts the binary on a terminal of this size, with these variables.
    pub fn sized(
        home: &Home,
        args: &[&str],
        rows: u16,
        columns: u16,
        env: &[(&str, &str)],
    ) -> Self {
        let mut command = home.command(args);
        command.envs(env.iter().copied());
        Self::of(command, rows, columns)
    }

    /// Starts a program on a terminal of this size.
    pub fn of(mut command: Command, rows: u16, columns: u16) -> Self {
        let near = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
        grantpt(&near).unwrap();
        unlockpt(&near).unwrap();
        let name = ptsname(&near, Vec::new()).unwrap();
        let far =
            open(&*name, OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC, Mode::empty()).unwrap();
        tcsetwinsize(&near, Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 })
            .unwrap();
        let end = || Stdio::from(far.try_clone().unwrap());
        let child = command
            .env("TERM", "xterm")
            .env("NO_COLOR", "1")
            .stdin(end())
            .stdout(end())
            .stderr(end())
            .spawn()
            .unwrap();
        let near = File::from(near);
        let seen = Arc::new(Mutex::new(Vec::new()));
        let mut reader = near.try_clone().unwrap();
        let shared = Arc::clone(&seen);
        std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(read @ 1..) = reader.read(&mut buffer) {
                shared.lock().unwrap().extend_from_slice(&buffer[..read]);
            }
        });
        Self { child, near, seen, far, at: 0 }
    }

    /// Returns all output so far.
    pub fn seen(&self) -> String {
        String::from_utf8_lossy(&self.seen.lock().unwrap()).into_owned()
    }

    /// Waits until a text is shown.
    #[track_caller]
    pub fn until(&self, text: &str) {
        self.wait_for(text, 0);
    }

    /// Waits until a text is shown after the one that this has waited for last.
    #[track_caller]
    pub fn until_next(&mut self, text: &str) {
        let found = self.wait_for(text, self.at);
        self.at = found + text.len();
    }

    /// Waits until a text is shown after so many bytes; returns its place.
    #[track_caller]
    fn wait_for(&self, text: &str, from: usize) -> usize {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let seen = self.seen();
            if let Some(found) = seen.get(from..).and_then(|rest| rest.find(text)) {
                return from + found;
            }
            assert!(Instant::now() < deadline, "`{text}` was not shown:\n{seen}");
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
    }

    /// Types text on the terminal.
    pub fn keys(&mut self, text: &str) {
        self.near.write_all(text.as_bytes()).unwrap();
    }

    /// Changes the size of the window.
    pub fn resize(&self, rows: u16, columns: u16) {
        tcsetwinsize(
            &self.near,
            Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 },
        )
        .unwrap();
        // The terminal is not the controlling one of the binary, so the kernel sends no SIGWINCH.
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, rustix::process::Signal::WINCH).unwrap();
    }

    /// Sends a signal to the binary.
    pub fn signal(&self, signal: rustix::process::Signal) {
        rustix::process::kill_process(rustix::process::Pid::from_child(&self.child), signal)
            .unwrap();
    }

    /// Waits until the binary exits and returns its exit code.
    #[track_caller]
    pub fn code(&mut self) -> i32 {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                // A terminal keeps the order: what is read up to this mark is all that the child wrote.
                rustix::io::write(&self.far, b"[end of output]").unwrap();
                self.until_next("[end of output]");
                return status.code().unwrap_or(-1);
            }
            assert!(Instant::now() < deadline, "it does not end:\n{}", self.seen());
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
    }
}

impl Drop for Typist {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}
