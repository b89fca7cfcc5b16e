//! The daemons of a cluster: their command lines, and how each is started (detached from this
//! process) and stopped (by pid). `conf` writes the files that they read.

use std::time::Duration;

use anyhow::{Context, Result, bail};

use super::cluster::{NODES, SlurmTestCluster};
use crate::test_cluster::detached;
use crate::test_cluster::process::{self, Signal};

/// User of slurmrestd: not root, which it refuses, and not a user whose jobs are tested.
const REST_USER: &str = "daemon";

/// Timeout for the end of a daemon, which may write its state first.
const STOP: Duration = Duration::from_secs(15);

/// A long-running program of the cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Daemon {
    Munged,
    Mariadbd,
    Slurmdbd,
    Slurmctld,
    Slurmd(u8),
    Slurmrestd,
}

impl Daemon {
    /// Returns all daemons in the order in which they start.
    pub fn all(nodes: u8) -> Vec<Self> {
        let first = [Self::Munged, Self::Mariadbd, Self::Slurmdbd, Self::Slurmctld];
        first.into_iter().chain((1..=nodes).map(Self::Slurmd)).chain([Self::Slurmrestd]).collect()
    }

    /// Finds a daemon by its name on the command line.
    pub fn named(name: &str) -> Result<Self> {
        let found = Self::all(NODES).into_iter().find(|daemon| daemon.name() == name);
        found.with_context(|| format!("{name}: not a daemon of the cluster"))
    }

    /// Returns its name on the command line.
    pub fn name(self) -> String {
        match self {
            Self::Slurmd(number) => format!("node{number}"),
            Self::Munged | Self::Mariadbd | Self::Slurmdbd | Self::Slurmctld | Self::Slurmrestd => {
                self.program().to_owned()
            }
        }
    }

    fn program(self) -> &'static str {
        match self {
            Self::Munged => "munged",
            Self::Mariadbd => "mariadbd",
            Self::Slurmdbd => "slurmdbd",
            Self::Slurmctld => "slurmctld",
            Self::Slurmd(_) => "slurmd",
            Self::Slurmrestd => "slurmrestd",
        }
    }

    fn words(self, cluster: &SlurmTestCluster) -> Vec<String> {
        let dir = cluster.text();
        let words = match self {
            Self::Munged => format!(
                "munged --foreground --socket={dir}/run/munge.socket --key-file={dir}/etc/munge.key \
                 --pid-file={dir}/run/munged.own --log-file={dir}/log/munged.log --seed-file={dir}/run/munge.seed"
            ),
            Self::Mariadbd => format!(
                "mariadbd --no-defaults --user=root --datadir={dir}/db --bind-address=127.0.0.1 --port=13306 \
                 --socket={dir}/run/mysql.sock --pid-file={dir}/run/mariadbd.own --log-error={dir}/log/mariadbd.log \
                 --tmpdir={dir}/run --innodb-buffer-pool-size=128M --innodb-lock-wait-timeout=900 --innodb-flush-log-at-trx-commit=0"
            ),
            Self::Slurmdbd => "slurmdbd -D".to_owned(),
            // Tests delete its state; without -i, 26.05 refuses to start after that.
            Self::Slurmctld => "slurmctld -D -i".to_owned(),
            Self::Slurmd(number) => format!("slurmd -N node{number} -D"),
            Self::Slurmrestd => format!(
                "env SLURM_JWT=daemon setpriv --reuid={REST_USER} --regid={REST_USER} --clear-groups slurmrestd \
                 -a rest_auth/jwt 127.0.0.1:16820"
            ),
        };
        words.split_whitespace().map(str::to_owned).collect()
    }

    /// Returns its pid, while it runs; the pid file may be stale, so the program is verified.
    pub fn pid(self, cluster: &SlurmTestCluster) -> Option<u32> {
        let pid = process::read_pid(&cluster.pid_file(&self.name()))?;
        process::is(pid, cluster.namespace().inode()?, self.program()).then_some(pid)
    }

    /// Starts it, detached from this process.
    pub fn start(self, cluster: &SlurmTestCluster) -> Result<()> {
        let name = self.name();
        if let Some(pid) = self.pid(cluster) {
            bail!("{name} is already running: pid {pid}");
        }
        let words = self.words(cluster);
        let pid_file = cluster.pid_file(&name);
        let log = cluster.log(&name);
        detached::start(cluster.inside(), &words, cluster.dir(), &pid_file, &log)?;
        process::wait(&name, Duration::from_secs(10), || self.pid(cluster).is_some())
    }

    /// Sends the signal and waits for its end.
    pub fn end(self, cluster: &SlurmTestCluster, signal: Signal) -> Result<()> {
        let pid = self.pid(cluster).with_context(|| format!("{} is not running", self.name()))?;
        process::signal(pid, signal)?;
        process::wait(&format!("the end of {}", self.name()), STOP, || process::has_ended(pid))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_daemon_is_found_by_its_name_and_nothing_else_is() {
        for daemon in Daemon::all(NODES) {
            assert_eq!(Daemon::named(&daemon.name()).unwrap(), daemon);
        }
        assert_eq!(Daemon::all(NODES).len(), 5 + usize::from(NODES));
        assert!(Daemon::named("node9").is_err() && Daemon::named("slurmd").is_err());
    }
}
