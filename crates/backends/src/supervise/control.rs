//! Connections to the daemon: the one the supervisor was born with, and those made to its socket
//! later.

use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::{UnixListener, UnixStream};

use crate::wire::{self, FromSupervisor, Hello, Lines, ToSupervisor};

/// Most connections that have not yet said what they want. A peer that connects and stays silent is
/// dropped for a newer one.
const MAX_UNDECIDED: usize = 16;

/// What came in.
#[derive(Debug)]
pub(super) enum Incoming {
    /// A command of the daemon.
    Command(ToSupervisor),
    /// A daemon connected and wants to know the present stage.
    Greeted,
    /// Somebody says for the task that its progress is saved: where that is answered, and the
    /// label.
    Saved(UnixStream, String),
    /// A terminal wants a session: its connection, what it wants, and what it already sent after
    /// that.
    Terminal(UnixStream, Hello, Vec<u8>),
}

#[derive(Debug)]
struct Link {
    stream: UnixStream,
    lines: Lines,
    is_control: bool,
    is_guest: bool,
    is_open: bool,
}

impl Link {
    /// The connection, for whom it is meant.
    fn handed_over(&self) -> Option<UnixStream> {
        self.stream.as_fd().try_clone_to_owned().ok().map(Into::into)
    }
}

/// All connections that are not terminal sessions.
#[derive(Debug, Default)]
pub(super) struct Links {
    links: Vec<Link>,
}

impl Links {
    /// Adds a connection; one made by the daemon at birth needs no greeting.
    pub(super) fn add(&mut self, stream: UnixStream, is_control: bool) {
        if stream.set_nonblocking(true).is_ok() {
            self.links.push(Link {
                stream,
                lines: Lines::default(),
                is_control,
                is_guest: false,
                is_open: true,
            });
        }
    }

    /// Takes what waits at the listener. The socket lies in a directory of this user; root is the
    /// daemon of system mode. Nobody else is heard.
    pub(super) fn accept(&mut self, listener: &UnixListener) {
        while let Ok((stream, _)) = listener.accept() {
            let own = rustix::process::geteuid();
            let peer = rustix::net::sockopt::socket_peercred(&stream);
            if peer.is_ok_and(|peer| peer.uid == own || peer.uid.is_root()) {
                self.add(stream, false);
            }
        }
        let undecided = self.links.iter().filter(|link| !link.is_control).count();
        if undecided > MAX_UNDECIDED
            && let Some(oldest) = self.links.iter().position(|link| !link.is_control)
        {
            self.links.remove(oldest);
        }
    }

    /// What to poll, in the order that [`Links::read`] counts.
    pub(super) fn streams(&self) -> impl Iterator<Item = &UnixStream> {
        self.links.iter().map(|link| &link.stream)
    }

    /// Reads connection number `index` until it would block.
    pub(super) fn read(&mut self, index: usize) -> Vec<Incoming> {
        let mut incoming = Vec::new();
        let Some(link) = self.links.get_mut(index) else { return incoming };
        let mut buffer = [0; 4096];
        loop {
            match link.stream.read(&mut buffer) {
                Ok(0) => link.is_open = false,
                Ok(count) => link.is_open = link.lines.push(&buffer[..count]),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(_) => link.is_open = false,
            }
            if !link.is_open {
                break;
            }
        }
        while let Some(line) = link.lines.next_line() {
            if link.is_control {
                // An unknown command is a newer daemon's; it learns from our silence.
                incoming.extend(serde_json::from_slice(&line).map(Incoming::Command));
                continue;
            }
            match serde_json::from_slice(&line) {
                Ok(Hello::Guest) => link.is_guest = true,
                Ok(Hello::Control | Hello::Saved { .. }) if link.is_guest => link.is_open = false,
                Ok(Hello::Control) => {
                    link.is_control = true;
                    incoming.push(Incoming::Greeted);
                }
                Ok(Hello::Saved { label }) => {
                    link.is_open = false;
                    incoming
                        .extend(link.handed_over().map(|stream| Incoming::Saved(stream, label)));
                    break;
                }
                Ok(hello @ Hello::Terminal { .. }) => {
                    let rest = std::mem::take(&mut link.lines).into_rest();
                    link.is_open = false;
                    incoming.extend(
                        link.handed_over().map(|stream| Incoming::Terminal(stream, hello, rest)),
                    );
                    break;
                }
                Err(_) => link.is_open = false,
            }
        }
        incoming
    }

    /// Takes every command that has arrived, and drops connections that are no daemon's: their task
    /// is over.
    pub(super) fn commands(&mut self) -> Vec<ToSupervisor> {
        self.keep_daemons();
        let incoming = (0..self.links.len()).flat_map(|index| self.read(index)).collect::<Vec<_>>();
        let command = |incoming| match incoming {
            Incoming::Command(command) => Some(command),
            Incoming::Greeted | Incoming::Saved(..) | Incoming::Terminal(..) => None,
        };
        incoming.into_iter().filter_map(command).collect()
    }

    /// Drops connections that are no daemon's.
    pub(super) fn keep_daemons(&mut self) {
        self.links.retain(|link| link.is_control);
    }

    /// True while a daemon is connected.
    pub(super) fn has_daemon(&self) -> bool {
        self.links.iter().any(|link| link.is_control && link.is_open)
    }

    /// Drops connections that ended. Indices change.
    pub(super) fn sweep(&mut self) {
        self.links.retain(|link| link.is_open);
    }

    /// Tells every daemon. One that does not take it finds the record on disk.
    pub(super) fn tell(&mut self, message: &FromSupervisor) {
        let line = wire::line(message);
        for link in self.links.iter_mut().filter(|link| link.is_control) {
            link.is_open &= link.stream.write_all(&line).is_ok();
        }
    }
}
