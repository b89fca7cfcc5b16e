//! Access to the test cluster: commands as one of its users with a deadline, waiting for
//! conditions, REST, and stopping a daemon.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

/// Longest wait for a condition; far above the usual time, for busy machines.
const PATIENCE: Duration = Duration::from_secs(60);
/// Time between two checks of a condition.
const LOOK_AGAIN: Duration = Duration::from_millis(100);
/// Time limit of Slurm's commands in seconds; only a controller that does not answer takes longer.
const COMMAND_SECS: &str = "30";

/// System accounts of every Debian machine, each with its own group, which are the users of the
/// cluster. `nobody` is not among them: later versions of Slurm reserve that name.
#[derive(Clone, Copy, Debug)]
pub enum User {
    /// User in the account vision, and in intern, whose GPUs are limited.
    Mail,
    /// User in the accounts vision and language.
    Games,
    /// User in the account language.
    News,
    /// User in the account lab; root is the only one who can log in.
    Root,
}

impl User {
    pub fn name(self) -> &'static str {
        match self {
            Self::Mail => "mail",
            Self::Games => "games",
            Self::News => "news",
            Self::Root => "root",
        }
    }
}

/// The running test cluster.
pub struct SlurmCluster {
    dir: PathBuf,
}

impl SlurmCluster {
    /// Returns the cluster that the test command started.
    pub fn here() -> Self {
        let dir = std::env::var_os("MUSTER_TEST_SLURM").expect("run by cargo xtask slurm test");
        Self { dir: dir.into() }
    }

    /// Returns one line of the cluster's description.
    pub fn fact(&self, name: &str) -> String {
        let facts = fs::read_to_string(self.dir.join("facts")).unwrap();
        let line = facts.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
        line.unwrap_or_else(|| panic!("no {name} in: {facts}")).to_owned()
    }

    /// Returns the directory of the simulated GPU device files.
    pub fn devices(&self) -> PathBuf {
        self.dir.join("dev")
    }

    /// Returns the path of the controller's configuration.
    pub fn conf(&self) -> PathBuf {
        self.dir.join("etc/slurm.conf")
    }

    /// Returns the directory that all users share, like home directories on a real cluster.
    pub fn work(&self) -> PathBuf {
        self.dir.join("work")
    }

    /// Runs a command as root and returns its output.
    pub fn output(&self, words: &[&str]) -> String {
        finish(Command::new("timeout").arg(COMMAND_SECS).args(words))
    }

    /// Returns whether a command of root succeeds.
    pub fn succeeds(&self, words: &[&str]) -> bool {
        Command::new("timeout").arg(COMMAND_SECS).args(words).output().unwrap().status.success()
    }

    /// Runs a command as a user and returns its output.
    pub fn output_as(&self, user: User, words: &[&str]) -> String {
        let mut command = Command::new("timeout");
        command.arg(COMMAND_SECS).args(sudo_words(user)).args(words);
        finish(command.current_dir(self.work()))
    }

    /// Returns a command that runs its arguments as a user, with the longest wait as its time
    /// limit.
    pub fn command_of(&self, user: User) -> Command {
        let mut command = Command::new("timeout");
        command
            .arg((3 * PATIENCE).as_secs().to_string())
            .args(sudo_words(user))
            .current_dir(self.work());
        command
    }

