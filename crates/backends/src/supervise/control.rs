//! Control connections: the socket pair that the daemon passed to the supervisor at its start, and
//! connections made to the supervisor's socket later.

use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::{UnixListener, UnixStream};

use crate::wire::{self, FromSupervisor, Hello, LineBuffer, ToSupervisor};

/// Maximum number of connections that have not sent their [`Hello`] yet. Beyond it the oldest is
/// dropped for a newer one.
const MAX_UNDECIDED: usize = 16;

/// An event on a connection.
#[derive(Debug)]
pub(super) enum Incoming {
    /// A command of the daemon.
    Command(ToSupervisor),
    /// A daemon connected and wants to know the present stage.
    DaemonConnected,
    /// A checkpoint acknowledgement on behalf of the task: the connection to answer on, and the
    /// label.
    CheckpointSaved(UnixStream, String),
    /// A client opens a terminal session: its connection, its request, and the bytes that it sent
    /// after the request.
    Terminal(UnixStream, Hello, Vec<u8>),
}

#[derive(Debug)]
struct ControlConnection {
    stream: UnixStream,
    lines: LineBuffer,
    is_control: bool,
    is_relay: bool,
    is_open: bool,
}

impl ControlConnection {
    /// Returns a second handle of the connection.
    fn try_clone_stream(&self) -> Option<UnixStream> {
        self.stream.as_fd().try_clone_to_owned().ok().map(Into::into)
    }
}

/// All connections that are not terminal sessions.
#[derive(Debug, Default)]
pub(super) struct ControlConnections {
    connections: Vec<ControlConnection>,
}

impl ControlConnections {
    /// Adds a connection; the one that the daemon passed at the start (`is_control`) sends no
    /// [`Hello`].
    pub(super) fn add(&mut self, stream: UnixStream, is_control: bool) {
        if stream.set_nonblocking(true).is_ok() {
            self.connections.push(ControlConnection {
                stream,
                lines: LineBuffer::default(),
                is_control,
                is_relay: false,
                is_open: true,
            });
        }
    }

    /// Accepts pending connections of this user (the socket lies in a directory of its own) and of
    /// root (the daemon of system mode), and drops those of others.
    pub(super) fn accept(&mut self, listener: &UnixListener) {
        while let Ok((stream, _)) = listener.accept() {
            let own = rustix::process::geteuid();
            let peer = rustix::net::sockopt::socket_peercred(&stream);
            if peer.is_ok_and(|peer| peer.uid == own || peer.uid.is_root()) {
                self.add(stream, false);
            }
        }
        let undecided = self.connections.iter().filter(|link| !link.is_control).count();
        if undecided > MAX_UNDECIDED
            && let Some(oldest) = self.connections.iter().position(|link| !link.is_control)
        {
            self.connections.remove(oldest);
        }
    }

    /// Returns the streams to poll, in the order of the indices that
    /// [`ControlConnections::read`] takes.
    pub(super) fn streams(&self) -> impl Iterator<Item = &UnixStream> {
        self.connections.iter().map(|link| &link.stream)
    }

    /// Reads connection number `index` until it would block.
    pub(super) fn read(&mut self, index: usize) -> Vec<Incoming> {
        let mut incoming = Vec::new();
        let Some(link) = self.connections.get_mut(index) else { return incoming };
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
                // An unknown command comes from a newer daemon and is ignored.
                incoming.extend(serde_json::from_slice(&line).map(Incoming::Command));
                continue;
            }
            match serde_json::from_slice(&line) {
                Ok(Hello::TerminalRelay) => link.is_relay = true,
                Ok(Hello::Control | Hello::Saved { .. }) if link.is_relay => link.is_open = false,
                Ok(Hello::Control) => {
                    link.is_control = true;
                    incoming.push(Incoming::DaemonConnected);
                }
                Ok(Hello::Saved { label }) => {
                    link.is_open = false;
                    incoming.extend(
                        link.try_clone_stream()
                            .map(|stream| Incoming::CheckpointSaved(stream, label)),
                    );
                    break;
                }
                Ok(hello @ Hello::Terminal { .. }) => {
                    let rest = std::mem::take(&mut link.lines).into_rest();
                    link.is_open = false;
                    incoming.extend(
                        link.try_clone_stream()
                            .map(|stream| Incoming::Terminal(stream, hello, rest)),
                    );
                    break;
                }
                Err(_) => link.is_open = false,
            }
        }
        incoming
    }

    /// Returns every command that has arrived, and drops clients other than daemons: their task is
    /// over.
    pub(super) fn commands(&mut self) -> Vec<ToSupervisor> {
        self.drop_clients();
        let incoming =
            (0..self.connections.len()).flat_map(|index| self.read(index)).collect::<Vec<_>>();
        let command = |incoming| match incoming {
            Incoming::Command(command) => Some(command),
            Incoming::DaemonConnected | Incoming::CheckpointSaved(..) | Incoming::Terminal(..) => {
                None
            }
        };
        incoming.into_iter().filter_map(command).collect()
    }

    /// Drops connections of clients other than daemons.
    pub(super) fn drop_clients(&mut self) {
        self.connections.retain(|link| link.is_control);
    }

    /// Returns true while a daemon is connected.
    pub(super) fn has_daemon(&self) -> bool {
        self.connections.iter().any(|link| link.is_control && link.is_open)
    }

    /// Drops closed connections. Indices change.
    pub(super) fn sweep(&mut self) {
        self.connections.retain(|link| link.is_open);
    }

    /// Sends messages to every connected daemon, in one write. A daemon that misses them finds the
    /// record on disk.
    pub(super) fn broadcast<'a>(&mut self, messages: impl IntoIterator<Item = &'a FromSupervisor>) {
        let lines: Vec<u8> = messages.into_iter().flat_map(wire::line).collect();
        for link in self.connections.iter_mut().filter(|link| link.is_control) {
            link.is_open &= link.stream.write_all(&lines).is_ok();
        }
    }
}
