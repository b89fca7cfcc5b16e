//! The daemons of a cluster: their command lines, how each is started so that it outlives whoever
//! did it, and how it is ended by its number. Files that they read come from `conf`.

use std::fs::File;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};

use super::process::{self, Signal};
use super::site::Site;

/// Nodes of a cluster, and the most that one may have.
pub const NODES: u8 = 8;

/// Who answers for REST: neither root, which slurmrestd refuses, nor one whose jobs are tested.
const REST_USER: &str = "daemon";

/// Ends of a daemon's life: asked, it writes its state first.
const STOP: Duration = Duration::from_secs(15);

/// One program that runs on.
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
    /// In the order in which they start.
    pub fn all(nodes: u8) -> Vec<Self> {
        let first = [Self::Munged, Self::Mariadbd, Self::Slurmdbd, Self::Slurmctld];
        first.into_iter().chain((1..=nodes).map(Self::Slurmd)).chain([Self::Slurmrestd]).collect()
    }

    /// By the name that a person types.
    pub fn named(name: &str) -> Result<Self> {
        let found = Self::all(NODES).into_iter().find(|daemon| daemon.name() == name);
        found.with_context(|| format!("{name}: not a daemon of the cluster"))
    }

    /// What a person types.
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

    fn words(self, site: &Site) -> Vec<String> {
        let dir = site.text();
        let words = match self {
            Self::Munged => format!(
                "munged --foreground --socket={dir}/run/munge.socket --key-file={dir}/etc/munge.key \
                 --pid-file={dir}/run/munged.own --log-file={dir}/log/munged.log --seed-file={dir}/run/munge.seed"
            ),
            Self::Mariadbd => format!(
                "mariadbd --no-defaults --user=root --datadir={dir}/db --bind-address=127.0.0.1 --port=13306 \
                 --socket={dir}/run/mysql.sock --pid-file={dir}/run/mariadbd.own --log-error={dir}/log/mariadbd.log \
                 --innodb-buffer-pool-size=128M --innodb-lock-wait-timeout=900 --innodb-flush-log-at-trx-commit=0"
            ),
            Self::Slurmdbd => "slurmdbd -D".to_owned(),
            // Tests take its state away; without -i 26.05 does not start again then.
            Self::Slurmctld => "slurmctld -D -i".to_owned(),
            Self::Slurmd(number) => format!("slurmd -N node{number} -D"),
            Self::Slurmrestd => format!(
                "env SLURM_JWT=daemon setpriv --reuid={REST_USER} --regid={REST_USER} --clear-groups slurmrestd \
                 -a rest_auth/jwt 127.0.0.1:16820"
            ),
        };
        words.split_whitespace().map(str::to_owned).collect()
    }

    /// Its number, while it runs and still is that program.
    pub fn pid(self, site: &Site) -> Option<u32> {
        let pid = process::read_pid(&site.pid_file(&self.name()))?;
        process::is(pid, site.namespace_inode()?, self.program()).then_some(pid)
    }

    /// Starts it in a session of its own, as a child of nobody who would have to wait for it; the
    /// shell writes the number and becomes the program.
    pub fn start(self, site: &Site) -> Result<()> {
        let name = self.name();
        if let Some(pid) = self.pid(site) {
            bail!("{name} runs already: pid {pid}");
        }
        let log = File::create(site.log(&name)).with_context(|| format!("the log of {name}"))?;
        let mut inside = site.inside();
        inside.args(["sh", "-c", "echo $$ >\"$0\"; exec \"$@\""]).arg(site.pid_file(&name));
        inside.args(self.words(site));
        let mut command = Command::new("setsid");
        command
            .arg("--fork")
            .arg(inside.get_program())
            .args(inside.get_args())
            .current_dir(site.dir());
        command.env("SLURM_CONF", site.dir().join("etc/slurm.conf")).env_remove("SLURM_JWT");
        command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        if !command.status().context("setsid did not start")?.success() {
            bail!("{name} did not start");
        }
        process::wait(&name, Duration::from_secs(10), || self.pid(site).is_some())
    }

    /// Ends it, and waits until it is gone.
    pub fn end(self, site: &Site, signal: Signal) -> Result<()> {
        let pid = self.pid(site).with_context(|| format!("{} does not run", self.name()))?;
        process::signal(pid, signal)?;
        process::wait(&format!("the end of {}", self.name()), STOP, || self.pid(site).is_none())
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