    /// Submits a script as a user; dropping the result cancels the job.
    pub fn submit(&self, user: User, options: &[&str], body: &str) -> NativeTestJob<'_> {
        let script = format!("#!/bin/sh\n{body}\n");
        let words =
            [&["sbatch", "--parsable", "--mem=1000"], options, &["--wrap", &script]].concat();
        NativeTestJob { cluster: self, id: self.output_as(user, &words).trim().to_owned() }
    }

    /// Waits until a condition holds.
    pub fn until(&self, what: &str, holds: impl FnMut() -> bool) {
        self.wait(what, PATIENCE, holds);
    }

    /// Waits until a condition holds for which Slurm needs minutes.
    pub fn until_patiently(&self, what: &str, holds: impl FnMut() -> bool) {
        self.wait(what, 10 * PATIENCE, holds);
    }

    fn wait(&self, what: &str, patience: Duration, mut holds: impl FnMut() -> bool) {
        let start = Instant::now();
        while !holds() {
            assert!(
                start.elapsed() < patience,
                "{what}: not within {patience:?}\n{}",
                self.output(&["squeue"])
            );
            std::thread::sleep(LOOK_AGAIN);
        }
    }

    /// Runs `cargo xtask slurm VERB NAME` on this cluster.
    pub fn daemon(&self, verb: &str, name: &str) {
        finish(&mut self.xtask(verb, name));
    }

    fn xtask(&self, verb: &str, name: &str) -> Command {
        let mut command =
            Command::new(std::env::var_os("MUSTER_XTASK").expect("run by cargo xtask slurm test"));
        command.args(["slurm", verb, name]).arg(&self.dir);
        command
    }

    /// Returns a user's token for slurmrestd, which is valid for some minutes.
    pub fn token(&self, user: User) -> String {
        let said = self.output(&[
            "scontrol",
            "token",
            &format!("username={}", user.name()),
            "lifespan=300",
        ]);
        said.trim().strip_prefix("SLURM_JWT=").expect("a token").to_owned()
    }

    /// Sends a GET with a user's token or without one; returns status and body.
    pub fn get(&self, path: &str, user: Option<User>) -> (u16, String) {
        let token = user.map_or(String::new(), |user| {
            format!(
                "X-SLURM-USER-NAME: {}\r\nX-SLURM-USER-TOKEN: {}\r\n",
                user.name(),
                self.token(user)
            )
        });
        let mut stream = TcpStream::connect(self.fact("rest")).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        // Sent in one write: slurmrestd 22.05 answers 400 where a request line arrives in two
        // pieces.
        let request =
            format!("GET {path} HTTP/1.1\r\nHost: slurm\r\nConnection: close\r\n{token}\r\n");
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let status = answer.split_whitespace().nth(1).and_then(|code| code.parse().ok());
        let (head, rest) = answer.split_once("\r\n\r\n").unwrap_or_default();
        // Some releases write a header after the body.
        let length = head
            .lines()
            .find_map(|line| line.strip_prefix("Content-Length: ")?.trim().parse().ok());
        let body = rest.get(..length.unwrap_or(rest.len())).unwrap_or(rest);
        (status.unwrap_or_else(|| panic!("not HTTP: {answer}")), body.to_owned())
    }
}

/// Native job, which is cancelled when the test is over.
pub struct NativeTestJob<'a> {
    cluster: &'a SlurmCluster,
    id: String,
}

impl NativeTestJob<'_> {
    /// Returns one field of `scontrol show job`.
    pub fn field(&self, name: &str) -> String {
        let said = self.cluster.output(&["scontrol", "show", "job", "-o", &self.id]);
        let value =
            said.split_whitespace().find_map(|word| word.strip_prefix(name)?.strip_prefix('='));
        value.unwrap_or_else(|| panic!("no {name} in: {said}")).to_owned()
    }

    /// Waits until the job has a state.
    pub fn reaches(&self, state: &str) {
        self.cluster.until(&format!("job {} {state}", self.id), || self.field("JobState") == state);
    }

    /// Returns the job's output, after it has ended.
    pub fn output(&self) -> String {
        self.reaches("COMPLETED");
        let path = self.cluster.dir.join("work").join(format!("slurm-{}.out", self.id));
        fs::read_to_string(path).unwrap()
    }
}

impl Drop for NativeTestJob<'_> {
    fn drop(&mut self) {
        // Errors are ignored: the job may have ended, and a test whose controller does not answer
        // has failed already.
        let _ = Command::new("timeout").args([COMMAND_SECS, "scancel", &self.id]).output();
    }
}

fn sudo_words(user: User) -> [&'static str; 6] {
    ["setpriv", "--clear-groups", "--reuid", user.name(), "--regid", user.name()]
}

fn finish(command: &mut Command) -> String {
    let Output { status, stdout, stderr } = command.output().unwrap();
    let stdout = String::from_utf8_lossy(&stdout);
    let stderr = String::from_utf8_lossy(&stderr);
    assert!(status.success(), "{command:?}: {status}\n{stdout}{stderr}");
    stdout.into_owned()
}

/// Stopped daemon, which is restarted on drop, even after a panic, so that later tests find the
/// cluster complete.
pub struct StoppedDaemon<'a> {
    cluster: &'a SlurmCluster,
    name: &'a str,
}

impl<'a> StoppedDaemon<'a> {
    /// Stops the daemon with SIGTERM, so that it writes its state first.
    pub fn stopped(cluster: &'a SlurmCluster, name: &'a str) -> Self {
        cluster.daemon("stop", name);
        Self { cluster, name }
    }

    /// Kills the daemon at once.
    pub fn killed(cluster: &'a SlurmCluster, name: &'a str) -> Self {
        cluster.daemon("kill", name);
        Self { cluster, name }
    }
}

impl Drop for StoppedDaemon<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            // A second panic would end all tests and hide the first.
            drop(self.cluster.xtask("start", self.name).output());
        } else {
            self.cluster.daemon("start", self.name);
        }
    }
}
